"""Storage arithmetic: what the GPUs ask for, what stands in the way, and what serves them best.

All rates are of the whole job in MB a second (10**6 bytes): what one VM can do counts once for
each VM, what jobs share is divided by their number. The smallest ceiling is the first wall. A
ceiling that is not known leaves the rate an upper bound, and a note says so; where none is known
the rate is None. Figures come from ``data/storage.toml`` and ``data/gpus.toml``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final, Literal

import msgspec

from ai4infra import gpus, limits
from ai4infra.errors import UsageError
from ai4infra.ids import unknown_name
from ai4infra.limits import GIBYTE, MBYTE, MIBYTE, TIBYTE, GpuNeed, Row, Workload
from ai4infra.model import GpuFacts, Record

Suitable = Literal["yes", "with conditions", "no", "never"]
WORKLOADS: Final[tuple[Workload, ...]] = ("images", "text", "checkpoints")

GROWTH: Final = 10
"""``growth_warnings`` looks at this many times the expected size."""

_SUITABLE: Final[tuple[Suitable, ...]] = ("yes", "with conditions", "no", "never")
_MB_PER_GBIT: Final = 125
_PASS_PERCENT: Final = 90.0
_SHARE_READ_BYTES: Final = MIBYTE
_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([KMGTP]?)(i?)B", re.ASCII | re.IGNORECASE)
_BITS = re.compile(r"[\d.]+\s*[KMGTP]i?b", re.ASCII)
_COUNT = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([KMB]?)", re.ASCII | re.IGNORECASE)
_VMS = re.compile(r"(?:(\d{1,6})\s*x\s*)?([A-Z][A-Z0-9_-]*)", re.ASCII | re.IGNORECASE)


class Vms(Record, frozen=True):
    """So many VMs of one size."""

    count: int
    size: str
    """As typed."""


class Job(Record, frozen=True):
    """What is to be trained, on what."""

    dataset_bytes: int
    """For checkpoints: of one checkpoint."""
    vms: int
    size: str
    workload: Workload = "images"
    files: int | None = None
    sample_bytes: int | None = None
    """Of one sample, where files hold many; else a file is a sample."""
    epochs: int = 1
    shared_by: int = 1
    """Jobs that use the same account or share at the same time, this one counted."""
    region: str | None = None
    premium: bool = False
    """Whether the account is for premium block blobs."""

    @property
    def file_bytes(self) -> float | None:
        """Mean size of a file."""
        return self.dataset_bytes / self.files if self.files else None


class Demand(Record, frozen=True):
    """What the GPUs of a job take in when they never wait."""

    gpus: float | None
    gpu_model: str | None
    basis: str | None
    """The benchmark whose figures are used (``resnet50``)."""
    sample_bytes: float | None
    samples_s: float | None
    mbytes_s: float | None
    requests_s: float | None
    """Requests to a blob account without any cache."""
    pass_percent: float
    """Share of the time the GPUs have to be busy to call them fed."""
    notes: tuple[str, ...] = ()


class Ceiling(Record, frozen=True):
    """One thing that bounds a rate."""

    name: str
    mbytes_s: float | None
    """For the whole job; None when unknown."""
    text: str
    """How it comes about, in figures."""


class StorageOption(Record, frozen=True):
    """One way to keep the data, judged for one job."""

    name: str
    suitable: Suitable
    first_wall: str | None
    """The ceiling that binds, with its figures; None when no ceiling is known."""
    feed_mbytes_s: float | None
    """Steady rate for the whole job; for checkpoints, of writing."""
    gpu_feed_percent: float | None
    """Share of what the GPUs ask for, 100 at most."""
    first_pass_seconds: float | None
    """Copying ahead, or the first epoch where data comes as it is read; for checkpoints, writing
    one."""
    monthly_usd: float | None
    """Approximate list price of keeping the data."""
    why: str
    ceilings: tuple[Ceiling, ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Usage(Record, frozen=True):
    """How much of one limit the demand takes."""

    limit: str
    percent: float | None
    text: str


class StorageAdvice(Record, frozen=True):
    """The decision matrix for one job, best option first."""

    job: Job
    demand: Demand
    usage: tuple[Usage, ...]
    """The demand against account and VM, without any cache."""
    options: tuple[StorageOption, ...]
    notes: tuple[str, ...] = ()


class _Local(Record, frozen=True):
    """The local disk of one VM that can hold data."""

    name: str
    gib: float | None
    """None when unknown, 0 when there is none."""

    def holds(self, dataset_bytes: float, share: float = 1) -> bool | None:
        return None if self.gib is None else dataset_bytes <= self.gib * share * GIBYTE


class _Case(Record, frozen=True):
    """What every option is judged on."""

    job: Job
    facts: GpuFacts
    demand: Demand
    local: _Local

    @property
    def writes(self) -> bool:
        return self.job.workload == "checkpoints"

    @property
    def sequential(self) -> bool:
        """Whether files are read from front to end in large pieces."""
        if self.job.workload != "images":
            return True
        whole = self.job.file_bytes or self.demand.sample_bytes or 0
        return whole >= limits.tool("block_cache").request_mib * MIBYTE

    @property
    def piece_bytes(self) -> float:
        """What one operation on a file share brings: a file, 1 MiB at most."""
        sample = self.demand.sample_bytes if self.job.workload == "images" else None
        return min(self.job.file_bytes or sample or _SHARE_READ_BYTES, _SHARE_READ_BYTES)

    @property
    def dataset_mb(self) -> float:
        return self.job.dataset_bytes / MBYTE


# ---- quantities ----------------------------------------------------------------------------


def parse_bytes(text: str) -> int:
    """Parse a size: ``2TB`` is 2 * 10**12 bytes, ``2TiB`` is 2 * 2**40, exactly.

    Raises UsageError for anything else, for bits (``2Tb``), parts of a byte, and nothing.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None or _BITS.fullmatch(text.strip()):
        raise UsageError(
            f"{text!r} is not a size.", hint="Say 500GB or 2TB (powers of 1000), or 2TiB (1024)."
        )
    power = "KMGTP".find(match[2].upper()) + 1 if match[2] else 0
    if match[3] and not power:
        raise UsageError(f"{text!r} is not a size.", hint="Say KiB, MiB, GiB, TiB or PiB.")
    return _whole(Fraction(match[1]) * (1024 if match[3] else 1000) ** power, text, "byte")


