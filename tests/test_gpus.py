"""GPU facts: the rows of the data file, and what a size's name says where there is no row."""

from __future__ import annotations

import datetime
import re
import string
import subprocess
import sys
from fractions import Fraction

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ai4infra import gpus
from ai4infra.gpus import CatalogRow, SizeName, facts, gpu_matches, size_name
from ai4infra.ids import size_key
from ai4infra.model import GpuFacts

ROWS = tuple(gpus.catalog().values())
each_row = pytest.mark.parametrize("row", ROWS, ids=[row.size for row in ROWS])

LISTED_TEXT = """
NC12s_v3 NC144ds_xl_RTXPRO6000BSE_v6 NC144lds_xl_RTXPRO6000BSE_v6 NC16ads_A10_v4 NC16as_T4_v3
NC24ads_A100_v4 NC24lds_xl_RTXPRO6000BSE_v6 NC24rs_v3 NC24s_v3 NC288ds_xl_RTXPRO6000BSE_v6
NC288lds_xl_RTXPRO6000BSE_v6 NC32ads_A10_v4 NC36ds_xl_RTXPRO6000BSE_v6 NC36lds_xl_RTXPRO6000BSE_v6
NC40ads_H100_v5 NC48ads_A100_v4 NC4as_T4_v3 NC64as_T4_v3 NC6s_v3 NC72ds_xl_RTXPRO6000BSE_v6
NC72lds_xl_RTXPRO6000BSE_v6 NC80adis_H100_v5 NC8ads_A10_v4 NC8as_T4_v3 NC96ads_A100_v4
NCC40ads_H100_v5 ND128isr_GB300_v6 ND128isr_NDR_GB200_v6 ND40rs_v2 ND96amsr_A100_v4 ND96asr_v4
ND96is_MI300X_v5 ND96isr_H100_v5 ND96isr_H200_v5 ND96isr_MI300X_v5 NG16ads_V620_v1
NG32adms_V620_v1 NG32ads_V620_v1 NG8ads_V620_v1 NP10s NP20s NP40s NV12ads_A10_v5 NV12ads_V710_v5
NV12s_v2 NV12s_v3 NV16as_v4 NV18ads_A10_v5 NV24ads_V710_v5 NV24s_v2 NV24s_v3 NV32as_v4
NV36adms_A10_v5 NV36ads_A10_v5 NV48s_v3 NV4ads_V710_v5 NV4as_v4 NV6ads_A10_v5 NV6s_v2
NV72ads_A10_v5 NV8ads_V710_v5 NV8as_v4
"""
LISTED = tuple(LISTED_TEXT.split())
"""The N-series sizes that Microsoft.Compute/skus listed anywhere on 2026-08-01."""


def row_of(size: str) -> CatalogRow:
    return gpus.catalog()[size_key(size)]


# ---- every row feeds itself back -----------------------------------------------------------


@each_row
def test_a_row_is_found_by_its_name_in_any_case_with_or_without_prefix(row: CatalogRow) -> None:
    short = row.size.removeprefix("Standard_")
    assert row.size == f"Standard_{short}"
    for spelling in (row.size, short, row.size.upper(), short.lower(), f" {row.size} "):
        assert facts(spelling) is row


@each_row
def test_a_rows_name_says_the_same_as_the_row(row: CatalogRow) -> None:
    name = size_name(row.size)
    assert name is not None
    assert name.vcpus == row.vcpus
    assert name.series_class == row.series_class
    assert name.confidential == row.confidential
    assert row.fpga == (row.series_class == "NP")
    if name.accelerator is not None:
        assert gpu_matches(name.accelerator, row.gpu_model)


@each_row
def test_infiniband_is_only_where_the_name_has_the_letter_r(row: CatalogRow) -> None:
    name = size_name(row.size)
    assert name is not None
    assert (row.infiniband_gbps == 0) != name.infiniband


