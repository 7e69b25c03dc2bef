"""Microsoft.Network: virtual networks, private endpoints, and private DNS zones."""

from __future__ import annotations

from typing import Any

from ai4infra.ids import region_key
from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    invalid_content,
    json_body,
)
from ai4infra.sandbox.operations import WRITE_KIND, deleted, written
from ai4infra.sandbox.storage import endpoints, operation_in_progress
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
    properties,
    rows,
    tags,
)
from ai4infra.sandbox.world import World

service = Service()
Row = dict[str, Any]

VNET = "Microsoft.Network/virtualNetworks"
SUBNET = f"{VNET}/subnets"
ENDPOINT = "Microsoft.Network/privateEndpoints"
ZONE = "Microsoft.Network/privateDnsZones"
LINK = f"{ZONE}/virtualNetworkLinks"
ZONE_GROUP = f"{ENDPOINT}/privateDnsZoneGroups"
_VNETS = f"{GROUP}/providers/{VNET}"
_SUBNET = f"{_VNETS}/{{name}}/subnets/{{child}}"
_ENDPOINTS = f"{GROUP}/providers/{ENDPOINT}"
_ZONE_GROUPS = f"{_ENDPOINTS}/{{name}}/privateDnsZoneGroups"
_ZONES = f"{GROUP}/providers/{ZONE}"
_LINKS = f"{_ZONES}/{{name}}/virtualNetworkLinks"


def _seconds(call: Call, kind: str) -> float:
    return float(call.world.catalogue.network[f"{kind}_seconds"])


# --- Virtual networks ---


@service.route("PUT", f"{_VNETS}/{{name}}")
def put_network(call: Call) -> Response:
    """Create or replace a virtual network, with the subnets that the body has."""
    body = json_body(call.request)
    id_ = id_to_write(call, VNET, call["name"])
    old = found(call.world, id_)
    told = properties(body)
    row = {
        "name": call["name"],
        "id": id_,
        "type": VNET,
        "location": location(call, body, VNET, old),
        "tags": tags(body),
        "properties": {**told, "provisioningState": "Succeeded"},
    }
    keep(call.world, row)
    for subnet in told.get("subnets") or []:
        _keep_subnet(call, row, subnet["name"], subnet.get("properties") or {})
    return answer(_network(call.world, row), 200 if old else 201)


@service.route("GET", f"{_VNETS}/{{name}}")
def get_network(call: Call) -> Response:
    """Answer with one virtual network and its subnets."""
    return answer(_network(call.world, existing(call, VNET, call["name"])))


@service.route("GET", _VNETS)
@service.route("GET", f"{SUBSCRIPTION}/providers/{VNET}")
def list_networks(call: Call) -> Response:
    """Answer with the virtual networks of the group or the subscription."""
    mine = rows(call.world, above(call), VNET)
    return listed(call, [_network(call.world, row) for row in mine])


@service.route("PUT", _SUBNET)
def put_subnet(call: Call) -> Response:
    """Create or replace a subnet."""
    network = existing(call, VNET, call["name"])
    told = properties(json_body(call.request))
    old = found(call.world, f"{network['id']}/subnets/{call['child']}")
    return answer(_keep_subnet(call, network, call["child"], told), 200 if old else 201)


@service.route("GET", _SUBNET)
def get_subnet(call: Call) -> Response:
    """Answer with one subnet."""
    return answer(_child(call, VNET, "subnets"))


@service.route("GET", f"{_VNETS}/{{name}}/subnets")
def list_subnets(call: Call) -> Response:
    """Answer with the subnets of a virtual network."""
    return listed(call, rows(call.world, existing(call, VNET, call["name"])["id"], SUBNET))


def _network(world: World, row: Row) -> Row:
    told = {**row["properties"], "subnets": rows(world, row["id"], SUBNET)}
    return {**row, "properties": told}


