"""Microsoft.Authorization locks: set at any scope, and in the way of every call below it."""

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
from ai4infra.sandbox.tracked import found, keep, listed, properties
from ai4infra.sandbox.world import World

service = Service()
Row = dict[str, Any]

KIND = "Microsoft.Authorization/locks"
_LOCKS = "/{+scope}/providers/Microsoft.Authorization/locks"
_MARK = "/providers/microsoft.authorization/locks/"
_LEVELS = ("CanNotDelete", "ReadOnly")
_WRITES = {"PUT": "write", "PATCH": "write", "DELETE": "delete"}


@service.route("PUT", f"{_LOCKS}/{{name}}")
def put_lock(call: Call) -> Response:
    """Create or replace a lock."""
    wanted = properties(json_body(call.request))
    if wanted.get("level") not in _LEVELS:
        raise invalid_content(f"the lock level must be one of {', '.join(_LEVELS)}")
    old = found(call.world, _id(call))
    row = {
        "properties": {k: wanted[k] for k in ("level", "notes", "owners") if k in wanted},
        "id": old["id"] if old else _id(call),
        "type": KIND,
        "name": call["name"],
    }
    return answer(keep(call.world, row), 200 if old else 201)


@service.route("GET", f"{_LOCKS}/{{name}}")
def get_lock(call: Call) -> Response:
    """Answer with one lock."""
    row = found(call.world, _id(call))
    if row is None:
        message = f"The lock '{call['name']}' could not be found."
        raise ServiceFailure(404, "LockNotFound", message)
    return answer(row)


@service.route("DELETE", f"{_LOCKS}/{{name}}")
def delete_lock(call: Call) -> Response:
    """Remove a lock: 200 when it was there, 204 when not."""
    gone = call.world.state.resources.pop(_id(call).lower(), None)
    return empty(200 if gone else 204)


@service.route("GET", _LOCKS)
def list_locks(call: Call) -> Response:
    """Answer with the locks at, above and below a scope; ``atScope()`` leaves out those below."""
    scope = f"/{call['scope']}".lower()
    at = call.query.get("$filter", "").replace(" ", "").lower() == "atscope()"
    shown = [
        row
        for lock, row in _all(call.world)
        if is_within(scope, lock.lower()) or (is_within(lock.lower(), scope) and not at)
    ]
    return listed(call, shown)


@service.guard
def refuse_what_is_locked(call: Call) -> Call:
    """Refuse to change what is locked; a group with something locked in it cannot go."""
    path = call.request.path.lower()
    action = _action(call.request.method, path)
    if action is None or _MARK in f"{path}/":
        return call
    locked = [scope for scope, row in _all(call.world) if _blocks(scope, row, path, action)]
    if locked:
        scopes = ",".join(f"'{scope}'" for scope in locked)
        message = (
            f"The scope '{call.request.path}' cannot perform {action} operation because following"
            f" scope(s) are locked: {scopes}. Please remove the lock and try again."
        )
        raise ServiceFailure(409, "ScopeLocked", message)
    return call


def is_within(path: str, scope: str) -> bool:
    """Tell whether an id in lower case lies at or below a scope."""
    return f"{path}/".startswith(f"{scope}/")


def _action(method: str, path: str) -> str | None:
    if method == "POST":
        return "write" if path.endswith("/listkeys") else None
    return _WRITES.get(method)


def _blocks(scope: str, row: Row, path: str, action: str) -> bool:
    if action == "write" and row["properties"]["level"] != "ReadOnly":
        return False
    below = action == "delete" and is_within(scope.lower(), path)
    return is_within(path, scope.lower()) or below


def _all(world: World) -> list[tuple[str, Row]]:
    """Return every lock with its scope, spelled as it was set; compared in lower case."""
    return [
        (row["id"][: row["id"].lower().index(_MARK)], row)
        for key, row in world.state.resources.items()
        if _MARK in key
    ]


def _id(call: Call) -> str:
    return f"/{call['scope']}/providers/{KIND}/{call['name']}"
