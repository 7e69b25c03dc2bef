"""The page of ``ai4infra quota list``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ai4infra.cli.rows import QuotaRow, subscription_text
from ai4infra.model import Quota
from ai4infra.render import Column, Page, document, number

if TYPE_CHECKING:
    from ai4infra.client import QuotaLists


def list_page(found: QuotaLists, quotas: Sequence[Quota]) -> Page:
    """Return the table of quota rows, by region."""
    regions = list(dict.fromkeys(q.region for q in found.quotas))
    by_region = sorted(quotas, key=lambda q: regions.index(q.region))
    rows = [QuotaRow.of(found.subscription.id, q) for q in by_region]
    return Page(
        document=document(
            "quotas",
            subscriptions=(found.subscription,),
            quotas=rows,
            problems=found.problems,
        ),
        rows=rows,
        row_type=QuotaRow,
        columns=_list_columns(regions),
        above=[
            f"VM (Microsoft.Compute) quota in {', '.join(regions)}, vCPUs",
            f"Subscription {subscription_text(found.subscription)}",
        ],
        tone=lambda row: "dim" if row.limit == 0 else None,
    )


def _list_columns(regions: Sequence[str]) -> list[Column]:
    columns = [
        Column("Name", lambda q: q.name),
        Column("Label", lambda q: q.label, rank=1),
        Column("Used", lambda q: number(q.used), True),
        Column("Limit", lambda q: number(q.limit), True),
        Column("Free", lambda q: number(q.free), True),
    ]
    if len(regions) > 1:
        columns.insert(0, Column("Region", lambda q: q.region))
    return columns
