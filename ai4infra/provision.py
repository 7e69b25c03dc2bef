"""Look, plan, apply: the only module that changes anything in Azure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from ai4infra.cloud import compute, providers, quota
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, NotRegisteredError
from ai4infra.model import QuotaRequest, QuotaSetting, Receipt, Record, Step, StepResult
from ai4infra.plan import (
    QUOTA_LIMIT,
    REGIONAL_QUOTA,
    REGISTRATION,
    Plan,
    QuotaLook,
    QuotaWanted,
    RegistrationWanted,
    check_wanted,
    quota_command,
    quota_steps,
    refusal_hint,
    spelling,
    support_hint,
    turned_down,
)

OnStep = Callable[[StepResult], None]
OnProgress = Callable[[str], None]
WantedT = TypeVar("WantedT", bound=Record)


class ApplyInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of an apply; ``receipt`` says how far it came."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


class Run:
    """One apply: what its steps may do, and what the current step is known to have reached."""

    def __init__(
        self, session: Session, *, wait: bool, timeout_seconds: float, on_progress: OnProgress
    ) -> None:
        self.session = session
        self.wait = wait
        self.timeout_seconds = timeout_seconds
        self.on_progress = on_progress
        self.reached: StepResult | None = None
        """What is known of the step under way; its result if it breaks off."""


def look_quota(
    session: Session, subscription_id: str, region: str, families: tuple[str, ...]
) -> QuotaLook:
    """Read what there is: the region's quota rows, and what Microsoft.Quota says of some."""
    quotas = compute.usages(session, subscription_id, region)
    settings: list[QuotaSetting] = []
    pending: list[QuotaRequest] = []
    try:
        for family in (spelling(family, quotas) for family in families):
            setting = quota.current_limit(session, subscription_id, region, family)
            settings += [setting] if setting else []
            pending += quota.pending_requests(session, subscription_id, region, family)
    except NotRegisteredError:
        return QuotaLook(quotas=quotas, registered=False)
    return QuotaLook(quotas=quotas, settings=tuple(settings), pending=tuple(pending))


def plan_quota(
    session: Session,
    subscription_id: str,
    region: str,
    family: str,
    limit_vcpus: int,
    *,
    with_regional: bool = False,
    register: bool = False,
) -> Plan:
    """Plan the request for a higher limit; reads only.

    Raises UsageError for a family that the region does not know, and at once for what can be no
    family or limit; see ``plan.quota_steps``.
    """
    wanted = QuotaWanted(
        subscription_id=subscription_id, region=region, family=family, limit_vcpus=limit_vcpus
    )
    check_wanted(wanted)
    families = (family, REGIONAL_QUOTA) if with_regional else (family,)
    look = look_quota(session, subscription_id, region, families)
    return quota_steps(wanted, look, with_regional=with_regional, register=register)


def apply(
    session: Session,
    plan: Plan,
    *,
    on_step: OnStep = lambda result: None,
    on_progress: OnProgress = lambda text: None,
    wait: bool = True,
    timeout_seconds: float = quota.WAIT_SECONDS,
) -> Receipt:
    """Carry a plan out, step by step, and say what became of each step.

    A plan with a refusal sends nothing. After a step that failed, the rest is not reached. With
    ``wait`` off, a step that the service takes its time for ends as ``in progress``. Running the
    same again finishes what is missing. Errors of the service are in the receipt, not raised;
    Ctrl-C raises ApplyInterrupted.
    """
    run = Run(session, wait=wait, timeout_seconds=timeout_seconds, on_progress=on_progress)
    results: list[StepResult] = []
    try:
        for step in plan.steps:
            results.append(_result(step, plan, results, run))
            run.reached = None
            on_step(results[-1])
    except KeyboardInterrupt:
        raise ApplyInterrupted(_receipt(_interrupted(plan, results, run))) from None
    return _receipt(results)


def _result(step: Step, plan: Plan, results: list[StepResult], run: Run) -> StepResult:
    if step.action == "refuse":
        return StepResult(step=step, state="failed", message=step.reason, hint=step.hint)
    if plan.refusals or any(r.state in ("failed", "not reached") for r in results):
        return StepResult(step=step, state="not reached")
    if step.action == "keep":
        return StepResult(step=step, state="kept", message=step.reason)
    return _carry_out(step, run)


def _carry_out(step: Step, run: Run) -> StepResult:
    run.reached = reached = StepResult(
        step=step,
        state="failed",
        message="Interrupted before the service answered; it may have taken the request.",
        hint="Run the same again: what was taken is found and waited for.",
    )
    try:
        return EXECUTORS[step.kind](step, run)
    except Ai4infraError as error:
        reached = run.reached or reached
        return structs.replace(reached, message=error.message, code=error.code, hint=error.hint)


