"""The ways to keep a dataset: one function each, which judges it for a job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ai4infra import gpus, limits
from ai4infra.limits import GIBYTE, MBYTE, MIBYTE, TIBYTE, Row
from ai4infra.sizing.ceilings import (
    account_bandwidth,
    account_requests,
    lowest,
    measured,
    per_vm,
    shared_rate,
    vm_disks,
    vm_network,
)
from ai4infra.sizing.demands import request_bytes
from ai4infra.sizing.quantities import (
    duration_words,
    gib_words,
    percent_words,
    rate_words,
    size_words,
)
from ai4infra.sizing.records import Case, Ceiling, StorageOption, Suitable

STAGING: Final = "Blob + local staging (AzCopy)"
FILE_CACHE: Final = "BlobFuse2 file cache"
BLOCK_CACHE: Final = "BlobFuse2 block cache"
PRELOAD: Final = "BlobFuse2 preload"
NFS: Final = "Azure Files NFS premium"
SMB: Final = "Azure Files SMB premium"
SSD: Final = "Premium SSD"
SSD_V2: Final = "Premium SSD v2"
LUSTRE: Final = "Azure Managed Lustre"
HDD: Final = "Standard HDD"
STANDARD_SMB: Final = "Azure Files SMB standard"


def _staging(case: Case) -> StorageOption:
    job, local = case.job, case.local
    sharded = not local.holds(job.dataset_bytes)
    copy = _copy_ceilings(case)
    if case.writes:
        return _local_checkpoint(case)
    seconds = _seconds(case.dataset_mb * (1 if sharded else job.vms), lowest(copy))
    verdict, why = _fits(case, 1)
    yardstick = limits.tool("file_cache").warm_read_mibytes_s or 0
    per_vm = (case.demand.mbytes_s or 0) / job.vms
    if verdict == "yes" and per_vm * MBYTE > yardstick * MIBYTE:
        verdict = "with conditions"
        why += f" Measure the disk first: each VM needs {rate_words(per_vm)} of it."
    speed = Ceiling(
        name=local.name, mbytes_s=None, text=f"{local.name}: read speed of {job.size} not published"
    )
    notes = [
        f"The read speed of the {local.name} is not published, so the feed is not known; read"
        " through BlobFuse2, another VM's local disk gave"
        f" {rate_words(yardstick * MIBYTE / MBYTE)}.",
        "A local disk is empty after deallocation, and NVMe has to be formatted first.",
    ]
    return _option(
        case,
        STAGING,
        [speed],
        verdict,
        why,
        seconds=seconds,
        blob=True,
        notes=notes,
        rows=[limits.tool("azcopy")],
    )


def _local_checkpoint(case: Case) -> StorageOption:
    verdict, why = _fits(case, 1, "with conditions")
    speed = Ceiling(
        name=case.local.name, mbytes_s=None, text=f"{case.local.name}: write speed not published"
    )
    why += " The copy to blob storage runs while the GPUs go on; until then a lost VM loses it."
    return _option(case, STAGING, [speed], verdict, why, blob=True, rows=[limits.tool("azcopy")])


def _file_cache(case: Case) -> StorageOption:
    job, tool = case.job, limits.tool("file_cache")
    cold = _blob_ceilings(case, "file cache, cold", tool.read_mibytes_s, tool.request_mib)
    if case.writes:
        written = _blob_ceilings(
            case, "file cache, writing", tool.write_mibytes_s, tool.request_mib
        )
        why = "A file goes up as a whole when it is closed: slow until it is durable."
        return _option(case, FILE_CACHE, written, "with conditions", why, blob=True, rows=[tool])
    verdict, why = _fits(case, tool.disk_share or 1)
    warm = [measured(job, "file cache, warm", tool.warm_read_mibytes_s)]
    stays = verdict == "yes" and job.epochs > 1
    notes = [f"Files leave the cache after {tool.evict_s} s unless the timeout is raised."]
    if stays and job.vms > 1:
        notes.append("With shuffling over VMs, each VM has everything only after several epochs.")
    return _option(
        case,
        FILE_CACHE,
        warm if stays else cold,
        verdict,
        why,
        blob=True,
        notes=notes,
        rows=[tool],
        seconds=_first_epoch(case, cold),
    )


def _preload(case: Case) -> StorageOption:
    tool = limits.tool("file_cache")
    cold = _blob_ceilings(case, "file cache, cold", tool.read_mibytes_s, tool.request_mib)
    if case.writes:
        why = "A preloaded mount is read-only."
        return _option(case, PRELOAD, [], "no", why, blob=True, rows=[tool])
    # Without room for everything there is no preload at all, however many VMs there are.
    holds = case.local.holds(case.job.dataset_bytes)
    verdict, why = _fits(case, 1)
    if holds is False:
        verdict, why = (
            "no",
            f"{size_words(case.job.dataset_bytes)} has to fit the {gib_words(case.local)}.",
        )
    seconds = _seconds(case.dataset_mb * case.job.vms, lowest(cold))
    notes = ["Read-only; the cache folder has to be empty; rates are those of the file cache."]
    warm = [measured(case.job, "file cache, warm", tool.warm_read_mibytes_s)]
    return _option(
        case, PRELOAD, warm, verdict, why, blob=True, notes=notes, rows=[tool], seconds=seconds
    )


def _block_cache(case: Case) -> StorageOption:
    tool = limits.tool("block_cache_premium" if case.job.premium else "block_cache")
    measured = limits.tool("block_cache")
    if case.writes:
        rate, name = measured.write_mibytes_s, "block cache, writing"
        verdict: Suitable = "yes"
        why = "Blocks go up while the file is written; nothing has to fit a disk."
    elif case.sequential:
        rate, name, verdict = tool.read_mibytes_s, "block cache, sequential", "yes"
        why = "Large files from front to end, read ahead from the account in every epoch."
    else:
        rate, name, verdict = measured.random_read_mibytes_s, "block cache, random", "no"
        why = (
            "Small files in random order: reading ahead is lost"
            f" ({measured.random_64k_iops:g} reads of 64 KiB a second, measured)."
        )
    bounds = _blob_ceilings(case, name, rate, tool.request_mib)
    return _option(
        case,
        BLOCK_CACHE,
        bounds,
        verdict,
        why,
        blob=True,
        rows=[tool],
        seconds=_first_epoch(case, bounds),
    )


def _nfs(case: Case) -> StorageOption:
    notes = ["Several connections (nconnect) are needed for more than one gives."]
    return _premium_files(case, NFS, [], notes, [])


def _smb(case: Case) -> StorageOption:
    client = limits.smb_multichannel()
    bound = measured(case.job, "SMB Multichannel", client.client_mibytes_s)
    alone = limits.premium_share().client_mibytes_s
    notes = [f"Without Multichannel one VM has reached {rate_words(alone * MIBYTE / MBYTE)}."]
    return _premium_files(case, SMB, [bound], notes, [client])


def _premium_files(
    case: Case, name: str, client: list[Ceiling], notes: list[str], rows: list[Row]
) -> StorageOption:
    share = limits.premium_share()
    filled = max(share.min_gib, math.ceil(case.job.dataset_bytes / GIBYTE))
    if filled > share.max_gib:
        why = f"A share holds {share.max_gib:,} GiB at most."
        return _option(case, name, [], "no", why, rows=[share, *rows])
    gib = _share_gib(case, filled)
    bounds = [
        shared_rate(
            case.job,
            "share throughput",
            share.mibytes_s(gib) * MIBYTE / MBYTE,
            f"{share.mibytes_s(gib):,} MiB/s of {gib:,} GiB",
        ),
        shared_rate(
            case.job,
            "share IOPS",
            share.iops(gib) * case.piece_bytes / MBYTE,
            f"{share.iops(gib):,} IOPS of {gib:,} GiB, {size_words(case.piece_bytes)} each",
        ),
        vm_network(case.job, case.facts),
        *client,
    ]
    bigger = gib > filled
    why = f"Throughput comes with size: provision {gib:,} GiB"
    why += f", though the data fills only {filled:,}." if bigger else "."
    verdict: Suitable = "with conditions" if bigger else "yes"
    return _option(case, name, bounds, verdict, why, notes=notes, rows=[share, *rows])


def _share_gib(case: Case, filled: int) -> int:
    """Return the size of share that feeds the GPUs, else the largest that is of any use."""
    share, need = limits.premium_share(), case.demand.mbytes_s
    if need is None:
        return filled
    total = need * case.job.shared_by
    by_rate = share.gib_for(total * MBYTE / MIBYTE) or share.max_gib
    by_iops = math.ceil((total * MBYTE / case.piece_bytes - share.base_iops) / share.iops_per_gib)
    return min(max(filled, by_rate, by_iops), share.max_gib)


def _premium_ssd(case: Case) -> StorageOption:
    disk = limits.disk("premium_ssd")
    count = math.ceil(case.job.dataset_bytes / GIBYTE / disk.max_gib)
    uncached = case.facts.uncached_disk_mbytes_s
    if uncached is not None:
        count = max(count, math.ceil(uncached / disk.mbytes_s))
    return _disks(case, SSD, disk, count)


def _premium_ssd_v2(case: Case) -> StorageOption:
    disk = limits.disk("premium_ssd_v2")
    return _disks(case, SSD_V2, disk, math.ceil(case.job.dataset_bytes / GIBYTE / disk.max_gib))


def _disks(case: Case, name: str, disk: limits.DiskLimits, count: int) -> StorageOption:
    bounds = [
        vm_disks(case.job, case.facts),
        per_vm(case.job, f"{count} x {disk.title}", disk.mbytes_s * count, 1, "MB/s"),
    ]
    if disk.vm_gib is not None and case.job.dataset_bytes > disk.vm_gib * GIBYTE:
        why = f"The disks of one VM hold {disk.vm_gib:,} GiB at most."
        return _option(case, name, [], "no", why, rows=[disk])
    why = "Each VM has disks and a copy of its own; the VM's uncached limit holds for all of them."
    filling = [*_copy_ceilings(case), *bounds]
    seconds = None if case.writes else _seconds(case.dataset_mb * case.job.vms, lowest(filling))
    # Where another VM has to go on from a checkpoint, a disk of one VM is in the way.
    verdict: Suitable = "with conditions" if case.writes and case.job.vms > 1 else "yes"
    return _option(
        case,
        name,
        bounds,
        verdict,
        why,
        seconds=seconds,
        rows=[disk],
        notes=["Stays when the VM is deallocated, and costs then as well."],
    )


def _lustre(case: Case) -> StorageOption:
    need = (case.demand.mbytes_s or 0) * case.job.shared_by
    found = _lustre_choice(case.job.dataset_bytes, need)
    skus = limits.lustre_skus()
    if found is None:
        why = "Larger than what can be provisioned without asking Azure Support."
        return _option(case, LUSTRE, [], "no", why, rows=list(skus.values()))
    tib, name = found
    rate = skus[name].mbytes_s_per_tib
    bounds = [
        shared_rate(case.job, "file system", tib * rate, f"{tib} TiB of {rate} MB/s"),
        vm_network(case.job, case.facts),
    ]
    why = f"{name} of {tib} TiB: one file system for all VMs, filled from the account."
    notes = ["It costs by the hour whether it is read or not: delete it after the job."]
    return _option(case, LUSTRE, bounds, "yes", why, notes=notes, rows=[skus[name]])


def _lustre_choice(dataset_bytes: int, mbytes_s: float) -> tuple[int, str] | None:
    """Return the least capacity (and its SKU) that holds and feeds, else that holds and is fast."""
    skus = limits.lustre_skus()
    feeding = [(sku.tib_for(dataset_bytes, mbytes_s), name) for name, sku in skus.items()]
    enough = [(tib, name) for tib, name in feeding if tib is not None]
    if enough:
        return min(enough, key=lambda choice: choice[0])
    holding = [
        (sku.max_tib * sku.mbytes_s_per_tib, sku.max_tib, name)
        for name, sku in skus.items()
        if sku.tib_for(dataset_bytes) is not None
    ]
    return max(holding)[1:] if holding else None


def _standard_hdd(case: Case) -> StorageOption:
    disk = limits.disk("standard_hdd")
    bounds = [per_vm(case.job, disk.title, disk.mbytes_s, 1, "MB/s")]
    return _never(
        case, HDD, bounds, f"one disk has {disk.mbytes_s:g} MB/s and {disk.iops} IOPS", disk
    )


def _standard_smb(case: Case) -> StorageOption:
    share = limits.standard_share()
    rate = share.mibytes_s * MIBYTE / MBYTE
    bounds = [shared_rate(case.job, share.title, rate, f"{share.mibytes_s:g} MiB/s for all VMs")]
    large = f"{share.large_mibytes_s:g} MiB/s as a large share"
    return _never(
        case, STANDARD_SMB, bounds, f"one share has {share.mibytes_s:g} MiB/s, {large}", share
    )


def _never(case: Case, name: str, bounds: list[Ceiling], told: str, row: Row) -> StorageOption:
    option = _option(case, name, bounds, "never", "", rows=[row])
    percent = option.gpu_feed_percent
    seconds = _seconds(case.dataset_mb, lowest(bounds))
    if percent is not None and percent < case.demand.pass_percent:
        effect = f"the GPUs would be fed {percent_words(percent)} % and idle the rest"
    elif case.writes and seconds is not None:
        effect = f"one checkpoint would take {duration_words(seconds)}"
    else:
        effect = f"one pass over the data would take {duration_words(seconds or 0)}"
    why = f"{told[0].upper()}{told[1:]}: {effect}."
    return msgspec.structs.replace(option, why=why)


OPTIONS: Final = (
    _staging,
    _file_cache,
    _preload,
    _block_cache,
    _nfs,
    _smb,
    _premium_ssd_v2,
    _premium_ssd,
    _lustre,
    _standard_hdd,
    _standard_smb,
)


def _option(
    case: Case,
    name: str,
    ceilings: Sequence[Ceiling],
    suitable: Suitable,
    why: str,
    *,
    seconds: float | None = None,
    blob: bool = False,
    notes: Sequence[str] = (),
    rows: Sequence[Row] = (),
) -> StorageOption:
    """Put an option together; one that starves the GPUs is not suitable, whatever else it is."""
    wall = lowest(ceilings)
    feed = wall.mbytes_s if wall else None
    percent = percent_of(feed, case.demand.mbytes_s)
    if blob and suitable == "yes" and _account_too_small(case):
        suitable = "with conditions"
    starves = percent is not None and percent < case.demand.pass_percent
    if starves and suitable in ("yes", "with conditions"):
        suitable = "no"
        why += f" It feeds {percent_words(percent or 0)} % of what the GPUs ask for."
    return StorageOption(
        name=name,
        suitable=suitable,
        first_wall=wall.text if wall else None,
        feed_mbytes_s=feed,
        gpu_feed_percent=None if percent is None else min(percent, 100.0),
        first_pass_seconds=seconds if seconds is not None else _first_epoch(case, ceilings),
        monthly_usd=_monthly(case) if blob else None,
        why=why,
        ceilings=tuple(ceilings),
        notes=(*notes, *_measured_on(rows), *_unknowns(ceilings, feed)),
        sources=_sources(case, rows, blob),
    )


def _account_too_small(case: Case) -> bool:
    capacity = limits.account(case.job.region, premium=case.job.premium).capacity_tib
    return capacity is not None and case.job.dataset_bytes > capacity * TIBYTE


def account_note(case: Case) -> Iterator[str]:
    """Say it where one account does not hold the data."""
    if _account_too_small(case):
        capacity = limits.account(case.job.region, premium=case.job.premium).capacity_tib
        yield (
            f"{size_words(case.job.dataset_bytes)} is more than the {capacity:,} TiB of one"
            " account: it takes several, or Azure Support."
        )


def _measured_on(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if isinstance(row, limits.ToolRates) and row.note:
            yield f"Measured with {row.title}: {row.note}."


def _unknowns(ceilings: Sequence[Ceiling], feed: float | None) -> Iterator[str]:
    for ceiling in ceilings:
        if ceiling.mbytes_s is None and feed is not None:
            yield f"The feed is an upper bound: {ceiling.text}."


def _sources(case: Case, rows: Sequence[Row], blob: bool) -> tuple[str, ...]:
    account = limits.account(case.job.region, premium=case.job.premium)
    used = [*rows, *([account, _price(case)] if blob else [])]
    found = [f"{row.source} ({row.date})" for row in used]
    if case.facts.source and case.facts.source != gpus.FROM_NAME:
        found.append(f"{case.facts.source} ({case.facts.date})")
    return tuple(dict.fromkeys(found))


def _price(case: Case) -> limits.StoragePrice:
    return limits.price("blob_premium" if case.job.premium else "blob_hot")


def _monthly(case: Case) -> float:
    return case.job.dataset_bytes / GIBYTE * _price(case).usd_per_gib_month


def _blob_ceilings(
    case: Case, name: str, mibytes_s: float | None, request_mib: int
) -> list[Ceiling]:
    """Return all that stands between an account and a mount."""
    request = request_bytes(case.job, case.demand.sample_bytes, request_mib)
    return [
        measured(case.job, name, mibytes_s),
        vm_network(case.job, case.facts),
        account_bandwidth(case.job),
        account_requests(case.job, request),
    ]


def _copy_ceilings(case: Case) -> list[Ceiling]:
    """Return all that stands between an account and a copy by AzCopy."""
    tool = limits.tool("azcopy")
    request = request_bytes(case.job, case.demand.sample_bytes, tool.request_mib)
    return [
        per_vm(case.job, "AzCopy", tool.read_mbytes_s, 1, "MB/s"),
        vm_network(case.job, case.facts),
        account_bandwidth(case.job),
        account_requests(case.job, request),
    ]


def _fits(case: Case, share: float, verdict: Suitable = "yes") -> tuple[Suitable, str]:
    """Tell whether the data fits a local disk: whole, in shards over all VMs, or not."""
    job, local = case.job, case.local
    data = size_words(job.dataset_bytes)
    if local.gib is None:
        return "with conditions", f"Whether {job.size} has a local disk for {data} is not known."
    if local.gib == 0:
        return "no", f"{job.size} has no local disk."
    if local.holds(job.dataset_bytes, share):
        return verdict, f"{data} fits the {gib_words(local)} of each VM."
    if local.holds(job.dataset_bytes / job.vms, share):
        return "with conditions", (
            f"{data} does not fit the {gib_words(local)} of one VM, but does over {job.vms}: give"
            " each VM a shard."
        )
    return "no", f"{data} does not fit the {gib_words(local)} of each VM."


def _seconds(megabytes: float, ceiling: Ceiling | None) -> float | None:
    return megabytes / ceiling.mbytes_s if ceiling and ceiling.mbytes_s else None


def _first_epoch(case: Case, ceilings: Sequence[Ceiling]) -> float | None:
    wall = lowest(ceilings)
    if wall is None or wall.mbytes_s is None:
        return None
    return case.dataset_mb / min(wall.mbytes_s, case.demand.mbytes_s or math.inf)


def percent_of(part: float | None, whole: float | None) -> float | None:
    """Return the part in percent of the whole; None where one of them is not known."""
    return None if part is None or not whole else part / whole * 100
