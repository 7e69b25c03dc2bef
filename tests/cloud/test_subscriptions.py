from __future__ import annotations

from typing import Any

import pytest
from support import SUBSCRIPTION, Script, failed, listed

from ai4infra.cloud.subscriptions import check_region, list_all, regions, resolve
from ai4infra.errors import NotFoundError, ServiceError, UsageError
from ai4infra.model import Region, Subscription

OTHER = "11111111-2222-3333-4444-555555555555"
THIRD = "99999999-2222-3333-4444-555555555555"


def row(name: str, id_: str) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{id_}",
        "subscriptionId": id_,
        "displayName": name,
        "tenantId": "t",
        "state": "Enabled",
    }


def script() -> Script:
    rows = [row("Research", SUBSCRIPTION.upper()), row("Twins", OTHER), row("twins", THIRD)]
    return Script().on(r"/subscriptions\?", listed(*rows))


def test_all_subscriptions_are_listed_by_name() -> None:
    found = list_all(script().session())
    assert [each.name for each in found] == ["Research", "Twins", "twins"]
    assert found[0] == Subscription(
        id=SUBSCRIPTION, name="Research", tenant_id="t", state="Enabled"
    )


def test_subscriptions_on_all_pages_are_listed_once() -> None:
    more = "https://management.azure.com/subscriptions?page=2"
    two = (
        Script()
        .on("page=2", listed(row("B", OTHER), row("A", SUBSCRIPTION)))
        .on(".", listed(row("A", SUBSCRIPTION), next_link=more))
    )
    assert [each.name for each in list_all(two.session())] == ["A", "B"]


def test_an_id_needs_no_list() -> None:
    asked = Script()
    (found,) = resolve(asked.session(), [SUBSCRIPTION.upper()])
    assert found.id == SUBSCRIPTION
    assert asked.requests == []


def test_names_and_ids_keep_their_order_and_count_once() -> None:
    found = resolve(script().session(), [OTHER, " research ", SUBSCRIPTION])
    assert [each.id for each in found] == [OTHER, SUBSCRIPTION]
    assert found[0].name == "Twins"


def test_an_unknown_name_tells_close_ones() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(script().session(), ["Reserch"])
    assert "Research" in str(caught.value.hint)


def test_an_ambiguous_name_tells_the_ids() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(script().session(), ["TWINS"])
    assert OTHER in str(caught.value.hint)
    assert THIRD in str(caught.value.hint)


def test_the_exact_spelling_decides_between_names_that_differ_in_case() -> None:
    (found,) = resolve(script().session(), ["twins"])
    assert found.id == THIRD


def location(name: str, display: str, **metadata: Any) -> dict[str, Any]:
    return {
        "name": name,
        "displayName": display,
        "metadata": {"regionType": "Physical", "geographyGroup": "US", **metadata},
    }


def locations(*rows: Any) -> tuple[Region, ...]:
    return regions(Script().on("/locations", listed(*rows)).session(), SUBSCRIPTION)


def test_regions_come_with_the_zones_of_this_subscription() -> None:
    zones = [{"logicalZone": "1", "physicalZone": "eastus2-az3"}]
    (region,) = locations(
        location("eastus2", "East US 2", geography="United States")
        | {"availabilityZoneMappings": zones}
    )
    assert region == Region(
        name="eastus2",
        display_name="East US 2",
        geography="United States",
        physical_zones={"1": "eastus2-az3"},
    )


@pytest.mark.parametrize("value", [None, [], [{}], [{"logicalZone": "1"}]])
def test_a_region_without_zones_has_an_empty_mapping(value: object) -> None:
    rows = location("westcentralus", "West Central US") | {"availabilityZoneMappings": value}
    assert locations(rows)[0].physical_zones == {}


@pytest.mark.parametrize(
    ("name", "group", "staging"),
    [
        ("eastus2euap", "US", True),
        ("centraluseuap", "US", True),
        ("eastusstg", "Stage (US)", True),
        ("southcentralusstg", None, True),
        ("eastus2", "US", False),
        ("westus", None, False),
        ("swedencentral", "Europe", False),
        ("newregion", "Canary (US)", True),
    ],
)
def test_staging_regions_are_marked(name: str, group: str | None, staging: bool) -> None:
    (region,) = locations(location(name, name, geographyGroup=group))
    assert region.staging is staging


def test_logical_regions_are_not_physical() -> None:
    assert locations(location("europe", "Europe", regionType="Logical"))[0].physical is False


def test_a_location_without_metadata_is_a_physical_region() -> None:
    (region,) = locations({"name": "WestUS", "displayName": None, "metadata": None})
    assert (region.name, region.physical, region.staging) == ("westus", True, False)


@pytest.mark.parametrize("rows", [[], [None, {"name": None}]])
def test_an_answer_without_regions_is_incomplete(rows: list[Any]) -> None:
    with pytest.raises(ServiceError, match="incomplete answer"):
        regions(Script().on("/locations", listed(*rows)).session(), SUBSCRIPTION)


def test_an_unknown_subscription_is_not_found() -> None:
    missing = Script().on("/locations", failed(404, "SubscriptionNotFound", "Not found."))
    with pytest.raises(NotFoundError):
        regions(missing.session(), OTHER)


KNOWN = (
    Region(name="eastus2", display_name="East US 2"),
    Region(name="westeurope", display_name="West Europe"),
    Region(name="europe", display_name="Europe", physical=False),
)


@pytest.mark.parametrize("spelling", ["eastus2", "EastUS2", "East US 2", "east us 2"])
def test_a_region_is_known_in_each_spelling(spelling: str) -> None:
    assert check_region(spelling, KNOWN).name == "eastus2"


def test_an_unknown_region_tells_close_ones() -> None:
    with pytest.raises(UsageError) as caught:
        check_region("estus2", KNOWN)
    assert "eastus2" in str(caught.value.hint)


def test_a_region_like_no_other_tells_which_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        check_region("moon", KNOWN)
    assert str(caught.value.hint).startswith("Known: ")
    assert "eastus" in str(caught.value.hint)


def test_of_many_regions_some_are_told_and_how_many_more_there_are() -> None:
    many = [Region(name=f"region{n}", display_name=f"Region {n}") for n in range(15)]
    with pytest.raises(UsageError) as caught:
        check_region("moon", many)
    assert str(caught.value.hint).endswith("region11 and 3 more.")


@pytest.mark.parametrize("wanted", ["Lab", " lab", f"/subscriptions/{SUBSCRIPTION}"])
def test_blanks_around_a_name_and_the_path_before_an_id_do_not_matter(wanted: str) -> None:
    asked = Script().on(r"/subscriptions\?", listed(row(" Lab ", SUBSCRIPTION)))
    assert [each.id for each in resolve(asked.session(), [wanted])] == [SUBSCRIPTION]
