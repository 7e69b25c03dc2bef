"""What every block device of an Azure VM is, and how its local NVMe becomes a cache.

Devices are told apart by the links that azure-vm-utils and the Azure Linux agent make, else by
the models that those rules match (https://github.com/Azure/azure-vm-utils, udev rules of 2025),
else by their SCSI address. What is not recognized stays unknown, and no plan touches it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ai4infra.errors import UsageError
from ai4infra.model import Record
from ai4infra.mounts.live import Mount, mount_of

Role = Literal["os disk", "temp disk", "local nvme", "remote nvme", "data disk", "other"]
State = Literal["raw", "formatted", "in use"]
PlanState = Literal["make", "mount", "done", "no"]

GIBYTE = 2**30
LABEL = "ai4infra"
"""Label of the filesystem and name of the array that a plan makes; a later run knows them by it."""
RAID_MEMBER = "linux_raid_member"
DEFAULT_TARGET = "/mnt/nvme"
LOCAL_NVME = ("Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2")
REMOTE_NVME = "MSFT NVMe Accelerator v1.0"
TEMP_LABEL = "Temporary Storage"
TEMP_PATHS = ("/mnt", "/mnt/resource")
LOST = (
    "Local disks are blank after a stop with deallocation, a redeployment, a resize or a move to"
    " other hardware; a restart keeps them."
)
_LOSES = ("temp disk", "local nvme")
_CONTAINER_ROOTS = ("overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs")
_TEMP_ADDRESS = re.compile(r"\d+:0:1:0|0:0:0:1")
_IGNORED = ("loop", "rom")
_PSEUDO = re.compile(r"(?:zram|ram|nbd|fd)\d+")


class Device(Record, frozen=True):
    """A block device as lsblk lists it."""

    path: str
    kind: str
    """``disk``, ``part``, ``raid0``, ``lvm``, ``crypt``, …"""
    size_bytes: int | None = None
    model: str | None = None
    vendor: str | None = None
    fstype: str | None = None
    label: str | None = None
    partition_table: str | None = None
    address: str | None = None
    """SCSI address ``host:channel:target:lun``."""
    mountpoint: str | None = None
    fs_size_bytes: int | None = None
    """Size of the filesystem that is mounted."""
    fs_free_bytes: int | None = None
    read_only: bool = False
    children: tuple[Device, ...] = ()

    def family(self) -> Iterator[Device]:
        """Yield the device and all that is made of it."""
        yield self
        for child in self.children:
            yield from child.family()


class Disk(Record, frozen=True):
    """A whole disk and what it is."""

    path: str
    role: Role
    state: State
    size_gib: float | None
    model: str | None
    mounts: tuple[str, ...]
    """Where it, or something made of it, is mounted."""
    holds: tuple[str, ...]
    """What is on it: ``xfs``, ``gpt``, ``partition``, ``linux_raid_member``, ``raid0 /dev/md0``."""
    lost_on_deallocation: bool | None
    """None for a disk that is not recognized."""
    why: str
    """What it was recognized by."""


class Place(Record, frozen=True):
    """A folder where a cache might go, and what is under it."""

    path: str
    mounted: bool
    """True when something is mounted right there."""
    device: str | None
    role: Role | None
    note: str


class Command(Record, frozen=True):
    """One command of a plan."""

    argv: tuple[str, ...]
    why: str


class DiskPlan(Record, frozen=True):
    """How the local NVMe becomes one filesystem; without commands there is nothing to do."""

    state: PlanState
    """``make``, ``mount`` again, ``done`` already, or ``no`` where it cannot be done."""
    commands: tuple[Command, ...]
    devices: tuple[str, ...]
    """The disks whose content is replaced."""
    target: str
    reason: str
    lost: str | None = None
    """When the content goes away again."""


class Layout(Record, frozen=True):
    """All disks of a machine, and where the usual cache folders are."""

    disks: tuple[Disk, ...]
    places: tuple[Place, ...]
    container: bool
    """True inside a container, whose devices belong to its host."""

    def role_of(self, mount: Mount) -> Role | None:
        """Return the role of the disk that something is mounted from; None when it is on none."""
        # The kernel may call the root's device /dev/root, which no disk is called.
        for disk in self.disks:
            if mount.device in (disk.path, *disk.holds) or mount.path in disk.mounts:
                return disk.role
        return None


# --- lsblk


def parse_lsblk(text: str) -> tuple[Device, ...]:
    """Parse the output of ``lsblk --json --bytes``; raises UsageError for anything else."""
    try:
        found = json.loads(text)
        return tuple(_device(each) for each in found["blockdevices"] if isinstance(each, dict))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            "What lsblk printed cannot be understood.",
            hint="It takes lsblk of util-linux 2.33 or newer; `lsblk --json` has to work.",
        ) from error


def _device(row: Mapping[str, Any]) -> Device:
    children = row.get("children") or ()
    return Device(
        path=_text(row, "path") or f"/dev/{row['name']}",
        kind=_text(row, "type") or "disk",
        size_bytes=_number(row.get("size")),
        model=_text(row, "model"),
        vendor=_text(row, "vendor"),
        fstype=_text(row, "fstype"),
        label=_text(row, "label"),
        partition_table=_text(row, "pttype"),
        address=_text(row, "hctl"),
        mountpoint=_text(row, "mountpoint"),
        fs_size_bytes=_number(row.get("fssize")),
        fs_free_bytes=_number(row.get("fsavail")),
        # Older releases of lsblk write booleans as "0" and "1".
        read_only=row.get("ro") in (True, "1", 1),
        children=tuple(_device(each) for each in children),
    )


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- what a disk is


def layout(devices: Sequence[Device], mounts: Sequence[Mount], links: Mapping[str, str]) -> Layout:
    """Say what every disk is.

    ``links`` are the links below ``/dev/disk/azure`` and ``/dev/disk/cloud`` with the devices
    that they lead to.
    """
    whole = [device for device in devices if _is_disk(device)]
    disks = tuple(_disk(device, mounts, links) for device in whole)
    container = in_container(mounts)
    known = Layout(disks=disks, places=(), container=container)
    places = tuple(_place(path, mounts, known) for path in (*TEMP_PATHS, DEFAULT_TARGET))
    return Layout(disks=disks, places=places, container=container)


def in_container(mounts: Iterable[Mount]) -> bool:
    """Tell whether the root is a container's: its devices are not its own."""
    root = mount_of("/", [m for m in mounts if m.path == "/"])
    return root is not None and root.fstype in _CONTAINER_ROOTS


