import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_offers import (
    A100,
    NO_ACCESS,
    SUBSCRIPTION,
    TODAY,
    a_price,
    a_quota,
    a_sku,
    facts_of,
    location,
    row,
    rows,
    zonal,
)

from ai4infra.model import Quota, Restriction, Sku
from ai4infra.recon import offers
from ai4infra.summary import summary

# --- what is listed


def test_sizes_without_an_accelerator_are_not_listed() -> None:
    assert rows(a_sku("Standard_D96s_v5")) == ()


@pytest.mark.parametrize("name", ["Standard_NX8s_v1", "Standard_NP10s", "Standard_NC9xyz_B777_v9"])
def test_accelerator_sizes_that_nobody_knows_yet_are_listed(name: str) -> None:
    assert [o.size for o in rows(a_sku(name))] == [name]


def test_a_size_of_no_n_series_that_says_it_has_gpus_is_listed() -> None:
    assert [o.gpu_count for o in rows(a_sku("Standard_XY8_v1", gpus=2))] == [2]


def test_regions_compare_without_case_and_blanks() -> None:
    assert [o.region for o in rows(a_sku(), region="East US 2")] == ["eastus2"]


def test_rows_come_in_natural_order_of_their_names() -> None:
    names = ["Standard_NC64as_T4_v3", "Standard_NC4as_T4_v3", "Standard_NC16as_T4_v3"]
    assert [o.size for o in rows(*map(a_sku, names))] == [names[1], names[2], names[0]]


# --- access


@pytest.mark.parametrize(
    ("offered", "restrictions", "access", "zones"),
    [
        ("321", (), "open", "123"),
        ("", (), "open", ""),
        ("", (zonal("1", "2", "3"),), "open", ""),
        ("23", (zonal("1"),), "open", "23"),
        ("123", (zonal("1"),), "zone-limited", "23"),
        ("2", (zonal("1", "2", "3"),), "regional-only", ""),
        ("123", (zonal("3", "1"), zonal("2")), "regional-only", ""),
        ("123", (location(),), "blocked", "123"),
        ("123", (zonal("1", "2", "3"), location()), "blocked", ""),
    ],
)
def test_usable_zones_are_the_offered_less_the_restricted(
    offered: str, restrictions: tuple[Restriction, ...], access: str, zones: str
) -> None:
    one = row(a_sku(zones=tuple(offered), restrictions=restrictions))
    assert (one.access, "".join(one.zones)) == (access, zones)
    assert (one.access_reason is None) == (access == "open")


@pytest.mark.parametrize(
    ("ours", "api", "access", "shown"),
    [
        (None, None, "open", None),
        ("2026-03-02", None, "retired", "2026-03-02"),
        ("2026-03-03", None, "retiring", "2026-03-03"),
        (None, "2027-09-30", "retiring", "2027-09-30"),
        ("2027-09-30", "2025-09-30", "retired", "2025-09-30"),
    ],
)
def test_the_earlier_retirement_date_decides(
    ours: str | None, api: str | None, access: str, shown: str | None
) -> None:
    one = row(a_sku(retirement_date=api), facts=facts_of(retirement_date=ours))
    assert (one.access, one.retirement_date) == (access, shown)


def test_two_retirement_dates_that_differ_are_both_told() -> None:
    one = row(a_sku(retirement_date="2025-09-30"), facts=facts_of(retirement_date="2027-09-30"))
    assert "2025-09-30" in one.notes[0]
    assert "2027-09-30" in one.notes[0]


@pytest.mark.parametrize(
    ("restriction", "access"), [(location(), "blocked"), (zonal("1"), "zone-limited")]
)
def test_a_stricter_access_is_kept_beside_a_retirement_date(
    restriction: Restriction, access: str
) -> None:
    one = row(a_sku(retirement_date="2027-01-31", restrictions=(restriction,)))
    assert (one.access, one.retirement_date) == (access, "2027-01-31")


