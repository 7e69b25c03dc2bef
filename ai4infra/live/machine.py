"""Reads ``/proc`` and ``/sys``; both folders can be another machine's, captured."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample, ProcessSample
from ai4infra.live import counters
from ai4infra.live.counters import CpuCount, DiskCount, NetCount, ProcessStat

Role = Literal["loader", "trainer", "mount"]

TICKS_PER_SECOND = 100
"""``USER_HZ``: what proc(5) counts in on every architecture that Azure has."""
MAX_PROCESSES = 64
"""More loaders than this are not sampled: reading each of them costs."""
LOADER_NAMES = ("pt_data_worker", "pt_data_pin")
"""What PyTorch calls its data workers where NVML shows no trainer, as inside containers."""
MOUNT_NAMES = ("blobfuse2",)
_NO_DISK = re.compile(r"(?:loop|ram|zram|fd|sr)\d+")
_AMD, _NVIDIA = "0x1002", "0x10de"
_DISPLAY_CLASSES = ("0x03", "0x12")
_BLOCKED = "D"
_READ_BYTES = 65536
_REMOTE_WAITS = {
    "request_wait_answer": "a FUSE mount",
    "fuse_": "a FUSE mount",
    "rpc_wait": "an NFS mount",
    "nfs_": "an NFS mount",
    "wait_for_response": "an SMB mount",
    "cifs_": "an SMB mount",
}


class Watched(NamedTuple):
    """A process that is sampled, and why."""

    pid: int
    role: Role
    gpu: str | None


class _Seen(NamedTuple):
    """The counters of a process at one moment."""

    stat: ProcessStat
    read_bytes: int | None


class Reading(NamedTuple):
    """All counters at one moment."""

    at_s: float
    disks: dict[str, DiskCount]
    cpu: CpuCount | None
    net: dict[str, NetCount]
    processes: dict[int, _Seen]


class Kernel:
    """The counters of a machine."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc, self._sys = proc, sys
        accounting = _text(f"{proc}/sys/kernel/task_delayacct").strip()
        self.delays_counted = accounting != "0"
        self.look()

    def look(self) -> None:
        """Look which disks and interfaces there are now; some come while the machine runs."""
        sys = self._sys
        self.disks = frozenset(_names(sys / "block") - {*self._unwanted_disks()})
        masters = {name: self._master(name) for name in sorted(_names(sys / "class/net"))}
        hardware = {name for name in masters if (sys / "class/net" / name / "device").exists()}
        self.interfaces = counters.counted_interfaces(masters, hardware)
        self.parents = {name: master for name, master in masters.items() if master in masters}
        """Virtual functions, each with the interface that counts its traffic."""

    def read(self, at_s: float, processes: Iterable[int] = ()) -> Reading:
        """Read all counters now."""
        seen = {pid: found for pid in processes if (found := self._seen(pid))}
        return Reading(
            at_s=at_s,
            disks=counters.parse_diskstats(_text(f"{self._proc}/diskstats"), self.disks),
            cpu=counters.parse_cpu(_text(f"{self._proc}/stat")),
            net=counters.parse_net(_text(f"{self._proc}/net/dev"), self.interfaces),
            processes=seen,
        )

    def watched(self, trainers: dict[int, str]) -> tuple[Watched, ...]:
        """Return the processes to sample, given those that compute on a GPU.

        Everything that a trainer started is a loader of its GPU. The first ``MAX_PROCESSES`` are of
        every GPU's.
        """
        stats = {pid: stat for pid in self._pids() if (stat := self._stat(pid))}
        chosen = [Watched(pid, "trainer", gpu) for pid, gpu in trainers.items() if pid in stats]
        chosen += [
            Watched(pid, "mount", None)
            for pid, stat in stats.items()
            if stat.name in MOUNT_NAMES and pid not in trainers
        ]
        return (*chosen, *_by_turns(_loaders(stats, trainers)))

    def waits_for(self, pid: int) -> str | None:
        """Return the kind of remote mount that a blocked process waits for, None for others."""
        where = _text(f"{self._proc}/{pid}/wchan")
        return next((kind for start, kind in _REMOTE_WAITS.items() if start in where), None)

    def gpu_vendors(self) -> frozenset[str]:
        """Return the makers of the GPUs on the PCI bus: ``NVIDIA``, ``AMD``."""
        makers = set()
        for device in sorted((self._sys / "bus/pci/devices").glob("*")):
            if _text(f"{device}/class").startswith(_DISPLAY_CLASSES):
                makers.add({_AMD: "AMD", _NVIDIA: "NVIDIA"}.get(_text(f"{device}/vendor").strip()))
        return frozenset(maker for maker in makers if maker)

    def _unwanted_disks(self) -> Iterator[str]:
        yield from (name for name in _names(self._sys / "block") if _NO_DISK.fullmatch(name))

    def _master(self, name: str) -> str | None:
        link = self._sys / "class/net" / name / "master"
        return link.resolve().name if link.exists() else None

    def _pids(self) -> Iterator[int]:
        yield from sorted(int(name) for name in _names(self._proc) if name.isdigit())

    def _stat(self, pid: int) -> ProcessStat | None:
        return counters.parse_process(_text(f"{self._proc}/{pid}/stat"))

    def _seen(self, pid: int) -> _Seen | None:
        stat = self._stat(pid)
        if stat is None:
            return None
        read = counters.parse_read_bytes(_text(f"{self._proc}/{pid}/io"))
        return _Seen(stat, read)


