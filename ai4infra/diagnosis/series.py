"""Samples summed up over time, in memory that does not grow with their number.

Each kind of sample has cells: a span of time, a subject (a GPU, a device), and sums. When there are
too many spans, neighbours are joined and spans become twice as long; which ones are joined depends
on the clock alone, so that the order of samples does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    NetSample,
    ProcessSample,
    Sample,
)

Kind = Literal["gpu", "disk", "net", "cpu", "process"]
KINDS: tuple[Kind, ...] = ("gpu", "disk", "net", "cpu", "process")
SPANS = 2048
"""Spans of one kind, at most: a second each for half an hour, five minutes each for a week."""
SUBJECTS = 512
"""Subjects of one kind, at most: what comes after is no machine's."""
LOW = 0.1
"""A GPU below this is waiting: the share of such samples shows bursts that a mean hides."""

Cell: TypeAlias = list[float]
"""Number of samples, then a sum and the number of unknown values for each field in turn."""

FIELDS: dict[Kind, tuple[str, ...]] = {
    "gpu": (
        "utilization",
        "memory_activity",
        "memory_used_bytes",
        "power_w",
        "power_limit_w",
        "low",
    ),
    "disk": (
        "reads_s",
        "writes_s",
        "operations_s",
        "read_bytes_s",
        "write_bytes_s",
        "total_bytes_s",
        "read_wait_s",
        "write_wait_s",
        "wait_s",
        "queue",
        "busy",
    ),
    "net": ("received_bytes_s", "sent_bytes_s"),
    "cpu": ("user", "system", "iowait", "steal", "idle"),
    "process": ("cpu_cores", "io_wait", "read_bytes_s"),
}
_PLACES: dict[Kind, dict[str, int]] = {
    kind: {field: 1 + 2 * at for at, field in enumerate(fields)} for kind, fields in FIELDS.items()
}


