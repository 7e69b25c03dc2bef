"""What storage can do and what GPUs ask of it: the rows of ``data/storage.toml``.

Every row has the page that it was read from and a date; what a row leaves out is None, unknown.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from ai4infra.ids import region_key
from ai4infra.model import Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MBYTE = 10**6
MIBYTE = 2**20
GIBYTE = 2**30
TIBYTE = 2**40

Workload = Literal["images", "text", "checkpoints"]


class Row(Record, frozen=True, kw_only=True, rename=None, forbid_unknown_fields=True):
    """What all rows share: where the figures were read, and when."""

    source: str
    date: str
    """ISO date of the page, or of the day it was read where it bears none."""
    note: str | None = None
    also: tuple[str, ...] = ()
    """Further sources, each with the figures that come from it."""


class AccountLimits(Row, frozen=True, kw_only=True, rename=None):
    """Default limits of one storage account."""

    title: str
    requests_s: int | None = None
    ingress_gbps: float | None = None
    egress_gbps: float | None = None
    capacity_tib: int | None = None
    regions: tuple[str, ...] = ()
    """Canonical region names; empty means all that no other row lists."""


class BlobLimits(Row, frozen=True, kw_only=True, rename=None):
    """Limits of a single blob."""

    requests_s: int | None = None
    mibytes_s: float | None = None
    put_block_over_kib: int | None = None
    """Blocks have to be larger than this for the full throughput of one blob."""


class PremiumShare(Row, frozen=True, kw_only=True, rename=None):
    """Formulas of a premium file share by its provisioned GiB."""

    title: str
    base_iops: int
    iops_per_gib: int
    max_iops: int
    base_mibytes_s: int
    ingress_mibytes_s_per_gib: float
    egress_mibytes_s_per_gib: float
    min_gib: int
    max_gib: int
    file_mibytes_s: float
    client_mibytes_s: float
    """What one VM reached over SMB without Multichannel."""

    def iops(self, provisioned_gib: int) -> int:
        """Return the baseline IOPS of a share of this size."""
        return min(self.base_iops + self.iops_per_gib * provisioned_gib, self.max_iops)

    def mibytes_s(self, provisioned_gib: int) -> int:
        """Return the MiB a second of a share of this size, both directions together."""
        rates = (self.ingress_mibytes_s_per_gib, self.egress_mibytes_s_per_gib)
        # In fractions: in floats, 0.06 * 100 is a little more than 6, and rounds up to 7.
        parts = (math.ceil(Fraction(str(rate)) * provisioned_gib) for rate in rates)
        return self.base_mibytes_s + sum(parts)

    def gib_for(self, mibytes_s: float) -> int | None:
        """Return the smallest share that reaches a throughput, None when none does."""
        if self.mibytes_s(self.max_gib) < mibytes_s:
            return None
        low, high = self.min_gib, self.max_gib
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.mibytes_s(middle) >= mibytes_s else (middle + 1, high)
        return low


class StandardShare(Row, frozen=True, kw_only=True, rename=None):
    """Limits of a standard (HDD) file share, pay as you go."""

    title: str
    mibytes_s: float
    iops: int
    large_mibytes_s: float
    large_iops: int
    file_mibytes_s: float


class Client(Row, frozen=True, kw_only=True, rename=None):
    """What one VM reaches through a protocol."""

    title: str
    client_mibytes_s: float


class DiskLimits(Row, frozen=True, kw_only=True, rename=None):
    """Limits of one managed disk."""

    title: str
    iops: int
    mbytes_s: float
    max_gib: int
    vm_gib: int | None = None
    """What one VM holds on disks of this kind, whatever its size; None where it is not said."""


class LustreSku(Row, frozen=True, kw_only=True, rename=None):
    """One SKU of Azure Managed Lustre: throughput grows with capacity."""

    mbytes_s_per_tib: int
    min_tib: int
    max_tib: int
    step_tib: int

    def tib_for(self, dataset_bytes: int, mbytes_s: float = 0) -> int | None:
        """Return the capacity to provision for size and throughput, None when above the most."""
        wanted = max(Fraction(dataset_bytes, TIBYTE), Fraction(mbytes_s) / self.mbytes_s_per_tib)
        tib = max(self.min_tib, math.ceil(wanted / self.step_tib) * self.step_tib)
        return tib if tib <= self.max_tib else None


class ToolRates(Row, frozen=True, kw_only=True, rename=None):
    """What a tool was measured to reach on one VM."""

    title: str
    request_mib: int
    """The most that one request brings."""
    read_mbytes_s: float | None = None
    read_mibytes_s: float | None = None
    """Cold and sequential, several files at once."""
    one_file_read_mibytes_s: float | None = None
    warm_read_mibytes_s: float | None = None
    random_read_mibytes_s: float | None = None
    random_4k_iops: float | None = None
    random_64k_iops: float | None = None
    write_mibytes_s: float | None = None
    one_file_write_mibytes_s: float | None = None
    disk_share: float | None = None
    """Share of the cache disk that is used by default."""
    evict_s: int | None = None


class StoragePrice(Row, frozen=True, kw_only=True, rename=None):
    """An approximate list price of keeping data."""

    usd_per_gib_month: float


class GpuNeed(Row, frozen=True, kw_only=True, rename=None):
    """What a workload takes in on one GPU that never waits."""

    workload: Workload
    sample_bytes: int
    batch_size: int
    step_s: dict[str, float]
    """GPU model to seconds a batch; a model that is not in it is unknown."""
    pass_percent: float | None = None
    """Share of the time the GPU has to be busy for a result to count."""

    def samples_s(self, gpu_model: str | None) -> Fraction | None:
        """Return samples a second of one GPU of a model, None when unknown."""
        step = self.step_s.get(gpu_model or "")
        return None if step is None else self.batch_size / Fraction(str(step))


class CheckpointSize(Row, frozen=True, kw_only=True, rename=None):
    """Bytes of one checkpoint, model and optimizer together."""

    bytes: int


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    accounts: dict[str, AccountLimits]
    blobs: dict[str, BlobLimits]
    premium_share: PremiumShare
    standard_share: StandardShare
    smb_multichannel: Client
    disks: dict[str, DiskLimits]
    lustre: dict[str, LustreSku]
    tools: dict[str, ToolRates]
    prices: dict[str, StoragePrice]
    needs: dict[str, GpuNeed]
    checkpoints: dict[str, CheckpointSize]


def account(region: str | None, *, premium: bool = False) -> AccountLimits:
    """Return the limits of an account; without a region, those that hold everywhere."""
    rows = _data().accounts
    if premium:
        return rows["premium"]
    return rows["listed" if region and region_key(region) in rows["listed"].regions else "other"]


def blob(kind: Literal["block", "page"]) -> BlobLimits:
    """Return the limits of a single blob."""
    return _data().blobs[kind]


def premium_share() -> PremiumShare:
    """Return the formulas of a premium file share."""
    return _data().premium_share


def standard_share() -> StandardShare:
    """Return the limits of a standard file share."""
    return _data().standard_share


def smb_multichannel() -> Client:
    """Return what one VM reaches over SMB with Multichannel."""
    return _data().smb_multichannel


def disk(kind: Literal["standard_hdd", "premium_ssd", "premium_ssd_v2", "ultra"]) -> DiskLimits:
    """Return the limits of one managed disk of a kind."""
    return _data().disks[kind]


def lustre_skus() -> dict[str, LustreSku]:
    """Return the SKUs of Azure Managed Lustre by name, slowest first."""
    return dict(_data().lustre)


def tool(
    name: Literal["azcopy", "block_cache", "block_cache_premium", "file_cache"],
) -> ToolRates:
    """Return what a tool was measured to reach on one VM."""
    return _data().tools[name]


def price(kind: Literal["blob_hot", "blob_premium"]) -> StoragePrice:
    """Return the approximate list price of keeping data."""
    return _data().prices[kind]


def gpu_needs(workload: Workload) -> dict[str, GpuNeed]:
    """Return the measured needs of a kind of workload by the benchmark's name."""
    return {name: row for name, row in _data().needs.items() if row.workload == workload}


def checkpoint(model: str) -> CheckpointSize | None:
    """Return the size of a checkpoint of a model of so many parameters (``70B``), if known."""
    return _data().checkpoints.get(model.upper())


def checkpoints() -> dict[str, CheckpointSize]:
    """Return the checkpoint sizes that are known, by number of parameters."""
    return dict(_data().checkpoints)


def rows() -> dict[str, Row]:
    """Return every row by its place in the file (``accounts.listed``)."""
    found: dict[str, Row] = {}
    for table in _Data.__struct_fields__:
        value = getattr(_data(), table)
        named = {table: value} if isinstance(value, Row) else value
        found |= {f"{table}.{name}" if name != table else name: row for name, row in named.items()}
    return found


@cache
def _data() -> _Data:
    text = resources.files("ai4infra").joinpath("data/storage.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Data)
