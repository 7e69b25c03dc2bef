from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ai4infra.diagnosis.samples import DiskSample, GpuSample, ProcessSample
from ai4infra.errors import UsageError
from ai4infra.live.sampler import InterruptibleClock, LiveSource

if TYPE_CHECKING:
    from machine_tree import Tree


class Clock:
    """A clock that stands still between waits, and may be late."""

    def __init__(self, late: dict[float, float] | None = None) -> None:
        self.time = 1000.0
        self.late = late or {}

    def now(self) -> float:
        return self.time

    def wait_until(self, moment: float) -> None:
        self.time = max(self.time, moment) + self.late.get(moment - 1000.0, 0.0)


class NoGpus:
    """A machine without NVML."""

    model = None
    count: int | None = None
    closed = False

    def sample(self, time_s: float) -> Iterator[GpuSample]:
        return iter(())

    def processes(self) -> dict[int, str]:
        return {}

    def close(self) -> None:
        self.closed = True


class OneGpu(NoGpus):
    model = "NVIDIA H100 80GB HBM3"
    count = 1

    def sample(self, time_s: float) -> Iterator[GpuSample]:
        yield GpuSample(time_s=time_s, gpu="0", utilization=0.5)


def source(tree: Tree, clock: Clock | None = None, gpus: NoGpus | None = None, **more: float):
    times = {"duration_s": 3.0, "interval_s": 1.0, **more}
    return LiveSource(kernel=tree.kernel(), clock=clock or Clock(), gpus=gpus or OneGpu(), **times)


def test_everything_is_on_one_clock_that_begins_at_zero(tree: Tree) -> None:
    tree.disks(sda=1)
    samples = list(source(tree).samples())
    assert [s.time_s for s in samples if isinstance(s, GpuSample)] == [1.0, 2.0, 3.0]
    assert [s.time_s for s in samples if isinstance(s, DiskSample)] == [1.0, 2.0, 3.0]


def test_moments_that_were_missed_are_left_out_and_the_rest_stays_on_time(tree: Tree) -> None:
    clock = Clock(late={2.0: 2.5})
    found = [moment[0].time_s for moment in source(tree, clock, duration_s=6.0).moments()]
    assert found == [1.0, 4.5, 5.0, 6.0]


def test_an_interval_that_no_float_has_exactly_is_kept(tree: Tree) -> None:
    moments = list(source(tree, duration_s=0.3, interval_s=0.1).moments())
    assert len(moments) == 3


def test_the_gpus_are_let_go_even_when_nobody_reads_to_the_end(tree: Tree) -> None:
    gpus = OneGpu()
    moments = source(tree, gpus=gpus).moments()
    next(moments)
    moments.close()  # type: ignore[attr-defined]  # it is a generator
    assert gpus.closed


def test_new_processes_are_found_after_a_while(tree: Tree) -> None:
    source_ = source(tree, duration_s=14.0)
    seen: list[tuple[float | None, int]] = []
    for moment in source_.moments():
        at = moment[0].time_s
        if at == 2.0:
            tree.process(77, "pt_data_worker")
        seen += [(at, s.pid) for s in moment if hasattr(s, "pid")]
    assert seen[0] == (12.0, 77)


def test_a_disk_that_is_plugged_in_is_sampled_after_a_while(tree: Tree) -> None:
    tree.disks(sda=1)
    seen: list[tuple[float | None, str]] = []
    for moment in source(tree, duration_s=14.0).moments():
        if moment[0].time_s == 2.0:
            tree.disks(sda=1, sdb=1)
        seen += [(s.time_s, s.device) for s in moment if isinstance(s, DiskSample)]
    assert (12.0, "sdb") in seen


def test_of_many_loaders_some_of_every_gpu_are_sampled_and_that_is_told(tree: Tree) -> None:
    class Eight(OneGpu):
        def processes(self) -> dict[int, str]:
            return {100 * gpu: str(gpu) for gpu in range(1, 9)}

    for gpu in range(1, 9):
        tree.process(100 * gpu, "python3")
        for loader in range(1, 17):
            tree.process(100 * gpu + loader, "python3", parent=100 * gpu)
    watching = source(tree, gpus=Eight())
    moment = next(watching.moments())
    loaders = [s for s in moment if isinstance(s, ProcessSample) and s.role == "loader"]
    assert {s.gpu for s in loaders} == set("12345678")
    assert len(loaders) == 64 - 8
    assert any("not sampled" in said for said in watching.remarks())


def test_ctrl_c_waits_for_the_end_of_what_is_written() -> None:
    clock = InterruptibleClock()
    with clock:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            clock.wait_until(clock.now())


def test_a_second_ctrl_c_waits_for_nothing() -> None:
    with InterruptibleClock():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_that_ignores_ctrl_c_goes_on_doing_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with InterruptibleClock() as clock:
            signal.raise_signal(signal.SIGINT)
            clock.wait_until(clock.now())
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_head_of_a_capture_says_what_was_sampled(tree: Tree) -> None:
    host = source(tree).host
    assert (host.interval_s, host.gpus, host.gpu_model) == (1.0, 1, "NVIDIA H100 80GB HBM3")
    assert host.started is not None


def test_amd_gpus_are_called_so(tree: Tree) -> None:
    tree.write("sys/bus/pci/devices/a/vendor", "0x1002\n")
    tree.write("sys/bus/pci/devices/a/class", "0x120000\n")
    [said] = source(tree, gpus=NoGpus()).remarks()
    assert "AMD" in said


def test_an_nvidia_gpu_without_its_driver_is_told(tree: Tree) -> None:
    tree.write("sys/bus/pci/devices/a/vendor", "0x10de\n")
    tree.write("sys/bus/pci/devices/a/class", "0x030200\n")
    [said] = source(tree, gpus=NoGpus()).remarks()
    assert "driver does not answer" in said


@pytest.mark.parametrize(
    ("duration", "interval"),
    [(60, 0.01), (60, float("nan")), (0.5, 1), (float("inf"), 1), (1e9, 1), (60, -1)],
)
def test_times_that_cannot_be_sampled_are_refused(
    tree: Tree, duration: float, interval: float
) -> None:
    with pytest.raises(UsageError):
        source(tree, duration_s=duration, interval_s=interval)
