from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SUBSCRIPTION, Script, answer, listed

from ai4infra.cloud.cache import SKU_SECONDS, Cache
from ai4infra.cloud.compute import SkuListing, is_gpu_size, merge, skus, usages
from ai4infra.errors import ServiceError
from ai4infra.model import Restriction, Sku

A100 = "Standard_NC24ads_A100_v4"


def row(name: str = A100, **fields: Any) -> dict[str, Any]:
    """A size as the service lists it; ``capabilities`` are added to the usual ones."""
    usual = {"vCPUs": "24", "MemoryGB": "220", "GPUs": "1"}
    capabilities = usual | fields.pop("capabilities", {})
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "StandardNCADSA100v4Family",
        "locations": ["eastus2"],
        "locationInfo": [{"location": "eastus2", "zones": ["3", "1", "2"], "zoneDetails": []}],
        "capabilities": [{"name": key, "value": value} for key, value in capabilities.items()],
        "restrictions": [],
        **fields,
    }


def ask(*rows: Any, **options: Any) -> SkuListing:
    script = Script().on("/skus", listed(*rows))
    return skus(script.session(), SUBSCRIPTION, "eastus2", **options)


def one(**fields: Any) -> Sku:
    (sku,) = ask(row(**fields)).skus
    return sku


def test_the_list_is_asked_for_one_region_by_its_canonical_name() -> None:
    script = Script().on("/skus", listed(row()))
    skus(script.session(), SUBSCRIPTION, "East US 2")
    (url,) = script.urls
    assert f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/skus" in url
    assert "$filter=location eq 'eastus2'" in url
    assert "api-version=2021-07-01" in url


def test_a_size_is_read_with_all_its_capabilities() -> None:
    sku = one(
        capabilities={
            "MaxResourceVolumeMB": "65536",
            "NvmeDiskSizeInMiB": "1831054",
            "NvmeSizePerDiskInMiB": "915527",
            "RdmaEnabled": "False",
            "LowPriorityCapable": "True",
            "UncachedDiskBytesPerSecond": "1000000000",
            "RetirementDateUtc": "05/01/2028",
        }
    )
    assert sku == Sku(
        name=A100,
        region="eastus2",
        family="StandardNCADSA100v4Family",
        zones=("1", "2", "3"),
        vcpus=24,
        memory_gib=220.0,
        gpus=1,
        temp_disk_gib=64.0,
        nvme_gib=1831054 / 1024,
        nvme_disks=2,
        rdma=False,
        spot_capable=True,
        uncached_disk_mbytes_s=1000.0,
        retirement_date="2028-05-01",
    )


@pytest.mark.parametrize(
    ("name", "kept"),
    [(A100, True), ("standard_nd96asr_v4", True), ("Standard_D4s_v5", False), ("NVSv3", True)],
)
def test_only_the_n_series_is_of_interest(name: str, kept: bool) -> None:
    assert is_gpu_size(name) is kept


@pytest.mark.parametrize("kind", ["disks", "hostGroups/hosts", None])
def test_other_resource_types_are_dropped(kind: str | None) -> None:
    assert ask(row(resourceType=kind), row()).skus == (one(),)


def test_the_resource_type_counts_in_any_case() -> None:
    assert ask(row(resourceType="VIRTUALMACHINES")).skus == (one(),)


@pytest.mark.parametrize("spelling", ["EastUS2", "EASTUS2", "East US 2"])
def test_locations_count_in_any_spelling(spelling: str) -> None:
    info = [{"location": spelling, "zones": ["1"]}]
    sku = one(locations=[spelling], locationInfo=info)
    assert (sku.region, sku.zones) == ("eastus2", ("1",))


def test_a_row_of_another_region_is_dropped() -> None:
    assert ask(row("Standard_NV6", locations=["westus"]), row()).skus == (one(),)


@pytest.mark.parametrize("field", ["locations", "locationInfo", "restrictions", "capabilities"])
@pytest.mark.parametrize("value", [None, []])
def test_an_empty_list_costs_a_blank_at_most(field: str, value: object) -> None:
    listing = ask(row() | {field: value}, row("Standard_NV6"))
    assert [sku.name for sku in listing.skus] == [A100, "Standard_NV6"]


