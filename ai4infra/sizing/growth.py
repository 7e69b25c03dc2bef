"""What gives way when the data grows, or is read by so many VMs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ai4infra import limits
from ai4infra.limits import TIBYTE
from ai4infra.model import GpuFacts
from ai4infra.sizing.demands import demand
from ai4infra.sizing.matrix import local_disk, usage
from ai4infra.sizing.quantities import gib_words, rate_words, size_words
from ai4infra.sizing.records import Job

GROWTH: Final = 10
"""``growth_warnings`` looks at this many times the expected size."""


def growth_warnings(
    *,
    expect_bytes: int | None = None,
    vms: int = 0,
    facts: GpuFacts | None = None,
    region: str | None = None,
    premium: bool = False,
    shared_by: int = 1,
) -> tuple[str, ...]:
    """Say what gives way when the data grows tenfold or the GPUs are fed from the account.

    ``expect_bytes`` is the size to come, ``vms`` and ``facts`` the VMs that will read it as images
    (the hungriest workload with small files); either may be left out. Returns sentences.
    """
    capacity = limits.account(region, premium=premium).capacity_tib
    found = list(_size_warnings(expect_bytes, facts, capacity)) if expect_bytes else []
    if facts is not None and vms:
        job = Job(
            dataset_bytes=expect_bytes or 1,
            vms=vms,
            size=facts.size,
            region=region,
            premium=premium,
            shared_by=shared_by,
        )
        found += _feed_warnings(job, facts)
    return tuple(found)


def _size_warnings(
    expect_bytes: int, facts: GpuFacts | None, capacity: int | None
) -> Iterator[str]:
    grown = expect_bytes * GROWTH
    told = f"{GROWTH} times {size_words(expect_bytes)} is {size_words(grown)}"
    if capacity is not None and grown > capacity * TIBYTE:
        yield f"{told}: more than the {capacity:,} TiB of one account; plan for several."
    if facts is not None:
        local = local_disk(facts)
        if local.gib and local.holds(grown) is False:
            yield (
                f"{told}: more than the {gib_words(local)} of one {facts.size}; a local copy or a"
                " cache will not hold it."
            )


def _feed_warnings(job: Job, facts: GpuFacts) -> Iterator[str]:
    asked = demand(job, facts)
    if asked.mbytes_s is None:
        yield from asked.notes[:1]
        return
    told = (
        f"{asked.gpus:g} {asked.gpu_model} can take in {rate_words(asked.mbytes_s)} of small images"
    )
    for use in usage(job, facts):
        if use.percent is not None and use.percent > 100:
            yield f"{told}, {use.percent / 100:.1f} times the {use.text}."
        elif use.percent is not None and use.limit == "account requests" and use.percent > 50:
            yield f"{told}, {use.percent:.0f} % of the {use.text}."
