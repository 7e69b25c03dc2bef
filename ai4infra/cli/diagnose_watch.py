"""``ai4infra diagnose watch``: sample this machine for a while, then judge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.diagnose_path import size_option
from ai4infra.cli.options import SETTINGS, Command, Options, common, filled
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


def report_option(function: Any) -> Any:
    """Give a command ``--report``."""
    return click.option(
        "--report",
        metavar="FILE.html",
        callback=filled,
        help="Write a page with the timeline; it needs nothing beside itself.",
    )(function)


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.option("--duration", type=float, default=60.0, metavar="SECONDS", help="How long.")
@click.option("--interval", type=float, default=1.0, metavar="SECONDS", help="How often.")
@click.option("--path", metavar="PATH", callback=filled, help="Where the training data is read.")
@click.option(
    "--save",
    metavar="FILE.jsonl.gz",
    callback=filled,
    help="Keep the samples in a new file, for `diagnose replay`.",
)
@report_option
@size_option
@common()
def watch(options: Options, **given: Any) -> None:
    """Sample GPUs, disks, CPUs, network and loaders, and say what the GPUs wait for.

    Costs less than 1 % of one core. Exit code 4 when the GPUs starve; Ctrl-C ends it early with
    the verdict so far, and exit code 130.
    """
    from ai4infra.live.sampler import check_times

    out = offline(options)
    check_times(given["duration"], given["interval"])
    source = _source(given)
    for said in source.notes.lost_gpus.values():
        out.warn(said)
    collected, interrupted = _collect(source, out, given)
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


def _collect(source: LiveSource, out: Output, given: dict[str, Any]) -> tuple[Collector, bool]:
    """Sample to the end, or to Ctrl-C; tell which of the two it was."""
    from ai4infra.diagnosis.series import Collector
    from ai4infra.live.capture import saving

    collected = Collector()
    with ExitStack() as stack:
        capture = stack.enter_context(saving(Path(given["save"]))) if given["save"] else None
        view = stack.enter_context(_view(out))
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
def _view(out: Output) -> Iterator[Any]:
    """Yield what shows moments: a picture on a terminal, elsewhere nothing."""
    if not sys.stderr.isatty() or out.quiet:
        yield _Nothing()
        return
    from ai4infra.cli.diagnose_view import on_terminal

    with on_terminal() as view:
        yield view


class _Nothing:
    """Shows nothing."""

    def show(self, moment: Any, left_s: float) -> None:
        """Show nothing."""