@each_row
def test_a_row_says_where_and_when_it_was_read(row: CatalogRow) -> None:
    assert row.source is not None
    assert row.source.startswith("https://")
    assert row.date is not None
    assert datetime.date.fromisoformat(row.date) <= datetime.date(2100, 1, 1)
    assert (row.retirement_date is None) == (row.retirement_source is None)
    if row.retirement_date is not None:
        assert datetime.date.fromisoformat(row.retirement_date).year >= 2016


@each_row
def test_a_row_has_the_types_of_its_record(row: CatalogRow) -> None:
    again = msgspec.convert(msgspec.to_builtins(row), CatalogRow, strict=True)
    # As text: 80 and 80.0 are equal, but a machine that reads the output sees two types.
    assert repr(again) == repr(row)


@each_row
def test_a_rows_figures_are_possible(row: CatalogRow) -> None:
    if row.gpu_count is not None:
        count = gpus.fraction(row.gpu_count)
        assert 0 < count <= 16
        assert count >= 1 or count.numerator == 1
        assert row.api_gpus in (None, max(1, count))
        assert not (row.nvlink and count < 2)
    assert (row.nvme_gib is None) == (row.nvme_disks is None)
    assert bool(row.nvme_gib) == bool(row.nvme_disks)
    assert row.vendor in ("NVIDIA", "AMD", "Xilinx")
    assert not (row.nvlink and row.vendor != "NVIDIA")


@each_row
def test_a_row_and_the_models_table_agree_on_memory(row: CatalogRow) -> None:
    if row.gpu_model in ("A100", "H100", "V100"):
        return
    by_name_alone = facts(f"Standard_ND1_{row.gpu_model}_v99")
    assert by_name_alone.gpu_memory_gib == row.gpu_memory_gib
    assert by_name_alone.vendor == row.vendor


# ---- what the data holds -------------------------------------------------------------------


def test_every_size_listed_in_august_2026_has_a_row_with_its_quota_family() -> None:
    assert len(LISTED) == len(set(LISTED)) == 62
    for size in LISTED:
        assert row_of(size).quota_family


@pytest.mark.parametrize(
    ("size", "family"),
    [
        ("ND96asr_v4", "Standard NDASv4_A100 Family"),
        ("ND96amsr_A100_v4", "standard NDAMSv4_A100Family"),
        ("NC4as_T4_v3", "Standard NCASv3_T4 Family"),
        ("NCC40ads_H100_v5", "StandardNCCads2023Family"),
        ("NC6_Promo", "standardNCPromoFamily"),
    ],
)
def test_a_quota_family_is_spelt_as_azure_spells_it(size: str, family: str) -> None:
    assert row_of(size).quota_family == family


@pytest.mark.parametrize(
    ("size", "model", "count", "memory"),
    [
        ("NV6ads_A10_v5", "A10", "1/6", 24),
        ("NV12ads_A10_v5", "A10", "1/3", 24),
        ("NV18ads_A10_v5", "A10", "1/2", 24),
        ("NV36ads_A10_v5", "A10", "1", 24),
        ("NV36adms_A10_v5", "A10", "1", 24),
        ("NV72ads_A10_v5", "A10", "2", 24),
        ("NV4as_v4", "MI25", "1/8", 16),
        ("NV8as_v4", "MI25", "1/4", 16),
        ("NV16as_v4", "MI25", "1/2", 16),
        ("NV32as_v4", "MI25", "1", 16),
        ("NV4ads_V710_v5", "V710", "1/6", 24),
        ("NV8ads_V710_v5", "V710", "1/3", 24),
        ("NV12ads_V710_v5", "V710", "1/2", 24),
        ("NV24ads_V710_v5", "V710", "1", 24),
        ("NG8ads_V620_v1", "V620", "1/4", 32),
        ("NC36ds_xl_RTXPRO6000BSE_v6", "RTXPRO6000", "1/4", 96),
        ("NC72lds_xl_RTXPRO6000BSE_v6", "RTXPRO6000", "1/2", 96),
        ("NC288ds_xl_RTXPRO6000BSE_v6", "RTXPRO6000", "2", 96),
        ("NC40ads_H100_v5", "H100", "1", 94),
        ("ND96isr_H100_v5", "H100", "8", 80),
        ("ND96isr_H200_v5", "H200", "8", 141),
        ("ND96isr_MI300X_v5", "MI300X", "8", 192),
        ("ND128isr_NDR_GB200_v6", "GB200", "4", 192),
        ("ND128isr_GB300_v6", "GB300", "4", 288),
        ("ND96asr_v4", "A100", "8", 40),
        ("ND96amsr_A100_v4", "A100", "8", 80),
        ("ND40rs_v2", "V100", "8", 32),
        ("NC24rs_v3", "V100", "4", 16),
        ("NC6", "K80", "1", 12),
        ("NP20s", "U250", "2", 64),
    ],
)
def test_counts_are_exact_and_memory_is_of_one_whole_gpu(
    size: str, model: str, count: str, memory: float
) -> None:
    found = facts(size)
    assert (found.gpu_model, found.gpu_count, found.gpu_memory_gib) == (model, count, memory)


