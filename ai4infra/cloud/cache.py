"""Keeps slow-moving answers on disk for a while. A cache that doesn't work is no error."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

T = TypeVar("T")

SKU_SECONDS = 60 * 60
"""Restrictions of a subscription change within days; an hour spares a busy morning."""
PRICE_SECONDS = 24 * 60 * 60
"""List prices change at the start of a month."""
FORMAT = 1
"""Raised when the shape of what is stored changes; older entries are then not found."""


class _Entry(msgspec.Struct):
    saved: float
    value: msgspec.Raw


def default_dir(env: Mapping[str, str]) -> Path:
    """Return the cache folder: ``AI4INFRA_CACHE_DIR`` or the user's usual place."""
    given = env.get("AI4INFRA_CACHE_DIR")
    return Path(given) if given else Path(platformdirs.user_cache_dir("ai4infra"))


class Cache:
    """Answers on disk, one file each, readable by the user only.

    ``refresh`` makes every look-up miss, while new answers are still stored.
    """

    def __init__(
        self, folder: Path, *, refresh: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._refresh = refresh
        self._clock = clock

    def get(self, key: tuple[str, ...], type: type[T], max_age_seconds: float) -> T | None:  # noqa: A002 - as msgspec calls it
        """Return a stored answer that is young enough; None for any other case.

        The key is cloud, subscription, region and kind, or whatever tells answers apart.
        """
        if self._refresh:
            return None
        try:
            entry = msgspec.json.decode(self._file(key).read_bytes(), type=_Entry)
            value = msgspec.json.decode(entry.value, type=type)
        except (OSError, msgspec.DecodeError):
            return None
        age = self._clock() - entry.saved
        return value if 0 <= age <= max_age_seconds else None

    def put(self, key: tuple[str, ...], value: object) -> None:
        """Store an answer, whole or not at all."""
        entry = _Entry(saved=self._clock(), value=msgspec.Raw(msgspec.json.encode(value)))
        with suppress(OSError):
            _write(self._file(key), msgspec.json.encode(entry))

    def _file(self, key: tuple[str, ...]) -> Path:
        *folders, name = [re.sub(r"[^\w.-]", "_", part).lstrip(".") or "_" for part in key]
        return self._folder.joinpath(*folders, f"{name}-v{FORMAT}.json")


def _write(file: Path, body: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600.
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(body)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
