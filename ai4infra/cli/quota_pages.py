"""The pages of ``ai4infra quota``: quota rows, and the steps of a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ai4infra.cli.rows import QuotaRow, StepRow, subscription_text
from ai4infra.model import Quota, Receipt, StepResult
from ai4infra.plan import Plan, quota_title
from ai4infra.render import Column, Page, Tone, Verbatim, document, number

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


def plan_page(plan: Plan) -> Page:
    """Return the steps of a plan."""
    results = tuple(StepResult(step=step, state="planned") for step in plan.steps)
    return _steps_page("plan", results, warnings=plan.warnings)


def receipt_page(receipt: Receipt) -> Page:
    """Return what became of each step, and the commands that finish the rest."""
    return _steps_page("receipt", receipt.results, next_commands=receipt.next_commands)


def _steps_page(kind: str, results: Sequence[StepResult], **more: Any) -> Page:
    rows = [StepRow.of(result) for result in results]
    return Page(
        document=document(kind, steps=rows, **more),
        rows=rows,
        row_type=StepRow,
        columns=[
            Column("State", lambda r: r.state),
            Column("Action", lambda r: r.action),
            Column("What", lambda r: f"{r.kind}: {quota_title(r.name)}"),
            Column("Change", lambda r: r.detail),
        ],
        below=[*_remarks(rows), *_next(more.get("next_commands", ()))],
        tone=_step_tone,
    )


def _remarks(rows: Iterable[StepRow]) -> Iterator[str]:
    """Say what there is to say of each step; failures and refusals go to stderr instead."""
    for row in rows:
        said = row.message or row.reason
        if said and row.state != "failed" and row.action != "refuse":
            yield f"{quota_title(row.name)}: {said}"


def _next(commands: Sequence[str]) -> Iterator[str]:
    if commands:
        yield "To finish what is open:"
        yield from (Verbatim(f"  {command}") for command in commands)


def _step_tone(row: StepRow) -> Tone | None:
    tones: dict[str, Tone] = {"done": "good", "failed": "bad", "not reached": "dim", "kept": "dim"}
    return tones.get(row.state)
