"""Measure the readers of logs: rows a second, peak memory, and times a plain line-splitting loop.

Each case is a process of its own, in CPU time: what else runs on the machine counts less. The floor
reads the same file and splits every line into words. dmon's rows are summed up as well, as a
diagnosis does.
The absolute figures are this machine's; the ratios are what the targets are about.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench import Target

MARK = "parsers"
DMON_ROWS = 5_000_000
DMON_SECONDS, DMON_MIB, TIMES_FLOOR = 15.0, 100.0, 4.0
TARGET_BYTES = 40_000_000
"""Size of a sysstat log: large enough that starting Python does not count."""
DEVICES = 8


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a reader took for a log."""

    log: str
    seconds: float
    floor_seconds: float
    mbytes_s: float
    peak_mib: float

    @property
    def times_floor(self) -> float:
        """How many times as long as splitting lines it took."""
        return self.seconds / self.floor_seconds


def dmon_lines(rows: int) -> Iterator[str]:
    """Write a log of eight GPUs with dates and times, one reading a second."""
    rnd = random.Random(1)  # noqa: S311 - the same log each time
    header = "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb\n"
    values = [
        f"{rnd.randint(60, 700):6} {rnd.randint(30, 80):6}      - {rnd.randint(0, 100):6}"
        f" {rnd.randint(0, 60):6}      0      0 {rnd.randint(70_000, 72_000):6}\n"
        for _ in range(4999)
    ]
    for row in range(rows):
        second, gpu = divmod(row, 8)
        if row % 160 == 0:
            yield header
        day, second = divmod(second, 86_400)
        stamp = f"202601{day + 1:02}   {clock(second)}"
        yield f" {stamp}   {gpu:4} {values[row % 4999]}"


def clock(second: int) -> str:
    """Return a time of day."""
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


def sysstat_lines(titles: Iterable[str], *, timed: bool, before: str = "") -> Iterator[str]:
    """Write blocks of a table over several devices, for as long as somebody reads."""
    rnd = random.Random(2)  # noqa: S311 - the same log each time
    names = list(titles)
    header = " ".join(f"{title:>9}" for title in names)
    most = [100 if title.startswith("%") else 5000 for title in names[1:]]
    rows = [" ".join(f"{rnd.uniform(0, top):9.2f}" for top in most) for _ in range(997)]
    yield "Linux 6.8.0-1021-azure (trainer) \t01/05/2026 \t_x86_64_\t(96 CPU)\n\n"
    second = 0
    while True:
        second += 1
        stamp = f"{clock(second)} " if timed else ""
        yield f"{before}{stamp}{header}\n"
        for device in range(DEVICES):
            yield f"{stamp}nvme{device}n1 {rows[(second * DEVICES + device) % 997]}\n"
        yield "\n"


IOSTAT = [
    "Device",
    "r/s",
    "rkB/s",
    "rrqm/s",
    "%rrqm",
    "r_await",
    "rareq-sz",
    "w/s",
    "wkB/s",
    "wrqm/s",
    "%wrqm",
    "w_await",
    "wareq-sz",
    "d/s",
    "dkB/s",
    "drqm/s",
    "%drqm",
    "d_await",
    "dareq-sz",
    "f/s",
    "f_await",
    "aqu-sz",
    "%util",
]
AVG_CPU = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n 9.00 0.00 1.00 1.00 0.00 89.00\n\n"
)
SAR_DISK = ["DEV", "tps", "rkB/s", "wkB/s", "dkB/s", "areq-sz", "aqu-sz", "await", "%util"]
SAR_NET = [
    "IFACE",
    "rxpck/s",
    "txpck/s",
    "rxkB/s",
    "txkB/s",
    "rxcmp/s",
    "txcmp/s",
    "rxmcst/s",
    "%ifutil",
]
SAR_CPU = ["CPU", "%user", "%nice", "%system", "%iowait", "%steal", "%idle"]

LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "dmon": lambda: dmon_lines(DMON_ROWS),
    "iostat": lambda: sysstat_lines(IOSTAT, timed=False, before=AVG_CPU),
    "sar -d": lambda: sysstat_lines(SAR_DISK, timed=True),
    "sar -n DEV": lambda: sysstat_lines(SAR_NET, timed=True),
    "sar -u": lambda: sysstat_lines(SAR_CPU, timed=True),
}


