"""Asks this machine about its disks and memory, and carries out a plan for its NVMe."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.model import Record
from ai4infra.mounts.disks import Command, Device, DiskPlan, layout, parse_lsblk, recheck
from ai4infra.mounts.host import Host, parse_meminfo, spaces
from ai4infra.mounts.live import Mount, parse_mounts
from ai4infra.tools.run import Ran, find, run

COLUMNS = "NAME,PATH,TYPE,SIZE,MODEL,VENDOR,FSTYPE,LABEL,PTTYPE,HCTL,MOUNTPOINT,FSSIZE,FSAVAIL,RO"
LSBLK_SECONDS = 30.0
STEP_SECONDS = 600.0
_MIBYTE = 2**20
_LINK_FOLDERS = (Path("/dev/disk/azure"), Path("/dev/disk/cloud"))
_PROCESSOR = re.compile(r"^processor\s*:", re.MULTILINE)
_UNSIZED = (
    *("autofs", "nfs", "nfs4", "cifs", "smb3", "lustre", "9p", "ceph", "beegfs", "gpfs", "wekafs"),
    *("proc", "sysfs", "cgroup", "cgroup2", "debugfs"),
)


class Machine(Record, frozen=True):
    """What was read of a machine: everything that disks and sizes are derived from."""

    devices: tuple[Device, ...]
    mounts: tuple[Mount, ...]
    links: dict[str, str]
    """Links below ``/dev/disk`` with the devices that they lead to."""
    sizes: dict[str, tuple[int, int]]
    """Mount path to MiB in all and free."""
    cpus: int
    memory_mib: int
    available_mib: int

    def host(self) -> Host:
        """Return the machine as mounts see it."""
        found = layout(self.devices, self.mounts, self.links)
        return Host(
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            available_mib=self.available_mib,
            layout=found,
            mounts=self.mounts,
            spaces=spaces(self.mounts, found, self.sizes),
        )


def example_machine() -> Machine:
    """Return the sandbox's machine: a Standard_ND96isr_H100_v5 as it comes."""
    with resources.as_file(resources.files("ai4infra.data") / "machine") as folder:
        return read_machine(folder)


class _Extra(msgspec.Struct, frozen=True):
    """``host.json`` of a captured machine."""

    cpus: int = 0
    sizes: dict[str, tuple[int, int]] = {}


def this_machine() -> Machine:
    """Read this machine; raises NotFoundError where it is no Linux with lsblk."""
    total, available = parse_meminfo(_read("/proc/meminfo"))
    found = mounts()
    return Machine(
        devices=devices(),
        mounts=found,
        links=_links(_LINK_FOLDERS),
        sizes=_sizes(found),
        cpus=_cpus(),
        memory_mib=total,
        available_mib=available,
    )


def mounts(proc: Path = Path("/proc")) -> tuple[Mount, ...]:
    """Return what the kernel lists as mounted; raises NotFoundError where it has no such list."""
    return parse_mounts(_read(f"{proc}/mounts"))


def devices() -> tuple[Device, ...]:
    """Return the block devices that lsblk lists."""
    program = find("lsblk")
    if program is None:
        raise NotFoundError(
            "There is no program lsblk on this machine.",
            hint="It is part of util-linux; disks are looked at on the Linux VM itself.",
        )
    argv = (program, "--json", "--bytes", "--output", COLUMNS)
    done = run(argv, timeout_seconds=LSBLK_SECONDS)
    if done.code:
        raise Ai4infraError(
            f"lsblk failed: {done.said}.",
            hint="It takes lsblk of util-linux 2.33 or newer.",
        )
    return parse_lsblk(done.stdout)


def read_machine(folder: Path) -> Machine:
    """Read a machine that was captured into a folder.

    ``lsblk.json`` is the output of ``lsblk --json --bytes --output`` with the columns of
    ``COLUMNS``, ``mounts`` is ``/proc/mounts``, ``meminfo`` is ``/proc/meminfo``, ``cpuinfo`` is
    ``/proc/cpuinfo``, ``links`` has a link and its device on each line. ``host.json`` may say
    ``cpus`` and ``sizes`` instead. The last three may be missing.
    """
    try:
        total, available = parse_meminfo((folder / "meminfo").read_text("utf-8", "replace"))
        extra = _extra(folder / "host.json")
        found = parse_lsblk((folder / "lsblk.json").read_text("utf-8", "replace"))
        return Machine(
            devices=found,
            mounts=parse_mounts((folder / "mounts").read_text("utf-8", "replace")),
            links=_pairs(folder / "links"),
            sizes={**_told_sizes(found), **extra.sizes},
            cpus=extra.cpus or _processors(folder / "cpuinfo"),
            memory_mib=total,
            available_mib=available,
        )
    except OSError as error:
        raise UsageError(
            f"{folder} holds no captured machine: {error.filename or folder}: {error.strerror}.",
            hint="It takes the files lsblk.json, mounts and meminfo; docs/mount.md says how.",
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"host.json of {folder} cannot be understood: {error}.") from error


