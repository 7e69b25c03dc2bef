"""Microsoft.Storage below an account: the blob service, containers and the lifecycle policy."""

from __future__ import annotations

import re
from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    arm_time,
    empty,
    json_body,
    page_of,
)
from ai4infra.sandbox.storage import ACCOUNT, KIND, ready_account
from ai4infra.sandbox.storage_rules import not_allowed
from ai4infra.sandbox.tracked import found, keep, listed, merged, properties, rows
from ai4infra.sandbox.world import World

service = Service()
Row = dict[str, Any]

SERVICE_KIND = f"{KIND}/blobServices"
CONTAINER_KIND = f"{SERVICE_KIND}/containers"
_SERVICE = f"{ACCOUNT}/blobServices/default"
_CONTAINERS = f"{_SERVICE}/containers"
_CONTAINER = f"{_CONTAINERS}/{{container}}"
_POLICY = f"{ACCOUNT}/managementPolicies/{{policy}}"
_MOST_DAYS = 365


@service.route("GET", f"{ACCOUNT}/blobServices")
def list_blob_services(call: Call) -> Response:
    """Answer with the one blob service."""
    return answer({"value": [blob_service(call.world, _blob_account(call))]})


@service.route("GET", _SERVICE)
def get_blob_service(call: Call) -> Response:
    """Answer with the settings of the blob service."""
    return answer(blob_service(call.world, _blob_account(call)))


@service.route("PUT", _SERVICE)
def put_blob_service(call: Call) -> Response:
    """Set the settings that the body names; the others go back to what they are from the start.

    Azure's own reference leaves open what becomes of them: this is the harder of the two.
    """
    account = _blob_account(call)
    row = _unset_service(account)
    wanted = properties(json_body(call.request))
    row["properties"] = merged(row["properties"], wanted)
    _check_settings(account, row["properties"])
    return answer(keep(call.world, row))


def blob_service(world: World, account: Row) -> Row:
    """Return the blob service of an account: as it was set, or as it is from the start."""
    return found(world, f"{account['id']}/blobServices/default") or _unset_service(account)


def _unset_service(account: Row) -> Row:
    return {
        "sku": account["sku"],
        "id": f"{account['id']}/blobServices/default",
        "name": "default",
        "type": SERVICE_KIND,
        "properties": {
            "cors": {"corsRules": []},
            "deleteRetentionPolicy": {"allowPermanentDelete": False, "enabled": False},
        },
    }


def _blob_account(call: Call) -> Row:
    account = ready_account(call)
    if account["kind"] == "FileStorage":
        raise _unsupported("Blob")
    return account


def _unsupported(feature: str) -> ServiceFailure:
    message = f"{feature} is not supported for the account."
    return ServiceFailure(409, "FeatureNotSupportedForAccount", message)


def _check_settings(account: Row, told: Row) -> None:
    hierarchical = account["properties"].get("isHnsEnabled")
    features = {
        "Versioning": told.get("isVersioningEnabled"),
        "ChangeFeed": (told.get("changeFeed") or {}).get("enabled"),
        "RestorePolicy": (told.get("restorePolicy") or {}).get("enabled"),
    }
    for feature, on in features.items():
        if on and hierarchical:
            raise _unsupported(feature)
    for name in ("deleteRetentionPolicy", "containerDeleteRetentionPolicy"):
        _check_days(name, told.get(name) or {})
    _check_restore(told)


def _check_days(name: str, policy: Row) -> None:
    days = policy.get("days")
    if policy.get("enabled") and not (isinstance(days, int) and 1 <= days <= _MOST_DAYS):
        raise not_allowed(f"{name}.days", days)


def _check_restore(told: Row) -> None:
    """Refuse point-in-time restore without the three features that it builds on."""
    restore, deleted = told.get("restorePolicy") or {}, told.get("deleteRetentionPolicy") or {}
    if not restore.get("enabled"):
        return
    feed = (told.get("changeFeed") or {}).get("enabled")
    whole = feed and told.get("isVersioningEnabled") and deleted.get("enabled")
    if not whole or not restore.get("days", 0) < deleted.get("days", 0):
        raise not_allowed("restorePolicy.enabled", True)


@service.route("GET", _CONTAINERS)
def list_containers(call: Call) -> Response:
    """Answer with the containers by name, in pages; ``$filter`` is a prefix of the name."""
    prefix = call.query.get("$filter", "")
    mine = rows(call.world, f"{_blob_account(call)['id']}/blobServices", CONTAINER_KIND)
    chosen = sorted((row for row in mine if row["name"].startswith(prefix)), key=_name)
    size = call.query.get("$maxpagesize", "")
    if not size.isdecimal():
        return listed(call, chosen)
    return answer(page_of(chosen, call.request, max(1, int(size))))


def _name(row: Row) -> str:
    return str(row["name"])


@service.route("GET", _CONTAINER)
def get_container(call: Call) -> Response:
    """Answer with one container."""
    row = found(call.world, _container_id(_blob_account(call), call["container"]))
    if row is None:
        message = "The specified container does not exist."
        raise ServiceFailure(404, "ContainerNotFound", message)
    return answer(row, etag=f'"{row["etag"]}"')


