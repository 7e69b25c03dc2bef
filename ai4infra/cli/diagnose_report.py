"""Writes the page of ``--report``, for ``watch`` and ``replay``."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ai4infra import __version__
from ai4infra.errors import Ai4infraError, UsageError

if TYPE_CHECKING:
    from ai4infra.diagnosis.answer import Diagnosis
    from ai4infra.diagnosis.samples import Host
    from ai4infra.diagnosis.series import Collector


def check_report(path: str, *kept: str) -> None:
    """Raise an error, before anything takes time, where no report could be written.

    ``kept`` are the files that a report must not replace. Raises UsageError for one of them and
    for the standard output, Ai4infraError for a place that cannot be written.
    """
    if path == "-":
        raise UsageError("--report takes a file.", hint="The verdict goes to the standard output.")
    if any(_same(path, each) for each in kept):
        raise UsageError(f"The report would replace {path}.", hint="--report takes another file.")
    file, folder = Path(path), Path(path).absolute().parent
    there = os.access(file, os.W_OK) if file.exists() else os.access(folder, os.W_OK | os.X_OK)
    if file.is_dir() or not there:
        raise Ai4infraError(
            f"{path} cannot be written.", hint="--report takes a file in a folder that is there."
        )


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def write_report(path: str, found: Diagnosis, collected: Collector, host: Host) -> None:
    """Write the report over whatever was there; raises Ai4infraError when that fails."""
    from ai4infra.diagnosis.report import Report, html
    from ai4infra.diagnosis.timeline import draw

    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    page = html(
        Report(
            title=_title(host),
            diagnosis=found,
            drawn=draw(collected),
            host=host,
            made=f"ai4infra {__version__}, {now}",
        )
    )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise Ai4infraError(
            f"{path} cannot be written: {error.strerror}.", hint="--report takes another file."
        ) from error


def _title(host: Host) -> str:
    begin = f" from {host.started[:16].replace('T', ' ')} UTC" if host.started else ""
    where = f" on {platform.node()}" if host.started else ""
    return f"GPU feed{where}{begin}"
