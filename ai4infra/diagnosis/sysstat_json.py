"""Read the JSON of iostat and mpstat (``-o JSON``) and of ``sadf -j``, whole or broken.

Releases print a comma too many (``-y``), no comma where one belongs, decimal commas, or no end
(SIGTERM). The document is therefore not read as a whole: its innermost objects are found one by
one, so that memory stays the same and what is not broken is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypeAlias

import msgspec

from ai4infra.diagnosis.iostat import FirstReport
from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample, Notes
from ai4infra.diagnosis.sysstat import Kind, SysstatSample
from ai4infra.diagnosis.text import KIB, MIB, SECTOR_BYTES, Clock

_MILLI, _PERCENT = 0.001, 0.01

_INNERMOST = re.compile(r"\{[^{}]*\}")
_TIMESTAMP = re.compile(r'"timestamp"\s*:\s*"([^"]{1,64})"')
_CPUS = re.compile(r'"number-of-cpus"\s*:\s*(\d{1,5})')
_OMITTED = re.compile(r'"statistics"\s*:\s*\[[ \t]*\r?\n[ \t]*(?:\r?\n|,)')
_CPU_LOAD = re.compile(r'"avg-cpu"\s*:\s*$')
_DECIMAL_COMMA = re.compile(r"(?<=:)(\s*\d+),(?=\d+\s*[,}])")
_SEPARATOR = 16
"""A comma, a line break and the indentation are no context."""
_REST = 1 << 20
"""More characters than this between two objects are nothing of sysstat's."""


def read_sysstat_json(chunks: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield the samples of a JSON report, given in lines or in pieces of any size."""
    reader = _Reader(notes)
    rest, depth = "", 0
    for chunk in chunks:
        line = chunk.strip(" \t\r\n,")
        # Most lines are one whole object; a pattern is needed for the others.
        if line[:1] == "{" and line.find("}") == len(line) - 1 and "{" not in line[1:]:
            if rest:
                yield from reader.context(rest)
                rest = ""
            else:
                reader.after_cpu_load = False
            yield from reader.object(line)
            continue
        rest += chunk
        depth += chunk.count("{") - chunk.count("}")
        if "}" not in chunk:
            rest = rest[-_REST:]
            continue
        end = 0
        for match in _INNERMOST.finditer(rest):
            if match.start() - end > _SEPARATOR:
                yield from reader.context(rest[end : match.start()])
            else:
                reader.after_cpu_load = False
            yield from reader.object(match[0])
            end = match.end()
        rest = rest[end:][-_REST:]
    notes.cut |= depth != 0
    yield from reader.first.end()


class _Reader:
    """What is known while the objects go by."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.first = FirstReport(notes)
        self.clock = Clock()
        self.time_s: float | None = None
        self.seen: set[tuple[Kind, str]] = set()
        self.iostat = False
        self.after_cpu_load = False

    def context(self, text: str) -> Iterator[SysstatSample]:
        """Take what stands between two objects: times, the machine, the signs of ``-y``."""
        if '"statistics"' in text:
            yield from self.first.end()
            self.seen.clear()
            self.first.omitted = bool(_OMITTED.search(text))
        if '"number-of-cpus"' in text and (cpus := _CPUS.search(text)):
            self.notes.cpus = int(cpus[1])
        if '"timestamp"' in text and (stamp := _TIMESTAMP.search(text)):
            self.time_s = self.clock.of(stamp[1])
        self.after_cpu_load = bool(_CPU_LOAD.search(text))

    def object(self, text: str) -> Sequence[SysstatSample]:
        """Take an object: a disk, an interface, a CPU, a time, or something else."""
        found = _decoded(text)
        if found is None:
            self.notes.skipped += 1
        elif found.time is not None:
            self.time_s = self.clock.of(f"{found.date or ''} {found.time}")
        elif (device := found.disk_device or found.sadf_device) is not None:
            return self._sample("disk", device, _disk(found, device, self.time_s))
        elif found.iface is not None and (found.rx_kib is not None or found.rx_bytes is not None):
            return self._sample("net", found.iface, _net(found, found.iface, self.time_s))
        elif found.idle is not None and (self.after_cpu_load or found.cpu is not None):
            cpu = "all" if found.cpu is None else str(found.cpu)
            return self._sample("cpu", cpu, _cpu(found, cpu, self.time_s))
        return ()

    def _sample(self, kind: Kind, name: str, built: SysstatSample) -> Sequence[SysstatSample]:
        # Only iostat begins with a report since boot, and only its rows lead to one.
        self.iostat |= kind == "disk" or self.after_cpu_load
        begun: Sequence[SysstatSample] = ()
        if not self.first.reports or (kind, name) in self.seen:
            begun = self.first.next_report()
            self.seen.clear()
        self.seen.add((kind, name))
        self.first.omitted |= not self.iostat
        kept = self.first.keep(built)
        return [*begun, *kept] if begun else kept


_Number: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e18)] | None


