import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ai4infra.errors import UsageError
from ai4infra.model import Need, NeedAnswer, NeedReport, Offer, Quota, RegionQuota
from ai4infra.needs import (
    MAX_ALTERNATIVES,
    MAX_COUNT,
    answer,
    parse_need,
    report,
    unknown_names,
)
from ai4infra.plan import QuotaWanted, quota_command

SUBSCRIPTION = "5a1c9f57-6e4d-4b0a-9f3e-2d7c8b1a0e44"
ND = "Standard_ND96asr_v4"
MODELS: dict[str, tuple[str, float]] = {"A100": ("NVIDIA", 80.0), "A10": ("NVIDIA", 24.0)}
MODELS |= {"MI300X": ("AMD", 192.0), "H100": ("NVIDIA", 80.0), "T4": ("NVIDIA", 16.0)}


def request_line(family: str, limit: int) -> str:
    wanted = QuotaWanted(
        subscription_id=SUBSCRIPTION, region="eastus2", family=family, limit_vcpus=limit
    )
    return quota_command(wanted)


def an_offer(size: str, vcpus: int | None, gpus: str | None, **fields: Any) -> Offer:
    """A size that is open and has the quota family ``fields['family']`` with 0 of 0 used."""
    model = fields.pop("model", "A100")
    vendor, memory = MODELS[model]
    count = Fraction(gpus) if gpus else None
    price = fields.pop("price", None)
    known = {
        "subscription_id": SUBSCRIPTION,
        "region": "eastus2",
        "series_class": "ND",
        "gpu_model": model,
        "vendor": vendor,
        "gpu_memory_gib": None if count is None else float(count * Fraction(memory)),
        "access": "open",
        "quota_family": fields.pop("family", "F"),
        "quota_used": fields.pop("used", 0),
        "quota_limit": fields.pop("limit", 0),
        "spot_capable": True,
        "price_per_hour": price,
        "price_per_gpu_hour": price / float(count) if price and count else None,
        "currency": "USD",
        "zones": (),
        "notes": (),
    }
    blank = dict.fromkeys(Offer.__struct_fields__)
    count_fields = {"gpu_count": None if count is None else float(count), "gpu_count_text": gpus}
    return Offer(**{**blank, **known, **count_fields, "size": size, "vcpus": vcpus, **fields})


def pools(
    cores: int | None = 10_000, used: int = 0, spot: int | None = None, **fields: Any
) -> RegionQuota:
    def a_row(name: str, limit: int | None, used: int) -> Quota | None:
        known = {"name": name, "label": f"Total {name}", "region": "eastus2"}
        return None if limit is None else Quota(limit=limit, used=used, **known)

    return RegionQuota(
        **{"subscription_id": SUBSCRIPTION, "region": "eastus2", **fields},
        regional=a_row("cores", cores, used),
        spot=a_row("lowPriorityCores", spot, 0),
    )


def ask(
    texts: str, offers: Sequence[Offer], quotas: RegionQuota | None = None, **more: Any
) -> NeedAnswer:
    needs = [parse_need(text) for text in texts.split()]
    where = {"subscription_id": SUBSCRIPTION, "region": "eastus2"}
    return answer(needs, offers, quotas or pools(), **where, **more)


def ask_all(
    texts: str, offers: Sequence[Offer], quotas: Sequence[RegionQuota] = (), **more: Any
) -> NeedReport:
    return report([parse_need(t) for t in texts.split()], offers, quotas or [pools()], **more)


def placed(given: NeedAnswer) -> dict[str, int]:
    return {p.size.removeprefix("Standard_"): p.vms for p in given.placements}


# --- parsing


