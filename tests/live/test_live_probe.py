from __future__ import annotations

import itertools
import mmap
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ai4infra.diagnosis.behind import Behind
from ai4infra.diagnosis.feed import need_of_rate
from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.live import probe as p

Files = Callable[..., Path]
MIB = 2**20


def behind(path: Path) -> Behind:
    return Behind(path=str(path), mount_path="/", fstype="ext4", source="/dev/sda", kind="OS disk")


def bounds(workers: int = 2, seconds: float = 600.0, size: int = 10**9) -> p.Bounds:
    return p.Bounds(workers=workers, max_seconds=seconds, max_bytes=size)


def test_every_byte_is_read_once_in_each_pass(files: Files) -> None:
    done = p.probe(behind(files(*[1000] * 30, 40 * MIB)), bounds())
    assert done.cached is not None
    assert done.cold.bytes == done.cached.bytes == 30_000 + 40 * MIB
    assert done.cold.files == done.cached.files == 31


def test_a_large_file_is_read_in_pieces_by_several(files: Files) -> None:
    folder = files(40 * MIB)
    chosen = p.choose(str(folder), max_bytes=10**9)
    assert sorted((piece.offset // MIB, piece.size // MIB) for piece in chosen.pieces) == [
        (0, 16),
        (16, 16),
        (32, 8),
    ]


def test_one_file_is_a_path_as_well(files: Files) -> None:
    done = p.probe(behind(files(5000) / "part0" / "0.bin"), bounds())
    assert (done.cold.files, done.cold.bytes) == (1, 5000)


def test_no_more_is_read_than_allowed(files: Files) -> None:
    done = p.probe(behind(files(*[1000] * 50)), bounds(size=10_000))
    assert done.cold.bytes == 10_000
    assert done.files_seen == 50


def test_the_choice_is_the_same_each_time_and_not_the_first_files(files: Files) -> None:
    folder = str(files(*[1000] * 50))
    first, second = (p.choose(folder, max_bytes=10_000).pieces for _ in range(2))
    assert first == second
    assert list(first) != sorted(first)


def test_time_ends_a_pass(files: Files) -> None:
    pieces = p.choose(str(files(*[1000] * 50)), max_bytes=10**9).pieces
    done = p.read_pass(pieces, "cold", bounds(1, 20.0), clock=itertools.count(0.0).__next__)
    assert 0 < len(done.pieces) < 20


def test_files_of_nothing_are_no_files(files: Files, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        p.choose(str(files(0, 0)), max_bytes=1000)


def test_links_are_not_followed_out_of_the_folder(files: Files, tmp_path: Path) -> None:
    folder = files(1000)
    (tmp_path / "elsewhere").write_bytes(bytes(99))
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    assert p.choose(str(folder), max_bytes=10**9).files_seen == 1


def test_a_file_that_goes_away_is_counted_and_left_out(files: Files) -> None:
    pieces = p.choose(str(files(1000, 1000)), max_bytes=10**9).pieces
    Path(pieces[0].path).unlink()
    done = p.read_pass(pieces, "cold", bounds(2))
    assert len(done.errors) == 1
    assert done.done is not None
    assert done.done.bytes == 1000


def test_a_folder_of_which_nothing_can_be_read_is_an_error(files: Files) -> None:
    pieces = p.choose(str(files(1000)), max_bytes=10**9).pieces
    Path(pieces[0].path).unlink()
    done = p.read_pass(pieces, "cold", bounds(1))
    assert done.done is None


def test_only_what_is_read_leaves_the_page_cache(files: Files) -> None:
    # A file that nobody reads keeps its pages; asking the kernel is what fincore does.
    folder = files(4 * MIB, 4 * MIB)
    mine, other = folder / "part0" / "0.bin", folder / "part1" / "1.bin"
    for file in (mine, other):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            opened.read()
    p.read_pass([p.Piece(str(mine), 0, 4 * MIB)], "cold", bounds(1))
    assert resident(other)


def resident(file: Path) -> bool:
    """Tell whether a read of the file's begin is answered from memory alone."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(4096)], 0, os.RWF_NOWAIT) == 4096
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def test_a_need_that_is_not_met_is_told_with_what_is_carried(files: Files) -> None:
    done = p.probe(behind(files(*[1000] * 20)), bounds(), need=need_of_rate("900GB/s"))
    assert done.carried is not None
    assert not done.carried.fed
    assert 0 < done.carried.gpu_percent < 90


def test_terabytes_are_chosen_from_without_listing_their_pieces(tmp_path: Path) -> None:
    with (tmp_path / "shard").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "small").write_bytes(b"x")
    chosen = p.choose(str(tmp_path), max_bytes=100 * 10**6)
    assert 0 < sum(piece.size for piece in chosen.pieces) <= 100 * 10**6
    assert all(piece.offset + piece.size <= 2**40 for piece in chosen.pieces)
    assert chosen.sparse


def test_whole_files_are_read_one_after_the_other(files: Files) -> None:
    folder = files(*[40 * MIB] * 4)
    pieces = p.choose(str(folder), max_bytes=90 * MIB, whole=True).pieces
    assert len({piece.path for piece in pieces[:3]}) == 1
    assert len(p.whole_files(pieces)) == 2


def test_files_of_which_none_was_read_whole_are_not_decoded(files: Files) -> None:
    pieces = p.choose(str(files(40 * MIB)), max_bytes=20 * MIB).pieces
    with pytest.raises(UsageError, match="nothing to decode"):
        p.whole_files(pieces)


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_what_is_no_file_is_never_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "folder" / "pipe")
    with pytest.raises(NotFoundError):
        p.choose(str(tmp_path / name), max_bytes=1000)


def test_a_folder_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="cannot be listed"):
        p.choose(str(tmp_path / "gone"), max_bytes=1000)


def test_a_pass_ends_in_the_middle_of_a_piece(files: Files) -> None:
    [piece] = p.choose(str(files(16 * MIB)), max_bytes=10**9).pieces
    done = p.read_pass([piece], "cached", bounds(1, 5.0), clock=itertools.count(0.0).__next__)
    assert done.done is not None
    assert 0 < done.done.bytes < 16 * MIB
    assert [read.size for read in done.pieces] == [done.done.bytes]


def test_readers_that_hang_are_left_behind_together(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = p.choose(str(files(*[1000] * 8)), max_bytes=10**9).pieces
    never = threading.Event()
    monkeypatch.setattr(os, "preadv", lambda *_: never.wait() and 0)
    done = p.read_pass(
        pieces,
        "cached",
        bounds(4, 50.0),
        clock=itertools.count(0.0).__next__,
        hang_seconds=-50.0,
    )
    never.set()
    assert (done.stuck, done.done) == (4, None)


def test_an_error_of_reading_names_the_file(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    [piece] = p.choose(str(files(1000)), max_bytes=10**9).pieces

    def broken(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    done = p.read_pass([piece], "cached", bounds(1))
    assert done.errors == (f"{piece.path}: Input/output error",)


def test_a_piece_that_another_process_holds_is_not_called_cold(files: Files) -> None:
    folder = files(4 * MIB)
    [piece] = p.choose(str(folder), max_bytes=10**9).pieces
    with Path(piece.path).open("r+b") as file:
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
            assert held[0] == 0
            done = p.read_pass([piece], "cold", bounds(1))
    assert done.resident == 1


MEMINFO = "MemTotal: 900000000 kB\nMemFree: {free} kB\nMemAvailable: {available} kB\n"


@pytest.mark.parametrize(
    ("free", "available", "read"),
    [
        (800_000_000, 850_000_000, 8 * 10**9),
        (8_000_000, 850_000_000, 8_000_000 * 256),
        (1000, 850_000_000, 10**9),
        (1000, 1_000_000, 1_000_000 * 256),
    ],
)
def test_memory_that_caches_others_files_is_not_taken_for_free(
    tmp_path: Path, free: int, available: int, read: int
) -> None:
    file = tmp_path / "meminfo"
    file.write_text(MEMINFO.format(free=free, available=available))
    assert p.default_bytes(file) == pytest.approx(read, rel=0.01)


# --- preparation


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's in the current folder."""
    file = tmp_path / "their_pipeline.py"
    file.write_text(
        "class Decoder:\n    @staticmethod\n    def decode(data):\n        return len(data)\n"
        "def broken(data):\n    raise ValueError('no JPEG')\nsetting = 3\n"
        "import os, sys, threading\n"
        "def hang(data):\n    threading.Event().wait()\n"
        "def die(data):\n    os._exit(3)\n"
        "def leave(data):\n    sys.exit(0)\n"
        "def talk(data):\n    print('decoding', flush=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield file
    sys.modules.pop("their_pipeline", None)


def paths(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.rglob("*.bin"))


@pytest.mark.slow
def test_a_callable_is_measured_in_processes_of_its_own(files: Files, module: Path) -> None:
    decode = "their_pipeline:Decoder.decode"
    done = p.prepare(paths(files(1000, 2000, 3000)), decode, workers=2, max_seconds=600.0)
    assert (done.files, done.bytes, done.workers) == (3, 6000, 2)


@pytest.mark.slow
def test_a_callable_that_fails_says_on_which_file(files: Files, module: Path) -> None:
    with pytest.raises(Ai4infraError, match=r"0\.bin: ValueError: no JPEG"):
        p.prepare(paths(files(1000)), "their_pipeline:broken", workers=1, max_seconds=600.0)


@pytest.mark.parametrize(
    "decode", ["their_pipeline:nothing", "their_pipeline:setting", "no_such_module:f"]
)
def test_what_cannot_be_called_is_refused_before_anything_runs(module: Path, decode: str) -> None:
    with pytest.raises(UsageError):
        p.load(decode)


@pytest.mark.slow
def test_a_command_gets_the_file_where_it_says(files: Files) -> None:
    folder = files(1000, 2000)
    done = p.prepare(paths(folder), "cp {} {}.copy", workers=2, max_seconds=600.0)
    assert (done.files, done.bytes) == (2, 3000)
    assert len(list(folder.rglob("*.copy"))) == 2


@pytest.mark.slow
def test_a_command_that_fails_is_told(files: Files) -> None:
    with pytest.raises(Ai4infraError, match=r"cat: .*No such file"):
        p.prepare(paths(files(1000)), "cat {}.nothing", workers=1, max_seconds=600.0)


@pytest.mark.parametrize("decode", ["no_such_program {}", "no_such_module:f", "their_broken:f"])
def test_a_decode_that_cannot_run_is_told_before_anything_is_read(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decode: str
) -> None:
    (tmp_path / "their_broken.py").write_text("def f(:")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    steps: list[str] = []
    with pytest.raises(UsageError):
        p.probe(behind(files(1000)), bounds(), decode=decode, on_step=steps.append)
    assert steps == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "words", "patience"), [("hang", "did not come", 5.0), ("die", "sudden end", 60.0)]
)
def test_a_callable_that_never_answers_ends_the_probe(
    files: Files, module: Path, function: str, words: str, patience: float
) -> None:
    with pytest.raises(Ai4infraError, match=words):
        p.prepare(
            paths(files(1000)),
            f"their_pipeline:{function}",
            workers=1,
            max_seconds=1.0,
            patience_seconds=patience,
        )


@pytest.mark.slow
def test_a_callable_that_exits_is_an_error_of_its_own(files: Files, module: Path) -> None:
    with pytest.raises(Ai4infraError, match="SystemExit"):
        p.prepare(paths(files(1000)), "their_pipeline:leave", workers=1, max_seconds=1.0)


@pytest.mark.slow
def test_what_a_callable_prints_is_kept_from_the_result(
    files: Files, module: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    p.prepare(paths(files(1000)), "their_pipeline:talk", workers=1, max_seconds=1.0)
    told = capfd.readouterr()
    assert told.out == ""
    assert "decoding" in told.err


@pytest.mark.parametrize("decode", ["djpeg", "djpeg 'x {}"])
def test_a_command_without_a_file_is_refused(files: Files, decode: str) -> None:
    with pytest.raises(UsageError):
        p.prepare(paths(files(1000)), decode, workers=1, max_seconds=600.0)
