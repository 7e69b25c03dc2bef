"""Measure `data copy` against plain AzCopy, in turn, into the same Azurite; and its preflight.

Small files and large ones go up with a SAS, each time into an empty container. What our command
does beside AzCopy's work is its preflight, which is measured by itself as well.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlencode

import requests
from bench import Case, Figure, Target, figure, machine_line, run_once, target_table, write_section

from ai4infra.sandbox.certificate import ensure_certificate

MARK = "data"
ACCOUNT = "bench"
KEY = base64.b64encode(b"a key of the benchmark, and no other").decode()
OURS = str(Path(sys.executable).with_name("ai4infra"))
SMALL_FILES, SMALL_BYTES = 10_000, 4_096
LARGE_FILES, LARGE_BYTES = 8, 250_000_000
SCANNED_FOLDERS, SCANNED_EACH = 1_000, 1_000
SURVEY = (
    "import sys; from pathlib import Path; from ai4infra.tools.files import survey;"
    "print(survey(Path(sys.argv[1]), prefix='data').files)"
)


@dataclass(frozen=True, kw_only=True)
class Store:
    """An Azurite: where it is, and the environment in which programs trust it."""

    origin: str
    environment: dict[str, str]
    bundle: str

    def fresh(self, name: str) -> str:
        """Make a container and return its URL with a SAS."""
        url = f"{self.origin}/{ACCOUNT}/{name}?{signature()}"
        done = requests.put(f"{url}&restype=container", verify=self.bundle, timeout=60)
        done.raise_for_status()
        return url


def signature() -> str:
    """A SAS for the whole account.

    https://learn.microsoft.com/rest/api/storageservices/create-account-sas
    """
    fields = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": "2099-12-31T00:00:00Z"}
    fields |= {"sip": "", "spr": "https", "sv": "2020-10-02"}
    signed = "\n".join([ACCOUNT, *fields.values(), ""]).encode()
    digest = hmac.new(base64.b64decode(KEY), signed, hashlib.sha256).digest()
    told = {name: value for name, value in fields.items() if value}
    return urlencode({**told, "sig": base64.b64encode(digest).decode()})


@contextmanager
def store(folder: Path, azurite: str, azcopy: str) -> Iterator[Store]:
    """Start an Azurite whose blobs are gone afterwards."""
    files = ensure_certificate(folder / "tls")
    blobs = folder / "blobs"
    certificate = str(files.server)
    words = [azurite, "--blobPort", "0", "--location", str(blobs), "--silent"]
    words += ["--cert", certificate, "--key", certificate]
    words += ["--skipApiVersionCheck", "--disableTelemetry"]
    accounts = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with subprocess.Popen(words, env=accounts, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Store(
                origin=f"https://127.0.0.1:{port_of(process)}",
                environment=environment(folder, str(files.bundle), azcopy),
                bundle=str(files.bundle),
            )
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(blobs, ignore_errors=True)


def port_of(process: subprocess.Popen[str]) -> str:
    """The port that Azurite says it listens on."""
    for line in process.stdout or ():
        if match := re.search(r"listens on https://[^:]+:(\d+)", line):
            return match[1]
    raise RuntimeError("Azurite ended before it was ready")


def environment(folder: Path, bundle: str, azcopy: str) -> dict[str, str]:
    """An environment without the user's settings; plans and logs of both are on one disk."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "SSL_CERT_FILE": bundle,
        "AI4INFRA_AZCOPY": azcopy,
        "AI4INFRA_WORK_DIR": str(folder / "work"),
    }


def plain(azcopy: str, source: Path, url: str, folder: Path) -> Case:
    """What somebody would type, with the same choices as ours."""
    words = ("copy", str(source), url, "--from-to", "LocalBlob", "--recursive")
    options = ("--as-subdir=false", "--put-md5", "--output-type", "json")
    places = {"AZCOPY_LOG_LOCATION": "logs", "AZCOPY_JOB_PLAN_LOCATION": "plans"}
    for name in places.values():
        (folder / name).mkdir(exist_ok=True)
    own = {variable: str(folder / name) for variable, name in places.items()}
    return Case(name="azcopy copy", arguments=(azcopy, *words, *options), environment=own)


def ours(source: Path, url: str, *more: str) -> Case:
    """Our command."""
    words = ("data", "copy", str(source), url, "--allow-sas", "--progress", "none", *more)
    return Case(name="data copy", arguments=(OURS, *words), environment={})


