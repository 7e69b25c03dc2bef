"""Sizes, quotas and prices → offers: what a region lists, what access and quota leave of it."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any

from msgspec import structs

from ai4infra import gpus as gpu_facts
from ai4infra.errors import UsageError
from ai4infra.ids import close_names, quota_key, region_key, size_key, size_matches, unknown_name
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
    Summary,
)
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA, QuotaWanted, quota_command, quota_title

CAVEAT = (
    "Listing and quota are not capacity: only an attempt to allocate proves that Azure has"
    " the hardware free."
)
FAMILIES = ("NC", "ND", "NV", "NG", "NP", "NCC")
DEFAULT_FAMILIES = ("NC", "ND", "NV")
ALL_FAMILIES = "all"
REGION_ACCESS_PAGE = (
    "https://learn.microsoft.com/troubleshoot/azure/general/region-access-request-process"
)
ZONE_ACCESS_PAGE = (
    "https://learn.microsoft.com/troubleshoot/azure/general/"
    "zonal-enablement-request-for-restricted-vm-series"
)

_NO_ACCESS = "NotAvailableForSubscription"
_NOT_ENTITLED = "QuotaId"
_LOCATION_REASONS = {
    _NO_ACCESS: "the subscription has no access to this size in this region",
    _NOT_ENTITLED: "the subscription's offer type is not entitled to this size",
}
_ZONE_REASONS = {
    _NO_ACCESS: "the subscription has no access to this size there",
    _NOT_ENTITLED: "the subscription's offer type is not entitled to this size there",
}
_BLOCKERS = {
    _NO_ACCESS: "no access in the region",
    _NOT_ENTITLED: "offer type not entitled",
}
_SUSPICIOUS_SHARE = 1 / 3
_ACTIONS_OF_A_KIND = 3
_NAMES_SHOWN = 3


class _Place(Record, frozen=True):
    """What the rows of one region and subscription share."""

    subscription_id: str
    region: str
    quotas: Mapping[str, Quota]
    prices: Mapping[str, SizePrices] | None
    today: date
    physical_zones: Mapping[str, str] | None
    currency: str | None


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
) -> tuple[Offer, ...]:
    """Join what one region says into one row per accelerator size, in natural order of names.

    ``skus`` may hold ordinary sizes, other regions and duplicates. ``quotas`` are all rows of the
    region, None when they could not be read. ``prices`` are by ``ids.size_key``, None when they
    were not asked for. ``currency`` is the one that was asked for. ``physical_zones`` maps logical
    to physical zones; None leaves the column out.
    """
    place = _Place(
        subscription_id=subscription_id,
        region=region_key(region),
        quotas={quota_key(q.name): q for q in quotas or ()},
        prices=prices,
        today=today,
        physical_zones=physical_zones,
        currency=currency,
    )
    known = [(sku, facts(sku.name)) for sku in _merged(skus, place.region)]
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


def known_quota(quota: Quota | None) -> Quota | None:
    """Return the quota with a negative limit or use taken as unknown; None stays None."""
    if quota is None:
        return None
    return structs.replace(quota, used=_not_negative(quota.used), limit=_not_negative(quota.limit))


# --- what is listed


def _is_listed(sku: Sku, facts: GpuFacts) -> bool:
    """Keep accelerator series, even unknown ones, and whatever says that it has GPUs."""
    return facts.series_class != "other" or facts.source is not None or bool(sku.gpus)


def _merged(skus: Iterable[Sku], region: str) -> list[Sku]:
    """Return one record per size of the region; what is known of a duplicate is kept."""
    by_size: dict[str, Sku] = {}
    for sku in skus:
        if region_key(sku.region) == region:
            key = size_key(sku.name)
            by_size[key] = _merge(by_size[key], sku) if key in by_size else sku
    return list(by_size.values())


def _merge(first: Sku, second: Sku) -> Sku:
    missing = {
        field: getattr(second, field)
        for field in first.__struct_fields__
        if getattr(first, field) is None
    }
    return structs.replace(
        first,
        **missing,
        zones=tuple(sorted({*first.zones, *second.zones})),
        restrictions=tuple(dict.fromkeys((*first.restrictions, *second.restrictions))),
    )


# --- one row


def _offer(sku: Sku, facts: GpuFacts, place: _Place) -> Offer:
    retirement = _earlier(sku.retirement_date, facts.retirement_date)
    access, reason = _access(sku, facts, retirement, place.today)
    zones = _usable_zones(sku)
    count = _gpu_count(sku, facts)
    family = known_quota(place.quotas.get(quota_key(sku.family))) if sku.family else None
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


def _first(*values: Any) -> Any:
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


def _not_negative(value: int | None) -> int | None:
    return None if value is None or value < 0 else value


def _pool(place: _Place, name: str) -> Quota | None:
    return known_quota(place.quotas.get(quota_key(name)))


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
    return None if fit_vms is None else fit_vms >= 1


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


# --- filters


def select(
    offers: Iterable[Offer],
    *,
    families: Sequence[str] | None = None,
    gpus: Sequence[str] = (),
    min_gpus: float | None = None,
    min_gpu_memory_gib: float | None = None,
    startable: bool = False,
    spot: bool = False,
    sizes: Sequence[str] = (),
) -> tuple[Offer, ...]:
    """Keep the rows that pass every filter, in their order; a filter drops rows it cannot judge.

    ``families`` are classes of ``FAMILIES`` or ``all``. None means NC, ND and NV; naming GPU models
    lifts it to every class but the confidential NCC, naming sizes to every class.
    ``min_gpu_memory_gib`` is per GPU: what one whole GPU has, or the share that the VM gets.
    ``startable`` keeps what access and quota allow now, of the spot pool when ``spot`` is set too;
    ``spot`` alone keeps what can run as spot. ``sizes`` are names, or patterns with ``*``.
    Raises UsageError for an unknown family class or GPU model, and for a least that is no number.
    """
    rows = tuple(offers)
    _check_least(min_gpus, "GPUs")
    _check_least(min_gpu_memory_gib, "GiB of GPU memory")
    classes = _classes(families, gpus, sizes)
    _check_models(gpus, rows)
    return tuple(
        o
        for o in rows
        if (classes is None or o.series_class in classes)
        and (not gpus or any(is_model(g, o) for g in gpus))
        and (not sizes or any(size_matches(s, o.size) for s in sizes))
        and _at_least(o.gpu_count, min_gpus)
        and _at_least(memory_per_gpu_gib(o), min_gpu_memory_gib)
        and (not spot or o.spot_capable is True)
        and (not startable or is_startable(o, spot=spot) is True)
    )


def is_startable(offer: Offer, *, spot: bool = False) -> bool | None:
    """Tell whether access and quota allow at least one VM; None when that is not known."""
    return _startable(offer.access, offer.spot_fit_vms) if spot else offer.startable


def unlisted_sizes(
    names: Iterable[str], offers: Iterable[Offer], known: Iterable[str] | None = None
) -> UsageError | None:
    """Return the error for the first name or pattern that fits no size at all, None when all do.

    A size that is in ``known`` (by default all sizes of our data) is a size, listed here or not.
    """
    sizes = {o.size: None for o in offers} | dict.fromkeys(
        gpu_facts.all_sizes() if known is None else known
    )
    for name in names:
        if not any(size_matches(name, size) for size in sizes):
            return _unknown_size(name, list(sizes))
    return None


def _unknown_size(name: str, sizes: Sequence[str]) -> UsageError:
    """Compare without the prefix, which would make all sizes look alike."""
    by_key = {size_key(size): size for size in sizes}
    close = [by_key[key] for key in close_names(size_key(name), by_key)]
    hint = f"Did you mean {' or '.join(close)}?" if close else "`ai4infra recon` lists the sizes."
    return UsageError(f"There is no GPU size called {name!r}.", hint=hint)


def _classes(
    families: Sequence[str] | None, gpus: Sequence[str], sizes: Sequence[str]
) -> frozenset[str] | None:
    """Return the classes to keep, None for all."""
    if families is None:
        if sizes:
            return None
        return frozenset({*FAMILIES, "other"} - {"NCC"} if gpus else DEFAULT_FAMILIES)
    wanted = {family.strip().upper() for family in families}
    for family in families:
        if family.strip().upper() not in {*FAMILIES, ALL_FAMILIES.upper()}:
            raise unknown_name(
                "family class",
                family,
                (*FAMILIES, ALL_FAMILIES),
                listing=f"One of {', '.join(FAMILIES)} or {ALL_FAMILIES}.",
            )
    return None if ALL_FAMILIES.upper() in wanted else frozenset(wanted)


def _check_models(gpus: Sequence[str], rows: Sequence[Offer]) -> None:
    listed = [o.gpu_model for o in rows if o.gpu_model]
    for name in gpus:
        known = gpu_facts.model_named(name) or any(gpu_facts.gpu_matches(name, m) for m in listed)
        if not known:
            models = dict.fromkeys((*gpu_facts.models(), *listed))
            raise unknown_name(
                "GPU model", name, models, listing=f"Known models: {', '.join(models)}."
            )


def _check_least(least: float | None, what: str) -> None:
    if least is not None and not 0 <= least < math.inf:
        raise UsageError(f"{least} is no number of {what}.", hint="Give a number such as 4 or 0.5.")


def _at_least(value: float | None, least: float | None) -> bool:
    return least is None or (value is not None and value >= least)


# --- order


_KEYS: dict[str, Callable[[Offer], Any]] = {
    "size": lambda o: natural_key(o.size),
    "price": lambda o: o.price_per_hour,
    "gpu-price": lambda o: o.price_per_gpu_hour,
    "fit": lambda o: o.fit_vms,
    "gpus": lambda o: o.gpu_count,
    "gpu-memory": lambda o: o.gpu_memory_gib,
    "memory": lambda o: o.memory_gib,
    "region": lambda o: natural_key(o.region),
}
_SPOT_KEYS: dict[str, Callable[[Offer], Any]] = {
    "price": lambda o: o.spot_price_per_hour,
    "gpu-price": lambda o: o.spot_price_per_gpu_hour,
    "fit": lambda o: o.spot_fit_vms,
}
SORT_KEYS = tuple(_KEYS)
"""Keys of ``sort``; ``memory`` is the VM's RAM, ``gpu-memory`` that of all its GPUs."""


