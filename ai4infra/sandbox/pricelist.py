"""Builds rows of the retail price list: every class of row that the real list mixes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
HOURS_PER_YEAR = 8760
_METERS = uuid.UUID("9a1f3c52-3a55-4a33-a9a5-6d4b6c0f7d11")


@dataclass(frozen=True)
class Rates:
    """How the other prices follow from the Linux on-demand price."""

    effective_date: str
    spot_factor: float
    spot_factors: dict[str, float]
    """Sizes with a spot factor of their own."""
    low_priority_factor: float
    windows_per_vcpu: float


def price_rows(
    rates: Rates, *, size: str, region: str, location: str, vcpus: int, per_hour: float
) -> Iterator[Row]:
    """Yield the rows of one size in one region, on-demand Linux neither first nor last."""
    meter = size.removeprefix("Standard_").replace("_", " ")
    product = f"Virtual Machines {_series(size)} Series"
    spot = per_hour * rates.spot_factors.get(size, rates.spot_factor)
    windows = per_hour + rates.windows_per_vcpu * vcpus

    def row(product: str, meter: str, price: float, type_: str, **fields: Any) -> Row:
        key = f"{region}/{product}/{meter}"
        return {
            "currencyCode": "USD",
            "tierMinimumUnits": 0.0,
            "retailPrice": round(price, 6),
            "unitPrice": round(price, 6),
            "armRegionName": region,
            "location": location,
            "effectiveStartDate": rates.effective_date,
            # A reservation shares the meter of its on-demand row.
            "meterId": str(uuid.uuid5(_METERS, key)),
            "meterName": meter,
            "productName": product,
            "skuName": meter,
            "serviceName": "Virtual Machines",
            "serviceId": "DZH313Z7MMC8",
            "serviceFamily": "Compute",
            "unitOfMeasure": "1 Hour",
            "type": type_,
            "isPrimaryMeterRegion": True,
            "armSkuName": size,
            **fields,
        }

    yield row(f"{product} Windows", meter, windows, "Consumption")
    yield row(product, f"{meter} Spot", spot, "Consumption")
    yield row(f"{product} Windows", f"{meter} Spot", spot + windows - per_hour, "Consumption")
    low = per_hour * rates.low_priority_factor
    yield row(product, f"{meter} Low Priority", low, "Consumption")
    for years, part in ((1, 0.64), (3, 0.44)):
        term = per_hour * part * HOURS_PER_YEAR * years
        name = "1 Year" if years == 1 else f"{years} Years"
        yield row(product, meter, term, "Reservation", reservationTerm=name)
    yield row(product, meter, per_hour, "Consumption")
    yield row(f"{product} Windows", meter, per_hour, "DevTestConsumption")
    yield row(f"{_series(size)} Series Cloud Services", meter, windows, "Consumption")


def _series(size: str) -> str:
    """Return the series in the price list's manner: ``NCads A100 v4`` for NC24ads_A100_v4."""
    first, *rest = size.removeprefix("Standard_").split("_")
    letters = "".join(c for c in first if not c.isdigit() and c != "-")
    return " ".join([letters, *rest])
