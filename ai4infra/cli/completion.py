"""``ai4infra completion``: the shell's completion script, and what it completes values with.

Values come from the package's own data: completing never asks Azure and never signs in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from ai4infra.cli.options import SETTINGS, Command, unknown_choice

SHELLS = ("bash", "zsh", "fish")
FAMILIES = ("NC", "ND", "NV", "all")
VARIABLE = "_AI4INFRA_COMPLETE"

EXAMPLES = """
eval "$(ai4infra completion bash)"                                       in ~/.bashrc
eval "$(ai4infra completion zsh)"                                        in ~/.zshrc
ai4infra completion fish > ~/.config/fish/completions/ai4infra.fish      once
"""


def _shell(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value.casefold() in SHELLS:
        return value.casefold()
    raise unknown_choice("shell", value, SHELLS, ctx)


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    wanted = incomplete.casefold()
    return [CompletionItem(name) for name in names if name.casefold().startswith(wanted)]


def complete_shells(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names of shells."""
    return _matching(SHELLS, incomplete)


def complete_families(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the classes of GPU series."""
    return _matching(FAMILIES, incomplete)


def complete_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete GPU models."""
    from ai4infra.gpus import models

    return _matching(models(), incomplete)


def complete_sizes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete size names, with or without their ``Standard_``."""
    from ai4infra.gpus import all_sizes

    sizes = all_sizes()
    short = (size.removeprefix("Standard_") for size in sizes)
    return _matching(sizes, incomplete) or _matching(short, incomplete)


def complete_regions(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete region names."""
    return _matching(known_regions(), incomplete)


def known_regions() -> list[str]:
    """Return the names of ``data/regions.toml``."""
    from importlib import resources

    text = resources.files("ai4infra").joinpath("data/regions.toml").read_text("utf-8")
    names: list[str] = _parse_toml(text)["names"]
    return names


def _parse_toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("shell", callback=_shell, shell_complete=complete_shells, metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the script that makes a shell complete ai4infra's commands and values."""
    from click.shell_completion import ShellComplete, get_completion_class

    from ai4infra.cli.main import main

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no shell called {shell!r}.")
    # The base's source: bash's own starts a bash to ask for its version.
    click.echo(ShellComplete.source(found(main, {}, "ai4infra", VARIABLE)))