def sort(offers: Iterable[Offer], key: str = "size", *, spot: bool = False) -> tuple[Offer, ...]:
    """Sort by one of ``SORT_KEYS``, downwards with a hyphen before it (``-price``).

    Unknown values come last both ways; equal ones keep their order. ``spot`` takes spot prices and
    the spot pool. Raises UsageError for another key.
    """
    name = key.removeprefix("-")
    if name not in _KEYS:
        raise unknown_name(
            "sort key", key, SORT_KEYS, listing=f"One of {', '.join(SORT_KEYS)}; -price descends."
        )
    value = (_SPOT_KEYS if spot else {}).get(name, _KEYS[name])
    rows = tuple(offers)
    known = [o for o in rows if value(o) is not None]
    unknown = [o for o in rows if value(o) is None]
    return (*sorted(known, key=value, reverse=key.startswith("-")), *unknown)


# --- summary


def summary(
    offers: Iterable[Offer], region_quotas: Iterable[RegionQuota] = (), *, spot: bool = False
) -> Summary:
    """Add the rows up: what can be started, what blocks the rest, and what to do about it.

    Each row that cannot be started counts under one reason. ``region_quotas`` give the numbers for
    requests for a regional total. ``spot`` judges by the spot pool.
    """
    rows = tuple(offers)
    verdicts = [is_startable(o, spot=spot) for o in rows]
    stuck = [o for o, verdict in zip(rows, verdicts, strict=True) if verdict is False]
    reasons = Counter(_blocker(o, spot) for o in stuck)
    pools = {(q.subscription_id, region_key(q.region)): q for q in region_quotas}
    return Summary(
        sizes=len(rows),
        startable=verdicts.count(True),
        unknown=verdicts.count(None),
        blocked_by=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        actions=tuple(_actions(rows, stuck, pools, spot)),
    )


