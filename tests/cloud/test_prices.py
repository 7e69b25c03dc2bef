from __future__ import annotations

from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Script, answer, broken, failed

from ai4infra.cloud import clouds
from ai4infra.cloud.cache import PRICE_SECONDS, Cache
from ai4infra.cloud.prices import PriceListing, prices
from ai4infra.errors import UsageError

TODAY = date(2026, 6, 1)
SIZE = "Standard_NC24ads_A100_v4"


def row(price: float | None = 3.67, **fields: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": "eastus2",
        "location": "US East 2",
        "effectiveStartDate": "2024-03-01T00:00:00Z",
        "meterId": f"meter-{fields}",
        "meterName": "NC24ads A100 v4",
        "productName": "Virtual Machines NCads A100 v4 Series",
        "skuName": "NC24ads A100 v4",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": SIZE,
        **fields,
    }


SPOT = row(1.10, skuName="NC24ads A100 v4 Spot", meterName="NC24ads A100 v4 Spot")
WRONG = [
    row(9, productName="Virtual Machines NCads A100 v4 Series Windows"),
    row(9, productName="NCads A100 v4 Series Win"),
    row(9, productName="Virtual Machines NDsrGB200NDRv6 Windows"),
    row(0.5, skuName="NC24ads A100 v4 Low Priority"),
    row(0.5, productName="NCads A100 v4 Series Cloud Services"),
    row(0.5, productName="NCads A100 v4 Series Dedicated Host"),
    row(0.5, type="DevTestConsumption"),
    row(20000, type="Reservation", reservationTerm="1 Year"),
    row(0.5, unitOfMeasure="1 Month"),
    row(0.5, unitOfMeasure="100 Hours"),
    row(0.0),
    row(None),
    row(0.5, armRegionName="useast2"),
    row(0.5, currencyCode="EUR"),
    row(0.5, tierMinimumUnits=500.0),
    row(0.5, effectiveStartDate="2026-07-01T00:00:00Z"),
    row(0.5, effectiveEndDate="2026-01-01T00:00:00Z"),
    row(0.5, meterName="NC24ads A100 v4 - Expired"),
    row(0.5, serviceName="Azure Machine Learning"),
    row(0.5, armSkuName=""),
]


def items(*rows: Any, next_link: str | None = None) -> Any:
    return answer(body={"Items": list(rows), "NextPageLink": next_link, "Count": len(rows)})


def ask(*rows: Any, **options: Any) -> PriceListing:
    script = Script().on("/api/retail/prices", items(*rows))
    return prices(script.session(), ["eastus2"], today=TODAY, **options)


def amounts(listing: PriceListing, size: str = SIZE) -> tuple[float | None, float | None]:
    found = listing.of("eastus2", size)
    return (
        found.on_demand.per_hour if found.on_demand else None,
        found.spot.per_hour if found.spot else None,
    )


def test_the_question_names_region_service_type_and_currency_and_carries_no_token() -> None:
    script = Script().on(".", items())
    prices(script.session(), ["East US 2"], "eur", today=TODAY)
    (url,) = script.urls
    assert url.startswith("https://prices.azure.com/api/retail/prices?")
    for part in (
        "serviceName eq 'Virtual Machines'",
        "armRegionName eq 'eastus2'",
        "priceType eq 'Consumption'",
        "currencyCode='EUR'",
    ):
        assert part in url
    assert " or " not in url
    assert script.tokens == [None]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: str(each["meterId"]))
def test_the_right_rows_win_whatever_the_order(wrong: dict[str, Any]) -> None:
    for rows in permutations([row(), SPOT, wrong]):
        assert amounts(ask(*rows)) == (3.67, 1.10)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: str(each["meterId"]))
def test_a_wrong_row_alone_is_an_unknown_price(wrong: dict[str, Any]) -> None:
    assert amounts(ask(wrong)) == (None, None)


def test_a_list_in_another_currency_is_told() -> None:
    listing = ask(row(currencyCode="EUR"), row(currencyCode="EUR", armSkuName="Standard_NC6"))
    assert listing.warnings == (
        "eastus2: the price list answers in EUR, not in USD; left unknown.",
    )
    assert ask(row(), row(currencyCode="EUR")).warnings == ()


def test_a_price_carries_currency_date_and_meter() -> None:
    price = ask(row(meterId="m")).of("EastUS2", "nc24ADS_a100_v4").on_demand
    assert price is not None
    assert (price.currency, price.effective_date, price.meter_id) == ("USD", "2024-03-01", "m")


def test_the_newest_row_of_a_meter_that_is_in_force_wins() -> None:
    dated = [
        row(price, meterId="m", effectiveStartDate=f"{day}T00:00:00Z")
        for price, day in ((3.0, "2023-01-01"), (3.5, "2025-01-01"), (4.0, "2027-01-01"))
    ]
    for rows in permutations(dated):
        assert amounts(ask(*rows)) == (3.5, None)


def test_two_different_survivors_are_told_and_not_averaged() -> None:
    listing = ask(row(3.0, meterId="a"), row(5.0, meterId="b"), SPOT)
    assert amounts(listing) == (None, 1.10)
    assert listing.warnings == (
        f"eastus2: {SIZE} has several on-demand prices, 3 and 5; left unknown.",
    )


def test_the_same_price_under_two_meters_is_that_price() -> None:
    assert amounts(ask(row(3.0, meterId="a"), row(3.0, meterId="b"))) == (3.0, None)


def test_a_primary_meter_wins_over_others() -> None:
    other = row(5.0, meterId="b", isPrimaryMeterRegion=False)
    assert amounts(ask(other, row(3.0, meterId="a"))) == (3.0, None)


def test_a_size_without_a_row_is_unknown() -> None:
    assert amounts(ask(row()), "Standard_ND96asr_v4") == (None, None)


