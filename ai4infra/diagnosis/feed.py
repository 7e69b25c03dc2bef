"""A feed against a need: what GPUs ask for, what was measured, what utilisation that carries. Pure.

Needs come from the figures of MLPerf Storage (``data/storage.toml``) or are said outright.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

from ai4infra import gpus, limits, sizing
from ai4infra.errors import UsageError
from ai4infra.ids import unknown_name
from ai4infra.model import Record

MBYTE = 10**6
PASS_PERCENT = 90.0
"""MLPerf Storage asks this of most workloads; used where a need is only said as a rate."""
_BITS = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGTkmgt])(?:bps|bits?/s)|([KMGT])b/s)", re.ASCII)
"""``Gb/s`` is bits and ``GB/s`` bytes; a small ``gb/s`` is bytes, as sizes are."""
_BYTES_PS = re.compile(r"(.*B)ps", re.ASCII)
_RATE_HINT = "Say 1.6GB/s or 800MiB/s in bytes, 80Gbps in bits."
_GPUS = re.compile(r"(?:(\d{1,5})\s*x\s*)?(\S.*)", re.IGNORECASE)

SHORT_SECONDS = 0.2
"""A pass shorter than this is mostly the start of its readers."""

Bound = Literal["fetch", "preparation"]


class Need(Record, frozen=True, kw_only=True):
    """What the GPUs take in when they never wait."""

    mbytes_s: float
    basis: str
    """How the figure comes about."""
    samples_s: float | None = None
    sample_bytes: int | None = None
    pass_percent: float = PASS_PERCENT
    """Share of the time the GPUs have to be busy to call them fed."""


class Pass(Record, frozen=True, kw_only=True):
    """One pass over some files; MB are 10**6 bytes. Pieces are files, or 16 MiB of larger ones."""

    temperature: Literal["cold", "cached"]
    seconds: float
    files: int
    bytes: int
    mbytes_s: float
    files_s: float
    median_ms: float
    """Of one piece, from opening the file to its last byte."""
    p95_ms: float
    p99_ms: float
    max_ms: float


class Preparation(Record, frozen=True, kw_only=True):
    """Decoding of files that were read already."""

    decode: str
    workers: int
    seconds: float
    files: int
    bytes: int
    """Of the files, before decoding."""
    mbytes_s: float
    files_s: float
    median_ms: float


class Carried(Record, frozen=True, kw_only=True):
    """What the feed means for the GPUs."""

    gpu_percent: float
    """Utilisation that the feed can carry, 100 at most."""
    cached_gpu_percent: float | None
    """The same when all data comes from memory."""
    fed: bool
    bound: Bound | None
    """What is slower, where preparation was measured."""
    said: str


class Probe(Record, frozen=True, kw_only=True):
    """What a probe of a path found."""

    path: str
    kind: str
    """What stands behind the path."""
    mode: str | None
    workers: int
    files_seen: int
    """Files with anything in them, as far as the folder was walked."""
    cold: Pass
    cached: Pass | None
    preparation: Preparation | None
    need: Need | None
    carried: Carried | None
    """None without a need."""
    ceiling_mbytes_s: float | None
    ceiling: str | None
    failed: int
    """Reads that failed, and were left out."""
    notes: tuple[str, ...] = ()


def parse_rate(text: str) -> float:
    """Parse a rate into bytes a second: ``1.6GB/s``, ``800 MiB/s``, ``80Gbps``; else UsageError."""
    bits = _BITS.fullmatch(text.strip())
    if bits and Fraction(bits[1]):
        power = "KMGT".index((bits[2] or bits[3]).upper()) + 1
        return float(Fraction(bits[1]) * 1000**power / 8)
    amount, slash, unit = _BYTES_PS.sub(r"\1/s", text.strip()).rpartition("/")
    if bits or not slash or unit.strip() != "s":
        raise UsageError(f"{text!r} is not a rate.", hint=_RATE_HINT)
    try:
        return float(sizing.parse_bytes(amount))
    except UsageError as error:
        raise UsageError(f"{text!r} is not a rate.", hint=_RATE_HINT) from error


def need_of_rate(text: str) -> Need:
    """Return a need that was said as a rate."""
    rate = parse_rate(text)
    return Need(mbytes_s=rate / MBYTE, basis=f"{text.strip()}, as asked")


def workloads() -> dict[str, limits.GpuNeed]:
    """Return the workloads whose needs are known, by the benchmark's name."""
    return {**limits.gpu_needs("images"), **limits.gpu_needs("text")}


def need_of_gpus(text: str, workload: str) -> Need:
    """Return the need of ``8xH100``, or of a VM size, for a workload; UsageError when unknown."""
    known = workloads()
    workload = workload.strip().casefold()
    row = known.get(workload)
    if row is None:
        raise unknown_name("workload", workload, known, listing=f"There are {', '.join(known)}.")
    count, model = _gpus(text)
    rate = row.samples_s(model)
    if rate is None:
        raise UsageError(
            f"What {workload} asks of {model} is not published.",
            hint=f"It is for {', '.join(row.step_s)}; say --need 1.6GB/s instead.",
        )
    samples = float(rate * count)
    percent = f", {row.pass_percent:g} % busy" if row.pass_percent else ""
    return Need(
        mbytes_s=samples * row.sample_bytes / MBYTE,
        basis=f"{_count(count)} {model} on {workload}: {samples:,.0f} samples/s of"
        f" {row.sample_bytes:,} bytes{percent} ({row.source.split('/')[2]})",
        samples_s=samples,
        sample_bytes=row.sample_bytes,
        pass_percent=row.pass_percent or PASS_PERCENT,
    )


