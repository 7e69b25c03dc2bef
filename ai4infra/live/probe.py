"""Reads some of the user's own files and measures: cold, then cached, then decoded.

Bounded in time and bytes. Out of the page cache go only pages of files that are read here, and
what is read is about a quarter of the memory that nothing uses, so that others' pages stay.
"""

from __future__ import annotations

import importlib
import os
import random
import re
import shlex
import signal
import stat
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, redirect_stdout
from itertools import accumulate
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ai4infra.diagnosis.behind import LOCAL_KINDS, Behind
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
from ai4infra.tools.run import find, run

T = TypeVar("T")

PIECE_BYTES = 16 * 2**20
"""Larger files are read in pieces of this size, so that several workers share one."""
BLOCK_BYTES = 2**20
MAX_ENTRIES = 200_000
"""Enough to choose from: a walk over millions would take longer than the probe."""
WALK_SECONDS = 10.0
MIN_BYTES, MAX_BYTES = 10**9, 8 * 10**9
MEMORY_SHARE = 4
DECODE_SECONDS = 60.0
HANG_SECONDS = 30.0
_MIBYTE = 2**20
_STAT_BLOCK = 512
"""What stat counts blocks in, whatever the file system's own are."""
_SOME = 0.05
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
    closed: int = 0
    """Folders that could not be listed."""
    sparse: bool = False
    """True when the files take less than half their size on disk."""


Clock = Callable[[], float]


def default_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return how much a probe reads at most: a quarter of the memory that nothing uses.

    But 1 GB at least, of which little can be told from noise, 8 GB at most, and never more than a
    quarter of what programs could have.
    """
    try:
        text = meminfo.read_text("utf-8")
        available = parse_meminfo(text)[1] * _MIBYTE // MEMORY_SHARE
    except OSError:
        return MIN_BYTES
    unused = re.search(r"^MemFree:\s*(\d+) kB", text, re.MULTILINE)
    free = int(unused[1]) * 1024 // MEMORY_SHARE if unused else 0
    return max(BLOCK_BYTES, min(MAX_BYTES, available, max(MIN_BYTES, free)))


def choose(
    path: str, *, max_bytes: int, whole: bool = False, clock: Clock = time.monotonic
) -> Chosen:
    """Choose what to read: pieces in an order that is random but always the same.

    With ``whole`` the pieces of a file follow each other, so that files are read to their ends.
    Raises NotFoundError where there is no file with anything in it, Ai4infraError for a folder
    that this user may not list.
    """
    walk = _Walk(clock)
    walk.enter(path)
    if not walk.files:
        raise NotFoundError(
            f"{path} holds no file to read.", hint="Name a folder with data, or one large file."
        )
    files = sorted(walk.files)
    pieces = _file_by_file(files) if whole else _mixed(files)
    return Chosen(
        pieces=tuple(_up_to(pieces, max_bytes)),
        files_seen=len(files),
        complete=walk.complete,
        closed=walk.closed,
        sparse=walk.on_disk < sum(size for _, size in files) / 2,
    )


class _Walk:
    """The files below a path, with their sizes; links are not followed, nothing is opened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock() + WALK_SECONDS
        self.files: list[tuple[str, int]] = []
        self.complete = True
        self.closed = 0
        self.on_disk = 0

    def enter(self, path: str) -> None:
        """Take a file, or all files of a folder as far as time and room allow."""
        try:
            told = Path(path).stat()
            if not stat.S_ISDIR(told.st_mode):
                self._take(path, told)
                return
            with os.scandir(path):
                folders = [path]
        except OSError as error:
            raise Ai4infraError(
                f"{path} cannot be listed: {error.strerror}.", hint="May this user read the folder?"
            ) from error
        while folders and self.complete:
            self._list(folders.pop(), folders)

    def _list(self, folder: str, folders: list[str]) -> None:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._look(entry, folders)
                    if len(self.files) >= MAX_ENTRIES or self._clock() > self._until:
                        self.complete = False
                        return
        except OSError:
            self.closed += 1

    def _look(self, entry: os.DirEntry[str], folders: list[str]) -> None:
        try:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                self._take(entry.path, entry.stat(follow_symlinks=False))
        except OSError:
            # It went away between being listed and being looked at.
            return

    def _take(self, path: str, told: os.stat_result) -> None:
        if stat.S_ISREG(told.st_mode) and told.st_size:
            self.files.append((path, told.st_size))
            self.on_disk += told.st_blocks * _STAT_BLOCK


