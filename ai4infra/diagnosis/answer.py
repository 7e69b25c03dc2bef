"""The answer of a diagnosis as records, and what it says in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from ai4infra.diagnosis.phases import PhaseKind
from ai4infra.diagnosis.samples import Host
from ai4infra.model import GpuFacts, Record

Cause = Literal["fetch", "prep", "network", "checkpoint", "gpu", "idle", "other", "undetermined"]
Confidence = Literal["high", "medium", "low"]
GpuState = Literal["full", "busy", "waiting", "starved", "spinning", "unused", "lost", "unknown"]


class GpuRow(Record, frozen=True, kw_only=True):
    """One GPU over the judged time."""

    gpu: str
    state: GpuState
    utilization: float | None
    low_share: float | None
    """Share of readings below 10 %: bursts that a mean hides."""
    memory_activity: float | None
    memory_used_bytes: float | None
    power_w: float | None
    power_share: float | None
    """Of the power limit."""
    samples: int
    note: str | None = None


class Phase(Record, frozen=True, kw_only=True):
    """A part of the capture."""

    phase: PhaseKind
    start_s: float
    """On the clock of the GPU samples; a count of samples where they have no time."""
    end_s: float
    utilization: float
    judged: bool


class Evidence(Record, frozen=True, kw_only=True):
    """One observation, in a sentence."""

    source: Literal["gpu", "disk", "net", "cpu", "process", "mount", "size"]
    subject: str
    text: str


class Fix(Record, frozen=True, kw_only=True):
    """Something that helps."""

    text: str
    effect: str
    command: str | None


class Verdict(Record, frozen=True, kw_only=True):
    """The answer."""

    cause: Cause
    detail: str | None
    """``communication``, ``straggler``, ``small-batches``, ``held`` (memory is in use and nothing
    computes), ``held-feed``, ``too-few-samples``, ``no-gpu-memory``, ``no-gpu``; None where the
    cause says all.
    """
    subject: str | None
    """Device, mount or interface that the GPUs wait for."""
    gpus: tuple[str, ...]
    """GPUs that wait, where not all do."""
    starving: bool
    confidence: Confidence
    sentence: str
    lost_share: float | None
    """Share of GPU time that is lost, of what was judged."""
    lost_per_hour: float | None
    currency: str | None
    price_basis: str | None = None
    """Which list price it is, where the price was looked up."""


class Diagnosis(Record, frozen=True, kw_only=True):
    """The verdict and everything that led to it."""

    verdict: Verdict
    gpus: tuple[GpuRow, ...]
    phases: tuple[Phase, ...]
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]
    """Sources that would decide what is open, with the command that gives them."""
    fixes: tuple[Fix, ...]
    warnings: tuple[str, ...]
    aligned: bool
    """True when GPUs and the rest were seen on one clock."""


class Question(NamedTuple):
    """What is known beside the samples."""

    host: Host = Host()
    size: GpuFacts | None = None
    price_per_hour: float | None = None
    currency: str | None = None
    price_basis: str | None = None
    """Where the price comes from; None where somebody said it."""
    remarks: tuple[str, ...] = ()
    """What the readers of the logs have to say; becomes part of the warnings."""


_SENTENCES: dict[Cause, str] = {
    "fetch": "The GPUs wait for data to be read from {subject}.",
    "prep": "The GPUs wait for data to be prepared on the CPUs.",
    "network": "The GPUs wait for data that comes over a network at its limit ({subject}).",
    "checkpoint": "The GPUs wait while checkpoints are written.",
    "gpu": "The GPUs are fed: they are the limit.",
    "idle": "No GPU is in use.",
    "other": "The GPUs wait, and neither storage, network nor CPUs as a whole are the limit.",
    "undetermined": "What the GPUs do, or wait for, cannot be told from this.",
}
_DETAILS = {
    "communication": "The GPUs wait for each other: communication, not data, is the limit.",
    "held": "The GPUs hold a model, and nothing asks them to compute.",
    "held-feed": "The GPUs hold a model and do not compute; whether a job waits for what comes in"
    " over the network is unknown.",
    "too-few-samples": "There are too few readings to tell anything.",
    "no-gpu": "No GPU was sampled: whether one waits cannot be told.",
    "no-gpu-memory": "The disks are read from and no GPU computes; whether a job waits is unknown.",
}


def sentence(cause: Cause, detail: str | None, subject: str | None, gpus: Sequence[str]) -> str:
    """Return the verdict in one sentence."""
    if detail == "straggler":
        named = f"GPU {', '.join(gpus)}"
        if cause == "other":
            return f"{named} lags behind the others, and no shared resource is the reason."
        return _SENTENCES[cause].format(subject=subject).replace("The GPUs wait", f"{named} waits")
    return _DETAILS.get(detail or "") or _SENTENCES[cause].format(subject=subject or "?")


def mean_of(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    known = list(values)
    return sum(known) / len(known) if known else 0.0


def percent(value: float | None) -> str:
    """Return a share in percent; ``?`` where it is unknown."""
    return "?" if value is None else f"{value * 100:.0f} %"


def rate(value: float | None) -> str:
    """Return bytes a second in MB/s or GB/s, of 10**6 and 10**9 bytes."""
    if value is None:
        return "? MB/s"
    return f"{value / 1e9:.2f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def milliseconds(value: float | None) -> str:
    """Return seconds in milliseconds."""
    return "an unknown time" if value is None else f"{value * 1e3:.1f} ms"


def gpu_count(count: int) -> str:
    """Return a number of GPUs."""
    return "1 GPU" if count == 1 else f"{count} GPUs"