def write_log(path: Path, name: str) -> None:
    """Write a log of a kind: dmon by its rows, the others by their size."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        for line in LOGS[name]():
            file.write(line)
            size += len(line)
            if name != "dmon" and size >= TARGET_BYTES:
                break


def log_name(name: str) -> str:
    """Return the file name of a kind of log."""
    return f"{name.replace(' ', '')}.txt"


def split_all(path: Path) -> None:
    """Read a file and split every line: the floor."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            line.split()


def reader() -> Callable[[Path], None]:
    """Load the readers, and return what reads a log with the one of its kind."""
    # the floor is measured in a process that has not loaded these
    from ai4infra.diagnosis.files import opened
    from ai4infra.diagnosis.series import Collector

    def read_all(path: Path) -> None:
        with opened(path) as source:
            if path.name == log_name("dmon"):
                Collector().extend(source.samples())
            else:
                for _ in source.samples():
                    pass

    return read_all


def measure(path: Path, runs: int) -> dict[str, tuple[float, float]]:
    """Run floor and reader over a log, in turn; of each the best seconds and the peak MiB."""
    printed: dict[str, list[tuple[float, float]]] = {"floor": [], "reader": []}
    for _ in range(runs):
        for program, found in printed.items():
            command = [sys.executable, __file__, "--program", program, str(path)]
            done = subprocess.run(command, check=True, capture_output=True)
            found.append(json.loads(done.stdout))
    return {
        program: (min(seconds for seconds, _ in found), max(peak for _, peak in found))
        for program, found in printed.items()
    }


def run_program(program: str, path: Path) -> None:
    """Be one of the processes that are measured: print CPU seconds and peak MiB."""
    run = reader() if program == "reader" else split_all
    started = time.process_time()
    run(path)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak]))


def figure(name: str, folder: Path, runs: int) -> Figure:
    """Measure one kind of log."""
    path = folder / log_name(name)
    write_log(path, name)
    found = measure(path, runs)
    (floor, _), (seconds, peak) = found["floor"], found["reader"]
    megabytes = path.stat().st_size / 1e6
    return Figure(
        log=name,
        seconds=seconds,
        floor_seconds=floor,
        mbytes_s=megabytes / seconds,
        peak_mib=peak,
    )


def targets(figures: Iterable[Figure]) -> list[Target]:
    """What is asked for, with what it came to."""
    found = []
    for each in figures:
        if each.log == "dmon":
            found.append(at_most("dmon, 5,000,000 rows: CPU seconds", each.seconds, DMON_SECONDS))
            found.append(at_most("dmon, 5,000,000 rows: peak MiB", each.peak_mib, DMON_MIB))
        else:
            found.append(at_most(f"{each.log}: times the floor", each.times_floor, TIMES_FLOOR))
    return found


def at_most(text: str, value: float, bound: float) -> Target:
    """Return a target with an upper bound."""
    # bench has what the benchmarks share, and readers are measured without it
    from bench import Target

    return Target(text=text, value=round(value, 3), bound=bound, at_least=False)


def report(figures: Iterable[Figure], goals: list[Target]) -> str:
    """The figures and targets as Markdown."""
    from bench import machine_line, target_table

    lines = [
        machine_line(),
        "",
        "| Log | CPU, s | MB/s | Floor, s | Peak, MiB |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {f.log} | {f.seconds:.2f} | {f.mbytes_s:.0f} | {f.floor_seconds:.2f}"
            f" | {f.peak_mib:.0f} |"
            for f in figures
        ),
        "",
        *target_table(goals),
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure all readers; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each program")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--program", choices=("floor", "reader"), help=argparse.SUPPRESS)
    parser.add_argument("log", nargs="?", type=Path, help=argparse.SUPPRESS)
    given, _ = parser.parse_known_args()
    if given.program:
        run_program(given.program, given.log)
        return 0
    with tempfile.TemporaryDirectory(prefix="ai4infra-bench-") as folder:
        figures = [figure(name, Path(folder), given.runs) for name in LOGS]
    goals = targets(figures)
    text = report(figures, goals)
    if given.write:
        from bench import write_section

        write_section(MARK, text)
    if given.json:
        rows = [{**asdict(goal), "met": goal.met} for goal in goals]
        print(json.dumps({"figures": [asdict(each) for each in figures], "targets": rows}))
    else:
        print(text)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
