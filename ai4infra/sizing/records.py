"""A job, what it asks for, and how each way to keep its data is judged."""

from __future__ import annotations

from typing import Final, Literal

from ai4infra import limits
from ai4infra.limits import GIBYTE, MBYTE, MIBYTE, Workload
from ai4infra.model import GpuFacts, Record

Suitable = Literal["yes", "with conditions", "no", "never"]
WORKLOADS: Final[tuple[Workload, ...]] = ("images", "text", "checkpoints")
_SHARE_READ_BYTES: Final = MIBYTE


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


class LocalDisk(Record, frozen=True):
    """The local disk of one VM that can hold data."""

    name: str
    gib: float | None
    """None when unknown, 0 when there is none."""

    def holds(self, dataset_bytes: float, share: float = 1) -> bool | None:
        """Tell whether so much fits into a share of the disk; None where its size is not known."""
        return None if self.gib is None else dataset_bytes <= self.gib * share * GIBYTE


class Case(Record, frozen=True):
    """What every option is judged on."""

    job: Job
    facts: GpuFacts
    demand: Demand
    local: LocalDisk

    @property
    def writes(self) -> bool:
        """Whether data is written, not read."""
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
        """Size of the dataset in MB."""
        return self.job.dataset_bytes / MBYTE
