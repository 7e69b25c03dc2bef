"""The capture file: what is written is read, and what is not understood is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import shapes
from situations import situations

from ai4infra.diagnosis.files import opened
from ai4infra.diagnosis.logs import LogSource, one_host
from ai4infra.diagnosis.samples import CAPTURE_VERSION, Host, Line, Notes, decode_capture, encode
from ai4infra.errors import NotFoundError, UsageError

HOST = Host(tool="ai4infra 0.1.0", interval_s=1.0, cpus=96)
SAMPLES = situations()[0].samples


def capture(*lines: Line) -> bytes:
    return b"".join(map(encode, lines))


def test_what_is_saved_is_what_is_read(tmp_path: Path) -> None:
    whole = capture(HOST, *SAMPLES)
    (tmp_path / "plain").write_bytes(whole)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(whole))
    for name in ("plain", "packed.gz"):
        with opened(tmp_path / name) as source:
            assert tuple(source.samples()) == SAMPLES
            assert source.host == HOST


def test_the_first_line_names_the_version() -> None:
    first = json.loads(capture(HOST, *SAMPLES).split(b"\n")[0])
    assert (first["kind"], first["captureVersion"]) == ("capture", CAPTURE_VERSION)


def test_fields_and_kinds_of_a_later_minor_version_are_passed_over() -> None:
    newer = [
        b'{"kind":"capture","captureVersion":"1.7","moon":"full"}\n',
        b'{"kind":"cpu","cpu":"all","idle":0.5,"mood":"good"}\n',
        b'{"kind":"tape","reels":2}\n',
    ]
    notes = Notes()
    assert len(list(decode_capture(newer, notes))) == 2
    assert notes.skipped == 1


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b'{"kind":"capture","captureVersion":"2.0"}\n', "version 2.0"),
        (b'{"captureVersion":3}\n', "no capture header"),
        (b'{"kind":"cpu","cpu":"all"}\n', "version none"),
        (b'{"captureVersion":"1.0","kind":"cpu","cpu":"all"}\n', "does not begin"),
        (b'{"captureVersion":"1.0","kind":"capture","cpus":"many"}\n', "header of the capture"),
        (b"nonsense\n", "no capture header"),
        (b"", "empty"),
    ],
)
def test_what_is_no_capture_is_refused(first: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        list(decode_capture([first], Notes()))


@pytest.mark.parametrize("length", [2, 40, 300])
def test_a_capture_whose_writer_was_killed_gives_what_is_whole(length: int, tmp_path: Path) -> None:
    whole = capture(HOST, *SAMPLES)
    (tmp_path / "cut").write_bytes(whole[:-length])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(whole)[:-length])
    for name in ("cut", "cut.gz"):
        with opened(tmp_path / name) as source:
            found = tuple(source.samples())
            assert len(SAMPLES) * 0.9 < len(found)
            assert found == SAMPLES[: len(found)]
            assert source.notes.cut or source.notes.skipped


def test_bytes_that_are_no_text_cost_their_line_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbf" + shapes.DMON.encode() + b"\xff\xfe\x00\n")
    with opened(path) as source:
        assert len(list(source.samples())) == 2


def test_a_file_that_is_not_there_or_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no file"), opened(tmp_path / "none"):
        pass
    with pytest.raises(UsageError, match="cannot be read"), opened(tmp_path):
        pass


def test_several_logs_tell_of_one_machine() -> None:
    logs = [LogSource(text.splitlines(True), "log") for text in (shapes.QUERY_CSV, shapes.MPSTAT)]
    for log in logs:
        list(log.samples())
    host = one_host(log.host for log in logs)
    assert (host.cpus, host.gpu_model) == (96, "NVIDIA H100 80GB HBM3")
