"""Microsoft.Authorization: role definitions, and role assignments with their inheritance."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from ai4infra.ids import is_uuid
from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.locks import is_within
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    arm_time,
    empty,
    json_body,
)
from ai4infra.sandbox.tokens import claims_of
from ai4infra.sandbox.tracked import found, keep, listed, properties
from ai4infra.sandbox.world import World

service = Service()
Row = dict[str, Any]

KIND = "Microsoft.Authorization/roleAssignments"
_SCOPED = "/{+scope}/providers/Microsoft.Authorization"
_MARK = "/providers/microsoft.authorization/roleassignments/"
_DEFINED = "2015-02-02T21:55:09.8806423Z"


@service.route("GET", f"{_SCOPED}/roleDefinitions")
def list_definitions(call: Call) -> Response:
    """Answer with the role definitions; ``$filter`` knows ``roleName eq`` and ``type eq``."""
    chosen = [role for role in call.world.catalogue.roles if _is_chosen(call, role)]
    return listed(call, [_definition(call, role) for role in chosen])


@service.route("GET", "/providers/Microsoft.Authorization/roleDefinitions/{id}")
@service.route("GET", f"{_SCOPED}/roleDefinitions/{{id}}")
def get_definition(call: Call) -> Response:
    """Answer with one role definition."""
    role = role_with(call.world, call["id"])
    if role is None:
        message = f"The specified role definition with ID '{call['id']}' does not exist."
        raise ServiceFailure(404, "RoleDefinitionDoesNotExist", message)
    return answer(_definition(call, role))


def role_with(world: World, id_: str) -> Row | None:
    """Return the role whose id ends like this one, None when there is none."""
    guid = id_.rstrip("/").rpartition("/")[2].lower()
    return next((role for role in world.catalogue.roles if role["id"] == guid), None)


def _is_chosen(call: Call, role: Row) -> bool:
    expression = call.query.get("$filter", "")
    if expression.replace(" ", "").lower() in ("", "atscopeandbelow()"):
        return True
    match = re.fullmatch(r"\s*(roleName|type)\s+eq\s+'((?:[^']|'')*)'\s*", expression, re.I)
    if match is None:
        raise _bad_filter(expression)
    field, value = match.group(1).lower(), match.group(2).replace("''", "'").lower()
    return value == (role["name"].lower() if field == "rolename" else "builtinrole")


def _bad_filter(expression: str) -> ServiceFailure:
    message = f"The filter '{expression}' is not supported."
    return ServiceFailure(400, "UnsupportedQuery", message)


def _definition(call: Call, role: Row) -> Row:
    # Built-in roles are shown at the subscription, wherever they were asked for.
    above = f"/subscriptions/{call.subscription}" if "subscription" in call.path else ""
    return {
        "properties": {
            "roleName": role["name"],
            "type": "BuiltInRole",
            "description": role["description"],
            "assignableScopes": ["/"],
            "permissions": [
                {
                    "actions": role.get("actions", []),
                    "notActions": role.get("not_actions", []),
                    "dataActions": role.get("data_actions", []),
                    "notDataActions": role.get("not_data_actions", []),
                }
            ],
            "createdOn": _DEFINED,
            "updatedOn": _DEFINED,
            "createdBy": None,
            "updatedBy": None,
        },
        "id": f"{above}/providers/Microsoft.Authorization/roleDefinitions/{role['id']}",
        "type": "Microsoft.Authorization/roleDefinitions",
        "name": role["id"],
    }


@service.route("GET", f"{_SCOPED}/roleAssignments")
def list_assignments(call: Call) -> Response:
    """Answer with the assignments at, above and below a scope.

    ``$filter`` knows ``atScope()``, which leaves out those below, ``principalId eq 'ID'`` and
    ``assignedTo('ID')``, which counts what a group of the principal has.
    """
    scope = f"/{call['scope']}".lower()
    at, holders = _wanted(call)
    shown = [
        row
        for row in assignments(call.world)
        if _is_near(scope, _scope(row), at=at)
        and (holders is None or row["properties"]["principalId"] in holders)
    ]
    return listed(call, shown)


@service.route("GET", f"{_SCOPED}/roleAssignments/{{name}}")
def get_assignment(call: Call) -> Response:
    """Answer with one assignment."""
    row = next((r for r in assignments(call.world) if r["id"].lower() == _id(call).lower()), None)
    if row is None:
        message = f"The role assignment '{call['name']}' is not found."
        raise ServiceFailure(404, "RoleAssignmentNotFound", message)
    return answer(row)


@service.route("PUT", f"{_SCOPED}/roleAssignments/{{name}}")
def put_assignment(call: Call) -> Response:
    """Create an assignment; one of the same role and principal at the scope stands in the way."""
    wanted = properties(json_body(call.request))
    _check_name(call)
    _check_scope(call)
    role = _check_role(call, wanted)
    kind = _check_principal(call, wanted)
    old = found(call.world, _id(call))
    if old is not None:
        return _again(call, old, role, wanted)
    _refuse_second(call, role, wanted)
    row = keep(call.world, _assignment(call, role, kind, wanted))
    return answer({**row, "properties": {**row["properties"], "createdBy": None}}, 201)


@service.route("DELETE", f"{_SCOPED}/roleAssignments/{{name}}")
def delete_assignment(call: Call) -> Response:
    """Remove an assignment and answer with it; 204 when there is none."""
    gone = call.world.state.resources.pop(_id(call).lower(), None)
    return answer(gone) if gone else empty(204)


def assignments(world: World) -> list[Row]:
    """Return all assignments: those of the example world, and those that were made since."""
    made = [row for key, row in world.state.resources.items() if _MARK in key]
    return [*_original(world), *made]


def holders_of(world: World, principal: str) -> set[str]:
    """Return a principal with the groups that it is in."""
    rows = world.catalogue.principals
    return {principal, *(id_ for id_, row in rows.items() if principal in row.get("members", ()))}


def allows(world: World, principal: str, scope: str, action: str) -> bool:
    """Tell whether a data action is allowed at a scope by a grant that works by now.

    Assignments with a condition count for nothing: the sandbox cannot read conditions.
    """
    holders = holders_of(world, principal)
    return any(
        row["properties"]["principalId"] in holders
        and is_within(scope.lower(), _scope(row).rstrip("/"))
        and row["properties"].get("condition") is None
        and _works(world, row)
        and _covers(role_with(world, row["properties"]["roleDefinitionId"]), action)
        for row in assignments(world)
    )


def _works(world: World, row: Row) -> bool:
    delay = timedelta(seconds=world.lasting(world.catalogue.directory["grant_seconds"]))
    return str(row["properties"]["createdOn"]) <= arm_time(world.now() - delay)


def _covers(role: Row | None, action: str) -> bool:
    given = role.get("data_actions", []) if role else []
    patterns = (re.escape(one).replace(r"\*", ".*") for one in given)
    return any(re.fullmatch(pattern, action, re.IGNORECASE) for pattern in patterns)


def _original(world: World) -> list[Row]:
    """Return the assignments that every subscription of the example world begins with."""
    began = "2025-01-06T09:00:00.0000000Z"
    rows = []
    for subscription in world.catalogue.subscription_ids:
        for name in world.catalogue.directory["owners"]:
            identity = world.catalogue.identities[name]
            kind = "User" if identity.get("kind") == "user" else "ServicePrincipal"
            scope = f"/subscriptions/{subscription}"
            guid = f"{subscription[:24]}{identity['object_id'][24:]}"
            rows.append(_row(scope, guid, _OWNER, identity["object_id"], kind, began, None))
    return rows


_OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"


def _wanted(call: Call) -> tuple[bool, set[str] | None]:
    """Return whether only the scope and above count, and whose assignments; None is everybody's."""
    at, holders = False, None
    expression = call.query.get("$filter", "")
    for part in filter(None, re.split(r"\s+and\s+", expression.strip(), flags=re.IGNORECASE)):
        mine = re.fullmatch(r"principalId\s+eq\s+'([^']*)'", part, re.IGNORECASE)
        ours = re.fullmatch(r"assignedTo\(\s*'([^']*)'\s*\)", part, re.IGNORECASE)
        if part.replace(" ", "").lower() == "atscope()":
            at = True
        elif mine:
            holders = {mine.group(1).lower()}
        elif ours:
            holders = holders_of(call.world, ours.group(1).lower())
        else:
            raise _bad_filter(expression)
    return at, holders


