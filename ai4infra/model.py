"""The frozen nouns that every other module speaks in.

Units are in the names: ``gib`` is 2**30 bytes, ``gbps`` is 10**9 bits a second, ``mbps`` in
``uncached_disk_mbytes_s`` style names is spelt out. None always means unknown, never zero.
Field names become camelCase in JSON, CSV and TSV (``gpu_count`` is ``gpuCount``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = "1.0"
"""Version of the field names in machine-readable output; the major part changes when one goes."""

Access = Literal["open", "zone-limited", "regional-only", "blocked", "retiring", "retired"]
Limit = Literal["family", "regional", "spot"]
SeriesClass = Literal["NC", "ND", "NV", "NG", "NP", "NCC", "other"]


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all records: immutable, keyword-only, camelCase when written out."""


class Subscription(Record, frozen=True):
    """A subscription that the identity can see."""

    id: str
    name: str
    tenant_id: str | None = None
    state: str | None = None


class Region(Record, frozen=True):
    """A region of one subscription, from the locations call."""

    name: str
    """Canonical name: lower case, no blanks (``eastus2``)."""
    display_name: str
    physical: bool = True
    """False for logical regions such as ``europe``."""
    staging: bool = False
    """True for canary and staging regions (``eastus2euap``, ``eastusstg``)."""
    geography: str | None = None
    physical_zones: dict[str, str] = {}
    """Logical zone to physical zone of *this* subscription; empty where there are no zones."""


class Restriction(Record, frozen=True):
    """One entry of a size's ``restrictions`` list."""

    kind: Literal["Location", "Zone"]
    reason: str
    """``NotAvailableForSubscription``, ``QuotaId``, or whatever the service says."""
    zones: tuple[str, ...] = ()


class Sku(Record, frozen=True):
    """One VM size in one region as Microsoft.Compute/skus lists it; None where it says nothing."""

    name: str
    """Full size name (``Standard_ND96asr_v4``)."""
    region: str
    """Canonical region name."""
    family: str | None = None
    """Quota family, verbatim (``Standard NDASv4_A100 Family``)."""
    zones: tuple[str, ...] = ()
    """Zones the size is offered in, sorted; restrictions not yet subtracted."""
    restrictions: tuple[Restriction, ...] = ()
    vcpus: int | None = None
    memory_gib: float | None = None
    gpus: int | None = None
    """The API's own GPU count: wrong for fractional sizes, absent on some."""
    temp_disk_gib: float | None = None
    """SCSI temp disk (``MaxResourceVolumeMB``, MiB despite its name)."""
    nvme_gib: float | None = None
    """All local NVMe together."""
    nvme_disks: int | None = None
    rdma: bool | None = None
    spot_capable: bool | None = None
    uncached_disk_mbytes_s: float | None = None
    """10**6 bytes a second to remote disks, uncached."""
    retirement_date: str | None = None
    """ISO date; the service's ``01/01/9999`` is None."""


class Quota(Record, frozen=True):
    """One row of Microsoft.Compute usages."""

    name: str
    """Key (``name.value``), verbatim."""
    label: str
    """Text for people (``name.localizedValue``)."""
    region: str
    used: int | None
    limit: int | None

    @property
    def free(self) -> int | None:
        """vCPUs still to be had, never below zero; None when used or limit is unknown."""
        if self.used is None or self.limit is None:
            return None
        return max(0, self.limit - self.used)


class Price(Record, frozen=True):
    """A list price from the Azure Retail Prices API: pay-as-you-go, Linux."""

    per_hour: float
    currency: str
    effective_date: str | None = None
    """ISO date from which the row holds."""
    meter_id: str | None = None


class SizePrices(Record, frozen=True):
    """List prices of one size in one region; None means no row, never zero."""

    on_demand: Price | None = None
    spot: Price | None = None


