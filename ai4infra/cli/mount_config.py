"""``ai4infra mount config``: a BlobFuse2 configuration that fits the machine and the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli.mount import allow_os_disk, begun, machine_of, machine_option
from ai4infra.cli.options import (
    SETTINGS,
    Command,
    HintedUsage,
    Options,
    common,
    filled,
    switch,
    whole,
)
from ai4infra.cli.storage import one_of

if TYPE_CHECKING:
    from ai4infra.cli.output import Output
    from ai4infra.mounts.config import Config, Wanted
    from ai4infra.mounts.host import Host
    from ai4infra.render import Page

EXAMPLES = """
ai4infra mount config sttrain/training-data
ai4infra mount config sttrain/training-data --dataset 500GB -f train.yaml
ai4infra mount config sttrain/checkpoints --for checkpoints --mounts 2 -f ckpt.yaml
ai4infra mount config sttrain/training-data --no-hns --identity CLIENT_ID -f train.yaml \\
  --at /data/train --unit
"""
MODES = ("auto", "file-cache", "block-cache", "preload")
PURPOSES = ("training", "preprocessing", "inference", "checkpoints")
ASSUMED = (
    "Assumed a hierarchical namespace (type adls), as Azure did not tell; --no-hns is for a flat"
    " one, --hns says that it is so."
)


def _mounts(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return the number of mounts, one or more. A callback of click's."""
    given = whole(ctx, param, value)
    if given is None or given < 1:
        raise click.BadParameter(f"{value!r} is not 1 or more", ctx, param)
    return given


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.argument("target", metavar="ACCOUNT/CONTAINER[/FOLDER]")
@click.option(
    "--mode",
    default="auto",
    metavar="|".join(MODES),
    callback=one_of("mode", MODES),
    help="How data is cached.",
)
@click.option(
    "--for",
    "purpose",
    default="training",
    metavar="|".join(PURPOSES),
    callback=one_of("purpose", PURPOSES),
    help="What the mount is for.",
)
@click.option(
    "--cache",
    metavar="PATH",
    callback=filled,
    help="Folder for the cache.  [default: the largest local NVMe, else the temp disk]",
)
@click.option(
    "--identity",
    metavar="CLIENT_ID",
    callback=filled,
    help="Client id, or resource id, of a user-assigned identity.  [default: the only one]",
)
@click.option("--dataset", metavar="SIZE", callback=filled, help="Size of the data: 2TB, 500GiB.")
@click.option("--largest-file", metavar="SIZE", callback=filled, help="Size of its largest file.")
@click.option(
    "--mounts",
    callback=_mounts,
    default="1",
    metavar="COUNT",
    help="Mounts of this machine, this one counted: they share memory and disk.",
)
@click.option(
    "--hns/--no-hns",
    default=None,
    show_default=False,
    help="The account's namespace is hierarchical, or flat.  [default: asks Azure]",
)
@switch("--partial", help="A preload may leave out what does not fit.")
@switch("--shared-write", help="Other machines write to the container too.")
@switch("--allow-other", help="Let other users read the mount.")
@allow_os_disk
@click.option(
    "-f",
    "--file",
    "file",
    metavar="CONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it here, readable for you alone.  [default: stdout]",
)
@switch("--overwrite", help="Replace a file that says something else.")
@click.option(
    "--at",
    "mount_path",
    metavar="PATH",
    callback=filled,
    help="Where it is going to be mounted; for --unit and --fstab.",
)
@switch("--unit", help="Print a systemd unit that mounts it; needs -f and --at.")
@switch("--fstab", help="Print a line for /etc/fstab; needs -f and --at.")
@machine_option
@common()
def config(options: Options, target: str, machine: Path | None, **given: Any) -> None:
    """Write a BlobFuse2 configuration sized to this machine and the data, every line with why.

    The account type comes from the account's namespace, which Azure is asked for; --hns or
    --no-hns spares that. It signs in with a managed identity.
    """
    from msgspec.structs import replace

    from ai4infra.mounts.config import configure, parse_target

    _check_together(given)
    out = begun(options)
    account, container, folder = parse_target(target)
    host = machine_of(options, machine).host()
    if (given["cache"] or "").startswith("/") and machine is None and not options.sandbox:
        # A link may lead from the fast disk to another.
        given["cache"] = os.path.realpath(given["cache"])
    asked = _asked(given, account, container, folder)
    # What cannot work is refused before Azure is asked.
    configure(asked, host)
    hns, endpoint = _namespace(options, out, given["hns"], account)
    wanted = replace(asked, hns=hns, endpoint=endpoint)
    made = configure(wanted, host)
    _tell(out, made, host)
    _print(options, out, made, wanted, host, given)


