"""Carries a plan out: stage by stage, the steps of a stage side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import structs

from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError
from ai4infra.model import Finding, Receipt, Step, StepResult, StorageWanted
from ai4infra.plan import QUOTA_LIMIT, REGISTRATION, Plan
from ai4infra.provision import access, quota, storage, writes
from ai4infra.provision.run import WAIT_SECONDS, Apply, Executor, OnProgress, OnStep, Run
from ai4infra.storage_plan import ASSIGNMENT, STORAGE_ACCOUNT

EXECUTORS: dict[str, Executor] = {
    REGISTRATION: quota.register,
    QUOTA_LIMIT: quota.raise_limit,
    access.IDENTITY: access.enable,
    **dict.fromkeys(storage.KINDS, writes.carry_out),
    STORAGE_ACCOUNT: storage.put_account,
    ASSIGNMENT: access.assign,
}
"""How each kind of step is carried out; the table is all that ``apply`` knows of kinds."""


class ApplyInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of an apply; ``receipt`` says how far it came."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


def apply(
    session: Session,
    plan: Plan,
    *,
    on_step: OnStep = lambda result: None,
    on_progress: OnProgress = lambda text: None,
    wait: bool = True,
    timeout_seconds: float = WAIT_SECONDS,
) -> Receipt:
    """Carry a plan out, stage by stage, and say what became of each step.

    The steps of one stage need nothing of each other and are sent side by side. A plan with a
    refusal sends nothing. After a stage with a step that failed, the rest is not reached. With
    ``wait`` off, a step that the service takes its time for ends as ``in progress``, and what
    needs it stays ``planned``. Running the same again finishes what is missing. What was wanted
    of an account is compared with what the service tells of it (``Receipt.findings``). Errors of
    the service are in the receipt, not raised; Ctrl-C raises ApplyInterrupted.
    """
    shared = Apply(session, wait=wait, timeout_seconds=timeout_seconds, on_progress=on_progress)
    book = _Book(plan, shared, on_step)
    try:
        for stage in _stages(plan.steps):
            book.carry_out(stage)
    except KeyboardInterrupt:
        shared.stopped.set()
        raise ApplyInterrupted(book.receipt()) from None
    return book.receipt(findings=True)


def _stages(steps: Sequence[Step]) -> Iterator[list[int]]:
    """Yield the places of the steps that may be carried out side by side, in order."""

    def stage_of(place: int) -> tuple[int, int]:
        stage: int | None = getattr(steps[place].wanted, "stage", None)
        return (-1, place) if stage is None else (stage, 0)

    for _, places in groupby(range(len(steps)), key=stage_of):
        yield list(places)


class _Book:
    """What is known of every step of a plan."""

    def __init__(self, plan: Plan, shared: Apply, on_step: OnStep) -> None:
        self._plan = plan
        self._shared = shared
        self._on_step = on_step
        self._runs: dict[int, Run] = {}
        self._results: dict[int, StepResult] = {}
        self._lock = threading.Lock()

    def carry_out(self, stage: Sequence[int]) -> None:
        """Carry the steps of one stage out."""
        known = {place: self._without_sending(self._plan.steps[place]) for place in stage}
        for place, result in known.items():
            if result is not None:
                self._write_down(place, result)
        for outcome in fan_out(self._send, [p for p, result in known.items() if result is None]):
            outcome.result()

    def _without_sending(self, step: Step) -> StepResult | None:
        """Return the result of a step that is not carried out; None for one that is."""
        if step.action == "refuse":
            return StepResult(step=step, state="failed", message=step.reason, hint=step.hint)
        states = {result.state for result in self._results.values()}
        if self._plan.refusals or states & {"failed", "not reached"}:
            return StepResult(step=step, state="not reached")
        if step.action == "keep":
            return StepResult(step=step, state="kept", message=step.reason)
        if "in progress" in states and getattr(step.wanted, "stage", None) is not None:
            return StepResult(
                step=step,
                state="planned",
                message="It needs what is in progress.",
                hint="Run the same again when that is there.",
            )
        return None

    def _send(self, place: int) -> None:
        step = self._plan.steps[place]
        run = self._runs[place] = Run(self._shared, step)
        try:
            result = EXECUTORS[step.kind](step, run)
        except Ai4infraError as error:
            result = structs.replace(
                run.reached, message=error.message, code=error.code, hint=error.hint
            )
        self._write_down(place, result)

    def _write_down(self, place: int, result: StepResult) -> None:
        with self._lock:
            if self._shared.stopped.is_set():
                return
            self._results[place] = result
            self._on_step(result)

    def receipt(self, *, findings: bool = False) -> Receipt:
        """Return what became of each step, and of what was wanted."""
        results = tuple(self._result(place) for place in range(len(self._plan.steps)))
        return Receipt(
            results=results,
            next_commands=(*quota.commands(results), *self._commands(results)),
            findings=self._findings() if findings else (),
        )

    def _result(self, place: int) -> StepResult:
        if place in self._results:
            return self._results[place]
        if place in self._runs:
            return self._runs[place].reached
        return StepResult(step=self._plan.steps[place], state="not reached")

    def _findings(self) -> tuple[Finding, ...]:
        if not isinstance(self._plan.verify, StorageWanted):
            return ()
        answers = {
            self._plan.steps[place].kind: run.answer
            for place, run in self._runs.items()
            if run.answer is not None and self._results[place].state == "done"
        }
        return storage.verify(self._shared.session, self._plan.verify, answers)

    def _commands(self, results: Sequence[StepResult]) -> Sequence[str]:
        if not isinstance(self._plan.verify, StorageWanted):
            return ()
        return storage.next_commands(self._plan.verify, results)