class GpuFacts(Record, frozen=True):
    """What is known about a size beside what the API says; None means unknown."""

    size: str
    series_class: SeriesClass
    gpu_model: str | None = None
    """``A100``, ``H100``, ``T4``; as people type it in ``--gpu``."""
    vendor: str | None = None
    gpu_count: str | None = None
    """Exact, as text: ``8``, ``1/6``."""
    gpu_memory_gib: float | None = None
    """Of one whole GPU."""
    nvlink: bool | None = None
    infiniband_gbps: float | None = None
    """Of the whole VM; 0 means that it has none."""
    nvme_gib: float | None = None
    nvme_disks: int | None = None
    network_gbps: float | None = None
    uncached_disk_mbytes_s: float | None = None
    retirement_date: str | None = None
    """ISO date on which the size is or was retired."""
    replacement: str | None = None
    """What Microsoft's retirement notice names instead."""
    confidential: bool = False
    fpga: bool = False
    source: str | None = None
    """Where the row comes from; ``name`` when read from the size's name alone."""
    date: str | None = None
    """ISO date on which the source was read."""


class Offer(Record, frozen=True):
    """One GPU size in one region for one subscription: the answer of recon, one row."""

    subscription_id: str
    region: str
    size: str
    series_class: SeriesClass
    gpu_model: str | None
    vendor: str | None
    gpu_count: float | None
    """GPUs in the VM; a sixth of a GPU is 0.1666…"""
    gpu_count_text: str | None
    """The same exactly: ``8``, ``1/6``."""
    gpu_memory_gib: float | None
    """GPU memory that the VM gets: of all its GPUs, or its share of one."""
    nvlink: bool | None
    vcpus: int | None
    memory_gib: float | None
    local_nvme_gib: float | None
    """Local NVMe, apart from the temp disk; 0 means none."""
    local_nvme_disks: int | None
    temp_disk_gib: float | None
    infiniband_gbps: float | None
    network_gbps: float | None
    uncached_disk_mbytes_s: float | None
    zones: tuple[str, ...]
    """Usable logical zones, sorted; empty means no zone can be named."""
    physical_zones: tuple[str, ...] | None
    """The same as physical zones; None when not asked for."""
    access: Access
    access_reason: str | None
    """Why, in words, where access is not open."""
    retirement_date: str | None
    replacement: str | None
    quota_family: str | None
    quota_used: int | None
    quota_limit: int | None
    fit_vms: int | None
    """VMs that quota allows on demand; None when a limit that could bind is unknown."""
    fit_limit: Limit | None
    """The limit that binds ``fit_vms``."""
    spot_capable: bool | None
    spot_fit_vms: int | None
    startable: bool | None
    """Access allows it and quota fits at least one VM; None when quota is unknown."""
    price_per_hour: float | None
    price_per_gpu_hour: float | None
    spot_price_per_hour: float | None
    spot_price_per_gpu_hour: float | None
    currency: str | None
    price_date: str | None
    facts: str | None
    """Source of the GPU facts; ``name`` means that only the size's name told them."""
    notes: tuple[str, ...]
    """What a reader should know of this row, in sentences."""


class RegionQuota(Record, frozen=True):
    """The two regional pools of one region and subscription."""

    subscription_id: str
    region: str
    regional: Quota | None
    """``cores``: Total Regional vCPUs."""
    spot: Quota | None
    """``lowPriorityCores``: Total Regional Spot vCPUs."""


class Problem(Record, frozen=True):
    """A part of the answer that is missing, and why."""

    subject: str
    """What failed: a region, a subscription, the price list."""
    message: str
    code: str | None = None
    hint: str | None = None


class Summary(Record, frozen=True):
    """What the rows of a recon add up to."""

    sizes: int
    """Rows: sizes counted once per region and subscription."""
    startable: int
    unknown: int
    """Rows whose quota is unknown."""
    blocked_by: dict[str, int]
    """Reason to number of rows that cannot be started."""
    actions: tuple[str, ...]
    """What to do about it, most useful first, as complete sentences or commands."""


class Recon(Record, frozen=True):
    """The whole answer of one recon run."""

    offers: tuple[Offer, ...]
    summary: Summary
    region_quotas: tuple[RegionQuota, ...]
    subscriptions: tuple[Subscription, ...]
    problems: tuple[Problem, ...] = ()
    """Regions or subscriptions that could not be read; not empty means incomplete (exit 5)."""
    warnings: tuple[str, ...] = ()


class Need(Record, frozen=True):
    """One ``--need``: so many VMs of a size, or so many GPUs of a model."""

    text: str
    """As typed."""
    count: int
    size: str | None = None
    gpu_model: str | None = None


