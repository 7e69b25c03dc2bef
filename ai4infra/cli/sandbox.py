"""``ai4infra sandbox``: serve the local Azure, point programs at it, start over."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import click

from ai4infra.cli.complete import SHELLS
from ai4infra.cli.options import SETTINGS, Group, HintedUsage

HIGHEST_PORT = 65535
SERVE_EXAMPLES = """
ai4infra sandbox serve
ai4infra sandbox serve --data-plane
ai4infra sandbox serve --fault throttled,path=/skus,times=2,retry-after=5
"""
ENV_EXAMPLES = """
eval "$(ai4infra sandbox env)"
ai4infra sandbox env --shell fish | source
"""
_state = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the sandbox.  [default: AI4INFRA_STATE_DIR, or the user's state folder]",
)


class SandboxGroup(Group):
    """A group that knows which command was meant for ``--sandbox``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; another one of ai4infra's is asked of the sandbox by an option."""
        others = getattr(ctx.find_root().command, "lazy", {})
        if args and args[0] in others:
            meant = shlex.join(["ai4infra", "--sandbox", *args])
            raise HintedUsage(
                f"There is no command called {args[0]!r} here.", ctx, f"Did you mean `{meant}`?"
            )
        return super().resolve_command(ctx, args)


@click.group(cls=SandboxGroup, context_settings=SETTINGS)
def sandbox() -> None:
    """Serve and reset the local Azure.

    An example world that behaves like Azure: try `ai4infra --sandbox recon -r eastus2`, or serve
    it over HTTPS to the Azure CLI and other programs.
    """


def _port(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    if value is None or 0 <= value <= HIGHEST_PORT:
        return value
    raise click.BadParameter(f"ports are 0 to {HIGHEST_PORT}", ctx, param)


@sandbox.command(epilog=SERVE_EXAMPLES)
@click.option(
    "--port",
    type=int,
    metavar="NUMBER",
    callback=_port,
    help="Port, 0 for any.  [default: 8943]",
)
@_state
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="SPEC",
    help="Answer badly on purpose: KIND[,path=REGEX][,method=M][,times=N][,after=N]"
    "[,retry-after=S]; repeatable.",
)
@click.option(
    "--data-plane",
    is_flag=True,
    help="Keep blobs too, in Azurite (npm install azurite; AI4INFRA_AZURITE names it elsewhere).",
)
@click.option(
    "--instant", is_flag=True, help="Let nothing take time: no waits for operations and grants."
)
def serve(
    port: int | None,
    state: Path | None,
    faults: tuple[str, ...],
    data_plane: bool,
    instant: bool,
) -> None:
    """Serve the sandbox over HTTPS on this machine until Ctrl-C."""
    from ai4infra.sandbox import open_sandbox
    from ai4infra.sandbox.azurite import find_program
    from ai4infra.sandbox.faults import parse_fault
    from ai4infra.sandbox.serve import DEFAULT_PORT, note_running, refuse_second
    from ai4infra.sandbox.serve import serve as served

    folder = _folder(state)
    refuse_second(folder)
    azurite = find_program(os.environ, Path.cwd()) if data_plane else None
    opened = open_sandbox(folder)
    opened.world.instant = instant
    opened.world.faults.extend(parse_fault(spec) for spec in faults)
    chosen = DEFAULT_PORT if port is None else port
    with served(opened, folder, chosen, azurite=azurite) as server:
        note = note_running(folder, server.url)
        ended = _interrupts()
        try:
            click.echo(server.url)
            click.echo(_WELCOME.format(command=_env_command(state)), err=True)
            while not ended:
                time.sleep(_LOOK_SECONDS)
        finally:
            note.unlink(missing_ok=True)


_WELCOME = """An example world, not your subscription; Ctrl-C ends it. In another shell:
  {command}
For az, run `ai4infra sandbox env` once to read how it signs in."""


def _env_command(state: Path | None) -> str:
    option = f" --state {shlex.quote(str(state))}" if state else ""
    return f'eval "$(ai4infra sandbox env{option})"'


_LOOK_SECONDS = 0.1


def _interrupts() -> list[int]:
    """Return a list that the signals to end are put into.

    Looked at and not waited for: a system may give a signal to another thread, and then nothing
    wakes this one; and an event's lock may be held when the signal comes.
    """
    import signal

    ended: list[int] = []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: ended.append(number))
    return ended


@sandbox.command(epilog=ENV_EXAMPLES)
@click.option("--shell", type=click.Choice(SHELLS), default="bash", help="Whose syntax.")
@_state
def env(shell: str, state: Path | None) -> None:
    """Print the shell lines that point az and other programs at the served sandbox."""
    from ai4infra.sandbox.serve import az_lines, environment, running_url

    folder = _folder(state)
    url = running_url(folder)
    for line in env_lines(environment(url, folder), shell):
        click.echo(line)
    click.echo("# Once, to sign az in to the sandbox; your own az sign-in stays untouched:")
    for line in az_lines(url):
        click.echo(f"#   {line}")


def env_lines(variables: dict[str, str], shell: str) -> Iterator[str]:
    """Yield the lines that set the variables in a shell."""
    for name, value in variables.items():
        quoted = shlex.quote(value)
        yield f"set -gx {name} {quoted};" if shell == "fish" else f"export {name}={quoted}"


@sandbox.command()
@_state
def reset(state: Path | None) -> None:
    """Forget everything that was created in the sandbox; its certificate stays."""
    from ai4infra.sandbox.world import STATE_FILE

    path = _folder(state) / STATE_FILE
    existed = path.exists()
    path.unlink(missing_ok=True)
    said = f"Removed {path}." if existed else f"Nothing to remove: there is no {path}."
    click.echo(said, err=True)


def _folder(state: Path | None) -> Path:
    from ai4infra.sandbox.files import state_dir

    return state.absolute() if state else state_dir()
