"""Resource Manager itself: groups, any resource by its id, and the writes of a plan."""

from __future__ import annotations

from typing import Any

import msgspec

from ai4infra.cloud.operations import Pause, Written
from ai4infra.cloud.session import Session
from ai4infra.errors import NotFoundError, UsageError
from ai4infra.ids import unknown_name
from ai4infra.model import ResourceGroup
from ai4infra.storage_names import group_scope, parse_scope

GROUP_API_VERSION = "2024-03-01"
PROVIDER_API_VERSION = "2021-04-01"


class _Group(msgspec.Struct):
    id: str
    name: str
    location: str
    tags: dict[str, str] | None = None


class _Type(msgspec.Struct, rename={"resource_type": "resourceType", "versions": "apiVersions"}):
    resource_type: str
    versions: list[str] = []


class _Provider(msgspec.Struct, rename={"types": "resourceTypes"}):
    types: list[_Type] = []


def group(session: Session, subscription_id: str, name: str) -> ResourceGroup | None:
    """Return a resource group; None where there is none."""
    what = f"Cannot read the resource group {name}"
    try:
        found = session.get_json(
            group_scope(subscription_id, name), GROUP_API_VERSION, _Group, what=what
        )
    except NotFoundError as error:
        if is_subscription(error):
            raise
        return None
    return ResourceGroup(
        id=found.id, name=found.name, location=found.location, tags=found.tags or {}
    )


def is_subscription(error: NotFoundError) -> bool:
    """Tell whether it is the subscription that does not exist, not the thing in it."""
    return (error.code or "").casefold() == "subscriptionnotfound"


def newest_version(session: Session, subscription_id: str, resource_type: str) -> str:
    """Return the newest API version of a resource type, a preview only where there is no other.

    Raises UsageError for a type that its provider does not have, NotFoundError for a provider
    that does not exist.
    """
    namespace, _, type_name = resource_type.partition("/")
    path = f"/subscriptions/{subscription_id}/providers/{namespace}"
    what = f"Cannot read what {namespace} offers"
    types = session.get_json(path, PROVIDER_API_VERSION, _Provider, what=what).types
    found = next((t for t in types if t.resource_type.casefold() == type_name.casefold()), None)
    if found is None or not found.versions:
        names = [each.resource_type for each in types]
        raise unknown_name(
            f"resource type of {namespace}", type_name, names, listing="Check the resource id."
        )
    return max(found.versions, key=lambda version: ("preview" not in version, version))


def read(session: Session, resource_id: str, api_version: str | None = None) -> dict[str, Any]:
    """Return any resource as the service answers it; without a version the newest is asked for.

    Raises UsageError for what is no resource id, NotFoundError where there is no such resource.
    """
    scope = parse_scope(resource_id)
    if scope.resource_type is None or scope.subscription_id is None:
        raise UsageError(f"{resource_id!r} is no id of a resource.")
    version = api_version or newest_version(session, scope.subscription_id, scope.resource_type)
    what = f"Cannot read {scope.resource_type} {scope.name}"
    return session.get_json(scope.id, version, dict[str, Any], what=what)


def put_resource(
    session: Session,
    resource_id: str,
    api_version: str,
    body: dict[str, Any] | None,
    *,
    what: str,
    pause: Pause | None = None,
) -> Written:
    """Create or replace a resource; see ``Session.write`` for the waiting."""
    return session.write("PUT", resource_id, api_version, body, what=what, pause=pause)


def patch_resource(
    session: Session,
    resource_id: str,
    api_version: str,
    body: dict[str, Any] | None,
    *,
    what: str,
    pause: Pause | None = None,
) -> Written:
    """Change what the body names of a resource, and nothing else."""
    return session.write("PATCH", resource_id, api_version, body, what=what, pause=pause)


def delete_resource(
    session: Session,
    resource_id: str,
    api_version: str,
    body: dict[str, Any] | None = None,
    *,
    what: str,
    pause: Pause | None = None,
) -> Written:
    """Delete a resource; one that is not there any more counts as deleted."""
    try:
        return session.write("DELETE", resource_id, api_version, body, what=what, pause=pause)
    except NotFoundError as error:
        if is_subscription(error):
            raise
        return Written(status=error.status or 404)
