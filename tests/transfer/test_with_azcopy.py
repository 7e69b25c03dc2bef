"""The real AzCopy against the real Azurite, with the identity that the served sandbox gives out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ai4infra.client import Azure
from ai4infra.client_copy import CopyOptions, CopyReceipt
from ai4infra.errors import Ai4infraError, ConflictError, ForbiddenError, NotFoundError, UsageError
from ai4infra.transfer.progress import Progress
from ai4infra.transfer.schedule import make_cap

pytestmark = [pytest.mark.peers, pytest.mark.slow]

ACCOUNT, OTHER, CONTAINER = "sttrain", "stother", "training-data"
AWKWARD = (
    *("a b", "ünï", "日本", "q?m", "h#h", "p%41", "a&b=c", "plus+", "st*r", 'quote"', "apos'"),
    *("semi;colon", "colon:", " lead", "trail ", "e@", "tilde~", "[br]", "{cu}", "$do", "^", "`"),
    *("|", "<", "😀", ".hidden", "a,b", "-dash", "100%"),
)


def copy(azure: Azure, source: object, target: object, **more: Any) -> CopyReceipt:
    return azure.copy(azure.plan_copy(str(source), str(target), CopyOptions(**more)))


def content(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ai4infra", *words]


def ai4infra(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


# --- there and back


def test_a_folder_goes_up_and_comes_down_the_same(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    up = copy(azure, source, home, verify=True)
    assert (up.state, up.files_done, up.bytes_done) == ("ok", 3, 100_003)
    assert up.verification is not None
    assert up.verification.passed

    down = copy(azure, home, tmp_path / "back", verify=True)
    assert (down.state, down.files_done) == ("ok", 3)
    assert content(tmp_path / "back") == content(source)


def test_an_upload_stores_md5_so_that_a_copy_between_accounts_can_be_verified(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    other = home.replace(ACCOUNT, OTHER)
    copy(azure, source, home)
    across = copy(azure, home, other, verify=True)
    assert across.state == "ok"
    assert across.verification is not None
    assert (across.verification.passed, across.verification.md5_compared) == (True, 3)

    copy(azure, other, tmp_path / "back")
    assert content(tmp_path / "back") == content(source)


def test_a_copy_between_accounts_that_needs_the_sources_role_is_refused_without_it(
    azure: Azure, home: str
) -> None:
    plan = azure.plan_unassign("Storage Blob Data Contributor", "me", _account_id(azure, OTHER))
    azure.apply(plan)
    try:
        with pytest.raises(ForbiddenError) as caught:
            azure.plan_copy(f"{OTHER}/{CONTAINER}/x", home)
        assert "ai4infra rbac assign" in (caught.value.hint or "")
        with pytest.raises(ForbiddenError, match="Storage Blob Data Contributor"):
            azure.plan_copy("/etc/hostname", f"{OTHER}/{CONTAINER}")
    finally:
        azure.apply(
            azure.plan_assign("Storage Blob Data Contributor", "me", _account_id(azure, OTHER))
        )


def _account_id(azure: Azure, name: str) -> str:
    return azure.storage_account(name).id


def test_a_single_file_goes_into_the_folder_both_ways(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    up = copy(azure, source / "one.bin", home, verify=True)
    assert (up.target, up.state) == (f"{home}/one.bin", "ok")
    assert up.verification is not None
    assert up.verification.passed
    down = copy(azure, f"{home}/one.bin", tmp_path / "back", verify=True)
    assert down.state == "ok"
    assert content(tmp_path / "back") == {"one.bin": (source / "one.bin").read_bytes()}


def test_awkward_names_survive_the_way_there_and_back(
    azure: Azure, home: str, tmp_path: Path
) -> None:
    source = tmp_path / "awk ward%20"
    for name in AWKWARD:
        (source / name).mkdir(parents=True)
        (source / name / name).write_text(name, "utf-8")
    up = copy(azure, source, f"{home}/ü n%20", verify=True)
    assert (up.state, up.files_done) == ("ok", len(AWKWARD))
    assert up.verification is not None
    assert up.verification.passed
    across = copy(azure, f"{home}/ü n%20", home.replace(ACCOUNT, OTHER))
    assert across.state == "ok"
    copy(azure, home.replace(ACCOUNT, OTHER), tmp_path / "back")
    assert content(tmp_path / "back") == content(source)


def test_links_can_be_followed_skipped_and_kept(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    (source / "link").symlink_to("one.bin")
    for links, files in (("follow", 4), ("skip", 3), ("keep", 4)):
        found = copy(azure, source, f"{home}/{links}", links=links, verify=True)
        assert (found.state, found.files_done) == ("ok", files), links
        assert found.verification is not None
        assert found.verification.passed, links
    copy(azure, f"{home}/keep", tmp_path / "back", links="keep")
    assert (tmp_path / "back" / "link").readlink() == Path("one.bin")

    silent = copy(azure, f"{home}/keep", tmp_path / "other")
    assert (silent.state, silent.exit_code) == ("partial", 5)
    assert "--links keep" in (silent.hint or "")


def test_a_resume_keeps_the_choices_and_the_cap_of_its_job(
    azure: Azure, home: str, big: Path
) -> None:
    (big / "link").symlink_to("0.bin")
    with pytest.raises(UsageError, match="cannot keep links"):
        azure.plan_copy(str(big), home, CopyOptions(links="keep", overwrite="never"))
    options = CopyOptions(links="follow", overwrite="never", cap=make_cap(40))
    plan = azure.plan_copy(str(big), home, options)

    def kill(progress: Progress) -> None:
        (job,) = azure.data_jobs()
        if job.process and job.ordered:
            os.kill(job.process, signal.SIGKILL)

    azure.copy(plan, on_progress=kill)
    again = azure.plan_resume(options=CopyOptions(verify=True))
    assert (again.options.links, again.options.overwrite) == ("follow", "never")
    assert (again.options.cap, again.preview.cap) == (make_cap(40), "40 Mbit/s (5 MB/s)")
    resumed = azure.copy(again)
    # A file that was finished and not noted when AzCopy was killed is there, and skipped.
    assert (resumed.files_failed, resumed.exit_code) == (0, 0)
    assert resumed.verification is not None
    assert (resumed.verification.source_files, resumed.verification.passed) == (7, True)


def test_a_skip_that_was_asked_for_leaves_nothing_to_take_up(
    azure: Azure, home: str, source: Path
) -> None:
    copy(azure, source, home)
    kept = copy(azure, source, home, overwrite="never")
    assert (kept.files_skipped, kept.resumable) == (3, False)
    with pytest.raises(NotFoundError, match="no job"):
        azure.plan_resume()


def test_a_difference_among_files_that_were_left_is_no_success(
    azure: Azure, home: str, source: Path
) -> None:
    copy(azure, source, home)
    (source / "one.bin").write_bytes(b"longer now, " * 9_999)
    for overwrite in ("never", "always"):
        found = copy(azure, source, home, overwrite=overwrite, verify=True)
        assert found.verification is not None
        assert found.verification.passed is (overwrite == "always")
        assert (found.state, found.exit_code) == (
            ("ok", 0) if found.verification.passed else ("partial", 5)
        )
        assert ("with another size: 'one.bin'" in found.reason) is not found.verification.passed


def test_nothing_is_copied_into_itself(azure: Azure, home: str, source: Path) -> None:
    copy(azure, source, home)
    for target in (home, f"{home}/deeper"):
        with pytest.raises(UsageError, match="into itself"):
            azure.plan_copy(home, target, CopyOptions(overwrite="always"))


def test_a_blob_that_is_a_folder_too_is_refused_on_the_way_down(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    copy(azure, source / "one.bin", home)
    with pytest.raises(UsageError, match=r"one\.bin' is on the target already"):
        copy(azure, source, f"{home}/one.bin")
    copy(azure, source, f"{home}/one.bin", overwrite="always")
    with pytest.raises(Ai4infraError, match=r"one\.bin is a file and a folder"):
        azure.plan_copy(home, str(tmp_path / "back"))


def test_empty_folders_can_be_kept_below_a_folder(azure: Azure, home: str, source: Path) -> None:
    (source / "empty").mkdir()
    found = copy(azure, source, home, empty_folders="keep", verify=True)
    assert found.state == "ok"
    assert found.verification is not None
    assert found.verification.passed
    with pytest.raises(UsageError, match="right below a container"):
        azure.plan_copy(
            str(source),
            f"{OTHER}/{CONTAINER}",
            CopyOptions(empty_folders="keep", overwrite="always"),
        )


# --- what is there already


def test_what_the_target_has_already_needs_a_choice(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    copy(azure, source, home)
    with pytest.raises(UsageError) as caught:
        azure.plan_copy(str(source), home)
    assert "--overwrite" in (caught.value.hint or "")
    assert copy(azure, source, home, overwrite="always").files_done == 3
    kept = copy(azure, source, home, overwrite="never")
    assert (kept.files_skipped, kept.exit_code) == (3, 0)
    copy(azure, home, tmp_path / "back")
    with pytest.raises(UsageError):
        azure.plan_copy(home, str(tmp_path / "back"))


def test_files_beside_those_that_are_copied_are_no_conflict(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    copy(azure, source / "one.bin", f"{home}/other")
    found = copy(azure, source, home, verify=True)
    assert found.state == "ok"
    assert found.verification is not None
    assert (found.verification.passed, found.verification.extra) == (True, 1)


# --- what is refused


def test_a_container_or_account_or_path_that_is_not_there_is_told(
    azure: Azure, home: str, source: Path
) -> None:
    with pytest.raises(NotFoundError, match="no container nothing") as caught:
        azure.plan_copy(str(source), f"{ACCOUNT}/nothing")
    assert "ai4infra storage create" in (caught.value.hint or "")
    with pytest.raises(NotFoundError, match="sttrian") as caught:
        azure.plan_copy(str(source), f"sttrian/{CONTAINER}")
    assert ACCOUNT in (caught.value.hint or "")
    with pytest.raises(NotFoundError, match="no blobs"):
        azure.plan_copy(f"{home}/nothing", "/tmp/x")  # noqa: S108 - nothing is written


def test_no_token_goes_to_an_address_that_is_not_the_accounts(azure: Azure, source: Path) -> None:
    with pytest.raises(UsageError, match=r"No token is sent to 127\.0\.0\.1:9"):
        azure.plan_copy(str(source), f"https://127.0.0.1:9/{ACCOUNT}/{CONTAINER}")


def test_a_look_says_what_would_be_copied_and_copies_nothing(
    azure: Azure, home: str, source: Path
) -> None:
    preview = azure.plan_copy(str(source), home).preview
    assert (preview.files, preview.size_bytes, preview.identity) == (3, 100_003, "msi")
    assert preview.example is not None
    assert preview.example.startswith(f"{home}/")
    with pytest.raises(NotFoundError):
        azure.plan_copy(home, "/tmp/x")  # noqa: S108 - nothing is written


def test_a_source_that_vanishes_in_mid_copy_is_partial_and_named_in_a_file(
    azure: Azure, home: str, big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else AzCopy has read all of it before the first word.
    monkeypatch.setenv("AZCOPY_BUFFER_GB", "0.01")
    plan = azure.plan_copy(
        str(big), home, CopyOptions(failures=tmp_path / "failed", cap=make_cap(40))
    )

    def vanish(progress: Progress) -> None:
        for path in big.iterdir():
            path.unlink()

    receipt = azure.copy(plan, on_progress=vanish)
    assert receipt.state in ("partial", "failed")
    assert receipt.exit_code in (5, 1)
    rows = [json.loads(line) for line in (tmp_path / "failed").read_text("utf-8").splitlines()]
    assert len(rows) == receipt.files_failed
    assert all(row["source"].startswith(str(big)) for row in rows)


# --- stopped and taken up


def test_a_copy_whose_azcopy_is_killed_is_taken_up(
    azure: Azure, home: str, big: Path, tmp_path: Path
) -> None:
    plan = azure.plan_copy(str(big), home, CopyOptions(cap=make_cap(40)))

    def kill(progress: Progress) -> None:
        (job,) = azure.data_jobs()
        if job.process and job.ordered:
            os.kill(job.process, signal.SIGKILL)

    receipt = azure.copy(plan, on_progress=kill)
    assert receipt.state in ("partial", "failed")
    assert receipt.resumable
    resumed = azure.copy(azure.plan_resume(source=str(big), target=home))
    assert (resumed.state, resumed.job, resumed.files_done) == ("ok", receipt.job, 6)
    copy(azure, home, tmp_path / "back")
    assert content(tmp_path / "back") == content(big)
    with pytest.raises(ConflictError, match="finished"):
        azure.plan_resume(receipt.job)


def test_ctrl_c_leaves_a_job_and_says_how_to_go_on(azure: Azure, home: str, big: Path) -> None:
    words = command("data", "copy", str(big), home, "--cap-mbps", "40", "--progress", "json")
    words += ["-o", "json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("{") and json.loads(line)["filesTotal"] == 6:
                process.send_signal(signal.SIGINT)
                break
        output, errors = process.communicate()
    assert process.returncode == 130, errors
    (job,) = azure.data_jobs()
    assert f"ai4infra data resume {job.id[:8]}" in errors
    assert "Traceback" not in errors
    told = json.loads(output)["copy"]
    assert (told["job"], told["exitCode"]) == (job.id, 130)

    done = ai4infra("data", "resume", job.id[:8], "--verify", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["copy"]
    assert (found["state"], found["job"], found["filesDone"]) == ("ok", job.id, 6)


def test_a_polite_end_of_the_process_stops_azcopy_gently_too(
    azure: Azure, home: str, big: Path
) -> None:
    words = command("data", "copy", str(big), home, "--cap-mbps", "40", "--progress", "json")
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
        next(line for line in lines if line["filesTotal"] == 6)
        process.terminate()
        process.communicate()
    assert process.returncode == 130
    (job,) = azure.data_jobs()
    assert (job.process, job.ordered) == (None, True)


# --- caps


def test_a_capped_copy_is_no_faster_than_its_cap(azure: Azure, home: str, big: Path) -> None:
    receipt = copy(azure, big, home, cap=make_cap(80))
    assert receipt.state == "ok"
    assert receipt.megabytes_per_second is not None
    assert receipt.megabytes_per_second <= 10 * 1.2


def test_at_the_end_of_the_hours_the_job_goes_on_without_its_cap(
    azure: Azure, home: str, big: Path, tmp_path: Path
) -> None:
    cap = make_cap(8, "08:00-18:00", "America/Sao_Paulo")
    evening = datetime(2026, 12, 1, 20, 59, tzinfo=timezone.utc)
    plan = azure.plan_copy(str(big), home, CopyOptions(cap=cap))
    seen: list[Progress] = []
    said: list[str] = []

    def now() -> datetime:
        return evening + timedelta(minutes=2) if seen else evening

    receipt = azure.copy(plan, on_progress=seen.append, say=said.append, now=now)
    assert (receipt.state, receipt.files_done) == ("ok", 6)
    assert said == ["the cap ends"]
    assert [seen[0].capped, seen[-1].capped] == [True, False]
    copy(azure, home, tmp_path / "back")
    assert content(tmp_path / "back") == content(big)


# --- on the command line


def test_a_copy_from_the_command_line_prints_one_document_and_nothing_else(
    azure: Azure, home: str, source: Path
) -> None:
    done = ai4infra("data", "copy", str(source), home, "--verify", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kind"], found["copy"]["state"]) == ("data copy", "ok")
    assert found["copy"]["verification"]["checked"]

    listed = ai4infra("data", "jobs", "-o", "json")
    assert [job["state"] for job in json.loads(listed.stdout)["jobs"]] == ["ok"]
    cleaned = ai4infra("data", "clean", "--older-than", "0h", "-o", "json")
    assert json.loads(cleaned.stdout)["removed"]["jobs"] == 1
    assert json.loads(ai4infra("data", "jobs", "-o", "json").stdout)["jobs"] == []


def test_a_copy_that_fails_in_part_exits_5_and_says_where_the_failed_files_are(
    azure: Azure, home: str, source: Path, tmp_path: Path
) -> None:
    copy(azure, source, home)
    (tmp_path / "back" / "one.bin" / "in the way").mkdir(parents=True)
    done = ai4infra(
        "data", "copy", home, str(tmp_path / "back"), "--overwrite", "always", "-o", "json"
    )
    assert done.returncode == 5, done.stderr
    found = json.loads(done.stdout)["copy"]
    assert (found["state"], found["filesDone"], found["filesFailed"]) == ("partial", 2, 1)
    (row,) = Path(found["failuresFile"]).read_text("utf-8").splitlines()
    assert json.loads(row)["source"].endswith("/one.bin")
    assert "2 of 3 files were copied, 1 failed." in done.stderr
    assert f"ai4infra data resume {found['job'][:8]}" in done.stderr
