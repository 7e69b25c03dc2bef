"""What stands behind a path, and the three classic causes of starving GPUs checked on it. Pure.

The causes: data on a Standard HDD or in a small Standard share; a remote mount without a cache; a
cache on the OS disk. What the machine itself cannot know (the tier of a share, the SKU of a disk
off Azure) is unknown, never "no".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from ai4infra import gpus, limits
from ai4infra.diagnosis.samples import DiskClass, MountFacts, MountKind
from ai4infra.model import Record
from ai4infra.mounts.disks import Device, Disk, Layout, Role, layout
from ai4infra.mounts.lint import Document
from ai4infra.mounts.live import Mount, mount_of

Kind = Literal[
    "local NVMe",
    "temp disk",
    "OS disk",
    "managed disk",
    "memory",
    "SMB share",
    "NFS share",
    "BlobFuse2",
    "Lustre",
    "other",
]
MIBYTE = 2**20
MBYTE = 10**6

SSD_MIN_GIB = 32
"""The smallest SSD share there is, of provisioned v2
(https://learn.microsoft.com/azure/storage/files/understanding-billing, provisioned v2 model)."""
STANDARD_HDD = ("Standard_LRS", "Standard_ZRS")
_ROLES: dict[Role, Kind] = {
    "local nvme": "local NVMe",
    "temp disk": "temp disk",
    "os disk": "OS disk",
    "remote nvme": "managed disk",
    "data disk": "managed disk",
}
_CLASSES: dict[Role, DiskClass] = {
    "local nvme": "local-nvme",
    "temp disk": "temp",
    "os disk": "os",
    "remote nvme": "remote-nvme",
    "data disk": "managed",
}
_FSTYPES: dict[str, Kind] = {
    "cifs": "SMB share",
    "smb3": "SMB share",
    "nfs": "NFS share",
    "nfs4": "NFS share",
    "lustre": "Lustre",
    "tmpfs": "memory",
    "ramfs": "memory",
}
_MOUNT_KINDS: dict[Kind, MountKind] = {
    "SMB share": "smb",
    "NFS share": "nfs",
    "BlobFuse2": "blobfuse2",
    "Lustre": "lustre",
    "other": "other",
}
_MODES = {
    "file_cache": "file cache",
    "block_cache": "block cache",
    "xload": "preload",
}
_LUN_LINK = re.compile(r"/azure/(?:data/by-lun/|scsi1/lun)(\d+)$")
LOCAL_KINDS: tuple[Kind, ...] = ("local NVMe", "temp disk", "OS disk", "managed disk")
_NETWORK_FSTYPES = (
    *("fuse", "9p", "afs", "autofs", "beegfs", "ceph", "glusterfs", "gpfs", "virtiofs", "wekafs"),
)
"""Remote, or a program's own (``fuse.s3fs``, ``fuse.rclone``): what it caches is unknown."""
_REMOTE: tuple[Kind, ...] = ("SMB share", "NFS share", "BlobFuse2")
_FILES_HOST = re.compile(r"\.file\.(?:core\.|storage\.azure\.net)", re.IGNORECASE)

TO_NVME = "ai4infra mount disks"
STAGE = "ai4infra data copy ACCOUNT/CONTAINER/FOLDER /mnt/nvme/FOLDER"
CACHE_ON_NVME = "ai4infra mount config ACCOUNT/CONTAINER --cache /mnt/nvme/cache"


class Cause(Record, frozen=True, kw_only=True):
    """One of the three classic causes, checked."""

    cause: str
    found: bool | None
    """None where this machine cannot tell."""
    why: str
    fix: str | None = None
    """The command that mends it, or that tells more."""


class Behind(Record, frozen=True, kw_only=True):
    """What stands behind a path."""

    path: str
    mount_path: str
    fstype: str
    source: str
    """Device, or the share or container that is mounted."""
    kind: Kind
    device: str | None = None
    """The whole disk, for local file systems."""
    disk_sku: str | None = None
    mode: str | None = None
    """Of BlobFuse2: ``file cache``, ``block cache``, ``preload`` or ``no cache``."""
    cache_path: str | None = None
    cache_on: Kind | None = None
    """What the cache lies on."""
    capacity_gib: float | None = None
    """Of a local disk or a share; BlobFuse2 answers with its cache's, which is left out."""
    ceiling_mbytes_s: float | None = None
    ceiling: str | None = None
    """How the ceiling comes about."""
    lost_on_deallocation: bool | None = None
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()


class Surroundings(Record, frozen=True, kw_only=True):
    """What was read of a machine to say what stands behind its paths."""

    devices: tuple[Device, ...] = ()
    mounts: tuple[Mount, ...] = ()
    links: dict[str, str]
    """Links below ``/dev/disk`` with the devices that they lead to."""
    sizes_mib: dict[str, int]
    """Mount path to the size that its file system gives."""
    configs: dict[str, Document]
    """Configurations of the running BlobFuse2 mounts, by mount path."""
    size: str | None = None
    """VM size."""
    region: str | None = None
    os_disk_sku: str | None = None
    data_disk_skus: dict[int, str]

    def layout(self) -> Layout:
        """Return what every disk is."""
        return layout(self.devices, self.mounts, self.links)


def behind(path: str, here: Surroundings) -> Behind:
    """Say what stands behind an absolute path whose links have been followed."""
    mount = mount_of(path, here.mounts)
    # A name may be of bytes that are no text, which no document can hold.
    path = path.encode("utf-8", "replace").decode("utf-8")
    if mount is None:
        found = Behind(path=path, mount_path="/", fstype="unknown", source="unknown", kind="other")
        return _checked(found, here)
    kind = kind_of(mount, here)
    if kind == "BlobFuse2":
        found = _blobfuse2(path, mount, here)
    elif kind in ("SMB share", "NFS share"):
        found = _share(path, mount, kind, here)
    else:
        found = _disk(path, mount, kind, here)
    return _checked(found, here)


def kind_of(mount: Mount, here: Surroundings) -> Kind:
    """Return what a mount is."""
    if mount.is_blobfuse2:
        return "BlobFuse2"
    if mount.fstype in _FSTYPES:
        return _FSTYPES[mount.fstype]
    found = here.layout()
    disk = disk_of(mount, found)
    if disk is None and mount.path == "/" and not found.container:
        return "OS disk"
    return _ROLES.get(disk.role, "other") if disk else "other"


def disks_of(mount: Mount, found: Layout) -> tuple[Disk, ...]:
    """Return the whole disks that something is mounted from: several under md and LVM."""
    by_device = [d for d in found.disks if mount.device in (d.path, *d.holds)]
    # The kernel may call the root's device /dev/root, which no disk is called.
    by_path = [d for d in found.disks if mount.path in d.mounts]
    return tuple(by_device or by_path)


def disk_of(mount: Mount, found: Layout) -> Disk | None:
    """Return the first whole disk that something is mounted from."""
    return next(iter(disks_of(mount, found)), None)


def sku_of(disk: Disk | None, here: Surroundings) -> str | None:
    """Return the SKU of a managed disk, as far as the VM knows."""
    if disk is None:
        return None
    if disk.role == "os disk":
        return here.os_disk_sku
    lun = _lun(disk, here)
    return None if lun is None else here.data_disk_skus.get(lun)


def _lun(disk: Disk, here: Surroundings) -> int | None:
    for link, target in here.links.items():
        matched = _LUN_LINK.search(link)
        if matched and target == disk.path:
            return int(matched[1])
    address = next((d.address for d in here.devices if d.path == disk.path), None)
    # On NVMe there is no SCSI address; off Azure's SCSI it would mean something else.
    if disk.role != "data disk" or not address:
        return None
    return int(address.rsplit(":", 1)[-1])


# --- kinds


def _disk(path: str, mount: Mount, kind: Kind, here: Surroundings) -> Behind:
    disks = disks_of(mount, here.layout())
    disk = disks[0] if disks else None
    sku = _slowest_sku(disks, here) if kind in ("OS disk", "managed disk") else None
    rate, why = _disk_ceiling(kind, sku, len(disks), here)
    return Behind(
        path=path,
        mount_path=mount.path,
        fstype=mount.fstype,
        source=mount.device,
        kind=kind,
        device=disk.path if disk else None,
        disk_sku=sku,
        capacity_gib=_gib(mount, here),
        ceiling_mbytes_s=rate,
        ceiling=why,
        lost_on_deallocation=None if disk is None else disk.lost_on_deallocation,
        notes=tuple(_disk_notes(kind, here)),
    )


def _slowest_sku(disks: Iterable[Disk], here: Surroundings) -> str | None:
    """Return the SKU that decides: a Standard HDD among several, else all where they are known."""
    skus = [sku_of(disk, here) for disk in disks]
    slow = [sku for sku in skus if sku in STANDARD_HDD]
    if slow or not skus or None in skus:
        return slow[0] if slow else None
    return ", ".join(sorted({str(sku) for sku in skus}))


def _disk_notes(kind: Kind, here: Surroundings) -> Iterator[str]:
    """Say what is slow about a disk though it is none of the three causes."""
    if kind == "OS disk":
        yield "The data itself is on the OS disk, which is small, slow and the system's own."
    elif kind == "temp disk":
        yield "The temp disk is SCSI, not NVMe."
    raw = [d for d in here.layout().disks if d.role == "local nvme" and d.state == "raw"]
    if raw and kind != "local NVMe":
        disks = "disk is" if len(raw) == 1 else f"disks ({len(raw)}) are"
        yield f"Local NVMe {disks} raw and unused: `{TO_NVME}` plans one filesystem over it."


def _disk_ceiling(
    kind: Kind, sku: str | None, count: int, here: Surroundings
) -> tuple[float | None, str | None]:
    """Return what bounds a managed disk: its own limit, and the VM's for all of them."""
    if kind not in ("OS disk", "managed disk"):
        return None, None
    bounds: list[tuple[float, str]] = []
    vm = gpus.facts(here.size).uncached_disk_mbytes_s if here.size else None
    if vm is not None:
        bounds.append((vm, f"all managed disks of {here.size} together, uncached"))
    if sku in STANDARD_HDD:
        row = limits.disk("standard_hdd")
        several = f"{count} x " if count > 1 else ""
        title = f"{several}{row.title}, the sizes up to {row.max_gib:,} GiB"
        bounds.append((row.mbytes_s * max(1, count), title))
    return min(bounds) if bounds else (None, None)


def _share(path: str, mount: Mount, kind: Kind, here: Surroundings) -> Behind:
    gib = _gib(mount, here)
    rate, why = _share_ceiling(mount, kind, gib)
    return Behind(
        path=path,
        mount_path=mount.path,
        fstype=mount.fstype,
        source=mount.device,
        kind=kind,
        mode="no cache" if "fsc" not in mount.options else "FS-Cache",
        capacity_gib=gib,
        ceiling_mbytes_s=rate,
        ceiling=why,
        lost_on_deallocation=False,
    )


def _share_ceiling(mount: Mount, kind: Kind, gib: float | None) -> tuple[float | None, str | None]:
    standard, premium = limits.standard_share(), limits.premium_share()
    if not _FILES_HOST.search(mount.device) or gib is None:
        return None, None
    if gib < SSD_MIN_GIB and kind == "SMB share":
        return standard.mibytes_s * MIBYTE / MBYTE, f"{standard.title} of {gib:,.0f} GiB"
    if kind == "NFS share" and premium.min_gib <= gib <= premium.max_gib:
        rate = premium.mibytes_s(int(gib)) * MIBYTE / MBYTE
        return (
            rate,
            f"{premium.title} of {gib:,.0f} GiB: {premium.base_mibytes_s} MiB/s + 0.1 a GiB;"
            " provisioned v2 has what was ordered",
        )
    return None, None


def _blobfuse2(path: str, mount: Mount, here: Surroundings) -> Behind:
    config = here.configs.get(mount.path)
    cache = config.cache if config else None
    cache_path = config.cache_path if config else None
    on = _cache_on(cache, cache_path, here)
    network = gpus.facts(here.size).network_gbps if here.size else None
    return Behind(
        path=path,
        mount_path=mount.path,
        fstype=mount.fstype,
        source=_container(config) or mount.device,
        kind="BlobFuse2",
        mode=None if config is None else _MODES.get(cache or "", "no cache"),
        cache_path=cache_path,
        cache_on=on,
        ceiling_mbytes_s=None if network is None else network * 125,
        ceiling=None if network is None else f"network of {here.size}: {network:g} Gbps",
        lost_on_deallocation=False,
        notes=tuple(_blobfuse2_notes(config)),
    )


def _container(config: Document | None) -> str | None:
    if config is None:
        return None
    account, container = (config.text(f"azstorage.{key}") for key in ("account-name", "container"))
    return f"{account}/{container}" if account and container else None


def _cache_on(cache: str | None, path: str | None, here: Surroundings) -> Kind | None:
    if cache == "block_cache" and path is None:
        return "memory"
    mount = mount_of(path, here.mounts) if path else None
    return kind_of(mount, here) if mount else None


def _blobfuse2_notes(config: Document | None) -> Iterator[str]:
    if config is None:
        yield (
            "The configuration of the mount cannot be read: run this where it was mounted (not in"
            " a container), as the user that mounted it."
        )
    elif config.cache == "block_cache":
        yield (
            "Block cache is for large files read in order: it serves tens of random reads a second"
            " and keeps little for the next epoch."
        )


def _gib(mount: Mount, here: Surroundings) -> float | None:
    mib = here.sizes_mib.get(mount.path)
    # Of /proc and its like the size is 0, and says nothing.
    return mib / 1024 if mib else None


# --- the three causes


def _checked(found: Behind, here: Surroundings) -> Behind:
    causes = (_slow_tier(found), _no_cache(found, here), _cache_on_os_disk(found, here))
    return msgspec.structs.replace(found, causes=causes)


SLOW_TIER = "Standard HDD or small Standard share"
NO_CACHE = "remote mount without a cache"
CACHE_ON_OS_DISK = "cache on the OS disk"


def _slow_tier(found: Behind) -> Cause:
    if found.kind in ("OS disk", "managed disk"):
        return _slow_disk(found)
    if found.kind == "SMB share" and _FILES_HOST.search(found.source):
        return _slow_share(found)
    if found.kind == "NFS share" and _FILES_HOST.search(found.source):
        return Cause(cause=SLOW_TIER, found=False, why="NFS shares of Azure Files are on SSD")
    if found.kind in ("SMB share", "NFS share", "other"):
        return Cause(cause=SLOW_TIER, found=None, why=f"What {found.source} lies on is not known")
    return Cause(cause=SLOW_TIER, found=False, why=f"It is {_article(found.kind)}")


def _slow_disk(found: Behind) -> Cause:
    if found.disk_sku is None:
        return Cause(
            cause=SLOW_TIER,
            found=None,
            why="The SKU of the disk is not known here",
            fix="az vm show -g GROUP -n VM --query storageProfile",
        )
    slow = found.disk_sku in STANDARD_HDD
    why = _with_rate(f"The disk is {found.disk_sku}", found)
    return Cause(cause=SLOW_TIER, found=slow, why=why, fix=STAGE if slow else None)


def _slow_share(found: Behind) -> Cause:
    standard, gib = limits.standard_share(), found.capacity_gib
    if gib is not None and gib < SSD_MIN_GIB:
        why = f"Under {SSD_MIN_GIB} GiB a share is a Standard one"
        return Cause(cause=SLOW_TIER, found=True, why=_with_rate(why, found), fix=STAGE)
    return Cause(
        cause=SLOW_TIER,
        found=None,
        why=f"A Standard share gives {standard.mibytes_s:g} MiB/s, {standard.large_mibytes_s:g} as"
        " a large one; the mount does not tell Standard from premium",
        fix=f"ai4infra storage show --name {_account(found.source)}",
    )


def _account(source: str) -> str:
    matched = re.match(r"[/\\]*([a-z0-9]{3,24})\.", source)
    return matched[1] if matched else "ACCOUNT"


def _with_rate(text: str, found: Behind) -> str:
    if found.ceiling_mbytes_s is None:
        return text
    return f"{text}: {found.ceiling_mbytes_s:,.0f} MB/s at most"


def _no_cache(found: Behind, here: Surroundings) -> Cause:
    if found.kind not in _REMOTE:
        if _is_unknown(found):
            why = f"What {found.fstype} caches is not known"
            return Cause(cause=NO_CACHE, found=None, why=why)
        remote = found.kind == "Lustre"
        why = "Lustre is read in parallel and needs none" if remote else "It is no remote mount"
        return Cause(cause=NO_CACHE, found=False, why=why)
    if found.mode is None:
        why = "The configuration of the mount cannot be read"
        return Cause(cause=NO_CACHE, found=None, why=why, fix="ai4infra mount check --mounted")
    if found.mode == "no cache":
        why = "Every read beyond the page cache goes over the network, in every epoch"
        fix = CACHE_ON_NVME if found.kind == "BlobFuse2" else STAGE
        return Cause(cause=NO_CACHE, found=True, why=why, fix=fix)
    return _short_cache(found, here.configs.get(found.mount_path))


def _short_cache(found: Behind, config: Document | None) -> Cause:
    timeout = config.number("file_cache.timeout-sec") if config else None
    if found.mode == "file cache" and timeout == 0:
        return Cause(
            cause=NO_CACHE,
            found=True,
            why="The file cache forgets every file as it is closed (timeout-sec: 0)",
            fix=CACHE_ON_NVME,
        )
    return Cause(cause=NO_CACHE, found=False, why=f"It has one: {found.mode}")


def _is_unknown(found: Behind) -> bool:
    """Tell whether something is mounted of which only its name is known."""
    return found.kind == "other" and found.fstype.startswith(
        (*_NETWORK_FSTYPES, "overlay", "unknown")
    )


def _cache_on_os_disk(found: Behind, here: Surroundings) -> Cause:
    if _is_unknown(found):
        why = f"Where {found.fstype} caches is not known"
        return Cause(cause=CACHE_ON_OS_DISK, found=None, why=why)
    if found.kind != "BlobFuse2" or found.mode == "no cache":
        return Cause(cause=CACHE_ON_OS_DISK, found=False, why="There is no cache on a disk")
    if found.mode is None or (found.cache_path and found.cache_on in (None, "other")):
        return Cause(
            cause=CACHE_ON_OS_DISK,
            found=None,
            why="What the cache lies on is not known",
            fix="ai4infra mount check --mounted",
        )
    if found.cache_on == "OS disk":
        why = f"{found.cache_path} is on the OS disk, which is small, slow and the system's own"
        return Cause(cause=CACHE_ON_OS_DISK, found=True, why=why, fix=_to_nvme(here))
    why = f"It is in {found.cache_path or 'memory'}: {found.cache_on or 'no disk'}"
    return Cause(cause=CACHE_ON_OS_DISK, found=False, why=why)


def _to_nvme(here: Surroundings) -> str:
    """Return the next step towards a cache on NVMe: format it first where it lies raw."""
    local = [disk for disk in here.layout().disks if disk.role == "local nvme"]
    return TO_NVME if any(disk.state == "raw" for disk in local) else CACHE_ON_NVME


def _article(kind: Kind) -> str:
    texts: dict[Kind, str] = {"BlobFuse2": "a Blob container", "memory": "memory"}
    return texts.get(kind, "Lustre" if kind == "Lustre" else f"the {kind}")


# --- facts for captures


def mount_facts(found: Behind, interface: str | None = None) -> MountFacts:
    """Return a path as the samples' facts have it; ``interface`` carries a remote mount."""
    kind: MountKind = _MOUNT_KINDS.get(found.kind, "local")
    if found.kind == "other" and not found.fstype.startswith(_NETWORK_FSTYPES):
        kind = "local"
    return MountFacts(
        path=found.path,
        mount_kind=kind,
        device=_name(found.device),
        cache_class=_cache_class(found),
        interface=interface if kind != "local" else None,
        source=found.source if kind != "local" else None,
    )


def _cache_class(found: Behind) -> DiskClass | Literal["none"] | None:
    if found.mode == "no cache":
        return "none"
    roles = {kind: role for role, kind in _ROLES.items()}
    role = roles.get(found.cache_on) if found.cache_on else None
    return _CLASSES[role] if role else None


def disk_classes(here: Surroundings) -> Iterator[tuple[str, DiskClass]]:
    """Yield every device that is on an Azure disk, with the class of that disk."""
    for disk in here.layout().disks:
        kind = _CLASSES.get(disk.role)
        if kind is None:
            continue
        slow = sku_of(disk, here) in STANDARD_HDD
        for name in _device_names(disk):
            yield name, "hdd" if slow and kind in ("managed", "remote-nvme") else kind


def _device_names(disk: Disk) -> Iterable[str]:
    return [str(_name(p)) for p in (disk.path, *disk.holds) if p.startswith("/dev/")]


def _name(device: str | None) -> str | None:
    return None if device is None else device.rsplit("/", 1)[-1]
