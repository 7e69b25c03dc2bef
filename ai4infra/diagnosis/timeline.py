"""Summed samples as lines to draw, a few hundred points each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ai4infra.diagnosis.series import Collector, Series, Stats, add, window
from ai4infra.model import Record

MAX_BINS = 480
"""As many points as a page can show."""
Kind = Literal["gpu", "disk", "net", "cpu"]
_KINDS: tuple[Kind, ...] = ("gpu", "disk", "net", "cpu")


class Curve(Record, frozen=True, kw_only=True):
    """One value over time; None where nothing was sampled."""

    kind: Kind
    name: str
    """GPU, device or interface; ``busy`` and ``waiting`` of CPUs."""
    values: tuple[float | None, ...]
    """Of GPUs and CPUs a share of one, else bytes a second."""

    @property
    def mean(self) -> float | None:
        """Mean over the bins that have a value."""
        known = [value for value in self.values if value is not None]
        return sum(known) / len(known) if known else None

    @property
    def peak(self) -> float:
        """Largest value; 0 where there is none."""
        return max((value for value in self.values if value is not None), default=0.0)


class Drawn(Record, frozen=True, kw_only=True):
    """All curves, over the same time."""

    bin_s: float
    bins: int
    begin_s: float
    """Time of the first bin, on the samples' clock."""
    clocked: bool
    """False when a source did not say when: then each kind begins at the left."""
    curves: tuple[Curve, ...]

    def of(self, kind: Kind) -> tuple[Curve, ...]:
        """Return the curves of one kind, in the order of their names."""
        return tuple(curve for curve in self.curves if curve.kind == kind)


def draw(collected: Collector) -> Drawn:
    """Return what was collected as curves."""
    series = [collected.series[kind] for kind in _KINDS]
    full = [s for s in series if s.cells]
    clocked = all(s.timed for s in full)
    begins = {s.kind: min(s.cells) * s.span_s for s in full}
    if clocked and begins:
        begins = dict.fromkeys(begins, min(begins.values()))
    width = _width(full, begins)
    bins = max((_bin(s, max(s.cells), begins[s.kind], width) + 1 for s in full), default=0)
    return Drawn(
        bin_s=width,
        bins=bins,
        begin_s=min(begins.values(), default=0.0),
        clocked=clocked,
        curves=tuple(curve for s in full for curve in _curves(s, begins[s.kind], width, bins)),
    )


def _width(series: list[Series], begins: Mapping[Any, float]) -> float:
    """Return a width of bins at which all of the time fits in."""
    width = max((s.span_s for s in series), default=1.0)
    while any(_bin(s, max(s.cells), begins[s.kind], width) >= MAX_BINS for s in series):
        width *= 2
    return width


def _bin(series: Series, span: int, begin: float, width: float) -> int:
    return int((span * series.span_s - begin) // width)


def _curves(series: Series, begin: float, width: float, bins: int) -> Iterator[Curve]:
    rows = _binned(series, begin, width)
    for subject in sorted(window(series), key=_natural):
        cells = [rows.get(at, {}).get(subject) for at in range(bins)]
        for name, fields in _drawn_fields(series, subject):
            values = tuple(None if cell is None else _value(cell, fields) for cell in cells)
            if any(value is not None for value in values):
                yield Curve(kind=_kind(series), name=name, values=values)


def _kind(series: Series) -> Kind:
    return next(kind for kind in _KINDS if kind == series.kind)


def _binned(series: Series, begin: float, width: float) -> dict[int, dict[str, Stats]]:
    summed: dict[int, dict[str, list[float]]] = {}
    for span, row in series.cells.items():
        into = summed.setdefault(_bin(series, span, begin, width), {})
        for subject, cell in row.items():
            if subject in into:
                add(into[subject], cell)
            else:
                into[subject] = list(cell)
    return {
        at: {subject: Stats(series.kind, cell) for subject, cell in row.items()}
        for at, row in summed.items()
    }


def _drawn_fields(series: Series, subject: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the curves of a subject: their names, and the fields that add up to their value."""
    if series.kind == "cpu":
        # Single CPUs would be a bush; all together are told apart by what they did.
        everything = subject in ("all", "-1")
        return [("busy", ("user", "system")), ("waiting", ("iowait",))] if everything else []
    fields = {
        "gpu": ("utilization",),
        "disk": ("read_bytes_s",),
        "net": ("received_bytes_s",),
    }
    return [(subject, fields[series.kind])]


def _value(stats: Stats, fields: tuple[str, ...]) -> float | None:
    values = [stats.mean(field) for field in fields]
    if None not in values:
        return sum(value for value in values if value is not None)
    return stats.mean("total_bytes_s") if fields == ("read_bytes_s",) else None


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (10**9, name)
