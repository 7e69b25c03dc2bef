"""Private endpoints and private DNS zones, as far as storage needs them.

https://learn.microsoft.com/rest/api/virtualnetwork/private-endpoints
"""

from __future__ import annotations

import msgspec

from ai4infra.arm import API_VERSIONS, ENDPOINT, ZONE, ZONE_GROUP, ZONE_LINK, name_of
from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.rows import decode_rows, whole_rows
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.model import DnsZone, PrivateEndpoint
from ai4infra.storage_names import subscription_scope

NETWORK_API_VERSION = API_VERSIONS[ENDPOINT]


class _Reference(msgspec.Struct):
    id: str | None = None


class _State(msgspec.Struct):
    status: str | None = None


class _Connection(msgspec.Struct, rename="camel"):
    private_link_service_id: str | None = None
    group_ids: list[str] | None = None
    private_link_service_connection_state: _State | None = None


class _ConnectionRow(msgspec.Struct):
    properties: _Connection | None = None


class _EndpointProperties(msgspec.Struct, rename="camel"):
    subnet: _Reference | None = None
    private_link_service_connections: list[_ConnectionRow] | None = None
    manual_private_link_service_connections: list[_ConnectionRow] | None = None


class _Endpoint(msgspec.Struct):
    id: str
    name: str
    properties: _EndpointProperties | None = None


class _Config(msgspec.Struct, rename="camel"):
    private_dns_zone_id: str | None = None


class _ConfigRow(msgspec.Struct):
    properties: _Config | None = None


class _ZoneGroupProperties(msgspec.Struct, rename="camel"):
    private_dns_zone_configs: list[_ConfigRow] | None = None


class _ZoneGroup(msgspec.Struct):
    properties: _ZoneGroupProperties | None = None


class _Named(msgspec.Struct):
    id: str
    name: str
    location: str | None = None


class _LinkProperties(msgspec.Struct, rename="camel"):
    virtual_network: _Reference | None = None


class _Link(msgspec.Struct):
    name: str | None = None
    properties: _LinkProperties | None = None


def endpoint(session: Session, endpoint_id: str) -> PrivateEndpoint | None:
    """Return a private endpoint with its DNS zones; None where there is none."""
    what = f"Cannot read the private endpoint {name_of(endpoint_id)}"
    try:
        row = session.get_json(endpoint_id, NETWORK_API_VERSION, _Endpoint, what=what)
    except NotFoundError:
        return None
    p = row.properties or _EndpointProperties()
    rows = (
        *(p.private_link_service_connections or ()),
        *(p.manual_private_link_service_connections or ()),
    )
    connection = next((r.properties for r in rows if r.properties), None) or _Connection()
    state = connection.private_link_service_connection_state
    return PrivateEndpoint(
        id=row.id,
        name=row.name,
        subnet_id=p.subnet.id if p.subnet else None,
        target_id=connection.private_link_service_id,
        group_ids=tuple(connection.group_ids or ()),
        state=state.status if state else None,
        zone_ids=_zone_ids(session, row.id),
    )


def _zone_ids(session: Session, endpoint_id: str) -> tuple[str, ...] | None:
    what = f"Cannot read the DNS zones of {name_of(endpoint_id)}"
    path = f"{endpoint_id}/{name_of(ZONE_GROUP)}"
    try:
        pages = list(session.pages(path, NETWORK_API_VERSION, what=what))
        rows = whole_rows(pages, _ZoneGroup, what)
    except Ai4infraError:
        return None
    configs = [
        config.properties.private_dns_zone_id
        for row in rows
        for config in (row.properties.private_dns_zone_configs or () if row.properties else ())
        if config.properties
    ]
    return tuple(zone for zone in configs if zone)


def dns_zones(
    session: Session, subscription_id: str, names: tuple[str, ...]
) -> tuple[DnsZone, ...]:
    """Return the subscription's private DNS zones of these names, with the networks they serve."""
    what = "Cannot list the private DNS zones"
    path = f"{subscription_scope(subscription_id)}/providers/{ZONE}"
    pages = session.pages(path, API_VERSIONS[ZONE], what=what)
    rows = [row for page in pages for row in decode_rows(page, _Named, what)[0]]
    wanted = {name.casefold() for name in names}
    found = [row for row in rows if row.name.casefold() in wanted]
    linked = fan_out(lambda row: _links(session, row.id), found)
    return tuple(_zone(row, outcome.value) for row, outcome in zip(found, linked, strict=True))


def _zone(row: _Named, links: list[_Link] | None) -> DnsZone:
    if links is None:
        return DnsZone(id=row.id, name=row.name)
    networks = (link.properties.virtual_network for link in links if link.properties)
    return DnsZone(
        id=row.id,
        name=row.name,
        vnet_ids=tuple(network.id for network in networks if network and network.id),
        link_names=tuple(link.name for link in links if link.name),
    )


def _links(session: Session, zone_id: str) -> list[_Link]:
    what = f"Cannot list the networks of the zone {name_of(zone_id)}"
    pages = session.pages(f"{zone_id}/{name_of(ZONE_LINK)}", API_VERSIONS[ZONE_LINK], what=what)
    return whole_rows(pages, _Link, what)


def vnet_location(session: Session, vnet_id: str) -> str | None:
    """Return the region of a virtual network; raises NotFoundError where there is none."""
    what = f"Cannot read the virtual network {name_of(vnet_id)}"
    return session.get_json(vnet_id, NETWORK_API_VERSION, _Named, what=what).location