def _is_disk(device: Device) -> bool:
    name = device.path.rsplit("/", 1)[-1]
    return device.kind not in _IGNORED and not _PSEUDO.fullmatch(name)


def _disk(device: Device, mounts: Sequence[Mount], links: Mapping[str, str]) -> Disk:
    where = _mounted_at(device, mounts)
    role, why = _role(device, where, links)
    holds = tuple(_holds(device))
    return Disk(
        path=device.path,
        role=role,
        state="in use" if where or _swap(device) else "formatted" if holds else "raw",
        size_gib=None if device.size_bytes is None else round(device.size_bytes / GIBYTE, 1),
        model=device.model,
        mounts=where,
        holds=holds,
        lost_on_deallocation=None if role == "other" else role in _LOSES,
        why=why,
    )


def _mounted_at(device: Device, mounts: Sequence[Mount]) -> tuple[str, ...]:
    paths = {each.path for each in device.family()}
    listed = [m.path for m in mounts if m.device in paths]
    told = [each.mountpoint for each in device.family() if each.mountpoint]
    return tuple(dict.fromkeys([*listed, *(p for p in told if p != "[SWAP]")]))


def _swap(device: Device) -> bool:
    return any(each.mountpoint == "[SWAP]" for each in device.family())


def _holds(device: Device) -> Iterator[str]:
    """Say what is on a disk; the devices made of it are among it, by their paths."""
    for part in (device.fstype, device.partition_table):
        if part:
            yield part
    for child in device.children:
        for each in child.family():
            yield each.path
            if each.fstype:
                yield each.fstype


def _role(device: Device, where: Sequence[str], links: Mapping[str, str]) -> tuple[Role, str]:
    named = {link for link, target in links.items() if target == device.path}
    guesses = (
        _by_link(named),
        _by_mount(where),
        _by_model(device),
        _by_data_link(named),
        _by_address(device),
    )
    for role, why in guesses:
        if role is not None:
            return role, why
    return "other", "nothing that Azure's disks have"