class Shortfall(Record, frozen=True):
    """One limit that a plan passes."""

    limit: str
    """``family`` key or ``cores``, as the quota row is named."""
    label: str
    required_vcpus: int
    """What the plan asks for on top of what is used."""
    free_vcpus: int | None
    short_vcpus: int | None
    new_limit_vcpus: int | None
    """The limit to ask for."""


class Placement(Record, frozen=True):
    """How a need is met: so many VMs of one size."""

    need: str
    size: str
    vms: int
    gpus: float | None
    vcpus: int | None
    price_per_hour: float | None
    price_per_gpu_hour: float | None


class Alternative(Record, frozen=True):
    """Something that does fit, where the need does not."""

    region: str
    subscription_id: str
    size: str
    gpu_model: str | None
    vms: int
    gpus: float | None
    price_per_hour: float | None
    price_per_gpu_hour: float | None
    currency: str | None


class NeedAnswer(Record, frozen=True):
    """Whether all needs together fit one region of one subscription."""

    subscription_id: str
    region: str
    fits: bool | None
    """None when a limit that decides it is unknown."""
    placements: tuple[Placement, ...]
    shortfalls: tuple[Shortfall, ...]
    blocked: tuple[str, ...]
    """Sentences: what access, a retired size or an unlisted size stands in the way."""
    price_per_hour: float | None
    currency: str | None
    actions: tuple[str, ...]


class NeedReport(Record, frozen=True):
    """The answer to all ``--need`` options, over all regions and subscriptions."""

    needs: tuple[Need, ...]
    answers: tuple[NeedAnswer, ...]
    alternatives: tuple[Alternative, ...]
    """Ranked by price per GPU-hour, unknown prices last."""
    fits_somewhere: bool | None


class QuotaRequest(Record, frozen=True):
    """One request for a higher limit, as Microsoft.Quota tells of it."""

    subscription_id: str
    region: str
    family: str
    limit_vcpus: int | None
    """The limit that was asked for."""
    state: str
    """The service's word: Accepted, InProgress, Succeeded, Failed, Invalid."""
    request_id: str | None = None
    """None where the service decided at once."""
    code: str | None = None
    """Why it failed, such as ``ContactSupport``."""
    message: str | None = None
    submitted: str | None = None
    """ISO time of submission."""

    @property
    def pending(self) -> bool:
        """True while the service has not decided."""
        return self.state.casefold() in ("accepted", "inprogress")

    @property
    def succeeded(self) -> bool:
        """True when the service says so; what it granted is in the quota itself."""
        return self.state.casefold() == "succeeded"

    @property
    def refused(self) -> bool:
        """True when the service turned the request down."""
        return self.state.casefold() in ("failed", "invalid")


class QuotaSetting(Record, frozen=True):
    """One quota as Microsoft.Quota knows it, and whether a request can raise it."""

    name: str
    label: str
    limit: int | None
    adjustable: bool | None
    """``isQuotaApplicable``; None where the service does not say."""


StepAction = Literal["create", "update", "delete", "keep", "refuse"]
StepState = Literal["planned", "done", "kept", "in progress", "failed", "not reached"]
"""``in progress``: the service took the request and has not decided; nobody waits for it now."""


class Step(Record, frozen=True):
    """One change that a plan makes, keeps from making, or refuses to make."""

    action: StepAction
    kind: str
    """Azure's noun for it: ``quota limit``, ``storage account``, ``role assignment``."""
    name: str
    detail: str
    """One line for people: what changes from what to what."""
    resource_id: str | None = None
    reason: str | None = None
    """Why it is kept or refused."""
    hint: str | None = None
    """What to do about a refusal."""
    wanted: Record | None = None
    """What carrying it out takes, as a record of the step's own kind; never a secret."""


class StepResult(Record, frozen=True):
    """What became of one step."""

    step: Step
    state: StepState
    message: str | None = None
    code: str | None = None
    hint: str | None = None
    """What to do about it."""


class Receipt(Record, frozen=True):
    """What an apply did, step by step."""

    results: tuple[StepResult, ...]
    next_commands: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True when every step is done or kept."""
        return all(r.state in ("done", "kept") for r in self.results)

    @property
    def failed(self) -> bool:
        """True when a step failed or was not reached; one in progress has not failed."""
        return any(r.state in ("failed", "not reached") for r in self.results)
