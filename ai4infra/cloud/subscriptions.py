"""Subscriptions that the identity sees, and the regions of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from ai4infra.cloud.rows import decode_rows
from ai4infra.cloud.session import Session
from ai4infra.cloud.translate import incomplete
from ai4infra.errors import UsageError
from ai4infra.ids import is_uuid, region_key, unknown_name
from ai4infra.model import Region, Subscription

API_VERSION = "2022-12-01"
_NAMES_SHOWN = 12
_OFF = ("disabled", "deleted", "expired")
_STAGING = re.compile(r"(euap|stg|stage|canary)\w*$")


class _Subscription(msgspec.Struct, rename="camel"):
    subscription_id: str
    display_name: str | None = None
    tenant_id: str | None = None
    state: str | None = None


class _Zone(msgspec.Struct, rename="camel"):
    logical_zone: str | None = None
    physical_zone: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    region_type: str | None = None
    geography: str | None = None
    geography_group: str | None = None


class _Location(msgspec.Struct, rename="camel"):
    name: str
    display_name: str | None = None
    metadata: _Metadata | None = None
    availability_zone_mappings: list[_Zone] | None = None


def list_all(session: Session) -> tuple[Subscription, ...]:
    """Return all subscriptions that the identity sees, by name."""
    what = "Cannot list subscriptions"
    pages = session.pages("/subscriptions", API_VERSION, what=what)
    rows = [row for page in pages for row in decode_rows(page, _Subscription, what)[0]]
    found = {row.subscription_id.lower(): _subscription(row) for row in rows}
    return tuple(sorted(found.values(), key=lambda each: (each.name.casefold(), each.id)))


def _subscription(row: _Subscription) -> Subscription:
    return Subscription(
        id=row.subscription_id.lower(),
        name=row.display_name or row.subscription_id,
        tenant_id=row.tenant_id,
        state=row.state,
    )


def is_off(subscription: Subscription) -> bool:
    """Tell whether nothing can be made in a subscription; unknown states count as usable."""
    return (subscription.state or "").casefold() in _OFF


def resolve(session: Session, wanted: Iterable[str]) -> tuple[Subscription, ...]:
    """Return the subscriptions that are named, by name or id, each once and in that order.

    Asks for the list only when there is a name among them. Raises UsageError for a name that is
    unknown, or that several subscriptions bear.
    """
    names = [name.strip().removeprefix("/subscriptions/") for name in wanted]
    known = () if all(map(is_uuid, names)) else list_all(session)
    found = {each.id: each for each in (_one(name, known) for name in names)}
    return tuple(found.values())


def _one(wanted: str, known: Sequence[Subscription]) -> Subscription:
    if is_uuid(wanted):
        id_ = wanted.lower()
        return next((s for s in known if s.id == id_), Subscription(id=id_, name=id_))
    key = wanted.strip().casefold()
    found = [each for each in known if each.name.strip().casefold() == key]
    exact = [each for each in found if each.name == wanted]
    if len(found) > 1 and len(exact) != 1:
        ids = ", ".join(each.id for each in found)
        raise UsageError(
            f"{len(found)} subscriptions are called {wanted!r}.", hint=f"Name one by its id: {ids}."
        )
    if not found:
        names = [each.name for each in known]
        raise unknown_name("subscription", wanted, names, listing=_listing(names))
    return exact[0] if exact else found[0]


def regions(session: Session, subscription_id: str) -> tuple[Region, ...]:
    """Return the regions of a subscription, by name, with its zone mapping.

    Raises NotFoundError when the identity doesn't see the subscription, and ServiceError for an
    answer without any region: no subscription is without.
    """
    what = f"Cannot list the regions of subscription {subscription_id}"
    pages = session.pages(f"/subscriptions/{subscription_id}/locations", API_VERSION, what=what)
    rows = [row for page in pages for row in decode_rows(page, _Location, what)[0]]
    if not rows:
        raise incomplete(what, "no regions")
    found = {region.name: region for region in map(_region, rows)}
    return tuple(found[name] for name in sorted(found))


def _region(row: _Location) -> Region:
    meta = row.metadata or _Metadata()
    name = region_key(row.name)
    return Region(
        name=name,
        display_name=row.display_name or row.name,
        physical=(meta.region_type or "Physical").casefold() == "physical",
        staging=_is_staging(name, meta),
        geography=meta.geography or meta.geography_group,
        physical_zones={
            zone.logical_zone: zone.physical_zone
            for zone in row.availability_zone_mappings or []
            if zone.logical_zone and zone.physical_zone
        },
    )


def _is_staging(name: str, meta: _Metadata) -> bool:
    group = (meta.geography_group or "").casefold()
    return "canary" in group or "stage" in group or _STAGING.search(name) is not None


def check_region(wanted: str, known: Iterable[Region]) -> Region:
    """Return the region of that name, in any case and with or without blanks.

    Raises UsageError with close names: the size list answers an unknown region with an empty
    list, which would look like "no GPUs".
    """
    listed = list(known)
    key = region_key(wanted)
    for region in listed:
        if key in (region.name, region_key(region.display_name)):
            return region
    names = [region.name for region in listed if region.physical]
    raise unknown_name("region", wanted, names, listing=_listing(names))


def _listing(names: Sequence[str]) -> str:
    """Say which names there are: all of a few, else some of them and how many more."""
    if not names:
        return "There is none that this identity sees."
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"Known: {shown} and {more} more." if more > 0 else f"Known: {shown}."
