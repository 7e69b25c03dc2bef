"""What the sums say of disks, network and CPUs: means, and what each device could do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ai4infra.diagnosis.rules import Limits, Rules
from ai4infra.diagnosis.samples import DiskClass, Host
from ai4infra.diagnosis.series import Collector, Kind, Series, Stats, window
from ai4infra.model import GpuFacts

_NAMESPACE = re.compile(r"nvme\d+n(\d+)", re.ASCII)
_PARTITION = re.compile(r"(.*\d)p\d+|(.*[a-z])\d+")


class Disk(NamedTuple):
    """One block device over the judged time; None is unknown."""

    device: str
    disk_class: DiskClass | None
    nvme: bool
    read_bytes_s: float | None
    write_bytes_s: float | None
    reads_s: float | None
    wait_s: float | None
    """Of reads; of all requests where they are not told apart and most are reads."""
    queue: float | None
    busy: float | None
    ceiling_bytes_s: float | None
    told: bool
    """True where reads are told from writes."""


class Net(NamedTuple):
    """The network over the judged time, virtual functions counted once."""

    interfaces: tuple[str, ...]
    received_bytes_s: float | None
    sent_bytes_s: float | None
    ceiling_bytes_s: float | None


class Cpu(NamedTuple):
    """The CPUs over the judged time."""

    busy: float | None
    """Share of all cores that computed; steal included, waiting not."""
    iowait: float | None
    steal: float | None
    cpus: int | None

    @property
    def iowait_cores(self) -> float | None:
        """About how many tasks waited for a disk."""
        if self.iowait is None or self.cpus is None:
            return None
        return self.iowait * self.cpus


class Process(NamedTuple):
    """A process over the judged time."""

    name: str
    role: str
    cpu_cores: float | None
    io_wait: float | None
    read_bytes_s: float | None


class Observed(NamedTuple):
    """Everything beside the GPUs."""

    disks: tuple[Disk, ...] | None
    """None when nobody looked at disks."""
    net: Net | None
    cpu: Cpu | None
    processes: tuple[Process, ...]
    aligned: bool
    """True when all of it was seen on the clock of the GPUs."""


def observe(
    collected: Collector,
    spans: Mapping[Kind, range | None],
    host: Host,
    size: GpuFacts | None,
    rules: Rules,
    *,
    aligned: bool,
) -> Observed:
    """Return what the other sources say over the judged time."""

    def of(kind: Kind) -> Mapping[str, Stats]:
        return window(collected.series[kind], spans.get(kind))

    return Observed(
        disks=disks(of("disk"), host, size, rules),
        net=network(of("net"), host, size, rules),
        cpu=cpu(of("cpu"), host),
        processes=tuple(
            Process(
                name,
                collected.roles.get(name, "loader"),
                stats.mean("cpu_cores"),
                stats.mean("io_wait"),
                stats.mean("read_bytes_s"),
            )
            for name, stats in of("process").items()
        ),
        aligned=aligned,
    )


def disks(
    stats: Mapping[str, Stats], host: Host, size: GpuFacts | None, rules: Rules
) -> tuple[Disk, ...] | None:
    """Return the whole disks, without partitions and without what is stacked upon them."""
    if not stats:
        return None
    facts = {each.device: each for each in host.disks}
    found = []
    for name in whole_disks(stats, rules):
        known = facts.get(name)
        found.append(
            _disk(
                name,
                stats[name],
                known.disk_class if known else None,
                known.ceiling_bytes_s if known else None,
                size,
                nvme=_is_parallel(name, known.disk_class if known else None, rules),
            )
        )
    return tuple(found)


def _is_parallel(name: str, disk_class: DiskClass | None, rules: Rules) -> bool:
    """Tell local NVMe from managed disks, which newer sizes attach as namespaces 2 and up."""
    if disk_class is not None:
        return disk_class == "local-nvme"
    namespace = _NAMESPACE.fullmatch(name)
    return name.startswith(rules.nvme_devices) and (namespace is None or namespace[1] == "1")


def whole_disks(names: Iterable[str], rules: Rules) -> list[str]:
    """Return the devices that are counted: each byte once."""
    known = {name for name in names if not name.startswith(rules.ignored_devices)}
    plain = [name for name in known if not name.startswith(rules.stacked_devices)]
    return sorted(name for name in plain or known if _parent(name) not in known)


def _parent(name: str) -> str | None:
    match = _PARTITION.fullmatch(name)
    return (match[1] or match[2]) if match else None


def _disk(
    name: str,
    stats: Stats,
    disk_class: DiskClass | None,
    ceiling: float | None,
    size: GpuFacts | None,
    *,
    nvme: bool,
) -> Disk:
    read, written = stats.mean("read_bytes_s"), stats.mean("write_bytes_s")
    reads = stats.mean("reads_s")
    wait, queue = stats.mean("read_wait_s"), stats.mean("queue")
    if wait is None and (written or 0.0) <= (read if read is not None else 0.0):
        wait = stats.mean("wait_s")
    if queue is None and reads is not None and wait is not None:
        queue = reads * wait
    remote = disk_class in ("managed", "os", "remote-nvme", "hdd") or not (disk_class or nvme)
    if ceiling is None and remote and size and size.uncached_disk_mbytes_s:
        ceiling = size.uncached_disk_mbytes_s * 1e6
    return Disk(
        name,
        disk_class,
        nvme,
        read,
        written,
        reads if reads is not None else stats.mean("operations_s"),
        wait,
        queue,
        stats.mean("busy"),
        ceiling,
        read is not None or reads is not None,
    )


def network(
    stats: Mapping[str, Stats], host: Host, size: GpuFacts | None, rules: Rules
) -> Net | None:
    """Return what all interfaces together moved."""
    if not stats:
        return None
    names = once_each(stats, counted_interfaces(stats, host, rules))
    facts = [each.ceiling_bytes_s for each in host.interfaces if each.interface in names]
    known = [ceiling for ceiling in facts if ceiling is not None]
    ceiling = sum(known) if known else None
    if size and size.network_gbps:
        ceiling = size.network_gbps * 1e9 / 8
    return Net(
        tuple(names),
        _total(stats[name].mean("received_bytes_s") for name in names),
        _total(stats[name].mean("sent_bytes_s") for name in names),
        ceiling,
    )


def counted_interfaces(names: Iterable[str], host: Host, rules: Rules) -> list[str]:
    """Return the interfaces whose traffic is counted: no loopback, no virtual function twice."""
    outside = [name for name in names if not name.startswith(rules.ignored_interfaces)]
    children = {each.interface for each in host.interfaces if each.parent in outside}
    virtual = {name for name in outside if name.startswith(rules.virtual_functions)}
    if set(outside) - virtual:
        children |= virtual
    return sorted(set(outside) - children)


def once_each(stats: Mapping[str, Stats], names: Sequence[str]) -> list[str]:
    """Leave out interfaces that count the same bytes as one before them.

    Older images call the virtual function of accelerated networking ``eth1``.
    """
    kept: list[str] = []
    for name in names:
        if not any(_same_traffic(stats[name], stats[other]) for other in kept):
            kept.append(name)
    return kept


def _same_traffic(one: Stats, other: Stats) -> bool:
    for field in ("received_bytes_s", "sent_bytes_s"):
        here, there = one.mean(field), other.mean(field)
        if here is None or there is None or abs(here - there) > _SAME * max(here, there):
            return False
    return (one.mean("received_bytes_s") or 0.0) + (one.mean("sent_bytes_s") or 0.0) > _SOME_BYTES


_SAME, _SOME_BYTES = 0.02, 1e6


def cpu(stats: Mapping[str, Stats], host: Host) -> Cpu | None:
    """Return what all CPUs did together."""
    if not stats:
        return None
    chosen = [stats["all"]] if "all" in stats else list(stats.values())
    single = sum(name.isdigit() for name in stats)

    def mean(field: str) -> float | None:
        return _mean([value for each in chosen if (value := each.mean(field)) is not None])

    idle, iowait = mean("idle"), mean("iowait")
    busy = None if idle is None else min(1.0, max(0.0, 1 - idle - (iowait or 0.0)))
    return Cpu(busy, iowait, mean("steal"), host.cpus or single or None)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def writing_spans(collected: Collector, rules: Rules) -> dict[int, float]:
    """Return how many bytes a second were written in each span, to disks or out of the machine.

    What came in over the network and goes to a disk fills a cache: it is no checkpoint.
    """
    found = {span: -received for span, received in _received(collected, rules).items()}
    for series, read, write in (
        (collected.series["disk"], "read_bytes_s", "write_bytes_s"),
        (collected.series["net"], "received_bytes_s", "sent_bytes_s"),
    ):
        for span, row in series.cells.items():
            found[span] = found.get(span, 0.0) + _written(series, row, read, write, rules)
    return found


def _received(collected: Collector, rules: Rules) -> dict[int, float]:
    """Return how many bytes a second came in, in spans in which hardly anything went out."""
    series = collected.series["net"]
    found = {}
    for span, row in series.cells.items():
        stats = {name: Stats("net", cell) for name, cell in row.items()}
        names = once_each(stats, counted_interfaces(stats, Host(), rules))
        received = _total(stats[name].mean("received_bytes_s") for name in names) or 0.0
        sent = _total(stats[name].mean("sent_bytes_s") for name in names) or 0.0
        found[span] = received if received > rules.limits.net_one_way * sent else 0.0
    return found


def moving_spans(series: Series, subjects: Sequence[str], limits: Limits) -> set[int]:
    """Return the spans in which something was read from disks, or received by interfaces."""
    if series.kind == "disk":
        least = {"read_bytes_s": limits.disk_read_bytes, "reads_s": limits.disk_reads}
    else:
        least = {"received_bytes_s": limits.net_feed_bytes}
    found = set()
    for span, row in series.cells.items():
        known = [Stats(series.kind, row[name]) for name in subjects if name in row]
        for field, floor in least.items():
            if (_total(stats.mean(field) for stats in known) or 0.0) >= floor:
                found.add(span)
    return found


def _written(
    series: Series, row: Mapping[str, list[float]], read: str, write: str, rules: Rules
) -> float:
    """Return the bytes written in a span where writing is most of what was done."""
    stats = {name: Stats(series.kind, cell) for name, cell in row.items()}
    if series.kind == "disk":
        names = whole_disks(stats, rules)
    else:
        names = once_each(stats, counted_interfaces(stats, Host(), rules))
    written = _total(stats[name].mean(write) for name in names) or 0.0
    done = _total(stats[name].mean(read) for name in names) or 0.0
    return written if written > rules.limits.net_one_way * done else 0.0