class Series:
    """All samples of one kind, summed up."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.span_s = 1.0
        self.cells: dict[int, dict[str, Cell]] = {}
        """Number of the span (its time over ``span_s``) to subject to cell."""
        self.timed = True
        """False where samples had no time: then spans count samples."""
        self._counts: dict[str, int] = {}
        self._size = 1 + 2 * len(FIELDS[kind])
        self._last_s = math.nan
        self._last_row: dict[str, Cell] = {}

    def cell(self, subject: str, time_s: float | None) -> Cell | None:
        """Return the cell that a sample belongs to; None for one subject too many."""
        if time_s is None:
            time_s = self._ordinal(subject)
        # GPUs of one reading have one time.
        row = self._last_row if time_s == self._last_s else self._row(time_s)
        found = row.get(subject)
        if found is None:
            if len(row) >= SUBJECTS:
                return None
            found = row[subject] = [0.0] * self._size
        found[0] += 1
        return found

    def _row(self, time_s: float) -> dict[str, Cell]:
        row = self.cells.setdefault(int(time_s // self.span_s), {})
        if len(self.cells) > SPANS:
            self._join()
            row = self.cells[int(time_s // self.span_s)]
        self._last_s, self._last_row = time_s, row
        return row

    def _ordinal(self, subject: str) -> float:
        self.timed = False
        count = self._counts.get(subject, 0)
        if count or len(self._counts) < SUBJECTS:
            self._counts[subject] = count + 1
        return float(count)

    def _join(self) -> None:
        while len(self.cells) > SPANS:
            self.widen(self.span_s * 2)

    def widen(self, span_s: float) -> None:
        """Make spans longer, by a power of two."""
        factor = round(span_s / self.span_s)
        joined: dict[int, dict[str, Cell]] = {}
        for span, row in self.cells.items():
            into = joined.setdefault(span // factor, {})
            for subject, cell in row.items():
                add(into.setdefault(subject, [0.0] * self._size), cell)
        self.cells, self.span_s = joined, span_s
        self._last_s = math.nan


def add(into: Cell, cell: Cell) -> None:
    """Add a cell to another."""
    for at, value in enumerate(cell):
        into[at] += value


class Collector:
    """Takes samples one by one and keeps their sums."""

    def __init__(self) -> None:
        self.series: dict[Kind, Series] = {kind: Series(kind) for kind in KINDS}
        self.mig: set[str] = set()
        """GPUs that are split (MIG)."""
        self.roles: dict[str, str] = {}
        """Process to what it does: loader, trainer, mount."""
        self._take: dict[type[Any], Callable[[Any], None]] = {
            GpuSample: self._gpu,
            DiskSample: self._disk,
            NetSample: self._net,
            CpuSample: self._cpu,
            ProcessSample: self._process,
        }

    def extend(self, samples: Iterable[Sample]) -> None:
        """Take samples."""
        take = self._take
        for sample in samples:
            take[type(sample)](sample)

    def _gpu(self, sample: GpuSample) -> None:
        cell = self.series["gpu"].cell(sample.gpu, sample.time_s)
        if cell is None:
            return
        if sample.mig:
            self.mig.add(sample.gpu)
        # Written out, because a week of eight GPUs is five million of these.
        if (utilization := sample.utilization) is None:
            cell[2] += 1
            cell[12] += 1
        else:
            cell[1] += utilization
            if utilization < LOW:
                cell[11] += 1
        if (activity := sample.memory_activity) is None:
            cell[4] += 1
        else:
            cell[3] += activity
        if (used := sample.memory_used_bytes) is None:
            cell[6] += 1
        else:
            cell[5] += used
        if (power := sample.power_w) is None:
            cell[8] += 1
        else:
            cell[7] += power
        if (limit := sample.power_limit_w) is None:
            cell[10] += 1
        else:
            cell[9] += limit

    def _disk(self, sample: DiskSample) -> None:
        cell = self.series["disk"].cell(sample.device, sample.time_s)
        if cell is None:
            return
        _sum(cell, sample, FIELDS["disk"][:6], 1)
        # A device without a request has no waiting time: it prints 0.00, which is unknown.
        waits = (
            sample.read_wait_s if sample.reads_s else None,
            sample.write_wait_s if sample.writes_s else None,
            sample.wait_s if _operations(sample) else None,
        )
        for at, wait in zip((13, 15, 17), waits, strict=True):
            if wait is None:
                cell[at + 1] += 1
            else:
                cell[at] += wait
        _sum(cell, sample, FIELDS["disk"][9:], 19)

    def _net(self, sample: NetSample) -> None:
        cell = self.series["net"].cell(sample.interface, sample.time_s)
        if cell is not None:
            _sum(cell, sample, FIELDS["net"], 1)

    def _cpu(self, sample: CpuSample) -> None:
        cell = self.series["cpu"].cell(sample.cpu, sample.time_s)
        if cell is not None:
            _sum(cell, sample, FIELDS["cpu"], 1)

    def _process(self, sample: ProcessSample) -> None:
        name = f"{sample.name} ({sample.pid})"
        cell = self.series["process"].cell(name, sample.time_s)
        if cell is not None:
            self.roles[name] = sample.role
            _sum(cell, sample, FIELDS["process"], 1)


def _operations(sample: DiskSample) -> float | None:
    """Return all requests a second; sysstat 9 tells reads from writes, but not their waits."""
    if sample.operations_s is not None or sample.reads_s is None:
        return sample.operations_s
    return sample.reads_s + (sample.writes_s or 0.0)


def _sum(cell: Cell, sample: Sample, fields: Iterable[str], at: int) -> None:
    for field in fields:
        value = getattr(sample, field)
        if value is None:
            cell[at + 1] += 1
        else:
            cell[at] += value
        at += 2


class Stats:
    """Means over a cell, by field."""

    def __init__(self, kind: Kind, cell: Cell) -> None:
        self._places = _PLACES[kind]
        self._cell = cell

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self._cell[0])

    def known(self, field: str) -> int:
        """Return the number of samples in which a field was known."""
        return int(self._cell[0] - self._cell[self._places[field] + 1])

    def mean(self, field: str) -> float | None:
        """Return the mean over the samples that knew it; None when none did."""
        at = self._places[field]
        total, count = self._cell[at], self._cell[0] - self._cell[at + 1]
        return total / count if count and math.isfinite(total) else None


def window(series: Series, spans: range | None = None) -> Mapping[str, Stats]:
    """Return the means of each subject over some spans, or over all."""
    summed: dict[str, Cell] = {}
    for span, row in series.cells.items():
        if spans is None or span in spans:
            for subject, cell in row.items():
                known = summed.get(subject)
                if known is None:
                    summed[subject] = list(cell)
                else:
                    add(known, cell)
    return {subject: Stats(series.kind, cell) for subject, cell in sorted(summed.items())}
