"""One apply under way: what its steps may do, how they wait, and how fast they may write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError
from ai4infra.model import Record, Step, StepResult

OnStep = Callable[[StepResult], None]
OnProgress = Callable[[str], None]
WantedT = TypeVar("WantedT", bound=Record)

WAIT_SECONDS = 900.0
"""How long an operation is waited for when nobody says otherwise."""
WRITES_PER_SECOND = 10
WRITES_AT_ONCE = {"microsoft.storage": 10}
"""By provider; https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling"""
OTHER_WRITES_AT_ONCE = 200


class StillRunningError(Exception):
    """The operation takes longer than it is waited for; it goes on."""


class StoppedError(Ai4infraError):
    """The apply was interrupted while this step waited."""


class Pace:
    """Keeps the writes of one apply within the limits of Resource Manager and Microsoft.Storage.

    So many may go at once; from then on there are so many per second, however many threads.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._sent: dict[str, int] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def wait(self, provider: str) -> None:
        """Return when the next write to a provider may be sent."""
        name = provider.casefold()
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        # Who waits keeps the others of the same provider waiting: that is what spaces them.
        with lock:
            self._sent[name] = self._sent.get(name, 0) + 1
            if self._sent[name] > WRITES_AT_ONCE.get(name, OTHER_WRITES_AT_ONCE):
                self._sleep(1 / WRITES_PER_SECOND)


class Apply:
    """What all steps of one apply share."""

    def __init__(
        self, session: Session, *, wait: bool, timeout_seconds: float, on_progress: OnProgress
    ) -> None:
        self.session = session
        self.wait = wait
        self.timeout_seconds = timeout_seconds
        self.on_progress = on_progress
        self.pace = Pace(session.transport.sleep)
        self.stopped = threading.Event()


class Run:
    """What one step may do, and what it is known to have reached."""

    def __init__(self, shared: Apply, step: Step) -> None:
        self.session = shared.session
        self.wait = shared.wait
        self.timeout_seconds = shared.timeout_seconds
        self.on_progress = shared.on_progress
        self.pace = shared.pace
        self.step = step
        self.reached = StepResult(
            step=step,
            state="failed",
            message="Interrupted before the service answered; it may have taken the request.",
            hint="Run the same again: what was taken is found and waited for.",
        )
        """Its result if it breaks off."""
        self.answer: dict[str, Any] | None = None
        """The resource as the service answered the write."""
        self._stopped = shared.stopped

    def sleep(self, seconds: float, doing: str) -> None:
        """Say what is waited for, and wait; raise StoppedError when the apply is over."""
        self.on_progress(doing)
        self.session.transport.sleep(seconds)
        self.check_stopped()

    def check_stopped(self) -> None:
        """Raise StoppedError when the apply is over: a thread that goes on writes no more."""
        if self._stopped.is_set():
            raise StoppedError("Interrupted.", hint="Run the same again.")


Executor = Callable[[Step, Run], StepResult]


def wanted_of(step: Step, kind: type[WantedT]) -> WantedT:
    """Return what carrying a step out takes; TypeError where the step carries something else."""
    if not isinstance(step.wanted, kind):
        raise TypeError(f"A {step.kind} step carries {type(step.wanted).__name__}.")
    return step.wanted
