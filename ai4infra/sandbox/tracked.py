"""What every resource in a group has in common: its id, its group, its region, its tags."""

from __future__ import annotations

from typing import Any

from ai4infra.ids import region_key
from ai4infra.sandbox.app import Call
from ai4infra.sandbox.messages import Response, ServiceFailure, answer, empty, page_of
from ai4infra.sandbox.resources import (
    existing_group,
    forget,
    refuse_when_deleting,
    tags_of,
)
from ai4infra.sandbox.world import World

Row = dict[str, Any]

SUBSCRIPTION = "/subscriptions/{subscription}"
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"


def id_of(call: Call, kind: str, name: str) -> str:
    """Return the id of a resource in the group of the path; the group has to exist."""
    return f"{existing_group(call)['id']}/providers/{kind}/{name}"


def id_to_write(call: Call, kind: str, name: str) -> str:
    """Return the id of a resource that is written: its group must not be on its way out."""
    refuse_when_deleting(call, existing_group(call))
    return id_of(call, kind, name)


def found(world: World, id_: str) -> Row | None:
    """Return the resource with this id, None when there is none."""
    return world.state.resources.get(id_.rstrip("/").lower())


def existing(call: Call, kind: str, name: str) -> Row:
    """Return a resource of the group of the path. Raises ServiceFailure when there is none."""
    row = found(call.world, id_of(call, kind, name))
    if row is None:
        message = (
            f"The Resource '{kind}/{name}' under resource group '{call['group']}' was not found."
            " For more details please go to https://aka.ms/ARMResourceNotFoundFix"
        )
        raise ServiceFailure(404, "ResourceNotFound", message)
    return row


def keep(world: World, row: Row) -> Row:
    """Put a resource into the world, and return it."""
    world.state.resources[row["id"].lower()] = row
    return row


def delete(call: Call, kind: str, name: str) -> Response:
    """Delete a resource: 200 when it was there, 204 when not."""
    id_ = id_to_write(call, kind, name)
    if found(call.world, id_) is None:
        return empty(204)
    forget(call.world, id_)
    return empty(200)


def rows(world: World, above: str, kind: str) -> list[Row]:
    """Return the resources of a type below an id, oldest first."""
    prefix = f"{above.rstrip('/')}/".lower()
    return [
        row
        for key, row in world.state.resources.items()
        if key.startswith(prefix) and str(row.get("type", "")).lower() == kind.lower()
    ]


def listed(call: Call, shown: list[Row]) -> Response:
    """Answer with one page of a list."""
    return answer(page_of(shown, call.request, call.world.catalogue.page_rows))


def above(call: Call) -> str:
    """Return the id of the group of the path, or of the subscription where it names no group."""
    if "group" in call.path:
        return str(existing_group(call)["id"])
    return f"/subscriptions/{call.subscription}"


def location(call: Call, body: Row, kind: str, old: Row | None) -> str:
    """Return the region of a resource. Raises ServiceFailure for an unknown one or a move."""
    given = body.get("location")
    if not isinstance(given, str) or not given:
        message = "The location property is required for this definition."
        raise ServiceFailure(400, "LocationRequired", message)
    regions = call.world.catalogue.regions
    region = regions.get(region_key(given))
    if region is None or region.kind != "Physical":
        names = ",".join(r.name for r in regions.values() if r.kind == "Physical")
        message = (
            f"The provided location '{given}' is not available for resource type '{kind}'. List"
            f" of available regions for the resource type is '{names}'."
        )
        raise ServiceFailure(400, "LocationNotAvailableForResourceType", message)
    if old is not None and region_key(old["location"]) != region.name:
        raise _moved(call, old, region.name)
    return region.name


def _moved(call: Call, old: Row, wanted: str) -> ServiceFailure:
    message = (
        f"The resource '{old['name']}' already exists in location '{old['location']}' in resource"
        f" group '{call['group']}'. A resource with the same name cannot be created in location"
        f" '{wanted}'. Please select a new resource name."
    )
    return ServiceFailure(409, "InvalidResourceLocation", message)


def tags(body: Row) -> dict[str, str]:
    """Return the tags of a body that replaces them. Raises ServiceFailure for bad ones."""
    return tags_of(body) or {}


def properties(body: Row) -> Row:
    """Return the ``properties`` of a body. Raises ServiceFailure for anything but an object."""
    given = body.get("properties")
    if given is None:
        return {}
    if not isinstance(given, dict):
        message = "The request content was invalid: 'properties' must be an object."
        raise ServiceFailure(400, "InvalidRequestContent", message)
    return given


def merged(old: Any, new: Any) -> Any:
    """Return what a PATCH makes of a value: objects are merged, all else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: merged(old.get(name), value) for name, value in new.items()}}
