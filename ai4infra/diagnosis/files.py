"""Open logs and captures: the one file of this package that touches files."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ai4infra.diagnosis.logs import LogSource
from ai4infra.diagnosis.samples import Notes
from ai4infra.errors import NotFoundError, UsageError

_GZIP = b"\x1f\x8b"
STDIN = "-"


@contextmanager
def opened(path: str | Path) -> Iterator[LogSource]:
    """Open a log or capture, plain or gzip; ``-`` is the standard input.

    Bytes that are no UTF-8 become question marks: names of devices and numbers have none. Raises
    NotFoundError or UsageError where there is nothing to read.
    """
    if str(path) == STDIN:
        with _source(sys.stdin.buffer, "The standard input") as source:
            yield source
        return
    with _open(Path(path)) as file, _source(file, str(path)) as source:
        yield source


@contextmanager
def _source(file: BinaryIO, name: str) -> Iterator[LogSource]:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_raw(file))
    packed = buffered.peek(2)[:2] == _GZIP
    plain = cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else buffered
    notes = Notes()
    with io.TextIOWrapper(plain, encoding="utf-8-sig", errors="replace") as text:
        yield LogSource(_until_broken(text, notes) if packed else text, name, notes)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _raw(file: BinaryIO) -> io.RawIOBase:
    return cast("io.RawIOBase", file)


def _until_broken(lines: Iterable[str], notes: Notes) -> Iterator[str]:
    try:
        yield from lines
    except (EOFError, zlib.error, gzip.BadGzipFile):
        # The writer was killed; what came before is whole.
        notes.cut = True
