"""List prices of GPU sizes from the public Retail Prices API: pay-as-you-go, Linux.

Source of the field meanings and filter rules: learn.microsoft.com, "Azure Retail Prices".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timezone
from http import HTTPStatus

import msgspec

from ai4infra.cloud.cache import PRICE_SECONDS, Cache
from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.rows import decode_rows
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, NetworkError, UsageError
from ai4infra.ids import region_key, size_key
from ai4infra.model import Price, SizePrices

API_VERSION = "2023-01-01-preview"
_NOT_LINUX_VM = re.compile(
    r"\bwindows\b|\bwin\b|cloud ?services?|\bdedicated\b|low ?priority|dev ?/? ?test|"
    r"reserv(?:ed|ation)|\bexpired\b",
    re.I,
)
_SPOT = re.compile(r"\bspot\b", re.I)


class RegionPrices(msgspec.Struct, frozen=True, kw_only=True):
    """List prices of one region, by size key (see ``ids.size_key``)."""

    sizes: dict[str, SizePrices] = {}
    warnings: tuple[str, ...] = ()


class PriceListing(msgspec.Struct, frozen=True, kw_only=True):
    """List prices of several regions; what has no price is unknown, never zero."""

    currency: str
    regions: dict[str, RegionPrices] = {}
    warnings: tuple[str, ...] = ()

    def of(self, region: str, size: str) -> SizePrices:
        """Return the prices of a size in a region; empty where there are none."""
        here = self.regions.get(region_key(region), RegionPrices())
        return here.sizes.get(size_key(size), SizePrices())


class _Row(msgspec.Struct, rename="camel"):
    arm_sku_name: str | None = None
    arm_region_name: str | None = None
    product_name: str | None = None
    sku_name: str | None = None
    meter_name: str | None = None
    meter_id: str | None = None
    service_name: str | None = None
    type: str | None = None
    unit_of_measure: str | None = None
    currency_code: str | None = None
    retail_price: float | None = None
    tier_minimum_units: float | None = None
    effective_start_date: str | None = None
    effective_end_date: str | None = None
    is_primary_meter_region: bool | None = None


def check_currency(currency: str) -> str:
    """Return the currency code in capitals. Raises UsageError when it can't be one."""
    code = currency.strip().upper()
    if not re.fullmatch(r"[A-Z]{3}", code):
        raise UsageError(
            f"{currency!r} is no currency code.", hint="Use three letters, such as USD or EUR."
        )
    return code


def prices(
    session: Session,
    regions: Iterable[str],
    currency: str = "USD",
    *,
    cache: Cache | None = None,
    today: date | None = None,
) -> PriceListing:
    """Return the list prices of the N series in the regions.

    Never fails for the price service's sake: what it doesn't tell is unknown, with one warning.
    Answers are cached for a day. ``today`` decides which rows are in force. Raises UsageError
    for a currency that cannot be one, or that the price list does not have.
    """
    currency = check_currency(currency)
    names = list(dict.fromkeys(map(region_key, regions)))
    endpoint = session.cloud.prices
    if endpoint is None:
        no_prices = f"The cloud {session.cloud.name} has no price list to ask; prices are unknown."
        return PriceListing(currency=currency, warnings=(no_prices,))
    asker = _Asker(session, endpoint, currency, cache, today or datetime.now(timezone.utc).date())
    outcomes = fan_out(asker.ask, names)
    _check_known(currency, [o.error for o in outcomes if o.error])
    found = {outcome.item: outcome.value for outcome in outcomes if outcome.value is not None}
    warnings = [warning for each in found.values() for warning in each.warnings]
    return PriceListing(
        currency=currency,
        regions=found,
        warnings=(*_failures([o.error for o in outcomes if o.error]), *warnings),
    )


def _check_known(currency: str, errors: list[Ai4infraError]) -> None:
    for error in errors:
        if error.status == HTTPStatus.BAD_REQUEST and "currency" in error.message.casefold():
            raise UsageError(
                f"The price list has no prices in {currency!r}.",
                code=error.code,
                hint="Use a currency that it has, such as USD, EUR, GBP, JPY or AUD.",
            ) from error


def _failures(errors: list[Ai4infraError]) -> list[str]:
    if not errors:
        return []
    more = f" (and {len(errors) - 1} more regions)" if len(errors) > 1 else ""
    return [f"Prices are unknown: {errors[0]}{more}"]