@pytest.mark.parametrize(
    ("text", "count", "size", "model"),
    [
        ("8xStandard_ND96asr_v4", 8, ND, None),
        ("8xND96asr_v4", 8, ND, None),
        ("8 x ND96asr_v4", 8, ND, None),
        (" 8X standard_nd96ASR_V4 ", 8, ND, None),
        ("8*ND96asr_v4", 8, ND, None),
        ("8\u00d7ND96asr_v4", 8, ND, None),
        ("2xNC24s_v3", 2, "Standard_NC24s_v3", None),
        ("1xNM7_new_v9", 1, "Standard_NM7_new_v9", None),
        ("16xA100", 16, None, "A100"),
        ("16xa-100", 16, None, "A100"),
        ("16 x RTX PRO 6000", 16, None, "RTXPRO6000"),
        ("4xA100-80GB", 4, None, "A100-80GB"),
        (f"{MAX_COUNT}xT4", MAX_COUNT, None, "T4"),
    ],
)
def test_a_need_is_vms_of_a_size_or_gpus_of_a_model(
    text: str, count: int, size: str | None, model: str | None
) -> None:
    assert parse_need(text) == Need(text=text, count=count, size=size, gpu_model=model)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "COUNTxSIZE"),
        ("ND96asr_v4", "COUNTxSIZE"),
        ("8x", "COUNTxSIZE"),
        ("xND96asr_v4", "COUNTxSIZE"),
        ("0xA100", "COUNTxSIZE"),
        ("-1xA100", "COUNTxSIZE"),
        ("1.5xA100", "COUNTxSIZE"),
        ("1/2xA100", "COUNTxSIZE"),
        ("٣xA100", "COUNTxSIZE"),
        (f"{MAX_COUNT + 1}xA100", "COUNTxSIZE"),
        ("9" * 5000 + "xA100", "COUNTxSIZE"),
        ("8xND*", "COUNTxSIZE"),
        ("8x8xA100", "COUNTxSIZE"),
        ("8xStandard_D4s_v5", ""),
        ("8xNDasr_v4", "ND96asr_v4"),
    ],
)
def test_what_is_no_need_is_a_usage_error_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_need(text)
    assert hint in (refusal.value.hint or "")
    assert refusal.value.hint


@given(
    st.integers(1, MAX_COUNT),
    st.sampled_from(["x", "X", "*", "\u00d7"]),
    st.text(" \t", max_size=3),
    st.sampled_from([ND, "Standard_NC6", "A100", "T4"]),
)
def test_blanks_and_the_sign_do_not_matter(count: int, sign: str, blank: str, name: str) -> None:
    text = f"{blank}{count}{blank}{sign}{blank}{name}{blank}"
    need = parse_need(text)
    assert (need.count, need.size or need.gpu_model) == (count, name)


@given(st.text(max_size=20) | st.from_regex(r"[0-9]{1,3}[xX*][ A-Za-z0-9_.-]{1,20}"))
def test_any_text_is_a_need_or_a_usage_error(text: str) -> None:
    try:
        need = parse_need(text)
    except UsageError:
        return
    assert need.count > 0
    assert (need.size is None) != (need.gpu_model is None)


def test_a_needed_size_that_nobody_lists_or_knows_is_an_error_with_close_names() -> None:
    listed = [an_offer("Standard_ND7_new_v9", 1, "1")]
    fine = [parse_need(t) for t in ("1xnd7_NEW_v9", "1xNC6s_v3", "1xA100")]
    assert unknown_names(fine, listed) is None
    error = unknown_names([*fine, parse_need("1xND96asr_v5")], listed)
    assert error is not None
    assert "Standard_ND96asr_v4" in (error.hint or "")


def test_a_model_that_only_a_row_knows_can_be_needed_and_one_that_none_knows_cannot() -> None:
    new = structs.replace(
        an_offer("Standard_ND96isr_B900_v7", 96, "8", limit=192), gpu_model="B900"
    )
    given = ask("16xb900", [new])
    assert (given.fits, placed(given)) == (True, {"ND96isr_B900_v7": 2})
    assert unknown_names([parse_need("16xb900")], [new]) is None
    for text, meant in (("16xb900", "GB"), ("8xH10", "H100")):
        error = unknown_names([parse_need(text)], [])
        assert error is not None
        assert meant in (error.hint or "")


