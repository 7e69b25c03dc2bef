"""``ai4infra completion``: the shell's completion script."""

from __future__ import annotations

import click

from ai4infra.cli import complete
from ai4infra.cli.options import SETTINGS, Command, unknown_choice

VARIABLE = "_AI4INFRA_COMPLETE"

EXAMPLES = """
eval "$(ai4infra completion bash)"                                       in ~/.bashrc
eval "$(ai4infra completion zsh)"                                        in ~/.zshrc
ai4infra completion fish > ~/.config/fish/completions/ai4infra.fish      once
"""


def _shell(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value.casefold() in complete.SHELLS:
        return value.casefold()
    raise unknown_choice("shell", value, complete.SHELLS, ctx)


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("shell", callback=_shell, shell_complete=complete.shells, metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the script that makes a shell complete ai4infra's commands and values."""
    from click.shell_completion import ShellComplete, get_completion_class

    from ai4infra.cli.main import main

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no shell called {shell!r}.")
    # The base's source: bash's own starts a bash to ask for its version.
    click.echo(ShellComplete.source(found(main, {}, "ai4infra", VARIABLE)))