def _interrupted(plan: Plan, results: list[StepResult], run: Run) -> list[StepResult]:
    """Complete the results of an apply that Ctrl-C ended."""
    known = [*results, run.reached] if run.reached else results
    rest = plan.steps[len(known) :]
    return [*known, *(StepResult(step=s, state="not reached") for s in rest)]


def _receipt(results: list[StepResult]) -> Receipt:
    return Receipt(results=tuple(results), next_commands=tuple(_commands(results)))


def _commands(results: list[StepResult]) -> list[str]:
    """Return the commands that finish what is open; none for what is refused or turned down."""
    if any(r.step.action == "refuse" for r in results):
        return []
    return [
        quota_command(r.step.wanted)
        for r in results
        if isinstance(r.step.wanted, QuotaWanted) and r.state in ("in progress", "not reached")
    ]


def _wanted(step: Step, kind: type[WantedT]) -> WantedT:
    if not isinstance(step.wanted, kind):
        raise TypeError(f"A {step.kind} step carries {type(step.wanted).__name__}.")
    return step.wanted


def _register(step: Step, run: Run) -> StepResult:
    """Register for a provider; always waited for, since the steps after it need it."""
    wanted = _wanted(step, RegistrationWanted)
    providers.register(run.session, wanted.subscription_id, wanted.namespace)
    done = providers.wait_until_registered(
        run.session,
        wanted.subscription_id,
        wanted.namespace,
        timeout_seconds=run.timeout_seconds,
        on_progress=run.on_progress,
    )
    if done:
        return StepResult(step=step, state="done", message=f"Registered for {wanted.namespace}.")
    return StepResult(
        step=step,
        state="failed",
        message=f"The registration for {wanted.namespace} is still going on.",
        hint="Run this again in some minutes.",
    )


def _raise_limit(step: Step, run: Run) -> StepResult:
    """File a quota request, or take up the one in progress, and wait for the decision."""
    wanted = _wanted(step, QuotaWanted)
    try:
        request = _file(step, wanted, run)
    except Ai4infraError as error:
        if not turned_down(error.code):
            raise
        return _refused(step, wanted, error.message, error.code)
    run.reached = _in_progress(step, request)
    if run.wait:
        request = quota.wait_for(
            run.session,
            request,
            timeout_seconds=run.timeout_seconds,
            on_progress=run.on_progress,
        )
    return _decided(step, wanted, request, run)


def _file(step: Step, wanted: QuotaWanted, run: Run) -> QuotaRequest:
    if wanted.request_id is None:
        return quota.request_limit(
            run.session,
            wanted.subscription_id,
            wanted.region,
            wanted.family,
            wanted.limit_vcpus,
        )
    pending = QuotaRequest(
        subscription_id=wanted.subscription_id,
        region=wanted.region,
        family=wanted.family,
        limit_vcpus=wanted.limit_vcpus,
        state="InProgress",
        request_id=wanted.request_id,
    )
    run.reached = _in_progress(step, pending)
    return quota.request_status(run.session, pending)


def _in_progress(step: Step, request: QuotaRequest) -> StepResult:
    return StepResult(
        step=step,
        state="in progress",
        message=f"Request {request.request_id} is {request.state}.",
        hint="Run the same again to wait for the decision.",
    )


def _decided(step: Step, wanted: QuotaWanted, request: QuotaRequest, run: Run) -> StepResult:
    if request.refused:
        said = f"The service refused request {request.request_id}: {request.message}"
        return _refused(step, wanted, said, request.code)
    if request.succeeded:
        return _granted(step, wanted, run)
    return _in_progress(step, request)


def _refused(step: Step, wanted: QuotaWanted, message: str, code: str | None) -> StepResult:
    hint = refusal_hint(code, wanted)
    return StepResult(step=step, state="failed", message=message, code=code, hint=hint)


def _granted(step: Step, wanted: QuotaWanted, run: Run) -> StepResult:
    """Read the new limit back: the service may grant less than was asked for."""
    try:
        setting = quota.current_limit(
            run.session, wanted.subscription_id, wanted.region, wanted.family
        )
    except Ai4infraError as error:
        return StepResult(
            step=step,
            state="done",
            message=f"The service granted it; the new limit was not read back: {error.message}",
            code=error.code,
        )
    limit = setting.limit if setting else None
    if limit is None or limit >= wanted.limit_vcpus:
        return StepResult(step=step, state="done", message=f"The limit is {wanted.limit_vcpus}.")
    return StepResult(
        step=step,
        state="failed",
        message=f"The request succeeded, but the limit is {limit}, not {wanted.limit_vcpus}.",
        hint=f"Look again in some minutes: `ai4infra quota list --region {wanted.region}`."
        f" If it stays: {support_hint(wanted)}",
    )


Executor = Callable[[Step, Run], StepResult]
EXECUTORS: dict[str, Executor] = {REGISTRATION: _register, QUOTA_LIMIT: _raise_limit}
"""How each kind of step is carried out; the table is all that ``apply`` knows of kinds."""
