"""The decision matrix: every option judged for a job, best first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ai4infra import gpus, limits
from ai4infra.errors import UsageError
from ai4infra.model import GpuFacts
from ai4infra.sizing.ceilings import account_bandwidth, account_requests, vm_disks, vm_network
from ai4infra.sizing.demands import demand, request_bytes
from ai4infra.sizing.options import (
    BLOCK_CACHE,
    FILE_CACHE,
    LUSTRE,
    NFS,
    OPTIONS,
    PRELOAD,
    SMB,
    SSD,
    SSD_V2,
    STAGING,
    account_note,
    percent_of,
)
from ai4infra.sizing.quantities import size_words
from ai4infra.sizing.records import (
    Case,
    Job,
    LocalDisk,
    StorageAdvice,
    StorageOption,
    Suitable,
    Usage,
)

_SUITABLE: Final[tuple[Suitable, ...]] = ("yes", "with conditions", "no", "never")


def advise(job: Job, facts: GpuFacts | None = None) -> StorageAdvice:
    """Judge every way to keep the data of a job; the best comes first, "never" last.

    ``facts`` is what is known of the VM size, by default our own data. Raises UsageError for a
    number below one.
    """
    _check(job)
    facts = facts or gpus.facts(job.size)
    case = Case(job=job, facts=facts, demand=demand(job, facts), local=local_disk(facts))
    options = [build(case) for build in OPTIONS]
    return StorageAdvice(
        job=job,
        demand=case.demand,
        usage=usage(job, facts),
        options=tuple(sorted(options, key=lambda option: _rank(case, option))),
        notes=tuple(_advice_notes(case)),
    )


def usage(job: Job, facts: GpuFacts) -> tuple[Usage, ...]:
    """Return how much of each limit the demand takes when every sample comes from the account."""
    asked = demand(job, facts)
    bounds = (
        account_bandwidth(job),
        account_requests(job, request_bytes(job, asked.sample_bytes, 16)),
        vm_network(job, facts),
        vm_disks(job, facts),
    )
    return tuple(
        Usage(limit=b.name, percent=percent_of(asked.mbytes_s, b.mbytes_s), text=b.text)
        for b in bounds
    )


def _check(job: Job) -> None:
    for name in ("dataset_bytes", "vms", "epochs", "shared_by", "files", "sample_bytes"):
        value = getattr(job, name)
        if value is not None and value < 1:
            raise UsageError(f"{name.replace('_', ' ')} has to be at least 1, not {value}.")
    if job.files and job.files > job.dataset_bytes:
        raise UsageError(
            f"{job.files:,} files do not fit into {size_words(job.dataset_bytes)}: a file has at"
            " least one byte."
        )
    if job.sample_bytes is not None and job.sample_bytes > job.dataset_bytes:
        raise UsageError(
            f"A sample of {size_words(job.sample_bytes)} does not fit into"
            f" {size_words(job.dataset_bytes)} of data."
        )


def local_disk(facts: GpuFacts) -> LocalDisk:
    """Return the local NVMe, or else the temp disk where our data has one."""
    temp = facts.temp_disk_gib if isinstance(facts, gpus.CatalogRow) else None
    if not facts.nvme_gib and temp:
        return LocalDisk(name="temp disk", gib=temp)
    return LocalDisk(name="local NVMe", gib=facts.nvme_gib)


def _rank(case: Case, option: StorageOption) -> tuple[float, ...]:
    """Order by suitability; then what feeds by preference, what writes or starves by rate."""
    order = _preference(case)
    place = order.index(option.name) if option.name in order else len(order)
    rate = option.feed_mbytes_s
    if option.suitable in ("yes", "with conditions") and not case.writes:
        return (_SUITABLE.index(option.suitable), place, 0)
    return (_SUITABLE.index(option.suitable), 0 if rate is not None else 1, -(rate or 0))


def _preference(case: Case) -> tuple[str, ...]:
    """Prefer local copies for many epochs, streaming for one pass."""
    local = (STAGING, FILE_CACHE, PRELOAD)
    others = (LUSTRE, NFS, SMB, SSD_V2, SSD)
    if case.job.workload == "text" or (case.job.epochs == 1 and case.sequential):
        return (BLOCK_CACHE, *local, *others)
    if case.job.epochs == 1:
        return (FILE_CACHE, LUSTRE, NFS, STAGING, PRELOAD, SMB, SSD_V2, SSD, BLOCK_CACHE)
    return (*local, *others, BLOCK_CACHE)


def _advice_notes(case: Case) -> Iterator[str]:
    yield from case.demand.notes
    yield from account_note(case)
    if case.job.region is None and not case.job.premium:
        yield "Without a region, the account limits that hold in every region are taken."
    yield "Account limits are defaults: Azure Support raises them on request."
    yield "A VM's network figure is for sending; reading has been measured above it."
    if case.job.workload == "text":
        block = limits.tool("block_cache")
        yield (
            "Token files that are memory-mapped are read at random: BlobFuse2's block cache then"
            f" does {block.random_4k_iops:g} reads of 4 KiB a second; use a copy on a local disk."
        )
