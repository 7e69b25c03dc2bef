from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.tools.run import find, run, stop

PYTHON = sys.executable


def test_what_a_program_prints_is_returned_with_its_code() -> None:
    done = run(("sh", "-c", "echo one; echo two >&2; exit 3"))
    assert (done.code, done.stdout, done.stderr, done.said) == (3, "one\n", "two\n", "two")


def test_no_shell_reads_the_words() -> None:
    assert run(("echo", "$HOME; rm -rf *")).stdout == "$HOME; rm -rf *\n"


def test_a_program_has_nothing_to_read() -> None:
    assert run(("cat",)).stdout == ""


def test_the_environment_and_the_folder_are_its_own(tmp_path: Path) -> None:
    done = run(("/bin/sh", "-c", 'echo "$ONE"; pwd; env'), env={"ONE": "1"}, folder=tmp_path)
    assert done.stdout.startswith(f"1\n{tmp_path}\n")
    assert "HOME=" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("echo one >&2; echo two. >&2; exit 1", "one two"),
        ("echo out; exit 1", "out"),
        ("exit 7", "exit code 7"),
    ],
)
def test_a_failure_is_told_in_one_line(words: str, said: str) -> None:
    assert run(("sh", "-c", words)).said == said


def test_what_is_no_utf8_is_shown_as_such() -> None:
    assert run(("printf", "\\303\\274 \\377")).stdout == "ü \ufffd"


def test_a_daemon_that_stays_behind_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = run(("sh", "-c", f"sleep 60 & echo $! >{pid}; echo started"), timeout_seconds=20)
    os.kill(int(pid.read_text("utf-8")), signal.SIGTERM)
    assert done.stdout == "started\n"


def test_a_missing_program_is_told() -> None:
    with pytest.raises(NotFoundError, match="no program ai4infra-none"):
        run(("ai4infra-none",))


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("x", "utf-8")
    with pytest.raises(Ai4infraError, match="cannot be run: Permission denied"):
        run((str(file),))


# A blocked signal waits to be taken: there is no moment at which it could be missed.
GENTLE = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
pathlib.Path(sys.argv[1]).write_text("interrupted")
"""
PRESSING = """
import os, pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
waiting = pathlib.Path(f"/proc/{os.getppid()}/stat")
while waiting.read_text().rpartition(")")[2].split()[0] != "S":
    pass
os.kill(os.getppid(), signal.SIGINT)
signal.sigwait({signal.SIGINT})
"""


def started(*words: str) -> subprocess.Popen[bytes]:
    """Start a program and wait until it says that it is ready."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(Ai4infraError, match=r"sleep did not come to an end in 0\.01 seconds"):
        run(("sleep", "600"), timeout_seconds=0.01)


def test_ctrl_c_ends_the_program_and_goes_on() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run((PYTHON, "-c", PRESSING))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_program_that_listens_ends_itself(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with started(PYTHON, "-c", GENTLE, str(said)) as process:
        stop(process)
    assert (process.returncode, said.read_text("utf-8")) == (0, "interrupted")


def test_a_program_that_does_not_listen_is_killed() -> None:
    with started("sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done") as process:
        stop(process, interrupt_seconds=0.1)
    assert process.returncode == -signal.SIGKILL


def test_programs_are_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n", "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("tool") is None
    tool.chmod(0o755)
    assert find("tool") == str(tool)
