"""The account and what it lies in, its blob service, containers and lifecycle rules: as steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import structs

from ai4infra import arm, lifecycle
from ai4infra.arm import ArmWrite
from ai4infra.ids import region_key
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    LifecycleRule,
    Step,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import REGISTRATION, RegistrationWanted
from ai4infra.storage_checks import is_premium
from ai4infra.storage_names import group_scope
from ai4infra.storage_plan.steps import (
    BLOB_SERVICE,
    CONTAINER,
    LIFECYCLE,
    RESOURCE_GROUP,
    STAGE_ACCOUNT,
    STAGE_BLOB_SERVICE,
    STAGE_CONTAINERS,
    STAGE_GROUP,
    STAGE_LIFECYCLE,
    STORAGE_ACCOUNT,
    account_id,
    kept_step,
    refused_step,
    write_step,
)
from ai4infra.storage_target import (
    Comparison,
    Target,
    account_body,
    blob_comparisons,
    blob_service_body,
    comparisons,
    patch_of,
)

RULES_THERE: Final = "Its rules are there."


def registration_steps(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    """Plan, or ask for, the registration of the providers that are needed."""
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


def group_step(wanted: StorageWanted, look: StorageLook) -> Step:
    """Plan the resource group."""
    resource_id = group_scope(wanted.subscription_id, wanted.group)
    body = {"location": region_key(wanted.location)}
    write = arm.put(arm.GROUP, resource_id, body, stage=STAGE_GROUP)
    if look.group is None and look.account is not None:
        return kept_step(write_step("keep", RESOURCE_GROUP, write, "there, but not readable"))
    if look.group is None:
        return write_step("create", RESOURCE_GROUP, write, f"in {region_key(wanted.location)}")
    return kept_step(write_step("keep", RESOURCE_GROUP, write, f"in {look.group.location}"))


def account_step(target: Target, look: StorageLook) -> Step:
    """Plan the account itself."""
    resource_id = account_id(target.wanted)
    if look.account is None:
        write = arm.put(arm.ACCOUNT, resource_id, account_body(target), stage=STAGE_ACCOUNT)
        return write_step("create", STORAGE_ACCOUNT, write, _account_detail(target))
    different = _unlike(comparisons(target, look.account))
    write = arm.patch(arm.ACCOUNT, resource_id, patch_of(different), stage=STAGE_ACCOUNT)
    return _existing(target, write, STORAGE_ACCOUNT, different)


def _unlike(rows: Iterable[Comparison]) -> list[Comparison]:
    return [row for row in rows if row.holds is not True]


def _existing(target: Target, write: ArmWrite, kind: str, different: list[Comparison]) -> Step:
    """Return the step for something that is there: kept, or changed where that is asked for."""
    changes = "; ".join(c.difference for c in different)
    step = write_step("update", kind, write, changes or "as wanted")
    if not different:
        return kept_step(step)
    if target.wanted.update:
        return step
    return kept_step(step, f"It is there, and differs: {changes}. --update changes it.")


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


def blob_service_step(target: Target, look: StorageLook) -> Step:
    """Plan the settings of the account's blob service."""
    resource_id = f"{account_id(target.wanted)}/blobServices/default"
    if look.account is None:
        body = blob_service_body(target)
        write = arm.put(arm.BLOB_SERVICE, resource_id, body, stage=STAGE_BLOB_SERVICE)
        return write_step("create", BLOB_SERVICE, write, _blob_service_detail(target))
    if look.blob_service is None:
        write = arm.put(arm.BLOB_SERVICE, resource_id, {}, stage=STAGE_BLOB_SERVICE)
        step = write_step("keep", BLOB_SERVICE, write, "unknown")
        return kept_step(step, "The settings could not be read.")
    different = _unlike(blob_comparisons(target, look.blob_service))
    # Microsoft documents no PATCH here, and not that a PUT keeps what it does not name.
    changes = patch_of(different).get("properties", {})
    body = {"properties": {**look.blob_service.raw, **changes}}
    write = arm.put(arm.BLOB_SERVICE, resource_id, body, stage=STAGE_BLOB_SERVICE)
    step = _existing(target, write, BLOB_SERVICE, different)
    if different and _is_unfinished(look, look.blob_service):
        return structs.replace(step, action="update", reason=None)
    return step


