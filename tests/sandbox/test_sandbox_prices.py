"""The retail price list: all classes of rows, filters, currencies and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from arm_client import Http

URL = "https://prices.azure.com/api/retail/prices"
ND = "armSkuName eq 'Standard_ND96asr_v4' and armRegionName eq 'eastus2'"
Row = dict[str, Any]


def rows(http: Http, expression: str, **params: str) -> list[Row]:
    answer = http.get(URL, params={"$filter": expression, **params})
    found: list[Row] = answer.json()["Items"]
    return found


def test_no_token_is_needed(http: Http) -> None:
    assert http.get(URL).status_code == 200


def test_one_size_has_every_class_of_row(http: Http) -> None:
    found = rows(http, ND)

    assert {row["type"] for row in found} == {"Consumption", "DevTestConsumption", "Reservation"}
    assert any(row["meterName"].endswith(" Spot") for row in found)
    assert any(row["meterName"].endswith(" Low Priority") for row in found)
    assert any(row["productName"].endswith(" Windows") for row in found)
    assert any(row["productName"].endswith("Cloud Services") for row in found)


def test_the_linux_price_is_the_example_price(http: Http) -> None:
    linux = [
        row
        for row in rows(http, f"{ND} and type eq 'Consumption'")
        if row["meterName"] == "ND96asr v4" and row["productName"].endswith("Series")
    ]

    assert [row["retailPrice"] for row in linux] == [27.197]
    assert (linux[0]["location"], linux[0]["unitOfMeasure"]) == ("US East 2", "1 Hour")


def test_a_reservation_says_hour_but_costs_the_whole_term(http: Http) -> None:
    terms = {row["reservationTerm"]: row for row in rows(http, f"{ND} and type eq 'Reservation'")}

    assert terms["1 Year"]["retailPrice"] > 100_000
    assert terms["3 Years"]["unitOfMeasure"] == "1 Hour"


def test_spot_can_cost_as_much_as_on_demand(http: Http) -> None:
    found = rows(http, "armSkuName eq 'Standard_ND96isr_H200_v5' and armRegionName eq 'eastus2'")
    prices = {row["retailPrice"] for row in found if row["productName"].endswith("v5 Series")}

    assert 84.8 in prices
    assert next(r["retailPrice"] for r in found if r["meterName"].endswith("Spot")) == 84.8


def test_some_sizes_have_no_row(http: Http) -> None:
    assert rows(http, "armSkuName eq 'Standard_NV4ads_V710_v5'") == []
    assert rows(http, "armRegionName eq 'eastus2euap'") == []


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        (f"{ND} and contains(meterName, 'Spot')", {True}),
        (f"{ND} and type ne 'Consumption'", {False}),
        (f"{ND} and priceType eq 'Consumption' and isPrimaryMeterRegion eq true", {True, False}),
    ],
)
def test_filters_are_eq_ne_contains_and_and(http: Http, expression: str, seen: set[bool]) -> None:
    found = rows(http, expression)

    assert found
    assert {"Spot" in row["meterName"] for row in found} == seen


def test_filter_values_are_case_sensitive_since_2023(http: Http) -> None:
    lower = ND.lower().replace("armskuname", "armSkuName")

    assert rows(http, lower)
    assert rows(http, lower, **{"api-version": "2023-01-01-preview"}) == []


@pytest.mark.parametrize(
    "expression", ["armSkuName eq 'a' or armSkuName eq 'b'", "nothing", "price lt 3", "x eq 'y'"]
)
def test_other_filters_are_400(http: Http, expression: str) -> None:
    answer = http.get(URL, params={"$filter": expression})

    assert answer.status_code == 400
    assert answer.json()["Error"]["Message"] == "Invalid OData parameters supplied"


def test_a_value_may_hold_the_word_and(http: Http) -> None:
    assert rows(http, "productName eq 'this and that'") == []


def test_currency_is_a_parameter(http: Http) -> None:
    dollars, euros = (rows(http, ND, currencyCode=code)[0] for code in ("USD", "'EUR'"))

    assert euros["currencyCode"] == "EUR"
    assert euros["retailPrice"] == pytest.approx(dollars["retailPrice"] * 0.92, rel=1e-4)
    assert http.get(URL, params={"currencyCode": "XXX"}).status_code == 400


def test_pages_hold_a_thousand_rows_and_name_the_next(http: Http, sandbox: Sandbox) -> None:
    counts, link = [], URL
    while link:
        page = http.get(link).json()
        counts.append(page["Count"])
        link = page["NextPageLink"]

    assert counts[0] == 1000
    assert sum(counts) == len(sandbox.world.catalogue.prices)
    assert http.get(URL, params={"$skip": "x"}).status_code == 400


def test_a_next_link_keeps_filter_and_currency(http: Http, sandbox: Sandbox) -> None:
    sandbox.world.catalogue.price_page_rows = 2

    link = http.get(URL, params={"$filter": ND, "currencyCode": "EUR"}).json()["NextPageLink"]
    second = http.get(link).json()

    assert link.startswith("https://prices.azure.com:443/")
    assert {row["armSkuName"] for row in second["Items"]} == {"Standard_ND96asr_v4"}
    assert second["BillingCurrency"] == "EUR"
