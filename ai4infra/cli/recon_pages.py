"""The pages of ``ai4infra recon``: the table of sizes, and the answer to needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ai4infra.cli.rows import subscription_text
from ai4infra.model import (
    Alternative,
    NeedAnswer,
    NeedReport,
    Offer,
    Quota,
    Recon,
    RegionQuota,
    Subscription,
)
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA, quota_title
from ai4infra.recon import NO_ACCESS, NOT_ENTITLED, SUBSCRIPTION_OFF
from ai4infra.render import Column, Page, Tone, Verbatim, document, number, table_lines
from ai4infra.summary import CAVEAT

if TYPE_CHECKING:
    from ai4infra.client import Survey

_REGIONS_IN_FULL = 4
_BLOCKED_BY = {
    NO_ACCESS: "no access",
    NOT_ENTITLED: "offer type",
    SUBSCRIPTION_OFF: "subscription",
}


# --- the table of sizes


def recon_page(found: Recon, currency: str | None, *, spot: bool, physical: bool) -> Page:
    """Return the table of sizes with what it adds up to; ``currency`` is None without prices."""
    parts = {
        "subscriptions": found.subscriptions,
        "offers": found.offers,
        "region_quotas": found.region_quotas,
        "summary": found.summary,
        "problems": found.problems,
        "warnings": found.warnings,
        "caveat": CAVEAT,
    }
    return Page(
        document=document("recon", **parts),
        rows=found.offers,
        row_type=Offer,
        columns=_columns(found, currency, spot=spot, physical=physical),
        above=_title(found, currency),
        below=[*_summary(found), "", CAVEAT],
        tone=_tone,
    )


def _title(found: Recon, currency: str | None) -> list[str]:
    names = list(dict.fromkeys(q.region for q in found.region_quotas))
    where = ", ".join(names) if len(names) <= _REGIONS_IN_FULL else f"{len(names)} regions"
    return [f"GPU sizes in {where}", *_sources(found.subscriptions, currency)]


def _sources(subscriptions: Sequence[Subscription], currency: str | None) -> list[str]:
    """Say whose answer it is, which quota is meant, and which prices."""
    prices = f"; prices: retail, pay-as-you-go, Linux, {currency}" if currency else ""
    return [
        *(f"Subscription {subscription_text(s)}" for s in subscriptions),
        f"Quota: VM (Microsoft.Compute){prices}",
    ]


def _tone(offer: Offer) -> Tone | None:
    return "dim" if offer.startable is False else None


def _columns(found: Recon, currency: str | None, *, spot: bool, physical: bool) -> list[Column]:
    names = {s.id: s.name for s in found.subscriptions}
    columns = [
        Column("Size", lambda o: o.size),
        Column("GPU", _gpu),
        Column("GPU GiB", lambda o: number(o.gpu_memory_gib, 1), True, 6),
        Column("vCPUs", lambda o: _number(o.vcpus), True, 5),
        Column("RAM GiB", lambda o: _number(o.memory_gib), True, 8),
        Column("NVMe GiB", _nvme, True, 10),
        Column("IB Gb/s", lambda o: _or_none(o.infiniband_gbps), True, 11),
        Column("Zones", lambda o: ",".join(o.zones) or "-", False, 7),
        Column("Access", _access),
        Column("Quota vCPUs", _quota, True, 3),
        Column("Fits", lambda o: _fits(o, o.fit_vms), True, 1 if spot else 0),
        Column("Bound by", _limit, False, 4 if spot else 2),
        Column("Spot fits", lambda o: _fits(o, o.spot_fit_vms), True, 0 if spot else 9),
    ]
    if physical:
        columns.insert(8, Column("Physical zones", lambda o: _list_of(o.physical_zones), False, 7))
    if len({q.region for q in found.region_quotas}) > 1:
        columns.insert(0, Column("Region", lambda o: o.region))
    if len(names) > 1:
        columns.insert(0, Column("Subscription", lambda o: names[o.subscription_id]))
    return [*columns, *(_price_columns(currency, spot=spot) if currency else [])]


def _price_columns(currency: str, *, spot: bool) -> list[Column]:
    return [
        Column(f"{currency}/h", lambda o: _money(o.price_per_hour), True, 5 if spot else 1),
        Column("per GPU", lambda o: _money(o.price_per_gpu_hour), True, 9 if spot else 4),
        Column("Spot/h", lambda o: _money(o.spot_price_per_hour), True, 1 if spot else 6),
        Column("Spot/GPU", lambda o: _money(o.spot_price_per_gpu_hour), True, 4 if spot else 9),
    ]


def _number(value: float | None) -> str:
    return number(value, 0)


def _money(value: float | None) -> str:
    return "?" if value is None else f"{value:,.2f}" if value >= 0.1 else f"{value:.3f}"


def _or_none(value: float | None) -> str:
    return "-" if value == 0 else _number(value)


def _list_of(values: Sequence[str] | None) -> str:
    return "?" if values is None else ",".join(values) or "-"


def _gpu(offer: Offer) -> str:
    return f"{offer.gpu_count_text or '?':>3} x {offer.gpu_model or '?'}"


def _nvme(offer: Offer) -> str:
    disks = f" ({offer.local_nvme_disks})" if (offer.local_nvme_disks or 0) > 1 else ""
    return f"{_or_none(offer.local_nvme_gib)}{disks}"


def _access(offer: Offer) -> str:
    if offer.access in ("retiring", "retired") and offer.retirement_date:
        return f"{offer.access} {offer.retirement_date}"
    if offer.access == "blocked":
        code = (offer.access_reason or "").partition(":")[0].partition(";")[0]
        return f"blocked: {_BLOCKED_BY.get(code, code) or '?'}"
    return offer.access


def _fits(offer: Offer, vms: int | None) -> str:
    """Show how many VMs quota allows; where access allows none, quota does not matter."""
    return "-" if _closed(offer) else _number(vms)


def _limit(offer: Offer) -> str:
    """Name what binds ``fit_vms``: access, or one of the limits."""
    if _closed(offer):
        return "access"
    return "regional total" if offer.fit_limit == "regional" else offer.fit_limit or "?"


def _closed(offer: Offer) -> bool:
    return offer.access in ("blocked", "retired")


def _quota(offer: Offer) -> str:
    return f"{_number(offer.quota_used)}/{_number(offer.quota_limit)}"


def _summary(found: Recon) -> Iterator[str]:
    """Say what the rows add up to, what the regional pools hold, and what to do."""
    summary = found.summary
    unknown = {"quota": summary.unknown - summary.unknown_access, "access": summary.unknown_access}
    said = "".join(f", {rows} with unknown {what}" for what, rows in unknown.items() if rows)
    yield f"{_count(summary.sizes, 'size')}: {summary.startable} can be started now{said}."
    if summary.blocked_by:
        blocked = ", ".join(f"{number} {why}" for why, number in summary.blocked_by.items())
        yield f"In the way: {blocked}."
    if len(found.region_quotas) <= _REGIONS_IN_FULL:
        names = {s.id: s.name for s in found.subscriptions}
        yield from (_pools(quotas, names) for quotas in found.region_quotas)
    if summary.actions:
        yield ""
        yield "What to do:"
        yield from map(_action, summary.actions)


def _action(text: str) -> str:
    """Indent what to do; a command stays on one line."""
    return Verbatim(f"  {text}") if text.startswith("ai4infra ") else f"  {text}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pools(quotas: RegionQuota, names: dict[str, str]) -> str:
    return (
        f"{_place(quotas.region, quotas.subscription_id, names)}: {_used(quotas.regional)} vCPUs of"
        f" the {quota_title(REGIONAL_QUOTA)} used, {_used(quotas.spot)} of the"
        f" {quota_title(SPOT_QUOTA)}."
    )


def _place(region: str, subscription_id: str, names: dict[str, str]) -> str:
    """Name a region, and the subscription where there are several."""
    return f"{region} ({names[subscription_id]})" if len(names) > 1 else region


def _used(quota: Quota | None) -> str:
    return f"{_number(quota.used)} of {_number(quota.limit)}" if quota else "unknown"


# --- the answer to needs


_VERDICTS = {True: "FITS", False: "DOES NOT FIT", None: "UNKNOWN"}


def need_page(report: NeedReport, survey: Survey, currency: str | None) -> Page:
    """Return the answers to needs, and why they are what they are."""
    parts = {
        "subscriptions": survey.subscriptions,
        "needs": report.needs,
        "fits_somewhere": report.fits_somewhere,
        "answers": report.answers,
        "alternatives": report.alternatives,
        "problems": survey.problems,
        "warnings": survey.warnings,
        "caveat": CAVEAT,
    }
    names = {s.id: s.name for s in survey.subscriptions}
    needed = f"Needed: {' and '.join(need.text for need in report.needs)}"
    return Page(
        document=document("need", **parts),
        rows=report.answers,
        row_type=NeedAnswer,
        columns=_need_columns(names, with_prices=currency is not None),
        above=[needed, *_sources(survey.subscriptions, currency)],
        below=[*_need_lines(report, names, with_prices=currency is not None), CAVEAT],
        tone=_verdict_tone,
    )


def _verdict_tone(answer: NeedAnswer) -> Tone | None:
    if answer.fits is None:
        return None
    return "good" if answer.fits else "bad"


def _need_columns(names: dict[str, str], *, with_prices: bool) -> list[Column]:
    columns = [
        Column("Region", lambda a: a.region),
        Column("Answer", lambda a: _VERDICTS[a.fits]),
        Column("With", _with),
        *([Column("Price/h", _price_of, True, 1)] if with_prices else []),
        Column("Short of", _short_of, False, 2),
    ]
    if len(names) > 1:
        columns.insert(0, Column("Subscription", lambda a: names[a.subscription_id]))
    return columns


def _with(answer: NeedAnswer) -> str:
    return " + ".join(f"{p.vms}x{p.size}" for p in answer.placements) or "-"


def _price_of(answer: NeedAnswer | Alternative) -> str:
    return f"{_money(answer.price_per_hour)} {answer.currency or ''}".rstrip()


def _short_of(answer: NeedAnswer) -> str:
    limits = (
        f"{_number(s.short_vcpus)} vCPUs of {quota_title(s.limit)}" for s in answer.shortfalls
    )
    return "; ".join(limits) or ("not available" if answer.blocked else "-")


def _need_lines(report: NeedReport, names: dict[str, str], *, with_prices: bool) -> Iterator[str]:
    """Explain each answer that is no clear yes, then list what fits instead."""
    for answer in _explained(report.answers):
        lines = [*_why(answer), *map(_action, answer.actions)]
        if lines:
            where = _place(answer.region, answer.subscription_id, names)
            yield from (f"{where}: {_VERDICTS[answer.fits].lower()}", *lines, "")
    if report.alternatives:
        order = ", cheapest per GPU first" if with_prices else ""
        yield f"What fits instead{order}:"
        yield from _alternatives(report, names, with_prices=with_prices)
        yield ""
    elif report.fits_somewhere is not True:
        yield "No other size here is known to fit instead within access and quota."
        yield ""


def _explained(answers: Sequence[NeedAnswer]) -> list[NeedAnswer]:
    """Return the answers to explain: of many, those that quota could change."""
    if len(answers) <= _REGIONS_IN_FULL:
        return list(answers)
    near = [answer for answer in answers if answer.fits is not True and not answer.blocked]
    return near[:_REGIONS_IN_FULL]


def _why(answer: NeedAnswer) -> Iterator[str]:
    for text in answer.blocked:
        yield f"  {text}"
    for lack in answer.shortfalls:
        yield (
            f"  {quota_title(lack.limit)}: {_number(lack.required_vcpus)} vCPUs needed,"
            f" {_number(lack.free_vcpus)} free, {_number(lack.short_vcpus)} short"
            f" (limit to ask for: {_number(lack.new_limit_vcpus)})"
        )


def _alternatives(report: NeedReport, names: dict[str, str], *, with_prices: bool) -> Iterator[str]:
    columns = [
        Column("  Region", lambda a: f"  {a.region}"),
        Column("With", lambda a: f"{a.vms}x{a.size}"),
        Column("GPUs", lambda a: f"{number(a.gpus)} x {a.gpu_model or '?'}"),
    ]
    if with_prices:
        columns += [
            Column("Price/h", _price_of, True),
            Column("per GPU", lambda a: _money(a.price_per_gpu_hour), True),
        ]
    if len(names) > 1:
        columns.insert(1, Column("Subscription", lambda a: names[a.subscription_id]))
    yield from table_lines(columns, report.alternatives)
