"""Reads some of the user's own files and measures: cold, then cached, then decoded.

Bounded in time and bytes. Out of the page cache go only pages of files that are read here, and
what is read is at most a quarter of the memory that is free, so that nobody else's pages leave.
"""

from __future__ import annotations

import importlib
import os
import random
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ai4infra.diagnosis.behind import Behind
from ai4infra.diagnosis.feed import (
    Need,
    Pass,
    Preparation,
    Probe,
    carried,
    measured,
    remarks,
)
from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.mounts.host import parse_meminfo
from ai4infra.tools.run import run

PIECE_BYTES = 16 * 2**20
"""Larger files are read in pieces of this size, so that several workers share one."""
BLOCK_BYTES = 2**20
MAX_ENTRIES = 200_000
"""Enough to choose from: a walk over millions would take longer than the probe."""
WALK_SECONDS = 10.0
MAX_BYTES = 8 * 10**9
MEMORY_SHARE = 4
DECODE_SECONDS = 60.0
HANG_SECONDS = 30.0
_MIBYTE = 2**20
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Piece(NamedTuple):
    """A part of a file that is read at once."""

    path: str
    offset: int
    size: int


class Chosen(NamedTuple):
    """The pieces of a probe, and what there was to choose from."""

    pieces: tuple[Piece, ...]
    files_seen: int
    complete: bool
    """False when there were more files than were looked at."""


Clock = Callable[[], float]


