"""Read what ``nvidia-smi dmon`` prints, by the names in its header.

Drivers differ in columns (``jpg``, ``ofa``, ``mtemp`` came later; ``-s`` and ``--gpm-metrics`` add
groups) and in the first words of the header; nvidia-smi(1) promises no stability. ``-`` is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ai4infra.diagnosis.samples import GpuSample, Notes
from ai4infra.diagnosis.text import MIB, Clock, Memo, whole_lines

_MISSING = "-"
_INSTANCE = ("mig", "gi", "gpuinst")
_LOST = re.compile(r"(?:GPU\s*|device\s+)(?P<gpu>[\dA-Fa-f:.]+)?.*\b(?:is lost|Unknown Error)", re.I)
_FAILED = re.compile(r"NVIDIA-SMI has failed|No devices were found|couldn't (?:find|communicate)", re.I)


class _Layout(NamedTuple):
    """Where a header has which column; -1 points to the ``-`` that is put behind every row."""

    width: int
    date: int
    time: int
    gpu: int
    instance: int
    utilization: int
    memory: int
    power: int
    used: int
    clock: int
    received: int


def read_dmon(lines: Iterable[str], notes: Notes) -> Iterator[GpuSample]:
    """Yield the samples of a dmon log, line by line; what is no row is counted or understood."""
    percent, watts, mib = Memo(0.01, most=1.0), Memo(1.0), Memo(MIB)
    clock = Clock()
    layout: _Layout | None = None
    for line in whole_lines(lines, notes):
        fields = line.split()
        if layout is None or len(fields) != layout.width or fields[0][0] == "#":
            layout = _other(line, fields, layout, notes)
            continue
        fields.append(_MISSING)
        gpu = fields[layout.gpu]
        if not gpu.isdigit():
            remark(line, notes)
            continue
        if layout.instance >= 0 and fields[layout.instance] != _MISSING:
            gpu = f"{gpu}/{fields[layout.instance]}"
        notes.rows += 1
        yield GpuSample(
            time_s=_seconds(clock, fields, layout) if layout.time >= 0 else None,
            gpu=gpu,
            utilization=percent[fields[layout.utilization]],
            memory_activity=percent[fields[layout.memory]],
            power_w=watts[fields[layout.power]],
            memory_used_bytes=mib[fields[layout.used]],
            sm_clock_mhz=watts[fields[layout.clock]],
            received_bytes_s=mib[fields[layout.received]],
        )


def _other(line: str, fields: list[str], layout: _Layout | None, notes: Notes) -> _Layout | None:
    """Take a line that is no row: a header, its units, a blank line, a remark, a cut row."""
    if not fields:
        return layout
    if not fields[0].startswith("#"):
        remark(line, notes)
        return layout
    names = line.replace("#", " ", 1).casefold().split()
    if "gpu" not in names or "idx" in names:
        return layout
    return _layout(names)


def _layout(names: list[str]) -> _Layout:
    def at(*wanted: str) -> int:
        return next((names.index(name) for name in wanted if name in names), -1)

    return _Layout(
        width=len(names),
        date=at("date"),
        time=at("time"),
        gpu=at("gpu"),
        instance=at(*_INSTANCE),
        utilization=at("sm", "gract", "smutil"),
        memory=at("mem"),
        power=at("pwr"),
        used=at("fb"),
        clock=at("pclk"),
        received=at("rxpci"),
    )


def _seconds(clock: Clock, fields: list[str], layout: _Layout) -> float | None:
    if layout.date < 0:
        return clock.of(fields[layout.time])
    return clock.on_date(fields[layout.date], fields[layout.time])


def remark(line: str, notes: Notes) -> None:
    """Understand what nvidia-smi says between rows; count what nobody understands."""
    lost = _LOST.search(line)
    if lost:
        notes.lost((lost["gpu"] or "?").rstrip(".:"), line.strip())
    elif _FAILED.search(line):
        notes.lost("driver", line.strip())
    else:
        notes.skipped += 1