def _mixed(files: Sequence[tuple[str, int]]) -> Iterator[Piece]:
    """Yield pieces of all files in a random order, each of a file's as likely as any other."""
    ends = list(accumulate(-(-size // PIECE_BYTES) for _, size in files))
    # Of terabytes there are too many pieces to shuffle; a sample of their numbers is enough.
    count = min(ends[-1], MAX_ENTRIES)
    for number in random.Random(0).sample(range(ends[-1]), count):  # noqa: S311 - no secret
        at = bisect_right(ends, number)
        path, size = files[at]
        offset = (number - (ends[at - 1] if at else 0)) * PIECE_BYTES
        yield Piece(path, offset, min(PIECE_BYTES, size - offset))


def _file_by_file(files: Sequence[tuple[str, int]]) -> Iterator[Piece]:
    for path, size in random.Random(0).sample(files, len(files)):  # noqa: S311 - no secret
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
    path: str | None = None,
    need: Need | None = None,
    decode: str | None = None,
    on_step: Callable[[str], None] = lambda text: None,
    clock: Clock = time.monotonic,
) -> Probe:
    """Measure what the files behind a path feed: cold, then cached, then decoded.

    ``path`` is where they are, in case that ``here`` cannot spell it. Raises NotFoundError without
    files, Ai4infraError when none can be read.
    """
    path = path or here.path
    if decode:
        check_decode(decode)
    on_step("looking for files …")
    chosen = choose(path, max_bytes=bounds.max_bytes, whole=bool(decode), clock=clock)
    on_step("reading cold …")
    cold = read_pass(chosen.pieces, "cold", bounds, clock=clock)
    if cold.done is None:
        raise _unreadable(path, cold.errors)
    on_step("reading once more, cached …")
    cached = read_pass(cold.pieces, "cached", bounds, clock=clock)
    preparation = None
    if decode:
        on_step("decoding …")
        preparation = prepare(
            whole_files(cold.pieces),
            decode,
            workers=bounds.workers,
            max_seconds=bounds.max_seconds,
            clock=clock,
        )
    notes = [*here.notes, *_remarks(here, chosen, cold, cached)]
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


def _remarks(here: Behind, chosen: Chosen, cold: Read, cached: Read) -> Iterator[str]:
    """Yield what a reader of the figures has to know."""
    if cold.done:
        yield from remarks(
            cold.done, cached.done, kind=here.kind, mode=here.mode, fstype=here.fstype
        )
    if here.kind != "memory" and not chosen.sparse and cold.resident > len(cold.pieces) * _SOME:
        yield (
            f"{cold.resident:,} of {len(cold.pieces):,} pieces stayed in memory: they are being"
            " written, or another process has them mapped. Read cold they would be slower."
        )
    # What a remote mount says of blocks means nothing.
    if chosen.sparse and here.kind in LOCAL_KINDS:
        yield (
            "The files take less than half their size on disk (holes, or compression): they read"
            " faster than other files of this size would."
        )
    if cold.stuck or cached.stuck:
        yield f"{max(cold.stuck, cached.stuck)} readers got no answer and were left behind."
    if not chosen.complete:
        yield f"The folder was not walked to its end: {chosen.files_seen:,} files are known."
    if chosen.closed:
        yield f"{chosen.closed:,} folders below could not be listed and are left out."


def whole_files(pieces: Sequence[Piece]) -> list[str]:
    """Return the files that were read from begin to end; UsageError where there is none."""
    sizes: dict[str, int] = {}
    for piece in pieces:
        sizes[piece.path] = sizes.get(piece.path, 0) + piece.size
    found = [path for path, size in sizes.items() if _size_of(path) == size]
    if not found:
        raise UsageError(
            "No file was read to its end, so there is nothing to decode.",
            hint="Give it more --seconds and --bytes, or a folder of smaller files.",
        )
    return found


def _size_of(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None


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
        self.resident = 0
        self.errors: list[str] = []

    def next(self) -> Piece | None:
        """Return the next piece; None when there is no more."""
        with self._lock:
            return next(self._left, None)

    def add(self, piece: Piece, *, resident: bool, seconds: float) -> None:
        """Count a piece as far as it was read."""
        with self._lock:
            self.latencies.append(seconds)
            self.read.append(piece)
            self.resident += resident

    def fail(self, piece: Piece, error: OSError) -> None:
        """Count a piece that could not be read."""
        with self._lock:
            self.errors.append(f"{piece.path}: {error.strerror}")


class Read(NamedTuple):
    """One pass: its figures, what was read, and what failed."""

    done: Pass | None
    pieces: tuple[Piece, ...]
    """The last ones end where the time did."""
    errors: tuple[str, ...]
    resident: int = 0
    """Pieces that could not be dropped from memory."""
    stuck: int = 0
    """Workers that got no answer."""


def read_pass(
    pieces: Sequence[Piece],
    temperature: Literal["cold", "cached"],
    bounds: Bounds,
    *,
    clock: Clock = time.monotonic,
    hang_seconds: float = HANG_SECONDS,
) -> Read:
    """Read pieces with several workers until they are all read or the time is over."""
    tally = _Tally(pieces)
    begin = clock()
    until = begin + bounds.max_seconds
    ended: list[float] = []

    def work() -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        while clock() < until and (piece := tally.next()):
            started = clock()
            try:
                size, resident = _read(
                    piece, buffer, cold=temperature == "cold", late=lambda: clock() >= until
                )
            except OSError as error:
                tally.fail(piece, error)
            else:
                read = piece._replace(size=size)
                tally.add(read, resident=resident, seconds=clock() - started)
        ended.append(clock())

    threads = [threading.Thread(target=work, daemon=True) for _ in range(bounds.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        # A read of a mount that hangs never ends: the workers that are stuck are left behind.
        thread.join(max(0.0, until + hang_seconds - clock()))
    read = tuple(tally.read)
    done = measured(
        temperature,
        # Who is stuck reads nothing, and its waiting is no time of the others.
        seconds=max(ended, default=until) - begin,
        files=sum(piece.offset == 0 for piece in read),
        size=sum(piece.size for piece in read),
        latencies=list(tally.latencies),
    )
    return Read(
        done=done,
        pieces=read,
        errors=tuple(tally.errors),
        resident=tally.resident,
        stuck=sum(thread.is_alive() for thread in threads),
    )


def _read(
    piece: Piece, buffer: memoryview, *, cold: bool, late: Callable[[], bool]
) -> tuple[int, bool]:
    """Read one piece, dropping its pages from memory before where it is to be cold.

    Returns the bytes that were read in time, and whether the pages stayed in memory all the same.
    """
    # What became a pipe since it was looked at would never open without NONBLOCK.
    file = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        resident = False
        if cold:
            os.posix_fadvise(file, piece.offset, piece.size, os.POSIX_FADV_DONTNEED)
            resident = _in_memory(file, piece.offset)
        return _fill(file, piece, buffer, late), resident
    finally:
        os.close(file)


def _in_memory(file: int, offset: int) -> bool:
    """Tell whether a file's byte is in memory; False where that cannot be asked."""
    try:
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) > 0
    except OSError:
        return False


def _fill(file: int, piece: Piece, view: memoryview, late: Callable[[], bool]) -> int:
    total = 0
    while total < piece.size and not (total and late()):
        part = view[: min(len(view), piece.size - total)]
        count = os.preadv(file, [part], piece.offset + total)
        if not count:
            break
        total += count
    return total


# --- preparation


def check_decode(decode: str) -> None:
    """Raise UsageError for a ``--decode`` that cannot be called, before anything is read."""
    if _CALLABLE.fullmatch(decode):
        load(decode)
        return
    program = _words(decode, "")[0]
    if find(program) is None:
        raise UsageError(
            f"--decode: there is no program {program!r}.",
            hint="Say a command with {} for the file, or MODULE:FUNCTION.",
        )


def prepare(
    files: Sequence[str],
    decode: str,
    *,
    workers: int,
    max_seconds: float,
    clock: Clock = time.monotonic,
    patience_seconds: float = DECODE_SECONDS,
) -> Preparation:
    """Decode files that are in memory, and measure only that.

    ``decode`` is ``MODULE:FUNCTION``, called with a file's bytes in a process of its own as a
    loader's worker would, or a command in which ``{}`` is the file. Raises UsageError for one that
    cannot be called, Ai4infraError when it fails on a file or takes ``patience_seconds`` for one.
    """
    check_decode(decode)
    with _pool(decode, workers) as pool:
        run_ = _Decoding(pool, decode, clock, patience_seconds)
        run_.warm_up(workers)
        begin = clock()
        times = run_.bounded(files, begin + max_seconds, workers)
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


@contextmanager
def _pool(decode: str, workers: int) -> Iterator[Executor]:
    """Yield workers; when what is inside fails, those that still run are ended."""
    before = set(active_children())
    if _CALLABLE.fullmatch(decode):
        pool: Executor = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_begin_worker
        )
    else:
        pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - before:
            child.kill()
        raise
    pool.shutdown()


def _begin_worker() -> None:
    """Leave Ctrl-C to the process above, and keep the standard output for its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)


Spent = tuple[int, float]
"""Bytes of a file, and the seconds that it took."""


class _Decoding:
    """Decoding with workers, each file once."""

    def __init__(self, pool: Executor, decode: str, clock: Clock, patience_seconds: float) -> None:
        self._pool, self._decode, self._clock = pool, decode, clock
        self._patience_seconds = patience_seconds
        self._is_callable = bool(_CALLABLE.fullmatch(decode))
        self._job = _called if self._is_callable else _commanded

    def warm_up(self, workers: int) -> None:
        """Let workers start and import before the clock does."""
        self._results(
            {
                self._pool.submit(_start, self._decode if self._is_callable else None)
                for _ in range(workers)
            }
        )

    def bounded(self, files: Sequence[str], until: float, workers: int) -> list[Spent]:
        """Keep all workers busy until the files or the time are over; some are always done."""
        times: list[Spent] = []
        pending: set[Future[Spent]] = set()
        for file in files:
            if self._clock() >= until and times:
                break
            pending.add(self._pool.submit(self._job, self._decode, file))
            if len(pending) >= 2 * workers:
                done, pending = self._wait(pending, FIRST_COMPLETED)
                times += map(self._result, done)
        # What no worker has begun is not waited for, unless it is all there is.
        late = self._clock() >= until and bool(times)
        running = {each for each in pending if not (late and each.cancel())}
        return times + self._results(running)

    def _results(self, futures: set[Future[T]]) -> list[T]:
        results: list[T] = []
        while futures:
            done, futures = self._wait(futures, FIRST_COMPLETED)
            results += map(self._result, done)
        return results

    def _wait(self, futures: set[Future[T]], until: str) -> tuple[set[Future[T]], set[Future[T]]]:
        done, pending = wait(futures, timeout=self._patience_seconds, return_when=until)
        if not done:
            raise Ai4infraError(
                f"--decode {self._decode} did not come to an end in {self._patience_seconds:g}"
                " seconds."
            )
        return done, pending

    def _result(self, future: Future[T]) -> T:
        try:
            return future.result()
        except BrokenExecutor as error:
            raise Ai4infraError(
                f"A process that ran --decode {self._decode} came to a sudden end.",
                hint="Was there too little memory? Fewer --workers take less.",
            ) from error


def load(decode: str) -> Callable[[bytes], Any]:
    """Import ``MODULE:FUNCTION``, from the current folder too; UsageError when it is not there."""
    module, _, name = decode.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        # What a module prints as it is imported is no result of ours.
        with redirect_stdout(sys.stderr):
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"--decode {decode} cannot be imported: {type(error).__name__}: {error}.",
            hint="Say MODULE:FUNCTION, with the module in this folder or installed.",
        ) from error
    if not callable(found):
        raise UsageError(f"--decode {decode} is nothing that can be called.")
    return found  # type: ignore[no-any-return]  # what a user wrote has no type here


def _start(decode: str | None) -> None:
    if decode:
        load(decode)


def _called(decode: str, path: str) -> Spent:
    function = load(decode)
    data = Path(path).read_bytes()
    begin = time.perf_counter()
    try:
        function(data)
    except (Exception, SystemExit) as error:
        raise Ai4infraError(
            f"--decode {decode} failed on {path}: {type(error).__name__}: {error}."
        ) from error
    return len(data), time.perf_counter() - begin


def _commanded(decode: str, path: str) -> Spent:
    begin = time.perf_counter()
    ran = run(_words(decode, path), timeout_seconds=DECODE_SECONDS)
    if ran.code:
        raise Ai4infraError(f"--decode failed on {path}: {ran.said}.")
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