def _keep_subnet(call: Call, network: Row, name: str, told: Row) -> Row:
    row = {
        "name": name,
        "id": f"{network['id']}/subnets/{name}",
        "type": SUBNET,
        "properties": {**told, "provisioningState": "Succeeded"},
    }
    return keep(call.world, row)


def _child(call: Call, kind: str, below: str) -> Row:
    """Return a child of the resource of the path. Raises ServiceFailure when there is none."""
    parent = existing(call, kind, call["name"])
    row = found(call.world, f"{parent['id']}/{below}/{call['child']}")
    if row is None:
        message = f"Resource {parent['id']}/{below}/{call['child']} not found."
        raise ServiceFailure(404, "NotFound", message)
    return row


# --- Private endpoints ---


@service.route("PUT", f"{_ENDPOINTS}/{{name}}")
def put_endpoint(call: Call) -> Response:
    """Begin to create a private endpoint; an account takes one at a time."""
    body = json_body(call.request)
    id_ = id_to_write(call, ENDPOINT, call["name"])
    old = found(call.world, id_)
    told = properties(body)
    place = location(call, body, ENDPOINT, old)
    subnet = _referenced(call, id_, (told.get("subnet") or {}).get("id"))
    network = _referenced(call, id_, subnet["id"].rpartition("/subnets/")[0])
    if region_key(network["location"]) != place:
        raise _no_reference(id_, subnet["id"])
    connections = [_connection(call, id_, one) for one in _asked(told)]
    error = None if old else _busy(call, connections)
    row = keep(call.world, _endpoint(call, id_, place, subnet, connections, tags(body)))
    return written(call, row, 200 if old else 201, _seconds(call, "endpoint"), error)


@service.route("GET", f"{_ENDPOINTS}/{{name}}")
def get_endpoint(call: Call) -> Response:
    """Answer with one private endpoint."""
    return answer(existing(call, ENDPOINT, call["name"]))


@service.route("GET", _ENDPOINTS)
@service.route("GET", f"{SUBSCRIPTION}/providers/{ENDPOINT}")
def list_endpoints(call: Call) -> Response:
    """Answer with the private endpoints of the group or the subscription."""
    return listed(call, rows(call.world, above(call), ENDPOINT))


@service.route("DELETE", f"{_ENDPOINTS}/{{name}}")
def delete_endpoint(call: Call) -> Response:
    """Begin to delete a private endpoint."""
    row = found(call.world, id_to_write(call, ENDPOINT, call["name"]))
    return deleted(call, row, _seconds(call, "endpoint"))


def _asked(told: Row) -> list[Row]:
    asked = told.get("privateLinkServiceConnections")
    if not isinstance(asked, list) or not asked:
        raise invalid_content("privateLinkServiceConnections must not be empty")
    return asked


def _referenced(call: Call, id_: str, other: Any) -> Row:
    row = found(call.world, str(other or ""))
    if row is None:
        raise _no_reference(id_, other)
    return row


def _no_reference(id_: str, other: Any) -> ServiceFailure:
    message = (
        f"Resource {other} referenced by resource {id_} was not found. Please make sure that the"
        " referenced resource exists, and that both resources are in the same region."
    )
    return ServiceFailure(400, "InvalidResourceReference", message)


def _connection(call: Call, id_: str, asked: Row) -> Row:
    told = asked.get("properties") or {}
    target = _referenced(call, id_, told.get("privateLinkServiceId"))
    groups = told.get("groupIds") or []
    known = set(endpoints(call, target)) if "sku" in target else set(groups)
    if len(groups) != 1 or not set(groups) <= known:
        message = f"The groupIds {groups} of {target['id']} are not valid for a private endpoint."
        raise ServiceFailure(400, "InvalidPrivateLinkServiceGroupIds", message)
    name = asked.get("name", call["name"])
    return {
        "name": name,
        "id": f"{id_}/privateLinkServiceConnections/{name}",
        "properties": {
            "provisioningState": "Succeeded",
            "privateLinkServiceId": target["id"],
            "groupIds": groups,
            "privateLinkServiceConnectionState": {
                "status": "Approved",
                "description": "Auto-Approved",
                "actionsRequired": "None",
            },
        },
    }


