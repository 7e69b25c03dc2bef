"""``ai4infra diagnose watch``: sample this machine for a while, then judge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.diagnose import known_size, priced, reported
from ai4infra.cli.diagnose_path import size_option
from ai4infra.cli.mount import refuse_sandbox
from ai4infra.cli.options import SETTINGS, Command, Options, common, filled, number
from ai4infra.cli.start import offline
from ai4infra.errors import EXIT_INTERRUPTED, EXIT_NO, EXIT_OK

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.diagnosis.series import Collector
    from ai4infra.live.sampler import LiveSource

EXAMPLES = """
ai4infra diagnose watch --path /mnt/training-data
ai4infra diagnose watch --duration 600 --save epoch1.jsonl.gz --report epoch1.html
ai4infra diagnose watch --interval 0.5 -o json
"""


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.option("--duration", callback=number, default="60", metavar="SECONDS", help="How long.")
@click.option("--interval", callback=number, default="1", metavar="SECONDS", help="How often.")
@click.option("--path", metavar="PATH", callback=filled, help="Where the training data is read.")
@click.option(
    "--save",
    metavar="FILE.jsonl.gz",
    callback=filled,
    help="Keep the samples in a new file, for `diagnose replay`.",
)
@reported
@priced
@size_option
@common()
def watch(options: Options, **given: Any) -> None:
    """Sample GPUs, disks, CPUs, network and loaders, and say what the GPUs wait for.

    Costs less than 1 % of one core. Exit code 4 when the GPUs starve; Ctrl-C ends it early with
    the verdict so far, and exit code 130.
    """
    from ai4infra.cli.diagnose_report import check_report
    from ai4infra.live.sampler import check_times

    refuse_sandbox(options, "be sampled")
    out = offline(options)
    check_times(given["duration"], given["interval"])
    known_size(given["size"])
    if given["report"]:
        check_report(given["report"])
    source = _source(given)
    collected, interrupted = _collect(source, options, given)
    starving = _judge(collected, source, out, given)
    code = EXIT_NO if starving else EXIT_OK
    raise click.exceptions.Exit(EXIT_INTERRUPTED if interrupted else code)


def _source(given: dict[str, Any]) -> LiveSource:
    from ai4infra import __version__
    from ai4infra.live import paths
    from ai4infra.live.machine import Kernel
    from ai4infra.live.sampler import LiveSource

    path = paths.resolve(given["path"]) if given["path"] else None
    kernel = Kernel()
    here = paths.look(path, size=given["size"])
    return LiveSource(
        duration_s=given["duration"],
        interval_s=given["interval"],
        host=paths.host_facts(here, kernel, path, tool=f"ai4infra {__version__}"),
        kernel=kernel,
    )


def _judge(collected: Collector, source: LiveSource, out: Output, given: dict[str, Any]) -> bool:
    """Print the verdict, write the report; tell whether the GPUs starve."""
    from ai4infra.cli.diagnose_pages import diagnosis_page
    from ai4infra.diagnosis.answer import Question
    from ai4infra.diagnosis.verdict import diagnose
    from ai4infra.gpus import facts

    size = facts(source.host.size) if source.host.size else None
    question = Question(
        host=source.host,
        size=size,
        price_per_hour=given["price"],
        currency=given["currency"].upper(),
        remarks=tuple(source.remarks()),
    )
    found = diagnose(collected, question)
    if given["report"]:
        from ai4infra.cli.diagnose_report import write_report

        write_report(given["report"], found, collected, source.host)
    out.result(diagnosis_page(found, size))
    for warning in found.warnings:
        out.warn(warning)
    return found.verdict.starving


def _collect(source: LiveSource, options: Options, given: dict[str, Any]) -> tuple[Collector, bool]:
    """Sample to the end, or to Ctrl-C; tell which of the two it was."""
    from ai4infra.diagnosis.series import Collector
    from ai4infra.live.capture import saving

    collected = Collector()
    with ExitStack() as stack:
        capture = stack.enter_context(saving(Path(given["save"]))) if given["save"] else None
        view = stack.enter_context(_view(options))
        if capture:
            capture.begin(source.host)
        try:
            for at, moment in enumerate(source.moments(), 1):
                collected.extend(moment)
                if capture:
                    capture.add(moment)
                view.show(moment, given["duration"] - at * given["interval"])
        except KeyboardInterrupt:
            return collected, True
    return collected, False


@contextmanager
def _view(options: Options) -> Iterator[Any]:
    """Yield what shows moments: a picture on a terminal, elsewhere nothing."""
    if not sys.stderr.isatty() or options.only_show_errors:
        yield _Nothing()
        return
    from ai4infra.cli.diagnose_view import on_terminal

    with on_terminal() as view:
        yield view


class _Nothing:
    """Shows nothing."""

    def show(self, moment: Any, left_s: float) -> None:
        """Show nothing."""