def _gpus(text: str) -> tuple[Fraction, str]:
    """Return the number of GPUs and their model."""
    match = _GPUS.fullmatch(text.strip())
    if match is None or int(match[1] or 1) == 0:
        raise UsageError(f"{text!r} is not a number of GPUs.", hint="Say 8xH100.")
    count, name = Fraction(match[1] or 1), match[2]
    model = gpus.model_named(name)
    if model:
        return count, model
    facts = gpus.facts(name)
    if facts.gpu_model and facts.gpu_count:
        return count * gpus.fraction(facts.gpu_count), facts.gpu_model
    names = (*gpus.models(), *gpus.all_sizes())
    raise unknown_name("GPU", name, names, listing="Say a model, such as 8xH100.")


def _count(count: Fraction) -> str:
    return str(count)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of ordered values: the smallest that so many percent do not exceed."""
    at = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered), int(at)) - 1)]


def measured(
    temperature: Literal["cold", "cached"],
    *,
    seconds: float,
    files: int,
    size: int,
    latencies: Sequence[float],
) -> Pass | None:
    """Return a pass in figures; None when nothing was read."""
    if not latencies or seconds <= 0:
        return None
    ordered = sorted(latencies)
    milli = [percentile(ordered, p) * 1000 for p in (50, 95, 99, 100)]
    return Pass(
        temperature=temperature,
        seconds=seconds,
        files=files,
        bytes=size,
        mbytes_s=size / seconds / MBYTE,
        files_s=files / seconds,
        median_ms=milli[0],
        p95_ms=milli[1],
        p99_ms=milli[2],
        max_ms=milli[3],
    )


def carried(need: Need, cold: Pass, cached: Pass | None, prepared: Preparation | None) -> Carried:
    """Say what GPU utilisation a measured feed carries.

    Fetch and preparation run side by side in a loader, so the slower of the two decides.
    """
    rate, bound = _slower(cold.mbytes_s, prepared)
    percent = _percent(rate, need)
    warm = None if cached is None else _percent(_slower(cached.mbytes_s, prepared)[0], need)
    return Carried(
        gpu_percent=percent,
        cached_gpu_percent=warm,
        fed=percent >= need.pass_percent,
        bound=bound,
        said=" ".join(_said(need, rate, percent, warm, bound)),
    )


def _slower(fetch: float, prepared: Preparation | None) -> tuple[float, Bound | None]:
    if prepared is None:
        return fetch, None
    if prepared.mbytes_s < fetch:
        return prepared.mbytes_s, "preparation"
    return fetch, "fetch"


def _percent(rate: float, need: Need) -> float:
    return min(100.0, rate / need.mbytes_s * 100)


def _said(
    need: Need, rate: float, percent: float, warm: float | None, bound: Bound | None
) -> Iterator[str]:
    asked = f"{need.mbytes_s:,.0f} MB/s"
    if percent >= need.pass_percent:
        yield f"The GPUs are fed: {_rate(rate)} of {asked} carry {_whole(percent)} %."
        return
    yield f"The GPUs starve: {_rate(rate)} of {asked} carry {_whole(percent)} %."
    if bound == "preparation":
        yield "Preparation is slower than fetching: more workers or a cheaper decode help."
    elif warm is not None and warm >= need.pass_percent:
        yield "Once in memory the same files feed them: a cache helps from the second epoch on."


def _rate(mbytes_s: float) -> str:
    return f"{mbytes_s:,.0f} MB/s" if mbytes_s >= 10 else f"{mbytes_s:.2g} MB/s"


def _whole(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 1 else f"{percent:.1g}"


def remarks(
    cold: Pass, cached: Pass | None, *, kind: str, mode: str | None, fstype: str = ""
) -> Iterator[str]:
    """Yield what a reader of the figures has to know."""
    if kind == "BlobFuse2" and mode != "no cache":
        yield (
            "Cold means out of memory: BlobFuse2's own cache keeps what it has, so a first read of"
            " files that it does not have is slower."
        )
    elif kind != "BlobFuse2" and fstype.startswith("fuse"):
        yield "Cold means out of memory: what the mount itself caches is not known, and stays."
    elif kind == "memory":
        yield "The files are in memory: there is no cold read."
    elif cached and cold.mbytes_s > cached.mbytes_s * 0.7 and cold.seconds > 0.5:
        yield (
            "Cold reads were about as fast as cached ones: the disk's host or server may cache"
            " them, or the program that reads is the limit (more --workers tell)."
        )
    if cold.seconds < SHORT_SECONDS:
        yield (
            f"Reading took only {cold.seconds:.2g} s, which is little to go by: a folder with more"
            " data tells more."
        )
    if cold.files and cold.bytes / cold.files < 2**20:
        yield (
            f"Files have {cold.bytes / cold.files / 1000:,.0f} KB on average: {cold.files_s:,.0f}"
            " files a second count as much as bytes."
        )
