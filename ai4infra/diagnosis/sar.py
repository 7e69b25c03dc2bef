"""Read the text of ``sar -u``, ``-d``, ``-n DEV`` and of mpstat, by the names in its headers.

sar puts %iowait before %steal, mpstat has other names and order, sar 12 puts DEV last when it
prints pretty names. A row begins with a time; the rows of the average begin with a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.sysstat import (
    Build,
    SysstatSample,
    Table,
    is_title,
    odd_values,
    sample,
    table_of,
    whole_name,
)
from ai4infra.diagnosis.text import Clock, cpu_count, days_in, number, time_of_day

_HEADERS = 64
"""Headers that are remembered by their text after the time; a log has a few."""


def read_sar(lines: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield CPU, disk and network samples, line by line."""
    reader = _Reader(notes)
    broken = False
    width, comma = -1, False
    build: Build = _nothing
    last, time_s = "", None
    for line in lines:
        fields = (line.replace(",", ".") if comma else line).split()
        if len(fields) == width and (line[-1] == "\n" or not broken):
            if fields[0] != last:
                last, time_s = fields[0], reader.seconds(fields)
            # A row of the average has no time, and is built below or not at all.
            built = None if time_s is None else build(fields, time_s)
            if built is not None:
                yield built
                continue
        if not fields:
            # Titles come next; trying to build a row of them takes longer.
            width = -1
            continue
        if line[-1] != "\n" and broken:
            notes.cut = True
            break
        broken = broken or line[-1] == "\n"
        odd = reader.other(line, fields)
        if odd is not None:
            yield odd
        table, comma = reader.table, reader.comma
        width, build = (table.width, table.build) if table else (-1, _nothing)


def _nothing(words: list[str], time_s: float | None) -> None:
    """Build no sample where there is no table."""


class _Reader:
    """What is known while the lines go by."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.clock = Clock()
        self.table: Table | None = None
        self.comma = False
        """True where numbers have a decimal comma."""
        self.headers: dict[str, Table | None] = {}

    def seconds(self, fields: list[str]) -> float | None:
        """Return the seconds of a row's time; None for the rows of the average."""
        time = fields[0]
        if self.table is None or not time[0].isdigit():
            return None
        prefix = self.table.prefix
        return self.clock.of(time if prefix == 1 else " ".join(fields[:prefix]))

    def other(self, line: str, fields: list[str]) -> SysstatSample | None:
        """Take a line that is no plain row; returns the sample of an odd one."""
        titles = line[line.find(" ") :]
        if titles in self.headers:
            self.table = self.headers[titles]
        elif fields[0] == "Linux":
            self.notes.cpus = cpu_count(line) or self.notes.cpus
            self.notes.days = self.notes.days or days_in(line)
            self.table = None
        elif time_of_day(fields[0]) is not None:
            return self._timed(titles, fields)
        return None

    def _timed(self, titles: str, fields: list[str]) -> SysstatSample | None:
        if _is_header(fields):
            self.table = header_of(fields)
            if len(self.headers) < _HEADERS:
                self.headers[titles] = self.table
            return None
        self.comma |= any("," in field for field in fields)
        odd = _odd_row(self.table, fields, self.seconds(fields)) if self.table else None
        self.notes.skipped += self.table is not None and odd is None
        return odd


def _odd_row(table: Table, fields: list[str], time_s: float | None) -> SysstatSample | None:
    """Return the sample of a row whose values are no plain numbers; None for no row."""
    if len(fields) != table.width:
        return None
    found = odd_values(table, fields)
    return sample(table.kind, whole_name(fields[table.name_at]), time_s, found) if found else None


def _is_header(fields: list[str]) -> bool:
    """Tell titles from a row: in a row the last or, before a name, the last but one is a number."""
    return all(number(field.lstrip("-")) is None and field != "-nan" for field in fields[-2:])


def header_of(fields: list[str]) -> Table | None:
    """Return the table that a header begins; None for a table of other things."""
    if len(fields) < 2:
        return None
    # After 01:24:46 comes PM or p. m. in some locales, and a title in the others.
    prefix = next((at for at in (1, 2, 3) if at < len(fields) and is_title(fields[at])), 2)
    return table_of(tuple(fields[prefix:]), prefix=prefix)
