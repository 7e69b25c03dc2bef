"""What the shell completes values with: names from the package's own data.

Completing never asks Azure and never signs in. Every function is a ``shell_complete`` of click's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import click

SHELLS = ("bash", "zsh", "fish")
FORMATS = ("table", "json", "jsonl", "csv", "tsv", "yaml")
CLASSES = ("NC", "ND", "NV", "all")


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Complete the last name of a list with commas by those that are not in it."""
    before, comma, last = incomplete.rpartition(",")
    wanted, taken = last.casefold(), before.casefold().split(",")
    return [
        CompletionItem(f"{before}{comma}{name}")
        for name in names
        if name.casefold().startswith(wanted) and name.casefold() not in taken
    ]


def shells(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of shells."""
    return _matching(SHELLS, incomplete)


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of output formats."""
    return _matching(FORMATS, incomplete)


def classes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the classes of GPU series."""
    return _matching(CLASSES, incomplete)


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete GPU models."""
    from ai4infra import gpus

    return _matching(gpus.models(), incomplete)


def sizes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete size names, with or without their ``Standard_``."""
    from ai4infra.gpus import all_sizes

    known = all_sizes()
    short = (size.removeprefix("Standard_") for size in known)
    return _matching(known, incomplete) or _matching(short, incomplete)


def sort_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete what rows can be sorted by, upwards or downwards."""
    from ai4infra.selection import SORT_KEYS

    return _matching((*SORT_KEYS, *(f"-{key}" for key in SORT_KEYS)), incomplete)


def quotas(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete quota names without their blanks, else the sizes that stand for them."""
    from ai4infra.gpus import catalog
    from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA

    families = {row.quota_family.replace(" ", "") for row in catalog().values() if row.quota_family}
    names = (*sorted(families), REGIONAL_QUOTA, SPOT_QUOTA)
    return _matching(names, incomplete) or sizes(ctx, param, incomplete)


def regions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
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
