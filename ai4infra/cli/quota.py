"""``ai4infra quota``: the VM quota of regions, and requests to raise it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import (
    SETTINGS,
    Group,
    HintedUsage,
    Options,
    common,
    regions_option,
    switch,
)
from ai4infra.cli.start import started
from ai4infra.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.cli.rows import StepRow
    from ai4infra.client import Azure, QuotaLists
    from ai4infra.model import Quota, Receipt, StepResult
    from ai4infra.plan import Plan
    from ai4infra.render import Column, Page, Tone

EXAMPLES = """
ai4infra quota list --region eastus2
ai4infra quota request --region eastus2 --family "Standard NDASv4_A100 Family" --limit 768
"""
LIST_EXAMPLES = """
ai4infra quota list --region eastus2
ai4infra quota list -r eastus2 -r westeurope -o csv
ai4infra quota list -r eastus2 --all --query "quotas[?used > `0`].[name, used, limit]" -o tsv
"""
REQUEST_EXAMPLES = """
ai4infra quota request --region eastus2 --family Standard_ND96asr_v4 --limit 768 --dry-run
ai4infra quota request -r eastus2 --family standardNDSH100v5Family --limit 288 --yes
"""

_GPU_PREFIX = "standardn"
_POOLS = ("cores", "lowprioritycores")


@click.group(cls=Group, context_settings=SETTINGS, epilog=EXAMPLES)
def quota() -> None:
    """List VM (Microsoft.Compute) quotas and request higher limits."""


@quota.command("list", context_settings=SETTINGS, epilog=LIST_EXAMPLES)
@regions_option
@switch("--all", help="Every quota row, not only those of GPU families and the regional pools.")
@common()
def list_(options: Options, **given: Any) -> None:
    """Show limit and use of the GPU families' vCPU quota, and of the regional pools.

    A family without a row is unknown: neither zero nor unlimited.
    """
    with started(options) as (az, out):
        found = az.quota_lists(*given["regions"])
        rows = [q for q in found.quotas if given["all"] or _is_gpu(q) or _is_pool(q)]
        out.result(_list_page(found, sorted(rows, key=_is_pool)))
        for problem in found.problems:
            out.problem(
                f"{problem.subject}: {problem.message}", code=problem.code, hint=problem.hint
            )
        if found.problems:
            raise click.exceptions.Exit(EXIT_INCOMPLETE)


def _title(name: str) -> str:
    """Return the name of what a step is about as people read it."""
    from ai4infra.plan import quota_title

    return quota_title(name)


def _is_gpu(row: Quota) -> bool:
    from ai4infra.ids import quota_key

    return quota_key(row.name).startswith(_GPU_PREFIX)


def _is_pool(row: Quota) -> bool:
    return row.name.casefold() in _POOLS


def _list_page(found: QuotaLists, quotas: Sequence[Quota]) -> Page:
    from ai4infra.cli.rows import QuotaRow, subscription_text
    from ai4infra.render import Page, document

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
    from ai4infra.render import Column, number

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


# --- requests


@quota.command("request", context_settings=SETTINGS, epilog=REQUEST_EXAMPLES)
@click.option(
    "-r",
    "--region",
    "-l",
    "--location",
    "region",
    required=True,
    metavar="REGION",
    shell_complete=complete.regions,
    help="Region.",
)
@click.option(
    "--family",
    required=True,
    metavar="NAME",
    shell_complete=complete.quotas,
    help="Quota name as `quota list` shows it, ignoring case and blanks, or a size of the family.",
)
@click.option("--limit", required=True, type=int, metavar="VCPUS", help="The new limit, in vCPUs.")
@switch("--with-regional", help="Raise the regional total too, where it is too low for it.")
@switch("--register", help="Register the subscription for Microsoft.Quota where it is not.")
@switch("--dry-run", help="Show what would be asked for, and ask for nothing.")
@switch("-y", "--yes", help="Do not ask for confirmation.")
@switch("--no-wait", help="Do not wait for the decision.")
@common()
def request(options: Options, **given: Any) -> None:
    """Ask for a higher vCPU limit through Microsoft.Quota, and wait for the decision.

    What is there already is kept, a request in progress is taken up instead of filed again, and
    limits are never lowered.
    """
    with started(options) as (az, out):
        plan = az.plan_quota(
            given["region"],
            given["family"],
            given["limit"],
            with_regional=given["with_regional"],
            register=given["register"],
        )
        for warning in plan.warnings:
            out.warn(warning)
        if given["dry_run"] or plan.refusals:
            out.result(_plan_page(plan))
            _tell_refusals(plan, out)
            raise click.exceptions.Exit(EXIT_FAILED if plan.refusals else 0)
        if plan.changes and not given["yes"]:
            _confirm(plan, out)
        _apply(az, plan, out, wait=not given["no_wait"])


def _tell_refusals(plan: Plan, out: Output) -> None:
    for step in plan.refusals:
        out.problem(f"{_title(step.name)}: {step.reason}", hint=step.hint)


def _confirm(plan: Plan, out: Output) -> None:
    """Show the plan and ask; without a terminal to ask on, refuse."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise HintedUsage(
            "There is no terminal to ask for confirmation on; nothing was sent.",
            hint="Add --yes to go ahead, or --dry-run to see the plan.",
        )
    for step in plan.changes:
        title = f"{step.kind}: {_title(step.name)}"
        click.echo(f"{step.action} {title}, {step.detail}", err=True)
    if not click.confirm("Do this?", err=True):
        out.note("Nothing was sent.")
        raise click.exceptions.Exit(EXIT_FAILED)


