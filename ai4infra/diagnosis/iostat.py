"""Read the text that iostat prints: sysstat 9 to 12, every option that changes its shape.

A report is a time (``-t``), an avg-cpu table and one device table, or several with the name at
the end (``--pretty``, ``-h``). The first report covers the time since boot and is dropped, unless
``-y`` left it out or it is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.sysstat import (
    SysstatSample,
    Table,
    is_device_header,
    odd_values,
    sample,
    table_of,
)
from ai4infra.diagnosis.text import Clock, cpu_count, days_in

HELD_SAMPLES = 20_000
"""More than this in one report is no report: memory stays bounded whatever the input."""
_COMMAND = re.compile(r"\biostat\b(?: +\S+)*? +-[A-Za-z]*y", re.ASCII)
_CPU_LABEL = "avg-cpu:"
_HEADERS = 64
"""Headers that are remembered by their text; a log has two or three."""
_Several = Sequence[SysstatSample]


class FirstReport:
    """Holds the samples of the first report back until it is known whether they count."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._held: list[SysstatSample] = []
        self.omitted = False
        """True when the tool was told to leave the report since boot out."""
        self.reports = 0

    @property
    def past(self) -> bool:
        """True when samples need not be held back any more."""
        return self.reports > 1

    def keep(self, sample: SysstatSample) -> _Several:
        """Return a sample now, or hold it back."""
        if self.reports > 1:
            return (sample,)
        self._held.append(sample)
        if len(self._held) <= HELD_SAMPLES:
            return ()
        self.reports = 2
        return self._all("kept")

    def next_report(self) -> _Several:
        """Begin a report; the second one decides what becomes of the first."""
        self.reports += 1
        if self.reports == 2 and self._held:
            return self._all("none" if self.omitted else "dropped")
        return ()

    def end(self) -> _Several:
        """End a log: an only report is all that there is."""
        held = self._all("none" if self.omitted else "kept") if self._held else ()
        self.reports, self.omitted = 0, False
        return held

    def _all(self, what: Literal["dropped", "kept", "none"]) -> _Several:
        held, self._held = self._held, []
        self._notes.since_boot = what
        return () if what == "dropped" else held


