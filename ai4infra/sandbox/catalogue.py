"""The example world: what it offers to whom, as Azure would list it.

Read from ``data/sandbox.toml`` (where, quota, prices) and from the GPU facts (what a size is).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import permutations
from typing import Any

from ai4infra import gpus
from ai4infra.ids import region_key, size_matches
from ai4infra.sandbox.pricelist import Rates, price_rows

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Row = dict[str, Any]
"""One row in Azure's own spelling."""


@dataclass(frozen=True)
class Region:
    """A region as the locations call tells of it."""

    name: str
    display_name: str
    geography_group: str
    geography: str = ""
    place: str = ""
    zones: int = 0
    """Number of availability zones."""
    kind: str = "Physical"
    spelling: str = ""
    """How the SKU list writes it; empty means like the name."""
    price_factor: float = 1.0
    priced: bool = True


class Catalogue:
    """Everything that no request changes.

    ``skus``, ``usages`` and ``prices`` hold rows in Azure's own spelling, so that a test can put
    any row into the world: ``catalogue.skus[subscription_id].append({...})``.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self.note: str = data["note"]
        self.tenant_id: str = data["tenant"]["id"]
        self.tenant_name: str = data["tenant"]["name"]
        self.tenant_domain: str = data["tenant"]["domain"]
        self.identities: dict[str, dict[str, str]] = data["identities"]
        self.subscriptions = {row["id"]: row["name"] for row in data["subscriptions"]}
        """Id to display name; the first is the default."""
        self.regions = {row["name"]: Region(**row) for row in data["regions"]}
        self.quota_requests: dict[str, Any] = data["quota_requests"]
        self.providers: dict[str, Any] = data["providers"]
        self.storage: dict[str, Any] = deepcopy(data["storage"])
        self.network: dict[str, Any] = deepcopy(data["network"])
        self.directory: dict[str, Any] = deepcopy(data["directory"])
        self.roles: list[dict[str, Any]] = deepcopy(data["roles"])
        """Built-in roles: ``id``, ``name``, ``description`` and what they allow."""
        self.principals = _principals(data)
        """Object id to ``type``, and ``members`` of a group."""
        self.currency_rates: dict[str, float] = data["prices"]["rates"]
        self.page_rows = 100
        """Rows on one page of a Resource Manager list."""
        self.price_page_rows: int = data["prices"]["page_rows"]

    @property
    def subscription_ids(self) -> tuple[str, ...]:
        """Ids of all subscriptions, in lower case."""
        return tuple(self.subscriptions)

    @cached_property
    def skus(self) -> dict[str, list[Row]]:
        """Rows of the SKU list by subscription id."""
        return {id_: list(self._skus(id_)) for id_ in self.subscriptions}

    @cached_property
    def usages(self) -> dict[str, dict[str, list[Row]]]:
        """Rows of the usages by subscription id and region."""
        return {
            id_: {region.name: list(self._usages(id_, region)) for region in self._physical()}
            for id_ in self.subscriptions
        }

    @cached_property
    def prices(self) -> list[Row]:
        """Rows of the retail price list, in US dollars."""
        table = self._data["prices"]
        rates = Rates(
            effective_date=table["effective_date"],
            spot_factor=table["spot_factor"],
            spot_factors=table["spot_factors"],
            low_priority_factor=table["low_priority_factor"],
            windows_per_vcpu=table["windows_per_vcpu"],
        )
        vcpus = {name: size.vcpus for name, size in self._sizes().items()}
        return [
            row
            for region in self._physical()
            if region.priced
            for name in self._names(region)
            if name in table["per_hour"]
            for row in price_rows(
                rates,
                size=name,
                region=region.name,
                location=_billing_name(region),
                vcpus=vcpus[name],
                per_hour=table["per_hour"][name] * region.price_factor,
            )
        ]

    def zone_order(self, subscription: str, region: Region) -> dict[str, str]:
        """Return logical zone to physical zone: a different order for each subscription."""
        logical = [str(zone + 1) for zone in range(region.zones)]
        orders = list(permutations(logical))
        order = orders[_number(subscription, region.name) % len(orders)]
        return dict(zip(logical, order, strict=True))

    def _physical(self) -> Iterable[Region]:
        return (region for region in self.regions.values() if region.kind == "Physical")

    def _names(self, region: Region) -> list[str]:
        return list(self._zones_by_size(region)) + [row["name"] for row in self._data["ordinary"]]

    def _zones_by_size(self, region: Region) -> dict[str, str]:
        """Map the GPU sizes of a region to their zones, in the order of the GPU facts."""
        entries = [e for e in self._data["offered"] if e["region"] == region.name]
        found = {}
        for size in gpus.all_sizes():
            zones = next((e["zones"] for e in entries if _matches(e["sizes"], size)), None)
            if zones is not None:
                found[size] = zones
        return found

    def _sizes(self) -> dict[str, Size]:
        ordinary = {row["name"]: _ordinary(row) for row in self._data["ordinary"]}
        return {**{row.size: _gpu_size(row) for row in gpus.catalog().values()}, **ordinary}

    def _skus(self, subscription: str) -> Iterable[Row]:
        sizes = self._sizes()
        for region in self._physical():
            yield from (_other_sku(row, region) for row in self._data["other_skus"])
            every_zone = "123"[: region.zones]
            for row in self._data["ordinary"]:
                yield _sku(sizes[row["name"]], region, every_zone, [], spot=True)
            for name, zones in self._zones_by_size(region).items():
                restrictions = self._restrictions(subscription, region, name)
                yield _sku(sizes[name], region, zones, restrictions, spot=self._spot(region, name))

    def _spot(self, region: Region, size: str) -> bool:
        return not any(
            entry.get("region", region.name) == region.name and _matches(entry["sizes"], size)
            for entry in self._data["no_spot"]
        )

    def _restrictions(self, subscription: str, region: Region, size: str) -> list[Row]:
        for entry in self._data["restrictions"]:
            here = entry.get("region", region.name) == region.name
            mine = entry["subscription"] == self.subscriptions[subscription]
            if here and mine and _matches(entry["sizes"], size):
                return _restriction_rows(entry, region)
        return []

    def _usages(self, subscription: str, region: Region) -> Iterable[Row]:
        for row in self._data["other_usages"]:
            yield _usage(row["name"], row["label"], row["limit"], row.get("used", 0))
        given = self._limits(subscription, region)
        defaults = self._data["quota_defaults"]
        for family in self._families(region):
            entry = given.get(family, {})
            limit = entry.get("limit", defaults.get(family, 0))
            yield _usage(family, self._label(family), limit, entry.get("used", 0))

    def _limits(self, subscription: str, region: Region) -> dict[str, Any]:
        name = self.subscriptions[subscription]
        for entry in self._data["quotas"]:
            if entry["subscription"] == name and entry["region"] == region.name:
                limits: dict[str, Any] = entry["limits"]
                return limits
        return {}

    def _families(self, region: Region) -> list[str]:
        sizes = self._sizes()
        offered = [sizes[name].family for name in self._names(region)]
        unlisted = self._data["unlisted"]["families"]
        return ["cores", "lowPriorityCores"] + [
            family for family in dict.fromkeys(offered) if family and family not in unlisted
        ]

    def _label(self, family: str) -> str:
        label = self._data["labels"].get(family)
        if label is not None:
            return str(label)
        # "standardDSv5Family" is shown as "Standard DSv5 Family vCPUs".
        series = family[len("standard") :].removesuffix("Family").strip()
        return f"Standard {series} Family vCPUs"


@dataclass(frozen=True)
class Size:
    """A size as the SKU list describes it, wherever it is offered."""

    name: str
    family: str | None
    capabilities: dict[str, str]

    @property
    def vcpus(self) -> int:
        """vCPUs of the size."""
        return int(self.capabilities["vCPUs"])


def example() -> Catalogue:
    """Return the example world, fresh: what one test changes, no other sees."""
    return Catalogue(_data())


def _principals(data: dict[str, Any]) -> dict[str, Row]:
    signed_in = {
        row["object_id"]: {"type": "User" if row.get("kind") == "user" else "ServicePrincipal"}
        for row in data["identities"].values()
    }
    others = {row["object_id"]: dict(row) for row in data["directory"]["principals"]}
    return {**signed_in, **others}


@cache
def _data() -> dict[str, Any]:
    text = resources.files("ai4infra").joinpath("data/sandbox.toml").read_text("utf-8")
    return tomllib.loads(text)


def _billing_name(region: Region) -> str:
    """Return the price list's spelling: ``US East 2`` for East US 2."""
    words = region.display_name.split()
    if "US" not in words:
        return region.display_name
    return " ".join(["US", *(word for word in words if word != "US")])


