"""Measure `storage create` against the Azure CLI's sequence, on the same served sandbox.

Wall and CPU time of whole processes, and the requests that reach Resource Manager. The sandbox
has no artificial delays: what is measured is the clients, and what they ask for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import Target, machine_line, target_table, write_section
from bench_sandbox import PRINCIPALS

from ai4infra.sandbox.serve import az_lines, environment
from ai4infra.storage_names import account_scope, default_account_name

HERE = Path(__file__).parent
MARK = "storage"
GROUP = "rg-ai-training"
REGION = "eastus2"
CONTAINER = "training-data"
ROLE = "Storage Blob Data Contributor"
SCALES = ((100, 25), (200, 50))
"""Containers and grants of one call."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A served sandbox: where it is, whose, and the environment that points programs at it."""

    url: str
    subscription: str
    environment: dict[str, str]
    process: subprocess.Popen[str]

    def requests(self) -> int:
        """Return the requests to Resource Manager since the last time, and empty the world."""
        assert self.process.stdin is not None  # noqa: S101 - asked for below
        assert self.process.stdout is not None  # noqa: S101
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What some commands took, one after the other."""

    seconds: float
    cpu_seconds: float
    requests: int


@contextmanager
def served(folder: Path) -> Iterator[World]:
    """Serve the sandbox in a process of its own."""
    words = [sys.executable, str(HERE / "bench_sandbox.py"), str(folder)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for above
            url, subscription = process.stdout.readline().split()
            own = {name: os.environ[name] for name in ("PATH", "LC_ALL") if name in os.environ}
            pointed = {**own, "HOME": str(folder), **environment(url, folder)}
            yield World(url=url, subscription=subscription, environment=pointed, process=process)
        finally:
            process.terminate()


def run(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command; wall and CPU seconds. Raises RuntimeError when it fails."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(words[:4])}: {output.read().decode()[-2000:]}")
    return seconds, usage.ru_utime + usage.ru_stime


def measure(world: World, commands: list[list[str]], runs: int) -> Taken:
    """Run the commands in turn in an empty world, several times; medians of the sums."""
    samples: list[tuple[float, float, int]] = []
    for _ in range(runs):
        world.requests()
        times = [run(words, world.environment) for words in commands]
        wall, cpu = (sum(values) for values in zip(*times, strict=True))
        samples.append((wall, cpu, world.requests()))
    walls, cpus, requests = zip(*samples, strict=True)
    return Taken(
        seconds=statistics.median(walls),
        cpu_seconds=statistics.median(cpus),
        requests=round(statistics.median(requests)),
    )


def az_sequence(az: str, world: World) -> list[list[str]]:
    """Return the commands with which the Azure CLI makes the same, access by object id."""
    account = default_account_name(world.subscription, GROUP)
    scope = account_scope(world.subscription, GROUP, account)
    where = ["--resource-group", GROUP]
    create = ["--name", account, *where, "--location", REGION, "--sku", "Standard_LRS"]
    secure = ["--kind", "StorageV2", "--hns", "true", "--min-tls-version", "TLS1_2"]
    grant = ["--assignee-object-id", PRINCIPALS[0], "--assignee-principal-type", "User"]
    container = ["--storage-account", account, *where, "--name", CONTAINER]
    return [
        [az, "group", "create", "--name", GROUP, "--location", REGION],
        [az, "storage", "account", "create", *create, *secure],
        [az, "storage", "container-rm", "create", *container],
        [az, "role", "assignment", "create", *grant, "--role", ROLE, "--scope", scope],
    ]


def our_command(*words: str) -> list[list[str]]:
    """Return our one command."""
    program = str(Path(sys.executable).with_name("ai4infra"))
    return [[program, "storage", "create", "--location", REGION, "--yes", *words]]


def large(containers: int, grants: int) -> list[list[str]]:
    """Return our command for many containers and grants."""
    names = [word for n in range(containers) for word in ("--container", f"part-{n:03}")]
    who = [word for id_ in PRINCIPALS[:grants] for word in ("--reader", f"id:{id_}:User")]
    return our_command(*names, *who)


def sign_in(az: str, world: World) -> None:
    """Make the served sandbox the Azure CLI's cloud, and sign in to it."""
    for line in az_lines(world.url):
        run([az, *line.split()[1:]], world.environment)


def measure_all(az: str, runs: int, slow_runs: int) -> dict[str, Taken]:
    """Measure every case by its name."""
    with tempfile.TemporaryDirectory(prefix="ai4infra-bench-") as name, served(Path(name)) as world:
        sign_in(az, world)
        ours = our_command("--contributor", f"id:{PRINCIPALS[0]}:User")
        found = {
            "az: group, account, container, role": measure(
                world, az_sequence(az, world), slow_runs
            ),
            "storage create": measure(world, ours, runs),
        }
        for containers, grants in SCALES:
            title = f"{containers} containers, {grants} grants"
            found[title] = measure(world, large(containers, grants), slow_runs)
    return found


def targets(found: dict[str, Taken]) -> list[Target]:
    """Return what is asked for, against what was measured."""
    az, ours, half, whole = found.values()
    rows = [
        ("storage create: times faster than az", az.seconds / ours.seconds, 4, True),
        ("storage create: times less CPU than az", az.cpu_seconds / ours.cpu_seconds, 4, True),
        ("storage create: requests over az's", ours.requests / az.requests, 1, False),
        ("200 + 50: times the time of 100 + 25", whole.seconds / half.seconds, 2.2, False),
    ]
    return [
        Target(text=text, value=round(value, 3), bound=bound, at_least=at_least)
        for text, value, bound, at_least in rows
    ]


def report(found: dict[str, Taken], goals: list[Target]) -> str:
    """Return the figures and targets as Markdown."""
    lines = [
        machine_line(),
        "",
        "| Commands | Wall, s | CPU, s | Requests |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {name} | {t.seconds:.3f} | {t.cpu_seconds:.3f} | {t.requests} |"
            for name, t in found.items()
        ),
        "",
        *target_table(goals),
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--az", required=True, help="the Azure CLI to hold ours against")
    parser.add_argument("--runs", type=int, default=9, help="runs of our command")
    parser.add_argument("--slow-runs", type=int, default=3, help="runs of the slow commands")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    found = measure_all(options.az, options.runs, options.slow_runs)
    goals = targets(found)
    text = report(found, goals)
    if options.write:
        write_section(MARK, text)
    if options.json:
        rows = [{**asdict(goal), "met": goal.met} for goal in goals]
        figures = [{"name": name, **asdict(taken)} for name, taken in found.items()]
        print(json.dumps({"figures": figures, "targets": rows}))
    else:
        print(text)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
