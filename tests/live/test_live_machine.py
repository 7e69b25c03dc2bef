from __future__ import annotations

from typing import TYPE_CHECKING

from ai4infra.live import machine as m
from ai4infra.live.machine import Kernel, Watched

if TYPE_CHECKING:
    from machine_tree import Tree


def test_disks_are_whole_disks_and_no_ram_or_loop(tree: Tree) -> None:
    tree.disks(nvme0n1=1, md0=1, loop3=1, zram0=1, sr0=1)
    assert tree.kernel().disks == {"nvme0n1", "md0"}


def test_what_happened_between_two_readings_is_told(tree: Tree) -> None:
    tree.interface("eth0")
    tree.disks(sda=100)
    tree.net(eth0=1000)
    kernel = tree.kernel()
    before = kernel.read(0.0)
    tree.disks(sda=160)
    tree.net(eth0=5000)
    after = kernel.read(2.0)
    [disk] = m.disk_samples(before, after)
    [net] = m.net_samples(before, after)
    assert (disk.reads_s, disk.read_bytes_s) == (30, 30 * 2**20)
    assert (net.received_bytes_s, net.sent_bytes_s, net.time_s) == (2000, 200, 2.0)


def test_a_disk_that_is_new_has_no_sample_yet(tree: Tree) -> None:
    tree.disks(sda=1, sdb=1)
    kernel = tree.kernel()
    tree.disks(sda=1)
    before = kernel.read(0.0)
    tree.disks(sda=1, sdb=9)
    assert [d.device for d in m.disk_samples(before, kernel.read(1.0))] == ["sda"]


def test_a_virtual_function_is_no_interface_of_its_own(tree: Tree) -> None:
    tree.interface("eth0")
    tree.interface("enP53091s1np0", master="eth0")
    kernel = tree.kernel()
    assert kernel.interfaces == ("eth0",)
    assert kernel.parents == {"enP53091s1np0": "eth0"}


def test_what_a_trainer_started_feeds_its_gpu(tree: Tree) -> None:
    tree.process(10, "torchrun")
    tree.process(20, "python3", parent=10)
    tree.process(21, "pt_data_worker", parent=20)
    tree.process(22, "sh", parent=21)
    tree.process(30, "python3", parent=10)
    tree.process(31, "python3", parent=30)
    tree.process(40, "blobfuse2")
    found = tree.kernel().watched({20: "0", 30: "1"})
    assert set(found) == {
        Watched(20, "trainer", "0"),
        Watched(30, "trainer", "1"),
        Watched(21, "loader", "0"),
        Watched(22, "loader", "0"),
        Watched(31, "loader", "1"),
        Watched(40, "mount", None),
    }


def test_a_container_that_hides_trainers_shows_loaders_by_name(tree: Tree) -> None:
    tree.process(5, "pt_data_worker")
    assert tree.kernel().watched({90210: "0"}) == (Watched(5, "loader", None),)


def test_parents_in_a_circle_end(tree: Tree) -> None:
    tree.process(5, "a", parent=6)
    tree.process(6, "b", parent=5)
    assert tree.kernel().watched({9: "0"}) == ()


def between(tree: Tree, **later: object) -> tuple[m.ProcessSample, list[str]]:
    said: list[str] = []
    tree.process(7, "loader")
    kernel = tree.kernel()
    before = kernel.read(0.0, [7])
    tree.process(7, "loader", **later)  # type: ignore[arg-type]  # the fixture checks them
    after = kernel.read(2.0, [7])
    [sample] = m.process_samples(kernel, [Watched(7, "loader", "3")], before, after, said.append)
    return sample, said


def test_a_loader_is_told_in_cores_and_bytes(tree: Tree) -> None:
    sample, _ = between(tree, user=150, blocked=50, read=4_000_000)
    assert (sample.cpu_cores, sample.io_wait, sample.read_bytes_s) == (0.75, 0.25, 2_000_000)
    assert (sample.gpu, sample.role) == ("3", "loader")


def test_without_delay_accounting_the_moment_of_reading_counts(tree: Tree) -> None:
    tree.write("proc/sys/kernel/task_delayacct", "0\n")
    assert between(tree, state="D")[0].io_wait == 1.0
    assert between(tree, state="S")[0].io_wait == 0.0


def test_a_wait_for_fuse_counts_though_no_block_device_does(tree: Tree) -> None:
    sample, said = between(tree, state="D", wchan="request_wait_answer")
    assert sample.io_wait == 1.0
    assert said == ["A loader process was seen waiting for a FUSE mount."]


def test_another_users_process_has_no_known_bytes(tree: Tree) -> None:
    tree.process(7, "loader", read=None)
    kernel = tree.kernel()
    reading = kernel.read(0.0, [7])
    assert reading.processes[7].read_bytes is None


def test_a_reused_number_is_another_process(tree: Tree) -> None:
    tree.process(7, "loader", started=1)
    kernel = tree.kernel()
    before = kernel.read(0.0, [7])
    tree.process(7, "other", started=2)
    after = kernel.read(1.0, [7])
    watched = [Watched(7, "loader", None)]
    assert list(m.process_samples(kernel, watched, before, after, print)) == []


def test_the_makers_of_gpus_are_read_from_the_bus(tree: Tree) -> None:
    for at, (vendor, kind) in enumerate([("0x1002", "0x120000"), ("0x10de", "0x020000")]):
        tree.write(f"sys/bus/pci/devices/{at}/vendor", f"{vendor}\n")
        tree.write(f"sys/bus/pci/devices/{at}/class", f"{kind}\n")
    # The second is a network card of NVIDIA's.
    assert tree.kernel().gpu_vendors() == {"AMD"}


def test_this_machine_is_read() -> None:
    kernel = Kernel()
    reading = kernel.read(0.0, [1])
    assert reading.cpu is not None
    assert reading.processes[1].stat.parent == 0
