"""``ai4infra mount disks``: what every block device is, and the plan for the local NVMe."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.mount import begun, machine_of, machine_option, refuse_sandbox
from ai4infra.cli.options import SETTINGS, Command, HintedUsage, Options, common, switch

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.mounts.disks import DiskPlan, Layout
    from ai4infra.render import Page
    from ai4infra.tools.lsblk import Machine

EXAMPLES = """
ai4infra mount disks
sudo ai4infra mount disks --apply --yes
ai4infra mount disks -o json --query "disks[?role=='local nvme'].path"
"""


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.option(
    "--target",
    metavar="PATH",
    help="Where the local NVMe is to be mounted.  [default: /mnt/nvme]",
)
@switch("--apply", help="Carry out the plan; with --yes alone.")
@switch("-y", "--yes", help="With --apply: do not ask.")
@machine_option
@common()
def disks(options: Options, machine: Path | None, **given: Any) -> None:
    """Show what every disk of this VM is, and how its local NVMe becomes a cache.

    Local NVMe comes raw. The plan makes one filesystem over all of it, and never touches a device
    that holds anything. --apply looks again right before, and takes root.
    """
    from ai4infra.mounts.disks import DEFAULT_TARGET, plan_nvme

    target = _target(given["target"] or DEFAULT_TARGET)
    out = begun(options)
    if given["apply"]:
        _check_apply(options, machine, given)
    found = machine_of(options, machine)
    plan = plan_nvme(found.host().layout, found.devices, target=target)
    if given["apply"]:
        _apply(out, plan)
        found = machine_of(options, machine)
        plan = plan_nvme(found.host().layout, found.devices, target=target)
    out.result(_page(found, plan))


def _target(path: str) -> str:
    from ai4infra.mounts.units import checked_path

    if not checked_path(path).strip("/"):
        raise click.UsageError("--target / would hide the whole system.")
    return path


def _check_apply(options: Options, machine: Path | None, given: dict[str, Any]) -> None:
    refuse_sandbox(options, "be changed")
    if machine is not None:
        raise click.UsageError("--apply and --machine do not go together.")
    if not given["yes"]:
        raise HintedUsage(
            "--apply makes filesystems, so it needs --yes.",
            hint="`ai4infra mount disks` shows the plan; add --yes to carry it out.",
        )


def _apply(out: Output, plan: DiskPlan) -> None:
    from ai4infra.errors import ConflictError
    from ai4infra.tools import lsblk

    if plan.state == "no":
        raise ConflictError(f"Nothing was done: {plan.reason}")
    if plan.state == "done":
        out.note(f"Nothing to do: {plan.reason}")
        return
    lsblk.apply(plan, on_step=lambda step: out.note(shlex.join(step.argv)))


def _page(found: Machine, plan: DiskPlan) -> Page:
    from ai4infra.mounts.disks import Disk
    from ai4infra.render import Column, Page, document, number, yes_no

    layout = found.host().layout
    return Page(
        document=document(
            "disks",
            disks=layout.disks,
            places=layout.places,
            container=layout.container,
            plan=plan,
        ),
        rows=layout.disks,
        row_type=Disk,
        columns=[
            Column("Disk", lambda d: d.path),
            Column("What", lambda d: d.role),
            Column("State", lambda d: d.state),
            Column("GiB", lambda d: number(d.size_gib, 0), True),
            Column("Mounted at", lambda d: ", ".join(d.mounts) or "-"),
            Column("Lost on deallocation", lambda d: yes_no(d.lost_on_deallocation), False, 2),
            Column("Model", lambda d: d.model or "?", False, 3),
        ],
        below=[*_places(layout), "", *_plan_lines(plan)],
        tone=lambda d: "good" if d.role == "local nvme" else None,
    )


def _places(layout: Layout) -> Iterator[str]:
    for place in layout.places:
        yield f"{place.path}: {place.note}."


def _plan_lines(plan: DiskPlan) -> Iterator[str]:
    if not plan.commands:
        yield f"No plan: {plan.reason}"
        return
    yield f"Plan: {plan.reason}"
    yield from (f"  sudo {shlex.join(step.argv)}" for step in plan.commands)
    if plan.lost:
        yield plan.lost
    yield "`sudo ai4infra mount disks --apply --yes` runs it."
