"""AzCopy's output, line by line. The shapes are those of AzCopy 10.32.2."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ai4infra.transfer.stream import (
    TEXT,
    Counters,
    Listed,
    Transcript,
    first_sentence,
    parse_line,
    read_counters,
    read_listed,
    service_code,
)

JOB = "714d21e6-1d64-984e-4ee2-38d2d29621f9"
FAILED = {
    "Src": "/data/a b.txt",
    "Dst": "https://stx.blob.core.windows.net/c/a%20b.txt",
    "IsFolderProperties": False,
    "TransferStatus": "Failed",
    "TransferSize": 6,
    "ErrorCode": "403",
}
COUNTERS = {
    "ErrorMsg": "",
    "JobID": JOB,
    "ActiveConnections": "18",
    "CompleteJobOrdered": True,
    "JobStatus": "InProgress",
    "TotalTransfers": "5045",
    "TransfersCompleted": "12",
    "TransfersFailed": "1",
    "TransfersSkipped": "0",
    "BytesOverWire": "21037056",
    "TotalBytesTransferred": "20000000",
    "TotalBytesExpected": "120000000",
    "PercentComplete": "16.7",
    "ServerBusyPercentage": "7.5",
    "NetworkErrorPercentage": "0",
    "FailedTransfers": [FAILED],
    "SkippedTransfers": None,
    "PerformanceAdvice": None,
    "SkippedSymlinkCount": "2",
    "SkippedSpecialFileCount": "0",
}
CONTAINER_ERROR = (
    "failed to traverse container: cannot list files due to reason GET https://stx/nocont\n"
    "-----\nRESPONSE 404: 404 The specified container does not exist.\n"
    "ERROR CODE: ContainerNotFound\n-----\n"
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def line(kind: str, content: Any) -> str:
    said = content if isinstance(content, str) else json.dumps(content)
    prompt = {"PromptType": "", "ResponseOptions": None, "PromptTarget": ""}
    return json.dumps(
        {
            "TimeStamp": "2026-12-01T13:25:01.175552676Z",
            "MessageType": kind,
            "MessageContent": said,
            "PromptDetails": prompt,
        }
    )


def heard(*lines: str | bytes) -> Transcript:
    transcript = Transcript()
    for each in lines:
        envelope = parse_line(each)
        if envelope is not None:
            transcript.hear(envelope)
    return transcript


def test_counters_that_are_sent_as_text_are_numbers() -> None:
    found = read_counters(COUNTERS)
    assert (found.job, found.status, found.ordered) == (JOB, "InProgress", True)
    assert (found.total, found.completed, found.failed, found.skipped) == (5045, 12, 1, 0)
    assert (found.bytes_done, found.bytes_expected) == (20_000_000, 120_000_000)
    assert (found.server_busy_percent, found.links_skipped) == (7.5, 2)


def test_a_counter_that_is_missing_or_nonsense_is_unknown_and_never_zero() -> None:
    assert read_counters({}) == Counters()
    odd = {"TotalTransfers": "many", "TransfersFailed": None, "TransfersCompleted": True}
    assert read_counters(odd) == Counters()


def test_a_null_list_is_an_empty_one() -> None:
    assert read_counters({"FailedTransfers": None, "SkippedTransfers": None}).failures == ()


def test_a_line_that_is_no_envelope_is_kept_as_text() -> None:
    found = parse_line("panic: interface conversion\n")
    assert found is not None
    assert (found.kind, found.text) == (TEXT, "panic: interface conversion")
    assert heard("panic: interface conversion").notes == ["panic: interface conversion"]


def test_an_empty_line_says_nothing() -> None:
    assert parse_line(b" \r\n") is None


def test_an_envelope_whose_content_is_an_object_itself_is_read_as_well() -> None:
    found = parse_line(json.dumps({"MessageType": "Progress", "MessageContent": COUNTERS}))
    assert found is not None
    assert found.body["JobID"] == JOB


def test_a_transcript_keeps_job_log_last_counters_and_errors() -> None:
    log = f"/logs/{JOB}.log"
    found = heard(
        line("Info", "INFO: Scanning..."),
        line("Init", {"LogFileLocation": log, "JobID": JOB, "IsCleanupJob": False}),
        line("Progress", COUNTERS),
        line("Error", "it broke"),
        line("EndOfJob", {**COUNTERS, "TransfersCompleted": "5044", "FailedTransfers": []}),
    )
    assert (found.job, found.log, found.ended) == (JOB, log, True)
    assert found.counters is not None
    assert found.counters.completed == 5044
    assert (found.errors, found.notes) == (["it broke"], ["Scanning..."])


def test_failures_that_the_last_message_leaves_out_are_not_forgotten() -> None:
    found = heard(line("Progress", COUNTERS), line("EndOfJob", {**COUNTERS, "FailedTransfers": []}))
    assert [(t.source, t.code, t.size_bytes) for t in found.failures] == [
        ("/data/a b.txt", "403", 6)
    ]


def test_an_end_without_content_is_no_end_of_a_job() -> None:
    found = heard(line("EndOfJob", ""))
    assert (found.ended, found.counters) == (False, None)


def test_a_listed_blob_has_its_size_and_md5() -> None:
    body = {"Path": "a b.txt", "ContentMD5": "dk76iD3aHhHbR2ccSju9ng==", "ContentLength": "3"}
    assert read_listed(body) == Listed(path="a b.txt", size_bytes=3, md5="dk76iD3aHhHbR2ccSju9ng==")


def test_a_folder_in_a_listing_is_no_blob() -> None:
    assert read_listed({"Path": "folder/", "ContentLength": "0"}) is None


def test_a_size_that_is_written_for_people_is_unknown() -> None:
    assert read_listed({"Path": "a", "ContentLength": "2.86 MiB"}) == Listed(path="a")


def test_the_services_code_is_found_in_an_error() -> None:
    assert service_code(CONTAINER_ERROR) == "ContainerNotFound"
    assert service_code("403 AuthorizationPermissionMismatch") == "AuthorizationPermissionMismatch"
    assert service_code("connection refused") is None


def test_the_first_sentence_of_an_error_is_its_first_line_that_says_something() -> None:
    assert first_sentence("\n----\nfailed to list.\nmore") == "failed to list"
    assert first_sentence("---") == ""


@given(st.binary() | st.text())
def test_no_line_is_too_odd_to_be_read(raw: bytes | str) -> None:
    heard(raw)


@given(st.text(), anything)
def test_no_envelope_is_too_odd_to_be_heard(kind: str, content: Any) -> None:
    heard(json.dumps({"MessageType": kind, "MessageContent": content}))
    heard(json.dumps({"MessageType": kind, "MessageContent": json.dumps(content)}))


@given(st.dictionaries(st.sampled_from(sorted(COUNTERS)), anything))
def test_odd_counters_are_numbers_or_unknown(body: dict[str, Any]) -> None:
    found = read_counters(body)
    for count in (found.total, found.completed, found.failed, found.bytes_done):
        assert count is None or count >= 0
    for percent in (found.server_busy_percent, found.network_error_percent):
        assert percent is None or 0 <= percent <= 100


@given(st.integers(0, 2**63))
def test_every_count_is_read_as_it_was_sent(count: int) -> None:
    assert read_counters({"TotalTransfers": str(count)}).total == count
    assert read_counters({"TotalTransfers": count}).total == count


def test_a_crash_is_told_by_its_first_line() -> None:
    crashed = heard("panic: boom", "", "goroutine 1 [running]:", "main.main() /x/main.go:3 +0x1f")
    assert crashed.last_words == ["panic: boom"]
    assert heard("cannot start").last_words == ["cannot start"]