@pytest.mark.parametrize(
    ("size", "gbps"),
    [
        ("ND96asr_v4", 1600),
        ("ND96isr_H100_v5", 3200),
        ("ND128isr_GB300_v6", 3200),
        ("ND128isr_NDR_GB200_v6", 1600),
        ("ND40rs_v2", 100),
        ("ND96is_MI300X_v5", 0),
        ("NC96ads_A100_v4", 0),
        ("NC24rs_v3", None),
    ],
)
def test_infiniband_is_of_the_whole_vm_and_unknown_is_not_none(
    size: str, gbps: float | None
) -> None:
    assert facts(size).infiniband_gbps == gbps


@pytest.mark.parametrize(
    ("size", "date"),
    [
        ("NC6s_v3", "2025-09-30"),
        ("NV12s_v3", "2026-09-30"),
        ("NV4as_v4", "2026-09-30"),
        ("NP10s", "2027-05-31"),
        ("NC24r_Promo", "2023-09-06"),
        ("ND96asr_v4", None),
        ("ND40rs_v2", None),
    ],
)
def test_a_retirement_has_the_date_of_microsofts_notice(size: str, date: str | None) -> None:
    assert facts(size).retirement_date == date


def test_a_count_that_no_source_gives_is_unknown() -> None:
    row = row_of("NC8ads_A10_v4")
    assert row.gpu_count is None
    assert row.api_gpus == 1


def test_all_sizes_have_different_keys() -> None:
    sizes = gpus.all_sizes()
    assert len(sizes) == len({size_key(size) for size in sizes}) == len(ROWS)


# ---- names without a row -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("Standard_ND192isr_B300_v7", ("ND", "B300", None, None)),
        ("Standard_NC128lds_xl_FOO9000_v8", ("NC", "FOO9000", None, None)),
        ("Standard_ND128isrf_NDR_GB200_v6", ("ND", "GB200", "NVIDIA", 192)),
        ("standard_nd96isrf_h200_v5", ("ND", "H200", "NVIDIA", 141)),
        ("NC16ds_xl_RTXPRO6000BSE_v9", ("NC", "RTXPRO6000", "NVIDIA", 96)),
        ("NC20ads_A100_v9", ("NC", "A100", "NVIDIA", None)),
        ("Standard_NX8s_v1", ("other", None, None, None)),
    ],
)
def test_a_size_of_tomorrow_is_listed_with_what_its_name_says(
    size: str, expected: tuple[object, ...]
) -> None:
    found = facts(size)
    assert found == GpuFacts(
        size=size,
        series_class=found.series_class,
        gpu_model=found.gpu_model,
        vendor=found.vendor,
        gpu_memory_gib=found.gpu_memory_gib,
        source="name",
    )
    said = (found.series_class, found.gpu_model, found.vendor, found.gpu_memory_gib)
    assert said == expected


def test_a_confidential_or_fpga_size_of_tomorrow_is_flagged_by_its_letters() -> None:
    assert facts("Standard_NCC80ads_H200_v9").confidential
    assert facts("Standard_NP99s_v9").fpga


@given(st.text())
@example("NVSv3-Type1")
@example("Standard_")
@example("ND٣s")
def test_any_text_gets_an_answer(text: str) -> None:
    found = facts(text)
    assert found.source in (None, "name") or found in ROWS
    assert (size_name(text) is not None) or gpus.series_class(text) is None


