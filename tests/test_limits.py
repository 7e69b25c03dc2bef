"""Limits: every row has its source, and the formulas give Microsoft's own examples."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra import limits
from ai4infra.limits import Row

ROWS = limits.rows()
TB = 10**12


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_where_and_when_it_was_read(name: str) -> None:
    row: Row = ROWS[name]
    assert row.source.startswith("https://")
    assert datetime.date.fromisoformat(row.date) <= datetime.date(2026, 12, 31)


@pytest.mark.parametrize("name", ROWS)
def test_no_figure_is_zero_or_less_where_it_should_be_unknown(name: str) -> None:
    row = ROWS[name]
    figures = [getattr(row, field) for field in row.__struct_fields__]
    assert all(value > 0 for value in figures if isinstance(value, (int, float)))


@pytest.mark.parametrize("region", ["eastus2", "East US 2", "SwedenCentral", "usgovvirginia"])
def test_a_listed_region_has_the_higher_limits(region: str) -> None:
    row = limits.account(region)
    assert (row.requests_s, row.ingress_gbps, row.egress_gbps) == (40_000, 60, 200)


@pytest.mark.parametrize("region", ["ukwest", "westcentralus", "atlantis", "", None])
def test_any_other_region_and_none_have_the_lower_limits(region: str | None) -> None:
    row = limits.account(region)
    assert (row.requests_s, row.ingress_gbps, row.egress_gbps) == (20_000, 25, 50)


def test_a_premium_account_has_no_published_limits() -> None:
    row = limits.account("eastus2", premium=True)
    assert (row.requests_s, row.ingress_gbps, row.egress_gbps) == (None, None, None)


def test_thirty_regions_are_listed_in_their_canonical_spelling() -> None:
    regions = limits.account("eastus2").regions
    assert len(set(regions)) == len(regions) == 30
    assert all(name == name.lower() and " " not in name for name in regions)


@pytest.mark.parametrize(
    ("gib", "iops", "mibytes_s"),
    [
        (100, 3_100, 110),
        (500, 3_500, 150),
        (1_024, 4_024, 203),
        (5_120, 8_120, 613),
        (10_240, 13_240, 1_125),
        (33_792, 36_792, 3_480),
        (51_200, 54_200, 5_220),
        (102_400, 100_000, 10_340),
    ],
)
def test_a_premium_share_is_as_fast_as_microsofts_table_says(
    gib: int, iops: int, mibytes_s: int
) -> None:
    share = limits.premium_share()
    assert share.mibytes_s(gib) == mibytes_s
    assert share.iops(gib) == iops


@given(mibytes_s=st.floats(min_value=1, max_value=10_340))
def test_the_smallest_share_for_a_throughput_reaches_it_and_one_less_does_not(
    mibytes_s: float,
) -> None:
    share = limits.premium_share()
    gib = share.gib_for(mibytes_s)
    assert gib is not None
    assert share.mibytes_s(gib) >= mibytes_s
    assert gib == share.min_gib or share.mibytes_s(gib - 1) < mibytes_s


def test_no_share_reaches_more_than_the_largest() -> None:
    assert limits.premium_share().gib_for(10_341) is None


@pytest.mark.parametrize(
    ("sku", "dataset_bytes", "mbytes_s", "tib"),
    [
        ("AMLFS-Durable-Premium-500", 1, 0, 4),
        ("AMLFS-Durable-Premium-500", 2 * TB, 9_808, 20),
        ("AMLFS-Durable-Premium-250", 2 * TB, 9_808, 40),
        ("AMLFS-Durable-Premium-125", 20 * TB, 0, 32),
        ("AMLFS-Durable-Premium-40", 100 * TB, 0, 96),
        ("AMLFS-Durable-Premium-500", 128 * 2**40, 64_000, 128),
        ("AMLFS-Durable-Premium-500", 128 * 2**40 + 1, 0, None),
        ("AMLFS-Durable-Premium-500", 1, 64_001, None),
    ],
)
def test_a_lustre_file_system_comes_in_whole_steps(
    sku: str, dataset_bytes: int, mbytes_s: float, tib: int | None
) -> None:
    assert limits.lustre_skus()[sku].tib_for(dataset_bytes, mbytes_s) == tib


@pytest.mark.parametrize(
    ("name", "model", "samples_s"),
    [
        ("resnet50", "A100", 919.54),
        ("resnet50", "H100", 1785.71),
        ("unet3d", "A100", 11.006),
        ("unet3d", "H100", 21.672),
        ("cosmoflow", "A100", 181.488),
        ("cosmoflow", "H100", 285.714),
    ],
)
def test_a_gpu_takes_batch_over_time_samples_a_second(
    name: str, model: str, samples_s: float
) -> None:
    found = limits.gpu_needs("images")[name].samples_s(model)
    assert found is not None
    assert float(found) == pytest.approx(samples_s, rel=1e-4)


@pytest.mark.parametrize("model", ["H200", "T4", "", None])
def test_what_another_gpu_takes_is_unknown(model: str | None) -> None:
    assert all(need.samples_s(model) is None for need in limits.gpu_needs("images").values())


def test_checkpoint_sizes_are_known_by_number_of_parameters() -> None:
    seventy = limits.checkpoint("70b")
    assert seventy is not None
    assert seventy.bytes == 912 * 10**9
    assert limits.checkpoint("13B") is None
    assert list(limits.checkpoints()) == ["8B", "70B", "405B", "1T"]


def test_disks_and_shares_that_never_feed_gpus_have_sixty_a_second() -> None:
    assert limits.disk("standard_hdd").mbytes_s == 60
    assert limits.standard_share().mibytes_s == 60


def test_single_blobs_blocks_and_premium_prices_have_their_rows() -> None:
    assert limits.blob("block").requests_s is None
    assert limits.blob("page").requests_s == 500
    assert (
        limits.price("blob_premium").usd_per_gib_month > limits.price("blob_hot").usd_per_gib_month
    )
    assert limits.smb_multichannel().client_mibytes_s > limits.premium_share().client_mibytes_s
    assert limits.disk("ultra").mbytes_s == 10_000
