"""``ai4infra recon``: which GPU sizes can be started, how many, and what is in the way."""

from __future__ import annotations

from collections.abc import Iterable
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
    from ai4infra.client import Azure, Where
    from ai4infra.model import Offer, Problem

EXAMPLES = """
ai4infra recon --region eastus2
ai4infra recon -r eastus2 -r westeurope --gpu A100,H100 --startable --sort gpu-price
ai4infra recon --region eastus2 --need 8xStandard_ND96asr_v4
ai4infra recon --all-regions --need 16xH100 -o json
ai4infra recon -r eastus2 -o tsv --query "offers[?startable].[size, fitVms, pricePerHour]"
"""


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
        ("--sort by price", _by_price(given["sort"]), "--no-prices", given["no_prices"]),
        *((name, given[key], "--need", given["needs"]) for name, key in _FILTERS.items()),
    ]
    for one, first, other, second in pairs:
        if first and second:
            raise click.UsageError(f"{one} and {other} do not go together.")


def _by_price(key: str | None) -> bool:
    return (key or "").removeprefix("-") in ("price", "gpu-price")


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


def _where(options: Options, given: dict[str, Any], out: Output) -> Where:
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


def _currency(given: dict[str, Any]) -> str | None:
    return None if given["no_prices"] else given["currency"].strip().upper()


def _list(az: Azure, out: Output, options: Options, given: dict[str, Any]) -> None:
    from ai4infra.cli.recon_pages import recon_page

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
    out.result(
        recon_page(found, _currency(given), spot=given["spot"], physical=given["physical_zones"])
    )
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
    from ai4infra.cli.recon_pages import need_page

    needs = given["needs"]
    az.check_needs(*needs)
    survey = az.survey(*given["regions"], **_where(options, given, out))
    report = az.need_in(survey, *needs, spot=given["spot"])
    out.result(need_page(report, survey, _currency(given)))
    _tell(out, survey.warnings, survey.problems)
    if not report.fits_somewhere:
        raise click.exceptions.Exit(EXIT_INCOMPLETE if survey.problems else EXIT_NO)


def _tell(out: Output, warnings: Iterable[str], problems: Iterable[Problem]) -> None:
    for warning in warnings:
        out.warn(warning)
    out.problems(problems)
