"""Microsoft.Resources: resource groups and what lies in them."""

from __future__ import annotations

import re
from typing import Any

from ai4infra.ids import region_key
from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    empty,
    invalid_content,
    json_body,
    page_of,
)
from ai4infra.sandbox.world import Operation, World

service = Service()
Row = dict[str, Any]

DELETE_KIND = "delete group"
DELETE_SECONDS = 30
RETRY_AFTER_SECONDS = 15
_GROUPS = "/subscriptions/{subscription}/resourcegroups"
_GROUP = f"{_GROUPS}/{{group}}"


@service.route("GET", _GROUPS)
def list_groups(call: Call) -> Response:
    """Answer with the resource groups, in pages; ``$filter`` knows ``tagName`` and ``tagValue``."""
    prefix = _group_id(call.subscription, "").lower()
    groups = [r for key, r in call.world.state.resources.items() if _is_child(key, prefix)]
    chosen = [row for row in groups if _has_tag(row, call.query.get("$filter"))]
    return answer(page_of(chosen, call.request, call.world.catalogue.page_rows))


@service.route("GET", _GROUP)
def get_group(call: Call) -> Response:
    """Answer with one group."""
    return answer(_existing(call))


@service.route("HEAD", _GROUP)
def check_group(call: Call) -> Response:
    """Answer 204 when the group exists, 404 when not; neither has a body."""
    return empty(204 if _found(call) else 404)


@service.route("PUT", _GROUP)
def put_group(call: Call) -> Response:
    """Create a group, or replace its tags; its location is fixed."""
    _check_name(call["group"])
    body = json_body(call.request)
    location = _location(call, body)
    old = _found(call)
    if old and old["location"] != location:
        message = (
            f"Invalid resource group location '{location}'. The Resource group already exists in"
            f" location '{old['location']}'."
        )
        raise ServiceFailure(409, "InvalidResourceGroupLocation", message)
    _refuse_when_deleting(call, old)
    row = _group_row(call, location, _tags(body), old)
    call.world.state.resources[row["id"].lower()] = row
    return answer(row, 200 if old else 201)


@service.route("PATCH", _GROUP)
def patch_group(call: Call) -> Response:
    """Replace the tags of a group."""
    row = _existing(call)
    _refuse_when_deleting(call, row)
    tags = _tags(json_body(call.request))
    if tags is not None:
        row["tags"] = tags
    return answer(row)


@service.route("DELETE", _GROUP)
def delete_group(call: Call) -> Response:
    """Begin to delete a group with everything in it."""
    row = _existing(call)
    row["properties"] = {"provisioningState": "Deleting"}
    operation = call.world.start_operation(
        DELETE_KIND, call.subscription, DELETE_SECONDS, group=row["id"]
    )
    return empty(202, **_poll_headers(call, operation.id))


@service.route("GET", "/subscriptions/{subscription}/operationresults/{id}")
def get_operation_result(call: Call) -> Response:
    """Answer 202 while a deletion goes on, then 200; neither has a body."""
    operation = call.world.state.operations.get(call["id"].lower())
    if operation is None or operation.subscription_id != call.subscription:
        raise ServiceFailure(404, "NotFound", f"The operation '{call['id']}' was not found.")
    return empty(200) if operation.outcome else empty(202, **_poll_headers(call, operation.id))


@service.route("GET", f"{_GROUP}/resources")
def list_resources(call: Call) -> Response:
    """Answer with the resources of a group."""
    prefix = f"{_existing(call)['id']}/".lower()
    rows = [_short(r) for key, r in call.world.state.resources.items() if key.startswith(prefix)]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


@service.finisher(DELETE_KIND)
def finish_deletion(world: World, operation: Operation) -> None:
    """Remove the group and everything in it."""
    id_ = operation.details["group"].lower()
    kept = {
        key: row
        for key, row in world.state.resources.items()
        if key != id_ and not key.startswith(f"{id_}/")
    }
    world.state.resources = kept


def _poll_headers(call: Call, id_: str) -> dict[str, str]:
    path = f"/subscriptions/{call.subscription}/operationresults/{id_}"
    url = f"{call.request.origin}{path}?api-version={call.query['api-version']}"
    return {"location": url, "retry_after": str(RETRY_AFTER_SECONDS)}


def _group_id(subscription: str, name: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{name}"


def _is_child(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and "/" not in key[len(prefix) :]


def _found(call: Call) -> Row | None:
    return call.world.state.resources.get(_group_id(call.subscription, call["group"]).lower())


def _existing(call: Call) -> Row:
    found = _found(call)
    if found is None:
        message = f"Resource group '{call['group']}' could not be found."
        raise ServiceFailure(404, "ResourceGroupNotFound", message)
    return found


def _refuse_when_deleting(call: Call, row: Row | None) -> None:
    if row and row["properties"]["provisioningState"] == "Deleting":
        message = (
            f"The resource group '{call['group']}' is in deprovisioning state and cannot perform"
            " this operation."
        )
        raise ServiceFailure(409, "ResourceGroupBeingDeleted", message)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[\w().-]{0,89}[\w()-]", name):
        message = (
            f"The provided resource group name '{name}' has these invalid characters or is too"
            " long; it can hold alphanumeric characters, underscores, parentheses, hyphens and"
            " periods (except at its end), and up to 90 of them."
        )
        raise ServiceFailure(400, "InvalidResourceGroup", message)


def _location(call: Call, body: Row) -> str:
    given = body.get("location")
    if not isinstance(given, str) or not given:
        raise ServiceFailure(
            400, "LocationRequired", "The location property is required for this definition."
        )
    regions = call.world.catalogue.regions
    region = regions.get(region_key(given))
    if region is None or region.kind != "Physical":
        names = ",".join(r.name for r in regions.values() if r.kind == "Physical")
        message = (
            f"The provided location '{given}' is not available for resource group. List of"
            f" available regions is '{names}'."
        )
        raise ServiceFailure(400, "LocationNotAvailableForResourceGroup", message)
    return region.name


def _tags(body: Row) -> dict[str, str] | None:
    tags = body.get("tags")
    if tags is None:
        return None
    if not isinstance(tags, dict) or not all(isinstance(v, str) for v in tags.values()):
        raise invalid_content("tags must be an object of strings")
    return tags


def _group_row(call: Call, location: str, tags: dict[str, str] | None, old: Row | None) -> Row:
    # The first spelling of a name stays.
    name = old["name"] if old else call["group"]
    row: Row = {
        "id": _group_id(call.subscription, name),
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": location,
        "properties": {"provisioningState": "Succeeded"},
    }
    return row if tags is None else {**row, "tags": tags}


def _has_tag(row: Row, expression: str | None) -> bool:
    if not expression:
        return True
    form = r"\s*tagName\s+eq\s+'([^']*)'(?:\s+and\s+tagValue\s+eq\s+'([^']*)')?\s*"
    match = re.fullmatch(form, expression, re.IGNORECASE)
    if match is None:
        message = f"Invalid $filter '{expression}' specified in the query string."
        raise ServiceFailure(400, "InvalidFilterInQueryString", message)
    name, value = match.groups()
    tags = {key.lower(): tag for key, tag in row.get("tags", {}).items()}
    return name.lower() in tags and value in (None, tags[name.lower()])


def _short(row: Row) -> Row:
    names = ("id", "name", "type", "kind", "location", "tags", "sku", "identity")
    return {name: row[name] for name in names if name in row}