def parse_count(text: str) -> int:
    """Parse a number of things: ``12M`` is 12,000,000; K, M and B (10**9) are known.

    Raises UsageError for anything else, for parts of one, and none.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a number.", hint="Say 12000000 or 12M.")
    power = "KMB".find(match[2].upper()) + 1 if match[2] else 0
    return _whole(Fraction(match[1]) * 1000**power, text, "one")


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number: part of {unit} is left over.")
    if value == 0:
        raise UsageError(f"{text!r} is nothing.")
    return value.numerator


def parse_vms(text: str) -> Vms:
    """Parse VMs: ``8xStandard_ND96asr_v4``, ``8xND96asr_v4``, or one by its size alone.

    Raises UsageError, with close names, for a size of which nothing is known.
    """
    match = _VMS.fullmatch(text.strip())
    if match is None or int(match[1] or 1) == 0:
        raise UsageError(f"{text!r} is not a number of VMs.", hint="Say 8xND96asr_v4.")
    model = gpus.model_named(match[2])
    if model:
        raise UsageError(
            f"{match[2]} is a GPU; which VM they are in decides what can feed them.",
            hint="Say the size, such as 8xND96asr_v4; ai4infra recon --gpu lists them.",
        )
    if gpus.series_class(match[2]) is None:
        raise unknown_name(
            "GPU size", match[2], gpus.all_sizes(), listing="Say the size, such as 8xND96asr_v4."
        )
    return Vms(count=int(match[1] or 1), size=match[2])


# ---- what the GPUs ask for -----------------------------------------------------------------


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
        requests_s=None if rate is None else rate / _request_bytes(job, sample_bytes, 16),
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


def _request_bytes(job: Job, sample_bytes: float | None, request_mib: int) -> float:
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
            f"A file of {_size(job.file_bytes or 0)} is taken for one sample: say the size of a"
            " sample where files hold many."
        )
    if need and need.note:
        yield f"{need.note[0].upper()}{need.note[1:]}."


# ---- ceilings ------------------------------------------------------------------------------


def account_bandwidth(job: Job) -> Ceiling:
    """Return what the account sends (for checkpoints: takes) for this job."""
    account = limits.account(job.region, premium=job.premium)
    writes = job.workload == "checkpoints"
    gbps = account.ingress_gbps if writes else account.egress_gbps
    name = "account ingress" if writes else "account egress"
    if gbps is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not published ({account.title})")
    rate = gbps * _MB_PER_GBIT / job.shared_by
    text = f"{name}: {gbps:g} Gbps{_shared(job)} = {_rate(rate)} ({account.title})"
    return Ceiling(name=name, mbytes_s=rate, text=text)


def account_requests(job: Job, request_bytes: float) -> Ceiling:
    """Return the account's request rate as a rate of bytes, given what one request brings."""
    account = limits.account(job.region, premium=job.premium)
    name = "account requests"
    if account.requests_s is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not published ({account.title})")
    rate = account.requests_s / job.shared_by * request_bytes / MBYTE
    text = (
        f"{name}: {account.requests_s:,}/s{_shared(job)} of {_size(request_bytes)} ="
        f" {_rate(rate)} ({account.title})"
    )
    return Ceiling(name=name, mbytes_s=rate, text=text)