@pytest.mark.parametrize(
    "name",
    [
        "NVSv3-Type1",
        "NVASv4-Type1",
        "Standard_N",
        "ND96asr v4",
        "Premium_LRS",
        "",
        "96asr_v4",
        "NC6_",
        "NC6-x",
        "Standard_NC6\n_v3",
    ],
)
def test_what_is_no_vm_size_is_not_taken_apart(name: str) -> None:
    assert size_name(name) is None
    assert gpus.series_class(name) is None


@pytest.mark.parametrize("name", ["Standard_D4s_v5", "Standard_E8-2ds_v5", "Basic_A0", "M8-2ms"])
def test_an_ordinary_size_has_no_accelerator_class(name: str) -> None:
    assert size_name(name) is not None
    assert gpus.series_class(name) is None
    assert facts(name) == GpuFacts(size=name, series_class="other")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NC6", SizeName(family="NC", vcpus=6)),
        ("NV6_Promo", SizeName(family="NV", vcpus=6, promo=True)),
        (
            "Standard_M8-2ms_v2",
            SizeName(family="M", vcpus=8, constrained_vcpus=2, features="ms", version=2),
        ),
        (
            "standard_nd128ISR_ndr_gb200_V6",
            SizeName(
                family="ND",
                vcpus=128,
                features="isr",
                qualifiers=("NDR",),
                accelerator="GB200",
                version=6,
            ),
        ),
        (
            "ND128isrG5_v6",
            SizeName(family="ND", vcpus=128, features="isr", qualifiers=("G5",), version=6),
        ),
        (
            "NV24ads_V710_v5",
            SizeName(family="NV", vcpus=24, features="ads", accelerator="V710", version=5),
        ),
        ("NM16ads_MA35D", SizeName(family="NM", vcpus=16, features="ads", accelerator="MA35D")),
        (
            "M832ids_16_v3",
            SizeName(family="M", vcpus=832, features="ids", qualifiers=("16",), version=3),
        ),
        (
            "ND96is_noIB_H100_v5",
            SizeName(
                family="ND",
                vcpus=96,
                features="is",
                qualifiers=("NOIB",),
                accelerator="H100",
                version=5,
            ),
        ),
    ],
)
def test_a_name_is_taken_apart_by_the_convention(name: str, expected: SizeName) -> None:
    assert size_name(name) == expected


FAMILIES = st.sampled_from(["NC", "ND", "NV", "NG", "NP", "NCC", "NM", "D", "E", "M", "HB"])
FEATURES = st.text("abdilmpstr", max_size=5)
QUALIFIERS = st.lists(st.sampled_from(["NDR", "XL", "FLEX", "16"]), max_size=2).map(tuple)
ACCELERATORS = st.none() | st.from_regex(r"[A-Z]{1,6}[0-9]{2,4}[A-Z]{0,3}", fullmatch=True)
VERSIONS = st.none() | st.integers(1, 99)


@st.composite
def size_names(draw: st.DrawFn) -> SizeName:
    accelerator = draw(ACCELERATORS)
    version = draw(VERSIONS)
    # Two digits behind a V are a version wherever they stand.
    if accelerator and re.fullmatch(r"V\d\d", accelerator):
        accelerator = None
    return SizeName(
        family=draw(FAMILIES),
        vcpus=draw(st.integers(1, 999)),
        constrained_vcpus=draw(st.none() | st.integers(1, 99)),
        features=draw(FEATURES),
        qualifiers=draw(QUALIFIERS),
        accelerator=accelerator,
        version=version,
        promo=draw(st.booleans()),
    )


def written(name: SizeName) -> str:
    head = f"Standard_{name.family}{name.vcpus}"
    if name.constrained_vcpus:
        head += f"-{name.constrained_vcpus}"
    tokens = [*name.qualifiers, name.accelerator, f"v{name.version}" if name.version else None]
    tokens.append("Promo" if name.promo else None)
    return "_".join([head + name.features, *(token for token in tokens if token)])


