"""What stands between the data and the GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ai4infra import limits
from ai4infra.limits import MBYTE, MIBYTE
from ai4infra.model import GpuFacts
from ai4infra.sizing.quantities import rate_words, shared_words, size_words
from ai4infra.sizing.records import Ceiling, Job

_MB_PER_GBIT: Final = 125


def account_bandwidth(job: Job) -> Ceiling:
    """Return what the account sends (for checkpoints: takes) for this job."""
    account = limits.account(job.region, premium=job.premium)
    writes = job.workload == "checkpoints"
    gbps = account.ingress_gbps if writes else account.egress_gbps
    name = "account ingress" if writes else "account egress"
    if gbps is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not published ({account.title})")
    rate = gbps * _MB_PER_GBIT / job.shared_by
    text = f"{name}: {gbps:g} Gbps{shared_words(job)} = {rate_words(rate)} ({account.title})"
    return Ceiling(name=name, mbytes_s=rate, text=text)


def account_requests(job: Job, request_bytes: float) -> Ceiling:
    """Return the account's request rate as a rate of bytes, given what one request brings."""
    account = limits.account(job.region, premium=job.premium)
    name = "account requests"
    if account.requests_s is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not published ({account.title})")
    rate = account.requests_s / job.shared_by * request_bytes / MBYTE
    text = (
        f"{name}: {account.requests_s:,}/s{shared_words(job)} of {size_words(request_bytes)} ="
        f" {rate_words(rate)} ({account.title})"
    )
    return Ceiling(name=name, mbytes_s=rate, text=text)


def vm_network(job: Job, facts: GpuFacts) -> Ceiling:
    """Return the network of all VMs, without InfiniBand, which reaches no storage account."""
    return per_vm(job, "VM network", facts.network_gbps, _MB_PER_GBIT, "Gbps")


def vm_disks(job: Job, facts: GpuFacts) -> Ceiling:
    """Return what all VMs together move to and from managed disks, uncached."""
    return per_vm(job, "VM uncached disk", facts.uncached_disk_mbytes_s, 1, "MB/s")


def per_vm(job: Job, name: str, value: float | None, to_mb: float, unit: str) -> Ceiling:
    """Build the ceiling of something that every VM has; None is not known."""
    if value is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not known for {job.size}")
    rate = value * to_mb * job.vms
    times = f" on each of {job.vms} VMs" if job.vms > 1 else ""
    text = f"{name}: {value:,g} {unit}{times}"
    return Ceiling(
        name=name,
        mbytes_s=rate,
        text=text if unit == "MB/s" and job.vms == 1 else f"{text} = {rate_words(rate)}",
    )


def measured(job: Job, name: str, mibytes_s: float | None) -> Ceiling:
    """Return a tool's measured rate on all VMs."""
    mbytes = None if mibytes_s is None else mibytes_s * MIBYTE / MBYTE
    if mbytes is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not measured")
    return per_vm(job, name, round(mbytes), 1, "MB/s")


def shared_rate(job: Job, name: str, mbytes_s: float, detail: str) -> Ceiling:
    """Return the rate of something that all VMs and jobs share."""
    rate = mbytes_s / job.shared_by
    return Ceiling(
        name=name, mbytes_s=rate, text=f"{name}: {detail}{shared_words(job)} = {rate_words(rate)}"
    )


def lowest(ceilings: Iterable[Ceiling]) -> Ceiling | None:
    """Return the lowest of the ceilings that are known; None where none is."""
    known = [(c.mbytes_s, i, c) for i, c in enumerate(ceilings) if c.mbytes_s is not None]
    return min(known)[2] if known else None
