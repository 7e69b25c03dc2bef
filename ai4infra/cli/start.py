"""How every command that asks Azure begins: settings, output, connection, in this order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ai4infra.cli.options import HintedUsage
from ai4infra.cli.output import SANDBOX_NOTICE, Output

if TYPE_CHECKING:
    from ai4infra.cli.options import Options
    from ai4infra.client import Azure


@contextmanager
def started(options: Options) -> Iterator[tuple[Azure, Output]]:
    """Yield what to ask and where to print; a bad ``--output`` or ``--query`` ends it here."""
    from ai4infra.client import connect

    _check_sandbox(options)
    with connect(
        # Several are passed to the question itself; one is a setting like others.
        subscription=options.subscriptions[0] if len(options.subscriptions) == 1 else None,
        sandbox=options.sandbox,
        auth=options.auth,
        client_id=options.client_id,
        tenant=options.tenant,
        cloud=options.cloud,
        arm_endpoint=options.arm_endpoint,
        output=options.output,
        trace=_trace if options.debug else None,
    ) as az:
        out = Output(options, default_format=az.settings.output)
        if options.sandbox:
            out.note(SANDBOX_NOTICE)
        for key, source in az.settings.sources.items():
            out.verbose(f"{key}: {getattr(az.settings, key)} ({source})")
        yield az, out


def offline(options: Options) -> Output:
    """Return where to print, for a command that asks nobody."""
    import os

    from ai4infra.settings import resolve

    return Output(options, default_format=resolve({}, os.environ).output)


def _check_sandbox(options: Options) -> None:
    """Refuse what would be ignored: the sandbox has its own sign-in and cloud."""
    for name in ("auth", "client_id", "tenant", "cloud", "arm_endpoint"):
        if options.sandbox and getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise HintedUsage(
                f"{option} and --sandbox do not go together.",
                hint="The sandbox has its own sign-in and cloud; leave one of the two out.",
            )


def _trace(text: str) -> None:
    click.echo(text, err=True)
