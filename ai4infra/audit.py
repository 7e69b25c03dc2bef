"""The checklist of a storage account, as rules over what was read; nothing is asked here.

What the service says nothing about counts as what its silence means: an account without
``allowSharedKeyAccess`` takes keys. What could not be read is unknown, and never a pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from ai4infra import lifecycle, limits, roles
from ai4infra.arm import group_of, is_at_or_above, name_of, subscription_of
from ai4infra.classification import TAG as CLASSIFICATION_TAG
from ai4infra.classification import Level, less_isolated, levels, recorded
from ai4infra.lifecycle import DEFAULT_RETENTION, describe
from ai4infra.limits import TIBYTE
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    Finding,
    LifecycleRule,
    Lock,
    MetricAlert,
    Record,
    RoleAssignment,
    StorageAccount,
    StorageWanted,
)
from ai4infra.sizing import GROWTH
from ai4infra.storage_checks import DEFAULT_SOFT_DELETE_DAYS, is_premium
from ai4infra.storage_target import MINIMUM_TLS, is_new_tls, network_of

Part = Literal[
    "blob_service", "containers", "lifecycle", "assignments", "locks", "alerts", "used_bytes"
]

MENDABLE: Final = frozenset(
    {
        "minimumTlsVersion",
        "supportsHttpsTrafficOnly",
        "allowBlobPublicAccess",
        "allowSharedKeyAccess",
        "deleteRetentionPolicy",
        "containerDeleteRetentionPolicy",
        "lock",
    }
)
"""Checks that one right answer mends; the others need somebody to decide."""
_OF_MOUNTS: Final = frozenset({"supportsHttpsTrafficOnly", "allowSharedKeyAccess"})
"""What mounts of file shares may depend on: NFS on plain traffic, SMB on keys."""
CHECKPOINT_WORDS: Final = ("checkpoint", "ckpt")
"""A container is for checkpoints when its name has one of them in it."""
STORAGE_TYPE: Final = "microsoft.storage/storageaccounts"
ALERTS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "availability": (("Availability",), "avg Availability < 99.9"),
    "throughput": (
        ("Transactions", "Egress", "Ingress", "SuccessE2ELatency", "SuccessServerLatency"),
        "total Transactions > 0 where ResponseType includes ServerBusyError"
        " or ClientAccountBandwidthThrottlingError or ClientAccountRequestThrottlingError",
    ),
}
"""Kind of alert to the metrics that are such, and the condition that is proposed.
https://learn.microsoft.com/azure/storage/blobs/monitor-blob-storage-reference"""
_NAMES_SHOWN: Final = 4


class AuditLook(Record, frozen=True):
    """What was read of one account; None is what could not be read, or is not known."""

    account: StorageAccount
    blob_service: BlobServiceSettings | None = None
    containers: tuple[Container, ...] | None = None
    lifecycle: tuple[LifecycleRule, ...] | None = None
    assignments: tuple[RoleAssignment, ...] | None = None
    """At, above and below the account."""
    locks: tuple[Lock, ...] | None = None
    """At and above the account."""
    alerts: tuple[MetricAlert, ...] | None = None
    """Of the subscription."""
    used_bytes: int | None = None
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a part could not be read, by the part's name."""

    def why(self, part: Part) -> str:
        """Return why a part is unknown."""
        return self.unread.get(part, "The service says nothing about it.")


def audit(look: AuditLook) -> tuple[Finding, ...]:
    """Return one finding per check, in the order of the checklist.

    An account for file shares has no blobs: what is checked of blobs is left out.
    """
    shares = _has_shares(look.account)
    rules = [rule for rule in _RULES if not (shares and rule in _OF_BLOBS)]
    return tuple(finding for rule in rules for finding in rule(look))


def mendable(account: StorageAccount) -> frozenset[str]:
    """Return the checks that one right answer mends on this kind of account."""
    return MENDABLE - _OF_MOUNTS if _has_shares(account) else MENDABLE


