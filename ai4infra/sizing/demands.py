"""What the GPUs of a job take in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from ai4infra import gpus, limits
from ai4infra.limits import MBYTE, MIBYTE, GpuNeed
from ai4infra.model import GpuFacts
from ai4infra.sizing.quantities import size_words
from ai4infra.sizing.records import Demand, Job

_PASS_PERCENT: Final = 90.0


def demand(job: Job, facts: GpuFacts) -> Demand:
    """Return what the job's GPUs take in; unknown for a model without published figures."""
    count = gpus.fraction(facts.gpu_count) * job.vms if facts.gpu_count else None
    basis = _basis(job)
    need = limits.gpu_needs(job.workload).get(basis or "")
    per_gpu = need.samples_s(facts.gpu_model) if need else None
    samples = None if per_gpu is None or count is None else float(per_gpu * count)
    sample_bytes = _sample_bytes(job, need)
    rate = None if samples is None or sample_bytes is None else samples * sample_bytes
    return Demand(
        gpus=None if count is None else float(count),
        gpu_model=facts.gpu_model,
        basis=basis,
        sample_bytes=sample_bytes,
        samples_s=samples,
        mbytes_s=None if rate is None else rate / MBYTE,
        requests_s=None if rate is None else rate / request_bytes(job, sample_bytes, 16),
        pass_percent=(need.pass_percent if need else None) or _PASS_PERCENT,
        notes=tuple(_demand_notes(job, facts, need, per_gpu)),
    )


def _basis(job: Job) -> str | None:
    """Return the benchmark whose samples are nearest in size, on a logarithmic scale."""
    needs = limits.gpu_needs(job.workload)
    size = job.sample_bytes or job.file_bytes
    if not needs or size is None or job.workload == "text":
        return next(iter(needs), None)
    return min(needs, key=lambda name: abs(math.log(size / needs[name].sample_bytes)))


def _sample_bytes(job: Job, need: GpuNeed | None) -> float | None:
    reference = need.sample_bytes if need else None
    if job.workload == "text":
        return job.sample_bytes or reference
    return job.sample_bytes or job.file_bytes or reference


def request_bytes(job: Job, sample_bytes: float | None, request_mib: int) -> float:
    """Return how much one request brings: a whole file, up to what the tool asks for at once."""
    most = request_mib * MIBYTE
    whole = job.file_bytes or (sample_bytes if job.workload == "images" else None) or most
    return min(whole, most)


def _demand_notes(
    job: Job, facts: GpuFacts, need: GpuNeed | None, per_gpu: Fraction | None
) -> Iterator[str]:
    if job.workload == "checkpoints":
        yield "GPUs take in nothing here: what counts is how long a checkpoint keeps them waiting."
    elif per_gpu is None:
        known = " and ".join(need.step_s) if need else "no GPU"
        yield (
            f"What a {facts.gpu_model or facts.size} takes in is not known: figures are published"
            f" for {known}."
        )
    if job.workload == "images" and not job.files:
        yield "Without a number of files, samples of the benchmark's size in a file each are taken."
    elif job.workload == "images" and not job.sample_bytes and _basis(job) != "resnet50":
        yield (
            f"A file of {size_words(job.file_bytes or 0)} is taken for one sample: say the size of"
            " a sample where files hold many."
        )
    if need and need.note:
        yield f"{need.note[0].upper()}{need.note[1:]}."
