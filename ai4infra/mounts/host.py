"""A machine as a value: CPUs, memory, filesystems with what they lie on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ai4infra.model import Record
from ai4infra.mounts.disks import Layout, Role
from ai4infra.mounts.live import Mount, mount_of

_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")


class Space(Record, frozen=True):
    """A mounted filesystem, its size, and what it lies on; None means unknown."""

    path: str
    device: str
    fstype: str
    size_mib: int | None
    free_mib: int | None
    role: Role | None
    root: bool
    """True for the filesystem of ``/``."""

    @property
    def on_os_disk(self) -> bool:
        """True for the root and for every other filesystem of the OS disk."""
        return self.root or self.role == "os disk"

    @property
    def in_memory(self) -> bool:
        """True for a filesystem in memory."""
        return self.fstype in _MEMORY_FILESYSTEMS


class Host(Record, frozen=True):
    """A machine that mounts."""

    cpus: int
    memory_mib: int
    available_mib: int
    """Memory that can be had without swapping (``MemAvailable``)."""
    layout: Layout
    mounts: tuple[Mount, ...]
    spaces: tuple[Space, ...]

    def space_of(self, path: str) -> Space | None:
        """Return the filesystem that holds a path by name; links have to be resolved before."""
        mount = mount_of(path, self.mounts)
        return next((s for s in self.spaces if mount and s.path == mount.path), None)

    def cache_spaces(self) -> tuple[Space, ...]:
        """Return what is fit for a cache: mounted local NVMe, then the temp disk; larger first."""
        ranked: dict[str | None, int] = {"local nvme": 0, "temp disk": 1}
        fit = [s for s in self.spaces if s.role in ranked and s.size_mib]
        return tuple(sorted(fit, key=lambda s: (ranked[s.role], -(s.size_mib or 0), s.path)))


def parse_meminfo(text: str) -> tuple[int, int]:
    """Return total and available memory in MiB from ``/proc/meminfo``; 0 where it is silent."""
    found = {name: int(kib) // 1024 for name, kib in _MEMINFO.findall(text)}
    total = found.get("MemTotal", 0)
    return total, found.get("MemAvailable", found.get("MemFree", 0))


def spaces(
    mounts: Iterable[Mount], found: Layout, sizes: Mapping[str, tuple[int, int]]
) -> tuple[Space, ...]:
    """Return the filesystems of a machine; ``sizes`` are MiB in all and free, by mount path."""
    last = {mount.path: mount for mount in mounts}
    return tuple(
        Space(
            path=path,
            device=mount.device,
            fstype=mount.fstype,
            size_mib=sizes[path][0] if path in sizes else None,
            free_mib=sizes[path][1] if path in sizes else None,
            role=found.role_of(mount),
            root=path == "/",
        )
        for path, mount in last.items()
    )
