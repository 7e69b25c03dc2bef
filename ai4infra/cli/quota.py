"""``ai4infra quota``: the VM quota of regions, and requests to raise it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
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
    from ai4infra.client import Azure
    from ai4infra.model import Quota, Receipt, StepResult
    from ai4infra.plan import Plan

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
    from ai4infra.cli.quota_pages import list_page

    with started(options) as (az, out):
        found = az.quota_lists(*given["regions"])
        rows = [q for q in found.quotas if given["all"] or _is_gpu(q) or _is_pool(q)]
        out.result(list_page(found, sorted(rows, key=_is_pool)))
        out.problems(found.problems)
        if found.problems:
            raise click.exceptions.Exit(EXIT_INCOMPLETE)


def _is_gpu(row: Quota) -> bool:
    from ai4infra.ids import quota_key

    return quota_key(row.name).startswith(_GPU_PREFIX)


def _is_pool(row: Quota) -> bool:
    return row.name.casefold() in _POOLS


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
    from ai4infra.cli.quota_pages import plan_page

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
            out.result(plan_page(plan))
            _tell_refusals(plan, out)
            raise click.exceptions.Exit(EXIT_FAILED if plan.refusals else 0)
        if plan.changes and not given["yes"]:
            _confirm(plan, out)
        _apply(az, plan, out, wait=not given["no_wait"])


def _title(name: str) -> str:
    from ai4infra.plan import quota_title

    return quota_title(name)


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
    from ai4infra.cli.quota_pages import receipt_page
    from ai4infra.provision import ApplyInterrupted

    try:
        receipt = az.apply(plan, on_progress=out.progress, wait=wait)
    except ApplyInterrupted as interrupted:
        out.result(receipt_page(interrupted.receipt))
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    out.result(receipt_page(receipt))
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