def _check_together(given: dict[str, Any]) -> None:
    if given["unit"] and given["fstab"]:
        raise click.UsageError("--unit and --fstab do not go together.")
    for name in ("unit", "fstab"):
        if given[name] and not (given["file"] and given["mount_path"]):
            raise HintedUsage(
                f"--{name} needs -f and --at.",
                hint="They say which configuration is mounted, and where.",
            )


def _asked(given: dict[str, Any], account: str, container: str, folder: str | None) -> Wanted:
    from ai4infra.mounts.config import Wanted
    from ai4infra.sizing import parse_bytes

    system = given["unit"] or given["fstab"]
    as_root = system or os.geteuid() == 0
    return Wanted(
        account=account,
        container=container,
        subdirectory=folder,
        hns=given["hns"] is not False,
        mode=given["mode"],
        purpose=given["purpose"],
        cache=given["cache"],
        identity=given["identity"],
        dataset_bytes=parse_bytes(given["dataset"]) if given["dataset"] else None,
        largest_file_bytes=parse_bytes(given["largest_file"]) if given["largest_file"] else None,
        mounts=given["mounts"],
        partial=given["partial"],
        shared_write=given["shared_write"],
        allow_other=given["allow_other"] or system,
        allow_os_disk=given["allow_os_disk"],
        log_folder="/var/log/blobfuse2" if as_root else str(Path.home() / ".blobfuse2"),
    )


def _namespace(
    options: Options, out: Output, hns: bool | None, account: str
) -> tuple[bool, str | None]:
    """Return whether the namespace is hierarchical, and an endpoint where one has to be said."""
    if hns is not None:
        return hns, _cloud_endpoint(options, account, hns=hns)
    from ai4infra.cli.start import started
    from ai4infra.errors import Ai4infraError

    try:
        with started(options._replace(only_show_errors=True)) as (az, _):
            found = az.storage_account(account)
    except Ai4infraError as error:
        told = f"{error} {error.hint or ''}".rstrip()
        out.warn(f"Azure does not tell about {account}: {told}")
        found = None
    if found is None or found.hns is None:
        out.warn(ASSUMED)
        return True, _cloud_endpoint(options, account, hns=True)
    out.verbose(f"namespace: {'hierarchical' if found.hns else 'flat'} (Azure)")
    endpoint = found.endpoints.get("dfs" if found.hns else "blob", "")
    return found.hns, None if _is_usual(endpoint) else endpoint


def _cloud_endpoint(options: Options, account: str, *, hns: bool) -> str | None:
    """Return the endpoint of an account outside public Azure, from the cloud that is set."""
    from ai4infra.cloud.clouds import find
    from ai4infra.settings import resolve

    if options.sandbox:
        return None
    given = {"cloud": options.cloud, "arm_endpoint": options.arm_endpoint}
    settings = resolve(given, os.environ)
    cloud = find(settings.cloud, arm_endpoint=settings.arm_endpoint, env=os.environ)
    suffix = cloud.dfs_suffix if hns else cloud.blob_suffix
    endpoint = f"https://{account}.{suffix}" if suffix else ""
    return None if _is_usual(endpoint) else endpoint


def _is_usual(endpoint: str) -> bool:
    host = endpoint.removeprefix("https://").rstrip("/")
    return not host or host.endswith(".core.windows.net")


def _tell(out: Output, made: Config, host: Host) -> None:
    raw = [d.path for d in host.layout.disks if d.role == "local nvme" and d.state != "in use"]
    if raw and not any(s.role == "local nvme" for s in host.spaces):
        out.warn(f"{len(raw)} local NVMe disks are not mounted: `ai4infra mount disks` plans them.")
    for note in made.notes:
        out.note(note)


