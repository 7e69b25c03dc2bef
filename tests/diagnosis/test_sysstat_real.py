"""The real iostat, sar and mpstat of this machine, in several locales and formats, under load."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ai4infra.diagnosis.logs import LogSource
from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample

pytestmark = pytest.mark.slow
LOCALES = ("C", "de_DE.UTF-8", "fr_FR.UTF-8", "en_US.UTF-8", "ja_JP.UTF-8")
MACHINE = dict(os.environ)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Locales of our own: a machine has those that somebody asked for."""
    folder = tmp_path_factory.mktemp("locales")
    for name in LOCALES[1:]:
        language, charset = name.split(".")
        command = ["localedef", "-i", language, "-f", charset, str(folder / name)]
        subprocess.run(command, check=True, capture_output=True)
    return {"PATH": f"{MACHINE['PATH']}:/usr/sbin:/usr/bin", "LOCPATH": str(folder), "TZ": "UTC"}


@pytest.fixture
def load(tmp_path: Path) -> Iterator[None]:
    """Write to the disk for as long as a test runs."""
    done = threading.Event()
    block = os.urandom(1 << 20)

    def write() -> None:
        with (tmp_path / "load").open("wb", buffering=0) as file:
            while not done.is_set():
                file.seek(0)
                for _ in range(8):
                    file.write(block)
                os.fsync(file.fileno())

    thread = threading.Thread(target=write)
    thread.start()
    yield
    done.set()
    thread.join()


class Printed:
    """What a program printed, read."""

    def __init__(self, environment: dict[str, str], locale: str, *words: str) -> None:
        done = subprocess.run(
            words,
            env={**environment, "LC_ALL": locale},
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        self.source = LogSource(done.stdout.splitlines(keepends=True), words[0])
        self.samples: Sequence[Any] = list(self.source.samples())

    def of(self, kind: type) -> list[Any]:
        return [sample for sample in self.samples if isinstance(sample, kind)]


@pytest.mark.parametrize("locale", LOCALES)
def test_iostat_says_the_same_since_boot_in_every_format(
    environment: dict[str, str], locale: str
) -> None:
    plain = Printed(environment, "C", "iostat", "-x").of(DiskSample)
    for words in (["-x"], ["-xm"], ["-xt"], ["-x", "--pretty"], ["-xh"], ["-x", "-o", "JSON"]):
        printed = Printed(environment, locale, "iostat", *words)
        found = printed.of(DiskSample)
        assert [disk.device for disk in found] == [disk.device for disk in plain]
        # A mean since boot hardly moves, and -m rounds it to 10 kB.
        for one, other in zip(found, plain, strict=True):
            assert one.read_bytes_s == pytest.approx(other.read_bytes_s, rel=0.1, abs=60e3)
            assert one.read_wait_s == pytest.approx(other.read_wait_s, rel=0.2, abs=0.001)
        assert len(printed.of(CpuSample)) == 1
        assert printed.source.notes.skipped == 0
        assert printed.source.notes.cpus == os.cpu_count()


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    "words", [["-xyt"], ["-dxy"], ["-xyt", "-o", "JSON"], ["-xyt", "--pretty"], ["-xysz"], ["-y"]]
)
def test_iostat_shows_what_is_written(
    environment: dict[str, str], locale: str, words: list[str]
) -> None:
    printed = Printed(environment, locale, "iostat", *words, "1", "2")
    disks = printed.of(DiskSample)
    moved = [(d.write_bytes_s or d.total_bytes_s or 0.0) for d in disks]
    assert max(moved) > 1e5
    assert printed.source.notes.since_boot == "none"
    assert printed.source.notes.skipped == 0
    timed = any("t" in word for word in words[:1])
    assert all((disk.time_s is not None) == timed for disk in disks)


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("locale", LOCALES)
def test_without_y_the_report_since_boot_is_dropped(
    environment: dict[str, str], locale: str
) -> None:
    for words in (["-x"], ["-x", "-o", "JSON"], ["-dx"], ["-x", "--pretty"]):
        printed = Printed(environment, locale, "iostat", *words, "1", "2")
        devices = [disk.device for disk in printed.of(DiskSample)]
        assert len(devices) == len(set(devices)) > 0
        assert printed.source.notes.since_boot == "dropped"


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("locale", LOCALES)
def test_sar_gives_cpus_disks_and_network(environment: dict[str, str], locale: str) -> None:
    words = ["sar", "-u", "-d", "-n", "DEV"]
    for more in ([], ["-p"], ["-h"]):
        printed = Printed(environment, locale, *words, *more, "1", "2")
        assert len(printed.of(CpuSample)) == 2
        assert "lo" in {sample.interface for sample in printed.of(NetSample)}
        assert max(sample.write_bytes_s or 0.0 for sample in printed.of(DiskSample)) > 1e5
        times = {sample.time_s for sample in printed.samples}
        assert len(times) == 2
        assert printed.source.notes.skipped == 0


@pytest.mark.parametrize("locale", LOCALES)
def test_mpstat_gives_every_cpu(environment: dict[str, str], locale: str) -> None:
    for words in ([], ["-o", "JSON"]):
        printed = Printed(environment, locale, "mpstat", "-P", "ALL", *words, "1", "1")
        names = {sample.cpu for sample in printed.of(CpuSample)}
        assert names >= {"all", "0"}
        for sample in printed.of(CpuSample):
            parts = (sample.user, sample.system, sample.iowait, sample.steal, sample.idle)
            assert sum(part or 0.0 for part in parts) == pytest.approx(1, abs=0.01)
