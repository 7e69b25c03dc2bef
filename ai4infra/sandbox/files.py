"""Where the sandbox keeps its files, and how it writes them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from ai4infra.errors import Ai4infraError


def state_dir(env: Mapping[str, str] | None = None) -> Path:
    """Return the sandbox's folder: ``AI4INFRA_STATE_DIR``, or the user's state folder."""
    chosen = (os.environ if env is None else env).get("AI4INFRA_STATE_DIR")
    folder = Path(chosen) if chosen else platformdirs.user_state_path("ai4infra")
    return folder.expanduser().absolute() / "sandbox"


def write_private(path: Path, body: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all.

    Raises Ai4infraError when the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes the file with mode 0600.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            Path(name).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise Ai4infraError(
            f"The sandbox cannot write {path}: {error.strerror or error}.",
            hint="Name another folder with AI4INFRA_STATE_DIR.",
        ) from error
