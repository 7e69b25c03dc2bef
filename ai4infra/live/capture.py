"""Writes a capture while it is taken; what is written can be read even when the end is missing."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ai4infra.diagnosis.samples import Host, Sample, encode
from ai4infra.errors import Ai4infraError, UsageError

FLUSH_MOMENTS = 30
"""A machine that goes down takes at most so many moments with it."""
_LEVEL = 3


class Capture:
    """A capture that is open for writing."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self._moments = 0

    def begin(self, host: Host) -> None:
        """Write the first line."""
        self._write(encode(host))

    def add(self, moment: Iterable[Sample]) -> None:
        """Write the samples of one moment."""
        self._write(b"".join(encode(sample) for sample in moment))
        self._moments += 1
        if self._moments % FLUSH_MOMENTS == 0:
            self._stream.flush()

    def _write(self, lines: bytes) -> None:
        try:
            self._stream.write(lines)
        except OSError as error:
            raise _failed(self._path, error) from error


@contextmanager
def saving(path: Path) -> Iterator[Capture]:
    """Open a new capture, compressed when its name ends in ``.gz``.

    Raises UsageError for a file that is there already, Ai4infraError when it cannot be written.
    """
    try:
        file = path.open("xb")
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there already.", hint="Name another file, or remove this one first."
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    with file:
        if path.suffix != ".gz":
            yield Capture(file, path)
            return
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0) as packed:
            yield Capture(cast("BinaryIO", packed), path)


def _failed(path: Path, error: OSError) -> Ai4infraError:
    return Ai4infraError(
        f"{path} cannot be written: {error.strerror}.", hint="--save takes another file."
    )
