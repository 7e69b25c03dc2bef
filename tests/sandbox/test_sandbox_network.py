"""Networks, private endpoints and their DNS; machines and identities; alerts."""

from __future__ import annotations

from typing import Any

import pytest
from arm_client import Arm, Http, Reply, account_body, code
from azure.mgmt.compute import ComputeManagementClient

from ai4infra.sandbox import Sandbox

MACHINES = "providers/Microsoft.Compute/virtualMachines"


@pytest.fixture
def subnet(arm: Arm, group: str) -> str:
    """Id of a subnet in eastus2."""
    network = f"{group}/providers/Microsoft.Network/virtualNetworks/vnet"
    body = {"location": "eastus2", "properties": {"subnets": [{"name": "data"}]}}
    assert arm("PUT", network, json=body).status_code == 201
    return f"{network}/subnets/data"


def endpoint(
    arm: Arm, group: str, subnet: str, account: str, kind: str = "blob", **change: Any
) -> Reply:
    connection = {"privateLinkServiceId": account, "groupIds": [kind]}
    properties = {
        "subnet": {"id": subnet},
        "privateLinkServiceConnections": [{"name": "one", "properties": connection}],
    }
    body = {"location": "eastus2", "properties": properties, **change}
    path = f"{group}/providers/Microsoft.Network/privateEndpoints/pe-{kind}"
    return arm("PUT", path, json=body)


def poll(http: Http, sandbox: Sandbox, reply: Reply) -> Any:
    token = sandbox.credential.get_token("https://management.azure.com/.default").token
    where = reply.headers["azure-asyncoperation"]
    return http.get(where, headers={"Authorization": f"Bearer {token}"}).json()


def test_a_network_is_read_with_its_subnets(arm: Arm, subnet: str, group: str) -> None:
    network = subnet.rpartition("/subnets/")[0]
    added = arm("PUT", f"{network}/subnets/more", json={"properties": {}})

    told = arm("GET", network).json()["properties"]["subnets"]

    assert (added.status_code, [row["name"] for row in told]) == (201, ["data", "more"])
    assert arm("GET", subnet).json()["name"] == "data"
    assert len(arm("GET", f"{network}/subnets").json()["value"]) == 2
    assert code(arm("GET", f"{network}/subnets/none")) == "NotFound"
    networks = "@/providers/Microsoft.Network/virtualNetworks"
    assert [row["name"] for row in arm("GET", networks).json()["value"]] == ["vnet"]


def test_a_private_endpoint_is_ready_after_a_while_and_known_to_the_account(
    arm: Arm, http: Http, sandbox: Sandbox, group: str, subnet: str, account: str
) -> None:
    reply = endpoint(arm, group, subnet, account)

    assert (reply.status_code, poll(http, sandbox, reply)["status"]) == (201, "InProgress")
    sandbox.advance(60)
    assert poll(http, sandbox, reply)["status"] == "Succeeded"
    assert arm("GET", reply.json()["id"]).json()["properties"]["provisioningState"] == "Succeeded"
    (known,) = arm("GET", account).json()["properties"]["privateEndpointConnections"]
    assert known["properties"]["privateLinkServiceConnectionState"]["status"] == "Approved"


def test_a_second_endpoint_on_a_busy_account_fails_later(
    arm: Arm, http: Http, sandbox: Sandbox, group: str, subnet: str, account: str
) -> None:
    endpoint(arm, group, subnet, account)
    second = endpoint(arm, group, subnet, account, "dfs")
    sandbox.advance(60)

    failed = poll(http, sandbox, second)
    assert (failed["status"], failed["error"]["code"]) == (
        "Failed",
        "StorageAccountOperationInProgress",
    )
    again = endpoint(arm, group, subnet, account, "dfs")
    sandbox.advance(60)
    assert poll(http, sandbox, again)["status"] == "Succeeded"


def test_what_an_endpoint_refers_to_has_to_exist_and_be_near(
    arm: Arm, group: str, subnet: str, account: str
) -> None:
    assert code(endpoint(arm, group, f"{subnet}x", account)) == "InvalidResourceReference"
    assert code(endpoint(arm, group, subnet, f"{account}x")) == "InvalidResourceReference"
    away = endpoint(arm, group, subnet, account, location="westus2")
    assert code(away) == "InvalidResourceReference"
    none = endpoint(arm, group, subnet, account, "disk")
    assert code(none) == "InvalidPrivateLinkServiceGroupIds"


