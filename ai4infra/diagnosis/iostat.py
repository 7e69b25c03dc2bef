"""Read the text that iostat prints: sysstat 9 to 12, every option that changes its shape.

A report is a time (``-t``), an avg-cpu table and one device table, or several with the name at
the end (``--pretty``, ``-h``). The first report covers the time since boot and is dropped, unless
``-y`` left it out or it is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.sysstat import (
    SysstatSample,
    Table,
    odd_values,
    sample,
    scaled,
    table_of,
)
from ai4infra.diagnosis.text import Clock, cpu_count, whole_lines

HELD_SAMPLES = 20_000
"""More than this in one report is no report: memory stays bounded whatever the input."""
_COMMAND = re.compile(r"\biostat\b(?:\s+\S+)*?\s-[A-Za-z]*y")
_CPU_LABEL = "avg-cpu:"


class FirstReport:
    """Holds the samples of the first report back until it is known whether they count."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._held: list[SysstatSample] = []
        self.omitted = False
        """True when the tool was told to leave the report since boot out."""
        self.reports = 0

    def keep(self, sample: SysstatSample) -> Iterator[SysstatSample]:
        """Yield a sample now, or hold it back."""
        self._notes.rows += 1
        if self.reports > 1:
            yield sample
            return
        self._held.append(sample)
        if len(self._held) > HELD_SAMPLES:
            self.reports = 2
            yield from self._all("kept")

    def next_report(self) -> Iterator[SysstatSample]:
        """Begin a report; the second one decides what becomes of the first."""
        self.reports += 1
        if self.reports == 2 and self._held:
            yield from self._all("none" if self.omitted else "dropped")

    def end(self) -> Iterator[SysstatSample]:
        """End a log: an only report is all that there is."""
        if self._held:
            yield from self._all("none" if self.omitted else "kept")
        self.reports, self.omitted = 0, False

    def _all(self, what: Literal["dropped", "kept", "none"]) -> Iterator[SysstatSample]:
        held, self._held = self._held, []
        if what == "dropped":
            self._notes.rows -= len(held)
        else:
            yield from held
        self._notes.since_boot = what




class _Reader:
    """What is known while the lines go by."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.first = FirstReport(notes)
        self.clock = Clock()
        self.time_s: float | None = None
        self.table: Table | None = None
        self.seen: set[str] = set()
        self.parts: dict[str, dict[str, float]] = {}
        """Device to its fields so far, where a report tells of it in several tables."""
        self.pending: str | None = None
        """A device name on a line of its own (sysstat 11 with ``-h``)."""
        self.blanks = -1
        """Blank lines since the line that begins a log; -1 after anything else."""

    def new_report(self) -> Iterator[SysstatSample]:
        """End the report before, and begin one."""
        yield from self.flush()
        self.seen.clear()
        yield from self.first.next_report()

    def flush(self) -> Iterator[SysstatSample]:
        """Yield the devices that several tables told of."""
        parts, self.parts = self.parts, {}
        for device, found in parts.items():
            yield from self.first.keep(sample("disk", device, self.time_s, found))

    def row(self, table: Table, name: str, found: dict[str, float]) -> Iterator[SysstatSample]:
        """Take one row; a name that comes again is of the next report."""
        if table.name_last:
            yield from self._part(name, found)
            return
        if not self.first.reports or name in self.seen:
            yield from self.new_report()
        self.seen.add(name)
        yield from self.first.keep(sample(table.kind, name, self.time_s, found))

    def _part(self, name: str, found: dict[str, float]) -> Iterator[SysstatSample]:
        known = self.parts.get(name, {})
        if not self.first.reports or known.keys() & found.keys():
            yield from self.new_report()
            known = {}
        self.parts[name] = known | found
        if len(self.parts) > HELD_SAMPLES:
            yield from self.flush()

    def other(self, line: str, fields: list[str]) -> Iterator[SysstatSample]:
        """Take a line that is no plain row."""
        if not fields:
            self._blank()
        elif fields[0] == "Linux" and len(fields) > 2:
            yield from self._begin(line)
        elif header := _header(fields):
            yield from self._header(header)
        elif self.table and _fits(self.table, fields, self.pending):
            yield from self._odd_row(self.table, fields)
        elif self.table and self.table.kind == "disk" and len(fields) == 1 and not _timed(line):
            self.pending = fields[0]
        else:
            yield from self._remark(line)
        if fields:
            self.blanks = self.blanks if fields[0] == "Linux" else -1

    def _blank(self) -> None:
        self.table = self.pending = None
        if self.blanks >= 0:
            self.blanks += 1

    def _begin(self, line: str) -> Iterator[SysstatSample]:
        yield from self.flush()
        omitted = self.first.omitted and not self.first.reports
        yield from self.first.end()
        self.first.omitted = omitted
        self.notes.cpus = cpu_count(line) or self.notes.cpus
        self.seen.clear()
        self.table, self.blanks = None, 0

    def _header(self, table: Table) -> Iterator[SysstatSample]:
        # Only -y leaves a second blank line between the first line and the first report.
        self.first.omitted |= self.blanks >= 2
        if table.kind == "cpu" and (not self.first.reports or self.seen or self.parts):
            yield from self.new_report()
        self.table, self.pending = table, None

    def _odd_row(self, table: Table, fields: list[str]) -> Iterator[SysstatSample]:
        if self.pending is not None:
            fields = [self.pending, *fields]
            self.pending = None
        if not table.name_last and len(fields) > table.width:
            extra = len(fields) - table.width + 1
            fields = [" ".join(fields[:extra]), *fields[extra:]]
        name, values = _parts(table, fields)
        found = odd_values(table, values)
        if found:
            yield from self.row(table, name, found)
        else:
            self.notes.skipped += 1

    def _remark(self, line: str) -> Iterator[SysstatSample]:
        if _COMMAND.search(line):
            self.first.omitted = True
            return
        self.first.omitted |= self.blanks >= 2
        seconds = self.clock.of(line)
        if seconds is None:
            self.notes.skipped += 1
            return
        yield from self.flush()
        self.time_s, self.table = seconds, None


def _header(fields: list[str]) -> Table | None:
    if fields[0] == _CPU_LABEL:
        return table_of(["CPU", *fields[1:]])
    table = table_of(fields)
    return table if table and table.kind == "disk" else None


def _parts(table: Table, fields: list[str]) -> tuple[str, list[str]]:
    if table.kind == "cpu":
        return "all", fields
    if table.name_last:
        count = table.width - 1
        return " ".join(fields[count:]), fields[:count]
    return fields[0], fields[1:]


def _fits(table: Table, fields: list[str], pending: str | None) -> bool:
    """Tell whether a line can be a row of the table: wide enough, and with a number in it."""
    if table.kind == "cpu":
        return len(fields) == table.width - 1
    return len(fields) + (pending is not None) >= table.width


def _timed(line: str) -> bool:
    return ":" in line


def read_iostat(lines: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield disk and CPU samples, line by line; memory does not grow with the log."""
    reader = _Reader(notes)
    for line in whole_lines(lines, notes):
        fields = line.split()
        table = reader.table
        if table is not None and table.kind == "disk" and len(fields) == table.width:
            found = scaled(table, table.values(fields))
            if found is not None:
                yield from reader.row(table, table.name(fields), found)
                continue
        yield from reader.other(line, fields)
    yield from reader.flush()
    yield from reader.first.end()
