"""What the readers of printed tables share: numbers and times of any locale, and cut tails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date

from ai4infra.diagnosis.samples import Notes

KIB = 1024.0
MIB = KIB * 1024
GIB = MIB * 1024
SECTOR_BYTES = 512.0
_HUGE = 1e18
"""No counter reaches this: a larger number is an overflow of the tool that printed it."""

_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?|[.,]\d+)\s*([kKMGT]?)(?:i?B)?\s*%?", re.ASCII)
_SUFFIX = {"": 1.0, "k": KIB, "K": KIB, "M": MIB, "G": GIB, "T": GIB * 1024}
_TIME = re.compile(r"(?<!\d)(\d{1,2})(?::|\s?[時时点시]\s?)(\d{2})(?::|\s?[分분]\s?)(\d{2})(?!\d)")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{2})\.(\d{2})(?![\d.])")
_HALF = re.compile(r"\b([AP])\.?M\b", re.IGNORECASE)
DAY_S = 86_400.0


def number(text: str) -> float | None:
    """Return a printed number: decimal point or comma, ``1.2M``, ``9.3%``; None for all else."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    try:
        value = float(match[1].replace(",", ".")) * _SUFFIX[match[2]]
    except ValueError:
        return None
    return value if value < _HUGE else None


class Memo(dict[str, "float | None"]):
    """Numbers of a column by their text, scaled: looking one up is faster than reading it."""

    def __init__(self, scale: float, most: float = _HUGE, *, divisor: float = 1.0) -> None:
        super().__init__()
        self._scale = scale
        self._divisor = divisor
        self._most = most

    def __missing__(self, text: str) -> float | None:
        value = float(text) if text.isdecimal() and len(text) < 16 else number(text)
        scaled = None if value is None else min(value * self._scale / self._divisor, self._most)
        if len(self) < _MEMO_ENTRIES:
            self[text] = scaled
        return scaled


_MEMO_ENTRIES = 20_000


_SECONDS = {f"{second:02}": second for second in range(60)}


class Clock:
    """Turns printed times into seconds since midnight of the first day.

    A time of day that lies more than half a day before the last one is of the next day.
    """

    def __init__(self) -> None:
        self._last = ""
        self._last_day = ""
        self.first_day: int | None = None
        """Day that times count from, where dates were printed."""
        self._seconds: float | None = None
        self._minute = self._half = "-"
        self._minute_s = 0.0
        self._days = 0
        self._latest = 0.0

    def of(self, text: str) -> float | None:
        """Return the seconds of a text that has a time of day in it; None when it has none."""
        if text != self._last:
            self._last = text
            second = _SECONDS.get(text[6:8])
            # Within a minute only the seconds change; reading the rest again takes longer.
            if second is not None and text[:6] == self._minute and text[8:] == self._half:
                self._seconds = self._minute_s + second
            else:
                self._seconds = self._read(text)
                self._remember(text, second)
        return self._seconds

    def _remember(self, text: str, second: int | None) -> None:
        if self._seconds is not None and second is not None and text[2:3] == text[5:6] == ":":
            self._minute, self._half = text[:6], text[8:]
            self._minute_s = self._seconds - second

    def on_date(self, day: str, text: str) -> float | None:
        """Return the seconds of a time of day on a printed date; None when one has no sense."""
        if text != self._last or day != self._last_day:
            self._last, self._last_day = text, day
            self._seconds = self._read_dated(days_of(day), time_of_day(text))
        return self._seconds

    def _read_dated(self, day: int | None, of_day: float | None) -> float | None:
        if day is None or of_day is None:
            return None
        if self.first_day is None:
            self.first_day = day
        return (day - self.first_day) * DAY_S + of_day

    def _read(self, text: str) -> float | None:
        of_day = time_of_day(text)
        if of_day is None:
            return None
        if of_day < self._latest - DAY_S / 2:
            self._days += 1
        elif of_day > self._latest + DAY_S / 2 and self._days:
            # A straggler from before midnight.
            return (self._days - 1) * DAY_S + of_day
        self._latest = of_day
        return self._days * DAY_S + of_day


_DATE = re.compile(r"(\d{4})[-/]?(\d{2})[-/]?(\d{2})", re.ASCII)


def days_of(text: str) -> int | None:
    """Return a date such as 20260105, 2026/01/05 or 2026-01-05 as a count of days."""
    match = _DATE.fullmatch(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).toordinal() if match else None
    except ValueError:
        return None


def time_of_day(text: str) -> float | None:
    """Return the seconds since midnight of a time in a text: ``01:24:46 PM``, 13時25分05秒."""
    hours, minutes, seconds = text[:2], text[3:5], text[6:]
    if text[2:3] == text[5:6] == ":" and (hours + minutes + seconds).isdecimal():
        return _in_day(int(hours), int(minutes), int(seconds))
    match = _TIME.search(text) or _last(_DOTTED.finditer(text))
    if match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    half = _HALF.search(text, match.end())
    if half and hour <= 12:
        hour = hour % 12 + (12 if half[1] in "pP" else 0)
    return _in_day(hour, minute, second)


def _in_day(hour: int, minute: int, second: int) -> float | None:
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600.0 + minute * 60 + second


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match: where dates have dots like times, the date comes first."""
    found = None
    for match in matches:
        found = match
    return found


_ANY_DATE = re.compile(r"(?<!\S)(\d{1,4})[-./年](\d{1,2})[-./月](\d{2,4})日?(?!\S)")


def days_in(line: str) -> frozenset[int]:
    """Return the days that a date in the first line of a report can mean, in any locale's order."""
    match = _ANY_DATE.search(line)
    if match is None:
        return frozenset()
    first, second, third = int(match[1]), int(match[2]), int(match[3])
    if len(match[1]) == 4:
        orders = [(first, second, third)]
    else:
        year = third + 2000 if third < 100 else third
        orders = [(year, first, second), (year, second, first)]
    days = (days_of(f"{year:04}-{month:02}-{day:02}") for year, month, day in orders)
    return frozenset(day for day in days if day is not None)


_CPUS = re.compile(r"\((\d{1,5}) (?:\S+ )?CPU\)")


def cpu_count(line: str) -> int | None:
    """Return the number of CPUs that the first line of a sysstat report ends with."""
    match = _CPUS.search(line)
    return int(match[1]) if match else None


def whole_lines(lines: Iterable[str], notes: Notes) -> Iterator[str]:
    """Yield the lines, leaving out a last one that has no line break where others have one."""
    broken = False
    for line in lines:
        if line.endswith("\n"):
            broken = True
        elif broken:
            notes.cut = True
            return
        yield line