_Guess = tuple["Role | None", str]


def _by_link(named: Iterable[str]) -> _Guess:
    for link in sorted(named):
        tail = link.split("/disk/", 1)[-1]
        if tail in ("azure/os", "azure/root", "cloud/azure_root"):
            return "os disk", f"link {link}"
        if tail in ("azure/resource", "cloud/azure_resource"):
            return "temp disk", f"link {link}"
        if tail.startswith("azure/local/"):
            return "local nvme", f"link {link}"
    return None, ""


def _by_data_link(named: Iterable[str]) -> _Guess:
    for link in sorted(named):
        if link.split("/disk/", 1)[-1].startswith(("azure/data/", "azure/scsi1/")):
            return "data disk", f"link {link}"
    return None, ""


def _by_mount(where: Sequence[str]) -> _Guess:
    for path in ("/", "/boot", "/boot/efi"):
        if path in where:
            return "os disk", f"{path} is on it"
    return None, ""


def _by_model(device: Device) -> _Guess:
    if device.model in LOCAL_NVME:
        return "local nvme", f"model {device.model}"
    if device.model == REMOTE_NVME:
        return "remote nvme", f"model {device.model}"
    return None, ""


def _by_address(device: Device) -> _Guess:
    """Tell Hyper-V's SCSI disks apart: generation 1 has the temp disk at target 1."""
    if device.vendor != "Msft" or device.model != "Virtual Disk":
        return None, ""
    if any(each.label == TEMP_LABEL for each in device.family()):
        return "temp disk", f"label {TEMP_LABEL}"
    if device.address and _TEMP_ADDRESS.fullmatch(device.address):
        return "temp disk", f"SCSI address {device.address}"
    return "data disk", "an Azure disk that is neither OS nor temp disk"


def _place(path: str, mounts: Sequence[Mount], known: Layout) -> Place:
    mount = mount_of(path, mounts)
    role = known.role_of(mount) if mount else None
    here = mount is not None and mount.path == path
    return Place(
        path=path,
        mounted=here,
        device=mount.device if mount else None,
        role=role,
        note=_place_note(mount, role, here=here),
    )


_KINDS: dict[Role | None, str] = {
    "os disk": "the OS disk",
    "temp disk": "the SCSI temp disk, not NVMe",
    "local nvme": "local NVMe",
    "remote nvme": "a remote disk, which stays",
    "data disk": "a data disk, which stays",
}


def _place_note(mount: Mount | None, role: Role | None, *, here: bool) -> str:
    kind = _KINDS.get(role, "no disk that is recognized")
    if here or mount is None:
        return kind
    return f"nothing is mounted here: it is a folder of {mount.path}, {kind}"


# --- the plan


def plan_nvme(
    found: Layout, devices: Sequence[Device], *, target: str = DEFAULT_TARGET
) -> DiskPlan:
    """Plan one filesystem over all local NVMe that is raw: RAID 0, xfs, mount.

    A filesystem that an earlier plan made is mounted again as it is. Nothing that holds anything
    is ever part of a plan.
    """
    if found.container:
        return _nothing(target, "This is a container: its disks belong to the host.")
    local = [disk for disk in found.disks if disk.role == "local nvme"]
    if not local:
        return _nothing(target, "This machine has no local NVMe.")
    if any(disk.state == "in use" for disk in local):
        used = next(disk for disk in local if disk.state == "in use")
        where = ", ".join(used.mounts) or "swap"
        return _nothing(target, f"The local NVMe is in use: {used.path} at {where}.", "done")
    again = _ours(local, devices)
    if again:
        return _mount_again(again, target)
    array = _unfinished(local, devices)
    if array:
        return _finish(array, target)
    held = [disk for disk in local if disk.state != "raw"]
    if held:
        what = "; ".join(f"{disk.path} holds {', '.join(disk.holds)}" for disk in held)
        return _nothing(target, f"Not touched, because something is on it: {what}.")
    return _fresh([disk.path for disk in local], _free_md(devices), target)


def _nothing(target: str, reason: str, state: PlanState = "no") -> DiskPlan:
    return DiskPlan(state=state, commands=(), devices=(), target=target, reason=reason)


