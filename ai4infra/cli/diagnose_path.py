"""``ai4infra diagnose path`` and ``probe``: what stands behind a path, and what it feeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.complete import sizes
from ai4infra.cli.mount import begun, machine_of, machine_option, refuse_sandbox
from ai4infra.cli.options import SETTINGS, Command, F, HintedUsage, Options, common, filled, number
from ai4infra.cli.start import offline
from ai4infra.errors import EXIT_NO, EXIT_OK

if TYPE_CHECKING:
    from ai4infra.diagnosis.behind import Behind, Cause
    from ai4infra.diagnosis.feed import Need, Probe
    from ai4infra.live.probe import Bounds
    from ai4infra.render import Column, Page, Tone

PATH_EXAMPLES = """
ai4infra diagnose path /mnt/training-data
ai4infra diagnose path . -o json --query "causes[?found]"
"""
PROBE_EXAMPLES = """
ai4infra diagnose probe /mnt/training-data --gpus 8xH100 --workload resnet50
ai4infra diagnose probe /mnt/nvme/imagenet --need 1.6GB/s --workers 32
ai4infra diagnose probe ./images --gpus 4xA100 --workload resnet50 --decode pipeline:decode
ai4infra diagnose probe ./images --need 800MB/s --decode "djpeg -outfile /dev/null {}"
"""


def size_option(function: F) -> F:
    """Give a command ``--size``, the VM size where the machine does not know it."""
    option: Callable[[F], F] = click.option(
        "--size",
        metavar="SIZE",
        callback=filled,
        shell_complete=sizes,
        help="VM size, for its limits.  [default: as the VM knows it]",
    )
    return option(function)


@click.command(cls=Command, context_settings=SETTINGS, epilog=PATH_EXAMPLES)
@click.argument("where", metavar="PATH")
@size_option
@machine_option
@common()
def path(options: Options, **given: Any) -> None:
    """Show what stands behind a path, and check the three classic causes.

    Standard HDD or a small Standard share; a remote mount without a cache; a cache on the OS disk.
    What this machine cannot know is unknown. Reads no data. Exit code 4 when a cause is found.
    """
    from ai4infra.live.paths import resolve

    out = begun(options)
    found = _captured(options, given) or _behind(resolve(given["where"]), given)
    out.result(_path_page(found))
    raise click.exceptions.Exit(EXIT_NO if any(c.found for c in found.causes) else EXIT_OK)


def _behind(resolved: str, given: dict[str, Any]) -> Behind:
    from ai4infra.diagnosis.behind import behind
    from ai4infra.live import paths

    return behind(resolved, paths.look(resolved, size=given["size"]))


def _captured(options: Options, given: dict[str, Any]) -> Behind | None:
    """Return what is behind a path of the sandbox's machine or a captured one; else None."""
    from ai4infra.diagnosis.behind import behind
    from ai4infra.live.paths import captured

    if given["machine"] is None and not options.sandbox:
        return None
    machine = machine_of(options, given["machine"])
    # Links of another machine cannot be followed here.
    return behind(os.path.normpath(given["where"]), captured(machine, size=given["size"]))


def _path_page(found: Behind) -> Page:
    from ai4infra.diagnosis.behind import Cause
    from ai4infra.render import Column, Page, document, yes_no

    return Page(
        document=document("path", behind=found, causes=found.causes),
        rows=found.causes,
        row_type=Cause,
        columns=[
            Column("Cause", lambda c: c.cause),
            Column("Found", lambda c: yes_no(c.found)),
            Column("Why", lambda c: c.why, rank=1),
        ],
        above=list(_facts(found)),
        below=[*found.notes, *_fixes(found)],
        tone=_tone,
    )


def _facts(found: Behind) -> Iterator[str]:
    at = "" if found.mount_path == "/" else f" mounted at {found.mount_path}"
    yield f"{found.path}: {found.kind}, {found.source} ({found.fstype}){at}"
    if found.disk_sku:
        yield f"  disk: {found.disk_sku}"
    if found.mode:
        place = f" in {found.cache_path}" if found.cache_path else ""
        on = f", on the {found.cache_on}" if found.cache_on and found.cache_path else ""
        yield f"  cache: {found.mode}{place}{on}"
    if found.capacity_gib is not None:
        yield f"  size: {_number(found.capacity_gib)} GiB"
    if found.ceiling_mbytes_s is not None:
        yield f"  ceiling: {_number(found.ceiling_mbytes_s)} MB/s ({found.ceiling})"
    if found.lost_on_deallocation:
        yield "  lost when the VM is deallocated or redeployed"


def _fixes(found: Behind) -> Iterator[str]:
    for cause in found.causes:
        if cause.fix:
            yield f"{'What helps' if cause.found else 'To find out'}: {cause.cause}"
            yield f"  {cause.fix}"


def _tone(cause: Cause) -> Tone | None:
    return "dim" if cause.found is None else "bad" if cause.found else "good"


# --- probe