def _is_near(scope: str, assigned: str, *, at: bool) -> bool:
    return is_within(scope, assigned.rstrip("/")) or (is_within(assigned, scope) and not at)


def _scope(row: Row) -> str:
    return str(row["properties"]["scope"]).lower()


def _check_name(call: Call) -> None:
    if not is_uuid(call["name"]):
        message = (
            f"The role assignment ID '{call['name']}' is not valid. The role assignment ID must be"
            " a GUID."
        )
        raise ServiceFailure(400, "InvalidRoleAssignmentId", message)


def _check_scope(call: Call) -> None:
    """Refuse a scope whose group or top-level resource does not exist."""
    parts = f"/{call['scope']}".split("/")
    for length, code in ((5, "ResourceGroupNotFound"), (9, "ResourceNotFound")):
        id_ = "/".join(parts[:length])
        if len(parts) >= length and found(call.world, id_) is None:
            raise ServiceFailure(404, code, f"'{id_}' could not be found.")


def _check_role(call: Call, wanted: Row) -> Row:
    given = str(wanted.get("roleDefinitionId") or "")
    role = role_with(call.world, given)
    if role is None:
        guid = given.rpartition("/")[2]
        message = f"The specified role definition with ID '{guid}' does not exist."
        raise ServiceFailure(404, "RoleDefinitionDoesNotExist", message)
    return role


