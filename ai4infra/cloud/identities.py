"""Who is meant: from what is typed to the object that gets a role. Graph is never asked.

https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/overview
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from ai4infra.cloud.resources import read
from ai4infra.cloud.rows import decode_rows
from ai4infra.cloud.session import Session
from ai4infra.cloud.translate import incomplete
from ai4infra.errors import Ai4infraError, SignInError, UsageError
from ai4infra.ids import is_uuid
from ai4infra.model import PrincipalType, Record
from ai4infra.storage_names import Who, parse_scope, subscription_scope

IDENTITY_TYPE = "Microsoft.ManagedIdentity/userAssignedIdentities"
COMPUTE_API_VERSION = "2024-07-01"
IDENTITY_API_VERSION = "2023-01-31"
ENABLE = {"identity": {"type": "SystemAssigned"}}
"""What gives a machine without an identity one of its own."""

_VERSIONS = {
    "microsoft.compute/virtualmachines": COMPUTE_API_VERSION,
    "microsoft.compute/virtualmachinescalesets": COMPUTE_API_VERSION,
    IDENTITY_TYPE.casefold(): IDENTITY_API_VERSION,
}


class Principal(Record, frozen=True):
    """Somebody or something that can have a role."""

    label: str
    """As asked for, and which of several identities it is."""
    type: PrincipalType
    object_id: str | None = None
    """None for a resource that has no identity yet."""
    resource_id: str | None = None
    """The resource that the identity belongs to."""
    name: str | None = None
    """For people: the sign-in name, where the token tells it."""


class _Assigned(msgspec.Struct, rename="camel"):
    principal_id: str | None = None
    client_id: str | None = None


class _Identity(msgspec.Struct, rename="camel"):
    type: str | None = None
    principal_id: str | None = None
    user_assigned_identities: dict[str, _Assigned | None] | None = None


class _Resource(msgspec.Struct):
    id: str
    name: str | None = None
    identity: _Identity | None = None
    properties: _Assigned | None = None


class _Typed(msgspec.Struct):
    """The part of a resource that has an identity; its properties are of many kinds."""

    id: str
    identity: _Identity | None = None


def me(session: Session) -> Principal:
    """Return ourselves, as our token tells it.

    Raises SignInError where the token names nobody.
    """
    claims = session.claims()
    object_id = str(claims.get("oid") or "").lower()
    if not is_uuid(object_id):
        raise SignInError(
            "The sign-in does not tell who it is: its token has no object id.",
            hint="Name the object: id:OBJECT_ID:User, or :ServicePrincipal.",
        )
    return Principal(
        label="me", type=_own_type(claims), object_id=object_id, name=_own_name(claims)
    )


def _own_type(claims: Mapping[str, Any]) -> PrincipalType:
    """Tell a person's token from an application's; a person's is delegated and has a scope."""
    kind = str(claims.get("idtyp") or ("user" if claims.get("scp") else "app"))
    return "User" if kind.casefold() == "user" else "ServicePrincipal"


def _own_name(claims: Mapping[str, Any]) -> str | None:
    names = (claims.get(name) for name in ("upn", "unique_name", "preferred_username", "appid"))
    return next((str(name) for name in names if name), None)


def resolve(
    session: Session, who: Who, subscription_id: str, *, enable_identity: bool = False
) -> tuple[Principal, ...]:
    """Return everybody who is meant: several where a machine has several identities of users.

    A machine's system identity comes before those. One without any is a principal without an
    object id where ``enable_identity`` says that it shall get one. Raises UsageError for what has
    no identity and for a client id, NotFoundError for what does not exist.
    """
    if who.kind == "me":
        return (me(session),)
    if who.object_id is not None:
        return (_by_object_id(session, who, subscription_id),)
    resource_id = who.resource_in(subscription_id)
    if resource_id is None:
        raise UsageError(f"{who.text!r} does not say who.")
    return _of_resource(session, who, resource_id, enable_identity)


def _by_object_id(session: Session, who: Who, subscription_id: str) -> Principal:
    object_id = who.object_id or ""
    _refuse_own_client_id(session, object_id)
    if who.principal_type not in (None, "ServicePrincipal"):
        return Principal(label=who.text, type=who.principal_type or "User", object_id=object_id)
    _refuse_client_id(session, object_id, subscription_id)
    own = _ourselves(session, object_id)
    kind: PrincipalType = own.type if own and who.principal_type is None else "ServicePrincipal"
    return Principal(label=who.text, type=kind, object_id=object_id)


def _ourselves(session: Session, object_id: str) -> Principal | None:
    try:
        own = me(session)
    except SignInError:
        return None
    return own if own.object_id == object_id else None


def _refuse_own_client_id(session: Session, object_id: str) -> None:
    claims = session.claims()
    if str(claims.get("appid") or "").lower() == object_id != str(claims.get("oid") or "").lower():
        raise UsageError(
            f"{object_id} is the client id of this sign-in's application, not an object id.",
            hint="For the sign-in itself say me.",
        )


