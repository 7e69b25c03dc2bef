"""``ai4infra quota``: the VM quota of regions, and requests to raise it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import SETTINGS, Group, Options, common, regions_option, switch
from ai4infra.cli.plans import run_plan
from ai4infra.cli.start import started
from ai4infra.errors import EXIT_INCOMPLETE

if TYPE_CHECKING:
    from ai4infra.model import Quota

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
    with started(options) as (az, out):
        plan = az.plan_quota(
            given["region"],
            given["family"],
            given["limit"],
            with_regional=given["with_regional"],
            register=given["register"],
        )
        run_plan(az, plan, out, given, partial=EXIT_INCOMPLETE)