def _is_unfinished(look: StorageLook, found: BlobServiceSettings) -> bool:
    """Tell an account that a run before made and did not come to set up: nothing is in it yet."""
    never_set = found.blob_soft_delete_days == found.container_soft_delete_days == 0
    return look.containers == () and never_set


def _blob_service_detail(target: Target) -> str:
    wanted = target.wanted
    features = [
        f"soft delete {target.soft_delete_days} days, blobs and containers",
        "versions" if wanted.versioning else "",
        "change feed" if wanted.change_feed else "",
        f"restore within {wanted.restore_days} days" if wanted.restore_days is not None else "",
    ]
    return ", ".join(filter(None, features))


def container_steps(wanted: StorageWanted, look: StorageLook) -> Iterator[Step]:
    """Plan the containers, those of the lifecycle rules as well."""
    found = {container.name: container for container in look.containers or ()}
    unknown = look.account is not None and look.containers is None
    needed = (*wanted.containers, *(rule.container for rule in wanted.lifecycles))
    for name in dict.fromkeys(needed):
        write = arm.container_write(account_id(wanted), name, stage=STAGE_CONTAINERS)
        step = write_step("create", CONTAINER, write, "no anonymous access")
        if unknown:
            yield refused_step(step, "The containers could not be read; writing could change one.")
        else:
            yield _existing_container(wanted, step, found[name]) if name in found else step


def _existing_container(wanted: StorageWanted, step: Step, found: Container) -> Step:
    if (found.public_access or "None").casefold() == "none":
        return kept_step(step)
    change = f"publicAccess is {found.public_access}, wanted None"
    if wanted.update:
        write = arm.container_write(account_id(wanted), found.name, stage=STAGE_CONTAINERS)
        patch = structs.replace(write, method="PATCH")
        return structs.replace(step, action="update", detail=change, wanted=patch)
    return kept_step(step, f"It is there, and differs: {change}. --update changes it.")


def lifecycle_steps(target: Target, look: StorageLook) -> Iterator[Step]:
    """Plan the lifecycle policy: our rules beside those of others."""
    premium = is_premium_target(target, look)
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


def is_premium_target(target: Target, look: StorageLook) -> bool:
    """Tell whether the account is, or will be, one of premium block blobs."""
    return is_premium(look.account.sku if look.account else target.sku)


def _policy_id(target: Target) -> str:
    return f"{account_id(target.wanted)}/managementPolicies/default"


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
    shown = sent or [by_name[rule.name] for rule in rules]
    step = _policy_step(target, found, shown, new)
    drift = "; ".join(_rule_change(by_name[r.name], r) for r in changed)
    if not sent:
        reason = f"It is there, and differs: {drift}. --update changes it." if drift else None
        return kept_step(step, reason or RULES_THERE)
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
    blob_service = f"{account_id(target.wanted)}/blobServices/default"
    write = structs.replace(write, after=(blob_service,))
    kept = len(found) - (len(sent) - len(new))
    others = f" (beside {kept} other rules)" if kept > 0 else ""
    detail = "; ".join(map(lifecycle.describe, sent)) + others
    return write_step("update" if found else "create", LIFECYCLE, write, detail)


def _same(rule: LifecycleRule, by_name: dict[str, LifecycleRule]) -> bool:
    return lifecycle.same_rule(rule, by_name[rule.name])


def _rule_change(found: LifecycleRule, wanted: LifecycleRule) -> str:
    return f"{found.name} is {lifecycle.describe(found)}, wanted {lifecycle.describe(wanted)}"