class _Asker:
    """Asks for the prices of one region after the other, and gives up when the host is away."""

    def __init__(
        self, session: Session, endpoint: str, currency: str, cache: Cache | None, today: date
    ) -> None:
        self._session = session
        self._url = f"{endpoint}/api/retail/prices"
        self._currency = currency
        self._cache = cache
        self._today = today
        self._down: NetworkError | None = None

    def ask(self, region: str) -> RegionPrices:
        """Return the prices of one region, from the cache where it has them."""
        key = ("prices", self._url, self._currency, region)
        stored = self._cache.get(key, RegionPrices, PRICE_SECONDS) if self._cache else None
        if stored is not None:
            return stored
        found = choose(self._rows(region), region, self._currency, self._today)
        if self._cache and found.sizes:
            self._cache.put(key, found)
        return found

    def _rows(self, region: str) -> list[_Row]:
        if self._down is not None:
            raise self._down
        try:
            return self._fetch(region)
        except NetworkError as error:
            self._down = error
            raise

    def _fetch(self, region: str) -> list[_Row]:
        what = f"Cannot read the prices of {region}"
        params = {
            "api-version": API_VERSION,
            "currencyCode": f"'{self._currency}'",
            "$filter": (
                f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}' "
                "and priceType eq 'Consumption' and contains(armSkuName, 'Standard_N')"
            ),
        }
        pages = self._session.public_pages(self._url, params=params, what=what)
        return [row for page in pages for row in decode_rows(page, _Row, what)[0]]


def choose(rows: Iterable[_Row], region: str, currency: str, today: date) -> RegionPrices:
    """Choose the on-demand and the spot row of each size; whatever their order.

    Rows that disagree make the price unknown, with a warning: an average is nobody's price.
    """
    groups: dict[str, tuple[list[_Row], list[_Row]]] = {}
    rows = list(rows)
    for row in rows:
        if _counts(row, region, currency, today):
            pair = groups.setdefault(size_key(row.arm_sku_name or ""), ([], []))
            pair[_is_spot(row)].append(row)
    sizes, warnings = {}, []
    for key, (on_demand, spot) in sorted(groups.items()):
        sizes[key] = SizePrices(on_demand=_price(on_demand, currency), spot=_price(spot, currency))
        warnings += _disagreements(region, on_demand, "on-demand")
        warnings += _disagreements(region, spot, "spot")
    return RegionPrices(sizes=sizes, warnings=(*_other_currency(rows, region, currency), *warnings))


def _other_currency(rows: Iterable[_Row], region: str, currency: str) -> list[str]:
    """Say that the list answers in another currency than it was asked for."""
    said = {row.currency_code.upper() for row in rows if row.currency_code}
    if not said or currency in said:
        return []
    found = " and ".join(sorted(said))
    return [f"{region}: the price list answers in {found}, not in {currency}; left unknown."]


def _counts(row: _Row, region: str, currency: str, today: date) -> bool:
    """Tell whether a row is an hourly price of a Linux VM that holds today."""
    names = f"{row.product_name} {row.sku_name} {row.meter_name}"
    return (
        bool(row.arm_sku_name)
        and region_key(row.arm_region_name or "") == region
        and (row.type or "").casefold() == "consumption"
        and (row.service_name or "Virtual Machines").casefold() == "virtual machines"
        and (row.unit_of_measure or "").casefold() == "1 hour"
        and (row.currency_code or currency).upper() == currency
        and not row.tier_minimum_units
        and (row.retail_price or 0) > 0
        and not _NOT_LINUX_VM.search(names)
        and _in_force(row, today)
    )


def _in_force(row: _Row, today: date) -> bool:
    start, end = _day(row.effective_start_date), _day(row.effective_end_date)
    return (start or "") <= today.isoformat() and (end is None or end > today.isoformat())


def _day(text: str | None) -> str | None:
    return text[:10] if text else None


def _is_spot(row: _Row) -> bool:
    return _SPOT.search(f"{row.sku_name} {row.meter_name}") is not None


def _survivors(rows: list[_Row]) -> list[_Row]:
    """Return the newest rows of each meter; of the primary meters where there are any."""
    newest: dict[str | None, str] = {}
    for row in rows:
        newest[row.meter_id] = max(newest.get(row.meter_id, ""), row.effective_start_date or "")
    left = [row for row in rows if (row.effective_start_date or "") == newest[row.meter_id]]
    return [row for row in left if row.is_primary_meter_region] or left


def _price(rows: list[_Row], currency: str) -> Price | None:
    left = _survivors(rows)
    if len({row.retail_price for row in left}) != 1:
        return None
    row = max(left, key=lambda each: (each.effective_start_date or "", each.meter_id or ""))
    return Price(
        per_hour=row.retail_price or 0.0,
        currency=currency,
        effective_date=_day(row.effective_start_date),
        meter_id=row.meter_id,
    )


def _disagreements(region: str, rows: list[_Row], kind: str) -> list[str]:
    amounts = sorted({row.retail_price or 0.0 for row in _survivors(rows)})
    if len(amounts) < 2:
        return []
    listed = " and ".join(f"{amount:g}" for amount in amounts)
    return [f"{region}: {rows[0].arm_sku_name} has several {kind} prices, {listed}; left unknown."]
