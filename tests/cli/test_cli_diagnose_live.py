"""``diagnose path``, ``probe`` and ``watch`` on this machine, and the picture of ``watch``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from ai4infra.cli.diagnose_view import picture
from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    NetSample,
    ProcessSample,
)

if TYPE_CHECKING:
    from conftest import Run


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
    done = real("diagnose", "replay", "--gpu", str(log), "--report", str(page))
    assert done.code == 0
    assert "GPU utilisation" in page.read_text("utf-8")


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
