from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.tools.run import OnLine, find, run

PYTHON = sys.executable


def test_what_a_program_prints_is_returned_with_its_code() -> None:
    done = run(("sh", "-c", "echo one; echo two >&2; exit 3"))
    assert (done.code, done.stdout, done.stderr, done.said) == (3, "one\n", "two\n", "two")


def test_no_shell_reads_the_words() -> None:
    assert run(("echo", "$HOME; rm -rf *")).stdout == "$HOME; rm -rf *\n"


def test_a_program_has_nothing_to_read() -> None:
    assert run(("cat",)).stdout == ""


def test_the_environment_is_added_to() -> None:
    done = run(("sh", "-c", 'echo "$ONE $PATH"'), env={"ONE": "1"})
    assert done.stdout == f"1 {os.environ['PATH']}\n"


def test_lines_are_handed_on_as_they_come() -> None:
    lines: list[str] = []
    done = run(("printf", "a\\nb\\r\\n\\303\\274 \\377"), on_line=lines.append)
    assert lines == ["a", "b", "ü \ufffd"]
    assert (done.code, done.stdout) == (0, "")


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
    with pytest.raises(Ai4infraError, match="cannot be started: Permission denied"):
        run((str(file),))


GENTLE = """
import signal, sys, pathlib
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("interrupted")
    sys.exit(0)
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("on_line", [None, print])
def test_a_program_that_takes_too_long_is_ended(on_line: OnLine | None) -> None:
    with pytest.raises(Ai4infraError, match=r"sleep did not come to an end in 0\.01 seconds"):
        run(("sleep", "600"), timeout_seconds=0.01, on_line=on_line)


def test_ctrl_c_reaches_the_program_and_goes_on(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run((PYTHON, "-c", GENTLE, str(said)), on_line=interrupt)
    assert said.read_text("utf-8") == "interrupted"


def test_a_program_that_does_not_listen_is_killed() -> None:
    deaf = "trap '' INT; echo ready; while :; do sleep 0.05; done"

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(("sh", "-c", deaf), on_line=interrupt, interrupt_seconds=0.1)


def test_programs_are_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n", "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("tool") is None
    tool.chmod(0o755)
    assert find("tool") == str(tool)
