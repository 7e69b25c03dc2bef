"""Open logs and captures: the one file of this package that touches files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ai4infra.diagnosis.logs import LogSource
from ai4infra.diagnosis.samples import Notes
from ai4infra.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

STDIN = "-"
_HEAD = 1 << 16
"""A first line that is longer than this is no line."""
_PACKED: dict[bytes, Callable[[BinaryIO], io.BufferedIOBase]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""PowerShell writes this with ``>``."""
_OTHERS = {
    b"\x28\xb5\x2f\xfd": "It is packed by zstd: `zstd -d` unpacks it.",
    b"PK\x03\x04": "It is a ZIP archive: unpack it.",
    b"\x96\xd5": "It is sar's own file: `sar -u -d -n DEV -f FILE > sar.txt` prints it.",
    b"\xd5\x96": "It is sar's own file: `sar -u -d -n DEV -f FILE > sar.txt` prints it.",
}


@contextmanager
def opened(path: str | Path) -> Iterator[LogSource]:
    """Open a log or capture, plain or packed (gzip, xz, bzip2); ``-`` is the standard input.

    Text is UTF-8, or UTF-16 with its mark. Bytes that are none become question marks: names of
    devices and numbers have none. Raises NotFoundError or UsageError where there is nothing to
    read.
    """
    if str(path) == STDIN:
        with _source(sys.stdin.buffer, "The standard input") as source:
            yield source
        return
    with _open(Path(path)) as file, _source(file, str(path)) as source:
        yield source


@contextmanager
def _source(file: BinaryIO, name: str) -> Iterator[LogSource]:
    buffered = file if isinstance(file, io.BufferedReader) else _buffered(file)
    unpack = next((how for sign, how in _PACKED.items() if _begins(buffered, sign)), None)
    notes = Notes()
    plain = _buffered(_Unpacked(unpack(buffered), notes)) if unpack else buffered
    encoding = _encoding(plain, name)
    if notes.cut and not plain.peek(1):
        raise UsageError(f"{name} cannot be unpacked: it is cut off or damaged.")
    with io.TextIOWrapper(plain, encoding=encoding, errors="replace") as text:
        lines = iter(text) if _has_lines(plain, encoding) else iter(partial(text.read, _HEAD), "")
        yield LogSource(lines, name, notes)


class _Unpacked(io.RawIOBase):
    """A packed file, up to where its writer was killed: what came before is whole."""

    def __init__(self, packed: io.BufferedIOBase, notes: Notes) -> None:
        self._packed = packed
        self._notes = notes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        try:
            # read1 gives what there is, where read would lose it to the error behind it.
            data = self._packed.read1(len(view))
        except _BROKEN:
            self._notes.cut = True
            return 0
        view[: len(data)] = data
        return len(data)


def _buffered(file: io.RawIOBase | BinaryIO) -> io.BufferedReader:
    return io.BufferedReader(cast("io.RawIOBase", file), _HEAD)


def _begins(file: io.BufferedReader, sign: bytes) -> bool:
    return file.peek(len(sign))[: len(sign)] == sign


def _encoding(file: io.BufferedReader, name: str) -> str:
    """Return how the text is written; raises UsageError for what is no text."""
    if any(_begins(file, sign) for sign in _UTF_16):
        return "utf-16"
    hint = next((text for sign, text in _OTHERS.items() if _begins(file, sign)), None)
    head = file.peek(1)[:512]
    if hint or head.count(0) * 10 > len(head):
        raise UsageError(f"{name} is no text.", hint=hint or "Logs are what the tools print.")
    return "utf-8-sig"


def _has_lines(file: io.BufferedReader, encoding: str) -> bool:
    """Tell whether lines end: JSON without line breaks is read in pieces."""
    head = file.peek(_HEAD)
    return len(head) < _HEAD or encoding == "utf-16" or b"\n" in head


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=_HEAD)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise UsageError(
            f"{path} cannot be read: it is a folder.", hint="Name the logs in it."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, OSError)
