"""Read what ``nvidia-smi dmon`` prints, by the names in its header.

Drivers differ in columns (``jpg``, ``ofa``, ``mtemp`` came later; ``-s`` and ``--gpm-metrics`` add
groups) and in the first words of the header; nvidia-smi(1) promises no stability. ``-`` is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ai4infra.diagnosis.samples import GpuSample, Notes
from ai4infra.diagnosis.text import MIB, Clock, Memo

_MISSING = "-"
_INSTANCE = ("mig", "gi", "gpuinst")
_LOST = re.compile(r"\bGPU ?(?P<gpu>[\da-f:.]+)?[^\n]{0,80}(?:\bis lost|\bUnknown Error)", re.I)
_FAILED = re.compile(r"NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML", re.I)


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
    active: int


def read_dmon(lines: Iterable[str], notes: Notes) -> Iterator[GpuSample]:
    """Yield the samples of a dmon log, line by line; what is no row is counted or understood."""
    percent, plain, mib = Memo(1.0, most=1.0, divisor=100), Memo(1.0), Memo(MIB)
    clock = Clock()
    layout: _Layout | None = None
    width = date = time = gpu_at = instance = sm = mem = pwr = fb = pclk = rxpci = active = -1
    commas = False
    broken, last, time_s = False, "", None
    for line in lines:
        fields = (line.replace(",", " ") if commas else line).split()
        whole = line[-1:] == "\n"
        if broken and not whole:
            notes.cut = bool(fields)
            break
        if len(fields) != width or not fields[gpu_at].isdigit():
            broken = broken or whole
            layout = _other(line, fields, layout, notes)
            if layout is not None:
                width, date, time, gpu_at, instance, sm, mem, pwr, fb, pclk, rxpci, active = layout
            commas = commas or (line.startswith("#") and "," in line)
            continue
        if time >= 0 and fields[time] != last:
            last = fields[time]
            time_s = clock.of(last) if date < 0 else clock.on_date(fields[date], last)
            if not notes.days and clock.first_day is not None:
                notes.days = frozenset([clock.first_day])
        fields.append(_MISSING)
        yield GpuSample(
            time_s=time_s,
            gpu=fields[gpu_at] if instance < 0 else _instance(fields[gpu_at], fields[instance]),
            utilization=percent[fields[sm] if fields[sm] != _MISSING else fields[active]],
            memory_activity=percent[fields[mem]],
            power_w=plain[fields[pwr]],
            memory_used_bytes=mib[fields[fb]],
            sm_clock_mhz=plain[fields[pclk]],
            received_bytes_s=mib[fields[rxpci]],
        )


def _instance(gpu: str, instance: str) -> str:
    return gpu if instance == _MISSING else f"{gpu}/{instance}"


def _other(line: str, fields: list[str], layout: _Layout | None, notes: Notes) -> _Layout | None:
    """Take a line that is no row: a header, its units, a blank line, a remark, a cut row."""
    if not fields:
        return layout
    if not fields[0].startswith("#"):
        remark(line, notes)
        return layout
    names = header_names(line)
    return _layout(names) if names else layout


def header_names(line: str) -> list[str]:
    """Return the names in a header of dmon, by blanks or commas; none for any other line."""
    names = line.replace("#", " ", 1).replace(",", " ").casefold().split()
    if "gpu" not in names or not line.lstrip("\ufeff ").startswith("#"):
        return []
    # nvidia-smi pmon has one row for each process.
    return [] if "idx" in names or "pid" in names else names


def _layout(names: list[str]) -> _Layout:
    def at(*wanted: str) -> int:
        return next((names.index(name) for name in wanted if name in names), -1)

    return _Layout(
        width=len(names),
        date=at("date"),
        time=at("time"),
        gpu=at("gpu"),
        instance=at(*_INSTANCE),
        utilization=at("sm", "smutil"),
        memory=at("mem"),
        power=at("pwr"),
        used=at("fb"),
        clock=at("pclk"),
        received=at("rxpci"),
        active=at("gract"),
    )


def is_driver_message(line: str) -> bool:
    """Tell whether a line is what nvidia-smi says when it lost a GPU or has no driver."""
    return bool(_FAILED.search(line) or _LOST.search(line))


def remark(line: str, notes: Notes) -> None:
    """Understand what nvidia-smi says between rows; count what nobody understands."""
    lost = _LOST.search(line)
    if lost:
        notes.lost((lost["gpu"] or "?").rstrip(".:"), line.strip())
    elif _FAILED.search(line):
        notes.lost("driver", line.strip())
    else:
        notes.skipped += 1