# --- one region: sizes

NC4 = {"model": "T4", "family": "T4", "limit": 48}


@pytest.mark.parametrize(
    ("texts", "limit", "used", "cores", "fits", "short"),
    [
        ("1xND96asr_v4", 96, 0, 96, True, {}),
        ("1xND96asr_v4", 96, 0, 10, False, {"cores": (96, 10, 86, 96)}),
        ("1xND96asr_v4", 96, 1, 960, False, {"F": (96, 95, 1, 97)}),
        ("8xND96asr_v4", 96, 0, 960, False, {"F": (768, 96, 672, 768)}),
        ("8xND96asr_v4", 768, 0, 767, False, {"cores": (768, 767, 1, 768)}),
        ("1xND96asr_v4", 10, 20, 960, False, {"F": (96, 0, 96, 116)}),
        ("1xND96asr_v4 1xND96asr_v4", 96, 0, 960, False, {"F": (192, 96, 96, 192)}),
        ("1xND96asr_v4", 0, 0, 0, False, {"cores": (96, 0, 96, 96), "F": (96, 0, 96, 96)}),
    ],
)
def test_family_and_regional_total_both_have_to_hold(
    texts: str,
    limit: int,
    used: int,
    cores: int,
    fits: bool,
    short: dict[str, tuple[int, int, int, int]],
) -> None:
    given = ask(texts, [an_offer(ND, 96, "8", limit=limit, used=used)], pools(cores))
    assert given.fits is fits
    assert short == {
        s.limit: (s.required_vcpus, s.free_vcpus, s.short_vcpus, s.new_limit_vcpus)
        for s in given.shortfalls
    }
    requests = [a for a in given.actions if a.startswith("ai4infra")]
    assert requests == [request_line(name, numbers[3]) for name, numbers in short.items()]


def test_sizes_of_one_family_are_summed() -> None:
    offers = [an_offer(f"Standard_NC{n}as_T4_v3", n, "1", **NC4) for n in (4, 8, 16)]
    given = ask("2xNC4as_T4_v3 4xNC16as_T4_v3", offers)
    assert [s.required_vcpus for s in given.shortfalls] == [72]
    assert given.shortfalls[0].short_vcpus == 24
    assert ask("2xNC4as_T4_v3 2xNC16as_T4_v3", offers).fits is True


def test_how_many_would_fit_is_told() -> None:
    given = ask("8xND96asr_v4", [an_offer(ND, 96, "8", limit=96)])
    assert given.actions[0] == f"1 of 8 {ND} would fit now, on their own."


@pytest.mark.parametrize(
    ("limit", "cores", "fits"),
    [(None, 960, None), (960, None, None), (None, 10, False), (0, None, False), (960, 960, True)],
)
def test_an_unknown_limit_leaves_it_open_unless_a_known_one_refuses(
    limit: int | None, cores: int | None, fits: bool | None
) -> None:
    given = ask("1xND96asr_v4", [an_offer(ND, 96, "8", limit=limit)], pools(cores))
    assert given.fits is fits
    if fits is None:
        assert any("is not known" in action for action in given.actions)


def test_regional_pools_that_were_not_read_leave_it_open() -> None:
    offers = [an_offer(ND, 96, "8", limit=960)]
    where = {"subscription_id": SUBSCRIPTION, "region": "East US 2"}
    assert answer([parse_need("1xND96asr_v4")], offers, None, **where).fits is None