def test_a_promo_size_is_a_size_of_its_own() -> None:
    listing = ask(row(), row(1.0, armSkuName=f"{SIZE}_Promo"))
    assert amounts(listing) == (3.67, None)
    assert amounts(listing, f"{SIZE}_Promo") == (1.0, None)


def test_prices_on_all_pages_count() -> None:
    more = "https://prices.azure.com:443/api/retail/prices?$skip=1000"
    script = Script().on("skip", items(SPOT)).on(".", items(row(), next_link=more))
    assert amounts(prices(script.session(), ["eastus2"], today=TODAY)) == (3.67, 1.10)


@pytest.mark.parametrize("next_link", ["https://prices.azure.com/x", "https://evil.example/x"])
def test_pages_that_lead_astray_cost_the_prices_and_a_warning(next_link: str) -> None:
    script = Script().on(".", items(row(), next_link=next_link))
    listing = prices(script.session(), ["eastus2"], today=TODAY)
    assert amounts(listing) == (None, None)
    assert len(listing.warnings) == 1


@pytest.mark.parametrize(
    "reply",
    [
        broken(requests.ConnectionError("host='prices.azure.com' refused")),
        broken(requests.ReadTimeout("Read timed out.")),
        failed(500, "InternalServerError"),
        failed(429, "TooManyRequests", retry_after="9999"),
        answer(503, "<html>no</html>"),
        answer(body="<html>proxy</html>"),
        answer(body='{"Items": [{"a"'),
        answer(body={"Items": None}),
        answer(400, {"error": "bad filter"}),
    ],
)
def test_a_price_service_that_fails_costs_one_warning(reply: Any) -> None:
    script = Script().on(".", reply)
    listing = prices(script.session(), ["eastus2", "westus3"], today=TODAY)
    assert listing.regions == {}
    assert len(listing.warnings) == 1
    assert listing.warnings[0].startswith("Prices are unknown: ")
    assert "1 more region" in listing.warnings[0]


def test_a_region_that_fails_leaves_the_others_their_prices() -> None:
    script = Script().on("'westus3'", failed(500, "X")).on(".", items(row()))
    listing = prices(script.session(), ["westus3", "eastus2"], today=TODAY)
    assert amounts(listing) == (3.67, None)
    assert "westus3" in listing.warnings[0]


def test_a_host_that_is_away_is_not_asked_again_for_every_region() -> None:
    script = Script().on(".", broken(requests.ConnectionError("refused")))
    regions = [f"region{number}" for number in range(50)]
    prices(script.session(), regions, today=TODAY)
    assert len(script.requests) < 50


def test_a_cloud_without_a_price_list_has_unknown_prices_and_a_warning() -> None:
    script = Script()
    listing = prices(script.session(cloud=clouds.CHINA), ["chinaeast2"], today=TODAY)
    assert "AzureChinaCloud" in listing.warnings[0]
    assert script.requests == []


def test_a_currency_that_the_list_does_not_have_is_a_usage_error() -> None:
    said = {"Error": {"Code": "BadRequest", "Message": "Invalid currency code 'XXX' supplied"}}
    script = Script().on("prices", answer(400, said))
    with pytest.raises(UsageError, match="no prices in 'XXX'"):
        prices(script.session(), ["eastus2", "westus2"], "XXX", today=TODAY)


def test_another_bad_request_costs_the_prices_only() -> None:
    script = Script().on("prices", failed(400, "BadRequest", "Invalid filter"))
    (warning,) = prices(script.session(), ["eastus2"], today=TODAY).warnings
    assert "Invalid filter" in warning


@pytest.mark.parametrize("currency", ["", "US", "DOLLAR", "E1R", "U'D"])
def test_a_currency_that_cannot_be_one_is_a_usage_error(currency: str) -> None:
    script = Script()
    with pytest.raises(UsageError, match="no currency code"):
        prices(script.session(), ["eastus2"], currency, today=TODAY)
    assert script.requests == []


def test_odd_rows_cost_only_themselves() -> None:
    assert amounts(ask("text", row() | {"retailPrice": "cheap"}, row())) == (3.67, None)


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "price": st.none() | st.floats(min_value=-5, max_value=5),
                "skuName": st.sampled_from(["x", "x Spot", "x Low Priority", None]),
                "productName": st.sampled_from(["A Series", "A Series Windows", None]),
                "effectiveStartDate": st.sampled_from(["2020-01-01", "2030-01-01", "", None]),
                "meterId": st.sampled_from(["a", "b", None]),
            }
        ),
        max_size=6,
    )
)
def test_a_price_is_positive_or_unknown_and_does_not_depend_on_the_order(
    made: list[dict[str, Any]],
) -> None:
    rows = [row(**each) for each in made]
    assert amounts(ask(*rows)) == amounts(ask(*reversed(rows)))
    assert all(amount is None or amount > 0 for amount in amounts(ask(*rows)))


def test_a_second_run_reads_the_cache_for_a_day(tmp_path: Path) -> None:
    now = [1000.0]
    cache = Cache(tmp_path, clock=lambda: now[0])
    script = Script().on(".", items(row()))
    session = script.session()
    prices(session, ["eastus2"], cache=cache, today=TODAY)
    now[0] += 60
    second = prices(session, ["eastus2"], cache=cache, today=TODAY)
    assert amounts(second) == (3.67, None)
    assert len(script.requests) == 1
    now[0] += PRICE_SECONDS
    prices(session, ["eastus2"], cache=cache, today=TODAY)
    assert len(script.requests) == 2


def test_each_currency_is_stored_apart(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    ask(row(), cache=cache)
    euros = ask(row(3.2, currencyCode="EUR"), cache=cache, currency="EUR")
    assert amounts(euros) == (3.2, None)
