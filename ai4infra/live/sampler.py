"""Samples GPUs, disks, CPUs, network and processes on one clock: the machine as a ``Source``."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Protocol

import msgspec

from ai4infra.diagnosis.samples import GpuSample, Host, Notes, Sample
from ai4infra.errors import UsageError
from ai4infra.live import machine
from ai4infra.live.gpus import DRIVER, Gpus
from ai4infra.live.machine import MAX_PROCESSES, Kernel, Reading, Watched

RESCAN_SECONDS = 10.0
"""Looking through all processes costs more than all other samples together."""
MIN_INTERVAL_S = 0.1
MAX_DURATION_S = 7 * 86400.0


class Clock(Protocol):
    """Tells time and waits."""

    def now(self) -> float:
        """Return seconds that only grow."""

    def wait_until(self, moment: float) -> None:
        """Return at a moment, or at once when it has passed."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the monotonic clock's seconds."""
        return time.monotonic()

    def wait_until(self, moment: float) -> None:
        """Sleep until a moment."""
        time.sleep(max(0.0, moment - time.monotonic()))


class InterruptibleClock(SystemClock):
    """A clock whose waits end with KeyboardInterrupt on Ctrl-C, as long as it is entered.

    Between waits Ctrl-C is remembered until the next one, so that no moment is cut in half; a
    second one ends whatever runs.
    """

    def __init__(self) -> None:
        self._waiting = self._asked = False
        self._before: Any = None

    def __enter__(self) -> InterruptibleClock:
        main = threading.current_thread() is threading.main_thread()
        # A shell's background job ignores Ctrl-C, and shall go on to do so.
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *args: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def wait_until(self, moment: float) -> None:
        """Sleep until a moment; raises KeyboardInterrupt when Ctrl-C was pressed."""
        self._waiting = True
        try:
            self._end_if_asked()
            super().wait_until(moment)
        finally:
            self._waiting = False
        self._end_if_asked()

    def _interrupted(self, number: int, frame: object) -> None:
        asked, self._asked = self._asked, True
        if asked or self._waiting:
            raise KeyboardInterrupt

    def _end_if_asked(self) -> None:
        if self._asked:
            raise KeyboardInterrupt


class GpuSource(Protocol):
    """What the sampler asks of GPUs: ``Gpus``, or nothing."""

    @property
    def model(self) -> str | None:
        """Name of the first GPU."""

    @property
    def count(self) -> int | None:
        """Number of GPUs; None when nobody could be asked."""

    def sample(self, time_s: float) -> Iterator[GpuSample]:
        """Yield a reading of every GPU."""

    def processes(self) -> dict[int, str]:
        """Return the processes that compute, each with its GPU."""

    def close(self) -> None:
        """Let go of what is held."""


class LiveSource:
    """This machine, sampled for a while; implements ``Source``.

    A moment that was missed, as when the VM was paused, is left out: samples stay on the clock,
    and rates are by the time that really went by.
    """

    def __init__(
        self,
        *,
        duration_s: float,
        interval_s: float = 1.0,
        host: Host | None = None,
        kernel: Kernel | None = None,
        gpus: GpuSource | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raise UsageError for times that cannot be sampled."""
        check_times(duration_s, interval_s)
        self._duration_s, self._interval_s = duration_s, interval_s
        self._clock = clock or SystemClock()
        self._kernel = kernel or Kernel()
        self._notes = Notes()
        self._said: dict[str, None] = {}
        self._gpus = gpus or Gpus(self._notes)
        self._watched: tuple[Watched, ...] = ()
        self._notes.gpu_model = self._gpus.model
        self._host = msgspec.structs.replace(
            host or Host(),
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            interval_s=interval_s,
            gpus=self._gpus.count,
            gpu_model=self._gpus.model,
        )
        self._tell_makers()

    @property
    def notes(self) -> Notes:
        """What was odd so far."""
        return self._notes

    @property
    def host(self) -> Host:
        """What is known of the machine."""
        return self._host

    def remarks(self) -> Iterator[str]:
        """Yield what a reader of the verdict should know, in sentences."""
        yield from self._notes.lost_gpus.values()
        yield from self._said

    def samples(self) -> Iterator[Sample]:
        """Yield samples, interval after interval, until the duration is over."""
        for moment in self.moments():
            yield from moment

    def moments(self) -> Iterator[tuple[Sample, ...]]:
        """Yield the samples of each moment together."""
        begin = self._clock.now()
        self._rescan()
        before, scanned = self._read(0.0), 0.0
        tick = 1
        try:
            while tick * self._interval_s <= self._duration_s + 1e-9:
                self._clock.wait_until(begin + tick * self._interval_s)
                now = self._clock.now() - begin
                after = self._read(now)
                yield tuple(self._between(before, after))
                before = after
                if now - scanned >= RESCAN_SECONDS:
                    scanned = now
                    self._rescan()
                tick = max(tick + 1, math.floor(now / self._interval_s) + 1)
        finally:
            self._gpus.close()

    def _read(self, at_s: float) -> Reading:
        return self._kernel.read(at_s, (each.pid for each in self._watched))

    def _rescan(self) -> None:
        self._kernel.look()
        found = self._kernel.watched(self._gpus.processes())
        if len(found) > MAX_PROCESSES:
            self._say(f"There are more processes than {MAX_PROCESSES}: the others are not sampled.")
        self._watched = found[:MAX_PROCESSES]

    def _between(self, before: Reading, after: Reading) -> Iterator[Sample]:
        yield from self._gpus.sample(after.at_s)
        yield from machine.disk_samples(before, after)
        yield from machine.cpu_samples(before, after)
        yield from machine.net_samples(before, after)
        yield from machine.process_samples(self._kernel, self._watched, before, after, self._say)

    def _say(self, sentence: str) -> None:
        self._said[sentence] = None

    def _tell_makers(self) -> None:
        """Say whose GPUs are there when NVML has none."""
        makers = self._kernel.gpu_vendors()
        if self._gpus.count or not makers:
            return
        if makers == {"AMD"}:
            said = "The GPUs here are AMD's, which NVML does not know: GPUs are not sampled."
            self._notes.lost_gpus.pop(DRIVER, None)
            self._notes.lost(DRIVER, said)
        elif "NVIDIA" in makers and self._gpus.count is None:
            self._say("An NVIDIA GPU is on the PCI bus, but its driver does not answer.")


def check_times(duration_s: float, interval_s: float) -> None:
    """Raise UsageError for an interval too short, or a duration shorter than it or endless."""
    if not MIN_INTERVAL_S <= interval_s < math.inf:
        raise UsageError(
            f"An interval of {interval_s:g} seconds cannot be sampled.",
            hint=f"Say {MIN_INTERVAL_S:g} or more; GPUs renew their figures a few times a second.",
        )
    if not interval_s <= duration_s <= MAX_DURATION_S:
        raise UsageError(
            f"{duration_s:g} seconds cannot be watched in steps of {interval_s:g}.",
            hint="Say a duration from one interval up to a week.",
        )