class _Object(msgspec.Struct):
    """Every field of sysstat's JSON that becomes part of a sample; sadf's names beside iostat's."""

    disk_device: str | None = None
    sadf_device: str | None = msgspec.field(default=None, name="disk-device")
    iface: str | None = None
    cpu: str | int | None = None
    time: str | None = None
    date: str | None = None
    reads: _Number = msgspec.field(default=None, name="r/s")
    writes: _Number = msgspec.field(default=None, name="w/s")
    tps: _Number = None
    r_sectors: _Number = msgspec.field(default=None, name="rsec/s")
    w_sectors: _Number = msgspec.field(default=None, name="wsec/s")
    r_kib: _Number = msgspec.field(default=None, name="rkB/s")
    w_kib: _Number = msgspec.field(default=None, name="wkB/s")
    r_mib: _Number = msgspec.field(default=None, name="rMB/s")
    w_mib: _Number = msgspec.field(default=None, name="wMB/s")
    basic_r_kib: _Number = msgspec.field(default=None, name="kB_read/s")
    basic_w_kib: _Number = msgspec.field(default=None, name="kB_wrtn/s")
    basic_r_mib: _Number = msgspec.field(default=None, name="MB_read/s")
    basic_w_mib: _Number = msgspec.field(default=None, name="MB_wrtn/s")
    sadf_r_kib: _Number = msgspec.field(default=None, name="rkB")
    sadf_w_kib: _Number = msgspec.field(default=None, name="wkB")
    sadf_r_sectors: _Number = msgspec.field(default=None, name="rd_sec")
    sadf_w_sectors: _Number = msgspec.field(default=None, name="wr_sec")
    all_kib: _Number = msgspec.field(default=None, name="kB/s")
    all_mib: _Number = msgspec.field(default=None, name="MB/s")
    r_await: _Number = None
    w_await: _Number = None
    all_await: _Number = msgspec.field(default=None, name="await")
    queue: _Number = msgspec.field(default=None, name="aqu-sz")
    old_queue: _Number = msgspec.field(default=None, name="avgqu-sz")
    util: _Number = None
    sadf_util: _Number = msgspec.field(default=None, name="util-percent")
    rx_kib: _Number = msgspec.field(default=None, name="rxkB")
    tx_kib: _Number = msgspec.field(default=None, name="txkB")
    rx_bytes: _Number = msgspec.field(default=None, name="rxbyt")
    tx_bytes: _Number = msgspec.field(default=None, name="txbyt")
    user: _Number = None
    usr: _Number = None
    nice: _Number = None
    guest: _Number = None
    gnice: _Number = None
    system: _Number = None
    sys: _Number = None
    irq: _Number = None
    soft: _Number = None
    iowait: _Number = None
    steal: _Number = None
    idle: _Number = None


_DECODER = msgspec.json.Decoder(_Object)


def _disk(o: _Object, device: str, time_s: float | None) -> DiskSample:
    util = o.sadf_util if o.util is None else o.util
    return DiskSample(
        time_s=time_s,
        device=device,
        reads_s=o.reads,
        writes_s=o.writes,
        operations_s=o.tps,
        read_bytes_s=_scaled(o.r_kib, KIB) if o.r_kib is not None else _read_bytes(o),
        write_bytes_s=_scaled(o.w_kib, KIB) if o.w_kib is not None else _write_bytes(o),
        total_bytes_s=_scaled(o.all_kib, KIB) if o.all_kib is not None else _scaled(o.all_mib, MIB),
        read_wait_s=_scaled(o.r_await, _MILLI),
        write_wait_s=_scaled(o.w_await, _MILLI),
        wait_s=_scaled(o.all_await, _MILLI) if o.r_await is None else None,
        queue=o.old_queue if o.queue is None else o.queue,
        busy=None if util is None else min(util * _PERCENT, 1.0),
    )


def _read_bytes(o: _Object) -> float | None:
    return _first(
        (o.r_mib, MIB),
        (o.basic_r_kib, KIB),
        (o.basic_r_mib, MIB),
        (o.sadf_r_kib, KIB),
        (o.r_sectors, SECTOR_BYTES),
        (o.sadf_r_sectors, SECTOR_BYTES),
    )


def _write_bytes(o: _Object) -> float | None:
    return _first(
        (o.w_mib, MIB),
        (o.basic_w_kib, KIB),
        (o.basic_w_mib, MIB),
        (o.sadf_w_kib, KIB),
        (o.w_sectors, SECTOR_BYTES),
        (o.sadf_w_sectors, SECTOR_BYTES),
    )


def _net(o: _Object, interface: str, time_s: float | None) -> NetSample:
    return NetSample(
        time_s=time_s,
        interface=interface,
        received_bytes_s=_first((o.rx_kib, KIB), (o.rx_bytes, 1.0)),
        sent_bytes_s=_first((o.tx_kib, KIB), (o.tx_bytes, 1.0)),
    )


def _cpu(o: _Object, cpu: str, time_s: float | None) -> CpuSample:
    return CpuSample(
        time_s=time_s,
        cpu=cpu,
        user=_percent(o.user, o.usr, o.nice, o.guest, o.gnice),
        system=_percent(o.system, o.sys, o.irq, o.soft),
        iowait=_percent(o.iowait),
        steal=_percent(o.steal),
        idle=_percent(o.idle),
    )


def _percent(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) * _PERCENT if known else None


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _first(*values: tuple[float | None, float]) -> float | None:
    return next((value * scale for value, scale in values if value is not None), None)


def _decoded(text: str) -> _Object | None:
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        return _DECODER.decode(_DECIMAL_COMMA.sub(r"\1.", text))
    except (msgspec.DecodeError, UnicodeError):
        return None
