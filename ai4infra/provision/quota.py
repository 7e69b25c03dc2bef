"""Quota: look, plan, and the steps that register a provider or raise a limit."""

from __future__ import annotations

from collections.abc import Sequence

from ai4infra.cloud import compute, providers, quota
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, NotRegisteredError
from ai4infra.model import QuotaRequest, QuotaSetting, Step, StepResult
from ai4infra.plan import (
    REGIONAL_QUOTA,
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
from ai4infra.provision.run import Run, wanted_of


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


def commands(results: Sequence[StepResult]) -> list[str]:
    """Return the commands that finish what is open; none for what is refused or turned down."""
    if any(r.step.action == "refuse" for r in results):
        return []
    return [
        quota_command(r.step.wanted)
        for r in results
        if isinstance(r.step.wanted, QuotaWanted) and r.state in ("in progress", "not reached")
    ]


def register(step: Step, run: Run) -> StepResult:
    """Register for a provider; always waited for, since the steps after it need it."""
    wanted = wanted_of(step, RegistrationWanted)
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


def raise_limit(step: Step, run: Run) -> StepResult:
    """File a quota request, or take up the one in progress, and wait for the decision."""
    wanted = wanted_of(step, QuotaWanted)
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