def test_every_reason_code_has_advice_of_its_own_and_unknown_ones_stay_as_they_are() -> None:
    reasons = [
        row(a_sku(restrictions=(location(code),))).access_reason
        for code in (NO_ACCESS, "QuotaId", "SomethingNew")
    ]
    assert reasons == [
        f"{NO_ACCESS}: the subscription has no access to this size in this region",
        "QuotaId: the subscription's offer type is not entitled to this size",
        "SomethingNew",
    ]


def test_physical_zones_follow_the_usable_logical_ones() -> None:
    names = {"1": "eastus2-az3", "2": "eastus2-az1"}
    one = row(a_sku(restrictions=(zonal("2"),)), physical_zones=names)
    assert one.physical_zones == ("eastus2-az3", "?")
    assert row().physical_zones is None


# --- hardware


@pytest.mark.parametrize(
    ("ours", "api", "count", "text", "memory"),
    [
        ("8", 8, 8, "8", 320),
        ("1/6", 1, 1 / 6, "1/6", 40 / 6),
        (None, 4, 4, "4", 160),
        ("8", None, 8, "8", 320),
        (None, None, None, None, None),
        (None, 0, None, None, None),
    ],
)
def test_our_gpu_count_wins_and_without_one_the_service_is_believed(
    ours: str | None, api: int | None, count: float | None, text: str | None, memory: float | None
) -> None:
    one = row(a_sku(gpus=api), facts=facts_of(gpu_count=ours, source="name"))
    assert (one.gpu_count, one.gpu_count_text) == (count, text)
    assert one.gpu_memory_gib == pytest.approx(memory)


def test_a_gpu_count_that_differs_from_the_service_is_noted() -> None:
    assert row(a_sku(gpus=1), facts=facts_of(gpu_count="1/6")).notes == (
        "Azure's size list says 1 GPU; this size has 1/6.",
    )
    assert row(a_sku(gpus=8)).notes == ()


@pytest.mark.parametrize(
    ("rdma", "ours", "shown", "notes"),
    [
        (True, 1600.0, 1600.0, 0),
        (False, None, 0.0, 0),
        (True, None, None, 1),
        (None, None, None, 0),
        (True, 0.0, 0.0, 1),
        (False, 200.0, 200.0, 1),
    ],
)
def test_infiniband_is_unknown_only_where_nothing_tells(
    rdma: bool | None, ours: float | None, shown: float | None, notes: int
) -> None:
    one = row(a_sku(rdma=rdma), facts=facts_of(infiniband_gbps=ours))
    assert (one.infiniband_gbps, len(one.notes)) == (shown, notes)


@pytest.mark.parametrize(
    ("api", "ours", "shown"),
    [(900.0, 894.1, 900.0), (None, 894.1, 894.1), (0.0, None, 0.0), (None, None, None)],
)
def test_local_nvme_is_what_the_service_says_else_our_data_and_apart_from_the_temp_disk(
    api: float | None, ours: float | None, shown: float | None
) -> None:
    one = row(a_sku(nvme_gib=api, temp_disk_gib=64.0), facts=facts_of(nvme_gib=ours))
    assert (one.local_nvme_gib, one.temp_disk_gib) == (shown, 64.0)


def test_a_row_of_ours_without_a_count_leaves_it_unknown_whatever_the_service_says() -> None:
    one = row(a_sku(gpus=1), facts=facts_of(gpu_count=None))
    assert (one.gpu_count, len(one.notes)) == (None, 1)


# --- quota


