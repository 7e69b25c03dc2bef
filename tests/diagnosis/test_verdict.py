"""The verdict on machines whose cause is known."""

from __future__ import annotations

import random

import pytest
from hard_situations import hard_situations
from hypothesis import given, settings
from hypothesis import strategies as st
from situations import (
    H100,
    ONE_LOW,
    Situation,
    bundle,
    bursts,
    cpu,
    disk,
    flat,
    gpus,
    net,
    noisy,
    question,
    quiet_parts,
    situations,
    steps,
)

from ai4infra.diagnosis.rules import parse_rules, rules
from ai4infra.diagnosis.samples import GpuSample
from ai4infra.diagnosis.series import Collector
from ai4infra.diagnosis.verdict import diagnose

ALL = [*situations(), *hard_situations()]
DATA_CAUSES = {"fetch", "prep", "network", "checkpoint"}


def test_there_are_at_least_forty_situations_with_names_of_their_own() -> None:
    assert len({situation.name for situation in ALL}) == len(ALL) >= 40


@pytest.mark.parametrize("situation", ALL, ids=lambda situation: situation.name)
def test_the_cause_of_a_known_situation_is_found(situation: Situation) -> None:
    verdict = situation.judged().verdict
    assert verdict.cause == situation.cause
    assert verdict.starving == (situation.cause in DATA_CAUSES)
    assert situation.subject in (None, verdict.subject)
    assert verdict.gpus == situation.gpus
    assert situation.detail in (None, verdict.detail)


@pytest.mark.parametrize("situation", ALL, ids=lambda situation: situation.name)
def test_the_order_of_samples_does_not_matter(situation: Situation) -> None:
    if any(sample.time_s is None for sample in situation.samples):
        return
    shuffled = list(situation.samples)
    random.Random(3).shuffle(shuffled)  # noqa: S311 - the same order each time
    turned = situation._replace(samples=tuple(shuffled)).judged()
    assert turned.verdict.cause == situation.judged().verdict.cause
    assert [row.gpu for row in turned.gpus] == [row.gpu for row in situation.judged().gpus]


def find(name: str) -> Situation:
    return next(situation for situation in ALL if situation.name == name)


def test_what_is_lost_is_told_as_a_share_and_as_money() -> None:
    verdict = find("standard HDD behind eight GPUs").judged().verdict
    assert verdict.lost_share == pytest.approx(0.88, abs=0.02)
    assert verdict.lost_per_hour == pytest.approx(98.32 * 0.88, rel=0.03)


def test_without_a_price_no_money_is_named() -> None:
    situation = find("standard HDD behind eight GPUs")
    verdict = situation._replace(question=situation.question._replace(price_per_hour=None)).judged()
    assert verdict.verdict.lost_per_hour is None
    assert verdict.verdict.lost_share is not None


def test_a_cold_first_epoch_is_a_phase_and_no_alarm() -> None:
    found = find("cold first epoch over the network, then fed from the cache").judged()
    assert [(phase.phase, phase.judged) for phase in found.phases] == [
        ("cold-start", False),
        ("steady", True),
    ]
    assert found.phases[0].end_s - found.phases[0].start_s == 50
    assert "data copy" in str([fix.command for fix in found.fixes])


def test_time_before_and_after_the_job_is_not_judged() -> None:
    found = find("fed, between a late start and an early end").judged()
    assert [phase.phase for phase in found.phases] == ["idle", "steady", "idle"]
    assert found.gpus[0].utilization == pytest.approx(0.95)


def test_a_log_that_begins_and_ends_between_two_bursts_has_one_phase() -> None:
    found = Situation("", "", bundle(gpus(bursts(0.9, 0.0, 6, 0.3, offset=3)))).judged()
    assert [phase.phase for phase in found.phases] == ["steady"]


def test_only_the_starved_rank_is_called_starved() -> None:
    found = find("one starved rank among eight").judged()
    assert {row.gpu: row.state for row in found.gpus if row.state != "full"} == {"5": "starved"}
    assert found.verdict.sentence == "GPU 5 waits for data to be read from sdd."


def test_all_sources_on_one_clock_make_the_surest_verdict() -> None:
    sure = find("standard HDD behind eight GPUs").judged()
    unsure = find("disk waits while nobody logged the network").judged()
    no_clock = find("disk waits and the logs have no times").judged()
    assert [d.verdict.confidence for d in (sure, unsure, no_clock)] == ["high", "medium", "medium"]
    assert (sure.aligned, no_clock.aligned) == (True, False)
    assert "not on one clock" in " ".join(no_clock.warnings)


def test_logs_of_different_hours_are_not_taken_for_one_clock() -> None:
    found = Situation(
        "", "", bundle(gpus(noisy(0.2)), disk("sdc", 6e7, wait_ms=30, queue=9, start=7200))
    ).judged()
    assert not found.aligned


