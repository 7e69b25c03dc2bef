"""What became of a job, from its counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ai4infra.transfer.outcome import advice, judge, missed
from ai4infra.transfer.stream import Counters


def counted(
    total: int | None, completed: int = 0, failed: int = 0, skipped: int = 0, status: str = "?"
) -> Counters:
    return Counters(total=total, completed=completed, failed=failed, skipped=skipped, status=status)


def test_a_job_is_ok_when_every_file_is_counted_as_copied() -> None:
    found = judge(counted(3, 3))
    assert (found.state, found.exit_code, found.reason) == ("ok", 0, "3 of 3 files were copied.")


def test_a_job_that_says_it_completed_without_a_file_is_empty() -> None:
    found = judge(counted(0, status="Completed"))
    assert (found.state, found.exit_code) == ("empty", 1)


def test_an_empty_job_is_fine_for_those_who_say_so() -> None:
    found = judge(counted(0), allow_empty=True)
    assert (found.state, found.exit_code) == ("empty", 0)


def test_a_job_that_completed_with_skipped_files_is_partial_and_says_how_many() -> None:
    found = judge(counted(3, 1, skipped=2, status="CompletedWithSkipped"))
    assert (found.state, found.exit_code) == ("partial", 5)
    assert found.reason == "1 of 3 files were copied, 2 were skipped."


def test_skipped_files_are_fine_for_those_who_say_so() -> None:
    found = judge(counted(3, 1, skipped=2), allow_skipped=True)
    assert (found.state, found.exit_code, found.hint) == ("ok", 0, None)
    assert judge(counted(1, skipped=1)).reason == "0 of 1 files were copied, 1 was skipped."


def test_failed_files_are_partial_even_where_skipped_ones_are_allowed() -> None:
    found = judge(counted(3, 1, failed=1, skipped=1), allow_skipped=True)
    assert (found.state, found.exit_code) == ("partial", 5)
    assert "1 failed" in found.reason


def test_a_job_of_which_nothing_got_through_is_failed() -> None:
    found = judge(counted(3, failed=3))
    assert (found.state, found.exit_code) == ("failed", 1)


def test_a_status_of_completed_does_not_hide_files_that_were_not_reached() -> None:
    found = judge(counted(10, 4, status="Completed"))
    assert (found.state, found.reason) == (
        "partial",
        "4 of 10 files were copied, 6 were not reached.",
    )


def test_a_job_without_its_last_message_is_not_ok_though_all_is_counted() -> None:
    assert judge(counted(3, 3), ended=False).state == "partial"


def test_a_run_that_counts_nothing_is_failed_with_what_it_said() -> None:
    found = judge(None, ("Cannot perform copy due to error: no such host.\nmore",))
    assert (found.state, found.reason) == (
        "failed",
        "AzCopy ended without a count: Cannot perform copy due to error: no such host.",
    )


def test_a_run_that_says_nothing_at_all_is_failed() -> None:
    assert judge(None).state == "failed"
    assert judge(Counters(status="Completed")).state == "failed"


def test_a_job_that_was_stopped_before_it_found_anything_is_not_called_empty() -> None:
    assert judge(counted(0), stopped=True).state == "failed"


def test_being_throttled_is_advice() -> None:
    told = advice(Counters(server_busy_percent=12.0, advice=("use more cores",)))
    assert "busy for 12%" in told[0]
    assert told[1] == "use more cores"
    assert advice(Counters(server_busy_percent=None)) == ()


counts = st.integers(0, 50)


def test_a_job_that_is_stopped_when_all_is_copied_is_ok() -> None:
    assert judge(structs.replace(counted(3, 3), ordered=True), stopped=True).state == "ok"


def test_a_job_that_is_stopped_while_it_looks_for_files_is_not_ok_though_all_found_are_copied() -> (
    None
):
    for ordered in (False, None):
        found = judge(structs.replace(counted(3, 3), ordered=ordered), stopped=True)
        assert found.state == "partial"


@given(
    counts,
    counts,
    counts,
    counts,
    st.booleans(),
    st.booleans(),
    st.sampled_from([True, False, None]),
)
def test_only_a_job_that_copied_everything_is_ok(
    total: int,
    done: int,
    failed: int,
    skipped: int,
    ended: bool,
    stopped: bool,
    ordered: bool | None,
) -> None:
    counters = structs.replace(counted(total, done, failed, skipped), ordered=ordered)
    found = judge(counters, ended=ended, stopped=stopped)
    everything = bool(total) and done >= total and not failed and not skipped
    whole = ended and ordered is not False and not (stopped and ordered is None)
    assert (found.state == "ok") == (everything and whole)
    assert (found.exit_code == 0) == (found.state == "ok")


@pytest.mark.parametrize("status", ["Completed", "Failed", "CompletedWithErrors", "", "Odd"])
def test_the_status_makes_no_difference(status: str) -> None:
    assert judge(counted(2, 2, status=status)) == judge(counted(2, 2))


def test_a_crash_says_that_it_is_azcopys() -> None:
    assert judge(None, ("panic: boom",)).reason == "AzCopy ended without a count: panic: boom."


def test_fewer_files_than_were_looked_at_are_no_success() -> None:
    found = missed(judge(counted(1, 1)), counted(1, 1), 3, blobs=True)
    assert (found.state, found.exit_code) == ("partial", 5)
    assert found.reason.startswith("AzCopy saw 1 of the 3 files")
    assert "--links keep" in (found.hint or "")
    assert missed(judge(counted(3, 3)), counted(3, 3), 3, blobs=True).state == "ok"