def test_a_deleted_endpoint_is_gone_from_the_account(
    arm: Arm, sandbox: Sandbox, group: str, subnet: str, account: str
) -> None:
    id_ = endpoint(arm, group, subnet, account).json()["id"]
    sandbox.advance(60)

    assert arm("DELETE", id_).status_code == 202
    sandbox.advance(60)

    assert code(arm("GET", id_)) == "ResourceNotFound"
    assert arm("GET", account).json()["properties"]["privateEndpointConnections"] == []
    assert arm("DELETE", id_).status_code == 204


def test_a_zone_its_link_and_a_zone_group_make_a_record(
    arm: Arm, sandbox: Sandbox, group: str, subnet: str, account: str
) -> None:
    zone = f"{group}/providers/Microsoft.Network/privateDnsZones/privatelink.blob.core.windows.net"
    made = arm("PUT", zone, json={"location": "global"})
    link = f"{zone}/virtualNetworkLinks/vnet"
    network = {"id": subnet.rpartition("/subnets/")[0]}
    linked = arm(
        "PUT",
        link,
        json={"location": "global", "properties": {"virtualNetwork": network}},
    )
    private = endpoint(arm, group, subnet, account).json()["id"]
    config = {"name": "blob", "properties": {"privateDnsZoneId": zone}}
    body = {"properties": {"privateDnsZoneConfigs": [config]}}
    grouped = arm("PUT", f"{private}/privateDnsZoneGroups/default", json=body)
    sandbox.advance(60)

    assert [r.status_code for r in (made, linked, grouped)] == [202, 202, 201]
    told = arm("GET", f"{private}/privateDnsZoneGroups/default").json()["properties"]
    assert told["provisioningState"] == "Succeeded"
    (record,) = told["privateDnsZoneConfigs"][0]["properties"]["recordSets"]
    assert record["fqdn"] == "stdata.privatelink.blob.core.windows.net"
    assert len(arm("GET", f"{private}/privateDnsZoneGroups").json()["value"]) == 1
    assert len(arm("GET", f"{zone}/virtualNetworkLinks").json()["value"]) == 1
    assert code(arm("DELETE", zone)) == "CannotDeleteResource"
    assert arm("DELETE", link).status_code == 202


def test_a_zone_is_global(arm: Arm, group: str) -> None:
    zone = f"{group}/providers/Microsoft.Network/privateDnsZones/example.org"

    refused = arm("PUT", zone, json={"location": "eastus2"})

    assert code(refused) == "LocationNotAvailableForResourceType"


def machine(arm: Arm, group: str, name: str = "node", **identity: Any) -> Reply:
    body = {"location": "eastus2", **({"identity": identity} if identity else {})}
    return arm("PUT", f"{group}/{MACHINES}/{name}", json=body)


def test_a_machine_gets_an_identity_when_asked(arm: Arm, group: str, sandbox: Sandbox) -> None:
    plain = machine(arm, group)
    body = {"identity": {"type": "SystemAssigned"}}
    patched = arm("PATCH", f"{group}/{MACHINES}/node", json=body).json()["identity"]

    assert (plain.status_code, "identity" in plain.json()) == (201, False)
    assert patched["tenantId"] == sandbox.world.catalogue.tenant_id
    again = arm("PATCH", f"{group}/{MACHINES}/node", json=body).json()["identity"]
    assert again["principalId"] == patched["principalId"]


def user_identity(arm: Arm, sandbox: Sandbox, group: str) -> Any:
    arm("POST", "@/providers/Microsoft.ManagedIdentity/register")
    sandbox.advance(60)
    path = f"{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/id-train"
    return arm("PUT", path, json={"location": "eastus2"})


