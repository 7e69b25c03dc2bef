"""Writes a BlobFuse2 configuration that fits the machine and the data; every line says why.

Sizes called MiB are what BlobFuse2 calls MB. Rates that the choices rest on are the project's own
runs (Azure/azure-storage-fuse, branch benchmarks, August 2026): block cache reads large files
at 5,500 MiB/s but serves 68 random 4 KiB reads a second; file cache answers those from disk, and
writes at 414 MiB/s where block cache writes at 3,000.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from ai4infra.errors import UsageError
from ai4infra.ids import is_uuid
from ai4infra.model import Record
from ai4infra.mounts.host import Host, Space
from ai4infra.mounts.live import is_below
from ai4infra.mounts.reference import reference
from ai4infra.storage_names import check_account_name, known_container

Mode = Literal["auto", "file-cache", "block-cache", "preload"]
Cache = Literal["file-cache", "block-cache", "preload"]
Purpose = Literal["training", "preprocessing", "inference", "checkpoints"]

COMPONENTS: dict[Cache, str] = {
    "file-cache": "file_cache",
    "block-cache": "block_cache",
    "preload": "xload",
}

MIBYTE = 2**20
USABLE_PERCENT = 80
"""A cache takes at most so much of its disk."""
RESERVE_PERCENT = 5
RESERVE_MIN_MIB = 10 * 1024
MIN_CACHE_MIB = 1024
MEMORY_PERCENT = 40
"""Block caches of all mounts together take at most so much of the available memory."""
MAX_MEMORY_MIB = 64 * 1024
BLOCK_MIB = (16, 8, 4, 2, 1)
MIN_PREFETCH = 11
MAX_PARALLELISM = 128
STEADY_SECONDS = 3600
WEEK_SECONDS = 7 * 24 * 3600
LOG_MIB = 64
LOG_FILES = 5

IDENTITY_ID = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.managedidentity"
    r"/userassignedidentities/[^/]+/?",
    re.IGNORECASE,
)
"""Resource id of a user-assigned identity."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_WRITERS = ("preprocessing", "checkpoints")


class Wanted(Record, frozen=True):
    """What shall be mounted."""

    account: str
    container: str
    hns: bool
    """Hierarchical namespace of the account."""
    mode: Mode = "auto"
    purpose: Purpose = "training"
    cache: str | None = None
    """Folder for the cache; None takes the largest local NVMe, else the temp disk."""
    identity: str | None = None
    """Client id or resource id of a user-assigned identity; None for the only one there is."""
    subdirectory: str | None = None
    endpoint: str | None = None
    """Only for accounts outside ``*.core.windows.net``."""
    dataset_bytes: int | None = None
    largest_file_bytes: int | None = None
    mounts: int = 1
    """Mounts on this machine, this one counted: they share memory and disk."""
    partial: bool = False
    """A preload may leave out what does not fit."""
    shared_write: bool = False
    """Other machines write to the container at the same time."""
    allow_other: bool = False
    allow_os_disk: bool = False
    log_folder: str = "/var/log/blobfuse2"


class Line(Record, frozen=True):
    """One key of the configuration, its value as YAML, and why it is there."""

    section: str
    key: str
    value: str
    why: str


class Config(Record, frozen=True):
    """A configuration and what was decided for it."""

    mode: Cache
    reason: str
    cache_path: str | None
    cache_mount: str | None
    """Where the cache's disk is mounted; a unit waits for it."""
    read_only: bool
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """Return the YAML, every key under the comment that says why."""
        return "\n".join(_text(self)) + "\n"


class _Room(Record, frozen=True):
    """The folder that a cache gets, and how large it may become."""

    path: str
    space: Space
    limit_mib: int


# --- what is asked


def parse_target(text: str) -> tuple[str, str, str | None]:
    """Parse ``ACCOUNT/CONTAINER[/FOLDER]`` into its parts; raises UsageError for anything else."""
    account, _, rest = text.strip().partition("/")
    container, _, folder = rest.strip("/").partition("/")
    if not (account and container):
        raise UsageError(
            f"{text!r} is not ACCOUNT/CONTAINER.",
            hint="Such as sttrain/training-data, or sttrain/training-data/2026 for a folder of it.",
        )
    check_account_name(account)
    known_container(container)
    if _CONTROL.search(folder) or ".." in PurePosixPath(folder).parts:
        raise UsageError(f"{folder!r} cannot be a folder of a container.")
    return account, container, folder.strip("/") or None


