"""Management locks: https://learn.microsoft.com/rest/api/resources/management-locks."""

from __future__ import annotations

import msgspec

from ai4infra.arm import API_VERSIONS, LOCK, is_at_or_above
from ai4infra.cloud.rows import whole_rows
from ai4infra.cloud.session import Session
from ai4infra.errors import ForbiddenError
from ai4infra.model import Lock, Record
from ai4infra.storage_names import group_scope, subscription_scope

API_VERSION = API_VERSIONS[LOCK]


class Locks(Record, frozen=True):
    """The locks that count for a resource, as far as they could be read."""

    found: tuple[Lock, ...]
    whole: bool = True
    """Off where those of the subscription itself could not be read."""


class _Properties(msgspec.Struct):
    level: str | None = None


class _Lock(msgspec.Struct):
    id: str
    name: str
    properties: _Properties | None = None


def locks(session: Session, subscription_id: str, group: str, resource_id: str) -> Locks:
    """Return the locks that count for a resource: its own, its group's, the subscription's.

    Who may not list the subscription's is told those in the group.
    """
    try:
        found, whole = _listed(session, subscription_scope(subscription_id)), True
    except ForbiddenError:
        found, whole = _listed(session, group_scope(subscription_id, group)), False
    counting = tuple(lock for lock in found if is_at_or_above(lock.scope, resource_id))
    return Locks(found=counting, whole=whole)


def _listed(session: Session, scope: str) -> list[Lock]:
    what = f"Cannot list the locks at {scope}"
    pages = session.pages(f"{scope}/providers/{LOCK}", API_VERSION, what=what)
    return [
        Lock(
            id=row.id,
            name=row.name,
            level=(row.properties.level if row.properties else None) or "unknown",
        )
        for row in whole_rows(pages, _Lock, what)
    ]
