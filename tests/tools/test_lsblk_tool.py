from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
import support_machines as machines
from support_machines import MACHINES

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.mounts.disks import Command, DiskPlan, plan_nvme
from ai4infra.tools import lsblk


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n", "utf-8")
    (folder / name).chmod(0o755)


def made(*commands: tuple[str, ...]) -> DiskPlan:
    return DiskPlan(
        state="make",
        commands=tuple(Command(argv=argv, why="x") for argv in commands),
        devices=(),
        target="/mnt/nvme",
        reason="x",
    )


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be root, as far as the check goes: what is started is a stand-in."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.parametrize("name", MACHINES)
def test_a_captured_machine_is_the_machine(name: str, tmp_path: Path) -> None:
    captured = MACHINES[name]
    assert lsblk.read_machine(captured.write(tmp_path)).host() == captured.host()


def test_the_sandboxes_machine_is_a_gpu_vm_with_raw_nvme() -> None:
    found = lsblk.example_machine()
    plan = plan_nvme(found.host().layout, found.devices)
    assert (plan.state, len(plan.devices), found.cpus) == ("make", 8, 96)


@pytest.mark.parametrize("missing", ["lsblk.json", "mounts", "meminfo"])
def test_a_folder_that_lacks_a_file_is_refused(missing: str, tmp_path: Path) -> None:
    (machines.LAPTOP.write(tmp_path) / missing).unlink()
    with pytest.raises(UsageError, match="holds no captured machine") as caught:
        lsblk.read_machine(tmp_path)
    assert missing in caught.value.message


def test_broken_sizes_are_refused(tmp_path: Path) -> None:
    (machines.LAPTOP.write(tmp_path) / "host.json").write_text('{"sizes": {"/": 3}}', "utf-8")
    with pytest.raises(UsageError, match=r"host\.json"):
        lsblk.read_machine(tmp_path)


def test_links_and_sizes_may_be_missing(tmp_path: Path) -> None:
    folder = machines.NC_T4_V3.write(tmp_path)
    (folder / "links").unlink()
    (folder / "host.json").unlink()
    found = lsblk.read_machine(folder)
    assert (found.cpus, found.links, found.sizes) == (1, {}, {})


def test_sizes_and_processors_come_from_what_the_page_says_to_capture(tmp_path: Path) -> None:
    folder = machines.NC_T4_V3.write(tmp_path)
    (folder / "host.json").unlink()
    rows = json.loads((folder / "lsblk.json").read_text("utf-8"))
    rows["blockdevices"][1]["children"][0] |= {"fssize": 354_000 * 2**20, "fsavail": str(2**30)}
    (folder / "lsblk.json").write_text(json.dumps(rows), "utf-8")
    (folder / "cpuinfo").write_text("processor\t: 0\n\nprocessor\t: 1\n", "utf-8")
    found = lsblk.read_machine(folder)
    assert (found.cpus, found.sizes) == (2, {"/mnt": (354_000, 1024)})


def test_a_captured_file_in_another_encoding_is_read(tmp_path: Path) -> None:
    folder = machines.NC_T4_V3.write(tmp_path)
    with (folder / "mounts").open("ab") as file:
        file.write(b"/dev/sdz /mnt/\xe9 ext4 rw 0 0\n")
    assert lsblk.read_machine(folder).mounts[-1].device == "/dev/sdz"


def test_this_machine_is_read_with_its_own_lsblk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.json").write_text(machines.ND_H100_V5.lsblk, "utf-8")
    program(tmp_path / "bin", "lsblk", f'echo "$*" >{tmp_path}/args; cat {tmp_path}/out.json')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    found = lsblk.this_machine()
    assert found.devices == machines.ND_H100_V5.devices
    assert found.cpus >= 1
    assert found.memory_mib > 0
    assert found.sizes["/"][0] > 0
    words = (tmp_path / "args").read_text("utf-8").split()
    assert words == ["--json", "--bytes", "--output", lsblk.COLUMNS]


def test_without_lsblk_it_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotFoundError, match="no program lsblk"):
        lsblk.devices()