@click.command(cls=Command, context_settings=SETTINGS, epilog=PROBE_EXAMPLES)
@click.argument("where", metavar="PATH")
@click.option("--need", metavar="RATE", callback=filled, help="What has to be fed: 1.6GB/s.")
@click.option(
    "--gpus", metavar="COUNTxGPU", callback=filled, help="GPUs to feed: 8xH100, or a VM size."
)
@click.option(
    "--workload",
    metavar="NAME",
    callback=filled,
    help="Benchmark whose appetite is taken: resnet50, unet3d, …  [default: resnet50]",
)
@click.option(
    "--workers",
    callback=number,
    metavar="COUNT",
    help="Readers at the same time.  [default: CPUs, 32 at most]",
)
@click.option(
    "--seconds",
    callback=number,
    default="10",
    metavar="SECONDS",
    help="The most that each pass takes.",
)
@click.option(
    "--bytes",
    "size_limit",
    metavar="SIZE",
    callback=filled,
    help="The most that is read.  [default: 8GB, or a quarter of the free memory]",
)
@click.option(
    "--decode",
    metavar="CALL",
    callback=filled,
    help="MODULE:FUNCTION that takes a file's bytes, or a command with {} for the file.",
)
@size_option
@common()
def probe(options: Options, **given: Any) -> None:
    """Read some of your own files and say what GPUs that feeds.

    First cold, then once more from memory; with --decode, preparation is measured apart. Only
    pages of the files that are read are dropped from memory. Exit code 4 when the need is not met.
    """
    from ai4infra.live.paths import resolve
    from ai4infra.live.probe import probe as run

    refuse_sandbox(options, "be read from")
    out = offline(options)
    need, bounds = _need(given), _bounds(given)
    path = resolve(given["where"])
    done = run(
        _behind(path, given),
        bounds,
        path=path,
        need=need,
        decode=given["decode"],
        on_step=out.progress,
    )
    if done.failed:
        out.warn(f"{done.failed:,} reads failed and were left out.")
    out.result(_probe_page(done))
    starving = done.carried is not None and not done.carried.fed
    raise click.exceptions.Exit(EXIT_NO if starving else EXIT_OK)


def _need(given: dict[str, Any]) -> Need | None:
    from ai4infra.diagnosis.feed import need_of_gpus, need_of_rate

    if given["need"] and given["gpus"]:
        raise HintedUsage("--need and --gpus do not go together.", hint="Say one of the two.")
    if given["workload"] and not given["gpus"]:
        raise HintedUsage("--workload needs --gpus.", hint="Say which GPUs: --gpus 8xH100.")
    if given["gpus"]:
        return need_of_gpus(given["gpus"], given["workload"] or "resnet50")
    return need_of_rate(given["need"]) if given["need"] else None


def _bounds(given: dict[str, Any]) -> Bounds:
    from ai4infra.live.probe import checked, default_bytes
    from ai4infra.sizing import parse_bytes

    limit = parse_bytes(given["size_limit"]) if given["size_limit"] else default_bytes()
    workers = given["workers"]
    if workers is None:
        workers = min(32, os.cpu_count() or 1)
    return checked(workers, given["seconds"], limit)


def _probe_page(done: Probe) -> Page:
    from ai4infra.cli.diagnose_rows import FeedRow
    from ai4infra.render import Page, document

    rows = [FeedRow.of_pass(p) for p in (done.cold, done.cached) if p]
    if done.preparation:
        rows.append(FeedRow.of_preparation(done.preparation))
    return Page(
        document=document("probe", probe=done, passes=rows),
        rows=rows,
        row_type=FeedRow,
        columns=_probe_columns(),
        above=list(_about(done)),
        below=list(_answer(done)),
    )


def _probe_columns() -> list[Column]:
    from ai4infra.render import Column

    return [
        Column("Pass", lambda r: r.name),
        Column("MB/s", lambda r: _number(r.mbytes_s), True),
        Column("Files/s", lambda r: _number(r.files_s), True),
        Column("Read MB", lambda r: _number(r.bytes / 10**6), True, 2),
        Column("Seconds", lambda r: _number(r.seconds), True, 3),
        Column("Median ms", lambda r: _number(r.median_ms), True),
        Column("95 % ms", lambda r: _number(r.p95_ms), True, 1),
        Column("99 % ms", lambda r: _number(r.p99_ms), True, 1),
    ]


def _about(done: Probe) -> Iterator[str]:
    mode = f", {done.mode}" if done.mode else ""
    yield f"{done.path}: {done.kind}{mode}; {done.workers} readers"
    if done.need:
        yield f"need: {_number(done.need.mbytes_s)} MB/s ({done.need.basis})"
    if done.ceiling_mbytes_s is not None:
        yield f"ceiling: {_number(done.ceiling_mbytes_s)} MB/s ({done.ceiling})"


def _answer(done: Probe) -> Iterator[str]:
    if done.carried:
        yield done.carried.said
    yield from done.notes


def _number(value: float | None) -> str:
    from ai4infra.render import number

    return number(value, 0 if value is None or value >= 100 else 1 if value >= 1 else 3)
