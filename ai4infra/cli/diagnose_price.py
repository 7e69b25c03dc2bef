"""What the VM of ``watch`` and ``replay`` costs an hour: said, or read in the public price list."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import F, Options, filled, number, switch

if TYPE_CHECKING:
    from ai4infra.diagnosis.answer import Diagnosis, Question
    from ai4infra.diagnosis.series import Collector
    from ai4infra.model import Price


def priced(function: F) -> F:
    """Give a command the options that turn lost GPU time into money."""
    options: tuple[Callable[[F], F], ...] = (
        click.option(
            "--price",
            metavar="AMOUNT",
            callback=_price,
            help="What the VM costs an hour.  [default: its list price, of size and region]",
        ),
        click.option(
            "-r",
            "--region",
            "-l",
            "--location",
            "region",
            metavar="REGION",
            callback=filled,
            shell_complete=complete.regions,
            help="Region of the VM, for its list price.  [default: as the VM knows it]",
        ),
        switch("--no-prices", "--no-price", help="Do not ask for list prices."),
        click.option(
            "--currency",
            default="USD",
            metavar="CODE",
            callback=_currency,
            help="Currency of --price and of list prices.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _price(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    amount = number(ctx, param, value)
    if amount is not None and not (amount >= 0 and math.isfinite(amount)):
        raise click.BadParameter(f"{value!r} is no price", ctx, param)
    return amount


def _currency(ctx: click.Context, param: click.Parameter, value: str) -> str:
    code = value.strip().upper()
    if not (len(code) == 3 and code.isascii() and code.isalpha()):
        raise click.BadParameter(f"{value!r} is no currency code, such as USD or EUR", ctx, param)
    return code


def in_money(
    found: Diagnosis,
    collected: Collector,
    question: Question,
    options: Options,
    given: dict[str, Any],
) -> Diagnosis:
    """Return a diagnosis with its lost GPU time at list price, where no price was said.

    The price list is asked only when something is lost, and size and region are known. A price
    that cannot be had is a warning and no money.
    """
    region = given["region"] or question.host.region
    size = question.size.size if question.size else None
    if question.price_per_hour is not None or given["no_prices"] or not (size and region):
        return found
    if not found.verdict.lost_share:
        return found
    from ai4infra.diagnosis.verdict import diagnose

    price, warnings = _listed(options, region, size, given["currency"])
    asked = question._replace(remarks=(*question.remarks, *warnings))
    return diagnose(collected, _at_price(asked, price, f"{size} in {region}") if price else asked)


def _listed(
    options: Options, region: str, size: str, currency: str
) -> tuple[Price | None, tuple[str, ...]]:
    """Return the list price of a size, with what there is to say about it."""
    from ai4infra.cli.start import started
    from ai4infra.errors import Ai4infraError
    from ai4infra.ids import region_key

    place = region_key(region)
    if not (place.isascii() and place.isalnum()):
        return None, (f"{region!r} is no region; the list price is unknown.",)
    try:
        with started(options) as (az, out):
            out.progress("asking for the list price …")
            listing = az.list_prices([place], currency=currency)
            out.end_progress()
    except Ai4infraError as error:
        return None, (f"The list price is unknown: {error}",)
    price = listing.of(place, size).on_demand
    missing = f"There is no list price of {size} in {region}; what is lost has no price."
    # Of the region's other sizes nobody asked.
    about = [w for w in listing.warnings if size.casefold() in w.casefold()]
    said = about if place in listing.regions else listing.warnings
    return price, () if price else tuple(said) or (missing,)


def _at_price(question: Question, price: Price, what: str) -> Question:
    since = f", in force since {price.effective_date}" if price.effective_date else ""
    return question._replace(
        price_per_hour=price.per_hour,
        currency=price.currency,
        price_basis=f"list price of {what}, {price.per_hour:,.2f} {price.currency} an hour"
        f" (pay-as-you-go, Linux{since})",
    )
