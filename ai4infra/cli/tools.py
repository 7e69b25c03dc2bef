"""``ai4infra tools``: install the programs that ai4infra starts."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ai4infra.cli.options import SETTINGS, Group, Options, common
from ai4infra.cli.start import offline

EXAMPLES = """
ai4infra tools install azcopy
ai4infra tools install azcopy --from azcopy_linux_amd64.tar.gz
"""


@click.group(cls=Group, context_settings=SETTINGS, epilog=EXAMPLES)
def tools() -> None:
    """Install the programs that ai4infra starts."""


@tools.command("install", context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("program", type=click.Choice(["azcopy"]))
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The program, or an archive with it in.  [default: its npm package]",
)
@click.option("--version", metavar="X.Y.Z", help="Of the npm package.  [default: as tested]")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to.  [default: AI4INFRA_TOOLS_DIR, or bin in the user's data folder]",
)
@common()
def install(
    options: Options, program: str, file: Path | None, version: str | None, folder: Path | None
) -> None:
    """Install AzCopy for this user, and see that it runs.

    `ai4infra data` finds it there; an AzCopy on the path comes first.
    """
    from ai4infra.render import Column, Page, document
    from ai4infra.tools.azcopy import Tool
    from ai4infra.tools.install import VERSION, install_azcopy

    out = offline(options)
    out.progress("fetching AzCopy …")
    tool = install_azcopy(os.environ, file=file, version=version or VERSION, folder=folder)
    out.result(
        Page(
            document=document("tool", tool=tool),
            rows=[tool],
            row_type=Tool,
            columns=[Column("Version", lambda t: t.version), Column("Path", lambda t: t.path)],
        )
    )
