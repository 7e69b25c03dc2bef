"""``ai4infra diagnose``: whether the GPUs wait for data, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.complete import sizes
from ai4infra.cli.options import (
    SETTINGS,
    Command,
    F,
    Group,
    HintedUsage,
    Lazy,
    Options,
    common,
    filled,
)
from ai4infra.cli.output import Output
from ai4infra.errors import EXIT_NO, UsageError

if TYPE_CHECKING:
    from ai4infra.diagnosis.logs import LogSource
    from ai4infra.diagnosis.series import Collector
    from ai4infra.diagnosis.verdict import Diagnosis, GpuRow, Question, Verdict
    from ai4infra.model import GpuFacts
    from ai4infra.render import Column, Page, Tone

EXAMPLES = """
nvidia-smi dmon -s pum -o DT > gpu.txt   # while the job runs, with the two below
iostat -xyt 1 > disk.txt
sar -n DEV 1 > net.txt
ai4infra diagnose replay --gpu gpu.txt --disk disk.txt --net net.txt
ai4infra diagnose replay capture.jsonl.gz --size ND96isr_H100_v5 --price 98.32
"""

COMMANDS = {
    "watch": Lazy("ai4infra.cli.diagnose_watch:watch", "Sample this machine, and judge."),
    "path": Lazy("ai4infra.cli.diagnose_path:path", "Show what stands behind a path."),
    "probe": Lazy("ai4infra.cli.diagnose_path:probe", "Measure what a path feeds."),
}


@click.group(cls=Group, lazy=COMMANDS, context_settings=SETTINGS)
def diagnose() -> None:
    """Tell whether the GPUs wait for data, for what, and what to change."""


def _log(name: str, what: str) -> Callable[[F], F]:
    return click.option(
        f"--{name}",
        f"{name}_logs",
        multiple=True,
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help=what,
    )


@diagnose.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("captures", metavar="[CAPTURE]...", nargs=-1, type=click.Path(allow_dash=True))
@_log("gpu", "Log of nvidia-smi dmon, or of nvidia-smi --query-gpu=… --format=csv.")
@_log("disk", "Log of iostat -x (text or -o JSON) or of sar -d.")
@_log("net", "Log of sar -n DEV.")
@_log("cpu", "Log of sar -u or mpstat; iostat has the CPUs as well.")
@click.option(
    "--size",
    metavar="NAME",
    shell_complete=sizes,
    help="Size of the VM: its network and disk limits, and how many GPUs it has.",
)
@click.option("--price", type=click.FloatRange(min=0), help="What the VM costs an hour.")
@click.option("--currency", default="USD", metavar="CODE", help="Currency of --price.")
@click.option(
    "--report",
    metavar="FILE.html",
    callback=filled,
    help="Write a page with the timeline; it needs nothing beside itself.",
)
@common()
def replay(options: Options, **given: Any) -> None:
    """Judge saved logs and captures.

    A log may be any of the known kinds under any of the options, plain or gzip, and - is the
    standard input. The exit code is 4 when the GPUs starve, and 0 otherwise.
    """
    from ai4infra.cli.diagnose_report import check_report, write_report
    from ai4infra.diagnosis.verdict import diagnose as judged

    out = Output(options)
    paths = [*given["captures"], *(p for name in _LOGS for p in given[f"{name}_logs"])]
    _check(paths)
    size = known_size(given["size"])
    if given["report"]:
        check_report(given["report"])
    collector, question = _collect(paths, size, given["price"], given["currency"].upper())
    found = judged(collector, question)
    if given["report"]:
        write_report(given["report"], found, collector, question.host)
    out.result(diagnosis_page(found, size))
    for warning in found.warnings:
        out.warn(warning)
    if found.verdict.starving:
        raise click.exceptions.Exit(EXIT_NO)


_LOGS = ("gpu", "disk", "net", "cpu")


def _check(paths: Sequence[str]) -> None:
    if not paths:
        raise HintedUsage(
            "There is nothing to read: give a capture, or logs with --gpu, --disk, --net, --cpu.",
            click.get_current_context(),
            "`ai4infra diagnose replay --help` shows how to log them.",
        )
    if len(set(paths)) < len(paths):
        raise click.UsageError("A file is given twice; a log of several tools is given once.")


def known_size(name: str | None) -> GpuFacts | None:
    """Return what is known of a VM size; raises UsageError for one that nobody knows."""
    from ai4infra.gpus import all_sizes, facts
    from ai4infra.ids import close_names

    if name is None:
        return None
    found = facts(name)
    if found.source is None:
        close = close_names(name, all_sizes())
        hint = f"Did you mean {' or '.join(close)}?" if close else None
        raise UsageError(f"There is no GPU size called {name!r}.", hint=hint)
    return found


def _collect(
    paths: Sequence[str], size: GpuFacts | None, price: float | None, currency: str
) -> tuple[Collector, Question]:
    from ai4infra.diagnosis.files import opened
    from ai4infra.diagnosis.series import Collector

    collector = Collector()
    with ExitStack() as stack:
        sources = [stack.enter_context(opened(path)) for path in paths]
        for source in sources:
            collector.extend(source.samples())
    remarks = tuple(_remarks(paths, sources))
    if all(source.notes.empty and not source.notes.lost_gpus for source in sources):
        raise UsageError(f"There is no sample in {', '.join(paths)}.", hint=next(iter(remarks)))
    return collector, _question(sources, size, price, currency, remarks)


def _question(
    sources: Sequence[LogSource],
    size: GpuFacts | None,
    price: float | None,
    currency: str,
    remarks: tuple[str, ...],
) -> Question:
    from ai4infra.diagnosis.logs import one_host
    from ai4infra.diagnosis.verdict import Question
    from ai4infra.gpus import facts

    host = one_host(source.host for source in sources)
    return Question(
        host=host,
        size=size or (facts(host.size) if host.size else None),
        price_per_hour=price,
        currency=currency,
        remarks=remarks,
    )


def _remarks(paths: Sequence[str], sources: Sequence[LogSource]) -> Iterator[str]:
    for path, source in zip(paths, sources, strict=True):
        yield from (f"{path}: {text}" for text in source.notes.remarks())


# --- the page


def diagnosis_page(found: Diagnosis, size: GpuFacts | None) -> Page:
    """Return a diagnosis as every command prints it."""
    from ai4infra.diagnosis.verdict import GpuRow
    from ai4infra.render import Page, document

    parts = {name: getattr(found, name) for name in found.__struct_fields__}
    return Page(
        document=document("diagnosis", size=size.size if size else None, **parts),
        rows=found.gpus,
        row_type=GpuRow,
        columns=_columns(),
        above=list(_title(found.verdict)),
        below=list(_below(found)),
        tone=_tone,
    )


def _title(verdict: Verdict) -> Iterator[str]:
    yield verdict.sentence
    yield f"Cause: {_WORDS[verdict.cause]}; confidence: {verdict.confidence}."
    if verdict.lost_share is not None:
        cost = ""
        if verdict.lost_per_hour is not None:
            cost = f": {verdict.lost_per_hour:,.2f} {verdict.currency} an hour"
        yield f"GPU time that is not used: {verdict.lost_share * 100:.0f} %{cost}."


_WORDS = {
    "fetch": "fetch-bound",
    "prep": "prep-bound",
    "network": "network-bound",
    "checkpoint": "checkpoint stalls",
    "gpu": "GPU-bound",
    "idle": "idle",
    "other": "other (communication, small batches)",
    "undetermined": "undetermined",
}


def _columns() -> list[Column]:
    from ai4infra.render import Column

    return [
        Column("GPU", lambda r: r.gpu),
        Column("State", lambda r: r.state),
        Column("Util", lambda r: _share(r.utilization), True),
        Column("Below 10 %", lambda r: _share(r.low_share), True, 2),
        Column("Memory busy", lambda r: _share(r.memory_activity), True, 3),
        Column("Power", lambda r: _watts(r), True, 4),
        Column("Readings", lambda r: str(r.samples), True, 5),
        Column("Note", lambda r: r.note or "", False, 6),
    ]


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value * 100:.0f} %"


def _watts(row: GpuRow) -> str:
    if row.power_w is None:
        return "?"
    share = "" if row.power_share is None else f" ({row.power_share * 100:.0f} %)"
    return f"{row.power_w:.0f} W{share}"


def _tone(row: GpuRow) -> Tone | None:
    tones: dict[str, Tone] = {"starved": "bad", "full": "good", "unused": "dim", "unknown": "dim"}
    return tones.get(row.state)


def _below(found: Diagnosis) -> Iterator[str]:
    blocks = (
        ("Phases:", _phase_lines(found) if len(found.phases) > 1 else ()),
        ("Evidence:", (each.text for each in found.evidence)),
        ("Missing:", found.missing),
        ("What to do, in order of effect:", _fix_lines(found)),
    )
    separator = False
    for title, lines in blocks:
        told = [f"  {line}" for line in lines]
        if told:
            yield from ([""] if separator else [])
            yield title
            yield from told
            separator = True


def _phase_lines(found: Diagnosis) -> Iterator[str]:
    start = found.phases[0].start_s
    for phase in found.phases:
        span = f"{phase.start_s - start:.0f} to {phase.end_s - start:.0f} s"
        judged = ", judged" if phase.judged else ""
        yield f"{phase.phase}: {span}, GPUs at {phase.utilization * 100:.0f} %{judged}"


def _fix_lines(found: Diagnosis) -> Iterator[str]:
    for number, fix in enumerate(found.fixes, start=1):
        yield f"{number}. {fix.text} {fix.effect}"
        if fix.command:
            yield f"   {fix.command}"
