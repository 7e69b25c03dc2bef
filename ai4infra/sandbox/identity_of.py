"""Identities of resources: the system's own, and those of users, as ``identity`` asks for them."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call
from ai4infra.sandbox.messages import ServiceFailure
from ai4infra.sandbox.tracked import found
from ai4infra.sandbox.world import World

Row = dict[str, Any]

_SYSTEM, _USER = "systemassigned", "userassigned"


def with_identity(call: Call, row: Row, body: Row) -> Row:
    """Give a resource the identities that a body asks for, and return it.

    A body without ``identity`` leaves them as they are; an identity of a user that is null goes.
    """
    wanted = body.get("identity")
    if not isinstance(wanted, dict):
        return row
    words = {word.strip().lower() for word in str(wanted.get("type", "None")).split(",")}
    if not words <= {_SYSTEM, _USER, "none"}:
        raise _invalid(f"The identity type '{wanted.get('type')}' is not valid.")
    old = row.pop("identity", {})
    users = _users(call, old, wanted) if _USER in words else {}
    if _USER in words and not users:
        message = "The identity ids must not be null or empty for 'UserAssigned' identity type."
        raise ServiceFailure(400, "MissingIdentityIds", message)
    system = _system(call.world, old) if _SYSTEM in words else _forgotten(call.world, old)
    if words != {"none"}:
        row["identity"] = {"type": wanted["type"], **system}
        if users:
            row["identity"]["userAssignedIdentities"] = users
    return row


def new_principal(world: World) -> str:
    """Return the object id of a new identity, which the directory does not know for a while."""
    principal = world.new_id()
    world.state.principals[principal] = world.now()
    return principal


def _system(world: World, old: Row) -> Row:
    principal = old.get("principalId") or new_principal(world)
    return {"principalId": principal, "tenantId": world.catalogue.tenant_id}


def _forgotten(world: World, old: Row) -> Row:
    world.state.principals.pop(old.get("principalId", ""), None)
    return {}


def _users(call: Call, old: Row, wanted: Row) -> Row:
    asked = wanted.get("userAssignedIdentities") or {}
    gone = {id_.lower() for id_, value in asked.items() if value is None}
    kept = old.get("userAssignedIdentities") or {}
    ids = {id_.lower(): id_ for id_ in [*kept, *asked] if id_.lower() not in gone}
    return {id_: _user(call, id_) for id_ in ids.values()}


def _user(call: Call, id_: str) -> Row:
    row = found(call.world, id_)
    if row is None:
        detail = f"Resource '{id_}' was not found."
        raise _invalid(
            f"Identity operation for resource '{call.request.path}' failed with error 'Failed to"
            f" perform resource identity operation. Status: 'BadRequest'. Response: '{detail}'.'"
        )
    return {name: row["properties"][name] for name in ("principalId", "clientId")}


def _invalid(message: str) -> ServiceFailure:
    return ServiceFailure(400, "FailedIdentityOperation", message)
