"""Azure's built-in roles, known offline: the rows of ``data/roles.toml``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final, Literal

import msgspec

from ai4infra.errors import UsageError
from ai4infra.ids import is_uuid, unknown_name
from ai4infra.model import Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BlobAccess = Literal["none", "read", "write"]

BLOB_OWNER: Final = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"
BLOB_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
BLOB_READER: Final = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"

_LISTING: Final = (
    "az role definition list --query '[].roleName' lists all; a role that is not known here, such"
    " as a custom one, is given by its id."
)


class Role(Record, frozen=True):
    """A role definition."""

    name: str
    id: str
    """Its GUID, in lower case."""
    blob: BlobAccess | None = None
    """What its data actions allow on blobs; None for a role that is not built in."""
    keys: bool | None = None
    """Whether it can list the keys of storage accounts; None for one that is not built in."""
    source: str | None = None
    date: str | None = None


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    blob: BlobAccess = "none"
    keys: bool = False


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    date: str
    roles: dict[str, _Row]


@cache
def builtin() -> tuple[Role, ...]:
    """Return the built-in roles that are known, in the order of the data."""
    data = _data()
    return tuple(
        Role(name=name, id=row.id, blob=row.blob, keys=row.keys, source=data.source, date=data.date)
        for name, row in data.roles.items()
    )


def role_id(text: str, known: Iterable[Role] = ()) -> str:
    """Return the GUID of a role given by its name, its GUID or its ARM id.

    Names compare without case; ``known`` adds roles that Azure listed, such as custom ones. A name
    that is not known, or that several roles have, is a UsageError: a grant is never guessed.
    """
    guid = guid_of(text)
    if guid:
        return guid
    roles = (*builtin(), *known)
    found = {role.id.lower(): role for role in roles if _key(role.name) == _key(text)}
    if len(found) > 1:
        ids = " and ".join(sorted(found))
        raise UsageError(f"Several roles are called {text!r}: {ids}.", hint="Give the id.")
    if not found:
        raise _unknown(text, roles)
    return next(iter(found))


def guid_of(text: str) -> str | None:
    """Return the GUID in a GUID or in the ARM id of a role definition, None in anything else."""
    path = text.strip().rstrip("/").lower()
    before, slash, last = path.rpartition("/")
    if slash and not before.endswith("/roledefinitions"):
        return None
    return last if is_uuid(last) else None


def role(text: str) -> Role | None:
    """Return the built-in role with a GUID, an ARM id or a name, None when it is not known."""
    wanted = guid_of(text)
    return next((r for r in builtin() if r.id == wanted or _key(r.name) == _key(text)), None)


def role_name(guid: str) -> str:
    """Return the name of a role for people: the GUID itself when it is not known."""
    found = role(guid)
    return found.name if found else guid


def allows_blobs(guid: str, access: Literal["read", "write"]) -> bool | None:
    """Tell whether a role lets somebody read or write blobs; None when the role is not known."""
    found = role(guid)
    if found is None or found.blob is None:
        return None
    return found.blob == "write" or found.blob == access


def not_a_data_role(guid: str) -> str | None:
    """Return a sentence for a role that manages storage but opens no blob, else None."""
    found = role(guid)
    if found is None or found.blob != "none" or not _seems_data(found):
        return None
    keys = " It can list the account's keys, which is no use where shared keys are off."
    return (
        f"{found.name} opens no blob: data takes Storage Blob Data Reader, Contributor or Owner."
        + (keys if found.keys else "")
    )


def _seems_data(found: Role) -> bool:
    """Tell the roles that people take for a data role."""
    return bool(found.keys) or found.name in ("Reader", "Storage Blob Delegator")


def _unknown(text: str, roles: Iterable[Role]) -> UsageError:
    names = [role.name for role in roles]
    words = set(_key(text).split())
    several = [name for name in names if words and words <= set(_key(name).split())]
    if len(several) > 1:
        some = ", ".join(several[:6])
        return UsageError(f"{text!r} may be any of {len(several)} roles.", hint=f"Such as {some}.")
    if several:
        return UsageError(f"There is no role called {text!r}.", hint=f"Did you mean {several[0]}?")
    return unknown_name("role", text, names, listing=_LISTING)


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


@cache
def _data() -> _Data:
    text = resources.files("ai4infra").joinpath("data/roles.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Data)