@given(name=size_names())
def test_every_name_of_the_convention_reads_back(name: SizeName) -> None:
    for text in (written(name), written(name).lower(), written(name).upper()):
        assert size_name(text) == name


@given(name=size_names())
def test_feature_letters_tell_infiniband_and_the_temp_disk(name: SizeName) -> None:
    read = size_name(written(name))
    assert read is not None
    assert read.infiniband == ("r" in name.features)
    assert read.temp_disk == ("d" in name.features)


@given(name=size_names())
def test_the_class_is_that_of_the_letters_and_ncc_is_not_nc(name: SizeName) -> None:
    known = name.family if name.family in {"NC", "ND", "NV", "NG", "NP", "NCC"} else "other"
    expected = known if name.family.startswith("N") else None
    assert gpus.series_class(written(name)) == expected


# ---- models --------------------------------------------------------------------------------


def test_the_models_of_all_rows_are_known_except_what_is_no_gpu() -> None:
    of_rows = {row.gpu_model for row in ROWS}
    assert set(gpus.models()) == of_rows - {"U250", "MA35D"}


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("A100", "A100"),
        ("a100", "A100"),
        ("NVIDIA A100", "A100"),
        ("A100-80GB", "A100"),
        ("A100 80 GiB", "A100"),
        ("Tesla T4", "T4"),
        ("rtx pro 6000", "RTXPRO6000"),
        ("RTX-PRO-6000-BSE", "RTXPRO6000"),
        ("mi300x", "MI300X"),
        ("MI300", "MI300X"),
        ("B200", None),
        ("A1000", None),
        ("", None),
    ],
)
def test_a_model_is_known_by_every_way_of_writing_it(text: str, model: str | None) -> None:
    assert gpus.model_named(text) == model


@pytest.mark.parametrize(
    ("wanted", "model", "memory", "matches"),
    [
        ("a100", "A100", None, True),
        ("A10", "A100", None, False),
        ("GB200", "GB200", None, True),
        ("H200", "GB200", None, False),
        ("RTXPRO6000BSE", "RTXPRO6000", None, True),
        ("foo-9000", "FOO9000", None, True),
        ("A100-80GB", "A100", 80, True),
        ("A100-80GB", "A100", 40, False),
        ("A100-80GB", "A100", None, True),
        ("A100", None, None, False),
        ("", None, None, False),
    ],
)
def test_a_wanted_gpu_matches_its_model_and_memory(
    wanted: str, model: str | None, memory: float | None, matches: bool
) -> None:
    assert gpu_matches(wanted, model, memory) is matches


@given(model=st.sampled_from(gpus.models()), noise=st.sampled_from([" ", "-", "_", "  "]))
def test_blanks_hyphens_and_case_do_not_matter_in_a_model(model: str, noise: str) -> None:
    assert gpu_matches(noise.join(model).lower(), model)


@given(text=st.text())
def test_any_text_may_be_asked_for_as_a_model(text: str) -> None:
    assert gpus.model_named(text) in (None, *gpus.models(), "U250", "MA35D")
    assert gpu_matches(text, None) is False


# ---- counts --------------------------------------------------------------------------------


@given(numerator=st.integers(0, 999), denominator=st.integers(1, 999))
def test_a_count_is_read_exactly(numerator: int, denominator: int) -> None:
    assert gpus.fraction(f"{numerator}/{denominator}") == Fraction(numerator, denominator)
    assert gpus.fraction(str(numerator)) == numerator


@pytest.mark.parametrize("text", ["", "1/0", "0.5", "-1", "1/", "one", "1 / 6", "1/6\n"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a GPU count"):
        gpus.fraction(text)


# ---- reading -------------------------------------------------------------------------------


def test_importing_the_module_reads_no_data() -> None:
    code = "import ai4infra.gpus as g; print(g.catalog.cache_info().currsize, g.facts('NC6').size)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "Standard_NC6"]


def test_size_names_of_rows_have_only_letters_digits_and_underscores() -> None:
    allowed = set(string.ascii_letters + string.digits + "_")
    assert all(set(row.size) <= allowed for row in ROWS)
