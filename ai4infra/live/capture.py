"""Writes a capture while it is taken, moment by moment; it can be read without its end."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from ai4infra.diagnosis.samples import Host, Sample, encode
from ai4infra.errors import Ai4infraError, UsageError

_LEVEL = 3


class Capture:
    """A capture that is open for writing.

    A disk that gets full ends the capture and not the watching: ``failed`` says why, and nothing
    more is written.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self.failed: Ai4infraError | None = None

    def begin(self, host: Host) -> None:
        """Write the first line; raises Ai4infraError when not even that can be written."""
        self._write(encode(host))
        if self.failed:
            raise self.failed

    def add(self, moment: Iterable[Sample]) -> None:
        """Write the samples of one moment, so that they outlive this process."""
        self._write(b"".join(encode(sample) for sample in moment))

    def end(self) -> None:
        """Write the end; a capture without it is readable too."""
        self._try(self._stream.close)

    def _write(self, lines: bytes) -> None:
        if not self.failed:
            self._try(lambda: self._stream.write(lines))
            self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            self.failed = self.failed or _failed(self._path, error)


@contextmanager
def saving(path: Path) -> Iterator[Capture]:
    """Open a new capture, compressed when its name ends in ``.gz``.

    Raises UsageError for a file that is there already, Ai4infraError when it cannot be written.
    """
    if str(path) == "-":
        raise UsageError("--save takes a file.", hint="The verdict goes to the standard output.")
    try:
        file = path.open("xb")
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there already.", hint="Name another file, or remove this one first."
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    if path.suffix == ".gz":
        packed = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0)
        inner: BinaryIO = cast("BinaryIO", packed)
    else:
        inner = file
    capture = Capture(inner, path)
    try:
        yield capture
    finally:
        capture.end()
        with suppress(OSError):
            # What a full disk did not take is told already.
            file.close()


def _failed(path: Path, error: OSError) -> Ai4infraError:
    return Ai4infraError(
        f"{path} cannot be written: {error.strerror}.", hint="--save takes another file."
    )
