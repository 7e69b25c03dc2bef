"""Microsoft.ManagedIdentity: identities of users' own."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.identity_of import new_principal
from ai4infra.sandbox.messages import Response, answer, json_body
from ai4infra.sandbox.providers import require_registered
from ai4infra.sandbox.tracked import (
    GROUP,
    SUBSCRIPTION,
    above,
    delete,
    existing,
    found,
    id_to_write,
    keep,
    listed,
    location,
    rows,
    tags,
)

service = Service()
Row = dict[str, Any]

NAMESPACE = "Microsoft.ManagedIdentity"
KIND = f"{NAMESPACE}/userAssignedIdentities"
_IDENTITIES = f"{GROUP}/providers/{KIND}"
_IDENTITY = f"{_IDENTITIES}/{{name}}"


@service.route("PUT", _IDENTITY)
def put_identity(call: Call) -> Response:
    """Create an identity (201), or replace the tags of one that is there (200)."""
    require_registered(call.world, call.subscription, NAMESPACE)
    body = json_body(call.request)
    # The service answers with the group's key in lower case.
    id_ = id_to_write(call, KIND, call["name"]).replace("/resourceGroups/", "/resourcegroups/")
    old = found(call.world, id_)
    place = location(call, body, KIND, old)
    if old is not None:
        old["tags"] = tags(body)
        return answer(old)
    row = keep(call.world, _identity(call, id_, place, tags(body)))
    return answer(row, 201, location=id_)


@service.route("GET", _IDENTITY)
def get_identity(call: Call) -> Response:
    """Answer with one identity."""
    require_registered(call.world, call.subscription, NAMESPACE)
    return answer(existing(call, KIND, call["name"]))


@service.route("GET", _IDENTITIES)
@service.route("GET", f"{SUBSCRIPTION}/providers/{KIND}")
def list_identities(call: Call) -> Response:
    """Answer with the identities of the group or the subscription, in pages."""
    require_registered(call.world, call.subscription, NAMESPACE)
    return listed(call, rows(call.world, above(call), KIND))


@service.route("DELETE", _IDENTITY)
def delete_identity(call: Call) -> Response:
    """Delete an identity; role assignments to it stay, and are to nobody."""
    require_registered(call.world, call.subscription, NAMESPACE)
    return delete(call, KIND, call["name"])


def _identity(call: Call, id_: str, place: str, labels: dict[str, str]) -> Row:
    return {
        "location": place,
        "tags": labels,
        "id": id_,
        "name": call["name"],
        "type": KIND,
        "properties": {
            "tenantId": call.world.catalogue.tenant_id,
            "principalId": new_principal(call.world),
            "clientId": call.world.new_id(),
        },
    }