@pytest.mark.parametrize(
    ("family", "cores", "fit", "limit", "startable"),
    [
        ((960, 0), (10_000, 0), 10, "family", True),
        ((960, 0), (100, 0), 1, "regional", True),
        ((96, 0), (10, 0), 0, "regional", False),
        ((96, 0), (96, 0), 1, "family", True),
        ((95, 0), (95, 0), 0, "family", False),
        ((100, 120), (10_000, 0), 0, "family", False),
        (None, (10_000, 0), None, None, None),
        ((960, 0), None, None, None, None),
        (None, (0, 0), 0, "regional", False),
        ((0, 0), None, 0, "family", False),
        ((960, None), (10_000, 0), None, None, None),
    ],
)
def test_family_and_regional_total_both_bind_and_the_tighter_is_named(
    family: tuple[int, int | None] | None,
    cores: tuple[int, int] | None,
    fit: int | None,
    limit: str | None,
    startable: bool | None,
) -> None:
    given = {A100: family, "cores": cores}
    quotas = [a_quota(name, *numbers) for name, numbers in given.items() if numbers]
    one = row(quotas=quotas)
    assert (one.fit_vms, one.fit_limit, one.startable) == (fit, limit, startable)


def test_quota_that_could_not_be_read_is_unknown() -> None:
    (one,) = offers(
        [a_sku()], None, None, subscription_id=SUBSCRIPTION, region="eastus2", today=TODAY
    )
    assert (one.quota_limit, one.fit_vms, one.spot_fit_vms, one.startable) == (None,) * 4


def test_the_family_is_looked_up_exactly_but_for_case_and_blanks() -> None:
    near = [a_quota("Standard NDASv4_A100 Family v2", 7), a_quota("standardNDASv4_A100", 8)]
    assert row(quotas=[*near, a_quota("cores", 960)]).quota_limit is None
    spelt = a_quota("standardndasv4_a100family", 192)
    assert row(quotas=[*near, spelt, a_quota("cores", 960)]).fit_vms == 2


@pytest.mark.parametrize(
    ("capable", "pool", "fit"),
    [(True, 200, 2), (None, 200, 2), (False, 200, 0), (True, None, None), (False, None, 0)],
)
def test_spot_has_a_pool_of_its_own(
    capable: bool | None, pool: int | None, fit: int | None
) -> None:
    quotas = [a_quota("lowPriorityCores", pool), a_quota("cores", 0)]
    assert row(a_sku(spot_capable=capable), quotas=quotas).spot_fit_vms == fit


@pytest.mark.parametrize("vcpus", [None, 0])
def test_without_vcpus_nothing_fits_for_sure(vcpus: int | None) -> None:
    assert row(a_sku(vcpus=vcpus)).fit_vms is None
    assert row(a_sku(vcpus=vcpus), quotas=[a_quota("cores", 0)]).fit_vms == 0


@pytest.mark.parametrize(
    ("restrictions", "retires", "startable"),
    [
        ((location(),), None, False),
        ((), "2025-01-01", False),
        ((), "2027-01-01", True),
        ((zonal("1", "2", "3"),), None, True),
    ],
)
def test_only_blocked_and_retired_sizes_cannot_be_started_for_access(
    restrictions: tuple[Restriction, ...], retires: str | None, startable: bool
) -> None:
    one = row(a_sku(restrictions=restrictions, retirement_date=retires))
    assert (one.fit_vms, one.startable) == (10, startable)


def test_access_is_unknown_and_never_open_where_a_restriction_cannot_be_read() -> None:
    one = row(a_sku(restrictions_known=False, restrictions=(zonal("1"),)))
    assert (one.access, one.startable, one.fit_vms) == ("unknown", None, 10)
    assert "cannot be read" in (one.access_reason or "")
    full = [a_quota(A100, 0), a_quota("cores", 100)]
    assert row(a_sku(restrictions_known=False), quotas=full).startable is False


@pytest.mark.parametrize(
    ("restrictions", "retires", "access"),
    [((location(),), None, "blocked"), ((), "2025-01-01", "retired")],
)
def test_what_closes_a_size_for_certain_holds_beside_what_cannot_be_read(
    restrictions: tuple[Restriction, ...], retires: str | None, access: str
) -> None:
    sku = a_sku(restrictions=restrictions, retirement_date=retires, restrictions_known=False)
    assert row(sku).access == access


# --- prices


def test_a_share_of_a_gpu_is_priced_as_a_whole_one_in_decimals() -> None:
    prices = {"nd96asr_v4": a_price(0.454)}
    assert row(facts=facts_of(gpu_count="1/6"), prices=prices).price_per_gpu_hour == 2.724


