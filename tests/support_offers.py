"""Builds sizes, quotas and the offers that come of them, for the tests of the core."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from ai4infra.model import (
    GpuFacts,
    Offer,
    Price,
    Quota,
    Restriction,
    SizePrices,
    Sku,
)
from ai4infra.plan import QuotaWanted, quota_command
from ai4infra.recon import offers

SUBSCRIPTION = "5a1c9f57-6e4d-4b0a-9f3e-2d7c8b1a0e44"
TODAY = date(2026, 3, 2)
A100 = "Standard NDASv4_A100 Family"
NO_ACCESS = "NotAvailableForSubscription"


def a_sku(name: str = "Standard_ND96asr_v4", **fields: Any) -> Sku:
    given = {"region": "eastus2", "family": A100, "zones": ("1", "2", "3"), "vcpus": 96}
    return Sku(name=name, **{**given, **fields})


def facts_of(**fields: Any) -> Any:
    known = {"series_class": "ND", "gpu_model": "A100", "gpu_count": "8", "gpu_memory_gib": 40.0}
    return lambda size: GpuFacts(size=size, **{**known, "source": "a page", **fields})


def request_line(family: str, limit: int) -> str:
    wanted = QuotaWanted(
        subscription_id=SUBSCRIPTION, region="eastus2", family=family, limit_vcpus=limit
    )
    return quota_command(wanted)


def a_quota(name: str, limit: int | None, used: int | None = 0) -> Quota:
    return Quota(name=name, label=f"{name} vCPUs", region="eastus2", used=used, limit=limit)


def plenty() -> list[Quota]:
    return [a_quota(A100, 960), a_quota("cores", 10_000), a_quota("lowPriorityCores", 960)]


def rows(
    *skus: Sku, quotas: Sequence[Quota] | None = None, prices: Any = None, **more: Any
) -> tuple[Offer, ...]:
    given = {"subscription_id": SUBSCRIPTION, "region": "eastus2", "today": TODAY}
    return offers(skus, plenty() if quotas is None else quotas, prices, **{**given, **more})


def row(*skus: Sku, **more: Any) -> Offer:
    (only,) = rows(*(skus or (a_sku(),)), **{"facts": facts_of(), **more})
    return only


def a_price(per_hour: float) -> SizePrices:
    return SizePrices(on_demand=Price(per_hour=per_hour, currency="USD"))


def location(reason: str = NO_ACCESS) -> Restriction:
    return Restriction(kind="Location", reason=reason)


def zonal(*zones: str, reason: str = NO_ACCESS) -> Restriction:
    return Restriction(kind="Zone", reason=reason, zones=zones)
