"""Starts a program: without a shell, without input, stopped gently."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.model import Record

INTERRUPT_SECONDS = 30.0
"""How long a program has to end after SIGINT; then it is killed."""


class Ran(Record, frozen=True):
    """What a program printed, and its exit code (minus the signal that ended it)."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """What it said about a failure, in one line without a full stop; else its exit code.

        The last three lines of stderr, else of stdout.
        """
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        said = " ".join(" ".join(lines[-3:]).split()).rstrip(".")
        return said or f"exit code {self.code}"


def find(program: str) -> str | None:
    """Return the absolute path of a program; None when it is nowhere on the PATH."""
    found = shutil.which(program)
    return os.path.abspath(found) if found else None  # noqa: PTH100 - resolve() would follow links


def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Ran:
    """Run a program to its end and return what it printed.

    ``env`` is all of its environment, None for this process's; it starts in ``folder``, None for
    the current one. It has a session of its own, so that Ctrl-C reaches it once and from here: on
    KeyboardInterrupt and after the timeout it is stopped.

    Raises NotFoundError when there is no such program, Ai4infraError when it cannot be started or
    takes longer than ``timeout_seconds``.
    """
    # Files, not pipes: a daemon that the program leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(argv, env, folder, out, err)
        try:
            process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            stop(process)
            raise Ai4infraError(
                f"{argv[0]} did not come to an end in {timeout_seconds:g} seconds."
            ) from error
        except BaseException:
            stop(process)
            raise
        return Ran(code=process.returncode, stdout=_text(out), stderr=_text(err))


def _start(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    folder: Path | None,
    out: IO[bytes],
    err: IO[bytes],
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - a list of words, and no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no program {argv[0]} on this machine.") from error
    except OSError as error:
        raise Ai4infraError(f"{argv[0]} cannot be run: {error.strerror}.") from error


def stop(process: subprocess.Popen[bytes], interrupt_seconds: float = INTERRUPT_SECONDS) -> None:
    """Stop a program as Ctrl-C does; kill it when it has not ended after so long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=interrupt_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")
