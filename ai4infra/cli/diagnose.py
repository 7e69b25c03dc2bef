"""``ai4infra diagnose``: whether the GPUs wait for data, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.diagnose_price import in_money, priced
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
from ai4infra.errors import EXIT_NO

if TYPE_CHECKING:
    from ai4infra.model import GpuFacts

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


def reported(function: F) -> F:
    """Give a command ``--report``."""
    option: Callable[[F], F] = click.option(
        "--report",
        metavar="FILE.html",
        callback=filled,
        help="Write a page with the timeline; it needs nothing beside itself.",
    )
    return option(function)


@diagnose.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("captures", metavar="[CAPTURE]...", nargs=-1, type=click.Path(allow_dash=True))
@_log("gpu", "Log of nvidia-smi dmon or --query-gpu=… --format=csv, or of dcgmi dmon.")
@_log("disk", "Log of iostat -x (text or -o JSON) or of sar -d.")
@_log("net", "Log of sar -n DEV.")
@_log("cpu", "Log of sar -u or mpstat; iostat has the CPUs as well.")
@click.option(
    "--size",
    metavar="NAME",
    shell_complete=complete.sizes,
    help="Size of the VM: its network and disk limits, and how many GPUs it has.",
)
@priced
@reported
@common()
def replay(options: Options, **given: Any) -> None:
    """Judge saved logs and captures.

    A log may be any of the known kinds under any of the options, plain or gzip, and - is the
    standard input. The exit code is 4 when the GPUs starve, and 0 otherwise.
    """
    import msgspec

    from ai4infra.cli.diagnose_pages import diagnosis_page
    from ai4infra.cli.diagnose_report import check_report, write_report
    from ai4infra.client_diagnose import replay as replayed

    out = Output(options)
    paths = [*given["captures"], *(p for name in _LOGS for p in given[f"{name}_logs"])]
    _check(paths)
    if given["report"]:
        check_report(given["report"], *paths)
    done = replayed(
        paths, size=given["size"], price_per_hour=given["price"], currency=given["currency"]
    )
    found = in_money(done.diagnosis, done.collected, done.question, options, given)
    out.result(diagnosis_page(found, done.size))
    if given["report"]:
        host = done.question.host
        if done.size is not None:
            host = msgspec.structs.replace(host, size=done.size.size)
        write_report(given["report"], found, done.collected, host)
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
    from ai4infra.client_diagnose import known_size as known

    return known(name)
