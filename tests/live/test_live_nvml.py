"""NVML at its C boundary: a library that answers like NVIDIA's, under NVIDIA's own binding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("nvml_stand_in.c")
ROOT = Path(__file__).parents[2]
READ = """
import json
from ai4infra.diagnosis.samples import Notes
from ai4infra.live.gpus import Gpus
import msgspec
notes = Notes()
gpus = Gpus(notes)
readings = [list(gpus.sample(float(at))) for at in range(2)]
print(json.dumps({
    "count": gpus.count, "model": gpus.model, "processes": gpus.processes(),
    "readings": [[msgspec.to_builtins(s) for s in r] for r in readings],
    "lost": notes.lost_gpus,
}))
gpus.close()
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, built."""
    folder = tmp_path_factory.mktemp("nvml")
    argv = ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
    subprocess.run([*argv, folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return folder


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a driver that does not know the newer functions."""
    folder = tmp_path_factory.mktemp("old_nvml")
    argv = ["gcc", "-Wall", "-Wextra", "-Werror", "-DOLD_DRIVER", "-shared", "-fPIC", "-o"]
    subprocess.run([*argv, folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return folder


def environment(library: Path, gpus: str) -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(library),
        "NVML_STAND_IN": gpus,
        "PYTHONPATH": str(ROOT),
    }


def ask(library: Path, gpus: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env=environment(library, gpus),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_a_gpu_is_read_in_base_units(library: Path) -> None:
    told = ask(library, "35:12:250000:4711")
    assert (told["count"], told["model"]) == (1, "NVIDIA H100 80GB HBM3")
    [gpu] = told["readings"][0]
    assert gpu["utilization"] == 0.35
    assert gpu["memoryActivity"] == 0.12
    assert gpu["memoryUsedBytes"] == 40 * 2**30
    assert (gpu["powerW"], gpu["powerLimitW"], gpu["smClockMhz"]) == (250.0, 700.0, 1980.0)
    assert gpu["mig"] is False


def test_processes_are_told_with_their_gpu(library: Path) -> None:
    assert ask(library, "1:1:1:100 1:1:1:0 1:1:1:300")["processes"] == {"100": "0", "300": "2"}


def test_an_old_driver_tells_what_it_can(old_library: Path) -> None:
    told = ask(old_library, "35:12:250000:4711")
    [gpu] = told["readings"][0]
    assert (gpu["utilization"], gpu.get("mig")) == (0.35, None)
    assert told["processes"] == {"4711": "0"}


def test_a_split_gpu_has_no_utilisation_and_keeps_the_rest(library: Path) -> None:
    [gpu] = ask(library, "mig")["readings"][0]
    assert gpu["mig"] is True
    assert gpu["utilization"] is None
    assert gpu["memoryUsedBytes"] == 40 * 2**30


def test_a_lost_gpu_is_told_and_the_others_go_on(library: Path) -> None:
    told = ask(library, "50:5:300000:0 lost 60:6:300000:0")
    assert [g["gpu"] for g in told["readings"][0]] == ["0", "1", "2"]
    assert [g["gpu"] for g in told["readings"][1]] == ["0", "2"]
    assert list(told["lost"]) == ["1"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(9, "not loaded"), (18, "restart the VM"), (4, "may not ask"), (999, "does not answer")],
)
def test_a_driver_that_fails_is_told_in_words(library: Path, code: int, words: str) -> None:
    told = ask(library, f"driver={code}")
    assert told["count"] is None
    assert words in told["lost"]["driver"]


def test_a_driver_without_gpus_is_told(library: Path) -> None:
    told = ask(library, "")
    assert told["count"] == 0
    assert "shows no GPU" in told["lost"]["driver"]


def test_no_driver_at_all_is_told_in_words(tmp_path: Path) -> None:
    told = ask(tmp_path, "1:1:1:1")
    assert "not installed" in told["lost"]["driver"]


def test_watching_ends_with_a_verdict_and_a_capture_that_replays(
    library: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "ai4infra", "diagnose"]
    capture, page = tmp_path / "c.jsonl.gz", tmp_path / "c.html"
    watch = [*argv, "watch", "--duration", "1.2", "--interval", "0.1", "-o", "json"]
    environ = environment(library, "97:60:650000:0 96:60:640000:0")
    done = subprocess.run(
        [*watch, "--save", capture, "--report", page],
        env=environ,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["verdict"]["cause"] == "gpu"
    replayed = subprocess.run(
        [*argv, "replay", capture, "-o", "json"], env=environ, capture_output=True, check=True
    )
    assert json.loads(replayed.stdout)["verdict"] == told["verdict"]
    assert "<svg" in page.read_text("utf-8")