def test_a_failing_lsblk_is_told_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "lsblk", "echo 'lsblk: unknown column: PTTYPE' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path) + ":/bin")
    with pytest.raises(Ai4infraError, match="unknown column: PTTYPE"):
        lsblk.devices()


# --- carrying out a plan


@pytest.mark.usefixtures("root")
def test_a_plan_is_carried_out_in_order_and_stops_at_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, ends in (("mdadm", 0), ("mkfs.xfs", 1), ("mount", 0)):
        text = f'echo "{name} $*" >>{tmp_path}/done; echo no room >&2; exit {ends}'
        program(tmp_path / "bin", name, text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    seen: list[str] = []
    plan = made(("mdadm", "--create", "/dev/md0"), ("mkfs.xfs", "/dev/md0"), ("mount", "/dev/md0"))
    with pytest.raises(Ai4infraError, match=r"`mkfs\.xfs /dev/md0` failed: no room"):
        lsblk.apply(plan, on_step=lambda step: seen.append(step.argv[0]))
    done = (tmp_path / "done").read_text("utf-8").splitlines()
    assert done == ["mdadm --create /dev/md0", "mkfs.xfs /dev/md0"]
    assert seen == ["mdadm", "mkfs.xfs"]


@pytest.mark.usefixtures("root")
def test_a_missing_program_is_told_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "mkdir", f"touch {tmp_path}/done")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(NotFoundError, match=r"no mdadm and no mkfs\.xfs"):
        lsblk.apply(made(("mkdir", "/x"), ("mkfs.xfs", "/y"), ("mdadm", "/z")))
    assert not (tmp_path / "done").exists()


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("wipefs", "now", "says"),
    [
        ("echo 'nvme0n1 0x0 xfs'", machines.V6_REMOTE, "/dev/nvme1n1 holds nvme0n1 0x0 xfs"),
        ("exit 1", machines.V6_REMOTE, "could not be read"),
        ("true", machines.NC_T4_V3, "/dev/nvme1n1 is not there any more"),
    ],
)
def test_disks_are_looked_at_again_right_before(
    wipefs: str,
    now: machines.Captured,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_nvme(machines.V6_REMOTE.layout, machines.V6_REMOTE.devices)
    (tmp_path / "out.json").write_text(now.lsblk, "utf-8")
    program(tmp_path / "bin", "lsblk", f"cat {tmp_path}/out.json")
    program(tmp_path / "bin", "wipefs", wipefs)
    for name in ("mkfs.xfs", "mkdir", "mount", "chmod"):
        program(tmp_path / "bin", name, f"touch {tmp_path}/touched")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(UsageError, match="Nothing was done") as caught:
        lsblk.apply(plan)
    assert says in caught.value.message
    assert not (tmp_path / "touched").exists()


@pytest.mark.usefixtures("root")
def test_raw_disks_are_made_into_one_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = machines.NC_A100_V4
    # /proc/mounts stays this machine's own; lsblk tells of the same mounts.
    plan = plan_nvme(captured.layout, captured.devices)
    (tmp_path / "out.json").write_text(json.dumps(json.loads(captured.lsblk)), "utf-8")
    program(tmp_path / "bin", "lsblk", f"cat {tmp_path}/out.json")
    for name in ("wipefs", "mdadm", "mkfs.xfs", "mkdir", "mount", "chmod"):
        program(
            tmp_path / "bin", name, f'[[ "$*" == *no-act* ]] || echo "{name} $*" >>{tmp_path}/done'
        )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    lsblk.apply(plan)
    done = (tmp_path / "done").read_text("utf-8").splitlines()
    assert done == [" ".join(step.argv) for step in plan.commands]


@pytest.mark.usefixtures("root")
def test_a_target_that_holds_something_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").touch()
    program(tmp_path / "bin", "mount", f"touch {tmp_path}/done")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    plan = msgspec.structs.replace(made(("mount", "/dev/md0", str(target))), target=str(target))
    with pytest.raises(UsageError, match="holds something, which the mount would hide"):
        lsblk.apply(plan)
    assert not (tmp_path / "done").exists()


def test_without_root_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Ai4infraError, match="takes root") as caught:
        lsblk.apply(made(("mkdir", "/x")))
    assert "sudo" in str(caught.value.hint)