def _has_shares(account: StorageAccount) -> bool:
    return (account.kind or "").casefold() == "filestorage"


def fix_wanted(look: AuditLook, findings: Iterable[Finding]) -> StorageWanted | None:
    """Return what would mend all that one right answer mends; None where there is nothing.

    The plan for it changes what failed on an existing account (``update``, ``only``), nothing
    else of it, and makes nothing but a lock.
    """
    failed = {f.check for f in findings if f.verdict == "fail"} & mendable(look.account)
    if not failed:
        return None
    account = look.account
    return StorageWanted(
        subscription_id=subscription_of(account.id) or "",
        group=name_of(group_of(account.id) or ""),
        location=account.location or "",
        location_said=False,
        account=account.name,
        hns=bool(account.hns),
        lock="lock" in failed,
        update=True,
        only=tuple(sorted(failed)),
    )


# ---- findings ------------------------------------------------------------------------------


def _finding(
    look: AuditLook,
    check: str,
    wanted: str,
    holds: bool | None,
    actual: str | None,
    *,
    fix: str | None = None,
    reason: str | None = None,
) -> Finding:
    verdicts: dict[bool | None, Literal["pass", "fail", "unknown"]]
    verdicts = {True: "pass", False: "fail", None: "unknown"}
    mend = fix or (_mend(look.account) if check in mendable(look.account) else None)
    return Finding(
        check=check,
        subject=look.account.id,
        verdict=verdicts[holds],
        wanted=wanted,
        actual=actual,
        reason=reason,
        fix=mend if holds is False else None,
    )


def _unread(look: AuditLook, check: str, wanted: str, part: Part) -> Finding:
    return _finding(look, check, wanted, None, None, reason=look.why(part))


def _where(account: StorageAccount) -> list[str]:
    group = name_of(group_of(account.id) or "")
    subscription = subscription_of(account.id) or ""
    return ["--subscription", subscription, "--resource-group", group, "--name", account.name]


def _mend(account: StorageAccount) -> str:
    return shlex.join(["ai4infra", "storage", "audit", *_where(account), "--fix"])


def _az_update(account: StorageAccount, *words: str) -> str:
    return shlex.join(["az", "storage", "account", "update", *_where(account), *words])


