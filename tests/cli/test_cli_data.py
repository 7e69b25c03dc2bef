"""``ai4infra data`` and ``ai4infra tools`` where nothing is copied: what is refused, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from support_azcopy import JOB, program

from ai4infra.tools.work import Work
from ai4infra.transfer.jobs import Job

if TYPE_CHECKING:
    from conftest import Run

SIGNATURE = "qzVERYsecretSIGNATURE"
URL = "https://sttrain.blob.core.windows.net/training-data/x"


@pytest.fixture
def azcopy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for AzCopy that fails at everything, and a folder for its plans."""
    path = program(tmp_path / "bin", "say('Error', 'no such thing'); sys.exit(1)")
    monkeypatch.setenv("AI4INFRA_AZCOPY", str(path))
    monkeypatch.setenv("AI4INFRA_WORK_DIR", str(tmp_path / "work"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").touch()
    return tmp_path / "src"


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path / "work")
    made.make()
    return made


def job(**more: object) -> Job:
    made = Job(
        id=JOB,
        source="/data",
        target="sttrain/training-data",
        from_to="LocalBlob",
        started="2026-12-01T10:00:00+00:00",
        state="partial",
        ordered=True,
    )
    return structs.replace(made, **more)


def test_without_azcopy_the_command_that_installs_it_is_told(real: Run, source: Path) -> None:
    ran = real("data", "copy", str(source), URL, PATH="/nowhere")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.splitlines() == [
        "ERROR: AzCopy is not on the path.",
        "hint: `ai4infra tools install azcopy` installs it; or get it from"
        " https://learn.microsoft.com/azure/storage/common/storage-use-azcopy-v10",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["SRC", "./b"], "Both ends are local"),
        (["nowhere", "sttrain/data"], "'nowhere' is neither there nor in a storage account"),
        (["SRC", "http://sttrain.blob.core.windows.net/data"], "is not a plain https URL"),
        (["SRC", f"{URL}?sv=1&sig={SIGNATURE}"], "A SAS was given"),
        (["SRC", URL, "--cap-mbps", "-1"], "is no rate"),
        (["SRC", URL, "--cap-hours", "08:00-18:00"], "need a rate"),
        (["SRC", URL, "--cap-mbps", "9", "--cap-hours", "08:00-18:00"], "needs a time zone"),
        (["SRC", URL, "--cap-mbps", "9", "--cap-hours", "8-9", "--tz", "UTC"], "are no hours"),
        (["SRC", URL, "--links", "copy"], "--links"),
        (["SRC", URL, "--overwrite", ""], "--overwrite"),
        (["SRC", URL, "--stall-timeout", "0"], "--stall-timeout"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_exit_code_2(
    real: Run, source: Path, words: list[str], said: str, azcopy: None
) -> None:
    ran = real("data", "copy", *(str(source) if word == "SRC" else word for word in words))
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert SIGNATURE not in ran.stderr


def test_the_sandbox_in_this_process_says_that_it_keeps_no_blobs(run: Run, source: Path) -> None:
    ran = run("data", "copy", str(source), "sttrain/training-data")
    assert ran.code == 2
    assert "ai4infra sandbox serve --data-plane" in ran.stderr


def test_a_listing_that_fails_is_one_sentence_and_copies_nothing(
    real: Run, source: Path, azcopy: None
) -> None:
    ran = real("data", "copy", str(source), f"{URL}?sv=1&sig={SIGNATURE}", "--allow-sas")
    assert (ran.code, ran.stdout) == (1, "")
    errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
    assert errors == ["ERROR: Cannot list sttrain/training-data/x: no such thing."]
    assert SIGNATURE not in ran.stderr


def test_no_jobs_are_an_empty_list(real: Run) -> None:
    ran = real("data", "jobs", "-o", "json")
    assert (ran.code, ran.json["jobs"]) == (0, [])
    assert "No copy was started" in real("data", "jobs").stdout


def test_jobs_are_listed_with_what_became_of_them(real: Run, work: Work) -> None:
    work.write(job(files_done=3, files_total=5))
    ran = real("data", "jobs", "--work-dir", str(work.folder))
    assert ran.lines[1].split() == [
        JOB[:8], "partial", "2026-12-01T10:00:00+00:00", "3", "5", "/data", "sttrain/training-data",
    ]  # fmt: skip


def test_a_job_that_ended_without_a_word_is_called_stopped(real: Run, work: Work) -> None:
    work.write(job(state=None))
    assert "stopped" in real("data", "jobs", "--work-dir", str(work.folder)).lines[1]


def test_nothing_to_resume_is_told(real: Run, azcopy: None) -> None:
    ran = real("data", "resume")
    assert (ran.code, ran.stdout) == (3, "")
    assert "There is no job to resume" in ran.stderr


def test_a_job_that_azcopy_cannot_take_up_says_how_to_start_it_again(
    real: Run, work: Work, azcopy: None
) -> None:
    work.write(job(ordered=False))
    ran = real("data", "resume")
    assert ran.code == 1
    assert "ai4infra data copy /data sttrain/training-data --overwrite never" in ran.stderr


def test_cleaning_says_what_went(real: Run, work: Work) -> None:
    work.write(job(state="ok"))
    folder = str(work.folder)
    assert real("data", "clean", "--work-dir", folder, "-o", "json").json["removed"]["jobs"] == 0
    cleaned = real("data", "clean", "--older-than", "0h", "--work-dir", folder, "-o", "json")
    assert cleaned.json["removed"]["jobs"] == 1
    assert work.read() == []


@pytest.mark.parametrize("age", ["soon", "", "7", "-1d"])
def test_an_age_that_is_none_is_refused(real: Run, age: str) -> None:
    assert real("data", "clean", "--older-than", age).code == 2


def test_azcopy_is_installed_from_a_file_and_found(real: Run, tmp_path: Path) -> None:
    made = program(tmp_path / "made", "")
    folder = tmp_path / "tools"
    ran = real(
        "tools", "install", "azcopy", "--from", str(made), "--dir", str(folder), "-o", "json"
    )
    assert ran.code == 0
    assert ran.json["tool"] == {"path": str(folder / "azcopy"), "version": "10.32.2"}


def test_a_file_without_azcopy_is_refused(real: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x", "utf-8")
    ran = real("tools", "install", "azcopy", "--from", str(tmp_path / "text"))
    assert (ran.code, ran.stdout) == (2, "")
    assert "is no program that this machine runs" in ran.stderr
