from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from support_offers import A100, a_quota, a_sku, facts_of, row, rows

from ai4infra.errors import UsageError
from ai4infra.model import Offer
from ai4infra.recon import memory_per_gpu_gib
from ai4infra.selection import SORT_KEYS, select, sort, unlisted_sizes

CATALOG = [
    "Standard_NC4as_T4_v3",
    "Standard_NC24ads_A100_v4",
    "Standard_NC96ads_A100_v4",
    "Standard_ND96asr_v4",
    "Standard_NV6ads_A10_v5",
    "Standard_NV36ads_A10_v5",
    "Standard_NG32adms_V620_v1",
    "Standard_NP10s",
    "Standard_NCC40ads_H100_v5",
]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"families": ["nd"]}, [3]),
        ({"families": ["NG", "NP"]}, [6, 7]),
        ({"families": ["all"]}, range(9)),
        ({"gpus": ["a100"]}, [1, 2, 3]),
        ({"gpus": ["V620"]}, [6]),
        ({"gpus": ["H100"]}, []),
        ({"gpus": ["H100"], "families": ["NCC"]}, [8]),
        ({"gpus": ["A100-80GB", "T4"]}, [0, 1, 2]),
        ({"gpus": ["A10"]}, [4, 5]),
        ({"min_gpus": 1, "gpus": ["A10"]}, [5]),
        ({"min_gpus": 4}, [2, 3]),
        ({"min_gpu_memory_gib": 40}, [1, 2, 3]),
        ({"min_gpu_memory_gib": 24}, [1, 2, 3, 5]),
        ({"sizes": ["ng32adms_v620_V1", "Standard_NC4as_T4"]}, [6]),
        ({"sizes": ["*_A100_*"]}, [1, 2]),
    ],
)
def test_filters_keep_what_passes_all_of_them(filters: Any, kept: Sequence[int]) -> None:
    listed = rows(*map(a_sku, CATALOG))
    chosen = {o.size for o in select(listed, **filters)}
    assert chosen == {CATALOG[i] for i in kept}


def test_a_filter_drops_what_it_cannot_judge() -> None:
    unknown = row(facts=facts_of(gpu_count=None, gpu_memory_gib=None), quotas=[])
    assert select([unknown]) == (unknown,)
    for filters in ({"min_gpus": 1}, {"min_gpu_memory_gib": 1}, {"startable": True}):
        assert select([unknown], **filters) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("capable", "pool", "spot", "both"),
    [(True, 96, 1, 1), (True, 95, 1, 0), (False, 96, 0, 0), (None, 96, 0, 0)],
)
def test_spot_keeps_what_can_run_so_and_startable_then_asks_the_spot_pool(
    capable: bool | None, pool: int, spot: int, both: int
) -> None:
    quotas = [a_quota("lowPriorityCores", pool), a_quota("cores", 0), a_quota(A100, 0)]
    one = row(a_sku(spot_capable=capable), quotas=quotas)
    assert len(select([one], spot=True)) == spot
    assert len(select([one], spot=True, startable=True)) == both
    assert select([one], startable=True) == ()


@pytest.mark.parametrize(
    ("filters", "hint"), [({"families": ["NDD"]}, "ND"), ({"gpus": ["A1000"]}, "A100")]
)
def test_unknown_families_and_models_are_refused_with_close_names(filters: Any, hint: str) -> None:
    with pytest.raises(UsageError) as refusal:
        select(rows(a_sku()), **filters)
    assert hint in (refusal.value.hint or "")


def test_a_size_that_no_region_lists_and_nobody_knows_is_an_error_with_close_names() -> None:
    listed = rows(a_sku("Standard_ND77asr_v9"))
    assert unlisted_sizes(["nd77ASR_v9", "NC24ads_A100_v4", "*A100*"], listed) is None
    error = unlisted_sizes(["ND97asr_v4"], listed)
    assert error is not None
    assert "Standard_ND96asr_v4" in (error.hint or "")


def test_the_share_of_a_gpu_counts_as_its_memory() -> None:
    sixth, eight = rows(a_sku("Standard_NV6ads_A10_v5"), a_sku("Standard_ND96asr_v4"))[::-1]
    assert (memory_per_gpu_gib(sixth), memory_per_gpu_gib(eight)) == (4, 40)


# --- order


@pytest.mark.parametrize("key", SORT_KEYS)
@pytest.mark.parametrize("spot", [False, True])
def test_unknown_values_are_last_both_ways(key: str, spot: bool) -> None:
    """Of the two known rows, the second has more of everything."""
    blank = structs.replace(
        row(a_sku("Standard_ND0_v1", vcpus=None), facts=facts_of(gpu_count=None)), region="zz"
    )
    low = priced(row(a_sku("Standard_ND8_v1", vcpus=48, memory_gib=9)), 2.0)
    high = priced(
        row(a_sku("Standard_ND16_v1", vcpus=24, memory_gib=10), facts=facts_of(gpu_count="9")), 3.0
    )
    high = structs.replace(high, region="eastus10")
    upwards = sort([high, blank, low], key, spot=spot)
    downwards = sort([high, blank, low], f"-{key}", spot=spot)
    if key in ("size", "region"):
        assert upwards == ((blank, low, high) if key == "size" else (low, high, blank))
        assert downwards == upwards[::-1]
    else:
        assert (upwards, downwards) == ((low, high, blank), (high, low, blank))


def priced(offer: Offer, price: float) -> Offer:
    return structs.replace(
        offer,
        price_per_hour=price,
        price_per_gpu_hour=price,
        spot_price_per_hour=price,
        spot_price_per_gpu_hour=price,
    )


def test_equal_rows_keep_their_order_and_unknown_keys_are_refused() -> None:
    pair = rows(a_sku("Standard_NC4as_T4_v3"), a_sku("Standard_NC8as_T4_v3"))
    assert sort(pair, "-gpus") == pair == sort(pair, "gpus")
    with pytest.raises(UsageError, match="sort key"):
        sort(pair, "cost")
