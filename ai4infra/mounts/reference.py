"""What a BlobFuse2 configuration may hold: the rows of ``data/blobfuse2.toml``."""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from ai4infra.model import Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyType = Literal["bool", "int", "float", "text", "path", "list", "choice"]

CACHES = ("file_cache", "block_cache", "xload")
"""Components that keep data; a pipeline has one of them."""


class Row(Record, frozen=True, kw_only=True, rename=None, forbid_unknown_fields=True):
    """Base of the rows of the file."""


class Source(Row, frozen=True):
    """Where the rows were read, and of which release."""

    version: str
    released: str
    """ISO date of the release."""
    minimum: str
    """The oldest release that what we write is for."""
    source: str
    also: tuple[str, ...]
    date: str
    """ISO date on which the reference was read."""


class Component(Row, frozen=True):
    """One component of a pipeline."""

    rank: int
    """Place in the pipeline; components of one rank exclude one another."""
    required: bool = False
    read_only: bool = False
    """Works in a read-only mount alone."""
    since: str | None = None
    note: str | None = None


class Key(Row, frozen=True):
    """One key of a section; the section "" holds the keys of none."""

    type: KeyType
    meaning: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    minimum: int = 0
    since: str | None = None
    secret: bool = False
    environment: str | None = None
    """Variable that BlobFuse2 reads instead of a secret key."""
    source: str | None = None
    """What reads it, where the reference does not list it."""


class Old(Row, frozen=True):
    """A key or section of an older release, or of BlobFuse (v1)."""

    key: str
    instead: str


class Failure(Row, frozen=True):
    """Something that BlobFuse2 says when it does not mount, and what to do about it."""

    says: str
    hint: str


class Flag(Row, frozen=True):
    """A flag of ``blobfuse2 mount``."""

    key: str | None = None
    """The key that it sets, as ``SECTION.KEY``."""
    switch: bool = False
    secret: bool = False
    meaning: str | None = None


class Reference(Row, frozen=True):
    """The whole file."""

    reference: Source
    components: dict[str, Component]
    keys: dict[str, dict[str, Key]]
    """Section to its keys."""
    old: tuple[Old, ...]
    failure: tuple[Failure, ...]
    flags: dict[str, Flag]

    def key(self, section: str, name: str) -> Key | None:
        """Return a key; None when the section has none of this name."""
        return self.keys.get(section, {}).get(name)

    def replacement(self, section: str, name: str) -> str | None:
        """Return what an old key is called now; None when it isn't an old one."""
        wanted = f"{section}.{name}" if section else name
        return next((old.instead for old in self.old if old.key == wanted), None)

    def advice(self, message: str) -> str | None:
        """Return what to do about a failure; None when its message is not known."""
        told = message.casefold()
        return next((f.hint for f in self.failure if f.says.casefold() in told), None)

    def sections_with(self, name: str) -> list[str]:
        """Return the sections that have a key of this name."""
        return [section for section, keys in self.keys.items() if name in keys]


@cache
def reference() -> Reference:
    """Return BlobFuse2's reference as the package knows it."""
    text = resources.files("ai4infra.data").joinpath("blobfuse2.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Reference)


def version_key(text: str) -> tuple[int, ...]:
    """Return the key on which releases compare: ``2.5.0~preview.1`` comes before ``2.5.0``.

    Raises ValueError for what is no version.
    """
    release, _, preview = text.strip().partition("~")
    numbers = [int(part) for part in release.split(".")]
    return (*numbers[:3], *[0] * (3 - len(numbers)), 0 if preview else 1)
