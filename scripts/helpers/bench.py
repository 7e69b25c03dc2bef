"""Measure ai4infra against the Azure CLI and against a floor, on a local Resource Manager.

Whole processes are measured: wall time and peak memory, medians of several runs that take turns.
The absolute figures are this machine's; the ratios are what the targets are about. Linux counts
what a process inherits as its peak, so this program imports little and stays small.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from ssl import create_default_context

from bench_payload import REGION_NAMES, SIZES_PER_REGION, SUBSCRIPTIONS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
MARK = "recon"
WRITTEN = "written by scripts/bench --write"
GPU_SIZES = 50
REGION = REGION_NAMES[0]
MIB = 1024
"""Of the KiB in which Linux counts peak memory."""
ALL_REGIONS = {count: subscription for subscription, count in SUBSCRIPTIONS.items()}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program to measure: what to run, with what added to the environment."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    sizes: int | None = None
    """How many rows with a GPU size it has to print; None to not look."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a case took: medians of all its runs."""

    name: str
    seconds: float
    peak_mib: float
    runs: int


@dataclass(frozen=True, kw_only=True)
class Target:
    """A figure that is asked for, and what it came to."""

    text: str
    value: float
    bound: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the value keeps the bound."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def run_once(case: Case, environment: dict[str, str]) -> tuple[float, float]:
    """Run a case to its end; seconds and peak MiB. Raises RuntimeError when it goes wrong."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            case.arguments,
            env={**environment, **case.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        check_output(case, process.returncode, output.read().decode(), errors.read().decode())
    return seconds, usage.ru_maxrss / MIB


def check_output(case: Case, code: int, output: str, errors: str) -> None:
    """Refuse a run that failed or that printed something else than what it should."""
    printed = len(re.findall(r"^(?:\S+ +){0,2}Standard_N", output, re.MULTILINE))
    if code or (case.sizes is not None and printed != case.sizes):
        wanted = "" if case.sizes is None else f" instead of {case.sizes}"
        raise RuntimeError(f"{case.name}: exit {code}, {printed} sizes{wanted}: {errors[-2000:]}")


def measure(cases: list[Case], environment: dict[str, str], runs: int) -> dict[str, Figure]:
    """Run the cases in turn, so that what else the machine does falls on all of them."""
    samples: dict[str, list[tuple[float, float]]] = {case.name: [] for case in cases}
    for _ in range(runs):
        for case in cases:
            samples[case.name].append(run_once(case, environment))
    return {name: figure(name, taken) for name, taken in samples.items()}


def figure(name: str, samples: list[tuple[float, float]]) -> Figure:
    """The medians of some runs."""
    seconds, peaks = zip(*samples, strict=True)
    return Figure(
        name=name,
        seconds=round(statistics.median(seconds), 4),
        peak_mib=round(statistics.median(peaks), 1),
        runs=len(samples),
    )


def gpu_sizes() -> list[str]:
    """N-series names to serve, out of the package's own facts."""
    facts = (ROOT / "ai4infra" / "data" / "gpus.toml").read_text("utf-8")
    names = dict.fromkeys(re.findall(r"\bStandard_N[CDV]\d\w+", facts))
    return list(names)[:GPU_SIZES]


@contextmanager
def arm(folder: Path) -> Iterator[tuple[str, int]]:
    """A Resource Manager in a process of its own; its origin, and the bytes of its whole list."""
    arguments = [sys.executable, str(HERE / "bench_arm.py"), str(folder), *gpu_sizes()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            assert server.stdout is not None  # noqa: S101 - asked for above
            origin, size = server.stdout.readline().split()
            yield origin, int(size)
        finally:
            server.terminate()


def clean_environment(folder: Path, origin: str) -> dict[str, str]:
    """An environment without the user's settings, in which the local Resource Manager is the cloud.

    Both command lines sign in through the same managed identity endpoint.
    """
    certificate = str(folder / "ca.pem")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "200",
        "AZURE_CONFIG_DIR": str(folder / "azure"),
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_INSTANCE_DISCOVERY": "false",
        "AZURE_SUBSCRIPTION_ID": ALL_REGIONS[55],
        "AI4INFRA_CACHE_DIR": str(folder / "cache"),
        "IDENTITY_ENDPOINT": f"{origin}/token",
        "IDENTITY_HEADER": "bench",
        "REQUESTS_CA_BUNDLE": certificate,
        "SSL_CERT_FILE": certificate,
    }