@service.route("PUT", _CONTAINER)
@service.route("PATCH", _CONTAINER)
def put_container(call: Call) -> Response:
    """Create a container (201), or update one that is there (200)."""
    account = _blob_account(call)
    wanted = properties(json_body(call.request)) if call.request.body else {}
    _check_container(account, call["container"], wanted)
    id_ = _container_id(account, call["container"])
    if call.world.is_held(id_):
        message = "The specified container is being deleted. Try operation later."
        raise ServiceFailure(409, "ContainerBeingDeleted", message)
    old = found(call.world, id_)
    if old is None:
        return answer(make_container(call.world, account, call["container"], wanted), 201)
    old["properties"] = merged(old["properties"], wanted)
    return answer(old)


@service.route("DELETE", _CONTAINER)
def delete_container(call: Call) -> Response:
    """Delete a container: 200 when it was there, 204 when not."""
    account = _blob_account(call)
    return empty(200 if drop_container(call.world, account, call["container"]) else 204)


def make_container(world: World, account: Row, name: str, wanted: Row) -> Row:
    """Put a container into an account, and return it."""
    row = {
        "id": _container_id(account, name),
        "name": name,
        "type": CONTAINER_KIND,
        "etag": f"0x8DC{world.new_id().replace('-', '')[:12].upper()}",
        "properties": {
            "publicAccess": "None",
            "hasImmutabilityPolicy": False,
            "hasLegalHold": False,
            "deleted": False,
            "leaseState": "Available",
            "leaseStatus": "Unlocked",
            "lastModifiedTime": arm_time(world.now()),
            **wanted,
        },
    }
    return keep(world, row)


def drop_container(world: World, account: Row, name: str) -> bool:
    """Remove a container; its name is held back for a while. Tell whether there was one."""
    id_ = _container_id(account, name)
    if world.state.resources.pop(id_.lower(), None) is None:
        return False
    world.hold(id_, world.catalogue.storage["container_hold_seconds"])
    return True


def container_of(world: World, account: Row, name: str) -> Row | None:
    """Return a container of an account, None when there is none."""
    return found(world, _container_id(account, name))


def _container_id(account: Row, name: str) -> str:
    return f"{account['id']}/blobServices/default/containers/{name}"


_RESERVED = ("$root", "$web", "$logs", "$blobchangefeed")


def _check_container(account: Row, name: str, wanted: Row) -> None:
    if name not in _RESERVED and not re.fullmatch(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*", name):
        message = "The specifed resource name contains invalid characters."
        raise ServiceFailure(400, "InvalidResourceName", message)
    public = wanted.get("publicAccess") or "None"
    if public not in ("None", "Blob", "Container"):
        raise not_allowed("publicAccess", public)
    if public != "None" and not account["properties"]["allowBlobPublicAccess"]:
        message = "Public access is not permitted on this storage account."
        raise ServiceFailure(409, "PublicAccessNotPermitted", message)


@service.route("GET", _POLICY)
def get_policy(call: Call) -> Response:
    """Answer with the lifecycle policy."""
    account = ready_account(call)
    row = found(call.world, _policy_id(call, account))
    if row is None:
        message = f"No ManagementPolicy found for account {account['name']}"
        raise ServiceFailure(404, "ManagementPolicyNotFound", message)
    return answer(row)


@service.route("PUT", _POLICY)
def put_policy(call: Call) -> Response:
    """Set the lifecycle policy: 200 both times, and its name comes back as another one."""
    account = ready_account(call)
    policy = properties(json_body(call.request)).get("policy")
    rules = policy.get("rules") if isinstance(policy, dict) else None
    _check_rules(rules)
    row = {
        "id": _policy_id(call, account),
        "name": "DefaultManagementPolicy",
        "type": f"{KIND}/managementPolicies",
        "properties": {
            "policy": {"rules": [_with_fractions(rule) for rule in rules or []]},
            "lastModifiedTime": arm_time(call.world.now()),
        },
    }
    return answer(keep(call.world, row))


@service.route("DELETE", _POLICY)
def delete_policy(call: Call) -> Response:
    """Remove the lifecycle policy: 200 when it was there, 204 when not."""
    gone = call.world.state.resources.pop(_policy_id(call, ready_account(call)).lower(), None)
    return empty(200 if gone else 204)


def _policy_id(call: Call, account: Row) -> str:
    if call["policy"].lower() != "default":
        raise not_allowed("managementPolicyName", call["policy"])
    return f"{account['id']}/managementPolicies/default"


def _check_rules(rules: Any) -> None:
    if not isinstance(rules, list) or not rules:
        raise not_allowed("policy.rules", rules)
    names = [str(rule.get("name", "")).lower() for rule in rules]
    if len(set(names)) < len(names) or not all(names):
        raise not_allowed("policy.rules.name", names[-1])
    for rule in rules:
        _check_rule(rule)


def _check_rule(rule: Row) -> None:
    definition = rule.get("definition") or {}
    filters = definition.get("filters") or {}
    if rule.get("type") != "Lifecycle":
        raise not_allowed("policy.rules.type", rule.get("type"))
    if not filters.get("blobTypes"):
        raise not_allowed("policy.rules.definition.filters.blobTypes", "")
    if not any((definition.get("actions") or {}).values()):
        raise not_allowed("policy.rules.definition.actions", "")


def _with_fractions(value: Any) -> Any:
    """Return a rule with its days as Azure answers them: ``30.0``."""
    if isinstance(value, dict):
        return {
            name: float(inner) if name.startswith("daysAfter") else _with_fractions(inner)
            for name, inner in value.items()
        }
    return value
