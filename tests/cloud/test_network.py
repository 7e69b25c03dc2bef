"""Private endpoints and DNS zones."""

from __future__ import annotations

from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed

from ai4infra.cloud import network
from ai4infra.errors import NotFoundError
from ai4infra.model import PrivateEndpoint

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
PE = f"{GROUP}/providers/Microsoft.Network/privateEndpoints/pe"
ZONE = f"{GROUP}/providers/Microsoft.Network/privateDnsZones/privatelink.blob.core.windows.net"
SUBNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/v/subnets/s"
CONNECTION = {
    "privateLinkServiceId": "/account",
    "groupIds": ["blob"],
    "privateLinkServiceConnectionState": {"status": "Pending"},
}
CONFIG = {"properties": {"privateDnsZoneConfigs": [{"properties": {"privateDnsZoneId": ZONE}}]}}


def an_endpoint(kind: str, *zone_groups: Any) -> PrivateEndpoint | None:
    row = {
        "id": PE,
        "name": "pe",
        "properties": {"subnet": {"id": SUBNET}, kind: [{"properties": CONNECTION}]},
    }
    script = Script().on("privateDnsZoneGroups", *(zone_groups or (listed(CONFIG),)))
    script.on("privateEndpoints/pe", answer(200, row))
    return network.endpoint(script.session(), PE)


@pytest.mark.parametrize(
    "kind", ["privateLinkServiceConnections", "manualPrivateLinkServiceConnections"]
)
def test_an_endpoint_tells_what_it_connects_and_its_zones(kind) -> None:
    assert an_endpoint(kind) == PrivateEndpoint(
        id=PE,
        name="pe",
        subnet_id=SUBNET,
        target_id="/account",
        group_ids=("blob",),
        state="Pending",
        zone_ids=(ZONE,),
    )


def test_an_endpoint_without_zone_groups_has_no_zones() -> None:
    found = an_endpoint("privateLinkServiceConnections", listed())
    assert found is not None
    assert found.zone_ids == ()


def test_zones_that_may_not_be_read_are_unknown() -> None:
    found = an_endpoint("privateLinkServiceConnections", failed(403, "AuthorizationFailed"))
    assert found is not None
    assert found.zone_ids is None


def test_an_endpoint_that_does_not_exist_is_none() -> None:
    script = Script().on("GET", failed(404, "ResourceNotFound"))
    assert network.endpoint(script.session(), PE) is None


def test_only_zones_of_the_wanted_names_are_told_with_their_networks() -> None:
    vnet = SUBNET.partition("/subnets")[0]
    link = {"name": "hub", "properties": {"virtualNetwork": {"id": vnet}}}
    script = Script().on("virtualNetworkLinks", listed(link, {"properties": {}}))
    other = {"id": "/other", "name": "contoso.com"}
    script.on("privateDnsZones", listed({"id": ZONE, "name": ZONE.rpartition("/")[2]}, other))
    (found,) = network.dns_zones(
        script.session(), SUBSCRIPTION, ("privatelink.blob.core.windows.net",)
    )
    assert (found.id, found.vnet_ids, found.link_names) == (ZONE, (vnet,), ("hub",))


def test_networks_of_a_zone_that_may_not_be_read_are_unknown() -> None:
    script = Script().on("virtualNetworkLinks", failed(403, "AuthorizationFailed"))
    script.on("privateDnsZones", listed({"id": ZONE, "name": ZONE.rpartition("/")[2]}))
    (found,) = network.dns_zones(
        script.session(), SUBSCRIPTION, ("privatelink.blob.core.windows.net",)
    )
    assert found.vnet_ids is None


def test_the_region_of_a_network_is_read() -> None:
    row = {"id": "/v", "name": "v", "location": "westeurope"}
    script = Script().on("virtualNetworks", answer(200, row))
    vnet = SUBNET.partition("/subnets")[0]
    assert network.vnet_location(script.session(), vnet) == "westeurope"


def test_a_network_that_does_not_exist_is_not_found() -> None:
    script = Script().on("virtualNetworks", failed(404, "ResourceNotFound"))
    with pytest.raises(NotFoundError):
        network.vnet_location(script.session(), SUBNET.partition("/subnets")[0])
