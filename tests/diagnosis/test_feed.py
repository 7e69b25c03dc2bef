from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.diagnosis import feed as f
from ai4infra.errors import UsageError


def done(mbytes_s: float, temperature: str = "cold", files: int = 100, size: int = 10**8) -> f.Pass:
    return f.Pass(
        temperature=temperature,  # type: ignore[arg-type]  # a literal of the record
        seconds=2.0,
        files=files,
        bytes=size,
        mbytes_s=mbytes_s,
        files_s=files / 2,
        median_ms=1,
        p95_ms=2,
        p99_ms=3,
        max_ms=4,
    )


def decoded(mbytes_s: float) -> f.Preparation:
    return f.Preparation(
        decode="a:b",
        workers=1,
        seconds=1,
        files=1,
        bytes=1,
        mbytes_s=mbytes_s,
        files_s=1,
        median_ms=1,
    )


@pytest.mark.parametrize(
    ("text", "bytes_s"),
    [
        ("1.6GB/s", 1.6e9),
        ("800 MB/s", 8e8),
        ("1GiB/s", 2**30),
        ("80Gbps", 1e10),
        ("100 Mbit/s", 12.5e6),
    ],
)
def test_a_rate_is_bytes_or_bits_a_second(text: str, bytes_s: float) -> None:
    assert f.parse_rate(text) == bytes_s


@pytest.mark.parametrize("text", ["", "1.6GB", "fast", "1.6GB/h", "-1GB/s", "0GB/s", "1.6gB"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        f.parse_rate(text)


@pytest.mark.parametrize(
    ("gpus", "workload", "mbytes_s", "samples_s"),
    [
        ("8xH100", "resnet50", 1638, 14286),
        ("8 x H100", "unet3d", 25417, 173.4),
        ("1xA100", "cosmoflow", 513.3, 181.5),
        ("Standard_ND96isr_H100_v5", "resnet50", 1638, 14286),
        ("2xND96isr_H100_v5", "resnet50", 3276, 28571),
    ],
)
def test_a_need_is_what_mlperf_storage_says(
    gpus: str, workload: str, mbytes_s: float, samples_s: float
) -> None:
    need = f.need_of_gpus(gpus, workload)
    assert need.mbytes_s == pytest.approx(mbytes_s, rel=0.002)
    assert need.samples_s == pytest.approx(samples_s, rel=0.002)


def test_cosmoflow_passes_at_70_percent_as_the_benchmark_says() -> None:
    assert f.need_of_gpus("1xA100", "cosmoflow").pass_percent == 70


@pytest.mark.parametrize(
    ("gpus", "workload", "words"),
    [
        ("8xH100", "resnet", "no workload"),
        ("8xB17", "resnet50", "no GPU"),
        ("0xH100", "resnet50", "not a number"),
        ("8xV100", "resnet50", "not published"),
    ],
)
def test_what_is_not_known_is_refused_with_a_way_on(gpus: str, workload: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        f.need_of_gpus(gpus, workload)
    assert caught.value.hint


def test_a_feed_above_the_need_carries_all_and_no_more() -> None:
    carried = f.carried(f.need_of_rate("1GB/s"), done(2500), None, None)
    assert (carried.gpu_percent, carried.fed) == (100, True)


def test_a_feed_below_the_need_carries_its_share() -> None:
    carried = f.carried(f.need_of_rate("1GB/s"), done(250), done(4000, "cached"), None)
    assert (carried.gpu_percent, carried.cached_gpu_percent, carried.fed) == (25, 100, False)
    assert "second epoch" in carried.said


def test_the_slower_of_fetch_and_preparation_decides() -> None:
    need = f.need_of_rate("1GB/s")
    slow = f.carried(need, done(2000), None, decoded(300))
    assert (slow.gpu_percent, slow.bound) == (30, "preparation")
    fast = f.carried(need, done(200), None, decoded(300))
    assert (fast.gpu_percent, fast.bound) == (20, "fetch")


def test_a_benchmark_that_passes_at_70_percent_calls_75_fed() -> None:
    need = f.need_of_gpus("1xA100", "cosmoflow")
    assert f.carried(need, done(need.mbytes_s * 0.75), None, None).fed


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [f.percentile(values, p) for p in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert f.percentile([7.0], 99) == 7.0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([50, 95, 99, 100]))
def test_so_many_percent_are_not_above_a_percentile(values: list[float], percent: int) -> None:
    ordered = sorted(values)
    found = f.percentile(ordered, percent)
    assert sum(v <= found for v in ordered) * 100 >= percent * len(ordered)


def test_nothing_read_is_no_pass() -> None:
    assert f.measured("cold", seconds=1, files=0, size=0, latencies=[]) is None


def test_a_mount_with_a_cache_of_its_own_is_not_called_cold() -> None:
    said = list(f.remarks(done(500, size=10**10), None, kind="BlobFuse2", mode="file cache"))
    assert "keeps what it has" in said[0]


def test_cold_reads_as_fast_as_cached_ones_are_doubted() -> None:
    cold, cached = done(950, size=10**10), done(1000, "cached", size=10**10)
    assert "as fast as" in next(f.remarks(cold, cached, kind="OS disk", mode=None))


@pytest.mark.parametrize(
    ("text", "bytes_s"),
    [
        ("1.6GBps", 1.6e9),
        ("800MiBps", 800 * 2**20),
        ("1.6Gb/s", 0.2e9),
        ("80gbps", 10e9),
        ("800 Mbit/s", 100e6),
        ("800mb/s", 800e6),
        ("1Tbps", 125e9),
    ],
)
def test_a_small_b_is_bits_and_a_large_one_bytes(text: str, bytes_s: float) -> None:
    assert f.parse_rate(text) == bytes_s


@pytest.mark.parametrize("text", ["0Gbps", "0GB/s", "-1Gbps", "1.6GBPS/s", "80G", "1e9B/s"])
def test_no_rate_is_no_need(text: str) -> None:
    with pytest.raises(UsageError):
        f.parse_rate(text)


def test_a_workload_is_known_in_any_case() -> None:
    assert f.need_of_gpus("8xH100", "ResNet50").basis.startswith("8 H100 on resnet50")


def test_a_pass_of_an_instant_is_little_to_go_by() -> None:
    short = msgspec.structs.replace(done(500), seconds=0.003)
    assert any("little to go by" in said for said in f.remarks(short, None, kind="x", mode=None))
    assert not any(
        "little to go by" in said for said in f.remarks(done(500), None, kind="x", mode=None)
    )


def test_what_another_fuse_mount_caches_is_said_to_be_unknown() -> None:
    [said, *_] = f.remarks(done(500), None, kind="other", mode=None, fstype="fuse.rclone")
    assert "is not known" in said
