"""Read the text of ``sar -u``, ``-d``, ``-n DEV`` and of mpstat, by the names in its headers.

sar puts %iowait before %steal, mpstat has other names and order, sar 12 puts DEV last when it
prints pretty names. A row begins with a time; the rows of the average begin with a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.sysstat import (
    SysstatSample,
    Table,
    odd_values,
    sample,
    scaled,
    table_of,
)
from ai4infra.diagnosis.text import Clock, cpu_count, number, time_of_day, whole_lines


class _Section(NamedTuple):
    """A table, and how many words of time stand before its columns."""

    table: Table
    prefix: int
    width: int


def read_sar(lines: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield CPU, disk and network samples, line by line."""
    clock = Clock()
    section: _Section | None = None
    for line in whole_lines(lines, notes):
        fields = line.split()
        if section is not None and len(fields) == section.width and fields[0][0].isdigit():
            table, prefix = section.table, section.prefix
            row = fields[prefix:]
            values = row[:-1] if table.name_last else row[1:]
            found = scaled(table, values)
            if found is None and not _is_header(row):
                found = odd_values(table, values)
            if found:
                notes.rows += 1
                time_s = clock.of(fields[0] if prefix == 1 else " ".join(fields[:prefix]))
                yield sample(table.kind, row[-1] if table.name_last else row[0], time_s, found)
                continue
        section = _other(line, fields, section, notes)


def _other(
    line: str, fields: list[str], section: _Section | None, notes: Notes
) -> _Section | None:
    """Take a line that is no row: the beginning of a log, a header, an average, a blank line."""
    if not fields:
        return section
    if fields[0] == "Linux":
        notes.cpus = cpu_count(line) or notes.cpus
        return None
    if time_of_day(fields[0]) is None:
        return section
    if _is_header(fields[1:]):
        return section_of(fields)
    notes.skipped += section is not None
    return section


def _is_header(fields: list[str]) -> bool:
    """Tell titles from a row: in a row the last or, before a name, the last but one is a number."""
    return all(number(field) is None and field != "-nan" for field in fields[-2:])


def section_of(fields: list[str]) -> _Section | None:
    """Return the table that a header begins; None for a table of other things."""
    for prefix in (1, 2):
        if table := table_of(fields[prefix:]):
            return _Section(table, prefix, prefix + table.width)
    return None
