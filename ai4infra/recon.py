"""Sizes, quotas and prices → offers: what a region lists, what access and quota leave of it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import TypeVar

from msgspec import structs

from ai4infra import gpus as gpu_facts
from ai4infra.ids import quota_key, region_key, size_key
from ai4infra.model import (
    Access,
    GpuFacts,
    Limit,
    Offer,
    Quota,
    Record,
    RegionQuota,
    Restriction,
    SizePrices,
    Sku,
)
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA

T = TypeVar("T")

NO_ACCESS = "NotAvailableForSubscription"
NOT_ENTITLED = "QuotaId"
SUBSCRIPTION_OFF = "ReadOnlyDisabledSubscription"
"""Azure's own code for what is sent to a subscription that is disabled."""
_LOCATION_REASONS = {
    NO_ACCESS: "the subscription has no access to this size in this region",
    NOT_ENTITLED: "the subscription's offer type is not entitled to this size",
}
_ZONE_REASONS = {
    NO_ACCESS: "the subscription has no access to this size there",
    NOT_ENTITLED: "the subscription's offer type is not entitled to this size there",
}
_SUSPICIOUS_SHARE = 1 / 3


class _Place(Record, frozen=True):
    """What the rows of one region and subscription share."""

    subscription_id: str
    region: str
    quotas: Mapping[str, Quota]
    prices: Mapping[str, SizePrices] | None
    today: date
    physical_zones: Mapping[str, str] | None
    currency: str | None
    closed: str | None = None


class _Fit(Record, frozen=True):
    vms: int | None
    limit: Limit | None = None


class _Count(Record, frozen=True):
    """How many GPUs a VM has, exactly, and as text."""

    number: Fraction | None
    text: str | None


class _Money(Record, frozen=True):
    on_demand: float | None = None
    spot: float | None = None
    currency: str | None = None
    date: str | None = None


def offers(
    skus: Iterable[Sku],
    quotas: Iterable[Quota] | None,
    prices: Mapping[str, SizePrices] | None,
    *,
    subscription_id: str,
    region: str,
    today: date,
    facts: Callable[[str], GpuFacts] = gpu_facts.facts,
    physical_zones: Mapping[str, str] | None = None,
    currency: str | None = None,
    closed: str | None = None,
) -> tuple[Offer, ...]:
    """Join what one region says into one row per accelerator size, in natural order of names.

    ``skus`` are those of the region, each size once, ordinary ones among them. ``quotas`` are all
    rows of the region, None when they could not be read. ``prices`` are by ``ids.size_key``, None
    when they were not asked for. ``currency`` is the one that was asked for. ``physical_zones``
    maps logical to physical zones; None leaves the column out. ``closed`` is why the subscription
    can start nothing at all.
    """
    place = _Place(
        subscription_id=subscription_id,
        region=region_key(region),
        quotas={quota_key(q.name): q for q in quotas or ()},
        prices=prices,
        today=today,
        physical_zones=physical_zones,
        currency=currency,
        closed=closed,
    )
    known = [(sku, facts(sku.name)) for sku in skus]
    rows = [
        _offer(sku, known_of_it, place)
        for sku, known_of_it in known
        if _is_listed(sku, known_of_it)
    ]
    return tuple(_with_price_notes(sorted(rows, key=lambda o: natural_key(o.size))))


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key under which numbers in names count as numbers (NC4 before NC16)."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text.casefold())
    return tuple((int(p), "") if p[0] in "0123456789" else (-1, p) for p in parts)


def exact_gpus(offer: Offer) -> Fraction | None:
    """Return the number of GPUs in a VM exactly, None when unknown."""
    return gpu_facts.fraction(offer.gpu_count_text) if offer.gpu_count_text else None


def memory_per_gpu_gib(offer: Offer) -> float | None:
    """Return what one GPU of the VM has: a whole GPU's memory, or the share that the VM gets."""
    count = exact_gpus(offer)
    if offer.gpu_memory_gib is None or count is None:
        return None
    return float(Fraction(offer.gpu_memory_gib) / max(count, Fraction(1)))


