from __future__ import annotations

import gzip
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4infra.diagnosis.files import opened
from ai4infra.diagnosis.samples import GpuSample, Host
from ai4infra.errors import Ai4infraError, UsageError
from ai4infra.live.capture import saving

SAMPLE = GpuSample(time_s=1.0, gpu="0", utilization=0.5)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
def test_what_is_saved_is_read_again(tmp_path: Path, name: str) -> None:
    with saving(tmp_path / name) as capture:
        capture.begin(Host(interval_s=1.0, gpus=1))
        capture.add([SAMPLE])
    with opened(tmp_path / name) as source:
        assert list(source.samples()) == [SAMPLE]
        assert source.host == Host(interval_s=1.0, gpus=1)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
@pytest.mark.parametrize("moments", [0, 1, 40])
def test_a_capture_whose_writer_was_killed_is_read_up_to_there(
    tmp_path: Path, name: str, moments: int
) -> None:
    file, cut = tmp_path / name, tmp_path / f"cut-{name}"
    with saving(file) as capture:
        capture.begin(Host(gpus=1))
        for _ in range(moments):
            capture.add([SAMPLE])
        cut.write_bytes(file.read_bytes())
    with opened(cut) as source:
        assert list(source.samples()) == [SAMPLE] * moments
        assert source.host == Host(gpus=1)


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl.gz"
    file.write_bytes(gzip.compress(b"mine"))
    with pytest.raises(UsageError), saving(file):
        pass
    assert gzip.decompress(file.read_bytes()) == b"mine"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="cannot be written"), saving(tmp_path / "no" / "c"):
        pass


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Let no file grow over 4 KB, as on a disk that gets full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_ends_the_capture_and_not_the_watching(tmp_path: Path, name: str) -> None:
    with saving(tmp_path / name) as capture:
        capture.begin(Host(gpus=1))
        for at in range(5000):
            capture.add([GpuSample(time_s=at * 1.23456789, gpu="0", utilization=0.5)])
    assert capture.failed is not None
    assert "cannot be written" in capture.failed.message
    with opened(tmp_path / name) as source:
        assert len(list(source.samples())) > 10


@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_is_full_already_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError), saving(tmp_path / "c.jsonl") as capture:
        capture.begin(Host(tool="x" * 9000))


def test_the_standard_output_is_no_capture() -> None:
    with pytest.raises(UsageError), saving(Path("-")):
        pass