def vm_network(job: Job, facts: GpuFacts) -> Ceiling:
    """Return the network of all VMs, without InfiniBand, which reaches no storage account."""
    return _per_vm(job, "VM network", facts.network_gbps, _MB_PER_GBIT, "Gbps")


def vm_disks(job: Job, facts: GpuFacts) -> Ceiling:
    """Return what all VMs together move to and from managed disks, uncached."""
    return _per_vm(job, "VM uncached disk", facts.uncached_disk_mbytes_s, 1, "MB/s")


def _per_vm(job: Job, name: str, value: float | None, to_mb: float, unit: str) -> Ceiling:
    if value is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not known for {job.size}")
    rate = value * to_mb * job.vms
    times = f" on each of {job.vms} VMs" if job.vms > 1 else ""
    text = f"{name}: {value:,g} {unit}{times}"
    return Ceiling(
        name=name,
        mbytes_s=rate,
        text=text if unit == "MB/s" and job.vms == 1 else f"{text} = {_rate(rate)}",
    )


def _measured(job: Job, name: str, mibytes_s: float | None) -> Ceiling:
    """Return a tool's measured rate on all VMs."""
    mbytes = None if mibytes_s is None else mibytes_s * MIBYTE / MBYTE
    if mbytes is None:
        return Ceiling(name=name, mbytes_s=None, text=f"{name}: not measured")
    return _per_vm(job, name, round(mbytes), 1, "MB/s")


def _shared_rate(job: Job, name: str, mbytes_s: float, detail: str) -> Ceiling:
    """Return the rate of something that all VMs and jobs share."""
    rate = mbytes_s / job.shared_by
    return Ceiling(name=name, mbytes_s=rate, text=f"{name}: {detail}{_shared(job)} = {_rate(rate)}")


def _lowest(ceilings: Iterable[Ceiling]) -> Ceiling | None:
    known = [(c.mbytes_s, i, c) for i, c in enumerate(ceilings) if c.mbytes_s is not None]
    return min(known)[2] if known else None


# ---- the matrix ----------------------------------------------------------------------------


def advise(job: Job, facts: GpuFacts | None = None) -> StorageAdvice:
    """Judge every way to keep the data of a job; the best comes first, "never" last.

    ``facts`` is what is known of the VM size, by default our own data. Raises UsageError for a
    number below one.
    """
    _check(job)
    facts = facts or gpus.facts(job.size)
    case = _Case(job=job, facts=facts, demand=demand(job, facts), local=_local_disk(facts))
    options = [build(case) for build in _OPTIONS]
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
        account_requests(job, _request_bytes(job, asked.sample_bytes, 16)),
        vm_network(job, facts),
        vm_disks(job, facts),
    )
    return tuple(
        Usage(limit=b.name, percent=_percent(asked.mbytes_s, b.mbytes_s), text=b.text)
        for b in bounds
    )


