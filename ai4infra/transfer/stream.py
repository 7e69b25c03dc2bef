"""AzCopy's JSON output: one envelope per line, whose content is text or JSON inside a string.

The contract is not a stable one, so everything is read tolerantly: what cannot be read is kept as
text, and a counter that is missing is unknown. Shapes: AzCopy 10.32, ``--output-type json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ai4infra.model import Record

TEXT = "Text"
"""Kind of a line that is no envelope: not all of AzCopy's output goes through its formatter."""
_NUMBER = re.compile(r"\s*(\d{1,30})(?:\.\d*)?\s*")
_CODE = re.compile(r"ERROR CODE: (\w+)|<Code>(\w+)</Code>|\b(Authoriz\w+|Authentic\w+Failed)\b")


class Envelope(Record, frozen=True):
    """One line of output."""

    kind: str
    """``Info``, ``Init``, ``Progress``, ``EndOfJob``, ``Error``, ``ListObject`` and others."""
    text: str
    """The content as it was sent."""
    body: dict[str, Any] = msgspec.field(default_factory=dict)
    """The content where it is a JSON object; empty where it is not."""


class Transfer(Record, frozen=True):
    """One file that did not get through."""

    source: str
    target: str
    status: str
    code: str | None = None
    """Of the service: an HTTP status, or 0 for a failure on this machine."""
    size_bytes: int | None = None


class Counters(Record, frozen=True):
    """What AzCopy counts; None is what it did not say."""

    job: str | None = None
    status: str | None = None
    ordered: bool | None = None
    """Everything was found that is to be copied; before that a job cannot be resumed."""
    total: int | None = None
    completed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    bytes_done: int | None = None
    bytes_expected: int | None = None
    bytes_over_wire: int | None = None
    server_busy_percent: float | None = None
    network_error_percent: float | None = None
    links_skipped: int | None = None
    special_skipped: int | None = None
    error: str | None = None
    advice: tuple[str, ...] = ()
    failures: tuple[Transfer, ...] = ()
    skips: tuple[Transfer, ...] = ()


class Listed(Record, frozen=True):
    """One object of a listing."""

    path: str
    """Below what was listed; empty for a blob that was itself listed."""
    size_bytes: int | None = None
    md5: str | None = None
    """In base64, as the service stores it."""


def parse_line(line: bytes | str) -> Envelope | None:
    """Read one line; None for an empty one. Never raises."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if not text.strip():
        return None
    found = _object(text)
    kind, content = found.get("MessageType"), found.get("MessageContent")
    if not isinstance(kind, str) or not kind:
        return Envelope(kind=TEXT, text=text.strip())
    if isinstance(content, dict):
        return Envelope(kind=kind, text=text.strip(), body=content)
    said = content if isinstance(content, str) else ""
    return Envelope(kind=kind, text=said, body=_object(said))


def _object(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_counters(body: Mapping[str, Any]) -> Counters:
    """Read the counters of a ``Progress``, ``EndOfJob`` or ``GetJobSummary``. Never raises."""
    return Counters(
        job=_text(body, "JobID"),
        status=_text(body, "JobStatus"),
        ordered=ordered if isinstance(ordered := body.get("CompleteJobOrdered"), bool) else None,
        total=_count(body, "TotalTransfers"),
        completed=_count(body, "TransfersCompleted"),
        failed=_count(body, "TransfersFailed"),
        skipped=_count(body, "TransfersSkipped"),
        bytes_done=_count(body, "TotalBytesTransferred"),
        bytes_expected=_count(body, "TotalBytesExpected"),
        bytes_over_wire=_count(body, "BytesOverWire"),
        server_busy_percent=_percent(body, "ServerBusyPercentage"),
        network_error_percent=_percent(body, "NetworkErrorPercentage"),
        links_skipped=_count(body, "SkippedSymlinkCount"),
        special_skipped=_count(body, "SkippedSpecialFileCount"),
        error=_text(body, "ErrorMsg"),
        advice=tuple(_advice(body.get("PerformanceAdvice"))),
        failures=read_transfers(body.get("FailedTransfers")),
        skips=read_transfers(body.get("SkippedTransfers")),
    )


def read_transfers(rows: object) -> tuple[Transfer, ...]:
    """Read a list of transfers; AzCopy's null is an empty one."""
    return tuple(_transfer(row) for row in _rows(rows) if not row.get("IsFolderProperties"))


