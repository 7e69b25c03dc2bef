"""``diagnose path``, ``probe`` and ``watch`` on this machine, and the picture of ``watch``."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from ai4infra.cli.diagnose_view import picture
from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    Host,
    NetSample,
    ProcessSample,
    encode,
)

if TYPE_CHECKING:
    from conftest import Ran, Run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for at in range(5):
        (folder / f"{at}.bin").write_bytes(bytes(1000))
    return folder


def test_a_path_is_told_with_the_three_causes(real: Run, data: Path) -> None:
    done = real("diagnose", "path", str(data), "-o", "json")
    assert done.code in (0, 4)
    assert len(done.json["causes"]) == 3
    assert done.json["behind"]["path"] == str(data)


def test_a_path_of_the_sandboxs_machine_is_looked_at_there(run: Run) -> None:
    done = run("diagnose", "path", "/mnt/data")
    assert done.code == 0
    assert done.stdout.startswith("/mnt/data: temp disk")
    assert "sandbox" in done.stderr


@pytest.mark.parametrize("words", [("watch",), ("probe", "/mnt")])
def test_the_sandboxs_machine_cannot_be_measured(run: Run, words: tuple[str, ...]) -> None:
    done = run("diagnose", *words)
    assert (done.code, done.stdout) == (2, "")


def test_a_path_that_is_not_there_is_exit_code_3(real: Run) -> None:
    done = real("diagnose", "path", "/nowhere/at/all")
    assert (done.code, done.stdout) == (3, "")


def test_a_probe_without_a_need_is_figures_alone(real: Run, data: Path) -> None:
    done = real("diagnose", "probe", str(data), "-o", "json", "--workers", "2")
    assert done.code == 0
    assert [p["name"] for p in done.json["passes"]] == ["cold", "cached"]
    assert done.json["probe"]["carried"] is None


def test_a_need_that_is_not_met_is_exit_code_4(real: Run, data: Path) -> None:
    done = real("diagnose", "probe", str(data), "--need", "900GB/s")
    assert done.code == 4
    assert "The GPUs starve" in done.stdout


def test_a_need_of_gpus_says_where_it_comes_from(real: Run, data: Path) -> None:
    done = real("diagnose", "probe", str(data), "--gpus", "8xH100", "--workload", "unet3d")
    assert "need: 25,4" in done.stdout
    assert "8 H100 on unet3d" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--need", "1GB/s", "--gpus", "8xH100"),
        ("--workload", "resnet50"),
        ("--need", "fast"),
        ("--need", ""),
        ("--bytes", "some"),
        ("--workers", "0"),
        ("--gpus", "8xH100", "--workload", "resnet"),
    ],
)
def test_questions_that_contradict_themselves_are_usage(
    real: Run, data: Path, words: tuple[str, ...]
) -> None:
    done = real("diagnose", "probe", str(data), *words)
    assert (done.code, done.stdout) == (2, "")


def test_watching_without_gpus_is_undetermined_and_says_why(real: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = real(
        *("diagnose", "watch", "--duration", "0.2", "--interval", "0.1"),
        *("--path", str(tmp_path), "--report", str(page), "-o", "json"),
    )
    assert (done.code, done.json["verdict"]["cause"]) == (0, "undetermined")
    assert "GPUs are not sampled" in done.stderr
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_a_capture_is_written_and_replayed(real: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "c.jsonl.gz")
    watched = real(
        *("diagnose", "watch", "--duration", "0.3", "--interval", "0.1", "--save", file),
        *("-o", "json"),
    )
    replayed = real("diagnose", "replay", file, "-o", "json")
    assert replayed.json["verdict"] == watched.json["verdict"]


def test_a_file_that_is_there_is_not_overwritten(real: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl.gz"
    file.write_text("mine")
    done = real("diagnose", "watch", "--duration", "1", "--save", str(file))
    assert (done.code, done.stdout, file.read_text()) == (2, "", "mine")


def test_a_size_that_nobody_knows_is_told_before_anything_is_sampled(real: Run) -> None:
    done = real("diagnose", "watch", "--duration", "5", "--size", "my-own-size")
    assert (done.code, done.stdout) == (2, "")


class Watching:
    """A ``diagnose watch`` that runs on a terminal of its own, until its picture shows."""

    def __init__(self, *words: str) -> None:
        self._terminal, slave = os.openpty()
        argv = [sys.executable, "-m", "ai4infra", "diagnose", "watch", "--interval", "0.1"]
        self.process = subprocess.Popen(
            [*argv, "--duration", "600", *words],
            stdout=subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            text=True,
        )
        os.close(slave)
        shown = b""
        # The picture comes after its moment was saved.
        while b"s left" not in shown:
            shown += os.read(self._terminal, 4096)

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; return the exit code and what was printed."""
        self.process.send_signal(number)
        with suppress(OSError):
            # The terminal fails to read once nobody has it open.
            while os.read(self._terminal, 4096):
                pass
        out, _ = self.process.communicate()
        os.close(self._terminal)
        return self.process.returncode, out


