"""Role definitions and assignments, through Microsoft.Authorization.

https://learn.microsoft.com/rest/api/authorization/role-assignments
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ai4infra.arm import API_VERSIONS, ASSIGNMENT
from ai4infra.cloud.rows import decode_rows, whole_rows
from ai4infra.cloud.session import Session
from ai4infra.model import Record, RoleAssignment

API_VERSION = API_VERSIONS[ASSIGNMENT]
_AUTHORIZATION = "providers/Microsoft.Authorization"


class RoleDefinition(Record, frozen=True):
    """A role as a scope offers it."""

    name: str
    id: str
    """Its GUID, in lower case."""
    custom: bool = False


class _Properties(msgspec.Struct, rename="camel"):
    role_definition_id: str
    principal_id: str
    principal_type: str | None = None
    scope: str | None = None
    condition: str | None = None


class _Assignment(msgspec.Struct):
    id: str
    properties: _Properties


class _DefinitionProperties(msgspec.Struct, rename="camel"):
    role_name: str
    type: str | None = None


class _Definition(msgspec.Struct):
    name: str
    properties: _DefinitionProperties


def role_definitions(
    session: Session, scope: str, name: str | None = None
) -> tuple[RoleDefinition, ...]:
    """Return the roles that can be assigned at a scope, or those of one name."""
    what = f"Cannot list the roles at {scope}"
    quoted = (name or "").replace("'", "''")
    params = {"$filter": f"roleName eq '{quoted}'"} if name else {}
    pages = session.pages(
        f"{_slashed(scope)}{_AUTHORIZATION}/roleDefinitions", API_VERSION, params=params, what=what
    )
    rows = [row for page in pages for row in decode_rows(page, _Definition, what)[0]]
    return tuple(
        RoleDefinition(
            name=row.properties.role_name,
            id=guid_of(row.name),
            custom=(row.properties.type or "").casefold() == "customrole",
        )
        for row in rows
    )


def assignments(
    session: Session, scope: str, *, principal_id: str | None = None, below: bool = False
) -> tuple[RoleAssignment, ...]:
    """Return the assignments at a scope and, inherited, those above it.

    ``below`` adds those of what lies below; ``principal_id`` leaves those of one principal,
    without what its groups have.
    """
    what = f"Cannot list the role assignments at {scope}"
    # The service takes one of the two filters only.
    asked = None if below else "atScope()"
    if principal_id is not None:
        asked = f"principalId eq '{principal_id}'"
    pages = session.pages(
        f"{_slashed(scope)}{_AUTHORIZATION}/roleAssignments",
        API_VERSION,
        params={"$filter": asked} if asked else {},
        what=what,
    )
    return tuple(_assignments(whole_rows(pages, _Assignment, what)))


def held(session: Session, scope: str, principal_id: str) -> tuple[RoleAssignment, ...]:
    """Return what a principal has at a scope, from above and through its groups too."""
    what = f"Cannot list the role assignments at {scope}"
    pages = session.pages(
        f"{_slashed(scope)}{_AUTHORIZATION}/roleAssignments",
        API_VERSION,
        params={"$filter": f"atScope() and assignedTo('{principal_id}')"},
        what=what,
    )
    return tuple(_assignments(whole_rows(pages, _Assignment, what)))


def _assignments(rows: Iterable[_Assignment]) -> Iterator[RoleAssignment]:
    for row in rows:
        p = row.properties
        yield RoleAssignment(
            id=row.id,
            scope=p.scope or _scope_of(row.id),
            role_id=guid_of(p.role_definition_id),
            principal_id=p.principal_id.lower(),
            principal_type=p.principal_type,
            condition=p.condition,
        )


def _scope_of(assignment_id: str) -> str:
    at = assignment_id.lower().rfind(f"/{_AUTHORIZATION.lower()}/")
    return assignment_id[:at] or "/"


def guid_of(role_definition_id: str) -> str:
    """Return the GUID of a role definition's id; the same role has another id at each scope."""
    return role_definition_id.rstrip("/").rpartition("/")[2].lower()


def _slashed(scope: str) -> str:
    return f"{scope.rstrip('/')}/"