def _extra(file: Path) -> _Extra:
    return msgspec.json.decode(file.read_bytes(), type=_Extra) if file.exists() else _Extra()


def _told_sizes(devices: Iterable[Device]) -> dict[str, tuple[int, int]]:
    """Return MiB in all and free of what is mounted, as lsblk tells them."""
    return {
        each.mountpoint: (each.fs_size_bytes // _MIBYTE, each.fs_free_bytes // _MIBYTE)
        for device in devices
        for each in device.family()
        if each.mountpoint and each.fs_size_bytes is not None and each.fs_free_bytes is not None
    }


def _processors(file: Path) -> int:
    return len(_PROCESSOR.findall(file.read_text("utf-8", "replace"))) or 1 if file.exists() else 1


def _pairs(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    rows = (line.split() for line in file.read_text("utf-8", "replace").splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror}.",
            hint="Mounts are looked at on the Linux VM itself.",
        ) from error


def _links(folders: Iterable[Path]) -> dict[str, str]:
    return {
        str(link): os.path.realpath(link)
        for folder in folders
        for link in sorted(folder.rglob("*"))
        if link.is_symlink()
    }


def _sizes(mounts: Iterable[Mount]) -> dict[str, tuple[int, int]]:
    # A network mount whose server is gone would not answer, so only local ones are asked.
    local = [m.path for m in mounts if m.fstype not in _UNSIZED and not m.fstype.startswith("fuse")]
    return {path: size for path in local if (size := size_mib(path))}


def size_mib(path: str) -> tuple[int, int] | None:
    """Return the MiB in all and free that a file system tells; None when it tells nothing."""
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    return told.f_blocks * told.f_frsize // _MIBYTE, told.f_bavail * told.f_frsize // _MIBYTE


def _cpus() -> int:
    return os.cpu_count() or 1


# --- carrying out a plan


def check_again(plan: DiskPlan) -> None:
    """Look at the plan's disks once more; raises UsageError when one holds something by now.

    wipefs reads the disks themselves, which takes root: what it cannot read counts as held.
    """
    found = this_machine()
    now = layout(found.devices, found.mounts, found.links)
    why = recheck(plan, now, signatures(plan.devices))
    if why:
        raise UsageError(
            f"Nothing was done: {why}", hint="`ai4infra mount disks` shows what is on the disks."
        )


def signatures(paths: Sequence[str]) -> dict[str, str]:
    """Return what wipefs finds on each disk, without changing it; unreadable ones are left out."""
    program = find("wipefs") or "wipefs"
    done = {path: run((program, "--no-act", path), timeout_seconds=LSBLK_SECONDS) for path in paths}
    return {path: ran.stdout for path, ran in done.items() if ran.code == 0}


def apply(plan: DiskPlan, *, on_step: Callable[[Command], None] = lambda step: None) -> None:
    """Carry out a plan, after another look at its disks; stops at the first command that fails.

    Raises Ai4infraError without root, NotFoundError when a program is missing, both before
    anything is done.
    """
    if os.geteuid() != 0:
        raise Ai4infraError(
            "It takes root to make and mount filesystems.",
            hint="Run it with sudo, or run the commands that `ai4infra mount disks` prints.",
        )
    programs = _programs(plan)
    _check_target(Path(plan.target))
    check_again(plan)
    for step in plan.commands:
        on_step(step)
        done = run((programs[step.argv[0]], *step.argv[1:]), timeout_seconds=STEP_SECONDS)
        if done.code:
            raise _failed(step, done)


def _check_target(target: Path) -> None:
    """Refuse a folder that holds something: the mount would hide it."""
    try:
        held = target.exists() and (not target.is_dir() or any(target.iterdir()))
    except OSError as error:
        raise Ai4infraError(f"{target} cannot be read: {error.strerror}.") from error
    if held or target.is_mount():
        raise UsageError(
            f"Nothing was done: {target} holds something, which the mount would hide.",
            hint="--target names another folder.",
        )


def _programs(plan: DiskPlan) -> Mapping[str, str]:
    names = [step.argv[0] for step in plan.commands]
    found = {name: find(name) for name in names}
    missing = sorted({name for name in names if not found[name]})
    if missing:
        raise NotFoundError(
            f"There is no {' and no '.join(missing)} on this machine.",
            hint="They are in the packages mdadm, xfsprogs and util-linux.",
        )
    return {name: path for name, path in found.items() if path}


def _failed(step: Command, done: Ran) -> Ai4infraError:
    return Ai4infraError(
        f"`{' '.join(step.argv)}` failed: {done.said}.",
        hint="What came before it is done; `ai4infra mount disks` shows the disks as they are now.",
    )