def _check(job: Job) -> None:
    for name in ("dataset_bytes", "vms", "epochs", "shared_by", "files", "sample_bytes"):
        value = getattr(job, name)
        if value is not None and value < 1:
            raise UsageError(f"{name.replace('_', ' ')} has to be at least 1, not {value}.")
    if job.files and job.files > job.dataset_bytes:
        raise UsageError(
            f"{job.files:,} files do not fit into {_size(job.dataset_bytes)}: a file has at least"
            " one byte."
        )


def _local_disk(facts: GpuFacts) -> _Local:
    """Return the local NVMe, or else the temp disk where our data has one."""
    temp = facts.temp_disk_gib if isinstance(facts, gpus.CatalogRow) else None
    if not facts.nvme_gib and temp:
        return _Local(name="temp disk", gib=temp)
    return _Local(name="local NVMe", gib=facts.nvme_gib)


def _rank(case: _Case, option: StorageOption) -> tuple[float, ...]:
    """Order by suitability; then what feeds by preference, what writes or starves by rate."""
    order = _preference(case)
    place = order.index(option.name) if option.name in order else len(order)
    rate = option.feed_mbytes_s
    if option.suitable in ("yes", "with conditions") and not case.writes:
        return (_SUITABLE.index(option.suitable), place, 0)
    return (_SUITABLE.index(option.suitable), 0 if rate is not None else 1, -(rate or 0))


def _preference(case: _Case) -> tuple[str, ...]:
    """Prefer local copies for many epochs, streaming for one pass."""
    local = (STAGING, FILE_CACHE, PRELOAD)
    others = (LUSTRE, NFS, SMB, SSD_V2, SSD)
    if case.job.workload == "text" or (case.job.epochs == 1 and case.sequential):
        return (BLOCK_CACHE, *local, *others)
    if case.job.epochs == 1:
        return (FILE_CACHE, LUSTRE, NFS, STAGING, PRELOAD, SMB, SSD_V2, SSD, BLOCK_CACHE)
    return (*local, *others, BLOCK_CACHE)


def _advice_notes(case: _Case) -> Iterator[str]:
    yield from case.demand.notes
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


# ---- one function per option ---------------------------------------------------------------

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


