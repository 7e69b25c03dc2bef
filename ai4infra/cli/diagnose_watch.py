"""``ai4infra diagnose watch``: sample this machine for a while, then judge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ai4infra.cli.diagnose import known_size, reported
from ai4infra.cli.diagnose_path import size_option
from ai4infra.cli.diagnose_price import in_money, priced
from ai4infra.cli.mount import refuse_sandbox
from ai4infra.cli.options import SETTINGS, Command, Options, common, filled, number
from ai4infra.cli.start import offline
from ai4infra.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_NO, EXIT_OK

if TYPE_CHECKING:
    from ai4infra.cli.diagnose_view import Show
    from ai4infra.cli.output import Output
    from ai4infra.diagnosis.series import Collector
    from ai4infra.errors import Ai4infraError
    from ai4infra.live.sampler import InterruptibleClock, LiveSource

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
    from ai4infra.live.sampler import InterruptibleClock, check_times

    refuse_sandbox(options, "be sampled")
    out = offline(options)
    check_times(given["duration"], given["interval"])
    known_size(given["size"])
    if given["report"]:
        check_report(given["report"], *filter(None, [given["save"]]))
    clock = InterruptibleClock()
    source = _source(given, clock)
    taken = _collect(source, clock, options, given)
    starving = _judge(taken.collected, source, options, out, given)
    if taken.unsaved:
        out.problem(taken.unsaved.message, hint="The capture ends there; the verdict has it all.")
    raise click.exceptions.Exit(_code(taken, starving=starving))


def _code(taken: _Taken, *, starving: bool) -> int:
    if taken.interrupted:
        return EXIT_INTERRUPTED
    if taken.unsaved:
        return EXIT_INCOMPLETE
    return EXIT_NO if starving else EXIT_OK


def _source(given: dict[str, Any], clock: InterruptibleClock) -> LiveSource:
    from ai4infra import __version__
    from ai4infra.live import paths
    from ai4infra.live.machine import Kernel
    from ai4infra.live.sampler import LiveSource

    path = paths.resolve(given["path"]) if given["path"] else None
    kernel = Kernel()
    here = paths.look(path, size=given["size"], region=given["region"])
    return LiveSource(
        duration_s=given["duration"],
        interval_s=given["interval"],
        host=paths.host_facts(here, kernel, path, tool=f"ai4infra {__version__}"),
        kernel=kernel,
        clock=clock,
    )


def _judge(
    collected: Collector,
    source: LiveSource,
    options: Options,
    out: Output,
    given: dict[str, Any],
) -> bool:
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
        currency=given["currency"],
        remarks=tuple(source.remarks()),
    )
    found = diagnose(collected, question)
    with suppress(KeyboardInterrupt):
        # Ctrl-C here means that the price is not worth the wait; the verdict is.
        found = in_money(found, collected, question, options, given)
    out.result(diagnosis_page(found, size))
    for warning in found.warnings:
        out.warn(warning)
    if given["report"]:
        from ai4infra.cli.diagnose_report import write_report

        write_report(given["report"], found, collected, source.host)
    return found.verdict.starving


class _Taken(NamedTuple):
    """What was sampled, and how that ended."""

    collected: Collector
    interrupted: bool
    unsaved: Ai4infraError | None
    """Why the capture is not whole, where one was wanted."""


def _collect(
    source: LiveSource, clock: InterruptibleClock, options: Options, given: dict[str, Any]
) -> _Taken:
    """Sample to the end, or to Ctrl-C."""
    from ai4infra.diagnosis.series import Collector
    from ai4infra.live.capture import saving

    collected, capture, interrupted = Collector(), None, False
    with ExitStack() as stack:
        if given["save"]:
            capture = stack.enter_context(saving(Path(given["save"])))
            capture.begin(source.host)
        show = stack.enter_context(_shown(options))
        stack.enter_context(clock)
        try:
            for moment in source.moments():
                collected.extend(moment)
                if capture:
                    capture.add(moment)
                at = next((sample.time_s for sample in moment if sample.time_s), 0.0)
                show(moment, given["duration"] - at)
        except KeyboardInterrupt:
            interrupted = True
    return _Taken(collected, interrupted, capture.failed if capture else None)


@contextmanager
def _shown(options: Options) -> Iterator[Show]:
    """Yield what shows moments: a picture on a terminal, elsewhere nothing."""
    if not sys.stderr.isatty() or options.only_show_errors:
        yield lambda moment, left_s: None
        return
    from ai4infra.cli.diagnose_view import on_terminal

    with on_terminal() as show:
        yield show
