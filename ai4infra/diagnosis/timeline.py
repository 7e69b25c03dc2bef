"""Samples of any length summed up for drawing: a few hundred bins, constant memory. Pure."""

from __future__ import annotations

from typing import Literal

from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    NetSample,
    Sample,
)
from ai4infra.model import Record

MAX_BINS = 480
"""As many as a line of a page can show; when they are full, two become one."""
MAX_SERIES = 256
Kind = Literal["gpu", "disk", "net", "cpu"]
_KINDS: tuple[Kind, ...] = ("gpu", "disk", "net", "cpu")


class Series(Record, frozen=True, kw_only=True):
    """One value over time; None where nothing was sampled."""

    kind: Kind
    name: str
    """GPU, device or interface; ``busy`` and ``waiting`` of CPUs."""
    values: tuple[float | None, ...]

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
    """What a timeline holds, in the end."""

    bin_s: float
    bins: int
    begin_s: float
    clocked: bool
    """False when a source did not say when: positions then count samples, one a second."""
    series: tuple[Series, ...]

    def of(self, kind: Kind) -> tuple[Series, ...]:
        """Return the series of one kind, in the order of their names."""
        return tuple(s for s in self.series if s.kind == kind)


class Timeline:
    """Takes samples in any number, each kind in order of time."""

    def __init__(self, bin_s: float = 1.0) -> None:
        self._bin_s = bin_s
        self._begin: float | None = None
        self._sums: dict[tuple[Kind, str], dict[int, tuple[float, int]]] = {}
        self._unclocked: dict[tuple[str, str], int] = {}

    def add(self, sample: Sample) -> None:
        """Take one sample; kinds and values that are not drawn are passed over."""
        if isinstance(sample, GpuSample):
            self._put(
                "gpu", sample.gpu, self._at(sample.time_s, "gpu", sample.gpu), sample.utilization
            )
        elif isinstance(sample, DiskSample):
            value = sample.read_bytes_s if sample.read_bytes_s is not None else sample.total_bytes_s
            self._put("disk", sample.device, self._at(sample.time_s, "disk", sample.device), value)
        elif isinstance(sample, NetSample):
            at = self._at(sample.time_s, "net", sample.interface)
            self._put("net", sample.interface, at, sample.received_bytes_s)
        elif isinstance(sample, CpuSample) and sample.cpu in ("all", "-1"):
            self._cpu(sample)

    def drawn(self) -> Drawn:
        """Return what was taken so far."""
        bins = 1 + max((max(found) for found in self._sums.values() if found), default=-1)
        ordered = sorted(self._sums, key=lambda key: (_KINDS.index(key[0]), _natural(key[1])))
        return Drawn(
            bin_s=self._bin_s,
            bins=bins,
            begin_s=self._begin or 0.0,
            clocked=not self._unclocked,
            series=tuple(
                Series(kind=kind, name=name, values=_means(self._sums[kind, name], bins))
                for kind, name in ordered
            ),
        )

    def _cpu(self, sample: CpuSample) -> None:
        at = self._at(sample.time_s, "cpu", sample.cpu)
        if sample.user is not None and sample.system is not None:
            self._put("cpu", "busy", at, sample.user + sample.system)
        self._put("cpu", "waiting", at, sample.iowait)

    def _at(self, time_s: float | None, kind: str, name: str) -> float:
        """Return when a sample was taken, from the first one on."""
        if time_s is None:
            count = self._unclocked.get((kind, name), 0)
            if len(self._unclocked) < MAX_SERIES:
                self._unclocked[kind, name] = count + 1
            return float(count)
        if self._begin is None:
            self._begin = time_s
        return time_s - self._begin

    def _put(self, kind: Kind, name: str, at: float, value: float | None) -> None:
        if value is None or at < 0:
            return
        if (kind, name) not in self._sums and len(self._sums) >= MAX_SERIES:
            return
        while at // self._bin_s >= MAX_BINS:
            self._coarsen()
        found = self._sums.setdefault((kind, name), {})
        at_bin = int(at // self._bin_s)
        total, count = found.get(at_bin, (0.0, 0))
        found[at_bin] = (total + value, count + 1)

    def _coarsen(self) -> None:
        self._bin_s *= 2
        for key, found in self._sums.items():
            joined: dict[int, tuple[float, int]] = {}
            for at_bin, (total, count) in found.items():
                other, others = joined.get(at_bin // 2, (0.0, 0))
                joined[at_bin // 2] = (other + total, others + count)
            self._sums[key] = joined


def _means(found: dict[int, tuple[float, int]], bins: int) -> tuple[float | None, ...]:
    return tuple(found[i][0] / found[i][1] if i in found else None for i in range(bins))


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (10**9, name)