def test_an_identity_is_201_then_200_with_the_groups_key_in_lower_case(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    first, second = (user_identity(arm, sandbox, group) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 200)
    assert "/resourcegroups/rg/" in first.json()["id"]
    assert first.headers["location"] == first.json()["id"]
    assert first.json()["properties"] == second.json()["properties"]
    identities = "@/providers/Microsoft.ManagedIdentity/userAssignedIdentities"
    assert len(arm("GET", identities).json()["value"]) == 1
    assert [arm("DELETE", first.json()["id"]).status_code for _ in range(2)] == [200, 204]


def test_identities_need_their_provider(arm: Arm, group: str) -> None:
    path = f"{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/id-train"

    refused = arm("PUT", path, json={"location": "eastus2"})

    assert (refused.status_code, code(refused)) == (409, "MissingSubscriptionRegistration")


def test_a_machine_takes_identities_of_users_and_gives_them_back(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    made = user_identity(arm, sandbox, group).json()
    both = machine(
        arm, group, type="SystemAssigned, UserAssigned", userAssignedIdentities={made["id"]: {}}
    ).json()["identity"]

    used = both["userAssignedIdentities"][made["id"]]
    assert used["principalId"] == made["properties"]["principalId"]
    body = {"identity": {"type": "SystemAssigned", "userAssignedIdentities": {made["id"]: None}}}
    only = arm("PATCH", f"{group}/{MACHINES}/node", json=body).json()["identity"]
    assert "userAssignedIdentities" not in only
    none = arm("PATCH", f"{group}/{MACHINES}/node", json={"identity": {"type": "None"}})
    assert "identity" not in none.json()


@pytest.mark.parametrize(
    ("identity", "refused"),
    [
        ({"type": "UserAssigned"}, "MissingIdentityIds"),
        ({"type": "Own"}, "FailedIdentityOperation"),
        (
            {"type": "UserAssigned", "userAssignedIdentities": {"/subscriptions/x": {}}},
            "FailedIdentityOperation",
        ),
    ],
)
def test_an_identity_that_cannot_be_is_refused(
    arm: Arm, group: str, identity: dict[str, Any], refused: str
) -> None:
    assert code(machine(arm, group, **identity)) == refused


def test_the_sdk_finds_machines_and_scale_sets(arm: Arm, group: str, sandbox: Sandbox) -> None:
    machine(arm, group, type="SystemAssigned")
    sets = f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets/pool"
    arm("PUT", sets, json={"location": "eastus2", "identity": {"type": "SystemAssigned"}})
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )

    found = client.virtual_machines.get("rg", "node")
    pool = client.virtual_machine_scale_sets.get("rg", "pool")
    assert found.identity is not None
    assert pool.identity is not None
    assert found.identity.principal_id != pool.identity.principal_id
    assert [vm.name for vm in client.virtual_machines.list_all()] == ["node"]


def test_the_sdk_waits_for_an_identity_and_for_a_deletion(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    machine(arm, group)
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    update: Any = {"identity": {"type": "SystemAssigned"}}

    changed = client.virtual_machines.begin_update("rg", "node", update).result()
    client.virtual_machines.begin_delete("rg", "node").result()

    assert changed.identity is not None
    assert changed.identity.principal_id
    assert code(arm("GET", f"{group}/{MACHINES}/node")) == "ResourceNotFound"
    assert sandbox.world.state.principals == {}


def test_alerts_are_listed_and_settings_of_a_resource(arm: Arm, account: str, group: str) -> None:
    alert = f"{group}/providers/Microsoft.Insights/metricAlerts/availability"
    criteria = {
        "allOf": [
            {
                "name": "a",
                "metricName": "Availability",
                "operator": "LessThan",
                "threshold": 99,
                "timeAggregation": "Average",
            }
        ]
    }
    properties = {"scopes": [account], "criteria": criteria, "severity": 2}
    made = arm("PUT", alert, json={"location": "global", "properties": properties})
    settings = f"{account}/providers/Microsoft.Insights/diagnosticSettings"
    arm("PUT", f"{settings}/logs", json={"properties": {"logs": []}})

    assert made.status_code == 200
    listed = arm("GET", "@/providers/Microsoft.Insights/metricAlerts").json()["value"]
    assert listed[0]["properties"]["criteria"]["allOf"][0]["metricName"] == "Availability"
    assert [row["name"] for row in arm("GET", settings).json()["value"]] == ["logs"]
    assert arm("PUT", alert, json={"properties": {}}).status_code == 400
    assert arm("GET", alert).json()["name"] == "availability"
    assert arm("DELETE", alert).status_code == 200


def test_metrics_have_points_in_time_without_values(arm: Arm, account: str) -> None:
    path = f"{account}/providers/Microsoft.Insights/metrics"
    told = arm("GET", path, params={"metricnames": "UsedCapacity"}).json()["value"][0]

    assert list(told["timeseries"][0]["data"][0]) == ["timeStamp"]
    assert arm("GET", path, params={"metricnames": "Mood"}).status_code == 400
    assert arm("GET", f"{account}x/providers/Microsoft.Insights/metrics").status_code == 404


def test_an_account_can_have_an_identity_too(arm: Arm, group: str, sandbox: Sandbox) -> None:
    path = f"{group}/providers/Microsoft.Storage/storageAccounts/stown"
    arm("PUT", path, json={**account_body(), "identity": {"type": "SystemAssigned"}})

    assert arm("GET", path).json()["identity"]["principalId"] in sandbox.world.state.principals
