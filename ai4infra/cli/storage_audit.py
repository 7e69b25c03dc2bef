"""``ai4infra storage audit``: accounts against the checklist, and what mends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.options import (
    SETTINGS,
    Command,
    HintedUsage,
    Options,
    common,
    filled,
    listed,
    switch,
)
from ai4infra.cli.plans import run_plan
from ai4infra.cli.start import started
from ai4infra.errors import EXIT_INCOMPLETE, EXIT_NO

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.client import Azure
    from ai4infra.client_audit import Audited
    from ai4infra.model import Finding
    from ai4infra.render import Column, Page, Tone

EXAMPLES = """
ai4infra storage audit
ai4infra storage audit --name staitraining0a1b2c3d --fix --dry-run
ai4infra storage audit -g rg-ai-training -o json --query "findings[?verdict=='fail'].check"
"""


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.option(
    "-n",
    "--name",
    "names",
    multiple=True,
    callback=listed,
    metavar="ACCOUNT",
    help="Account; repeatable.  [default: all of the group, or of the subscription]",
)
@click.option(
    "-g",
    "--resource-group",
    "group",
    metavar="GROUP",
    callback=filled,
    help="Only accounts in this group.",
)
@switch("--fix", help="Plan what one right answer mends, ask, and apply it.")
@switch("--dry-run", help="With --fix: show the plan, and change nothing.")
@switch("-y", "--yes", help="With --fix: do not ask for confirmation.")
@common()
def audit(options: Options, **given: Any) -> None:
    """Hold storage accounts against the exit checklist.

    Each item passes, fails or is unknown, with the evidence and the command that mends it. What
    may not be read is unknown, never a pass. Exit code 4 with findings; 5 without, where a part
    could not be read. With --fix the code is that of the plan.
    """
    if (given["dry_run"] or given["yes"]) and not given["fix"]:
        raise HintedUsage("--dry-run and --yes need --fix.", hint="Without it nothing changes.")
    with started(options) as (az, out):
        audited = az.audit_storage(given["names"], group=given["group"], on_progress=out.progress)
        if given["fix"]:
            _fix(az, audited, out, given)
        out.result(_page(audited))
        raise click.exceptions.Exit(_code(audited))


def _fix(az: Azure, audited: Sequence[Audited], out: Output, given: dict[str, Any]) -> None:
    """Carry out what mends; says what is left, and ends the command."""
    plan = az.plan_mending(audited)
    from ai4infra.audit import mendable

    left = [f for a in audited for f in _failed([a]) if f.check not in mendable(a.look.account)]
    if left:
        names = ", ".join(dict.fromkeys(f.check for f in left))
        out.warn(f"For you to decide: {names}. Without --fix the commands are shown.")
    run_plan(az, plan, out, given)


def _failed(audited: Iterable[Audited]) -> list[Finding]:
    return [f for each in audited for f in each.findings if f.verdict == "fail"]


def _code(audited: Sequence[Audited]) -> int:
    if _failed(audited):
        return EXIT_NO
    return EXIT_INCOMPLETE if any(each.look.unread for each in audited) else 0


def _page(audited: Sequence[Audited]) -> Page:
    from ai4infra.model import Finding
    from ai4infra.render import Page, document

    findings = [f for each in audited for f in each.findings]
    counts = Counter(f.verdict for f in findings)
    summary = {verdict: counts[verdict] for verdict in ("pass", "fail", "unknown")}
    return Page(
        document=document(
            "storage audit",
            accounts=[each.look.account.id for each in audited],
            findings=findings,
            summary=summary,
        ),
        rows=findings,
        row_type=Finding,
        columns=_columns(many=len(audited) > 1),
        below=[*_mending(findings), *_summary(len(audited), summary)],
        tone=_tone,
    )


def _columns(*, many: bool) -> list[Column]:
    from ai4infra.arm import name_of
    from ai4infra.render import Column

    columns = [
        Column("Check", lambda f: f.check),
        Column("Verdict", lambda f: f.verdict),
        Column("Found", lambda f: f.actual or f.reason or "not said"),
        Column("Wanted", lambda f: f.wanted, rank=1),
    ]
    return [Column("Account", lambda f: name_of(f.subject)), *columns] if many else columns


def _mending(findings: Iterable[Finding]) -> Iterator[str]:
    """Say which command mends what; one command may mend several things."""
    from ai4infra.render import Verbatim

    checks: dict[str, list[str]] = {}
    for finding in findings:
        if finding.fix:
            checks.setdefault(finding.fix, []).append(finding.check)
    if checks:
        yield "What mends it:"
        for command, names in checks.items():
            yield f"  {', '.join(names)}"
            yield Verbatim(f"    {command}")
        yield ""


def _summary(accounts: int, counts: dict[str, int]) -> Iterator[str]:
    noun = "account" if accounts == 1 else "accounts"
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    yield f"{accounts} {noun}: {said}."


def _tone(finding: Finding) -> Tone | None:
    tones: dict[str, Tone] = {"pass": "good", "fail": "bad", "unknown": "dim"}
    return tones[finding.verdict]
