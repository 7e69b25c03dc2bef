"""Which job a resume means."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from ai4infra.errors import ConflictError, NotFoundError
from ai4infra.transfer.jobs import Job, command_again, find_job, newest_first
from ai4infra.transfer.outcome import State

OLD, NEW = "11111111-0000-4000-8000-000000000001", "11112222-0000-4000-8000-000000000002"


def job(
    job_id: str = OLD,
    state: State | None = "partial",
    started: str = "2026-12-01T10:00:00+00:00",
    source: str = "/data",
    target: str = "stx/c",
) -> Job:
    return Job(
        id=job_id,
        source=source,
        target=target,
        from_to="LocalBlob",
        started=started,
        state=state,
        reason="3 of 3 files were copied.",
        ordered=True,
    )


def newer(**more: str) -> Job:
    return job(NEW, started="2026-12-02T10:00:00+00:00", **more)


def test_the_newest_unfinished_job_of_the_same_ends_is_taken_up() -> None:
    assert find_job([job(), newer()], None, "/data", "stx/c").id == NEW
    earlier = job(NEW, "ok", started="2026-11-30T10:00:00+00:00")
    assert find_job([job(), earlier], None, "/data", "stx/c").id == OLD


def test_a_job_that_ended_without_a_word_can_be_taken_up() -> None:
    assert find_job([job(state=None)], None).id == OLD


def test_a_finished_job_is_not_taken_up() -> None:
    with pytest.raises(NotFoundError):
        find_job([job(state="ok")], None)
    with pytest.raises(ConflictError, match="finished"):
        find_job([job(state="ok")], OLD)


def test_jobs_with_other_ends_are_not_mistaken_for_one_another() -> None:
    with pytest.raises(NotFoundError, match="from /other to stx/c"):
        find_job([job()], None, "/other", "stx/c")


def test_different_copies_are_not_guessed_between() -> None:
    with pytest.raises(ConflictError) as caught:
        find_job([job(), newer(target="sty/c")], None)
    assert NEW[:8] in (caught.value.hint or "")


def test_the_start_of_an_id_is_enough_when_it_names_one_job() -> None:
    assert find_job([job(), newer()], "11112").id == NEW
    with pytest.raises(ConflictError, match="2 jobs"):
        find_job([job(), newer()], "1111")
    with pytest.raises(NotFoundError):
        find_job([job()], "9")


def test_jobs_are_listed_the_newest_first() -> None:
    assert [each.id for each in newest_first([job(), newer()])] == [NEW, OLD]


def test_a_record_is_read_as_it_was_written() -> None:
    assert msgspec.json.decode(msgspec.json.encode(job()), type=Job) == job()


def test_what_was_started_again_and_finished_is_not_left_to_take_up() -> None:
    with pytest.raises(NotFoundError):
        find_job([job(), job(NEW, "ok", started="2026-12-02T10:00:00+00:00")], None)


def test_a_job_that_cannot_be_taken_up_hides_none_that_can() -> None:
    cut_off = structs.replace(newer(target="sty/c"), ordered=False)
    assert find_job([job(), cut_off], None).id == OLD
    assert find_job([cut_off], None).id == NEW


def test_a_single_file_is_found_by_the_folder_that_it_was_copied_into() -> None:
    alone = structs.replace(job(source="/data/one", target="stx/c/x/one"), single_file=True)
    assert find_job([alone], None, "/data/one", "stx/c/x").id == OLD
    assert find_job([alone], None, "/data/one", "stx/c/x/one").id == OLD
    with pytest.raises(NotFoundError):
        find_job([structs.replace(alone, single_file=False)], None, "/data/one", "stx/c/x")


def test_what_azcopy_has_nothing_left_of_is_not_taken_up() -> None:
    with pytest.raises(ConflictError, match="finished"):
        find_job([structs.replace(job(), complete=True)], OLD)


def test_the_command_that_starts_again_can_be_copied_into_a_shell() -> None:
    odd = structs.replace(job(source="/my data", target="stx/c/a b/my data"), single_file=True)
    assert command_again(odd) == "ai4infra data copy '/my data' 'stx/c/a b' --overwrite never"
    assert command_again(structs.replace(job(), links="keep")).endswith(
        "copy /data stx/c --overwrite always --links keep"
    )
