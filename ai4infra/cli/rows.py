"""Rows that the command line prints, flat enough for CSV: records of the library, rearranged."""

from __future__ import annotations

from ai4infra.model import Quota, Record, RoleAssignment, StepResult, Subscription
from ai4infra.roles import role_name


def subscription_text(subscription: Subscription) -> str:
    """Return name and id of a subscription; the id alone where the name is not known."""
    if subscription.name == subscription.id:
        return subscription.id
    return f"{subscription.name} ({subscription.id})"


class QuotaRow(Record, frozen=True):
    """One quota of one region and subscription; None means unknown."""

    subscription_id: str
    region: str
    name: str
    label: str
    used: int | None
    limit: int | None
    free: int | None

    @classmethod
    def of(cls, subscription_id: str, quota: Quota) -> QuotaRow:
        """Return the row of a quota."""
        return cls(
            subscription_id=subscription_id,
            region=quota.region,
            name=quota.name,
            label=quota.label,
            used=quota.used,
            limit=quota.limit,
            free=quota.free,
        )


class StepRow(Record, frozen=True):
    """One step of a plan, and what became of it."""

    state: str
    action: str
    kind: str
    name: str
    detail: str
    reason: str | None
    message: str | None
    code: str | None
    hint: str | None
    resource_id: str | None

    @classmethod
    def of(cls, result: StepResult) -> StepRow:
        """Return the row of a step's result."""
        step = result.step
        return cls(
            state=result.state,
            action=step.action,
            kind=step.kind,
            name=step.name,
            detail=step.detail,
            reason=step.reason,
            message=result.message,
            code=result.code,
            hint=result.hint or step.hint,
            resource_id=step.resource_id,
        )


class FactRow(Record, frozen=True):
    """One thing that is known of a resource; None means unknown."""

    name: str
    value: str | None


class AssignmentRow(Record, frozen=True):
    """One role assignment, with the role's name where it is known."""

    role: str
    role_id: str
    principal_id: str
    principal_type: str | None
    scope: str
    condition: str | None
    id: str

    @classmethod
    def of(cls, assignment: RoleAssignment) -> AssignmentRow:
        """Return the row of a role assignment."""
        return cls(
            role=role_name(assignment.role_id),
            role_id=assignment.role_id,
            principal_id=assignment.principal_id,
            principal_type=assignment.principal_type,
            scope=assignment.scope,
            condition=assignment.condition,
            id=assignment.id,
        )


class MountRow(Record, frozen=True):
    """One mount of BlobFuse2 on this machine; None means unknown."""

    path: str
    account: str | None
    container: str | None
    cache: str | None
    cache_path: str | None
    read_only: bool
    pid: int | None
    config_file: str | None
    preload_percent: float | None
    preload_failed: int | None
