"""Shows a plan, asks, applies it, and prints the receipt: what every changing command shares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.options import HintedUsage
from ai4infra.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.cli.rows import StepRow
    from ai4infra.client import Azure
    from ai4infra.model import Receipt, StepResult
    from ai4infra.plan import Plan
    from ai4infra.render import Page, Tone

Extra = Mapping[str, Any]
"""More parts of the document, beside the steps."""
More = Callable[["Receipt"], Extra]


def nothing_more(receipt: Receipt) -> Extra:
    """Add nothing to a receipt's document."""
    return {}


def run_plan(
    az: Azure,
    plan: Plan,
    out: Output,
    given: Mapping[str, Any],
    *,
    more: More = nothing_more,
    partial: int = EXIT_FAILED,
) -> None:
    """Show a plan, or ask and carry it out; ends the command with the exit code that it came to.

    ``given`` are the command's options: ``dry_run``, ``yes`` and ``no_wait``. ``more`` adds to
    the receipt's document; its ``lines`` are for people only. ``partial`` is the exit code where
    something failed after something else was done.
    """
    for warning in plan.warnings:
        out.warn(warning)
    if given["dry_run"] or plan.refusals:
        out.result(plan_page(plan))
        tell_refusals(plan, out)
        raise click.exceptions.Exit(EXIT_FAILED if plan.refusals else 0)
    if plan.changes and not given["yes"]:
        confirm(plan, out)
    code = _apply(az, plan, out, more, wait=not given.get("no_wait"), partial=partial)
    raise click.exceptions.Exit(code)


def title(name: str) -> str:
    """Return the name of what a step is about as people read it."""
    from ai4infra.plan import quota_title

    return quota_title(name)


def tell_refusals(plan: Plan, out: Output) -> None:
    """Say on stderr why a plan is refused."""
    for step in plan.refusals:
        out.problem(f"{title(step.name)}: {step.reason}", hint=step.hint)


def confirm(plan: Plan, out: Output) -> None:
    """Show the plan and ask; without a terminal to ask on, refuse."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise HintedUsage(
            "There is no terminal to ask for confirmation on; nothing was sent.",
            hint="Add --yes to go ahead, or --dry-run to see the plan.",
        )
    out.end_progress()
    for step in plan.steps:
        what = f"{step.kind}: {title(step.name)}"
        click.echo(f"{step.action} {what}, {step.detail}", err=True)
    if not click.confirm("Do this?", err=True):
        out.note("Nothing was sent.")
        raise click.exceptions.Exit(EXIT_FAILED)


def _apply(az: Azure, plan: Plan, out: Output, more: More, *, wait: bool, partial: int) -> int:
    from ai4infra.provision import ApplyInterrupted

    try:
        receipt = az.apply(plan, on_progress=out.progress, wait=wait)
    except ApplyInterrupted as interrupted:
        out.result(receipt_page(interrupted.receipt, {}))
        out.note("hint: Run the same again: it finds what is there and finishes the rest.")
        return EXIT_INTERRUPTED
    out.result(receipt_page(receipt, more(receipt)))
    tell_results(receipt, out)
    return exit_code(receipt, wait=wait, partial=partial)


def tell_results(receipt: Receipt, out: Output) -> None:
    """Say on stderr what failed, what is open, and what came out otherwise."""
    for result in receipt.results:
        if result.state == "failed":
            said = result.message or "It failed."
            out.problem(f"{title(result.step.name)}: {said}", code=result.code, hint=result.hint)
        elif result.state == "in progress" and result.hint:
            out.note(f"hint: {result.hint}")
    for finding in receipt.findings:
        actual = finding.actual or "not said"
        if finding.verdict == "fail":
            said = f"{finding.check} was sent as {finding.wanted}, and is {actual}."
            out.problem(
                said, hint="A policy may have changed it: az policy state list shows which."
            )
        elif finding.verdict == "unknown":
            out.warn(f"{finding.check} could not be compared ({finding.wanted}): {actual}")


def exit_code(receipt: Receipt, *, wait: bool, partial: int = EXIT_FAILED) -> int:
    """Return 0 for all done, 1 for a failure, 5 for what is open though it was waited for."""
    if receipt.failed:
        return partial if any(r.state == "done" for r in receipt.results) else EXIT_FAILED
    return EXIT_INCOMPLETE if wait and not receipt.complete else 0


def plan_page(plan: Plan) -> Page:
    """Return the page of a plan that is not carried out."""
    from ai4infra.model import StepResult

    results = tuple(StepResult(step=step, state="planned") for step in plan.steps)
    return _steps_page("plan", results, (), warnings=plan.warnings)


def receipt_page(receipt: Receipt, more: Extra) -> Page:
    """Return the page of what became of a plan."""
    from ai4infra.render import Verbatim

    parts = {"findings": receipt.findings, "next_commands": receipt.next_commands, **more}
    lines = [Verbatim(line) for line in parts.pop("lines", ())]
    heading = "Next:" if receipt.complete else "To finish what is open:"
    commands = parts["next_commands"]
    following = [heading, *(Verbatim(f"  {c}") for c in commands)] if commands else []
    return _steps_page("receipt", receipt.results, [lines, following], **parts)


def _steps_page(
    kind: str, results: Sequence[StepResult], blocks: Sequence[Sequence[str]], **more: Any
) -> Page:
    """Return the page of some steps; below them their remarks, then blocks of lines."""
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
            Column("What", lambda r: f"{r.kind}: {title(r.name)}"),
            Column("Change", lambda r: r.detail),
        ],
        below=_apart([list(_remarks(rows)), *blocks]),
        tone=_step_tone,
    )


def _remarks(rows: Iterable[StepRow]) -> Iterator[str]:
    """Say what there is to say of each step; failures and refusals go to stderr instead."""
    for row in rows:
        said = row.message or row.reason
        if said and said not in _PLAIN and row.state != "failed" and row.action != "refuse":
            yield f"{title(row.name)}: {said}"


# What the columns say already.
_PLAIN = frozenset({"Written.", "Changed.", "Deleted.", "It is there.", "Its rules are there."})


def _apart(blocks: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of all blocks, with a blank line between two."""
    filled = [block for block in blocks if block]
    return [line for block in filled for line in ("", *block)][1:]


def _step_tone(row: Any) -> Tone | None:
    tones: dict[str, Tone] = {"done": "good", "failed": "bad", "not reached": "dim", "kept": "dim"}
    return tones.get(row.state)