def _matches(patterns: Iterable[str], size: str) -> bool:
    return any(size_matches(pattern, size) for pattern in patterns)


def _number(*parts: str) -> int:
    """Return a number that is the same in every run and on every machine."""
    return zlib.crc32("/".join(parts).encode())


def _ordinary(row: Row) -> Size:
    return Size(name=row["name"], family=row["family"], capabilities=row["capabilities"])


def _gpu_size(row: gpus.CatalogRow) -> Size:
    return Size(row.size, row.quota_family, {**_machine(row), **_local_disks(row), **_rdma(row)})


def _machine(row: gpus.CatalogRow) -> dict[str, str]:
    said = {
        "vCPUs": f"{row.vcpus}",
        "vCPUsAvailable": f"{row.vcpus}",
        "MemoryGB": f"{row.memory_gib:g}",
        "HyperVGenerations": "V2",
        "PremiumIO": "True",
        "VMDeploymentTypes": "IaaS",
        "CpuArchitectureType": "x64",
        "AcceleratedNetworkingEnabled": "True",
        "EncryptionAtHostSupported": "True",
        "MaxDataDiskCount": "8",
    }
    if row.api_gpus is not None:
        said["GPUs"] = f"{row.api_gpus}"
    if row.uncached_disk_mbytes_s is not None:
        said["UncachedDiskBytesPerSecond"] = f"{row.uncached_disk_mbytes_s * 10**6:.0f}"
    return said


