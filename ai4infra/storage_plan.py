"""What is wanted and observed, as steps: ``storage create``, ``storage delete``, ``rbac``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import structs

from ai4infra import arm, lifecycle
from ai4infra.arm import ArmWrite, is_at_or_above, name_of, same_id
from ai4infra.classification import TAG as CLASSIFICATION_TAG
from ai4infra.classification import Level, contradictions, reader_contradictions
from ai4infra.ids import region_key
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    DnsZone,
    Finding,
    GrantWanted,
    LifecycleRule,
    Lock,
    PrivateEndpoint,
    RoleAssignment,
    Step,
    StepAction,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import REGISTRATION, Plan, RegistrationWanted
from ai4infra.storage_checks import check_wanted, is_premium
from ai4infra.storage_names import account_scope, group_scope
from ai4infra.storage_target import (
    Comparison,
    Target,
    account_body,
    blob_comparisons,
    blob_service_body,
    comparisons,
    fixed_comparisons,
    immutable_differences,
    network_of,
    patch_of,
    target_of,
)

RESOURCE_GROUP: Final = "resource group"
STORAGE_ACCOUNT: Final = "storage account"
BLOB_SERVICE: Final = "blob service settings"
CONTAINER: Final = "container"
LIFECYCLE: Final = "lifecycle policy"
ENDPOINT: Final = "private endpoint"
DNS_ZONE: Final = "private DNS zone"
DNS_LINK: Final = "private DNS link"
DNS_ZONE_GROUP: Final = "private DNS zone group"
ASSIGNMENT: Final = "role assignment"
LOCK: Final = "lock"
CLASSIFICATION: Final = "classification"

THERE: Final = "It is there."
RULES_THERE: Final = "Its rules are there."
ASSIGNED: Final = "It is assigned already."
CONDITIONAL: Final = "It is assigned, but under a condition that narrows it."

LOCK_NAME: Final = "ai4infra-cannot-delete"
LOCK_NOTES: Final = "Holds training data; delete the lock before the account."

# The account's own children change one after the other: it refuses a second operation while one
# is under way. Containers and role assignments do not count as such.
STAGE_GROUP: Final = 1
STAGE_ACCOUNT: Final = 2
STAGE_BLOB_SERVICE: Final = 3
STAGE_CONTAINERS: Final = 4
STAGE_LIFECYCLE: Final = 5
STAGE_ENDPOINTS: Final = {"blob": 5, "dfs": 6}
STAGE_ZONE_GROUPS: Final = 7
STAGE_GRANTS: Final = 7
STAGE_LOCK: Final = 8


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
        *_registrations(wanted, look),
        _group(wanted, look),
        _account(target, look),
        _blob_service(target, look),
        *_containers(wanted, look),
        *_lifecycle(target, look),
        *_private_access(target, look),
        *_storage_grants(wanted, look),
        *_lock(wanted, look),
    ]
    steps = [*_read_only(steps, look.locks), *sorted(steps, key=_stage)]
    return Plan(steps=tuple(steps), warnings=tuple(_warnings(target, look, steps)))


def _stage(step: Step) -> int:
    return step.wanted.stage if isinstance(step.wanted, ArmWrite) else 0


def _account_id(wanted: StorageWanted) -> str:
    return account_scope(wanted.subscription_id, wanted.group, wanted.account)


def _write_step(action: StepAction, kind: str, write: ArmWrite, detail: str) -> Step:
    name = name_of(write.resource_id)
    return Step(
        action=action,
        kind=kind,
        name=name,
        detail=detail,
        resource_id=write.resource_id,
        wanted=write,
    )


def _kept(step: Step, reason: str = THERE) -> Step:
    """Return the same step as one that is kept; its write still says where it belongs."""
    return structs.replace(step, action="keep", reason=reason)


# --- What refuses the whole plan ---


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
    if look.name.state == "taken":
        said = f" The service says: {look.name.message}" if look.name.message else ""
        return (
            "Somebody else has the name, or an account of this name was deleted in the last"
            f" 14 days: use another name (--name), or recover that account.{said}"
        )
    return None


def _contradictions(target: Target, look: StorageLook) -> Iterator[Step]:
    if target.level is None:
        return
    reasons = contradictions(target.wanted, target.level)
    if target.level.customer_key and not _has_key(target, look.account):
        reasons.append(
            f"{target.level.name} data needs a customer-managed key: its URI and a user-assigned"
            " identity that may use it."
        )
    for reason in reasons:
        yield _contradiction(target.level, reason)


def _contradiction(level: Level, reason: str) -> Step:
    return Step(
        action="refuse",
        kind=CLASSIFICATION,
        name=level.name,
        detail="the classification does not allow this",
        reason=reason,
    )


def _has_key(target: Target, account: StorageAccount | None) -> bool:
    return target.wanted.key_uri is not None or (account is not None and bool(account.key_uri))


def _read_only(steps: Sequence[Step], locks: Iterable[Lock]) -> list[Step]:
    """Return the refusal that a ReadOnly lock is, where there is anything to write."""
    found = [lock for lock in locks if lock.level.casefold() == "readonly"]
    if not found or all(step.action == "keep" for step in steps):
        return []
    return [_locked(found[0], "lets nothing be changed")]


def _locked(lock: Lock, what: str) -> Step:
    return Step(
        action="refuse",
        kind=LOCK,
        name=lock.name,
        detail=f"{lock.level} lock on {lock.scope or 'the subscription'}",
        resource_id=lock.id,
        reason=f"The lock {lock.name} {what}. Remove it first: az lock delete --ids {lock.id}",
    )


# --- The account and what it lies in ---


def _registrations(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    needed = ["Microsoft.Storage", *(["Microsoft.Network"] if wanted.endpoint_subnet else [])]
    missing = {namespace.casefold() for namespace in look.unregistered}
    for namespace in needed:
        if namespace.casefold() in missing:
            yield Step(
                action="create" if wanted.register else "refuse",
                kind=REGISTRATION,
                name=namespace,
                detail=f"register subscription {wanted.subscription_id} for {namespace}",
                reason=None if wanted.register else _not_registered(wanted, namespace),
                wanted=RegistrationWanted(
                    subscription_id=wanted.subscription_id, namespace=namespace
                ),
            )


def _not_registered(wanted: StorageWanted, namespace: str) -> str:
    return (
        f"The subscription is not registered for {namespace}. Add --register, or run:"
        f" az provider register --namespace {namespace} --subscription {wanted.subscription_id}"
    )


def _group(wanted: StorageWanted, look: StorageLook) -> Step:
    resource_id = group_scope(wanted.subscription_id, wanted.group)
    body = {"location": region_key(wanted.location)}
    write = arm.put(arm.GROUP, resource_id, body, stage=STAGE_GROUP)
    if look.group is None:
        return _write_step("create", RESOURCE_GROUP, write, f"in {region_key(wanted.location)}")
    return _kept(_write_step("keep", RESOURCE_GROUP, write, f"in {look.group.location}"))


def _account(target: Target, look: StorageLook) -> Step:
    resource_id = _account_id(target.wanted)
    if look.account is None:
        write = arm.put(arm.ACCOUNT, resource_id, account_body(target), stage=STAGE_ACCOUNT)
        return _write_step("create", STORAGE_ACCOUNT, write, _account_detail(target))
    different = _unlike(comparisons(target, look.account))
    write = arm.patch(arm.ACCOUNT, resource_id, patch_of(different), stage=STAGE_ACCOUNT)
    return _existing(target, write, STORAGE_ACCOUNT, different)


def _unlike(rows: Iterable[Comparison]) -> list[Comparison]:
    return [row for row in rows if row.holds is not True]


def _existing(target: Target, write: ArmWrite, kind: str, different: list[Comparison]) -> Step:
    """Return the step for something that is there: kept, or changed where that is asked for."""
    changes = "; ".join(c.difference for c in different)
    step = _write_step("update", kind, write, changes or "as wanted")
    if not different:
        return _kept(step)
    if target.wanted.update:
        return step
    return _kept(step, f"It is there, and differs: {changes}. --update changes it.")


def _account_detail(target: Target) -> str:
    wanted = target.wanted
    features = [
        target.kind,
        target.sku,
        region_key(wanted.location),
        "hierarchical namespace" if wanted.hns else "flat namespace",
        f"network {target.network}",
        "no shared keys",
        "infrastructure encryption" if target.infrastructure_encryption else "",
        "customer-managed key" if wanted.key_uri else "",
    ]
    return f"{', '.join(filter(None, features))}; {cost_to_keep(wanted)}"


def cost_to_keep(wanted: StorageWanted) -> str:
    """Say what the stored data costs in a month, by the list price; unknown stays unknown."""
    price = wanted.price_per_gib_month
    if price is None:
        return "what it costs to keep is unknown"
    currency = wanted.currency or "USD"
    line = f"costs {price:.4g} {currency} per GiB and month (list price)"
    if wanted.expected_gib is None:
        return line
    total = price * wanted.expected_gib
    return f"{line}, about {total:,.2f} {currency} a month for {wanted.expected_gib:,.0f} GiB"


def _blob_service(target: Target, look: StorageLook) -> Step:
    resource_id = f"{_account_id(target.wanted)}/blobServices/default"
    if look.account is None:
        body = blob_service_body(target)
        write = arm.put(arm.BLOB_SERVICE, resource_id, body, stage=STAGE_BLOB_SERVICE)
        detail = f"soft delete {target.soft_delete_days} days, blobs and containers"
        return _write_step("create", BLOB_SERVICE, write, detail)
    if look.blob_service is None:
        write = arm.put(arm.BLOB_SERVICE, resource_id, {}, stage=STAGE_BLOB_SERVICE)
        step = _write_step("keep", BLOB_SERVICE, write, "unknown")
        return _kept(step, "The settings could not be read.")
    different = _unlike(blob_comparisons(target, look.blob_service))
    # The service leaves settings that a PUT does not name as they are.
    body = patch_of(different)
    write = arm.put(arm.BLOB_SERVICE, resource_id, body, stage=STAGE_BLOB_SERVICE)
    step = _existing(target, write, BLOB_SERVICE, different)
    if different and _is_unfinished(look, look.blob_service):
        return structs.replace(step, action="update", reason=None)
    return step


def _is_unfinished(look: StorageLook, found: BlobServiceSettings) -> bool:
    """Tell an account that a run before made and did not come to set up: nothing is in it yet."""
    never_set = found.blob_soft_delete_days == found.container_soft_delete_days == 0
    return look.containers == () and never_set


def _containers(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    found = {container.name: container for container in look.containers or ()}
    needed = (*wanted.containers, *(rule.container for rule in wanted.lifecycles))
    for name in dict.fromkeys(needed):
        write = arm.container_write(_account_id(wanted), name, stage=STAGE_CONTAINERS)
        step = _write_step("create", CONTAINER, write, "no anonymous access")
        yield _existing_container(wanted, step, found[name]) if name in found else step


def _existing_container(wanted: StorageWanted, step: Step, found: Container) -> Step:
    if (found.public_access or "None").casefold() == "none":
        return _kept(step)
    change = f"publicAccess is {found.public_access}, wanted None"
    if wanted.update:
        write = arm.container_write(_account_id(wanted), found.name, stage=STAGE_CONTAINERS)
        patch = structs.replace(write, method="PATCH")
        return structs.replace(step, action="update", detail=change, wanted=patch)
    return _kept(step, f"It is there, and differs: {change}. --update changes it.")


# --- Lifecycle ---


def _lifecycle(target: Target, look: StorageLook) -> Iterator[Step]:
    premium = _is_premium(target, look)
    rules = [lifecycle.wanted_rule(w, premium=premium) for w in target.wanted.lifecycles]
    # On a premium account that is there already, a rule that only cools has nothing to do.
    rules = [r for r in rules if (r.cool_after_days, r.delete_after_days) != (None, None)]
    if not rules:
        return
    found = () if look.account is None else look.lifecycle
    if found is None:
        yield _unknown_policy(target)
    else:
        yield _policy(target, found, rules)


def _is_premium(target: Target, look: StorageLook) -> bool:
    return is_premium(look.account.sku if look.account else target.sku)


def _policy_id(target: Target) -> str:
    return f"{_account_id(target.wanted)}/managementPolicies/default"


def _unknown_policy(target: Target) -> Step:
    return Step(
        action="refuse",
        kind=LIFECYCLE,
        name="default",
        detail="the rules that are there are unknown",
        resource_id=_policy_id(target),
        reason="The lifecycle policy could not be read; writing it could lose rules of others.",
    )


def _policy(target: Target, found: Sequence[LifecycleRule], rules: list[LifecycleRule]) -> Step:
    by_name = {rule.name: rule for rule in found}
    new = [r for r in rules if r.name not in by_name]
    changed = [r for r in rules if r.name in by_name and not _same(r, by_name)]
    sent = [*new, *(changed if target.wanted.update else [])]
    step = _policy_step(target, found, sent, new)
    drift = "; ".join(_rule_change(by_name[r.name], r) for r in changed)
    if not sent:
        reason = f"It is there, and differs: {drift}. --update changes it." if drift else None
        return _kept(step, reason or RULES_THERE)
    if drift and not target.wanted.update:
        return structs.replace(step, reason=f"Left as they are: {drift}. --update changes them.")
    return step


def _policy_step(
    target: Target,
    found: Sequence[LifecycleRule],
    sent: Sequence[LifecycleRule],
    new: Sequence[LifecycleRule],
) -> Step:
    if len({r.name for r in (*found, *sent)}) > lifecycle.MAX_RULES:
        return structs.replace(
            _unknown_policy(target),
            detail=f"more than {lifecycle.MAX_RULES} rules",
            reason=f"An account has at most {lifecycle.MAX_RULES} lifecycle rules.",
        )
    body = lifecycle.merged(found, sent)
    write = arm.put(arm.LIFECYCLE, _policy_id(target), body, stage=STAGE_LIFECYCLE)
    blob_service = f"{_account_id(target.wanted)}/blobServices/default"
    write = structs.replace(write, after=(blob_service,))
    kept = len(found) - (len(sent) - len(new))
    others = f" (beside {kept} other rules)" if kept > 0 else ""
    detail = "; ".join(map(lifecycle.describe, sent)) + others
    return _write_step("update" if found else "create", LIFECYCLE, write, detail)


def _same(rule: LifecycleRule, by_name: dict[str, LifecycleRule]) -> bool:
    return lifecycle.same_rule(rule, by_name[rule.name])


def _rule_change(found: LifecycleRule, wanted: LifecycleRule) -> str:
    return f"{found.name} is {lifecycle.describe(found)}, wanted {lifecycle.describe(wanted)}"


# --- Private endpoints and their names ---


def _private_access(target: Target, look: StorageLook) -> Iterator[Step]:
    subnet = target.wanted.endpoint_subnet
    if subnet is None:
        return
    for group in endpoint_groups(target.wanted):
        yield from _endpoint_steps(target, look, group, subnet)


def endpoint_groups(wanted: StorageWanted) -> tuple[str, ...]:
    """Return the services that need a private endpoint: dfs clients use blob as well."""
    return ("blob", "dfs") if wanted.hns else ("blob",)


def _endpoint_steps(target: Target, look: StorageLook, group: str, subnet: str) -> Iterator[Step]:
    wanted = target.wanted
    vnet = arm.vnet_of(subnet)
    found = _found_endpoint(target, look, group, subnet)
    endpoint = _endpoint(target, look, group, subnet)
    yield endpoint
    if endpoint.action == "refuse":
        return
    # An endpoint that has its zone may have it from another subscription: that zone is enough.
    if found is not None and found.zone_ids:
        yield _zone_group(found, endpoint, found.zone_ids[0])
        return
    zone = _zone(wanted, look, group, vnet)
    yield from _zone_steps(wanted, zone, group, vnet)
    yield _zone_group(found, endpoint, zone.id if zone else _own_zone_id(wanted, group))


def _own_zone_id(wanted: StorageWanted, group: str) -> str:
    own = group_scope(wanted.subscription_id, wanted.group)
    return arm.zone_id(own, arm.zone_name(group, wanted.storage_suffix))


def _zone(wanted: StorageWanted, look: StorageLook, group: str, vnet: str) -> DnsZone | None:
    """Choose among the zones that are there: the network's own, then our group's, then any.

    A network can be linked to one zone of a name only, so a linked one leaves no choice.
    """
    name = arm.zone_name(group, wanted.storage_suffix)
    zones = [z for z in look.dns_zones or () if z.name.casefold() == name.casefold()]
    linked = [z for z in zones if _is_linked(z, vnet)]
    own = [z for z in zones if same_id(z.id, _own_zone_id(wanted, group))]
    return next(iter([*linked, *own, *zones]), None)


def _is_linked(zone: DnsZone, vnet: str) -> bool:
    return any(same_id(linked, vnet) for linked in zone.vnet_ids or ())


def _zone_steps(
    wanted: StorageWanted, zone: DnsZone | None, group: str, vnet: str
) -> Iterator[Step]:
    zone_id = zone.id if zone else _own_zone_id(wanted, group)
    zone_step = _write_step(
        "create", DNS_ZONE, arm.zone_write(zone_id, stage=STAGE_ACCOUNT), f"for {group} names"
    )
    link = arm.zone_link_write(zone_id, vnet, stage=STAGE_BLOB_SERVICE)
    link_step = _write_step("create", DNS_LINK, link, f"{name_of(vnet)} resolves {group} names")
    yield _kept(zone_step) if zone else zone_step
    if zone is None or zone.vnet_ids is not None:
        yield _kept(link_step) if zone and _is_linked(zone, vnet) else link_step
    else:
        yield _kept(link_step, "The zone's links could not be read.")


def _found_endpoint(
    target: Target, look: StorageLook, group: str, subnet: str
) -> PrivateEndpoint | None:
    account = _account_id(target.wanted)
    return next(
        (
            e
            for e in look.endpoints or ()
            if same_id(e.target_id, account)
            and same_id(e.subnet_id, subnet)
            and group in [g.casefold() for g in e.group_ids]
        ),
        None,
    )


def _endpoint(target: Target, look: StorageLook, group: str, subnet: str) -> Step:
    account = _account_id(target.wanted)
    location = region_key(look.vnet_location or target.wanted.location)
    write = arm.endpoint_write(account, group, subnet, location, stage=STAGE_ENDPOINTS[group])
    if group == "dfs":
        write = structs.replace(write, after=(arm.endpoint_id(account, "blob"),))
    step = _write_step("create", ENDPOINT, write, f"{group}, in {name_of(subnet)}")
    found = _found_endpoint(target, look, group, subnet)
    if found is not None:
        return _kept(_named(step, found), _endpoint_state(found))
    foreign = [e for e in look.endpoints or () if same_id(e.id, write.resource_id)]
    if foreign:
        reason = f"Its name is in use, for {foreign[0].target_id} in {foreign[0].subnet_id}."
        return structs.replace(step, action="refuse", reason=reason, wanted=None)
    return step


def _named(step: Step, found: PrivateEndpoint) -> Step:
    """Return the step for the endpoint that is there, whatever its name."""
    if not isinstance(step.wanted, ArmWrite):
        return step
    write = structs.replace(step.wanted, resource_id=found.id)
    return structs.replace(step, name=found.name, resource_id=found.id, wanted=write)


def _endpoint_state(found: PrivateEndpoint) -> str:
    if found.state is None or found.state.casefold() == "approved":
        return THERE
    return f"It is there, but its connection is {found.state}."


def _zone_group(found: PrivateEndpoint | None, endpoint: Step, zone: str) -> Step:
    resource_id = endpoint.resource_id or ""
    write = arm.zone_group_write(resource_id, zone, stage=STAGE_ZONE_GROUPS)
    step = structs.replace(
        _write_step("create", DNS_ZONE_GROUP, write, f"{endpoint.name} in {name_of(zone)}"),
        name=f"{endpoint.name}/default",
    )
    if found is None:
        return step
    if found.zone_ids is None:
        return _kept(step, "The zone groups could not be read.")
    return _kept(step) if found.zone_ids else step


# --- Role assignments ---


def _storage_grants(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    account = _account_id(wanted)
    found = [c.name for c in look.containers or ()]
    known = {*found, *wanted.containers, *(rule.container for rule in wanted.lifecycles)}
    listed = look.account is None or look.containers is not None
    lost = [g for g in wanted.grants if listed and g.container and g.container not in known]
    yield from (_nowhere(step, wanted) for step in _grants(lost, (), account))
    yield from _grants([g for g in wanted.grants if g not in lost], look.assignments, account)


def _nowhere(step: Step, wanted: StorageWanted) -> Step:
    reason = f"{wanted.account} has no such container; --container makes it."
    return structs.replace(step, action="refuse", reason=reason, wanted=None)


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
        return _kept(structs.replace(step, resource_id=found.id), _held(found, scope))
    return _kept(step, f"Inherited from {wider}.") if wider else step


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
    locks: Sequence[Lock] = (),
) -> Plan:
    """Plan role assignments; every grant names its scope.

    ``assignments`` are those at and above the scopes, None when they could not be read: then all
    are sent, and the service says which are there. ``level`` is the classification of the account
    that the grants are on.
    """
    if level is not None:
        refusals = [_contradiction(level, r) for r in reader_contradictions(grants, level)]
        if refusals:
            return Plan(steps=tuple(refusals))
    steps = _grants(grants, assignments, "")
    unread = ["The role assignments that are there could not be read."]
    return Plan(
        steps=(*_read_only(steps, locks), *steps),
        warnings=tuple(unread if assignments is None else _conditions(steps)),
    )


def _conditions(steps: Iterable[Step]) -> list[str]:
    return [f"{s.name}, {s.detail}: {s.reason}" for s in steps if s.reason == CONDITIONAL]


def rbac_remove_steps(
    grants: Sequence[GrantWanted],
    assignments: Sequence[RoleAssignment],
    *,
    locks: Sequence[Lock] = (),
) -> Plan:
    """Plan the removal of role assignments at exactly their scopes.

    What is not there is kept away without more ado; what is inherited is refused with the scope
    that it comes from.
    """
    steps = [step for grant in grants for step in _removals(grant, assignments)]
    scopes = [s.resource_id or "" for s in steps if s.action == "delete"]
    blocking = [k for k in locks if any(is_at_or_above(k.scope, scope) for scope in scopes)]
    return Plan(steps=(*(_locked(k, "lets nothing be removed") for k in blocking), *steps))


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
        return [_kept(step, "It is not assigned.")]
    return [*(_removal(step, a) for a in here), *inherited]


def _removal(step: Step, found: RoleAssignment) -> Step:
    write = arm.delete(arm.ASSIGNMENT, found.id, stage=STAGE_GRANTS)
    return structs.replace(step, resource_id=found.id, wanted=write)


def _not_here(step: Step, found: RoleAssignment) -> Step:
    reason = f"It is inherited from {found.scope or '/'}: remove it there (--on)."
    return structs.replace(step, action="refuse", resource_id=found.id, reason=reason)


# --- Lock ---


def _lock(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    if not wanted.lock:
        return
    account = _account_id(wanted)
    write = arm.lock_write(account, LOCK_NAME, LOCK_NOTES, stage=STAGE_LOCK)
    step = _write_step("create", LOCK, write, "CanNotDelete on the account; data is not protected")
    held = [lock for lock in look.locks if is_at_or_above(lock.scope, account)]
    yield _kept(step, f"The lock {held[0].name} ({held[0].level}) is there.") if held else step


# --- Warnings ---


def _warnings(target: Target, look: StorageLook, steps: Sequence[Step]) -> Iterator[str]:
    yield from _drift(steps)
    yield from _reach(target, look)
    yield from _conditions(steps)
    yield from _early(target, look)
    yield from _unread(target, look)
    yield from _other_readers(target, look)


def _drift(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        silent = step.kind in (ASSIGNMENT, LOCK) or step.action == "refuse"
        if not silent and step.reason not in (None, THERE, RULES_THERE):
            yield f"{step.kind} {step.name}: {step.reason}"


def _reach(target: Target, look: StorageLook) -> Iterator[str]:
    """Warn of accounts that nobody reaches, and of endpoints beside an open door."""
    wanted = target.wanted
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
    premium = _is_premium(target, look)
    for rule in target.wanted.lifecycles:
        if premium and rule.cool_after_days is not None:
            yield f"Premium block blobs have no cool tier: {rule.container} is not cooled."
        elif lifecycle.charged_early(rule):
            yield (
                f"{rule.container} is deleted before the cool tier's"
                f" {lifecycle.COOL_MINIMUM_DAYS} days are over: they are charged all the same."
            )


def _unread(target: Target, look: StorageLook) -> Iterator[str]:
    if look.account is not None and target.wanted.grants and look.assignments is None:
        yield "The role assignments that are there could not be read."
    if target.wanted.endpoint_subnet and look.dns_zones is None:
        yield "The private DNS zones that are there could not be read; new ones are made."


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


# --- After the writing ---


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


# --- Deleting ---


def storage_delete_steps(look: StorageLook) -> Plan:
    """Plan the deletion of an account with its own private endpoints.

    Raises nothing where there is no account: then there is nothing to do. A lock at or above it
    refuses. DNS zones stay, since others may use them.
    """
    if look.account is None:
        return Plan(steps=())
    account = look.account
    locks = [_locked(k, "protects it") for k in look.locks if is_at_or_above(k.scope, account.id)]
    if locks:
        return Plan(steps=tuple(locks))
    write = arm.delete(arm.ACCOUNT, account.id, stage=STAGE_ACCOUNT)
    step = _write_step("delete", STORAGE_ACCOUNT, write, _losses(look))
    return Plan(
        steps=(*_own_endpoints(look, account), step), warnings=tuple(_last_words(look, account))
    )


def _losses(look: StorageLook) -> str:
    if look.containers is None:
        return "with all data; which containers it has is unknown"
    names = ", ".join(c.name for c in look.containers)
    return f"with all data in {len(look.containers)} containers: {names}" if names else "empty"


def _own_endpoints(look: StorageLook, account: StorageAccount) -> Iterator[Step]:
    for endpoint in look.endpoints or ():
        if same_id(endpoint.target_id, account.id) and _has_our_name(endpoint, account):
            write = arm.delete(arm.ENDPOINT, endpoint.id, stage=STAGE_GROUP)
            yield _write_step("delete", ENDPOINT, write, "it connects to nothing else")


def _has_our_name(endpoint: PrivateEndpoint, account: StorageAccount) -> bool:
    return any(same_id(endpoint.id, arm.endpoint_id(account.id, g)) for g in ("blob", "dfs"))


def _last_words(look: StorageLook, account: StorageAccount) -> Iterator[str]:
    yield (
        "Soft delete does not outlive the account. Microsoft may recover it for 14 days, as long"
        " as nobody takes the name."
    )
    level = next((v for k, v in account.tags.items() if k.casefold() == CLASSIFICATION_TAG), None)
    if level is not None:
        yield f"Its data is classified {level}."
    for endpoint in look.endpoints or ():
        if same_id(endpoint.target_id, account.id) and not _has_our_name(endpoint, account):
            yield f"The private endpoint {endpoint.id} stays, connected to nothing, and is billed."