def measure_kind(
    title: str, source: Path, folder: Path, azurite: str, azcopy: str, runs: int
) -> dict[str, Figure]:
    """Copy in both ways, in turn; the same source is warm for both."""
    names = (f"azcopy copy, {title}", f"data copy, {title}", f"data copy --dry-run, {title}")
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(runs):
        with store(folder, azurite, azcopy) as blobs:
            target = blobs.fresh(f"run{number}look")
            cases = [
                plain(azcopy, source, blobs.fresh(f"run{number}plain"), folder),
                ours(source, blobs.fresh(f"run{number}ours")),
                ours(source, target, "--dry-run"),
            ]
            # Whoever comes first finds the service cold.
            order = range(3) if number % 2 else (1, 0, 2)
            for index in order:
                samples[names[index]].append(run_once(cases[index], blobs.environment))
    return {name: figure(name, taken) for name, taken in samples.items()}


def make_files(folder: Path, count: int, size: int) -> Path:
    """Fill a folder with files of random bytes, a thousand in each of its folders."""
    for number in range(count):
        path = folder / f"n{number // 1000:04}" / f"sample-{number:06}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for _ in range(0, size, 1 << 24):
                out.write(os.urandom(min(size, 1 << 24)))
            out.truncate(size)
    return folder


def make_many(folder: Path) -> Path:
    """Make a million empty files."""
    for part in range(SCANNED_FOLDERS):
        inner = folder / f"n{part:04}"
        inner.mkdir(parents=True)
        for number in range(SCANNED_EACH):
            (inner / f"ILSVRC2012_train_{part:04}{number:04}.JPEG").touch()
    return folder


def measure_scan(folder: Path, runs: int) -> Figure:
    """Look at a million local files, in a process of its own."""
    source = make_many(folder / "many")
    words = (sys.executable, "-c", SURVEY, str(source))
    case = Case(name="preflight of 1,000,000 files", arguments=words, environment={})
    samples = [run_once(case, dict(os.environ)) for _ in range(runs)]
    shutil.rmtree(source)
    return figure(case.name, samples)


def measure_all(azurite: str, azcopy: str, runs: int) -> dict[str, Figure]:
    """Measure every case by its name."""
    kinds = (
        ("10,000 small files", SMALL_FILES, SMALL_BYTES),
        ("2 GB in large files", LARGE_FILES, LARGE_BYTES),
    )
    found: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory(prefix="ai4infra-bench-") as name:
        folder = Path(name)
        for title, count, size in kinds:
            source = make_files(folder / "source", count, size)
            found |= measure_kind(title, source, folder, azurite, azcopy, runs)
            shutil.rmtree(source)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / "work")
        scan = measure_scan(folder, runs)
    return {**found, scan.name: scan}


def targets(found: dict[str, Figure]) -> list[Target]:
    """What is asked for, against what was measured."""
    rows = []
    for title in ("10,000 small files", "2 GB in large files"):
        plainly, own, look = (
            found[f"{words}, {title}"].seconds
            for words in ("azcopy copy", "data copy", "data copy --dry-run")
        )
        rows.append(
            (f"{title}: time without preflight over azcopy's", (own - look) / plainly, 1.05)
        )
    scan = found["preflight of 1,000,000 files"]
    rows.append(("preflight of 1,000,000 files: seconds", scan.seconds, 10))
    rows.append(("preflight of 1,000,000 files: peak MiB", scan.peak_mib, 190.7))
    return [
        Target(text=text, value=round(value, 3), bound=bound, at_least=False)
        for text, value, bound in rows
    ]


def report(found: dict[str, Figure], goals: list[Target]) -> str:
    """The figures and targets as Markdown."""
    lines = [
        machine_line(),
        "",
        "| Program | Wall, s | Peak, MiB | Runs |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {f.name} | {f.seconds:.2f} | {f.peak_mib:.0f} | {f.runs} |" for f in found.values()),
        "",
        *target_table(goals),
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--azurite", required=True, help="the blob service to copy into")
    parser.add_argument("--azcopy", required=True, help="the AzCopy of both")
    parser.add_argument("--slow-runs", type=int, default=3, help="runs of each program")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options, _ = parser.parse_known_args()
    found = measure_all(options.azurite, options.azcopy, options.slow_runs)
    goals = targets(found)
    text = report(found, goals)
    if options.write:
        write_section(MARK, text)
    if options.json:
        rows = [{**asdict(goal), "met": goal.met} for goal in goals]
        print(json.dumps({"figures": [asdict(f) for f in found.values()], "targets": rows}))
    else:
        print(text)
    return 0 if all(goal.met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