def _apply(az: Azure, plan: Plan, out: Output, *, wait: bool) -> None:
    from ai4infra.provision import ApplyInterrupted

    try:
        receipt = az.apply(plan, on_progress=out.progress, wait=wait)
    except ApplyInterrupted as interrupted:
        out.result(_receipt_page(interrupted.receipt))
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    out.result(_receipt_page(receipt))
    _tell_results(receipt.results, out)
    raise click.exceptions.Exit(_code(receipt, wait=wait))


def _tell_results(results: Iterable[StepResult], out: Output) -> None:
    for result in results:
        if result.state == "failed":
            said = result.message or "It failed."
            out.problem(f"{_title(result.step.name)}: {said}", code=result.code, hint=result.hint)
        elif result.state == "in progress" and result.hint:
            out.note(f"hint: {result.hint}")


def _code(receipt: Receipt, *, wait: bool) -> int:
    if receipt.failed:
        done = any(r.state == "done" for r in receipt.results)
        return EXIT_INCOMPLETE if done else EXIT_FAILED
    return EXIT_INCOMPLETE if wait and not receipt.complete else 0


def _plan_page(plan: Plan) -> Page:
    from ai4infra.model import StepResult

    results = tuple(StepResult(step=step, state="planned") for step in plan.steps)
    return _steps_page("plan", results, warnings=plan.warnings)


def _receipt_page(receipt: Receipt) -> Page:
    return _steps_page("receipt", receipt.results, next_commands=receipt.next_commands)


def _steps_page(kind: str, results: Sequence[StepResult], **more: Any) -> Page:
    from ai4infra.cli.rows import StepRow
    from ai4infra.render import Column, Page, document

    rows = [StepRow.of(result) for result in results]
    return Page(
        document=document(kind, steps=rows, **more),
        rows=rows,
        row_type=StepRow,
        columns=[
            Column("State", lambda r: r.state),
            Column("Action", lambda r: r.action),
            Column("What", lambda r: f"{r.kind}: {_title(r.name)}"),
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
            yield f"{_title(row.name)}: {said}"


def _next(commands: Sequence[str]) -> Iterator[str]:
    from ai4infra.render import Verbatim

    if commands:
        yield "To finish what is open:"
        yield from (Verbatim(f"  {command}") for command in commands)


def _step_tone(row: Any) -> Tone | None:
    tones: dict[str, Tone] = {"done": "good", "failed": "bad", "not reached": "dim", "kept": "dim"}
    return tones.get(row.state)
