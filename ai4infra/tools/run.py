"""Starts a program: without a shell, without input, stopped gently."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.model import Record

INTERRUPT_SECONDS = 30.0
"""How long a program has to end after SIGINT; then it is killed."""

OnLine = Callable[[str], None]


class Ran(Record, frozen=True):
    """What a program printed, and its exit code (minus the signal that ended it)."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    """Empty where the lines were handed on as they came."""
    stderr: str

    @property
    def said(self) -> str:
        """What it said about a failure, in one line: the last of stderr, else of stdout."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return " ".join(" ".join(lines[-3:]).split())


def find(program: str) -> str | None:
    """Return the absolute path of a program; None when it is nowhere on the PATH."""
    found = shutil.which(program)
    return os.path.abspath(found) if found else None  # noqa: PTH100 - resolve() would follow links


def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float | None = None,
    env: Mapping[str, str] | None = None,
    on_line: OnLine | None = None,
    interrupt_seconds: float = INTERRUPT_SECONDS,
) -> Ran:
    """Run a program to its end and return what it printed.

    ``env`` is added to this process's environment. ``on_line`` gets each line of stdout as it
    comes, in this thread. The program has a session of its own, so that Ctrl-C reaches it once and
    from here: on KeyboardInterrupt, on an error of ``on_line`` and after the timeout it gets SIGINT
    and ``interrupt_seconds`` to end.

    Raises NotFoundError when there is no such program, Ai4infraError when it cannot be started or
    takes longer than ``timeout_seconds``.
    """
    # Files, not pipes: a daemon that the program leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(argv, env, subprocess.PIPE if on_line else out, err)
        with _stopped_on_error(process, argv, timeout_seconds, interrupt_seconds):
            until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
            for line in _lines(process, until) if on_line and process.stdout else ():
                on_line(line) if on_line else None
            process.wait(timeout=_left(until))
        return Ran(argv=tuple(argv), code=process.returncode, stdout=_text(out), stderr=_text(err))


def _start(
    argv: Sequence[str], env: Mapping[str, str] | None, out: int | IO[bytes], err: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - a list of words, and no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **env} if env else None,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no program {argv[0]} on this machine.") from error
    except OSError as error:
        raise Ai4infraError(f"{argv[0]} cannot be started: {error.strerror}.") from error


def _lines(process: subprocess.Popen[bytes], until: float | None) -> Iterator[str]:
    """Yield stdout's lines; raises TimeoutExpired when there is none in time."""
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def read(stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    if process.stdout is None:
        return
    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_left(until))
        except queue.Empty as error:
            raise subprocess.TimeoutExpired(process.args, 0) from error
        if line is None:
            return
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


@contextmanager
def _stopped_on_error(
    process: subprocess.Popen[bytes],
    argv: Sequence[str],
    timeout_seconds: float | None,
    interrupt_seconds: float,
) -> Iterator[None]:
    """End the program when what is inside does not come to its own end."""
    try:
        yield
    except subprocess.TimeoutExpired as error:
        _stop(process, interrupt_seconds)
        raise Ai4infraError(
            f"{argv[0]} did not come to an end in {timeout_seconds:g} seconds."
        ) from error
    except BaseException:
        _stop(process, interrupt_seconds)
        raise


def _stop(process: subprocess.Popen[bytes], interrupt_seconds: float) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=interrupt_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")
