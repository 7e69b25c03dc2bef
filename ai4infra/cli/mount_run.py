"""``ai4infra mount up|down|status``: runs BlobFuse2, after a check of what it would do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.mount import allow_os_disk, begun, refuse_sandbox, this_machine_or_none
from ai4infra.cli.options import SETTINGS, Command, Options, common, switch
from ai4infra.cli.output import Output, quiet_interrupt

if TYPE_CHECKING:
    from ai4infra.cli.rows import MountRow
    from ai4infra.mounts.lint import Document
    from ai4infra.mounts.live import Mount, Running
    from ai4infra.render import Page
    from ai4infra.tools.blobfuse2 import Progress

UP_EXAMPLES = """
ai4infra mount up /data/train -f train.yaml
ai4infra mount up /data/train -f train.yaml --no-wait
"""


# --- up


@click.command("up", cls=Command, context_settings=SETTINGS, epilog=UP_EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--file",
    "config",
    required=True,
    metavar="CONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="BlobFuse2 configuration.",
)
@switch("--no-wait", help="Do not wait until it can be read, nor for a preload.")
@switch("--force", help="Mount although the check finds errors.")
@allow_os_disk
@common()
def up(options: Options, path: Path, config: Path, **given: Any) -> None:
    """Check a configuration, mount it at PATH, and wait until it can be read.

    A preload is followed to its end; Ctrl-C leaves it running.
    """
    from ai4infra.cloud.masking import mask
    from ai4infra.tools import blobfuse2

    out = begun(options)
    refuse_sandbox(options, "mount")
    program = blobfuse2.installed()
    place, file = blobfuse2.place_of(path), config.expanduser().absolute()
    document = _preflight(out, file, program.version, given)
    blobfuse2.check_free(place)
    _make_folders(place, document)
    blobfuse2.mount(program, place, file, mask=mask)
    if not given["no_wait"]:
        blobfuse2.wait_readable(place)
        _follow(out, place, document)
    rows = [_row(each) for each in _looked([place])]
    if not rows:
        out.warn(f"BlobFuse2 was started, and {place} is not in the list of mounts yet.")
    out.result(status_page(rows))


def _preflight(out: Output, file: Path, version: str, given: dict[str, Any]) -> Document:
    """Return the configuration; raises UsageError where BlobFuse2 would ignore or refuse it."""
    from ai4infra.cli.mount_check import context_of, counted
    from ai4infra.errors import UsageError
    from ai4infra.mounts import lint
    from ai4infra.tools import blobfuse2

    document = lint.parse(blobfuse2.config_text(file), str(file))
    context = context_of(
        [document],
        this_machine_or_none(),
        version=version,
        allow_os_disk=given["allow_os_disk"],
    )
    found = lint.lint(document, context)
    errors = [finding for finding in found if finding.severity == "error"]
    for finding in found:
        said = f"{finding.where}: {finding.message}"
        if finding.severity == "error":
            out.problem(said, hint=finding.fix)
        else:
            out.warn(said)
    if errors and not given["force"]:
        raise UsageError(
            f"{file} has {counted(len(errors), 'error')}; nothing was mounted.",
            hint="Mend it, or mount it as it is with --force.",
        )
    return document


def _make_folders(place: Path, document: Document) -> None:
    """Make the mount point and the cache's folder: BlobFuse2 makes no folders above them."""
    from ai4infra.errors import Ai4infraError
    from ai4infra.tools.blobfuse2 import expanded

    cache = Path(expanded(document.cache_path)) if document.cache_path else None
    _check_place(place, cache, nonempty=document.is_true("nonempty"))
    try:
        place.mkdir(parents=True, exist_ok=True)
        if cache:
            cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Ai4infraError(
            f"{error.filename or place} cannot be made: {error.strerror}.",
            hint="It takes a folder that you may write to, or root.",
        ) from error


def _check_place(place: Path, cache: Path | None, *, nonempty: bool) -> None:
    """Refuse a mount point that is a file, holds something, or has the cache in or around it."""
    from ai4infra.errors import Ai4infraError, ConflictError
    from ai4infra.mounts.config import caches_overlap

    if cache and caches_overlap(str(place), os.path.realpath(cache)):
        raise ConflictError(
            f"The cache {cache} and the mount point {place} lie in one another.",
            hint="Mount at another folder, or give the cache one of its own.",
        )
    try:
        held = place.exists() and (not place.is_dir() or any(place.iterdir()))
    except OSError as error:
        raise Ai4infraError(f"{place} cannot be used: {error.strerror}.") from error
    if held and not (nonempty and place.is_dir()):
        what = "not empty, and a mount would hide what is in it" if place.is_dir() else "a file"
        raise ConflictError(f"{place} is {what}.", hint="Mount at an empty folder.")


def _follow(out: Output, place: Path, document: Document) -> None:
    """Follow a preload that exports its progress."""
    from ai4infra.tools import blobfuse2

    if document.cache != "xload" or not document.is_true("xload.export-progress"):
        return
    mounter = next((each for each in blobfuse2.running() if each.mount_path == str(place)), None)
    configured = document.text("default-working-dir")
    folder = blobfuse2.working_folder(mounter, configured) if mounter else None
    if mounter is None or folder is None:
        out.warn("The preload's progress cannot be read; `ai4infra mount status` tries again.")
        return
    pid = mounter.pid
    with quiet_interrupt(
        [f"{place} stays mounted and the preload goes on; `ai4infra mount status` shows it."]
    ):
        last = blobfuse2.follow_preload(
            lambda: blobfuse2.progress_of(pid, folder),
            lambda sample: out.progress(progress_text(sample)),
            alive=lambda: any(each.pid == pid for each in blobfuse2.running()),
        )
    out.end_progress()
    if last is None or not last.total:
        out.warn(
            "The preload tells nothing: the container is empty, or it is still listing."
            " `ai4infra mount status` looks again."
        )
    elif last.failed:
        out.warn(f"{last.failed:,} of {last.total:,} files were not preloaded; its log says why.")


