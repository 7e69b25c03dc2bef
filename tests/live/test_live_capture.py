from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ai4infra.diagnosis.files import opened
from ai4infra.diagnosis.samples import GpuSample, Host
from ai4infra.errors import Ai4infraError, UsageError
from ai4infra.live.capture import FLUSH_MOMENTS, saving

SAMPLE = GpuSample(time_s=1.0, gpu="0", utilization=0.5)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
def test_what_is_saved_is_read_again(tmp_path: Path, name: str) -> None:
    with saving(tmp_path / name) as capture:
        capture.begin(Host(interval_s=1.0, gpus=1))
        capture.add([SAMPLE])
    with opened(tmp_path / name) as source:
        assert list(source.samples()) == [SAMPLE]
        assert source.host == Host(interval_s=1.0, gpus=1)


def test_a_capture_whose_writer_was_killed_is_read_up_to_there(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl.gz"
    with saving(file) as capture:
        capture.begin(Host())
        for _ in range(FLUSH_MOMENTS):
            capture.add([SAMPLE])
        cut = tmp_path / "cut.jsonl.gz"
        cut.write_bytes(file.read_bytes())
    with opened(cut) as source:
        assert len(list(source.samples())) == FLUSH_MOMENTS


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl.gz"
    file.write_bytes(gzip.compress(b"mine"))
    with pytest.raises(UsageError), saving(file):
        pass
    assert gzip.decompress(file.read_bytes()) == b"mine"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="cannot be written"), saving(tmp_path / "no" / "c"):
        pass


def test_a_full_disk_is_told() -> None:
    # Of /dev/full every write fails; what is in Python's buffer fails when it is flushed.
    with pytest.raises((Ai4infraError, UsageError)), saving(Path("/dev/full")):
        pass