def configure(wanted: Wanted, host: Host) -> Config:
    """Decide on a configuration for a machine.

    Raises UsageError where it cannot work: a preload of checkpoints or of more than there is room
    for, a cache on the OS disk that was not allowed, a file larger than the cache, no memory.
    """
    _check(wanted)
    room = _room(wanted, host)
    mode, reason = _mode(wanted, room)
    _check_mode(wanted, mode, room)
    read_only = mode == "preload" or wanted.purpose not in _WRITERS
    lines = tuple(_lines(wanted, host, mode, room, read_only=read_only))
    used = any(line.key == "path" for line in lines)
    return Config(
        mode=mode,
        reason=reason,
        cache_path=room.path if room and used else None,
        cache_mount=room.space.path if room and used and not room.space.root else None,
        read_only=read_only,
        lines=lines,
        notes=tuple(_notes(wanted, mode, room if used else None)),
    )


def _check(wanted: Wanted) -> None:
    if wanted.mounts < 1:
        raise UsageError("--mounts counts this mount too: it is at least 1.")
    if wanted.identity and not _identity_key(wanted.identity):
        raise UsageError(
            f"{wanted.identity!r} is neither a client id nor the resource id of an identity.",
            hint="`az identity show --query clientId` prints the client id.",
        )
    if wanted.mode == "preload" and wanted.purpose in _WRITERS:
        raise UsageError(
            f"A preload is read-only, so it does not do for {wanted.purpose}.",
            hint="--mode block-cache writes, and does not keep a copy of the container.",
        )


def _identity_key(identity: str) -> str | None:
    if is_uuid(identity):
        return "appid"
    return "resid" if IDENTITY_ID.fullmatch(identity) else None


# --- where the cache goes


def _room(wanted: Wanted, host: Host) -> _Room | None:
    """Return the room of the cache; None when there is no disk for one."""
    if wanted.cache is None:
        fit = host.cache_spaces()
        return _room_in(wanted, fit[0], _below(fit[0].path, "blobfuse2")) if fit else None
    if not wanted.cache.startswith("/") or _CONTROL.search(wanted.cache):
        raise UsageError(f"--cache {wanted.cache!r} is not an absolute path.")
    cache = posixpath.normpath(wanted.cache)
    space = host.space_of(cache)
    if space is None or space.size_mib is None:
        raise UsageError(
            f"It cannot be told which disk {wanted.cache} is on.",
            hint="`ai4infra mount disks` shows what is mounted where.",
        )
    if space.on_os_disk and not wanted.allow_os_disk:
        raise UsageError(
            f"{wanted.cache} is on the OS disk: nothing else is mounted at it or above it.",
            hint="`ai4infra mount disks` plans the local NVMe; --allow-os-disk takes it as it is.",
        )
    return _room_in(wanted, space, cache)


def _room_in(wanted: Wanted, space: Space, base: str) -> _Room:
    """Give each mount a folder of its own: locks live inside one process."""
    path = _below(base, wanted.account, _own_name(wanted))
    return _Room(path=path, space=space, limit_mib=_limit(space, wanted.mounts))


def _own_name(wanted: Wanted) -> str:
    """Return a name for what is mounted that no other container and no other folder of it has."""
    folder = wanted.subdirectory
    if not folder:
        return wanted.container
    plain = re.sub(r"[^\w.-]+", "-", folder, flags=re.ASCII)[:100]
    tail = "" if plain == folder else f"-{zlib.crc32(folder.encode()):08x}"
    # No container has two hyphens in a row.
    return f"{wanted.container}--{plain}{tail}"


def _below(base: str, *names: str) -> str:
    return str(PurePosixPath(base).joinpath(*names))