def _blocker(offer: Offer, spot: bool) -> str:
    """Name the one reason that keeps a row from being started."""
    if offer.access == "blocked":
        code = (offer.access_reason or "").partition(":")[0]
        return _BLOCKERS.get(code, code)
    if offer.access == "retired":
        return "retired"
    if spot:
        return "not a spot size" if offer.spot_capable is False else _used_up(SPOT_QUOTA)
    if offer.fit_limit == "regional":
        return _used_up(REGIONAL_QUOTA)
    return "family quota is 0" if offer.quota_limit == 0 else _used_up("family quota")


def _used_up(name: str) -> str:
    return f"{quota_title(name)} used up or too small"


def _actions(
    rows: Sequence[Offer],
    stuck: Sequence[Offer],
    pools: Mapping[tuple[str, str], RegionQuota],
    spot: bool,
) -> Iterator[str]:
    """Say what helps, what is quickest first: elsewhere, quota, access, offer type."""
    yield from _elsewhere(rows, spot)
    yield from _quota_actions(stuck, pools, spot)
    blocked = [o for o in stuck if o.access == "blocked" and o.retirement_date is None]
    no_access = [o for o in blocked if _blocker(o, spot) == _BLOCKERS[_NO_ACCESS]]
    if no_access:
        yield f"Ask for access to {_where(no_access)}: {REGION_ACCESS_PAGE}"
    not_entitled = [o for o in blocked if _blocker(o, spot) == _BLOCKERS[_NOT_ENTITLED]]
    if not_entitled:
        yield (
            f"The subscription's offer type does not include {_where(not_entitled)}: use a"
            " subscription of another offer type (pay-as-you-go, Enterprise Agreement), or ask"
            " Azure support to change this one."
        )
    unknown = [o for o in rows if is_startable(o, spot=spot) is None]
    if unknown:
        yield (
            f"The quota of {_where(unknown)} is not known: `ai4infra quota list` shows what Azure"
            " tells, a support request asks for the rest."
        )
    zonal = [o for o in rows if o.access in ("zone-limited", "regional-only")]
    if zonal:
        yield f"Where a zone matters, ask for the zones of {_where(zonal)}: {ZONE_ACCESS_PAGE}"