def _check_principal(call: Call, wanted: Row) -> str:
    given = str(wanted.get("principalId") or "").lower()
    if not is_uuid(given):
        message = "A valid principal ID must be provided for role assignment."
        raise ServiceFailure(400, "InvalidPrincipalId", message)
    kind = principal_kind(call.world, given)
    bare = given.replace("-", "")
    if kind is None:
        tenant = call.world.catalogue.tenant_id
        message = f"Principal {bare} does not exist in the directory {tenant}."
        raise ServiceFailure(400, "PrincipalNotFound", message)
    said = wanted.get("principalType")
    if said is not None and str(said).lower() != kind.lower():
        # The misspelling is Azure's.
        message = (
            f"The PrincipalId '{bare}' has type '{kind}' , which is different from specified"
            f" PrinciaplType '{said}'."
        )
        raise ServiceFailure(400, "UnmatchedPrincipalType", message)
    return kind


def principal_kind(world: World, principal: str) -> str | None:
    """Return what somebody is in the directory: None for nobody, or for whoever is too new."""
    created = world.state.principals.get(principal)
    if created is not None:
        delay = world.lasting(world.catalogue.directory["principal_seconds"])
        known = created + timedelta(seconds=delay) <= world.now()
        return "ServicePrincipal" if known else None
    row = world.catalogue.principals.get(principal)
    return str(row["type"]) if row else None


def _again(call: Call, old: Row, role: Row, wanted: Row) -> Response:
    """Answer a PUT of a name that is there: what it is about cannot change."""
    told = old["properties"]
    if (_guid(told), told["principalId"]) != (role["id"], str(wanted["principalId"]).lower()):
        message = (
            "Tenant ID, application ID, principal ID, and scope are not allowed to be updated."
        )
        raise ServiceFailure(400, "RoleAssignmentUpdateNotPermitted", message)
    told.update({name: wanted.get(name) for name in _OPTIONAL})
    told["updatedOn"], told["updatedBy"] = arm_time(call.world.now()), _caller(call)
    return answer(old)


def _refuse_second(call: Call, role: Row, wanted: Row) -> None:
    same = (f"/{call['scope']}".lower(), role["id"], str(wanted["principalId"]).lower())
    for row in assignments(call.world):
        told = row["properties"]
        if (_scope(row), _guid(told), told["principalId"]) == same:
            message = "The role assignment already exists."
            raise ServiceFailure(409, "RoleAssignmentExists", message)


_OPTIONAL = ("condition", "conditionVersion", "delegatedManagedIdentityResourceId", "description")


def _guid(told: Row) -> str:
    return str(told["roleDefinitionId"]).rpartition("/")[2]


def _caller(call: Call) -> str:
    return str(claims_of(call.request).get("oid", ""))


def _assignment(call: Call, role: Row, kind: str, wanted: Row) -> Row:
    now = arm_time(call.world.now())
    principal = str(wanted["principalId"]).lower()
    row = _row(f"/{call['scope']}", call["name"], role["id"], principal, kind, now, _caller(call))
    row["properties"].update({name: wanted.get(name) for name in _OPTIONAL})
    return row


def _row(
    scope: str, name: str, role: str, principal: str, kind: str, time: str, by: str | None
) -> Row:
    subscription = "/".join(scope.split("/")[:3])
    return {
        "properties": {
            "roleDefinitionId": f"{subscription}/providers/Microsoft.Authorization"
            f"/roleDefinitions/{role}",
            "principalId": principal,
            "principalType": kind,
            "scope": scope,
            **dict.fromkeys(_OPTIONAL),
            "createdOn": time,
            "updatedOn": time,
            "createdBy": by,
            "updatedBy": by,
        },
        "id": f"{scope}/providers/{KIND}/{name}",
        "type": KIND,
        "name": name,
    }


def _id(call: Call) -> str:
    return f"/{call['scope']}/providers/{KIND}/{call['name']}"