def whole_gpu_memory_gib(offer: Offer) -> float | None:
    """Return the memory of one whole GPU of the offer's model, None when unknown."""
    count = exact_gpus(offer)
    if offer.gpu_memory_gib is None or not count:
        return None
    return round(float(Fraction(offer.gpu_memory_gib) / count), 3)


def is_model(wanted: str, offer: Offer) -> bool:
    """Tell whether the offer's GPU is the wanted model (``A100``, ``A100-80GB``)."""
    return gpu_facts.gpu_matches(wanted, offer.gpu_model, whole_gpu_memory_gib(offer))


def is_startable(offer: Offer, *, spot: bool = False) -> bool | None:
    """Tell whether access and quota allow at least one VM; None when that is not known."""
    return _startable(offer.access, offer.spot_fit_vms) if spot else offer.startable


# --- what is listed


def _is_listed(sku: Sku, facts: GpuFacts) -> bool:
    """Keep accelerator series, even unknown ones, and whatever says that it has GPUs."""
    return facts.series_class != "other" or facts.source is not None or bool(sku.gpus)


# --- one row


def _offer(sku: Sku, facts: GpuFacts, place: _Place) -> Offer:
    retirement = _earlier(sku.retirement_date, facts.retirement_date)
    access, reason = _access(sku, facts, retirement, place.today)
    if place.closed:
        access, reason = "blocked", f"{SUBSCRIPTION_OFF}: {place.closed}"
    zones = _usable_zones(sku)
    count = _gpu_count(sku, facts)
    family = place.quotas.get(quota_key(sku.family)) if sku.family else None
    fit = _fit(sku.vcpus, {"family": family, "regional": _pool(place, REGIONAL_QUOTA)})
    spot_fit = _fit(sku.vcpus, {"spot": _pool(place, SPOT_QUOTA)})
    money = _money(sku, place)
    return Offer(
        subscription_id=place.subscription_id,
        region=place.region,
        size=sku.name,
        series_class=facts.series_class,
        gpu_model=facts.gpu_model,
        vendor=facts.vendor,
        gpu_count=None if count.number is None else float(count.number),
        gpu_count_text=count.text,
        gpu_memory_gib=_times(facts.gpu_memory_gib, count.number),
        nvlink=facts.nvlink,
        vcpus=sku.vcpus,
        memory_gib=sku.memory_gib,
        local_nvme_gib=_first(sku.nvme_gib, facts.nvme_gib),
        local_nvme_disks=_first(sku.nvme_disks, facts.nvme_disks),
        temp_disk_gib=sku.temp_disk_gib,
        infiniband_gbps=_infiniband(sku, facts),
        network_gbps=facts.network_gbps,
        uncached_disk_mbytes_s=_first(sku.uncached_disk_mbytes_s, facts.uncached_disk_mbytes_s),
        zones=zones,
        physical_zones=_physical(zones, place.physical_zones),
        access=access,
        access_reason=reason,
        retirement_date=retirement,
        replacement=facts.replacement,
        quota_family=sku.family,
        quota_used=family.used if family else None,
        quota_limit=family.limit if family else None,
        fit_vms=fit.vms,
        fit_limit=fit.limit,
        spot_capable=sku.spot_capable,
        # A size that cannot run as spot fits no spot VM: that is known, whatever the pool says.
        spot_fit_vms=0 if sku.spot_capable is False else spot_fit.vms,
        startable=_startable(access, fit.vms),
        price_per_hour=money.on_demand,
        price_per_gpu_hour=_per_gpu(money.on_demand, count.number),
        spot_price_per_hour=money.spot,
        spot_price_per_gpu_hour=_per_gpu(money.spot, count.number),
        currency=money.currency,
        price_date=money.date,
        facts=facts.source,
        notes=tuple(_notes(sku, facts, count)),
    )


def _first(*values: T | None) -> T | None:
    """Return the first value that is known."""
    return next((value for value in values if value is not None), None)


def _times(number: float | None, factor: Fraction | None) -> float | None:
    return None if number is None or factor is None else float(Fraction(number) * factor)


