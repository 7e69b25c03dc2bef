"""``ai4infra diagnose replay``: logs in, a verdict and its exit code out."""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from ai4infra.cli.main import main
from ai4infra.diagnosis.fixes import PLACEHOLDERS
from ai4infra.diagnosis.rules import rules

if TYPE_CHECKING:
    from conftest import Run

DMON_HEAD = (
    "#Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec    fb\n"
    "#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %    MB\n"
)
IOSTAT_HEAD = "Linux 6.8.0-1021-azure (trainer) \t01/05/2026 \t_x86_64_\t(96 CPU)\n\n\n"
DEVICE = (
    "Device:  rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm"
    "  %util\n"
)


def stamp(second: int) -> str:
    return f"08:{second // 60:02}:{second % 60:02}"


def dmon(busy: int, *, seconds: int = 90, gpus: int = 8) -> str:
    values = f"120    45     -    {busy}   35     0     0 60000"
    rows = (
        f" 20260105   {stamp(second)}      {gpu}   {values}\n"
        for second in range(seconds)
        for gpu in range(gpus)
    )
    return DMON_HEAD + "".join(rows)


def iostat(read_kib: int, wait_ms: float, *, seconds: int = 90) -> str:
    queue = read_kib / 128 * wait_ms / 1000
    return IOSTAT_HEAD + "".join(
        f"01/05/2026 {stamp(second)}\n"
        "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
        "           5.00    0.00    1.00   10.00    0.00   84.00\n\n"
        f"{DEVICE}"
        f"sdc 0.00 0.00 {read_kib / 128:.2f} 0.00 {read_kib:.2f} 0.00 256.00 {queue:.2f}"
        f" {wait_ms:.2f} {wait_ms:.2f} 0.00 1.00 100.00\n\n"
        for second in range(seconds)
    )


def sar(received_kib: int, *, seconds: int = 90) -> str:
    return "".join(
        f"\n{stamp(second)}        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s"
        "   txcmp/s  rxmcst/s   %ifutil\n"
        f"{stamp(second)}         eth0     10.00     10.00  {received_kib}.00      9.00      0.00"
        "      0.00      0.00      0.00\n"
        for second in range(seconds)
    )


