"""The frozen nouns that every other module speaks in.

Units are in the names: ``gib`` is 2**30 bytes, ``gbps`` is 10**9 bits a second, ``mbps`` in
``uncached_disk_mbytes_s`` style names is spelt out. None always means unknown, never zero.
Field names become camelCase in JSON, CSV and TSV (``gpu_count`` is ``gpuCount``).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = "1.0"
"""Version of the field names in machine-readable output; the major part changes when one goes."""

Access = Literal[
    "open", "zone-limited", "regional-only", "blocked", "retiring", "retired", "unknown"
]
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
    restrictions_known: bool = True
    """Off where the list has an entry that cannot be read: what it closes is unknown."""
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
    """Access allows it and quota fits at least one VM; None when access or quota is unknown."""
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
    """Rows of which that is unknown."""
    unknown_access: int
    """Those of them whose access is unknown; of the others it is quota."""
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
    findings: tuple[Finding, ...] = ()
    """What was written, compared with what the service tells of it: a policy may change it."""

    @property
    def complete(self) -> bool:
        """True when every step is done or kept, and what the service tells is as wanted."""
        return all(r.state in ("done", "kept") for r in self.results) and not self.overridden

    @property
    def failed(self) -> bool:
        """True when a step failed or was not reached, or something came out otherwise.

        A step in progress has not failed.
        """
        unfinished = any(r.state in ("failed", "not reached") for r in self.results)
        return unfinished or bool(self.overridden)

    @property
    def overridden(self) -> tuple[Finding, ...]:
        """What the service has otherwise than it was sent."""
        return tuple(f for f in self.findings if f.verdict == "fail")


NetworkAccess = Literal["open", "restricted", "private"]
"""Who reaches an account: everybody, only allowed addresses and subnets, only endpoints."""
PrincipalType = Literal["User", "Group", "ServicePrincipal", "ForeignGroup", "Device"]


class ResourceGroup(Record, frozen=True):
    """A resource group that exists."""

    id: str
    name: str
    location: str
    tags: dict[str, str] = {}


class NameCheck(Record, frozen=True):
    """Whose a storage account name is; names are unique in all of Azure."""

    state: Literal["available", "mine", "elsewhere", "taken", "in use"]
    """``mine``: in the wanted group. ``elsewhere``: in another group of the subscription.
    ``taken``: somebody else's, or of an account deleted in the last days. ``in use``: whose it
    is is unknown, since the subscription's accounts could not be listed."""
    account_id: str | None = None
    """Of the account that is mine or elsewhere."""
    message: str | None = None
    """The service's own words."""


class StorageAccount(Record, frozen=True):
    """A storage account as ARM tells of it; None means that the service said nothing."""

    id: str
    name: str
    location: str | None = None
    kind: str | None = None
    sku: str | None = None
    """``Standard_LRS``."""
    tags: dict[str, str] = {}
    provisioning_state: str | None = None
    endpoints: dict[str, str] = {}
    """Primary endpoints by service: ``blob``, ``dfs``."""
    hns: bool | None = None
    """Hierarchical namespace (``isHnsEnabled``); fixed at creation."""
    infrastructure_encryption: bool | None = None
    """``requireInfrastructureEncryption``; fixed at creation."""
    minimum_tls_version: str | None = None
    """``TLS1_2``."""
    https_only: bool | None = None
    allow_blob_public_access: bool | None = None
    """Whether containers may be opened to anonymous readers."""
    allow_shared_key_access: bool | None = None
    """The service reads its own silence as true."""
    default_to_oauth: bool | None = None
    allow_cross_tenant_replication: bool | None = None
    public_network_access: str | None = None
    """``Enabled``, ``Disabled``, ``SecuredByPerimeter``; the service's silence means Enabled."""
    network_acls: dict[str, Any] | None = None
    """``networkAcls`` verbatim, so that no rule of others is lost in an update."""
    key_source: str | None = None
    """``Microsoft.Storage`` or ``Microsoft.Keyvault``."""
    key_uri: str | None = None
    """The customer-managed key: vault, ``/keys/`` and name, without version unless pinned."""
    key_identity: str | None = None
    """Resource id of the user-assigned identity that reads the key."""
    identity_type: str | None = None
    user_identities: tuple[str, ...] = ()
    access_tier: str | None = None
    sftp: bool | None = None
    local_users: bool | None = None


class BlobServiceSettings(Record, frozen=True):
    """Settings of an account's blob service; 0 days means off, None unknown."""

    blob_soft_delete_days: int | None = None
    container_soft_delete_days: int | None = None
    versioning: bool | None = None
    change_feed: bool | None = None
    restore_days: int | None = None
    """Point-in-time restore."""
    raw: dict[str, Any] = {}
    """The properties as the service says them, without those that only it sets."""


class Container(Record, frozen=True):
    """A blob container."""

    id: str
    name: str
    public_access: str | None = None
    """``None`` (the word), ``Blob`` or ``Container``."""


class LifecycleRule(Record, frozen=True):
    """One rule of an account's lifecycle policy."""

    name: str
    enabled: bool = True
    prefixes: tuple[str, ...] = ()
    """``container/folder``; empty means every blob."""
    cool_after_days: int | None = None
    """Days since modification; None where the rule does not do it."""
    delete_after_days: int | None = None
    raw: dict[str, Any] = {}
    """The rule as the service holds it: what an update sends back for rules of others."""


class PrivateEndpoint(Record, frozen=True):
    """A private endpoint of an account, or one that has the name that ours would have."""

    id: str
    name: str
    subnet_id: str | None = None
    target_id: str | None = None
    """Resource id of what it connects to."""
    group_ids: tuple[str, ...] = ()
    """``blob``, ``dfs``."""
    state: str | None = None
    """``Approved``, ``Pending``, ``Rejected``, ``Disconnected``."""
    zone_ids: tuple[str, ...] | None = None
    """Private DNS zones of its zone groups; None when they could not be read."""