@pytest.mark.slow
def test_ctrl_c_ends_watching_with_the_verdict_so_far(real: Run, tmp_path: Path) -> None:
    file, page = str(tmp_path / "c.jsonl.gz"), tmp_path / "c.html"
    watching = Watching("--save", file, "--report", str(page), "-o", "json")
    code, out = watching.end(signal.SIGINT)
    assert code == 130
    assert gzip.decompress(Path(file).read_bytes()).endswith(b"}\n")
    replayed = real("diagnose", "replay", file, "-o", "json")
    assert replayed.json["verdict"] == json.loads(out)["verdict"]
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_what_was_saved_before_a_kill_is_replayed(real: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "c.jsonl.gz")
    code, out = Watching("--save", file).end(signal.SIGKILL)
    assert (code, out) == (-signal.SIGKILL, "")
    replayed = real("diagnose", "replay", file, "-o", "json")
    assert replayed.code == 0
    assert "cut off" in replayed.stderr


def test_a_report_does_not_replace_the_capture(real: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "c.jsonl")
    words = ("diagnose", "watch", "--duration", "0.1", "--interval", "0.1", "--save", file)
    assert real(*words, "--report", file).code == 2
    assert real(*words).code == 0
    before = Path(file).read_bytes()
    done = real("diagnose", "replay", file, "--report", file)
    assert (done.code, done.stdout, Path(file).read_bytes()) == (2, "", before)


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_the_standard_output_is_the_verdicts(real: Run, option: str) -> None:
    done = real("diagnose", "watch", "--duration", "0.1", "--interval", "0.1", option, "-")
    assert (done.code, done.stdout) == (2, "")