def default_bytes() -> int:
    """Return how much a probe reads at most: a quarter of the free memory, 8 GB at most."""
    try:
        available = parse_meminfo(Path("/proc/meminfo").read_text("utf-8"))[1] * _MIBYTE
    except OSError:
        return MAX_BYTES
    return min(MAX_BYTES, max(BLOCK_BYTES, available // MEMORY_SHARE))


def choose(path: str, *, max_bytes: int, clock: Clock = time.monotonic) -> Chosen:
    """Choose what to read: files in an order that is random but always the same.

    Raises NotFoundError where there is no file with anything in it.
    """
    files, complete = _files(path, clock)
    if not files:
        raise NotFoundError(
            f"{path} holds no file to read.", hint="Name a folder with data, or one large file."
        )
    pieces = [piece for file, size in files for piece in _pieces(file, size)]
    random.Random(0).shuffle(pieces)  # noqa: S311 - an order, not a secret
    taken = tuple(_up_to(pieces, max_bytes))
    return Chosen(pieces=taken, files_seen=len(files), complete=complete)


def _files(path: str, clock: Clock) -> tuple[list[tuple[str, int]], bool]:
    """Return files with their sizes; links are not followed out of the folder."""
    if Path(path).is_file():
        size = Path(path).stat().st_size
        return ([(path, size)] if size else []), True
    until = clock() + WALK_SECONDS
    found: list[tuple[str, int]] = []
    folders = [path]
    while folders:
        for entry in _entries(folders.pop()):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and (size := _size(entry)):
                found.append((entry.path, size))
            if len(found) >= MAX_ENTRIES or clock() > until:
                return sorted(found), False
    return sorted(found), True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _pieces(path: str, size: int) -> Iterator[Piece]:
    for offset in range(0, size, PIECE_BYTES):
        yield Piece(path, offset, min(PIECE_BYTES, size - offset))


def _up_to(pieces: Iterable[Piece], max_bytes: int) -> Iterator[Piece]:
    total = 0
    for piece in pieces:
        if total and total + piece.size > max_bytes:
            return
        total += piece.size
        yield piece


class Bounds(NamedTuple):
    """How long and how much a probe reads, and with how many workers."""

    workers: int
    max_seconds: float
    """Of each pass."""
    max_bytes: int


MAX_WORKERS = 256
MAX_SECONDS = 3600.0


def checked(workers: float, max_seconds: float, max_bytes: int) -> Bounds:
    """Return bounds; raises UsageError for readers or times that no probe can have."""
    if not (1 <= workers <= MAX_WORKERS and workers == int(workers)):
        raise UsageError(
            f"{workers:g} readers cannot be.", hint=f"Say a whole number from 1 to {MAX_WORKERS}."
        )
    if not 0 < max_seconds <= MAX_SECONDS:
        raise UsageError(
            f"{max_seconds:g} seconds cannot be read for.", hint="Say 10, or an hour at most."
        )
    return Bounds(workers=int(workers), max_seconds=max_seconds, max_bytes=max_bytes)


def probe(
    here: Behind,
    bounds: Bounds,
    *,
    need: Need | None = None,
    decode: str | None = None,
    on_step: Callable[[str], None] = lambda text: None,
    clock: Clock = time.monotonic,
) -> Probe:
    """Measure what the files behind a path feed: cold, then cached, then decoded.

    Raises NotFoundError without files, Ai4infraError when none can be read.
    """
    on_step("looking for files …")
    chosen = choose(here.path, max_bytes=bounds.max_bytes, clock=clock)
    on_step("reading cold …")
    cold = _pass(chosen.pieces, "cold", bounds, clock)
    if cold.done is None:
        raise _unreadable(here.path, cold.errors)
    on_step("reading once more, cached …")
    cached = _pass(cold.pieces, "cached", bounds, clock)
    preparation = None
    if decode:
        on_step("decoding …")
        files = list(dict.fromkeys(piece.path for piece in cold.pieces))
        preparation = prepare(
            files, decode, workers=bounds.workers, max_seconds=bounds.max_seconds, clock=clock
        )
    notes = [*here.notes, *remarks(cold.done, cached.done, kind=here.kind, mode=here.mode)]
    if not chosen.complete:
        notes.append(
            f"The folder was not walked to its end: {chosen.files_seen:,} files are known."
        )
    return Probe(
        path=here.path,
        kind=here.kind,
        mode=here.mode,
        workers=bounds.workers,
        files_seen=chosen.files_seen,
        cold=cold.done,
        cached=cached.done,
        preparation=preparation,
        need=need,
        carried=carried(need, cold.done, cached.done, preparation) if need else None,
        ceiling_mbytes_s=here.ceiling_mbytes_s,
        ceiling=here.ceiling,
        failed=len(cold.errors),
        notes=tuple(notes),
    )


def _pass(
    pieces: Sequence[Piece],
    temperature: Literal["cold", "cached"],
    bounds: Bounds,
    clock: Clock,
) -> Read:
    return read_pass(
        pieces,
        temperature=temperature,
        workers=bounds.workers,
        max_seconds=bounds.max_seconds,
        clock=clock,
    )


def _unreadable(path: str, errors: Sequence[str]) -> Ai4infraError:
    if not errors:
        return Ai4infraError(
            f"Nothing of {path} could be read in time.", hint="Give it more --seconds."
        )
    return Ai4infraError(
        f"No file of {path} could be read: {errors[0]}.", hint="May this user read the files?"
    )


# --- reading


class _Tally:
    """What the workers have read, and the pieces that are left."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._lock = threading.Lock()
        self._left = iter(pieces)
        self.latencies: list[float] = []
        self.read: list[Piece] = []
        self.bytes = 0
        self.files = 0
        self.errors: list[str] = []

    def next(self) -> Piece | None:
        """Return the next piece; None when there is no more."""
        with self._lock:
            return next(self._left, None)

    def add(self, piece: Piece, size: int, seconds: float) -> None:
        """Count a piece that was read."""
        with self._lock:
            self.latencies.append(seconds)
            self.read.append(piece)
            self.bytes += size
            self.files += piece.offset == 0

    def fail(self, error: OSError) -> None:
        """Count a piece that could not be read."""
        with self._lock:
            self.errors.append(f"{error.filename}: {error.strerror}")


class Read(NamedTuple):
    """One pass: its figures, what was read, and what failed."""

    done: Pass | None
    pieces: tuple[Piece, ...]
    errors: tuple[str, ...]


def read_pass(
    pieces: Sequence[Piece],
    *,
    temperature: Literal["cold", "cached"],
    workers: int,
    max_seconds: float,
    clock: Clock = time.monotonic,
) -> Read:
    """Read pieces with several workers until they are all read or the time is over."""
    tally = _Tally(pieces)
    begin = clock()
    until = begin + max_seconds

    def work() -> None:
        buffer = bytearray(BLOCK_BYTES)
        while clock() < until and (piece := tally.next()):
            started = clock()
            try:
                size = _read(piece, buffer, cold=temperature == "cold")
            except OSError as error:
                tally.fail(error)
            else:
                tally.add(piece, size, clock() - started)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        # A read of a mount that hangs never ends: the workers that are stuck are left behind.
        thread.join(max(0.0, until - clock()) + HANG_SECONDS)
    done = measured(
        temperature,
        seconds=clock() - begin,
        files=tally.files,
        size=tally.bytes,
        latencies=tally.latencies,
    )
    return Read(done=done, pieces=tuple(tally.read), errors=tuple(tally.errors))


def _read(piece: Piece, buffer: bytearray, *, cold: bool) -> int:
    """Read one piece, dropping its pages from memory before where it is to be cold."""
    file = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if cold:
            os.posix_fadvise(file, piece.offset, piece.size, os.POSIX_FADV_DONTNEED)
        return _fill(file, piece, memoryview(buffer))
    finally:
        os.close(file)


def _fill(file: int, piece: Piece, view: memoryview) -> int:
    total = 0
    while total < piece.size:
        part = view[: min(len(view), piece.size - total)]
        count = os.preadv(file, [part], piece.offset + total)
        if not count:
            break
        total += count
    return total


# --- preparation


def prepare(
    files: Sequence[str],
    decode: str,
    *,
    workers: int,
    max_seconds: float,
    clock: Clock = time.monotonic,
) -> Preparation:
    """Decode files that are in memory, and measure only that.

    ``decode`` is ``MODULE:FUNCTION``, called with a file's bytes in a process of its own as a
    loader's worker would, or a command in which ``{}`` is the file. Raises UsageError for one that
    cannot be called, Ai4infraError when it fails on a file.
    """
    is_callable = bool(_CALLABLE.fullmatch(decode))
    if is_callable:
        load(decode)
        executor: Executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    else:
        _words(decode, "")
        executor = ThreadPoolExecutor(workers)
    job = _called if is_callable else _commanded
    with executor as pool:
        # Workers start and import before the clock does.
        wait([pool.submit(_start, decode if is_callable else None) for _ in range(workers)])
        begin = clock()
        times = _bounded(pool, job, decode, files, begin + max_seconds, workers, clock)
        seconds = clock() - begin
    size = sum(count for count, _ in times)
    ordered = sorted(spent for _, spent in times)
    return Preparation(
        decode=decode,
        workers=workers,
        seconds=seconds,
        files=len(times),
        bytes=size,
        mbytes_s=size / seconds / 10**6,
        files_s=len(times) / seconds,
        median_ms=ordered[len(ordered) // 2] * 1000,
    )


def _bounded(
    pool: Executor,
    job: Callable[[str, str], tuple[int, float]],
    decode: str,
    files: Sequence[str],
    until: float,
    workers: int,
    clock: Clock,
) -> list[tuple[int, float]]:
    """Keep all workers busy until the files or the time are over; one file at least is done."""
    times: list[tuple[int, float]] = []
    pending: set[Future[tuple[int, float]]] = set()
    for file in files:
        if times and clock() >= until:
            break
        pending.add(pool.submit(job, decode, file))
        if len(pending) >= 2 * workers:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            times += [each.result() for each in done]
    return times + [each.result() for each in pending]


def load(decode: str) -> Callable[[bytes], Any]:
    """Import ``MODULE:FUNCTION``, from the current folder too; UsageError when it is not there."""
    module, _, name = decode.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"--decode {decode} cannot be imported: {error}.",
            hint="Say MODULE:FUNCTION, with the module in this folder or installed.",
        ) from error
    if not callable(found):
        raise UsageError(f"--decode {decode} is nothing that can be called.")
    return found  # type: ignore[no-any-return]  # what a user wrote has no type here


def _start(decode: str | None) -> None:
    if decode:
        load(decode)


def _called(decode: str, path: str) -> tuple[int, float]:
    function = load(decode)
    data = Path(path).read_bytes()
    begin = time.perf_counter()
    try:
        function(data)
    except Exception as error:
        raise Ai4infraError(
            f"--decode {decode} failed on {path}: {type(error).__name__}: {error}."
        ) from error
    return len(data), time.perf_counter() - begin


def _commanded(decode: str, path: str) -> tuple[int, float]:
    begin = time.perf_counter()
    ran = run(_words(decode, path), timeout_seconds=DECODE_SECONDS)
    if ran.code:
        raise Ai4infraError(f"--decode failed on {path}: {ran.said or f'exit code {ran.code}'}.")
    return Path(path).stat().st_size, time.perf_counter() - begin


def _words(decode: str, path: str) -> list[str]:
    try:
        words = shlex.split(decode)
    except ValueError as error:
        raise UsageError(f"--decode {decode!r} is no command: {error}.") from error
    if not any("{}" in word for word in words):
        raise UsageError(
            f"--decode {decode!r} says nowhere where the file goes.",
            hint="Put {} where the file's name belongs, or say MODULE:FUNCTION.",
        )
    return [word.replace("{}", path) for word in words]