def _earlier(*dates: str | None) -> str | None:
    return min((d for d in dates if d), default=None)


def _gpu_count(sku: Sku, facts: GpuFacts) -> _Count:
    """Take our count, else the API's, which is believed only where no row of ours doubts it.

    An API count of 0 on an accelerator size says nothing.
    """
    api = str(sku.gpus) if sku.gpus and not _has_row(facts) else None
    text = facts.gpu_count or api
    return _Count(number=gpu_facts.fraction(text) if text else None, text=text)


def _has_row(facts: GpuFacts) -> bool:
    return facts.source not in (None, gpu_facts.FROM_NAME)


def _infiniband(sku: Sku, facts: GpuFacts) -> float | None:
    if facts.infiniband_gbps is None and sku.rdma is False:
        return 0.0
    return facts.infiniband_gbps


def _notes(sku: Sku, facts: GpuFacts, count: _Count) -> Iterator[str]:
    if facts.gpu_count and sku.gpus is not None and count.number != sku.gpus:
        yield f"Azure's size list says {sku.gpus} GPU; this size has {facts.gpu_count}."
    if sku.gpus and not facts.gpu_count and _has_row(facts):
        yield f"Azure's size list says {sku.gpus} GPU; our data has reason to doubt it."
    elif count.number is not None and not facts.gpu_count:
        yield "The GPU count is from Azure's size list, which counts a part of a GPU as one."
    ours = facts.infiniband_gbps
    if sku.rdma and ours is None:
        yield "The size has RDMA; its InfiniBand speed is not known."
    if None not in (sku.rdma, ours) and sku.rdma != bool(ours):
        said = "RDMA" if sku.rdma else "no RDMA"
        yield f"Azure's size list says {said}; our data says {ours:g} Gb/s of InfiniBand."
    if sku.retirement_date and facts.retirement_date not in (None, sku.retirement_date):
        yield (
            f"Azure's size list says that it retires on {sku.retirement_date}, the retirement"
            f" notice {facts.retirement_date}."
        )


# --- access


def _usable_zones(sku: Sku) -> tuple[str, ...]:
    closed = {zone for r in _of_kind(sku, "Zone") for zone in r.zones}
    return tuple(sorted(set(sku.zones) - closed))


def _of_kind(sku: Sku, kind: str) -> list[Restriction]:
    return [r for r in sku.restrictions if r.kind == kind]


