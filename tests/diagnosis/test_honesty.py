"""How sure a verdict is, and what it says is lost: never more than was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hard_situations import FED, LOCAL, LOW, SLOW, hard_situations
from situations import (
    H100,
    ONE_LOW,
    Situation,
    bundle,
    cpu,
    disk,
    flat,
    gpus,
    net,
    noisy,
    processes,
    question,
    quiet_parts,
    situations,
)

from ai4infra.diagnosis.answer import Question
from ai4infra.diagnosis.samples import GpuSample, Host, Sample

ALL = {situation.name: situation for situation in [*situations(), *hard_situations()]}


def test_a_lagging_rank_costs_what_it_loses_itself_while_its_peers_work() -> None:
    found = ALL["one starved rank among eight"].judged()
    assert found.verdict.lost_share == pytest.approx((0.82 + 7 * 0.03) / 8, abs=0.01)
    assert "where all are ranks of one job, they wait for it" in str(found.evidence)


def test_peers_that_spin_are_lost_with_the_rank_that_they_wait_for() -> None:
    verdict = ALL["one starved rank while the others spin in the all-reduce"].judged().verdict
    assert verdict.lost_share == pytest.approx(0.82, abs=0.01)


def test_what_busy_waiting_loses_is_not_known() -> None:
    verdict = ALL["GPUs spin at 100 % with low power and idle memory"].judged().verdict
    assert (verdict.lost_share, verdict.lost_per_hour) == (None, None)


def test_gpus_that_nobody_uses_are_no_cost_of_the_starved_ones() -> None:
    verdict = ALL["six of eight starve and two are not used"].judged().verdict
    assert verdict.lost_share == pytest.approx(0.88, abs=0.01)
    assert verdict.lost_per_hour == pytest.approx(98.32 * 0.88 * 6 / 8, rel=0.01)


def test_small_batches_are_a_guess_where_nobody_saw_the_loaders() -> None:
    quiet = bundle(gpus(LOW), quiet_parts())
    guess = Situation("", "", quiet, question()).judged()
    assert guess.verdict.confidence == "low"
    assert "Loader processes" in str(guess.missing)
    seen = Situation("", "", (*quiet, *processes(8, 0.3, 0.0)), question()).judged()
    assert (seen.verdict.cause, seen.verdict.confidence) == ("other", "medium")
    assert seen.missing == ()


def test_one_sign_of_busy_waiting_is_less_sure_than_two() -> None:
    one = ALL["kernel that waits in a collective, and nobody logged its memory"].judged()
    two = ALL["GPUs spin at 100 % with low power and idle memory"].judged()
    assert (one.verdict.confidence, two.verdict.confidence) == ("low", "medium")


def test_logs_of_different_hours_never_make_a_sure_verdict() -> None:
    parts = bundle(gpus(LOW), disk("sdc", 6e7, start=3600, **SLOW))
    found = Situation("", "", parts, question()).judged()
    assert found.verdict.confidence == "low"
    assert "one time zone" in " ".join(found.warnings)


def test_inflow_that_is_written_to_disks_may_be_a_copy() -> None:
    parts = bundle(gpus(LOW), disk("nvme1n1", 0.0, write=3e8), net(3e8, 1e6), cpu(0.1))
    assert Situation("", "", parts, question()).judged().verdict.confidence == "low"


def test_what_is_not_the_feed_is_said() -> None:
    backup = ALL["small batches, and a backup reads the OS disk"].judged()
    assert "sda is read from, and /data is elsewhere." in str(backup.evidence)
    early = ALL["small batches after a slow load of the model"].judged()
    assert "sdc is read from in 1" in str(early.evidence)
    copied = ALL["small batches from local NVMe, and a download"].judged()
    assert "/data is on a local disk" in str(copied.evidence)


def test_a_gpu_that_is_held_is_told_from_one_that_waits() -> None:
    held = ALL["one GPU is held by a notebook beside seven at work, and a disk is slow"].judged()
    assert (held.gpus[7].state, held.gpus[7].note) == (
        "unused",
        "60 GB are held, and nothing computes",
    )


def test_a_short_capture_is_less_sure() -> None:
    assert ALL["twenty seconds of a starved job"].judged().verdict.confidence == "medium"


@pytest.mark.parametrize("device", ["nvme1n1", "nvme0n1"])
def test_a_busy_local_nvme_never_starves_gpus_by_its_utilisation(device: str) -> None:
    for queue in (1.0, 4.0, 7.0):
        parts = bundle(
            gpus(LOW), disk(device, 3e9, wait_ms=1.5, queue=queue, busy=1.0), net(1e5), cpu(0.2)
        )
        asked = question(H100, mounts=(LOCAL,) if device == "nvme1n1" else ())
        assert not Situation("", "", parts, asked).judged().verdict.starving


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_any_number_of_fed_gpus_is_no_alarm_whatever_else_goes_on(count: int) -> None:
    for sources in (quiet_parts(), disk("sdc", 9e7, **SLOW), net(9.9e9, 1e6), cpu(0.99)):
        found = Situation("", "", bundle(gpus(FED, count=count), sources), question(H100)).judged()
        assert (found.verdict.cause, found.verdict.starving) == ("gpu", False)


def test_no_verdict_on_a_fed_or_unknown_machine_says_starving() -> None:
    harmless = [s for s in ALL.values() if s.cause in ("gpu", "idle", "other", "undetermined")]
    assert len(harmless) > 50
    assert not [s.name for s in harmless if s.judged().verdict.starving]


def test_a_rank_that_alone_is_unknown_does_not_change_the_others() -> None:
    curves = [*ONE_LOW]
    curves[5] = flat(None)
    found = Situation("", "", bundle(gpus(curves), quiet_parts()), question()).judged()
    assert found.verdict.cause == "gpu"
    assert found.gpus[5].state == "unknown"


def ended(samples: Iterable[Sample], gpu: str, at_s: float, *, silent: bool) -> Iterator[Sample]:
    """The readings, of one GPU only up to a time; what is silent still has rows."""
    for sample in samples:
        if not isinstance(sample, GpuSample) or sample.gpu != gpu or (sample.time_s or 0) < at_s:
            yield sample
        elif silent:
            yield GpuSample(time_s=sample.time_s, gpu=gpu)


@pytest.mark.parametrize("silent", [False, True])
def test_a_gpu_that_is_lost_midway_is_said_and_the_others_are_judged(silent: bool) -> None:
    curves = [noisy(0.95)] * 7 + [noisy(0.05)]
    readings = ended(gpus(curves), "7", 1040, silent=silent)
    found = Situation("", "", bundle(readings, quiet_parts()), question()).judged()
    assert (found.verdict.cause, found.verdict.gpus) == ("gpu", ())
    assert (found.gpus[7].state, found.gpus[0].state) == ("lost", "full")
    assert "GPU 7 has no reading in the last 67 % of the time." in str(found.evidence)


def test_a_reading_less_at_the_end_is_no_lost_gpu() -> None:
    readings = ended(gpus(noisy(0.95)), "7", 1117, silent=False)
    assert Situation("", "", bundle(readings)).judged().gpus[7].state == "full"


def test_a_machine_without_gpus_is_not_told_to_be_watched() -> None:
    asked = Question(host=Host(tool="ai4infra", gpus=0))
    found = Situation("", "", bundle(quiet_parts()), asked).judged()
    assert (found.verdict.cause, found.verdict.detail) == ("undetermined", "no-gpu")
    assert [fix.command for fix in found.fixes] == ["nvidia-smi -L"]
    assert not [line for line in found.missing if "--gpu" in line]


def test_instances_are_judged_in_place_of_the_split_gpu_that_has_no_utilization() -> None:
    instances = [
        GpuSample(time_s=sample.time_s, gpu="7/3", utilization=0.95, memory_used_bytes=1e10)
        for sample in gpus(FED, count=1)
        if isinstance(sample, GpuSample)
    ]
    rows = bundle(gpus([FED] * 8, mig=(7,)), iter(instances), quiet_parts())
    found = Situation("", "", rows, question(H100)).judged()
    assert [row.gpu for row in found.gpus][-1] == "7/3"
    assert len(found.gpus) == 8
    assert (found.missing, found.warnings) == ((), ())