def _staging(case: _Case) -> StorageOption:
    job, local = case.job, case.local
    sharded = not local.holds(job.dataset_bytes)
    copy = _copy_ceilings(case)
    if case.writes:
        return _local_checkpoint(case)
    seconds = _seconds(case.dataset_mb * (1 if sharded else job.vms), _lowest(copy))
    verdict, why = _fits(case, 1)
    yardstick = limits.tool("file_cache").warm_read_mibytes_s or 0
    per_vm = (case.demand.mbytes_s or 0) / job.vms
    if verdict == "yes" and per_vm * MBYTE > yardstick * MIBYTE:
        verdict = "with conditions"
        why += f" Measure the disk first: each VM needs {_rate(per_vm)} of it."
    speed = Ceiling(
        name=local.name, mbytes_s=None, text=f"{local.name}: read speed of {job.size} not published"
    )
    notes = [
        f"The read speed of the {local.name} is not published, so the feed is not known; read"
        f" through BlobFuse2, another VM's local disk gave {_rate(yardstick * MIBYTE / MBYTE)}.",
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


def _local_checkpoint(case: _Case) -> StorageOption:
    verdict, why = _fits(case, 1, "with conditions")
    speed = Ceiling(
        name=case.local.name, mbytes_s=None, text=f"{case.local.name}: write speed not published"
    )
    why += " The copy to blob storage runs while the GPUs go on; until then a lost VM loses it."
    return _option(case, STAGING, [speed], verdict, why, blob=True, rows=[limits.tool("azcopy")])


def _file_cache(case: _Case) -> StorageOption:
    job, tool = case.job, limits.tool("file_cache")
    cold = _blob_ceilings(case, "file cache, cold", tool.read_mibytes_s, tool.request_mib)
    if case.writes:
        written = _blob_ceilings(
            case, "file cache, writing", tool.write_mibytes_s, tool.request_mib
        )
        why = "A file goes up as a whole when it is closed: slow until it is durable."
        return _option(case, FILE_CACHE, written, "with conditions", why, blob=True, rows=[tool])
    verdict, why = _fits(case, tool.disk_share or 1)
    warm = [_measured(job, "file cache, warm", tool.warm_read_mibytes_s)]
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


def _preload(case: _Case) -> StorageOption:
    tool = limits.tool("file_cache")
    cold = _blob_ceilings(case, "file cache, cold", tool.read_mibytes_s, tool.request_mib)
    if case.writes:
        why = "A preloaded mount is read-only."
        return _option(case, PRELOAD, [], "no", why, blob=True, rows=[tool])
    # Without room for everything there is no preload at all, however many VMs there are.
    holds = case.local.holds(case.job.dataset_bytes)
    verdict, why = _fits(case, 1)
    if holds is False:
        verdict, why = "no", f"{_size(case.job.dataset_bytes)} has to fit the {_gib(case.local)}."
    seconds = _seconds(case.dataset_mb * case.job.vms, _lowest(cold))
    notes = ["Read-only; the cache folder has to be empty; rates are those of the file cache."]
    warm = [_measured(case.job, "file cache, warm", tool.warm_read_mibytes_s)]
    return _option(
        case, PRELOAD, warm, verdict, why, blob=True, notes=notes, rows=[tool], seconds=seconds
    )


def _block_cache(case: _Case) -> StorageOption:
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


def _nfs(case: _Case) -> StorageOption:
    notes = ["Several connections (nconnect) are needed for more than one gives."]
    return _premium_files(case, NFS, [], notes, [])


def _smb(case: _Case) -> StorageOption:
    client = limits.smb_multichannel()
    bound = _measured(case.job, "SMB Multichannel", client.client_mibytes_s)
    alone = limits.premium_share().client_mibytes_s
    notes = [f"Without Multichannel one VM has reached {_rate(alone * MIBYTE / MBYTE)}."]
    return _premium_files(case, SMB, [bound], notes, [client])


def _premium_files(
    case: _Case, name: str, client: list[Ceiling], notes: list[str], rows: list[Row]
) -> StorageOption:
    share = limits.premium_share()
    filled = max(share.min_gib, math.ceil(case.job.dataset_bytes / GIBYTE))
    if filled > share.max_gib:
        why = f"A share holds {share.max_gib:,} GiB at most."
        return _option(case, name, [], "no", why, rows=[share, *rows])
    gib = _share_gib(case, filled)
    bounds = [
        _shared_rate(
            case.job,
            "share throughput",
            share.mibytes_s(gib) * MIBYTE / MBYTE,
            f"{share.mibytes_s(gib):,} MiB/s of {gib:,} GiB",
        ),
        _shared_rate(
            case.job,
            "share IOPS",
            share.iops(gib) * case.piece_bytes / MBYTE,
            f"{share.iops(gib):,} IOPS of {gib:,} GiB, {_size(case.piece_bytes)} each",
        ),
        vm_network(case.job, case.facts),
        *client,
    ]
    bigger = gib > filled
    why = f"Throughput comes with size: provision {gib:,} GiB"
    why += f", though the data fills only {filled:,}." if bigger else "."
    verdict: Suitable = "with conditions" if bigger else "yes"
    return _option(case, name, bounds, verdict, why, notes=notes, rows=[share, *rows])


def _share_gib(case: _Case, filled: int) -> int:
    """Return the size of share that feeds the GPUs, else the largest that is of any use."""
    share, need = limits.premium_share(), case.demand.mbytes_s
    if need is None:
        return filled
    total = need * case.job.shared_by
    by_rate = share.gib_for(total * MBYTE / MIBYTE) or share.max_gib
    by_iops = math.ceil((total * MBYTE / case.piece_bytes - share.base_iops) / share.iops_per_gib)
    return min(max(filled, by_rate, by_iops), share.max_gib)


def _premium_ssd(case: _Case) -> StorageOption:
    disk = limits.disk("premium_ssd")
    count = math.ceil(case.job.dataset_bytes / GIBYTE / disk.max_gib)
    uncached = case.facts.uncached_disk_mbytes_s
    if uncached is not None:
        count = max(count, math.ceil(uncached / disk.mbytes_s))
    return _disks(case, SSD, disk, count)


def _premium_ssd_v2(case: _Case) -> StorageOption:
    disk = limits.disk("premium_ssd_v2")
    return _disks(case, SSD_V2, disk, math.ceil(case.job.dataset_bytes / GIBYTE / disk.max_gib))


def _disks(case: _Case, name: str, disk: limits.DiskLimits, count: int) -> StorageOption:
    bounds = [
        vm_disks(case.job, case.facts),
        _per_vm(case.job, f"{count} x {disk.title}", disk.mbytes_s * count, 1, "MB/s"),
    ]
    why = "Each VM has disks and a copy of its own; the VM's uncached limit holds for all of them."
    filling = [*_copy_ceilings(case), *bounds]
    seconds = None if case.writes else _seconds(case.dataset_mb * case.job.vms, _lowest(filling))
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


def _lustre(case: _Case) -> StorageOption:
    need = (case.demand.mbytes_s or 0) * case.job.shared_by
    found = _lustre_choice(case.job.dataset_bytes, need)
    skus = limits.lustre_skus()
    if found is None:
        why = "Larger than what can be provisioned without asking Azure Support."
        return _option(case, LUSTRE, [], "no", why, rows=list(skus.values()))
    tib, name = found
    rate = skus[name].mbytes_s_per_tib
    bounds = [
        _shared_rate(case.job, "file system", tib * rate, f"{tib} TiB of {rate} MB/s"),
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


def _standard_hdd(case: _Case) -> StorageOption:
    disk = limits.disk("standard_hdd")
    bounds = [_per_vm(case.job, disk.title, disk.mbytes_s, 1, "MB/s")]
    return _never(
        case, HDD, bounds, f"one disk has {disk.mbytes_s:g} MB/s and {disk.iops} IOPS", disk
    )


def _standard_smb(case: _Case) -> StorageOption:
    share = limits.standard_share()
    rate = share.mibytes_s * MIBYTE / MBYTE
    bounds = [_shared_rate(case.job, share.title, rate, f"{share.mibytes_s:g} MiB/s for all VMs")]
    large = f"{share.large_mibytes_s:g} MiB/s as a large share"
    return _never(
        case, STANDARD_SMB, bounds, f"one share has {share.mibytes_s:g} MiB/s, {large}", share
    )


def _never(case: _Case, name: str, bounds: list[Ceiling], told: str, row: Row) -> StorageOption:
    option = _option(case, name, bounds, "never", "", rows=[row])
    percent = option.gpu_feed_percent
    seconds = _seconds(case.dataset_mb, _lowest(bounds))
    if percent is not None and percent < case.demand.pass_percent:
        effect = f"the GPUs would be fed {_few(percent)} % and idle the rest"
    elif case.writes and seconds is not None:
        effect = f"one checkpoint would take {_duration(seconds)}"
    else:
        effect = f"one pass over the data would take {_duration(seconds or 0)}"
    why = f"{told[0].upper()}{told[1:]}: {effect}."
    return msgspec.structs.replace(option, why=why)


_OPTIONS: Final = (
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


# ---- parts of an option --------------------------------------------------------------------


def _option(
    case: _Case,
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
    wall = _lowest(ceilings)
    feed = wall.mbytes_s if wall else None
    percent = _percent(feed, case.demand.mbytes_s)
    starves = percent is not None and percent < case.demand.pass_percent
    if starves and suitable in ("yes", "with conditions"):
        suitable = "no"
        why += f" It feeds {_few(percent or 0)} % of what the GPUs ask for."
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


def _measured_on(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if isinstance(row, limits.ToolRates) and row.note:
            yield f"Measured with {row.title}: {row.note}."


def _unknowns(ceilings: Sequence[Ceiling], feed: float | None) -> Iterator[str]:
    for ceiling in ceilings:
        if ceiling.mbytes_s is None and feed is not None:
            yield f"The feed is an upper bound: {ceiling.text}."


def _sources(case: _Case, rows: Sequence[Row], blob: bool) -> tuple[str, ...]:
    account = limits.account(case.job.region, premium=case.job.premium)
    used = [*rows, *([account, _price(case)] if blob else [])]
    found = [f"{row.source} ({row.date})" for row in used]
    if case.facts.source and case.facts.source != gpus.FROM_NAME:
        found.append(f"{case.facts.source} ({case.facts.date})")
    return tuple(dict.fromkeys(found))


def _price(case: _Case) -> limits.StoragePrice:
    return limits.price("blob_premium" if case.job.premium else "blob_hot")


def _monthly(case: _Case) -> float:
    return case.job.dataset_bytes / GIBYTE * _price(case).usd_per_gib_month


def _blob_ceilings(
    case: _Case, name: str, mibytes_s: float | None, request_mib: int
) -> list[Ceiling]:
    """Return all that stands between an account and a mount."""
    request = _request_bytes(case.job, case.demand.sample_bytes, request_mib)
    return [
        _measured(case.job, name, mibytes_s),
        vm_network(case.job, case.facts),
        account_bandwidth(case.job),
        account_requests(case.job, request),
    ]


def _copy_ceilings(case: _Case) -> list[Ceiling]:
    """Return all that stands between an account and a copy by AzCopy."""
    tool = limits.tool("azcopy")
    request = _request_bytes(case.job, case.demand.sample_bytes, tool.request_mib)
    return [
        _per_vm(case.job, "AzCopy", tool.read_mbytes_s, 1, "MB/s"),
        vm_network(case.job, case.facts),
        account_bandwidth(case.job),
        account_requests(case.job, request),
    ]


def _fits(case: _Case, share: float, verdict: Suitable = "yes") -> tuple[Suitable, str]:
    """Tell whether the data fits a local disk: whole, in shards over all VMs, or not."""
    job, local = case.job, case.local
    data = _size(job.dataset_bytes)
    if local.gib is None:
        return "with conditions", f"Whether {job.size} has a local disk for {data} is not known."
    if local.gib == 0:
        return "no", f"{job.size} has no local disk."
    if local.holds(job.dataset_bytes, share):
        return verdict, f"{data} fits the {_gib(local)} of each VM."
    if local.holds(job.dataset_bytes / job.vms, share):
        return "with conditions", (
            f"{data} does not fit the {_gib(local)} of one VM, but does over {job.vms}: give each"
            " VM a shard."
        )
    return "no", f"{data} does not fit the {_gib(local)} of each VM."


def _seconds(megabytes: float, ceiling: Ceiling | None) -> float | None:
    return megabytes / ceiling.mbytes_s if ceiling and ceiling.mbytes_s else None


def _first_epoch(case: _Case, ceilings: Sequence[Ceiling]) -> float | None:
    wall = _lowest(ceilings)
    if wall is None or wall.mbytes_s is None:
        return None
    return case.dataset_mb / min(wall.mbytes_s, case.demand.mbytes_s or math.inf)


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole * 100


# ---- growth --------------------------------------------------------------------------------


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
    told = f"{GROWTH} times {_size(expect_bytes)} is {_size(grown)}"
    if capacity is not None and grown > capacity * TIBYTE:
        yield f"{told}: more than the {capacity:,} TiB of one account; plan for several."
    if facts is not None:
        local = _local_disk(facts)
        if local.gib and local.holds(grown) is False:
            yield (
                f"{told}: more than the {_gib(local)} of one {facts.size}; a local copy or a"
                " cache will not hold it."
            )


def _feed_warnings(job: Job, facts: GpuFacts) -> Iterator[str]:
    asked = demand(job, facts)
    if asked.mbytes_s is None:
        yield from asked.notes[:1]
        return
    told = f"{asked.gpus:g} {asked.gpu_model} can take in {_rate(asked.mbytes_s)} of small images"
    for use in usage(job, facts):
        if use.percent is not None and use.percent > 100:
            yield f"{told}, {use.percent / 100:.1f} times the {use.text}."
        elif use.percent is not None and use.limit == "account requests" and use.percent > 50:
            yield f"{told}, {use.percent:.0f} % of the {use.text}."


# ---- words ---------------------------------------------------------------------------------


def _shared(job: Job) -> str:
    return f" shared by {job.shared_by} jobs" if job.shared_by > 1 else ""


def _rate(mbytes_s: float) -> str:
    return f"{mbytes_s:,.0f} MB/s" if mbytes_s >= 10 else f"{mbytes_s:.2g} MB/s"


def _few(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def _size(count: float) -> str:
    """Write bytes in the largest decimal unit that leaves at least one."""
    for power, unit in ((15, "PB"), (12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.4g} {unit}"
    return f"{count:.4g} B"


def _gib(local: _Local) -> str:
    return f"{local.gib or 0:,.0f} GiB of {local.name}"


def _duration(seconds: float) -> str:
    for length, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