def test_unknown_vcpus_leave_it_open() -> None:
    assert ask("1xND96asr_v4", [an_offer(ND, None, "8", limit=960)]).fits is None
    assert ask("1xA100", [an_offer(ND, None, "8", limit=960)]).fits is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"access": "blocked", "access_reason": "NotAvailableForSubscription: no"},
            "is blocked in eastus2 (NotAvailableForSubscription: no)",
        ),
        (
            {"access": "retired", "access_reason": "retired on 2025-09-30"},
            "is no longer offered in eastus2 (retired on 2025-09-30)",
        ),
        ({"region": "westus3"}, "is not listed in eastus2"),
        ({"subscription_id": "another"}, "is not listed in eastus2"),
    ],
)
@pytest.mark.parametrize("limit", [960, None])
def test_access_stands_in_the_way_whatever_the_quota(
    fields: dict[str, str], words: str, limit: int | None
) -> None:
    given = ask("1xND96asr_v4", [an_offer(ND, 96, "8", limit=limit, **fields)])
    assert given.fits is False
    assert [words in text for text in given.blocked] == [True]
    asked = any("region-access" in action for action in given.actions)
    assert asked == (fields.get("access") == "blocked")


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        ("retired", "retired on 2025-09-30"),
        ("blocked", "NotAvailableForSubscription: no; retired on 2025-09-30"),
    ],
)
def test_for_a_size_that_has_retired_neither_quota_nor_access_is_to_be_asked(
    access: str, reason: str
) -> None:
    gone = an_offer("Standard_NC6s_v3", 6, "1", family="V", access=access, access_reason=reason)
    given = ask("8xNC6s_v3", [gone], pools(8))
    assert [lack.limit for lack in given.shortfalls] == ["cores", "V"]
    assert given.actions == ()
    both = ask("8xNC6s_v3 1xND96asr_v4", [gone, an_offer(ND, 96, "8", limit=96)], pools(8))
    assert both.actions == (request_line("cores", 144),)


def test_a_remark_that_holds_for_two_needs_is_made_once() -> None:
    given = ask("2xND96asr_v4 2xND96asr_v4", [an_offer(ND, 96, "8", limit=96)])
    assert [a for a in given.actions if "would fit" in a] == [
        f"1 of 2 {ND} would fit now, on their own."
    ]


@pytest.mark.parametrize("access", ["zone-limited", "regional-only", "retiring"])
def test_limited_access_is_access(access: str) -> None:
    assert ask("1xND96asr_v4", [an_offer(ND, 96, "8", limit=96, access=access)]).fits is True


# --- one region: GPUs of a model


def a100s(family_24: int, family_96: int, **fields: Any) -> list[Offer]:
    """Two families of A100: NC24/48/96 at 4 a GPU, ND96 at 3.4 a GPU."""
    nc = {"family": "NC", "limit": family_24, **fields}
    return [
        an_offer("Standard_NC24ads_A100_v4", 24, "1", price=4.0, **nc),
        an_offer("Standard_NC48ads_A100_v4", 48, "2", price=8.0, **nc),
        an_offer("Standard_NC96ads_A100_v4", 96, "4", price=16.0, **nc),
        an_offer(ND, 96, "8", family="ND", limit=family_96, price=27.2, **fields),
    ]


@pytest.mark.parametrize(
    ("texts", "nc", "nd", "cores", "fits", "chosen"),
    [
        ("16xA100", 960, 960, 960, True, {"ND96asr_v4": 2}),
        ("16xA100", 384, 0, 960, True, {"NC96ads_A100_v4": 4}),
        ("9xA100", 960, 960, 960, True, {"NC24ads_A100_v4": 9}),
        ("16xA100", 192, 96, 960, True, {"NC96ads_A100_v4": 2, "ND96asr_v4": 1}),
        ("16xA100", 192, 96, 287, False, {"ND96asr_v4": 2}),
        ("16xA100", 191, 96, 960, False, {"ND96asr_v4": 2}),
        ("7xA100", 168, 0, 960, True, {"NC24ads_A100_v4": 7}),
        ("8xA100 1xND96asr_v4", 192, 96, 960, True, {"NC96ads_A100_v4": 2, "ND96asr_v4": 1}),
    ],
)
def test_gpus_of_a_model_take_the_fewest_sizes_and_then_the_cheapest(
    texts: str, nc: int, nd: int, cores: int, fits: bool, chosen: dict[str, int]
) -> None:
    given = ask(texts, a100s(nc, nd), pools(cores))
    assert (given.fits, placed(given)) == (fits, chosen)


