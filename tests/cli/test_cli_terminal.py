"""What a terminal shows: a real one, of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import pytest

pytestmark = pytest.mark.slow

REQUEST = ("quota", "request", "-r", "eastus2", "--family", "ND96asr_v4", "--limit", "288")


def on_terminal(
    *words: str, width: int = 100, answer: bytes | signal.Signals = b"", **env: str
) -> tuple[int, str]:
    """Run the command line on a terminal and answer its question; exit code and all it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "ai4infra", "--sandbox", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm", **env},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
        if answer and b"[y/N]" in shown:
            if isinstance(answer, bytes):
                os.write(ours, answer)
            else:
                process.send_signal(answer)
                # Wakes a read that began just before the signal.
                os.write(ours, b"\n")
            answer = b""
    os.close(ours)
    return process.wait(), shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the child is gone
        return b""


def table(shown: str) -> list[str]:
    lines = shown.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("Size"))
    return lines[first : lines.index("", first)]


@pytest.mark.parametrize("width", [80, 100, 130])
def test_a_table_fits_the_terminal_and_says_what_it_left_out(width: int) -> None:
    code, shown = on_terminal("recon", "-r", "eastus2", width=width, NO_COLOR="1")
    assert code == 0
    assert max(map(len, table(shown))) <= width
    for title in ("Size", "GPU", "Access", "Fits"):
        assert title in table(shown)[0].split()
    assert "no room for " in shown
    assert "\x1b[1m" not in shown


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("need", [(), ("--need", "8xStandard_ND96asr_v4")])
def test_prose_is_wrapped_between_words_and_commands_are_whole(
    need: tuple[str, ...], width: int
) -> None:
    _, shown = on_terminal("recon", "-r", "eastus2", *need, width=width, NO_COLOR="1")
    shown = shown[: shown.index("no room for")]
    lines = shown[shown.index("\n\n", shown.index("\nQuota")) :].splitlines()
    commands = [line for line in lines if "ai4infra " in line]
    assert commands
    assert all(" --limit " in line for line in commands)
    prose = [line for line in lines if line not in commands and "https://" not in line]
    assert max(map(len, prose)) <= width
    assert "Listing and quota are not capacity" in shown


def test_colours_mark_the_heading_and_what_cannot_be_started() -> None:
    _, shown = on_terminal("recon", "-r", "eastus2", "--no-prices")
    assert "\x1b[1mSize " in shown
    assert "\x1b[2mStandard_ND96amsr_A100_v4" in shown
    assert "\nStandard_ND96asr_v4" in shown


def test_a_dumb_terminal_gets_no_colours() -> None:
    assert "\x1b[1m" not in on_terminal("quota", "list", "-r", "eastus2", TERM="dumb")[1]


def test_a_plan_is_shown_and_asked_about() -> None:
    code, shown = on_terminal(*REQUEST, "--register", answer=b"y\n")
    assert code == 0
    assert "update quota limit: Standard NDASv4_A100 Family" in shown.split("Do this?")[0]
    assert "The limit is 288." in shown


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (signal.SIGINT, 130)])
def test_nothing_is_sent_without_a_yes(answer: bytes | signal.Signals, code: int) -> None:
    assert on_terminal(*REQUEST, "--register", answer=answer)[0] == code
    listed = on_terminal("quota", "list", "-r", "eastus2", "--query", "quotas[?limit==`288`].name")
    assert "Standard NDASv4_A100 Family" not in listed[1]


def test_progress_leaves_nothing_behind_and_never_wraps() -> None:
    _, shown = on_terminal("recon", "--all-regions", "--no-prices", "--gpu", "T4", width=60)
    parts = [part for part in shown.split("\r\x1b[K") if " regions" in part.split("\n")[0]]
    assert parts
    assert all(len(part) < 60 for part in parts if "\n" not in part)


def test_a_plan_shows_every_step_and_its_cost_before_it_asks() -> None:
    code, shown = on_terminal("storage", "create", answer=b"n\n")
    before, after = shown.split("Do this?")
    assert code == 1
    for kind in ("resource group", "storage account", "container", "role assignment"):
        assert f"create {kind}: " in before
    assert "USD per GiB and month" in before
    assert "Nothing was sent." in after
    code, shown = on_terminal("storage", "list", NO_COLOR="1")
    assert (code, "No storage accounts." in shown) == (0, True)


def test_sentences_on_stderr_are_wrapped_between_words_and_hints_with_commands_are_whole() -> None:
    scope = "/subscriptions/a1410000-0000-4000-8000-000000000001/resourceGroups/rg-none"
    words = ("rbac", "wait", "Reader", "--to", "me", "--on", scope)
    code, shown = on_terminal(*words, width=60)
    assert code == 3
    said, hint = shown.split("hint: ")
    assert max(map(len, said.splitlines())) <= 60
    assert hint.count("\n") == 1
    assert hint.endswith(f"{scope}\n")
    tag = "a-word-that-is-longer-than-any-line-of-this-terminal-may-ever-be"
    _, shown = on_terminal("storage", "create", "--tag", tag, width=40)
    assert f"'{tag}'" in shown.splitlines()[1]
