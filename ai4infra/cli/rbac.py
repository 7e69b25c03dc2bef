"""``ai4infra rbac``: who has which role where; assign, list, remove, and wait until it works."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.options import SETTINGS, Command, F, Group, HintedUsage, Options, common, switch
from ai4infra.cli.plans import run_plan
from ai4infra.cli.start import started
from ai4infra.errors import EXIT_FAILED

if TYPE_CHECKING:
    from ai4infra.model import RoleAssignment
    from ai4infra.provision import RoleWait
    from ai4infra.render import Page

EXAMPLES = """
ai4infra rbac list --on /subscriptions/ID/resourceGroups/rg-ai-training
ai4infra rbac assign "Storage Blob Data Reader" --to vm:rg-gpu/node-0 --on SCOPE
"""
ASSIGN_EXAMPLES = """
ai4infra rbac assign "Storage Blob Data Reader" --to vm:rg-gpu/node-0 --on SCOPE
ai4infra rbac assign Reader --to id:5f3c2a9e-74bd-4f0f-a6b3-8d1e0c9b7a61:Group --on SCOPE
ai4infra rbac assign "Storage Blob Data Contributor" --to me --on SCOPE --dry-run
"""
WAIT_EXAMPLES = """
ai4infra rbac wait "Storage Blob Data Contributor" --to me --on SCOPE
ai4infra rbac wait "Storage Blob Data Reader" --to me --on SCOPE --timeout 10m
"""
MOST_SECONDS = 1800
_TIMEOUT = re.compile(r"(\d{1,6})\s*(s|m|min|h)?", re.ASCII | re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}


@click.group(cls=Group, context_settings=SETTINGS, epilog=EXAMPLES)
def rbac() -> None:
    """Give roles to identities, list and remove them, wait until they work."""


_role = click.argument("role", metavar="ROLE")
_on = click.option(
    "--on", "--scope", "on", required=True, metavar="SCOPE", help="Resource id of the scope."
)


def _who(*names: str) -> Callable[[F], F]:
    return click.option(
        *names, "who", multiple=True, required=True, metavar="WHO", help="Who; repeatable."
    )


@rbac.command("assign", cls=Command, context_settings=SETTINGS, epilog=ASSIGN_EXAMPLES)
@_role
@_who("--to", "--assignee")
@_on
@switch("--enable-identity", help="Give a VM or scale set without an identity its own.")
@switch("--dry-run", help="Show the plan, and change nothing.")
@switch("-y", "--yes", help="Do not ask before an identity is made; a role alone is not asked for.")
@common()
def assign(options: Options, **given: Any) -> None:
    """Give a role, by name or id, to somebody at a scope.

    WHO is me, vm:GROUP/NAME, vmss:GROUP/NAME, identity:GROUP/NAME, the id of a resource with an
    identity, or id:OBJECT_ID[:User|Group|ServicePrincipal]. A role that is there already, also
    from a scope above, is fine. A new identity is waited for until the directory knows it.
    """
    with started(options) as (az, out):
        plan = az.plan_assign(
            given["role"], given["who"], given["on"], enable_identity=given["enable_identity"]
        )
        only_roles = all(step.kind == "role assignment" for step in plan.changes)
        run_plan(az, plan, out, {**given, "yes": given["yes"] or only_roles})


@rbac.command("remove", cls=Command, context_settings=SETTINGS)
@_role
@_who("--from", "--to", "--assignee")
@_on
@switch("--dry-run", help="Show the plan, and change nothing.")
@switch("-y", "--yes", help="Do not ask for confirmation.")
@common()
def remove(options: Options, **given: Any) -> None:
    """Take a role from somebody at exactly a scope.

    What is not assigned is fine; what comes from a scope above is refused, with that scope.
    """
    with started(options) as (az, out):
        plan = az.plan_unassign(given["role"], given["who"], given["on"])
        run_plan(az, plan, out, given)


# --- list


@rbac.command("list", cls=Command, context_settings=SETTINGS)
@click.option(
    "--on",
    "--scope",
    "on",
    metavar="SCOPE",
    help="Resource id of the scope.  [default: the subscription]",
)
@click.option("--to", "--assignee", "who", metavar="WHO", help="Only who this is.")
@switch("--no-inherited", help="Without what comes from scopes above.")
@switch("--below", "--all", help="With what lies below the scope.")
@common()
def list_(options: Options, **given: Any) -> None:
    """List the role assignments at a scope, with those that it inherits.

    WHO is as for `rbac assign`. What somebody has through a group is listed as the group's.
    """
    with started(options) as (az, out):
        found = az.assignments(
            given["on"],
            to=given["who"],
            inherited=not given["no_inherited"],
            below=given["below"],
        )
        out.result(_list_page(found, below=given["below"]))


def _list_page(found: Sequence[RoleAssignment], *, below: bool) -> Page:
    from ai4infra.cli.rows import AssignmentRow
    from ai4infra.render import NOT_APPLICABLE, Column, Page, document

    rows = [AssignmentRow.of(each) for each in found]
    return Page(
        document=document("role assignments", assignments=rows),
        rows=rows,
        row_type=AssignmentRow,
        columns=[
            Column("Role", lambda r: r.role),
            Column("Type", lambda r: r.principal_type or "?", rank=1),
            Column("Principal", lambda r: r.principal_id),
            Column("Scope", lambda r: r.scope),
            Column("Condition", lambda r: r.condition or NOT_APPLICABLE, rank=2),
        ],
        below=[] if rows else [_nothing(below=below)],
    )


def _nothing(*, below: bool) -> str:
    further = "" if below else " --below looks into what lies below it as well."
    return f"No role assignments.{further}"


# --- wait


@rbac.command("wait", cls=Command, context_settings=SETTINGS, epilog=WAIT_EXAMPLES)
@_role
@click.option("--to", "--assignee", "who", required=True, metavar="WHO", help="Who has the role.")
@_on
@click.option(
    "--timeout", default="30m", metavar="TIME", help="How long to wait: 90s, 10m; 30m at most."
)
@common()
def wait(options: Options, **given: Any) -> None:
    """Wait until a role works, and say how long that took.

    A blob role of your own is tried by reading one row of a list. Of anybody else, and of other
    roles, only the assignment itself can be seen: that ends with 0 and a warning.
    """
    seconds = read_timeout(given["timeout"])
    with started(options) as (az, out):
        found = az.wait_role(
            given["role"],
            given["who"],
            given["on"],
            timeout_seconds=seconds,
            on_progress=out.progress,
        )
        out.result(_wait_page(found))
        if found.works is None:
            out.warn(found.message)
        elif not found.works:
            out.problem(found.message, code=found.code, hint=found.hint)
            raise click.exceptions.Exit(EXIT_FAILED)


def read_timeout(text: str) -> float:
    """Return the seconds of ``90s`` or ``10m``; UsageError for what is no time or too long."""
    match = _TIMEOUT.fullmatch(text.strip())
    seconds = int(match[1]) * _UNITS[(match[2] or "s").casefold()] if match else None
    if seconds is None or not 0 <= seconds <= MOST_SECONDS:
        raise HintedUsage(
            f"{text!r} is no time to wait.", hint="Write 90s or 10m; 30m is the longest."
        )
    return seconds


def _wait_page(found: RoleWait) -> Page:
    from ai4infra.provision import RoleWait
    from ai4infra.render import Column, Page, document, plain

    words = {True: "works", False: "does not work", None: "assigned"}
    return Page(
        document={**document("role wait"), **plain(found)},
        rows=[found],
        row_type=RoleWait,
        columns=[
            Column("Role", lambda r: r.role),
            Column("State", lambda r: words[r.works]),
            Column("Waited", lambda r: f"{r.elapsed_seconds:.0f} s", True),
            Column("Scope", lambda r: r.scope, rank=1),
        ],
    )
