"""Microsoft.Compute: the sizes that a region lists, and the vCPU quota."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TypeVar

import msgspec

from ai4infra.cloud.cache import SKU_SECONDS, Cache
from ai4infra.cloud.rows import decode_rows, field
from ai4infra.cloud.session import Session
from ai4infra.ids import quota_key, region_key, size_key
from ai4infra.model import Quota, Restriction, Sku

SKUS_API_VERSION = "2021-07-01"
USAGES_API_VERSION = "2024-07-01"
_VM = "virtualmachines"
_NO_RETIREMENT = "01/01/9999"

_T = TypeVar("_T")
_Values = Mapping[str, "str | float | bool | None"]


class SkuListing(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU sizes of one region, by name, and what was odd about the answer."""

    skus: tuple[Sku, ...]
    warnings: tuple[str, ...] = ()


class _Capability(msgspec.Struct):
    name: str | None = None
    value: str | float | bool | None = None


class _LocationInfo(msgspec.Struct):
    location: str | None = None
    zones: list[str] | None = None


class _RestrictionInfo(msgspec.Struct):
    locations: list[str] | None = None
    zones: list[str] | None = None


class _Restriction(msgspec.Struct, rename="camel"):
    type: str | None = None
    reason_code: str | None = None
    values: list[str] | None = None
    restriction_info: _RestrictionInfo | None = None


class _Row(msgspec.Struct, rename="camel"):
    """One row; its lists stay raw, so that only GPU sizes cost their decoding."""

    name: str | None = None
    resource_type: str | None = None
    family: msgspec.Raw = msgspec.Raw()
    locations: msgspec.Raw = msgspec.Raw()
    location_info: msgspec.Raw = msgspec.Raw()
    capabilities: msgspec.Raw = msgspec.Raw()
    restrictions: msgspec.Raw = msgspec.Raw()


def is_gpu_size(name: str) -> bool:
    """Tell whether a size is of the N series: GPUs, and the FPGAs of NP."""
    return size_key(name).startswith("n")


def skus(
    session: Session,
    subscription_id: str,
    region: str,
    *,
    cache: Cache | None = None,
) -> SkuListing:
    """Return the GPU sizes that the region lists for the subscription, by name.

    Only GPU sizes are stored in the cache, for an hour. An answer without a single row is asked
    for twice. The region must be known (see ``subscriptions.check_region``): an unknown one looks
    like a region without sizes.
    """
    region = region_key(region)
    key = (session.cloud.host, subscription_id.lower(), region, "gpu-sizes")
    stored = cache.get(key, SkuListing, SKU_SECONDS) if cache else None
    if stored is not None:
        return stored
    listing = _asked(session, subscription_id, region)
    if cache and listing.skus:
        cache.put(key, listing)
    return listing


def _asked(session: Session, subscription_id: str, region: str) -> SkuListing:
    rows = 0
    reader = _Reader(region)
    for _ in range(2):
        for page in _sku_pages(session, subscription_id, region):
            rows += reader.read(page)
        if rows:
            return reader.listing()
    nothing = f"{region}: the service lists no sizes at all."
    return SkuListing(skus=(), warnings=(nothing, *reader.listing().warnings))


def _sku_pages(session: Session, subscription_id: str, region: str) -> Iterable[msgspec.Raw]:
    return session.pages(
        f"/subscriptions/{subscription_id}/providers/Microsoft.Compute/skus",
        SKUS_API_VERSION,
        params={"$filter": f"location eq '{region}'"},
        what=f"Cannot list the sizes of {region}",
    )