def _loaders(stats: dict[int, ProcessStat], trainers: dict[int, str]) -> Iterator[Watched]:
    for pid, stat in stats.items():
        if pid in trainers or stat.name in MOUNT_NAMES:
            continue
        gpu = _gpu_of(pid, stats, trainers)
        if gpu is not None or stat.name in LOADER_NAMES:
            yield Watched(pid, "loader", gpu)


def _by_turns(loaders: Iterable[Watched]) -> Iterator[Watched]:
    """Yield a loader of each GPU, then a second one of each, and so on."""
    of_gpu: dict[str | None, list[Watched]] = {}
    for each in loaders:
        of_gpu.setdefault(each.gpu, []).append(each)
    for turn in zip_longest(*of_gpu.values()):
        yield from (each for each in turn if each is not None)


def _gpu_of(pid: int, stats: dict[int, ProcessStat], trainers: dict[int, str]) -> str | None:
    """Return the GPU of the nearest trainer above a process."""
    above: set[int] = set()
    while pid in stats and pid not in above:
        above.add(pid)
        pid = stats[pid].parent
        if pid in trainers:
            return trainers[pid]
    return None


def disk_samples(before: Reading, after: Reading) -> Iterator[DiskSample]:
    """Yield what the disks did between two readings; one that is new has no sample yet."""
    for name, now in after.disks.items():
        if name in before.disks:
            made = counters.disk_sample(
                name, before.disks[name], now, after.at_s - before.at_s, after.at_s
            )
            if made:
                yield made


def cpu_samples(before: Reading, after: Reading) -> Iterator[CpuSample]:
    """Yield what the CPUs did between two readings."""
    if before.cpu and after.cpu:
        made = counters.cpu_sample(before.cpu, after.cpu, after.at_s)
        if made:
            yield made


def net_samples(before: Reading, after: Reading) -> Iterator[NetSample]:
    """Yield what went through the interfaces between two readings."""
    for name, now in after.net.items():
        if name in before.net:
            made = counters.net_sample(
                name, before.net[name], now, after.at_s - before.at_s, after.at_s
            )
            if made:
                yield made


def process_samples(
    kernel: Kernel,
    watched: Iterable[Watched],
    before: Reading,
    after: Reading,
    say: Callable[[str], None],
) -> Iterator[ProcessSample]:
    """Yield what the watched processes did between two readings; ``say`` gets remarks."""
    for each in watched:
        old, new = before.processes.get(each.pid), after.processes.get(each.pid)
        # The same number with another start is another process.
        if old is None or new is None or old.stat.started != new.stat.started:
            continue
        seconds = after.at_s - before.at_s
        yield ProcessSample(
            time_s=after.at_s,
            pid=each.pid,
            name=new.stat.name,
            role=each.role,
            cpu_cores=_rate(old.stat.cpu_ticks, new.stat.cpu_ticks, seconds * TICKS_PER_SECOND),
            io_wait=_waited(kernel, each, old.stat, new.stat, seconds, say),
            read_bytes_s=_rate(old.read_bytes, new.read_bytes, seconds),
            gpu=each.gpu,
        )


def _waited(
    kernel: Kernel,
    process: Watched,
    old: ProcessStat,
    new: ProcessStat,
    seconds: float,
    say: Callable[[str], None],
) -> float | None:
    """Return the share of time that a process was blocked.

    Delay accounting knows of block devices only, and is off on most kernels. What a process does
    at the moment of a reading fills the gap: over many readings its mean is the share.
    """
    blocked = new.state == _BLOCKED
    remote = kernel.waits_for(process.pid) if blocked else None
    if remote:
        say(f"A {process.role} process was seen waiting for {remote}.")
        return 1.0
    if not kernel.delays_counted:
        return 1.0 if blocked else 0.0
    share = _rate(old.blocked_ticks, new.blocked_ticks, seconds * TICKS_PER_SECOND)
    return None if share is None else min(1.0, share)


def _rate(before: int | None, after: int | None, by: float) -> float | None:
    if before is None or after is None or after < before or by <= 0:
        return None
    return (after - before) / by


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError:
        return set()


def _text(file: str) -> str:
    """Return a file's text, empty when it is not there, not readable, or its process has ended."""
    # Half of what sampling costs is opening files: the plain calls take a third of pathlib's time.
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(opened, _READ_BYTES):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(opened)
