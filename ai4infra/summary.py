"""What offers add up to: how many can be started, what is in the way, what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ai4infra.ids import region_key
from ai4infra.model import Offer, RegionQuota, Summary
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA, QuotaWanted, quota_command, quota_title
from ai4infra.recon import (
    NO_ACCESS,
    NOT_ENTITLED,
    SUBSCRIPTION_OFF,
    is_startable,
    limits_of,
    natural_key,
)

CAVEAT = (
    "Listing and quota are not capacity: only an attempt to allocate proves that Azure has"
    " the hardware free."
)
REGION_ACCESS_PAGE = (
    "https://learn.microsoft.com/troubleshoot/azure/general/region-access-request-process"
)
ZONE_ACCESS_PAGE = (
    "https://learn.microsoft.com/troubleshoot/azure/general/"
    "zonal-enablement-request-for-restricted-vm-series"
)

_BLOCKERS = {
    NO_ACCESS: "no access in the region",
    NOT_ENTITLED: "offer type not entitled",
    SUBSCRIPTION_OFF: "subscription not enabled",
}
_ACTIONS_OF_A_KIND = 3
_NAMES_SHOWN = 3


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
        unknown_access=sum(
            verdict is None and o.access == "unknown"
            for o, verdict in zip(rows, verdicts, strict=True)
        ),
        blocked_by=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        actions=tuple(_actions(rows, stuck, pools, spot)),
    )


def _blocker(offer: Offer, spot: bool) -> str:
    """Name the one reason that keeps a row from being started."""
    if offer.access == "blocked":
        # Two codes are "A: why; B: why", a code without a meaning may be "C; retired on …".
        code = (offer.access_reason or "").partition(":")[0].partition(";")[0]
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
    no_access = [o for o in blocked if _blocker(o, spot) == _BLOCKERS[NO_ACCESS]]
    if no_access:
        yield f"Ask for access to {_where(no_access)}: {REGION_ACCESS_PAGE}"
    not_entitled = [o for o in blocked if _blocker(o, spot) == _BLOCKERS[NOT_ENTITLED]]
    if not_entitled:
        yield (
            f"The subscription's offer type does not include {_where(not_entitled)}: use a"
            " subscription of another offer type (pay-as-you-go, Enterprise Agreement), or ask"
            " Azure support to change this one."
        )
    off = [o for o in blocked if _blocker(o, spot) == _BLOCKERS[SUBSCRIPTION_OFF]]
    if off:
        yield "Ask the subscription's owner to enable it again, or choose another: --subscription."
    yield from _other_reasons([o for o in blocked if o not in (*no_access, *not_entitled, *off)])
    unknown = [o for o in rows if is_startable(o, spot=spot) is None]
    yield from _unknown_access([o for o in unknown if o.access == "unknown"])
    unknown_quota = [o for o in unknown if o.access != "unknown"]
    if unknown_quota:
        yield (
            f"The quota of {_where(unknown_quota)} is not known: `ai4infra quota list` shows what"
            " Azure tells, a support request asks for the rest."
        )
    zonal = [o for o in rows if o.access in ("zone-limited", "regional-only")]
    if zonal:
        yield f"Where a zone matters, ask for the zones of {_where(zonal)}: {ZONE_ACCESS_PAGE}"


def _other_reasons(rows: Sequence[Offer]) -> Iterator[str]:
    if rows:
        codes = _some({_blocker(row, False) for row in rows})
        yield (
            f"Azure closes {_where(rows)} and says only {codes}: a support request tells what that"
            " asks for."
        )


def _unknown_access(rows: Sequence[Offer]) -> Iterator[str]:
    if rows:
        yield (
            f"Whether you have access to {_where(rows)} is not known, since Azure's size list has a"
            f" restriction that cannot be read: az vm list-skus --location {rows[0].region} --size"
            f" {rows[0].size} --all shows it."
        )


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


def _where(rows: Sequence[Offer]) -> str:
    return f"{_some(r.size for r in rows)} in {_some(r.region for r in rows)}"


def _some(names: Iterable[str]) -> str:
    """List a few names, and say how many more there are."""
    every = sorted(set(names), key=natural_key)
    more = len(every) - _NAMES_SHOWN
    shown = ", ".join(every[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