def _busy(call: Call, connections: list[Row]) -> Row | None:
    """Return the error with which an endpoint will fail while its target takes another one."""
    targets = {one["properties"]["privateLinkServiceId"].lower() for one in connections}
    for operation in call.world.state.operations.values():
        if operation.kind != WRITE_KIND or operation.outcome is not None:
            continue
        row = found(call.world, operation.details["id"]) or {}
        if row.get("type") == ENDPOINT and _target(row) in targets:
            return _busy_error()
    return None


def _busy_error() -> Row:
    busy = operation_in_progress()
    said = f"Call to Microsoft.Storage/storageAccounts failed. Error message: {busy}"
    return {"code": busy.code, "message": said, "details": []}


def _target(row: Row) -> str:
    connection = row["properties"]["privateLinkServiceConnections"][0]
    return str(connection["properties"]["privateLinkServiceId"]).lower()


def _endpoint(
    call: Call, id_: str, place: str, subnet: Row, connections: list[Row], labels: dict[str, str]
) -> Row:
    target, group = _target_names(connections[0])
    number = 4 + len(rows(call.world, f"/subscriptions/{call.subscription}", ENDPOINT))
    config = {"fqdn": f"{target}.{group}.core.windows.net", "ipAddresses": [f"10.0.0.{number}"]}
    return {
        "name": call["name"],
        "id": id_,
        "type": ENDPOINT,
        "location": place,
        "tags": labels,
        "properties": {
            "subnet": {"id": subnet["id"]},
            "privateLinkServiceConnections": connections,
            "manualPrivateLinkServiceConnections": [],
            "customDnsConfigs": [config],
        },
    }


def _target_names(connection: Row) -> tuple[str, str]:
    told = connection["properties"]
    return told["privateLinkServiceId"].rpartition("/")[2], told["groupIds"][0]


@service.route("PUT", f"{_ZONE_GROUPS}/{{child}}")
def put_zone_group(call: Call) -> Response:
    """Begin to create a zone group, which writes the endpoint's records into its zones."""
    endpoint = existing(call, ENDPOINT, call["name"])
    id_ = f"{endpoint['id']}/privateDnsZoneGroups/{call['child']}"
    old = found(call.world, id_)
    configs = properties(json_body(call.request)).get("privateDnsZoneConfigs")
    if not isinstance(configs, list) or not configs:
        raise invalid_content("privateDnsZoneConfigs must not be empty")
    told = [_zone_config(call, id_, endpoint, config) for config in configs]
    row = {
        "name": call["child"],
        "id": id_,
        "type": ZONE_GROUP,
        "properties": {"privateDnsZoneConfigs": told},
    }
    return written(call, keep(call.world, row), 200 if old else 201, _seconds(call, "zone"))


@service.route("GET", f"{_ZONE_GROUPS}/{{child}}")
def get_zone_group(call: Call) -> Response:
    """Answer with one zone group."""
    return answer(_child(call, ENDPOINT, "privateDnsZoneGroups"))


@service.route("GET", _ZONE_GROUPS)
def list_zone_groups(call: Call) -> Response:
    """Answer with the zone groups of a private endpoint."""
    return listed(call, rows(call.world, existing(call, ENDPOINT, call["name"])["id"], ZONE_GROUP))


def _zone_config(call: Call, id_: str, endpoint: Row, config: Row) -> Row:
    zone = _referenced(call, id_, (config.get("properties") or {}).get("privateDnsZoneId"))
    connection = endpoint["properties"]["privateLinkServiceConnections"][0]
    target, _ = _target_names(connection)
    record = endpoint["properties"]["customDnsConfigs"][0]
    record_set = {
        "recordType": "A",
        "recordSetName": target,
        "fqdn": f"{target}.{zone['name']}",
        "ttl": 10,
        "provisioningState": "Succeeded",
        "ipAddresses": record["ipAddresses"],
    }
    told = {"privateDnsZoneId": zone["id"], "recordSets": [record_set]}
    return {"name": config.get("name", "default"), "properties": told}


