"""``ai4infra recon``: which GPU sizes can be started, how many, and what is in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import (
    SETTINGS,
    Command,
    Options,
    common,
    listed,
    number,
    regions_option,
    switch,
)
from ai4infra.cli.start import started
from ai4infra.errors import EXIT_INCOMPLETE, EXIT_NO

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.client import Azure, Survey
    from ai4infra.model import (
        Alternative,
        NeedAnswer,
        NeedReport,
        Offer,
        Problem,
        Quota,
        Recon,
        RegionQuota,
        Subscription,
    )
    from ai4infra.render import Column, Page, Tone

EXAMPLES = """
ai4infra recon --region eastus2
ai4infra recon -r eastus2 -r westeurope --gpu A100,H100 --startable --sort gpu-price
ai4infra recon --region eastus2 --need 8xStandard_ND96asr_v4
ai4infra recon --all-regions --need 16xH100 -o json
ai4infra recon -r eastus2 -o tsv --query "offers[?startable].[size, fitVms, pricePerHour]"
"""

_REGIONS_IN_FULL = 4


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@regions_option
@switch("--all-regions", help="Every region of the subscription.")
@click.option(
    "--family",
    "families",
    multiple=True,
    callback=listed,
    metavar="NC|ND|NV|all",
    shell_complete=complete.classes,
    help="Class of series; all adds NG, NP (FPGA) and NCC (confidential).  [default: NC, ND, NV]",
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    callback=listed,
    metavar="MODEL",
    shell_complete=complete.models,
    help="GPU model such as A100,H100.",
)
@click.option("--min-gpus", callback=number, metavar="COUNT", help="GPUs in one VM, at least.")
@click.option(
    "--min-gpu-memory", callback=number, metavar="GIB", help="Memory of each GPU, at least."
)
@switch("--startable", help="Only what access and quota allow now.")
@switch("--spot", help="Only what can run as spot, judged by the spot pool.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    callback=listed,
    metavar="NAME",
    shell_complete=complete.sizes,
    help="Size, in any case, with or without Standard_; * stands for anything.",
)
@click.option(
    "--sort",
    metavar="KEY",
    shell_complete=complete.sort_keys,
    help="size, price, gpu-price, fit, gpus, gpu-memory, memory or region; -price descends.",
)
@switch("--no-prices", "--no-price", help="Do not ask for list prices.")
@click.option("--currency", default="USD", metavar="CODE", help="Currency of list prices.")
@switch("--physical-zones", help="Show the physical zones of this subscription.")
@switch("--refresh", help="Ask again for what is cached (sizes 1 h, prices 1 day).")
@click.option(
    "--need",
    "needs",
    multiple=True,
    callback=listed,
    metavar="COUNTxSIZE|COUNTxMODEL",
    help="Answer whether this fits: 8xStandard_ND96asr_v4 (VMs), 16xA100 (GPUs). All together.",
)
@common(many_subscriptions=True)
def recon(options: Options, **given: Any) -> None:
    """Show the GPU sizes that regions list for you: access, quota, prices, and what fits.

    Sizes come from Microsoft.Compute, quota is VM (Microsoft.Compute) quota, prices are retail,
    pay-as-you-go, Linux. Listing and quota are not capacity: only starting a VM proves that there
    is hardware.

    With --need the exit code is 0 when all needs fit one of the regions, and 4 otherwise.
    """
    _check_together(options, given)
    with started(options) as (az, out):
        if given["needs"]:
            _answer(az, out, options, given)
        else:
            _list(az, out, options, given)


def _check_together(options: Options, given: dict[str, Any]) -> None:
    """Refuse options of which one would be ignored."""
    pairs = [
        ("--region", given["regions"], "--all-regions", given["all_regions"]),
        (
            "--subscription",
            options.subscriptions,
            "--all-subscriptions",
            options.all_subscriptions,
        ),
        *((name, given[key], "--need", given["needs"]) for name, key in _FILTERS.items()),
    ]
    for one, first, other, second in pairs:
        if first and second:
            raise click.UsageError(f"{one} and {other} do not go together.")


_FILTERS = {
    "--family": "families",
    "--gpu": "gpus",
    "--min-gpus": "min_gpus",
    "--min-gpu-memory": "min_gpu_memory",
    "--size": "sizes",
    "--startable": "startable",
    "--sort": "sort",
    "--physical-zones": "physical_zones",
}


def _where(options: Options, given: dict[str, Any], out: Output) -> dict[str, Any]:
    """Return the arguments that a survey takes."""
    return {
        "subscriptions": options.subscriptions,
        "all_subscriptions": options.all_subscriptions,
        "all_regions": given["all_regions"],
        "with_prices": not given["no_prices"],
        "currency": given["currency"],
        "physical_zones": given["physical_zones"],
        "refresh": given["refresh"],
        "on_progress": out.progress,
    }


def _list(az: Azure, out: Output, options: Options, given: dict[str, Any]) -> None:
    found = az.recon(
        *given["regions"],
        families=given["families"] or None,
        gpus=given["gpus"],
        min_gpus=given["min_gpus"],
        min_gpu_memory_gib=given["min_gpu_memory"],
        sizes=given["sizes"],
        startable=given["startable"],
        spot=given["spot"],
        sort=given["sort"],
        **_where(options, given, out),
    )
    out.result(_recon_page(found, given))
    _explain(out, found.offers)
    _tell(out, found.warnings, found.problems)
    if found.problems:
        raise click.exceptions.Exit(EXIT_INCOMPLETE)


def _explain(out: Output, offers: Iterable[Offer]) -> None:
    """Say for ``--verbose`` why access is what it is, and what is odd about a row."""
    for offer in offers:
        for note in filter(None, (offer.access_reason, *offer.notes)):
            out.verbose(f"{offer.region}: {offer.size}: {note}")


def _answer(az: Azure, out: Output, options: Options, given: dict[str, Any]) -> None:
    needs = given["needs"]
    az.check_needs(*needs)
    survey = az.survey(*given["regions"], **_where(options, given, out))
    report = az.need_in(survey, *needs, spot=given["spot"])
    out.result(_need_page(report, survey, None if given["no_prices"] else given["currency"]))
    _tell(out, survey.warnings, survey.problems)
    if not report.fits_somewhere:
        raise click.exceptions.Exit(EXIT_INCOMPLETE if survey.problems else EXIT_NO)


def _tell(out: Output, warnings: Iterable[str], problems: Iterable[Problem]) -> None:
    for warning in warnings:
        out.warn(warning)
    for problem in problems:
        out.problem(f"{problem.subject}: {problem.message}", code=problem.code, hint=problem.hint)


# --- the table of sizes


def _recon_page(found: Recon, given: dict[str, Any]) -> Page:
    from ai4infra.model import Offer
    from ai4infra.render import Page, document
    from ai4infra.summary import CAVEAT

    currency = None if given["no_prices"] else given["currency"].upper()
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
        columns=_columns(found, currency, spot=given["spot"], physical=given["physical_zones"]),
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
    from ai4infra.cli.rows import subscription_text

    prices = f"; prices: retail, pay-as-you-go, Linux, {currency.upper()}" if currency else ""
    return [
        *(f"Subscription {subscription_text(s)}" for s in subscriptions),
        f"Quota: VM (Microsoft.Compute){prices}",
    ]


def _tone(offer: Offer) -> Tone | None:
    return "dim" if offer.startable is False else None


def _columns(found: Recon, currency: str | None, *, spot: bool, physical: bool) -> list[Column]:
    from ai4infra.render import Column

    names = {s.id: s.name for s in found.subscriptions}
    columns = [
        Column("Size", lambda o: o.size),
        Column("GPU", _gpu),
        Column("GPU GiB", lambda o: _number(o.gpu_memory_gib, 1), True, 6),
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
    from ai4infra.render import Column

    return [
        Column(f"{currency}/h", lambda o: _money(o.price_per_hour), True, 5 if spot else 1),
        Column("per GPU", lambda o: _money(o.price_per_gpu_hour), True, 9 if spot else 4),
        Column("Spot/h", lambda o: _money(o.spot_price_per_hour), True, 1 if spot else 6),
        Column("Spot/GPU", lambda o: _money(o.spot_price_per_gpu_hour), True, 4 if spot else 9),
    ]


def _number(value: float | None, digits: int = 0) -> str:
    from ai4infra.render import number

    return number(value, digits)


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
    unknown = f", {summary.unknown} with unknown quota" if summary.unknown else ""
    yield f"{_count(summary.sizes, 'size')}: {summary.startable} can be started now{unknown}."
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
    from ai4infra.render import Verbatim

    return Verbatim(f"  {text}") if text.startswith("ai4infra ") else f"  {text}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pools(quotas: RegionQuota, names: dict[str, str]) -> str:
    from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA, quota_title

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


def _need_page(report: NeedReport, survey: Survey, currency: str | None) -> Page:
    from ai4infra.model import NeedAnswer
    from ai4infra.render import Page, document
    from ai4infra.summary import CAVEAT

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
    from ai4infra.render import Column

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
    from ai4infra.plan import quota_title

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
        yield "What fits instead, cheapest per GPU first:"
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
    from ai4infra.plan import quota_title

    for text in answer.blocked:
        yield f"  {text}"
    for lack in answer.shortfalls:
        yield (
            f"  {quota_title(lack.limit)}: {_number(lack.required_vcpus)} vCPUs needed,"
            f" {_number(lack.free_vcpus)} free, {_number(lack.short_vcpus)} short"
            f" (limit to ask for: {_number(lack.new_limit_vcpus)})"
        )


def _alternatives(report: NeedReport, names: dict[str, str], *, with_prices: bool) -> Iterator[str]:
    from ai4infra.render import Column, table_lines

    columns = [
        Column("  Region", lambda a: f"  {a.region}"),
        Column("With", lambda a: f"{a.vms}x{a.size}"),
        Column("GPUs", lambda a: f"{_number(a.gpus, 2)} x {a.gpu_model or '?'}"),
    ]
    if with_prices:
        columns += [
            Column("Price/h", _price_of, True),
            Column("per GPU", lambda a: _money(a.price_per_gpu_hour), True),
        ]
    if len(names) > 1:
        columns.insert(1, Column("Subscription", lambda a: names[a.subscription_id]))
    yield from table_lines(columns, report.alternatives)