class _Reader:
    """What is known while the lines go by."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.first = FirstReport(notes)
        self.clock = Clock()
        self.time_s: float | None = None
        self.table: Table | None = None
        self.width = 0
        """Words of a plain row of the table; 0 where no row can come."""
        self.comma = False
        """True where numbers have a decimal comma."""
        self.headers: dict[str, Table | None] = {}
        self.seen: set[str] = set()
        """Devices of this report."""
        self.parts: dict[str, dict[str, float]] = {}
        """Device to its fields so far, where a report tells of it in several tables."""
        self.pending: str | None = None
        """A device name on a line of its own (sysstat 11 with ``-h``)."""
        self.blanks = -1
        """Blank lines since the line that begins a log; -1 after anything else."""

    def row(self, table: Table, name: str, built: SysstatSample) -> _Several:
        """Take one row; a name that comes again is of the next report."""
        begun: _Several = ()
        if not self.first.reports or (name in self.seen and table.kind == "disk"):
            begun = self._new_report()
        self.seen.add(name)
        return [*begun, *self.first.keep(built)]

    def blank(self) -> None:
        """Take a blank line: it ends a table."""
        self.table, self.width, self.pending = None, 0, None
        if self.blanks >= 0:
            self.blanks += 1

    def other(self, line: str, fields: list[str]) -> _Several:
        """Take a line that is no plain row."""
        if line not in self.headers:
            if len(self.headers) >= _HEADERS:
                self.headers.clear()
            self.headers[line] = _header(fields)
        header = self.headers[line]
        blanks, self.blanks = self.blanks, -1
        # Only -y leaves a second blank line between the first line and the first report.
        self.first.omitted |= blanks >= 2
        if header is not None:
            return self._enter(header)
        if fields[0] == "Linux" and len(fields) > 2:
            return self._begin(line)
        if self.table and _fits(self.table, fields, self.pending):
            return self._odd_row(self.table, fields)
        if self.table and self.table.kind == "disk" and len(fields) == 1 and ":" not in line:
            self.pending = fields[0]
            return ()
        return self._remark(line)

    def end(self) -> _Several:
        """Take the end of the log."""
        return [*self._flush(), *self.first.end()]

    def _new_report(self) -> _Several:
        flushed = self._flush()
        self.seen.clear()
        return [*flushed, *self.first.next_report()]

    def _flush(self) -> _Several:
        """Return the devices that several tables told of."""
        if not self.parts:
            return ()
        parts, self.parts = self.parts, {}
        built = [sample("disk", name, self.time_s, found) for name, found in parts.items()]
        return [kept for each in built for kept in self.first.keep(each)]

    def _part(self, name: str, found: dict[str, float]) -> _Several:
        """Take one of the tables that tell of a device; a field that comes again is of the next."""
        known = self.parts.get(name, {})
        begun: _Several = ()
        if not self.first.reports or known.keys() & found.keys():
            begun, known = self._new_report(), {}
        self.parts[name] = known | found
        return [*begun, *self._flush()] if len(self.parts) > HELD_SAMPLES else begun

    def _begin(self, line: str) -> _Several:
        """Begin a log; a command line just before it may have said ``-y``."""
        commanded = self.first.omitted and not self.first.reports
        ended = self.end()
        self.first.omitted = commanded
        self.notes.cpus = cpu_count(line) or self.notes.cpus
        self.notes.days = days_in(line)
        self.seen.clear()
        self.table, self.width, self.blanks = None, 0, 0
        return ended

    def _enter(self, table: Table) -> _Several:
        self.table, self.pending = table, None
        # Rows whose name comes last are parts of a device's values.
        self.width = 0 if table.name_last else table.width
        if table.kind == "cpu" and (not self.first.reports or self.seen or self.parts):
            return self._new_report()
        return ()

    def _odd_row(self, table: Table, fields: list[str]) -> _Several:
        if self.pending is not None:
            fields, self.pending = [self.pending, *fields], None
        fields = _one_name(table, fields)
        found = odd_values(table, fields)
        if not found and table.pairs:
            self.notes.skipped += 1
            return ()
        self.comma |= any("," in word for word in fields)
        name = fields[table.name_at] if table.name_at >= 0 else "all"
        if table.name_last:
            return self._part(name, found)
        return self.row(table, name, sample(table.kind, name, self.time_s, found))

    def _remark(self, line: str) -> _Several:
        """Take a line of no table: a time, the command, or what nobody understands."""
        if _COMMAND.search(line):
            self.first.omitted = True
            return ()
        seconds = self.clock.of(line)
        if seconds is None:
            self.notes.skipped += 1
            return ()
        flushed = self._flush()
        self.time_s, self.table, self.width = seconds, None, 0
        return flushed


def _header(fields: list[str]) -> Table | None:
    if fields[0] == _CPU_LABEL:
        return table_of(("CPU", *fields[1:]), named=False)
    if is_device_header(fields):
        fields = ["Device", *fields[1:]]
    table = table_of(tuple(fields))
    return table if table and table.kind == "disk" else None


def _one_name(table: Table, fields: list[str]) -> list[str]:
    """Join a device name that has blanks in it."""
    extra = len(fields) - table.width
    if extra <= 0:
        return fields
    if table.name_last:
        return [*fields[: table.name_at], " ".join(fields[table.name_at :])]
    return [" ".join(fields[: extra + 1]), *fields[extra + 1 :]]


def _fits(table: Table, fields: list[str], pending: str | None) -> bool:
    """Tell whether a line can be a row of the table."""
    words = len(fields) + (pending is not None)
    return words == table.width if table.kind == "cpu" else words >= table.width


def read_iostat(lines: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield disk and CPU samples, line by line; memory does not grow with the log."""
    reader = _Reader(notes)
    broken = False
    for line in lines:
        fields = (line.replace(",", ".") if reader.comma else line).split()
        if not fields:
            reader.blank()
            continue
        if line[-1] != "\n" and broken:
            notes.cut = True
            break
        if len(fields) == reader.width:
            table = reader.table
            assert table is not None  # noqa: S101 - a width is always some table's
            built = table.build(fields, reader.time_s)
            if built is not None:
                name = fields[0]
                if reader.first.reports > 1 and name not in reader.seen:
                    reader.seen.add(name)
                    yield built
                else:
                    yield from reader.row(table, name, built)
                continue
        broken = broken or line[-1] == "\n"
        yield from reader.other(line, fields)
    yield from reader.end()
