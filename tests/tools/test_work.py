"""The folder of plans, logs and records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec import structs

from ai4infra.errors import Ai4infraError
from ai4infra.tools.work import Work, is_running, known_works, open_work
from ai4infra.transfer.jobs import Job
from ai4infra.transfer.stream import Transfer

DONE, OPEN = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
NOW = datetime.now(timezone.utc)


def job(job_id: str = DONE, **more: object) -> Job:
    made = Job(
        id=job_id,
        source="/data",
        target="stx/c",
        from_to="LocalBlob",
        started="2026-12-01T10:00:00+00:00",
        state="ok",
    )
    return structs.replace(made, **more)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path / "work")
    made.make()
    for job_id in (DONE, OPEN):
        (made.plans / f"{job_id}--00000.steV20").write_bytes(b"plan")
        (made.logs / f"{job_id}.log").write_bytes(b"log")
    made.write(job())
    made.write(job(OPEN, state="partial"))
    return made


def age(work: Work, days: float) -> None:
    then = time.time() - days * 86_400
    for path in work.folder.rglob("*"):
        os.utime(path, (then, then))


def left(work: Work) -> set[str]:
    return {path.name[:36] for path in work.folder.rglob("*") if path.is_file()}


def test_a_record_comes_back_and_what_cannot_be_read_is_left_out(work: Work) -> None:
    (work.jobs / "broken.json").write_text("{", "utf-8")
    assert {each.id for each in work.read()} == {DONE, OPEN}


def test_only_we_may_look_into_the_folder(work: Work) -> None:
    assert work.folder.stat().st_mode & 0o077 == 0


def test_finished_jobs_go_after_a_week_and_others_after_three_months(work: Work) -> None:
    age(work, 6)
    assert work.prune(NOW).jobs == 0
    age(work, 8)
    assert (work.prune(NOW).jobs, left(work)) == (1, {OPEN})
    age(work, 91)
    assert (work.prune(NOW).jobs, left(work)) == (1, set())


def test_an_age_that_is_asked_for_holds_for_all_and_says_what_went(work: Work) -> None:
    age(work, 2)
    removed = work.prune(NOW, older_than=timedelta(days=1))
    assert (removed.jobs, removed.files) == (2, 6)
    assert removed.size_bytes > 0


def test_a_log_without_a_record_goes_after_a_week(work: Work) -> None:
    orphan = work.logs / "33333333-0000-4000-8000-000000000003-scanning.log"
    orphan.touch()
    age(work, 8)
    work.prune(NOW)
    assert not orphan.exists()


def test_files_that_are_not_azcopys_are_never_removed(work: Work) -> None:
    (work.logs / "notes.txt").touch()
    age(work, 1000)
    work.prune(NOW)
    assert (work.logs / "notes.txt").exists()


def test_a_running_job_is_not_removed(work: Work, tmp_path: Path) -> None:
    azcopy = tmp_path / "azcopy"
    azcopy.symlink_to(sys.executable)
    words = [str(azcopy), "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # until then the kernel may show no command line yet
        running = job(state=None, process=process.pid)
        work.write(running)
        age(work, 1000)
        assert is_running(running)
        work.prune(NOW)
        assert DONE in left(work)


def test_another_program_with_the_number_of_an_azcopy_that_ended_is_no_running_job() -> None:
    assert not is_running(job(process=os.getpid()))
    assert not is_running(job(process=2**22 + 1))
    assert not is_running(job())


def test_failed_files_are_written_one_per_line(work: Work, tmp_path: Path) -> None:
    rows = [Transfer(source="/a\nb", target="t", status="Failed", code="403")]
    path = work.write_failures(DONE, rows, None)
    assert path.read_text("utf-8").count("\n") == 1
    assert work.write_failures(DONE, rows, tmp_path / "mine") == tmp_path / "mine"
    with pytest.raises(Ai4infraError, match="cannot be written"):
        work.write_failures(DONE, rows, tmp_path / "no" / "folder")


def test_a_folder_that_is_named_is_used_and_made(tmp_path: Path) -> None:
    given = open_work({}, tmp_path / "given", 0)
    assert given.plans.is_dir()
    by_env = open_work({"AI4INFRA_WORK_DIR": str(tmp_path / "env")}, None, 0)
    assert by_env.folder == tmp_path / "env"


def test_without_a_name_it_is_in_the_state_folder_and_found_again(tmp_path: Path) -> None:
    env = {"AI4INFRA_STATE_DIR": str(tmp_path)}
    assert known_works(env, None) == []
    work = open_work(env, None, 0)
    assert work.folder == tmp_path / "azcopy"
    assert [each.folder for each in known_works(env, None)] == [work.folder]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Ai4infraError, match="cannot be kept in") as caught:
        open_work({}, tmp_path / "file" / "work", 0)
    assert "--work-dir" in (caught.value.hint or "")


def test_an_azcopy_of_another_name_is_a_running_job_too() -> None:
    code = "print('up', flush=True); input()"
    words = [sys.executable, "-c", code, "copy", "--output-type", "json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_running(job(process=process.pid))
        process.communicate(b"\n")


def test_a_record_that_cannot_be_written_is_told_in_one_sentence(work: Work) -> None:
    (work.jobs / f"{OPEN}.new").mkdir()
    with pytest.raises(Ai4infraError, match="cannot be written to"):
        work.write(job(OPEN))


def test_a_folder_that_is_named_needs_room_too(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="AzCopy's plans and logs need") as caught:
        open_work({}, tmp_path / "given", 1 << 60)
    assert "--work-dir" in (caught.value.hint or "")