def _words(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMES_SHOWN
    shown = ", ".join(every[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _said(value: object) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _level(look: AuditLook) -> Level | None:
    return recorded(look.account.tags)


# ---- the account ---------------------------------------------------------------------------


def _tls(look: AuditLook) -> Iterator[Finding]:
    found = look.account.minimum_tls_version
    holds = is_new_tls(found)
    reason = f"{found!r} is no version that is known here." if holds is None else None
    wanted = f"{MINIMUM_TLS} or newer"
    yield _finding(look, "minimumTlsVersion", wanted, holds, found, reason=reason)


def _https(look: AuditLook) -> Iterator[Finding]:
    found = look.account.https_only
    reason = "Its meaning depends on when the account was made." if found is None else None
    fix = _az_update(look.account, "--https-only", "true") if _has_shares(look.account) else None
    check = "supportsHttpsTrafficOnly"
    yield _finding(look, check, "true", found, _said(found), reason=reason, fix=fix)


def _anonymous(look: AuditLook) -> Iterator[Finding]:
    allowed = look.account.allow_blob_public_access
    opened = [c for c in look.containers or () if (c.public_access or "None") != "None"]
    evidence = _said(allowed)
    if allowed is not False and opened:
        evidence = f"{evidence or 'not said'}; open now: {_words(c.name for c in opened)}"
    yield _finding(look, "allowBlobPublicAccess", "false", allowed is False, evidence)


def _network(look: AuditLook) -> Iterator[Finding]:
    account = look.account
    found, level = network_of(account), _level(look)
    minimum = level.network if level else "restricted"
    holds = not less_isolated(found, minimum)
    wanted = f"{level.name} data: {minimum}" if level else "not open, unless classified so"
    fix = {
        "restricted": _az_update(account, "--default-action", "Deny", "--bypass", "AzureServices"),
        "private": _az_update(account, "--public-network-access", "Disabled"),
    }
    yield _finding(
        look,
        "publicNetworkAccess",
        f"{wanted} or more isolated" if level and minimum == "restricted" else wanted,
        holds,
        f"{found}: {_network_evidence(account)}",
        fix=fix.get(minimum),
    )


def _network_evidence(account: StorageAccount) -> str:
    acls: dict[str, Any] = account.network_acls or {}
    rules = [*(acls.get("ipRules") or ()), *(acls.get("virtualNetworkRules") or ())]
    access = account.public_network_access or "not said (Enabled)"
    action = acls.get("defaultAction") or "not said (Allow)"
    return f"publicNetworkAccess {access}, defaultAction {action}, {len(rules)} rules"


def _keys(look: AuditLook) -> Iterator[Finding]:
    found = look.account.allow_shared_key_access
    words = ("--allow-shared-key-access", "false")
    fix = _az_update(look.account, *words) if _has_shares(look.account) else None
    yield _finding(look, "allowSharedKeyAccess", "false", found is False, _said(found), fix=fix)


def _namespace(look: AuditLook) -> Iterator[Finding]:
    account = look.account
    words = ["az", "storage", "account", "hns-migration", "start", "--type", "validation"]
    yield _finding(
        look,
        "isHnsEnabled",
        "true",
        bool(account.hns),
        _said(account.hns),
        fix=shlex.join([*words, *_where(account)]),
    )


def _infrastructure_encryption(look: AuditLook) -> Iterator[Finding]:
    level, found = _level(look), look.account.infrastructure_encryption
    name = "requireInfrastructureEncryption"
    if level is None:
        yield _no_level(look, name)
        return
    yield _finding(
        look,
        name,
        f"{level.name} data: {'needed' if level.infrastructure_encryption else 'not needed'}",
        bool(found) or not level.infrastructure_encryption,
        _said(bool(found)),
        # It is fixed at creation: only another account can have it.
        fix=f"ai4infra storage create --name NEW_NAME --classification {level.name}",
    )


def _customer_key(look: AuditLook) -> Iterator[Finding]:
    level, account = _level(look), look.account
    if level is None or not level.customer_key:
        return
    words = ("--encryption-key-source", "Microsoft.Keyvault", "--encryption-key-vault", "VAULT_URI")
    yield _finding(
        look,
        "encryption.keySource",
        f"{level.name} data: Microsoft.Keyvault",
        (account.key_source or "").casefold() == "microsoft.keyvault",
        account.key_uri or account.key_source,
        fix=_az_update(account, *words, "--encryption-key-name", "KEY"),
    )


def _no_level(look: AuditLook, check: str) -> Finding:
    reason = "Without a classification it is not known whether it is needed."
    return _finding(look, check, "as its classification demands", None, None, reason=reason)


def _classification(look: AuditLook) -> Iterator[Finding]:
    account = look.account
    found = next((v for k, v in account.tags.items() if k.casefold() == CLASSIFICATION_TAG), None)
    yield _finding(
        look,
        f"tag {CLASSIFICATION_TAG}",
        "one of " + ", ".join(levels()),
        _level(look) is not None,
        found,
        fix=f"az tag update --resource-id {shlex.quote(account.id)} --operation merge --tags"
        f" {CLASSIFICATION_TAG}=LEVEL",
    )


# ---- data protection -----------------------------------------------------------------------


def _soft_delete(look: AuditLook) -> Iterator[Finding]:
    level, found = _level(look), look.blob_service
    days = max(DEFAULT_SOFT_DELETE_DAYS, level.soft_delete_days if level else 0)
    rows = {
        "deleteRetentionPolicy": found.blob_soft_delete_days if found else None,
        "containerDeleteRetentionPolicy": found.container_soft_delete_days if found else None,
    }
    for check, kept in rows.items():
        wanted = f"{days} days or more"
        if kept is None:
            yield _unread(look, check, wanted, "blob_service")
        else:
            yield _finding(look, check, wanted, kept >= days, f"{kept} days" if kept else "off")


def _lifecycle(look: AuditLook) -> Iterator[Finding]:
    check, wanted = "checkpoint lifecycle", "a lifecycle rule for each checkpoint container"
    if look.containers is None:
        yield _unread(look, check, wanted, "containers")
        return
    names = [c.name for c in look.containers if any(w in c.name for w in CHECKPOINT_WORDS)]
    if not names:
        yield _finding(look, check, wanted, True, "no container for checkpoints")
        return
    if look.lifecycle is None:
        yield _unread(look, check, wanted, "lifecycle")
        return
    without = [name for name in names if not any(_covers(r, name) for r in look.lifecycle)]
    rules = "; ".join(describe(r) for r in look.lifecycle if any(_covers(r, n) for n in names))
    evidence = f"none for {_words(without)}" if without else rules
    rule = [
        word
        for name in without
        for word in ("--container", name, "--lifecycle", f"{name}={DEFAULT_RETENTION}")
    ]
    fix = ["ai4infra", "storage", "create", *_where(look.account), "--no-grant", *rule]
    yield _finding(look, check, wanted, not without, evidence, fix=shlex.join(fix))


def _covers(rule: LifecycleRule, container: str) -> bool:
    """Tell whether an enabled rule does something to every block blob of a container."""
    folder = f"{container}/"
    everywhere = not rule.prefixes or any(map(folder.startswith, rule.prefixes))
    return rule.enabled and everywhere and not lifecycle.is_partial(rule)


def _lock(look: AuditLook) -> Iterator[Finding]:
    wanted = "CanNotDelete at or above the account"
    if look.locks is None:
        yield _unread(look, "lock", wanted, "locks")
        return
    held = [k for k in look.locks if is_at_or_above(k.scope, look.account.id)]
    evidence = _words(f"{k.level} {k.name}" for k in held) or "none"
    yield _finding(look, "lock", wanted, bool(held), evidence)


# ---- who has access ------------------------------------------------------------------------


def _data_roles(look: AuditLook) -> Iterator[Finding]:
    check, wanted = "data roles", "identities hold them, on the account or its containers"
    if look.assignments is None:
        yield _unread(look, check, wanted, "assignments")
        return
    held = [a for a in look.assignments if roles.allows_blobs(a.role_id, "read")]
    custom = [a for a in look.assignments if roles.allows_blobs(a.role_id, "read") is None]
    broad = [a for a in held if not is_at_or_above(look.account.id, a.scope)]
    evidence = f"held by {_words(_holder(a) for a in held)}" if held else "held by nobody"
    if not held and custom:
        names = _words(sorted({a.role_id for a in custom}))
        yield _finding(look, check, wanted, None, None, reason=f"Roles not known here: {names}.")
        return
    yield _finding(
        look, check, wanted, bool(held) and not broad, evidence, fix=_roles_fix(look, broad)
    )


def _holder(assignment: RoleAssignment) -> str:
    who = f"{assignment.principal_type or 'principal'} {assignment.principal_id}"
    return f"{who} on {name_of(assignment.scope) or '/'}"


def _roles_fix(look: AuditLook, broad: list[RoleAssignment]) -> str:
    if not broad:
        role = roles.role_name(roles.BLOB_CONTRIBUTOR)
        words = ["ai4infra", "rbac", "assign", role, "--to", "WHO", "--on", look.account.id]
        return shlex.join(words)
    first = broad[0]
    words = ["ai4infra", "rbac", "remove", roles.role_name(first.role_id), "--from"]
    who = f"id:{first.principal_id}"
    if first.principal_type in ("User", "Group", "ServicePrincipal"):
        who += f":{first.principal_type}"
    return shlex.join([*words, who, "--on", first.scope])


def _readers(look: AuditLook) -> Iterator[Finding]:
    """Hold the holders of data roles against the kinds that the classification admits."""
    level = _level(look)
    if level is None or look.assignments is None:
        return
    held = [a for a in look.assignments if roles.allows_blobs(a.role_id, "read")]
    wrong = [a for a in held if a.principal_type and a.principal_type not in level.readers]
    unsaid = [a for a in held if a.principal_type is None]
    unknown = [
        a
        for a in look.assignments
        if roles.allows_blobs(a.role_id, "read") is None and a.principal_type not in level.readers
    ]
    reason = "What kind some of them are is not said." if unsaid else None
    if unknown and not reason:
        reason = f"Roles not known here: {_words(sorted({a.role_id for a in unknown}))}."
    yield _finding(
        look,
        "data readers",
        f"{level.name} data: {', '.join(level.readers)} only",
        False if wrong else None if unsaid or unknown else True,
        _words(_holder(a) for a in wrong or held) or "nobody",
        reason=None if wrong else reason,
        fix=_roles_fix(look, wrong) if wrong else None,
    )


# ---- growth and alerts ---------------------------------------------------------------------


def _growth(look: AuditLook) -> Iterator[Finding]:
    account = look.account
    check, wanted = "growth headroom", f"{GROWTH} times what is used fits the account"
    capacity = limits.account(account.location, premium=is_premium(account.sku)).capacity_tib
    if look.used_bytes is None:
        yield _unread(look, check, wanted, "used_bytes")
        return
    used = look.used_bytes / TIBYTE
    if capacity is None:
        reason = "The account's capacity is not published."
        yield _finding(look, check, wanted, None, f"{used:,.2f} TiB used", reason=reason)
        return
    yield _finding(
        look,
        check,
        wanted,
        used * GROWTH <= capacity,
        f"{used:,.2f} of {capacity:,} TiB used",
        fix="Plan for several accounts, or ask Azure Support for more capacity.",
    )


def _alerts(look: AuditLook) -> Iterator[Finding]:
    for kind, (metrics, condition) in ALERTS.items():
        check, wanted = f"{kind} alert", f"one that is on, of {', '.join(metrics)}"
        if look.alerts is None:
            yield _unread(look, check, wanted, "alerts")
            continue
        found = [a for a in look.alerts if _watches(a, look.account, metrics)]
        evidence = _words(a.name for a in found) or "none"
        fix = _alert_fix(look.account, kind, condition)
        yield _finding(look, check, wanted, bool(found), evidence, fix=fix)


def _watches(alert: MetricAlert, account: StorageAccount, metrics: Iterable[str]) -> bool:
    known = {metric.casefold() for metric in metrics}
    is_one = any(metric.casefold() in known for metric in alert.metrics)
    return alert.enabled and is_one and _in_scope(alert, account)


def _in_scope(alert: MetricAlert, account: StorageAccount) -> bool:
    """Tell whether a rule watches the account, its blob service, or all accounts around it."""
    if any(is_at_or_above(account.id, scope) for scope in alert.scopes):
        return True
    of_accounts = (alert.target_type or "").casefold() == STORAGE_TYPE
    return of_accounts and any(is_at_or_above(scope, account.id) for scope in alert.scopes)


def _alert_fix(account: StorageAccount, kind: str, condition: str) -> str:
    _, subscription, _, group, *_ = _where(account)
    words = ["az", "monitor", "metrics", "alert", "create", "--subscription", subscription]
    words += ["--resource-group", group, "--name", f"{account.name}-{kind}"]
    return shlex.join([*words, "--scopes", account.id, "--condition", condition])


_RULES: Final[tuple[Callable[[AuditLook], Iterator[Finding]], ...]] = (
    _classification,
    _tls,
    _https,
    _anonymous,
    _network,
    _keys,
    _namespace,
    _infrastructure_encryption,
    _customer_key,
    _soft_delete,
    _lifecycle,
    _data_roles,
    _readers,
    _growth,
    _alerts,
    _lock,
)
_OF_BLOBS: Final = frozenset(
    {_anonymous, _namespace, _soft_delete, _lifecycle, _data_roles, _readers}
)