def test_a_need_that_is_given_twice_is_no_mix() -> None:
    given = ask("8xA100 8xA100", a100s(0, 192))
    assert [(p.size, p.vms) for p in given.placements] == [(ND, 1), (ND, 1)]
    assert (given.fits, given.actions) == (True, ())


def test_a_mix_is_told_as_such() -> None:
    given = ask("16xA100", a100s(192, 96))
    assert given.actions == (
        "No single size brings 16xA100 within quota; 2xStandard_NC96ads_A100_v4 and"
        " 1xStandard_ND96asr_v4 do.",
    )
    assert given.price_per_hour == pytest.approx(59.2)
    assert sum(p.gpus or 0 for p in given.placements) == 16


def test_needs_that_compete_for_one_pool_are_met_together() -> None:
    """The cheaper size for A100 would take the vCPUs that H100 has to have."""
    hungry = an_offer("Standard_NC48x_v1", 48, "1", family="X", limit=960, price=1.0)
    frugal = an_offer("Standard_NC24x_v1", 24, "1", family="Y", limit=960, price=2.0)
    h100 = an_offer("Standard_NC40x_v1", 40, "1", family="Z", limit=960, model="H100")
    given = ask("1xA100 1xH100", [hungry, frugal, h100], pools(64))
    assert (given.fits, placed(given)) == (True, {"NC24x_v1": 1, "NC40x_v1": 1})
    assert placed(ask("1xA100", [hungry, frugal, h100], pools(64))) == {"NC48x_v1": 1}


def test_what_surely_fits_is_taken_before_what_may() -> None:
    offers = a100s(960, 960)
    offers[3] = structs.replace(offers[3], quota_limit=None)
    given = ask("8xA100", offers)
    assert (given.fits, placed(given)) == (True, {"NC96ads_A100_v4": 2})
    assert ask("80xA100", offers).fits is None


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({"price_per_hour": None}, {"NC96ads_A100_v4": 2}),
        ({"access": "retiring", "access_reason": "retires"}, {"NC96ads_A100_v4": 2}),
        ({"series_class": "NCC"}, {"NC96ads_A100_v4": 2}),
        ({"access": "blocked"}, {"NC96ads_A100_v4": 2}),
        ({"gpu_count_text": None}, {"NC96ads_A100_v4": 2}),
        ({}, {"ND96asr_v4": 1}),
    ],
)
def test_unknown_prices_retiring_and_closed_sizes_stand_back(
    changes: dict[str, Any], chosen: dict[str, int]
) -> None:
    _, _, nc96, nd = a100s(960, 960)
    given = ask("8xA100", [nc96, structs.replace(nd, **changes)])
    assert (given.fits, placed(given)) == (True, chosen)


def test_parts_of_a_gpu_are_used_only_where_there_is_nothing_whole() -> None:
    a10 = {"model": "A10", "family": "A10", "limit": 720}
    sixth = an_offer("Standard_NV6ads_A10_v5", 6, "1/6", price=0.454, **a10)
    whole = an_offer("Standard_NV36ads_A10_v5", 36, "1", price=3.2, **a10)
    assert placed(ask("2xA10", [sixth, whole])) == {"NV36ads_A10_v5": 2}
    assert placed(ask("2xA10", [sixth])) == {"NV6ads_A10_v5": 12}
    assert placed(ask("30xA10", [sixth, whole])) == {"NV36ads_A10_v5": 30}


def test_a_model_without_a_usable_size_is_said_to_have_none() -> None:
    assert ask("1xH100", a100s(960, 960)).blocked == ("No size in eastus2 has H100 GPUs.",)
    closed = [structs.replace(o, access="blocked") for o in a100s(960, 960)]
    given = ask("1xA100", closed)
    assert (given.fits, len(given.blocked)) == (False, 4)