def test_what_nobody_looked_at_is_named_with_the_command_that_shows_it() -> None:
    missing = " ".join(find("low, and nobody looked at anything else").judged().missing)
    assert all(command in missing for command in ("iostat -x", "sar -n DEV", "sar -u"))
    split = " ".join(find("all GPUs are split").judged().missing)
    assert "dcgmi dmon -e 1001,1002" in split


def test_full_utilization_of_nvme_is_called_no_saturation() -> None:
    text = " ".join(
        e.text for e in find("%util of NVMe is full and nothing waits").judged().evidence
    )
    assert "%util 100 %, which is no saturation on NVMe" in text


def test_a_gpu_that_spins_is_told_apart_from_one_that_works() -> None:
    found = find("GPUs spin at 100 % with low power and idle memory").judged()
    assert {row.state for row in found.gpus} == {"spinning"}
    assert "memory activity 3 % and power 33 % of its limit" in found.evidence[0].text


def test_full_gpus_that_use_their_memory_do_not_spin_at_low_power() -> None:
    found = Situation("", "", bundle(gpus(flat(1.0), power=230.0), quiet_parts())).judged()
    assert found.verdict.cause == "gpu"


def test_the_power_limit_of_the_model_counts_where_the_log_names_none() -> None:
    situation = Situation(
        "", "", bundle(gpus(flat(1.0), memory=None, power=230.0, limit=None)), question(H100)
    )
    assert situation.judged().gpus[0].power_share == pytest.approx(230 / 700)
    assert situation.judged().verdict.cause == "other"


def test_fewer_gpus_than_the_size_has_is_said() -> None:
    found = Situation("", "", bundle(gpus(noisy(0.95), count=4)), question(H100)).judged()
    assert "4 of 8 GPUs were sampled" in " ".join(found.warnings)


def test_a_size_with_amd_gpus_is_said() -> None:
    asked = question("Standard_ND96isr_MI300X_v5")
    assert "AMD" in " ".join(Situation("", "", bundle(gpus(noisy(0.95))), asked).judged().warnings)


def test_the_fix_for_an_os_disk_comes_before_the_general_ones() -> None:
    fixes = find("cache of a mount on the OS disk").judged().fixes
    assert fixes[0].command == "ai4infra mount disks"
    assert len({fix.text for fix in fixes}) == len(fixes) >= 3


def test_readings_every_ten_seconds_lie_on_the_clock_of_readings_every_second() -> None:
    slow = [s for s in disk("sdc", 6e7, wait_ms=35, queue=12) if (s.time_s or 0) % 10 == 0]
    found = Situation("", "", (*bundle(gpus(noisy(0.1)), net(1e5), cpu(0.1)), *slow)).judged()
    assert found.aligned
    assert found.verdict.cause == "fetch"


def test_a_week_of_samples_is_kept_in_a_bounded_number_of_spans() -> None:
    collector = Collector()
    for hour in range(24 * 7):
        for minute in range(60):
            collector.extend(
                [GpuSample(time_s=hour * 3600.0 + minute * 60, gpu="0", utilization=1)]
            )
    series = collector.series["gpu"]
    assert len(series.cells) <= 2048
    assert sum(row["0"][0] for row in series.cells.values()) == 24 * 7 * 60


def test_every_number_of_the_verdict_has_its_reason() -> None:
    with pytest.raises(Exception, match="reason"):
        parse_rules("[limits]\ngpu_busy = { value = 0.8 }\n")
    assert rules().limits.gpu_busy == 0.8


def test_every_cause_that_starves_gpus_has_something_to_do_about_it() -> None:
    unconditional = {fix.cause for fix in rules().fixes if not fix.tags}
    assert unconditional >= DATA_CAUSES | {"other", "undetermined"}


floats = st.none() | st.floats(0, 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(floats, floats, st.none() | st.floats(0, 1e6)), max_size=60))
def test_no_readings_of_a_gpu_make_the_verdict_fail(rows: list[tuple[float | None, ...]]) -> None:
    collector = Collector()
    collector.extend(
        GpuSample(time_s=time, gpu="0", utilization=busy, power_w=power)
        for busy, power, time in rows
    )
    found = diagnose(collector)
    assert not found.verdict.starving


def test_the_lagging_gpu_is_found_wherever_it_is() -> None:
    for place in range(8):
        curves = [*ONE_LOW]
        curves[5], curves[place] = curves[place], curves[5]
        found = Situation("", "", bundle(gpus(curves), quiet_parts())).judged()
        assert found.verdict.gpus == (str(place),)


def test_a_step_down_is_judged_by_what_it_is_now() -> None:
    found = find("a cache that filled up in the middle").judged()
    assert [phase.phase for phase in found.phases] == ["steady", "degraded"]
    assert found.gpus[0].utilization == pytest.approx(0.2)


def test_two_steps_of_the_same_height_are_no_phase() -> None:
    busy = steps((30, 0.9), (30, 0.85), (30, 0.9), (30, 0.88))
    assert len(Situation("", "", bundle(gpus(busy))).judged().phases) == 1