def sign_in(az: str, origin: str, environment: dict[str, str]) -> None:
    """Make the local Resource Manager the Azure CLI's cloud, and sign in to it."""
    for words in (
        ["cloud", "register", "--name", "bench", "--endpoint-resource-manager", origin],
        ["cloud", "set", "--name", "bench"],
        ["login", "--identity"],
        ["account", "set", "--subscription", ALL_REGIONS[55]],
    ):
        case = Case(name=f"az {' '.join(words[:2])}", arguments=(az, *words), environment={})
        run_once(case, environment)


def fetch_token(origin: str, certificate: Path) -> str:
    """A token for the floor program, which doesn't sign in itself."""
    context = create_default_context(cafile=str(certificate))
    with urllib.request.urlopen(f"{origin}/token", context=context) as answer:  # noqa: S310 - ours
        return str(json.load(answer)["access_token"])


OURS = str(Path(sys.executable).with_name("ai4infra"))


def our_cases() -> list[Case]:
    """Our own command line, for one region."""
    recon = (OURS, "recon", "--no-prices")
    return [
        Case(
            name="recon --region",
            arguments=(*recon, "--region", REGION, "--refresh"),
            environment={},
            sizes=GPU_SIZES,
        ),
        Case(
            name="recon --region, cached",
            arguments=(*recon, "--region", REGION),
            environment={},
            sizes=GPU_SIZES,
        ),
        Case(name="--help", arguments=(OURS, "--help"), environment={}),
    ]


def our_cases_of_all_regions() -> list[Case]:
    """Our own command line, for all regions of subscriptions with more and more of them."""
    return [
        Case(
            name=f"recon --all-regions, {count} regions",
            arguments=(OURS, "recon", "--no-prices", "--all-regions", "--refresh"),
            environment={"AZURE_SUBSCRIPTION_ID": ALL_REGIONS[count]},
            sizes=GPU_SIZES * count,
        )
        for count in sorted(ALL_REGIONS)
    ]


def reference_cases(origin: str, folder: Path) -> list[Case]:
    """What ours is held against, beside the Azure CLI: the floor, and Python doing nothing."""
    certificate = folder / "ca.pem"
    token = fetch_token(origin, certificate)
    floor = (str(HERE / "bench_floor.py"), origin, ALL_REGIONS[55], REGION, token, str(certificate))
    return [
        Case(
            name="floor",
            arguments=(sys.executable, *floor),
            environment={},
            sizes=GPU_SIZES,
        ),
        Case(name="python -c pass", arguments=(sys.executable, "-c", "pass"), environment={}),
    ]


def strategy_cases(origin: str, folder: Path) -> list[Case]:
    """Both ways to read all regions: concurrent filtered calls, or one unfiltered call."""
    program = str(HERE / "bench_strategies.py")
    return [
        Case(
            name=f"{way} SKU lists, 55 regions",
            arguments=(sys.executable, program, way, origin, ALL_REGIONS[55], *REGION_NAMES),
            environment={},
            sizes=GPU_SIZES * 55,
        )
        for way in ("filtered", "unfiltered")
    ]


def az_case(az: str) -> Case:
    """The Azure CLI's own list of one region's N-series sizes."""
    words = ("vm", "list-skus", "--location", REGION, "--size", "Standard_N", "--output", "table")
    return Case(name="az vm list-skus", arguments=(az, *words), environment={}, sizes=GPU_SIZES)


