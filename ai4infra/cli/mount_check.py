"""``ai4infra mount check``: what is wrong with BlobFuse2 configurations and live mounts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.mount import (
    allow_os_disk,
    begun,
    machine_of,
    machine_option,
    refuse_sandbox,
    this_machine_or_none,
)
from ai4infra.cli.options import SETTINGS, Command, HintedUsage, Options, common, switch
from ai4infra.errors import EXIT_NO

if TYPE_CHECKING:
    from ai4infra.mounts.lint import Context, Document, Finding
    from ai4infra.render import Page
    from ai4infra.tools.lsblk import Machine

EXAMPLES = """
ai4infra mount check train.yaml ckpt.yaml
ai4infra mount check train.yaml --no-host -o json
ai4infra mount check --mounted
"""


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("files", nargs=-1, metavar="[CONFIG]...", type=click.Path(path_type=Path))
@switch("--mounted", help="Check the mounts of this machine, as they run.")
@switch("--no-host", help="Check the files alone, without disks and memory.")
@click.option(
    "--hns/--no-hns",
    default=None,
    show_default=False,
    help="The account's namespace is hierarchical, or flat.  [default: not known]",
)
@allow_os_disk
@machine_option
@common()
def check(options: Options, files: tuple[Path, ...], machine: Path | None, **given: Any) -> None:
    """Check BlobFuse2 configurations, each and together; several files share one machine.

    BlobFuse2 ignores keys that it does not know. Exit code 4 means that something was found.
    """
    from ai4infra.mounts import lint
    from ai4infra.tools import blobfuse2

    _check_together(files, machine, given)
    out = begun(options)
    if given["mounted"]:
        refuse_sandbox(options, "have mounts")
        found, checked = _mounted(given["hns"], given["allow_os_disk"])
    else:
        documents = [lint.parse(blobfuse2.config_text(file), str(file)) for file in files]
        host = None if given["no_host"] else _machine(options, machine)
        ours = machine is None and not options.sandbox
        context = context_of(
            documents,
            host,
            hns=given["hns"],
            resolve=ours,
            allow_os_disk=given["allow_os_disk"],
        )
        found, checked = lint.lint_all(documents, context), len(documents)
    out.result(_page(found, checked, "mount" if given["mounted"] else "file"))
    if found:
        raise click.exceptions.Exit(EXIT_NO)


def _check_together(files: Sequence[Path], machine: Path | None, given: dict[str, Any]) -> None:
    if given["mounted"] == bool(files):
        raise HintedUsage(
            "It takes configurations or --mounted, one of the two.",
            hint="Such as `ai4infra mount check train.yaml`.",
        )
    if given["no_host"] and (machine or given["mounted"]):
        other = "--machine" if machine else "--mounted"
        raise click.UsageError(f"--no-host and {other} do not go together.")
    if given["mounted"] and machine:
        raise click.UsageError("--mounted and --machine do not go together.")


def _machine(options: Options, folder: Path | None) -> Machine | None:
    if folder is not None or options.sandbox:
        return machine_of(options, folder)
    return this_machine_or_none()


def context_of(
    documents: Sequence[Document],
    machine: Machine | None,
    *,
    hns: bool | None = None,
    version: str | None = None,
    resolve: bool = True,
    allow_os_disk: bool = False,
) -> Context:
    """Return what is known beside the files; ``resolve`` follows links of their cache folders."""
    from ai4infra.mounts.lint import Context
    from ai4infra.tools import blobfuse2

    paths = {d.cache_path for d in documents if d.cache_path} if resolve else set()
    return Context(
        host=machine.host() if machine else None,
        hns=hns,
        version=version,
        allow_os_disk=allow_os_disk,
        resolved={path: os.path.realpath(blobfuse2.expanded(path)) for path in paths},
    )


def _mounted(hns: bool | None, allow_os_disk: bool) -> tuple[tuple[Finding, ...], int]:
    from ai4infra.mounts import lint
    from ai4infra.tools import blobfuse2

    mounts, running = blobfuse2.mounts(), blobfuse2.running()
    read = {each.config_file: blobfuse2.read_document(each.config_file) for each in running}
    documents = {str(file): document for file, document in read.items() if document}
    context = context_of(
        list(documents.values()), this_machine_or_none(), hns=hns, allow_os_disk=allow_os_disk
    )
    return lint.lint_mounted(mounts, running, documents, context), len(mounts)


def _page(found: Sequence[Finding], checked: int, what: str) -> Page:
    from ai4infra.mounts.lint import Finding
    from ai4infra.render import Column, Page, document

    return Page(
        document=document("mountCheck", checked=checked, findings=found),
        rows=found,
        row_type=Finding,
        columns=[
            Column("Where", lambda f: f.where),
            Column("What", lambda f: f.severity),
            Column("Rule", lambda f: f.rule, False, 2),
            Column("Finding", lambda f: f.message),
            Column("Do", lambda f: f.fix, False, 1),
        ],
        below=[_summary(found, checked, what)],
        tone=lambda f: "bad" if f.severity == "error" else None,
    )


def _summary(found: Sequence[Finding], checked: int, what: str) -> str:
    errors = sum(finding.severity == "error" for finding in found)
    done = f"{counted(checked, what)} checked"
    if not found:
        return f"{done}: nothing found."
    return f"{done}: {counted(errors, 'error')}, {counted(len(found) - errors, 'warning')}."


def counted(count: int, what: str) -> str:
    """Return a count of things, with a plural s where it is not one."""
    return f"{count} {what}{'' if count == 1 else 's'}"