@pytest.mark.parametrize("field", ["capabilities", "locationInfo", "restrictions", "family"])
def test_a_field_of_another_type_is_blank_with_a_warning(field: str) -> None:
    listing = ask(row() | {field: {"odd": 1}}, row("Standard_NV6"))
    assert [sku.name for sku in listing.skus] == [A100, "Standard_NV6"]
    assert any(field in warning and A100 in warning for warning in listing.warnings)


def test_a_row_that_is_no_size_costs_only_itself_and_a_warning() -> None:
    listing = ask("text", 7, row(name=5), row())
    assert listing.skus == (one(),)
    assert listing.warnings == ("eastus2: 3 rows of the size list make no sense.",)


@pytest.mark.parametrize("value", ["many", "NaN", "-1", "1e999", "True"])
def test_a_capability_that_is_no_number_is_blank_with_a_warning(value: object) -> None:
    listing = ask(row(capabilities={"MaxResourceVolumeMB": value}))
    assert listing.skus[0].temp_disk_gib is None
    assert "MaxResourceVolumeMB" in listing.warnings[0]


@pytest.mark.parametrize("capability", ["vCPUs", "MemoryGB"])
@pytest.mark.parametrize("value", ["", "?"])
def test_a_missing_core_capability_is_blank_with_a_warning(capability: str, value: str) -> None:
    listing = ask(row(capabilities={capability: value}))
    assert {"vCPUs": listing.skus[0].vcpus, "MemoryGB": listing.skus[0].memory_gib}[
        capability
    ] is None
    assert capability in listing.warnings[0]


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_optional_capability_is_unknown_without_a_warning(value: object) -> None:
    listing = ask(row(capabilities={"NvmeDiskSizeInMiB": value, "GPUs": value}))
    assert (listing.skus[0].nvme_gib, listing.skus[0].gpus) == (None, None)
    assert listing.warnings == ()


def test_a_disk_of_zero_is_known_to_be_none() -> None:
    sku = one(capabilities={"MaxResourceVolumeMB": "0", "NvmeDiskSizeInMiB": "0"})
    assert (sku.temp_disk_gib, sku.nvme_gib, sku.nvme_disks) == (0, 0, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("05/01/2028", "2028-05-01"),
        ("2028-05-01T00:00:00Z", "2028-05-01"),
        ("01/01/9999", None),
        ("", None),
        ("13/45/2028", None),
        ("soon", None),
    ],
)
def test_a_retirement_date_is_read_in_american_order(value: str, expected: str | None) -> None:
    assert one(capabilities={"RetirementDateUtc": value}).retirement_date == expected


