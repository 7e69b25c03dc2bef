"""The command line: ``ai4infra``. Commands are imported when they are called."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import click

from ai4infra.cli.options import SETTINGS, Group, HintedUsage, Lazy, is_common, switches
from ai4infra.cli.output import about_az, error_lines, in_sandbox
from ai4infra.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Ai4infraError

EXIT_CLOSED_PIPE = 141
"""As a shell reports a program that SIGPIPE ended."""
GARBAGE_THRESHOLD = 20_000
"""Collecting the little garbage of a short run takes a tenth of its time, most of it in vain."""

COMMANDS = {
    "recon": Lazy("ai4infra.cli.recon:recon", "Show the GPU sizes of a region and what fits."),
    "quota": Lazy("ai4infra.cli.quota:quota", "List VM quotas and request higher limits."),
    "storage": Lazy("ai4infra.cli.storage:storage", "Make, audit and size storage accounts."),
    "rbac": Lazy("ai4infra.cli.rbac:rbac", "Give roles, list and remove them, wait for them."),
    "data": Lazy("ai4infra.cli.data:data", "Copy datasets in, out and across with AzCopy."),
    "mount": Lazy("ai4infra.cli.mount:mount", "Make, check and run BlobFuse2 mounts."),
    "tools": Lazy("ai4infra.cli.tools:tools", "Install the programs that ai4infra starts."),
    "diagnose": Lazy("ai4infra.cli.diagnose:diagnose", "Tell why the GPUs wait."),
    "sandbox": Lazy("ai4infra.cli.sandbox:sandbox", "Serve and reset the local Azure."),
    "completion": Lazy(
        "ai4infra.cli.completion:completion", "Print the shell's completion script."
    ),
}

EXAMPLES = """
ai4infra --sandbox recon --region eastus2
ai4infra recon --region eastus2 --need 8xStandard_ND96asr_v4
ai4infra quota list --region eastus2 -o json
ai4infra storage create --dry-run
"""


class Root(Group):
    """The command itself; turns whatever is raised into one sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "ai4infra",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode ends the process with its exit code."""
        words = list(sys.argv[1:] if args is None else args)

        def call() -> Any:
            return super(Root, self).main(words, prog_name, complete_var, False, **extra)

        if not standalone_mode:
            return call()
        sys.exit(_guarded(call, debug="--debug" in words, sandbox="--sandbox" in words))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line; ``--help`` prints here."""
        with _closed_pipe_told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _closed_pipe_told():
            return super().invoke(ctx)


class ClosedPipeError(Exception):
    """Whoever read the output went away; click takes a BrokenPipeError for a failure."""


@contextmanager
def _closed_pipe_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ClosedPipeError from error


def _guarded(call: Callable[[], Any], *, debug: bool, sandbox: bool) -> int:
    """Return the exit code of a call, telling on stderr why it is not 0."""
    try:
        code = call()
        sys.stdout.flush()
        return code if isinstance(code, int) else EXIT_OK
    except (BrokenPipeError, ClosedPipeError):
        _discard_stdout()
        return EXIT_CLOSED_PIPE
    except (click.exceptions.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return _tell_usage(error)
    except Exception as error:
        code = _tell(error, debug=debug, sandbox=sandbox)
        _flush_or_discard()
        return code


def _flush_or_discard() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()


def _discard_stdout() -> None:
    # The interpreter flushes stdout once more at its end, and would complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_usage(error: click.ClickException) -> int:
    message = _sentence(error)
    error_lines(message, hint=_hint(error))
    return error.exit_code


def _sentence(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        return f"There is no option {error.option_name}."
    # Of an argument, only what was given means something to who typed it.
    is_argument = isinstance(getattr(error, "param", None), click.Argument)
    bad_value = is_argument and type(error) is click.BadParameter
    message = (error.message if bad_value else error.format_message()).strip()
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _hint(error: click.ClickException) -> str | None:
    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and ctx and isinstance(ctx.command, Group):
        name = error.option_name
        if is_common(name):
            return f"Write it after the command: `{ctx.command_path} COMMAND {name} …`."
    close = getattr(error, "possibilities", None)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    if isinstance(error, HintedUsage) and error.hint:
        return error.hint
    return f"`{ctx.command_path} --help` shows what there is." if ctx else None


def _tell(error: Exception, *, debug: bool, sandbox: bool) -> int:
    """Tell of an error of ours, or of one that nobody expected."""
    if isinstance(error, Ai4infraError):
        hint = _hint_here(error.hint, sandbox=sandbox) if error.hint else None
        error_lines(error.message, code=error.code, hint=hint)
        if debug and error.detail:
            click.echo(error.detail, err=True)
        return error.exit_code
    if isinstance(error, OSError) and error.filename is None and error.errno is not None:
        error_lines(f"The system says: {error.strerror}.", hint=None if debug else _DEBUG_HINT)
    else:
        error_lines(_unexpected(error), hint=None if debug else _DEBUG_HINT)
    if debug:
        click.echo(_masked_traceback(error), err=True)
    return EXIT_FAILED


def _hint_here(hint: str, *, sandbox: bool) -> str:
    """Fit the commands in a hint to where this run is."""
    from ai4infra.settings import wants_sandbox

    return about_az(in_sandbox(hint)) if sandbox or wants_sandbox(os.environ) else hint


_DEBUG_HINT = "Run it with --debug to see more."


def _unexpected(error: Exception) -> str:
    from ai4infra.cloud.masking import mask

    said = " ".join(mask(str(error)).split())
    return f"Something unexpected happened ({type(error).__name__}{': ' if said else ''}{said})."


def _masked_traceback(error: Exception) -> str:
    import traceback

    from ai4infra.cloud.masking import mask

    return mask("".join(traceback.format_exception(error)))


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from ai4infra import __version__

    click.echo(f"ai4infra {__version__}")
    ctx.exit()


@click.group(
    cls=Root,
    name="ai4infra",
    lazy=COMMANDS,
    invoke_without_command=True,
    context_settings=SETTINGS,
    epilog=EXAMPLES,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    show_default=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main(**switches: bool) -> None:
    """GPU infrastructure on Azure: what can be started, what is in the way, what to do."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _switch in switches:
    main = _switch(main)


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def run() -> None:
    """Start the command line: the entry point of the package."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    # A stream that the caller closed is None.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another one instead of failing.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # both are text streams
    try:
        main(prog_name="ai4infra")
    finally:
        # Else the interpreter looks through everything once more, only to throw it away.
        gc.freeze()