Logs = Callable[..., list[str]]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Write logs and return the words that name them."""

    def write(**texts: str) -> list[str]:
        for name, text in texts.items():
            (tmp_path / name).write_text(text, "utf-8")
        return [word for name in texts for word in (f"--{name}", str(tmp_path / name))]

    return write


def starving(logs: Logs) -> list[str]:
    return logs(gpu=dmon(12), disk=iostat(60_000, 35), net=sar(50))


def test_three_logs_of_a_starving_machine_name_the_disk_and_exit_4(real: Run, logs: Logs) -> None:
    done = real("diagnose", "replay", *starving(logs), "--price", "98.32")
    assert done.code == 4
    assert done.lines[:3] == [
        "The GPUs wait for data to be read from sdc.",
        "Cause: fetch-bound; confidence: high.",
        "GPU time that is not used: 88 %: 86.52 USD an hour.",
    ]
    assert "sdc reads 61 MB/s; a read waits 35.0 ms, 16.4 requests in flight." in done.stdout
    assert "ai4infra data copy" in done.stdout
    assert done.stderr == ""


def test_the_document_has_the_verdict_and_what_led_to_it(real: Run, logs: Logs) -> None:
    done = real("diagnose", "replay", *starving(logs), "-o", "json")
    found = done.json
    assert (found["kind"], found["verdict"]["cause"]) == ("diagnosis", "fetch")
    assert found["verdict"]["starving"] is True
    assert found["verdict"]["lostPerHour"] is None
    assert len(found["gpus"]) == 8
    assert found["gpus"][0]["utilization"] == pytest.approx(0.12)
    assert {"phases", "evidence", "missing", "fixes", "warnings", "aligned"} <= set(found)


def test_a_query_reaches_the_verdict(real: Run, logs: Logs) -> None:
    done = real("diagnose", "replay", *starving(logs), "-o", "tsv", "--query", "verdict.subject")
    assert (done.code, done.stdout) == (4, "sdc\n")


def test_fed_gpus_exit_0(real: Run, logs: Logs) -> None:
    done = real("diagnose", "replay", *logs(gpu=dmon(97), disk=iostat(900_000, 0.2), net=sar(50)))
    assert done.code == 0
    assert done.lines[0] == "The GPUs are fed: they are the limit."


def test_the_size_gives_the_limits(real: Run, logs: Logs) -> None:
    words = logs(gpu=dmon(40, gpus=4), disk=iostat(590_000, 3), net=sar(50))
    done = real("diagnose", "replay", *words, "--size", "nd96isr_h100_v5")
    assert "99 % of the 612 MB/s that is its limit" in done.stdout
    assert "4 of 8 GPUs were sampled" in done.stderr


def test_any_option_takes_any_log_and_gzip(real: Run, logs: Logs, tmp_path: Path) -> None:
    logs(gpu=dmon(12), disk=iostat(60_000, 35), net=sar(50))
    packed = tmp_path / "all.gz"
    packed.write_bytes(gzip.compress((tmp_path / "gpu").read_bytes()))
    done = real(
        "diagnose", "replay", str(packed), str(tmp_path / "disk"), "--gpu", str(tmp_path / "net")
    )
    assert done.code == 4


def test_the_standard_input_is_a_log(real: Run) -> None:
    done = real("diagnose", "replay", "--gpu", "-", answer=dmon(97))
    assert (done.code, done.lines[0]) == (0, "The GPUs are fed: they are the limit.")


def test_a_log_alone_that_tells_nothing_names_what_is_missing(real: Run, logs: Logs) -> None:
    done = real("diagnose", "replay", *logs(gpu=dmon(30)))
    assert done.code == 0
    assert "Cause: undetermined" in done.stdout
    assert "sar -n DEV 1 60" in done.stdout


def test_a_lost_driver_is_said(real: Run, logs: Logs) -> None:
    lost = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    done = real("diagnose", "replay", *logs(gpu=lost, disk=iostat(60_000, 35)))
    assert done.code == 0
    assert "The driver failed: NVIDIA-SMI has failed" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["diagnose", "replay"], 2, "There is nothing to read"),
        (["diagnose", "replay", "none.txt"], 3, "There is no file none.txt."),
        (["diagnose", "replay", "{gpu}", "--gpu", "{gpu}"], 2, "A file is given twice"),
        (["diagnose", "replay", "{gpu}", "--size", "D4s_v5"], 2, "no GPU size called 'D4s_v5'"),
        (["diagnose", "replay", "{gpu}", "--price", "-1"], 2, "--price"),
        (["diagnose", "replay", "{text}"], 2, "is no log that can be read"),
        (["diagnose", "replay", "{head}"], 2, "There is no sample in"),
        (["diagnose", "replay", "{gpu}", "-o", "pdf"], 2, "no output format called 'pdf'"),
        (["diagnose", "rewind"], 2, "no command called 'rewind'"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_on_stdout(
    real: Run, logs: Logs, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    logs(gpu=dmon(97), text="hello\n", head=DMON_HEAD)
    names = {name: str(tmp_path / name) for name in ("gpu", "text", "head")}
    done = real(*(word.format(**names) for word in words))
    assert done.code == code
    assert done.stdout == ""
    assert said in done.stderr


COMMANDS = sorted({fix.command for fix in rules().fixes if fix.command})
OURS = [command for command in COMMANDS if command.startswith("ai4infra ")]


@pytest.mark.parametrize("command", OURS)
def test_the_command_of_a_fix_parses(command: str) -> None:
    for name, example in PLACEHOLDERS.items():
        command = re.sub(
            rf"(?<![\w/]){re.escape(name)}(?![\w/:])|(?<=1x){name}\b", example, command
        )
    words = shlex.split(command)[1:]
    found: click.Command = main
    context = click.Context(main)
    while isinstance(found, click.Group):
        inner = found.get_command(context, words.pop(0))
        assert inner is not None
        found = inner
    assert not re.search(r"\b[A-Z]{4,}\b", " ".join(words))
    found.make_context("ai4infra", words, parent=context)


def test_only_commands_of_nvidia_are_not_ours() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"ai4infra", "nvidia-smi"}
