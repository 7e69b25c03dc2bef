"""Sizes and usages as Microsoft.Compute lists them, oddities included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.mgmt.compute import ComputeManagementClient

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from arm_client import Arm

Row = dict[str, Any]


def skus(arm: Arm, location: str | None) -> list[Row]:
    params = {"$filter": f"location eq '{location}'"} if location else {}
    rows: list[Row] = arm("GET", "@/providers/Microsoft.Compute/skus", params=params).json()[
        "value"
    ]
    return rows


def named(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row["name"] == name)


def capability(row: Row, name: str) -> str | None:
    return {c["name"]: c["value"] for c in row["capabilities"]}.get(name)


def usages(arm: Arm, location: str) -> dict[str, tuple[int, int]]:
    path = f"@/providers/Microsoft.Compute/locations/{location}/usages"
    rows = arm("GET", path).json()["value"]
    return {row["name"]["value"]: (row["currentValue"], row["limit"]) for row in rows}


def test_the_location_filter_is_honoured_in_any_spelling(arm: Arm) -> None:
    rows = skus(arm, "eastus2")

    assert rows == skus(arm, "EastUS2") == skus(arm, "East US 2")
    assert {name for row in rows for name in row["locations"]} == {"eastus2"}


def test_an_unknown_location_is_an_empty_list_and_no_error(arm: Arm) -> None:
    assert skus(arm, "eastus22") == []


def test_without_a_filter_every_region_comes_in_one_page(arm: Arm, sandbox: Sandbox) -> None:
    sandbox.world.catalogue.page_rows = 1

    rows = skus(arm, None)

    assert {"eastus", "eastus2", "SwedenCentral"} <= {row["locations"][0] for row in rows}


def test_another_filter_is_400(arm: Arm) -> None:
    path = "@/providers/Microsoft.Compute/skus"
    response = arm("GET", path, params={"$filter": "name eq 'Standard_D2s_v5'"})

    assert response.status_code == 400


def test_rows_that_are_no_vm_sizes_share_the_list(arm: Arm) -> None:
    rows = skus(arm, "eastus2")

    kinds = {row["resourceType"] for row in rows}
    assert {"virtualMachines", "disks", "snapshots", "hostGroups/hosts"} <= kinds
    assert [row["size"] for row in rows if row["name"] == "Premium_LRS"] == ["P10", "P30"]
    assert named(rows, "NVSv3-Type1")["family"] == "standardNVSv3Family"


def test_sizes_are_spelled_as_azure_spells_them(arm: Arm) -> None:
    sweden = skus(arm, "swedencentral")
    a100 = named(sweden, "Standard_NC24ads_A100_v4")

    assert a100["locations"] == ["SwedenCentral"]
    assert a100["locationInfo"][0]["zoneDetails"][0]["Name"]
    assert (a100["size"], a100["family"]) == ("NC24ads_A100_v4", "StandardNCADSA100v4Family")
    assert capability(a100, "GPUs") == "1"
    assert any(
        r["locationInfo"][0]["zones"] != sorted(r["locationInfo"][0]["zones"]) for r in sweden
    )


def test_gpu_counts_are_whole_or_missing_as_in_the_real_list(arm: Arm) -> None:
    rows = skus(arm, "eastus2")

    assert capability(named(rows, "Standard_NV6ads_A10_v5"), "GPUs") == "1"
    assert capability(named(rows, "Standard_NV4ads_V710_v5"), "GPUs") is None


def test_local_disks_are_told_in_mib_and_apart(arm: Arm) -> None:
    h100 = named(skus(arm, "eastus2"), "Standard_ND96isr_H100_v5")

    assert capability(h100, "MaxResourceVolumeMB") == "1048576"
    total, each = (
        int(capability(h100, name) or 0) for name in ("NvmeDiskSizeInMiB", "NvmeSizePerDiskInMiB")
    )
    assert round(total / each) == 8


def test_a_location_restriction_comes_with_one_for_all_zones(arm: Arm) -> None:
    blocked = named(skus(arm, "eastus2"), "Standard_ND96amsr_A100_v4")["restrictions"]

    assert [entry["type"] for entry in blocked] == ["Location", "Zone"]
    assert "zones" not in blocked[0]["restrictionInfo"]
    assert sorted(blocked[1]["restrictionInfo"]["zones"]) == ["1", "2", "3"]
    assert blocked[0]["reasonCode"] == "NotAvailableForSubscription"


def test_a_zone_restriction_can_leave_zones_or_none(arm: Arm) -> None:
    rows = skus(arm, "eastus2")
    some = named(rows, "Standard_ND96isr_H100_v5")
    every = named(rows, "Standard_NC80adis_H100_v5")

    assert [e["restrictionInfo"]["zones"] for e in some["restrictions"]] == [["1"]]
    assert set(some["locationInfo"][0]["zones"]) == {"1", "2"}
    assert [e["type"] for e in every["restrictions"]] == ["Zone"]
    assert set(every["restrictions"][0]["restrictionInfo"]["zones"]) == {"1", "2", "3"}


def test_restrictions_differ_by_subscription(arm: Arm, sandbox: Sandbox) -> None:
    lab = sandbox.world.catalogue.subscription_ids[1]
    path = f"/subscriptions/{lab}/providers/Microsoft.Compute/skus"
    rows = arm("GET", path, params={"$filter": "location eq 'eastus2'"}).json()["value"]

    reasons = {e["reasonCode"] for e in named(rows, "Standard_ND96isr_H100_v5")["restrictions"]}
    assert reasons == {"QuotaId"}


def test_spot_differs_by_region(arm: Arm) -> None:
    here = named(skus(arm, "eastus2"), "Standard_NC4as_T4_v3")
    there = named(skus(arm, "swedencentral"), "Standard_NC4as_T4_v3")

    assert capability(here, "LowPriorityCapable") == "True"
    assert capability(there, "LowPriorityCapable") == "False"


def test_the_generated_client_reads_the_rows(sandbox: Sandbox) -> None:
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )

    sizes = {s.name: s for s in client.resource_skus.list(filter="location eq 'eastus2'")}
    rows = {row.name.value: row for row in client.usage.list("eastus2")}

    family = sizes["Standard_NC4as_T4_v3"].family
    assert (rows[family].current_value, rows[family].limit) == (8, 64)


def test_quota_keys_are_families_verbatim_and_some_families_have_no_row(arm: Arm) -> None:
    found = usages(arm, "eastus2")

    assert found["Standard NDASv4_A100 Family"] == (0, 192)
    assert found["standard NDAMSv4_A100Family"] == (0, 0)
    assert "standardNDISRH200V5Family" not in found
    assert found["availabilitySets"] == (0, 2500)


def test_the_regional_limit_binds_before_the_h100_family_in_eastus2(arm: Arm) -> None:
    found = usages(arm, "eastus2")
    used, limit = found["cores"]

    assert limit - used < found["standardNDSH100v5Family"][1]
    assert found["lowPriorityCores"] == (0, 48)


def test_what_is_used_adds_up_to_what_the_region_uses(sandbox: Sandbox) -> None:
    for regions in sandbox.world.catalogue.usages.values():
        for rows in regions.values():
            used = {row["name"]["value"]: row["currentValue"] for row in rows}
            families = sum(n for name, n in used.items() if name.endswith("Family"))
            assert families <= used["cores"]


def test_usages_of_an_unknown_region_are_400(sandbox: Sandbox) -> None:
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    with pytest.raises(HttpResponseError, match="eastus2, southcentralus") as caught:
        list(client.usage.list("eastus22"))
    assert caught.value.error is not None
    assert caught.value.error.code == "NoRegisteredProviderFound"


def test_a_test_can_put_any_row_into_the_world(arm: Arm, sandbox: Sandbox) -> None:
    odd = {
        "resourceType": "virtualMachines",
        "name": "Standard_ND1_X1_v9",
        "locations": ["eastus2"],
    }
    sandbox.world.catalogue.skus[sandbox.subscription_id].append(odd)

    assert named(skus(arm, "eastus2"), "Standard_ND1_X1_v9") == odd