def _physical(zones: Sequence[str], names: Mapping[str, str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names.get(zone, "?") for zone in zones)


def _access(
    sku: Sku, facts: GpuFacts, retirement: str | None, today: date
) -> tuple[Access, str | None]:
    """Judge access; the strictest of several holds, and the reason starts with Azure's code."""
    retired = retirement is not None and retirement <= today.isoformat()
    follows = f"; {facts.replacement} follows it" if facts.replacement else ""
    if _of_kind(sku, "Location"):
        return "blocked", _location_reason(sku) + (f"; retired on {retirement}" if retired else "")
    if retired:
        return "retired", f"retired on {retirement}{follows}"
    if not sku.restrictions_known:
        return "unknown", "Azure's size list has a restriction that cannot be read"
    closed = sorted(set(sku.zones) - set(_usable_zones(sku)))
    if closed:
        return _zone_access(sku, closed)
    if retirement:
        return "retiring", f"retires on {retirement}{follows}"
    return "open", None


def _location_reason(sku: Sku) -> str:
    codes = dict.fromkeys(r.reason for r in _of_kind(sku, "Location"))
    return "; ".join(_explained(code, _LOCATION_REASONS) for code in codes)


def _zone_access(sku: Sku, closed: Sequence[str]) -> tuple[Access, str]:
    codes = dict.fromkeys(r.reason for r in _of_kind(sku, "Zone"))
    why = "; ".join(_explained(code, _ZONE_REASONS) for code in codes)
    where = f"(zone{'s' if len(closed) > 1 else ''} {', '.join(closed)})"
    if len(closed) < len(set(sku.zones)):
        return "zone-limited", f"{why} {where}"
    return "regional-only", (
        f"{why} {where}: no zone can be named, a deployment without a zone is allowed"
    )


def _explained(code: str, meanings: Mapping[str, str]) -> str:
    return f"{code}: {meanings[code]}" if code in meanings else code


# --- quota


def _pool(place: _Place, name: str) -> Quota | None:
    return place.quotas.get(quota_key(name))


def _fit(vcpus: int | None, limits: Mapping[Limit, Quota | None]) -> _Fit:
    """Count the VMs that all limits allow, and name the one that binds.

    A limit without anything free decides even where another is unknown. Of equal limits the first
    is named: the family's, since that is what a request names.
    """
    vms = {name: _vms(vcpus, quota) for name, quota in limits.items()}
    none_left = next((name for name, number in vms.items() if number == 0), None)
    if none_left is not None:
        return _Fit(vms=0, limit=none_left)
    known = {name: number for name, number in vms.items() if number is not None}
    if len(known) < len(vms):
        return _Fit(vms=None)
    binding = min(known, key=lambda name: known[name])
    return _Fit(vms=known[binding], limit=binding)


def _vms(vcpus: int | None, quota: Quota | None) -> int | None:
    free = quota.free if quota else None
    if free == 0:
        return 0
    return free // vcpus if free is not None and vcpus else None


def _startable(access: Access, fit_vms: int | None) -> bool | None:
    if access in ("blocked", "retired"):
        return False
    if access == "unknown":
        return False if fit_vms == 0 else None
    return None if fit_vms is None else fit_vms >= 1


def limits_of(offer: Offer, pools: RegionQuota | None, *, spot: bool = False) -> tuple[Quota, ...]:
    """Return the quota rows that a VM of this offer counts against, unknown numbers as None."""
    if spot:
        return ((pools and pools.spot) or _unread(SPOT_QUOTA, offer.region),)
    family = Quota(
        name=offer.quota_family or f"the unknown family of {offer.size}",
        label=offer.quota_family or f"the unknown family of {offer.size}",
        region=offer.region,
        used=offer.quota_used,
        limit=offer.quota_limit,
    )
    total = pools.regional if pools else None
    return (total or _unread(REGIONAL_QUOTA, offer.region), family)


def _unread(name: str, region: str) -> Quota:
    return Quota(name=name, label=name, region=region, used=None, limit=None)


# --- prices


def _money(sku: Sku, place: _Place) -> _Money:
    if place.prices is None:
        return _Money()
    prices = place.prices.get(size_key(sku.name), SizePrices())
    found = prices.on_demand or prices.spot
    return _Money(
        on_demand=(prices.on_demand and prices.on_demand.per_hour) or None,
        spot=(prices.spot and prices.spot.per_hour) or None,
        currency=found.currency if found else place.currency,
        date=found.effective_date if found else None,
    )


def _per_gpu(price: float | None, count: Fraction | None) -> float | None:
    """Divide in decimals, so that a sixth of a GPU at 0.454 costs 2.724 a GPU and not 2.7239…"""
    return float(Fraction(str(price)) / count) if price and count else None


def _with_price_notes(rows: Sequence[Offer]) -> Iterator[Offer]:
    for row in rows:
        usual = _usual_price(row, rows)
        price = row.price_per_gpu_hour
        if price is None or usual is None or price >= usual * _SUSPICIOUS_SHARE:
            yield row
        else:
            note = (
                f"The price of {price:.2f} per GPU-hour is below a third of what other"
                f" {row.gpu_model} sizes here cost ({usual:.2f}): check it before relying on it."
            )
            yield structs.replace(row, notes=(*row.notes, note))


def _usual_price(row: Offer, rows: Sequence[Offer]) -> float | None:
    """Return the median price per GPU-hour of the other sizes with the same GPU model."""
    if row.gpu_model is None:
        return None
    others = [o.price_per_gpu_hour for o in rows if o.gpu_model == row.gpu_model and o is not row]
    known = [price for price in others if price is not None]
    return statistics.median(known) if known else None
