"""How far a job is, for people and for programs. Time comes from outside, in seconds."""

from __future__ import annotations

from collections import deque

from ai4infra.model import Record
from ai4infra.transfer.stream import Counters

WINDOW_SECONDS = 30.0
"""Rates are those of the last half minute: a rate since the start hides a stall."""


class Progress(Record, frozen=True):
    """How far a job is; None is what is not known."""

    job: str | None
    files_done: int | None
    files_total: int | None
    files_failed: int | None
    bytes_done: int | None
    bytes_total: int | None
    megabytes_per_second: float | None
    percent: float | None
    """Of the bytes, or of the files where all are empty."""
    seconds_left: float | None
    capped: bool = False


class Meter:
    """Turns counters into progress."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def read(self, counters: Counters, at_seconds: float, *, capped: bool = False) -> Progress:
        """Return the progress at a time; times only grow."""
        done, total = counters.bytes_done, counters.bytes_expected
        moved = max(counters.bytes_over_wire or 0, done or 0)
        rate = self._rate(at_seconds, moved)
        return Progress(
            job=counters.job,
            files_done=counters.completed,
            files_total=counters.total,
            files_failed=counters.failed,
            bytes_done=done,
            bytes_total=total,
            megabytes_per_second=None if rate is None else round(rate / 1e6, 3),
            percent=_percent(counters),
            seconds_left=None
            if not rate or done is None or total is None
            else round(max(0, total - done) / rate, 1),
            capped=capped,
        )

    def _rate(self, at: float, moved: int) -> float | None:
        samples = self._samples
        if samples and moved < samples[-1][1]:
            samples.clear()
        samples.append((at, moved))
        while len(samples) > 2 and at - samples[0][0] > WINDOW_SECONDS:
            samples.popleft()
        (first_at, first), (last_at, last) = samples[0], samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else None


def _percent(counters: Counters) -> float | None:
    pairs = (
        (counters.bytes_done, counters.bytes_expected),
        (counters.completed, counters.total),
    )
    for done, total in pairs:
        if done is not None and total:
            return round(min(100.0, 100 * done / total), 1)
    return None


def progress_text(progress: Progress) -> str:
    """Return one line for a terminal: files, bytes, rate, percent, time left."""
    parts = [
        f"{_shown(progress.percent)}%",
        f"{_count(progress.files_done)} of {_count(progress.files_total)} files",
        f"{_bytes(progress.bytes_done)} of {_bytes(progress.bytes_total)}",
        f"{_shown(progress.megabytes_per_second)} MB/s" + (" (capped)" if progress.capped else ""),
        f"{duration_text(progress.seconds_left)} left",
    ]
    if progress.files_failed:
        parts.append(f"{progress.files_failed:,} failed")
    return " · ".join(parts)


def duration_text(seconds: float | None) -> str:
    """Return a duration for people: ``2 h 05 min``; ``?`` for an unknown one."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours:,} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"


def files_text(count: int) -> str:
    """Return a number of files for people: ``1 file``, ``2,000 files``."""
    return "1 file" if count == 1 else f"{count:,} files"


def bytes_text(count: int) -> str:
    """Return bytes for people, in powers of 1000."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"


def _bytes(count: int | None) -> str:
    return "?" if count is None else bytes_text(count)


def _count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _shown(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"