def test_prices_that_are_missing_zero_or_not_asked_for_are_unknown() -> None:
    assert row(prices=None).currency is None
    missing = row(prices={}, currency="EUR")
    assert (missing.price_per_hour, missing.price_per_gpu_hour) == (None, None)
    assert missing.currency == "EUR"
    assert row(prices={"nd96asr_v4": a_price(0.0)}).price_per_hour is None


def test_without_a_gpu_count_only_the_price_per_gpu_is_unknown() -> None:
    one = row(facts=facts_of(gpu_count=None), prices={"nd96asr_v4": a_price(27.2)})
    assert (one.price_per_hour, one.price_per_gpu_hour) == (27.2, None)


@pytest.mark.parametrize(("price", "noted"), [(1.2, True), (1.23, False), (3.67, False)])
def test_a_price_below_a_third_of_its_siblings_is_noted(price: float, noted: bool) -> None:
    prices = {
        "nc24ads_a100_v4": a_price(price),
        "nc48ads_a100_v4": a_price(7.346),
        "nc96ads_a100_v4": a_price(14.692),
        "nc4as_t4_v3": a_price(0.5),
    }
    names = [f"Standard_{n}" for n in ("NC24ads_A100_v4", "NC48ads_A100_v4", "NC96ads_A100_v4")]
    listed = rows(*map(a_sku, [*names, "Standard_NC4as_T4_v3"]), prices=prices)
    suspicious = {o.size for o in listed if any("a third" in note for note in o.notes)}
    assert suspicious == ({"Standard_NC24ads_A100_v4"} if noted else set())


# --- whatever comes

_TEXT = st.sampled_from(["Standard_NC4as_T4_v3", "Standard_NV6ads_A10_v5", "NP10s", "N", "n1"])
_SKU = st.builds(
    Sku,
    name=_TEXT,
    region=st.just("eastus2"),
    family=st.sampled_from([None, "T4", "t 4", ""]),
    zones=st.sets(st.sampled_from("123")).map(tuple),
    restrictions=st.lists(
        st.sampled_from([zonal("1"), zonal(), zonal("1", "2", "3"), location(), location("X")]),
        max_size=2,
    ).map(tuple),
    vcpus=st.none() | st.integers(0, 64),
    gpus=st.none() | st.integers(0, 8),
    rdma=st.none() | st.booleans(),
    spot_capable=st.none() | st.booleans(),
    retirement_date=st.sampled_from([None, "2020-01-01", "2030-01-01"]),
)
_SKUS = st.lists(_SKU, unique_by=lambda s: s.name)
_QUOTAS = st.lists(
    st.builds(
        Quota,
        name=st.sampled_from(["T4", "cores", "lowPriorityCores"]),
        label=st.just(""),
        region=st.just("eastus2"),
        used=st.none() | st.integers(0, 100),
        limit=st.none() | st.integers(0, 100),
    ),
    unique_by=lambda q: q.name,
)


@given(_SKUS, _QUOTAS | st.none(), st.randoms(use_true_random=False))
def test_any_list_gives_the_same_consistent_rows_in_any_order(
    skus: list[Sku], quotas: list[Quota] | None, chance: random.Random
) -> None:
    given = {"subscription_id": SUBSCRIPTION, "region": "eastus2", "today": TODAY}
    listed = offers(skus, quotas, {}, **given)  # type: ignore[arg-type]
    for one in listed:
        assert one.startable is not True or ((one.fit_vms or 0) > 0 and one.quota_limit)
        assert (one.fit_vms is None) == (one.fit_limit is None)
        assert set(one.zones) <= set("123")
    told = summary(listed)
    assert told.sizes == told.startable + told.unknown + sum(told.blocked_by.values())
    mixed = chance.sample(skus, len(skus))
    assert offers(mixed, quotas, {}, **given) == listed  # type: ignore[arg-type]