def _elsewhere(rows: Sequence[Offer], spot: bool) -> Iterator[str]:
    """Name the regions of this answer where a model can be started that others refuse."""
    good: dict[str, list[Offer]] = {}
    listed: dict[str, set[str]] = {}
    for row in rows:
        if row.gpu_model:
            listed.setdefault(row.gpu_model, set()).add(row.region)
            if is_startable(row, spot=spot):
                good.setdefault(row.gpu_model, []).append(row)
    lines = [
        f"{model} can be started in {_some({o.region for o in startable})}"
        f" ({_some({o.size for o in startable})})."
        for model, startable in good.items()
        if listed[model] - {o.region for o in startable}
    ]
    yield from sorted(lines)[:_ACTIONS_OF_A_KIND]


def _quota_actions(
    stuck: Sequence[Offer], pools: Mapping[tuple[str, str], RegionQuota], spot: bool
) -> Iterator[str]:
    """Give the requests that would let one VM start: training sizes (ND, NC) before the rest."""
    asks: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row in stuck:
        for name, used in _full_limits(row, pools, spot):
            ask = (row.subscription_id, row.region, name)
            asks.setdefault(ask, []).append((_use_rank(row), used + (row.vcpus or 0)))
    ranked = sorted(asks, key=lambda ask: (min(asks[ask])[0], -len(asks[ask]), ask))
    for subscription_id, region, name in ranked[:_ACTIONS_OF_A_KIND]:
        wanted = QuotaWanted(
            subscription_id=subscription_id,
            region=region,
            family=name,
            limit_vcpus=min(vcpus for _, vcpus in asks[subscription_id, region, name]),
        )
        yield quota_command(wanted)


def _use_rank(row: Offer) -> int:
    order = ("ND", "NC", "NCC", "NV")
    return order.index(row.series_class) if row.series_class in order else len(order)


def _full_limits(
    row: Offer, pools: Mapping[tuple[str, str], RegionQuota], spot: bool
) -> Iterator[tuple[str, int]]:
    """Yield (quota name, used) of each known limit that leaves no room for one VM."""
    if row.access in ("blocked", "retired") or not row.vcpus or (spot and not row.spot_capable):
        return
    for quota in limits_of(row, pools.get((row.subscription_id, row.region)), spot=spot):
        if quota.used is not None and quota.free is not None and quota.free < row.vcpus:
            yield quota.name, quota.used


def limits_of(offer: Offer, pools: RegionQuota | None, *, spot: bool = False) -> tuple[Quota, ...]:
    """Return the quota rows that a VM of this offer counts against, unknown numbers as None."""
    if spot:
        return (known_quota(pools.spot if pools else None) or _unread(SPOT_QUOTA, offer.region),)
    family = Quota(
        name=offer.quota_family or f"the unknown family of {offer.size}",
        label=offer.quota_family or f"the unknown family of {offer.size}",
        region=offer.region,
        used=offer.quota_used,
        limit=offer.quota_limit,
    )
    total = known_quota(pools.regional if pools else None)
    return (total or _unread(REGIONAL_QUOTA, offer.region), family)


def _unread(name: str, region: str) -> Quota:
    return Quota(name=name, label=name, region=region, used=None, limit=None)


def _where(rows: Sequence[Offer]) -> str:
    return f"{_some(r.size for r in rows)} in {_some(r.region for r in rows)}"


def _some(names: Iterable[str]) -> str:
    """List a few names, and say how many more there are."""
    every = sorted(set(names), key=natural_key)
    more = len(every) - _NAMES_SHOWN
    shown = ", ".join(every[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
