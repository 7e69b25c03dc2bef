"""Judge saved logs and captures: ``ai4infra.diagnose([...])``, and `ai4infra diagnose replay`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ai4infra.diagnosis.answer import Diagnosis, Question
from ai4infra.diagnosis.files import opened
from ai4infra.diagnosis.logs import LogSource, one_host
from ai4infra.diagnosis.samples import Host, Sample
from ai4infra.diagnosis.series import Collector
from ai4infra.diagnosis.text import DAY_S
from ai4infra.diagnosis.verdict import diagnose as judged
from ai4infra.errors import UsageError
from ai4infra.gpus import all_sizes, facts
from ai4infra.ids import close_names
from ai4infra.model import GpuFacts

Logs: TypeAlias = "str | Path | Sequence[str | Path]"


class Replay(NamedTuple):
    """What logs say: the diagnosis, and what it comes from."""

    diagnosis: Diagnosis
    collected: Collector
    question: Question
    size: GpuFacts | None


def diagnose(
    logs: Logs,
    *,
    size: str | None = None,
    price_per_hour: float | None = None,
    currency: str = "USD",
) -> Diagnosis:
    """Return whether the GPUs wait for data, for what, how sure that is, and what to change.

    ``logs`` are files that nvidia-smi, iostat, sar or mpstat wrote, and captures, of one machine
    and in any order; ``-`` is the standard input. ``size`` is the VM size, whose limits count;
    ``price_per_hour`` is what the VM costs in ``currency``. Nothing is sent anywhere. Raises
    NotFoundError for a file that is not there, and UsageError for one that is no log, for logs
    without a sample, and for a size that nobody knows.
    """
    return replay(logs, size=size, price_per_hour=price_per_hour, currency=currency).diagnosis


def replay(
    logs: Logs,
    *,
    size: str | None = None,
    price_per_hour: float | None = None,
    currency: str = "USD",
) -> Replay:
    """Return the diagnosis with the samples that led to it; otherwise as :func:`diagnose`."""
    if price_per_hour is not None and not (price_per_hour >= 0 and math.isfinite(price_per_hour)):
        raise UsageError(f"{price_per_hour} is no price.")
    paths = [logs] if isinstance(logs, (str, Path)) else list(logs)
    if not paths:
        raise UsageError("There is nothing to read.", hint="Name logs or captures.")
    known = known_size(size)
    collected, host, remarks = _collect([str(path) for path in paths])
    question = Question(
        host=host,
        size=known or (facts(host.size) if host.size else None),
        price_per_hour=price_per_hour,
        currency=currency.upper(),
        remarks=remarks,
    )
    return Replay(judged(collected, question), collected, question, known)


def known_size(name: str | None) -> GpuFacts | None:
    """Return what is known of a VM size; raises UsageError for one that nobody knows."""
    if name is None:
        return None
    found = facts(name)
    if found.source is None:
        close = close_names(name, all_sizes())
        hint = f"Did you mean {' or '.join(close)}?" if close else None
        raise UsageError(f"There is no GPU size called {name!r}.", hint=hint)
    return found


def _collect(paths: Sequence[str]) -> tuple[Collector, Host, tuple[str, ...]]:
    """Read everything; returns sums, the machine, and what the readers have to say."""
    collected, calendar = Collector(), _Calendar()
    with ExitStack() as stack:
        sources = [stack.enter_context(opened(path)) for path in paths]
        for source in sources:
            collected.extend(calendar.dated(source))
    remarks = tuple(_remarks(paths, sources))
    if all(source.notes.empty and not source.notes.lost_gpus for source in sources):
        raise UsageError(f"There is no sample in {', '.join(paths)}.", hint=next(iter(remarks)))
    return collected, one_host(source.host for source in sources), remarks


def _remarks(paths: Sequence[str], sources: Sequence[LogSource]) -> Iterator[str]:
    for path, source in zip(paths, sources, strict=True):
        yield from (f"{path}: {text}" for text in source.notes.remarks())


class _Calendar:
    """Brings logs onto one clock: each counts its times from midnight of its own first day."""

    def __init__(self) -> None:
        self._first: frozenset[int] = frozenset()

    def dated(self, source: LogSource) -> Iterable[Sample]:
        """Return the samples of a log, with times from midnight of the first log's day."""
        samples = source.samples()
        first = next(samples, None)
        if first is None:
            return ()
        # The day stands before the first sample, in a header or in its row.
        shift = self._days(source.notes.days) * DAY_S
        everything = chain((first,), samples)
        return (_later(sample, shift) for sample in everything) if shift else everything

    def _days(self, days: frozenset[int]) -> int:
        """Return how many days a log is after the first one; 0 where a day is not known."""
        if not days:
            return 0
        readings = [(day - first, first) for first in self._first or days for day in days]
        shift, first = min(readings, key=lambda reading: abs(reading[0]))
        # Before another log there is nothing that tells one reading of a date from the other.
        self._first = frozenset([first]) if self._first else days
        return shift


def _later(sample: Sample, seconds: float) -> Sample:
    if not seconds or sample.time_s is None:
        return sample
    return replace(sample, time_s=sample.time_s + seconds)
