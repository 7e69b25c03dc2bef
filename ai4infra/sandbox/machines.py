"""Microsoft.Compute: virtual machines and scale sets, as resources that have identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ai4infra.sandbox.app import Call, Handler, Service
from ai4infra.sandbox.identity_of import with_identity
from ai4infra.sandbox.messages import Response, answer, json_body
from ai4infra.sandbox.operations import deleted, written
from ai4infra.sandbox.tracked import (
    GROUP,
    SUBSCRIPTION,
    above,
    existing,
    found,
    id_to_write,
    keep,
    listed,
    location,
    merged,
    properties,
    rows,
    tags,
)

service = Service()
Row = dict[str, Any]

KINDS = {
    "virtualmachines": "Microsoft.Compute/virtualMachines",
    "virtualmachinescalesets": "Microsoft.Compute/virtualMachineScaleSets",
}
_KINDS = tuple(kind.rpartition("/")[2] for kind in KINDS.values())


def _routes(method: str, below: str = "", top: str = GROUP) -> Callable[[Handler], Handler]:
    """Register a handler for machines and for scale sets."""

    def register(handler: Handler) -> Handler:
        for kind in _KINDS:
            service.route(method, f"{top}/providers/Microsoft.Compute/{kind}{below}")(handler)
        return handler

    return register


@_routes("PUT", "/{name}")
def put_machine(call: Call) -> Response:
    """Create or replace a machine; it is ready after a while."""
    body = json_body(call.request)
    kind = _kind(call)
    id_ = id_to_write(call, kind, call["name"])
    old = found(call.world, id_)
    row: Row = {
        "name": call["name"],
        "id": old["id"] if old else id_,
        "type": kind,
        "location": location(call, body, kind, old),
        "tags": tags(body),
        "properties": {**properties(body), "vmId": call.world.new_id()},
    }
    if body.get("sku"):
        row["sku"] = body["sku"]
    if old and "identity" in old:
        row["identity"] = old["identity"]
    keep(call.world, with_identity(call, row, body))
    return _later(call, row, 200 if old else 201)


@_routes("PATCH", "/{name}")
def patch_machine(call: Call) -> Response:
    """Update the identities, tags and properties that the body names."""
    body = json_body(call.request)
    row = existing(call, _kind(call), call["name"])
    with_identity(call, row, body)
    row["properties"] = merged(row["properties"], properties(body))
    if body.get("tags") is not None:
        row["tags"] = tags(body)
    return _later(call, row, 200)


@_routes("GET", "/{name}")
def get_machine(call: Call) -> Response:
    """Answer with one machine."""
    return answer(existing(call, _kind(call), call["name"]))


@_routes("GET")
@_routes("GET", top=SUBSCRIPTION)
def list_machines(call: Call) -> Response:
    """Answer with the machines of the group or the subscription, in pages."""
    return listed(call, rows(call.world, above(call), _kind(call)))


@_routes("DELETE", "/{name}")
def delete_machine(call: Call) -> Response:
    """Begin to delete a machine; its own identity goes with it."""
    row = found(call.world, id_to_write(call, _kind(call), call["name"]))
    return deleted(call, row, call.world.catalogue.network["machine_seconds"])


def _later(call: Call, row: Row, status: int) -> Response:
    return written(call, row, status, call.world.catalogue.network["machine_seconds"])


def _kind(call: Call) -> str:
    parts = call.request.path.lower().split("/")
    return KINDS[parts[parts.index("microsoft.compute") + 1]]
