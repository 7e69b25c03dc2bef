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
    return answer(existing_group(call))


@service.route("HEAD", _GROUP)
def check_group(call: Call) -> Response:
    """Answer 204 when the group exists, 404 when not; neither has a body."""
    return empty(204 if found_group(call) else 404)


@service.route("PUT", _GROUP)
def put_group(call: Call) -> Response:
    """Create a group, or replace its tags; its location is fixed."""
    _check_name(call["group"])
    body = json_body(call.request)
    location = _location(call, body)
    old = found_group(call)
    if old and old["location"] != location:
        message = (
            f"Invalid resource group location '{location}'. The Resource group already exists in"
            f" location '{old['location']}'."
        )
        raise ServiceFailure(409, "InvalidResourceGroupLocation", message)
    refuse_when_deleting(call, old)
    row = _group_row(call, location, tags_of(body), old)
    call.world.state.resources[row["id"].lower()] = row
    return answer(row, 200 if old else 201)


@service.route("PATCH", _GROUP)
def patch_group(call: Call) -> Response:
    """Replace the tags of a group."""
    row = existing_group(call)
    refuse_when_deleting(call, row)
    tags = tags_of(json_body(call.request))
    if tags is not None:
        row["tags"] = tags
    return answer(row)


@service.route("DELETE", _GROUP)
def delete_group(call: Call) -> Response:
    """Begin to delete a group with everything in it."""
    row = existing_group(call)
    row["properties"] = {"provisioningState": "Deleting"}
    operation = call.world.start_operation(
        DELETE_KIND, call.subscription, DELETE_SECONDS, group=row["id"]
    )
    if call.world.instant:
        return empty(200)
    return empty(202, **_poll_headers(call, operation.id))


@service.route("GET", "/subscriptions/{subscription}/operationresults/{id}")
def get_operation_result(call: Call) -> Response:
    """Answer 202 while a deletion goes on, then 200; neither has a body."""
    operation = call.world.state.operations.get(call["id"].lower())
    if operation is None or operation.subscription_id != call.subscription:
        raise ServiceFailure(404, "NotFound", f"The operation '{call['id']}' was not found.")
    return empty(200) if operation.outcome else empty(202, **_poll_headers(call, operation.id))


@service.route("GET", f"{_GROUP}/resources")
def list_group_resources(call: Call) -> Response:
    """Answer with the resources of a group; see ``list_resources``."""
    return _listed(call, f"{existing_group(call)['id']}/")


@service.route("GET", "/subscriptions/{subscription}/resources")
def list_resources(call: Call) -> Response:
    """Answer with the resources of the subscription, in pages.

    ``$filter`` knows ``resourceType``, ``name``, ``location``, ``tagName`` and ``tagValue``, each
    with ``eq``, joined by ``and``.
    """
    return _listed(call, _group_id(call.subscription, ""))


def _listed(call: Call, prefix: str) -> Response:
    chosen = _conditions(call.query.get("$filter"))
    rows = [
        _short(row)
        for key, row in call.world.state.resources.items()
        if key.startswith(prefix.lower()) and _is_tracked(key) and _fits(row, chosen)
    ]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


def _is_tracked(key: str) -> bool:
    """Tell resources of their own from their children, locks and role assignments."""
    parts = key.split("/")
    return len(parts) == 9 and parts[6] != "microsoft.authorization"


_COMPARED = {"resourcetype": "type", "name": "name", "location": "location"}


def _conditions(expression: str | None) -> dict[str, str]:
    form = r"\s*(\w+)\s+eq\s+'([^']*)'\s*"
    parts = re.split(r"\s+and\s+", expression) if expression else []
    found = [re.fullmatch(form, part, re.IGNORECASE) for part in parts]
    chosen = {m.group(1).lower(): m.group(2) for m in found if m}
    if not all(found) or set(chosen) - {*_COMPARED, "tagname", "tagvalue"}:
        raise _bad_filter(expression or "")
    return chosen


def _fits(row: Row, chosen: dict[str, str]) -> bool:
    plain = [
        str(row.get(field, "")).lower() == chosen[name].lower()
        for name, field in _COMPARED.items()
        if name in chosen
    ]
    tags = {name.lower(): value for name, value in (row.get("tags") or {}).items()}
    tag = chosen.get("tagname", "").lower()
    tagged = not tag or (tag in tags and chosen.get("tagvalue", tags[tag]) == tags[tag])
    return all(plain) and tagged


@service.finisher(DELETE_KIND)
def finish_deletion(world: World, operation: Operation) -> None:
    """Remove the group and everything in it."""
    forget(world, operation.details["group"])


def forget(world: World, id_: str) -> None:
    """Remove a resource with what lies in it and is set on it; the identities with it go too."""
    top = id_.lower()
    gone = [k for k in world.state.resources if k == top or k.startswith(f"{top}/")]
    for key in gone:
        row = world.state.resources.pop(key)
        for principal in _principals(row):
            world.state.principals.pop(principal, None)
        if row.get("type", "").lower() == _ACCOUNTS:
            _hold_name(world, row)


_ACCOUNTS = "microsoft.storage/storageaccounts"


def _hold_name(world: World, row: Row) -> None:
    """Keep the name of a deleted account for its subscription for a while."""
    subscription = row["id"].split("/")[2]
    world.hold(
        f"account/{row['name']}/{subscription}", world.catalogue.storage["name_hold_seconds"]
    )


def _principals(row: Row) -> list[str]:
    """Return the object ids that a resource owns: not those of identities that it only uses."""
    own = (
        (row.get("properties") or {})
        if "userassignedidentities" in row.get("type", "").lower()
        else {}
    )
    found = [own.get("principalId"), (row.get("identity") or {}).get("principalId")]
    return [principal for principal in found if principal]


def _poll_headers(call: Call, id_: str) -> dict[str, str]:
    path = f"/subscriptions/{call.subscription}/operationresults/{id_}"
    url = f"{call.request.origin}{path}?api-version={call.query['api-version']}"
    return {"location": url, "retry_after": str(RETRY_AFTER_SECONDS)}


def _group_id(subscription: str, name: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{name}"


def _is_child(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and "/" not in key[len(prefix) :]


def found_group(call: Call) -> Row | None:
    """Return the group of the path, None when there is none."""
    return call.world.state.resources.get(_group_id(call.subscription, call["group"]).lower())


def existing_group(call: Call) -> Row:
    """Return the group of the path. Raises ServiceFailure when there is none."""
    found = found_group(call)
    if found is None:
        message = f"Resource group '{call['group']}' could not be found."
        raise ServiceFailure(404, "ResourceGroupNotFound", message)
    return found


def refuse_when_deleting(call: Call, row: Row | None) -> None:
    """Refuse to write into a group that is being deleted."""
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


def tags_of(body: Row) -> dict[str, str] | None:
    """Return the tags of a body, None where it has none. Raises ServiceFailure for bad ones."""
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
    chosen = _conditions(expression)
    if set(chosen) - {"tagname", "tagvalue"}:
        raise _bad_filter(expression or "")
    return _fits(row, chosen)


def _bad_filter(expression: str) -> ServiceFailure:
    message = f"Invalid $filter '{expression}' specified in the query string."
    return ServiceFailure(400, "InvalidFilterInQueryString", message)


def _short(row: Row) -> Row:
    names = ("id", "name", "type", "kind", "location", "tags", "sku", "identity")
    return {name: row[name] for name in names if name in row}