def _limit(space: Space, mounts: int) -> int:
    """Return the MiB that one cache may take: 80% of the disk, and always less than is free."""
    size, free = space.size_mib or 0, space.free_mib or 0
    reserve = max(RESERVE_MIN_MIB, size * RESERVE_PERCENT // 100)
    return max(0, min(size * USABLE_PERCENT // 100, free - reserve)) // mounts


# --- which cache


def _mode(wanted: Wanted, room: _Room | None) -> tuple[Cache, str]:
    if wanted.mode != "auto":
        return wanted.mode, "it was asked for"
    if wanted.purpose == "checkpoints":
        return "block-cache", "checkpoints are large and written once: file cache writes slower"
    if wanted.purpose == "preprocessing":
        return "block-cache", "each file is read once, so keeping whole files would gain nothing"
    if room is None or room.limit_mib < MIN_CACHE_MIB:
        return "block-cache", "there is no local disk with room for a cache of files"
    if wanted.dataset_bytes is not None and _mib(wanted.dataset_bytes) <= room.limit_mib:
        return (
            "preload",
            "all of it fits on the local disk, so it is downloaded once, at full speed",
        )
    if _too_large(wanted, room):
        return "block-cache", "the largest file does not fit into a cache of whole files"
    if wanted.purpose == "inference":
        return "block-cache", "a model is read once, from start to end"
    return "file-cache", "every epoch after the first reads from the local disk, in any order"


def _mib(size: int) -> int:
    return -(-size // MIBYTE)


def _too_large(wanted: Wanted, room: _Room) -> bool:
    largest = wanted.largest_file_bytes
    return largest is not None and _mib(largest) > room.limit_mib


def _check_mode(wanted: Wanted, mode: Cache, room: _Room | None) -> None:
    if mode == "block-cache":
        return
    if room is None:
        raise UsageError(
            f"{mode} keeps data on a local disk, and this machine has none mounted.",
            hint="`ai4infra mount disks` plans the local NVMe; --cache names another folder.",
        )
    if room.limit_mib < MIN_CACHE_MIB:
        raise UsageError(
            f"{room.space.path} has no room for a cache: {room.limit_mib:,} MiB are left for it.",
            hint="Free some of it, or say --cache for another disk.",
        )
    if _too_large(wanted, room):
        raise UsageError(
            f"The largest file does not fit into a cache of {room.limit_mib:,} MiB.",
            hint="--mode block-cache reads such files in blocks.",
        )
    if mode == "preload":
        _check_preload(wanted, room)


def _check_preload(wanted: Wanted, room: _Room) -> None:
    if wanted.partial:
        return
    if wanted.dataset_bytes is None:
        raise UsageError(
            "A preload needs room for everything, and the size of the data is not known.",
            hint="Say --dataset SIZE, or --partial to leave out what does not fit.",
        )
    if _mib(wanted.dataset_bytes) > room.limit_mib:
        raise UsageError(
            f"The data does not fit: {_mib(wanted.dataset_bytes):,} MiB, and the cache at"
            f" {room.space.path} may take {room.limit_mib:,} MiB.",
            hint="--mode block-cache needs no room; --partial leaves out what does not fit.",
        )


# --- the lines


def _lines(
    wanted: Wanted, host: Host, mode: Cache, room: _Room | None, *, read_only: bool
) -> Iterator[Line]:
    yield from _general(wanted, mode, read_only=read_only)
    yield from _logging(wanted)
    yield from _kernel(wanted, read_only=read_only)
    if mode == "file-cache" and room:
        yield from _file_cache(wanted, room)
    elif mode == "preload" and room:
        yield from _xload(room)
    else:
        keeps = wanted.purpose == "training" and room and room.limit_mib >= MIN_CACHE_MIB
        yield from _block_cache(wanted, host, room if keeps else None)
    yield from _attributes(wanted, read_only=read_only)
    yield from _storage(wanted)


def _general(wanted: Wanted, mode: Cache, *, read_only: bool) -> Iterator[Line]:
    if read_only:
        why = "a preload is read-only" if mode == "preload" else f"{wanted.purpose} only reads"
        yield Line(section="", key="read-only", value="true", why=f"{why}; nothing can be damaged")
    if wanted.allow_other:
        why = "root mounts and others read; without root, /etc/fuse.conf needs user_allow_other"
        yield Line(section="", key="allow-other", value="true", why=why)
    parts = ("libfuse", COMPONENTS[mode], "attr_cache", "azstorage")
    why = f"the pipeline, in this order: {mode}"
    yield Line(section="", key="components", value=f"[{', '.join(parts)}]", why=why)


def _logging(wanted: Wanted) -> Iterator[Line]:
    name = f"{wanted.account}-{_own_name(wanted)}"
    rows = {
        "type": ("base", "a file of its own; file-path counts for this type alone"),
        "level": ("log_warning", "log_debug writes every request, and slows everything down"),
        "file-path": (
            quoted(_below(wanted.log_folder, f"{name}.log")),
            "not on the cache's disk, which is blank after a deallocation",
        ),
        "max-file-size-mb": (str(LOG_MIB), f"{LOG_MIB} MiB and {LOG_FILES} files at most"),
        "file-count": (str(LOG_FILES), "old files that are kept"),
    }
    yield from _section("logging", rows)


def _section(section: str, rows: dict[str, tuple[str, str]]) -> Iterator[Line]:
    for key, (value, why) in rows.items():
        yield Line(section=section, key=key, value=value, why=why)


def _kernel(wanted: Wanted, *, read_only: bool) -> Iterator[Line]:
    seconds, why = _attribute_seconds(wanted, read_only=read_only)
    missing = seconds if read_only else min(seconds, 5)
    rows = {
        "attribute-expiration-sec": (str(seconds), f"in the kernel: {why}"),
        "entry-expiration-sec": (str(seconds), "the same for names"),
        "negative-entry-expiration-sec": (
            str(missing),
            "how long a name that was not there stays so"
            + ("" if read_only else ": short, as others wait for new files"),
        ),
    }
    yield from _section("libfuse", rows)


def _attribute_seconds(wanted: Wanted, *, read_only: bool) -> tuple[int, str]:
    if wanted.shared_write:
        return 1, "other machines write here too, so what is known is old at once"
    if read_only:
        return STEADY_SECONDS, "the data does not change while it is read"
    return 120, "this machine alone writes here"


def _file_cache(wanted: Wanted, room: _Room) -> Iterator[Line]:
    long = wanted.purpose in ("training", "inference")
    seconds = WEEK_SECONDS if long else 120
    kept = "a week: files go when the cache is full, not by age (full wins over this)"
    rows = {
        "path": (quoted(room.path), _where(room)),
        "timeout-sec": (str(seconds), kept if long else "what was written is soon not needed here"),
        "max-size-mb": (
            str(room.limit_mib),
            f"at most {USABLE_PERCENT}% of the disk, shared by {_mounts(wanted)};"
            " open files can go beyond it",
        ),
        "allow-non-empty-temp": (
            "true",
            "after a crash the folder is not empty; goes with the next",
        ),
        "cleanup-on-start": ("true", "and then what is left there is of no use"),
    }
    yield from _section("file_cache", rows)


def _mounts(wanted: Wanted) -> str:
    return "this mount alone" if wanted.mounts == 1 else f"{wanted.mounts} mounts"


def _where(room: _Room) -> str:
    kinds = {"local nvme": "local NVMe", "temp disk": "the temp disk, as there is no NVMe for it"}
    kind = kinds.get(room.space.role or "", "the disk that was asked for")
    return f"{kind} at {room.space.path}; no other mount may use this folder"


def _xload(room: _Room) -> Iterator[Line]:
    rows = {
        "path": (quoted(room.path), _where(room)),
        "export-progress": ("true", "`ai4infra mount up` and `status` read how far it is"),
        "validate-md5": ("true", "each file is checked once, where the blob has an MD5"),
        "cleanup-on-start": ("true", "a preload starts in an empty folder or not at all"),
    }
    yield from _section("xload", rows)


def _block_cache(wanted: Wanted, host: Host, room: _Room | None) -> Iterator[Line]:
    block, memory, prefetch = _memory(wanted, host)
    parallel = min(MAX_PARALLELISM, max(16, 3 * host.cpus))
    rows = {
        "block-size-mb": (str(block), "one request of the storage service reads one block"),
        "mem-size-mb": (
            str(memory),
            f"taken at the start, by each mount ({_mounts(wanted)}); unset, it is 60% or more",
        ),
        "prefetch": (
            str(prefetch),
            f"blocks read ahead of each file; at least {MIN_PREFETCH}, and all fit the memory",
        ),
        "parallelism": (
            str(parallel),
            f"downloads at once: 3 for each of {host.cpus} CPUs, in bounds",
        ),
    }
    if room:
        rows |= {
            "path": (quoted(room.path), _where(room)),
            "disk-size-mb": (str(room.limit_mib), f"at most {USABLE_PERCENT}% of the disk"),
            "disk-timeout-sec": (str(WEEK_SECONDS), "blocks go when the disk is full, not by age"),
            "cleanup-on-start": ("true", "it starts in an empty folder or not at all"),
        }
    yield from _section("block_cache", rows)


def _memory(wanted: Wanted, host: Host) -> tuple[int, int, int]:
    """Return MiB of a block, MiB of the pool, and blocks of prefetch."""
    share = host.available_mib * MEMORY_PERCENT // 100 // wanted.mounts
    pool = min(MAX_MEMORY_MIB, share)
    for block in BLOCK_MIB:
        if block * MIN_PREFETCH <= pool:
            # A quarter of the pool, so that several files are read ahead at a time.
            prefetch = min(max(MIN_PREFETCH, 2 * host.cpus), max(MIN_PREFETCH, pool // block // 4))
            return block, pool, prefetch
    raise UsageError(
        f"There is no memory for a block cache: {share:,} MiB for each of {wanted.mounts} mounts.",
        hint="--mode file-cache takes a disk instead; --mounts counts the mounts of this machine.",
    )


def _attributes(wanted: Wanted, *, read_only: bool) -> Iterator[Line]:
    seconds, why = _attribute_seconds(wanted, read_only=read_only)
    yield Line(section="attr_cache", key="timeout-sec", value=str(seconds), why=why)


def _storage(wanted: Wanted) -> Iterator[Line]:
    kind = ("adls", "has a hierarchical") if wanted.hns else ("block", "has a flat")
    rows = {
        "type": (
            kind[0],
            f"the account {kind[1]} namespace{_ends(wanted)}",
        ),
        "account-name": (quoted(wanted.account), "the account"),
        "container": (quoted(wanted.container), "the container"),
    }
    if wanted.subdirectory:
        rows["subdirectory"] = (quoted(wanted.subdirectory), "only this folder of it")
    if wanted.endpoint:
        rows["endpoint"] = (quoted(wanted.endpoint), "the account is outside *.core.windows.net")
    rows["mode"] = ("msi", "a managed identity: no key and no SAS, here or anywhere")
    if wanted.identity:
        key = _identity_key(wanted.identity) or "appid"
        rows[key] = (quoted(wanted.identity), "which one: a VM may have several")
    if not wanted.hns:
        rows["virtual-directory"] = ("true", "folders exist without marker blobs")
    yield from _section("azstorage", rows)


def _ends(wanted: Wanted) -> str:
    return "; private endpoints have to be for blob and for dfs" if wanted.hns else ""


def _notes(wanted: Wanted, mode: Cache, room: _Room | None) -> Iterator[str]:
    if room is not None:
        yield "The cache is emptied at unmount; to keep data on the disk, copy it with AzCopy."
        if room.space.on_os_disk:
            yield f"{room.path} is on the OS disk: slow, and shared with the system."
    elif wanted.cache is not None:
        yield f"--cache is not used: a block cache for {wanted.purpose} is in memory alone."
    if mode == "preload":
        yield "A preload does not see what changes in the container; mount again for that."
    if wanted.identity is None:
        yield "No --identity: it works where the VM has a single identity."
    if wanted.shared_write:
        yield "Several machines must not write to one file: BlobFuse2 is no cluster filesystem."


# --- text


def quoted(text: str) -> str:
    """Return a string as a YAML scalar that is always a string."""
    return "'" + text.replace("'", "''") + "'"


_SECTIONS = {
    "logging": "where trouble is told",
    "libfuse": "what the kernel remembers",
    "file_cache": "whole files on a local disk",
    "block_cache": "blocks of files in memory",
    "xload": "everything, downloaded at the mount",
    "attr_cache": "what BlobFuse2 remembers of names, sizes and dates",
    "azstorage": "what is mounted, and who asks for it",
}


def _text(config: Config) -> Iterator[str]:
    source = reference().reference
    yield f"# {config.mode}: {config.reason}."
    yield f"# For BlobFuse2 {source.minimum} and newer, by the reference of {source.version}."
    section = ""
    for line in config.lines:
        if line.section != section:
            section = line.section
            yield ""
            yield f"{section}:  # {_SECTIONS[section]}"
        indent = "  " if section else ""
        yield f"{indent}# {line.why}"
        yield f"{indent}{line.key}: {line.value}"


def caches_overlap(one: str, other: str) -> bool:
    """Tell whether two cache folders are one, or one lies in the other."""
    return is_below(one, other) or is_below(other, one)
