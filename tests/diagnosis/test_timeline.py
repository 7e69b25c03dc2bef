from __future__ import annotations

import pytest

from ai4infra.diagnosis.samples import CpuSample, DiskSample, GpuSample, NetSample, Sample
from ai4infra.diagnosis.series import Collector
from ai4infra.diagnosis.timeline import MAX_BINS, Drawn, draw


def drawn(*samples: Sample) -> Drawn:
    collected = Collector()
    collected.extend(samples)
    return draw(collected)


def gpu(time_s: float | None, utilization: float | None, name: str = "0") -> GpuSample:
    return GpuSample(time_s=time_s, gpu=name, utilization=utilization)


def test_all_kinds_are_over_the_same_time() -> None:
    found = drawn(
        gpu(100, 0.5),
        gpu(102, 0.7),
        DiskSample(time_s=101, device="sda", read_bytes_s=5e6),
        NetSample(time_s=102, interface="eth0", received_bytes_s=1e6),
        CpuSample(time_s=100, cpu="all", user=0.3, system=0.1, iowait=0.2),
    )
    values = {(c.kind, c.name): c.values for c in found.curves}
    assert values == {
        ("gpu", "0"): (0.5, None, 0.7),
        ("disk", "sda"): (None, 5e6, None),
        ("net", "eth0"): (None, None, 1e6),
        ("cpu", "busy"): (0.4, None, None),
        ("cpu", "waiting"): (0.2, None, None),
    }
    assert (found.begin_s, found.bin_s, found.clocked) == (100, 1, True)


def test_a_value_that_nobody_knows_is_no_curve() -> None:
    assert drawn(gpu(1, None), gpu(2, None)).curves == ()


def test_a_disk_that_does_not_tell_reads_from_writes_shows_both() -> None:
    found = drawn(DiskSample(time_s=1, device="sda", total_bytes_s=3e6))
    assert found.curves[0].values == (3e6,)


def test_a_long_capture_is_drawn_in_few_points_that_keep_the_mean() -> None:
    found = drawn(*(gpu(float(t), float(t % 2)) for t in range(10_000)))
    assert found.bins <= MAX_BINS
    assert found.curves[0].mean == pytest.approx(0.5, abs=0.01)


def test_gpus_are_in_the_order_of_their_numbers() -> None:
    found = drawn(*(gpu(1, 0.5, str(n)) for n in (10, 2, 0)))
    assert [c.name for c in found.curves] == ["0", "2", "10"]


def test_a_source_without_times_begins_at_the_left_and_is_told() -> None:
    found = drawn(
        gpu(None, 0.1), gpu(None, 0.2), DiskSample(time_s=48_000, device="a"), gpu(None, 1)
    )
    assert not found.clocked
    assert found.curves[0].values[:3] == (0.1, 0.2, 1)


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn() == Drawn(bin_s=1, bins=0, begin_s=0, clocked=True, curves=())
