"""Sends one write of a plan, waits for it, and tries again where the service is only busy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from msgspec import structs

from ai4infra.arm import ArmWrite
from ai4infra.cloud import resources
from ai4infra.cloud.operations import Pause, Written
from ai4infra.errors import (
    Ai4infraError,
    NetworkError,
    ServiceError,
    SignInError,
    ThrottledError,
)
from ai4infra.model import Step, StepResult
from ai4infra.provision.run import Run, StillRunningError, wanted_of

T = TypeVar("T")

FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 16.0
BUSY = frozenset(
    [
        # The account is being made, or another operation on it is under way.
        "storageaccountisnotprovisioned",
        "accountbeingcreated",
        "accountbeingprovisioned",
        "storageaccountoperationinprogress",
        "accountoperationinprogress",
        "anotheroperationinprogress",
        # A container of the name was deleted less than a minute ago.
        "containerbeingdeleted",
        # The network provider says so, as 429, of what is being made next to it.
        "retryableerror",
        "referencedresourcenotprovisioned",
    ]
)
"""Codes, in lower case, of a write that will be taken in a while."""
_SENDERS: dict[str, Callable[..., Written]] = {
    "PUT": resources.put_resource,
    "PATCH": resources.patch_resource,
    "DELETE": resources.delete_resource,
}
_VERBS = {"PUT": "create", "PATCH": "change", "DELETE": "delete"}
_DONE = {"PUT": "Written.", "PATCH": "Changed.", "DELETE": "Deleted."}


def carry_out(step: Step, run: Run) -> StepResult:
    """Send the write that a step carries, and wait for it."""
    return send(step, wanted_of(step, ArmWrite), run)


def send(step: Step, write: ArmWrite, run: Run) -> StepResult:
    """Send a write and wait for it; busy is waited out."""
    what = f"Cannot {_VERBS[write.method]} the {step.kind} {step.name}"
    provider = write.resource_type.partition("/")[0]

    def once() -> Written:
        run.pace.wait(provider)
        return _SENDERS[write.method](
            run.session,
            write.resource_id,
            write.api_version,
            write.body,
            what=what,
            pause=_pause(step, run) if run.wait else None,
        )

    try:
        written = patiently(once, run, codes=BUSY, within_seconds=run.timeout_seconds)
    except StillRunningError:
        return in_progress(step)
    except Ai4infraError as error:
        if not _leaves_open(error):
            run.reached = structs.replace(run.reached, state="failed")
        raise
    if written.running:
        return in_progress(step)
    run.answer = written.body
    return StepResult(step=step, state="done", message=_DONE[write.method])


def _leaves_open(error: Ai4infraError) -> bool:
    """Tell whether it is only the question that failed: the operation itself may go on."""
    by_kind = isinstance(error, NetworkError | ThrottledError | SignInError)
    return by_kind or (isinstance(error, ServiceError) and (error.status or 500) >= 500)


def in_progress(step: Step) -> StepResult:
    """Build the result of a step that the service took and is still at."""
    return StepResult(
        step=step,
        state="in progress",
        message="The service took it and is still at it.",
        hint="Run the same again: it finds what is there and finishes the rest.",
    )


def _pause(step: Step, run: Run) -> Pause:
    """Return how an operation is waited for: within the time, and with progress."""
    waited = 0.0

    def pause(seconds: float) -> None:
        nonlocal waited
        left = run.timeout_seconds - waited
        if left <= 0:
            raise StillRunningError
        run.reached = in_progress(step)
        run.sleep(min(seconds, left), f"{step.kind} {step.name}: in progress after {waited:.0f} s")
        waited += seconds

    return pause


def patiently(
    send: Callable[[], T], run: Run, *, codes: Collection[str], within_seconds: float
) -> T:
    """Call until it works; errors with one of the codes are waited out, with growing waits.

    Raises any other error at once, and the last one when the time is over.
    """
    waits = _waits()
    waited = 0.0
    while True:
        run.check_stopped()
        try:
            return send()
        except Ai4infraError as error:
            if (error.code or "").casefold() not in codes or waited >= within_seconds:
                raise
            wait = min(next(waits), within_seconds - waited)
            run.reached = _failing(run, error)
            run.sleep(wait, f"{run.step.name}: {error.code} after {waited:.0f} s; trying again")
            waited += wait


def _failing(run: Run, error: Ai4infraError) -> StepResult:
    return structs.replace(
        run.reached,
        message=error.message,
        code=error.code,
        hint="Run the same again: it passes by itself.",
    )


def _waits() -> Iterator[float]:
    wait = FIRST_WAIT_SECONDS
    while True:
        yield wait
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)
