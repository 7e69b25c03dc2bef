"""What each level of data classification demands of a storage account (data/classification.toml).

Shared keys, anonymous access and old TLS are off at every level, so no level says it again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from ai4infra.ids import unknown_name
from ai4infra.model import GrantWanted, NetworkAccess, PrincipalType, Record, StorageWanted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TAG: Final = "classification"
"""The tag that records an account's level."""
NETWORK_ORDER: Final[tuple[NetworkAccess, ...]] = ("open", "restricted", "private")
"""From the least to the most isolated."""


class Level(Record, frozen=True, rename=None):
    """The minimum that one level demands."""

    name: str
    description: str
    network: NetworkAccess
    infrastructure_encryption: bool
    customer_key: bool
    """Encryption with a customer-managed key."""
    soft_delete_days: int
    """Of blobs and containers, at least."""
    readers: tuple[PrincipalType, ...]
    """Kinds of principals that may have a data role; a group's members change unseen."""
    source: str
    date: str
    """ISO date on which the source was read."""


@cache
def levels() -> dict[str, Level]:
    """Return the levels by name, from the least to the most demanding."""
    path = resources.files("ai4infra") / "data" / "classification.toml"
    rows = tomllib.loads(path.read_text("utf-8"))["levels"]
    return {name: msgspec.convert({"name": name, **row}, Level) for name, row in rows.items()}


def level(name: str) -> Level:
    """Return a level by its name, whatever its case.

    Raises UsageError, with the levels as hint, where there is none.
    """
    found = known_level(name)
    if found is None:
        raise unknown_name(
            "classification", name, levels(), listing=f"There are {', '.join(levels())}."
        )
    return found


def known_level(name: str | None) -> Level | None:
    """Return a level by its name; None where there is none: a tag may say anything."""
    return levels().get((name or "").strip().casefold())


def recorded(tags: dict[str, str]) -> Level | None:
    """Return the level that an account's tags record; None where they record none."""
    return known_level(next((v for k, v in tags.items() if k.casefold() == TAG), None))


def less_isolated(network: NetworkAccess, minimum: NetworkAccess) -> bool:
    """Tell whether a network setting isolates less than the minimum does."""
    return NETWORK_ORDER.index(network) < NETWORK_ORDER.index(minimum)


def contradictions(wanted: StorageWanted, of: Level) -> list[str]:
    """Say, in sentences, what somebody asks for that the level does not allow.

    What was not said is no contradiction: it is taken from the level. Only a key and its
    identity cannot be made up; an account that is there already may have them.
    """
    return [
        *_network(wanted, of),
        *_encryption(wanted, of),
        *_soft_delete(wanted, of),
        *reader_contradictions(wanted.grants, of),
    ]


def reader_contradictions(grants: Iterable[GrantWanted], of: Level) -> list[str]:
    """Say which grants go to principals that the level does not admit."""
    return [
        f"{of.name} data may be read by {_words(of.readers)} only;"
        f" {grant.label} ({grant.role}) is a {grant.principal_type}."
        for grant in grants
        if grant.principal_type not in of.readers
    ]


def _network(wanted: StorageWanted, of: Level) -> list[str]:
    if wanted.network is None or not less_isolated(wanted.network, of.network):
        return []
    return [f"{of.name} data needs --network {of.network}; {wanted.network} isolates less."]


def _encryption(wanted: StorageWanted, of: Level) -> list[str]:
    if of.infrastructure_encryption and wanted.infrastructure_encryption is False:
        return [f"{of.name} data needs infrastructure encryption."]
    return []


def _soft_delete(wanted: StorageWanted, of: Level) -> list[str]:
    days = wanted.soft_delete_days
    if days is None or days >= of.soft_delete_days:
        return []
    return [f"{of.name} data needs {of.soft_delete_days} days of soft delete; {days} are fewer."]


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
