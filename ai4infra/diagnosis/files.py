"""Open logs and captures: the one file of this package that touches files."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ai4infra.diagnosis.logs import LogSource
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
        yield LogSource(_lines(sys.stdin.buffer), "The standard input")
        return
    with _open(Path(path)) as file:
        yield LogSource(_lines(file), str(path))


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _lines(file: BinaryIO) -> Iterator[str]:
    buffered = io.BufferedReader(cast("io.RawIOBase", file))
    packed = buffered.peek(2)[:2] == _GZIP
    raw = cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else buffered
    text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace")
    try:
        yield from text
    except (EOFError, zlib.error, gzip.BadGzipFile):
        # The writer was killed: what came before is whole, and the readers say where it ends.
        return