def test_a_memory_in_the_need_narrows_the_model() -> None:
    nc = a100s(960, 960)[0]
    nd = structs.replace(a100s(960, 960)[3], gpu_memory_gib=320.0)
    assert placed(ask("8xA100-40GB", [nc, nd])) == {"ND96asr_v4": 1}
    assert placed(ask("8xA100-80GB", [nc, nd])) == {"NC24ads_A100_v4": 8}


def test_the_shortfall_shown_is_of_the_size_that_lacks_least() -> None:
    given = ask("16xA100", a100s(300, 0))
    assert (given.fits, placed(given)) == (False, {"NC96ads_A100_v4": 4})
    assert [(s.limit, s.short_vcpus) for s in given.shortfalls] == [("NC", 84)]


def test_one_unknown_price_makes_the_total_unknown() -> None:
    offers = [an_offer(ND, 96, "8", limit=960), *a100s(960, 960)[:1]]
    assert ask("1xND96asr_v4 1xNC24ads_A100_v4", offers).price_per_hour is None
    assert ask("3xNC24ads_A100_v4", offers).price_per_hour == 12.0
    assert ask("1xNC7x_v1", offers).price_per_hour is None


# --- spot


@pytest.mark.parametrize(
    ("capable", "pool", "fits"),
    [
        (True, 192, True),
        (True, 191, False),
        (True, None, None),
        (None, 192, None),
        (None, 100, False),
        (False, 192, False),
    ],
)
@pytest.mark.parametrize("text", ["2xND96asr_v4", "16xA100"])
def test_spot_asks_the_spot_pool_alone(
    text: str, capable: bool | None, pool: int | None, fits: bool | None
) -> None:
    offer = an_offer(ND, 96, "8", limit=0, spot_capable=capable, spot_price_per_hour=9.0)
    given = ask(text, [offer], pools(0, spot=pool), spot=True)
    assert given.fits is fits
    assert bool(given.blocked) == (capable is False)
    assert {s.limit for s in given.shortfalls} <= {"lowPriorityCores"}
    if given.placements:
        assert given.price_per_hour == 18.0


# --- all regions


def in_region(offers: Sequence[Offer], region: str) -> list[Offer]:
    return [structs.replace(o, region=region) for o in offers]


def test_every_region_that_was_read_is_answered_in_the_order_of_the_pools() -> None:
    quotas = [pools(region="westus3"), pools(), pools(region="empty")]
    offers = [*a100s(0, 0), *in_region(a100s(960, 960), "westus3"), *in_region(a100s(0, 0), "a")]
    given = ask_all("2xND96asr_v4", offers, quotas)
    assert [(a.region, a.fits) for a in given.answers] == [
        ("westus3", True),
        ("eastus2", False),
        ("empty", False),
        ("a", False),
    ]
    assert given.fits_somewhere is True


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [((0, 0), False), ((0, None), None), ((None, 960), True), ((0, 960), True)],
)
def test_somewhere_is_unknown_only_while_nothing_fits(
    limits: Sequence[int | None], verdict: bool | None
) -> None:
    regions = [f"region{i}" for i in range(len(limits))]
    offers = [
        an_offer(ND, 96, "8", limit=n, region=r) for n, r in zip(limits, regions, strict=True)
    ]
    assert ask_all("1xND96asr_v4", offers, [pools(region=r) for r in regions]).fits_somewhere is (
        verdict
    )


def test_where_nothing_was_read_nothing_is_known() -> None:
    assert report([parse_need("1xA100")], [], []).fits_somewhere is None


def alternatives(given: NeedReport) -> list[tuple[str, str, int]]:
    return [(a.region, a.size.removeprefix("Standard_"), a.vms) for a in given.alternatives]