def _ours(local: Sequence[Disk], devices: Sequence[Device]) -> str | None:
    """Return the device of an earlier plan's filesystem, where it is on local NVMe alone."""
    for disk in devices:
        for each in disk.family():
            on = [d for d in devices if each.path in {e.path for e in d.family()}]
            if each.label == LABEL and {d.path for d in on} <= {d.path for d in local}:
                return each.path
    return None


def _unfinished(local: Sequence[Disk], devices: Sequence[Device]) -> str | None:
    """Return the array of an earlier run that ended before its filesystem was made."""
    names = {disk.path for disk in local}
    members = [device for device in devices if device.path in names]
    arrays = {child.path for device in members for child in device.children}
    return arrays.pop() if len(arrays) == 1 and all(map(_is_bare_member, members)) else None


def _is_bare_member(device: Device) -> bool:
    """Tell whether a disk is of an array that a plan named, with nothing on that array."""
    named = (device.label or "").rpartition(":")[2] == LABEL
    if device.fstype != RAID_MEMBER or not named or len(device.children) != 1:
        return False
    array = device.children[0]
    held = array.fstype or array.partition_table or array.mountpoint or array.children
    return array.kind == "raid0" and not held


def _finish(array: str, target: str) -> DiskPlan:
    return DiskPlan(
        state="make",
        commands=(_filesystem(array), *_mounting(array, target)),
        devices=(array,),
        target=target,
        reason=f"{array} is the array of an earlier run, which made no filesystem on it.",
        lost=LOST,
    )


def _mount_again(device: str, target: str) -> DiskPlan:
    return DiskPlan(
        state="mount",
        commands=_mounting(device, target),
        devices=(),
        target=target,
        reason=f"{device} holds the filesystem of an earlier run (label {LABEL}); it is kept.",
        lost=LOST,
    )


def _fresh(paths: Sequence[str], md: str, target: str) -> DiskPlan:
    device, commands = paths[0], []
    if len(paths) > 1:
        device = md
        # The name is in every member, and tells a later run that the array is ours.
        how = ("--level=0", f"--name={LABEL}", f"--raid-devices={len(paths)}")
        argv = ("mdadm", "--create", md, *how, *paths)
        commands.append(Command(argv=argv, why=f"one device of {len(paths)}: their speeds add up"))
    return DiskPlan(
        state="make",
        commands=(*commands, _filesystem(device), *_mounting(device, target)),
        devices=tuple(paths),
        target=target,
        reason=f"{len(paths)} raw local NVMe {'disk' if len(paths) == 1 else 'disks'}.",
        lost=LOST,
    )


def _filesystem(device: str) -> Command:
    return Command(
        argv=("mkfs.xfs", "-L", LABEL, device),
        why="xfs, without force: it refuses a device that holds something",
    )


def _mounting(device: str, target: str) -> tuple[Command, ...]:
    return (
        Command(argv=("mkdir", "-p", target), why="where it is mounted"),
        Command(
            argv=("mount", "-o", "noatime", device, target),
            why="reading a file writes no access time",
        ),
        Command(argv=("chmod", "1777", target), why="everybody may have a cache there, as in /tmp"),
    )


def _free_md(devices: Sequence[Device]) -> str:
    taken = {each.path for disk in devices for each in disk.family()}
    return next(path for n in range(128) if (path := f"/dev/md{n}") not in taken)


def recheck(plan: DiskPlan, found: Layout, signatures: Mapping[str, str]) -> str | None:
    """Say why a plan must not run after all; None when its devices still hold nothing.

    ``signatures`` is what wipefs, which reads the disk itself, found on each of them.
    """
    for path in plan.devices:
        changed = _changed(path, found)
        if changed:
            return changed
        if path not in signatures:
            return f"{path} could not be read to see whether it holds anything."
        if signatures[path].strip():
            return f"{path} holds {' '.join(signatures[path].split())}."
    return None


def _changed(path: str, found: Layout) -> str | None:
    """Say what has become of a device that held nothing: a disk, or an array of disks."""
    on = [disk for disk in found.disks if path == disk.path or path in disk.holds]
    if not on or any(disk.role != "local nvme" for disk in on):
        return f"{path} is not there any more."
    for disk in on:
        held = [each for each in disk.holds if disk.path == path or each not in (RAID_MEMBER, path)]
        if held or disk.state == "in use":
            return f"{path} now holds {', '.join(held) or 'something that is mounted'}."
    return None