def _refuse_client_id(session: Session, object_id: str, subscription_id: str) -> None:
    """Refuse the client id of an identity of this subscription, where those can be listed."""
    for row in _user_identities(session, subscription_id):
        p = row.properties or _Assigned()
        if (p.client_id or "").lower() == object_id:
            raise UsageError(
                f"{object_id} is the client id of the identity {row.name}, not its object id.",
                hint=f"Say {_identity_label(row.id)}, or id:{p.principal_id}.",
            )


def _user_identities(session: Session, subscription_id: str) -> list[_Resource]:
    what = "Cannot list the user-assigned identities"
    path = f"{subscription_scope(subscription_id)}/providers/{IDENTITY_TYPE}"
    try:
        pages = list(session.pages(path, IDENTITY_API_VERSION, what=what))
    except Ai4infraError:
        # Only a help: who may not list them is told by the service.
        return []
    return [row for page in pages for row in decode_rows(page, _Resource, what)[0]]


def _of_resource(
    session: Session, who: Who, resource_id: str, enable_identity: bool
) -> tuple[Principal, ...]:
    scope = parse_scope(resource_id)
    kind = (scope.resource_type or "").casefold()
    body = read(session, resource_id, _VERSIONS.get(kind))
    if kind == IDENTITY_TYPE.casefold():
        return (_user_identity(body, who.text, resource_id),)
    found = _identity_of(body)
    can_be_enabled = _can_be_enabled(kind) and not _is_flexible(body)
    principals = tuple(_principals(session, found, who.text, resource_id))
    if principals:
        return principals
    if not enable_identity:
        raise UsageError(
            f"{who.text} has no identity.",
            hint="Add --enable-identity to give it one."
            if can_be_enabled
            else "Give it a system-assigned or a user-assigned identity first.",
        )
    if _is_flexible(body):
        raise UsageError(
            f"{who.text} has no identity, and a scale set with flexible orchestration takes"
            " user-assigned ones only.",
            hint=f"az vmss identity assign --ids {scope.id} --identities IDENTITY_ID",
        )
    if not can_be_enabled:
        raise UsageError(
            f"{who.text} has no identity, and only virtual machines and scale sets get one here.",
            hint="Give it a system-assigned or a user-assigned identity first.",
        )
    return (Principal(label=who.text, type="ServicePrincipal", resource_id=scope.id),)


def _can_be_enabled(kind: str) -> bool:
    return kind.startswith("microsoft.compute/") and kind in _VERSIONS


def _is_flexible(body: Mapping[str, Any]) -> bool:
    """Tell a scale set with flexible orchestration, which has no identity of its own.

    https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-orchestration-modes
    """
    properties = body.get("properties")
    mode = properties.get("orchestrationMode") if isinstance(properties, dict) else None
    return str(mode).casefold() == "flexible"


def enabled_id(session: Session, resource_id: str) -> str | None:
    """Return the object id of a resource's own identity; None while it has none."""
    kind = (parse_scope(resource_id).resource_type or "").casefold()
    found = _identity_of(read(session, resource_id, _VERSIONS.get(kind)))
    return found.principal_id.lower() if found.principal_id else None


def api_version_of(resource_id: str) -> str | None:
    """Return the API version for a kind of resource that is known here, else None."""
    return _VERSIONS.get((parse_scope(resource_id).resource_type or "").casefold())


def _user_identity(body: dict[str, Any], label: str, resource_id: str) -> Principal:
    found = _converted(body, _Resource).properties or _Assigned()
    if not found.principal_id:
        raise incomplete(f"Cannot read the identity {label}", "no principalId")
    return Principal(
        label=label,
        type="ServicePrincipal",
        object_id=found.principal_id.lower(),
        resource_id=resource_id,
    )


def _identity_of(body: dict[str, Any]) -> _Identity:
    return _converted(body, _Typed).identity or _Identity()


def _converted(body: dict[str, Any], type_: Any) -> Any:
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        raise incomplete("Cannot read an identity", str(error)) from error


def _principals(
    session: Session, found: _Identity, label: str, resource_id: str
) -> Iterator[Principal]:
    one = Principal(label=label, type="ServicePrincipal", resource_id=resource_id)
    if found.principal_id:
        yield structs.replace(one, object_id=found.principal_id.lower())
        return
    users = found.user_assigned_identities or {}
    for identity_id, assigned in users.items():
        named = structs.replace(one, label=_of_several(label, identity_id, users))
        known = assigned.principal_id if assigned else None
        yield structs.replace(named, object_id=(known or _read_id(session, identity_id)).lower())


def _of_several(label: str, identity_id: str, users: Iterable[str]) -> str:
    return label if len(list(users)) == 1 else f"{label} ({_identity_label(identity_id)})"


def _read_id(session: Session, identity_id: str) -> str:
    body = read(session, identity_id, IDENTITY_API_VERSION)
    return _user_identity(body, _identity_label(identity_id), identity_id).object_id or ""


def _identity_label(identity_id: str) -> str:
    scope = parse_scope(identity_id)
    return f"identity:{scope.group}/{scope.name}"
