"""Microsoft.Resources tags: the tags of any resource, merged, replaced or removed."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    empty,
    invalid_content,
    json_body,
)
from ai4infra.sandbox.tracked import found, properties, tags

service = Service()
Row = dict[str, Any]

_TAGS = "/{+scope}/providers/Microsoft.Resources/tags/default"
_MOST = 50


@service.route("GET", _TAGS)
def get_tags(call: Call) -> Response:
    """Answer with the tags of a resource."""
    return _answer(call, _resource(call))


@service.route("PUT", _TAGS)
def put_tags(call: Call) -> Response:
    """Replace all tags."""
    return _set(call, tags(properties(json_body(call.request))))


@service.route("PATCH", _TAGS)
def patch_tags(call: Call) -> Response:
    """Merge, replace or delete the tags that the body names; names ignore case."""
    body = json_body(call.request)
    given = tags(properties(body))
    old = _resource(call).get("tags") or {}
    operation = str(body.get("operation", "")).lower()
    if operation == "replace":
        return _set(call, given)
    if operation == "merge":
        return _set(call, _merged(old, given))
    if operation == "delete":
        gone = {name.lower() for name in given}
        return _set(call, {name: v for name, v in old.items() if name.lower() not in gone})
    raise invalid_content("the operation must be one of Merge, Replace, Delete")


@service.route("DELETE", _TAGS)
def delete_tags(call: Call) -> Response:
    """Remove all tags."""
    _resource(call)["tags"] = {}
    return empty(200)


def _merged(old: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    # A tag that is there keeps the spelling of its name.
    spelling = {name.lower(): name for name in old}
    return {**old, **{spelling.get(name.lower(), name): value for name, value in given.items()}}


def _set(call: Call, wanted: dict[str, str]) -> Response:
    row = _resource(call)
    if len(wanted) > _MOST:
        message = f"A resource can have at most {_MOST} tags."
        raise ServiceFailure(400, "InvalidTagNameOrValue", message)
    row["tags"] = wanted
    return _answer(call, row)


def _resource(call: Call) -> Row:
    row = found(call.world, f"/{call['scope']}")
    if row is None:
        message = f"The resource '/{call['scope']}' could not be found."
        raise ServiceFailure(404, "ResourceNotFound", message)
    return row


def _answer(call: Call, row: Row) -> Response:
    return answer(
        {
            "id": f"{row['id']}/providers/Microsoft.Resources/tags/default",
            "name": "default",
            "type": "Microsoft.Resources/tags",
            "properties": {"tags": row.get("tags") or {}},
        }
    )