class DnsZone(Record, frozen=True):
    """A private DNS zone."""

    id: str
    name: str
    vnet_ids: tuple[str, ...] | None = None
    """Virtual networks that it is linked to; None when they could not be read."""
    link_names: tuple[str, ...] = ()
    """Names of those links."""


class RoleAssignment(Record, frozen=True):
    """Who has which role where."""

    id: str
    scope: str
    role_id: str
    """The role definition's GUID."""
    principal_id: str
    principal_type: str | None = None
    condition: str | None = None
    """A condition narrows the role; such an assignment grants less than one without."""


class Lock(Record, frozen=True):
    """A management lock; it counts for everything below its scope."""

    id: str
    name: str
    level: str
    """``CanNotDelete`` or ``ReadOnly``."""

    @property
    def scope(self) -> str:
        """Resource id of what is locked."""
        at = self.id.casefold().rfind("/providers/microsoft.authorization/locks/")
        return self.id[:at] if at >= 0 else ""


class GrantWanted(Record, frozen=True):
    """A role that somebody shall have."""

    role_id: str
    """The role definition's GUID."""
    role: str
    """Its name, for people."""
    principal_id: str
    principal_type: PrincipalType
    label: str
    """Who, as asked for: ``me``, ``vm:rg-train/node-0``."""
    container: str | None = None
    """Only this container of the account."""
    scope: str | None = None
    """Resource id; None means the account, or its container."""


class LifecycleWanted(Record, frozen=True):
    """What shall happen to a container's blobs with time; days since modification."""

    container: str
    prefix: str = ""
    cool_after_days: int | None = None
    delete_after_days: int | None = None


class StorageWanted(Record, frozen=True):
    """Everything that is asked for in one ``storage create``.

    None means that it was not said: a new account gets the default or what its classification
    demands; an existing one is not measured by it.
    """

    subscription_id: str
    group: str
    location: str
    account: str
    location_said: bool = True
    """False where the location is only a default: an existing account may lie elsewhere."""
    hns: bool = True
    sku: str | None = None
    """``Standard_LRS``, ``Premium_ZRS``."""
    network: NetworkAccess | None = None
    allow_ips: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges."""
    allow_subnets: tuple[str, ...] = ()
    """Subnet ids."""
    endpoint_subnet: str | None = None
    """Subnet id in which the private endpoints shall lie."""
    infrastructure_encryption: bool | None = None
    key_uri: str | None = None
    """Customer-managed key: ``https://VAULT.vault.azure.net/keys/NAME[/VERSION]``."""
    key_identity: str | None = None
    """Resource id of the user-assigned identity that may use the key."""
    soft_delete_days: int | None = None
    """For blobs and containers."""
    versioning: bool = False
    change_feed: bool = False
    restore_days: int | None = None
    containers: tuple[str, ...] = ()
    lifecycles: tuple[LifecycleWanted, ...] = ()
    """Of checkpoint containers too."""
    grants: tuple[GrantWanted, ...] = ()
    classification: str | None = None
    tags: dict[str, str] = {}
    lock: bool = False
    update: bool = False
    """Change what differs on an existing account."""
    only: tuple[str, ...] | None = None
    """Settings of an existing account, by ARM's names: nothing else of it is looked at or changed.
    None is everything."""
    register: bool = False
    """Register the subscription for providers that it needs."""
    storage_suffix: str = "core.windows.net"
    """The cloud's storage domain."""
    price_per_gib_month: float | None = None
    """List price of the stored data; None is unknown."""
    currency: str | None = None
    expected_gib: float | None = None


class StorageLook(Record, frozen=True):
    """Everything that was observed for one ``storage create``; None means that it is unknown."""

    group: ResourceGroup | None = None
    """None: there is none, or, where there is an account, it could not be read."""
    account: StorageAccount | None = None
    """None: there is none in the wanted group."""
    name: NameCheck | None = None
    blob_service: BlobServiceSettings | None = None
    containers: tuple[Container, ...] | None = None
    lifecycle: tuple[LifecycleRule, ...] | None = None
    """Empty where there is no policy."""
    endpoints: tuple[PrivateEndpoint, ...] | None = ()
    """Those of the account, and those that have the names that ours would have."""
    dns_zones: tuple[DnsZone, ...] | None = ()
    """The subscription's zones for private storage endpoints."""
    assignments: tuple[RoleAssignment, ...] | None = None
    """At, above and below the account."""
    locks: tuple[Lock, ...] | None = ()
    """At and above the account."""
    locks_whole: bool = True
    """Off where only the locks in the group could be read, not the subscription's own."""
    unregistered: tuple[str, ...] = ()
    """Provider namespaces that the subscription is not registered for."""
    vnet_location: str | None = None
    """Region of the virtual network of ``StorageWanted.endpoint_subnet``."""


class Finding(Record, frozen=True):
    """One thing that was checked, and what came out."""

    check: str
    """Azure's name for the property, or the check's own."""
    subject: str
    """Resource id of what was checked."""
    verdict: Literal["pass", "fail", "unknown"]
    wanted: str
    actual: str | None = None
    """What the service says; None when it says nothing."""
    reason: str | None = None
    """Why it is unknown."""
    fix: str | None = None
    """The command that mends it."""


class MetricAlert(Record, frozen=True):
    """A metric alert rule of Azure Monitor."""

    name: str
    enabled: bool
    scopes: tuple[str, ...] = ()
    """Resource ids that it watches: resources, or a group or subscription of them."""
    target_type: str | None = None
    """Resource type that it watches in a group or subscription."""
    metrics: tuple[str, ...] = ()
