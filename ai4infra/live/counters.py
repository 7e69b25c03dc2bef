"""Turns two readings of the kernel's counters into what happened between them. Pure.

Sources: ``Documentation/admin-guide/iostats.rst`` of the kernel for ``/proc/diskstats``, proc(5)
for the rest. A counter that went backwards (a device that was replaced, a 32-bit counter that
wrapped) makes the whole reading unknown rather than wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample

SECTOR_BYTES = 512
"""``/proc/diskstats`` counts sectors of this size whatever the disk's own is."""
_MILLI = 1e-3


class DiskCount(NamedTuple):
    """The counters of one block device since boot."""

    reads: int
    read_sectors: int
    read_ms: int
    writes: int
    write_sectors: int
    write_ms: int
    busy_ms: int
    queue_ms: int


class CpuCount(NamedTuple):
    """Clock ticks of all CPUs since boot."""

    user: int
    system: int
    idle: int
    iowait: int
    steal: int


class NetCount(NamedTuple):
    """Bytes of one interface since it came up."""

    received: int
    sent: int


class ProcessStat(NamedTuple):
    """What ``/proc/PID/stat`` says of a process."""

    name: str
    state: str
    parent: int
    cpu_ticks: int
    started: int
    blocked_ticks: int
    """Ticks blocked on block devices; stays 0 where delay accounting is off."""


def parse_diskstats(text: str, wanted: Collection[str]) -> dict[str, DiskCount]:
    """Return the counters of the wanted devices; lines that cannot be read are passed over."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or words[2] not in wanted:
            continue
        try:
            n = [int(word) for word in words[3:14]]
        except ValueError:
            continue
        found[words[2]] = DiskCount(n[0], n[2], n[3], n[4], n[6], n[7], n[9], n[10])
    return found


def parse_cpu(text: str) -> CpuCount | None:
    """Return the counters of all CPUs from ``/proc/stat``; None when its first line is none."""
    words = text.partition("\n")[0].split()
    if len(words) < 5 or words[0] != "cpu":
        return None
    try:
        n = [int(word) for word in words[1:]]
    except ValueError:
        return None
    n += [0] * (8 - len(n))
    # Guests are counted in user and nice already.
    return CpuCount(user=n[0] + n[1], system=n[2] + n[5] + n[6], idle=n[3], iowait=n[4], steal=n[7])


def parse_net(text: str, wanted: Collection[str]) -> dict[str, NetCount]:
    """Return the counters of the wanted interfaces from ``/proc/net/dev``."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or name.strip() not in wanted or len(words) < 9:
            continue
        try:
            found[name.strip()] = NetCount(received=int(words[0]), sent=int(words[8]))
        except ValueError:
            continue
    return found


def parse_process(text: str) -> ProcessStat | None:
    """Return what ``/proc/PID/stat`` says; a name may have blanks and brackets in it."""
    opened, closed = text.find("("), text.rfind(")")
    words = text[closed + 1 :].split()
    if opened < 0 or len(words) < 40:
        return None
    try:
        return ProcessStat(
            name=text[opened + 1 : closed],
            state=words[0],
            parent=int(words[1]),
            cpu_ticks=int(words[11]) + int(words[12]),
            started=int(words[19]),
            blocked_ticks=int(words[39]),
        )
    except ValueError:
        return None


def parse_read_bytes(text: str) -> int | None:
    """Return what a process has read with read(2) and its kin, cached or not (``rchar``)."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "rchar" and value.strip().isdigit():
            return int(value)
    return None


def disk_sample(
    device: str, before: DiskCount, after: DiskCount, seconds: float, time_s: float
) -> DiskSample | None:
    """Return what a disk did between two readings; None when a counter went backwards."""
    d = DiskCount(*(b - a for a, b in zip(before, after, strict=True)))
    if min(d) < 0 or seconds <= 0:
        return None
    return DiskSample(
        time_s=time_s,
        device=device,
        reads_s=d.reads / seconds,
        writes_s=d.writes / seconds,
        read_bytes_s=d.read_sectors * SECTOR_BYTES / seconds,
        write_bytes_s=d.write_sectors * SECTOR_BYTES / seconds,
        read_wait_s=d.read_ms * _MILLI / d.reads if d.reads else None,
        write_wait_s=d.write_ms * _MILLI / d.writes if d.writes else None,
        queue=d.queue_ms * _MILLI / seconds,
        busy=min(1.0, d.busy_ms * _MILLI / seconds),
    )


def cpu_sample(before: CpuCount, after: CpuCount, time_s: float) -> CpuSample | None:
    """Return how the CPUs spent their time between two readings."""
    d = CpuCount(*(b - a for a, b in zip(before, after, strict=True)))
    # The kernel's own idle and iowait may step back by a tick or two.
    d = d._replace(idle=max(0, d.idle), iowait=max(0, d.iowait))
    total = sum(d)
    if min(d) < 0 or total == 0:
        return None
    return CpuSample(
        time_s=time_s,
        cpu="all",
        user=d.user / total,
        system=d.system / total,
        iowait=d.iowait / total,
        steal=d.steal / total,
        idle=d.idle / total,
    )


def net_sample(
    interface: str, before: NetCount, after: NetCount, seconds: float, time_s: float
) -> NetSample | None:
    """Return what went through an interface between two readings."""
    received, sent = after.received - before.received, after.sent - before.sent
    if received < 0 or sent < 0 or seconds <= 0:
        return None
    return NetSample(
        time_s=time_s,
        interface=interface,
        received_bytes_s=received / seconds,
        sent_bytes_s=sent / seconds,
    )


def counted_interfaces(
    masters: Mapping[str, str | None], physical: Collection[str]
) -> tuple[str, ...]:
    """Return the interfaces whose traffic counts once.

    ``masters`` has every interface with the one that it is enslaved to. A virtual function of
    accelerated networking is left out: its synthetic parent counts its traffic too. Where there is
    hardware, what is purely virtual (bridges, containers' pairs) is left out for the same reason.
    """
    single = [name for name, master in masters.items() if name != "lo" and master is None]
    hardware = [name for name in single if name in physical]
    return tuple(sorted(hardware or single))