def restricted(kind: str, zones: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    info: dict[str, Any] = {"locations": ["EastUS2"]}
    if zones is not None:
        info["zones"] = zones
    return {
        "type": kind,
        "values": ["EastUS2"],
        "restrictionInfo": info,
        "reasonCode": "NotAvailableForSubscription",
        **fields,
    }


def test_restrictions_keep_kind_reason_and_zones() -> None:
    sku = one(restrictions=[restricted("Location"), restricted("zone", ["3", "1"])])
    reason = "NotAvailableForSubscription"
    assert sku.restrictions == (
        Restriction(kind="Location", reason=reason),
        Restriction(kind="Zone", reason=reason, zones=("1", "3")),
    )
    assert sku.zones == ("1", "2", "3")


def test_a_restriction_of_another_region_does_not_count() -> None:
    other = restricted("Location", restrictionInfo={"locations": ["westus"]})
    assert one(restrictions=[other]).restrictions == ()


def test_a_restriction_without_reason_or_info_still_counts() -> None:
    bare = {"type": "Location", "values": None, "restrictionInfo": None, "reasonCode": None}
    assert one(restrictions=[bare]).restrictions == (
        Restriction(kind="Location", reason="Unspecified"),
    )


def test_one_capability_that_makes_no_sense_costs_only_itself() -> None:
    fields = row(name="Standard_NC4as_T4_v3")
    fields["capabilities"] += [None, {"name": "MaxResourceVolumeMB", "value": ["65536"]}]
    listing = ask(fields)
    assert (listing.skus[0].vcpus, listing.skus[0].temp_disk_gib) == (24, None)
    assert listing.warnings == (
        "eastus2: a part of capabilities of Standard_NC4as_T4_v3 cannot be read and is left blank.",
    )


def test_a_restriction_beside_one_that_makes_no_sense_still_counts() -> None:
    closed = {"type": "Location", "restrictionInfo": {"locations": ["EastUS2"]}}
    listing = ask(row(restrictions=["nonsense", closed]))
    assert [r.kind for r in listing.skus[0].restrictions] == ["Location"]
    assert "a part of restrictions" in listing.warnings[0]


def test_a_restriction_of_an_unknown_kind_is_a_warning() -> None:
    listing = ask(row(restrictions=[restricted("Planet")]))
    assert listing.skus[0].restrictions == ()
    assert "a restriction" in listing.warnings[0]


@pytest.mark.parametrize(
    "odd",
    [
        "restricted",
        ["nonsense", None],
        [restricted("Planet")],
        [restricted("Zone", restrictionInfo=None)],
        [restricted("Location"), restricted("Zone", [])],
    ],
)
def test_what_a_restriction_closes_is_not_known_where_it_cannot_be_read(odd: Any) -> None:
    assert not one(restrictions=odd).restrictions_known
    twice = ask(row(), row(restrictions=odd)).skus[0]
    assert not twice.restrictions_known


@pytest.mark.parametrize(
    "read",
    [
        None,
        [restricted("Location"), restricted("Zone", ["1"])],
        [restricted("Planet", restrictionInfo={"locations": ["westus"]})],
    ],
)
def test_restrictions_that_are_read_or_of_another_region_are_known(read: Any) -> None:
    assert one(restrictions=read).restrictions_known


def test_duplicates_are_one_size_with_all_restrictions() -> None:
    first = row(locationInfo=[{"location": "eastus2", "zones": ["1"]}])
    second = row(A100.upper(), restrictions=[restricted("Location")])
    (sku,) = ask(first, second, second).skus
    assert sku.name == A100
    assert sku.zones == ("1", "2", "3")
    assert len(sku.restrictions) == 1


def test_merging_fills_what_the_first_row_does_not_say() -> None:
    merged = merge(Sku(name="a", region="r", gpus=2), Sku(name="a", region="r", vcpus=4, gpus=1))
    assert (merged.vcpus, merged.gpus) == (4, 2)


def test_sizes_on_all_pages_are_listed() -> None:
    more = "https://management.azure.com/more/skus?page=2"
    script = (
        Script().on("page=2", listed(row("Standard_NV6"))).on(".", listed(row(), next_link=more))
    )
    listing = skus(script.session(), SUBSCRIPTION, "eastus2")
    assert [sku.name for sku in listing.skus] == [A100, "Standard_NV6"]


def test_an_answer_without_any_row_is_asked_for_again() -> None:
    script = Script().on("/skus", listed(), listed(row()))
    assert skus(script.session(), SUBSCRIPTION, "eastus2").skus == (one(),)


def test_a_region_that_lists_nothing_is_a_warning() -> None:
    listing = ask()
    assert listing.skus == ()
    assert listing.warnings == ("eastus2: the service lists no sizes at all.",)


def test_a_value_that_is_no_list_is_an_incomplete_answer() -> None:
    script = Script().on("/skus", answer(body={"value": {"a": 1}}))
    with pytest.raises(ServiceError, match="incomplete"):
        skus(script.session(), SUBSCRIPTION, "eastus2")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(list(row())),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["name", "value", "type", "location", "zones"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_no_odd_row_harms_its_neighbour(odd: dict[str, Any]) -> None:
    body = json.dumps({"value": [row("Standard_NV6") | odd, row()]})
    listing = skus(Script().on(".", answer(body=body)).session(), SUBSCRIPTION, "eastus2")
    assert one() in listing.skus


def test_a_second_run_reads_the_cache_and_tells_its_age(tmp_path: Path) -> None:
    now = [1000.0]
    cache = Cache(tmp_path, clock=lambda: now[0])
    script = Script().on("/skus", listed(row()))
    first = skus(script.session(), SUBSCRIPTION, "eastus2", cache=cache)
    now[0] += 720
    second = skus(script.session(), SUBSCRIPTION.upper(), "EastUS2", cache=cache)
    assert second == first
    assert len(script.requests) == 1


def test_an_old_answer_is_asked_for_anew(tmp_path: Path) -> None:
    now = [1000.0]
    cache = Cache(tmp_path, clock=lambda: now[0])
    script = Script().on("/skus", listed(row()))
    skus(script.session(), SUBSCRIPTION, "eastus2", cache=cache)
    now[0] += SKU_SECONDS + 1
    skus(script.session(), SUBSCRIPTION, "eastus2", cache=cache)
    assert len(script.requests) == 2


def test_a_region_that_lists_nothing_is_not_stored(tmp_path: Path) -> None:
    ask(cache=Cache(tmp_path))
    assert ask(row(), cache=Cache(tmp_path)).skus == (one(),)


def usage(name: str | None, used: object, limit: object) -> dict[str, Any]:
    return {
        "unit": "Count",
        "currentValue": used,
        "limit": limit,
        "name": {"value": name, "localizedValue": f"{name} vCPUs"},
    }


def quotas(*rows: Any) -> list[tuple[str, int | None, int | None]]:
    script = Script().on("/locations/eastus2/usages", listed(*rows))
    found = usages(script.session(), SUBSCRIPTION, "East US 2")
    return [(quota.name, quota.used, quota.limit) for quota in found]


def test_quota_rows_keep_their_names_to_the_letter() -> None:
    names = ["Standard NCASv3_T4 Family", "standard NDAMSv4_A100Family", "cores"]
    assert quotas(*[usage(name, 8, 24) for name in names]) == [(name, 8, 24) for name in names]


def test_a_quota_row_twice_counts_once() -> None:
    rows = quotas(usage("Standard NCASv3_T4 Family", 8, 24), usage("standardNCASv3_T4Family", 9, 9))
    assert rows == [("Standard NCASv3_T4 Family", 8, 24)]


def test_odd_quota_rows_are_unknown_or_left_out() -> None:
    rows = quotas(
        usage("a", None, 4),
        usage("b", 1, -1),
        usage(None, 1, 1),
        {"name": None},
        "x",
        usage("c", 1, 2),
    )
    assert rows == [("a", None, 4), ("b", 1, None), ("c", 1, 2)]


@pytest.mark.parametrize(("capability", "field"), [("GPUs", "gpus"), ("vCPUs", "vcpus")])
def test_a_part_of_a_count_is_blank_with_a_warning_and_not_rounded(
    capability: str, field: str
) -> None:
    listing = ask(row(capabilities={capability: "0.5"}))
    assert getattr(listing.skus[0], field) is None
    assert listing.warnings == (
        f"eastus2: {capability} of {A100} cannot be read and is left blank.",
    )


def test_capabilities_count_in_any_case() -> None:
    odd = row()
    for item in odd["capabilities"]:
        item["name"] = item["name"].upper()
    assert ask(odd).skus[0] == one()


def test_a_quota_row_whose_numbers_cannot_be_read_is_unknown_and_not_gone() -> None:
    rows = quotas(usage("a", "5", "10"), usage("b", {"value": 5}, "many"), usage("c", "NaN", True))
    assert rows == [("a", 5, 10), ("b", None, None), ("c", None, None)]


def test_a_second_row_of_a_quota_tells_what_the_first_does_not() -> None:
    assert quotas(usage("a", None, 4), usage("A", 3, 9)) == [("a", 3, 4)]


@pytest.mark.parametrize("capability", ["vCPUs", "MemoryGB"])
def test_no_vcpus_and_no_memory_are_unknown_with_a_warning(capability: str) -> None:
    listing = ask(row(capabilities={capability: "0"}))
    assert (listing.skus[0].vcpus, listing.skus[0].memory_gib).count(None) == 1
    assert listing.warnings == (
        f"eastus2: {capability} of {A100} cannot be read and is left blank.",
    )


def test_blanks_around_a_name_are_no_part_of_it() -> None:
    assert [sku.name for sku in ask(row(f" {A100} "), row()).skus] == [A100]