def _transfer(row: Mapping[str, Any]) -> Transfer:
    return Transfer(
        source=_text(row, "Src") or "",
        target=_text(row, "Dst") or "",
        status=_text(row, "TransferStatus") or "Failed",
        code=_text(row, "ErrorCode"),
        # ``jobs show`` says 0 for files of any size.
        size_bytes=_count(row, "TransferSize") or None,
    )


def read_listed(body: Mapping[str, Any]) -> Listed | None:
    """Read one object of ``azcopy list --machine-readable``; None for a folder's marker."""
    path = body.get("Path")
    if not isinstance(path, str) or path.endswith("/"):
        return None
    return Listed(
        path=path, size_bytes=_count(body, "ContentLength"), md5=_text(body, "ContentMD5")
    )


def service_code(text: str) -> str | None:
    """Return the service's own code in an error text, such as ``ContainerNotFound``."""
    match = _CODE.search(text)
    return next((group for group in match.groups() if group), None) if match else None


def first_sentence(text: str) -> str:
    """Return the first line of an error text that says something, without AzCopy's frames."""
    lines = (line.strip().rstrip(".") for line in text.splitlines())
    return next((line for line in lines if line.strip("- ")), "")


def _advice(rows: object) -> Iterable[str]:
    for row in _rows(rows):
        reason, title = _text(row, "Reason"), _text(row, "Title")
        if said := ": ".join(part for part in (title, reason) if part):
            yield said


def _rows(rows: object) -> list[dict[str, Any]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None


def _count(body: Mapping[str, Any], name: str) -> int | None:
    """Return a counter, which is sent as text; None for what is no count."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    match = _NUMBER.fullmatch(str(value))
    return int(match[1]) if match else None


def _percent(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0 <= number <= 100 else None


class Transcript:
    """What a run of AzCopy has said so far. The last counters and every error are kept."""

    def __init__(self) -> None:
        self.job: str | None = None
        self.log: str | None = None
        self.counters: Counters | None = None
        self.ended = False
        self.errors: list[str] = []
        self.notes: list[str] = []
        self._failures: dict[str, Transfer] = {}

    @property
    def failures(self) -> tuple[Transfer, ...]:
        """The files that failed, as far as the progress named them."""
        return tuple(self._failures.values())

    @property
    def last_words(self) -> list[str]:
        """What it said of its end: its errors, else, where it has not come to one, the last note.

        A crash is its first line, not the last frame of its stack.
        """
        if self.errors or self.ended:
            return self.errors
        crashes = [each for each in self.notes if each.startswith(("panic:", "fatal error:"))]
        return crashes[:1] or self.notes[-1:]

    def hear(self, envelope: Envelope) -> None:
        """Take in one line."""
        if envelope.kind == "Init":
            self.job = _text(envelope.body, "JobID") or self.job
            self.log = _text(envelope.body, "LogFileLocation") or self.log
        elif "JobStatus" in envelope.body:
            self._count(read_counters(envelope.body), ended=envelope.kind == "EndOfJob")
        elif envelope.kind == "Error":
            self.errors.append(envelope.text)
        elif envelope.kind in (TEXT, "Info", "Warning"):
            self.notes.append(envelope.text.removeprefix("INFO: "))

    def _count(self, counters: Counters, *, ended: bool) -> None:
        self.job = counters.job or self.job
        self.counters, self.ended = counters, self.ended or ended
        # The last message of a job lists none of those that the messages before it listed.
        self._failures.update({each.source: each for each in counters.failures})
