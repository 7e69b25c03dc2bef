"""Management locks: https://learn.microsoft.com/rest/api/resources/management-locks."""

from __future__ import annotations

import msgspec

from ai4infra.arm import API_VERSIONS, LOCK, is_at_or_above
from ai4infra.cloud.rows import decode_rows
from ai4infra.cloud.session import Session
from ai4infra.errors import ForbiddenError
from ai4infra.model import Lock
from ai4infra.storage_names import group_scope, subscription_scope

API_VERSION = API_VERSIONS[LOCK]


class _Properties(msgspec.Struct):
    level: str | None = None


class _Lock(msgspec.Struct):
    id: str
    name: str
    properties: _Properties | None = None


def locks(session: Session, subscription_id: str, group: str, resource_id: str) -> tuple[Lock, ...]:
    """Return the locks that count for a resource: its own, its group's, the subscription's.

    Who may not list the subscription's is told those in the group.
    """
    try:
        found = _listed(session, subscription_scope(subscription_id))
    except ForbiddenError:
        found = _listed(session, group_scope(subscription_id, group))
    return tuple(lock for lock in found if is_at_or_above(lock.scope, resource_id))


def _listed(session: Session, scope: str) -> list[Lock]:
    what = f"Cannot list the locks at {scope}"
    pages = session.pages(f"{scope}/providers/{LOCK}", API_VERSION, what=what)
    rows = [row for page in pages for row in decode_rows(page, _Lock, what)[0]]
    return [
        Lock(
            id=row.id,
            name=row.name,
            level=(row.properties.level if row.properties else None) or "unknown",
        )
        for row in rows
    ]