def test_alternatives_are_other_regions_and_sizes_that_fit_the_cheapest_per_gpu_first() -> None:
    offers = [*a100s(384, 0), *in_region(a100s(0, 192), "westus3")]
    given = ask_all("2xND96asr_v4", offers, [pools(), pools(region="westus3")])
    assert alternatives(given) == [
        ("westus3", "ND96asr_v4", 2),
        ("eastus2", "NC24ads_A100_v4", 16),
        ("eastus2", "NC48ads_A100_v4", 8),
        ("eastus2", "NC96ads_A100_v4", 4),
    ]


@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        ({}, True),
        ({"gpu_memory_gib": 39.0}, False),
        ({"gpu_memory_gib": 40.0}, True),
        ({"gpu_memory_gib": None}, False),
        ({"gpu_count_text": None}, False),
        ({"vendor": "AMD"}, False),
        ({"vendor": None}, True),
        ({"access": "blocked"}, False),
        ({"access": "retired"}, False),
        ({"access": "retiring"}, True),
        ({"quota_limit": 191}, False),
        ({"quota_limit": None}, False),
        ({"series_class": "NCC"}, False),
        ({"price_per_hour": None, "price_per_gpu_hour": None}, True),
    ],
)
def test_an_alternative_has_access_quota_and_as_much_memory_from_the_same_maker(
    changes: dict[str, Any], listed: bool
) -> None:
    """ND96asr_v4 has A100 GPUs of 40 GiB: our data says so where no row does."""
    other = structs.replace(an_offer("Standard_NC24x_v1", 24, "1", limit=192), **changes)
    given = ask_all("1xND96asr_v4", [other])
    assert alternatives(given) == ([("eastus2", "NC24x_v1", 8)] if listed else [])


def test_a_size_of_unknown_access_is_no_yes_no_alternative_and_comes_after_a_sure_one() -> None:
    unclear = an_offer(ND, 96, "8", limit=960, access="unknown", access_reason="cannot be read")
    for need in ("1xND96asr_v4", "8xA100"):
        told = ask(need, [unclear])
        assert told.fits is None
        assert any("Whether you have access" in text for text in told.actions)
    sure = an_offer("Standard_NC24x_v1", 24, "1", limit=960, price=99.0)
    assert placed(ask("8xA100", [unclear, sure])) == {"NC24x_v1": 8}
    assert alternatives(ask_all("1xND96amsr_A100_v4", [unclear])) == []


def test_alternatives_without_a_price_come_last_and_ten_are_enough() -> None:
    offers = [
        an_offer(f"Standard_NC{i}x_v1", 1, "1", limit=99, price=float(i) if i < 5 else None)
        for i in range(1, 20)
    ]
    given = ask_all("4xND96asr_v4", offers)
    assert len(given.alternatives) == MAX_ALTERNATIVES
    assert [a.size for a in given.alternatives][:5] == [f"Standard_NC{i}x_v1" for i in range(1, 6)]


def test_where_everything_fits_nothing_else_is_offered() -> None:
    assert ask_all("1xND96asr_v4", a100s(960, 960)).alternatives == ()


def test_parts_of_a_gpu_are_no_alternative_to_whole_ones() -> None:
    part = an_offer("Standard_NV9x_v1", 6, "1/2", model="MI300X", limit=960, vendor="NVIDIA")
    assert ask_all("1xND96asr_v4", [part]).alternatives == ()
    assert alternatives(ask_all("1xNV6ads_A10_v5", [part])) == [("eastus2", "NV9x_v1", 1)]


# --- whatever comes

SIZES = [
    ("NC4x", 4, "1"),
    ("NC8x", 8, "1"),
    ("NC24x", 24, "4"),
    ("ND20x", 20, "2"),
    ("NV3x", 3, "1/2"),
]
_LIMITS = st.none() | st.integers(0, 120)


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[Offer], RegionQuota]:
    families = {family: draw(_LIMITS) for family in "FGH"}
    offers = []
    for name, vcpus, gpus in draw(st.lists(st.sampled_from(SIZES), unique=True, max_size=4)):
        family = draw(st.sampled_from("FGH"))
        offers.append(
            an_offer(
                f"Standard_{name}_v1",
                vcpus,
                gpus,
                family=family,
                limit=families[family],
                price=draw(st.none() | st.sampled_from([1.0, 2.0, 9.0])),
                model=draw(st.sampled_from(["A100", "T4"])),
                access=draw(st.sampled_from(["open", "open", "retiring", "blocked"])),
            )
        )
    return offers, pools(draw(_LIMITS), draw(st.integers(0, 20)))


