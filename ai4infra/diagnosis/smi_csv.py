"""Read what ``nvidia-smi --query-gpu=… --format=csv`` prints, by the names in its header.

Cells carry their unit (``26 %``, ``83.92 W``) unless ``nounits`` was asked for; ``[N/A]`` and the
like are unknown. Without a header (``noheader``) nobody can tell which column is which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ai4infra.diagnosis.dmon import remark
from ai4infra.diagnosis.samples import GpuSample, Notes
from ai4infra.diagnosis.text import KIB, MIB, Clock, number, whole_lines

_UNITS = {"%": 1.0, "MiB": MIB, "KiB": KIB, "GiB": MIB * 1024, "W": 1.0, "MHz": 1.0, "": 1.0}
_GPU_NAMES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial", "serial")
_UTILIZATION = "utilization.gpu"
_MEASURED = (_UTILIZATION, "utilization.memory", "memory.used", "power.draw", "temperature.gpu")


class _Column(NamedTuple):
    at: int
    unit: str


def is_header(line: str) -> bool:
    """Tell whether a line is the header of such a log."""
    if not any(name in line.casefold() for name in _MEASURED):
        return False
    names = set(_columns(line))
    return bool(names & {*_MEASURED}) and "pid" not in names


def read_smi_csv(lines: Iterable[str], notes: Notes) -> Iterator[GpuSample]:
    """Yield the samples of a query log, line by line."""
    clock = Clock()
    columns: dict[str, _Column] = {}
    for line in whole_lines(lines, notes):
        cells = [cell.strip() for cell in line.split(",")]
        if is_header(line):
            columns = _columns(line)
        elif columns and len(cells) == len(columns):
            yield _sample(cells, columns, clock, notes)
        elif line.strip():
            remark(line, notes)


def _columns(line: str) -> dict[str, _Column]:
    """Return name to place and unit: ``utilization.gpu [%]`` is in percent."""
    found: dict[str, _Column] = {}
    for at, cell in enumerate(line.split(",")):
        name, _, unit = cell.strip().partition("[")
        name = name.strip().casefold().lstrip("\ufeff")
        # A column that was asked for twice keeps its place, so that rows are still as wide.
        found[f"{name}#{at}" if name in found else name] = _Column(at, unit.rstrip("] "))
    return found


def _sample(cells: list[str], columns: dict[str, _Column], clock: Clock, notes: Notes) -> GpuSample:
    def text(name: str) -> str:
        return cells[columns[name].at] if name in columns else ""

    def value(*names: str) -> float | None:
        column = next((columns[name] for name in names if name in columns), None)
        return _value(cells[column.at], column.unit or _default_unit(names[0])) if column else None

    notes.gpu_model = notes.gpu_model or text("name") or text("gpu_name") or None
    return GpuSample(
        time_s=_time(text("timestamp"), clock, notes),
        gpu=_gpu(cells, columns),
        utilization=_most_one(value(_UTILIZATION)),
        memory_activity=_most_one(value("utilization.memory")),
        memory_used_bytes=value("memory.used"),
        power_w=value("power.draw", "power.draw.average", "power.draw.instant"),
        power_limit_w=value("enforced.power.limit", "power.limit"),
        sm_clock_mhz=value(
            "clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics"
        ),
        mig=_enabled(text("mig.mode.current")),
    )


def _default_unit(name: str) -> str:
    """Return the unit that a column has under ``nounits``, where the header still names none."""
    if name.startswith("utilization"):
        return "%"
    return "MiB" if name.startswith("memory") else ""


def _value(cell: str, unit: str) -> float | None:
    text, _, own = cell.partition(" ")
    value = number(text)
    scale = _UNITS.get(own or unit)
    if value is None or scale is None:
        return None
    return value / 100 if (own or unit) == "%" else value * scale


def _most_one(value: float | None) -> float | None:
    return None if value is None else min(value, 1.0)


def _gpu(cells: list[str], columns: dict[str, _Column]) -> str:
    for name in _GPU_NAMES:
        if name in columns and cells[columns[name].at]:
            return cells[columns[name].at]
    return "?"


def _enabled(cell: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(cell.casefold())


def _time(cell: str, clock: Clock, notes: Notes) -> float | None:
    """Return the seconds of ``2026/01/05 08:47:16.977``; milliseconds order GPUs, nothing else."""
    day, _, time = cell.partition(" ")
    seconds = clock.on_date(day, time) if time else clock.of(cell)
    if not notes.days and clock.first_day is not None:
        notes.days = frozenset([clock.first_day])
    return seconds
