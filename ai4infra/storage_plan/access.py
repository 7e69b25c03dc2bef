"""Role assignments, those wanted and those there: as steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import structs

from ai4infra import arm
from ai4infra.arm import is_at_or_above, name_of, same_id
from ai4infra.classification import Level, reader_contradictions
from ai4infra.model import GrantWanted, Lock, RoleAssignment, Step, StorageLook, StorageWanted
from ai4infra.plan import Plan
from ai4infra.storage_plan.steps import (
    ASSIGNMENT,
    ASSIGNMENTS_UNREAD,
    STAGE_GRANTS,
    account_id,
    contradiction_step,
    kept_step,
    locked_step,
    read_only_steps,
    refused_step,
    unread_locks,
)

ASSIGNED: Final = "It is assigned already."
CONDITIONAL: Final = "It is assigned, but under a condition that narrows it."


def grant_steps(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    """Plan the roles on an account and its containers."""
    account = account_id(wanted)
    found = [c.name for c in look.containers or ()]
    known = {*found, *wanted.containers, *(rule.container for rule in wanted.lifecycles)}
    listed = look.account is None or look.containers is not None
    lost = [g for g in wanted.grants if listed and g.container and g.container not in known]
    yield from (_nowhere(step, wanted) for step in _grants(lost, (), account))
    # Who has no identity yet is planned for by `provision`, once it is clear how it gets one.
    ready = [g for g in wanted.grants if g.principal_id and g not in lost]
    yield from _grants(ready, look.assignments, account)


def _nowhere(step: Step, wanted: StorageWanted) -> Step:
    return refused_step(step, f"{wanted.account} has no such container; --container makes it.")


def _grants(
    grants: Iterable[GrantWanted], assignments: Sequence[RoleAssignment] | None, account: str
) -> list[Step]:
    scoped = [_scoped(grant, account) for grant in grants]
    unique = list({_grant_key(g): g for g in scoped}.values())
    return [_grant(grant, assignments, _wider(grant, unique)) for grant in unique]


def _wider(grant: GrantWanted, others: Iterable[GrantWanted]) -> str | None:
    """Return the scope above at which the same plan gives the same role to the same principal."""
    _, *same = _grant_key(grant)
    scopes = [other.scope or "" for other in others if list(_grant_key(other)[1:]) == same]
    above = [s for s in scopes if is_at_or_above(s, grant.scope or "")]
    return next((s for s in above if not same_id(s, grant.scope)), None)


def _scoped(grant: GrantWanted, account: str) -> GrantWanted:
    if grant.scope is not None:
        return grant
    scope = arm.container_id(account, grant.container) if grant.container else account
    return structs.replace(grant, scope=scope)


def _grant_key(grant: GrantWanted) -> tuple[str, str, str]:
    return arm.id_key(grant.scope), grant.role_id.casefold(), grant.principal_id.casefold()


def _grant(
    grant: GrantWanted, assignments: Sequence[RoleAssignment] | None, wider: str | None
) -> Step:
    scope = grant.scope or ""
    write = arm.grant_write(grant, scope, stage=STAGE_GRANTS)
    step = Step(
        action="create",
        kind=ASSIGNMENT,
        name=grant.label,
        detail=f"{grant.role} on {_where(scope)}",
        resource_id=write.resource_id,
        wanted=write,
    )
    found = _holding(grant, assignments or ())
    if found is not None:
        return kept_step(structs.replace(step, resource_id=found.id), _held(found, scope))
    return kept_step(step, f"Inherited from {wider}.") if wider else step


def _where(scope: str) -> str:
    return name_of(scope) or "everything"


def _holding(grant: GrantWanted, assignments: Iterable[RoleAssignment]) -> RoleAssignment | None:
    """Return the assignment that gives the grant already: here, else from above.

    One with a condition gives less, so from above it does not count; here it stands in the way
    of a second one.
    """
    scope = grant.scope or ""
    same = [a for a in assignments if _is_of(grant, a) and is_at_or_above(a.scope, scope)]
    here = [a for a in same if same_id(a.scope, scope)]
    above = [a for a in same if a.condition is None]
    return next(iter([*here, *above]), None)


def _is_of(grant: GrantWanted, assignment: RoleAssignment) -> bool:
    return assignment.role_id.casefold() == grant.role_id.casefold() and _bare(
        assignment.principal_id
    ) == _bare(grant.principal_id)


def _bare(principal_id: str) -> str:
    return principal_id.replace("-", "").casefold()


def _held(found: RoleAssignment, scope: str) -> str:
    if not same_id(found.scope, scope):
        return f"Inherited from {found.scope or '/'}."
    if found.condition is not None:
        return CONDITIONAL
    return ASSIGNED


def rbac_steps(
    grants: Sequence[GrantWanted],
    assignments: Sequence[RoleAssignment] | None,
    *,
    level: Level | None = None,
    locks: Sequence[Lock] | None = (),
    locks_whole: bool = True,
) -> Plan:
    """Plan role assignments; every grant names its scope.

    ``assignments`` are those at and above the scopes, None when they could not be read: then all
    are sent, and the service says which are there. So are ``locks``; ``locks_whole`` is off where
    those of the subscription are not among them. ``level`` is the classification of the account
    that the grants are on.
    """
    if level is not None:
        refusals = [contradiction_step(level, r) for r in reader_contradictions(grants, level)]
        if refusals:
            return Plan(steps=tuple(refusals))
    steps = _grants(grants, assignments, "")
    unread = _unread_warnings(steps, assignments, unread_locks(locks, whole=locks_whole))
    return Plan(
        steps=(*read_only_steps(steps, locks or ()), *steps),
        warnings=(*unread, *condition_warnings(steps)),
    )


def _unread_warnings(
    steps: Iterable[Step],
    assignments: Sequence[RoleAssignment] | None,
    unread: Sequence[str],
) -> list[str]:
    """Say what could not be read and bears on what is planned."""
    changes = any(step.action != "keep" for step in steps)
    return [
        *([ASSIGNMENTS_UNREAD] if assignments is None else []),
        *(unread if changes else []),
    ]


def condition_warnings(steps: Iterable[Step]) -> list[str]:
    """Say which roles are held under a condition only."""
    return [f"{s.name}, {s.detail}: {s.reason}" for s in steps if s.reason == CONDITIONAL]


def rbac_remove_steps(
    grants: Sequence[GrantWanted],
    assignments: Sequence[RoleAssignment],
    *,
    locks: Sequence[Lock] | None = (),
    locks_whole: bool = True,
) -> Plan:
    """Plan the removal of role assignments at exactly their scopes.

    What is not there is kept away without more ado; what is inherited is refused with the scope
    that it comes from.
    """
    steps = [step for grant in grants for step in _removals(grant, assignments)]
    scopes = [s.resource_id or "" for s in steps if s.action == "delete"]
    blocking = [k for k in locks or () if any(is_at_or_above(k.scope, scope) for scope in scopes)]
    return Plan(
        steps=(*(locked_step(k, "lets nothing be removed") for k in blocking), *steps),
        warnings=(
            *_unread_warnings(steps, assignments, unread_locks(locks, whole=locks_whole)),
            *(text for grant in grants for text in _still_held(grant, assignments)),
        ),
    )


def _still_held(grant: GrantWanted, assignments: Iterable[RoleAssignment]) -> Iterator[str]:
    """Say what somebody keeps by a scope above when the role is taken away here."""
    scope = grant.scope or ""
    same = [a for a in assignments if _is_of(grant, a) and is_at_or_above(a.scope, scope)]
    if any(same_id(a.scope, scope) for a in same):
        for each in (a for a in same if not same_id(a.scope, scope)):
            yield f"{grant.label} keeps {grant.role}: it is inherited from {each.scope or '/'}."


def _removals(grant: GrantWanted, assignments: Sequence[RoleAssignment]) -> list[Step]:
    scope = grant.scope or ""
    same = [a for a in assignments if _is_of(grant, a) and is_at_or_above(a.scope, scope)]
    here = [a for a in same if same_id(a.scope, scope)]
    step = Step(
        action="delete",
        kind=ASSIGNMENT,
        name=grant.label,
        detail=f"{grant.role} on {_where(scope)}",
    )
    inherited = [_not_here(step, a) for a in same if a not in here]
    if not same:
        return [kept_step(step, "It is not assigned.")]
    # What is here can go, whatever else stays; without it there is nothing to take away here.
    return [_removal(step, a) for a in here] or inherited


def _removal(step: Step, found: RoleAssignment) -> Step:
    write = arm.delete(arm.ASSIGNMENT, found.id, stage=STAGE_GRANTS)
    return structs.replace(step, resource_id=found.id, wanted=write)


def _not_here(step: Step, found: RoleAssignment) -> Step:
    reason = f"It is inherited from {found.scope or '/'}: remove it there (--on)."
    return structs.replace(step, action="refuse", resource_id=found.id, reason=reason)
