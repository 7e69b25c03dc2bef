"""``ai4infra mount``: BlobFuse2 mounts, from the disks below to the mount that reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ai4infra.cli.options import SETTINGS, F, Group, HintedUsage, Lazy, Options, switch
from ai4infra.cli.output import SANDBOX_NOTICE, Output
from ai4infra.cli.start import offline

if TYPE_CHECKING:
    from ai4infra.tools.lsblk import Machine

COMMANDS = {
    "disks": Lazy("ai4infra.cli.mount_disks:disks", "What every disk is, and a plan for NVMe."),
    "config": Lazy("ai4infra.cli.mount_config:config", "Write a configuration that fits."),
    "check": Lazy("ai4infra.cli.mount_check:check", "Find what is wrong with configurations."),
    "up": Lazy("ai4infra.cli.mount_run:up", "Check, mount, and wait until it can be read."),
    "down": Lazy("ai4infra.cli.mount_run:down", "Unmount; what was written is uploaded first."),
    "status": Lazy("ai4infra.cli.mount_run:status", "Show the mounts and their preloads."),
}
EXAMPLES = """
ai4infra mount disks
ai4infra mount config sttrain/training-data -f train.yaml
ai4infra mount check train.yaml
ai4infra mount up /data/train -f train.yaml
"""


@click.group(cls=Group, lazy=COMMANDS, context_settings=SETTINGS, epilog=EXAMPLES)
def mount() -> None:
    """Make, check and run BlobFuse2 mounts. Identities only, no keys."""


def allow_os_disk(function: F) -> F:
    """Give a command the option that takes a cache on the OS disk as it is."""
    return switch("--allow-os-disk", help="The cache may be on the OS disk.")(function)


def machine_option(function: F) -> F:
    """Give a command the option that says which machine is meant."""
    option: Callable[[F], F] = click.option(
        "--machine",
        metavar="FOLDER",
        type=click.Path(file_okay=False, exists=True, path_type=Path),
        help="A captured machine instead of this one: lsblk.json, mounts, meminfo.",
    )
    return option(function)


def begun(options: Options) -> Output:
    """Return where to print, and say so where the sandbox's machine is meant."""
    out = offline(options)
    if options.sandbox:
        out.note(SANDBOX_NOTICE)
    return out


def machine_of(options: Options, folder: Path | None) -> Machine:
    """Return the machine that a command is about: captured, the sandbox's, or this one."""
    from ai4infra.tools import lsblk

    if folder is not None:
        return lsblk.read_machine(folder)
    return lsblk.example_machine() if options.sandbox else lsblk.this_machine()


def refuse_sandbox(options: Options, what: str) -> None:
    """Refuse what would change this machine while the sandbox's is meant."""
    if options.sandbox:
        raise HintedUsage(
            f"The sandbox has no machine that could {what}.",
            hint="Leave --sandbox out, and AI4INFRA_SANDBOX unset, on the VM itself.",
        )


def this_machine_or_none() -> Machine | None:
    """Return this machine; None where it is none that can be looked at."""
    from ai4infra.errors import Ai4infraError
    from ai4infra.tools import lsblk

    try:
        return lsblk.this_machine()
    except Ai4infraError:
        return None