def _print(
    options: Options,
    out: Output,
    made: Config,
    wanted: Wanted,
    host: Host,
    given: dict[str, Any],
) -> None:
    # What cannot stand in a unit is refused before the file is written.
    extra = _unit(made, wanted, given) if given["unit"] else _fstab(made, given)
    if given["file"]:
        _write(given["file"], made.text(), overwrite=given["overwrite"])
        out.note(f"Wrote {given['file']}: {made.mode}, as {made.reason}.")
    if options.output or options.query:
        out.result(_page(made, wanted, given, extra))
    elif extra:
        click.echo(extra, nl=False)
    elif not given["file"]:
        click.echo(made.text(), nl=False)
    if extra:
        _tell_start(out, made, host)
    if given["fstab"] and made.cache_path and made.mode != "file-cache":
        out.note(
            f"BlobFuse2 makes {made.cache_path}, and no folder above it: where those may be gone"
            " at the start, --unit makes them."
        )
    if given["unit"]:
        from ai4infra.mounts.units import unit_name

        name = unit_name(given["mount_path"])
        out.note(f"It goes to /etc/systemd/system/{name}; then `systemctl enable --now {name}`.")


def _tell_start(out: Output, made: Config, host: Host) -> None:
    """Say that nothing mounts the local NVMe at the start of the machine by itself."""
    if any(s.role == "local nvme" and s.path == made.cache_mount for s in host.spaces):
        out.note(
            f"{made.cache_mount} has to be mounted before it, at each start:"
            " `ai4infra mount disks --apply --yes` does it, and makes blank disks anew."
        )


def _write(file: Path, text: str, *, overwrite: bool) -> None:
    """Write the file, readable for its owner alone; a different one is replaced when asked."""
    import tempfile

    from ai4infra.errors import Ai4infraError, UsageError

    try:
        if file.exists() and not overwrite and file.read_bytes() != text.encode():
            raise UsageError(
                f"{file} is there already and says something else.",
                hint="--overwrite replaces it.",
            )
        # A file of its own first: nobody reads half of it, and it is nobody else's from the start.
        with tempfile.TemporaryDirectory(dir=file.absolute().parent, prefix=".ai4infra") as folder:
            made = Path(folder) / file.name
            made.touch(mode=0o600)
            made.write_bytes(text.encode())
            made.replace(file)
    except OSError as error:
        raise Ai4infraError(f"{file} cannot be written: {error.strerror}.") from error


def _unit(made: Config, wanted: Wanted, given: dict[str, Any]) -> str:
    from ai4infra.mounts.units import unit

    return unit(
        mount_path=given["mount_path"],
        config_file=str(given["file"].absolute()),
        cache_path=made.cache_path,
        cache_mount=made.cache_mount,
        title=f"{wanted.account}/{wanted.container}",
    )


def _fstab(made: Config, given: dict[str, Any]) -> str | None:
    if not given["fstab"]:
        return None
    from ai4infra.mounts.units import fstab_line

    return fstab_line(
        mount_path=given["mount_path"],
        config_file=str(given["file"].absolute()),
        cache_mount=made.cache_mount,
    )


def _page(made: Config, wanted: Wanted, given: dict[str, Any], extra: str | None) -> Page:
    from ai4infra.mounts.config import Line
    from ai4infra.render import Column, Page, document

    parts = {
        "mode": made.mode,
        "reason": made.reason,
        "hns": wanted.hns,
        "read_only": made.read_only,
        "cache_path": made.cache_path,
        "cache_mount": made.cache_mount,
        "lines": made.lines,
        "text": made.text(),
        "unit": extra if given["unit"] else None,
        "fstab": extra if given["fstab"] else None,
        "notes": made.notes,
    }
    return Page(
        document=document("mountConfig", **parts),
        rows=made.lines,
        row_type=Line,
        columns=[
            Column("Key", lambda line: ".".join(filter(None, (line.section, line.key)))),
            Column("Value", lambda line: line.value),
            Column("Why", lambda line: line.why, False, 1),
        ],
        above=[f"{made.mode}: {made.reason}"],
    )
