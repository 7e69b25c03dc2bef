"""A stand-in for blobfuse2: records its arguments and its configuration, and mounts nothing.

It writes the lists of mounts and processes that BlobFuse2 would be in, into a folder of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ai4infra.tools import blobfuse2

if TYPE_CHECKING:
    import pytest

PROGRAM = r"""#!/bin/bash
printf '%s\n' "$*" >>"$STANDIN/calls"
case "$1" in
  --version) printf 'blobfuse2 version %s\n' "$(cat "$STANDIN/version")" ;;
  mount)
    config=""
    for word in "$@"; do [[ $word == --config-file=* ]] && config="${word#*=}"; done
    cp "$config" "$STANDIN/config.yaml"
    if [[ -e $STANDIN/refuses ]]; then cat "$STANDIN/refuses" >&2; exit 1; fi
    printf 'blobfuse2 %s fuse.blobfuse2 ro,nosuid 0 0\n' "$2" >>"$STANDIN/proc/mounts"
    mkdir -p "$STANDIN/proc/4242"
    printf 'blobfuse2\0mount\0%s\0%s\0' "$2" "$3" >"$STANDIN/proc/4242/cmdline"
    printf 'HOME=%s\0' "$STANDIN" >"$STANDIN/proc/4242/environ"
    ;;
  unmount)
    if [[ -e $STANDIN/busy ]]; then echo "device or resource busy"; exit 1; fi
    grep -v " $2 " "$STANDIN/proc/mounts" >"$STANDIN/left" || true
    mv "$STANDIN/left" "$STANDIN/proc/mounts"
    rm -rf "$STANDIN/proc/4242"
    ;;
esac
"""


class StandIn:
    """The stand-in on the PATH, and what it recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "proc").mkdir()
        (folder / "proc" / "mounts").write_text("/dev/sda1 / ext4 rw 0 0\n", "utf-8")
        self.set("version", "2.5.4")
        program = folder / "bin" / "blobfuse2"
        program.write_text(PROGRAM, "utf-8")
        program.chmod(0o755)

    def set(self, name: str, text: str) -> None:
        """Tell it something: ``version``, why it ``refuses``, that it is ``busy``."""
        (self.folder / name).write_text(text, "utf-8")

    @property
    def calls(self) -> list[str]:
        """The arguments of each call."""
        file = self.folder / "calls"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    @property
    def config(self) -> str:
        """The configuration that it was last given."""
        return (self.folder / "config.yaml").read_text("utf-8")

    def preload(self, *samples: dict[str, object]) -> None:
        """Write a preload's progress, as BlobFuse2 exports it."""
        folder = self.folder / ".blobfuse2"
        folder.mkdir(exist_ok=True)
        (folder / "xload_stats_4242.json").write_text(json.dumps(samples, indent=1), "utf-8")


def sample(done: int, total: int, failed: int = 0) -> dict[str, object]:
    """Return one sample of a preload's progress."""
    return {
        "Timestamp": "Tue, 01 Dec 2026 08:00:00 UTC",
        "PercentCompleted": round((done + failed) / total * 100, 2) if total else 0,
        "Total": total,
        "Done": done,
        "Failed": failed,
        "Pending": total - done - failed,
        "BytesTransferred": done * 10**6,
        "Bandwidth(Mbps)": 8000.5,
    }


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Put the stand-in on the PATH, and its lists in the place of the kernel's."""
    made = StandIn(folder)
    monkeypatch.setenv("STANDIN", str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(blobfuse2, "PROC", folder / "proc")
    # Its progress is whole from the start, so nobody waits for another sample.
    monkeypatch.setattr(blobfuse2, "EXPORT_SECONDS", -1.0)
    return made