# --- Private DNS zones ---


@service.route("PUT", f"{_ZONES}/{{name}}")
def put_zone(call: Call) -> Response:
    """Begin to create a private DNS zone, whose location is always global."""
    body = json_body(call.request)
    id_ = id_to_write(call, ZONE, call["name"])
    _check_global(body, ZONE)
    old = found(call.world, id_)
    row = {
        "name": call["name"],
        "id": id_,
        "type": ZONE,
        "location": "global",
        "tags": tags(body),
        "properties": {"maxNumberOfRecordSets": 25000, "maxNumberOfVirtualNetworkLinks": 1000},
    }
    return written(call, keep(call.world, row), 200 if old else 202, _seconds(call, "zone"))


@service.route("GET", f"{_ZONES}/{{name}}")
def get_zone(call: Call) -> Response:
    """Answer with one private DNS zone."""
    return answer(existing(call, ZONE, call["name"]))


@service.route("GET", _ZONES)
@service.route("GET", f"{SUBSCRIPTION}/providers/{ZONE}")
def list_zones(call: Call) -> Response:
    """Answer with the private DNS zones of the group or the subscription."""
    return listed(call, rows(call.world, above(call), ZONE))


@service.route("DELETE", f"{_ZONES}/{{name}}")
def delete_zone(call: Call) -> Response:
    """Begin to delete a zone; one with links is refused."""
    row = found(call.world, id_to_write(call, ZONE, call["name"]))
    if row and rows(call.world, row["id"], LINK):
        message = (
            f"Can not delete resource before nested resources are deleted: {row['id']}"
            "/virtualNetworkLinks."
        )
        raise ServiceFailure(409, "CannotDeleteResource", message)
    return deleted(call, row, _seconds(call, "zone"))


@service.route("PUT", f"{_LINKS}/{{child}}")
def put_link(call: Call) -> Response:
    """Begin to link a zone to a virtual network."""
    zone = existing(call, ZONE, call["name"])
    body = json_body(call.request)
    _check_global(body, LINK)
    id_ = f"{zone['id']}/virtualNetworkLinks/{call['child']}"
    told = properties(body)
    network = _referenced(call, id_, (told.get("virtualNetwork") or {}).get("id"))
    old = found(call.world, id_)
    row = {
        "name": call["child"],
        "id": id_,
        "type": LINK,
        "location": "global",
        "tags": tags(body),
        "properties": {
            "registrationEnabled": bool(told.get("registrationEnabled")),
            "virtualNetwork": {"id": network["id"]},
            "virtualNetworkLinkState": "Completed",
        },
    }
    return written(call, keep(call.world, row), 200 if old else 202, _seconds(call, "zone"))


@service.route("GET", f"{_LINKS}/{{child}}")
def get_link(call: Call) -> Response:
    """Answer with one link."""
    return answer(_child(call, ZONE, "virtualNetworkLinks"))


@service.route("GET", _LINKS)
def list_links(call: Call) -> Response:
    """Answer with the links of a zone."""
    return listed(call, rows(call.world, existing(call, ZONE, call["name"])["id"], LINK))


@service.route("DELETE", f"{_LINKS}/{{child}}")
def delete_link(call: Call) -> Response:
    """Begin to delete a link."""
    zone = existing(call, ZONE, call["name"])
    row = found(call.world, f"{zone['id']}/virtualNetworkLinks/{call['child']}")
    return deleted(call, row, _seconds(call, "zone"))


def _check_global(body: Row, kind: str) -> None:
    if str(body.get("location", "")).lower() != "global":
        message = (
            f"The provided location '{body.get('location')}' is not available for resource type"
            f" '{kind}'. List of available regions for the resource type is 'global'."
        )
        raise ServiceFailure(400, "LocationNotAvailableForResourceType", message)
