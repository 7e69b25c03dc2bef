"""A systemd unit and an fstab line for a mount."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ai4infra.errors import UsageError

PROGRAM = "/usr/bin/blobfuse2"
"""Where the packages put it."""
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def unit(
    *,
    mount_path: str,
    config_file: str,
    cache_path: str | None,
    cache_mount: str | None,
    title: str,
) -> str:
    """Return a systemd service that mounts at the start, after the network and the cache's disk.

    ``title`` is what is mounted, in words. Raises UsageError for paths that a unit cannot hold.
    """
    place, config = checked_path(mount_path), checked_path(config_file)
    return f"""\
[Unit]
Description=BlobFuse2 mount of {_escaped(title)} at {_escaped(place)}
# The identity endpoint and the storage account are on the network.
Wants=network-online.target
After=network-online.target
{_cache(cache_mount)}
[Service]
# The first process ends when the mount is there: what comes after this unit can read.
Type=forking
{_folders(place, cache_path)}
ExecStart={PROGRAM} mount {_word(place)} --config-file={_word(config)} --wait-for-mount=60s
ExecStop={PROGRAM} unmount {_word(place)}
# A crash leaves a dead mount point; "-" means that a failure here is no failure.
ExecStopPost=-/bin/umount -l {_word(place)}
Restart=on-failure
RestartSec=10
# What was written has to be uploaded before the machine goes down.
TimeoutStopSec=600
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
"""


def _folders(place: str, cache_path: str | None) -> str:
    words = [_word(path) for path in (place, cache_path) if path]
    return f"ExecStartPre=/bin/mkdir -p {' '.join(words)}"


def _cache(cache_mount: str | None) -> str:
    if cache_mount is None:
        return ""
    return f"""\
# Local disks come back blank: without the mount the cache would fill the OS disk.
RequiresMountsFor={_word(cache_mount)}
AssertPathIsMountPoint={_word(cache_mount)}
"""


def fstab_line(*, mount_path: str, config_file: str, cache_mount: str | None) -> str:
    """Return a line for ``/etc/fstab``; raises UsageError for paths that it cannot hold.

    Options are one field: a comma parts them, so no path in them may have a blank or a comma.
    """
    place, config = checked_path(mount_path), checked_path(config_file)
    if "," in config or "," in (cache_mount or ""):
        raise UsageError(f"An fstab line cannot hold a comma in a path: {config}.")
    options = ["defaults", "_netdev", "nofail", f"--config-file={config}"]
    if cache_mount:
        options.append(f"x-systemd.requires-mounts-for={checked_path(cache_mount)}")
    return f"blobfuse2 {place} fuse3 {','.join(options)} 0 0\n"


def unit_name(mount_path: str) -> str:
    """Return the name of a mount's service: ``/data/x`` is ``blobfuse2-data-x.service``."""
    parts = [part for part in PurePosixPath(mount_path).parts if part != "/"]
    return f"blobfuse2-{'-'.join(parts) or 'root'}.service"


def checked_path(path: str) -> str:
    """Return an absolute path without blanks and quotes; raises UsageError for any other."""
    if not path.startswith("/") or not _PLAIN.fullmatch(path):
        raise UsageError(
            f"{path!r} cannot stand in a unit or an fstab line.",
            hint="It has to be absolute, with letters, digits and . _ - / alone.",
        )
    return path


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str) -> str:
    return _escaped(checked_path(text))