def progress_text(sample: Progress) -> str:
    """Return a preload's progress in one line."""
    from ai4infra.transfer.progress import bytes_text

    return (
        f"preload: {sample.percent:.0f}%, {sample.done:,} of {sample.total:,} files,"
        f" {bytes_text(sample.bytes_transferred)}, {sample.mbits_s * 2**20 / 8e6:,.0f} MB/s"
    )


# --- down


@click.command("down", cls=Command, context_settings=SETTINGS)
@click.argument("path", type=click.Path(path_type=Path))
@switch("--lazy", help="Where it is in use: unmount it when it is free.")
@common()
def down(options: Options, path: Path, **given: Any) -> None:
    """Unmount PATH; what was written is uploaded first, and the cache is emptied."""
    from ai4infra.tools import blobfuse2

    out = begun(options)
    refuse_sandbox(options, "unmount")
    place = blobfuse2.place_of(path)
    out.progress(f"unmounting {place}: what was written is uploaded first")
    blobfuse2.unmount(blobfuse2.installed(any_release=True), place, lazy=given["lazy"])
    out.end_progress()
    out.note(f"{place} is unmounted." if not given["lazy"] else f"{place} goes when it is free.")


# --- status


@click.command("status", cls=Command, context_settings=SETTINGS)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@common()
def status(options: Options, paths: tuple[Path, ...]) -> None:
    """Show the BlobFuse2 mounts of this machine: what, where, how, and preload progress."""
    from ai4infra.errors import NotFoundError
    from ai4infra.tools import blobfuse2

    out = begun(options)
    refuse_sandbox(options, "have mounts")
    wanted = [blobfuse2.place_of(path) for path in paths]
    rows = [_row(each) for each in _looked(wanted)]
    out.result(status_page(rows))
    missing = [str(p) for p in wanted if str(p) not in {row.path for row in rows}]
    if missing:
        raise NotFoundError(
            f"{', '.join(missing)}: no mount of BlobFuse2.",
            hint="`ai4infra mount status` lists all.",
        )


def _looked(paths: Iterable[Path]) -> Iterator[tuple[Mount, Running | None, Document | None]]:
    """Yield the mounts at these paths, or all of them, with what is known of each."""
    from ai4infra.tools import blobfuse2

    wanted = {str(path) for path in paths}
    running = blobfuse2.running()
    for each in blobfuse2.mounts():
        if wanted and each.path not in wanted:
            continue
        mounter = next((r for r in running if r.mount_path == each.path), None)
        yield each, mounter, blobfuse2.read_document(mounter.config_file) if mounter else None


def _row(found: tuple[Mount, Running | None, Document | None]) -> MountRow:
    from ai4infra.cli.rows import MountRow
    from ai4infra.mounts.lint import with_settings
    from ai4infra.tools import blobfuse2

    at, mounter, document = found
    known = with_settings(document, mounter.settings) if document and mounter else None
    sample = None
    if mounter and known and known.cache == "xload":
        folder = blobfuse2.working_folder(mounter, known.text("default-working-dir"))
        sample = blobfuse2.progress_of(mounter.pid, folder) if folder else None
    return MountRow(
        path=at.path,
        account=(known.text("azstorage.account-name") or None) if known else None,
        container=(known.text("azstorage.container") or None) if known else None,
        cache=known.cache if known else None,
        cache_path=known.cache_path if known else None,
        read_only=at.read_only,
        pid=mounter.pid if mounter else None,
        config_file=mounter.config_file if mounter else None,
        preload_percent=sample.percent if sample else None,
        preload_failed=sample.failed if sample else None,
    )


def status_page(rows: list[MountRow]) -> Page:
    """Return the page of mounts."""
    from ai4infra.cli.rows import MountRow
    from ai4infra.render import UNKNOWN, Column, Page, document

    return Page(
        document=document("mounts", mounts=rows),
        rows=rows,
        row_type=MountRow,
        columns=[
            Column("Mount", lambda r: r.path),
            Column("What", lambda r: f"{r.account or '?'}/{r.container or '?'}"),
            Column("Cache", lambda r: r.cache or "?"),
            Column("At", lambda r: r.cache_path or "-", False, 2),
            Column("Access", lambda r: "read-only" if r.read_only else "read-write", False, 1),
            Column("Preload", _preload_text, True),
            Column("Process", lambda r: UNKNOWN if r.pid is None else str(r.pid), True, 3),
        ],
        below=[] if rows else ["BlobFuse2 has nothing mounted here."],
        tone=lambda r: "bad" if r.pid is None else None,
    )


def _preload_text(row: MountRow) -> str:
    if row.preload_percent is None:
        return "?" if row.cache == "xload" else "-"
    failed = f", {row.preload_failed:,} failed" if row.preload_failed else ""
    return f"{row.preload_percent:.0f}%{failed}"
