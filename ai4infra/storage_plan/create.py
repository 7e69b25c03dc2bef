"""``storage create``: what is wanted of an account and what is there; the check afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ai4infra import arm, lifecycle
from ai4infra.arm import ArmWrite, is_at_or_above, name_of
from ai4infra.classification import contradictions
from ai4infra.model import (
    BlobServiceSettings,
    Finding,
    Step,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import Plan
from ai4infra.storage_checks import check_wanted
from ai4infra.storage_plan.access import condition_warnings, grant_steps
from ai4infra.storage_plan.account import (
    RULES_THERE,
    account_step,
    blob_service_step,
    container_steps,
    group_step,
    is_premium_target,
    lifecycle_steps,
    registration_steps,
)
from ai4infra.storage_plan.network import endpoint_groups, private_access_steps
from ai4infra.storage_plan.steps import (
    ASSIGNMENT,
    ASSIGNMENTS_UNREAD,
    LOCK,
    STAGE_LOCK,
    STORAGE_ACCOUNT,
    THERE,
    account_id,
    contradiction_step,
    kept_step,
    read_only_steps,
    unread_locks,
    write_step,
)
from ai4infra.storage_target import (
    Comparison,
    Target,
    blob_comparisons,
    comparisons,
    fixed_comparisons,
    immutable_differences,
    network_of,
    target_of,
)

LOCK_NAME: Final = "ai4infra-cannot-delete"
LOCK_NOTES: Final = "Holds training data; delete the lock before the account."


def storage_steps(wanted: StorageWanted, look: StorageLook) -> Plan:
    """Plan a storage account with everything that belongs to it.

    What is there already is kept; what differs is changed with ``wanted.update`` only; what can
    never be changed, a name that is somebody else's, a contradicted classification and a lock
    refuse the whole plan. Raises UsageError for what no account can be (see ``check_wanted``).
    """
    check_wanted(wanted)
    target = target_of(wanted, look)
    refusals = [*_immutable(target, look)] or [*_name(wanted, look), *_contradictions(target, look)]
    if refusals:
        return Plan(steps=tuple(refusals))
    steps = [
        *registration_steps(wanted, look),
        group_step(wanted, look),
        account_step(target, look),
        *_blob_service(target, look),
        *container_steps(wanted, look),
        *lifecycle_steps(target, look),
        *private_access_steps(target, look),
        *grant_steps(wanted, look),
        *_lock(wanted, look),
    ]
    steps = [*read_only_steps(steps, look.locks or ()), *sorted(steps, key=_stage)]
    return Plan(steps=tuple(steps), warnings=tuple(_warnings(target, look, steps)))


def _blob_service(target: Target, look: StorageLook) -> Iterator[Step]:
    """Plan the blob service, but for what has nothing to do with it: not every kind has one."""
    only = target.wanted.only
    if only is None or blob_comparisons(target, BlobServiceSettings()):
        yield blob_service_step(target, look)


def _stage(step: Step) -> int:
    return step.wanted.stage if isinstance(step.wanted, ArmWrite) else 0


def _immutable(target: Target, look: StorageLook) -> Iterator[Step]:
    if look.account is None:
        return
    different = immutable_differences(target, look.account)
    if different:
        yield Step(
            action="refuse",
            kind=STORAGE_ACCOUNT,
            name=look.account.name,
            detail="exists, and differs in what is fixed at creation",
            resource_id=look.account.id,
            reason=f"{'; '.join(c.difference for c in different)}."
            " Use another name, or ask for what there is.",
        )


def _name(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    reason = _name_reason(wanted, look)
    if reason is not None:
        yield Step(
            action="refuse",
            kind=STORAGE_ACCOUNT,
            name=wanted.account,
            detail="the name cannot be had",
            resource_id=look.name.account_id if look.name else None,
            reason=reason,
        )


def _name_reason(wanted: StorageWanted, look: StorageLook) -> str | None:
    if look.account is not None or look.name is None:
        return None
    if look.name.state == "elsewhere":
        where = look.name.account_id or "another group"
        group = name_of(arm.group_of(where) or "GROUP")
        return f"It is yours, as {where}: use --resource-group {group}, or another name."
    if look.name.state == "in use":
        return (
            "It is in use; whether by you could not be found out, since the accounts of the"
            " subscription could not be listed. Use another name (--name)."
        )
    if look.name.state == "taken":
        said = f" The service says: {look.name.message}" if look.name.message else ""
        return (
            "Somebody else has the name, or an account of this name was deleted in the last"
            f" 14 days: use another name (--name), or recover that account.{said}"
        )
    return None


def _contradictions(target: Target, look: StorageLook) -> Iterator[Step]:
    if target.level is None or target.wanted.only is not None:
        return
    reasons = contradictions(target.wanted, target.level)
    if target.level.customer_key and not _has_key(target, look.account):
        reasons.append(
            f"{target.level.name} data needs a customer-managed key: its URI and a user-assigned"
            " identity that may use it."
        )
    for reason in reasons:
        yield contradiction_step(target.level, reason)


def _has_key(target: Target, account: StorageAccount | None) -> bool:
    return target.wanted.key_uri is not None or (account is not None and bool(account.key_uri))


def _lock(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    if not wanted.lock:
        return
    account = account_id(wanted)
    write = arm.lock_write(account, LOCK_NAME, LOCK_NOTES, stage=STAGE_LOCK)
    step = write_step("create", LOCK, write, "CanNotDelete on the account; data is not protected")
    held = [lock for lock in look.locks or () if is_at_or_above(lock.scope, account)]
    yield kept_step(step, f"The lock {held[0].name} ({held[0].level}) is there.") if held else step


def _warnings(target: Target, look: StorageLook, steps: Sequence[Step]) -> Iterator[str]:
    yield from _drift(steps)
    yield from _reach(target, look)
    yield from condition_warnings(steps)
    yield from _early(target, look)
    yield from _unread(target, look, steps)
    yield from _other_readers(target, look)


def _drift(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        silent = step.kind in (ASSIGNMENT, LOCK) or step.action == "refuse"
        if not silent and step.reason not in (None, THERE, RULES_THERE):
            yield f"{step.kind} {step.name}: {step.reason}"


def _reach(target: Target, look: StorageLook) -> Iterator[str]:
    """Warn of accounts that nobody reaches, and of endpoints beside an open door."""
    wanted = target.wanted
    if wanted.only is not None:
        return
    network = target.network if target.network_matters or look.account is None else None
    network = network or (network_of(look.account) if look.account else None)
    has_endpoint = wanted.endpoint_subnet is not None or bool(look.endpoints)
    if network == "private" and not has_endpoint:
        yield (
            f"Nothing reaches {wanted.account} until it has private endpoints for"
            f" {' and '.join(endpoint_groups(wanted))}: --private-endpoint SUBNET_ID makes them."
        )
    if network == "restricted" and not has_endpoint and not _lets_in(wanted, look):
        yield (
            f"Nothing reaches {wanted.account}: let somebody in by --allow-ip or --allow-subnet."
        )
    if network == "open" and wanted.endpoint_subnet is not None:
        yield "The private endpoints do not close the public one: use --network private."


def _lets_in(wanted: StorageWanted, look: StorageLook) -> bool:
    acls: dict[str, Any] = (look.account.network_acls if look.account else None) or {}
    rules = [*(acls.get("ipRules") or ()), *(acls.get("virtualNetworkRules") or ())]
    return bool(wanted.allow_ips or wanted.allow_subnets or rules)


def _early(target: Target, look: StorageLook) -> Iterator[str]:
    premium = is_premium_target(target, look)
    service = look.blob_service
    if target.wanted.versioning or (service is not None and service.versioning):
        names = [r.container for r in target.wanted.lifecycles if r.delete_after_days is not None]
        if names:
            yield (
                f"Blob versions are kept: what is deleted in {', '.join(names)} stays as an earlier"
                " version, and is billed, until a rule for versions deletes it."
            )
    for rule in target.wanted.lifecycles:
        if premium and rule.cool_after_days is not None:
            yield f"Premium block blobs have no cool tier: {rule.container} is not cooled."
        elif lifecycle.charged_early(rule):
            yield (
                f"{rule.container} is deleted before the cool tier's"
                f" {lifecycle.COOL_MINIMUM_DAYS} days are over: they are charged all the same."
            )


def _unread(target: Target, look: StorageLook, steps: Sequence[Step]) -> Iterator[str]:
    if any(step.action != "keep" for step in steps):
        yield from unread_locks(look.locks, whole=look.locks_whole)
    if look.account is not None and look.group is None:
        yield f"The resource group {target.wanted.group} could not be read; it is left as it is."
    if target.wanted.grants and look.assignments is None:
        yield ASSIGNMENTS_UNREAD


def _other_readers(target: Target, look: StorageLook) -> Iterator[str]:
    """Warn of principals at the account that its classification does not admit."""
    if target.level is None or look.account is None:
        return
    for a in look.assignments or ():
        kind = a.principal_type
        below = is_at_or_above(look.account.id, a.scope)
        if below and kind is not None and kind not in target.level.readers:
            yield (
                f"{kind} {a.principal_id} has a role on {name_of(a.scope)};"
                f" {target.level.name} data does not admit a {kind}."
            )


def post_check(wanted: StorageWanted, observed: StorageLook) -> tuple[Finding, ...]:
    """Compare what the service tells afterwards with what was wanted.

    A policy may change what was sent without an error. What the service does not tell is unknown.
    """
    if observed.account is None:
        return ()
    target = target_of(wanted, observed)
    rows = [*comparisons(target, observed.account), *fixed_comparisons(target, observed.account)]
    if observed.blob_service is not None:
        rows += blob_comparisons(target, observed.blob_service)
    return tuple(_finding(row, observed.account) for row in rows)


def _finding(row: Comparison, account: StorageAccount) -> Finding:
    verdicts: dict[bool | None, Any] = {True: "pass", False: "fail", None: "unknown"}
    return Finding(
        check=row.name,
        subject=account.id,
        verdict=verdicts[row.holds],
        wanted=row.wanted,
        actual=row.actual,
    )