class _Reader:
    """Collects the sizes of one region, page by page, and what was odd about them."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._skus: dict[str, Sku] = {}
        self._odd_rows = 0
        self._odd: dict[str, list[str]] = {}

    def read(self, page: msgspec.Raw) -> int:
        """Take in one page and return its number of rows."""
        rows, odd = decode_rows(page, _Row, f"Cannot list the sizes of {self.region}")
        self._odd_rows += odd
        for row in rows:
            if row.name and (row.resource_type or "").casefold() == _VM and is_gpu_size(row.name):
                self._add(row.name.strip(), row)
        return len(rows) + odd

    def listing(self) -> SkuListing:
        """Return what was collected."""
        warnings = [
            f"{self.region}: {what} of {_few(names)} cannot be read and is left blank."
            for what, names in self._odd.items()
        ]
        if self._odd_rows:
            warnings.append(f"{self.region}: {self._odd_rows} rows of the size list make no sense.")
        ordered = sorted(self._skus.values(), key=lambda sku: size_key(sku.name))
        return SkuListing(skus=tuple(ordered), warnings=tuple(warnings))

    def _add(self, name: str, row: _Row) -> None:
        if not self._is_here(name, row):
            return
        sku = self._sku(name, row)
        key = size_key(name)
        self._skus[key] = merge(self._skus[key], sku) if key in self._skus else sku

    def _is_here(self, name: str, row: _Row) -> bool:
        locations = self._field(name, "locations", row.locations, list[str])
        return not locations or self.region in map(region_key, locations)

    def _field(self, name: str, what: str, raw: msgspec.Raw, type_: type[_T]) -> _T | None:
        value, odd = field(raw, type_)
        if odd:
            self._note(what, name)
        return value

    def _items(self, name: str, what: str, raw: msgspec.Raw, type_: type[_T]) -> list[_T]:
        """Return the items of a list field that can be read."""
        return self._items_and_whether_all(name, what, raw, type_)[0]

    def _items_and_whether_all(
        self, name: str, what: str, raw: msgspec.Raw, type_: type[_T]
    ) -> tuple[list[_T], bool]:
        """Return the items of a list field that can be read, and whether that is all of them."""
        whole, odd = field(raw, list[type_])  # type: ignore[valid-type]
        if not odd:
            return whole or [], True
        parts = self._field(name, what, raw, list[msgspec.Raw])
        if parts is None:
            return [], False
        found = [field(one, type_) for one in parts]
        if any(odd for _, odd in found):
            self._note(f"a part of {what}", name)
        return [value for value, _ in found if value is not None], False

    def _note(self, what: str, name: str) -> None:
        self._odd.setdefault(what, []).append(name)

    def _sku(self, name: str, row: _Row) -> Sku:
        listed = self._items(name, "capabilities", row.capabilities, _Capability)
        values = {_key(item.name): item.value for item in listed if item.name}
        disk_mib = self._number(name, values, "NvmeSizePerDiskInMiB")
        nvme_mib = self._number(name, values, "NvmeDiskSizeInMiB")
        restrictions, restrictions_known = self._restrictions(name, row)
        return Sku(
            name=name,
            region=self.region,
            family=self._field(name, "family", row.family, str) or None,
            zones=self._zones(name, row),
            restrictions=restrictions,
            restrictions_known=restrictions_known,
            vcpus=self._whole(name, values, "vCPUs", needed=True),
            memory_gib=self._number(name, values, "MemoryGB", needed=True),
            gpus=self._whole(name, values, "GPUs"),
            temp_disk_gib=_gib(self._number(name, values, "MaxResourceVolumeMB")),
            nvme_gib=_gib(nvme_mib),
            nvme_disks=round(nvme_mib / disk_mib) if nvme_mib and disk_mib else None,
            rdma=self._flag(name, values, "RdmaEnabled"),
            spot_capable=self._flag(name, values, "LowPriorityCapable"),
            uncached_disk_mbytes_s=_mega(self._number(name, values, "UncachedDiskBytesPerSecond")),
            retirement_date=self._date(name, values, "RetirementDateUtc"),
        )

    def _number(
        self, name: str, values: _Values, capability: str, *, needed: bool = False
    ) -> float | None:
        value = values.get(_key(capability))
        if value is None or value == "":
            if needed:
                self._note(capability, name)
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        # No size is without vCPUs or memory: there 0 stands for unknown.
        if math.isfinite(number) and (number > 0 or (number == 0 and not needed)):
            return number
        self._note(capability, name)
        return None

    def _whole(
        self, name: str, values: _Values, capability: str, *, needed: bool = False
    ) -> int | None:
        """Return a count; a part of one is not rounded, since 0 would look like none."""
        number = self._number(name, values, capability, needed=needed)
        if number is None or number == int(number):
            return None if number is None else int(number)
        self._note(capability, name)
        return None

    def _flag(self, name: str, values: _Values, capability: str) -> bool | None:
        value = str(values.get(_key(capability), "")).strip().casefold()
        if value in ("true", "false"):
            return value == "true"
        if value:
            self._note(capability, name)
        return None

    def _date(self, name: str, values: _Values, capability: str) -> str | None:
        value = str(values.get(_key(capability)) or "").strip()
        if not value or value.startswith(_NO_RETIREMENT):
            return None
        match = re.match(r"(\d{1,2})/(\d{1,2})/(\d{4})", value)
        try:
            if match:
                return date(int(match[3]), int(match[1]), int(match[2])).isoformat()
            return date.fromisoformat(value[:10]).isoformat()
        except ValueError:
            self._note(capability, name)
            return None

    def _zones(self, name: str, row: _Row) -> tuple[str, ...]:
        infos = self._items(name, "locationInfo", row.location_info, _LocationInfo)
        here = [i for i in infos if not i.location or region_key(i.location) == self.region]
        return _sorted(zone for info in here for zone in info.zones or [])

    def _restrictions(self, name: str, row: _Row) -> tuple[tuple[Restriction, ...], bool]:
        """Return the restrictions of the region, and whether all of them could be read."""
        listed, whole = self._items_and_whether_all(
            name, "restrictions", row.restrictions, _Restriction
        )
        here = [item for item in listed if self._counts_here(item)]
        found = [_restriction(item) for item in here]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            self._note("a restriction", name)
        return tuple(dict.fromkeys(known)), whole and len(known) == len(found)

    def _counts_here(self, item: _Restriction) -> bool:
        info = item.restriction_info or _RestrictionInfo()
        where = [region_key(place) for place in info.locations or item.values or []]
        return not where or self.region in where


def _restriction(item: _Restriction) -> Restriction | None:
    """Return a restriction; None for one of another kind, or that names no zone of its zones."""
    kind, reason = (item.type or "").casefold(), item.reason_code or "Unspecified"
    if kind == "location":
        return Restriction(kind="Location", reason=reason)
    zones = _sorted((item.restriction_info or _RestrictionInfo()).zones or [])
    if kind == "zone" and zones:
        return Restriction(kind="Zone", reason=reason, zones=zones)
    return None


def merge(one: Sku, other: Sku) -> Sku:
    """Return two rows of the same size as one: all zones and restrictions, else the first value."""
    filled = {
        name: getattr(other, name)
        for name in Sku.__struct_fields__
        if getattr(one, name) is None and getattr(other, name) is not None
    }
    return msgspec.structs.replace(
        one,
        **filled,
        zones=_sorted([*one.zones, *other.zones]),
        restrictions=tuple(dict.fromkeys([*one.restrictions, *other.restrictions])),
        restrictions_known=one.restrictions_known and other.restrictions_known,
    )


def _sorted(zones: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(zones), key=lambda zone: (len(zone), zone)))


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= len(names[:3]) else f"{shown} and {len(names) - 3} more"


def _key(capability: str) -> str:
    return capability.strip().casefold()


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024


def _mega(number: float | None) -> float | None:
    return None if number is None else number / 1e6


class _UsageName(msgspec.Struct, rename="camel"):
    value: str | None = None
    localized_value: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    """One row; its numbers stay raw: one that cannot be read is unknown, its row is not gone."""

    name: _UsageName | None = None
    current_value: msgspec.Raw = msgspec.Raw()
    limit: msgspec.Raw = msgspec.Raw()


def usages(session: Session, subscription_id: str, region: str) -> tuple[Quota, ...]:
    """Return the quota rows of Microsoft.Compute in a region, each name once.

    A row that isn't there is unknown, neither zero nor unlimited. Never cached.
    """
    region = region_key(region)
    what = f"Cannot read the quota of {region}"
    pages = session.pages(
        f"/subscriptions/{subscription_id}/providers/Microsoft.Compute/locations/{region}/usages",
        USAGES_API_VERSION,
        what=what,
    )
    found: dict[str, Quota] = {}
    for page in pages:
        for row in decode_rows(page, _Usage, what)[0]:
            if row.name and row.name.value:
                quota = _quota(row.name.value, row, region)
                key = quota_key(quota.name)
                found[key] = _known_of_both(found[key], quota) if key in found else quota
    return tuple(found.values())


def _quota(name: str, row: _Usage, region: str) -> Quota:
    label = row.name.localized_value if row.name else None
    return Quota(
        name=name,
        label=label or name,
        region=region,
        used=_count(row.current_value),
        limit=_count(row.limit),
    )


def _known_of_both(one: Quota, other: Quota) -> Quota:
    """Return the first of two rows of one name, with what only the second knows."""
    return msgspec.structs.replace(
        one,
        used=other.used if one.used is None else one.used,
        limit=other.limit if one.limit is None else one.limit,
    )


def _count(raw: msgspec.Raw) -> int | None:
    """Return a count, also one that is written as text; None for what is none."""
    said, _ = field(raw, float | str)  # type: ignore[arg-type]  # a union is no class
    try:
        number = math.nan if said is None else float(said)
    except ValueError:
        return None
    return int(number) if math.isfinite(number) and number >= 0 else None
