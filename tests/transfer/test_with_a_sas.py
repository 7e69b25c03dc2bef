"""The real AzCopy against Azurite alone, with a SAS that is never shown; Azurite may go away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ai4infra.client import connect
from ai4infra.client_copy import CopyOptions, CopyReceipt
from ai4infra.errors import UsageError
from ai4infra.transfer.progress import Progress
from ai4infra.transfer.schedule import make_cap

if TYPE_CHECKING:
    from conftest import Blobs

pytestmark = [pytest.mark.peers, pytest.mark.slow]

AI4INFRA = (sys.executable, "-m", "ai4infra")


def copy(source: object, target: object, **more: Any) -> CopyReceipt:
    with connect() as azure:
        plan = azure.plan_copy(str(source), str(target), CopyOptions(allow_sas=True, **more))
        return azure.copy(plan)


def content(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def signature_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["sig"][0]


def test_a_folder_goes_up_and_comes_down_with_a_sas(
    blobs: Blobs, source: Path, tmp_path: Path
) -> None:
    up = copy(source, blobs.url("data/x"), verify=True)
    assert (up.state, up.files_done) == ("ok", 3)
    down = copy(blobs.url("data/x"), tmp_path / "back", verify=True)
    assert down.state == "ok"
    assert content(tmp_path / "back") == content(source)


def test_a_sas_is_refused_unless_it_is_allowed(blobs: Blobs, source: Path) -> None:
    with connect() as azure, pytest.raises(UsageError, match="A SAS was given"):
        azure.plan_copy(str(source), blobs.url("data/x"))


def test_the_signature_is_nowhere_in_output_files_and_errors(
    blobs: Blobs, source: Path, tmp_path: Path
) -> None:
    good, bad = blobs.url("data/x"), blobs.url("nothing/x")
    outputs = []
    for url in (good, bad):
        words = ["data", "copy", str(source), url, "--allow-sas", "--debug", "--verify"]
        done = subprocess.run([*AI4INFRA, *words], capture_output=True, check=False)
        outputs.append(done.stdout + done.stderr)
        assert done.returncode == (0 if url is good else 3)
    kept = [path.read_bytes() for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert len(kept) > 3
    secret = signature_of(good)
    for form in (secret, signature_of(good).replace("=", "%3D").replace("/", "%2F")):
        assert not any(form.encode() in text for text in [*outputs, *kept])


def test_azurite_that_goes_away_in_mid_copy_leaves_a_job_that_can_be_taken_up(
    blobs: Blobs, big: Path, tmp_path: Path
) -> None:
    target = blobs.url("data/x")
    options = CopyOptions(allow_sas=True, cap=make_cap(40), stall_seconds=3)
    gone: list[int] = []

    def stop(progress: Progress) -> None:
        if progress.files_total and not gone:
            gone.append(1)
            blobs.stop()

    with connect() as azure:
        receipt = azure.copy(azure.plan_copy(str(big), target, options), on_progress=stop)
        assert receipt.state in ("partial", "failed")
        assert receipt.exit_code != 0
        assert receipt.files_done != 6
        assert receipt.resumable

        with pytest.raises(UsageError, match="not stored"):
            azure.plan_resume(receipt.job)
        blobs.start()
        plan = azure.plan_resume(
            receipt.job, target=target, options=CopyOptions(allow_sas=True, verify=True)
        )
        resumed = azure.copy(plan)
    assert (resumed.state, resumed.files_done) == ("ok", 6)
    kept = [path.read_bytes() for path in (tmp_path / "work").rglob("*") if path.is_file()]
    secret = signature_of(target)
    for form in (secret, secret.replace("+", "%2B").replace("=", "%3D").replace("/", "%2F")):
        assert not any(form.encode() in text for text in kept)
    copy(target, tmp_path / "back")
    assert content(tmp_path / "back") == content(big)


def test_a_service_that_is_not_there_is_told_in_one_sentence(blobs: Blobs, source: Path) -> None:
    url = blobs.url("data/x")
    blobs.stop()
    done = subprocess.run(
        [*AI4INFRA, "data", "copy", str(source), url, "--allow-sas", "--stall-timeout", "2"],
        env={**os.environ, "AI4INFRA_OUTPUT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    assert len(errors) == 1
    assert "127.0.0.1" in errors[0]
    assert "does not answer" in errors[0]
    assert "Traceback" not in done.stderr


def test_jobs_are_written_down_without_the_sas(blobs: Blobs, source: Path, tmp_path: Path) -> None:
    copy(source, blobs.url("data/x"))
    (record,) = (tmp_path / "work" / "jobs").glob("*.json")
    job = json.loads(record.read_text("utf-8"))
    assert (job["target"], job["targetsSas"]) == ("sttrain/data/x", True)