def _local_disks(row: gpus.CatalogRow) -> dict[str, str]:
    said = {}
    if row.temp_disk_gib is not None:
        said["MaxResourceVolumeMB"] = f"{row.temp_disk_gib * 1024:.0f}"
    if row.nvme_gib and row.nvme_disks:
        said["NvmeDiskSizeInMiB"] = f"{row.nvme_gib * 1024:.0f}"
        said["NvmeSizePerDiskInMiB"] = f"{row.nvme_gib * 1024 / row.nvme_disks:.0f}"
    return said


def _rdma(row: gpus.CatalogRow) -> dict[str, str]:
    if row.fpga:  # Azure's FPGA rows have no such key
        return {}
    name = gpus.size_name(row.size)
    has = (
        row.infiniband_gbps > 0
        if row.infiniband_gbps is not None
        else bool(name and name.infiniband)
    )
    return {"RdmaEnabled": str(has)}


def _sku(size: Size, region: Region, zones: str, restrictions: list[Row], *, spot: bool) -> Row:
    where = region.spelling or region.name
    offered = _unsorted(zones, size.name)
    details = [{"Name": _unsorted(zones, region.name), "capabilities": [_ULTRA]}] if zones else []
    capabilities = {**size.capabilities, "LowPriorityCapable": str(spot)}
    row = {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": size.family,
        "locations": [where],
        "locationInfo": [{"location": where, "zones": offered, "zoneDetails": details}],
        "capabilities": _capabilities(capabilities),
        "restrictions": restrictions,
    }
    return {key: value for key, value in row.items() if value is not None}


_ULTRA = {"name": "UltraSSDAvailable", "value": "True"}


def _capabilities(values: dict[str, str]) -> list[Row]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _other_sku(row: Row, region: Region) -> Row:
    where = region.spelling or region.name
    return {
        **row,
        "locations": [where],
        "locationInfo": [{"location": where, "zones": [], "zoneDetails": []}],
        "capabilities": _capabilities(row["capabilities"]),
        "restrictions": [],
    }


def _unsorted(zones: str, seed: str) -> list[str]:
    """Return the zones in some order, as Azure does."""
    orders = list(permutations(zones))
    return list(orders[_number(seed) % len(orders)])


def _restriction_rows(entry: Row, region: Region) -> list[Row]:
    where = region.spelling or region.name
    reason = entry.get("reason", "NotAvailableForSubscription")
    zones = entry.get("zones", "123"[: region.zones])
    location = _restriction("Location", where, reason, {"locations": [where]})
    info = {"locations": [where], "zones": _unsorted(zones, region_key(where))}
    zone = _restriction("Zone", where, reason, info)
    if entry["kind"] == "Zone":
        return [zone]
    # Azure sends a Zone entry for every zone along with a Location entry.
    return [location, zone] if zones else [location]


def _restriction(kind: str, where: str, reason: str, info: Row) -> Row:
    return {"type": kind, "values": [where], "restrictionInfo": info, "reasonCode": reason}


def _usage(name: str, label: str, limit: int, used: int) -> Row:
    return {
        "limit": limit,
        "unit": "Count",
        "currentValue": used,
        "name": {"value": name, "localizedValue": label},
    }
