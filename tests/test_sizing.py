"""Storage arithmetic, against examples worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra import gpus, limits, sizing
from ai4infra.errors import UsageError
from ai4infra.model import GpuFacts
from ai4infra.sizing import (
    Job,
    StorageAdvice,
    StorageOption,
    Usage,
    advise,
    demand,
    growth_warnings,
    parse_bytes,
    parse_count,
    parse_vms,
)

GB, TB = 10**9, 10**12
H100 = "Standard_ND96isr_H100_v5"
A100 = "Standard_ND96asr_v4"
JPEG, VOLUME = 114_660, 146_600_628


def job(**changes: object) -> Job:
    base = Job(dataset_bytes=TB, vms=1, size=H100, sample_bytes=JPEG, epochs=10)
    return msgspec.structs.replace(base, **changes)


def option(advice: StorageAdvice, name: str) -> StorageOption:
    return next(o for o in advice.options if o.name == name)


def used(advice: StorageAdvice, limit: str) -> Usage:
    return next(u for u in advice.usage if u.limit == limit)


# ---- quantities ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2TB", 2 * 10**12),
        ("2TiB", 2 * 2**40),
        ("105GB", 105 * 10**9),
        ("1.5 TiB", 3 * 2**39),
        ("5.29tb", 5_290 * 10**9),
        ("1PiB", 2**50),
        ("512 kib", 2**19),
        ("7B", 7),
        (" 3 MB ", 3 * 10**6),
    ],
)
def test_a_size_is_exact_in_decimal_and_binary_units(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@given(
    thousandths=st.integers(min_value=1, max_value=10**9),
    unit=st.sampled_from("KMGTP"),
    binary=st.booleans(),
)
def test_a_size_is_its_number_times_its_unit_or_refused(
    thousandths: int, unit: str, binary: bool
) -> None:
    base = 1024 if binary else 1000
    wanted = Fraction(thousandths, 1000) * base ** ("KMGTP".index(unit) + 1)
    text = f"{thousandths // 1000}.{thousandths % 1000:03}{unit}{'i' if binary else ''}B"
    if wanted.denominator == 1:
        assert parse_bytes(text) == wanted
    else:
        with pytest.raises(UsageError, match="part of byte"):
            parse_bytes(text)


@pytest.mark.parametrize(
    "text",
    ["", "2", "TB", "2T", "2Tb", "2Gib", "-2TB", "2,5TB", "1e3GB", "0GB", "1.5B", "2iB", "٢TB"],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_bytes(text)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [("12M", 12_000_000), ("12m", 12_000_000), ("1.2B", 1_200_000_000), ("4k", 4000), ("7", 7)],
)
def test_a_number_of_files_may_have_a_unit(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "M", "0", "1.5", "12MB", "-1", "1.2345K", "12 000"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_count(text)


@pytest.mark.parametrize("parse", [parse_bytes, parse_count])
@given(text=st.text(st.sampled_from("0123456789.KMGTPiBb xe-"), max_size=12))
def test_parsing_a_quantity_gives_at_least_one_or_a_usage_error(
    parse: Callable[[str], int], text: str
) -> None:
    try:
        assert parse(text) >= 1
    except UsageError:
        return


def test_vms_are_a_number_and_a_size() -> None:
    assert parse_vms("8xND96asr_v4") == sizing.Vms(count=8, size="ND96asr_v4")
    assert parse_vms("Standard_ND96asr_v4").count == 1
    assert parse_vms("2 x Standard_NC24ads_A100_v4").count == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("8xH100", "H100 is a GPU"),
        ("0xND96asr_v4", "not a number of VMs"),
        ("", "not a number of VMs"),
        ("8*ND96asr_v4", "not a number of VMs"),
        ("8xStandard_D96ds_v5", "no GPU size called"),
        ("8xnonsense", "no GPU size called"),
    ],
)
def test_vms_in_any_other_form_are_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("*", r"\*")):
        parse_vms(text)


# ---- what the GPUs ask for -----------------------------------------------------------------


def test_eight_h100_on_loose_jpegs_take_71_percent_of_the_requests_of_an_account() -> None:
    advice = advise(job())
    assert advice.demand.basis == "resnet50"
    assert advice.demand.requests_s == pytest.approx(14_286, abs=1)
    assert advice.demand.mbytes_s == pytest.approx(1_638, abs=1)
    assert used(advice, "account requests").percent == pytest.approx(71.4, abs=0.1)


def test_in_a_listed_region_they_take_half_of_that() -> None:
    assert used(advise(job(region="eastus2")), "account requests").percent == pytest.approx(
        35.7, abs=0.1
    )


def test_eight_h100_on_3d_unet_take_two_and_a_half_times_the_network_of_their_vm() -> None:
    advice = advise(job(sample_bytes=VOLUME, region="eastus2"))
    assert advice.demand.basis == "unet3d"
    assert advice.demand.mbytes_s == pytest.approx(25_416, abs=1)
    assert used(advice, "VM network").percent == pytest.approx(254, abs=1)
    assert used(advice, "account egress").percent == pytest.approx(101.7, abs=0.1)


def test_the_mean_size_of_files_decides_how_many_bytes_a_sample_has() -> None:
    # 64 A100 x 400/0.435 samples/s x 2 TB/12 M files
    asked = demand(Job(dataset_bytes=2 * TB, files=12_000_000, vms=8, size=A100), gpus.facts(A100))
    assert asked.gpus == 64
    assert asked.samples_s == pytest.approx(58_850.6, abs=0.1)
    assert asked.mbytes_s == pytest.approx(9_808.4, abs=0.1)


def test_files_that_hold_many_samples_need_fewer_requests() -> None:
    loose = advise(job(files=8_721_437))
    shards = advise(job(files=2_000))
    assert shards.demand.mbytes_s == loose.demand.mbytes_s
    # 1,638 MB/s in requests of 16 MiB
    assert shards.demand.requests_s == pytest.approx(97.6, abs=0.1)


def test_what_an_h200_takes_is_unknown_and_said() -> None:
    advice = advise(job(size="Standard_ND96isr_H200_v5"))
    assert advice.demand.mbytes_s is None
    assert any("H200" in note and "not known" in note for note in advice.notes)
    assert all(o.gpu_feed_percent is None for o in advice.options)
    assert all(u.percent is None for u in advice.usage)


def test_a_sixth_of_a_gpu_counts_as_a_sixth() -> None:
    facts = GpuFacts(size="X", series_class="NV", gpu_model="A100", gpu_count="1/6")
    assert demand(job(vms=3), facts).gpus == 0.5


def test_text_asks_for_next_to_nothing() -> None:
    # 8 x 16,789 tokens/s x 4 bytes
    advice = advise(job(workload="text", sample_bytes=None))
    assert advice.demand.mbytes_s == pytest.approx(0.537, abs=0.001)
    assert advice.options[0].name == sizing.BLOCK_CACHE


# ---- walls ---------------------------------------------------------------------------------


def test_premium_ssd_on_nd_h100_ends_at_612_mb_a_second() -> None:
    for name in (sizing.SSD, sizing.SSD_V2):
        found = option(advise(job(region="eastus2")), name)
        assert found.feed_mbytes_s == 612
        assert "VM uncached disk: 612 MB/s" in (found.first_wall or "")
        # 612 of 1,638 MB/s
        assert found.gpu_feed_percent == pytest.approx(37.4, abs=0.1)
        assert found.suitable == "no"


def test_what_no_vms_disks_hold_and_no_account_holds_is_said() -> None:
    advice = advise(job(dataset_bytes=10_000 * 10**15, workload="text", sample_bytes=None))
    for name in (sizing.SSD, sizing.SSD_V2):
        found = option(advice, name)
        assert (found.suitable, found.feed_mbytes_s) == ("no", None)
        assert "hold" in found.why
    assert option(advice, sizing.BLOCK_CACHE).suitable == "with conditions"
    assert any("5,120 TiB of one account" in note for note in advice.notes)


def test_what_one_account_just_holds_is_not_warned_of() -> None:
    advice = advise(job(dataset_bytes=5120 * 2**40, workload="text", sample_bytes=None))
    assert option(advice, sizing.BLOCK_CACHE).suitable == "yes"
    assert not any("of one account" in note for note in advice.notes)


def test_small_premium_disks_are_striped_until_the_vm_is_the_wall() -> None:
    found = option(advise(job(dataset_bytes=100 * GB)), sizing.SSD)
    # 4 x 200 MB/s is the first stripe above 612 MB/s.
    assert any(c.name == "4 x Premium SSD (P30)" and c.mbytes_s == 800 for c in found.ceilings)


def test_the_first_wall_is_the_smallest_of_the_known_ceilings() -> None:
    for found in advise(job(region="eastus2", vms=4)).options:
        known = [c for c in found.ceilings if c.mbytes_s is not None]
        if known:
            wall = min(known, key=lambda c: c.mbytes_s or 0)
            assert found.feed_mbytes_s == wall.mbytes_s
            assert found.first_wall == wall.text


def test_jobs_that_share_an_account_split_its_bandwidth_and_requests() -> None:
    alone, shared = advise(job(files=8_721_437)), advise(job(files=8_721_437, shared_by=4))
    for limit in ("account egress", "account requests"):
        one, four = used(alone, limit).percent, used(shared, limit).percent
        assert one is not None
        assert four == pytest.approx(4 * one)
        assert "shared by 4 jobs" in used(shared, limit).text
    assert used(alone, "VM network") == used(shared, "VM network")


def test_jobs_that_share_a_file_share_or_file_system_split_it() -> None:
    shared = advise(job(workload="text", sample_bytes=None, shared_by=4))
    alone = advise(job(workload="text", sample_bytes=None))
    for name in (sizing.LUSTRE, sizing.NFS, sizing.STANDARD_SMB):
        rate = option(alone, name).feed_mbytes_s
        assert rate is not None
        assert option(shared, name).feed_mbytes_s == pytest.approx(rate / 4)


def test_gpus_are_never_fed_more_than_they_ask_for() -> None:
    advice = advise(job(workload="text", sample_bytes=None))
    assert {o.gpu_feed_percent for o in advice.options} == {100.0, None}


def test_block_cache_is_for_large_files_and_not_for_small_ones_in_random_order() -> None:
    small = option(advise(job(files=8_721_437)), sizing.BLOCK_CACHE)
    assert small.suitable == "no"
    # 134 MiB/s
    assert small.feed_mbytes_s == pytest.approx(141, abs=1)
    large = option(advise(job(files=2_000)), sizing.BLOCK_CACHE)
    assert large.suitable == "yes"
    # 5,531 MiB/s
    assert large.feed_mbytes_s == pytest.approx(5_800, abs=1)


def test_a_share_is_made_larger_than_its_data_where_throughput_needs_it() -> None:
    found = option(advise(job(dataset_bytes=200 * GB, files=1_744_287)), sizing.NFS)
    assert found.suitable == "with conditions"
    # 1,638 MB/s are 1,562.1 MiB/s: 100 + 0.04 x 14,611 + 0.06 x 14,611, each rounded up
    assert "provision 14,61" in found.why
    assert "fills only 187" in found.why
    assert (found.gpu_feed_percent or 0) >= 100


def test_iops_are_the_wall_of_a_share_with_many_small_files() -> None:
    # 100,000 operations a second of 20,000 bytes
    tiny = option(advise(job(vms=8, sample_bytes=20_000)), sizing.NFS)
    assert "share IOPS: 100,000 IOPS" in (tiny.first_wall or "")
    assert tiny.feed_mbytes_s == pytest.approx(2_000)


def test_a_dataset_larger_than_the_largest_share_rules_files_out() -> None:
    advice = advise(job(dataset_bytes=120 * 2**40))
    for name in (sizing.NFS, sizing.SMB):
        assert option(advice, name).suitable == "no"
        assert "102,400 GiB at most" in option(advice, name).why


def test_smb_has_a_wall_at_the_client_that_nfs_does_not_have() -> None:
    advice = advise(job(sample_bytes=2_828_486, region="eastus2"))
    # 2,764.8 MiB/s of one VM
    assert option(advice, sizing.SMB).feed_mbytes_s == pytest.approx(2_899, abs=1)
    assert (option(advice, sizing.NFS).feed_mbytes_s or 0) > 2_899


def test_lustre_is_sized_for_data_and_feed() -> None:
    found = option(
        advise(Job(dataset_bytes=2 * TB, files=12_000_000, vms=8, size=A100)), sizing.LUSTRE
    )
    # 9,808 MB/s at 500 MB/s a TiB are 19.6 TiB, in steps of 4
    assert "AMLFS-Durable-Premium-500 of 20 TiB" in found.why
    assert found.feed_mbytes_s == 10_000
    assert found.suitable == "yes"
    assert found.monthly_usd is None


def test_lustre_that_cannot_feed_is_the_fastest_that_holds_the_data() -> None:
    found = option(advise(job(sample_bytes=VOLUME, vms=40)), sizing.LUSTRE)
    assert found.feed_mbytes_s == 64_000
    assert found.suitable == "no"


# ---- local copies --------------------------------------------------------------------------


def test_staging_takes_as_long_as_azcopy_and_the_account_allow() -> None:
    one = option(advise(job(dataset_bytes=385 * GB, region="eastus2")), sizing.STAGING)
    assert one.first_pass_seconds == pytest.approx(124, abs=0.1)
    # Sixteen copies of 385 GB at the 25,000 MB/s of the account, not at 16 x 3,105.
    many = option(
        advise(job(dataset_bytes=385 * GB, files=10_000, vms=16, region="eastus2")), sizing.STAGING
    )
    assert many.first_pass_seconds == pytest.approx(16 * 385_000 / 25_000)


def test_staging_of_tiny_files_waits_for_the_requests_of_the_account() -> None:
    # 10 M files at 20,000 a second, for each of 4 VMs
    found = option(advise(job(dataset_bytes=100 * GB, files=10_000_000, vms=4)), sizing.STAGING)
    assert found.first_pass_seconds == pytest.approx(4 * 500)


def test_the_read_speed_of_nvme_is_unknown_and_said() -> None:
    found = option(advise(job()), sizing.STAGING)
    assert found.suitable == "yes"
    assert (found.feed_mbytes_s, found.gpu_feed_percent, found.first_wall) == (None, None, None)
    assert any("not published" in note for note in found.notes)


def test_staging_is_measured_first_where_gpus_want_more_than_any_local_disk_has_shown() -> None:
    found = option(advise(job(sample_bytes=VOLUME)), sizing.STAGING)
    assert found.suitable == "with conditions"
    assert "Measure the disk first" in found.why


def test_data_beyond_one_local_disk_is_sharded_and_beyond_all_is_not_staged() -> None:
    twice = option(advise(job(dataset_bytes=40 * TB, vms=2)), sizing.STAGING)
    assert twice.suitable == "with conditions"
    assert "a shard" in twice.why
    assert option(advise(job(dataset_bytes=40 * TB)), sizing.STAGING).suitable == "no"
    assert option(advise(job(dataset_bytes=40 * TB)), sizing.PRELOAD).suitable == "no"


def test_a_size_whose_local_disk_is_unknown_or_missing_is_said_to_be_so() -> None:
    unknown = GpuFacts(size="X", series_class="ND", gpu_model="H100", gpu_count="8")
    found = option(advise(job(size="X"), unknown), sizing.STAGING)
    assert found.suitable == "with conditions"
    assert "not known" in found.why
    none = option(
        advise(job(size="X"), msgspec.structs.replace(unknown, nvme_gib=0)), sizing.STAGING
    )
    assert (none.suitable, none.why) == ("no", "X has no local disk.")


def test_a_temp_disk_counts_as_local_where_no_nvme_is_known() -> None:
    found = option(advise(job(size=A100, dataset_bytes=2 * TB)), sizing.STAGING)
    assert "6,000 GiB of temp disk" in found.why


def test_the_file_cache_uses_four_fifths_of_the_disk() -> None:
    # 6,000 GiB are 6.44 TB, and 80 % of them 5.15 TB.
    fits = option(advise(job(size=A100, dataset_bytes=5 * TB)), sizing.FILE_CACHE)
    beyond = option(advise(job(size=A100, dataset_bytes=6 * TB)), sizing.FILE_CACHE)
    assert "file cache, warm" in (fits.first_wall or "")
    assert "file cache, warm" not in (beyond.first_wall or "")
    assert beyond.suitable == "no"


def test_one_epoch_is_read_cold() -> None:
    found = option(advise(job(epochs=1, files=1_000, region="eastus2")), sizing.FILE_CACHE)
    # 2,829 MiB/s
    assert found.feed_mbytes_s == pytest.approx(2_966, abs=1)


def test_an_unknown_network_makes_the_feed_an_upper_bound_and_says_so() -> None:
    facts = GpuFacts(size="X", series_class="ND", gpu_model="H100", gpu_count="8")
    found = option(advise(job(size="X"), facts), sizing.LUSTRE)
    assert any("upper bound" in note and "VM network" in note for note in found.notes)


# ---- the matrix ----------------------------------------------------------------------------


def test_many_epochs_of_small_files_go_to_a_local_copy() -> None:
    advice = advise(
        Job(
            dataset_bytes=2 * TB,
            files=12_000_000,
            vms=8,
            size=A100,
            epochs=90,
            region="eastus2",
        )
    )
    assert [o.name for o in advice.options[:2]] == [sizing.STAGING, sizing.FILE_CACHE]
    assert advice.options[0].monthly_usd == pytest.approx(2 * TB / 2**30 * 0.018)


def test_every_option_is_judged_once_and_each_has_a_source() -> None:
    advice = advise(job())
    assert len({o.name for o in advice.options}) == len(advice.options) == 11
    assert all(o.sources and o.why for o in advice.options)


def test_never_comes_last_and_yes_first() -> None:
    for workload in sizing.WORKLOADS:
        order = [o.suitable for o in advise(job(workload=workload)).options]
        ranks = ["yes", "with conditions", "no", "never"]
        assert order == sorted(order, key=ranks.index)
        assert order[-2:] == ["never", "never"]


def test_sixty_mb_a_second_means_twelve_percent() -> None:
    # One A100 on CosmoFlow takes 1/0.00551 x 2,828,486 bytes = 513.3 MB/s.
    advice = advise(
        Job(dataset_bytes=TB, vms=1, size="Standard_NC24ads_A100_v4", sample_bytes=2_828_486)
    )
    hdd = option(advice, sizing.HDD)
    assert hdd.suitable == "never"
    assert hdd.gpu_feed_percent == pytest.approx(11.7, abs=0.1)
    assert "fed 12 % and idle the rest" in hdd.why
    assert option(advice, sizing.STANDARD_SMB).suitable == "never"


def test_a_standard_disk_is_never_proposed_even_where_the_gpus_ask_for_nothing() -> None:
    hdd = option(advise(job(workload="text", sample_bytes=None)), sizing.HDD)
    assert hdd.suitable == "never"
    # 1 TB at 60 MB/s are 16,667 s.
    assert "one pass over the data would take 5 hours" in hdd.why


def test_checkpoints_are_about_the_time_to_write_one() -> None:
    advice = advise(job(workload="checkpoints", dataset_bytes=912 * GB, vms=8, region="eastus2"))
    assert advice.options[0].name == sizing.BLOCK_CACHE
    # 8 x 3,983 MiB/s is more than the 60 Gbps that the account takes.
    assert advice.options[0].first_pass_seconds == pytest.approx(912_000 / 7_500)
    assert "account ingress" in (advice.options[0].first_wall or "")
    assert option(advice, sizing.PRELOAD).suitable == "no"
    # 414 MiB/s on each of 8 VMs
    assert option(advice, sizing.FILE_CACHE).feed_mbytes_s == pytest.approx(8 * 434)
    assert all(o.gpu_feed_percent is None for o in advice.options)


def test_a_premium_account_has_unknown_limits_and_its_own_price() -> None:
    advice = advise(job(files=2_000, premium=True))
    assert used(advice, "account egress").percent is None
    found = option(advice, sizing.BLOCK_CACHE)
    # 6,099 MiB/s
    assert found.feed_mbytes_s == pytest.approx(6_395, abs=1)
    assert found.monthly_usd == pytest.approx(TB / 2**30 * 0.15)


@pytest.mark.parametrize("field", ["dataset_bytes", "vms", "epochs", "shared_by", "files"])
def test_a_number_below_one_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        advise(job(**{field: 0}))


def test_more_files_than_bytes_are_refused() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        advise(job(dataset_bytes=10, files=11))


@given(
    dataset=st.integers(min_value=10**6, max_value=10**17),
    files=st.none() | st.integers(min_value=1, max_value=10**6),
    vms=st.integers(min_value=1, max_value=1000),
    size=st.sampled_from(gpus.all_sizes()),
    workload=st.sampled_from(sizing.WORKLOADS),
    epochs=st.integers(min_value=1, max_value=100),
    shared_by=st.integers(min_value=1, max_value=50),
    premium=st.booleans(),
)
def test_every_job_gets_an_answer_without_a_zero_for_what_is_unknown(
    dataset: int,
    files: int | None,
    vms: int,
    size: str,
    workload: limits.Workload,
    epochs: int,
    shared_by: int,
    premium: bool,
) -> None:
    advice = advise(
        Job(
            dataset_bytes=dataset,
            files=files,
            vms=vms,
            size=size,
            workload=workload,
            epochs=epochs,
            shared_by=shared_by,
            premium=premium,
        )
    )
    for found in advice.options:
        assert found.gpu_feed_percent is None or 0 < found.gpu_feed_percent <= 100
        for value in (found.feed_mbytes_s, found.first_pass_seconds, found.monthly_usd):
            assert value is None or value > 0
        if found.suitable == "yes" and found.gpu_feed_percent is not None:
            assert found.gpu_feed_percent >= advice.demand.pass_percent
    assert msgspec.json.encode(advice)


# ---- growth --------------------------------------------------------------------------------


def test_ten_times_the_size_that_passes_the_account_is_warned_of() -> None:
    # 10 x 600 TB are 6 PB; an account holds 5 PiB, which are 5.63 PB.
    assert "5,120 TiB of one account" in growth_warnings(expect_bytes=600 * TB)[0]
    assert growth_warnings(expect_bytes=500 * TB) == ()


def test_ten_times_the_size_that_passes_the_local_disk_is_warned_of() -> None:
    found = growth_warnings(expect_bytes=4 * TB, vms=1, facts=gpus.facts(H100), region="eastus2")
    assert "10 times 4 TB is 40 TB" in found[0]
    assert "28,610 GiB of local NVMe" in found[0]


def test_a_feed_that_passes_account_or_disks_is_warned_of_with_the_figures() -> None:
    found = " ".join(growth_warnings(vms=1, facts=gpus.facts(H100)))
    assert "8 H100 can take in 1,638 MB/s of small images, 71 % of the account requests" in found
    assert "2.7 times the VM uncached disk: 612 MB/s" in found
    listed = " ".join(growth_warnings(vms=1, facts=gpus.facts(H100), region="eastus2"))
    assert "account requests" not in listed


def test_a_feed_that_is_shared_counts_the_other_jobs() -> None:
    found = " ".join(growth_warnings(vms=1, facts=gpus.facts(H100), shared_by=3))
    assert "2.1 times the account requests: 20,000/s shared by 3 jobs" in found


def test_an_unknown_gpu_is_said_and_nothing_is_warned_of_nothing() -> None:
    found = growth_warnings(vms=8, facts=gpus.facts("Standard_ND96isr_H200_v5"))
    assert len(found) == 1
    assert "not known" in found[0]
    assert growth_warnings() == ()