def targets(figures: dict[str, Figure]) -> list[Target]:
    """What is asked for, against what was measured."""
    az, floor = figures["az vm list-skus"].seconds, figures["floor"].seconds
    one, every = figures["recon --region"], figures["recon --all-regions, 55 regions"]
    few = figures["recon --all-regions, 11 regions"]
    start = figures["--help"].seconds - figures["python -c pass"].seconds
    rows = [
        ("recon of one region: times faster than az", az / one.seconds, 50, True),
        ("recon of one region: times the floor's wall time", one.seconds / floor, 2.5, False),
        ("recon of one region: peak MiB", one.peak_mib, 120, False),
        ("recon of 55 regions: times faster than az for one", az / every.seconds, 6, True),
        ("recon of 55 regions: peak MiB", every.peak_mib, 250, False),
        ("55 regions: times the time of 11 (linear: 5)", every.seconds / few.seconds, 5.5, False),
        ("--help: seconds over python -c pass", start, 0.15, False),
    ]
    return [
        Target(text=text, value=round(value, 3), bound=bound, at_least=at_least)
        for text, value, bound, at_least in rows
    ]


def machine() -> str:
    """What the figures were measured on, in general words."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )


def report(figures: dict[str, Figure], goals: list[Target], size_bytes: int) -> str:
    """The figures and targets as two Markdown tables."""
    lines = [
        f"{machine_line()} {SIZES_PER_REGION:,} sizes a region, "
        f"{GPU_SIZES} of them N-series, {len(REGION_NAMES)} regions; "
        f"the unfiltered list has {size_bytes / 1e6:.0f} MB.",
        "",
        "| Program | Wall, s | Peak, MiB | Runs |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {f.name} | {f.seconds:.3f} | {f.peak_mib:.0f} | {f.runs} |"
            for f in figures.values()
        ),
        "",
        *target_table(goals),
    ]
    return "\n".join(lines)


def machine_line() -> str:
    """When and on what the figures were measured."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return f"Measured on {today}: {machine()}."


def target_table(goals: list[Target]) -> list[str]:
    """The targets as the lines of a Markdown table."""
    return [
        "| Target | Value | Asked for | |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {g.text} | {g.value:.2f} | {'≥' if g.at_least else '≤'} {g.bound:g} "
            f"| {'met' if g.met else 'MISSED'} |"
            for g in goals
        ),
    ]


def write_section(name: str, text: str) -> None:
    """Put figures in their place on the page: between the marks of this name."""
    first, last = (f"<!-- {name} figures: {word} -->" for word in (WRITTEN, "end"))
    before, rest = PAGE.read_text("utf-8").split(first)
    _, after = rest.split(last)
    PAGE.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", "utf-8")


def measure_all(az: str, runs: int, slow_runs: int) -> tuple[dict[str, Figure], int]:
    """Measure every case; the figures, and the bytes of the unfiltered list."""
    with tempfile.TemporaryDirectory(prefix="ai4infra-bench-") as name:
        folder = Path(name)
        with arm(folder) as (origin, size_bytes):
            environment = clean_environment(folder, origin)
            sign_in(az, origin, environment)
            figures = measure([az_case(az)], environment, slow_runs)
            quick = [*reference_cases(origin, folder), *our_cases()]
            figures |= measure(quick, environment, runs)
            slow = [*our_cases_of_all_regions(), *strategy_cases(origin, folder)]
            figures |= measure(slow, environment, slow_runs)
    return figures, size_bytes


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--az", required=True, help="the Azure CLI to hold ours against")
    parser.add_argument("--runs", type=int, default=21, help="runs of each quick program")
    parser.add_argument("--slow-runs", type=int, default=3, help="runs of each slow program")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    figures, size_bytes = measure_all(options.az, options.runs, options.slow_runs)
    goals = targets(figures)
    text = report(figures, goals, size_bytes)
    if options.write:
        write_section(MARK, text)
    if options.json:
        rows = [{**asdict(goal), "met": goal.met} for goal in goals]
        print(json.dumps({"figures": [asdict(f) for f in figures.values()], "targets": rows}))
    else:
        print(text)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
