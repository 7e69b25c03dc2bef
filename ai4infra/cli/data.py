"""``ai4infra data``: copy datasets with AzCopy, look at the jobs, take them up, clean up."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.options import (
    SETTINGS,
    Command,
    F,
    Group,
    Options,
    at_least_one,
    common,
    filled,
    number,
    switch,
)
from ai4infra.cli.start import offline, started
from ai4infra.errors import UsageError

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.client import Azure
    from ai4infra.client_copy import CopyOptions, CopyPlan, CopyReceipt
    from ai4infra.render import Column, Page
    from ai4infra.transfer.jobs import Job
    from ai4infra.transfer.progress import Progress

EXAMPLES = """
ai4infra data copy ./imagenet sttrain/training-data/imagenet
ai4infra data copy sttrain/training-data/imagenet /mnt/nvme/imagenet --verify
ai4infra data jobs
"""
COPY_EXAMPLES = """
ai4infra data copy ./imagenet sttrain/training-data/imagenet --dry-run
ai4infra data copy ./raw sttrain/training-data/raw --links follow --empty-folders skip --verify
ai4infra data copy stold/archive/2023 sttrain/training-data/2023 --overwrite newer
ai4infra data copy ./raw sttrain/raw --cap-mbps 400 --cap-hours 08:00-18:00 --tz America/Sao_Paulo
"""
RESUME_EXAMPLES = """
ai4infra data resume
ai4infra data resume 714d21e6
ai4infra data resume --source ./imagenet --target sttrain/training-data/imagenet
"""
CLEAN_EXAMPLES = """
ai4infra data clean
ai4infra data clean --older-than 2d
"""
_AGE = re.compile(r"(\d{1,4})\s*([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


@click.group(cls=Group, context_settings=SETTINGS, epilog=EXAMPLES)
def data() -> None:
    """Copy datasets in, out and across with AzCopy, with identity instead of keys."""


_WORK_DIR = click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="AzCopy's plans and logs.  [default: AI4INFRA_WORK_DIR, or a folder with room]",
)


def _running(function: F) -> F:
    """Give a command the options of everything that runs AzCopy."""
    options = (
        click.option(
            "--cap-mbps",
            "megabits",
            callback=number,
            metavar="N",
            help="Highest rate, in megabits per second.",
        ),
        click.option(
            "--cap-hours",
            "hours",
            metavar="START-END",
            callback=filled,
            help="Cap in these hours only, such as 08:00-18:00; at their ends the job is stopped"
            " gently and taken up again.",
        ),
        click.option("--tz", "zone", metavar="ZONE", callback=filled, help="Zone of the hours."),
        click.option(
            "--stall-timeout",
            "stall",
            callback=at_least_one,
            default="900",
            metavar="SECONDS",
            help="Stop when nothing moves for so long; the job can be resumed.",
        ),
        switch("--verify", help="Afterwards compare listings of both sides."),
        click.option(
            "--failures",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="List of the files that failed, as JSON lines.  [default: in the work folder]",
        ),
        click.option(
            "--progress",
            "form",
            type=click.Choice(["auto", "json", "none"]),
            default="auto",
            help="On stderr: a line on a terminal, or JSON lines.",
        ),
        switch("--allow-empty", help="Take an empty source for a success."),
        switch("--allow-skipped", help="Take skipped files for a success."),
        switch("--allow-sas", help="Let a URL carry a SAS; it is never shown."),
        _WORK_DIR,
    )
    for option in reversed(options):
        function = option(function)
    return function


@data.command("copy", cls=Command, context_settings=SETTINGS, epilog=COPY_EXAMPLES)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--links",
    type=click.Choice(["follow", "skip", "keep"]),
    show_default=False,
    help="Symbolic links: copy what they lead to, leave them out, or keep them as links.",
)
@click.option(
    "--empty-folders",
    type=click.Choice(["skip", "keep"]),
    show_default=False,
    help="Empty folders: leave them out, or keep a marker blob for each folder.",
)
@click.option(
    "--overwrite",
    type=click.Choice(["always", "newer", "never"]),
    show_default=False,
    help="What to do with files that the target has already.",
)
@click.option(
    "--put-md5/--no-put-md5", default=True, help="Store the MD5 of uploads, to check them later."
)
@_running
@switch("--dry-run", help="Look at everything, say what would be copied, and copy nothing.")
@common()
def copy(options: Options, source: str, target: str, **given: Any) -> None:
    """Copy SRC into the folder DST: local to blob, blob to local, or account to account.

    SRC and DST are a local path, ACCOUNT/CONTAINER[/PATH] or a blob URL. The content of a folder
    goes right below DST, a file goes into it; a slash at the end changes nothing. What would fail
    hours into it is looked at first. Exit code 0 when all is copied, 5 when a part is, else 1.
    """
    with _ended_by_term(), started(options) as (az, out):
        _refuse_sandbox(options)
        plan = az.plan_copy(source, target, _options(given), say=out.progress)
        for warning in plan.preview.warnings:
            out.warn(warning)
        if given["dry_run"]:
            out.result(_preview_page(plan))
            return
        _carry_out(az, plan, out, given["form"])


@data.command("resume", cls=Command, context_settings=SETTINGS, epilog=RESUME_EXAMPLES)
@click.argument("job", required=False, metavar="[JOB]", callback=filled)
@click.option("--source", metavar="SRC", callback=filled, help="The job's source, as it was given.")
@click.option("--target", metavar="DST", callback=filled, help="The job's target.")
@_running
@common()
def resume(
    options: Options, job: str | None, source: str | None, target: str | None, **given: Any
) -> None:
    """Take up a copy that was stopped or failed in part; what is copied is not copied again.

    JOB is the beginning of its id. Without it the job is found by source and target, or is the
    only one.
    """
    with _ended_by_term(), started(options) as (az, out):
        _refuse_sandbox(options)
        plan = az.plan_resume(job, source, target, _options(given))
        for warning in plan.preview.warnings:
            out.warn(warning)
        out.note(f"taking up {plan.preview.source} → {plan.preview.target}")
        _carry_out(az, plan, out, given["form"])


@data.command("jobs", cls=Command, context_settings=SETTINGS)
@_WORK_DIR
@common()
def jobs(options: Options, work_dir: Path | None) -> None:
    """List the copies that were started on this machine, the newest first."""
    import os

    from ai4infra.tools.work import all_jobs, known_works

    offline(options).result(_jobs_page(all_jobs(known_works(os.environ, work_dir))))


@data.command("clean", cls=Command, context_settings=SETTINGS, epilog=CLEAN_EXAMPLES)
@click.option(
    "--older-than",
    metavar="AGE",
    callback=filled,
    help="12h, 7d or 4w, for finished and unfinished jobs.  [default: finished 7d, others 90d]",
)
@_WORK_DIR
@common()
def clean(options: Options, older_than: str | None, work_dir: Path | None) -> None:
    """Remove plans and logs of old jobs; what runs stays. Copied data is never touched."""
    import os
    from datetime import datetime, timezone

    from ai4infra.render import Column, Page, document
    from ai4infra.tools.work import Removed, known_works, prune_all
    from ai4infra.transfer.progress import bytes_text

    out = offline(options)
    age = _age(older_than)
    total = prune_all(known_works(os.environ, work_dir), datetime.now(timezone.utc), age)
    columns = [
        Column("Jobs", lambda r: f"{r.jobs:,}", True),
        Column("Files", lambda r: f"{r.files:,}", True),
        Column("Size", lambda r: bytes_text(r.size_bytes), True),
    ]
    out.result(Page(document("data clean", removed=total), [total], Removed, columns))


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--older-than {text!r} is no age.", hint="Say 12h, 7d or 4w.")
    return timedelta(hours=int(match[1]) * _HOURS[match[2]])


def _refuse_sandbox(options: Options) -> None:
    if options.sandbox:
        raise UsageError(
            "The sandbox in this process keeps no blobs.",
            hint="`ai4infra sandbox serve --data-plane` in another shell keeps them; then"
            " `ai4infra sandbox env` says how to use it.",
        )


def _options(given: Mapping[str, Any]) -> CopyOptions:
    from ai4infra.client_copy import CopyOptions
    from ai4infra.transfer.schedule import make_cap

    return CopyOptions(
        links=given.get("links"),
        empty_folders=given.get("empty_folders"),
        overwrite=given.get("overwrite"),
        put_md5=given.get("put_md5", True),
        cap=make_cap(given["megabits"], given["hours"], given["zone"]),
        allow_sas=given["allow_sas"],
        allow_empty=given["allow_empty"],
        allow_skipped=given["allow_skipped"],
        verify=given["verify"],
        failures=given["failures"],
        work_dir=given["work_dir"],
        stall_seconds=given["stall"],
    )


@contextmanager
def _ended_by_term() -> Iterator[None]:
    """Take a polite end of this process for a Ctrl-C, so that AzCopy is stopped gently as well."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # A terminal that is closed ends it too; what nohup started ignores that, and goes on.
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    taken = [each for each, handler in before.items() if handler is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def _carry_out(az: Azure, plan: CopyPlan, out: Output, form: str) -> None:
    """Copy, print the receipt, and end with its exit code."""
    cap = plan.preview.cap
    if cap:
        out.note(f"capped at {cap}")
    receipt = az.copy(plan, on_progress=_teller(out, form), say=out.note)
    out.result(_receipt_page(receipt))
    for line in receipt.advice:
        out.note(line)
    _tell(receipt, out)
    raise click.exceptions.Exit(receipt.exit_code)


def _tell(receipt: CopyReceipt, out: Output) -> None:
    if receipt.stopped == "interrupted":
        out.note(f"Stopped. {receipt.reason}")
        if receipt.hint:
            out.note(receipt.hint)
    elif receipt.exit_code:
        out.problem(receipt.reason, hint=receipt.hint)
    if receipt.failures_file:
        out.note(f"failed files: {receipt.failures_file}")


def _teller(out: Output, form: str) -> Callable[[Progress], None]:
    from ai4infra.transfer.progress import progress_text

    if form == "json":
        return _say_json
    if form == "none":
        return lambda progress: None
    return lambda progress: out.progress(progress_text(progress))


def _say_json(progress: Progress) -> None:
    import msgspec

    click.echo(msgspec.json.encode(progress).decode(), err=True)
    sys.stderr.flush()


# --- pages ------------------------------------------------------------------------------------


def _preview_page(plan: CopyPlan) -> Page:
    from ai4infra.client_copy import CopyPreview
    from ai4infra.render import Page, document
    from ai4infra.transfer.progress import bytes_text, files_text

    preview = plan.preview
    lines = [
        f"{files_text(preview.files)}, {bytes_text(preview.size_bytes)}: {preview.direction} with"
        f" AzCopy {preview.azcopy_version} as {preview.identity}",
        *([f"For example {preview.example}"] if preview.example else []),
        *([f"Capped at {preview.cap}"] if preview.cap else []),
        f"Plans and logs in {preview.work_dir}",
        "Nothing was copied.",
    ]
    return Page(
        document=document("data copy plan", plan=preview),
        rows=[preview],
        row_type=CopyPreview,
        columns=_ends(),
        below=lines,
    )


def _ends() -> list[Column]:
    from ai4infra.render import Column

    return [Column("From", lambda each: each.source), Column("To", lambda each: each.target)]


def _receipt_page(receipt: CopyReceipt) -> Page:
    from ai4infra.client_copy import CopyReceipt
    from ai4infra.render import Page, document

    return Page(
        document=document("data copy", copy=receipt),
        rows=[receipt],
        row_type=CopyReceipt,
        columns=_receipt_columns(),
        below=[receipt.reason, *_verification_lines(receipt)],
    )


def _receipt_columns() -> list[Column]:
    from ai4infra.render import UNKNOWN, Column, number
    from ai4infra.transfer.progress import bytes_text, duration_text

    def rate(receipt: CopyReceipt) -> str:
        known = receipt.megabytes_per_second
        return UNKNOWN if known is None else f"{known:,.1f} MB/s"

    def size(receipt: CopyReceipt) -> str:
        return UNKNOWN if receipt.bytes_done is None else bytes_text(receipt.bytes_done)

    return [
        Column("State", lambda r: r.state),
        Column("Files", lambda r: number(r.files_done), True),
        Column("Failed", lambda r: number(r.files_failed), True),
        Column("Size", size, True),
        Column("Time", lambda r: duration_text(r.seconds), True),
        Column("Rate", rate, True, 1),
        Column("Job", lambda r: r.job or UNKNOWN, False, 2),
    ]


def _verification_lines(receipt: CopyReceipt) -> Iterator[str]:
    from ai4infra.transfer.verify import verification_sentence

    found = receipt.verification
    if found is None:
        return
    yield f"{'Verified' if found.passed else 'Different'}: {verification_sentence(found)}"
    yield from (f"  checked: {line}" for line in found.checked)
    yield from (f"  not checked: {line}" for line in found.not_checked)
    if found.extra:
        yield f"  the target also has {found.extra:,} other files, which were left"


def _jobs_page(found: list[Job]) -> Page:
    from ai4infra.render import Column, Page, document, number
    from ai4infra.tools.work import is_running
    from ai4infra.transfer.jobs import Job

    def state(job: Job) -> str:
        return job.state or ("running" if is_running(job) else "stopped")

    columns = [
        Column("Job", lambda j: j.short_id),
        Column("State", state),
        Column("Started", lambda j: j.started, rank=2),
        Column("Files", lambda j: number(j.files_done), True, 1),
        Column("Of", lambda j: number(j.files_total), True, 1),
        Column("From", lambda j: j.source),
        Column("To", lambda j: j.target),
    ]
    below = [] if found else ["No copy was started on this machine."]
    return Page(document("data jobs", jobs=found), found, Job, columns, below=below)