_NEEDS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from(["A100", "T4", *(f"{s[0]}_v1" for s in SIZES)])),
    min_size=1,
    max_size=3,
).map(lambda pairs: " ".join(f"{count}x{name}" for count, name in pairs))


@given(_worlds(), _NEEDS, st.randoms(use_true_random=False))
def test_a_yes_passes_no_limit_and_the_order_of_rows_does_not_matter(
    world: tuple[list[Offer], RegionQuota], texts: str, chance: random.Random
) -> None:
    offers, quotas = world
    given = ask(texts, offers, quotas)
    assert ask(texts, chance.sample(offers, len(offers)), quotas) == given
    assert ask_all(texts, chance.sample(offers, len(offers)), [quotas]) == ask_all(
        texts, offers, [quotas]
    )
    assert (given.fits is False) == bool(given.blocked or given.shortfalls)
    if given.fits:
        assert_within_limits(given, offers, quotas)
        assert_needs_are_met(given, texts)


def assert_within_limits(given: NeedAnswer, offers: Sequence[Offer], quotas: RegionQuota) -> None:
    by_size = {o.size: o for o in offers}
    used: dict[str, int] = {}
    for placement in given.placements:
        offer = by_size[placement.size]
        assert offer.access != "blocked"
        used[offer.quota_family or ""] = used.get(offer.quota_family or "", 0) + (
            placement.vcpus or 0
        )
    for offer in offers:
        if offer.quota_family in used:
            assert offer.quota_limit is not None
            assert used[offer.quota_family] <= offer.quota_limit
    assert quotas.regional is not None
    assert sum(used.values()) <= (quotas.regional.free or 0)


def assert_needs_are_met(given: NeedAnswer, texts: str) -> None:
    for text in texts.split():
        need = parse_need(text)
        wanted = need.count * texts.split().count(text)
        placements = [p for p in given.placements if p.need == text]
        got = sum(p.vms if need.size else (p.gpus or 0) for p in placements)
        assert got >= wanted


@given(_worlds(), st.integers(1, 9))
def test_a_no_for_lack_of_quota_is_one_that_no_mix_could_turn(
    world: tuple[list[Offer], RegionQuota], count: int
) -> None:
    offers, quotas = world
    given = ask(f"{count}xA100", offers, quotas)
    usable = [o for o in offers if o.gpu_model == "A100" and o.access != "blocked"]
    whole = [o for o in usable if "/" not in (o.gpu_count_text or "")] or usable
    assert (given.fits is True) == any_mix_fits(count, whole, quotas)


def any_mix_fits(count: int, offers: Sequence[Offer], quotas: RegionQuota) -> bool:
    """Try every number of VMs of every size, up to three sizes."""
    free = quotas.regional.free if quotas.regional else None
    counts = [range(math.ceil(count / (o.gpu_count or 1)) + 1) for o in offers]
    for vms in itertools.product(*counts):
        if sum(n > 0 for n in vms) > 3 or free is None:
            continue
        pairs = list(zip(offers, vms, strict=True))
        gpus = sum(n * Fraction(o.gpu_count_text or 0) for o, n in pairs)
        families = {o.quota_family: o.quota_limit for o, n in pairs if n}
        taken = {
            f: sum(n * (o.vcpus or 0) for o, n in pairs if o.quota_family == f) for f in families
        }
        within = all(limit is not None and taken[f] <= limit for f, limit in families.items())
        if gpus >= count and within and sum(taken.values()) <= free:
            return True
    return False