@pytest.mark.slow
def test_a_full_disk_costs_the_capture_and_not_the_verdict(real: Run, tmp_path: Path) -> None:
    words = ("diagnose", "watch", "--duration", "0.1", "--interval", "0.1", "-o", "json", "--save")
    real(*words, str(tmp_path / "whole.jsonl"))
    head = (tmp_path / "whole.jsonl").read_bytes().index(b"\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The head of a capture has room, and what comes after it has not.
    resource.setrlimit(resource.RLIMIT_FSIZE, (head + 50, before[1]))
    try:
        done = real(*words, str(tmp_path / "c.jsonl"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 5
    assert done.json["verdict"]["cause"] == "undetermined"
    assert "cannot be written" in done.stderr


# --- list prices

ROWS = "".join(f"    0   450   60   -   {90 + n % 5}   50\n" for n in range(60))
DMON = "# gpu   pwr gtemp mtemp   sm   mem\n# Idx     W     C     C    %     %\n" + ROWS
SIZE = ("--size", "ND96isr_H100_v5")


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log of a GPU that is busy 92 % of the time."""
    file = tmp_path / "gpu.txt"
    file.write_text(DMON)
    return str(file)


def verdict(done: Ran) -> dict[str, Any]:
    found: dict[str, Any] = done.json["verdict"]
    return found


def test_the_list_price_of_size_and_region_is_looked_up(run: Run, log: str) -> None:
    words = ("diagnose", "replay", "--gpu", log, *SIZE, "--region", "East US 2")
    found = verdict(run(*words, "-o", "json"))
    assert found["lostPerHour"] == pytest.approx(98.32 * found["lostShare"])
    assert found["currency"] == "USD"
    done = run(*words)
    assert "7.87 USD an hour" in done.stdout
    assert "list price of Standard_ND96isr_H100_v5 in East US 2" in done.stdout
    assert "in force since 20" in done.stdout
    assert "sandbox" in done.stderr


def test_a_capture_knows_the_size_and_region_itself(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    host = Host(interval_s=1.0, size="Standard_ND96isr_H100_v5", region="eastus2")
    samples = [
        GpuSample(time_s=float(at), gpu="0", utilization=0.9, memory_activity=0.5, power_w=450)
        for at in range(60)
    ]
    file.write_bytes(b"".join(map(encode, [host, *samples])))
    page = tmp_path / "c.html"
    done = run("diagnose", "replay", str(file), "-o", "json", "--report", str(page))
    assert verdict(done)["lostPerHour"] == pytest.approx(9.832)
    assert "list price of" in page.read_text("utf-8")


def test_a_capture_keeps_the_size_and_region_that_were_said(real: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    real(
        *("diagnose", "watch", "--duration", "0.1", "--interval", "0.1", "--save", str(file)),
        *(*SIZE, "--region", "eastus2"),
    )
    head = json.loads(file.read_text("utf-8").splitlines()[0])
    assert (head["size"], head["region"]) == ("ND96isr_H100_v5", "eastus2")


def test_a_list_price_comes_in_another_currency(run: Run, log: str) -> None:
    words = ("diagnose", "replay", "--gpu", log, *SIZE, "--region", "eastus2", "-o", "json")
    assert verdict(run(*words, "--currency", "eur"))["currency"] == "EUR"


@pytest.mark.parametrize(
    "words",
    [
        (*SIZE, "--region", "eastus2", "--no-prices"),
        SIZE,
        ("--region", "eastus2"),
    ],
)
def test_nobody_is_asked_where_no_price_can_be_wanted(
    real: Run, log: str, words: tuple[str, ...]
) -> None:
    done = real("diagnose", "replay", "--gpu", log, *words, "-o", "json")
    assert (verdict(done)["lostPerHour"], verdict(done)["currency"]) == (None, None)
    assert "rice" not in done.stderr


def test_a_price_that_is_said_wins(run: Run, log: str) -> None:
    words = ("diagnose", "replay", "--gpu", log, *SIZE, "--region", "eastus2", "-o", "json")
    found = verdict(run(*words, "--price", "100"))
    assert found["lostPerHour"] == pytest.approx(8.0)
    assert found["priceBasis"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--region", "mars"), "There is no list price of"),
        (("--region", "it's"), "is no region"),
        (("--region", "eastus2", "--currency", "XXX"), "no prices in 'XXX'"),
    ],
)
def test_a_price_that_is_not_found_is_a_warning_and_no_money(
    run: Run, log: str, words: tuple[str, ...], said: str
) -> None:
    done = run("diagnose", "replay", "--gpu", log, *SIZE, *words, "-o", "json")
    assert (done.code, verdict(done)["lostPerHour"]) == (0, None)
    assert said in done.stderr


@pytest.mark.slow
def test_a_price_list_that_is_down_is_a_warning_and_no_money(real: Run, log: str) -> None:
    done = real(
        *("diagnose", "replay", "--gpu", log, *SIZE, "--region", "eastus2", "-o", "json"),
        AI4INFRA_PRICES_ENDPOINT="https://127.0.0.1:1",
    )
    assert (done.code, verdict(done)["lostPerHour"]) == (0, None)
    assert "Prices are unknown" in done.stderr


def test_a_currency_that_cannot_be_one_is_usage(real: Run, log: str) -> None:
    done = real("diagnose", "replay", "--gpu", log, "--currency", "dollars")
    assert (done.code, done.stdout) == (2, "")


def test_a_name_that_is_no_text_is_told_and_read(real: Run, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"\xfe")).write_bytes(bytes(1000))
    assert real("diagnose", "path", str(folder), "-o", "json").json["behind"]["path"].endswith("?")
    done = real("diagnose", "probe", str(folder), "-o", "json")
    assert (done.code, done.json["probe"]["cold"]["bytes"]) == (0, 1000)


@pytest.mark.parametrize("words", [("--interval", "0"), ("--duration", "0"), ("--duration", "nan")])
def test_times_that_cannot_be_watched_are_usage(real: Run, words: tuple[str, str]) -> None:
    done = real("diagnose", "watch", *words)
    assert (done.code, done.stdout) == (2, "")


def test_a_replay_writes_the_same_page(real: Run, tmp_path: Path) -> None:
    log = tmp_path / "gpu.txt"
    rows = "".join(f"    0   450   60   -   {90 + n % 5}   50\n" for n in range(60))
    log.write_text(
        "# gpu   pwr gtemp mtemp   sm   mem\n# Idx     W     C     C    %     %\n" + rows
    )
    page = tmp_path / "report.html"
    size = ("--size", "ND96isr_H100_v5", "--no-prices")
    done = real("diagnose", "replay", "--gpu", str(log), *size, "--report", str(page))
    assert done.code == 0
    assert "GPU utilisation" in page.read_text("utf-8")
    assert "Standard_ND96isr_H100_v5" in page.read_text("utf-8")


def test_a_report_that_cannot_be_written_is_told_before_anything_is_sampled(
    real: Run, tmp_path: Path
) -> None:
    done = real(
        *("diagnose", "watch", "--duration", "5"),
        *("--report", str(tmp_path / "no" / "report.html")),
    )
    assert done.code == 1
    assert "cannot be written" in done.stderr


def test_the_picture_shows_the_busiest_and_what_is_unknown() -> None:
    moment = (
        GpuSample(gpu="0", utilization=0.05, memory_activity=0.1, power_w=120),
        GpuSample(gpu="1", mig=True),
        *(DiskSample(device=f"d{n}", read_bytes_s=n * 1e6, read_wait_s=0.002) for n in range(9)),
        NetSample(interface="eth0", received_bytes_s=420e6),
        CpuSample(cpu="all", user=0.5, system=0.1, iowait=0.2),
        ProcessSample(pid=7, name="pt_data_worker", role="loader", io_wait=0.9, read_bytes_s=5e6),
    )
    out = io.StringIO()
    Console(file=out, width=100).print(picture(moment, 12))
    lines = out.getvalue().splitlines()
    assert "5 %  memory 10 %" in lines[0]
    assert "120 W" in lines[0]
    assert "MIG" in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == ["d8", "d7", "d6", "d5"]
    assert "420 MB/s received" in lines[6]
    assert "60 % busy" in lines[7]
    assert "90 % waiting for data" in lines[8]
    assert lines[9].startswith("12 s left")


def test_a_name_cannot_move_the_cursor() -> None:
    moment = (ProcessSample(pid=7, name="a\x1b[2J\nb", role="loader"),)
    [line, _] = picture(moment, 12).plain.splitlines()
    assert line.startswith("a?[2J?b 7")
