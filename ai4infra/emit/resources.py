"""What all languages share: a plan's writes, and a name in the code for each resource."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain, count
from typing import Final

from ai4infra import arm
from ai4infra.arm import ArmWrite, id_key, name_of
from ai4infra.model import Step
from ai4infra.plan import IdentityWanted, Plan, RegistrationWanted

NOUNS: Final[dict[str, str]] = {
    arm.GROUP: "group",
    arm.ACCOUNT: "account",
    arm.BLOB_SERVICE: "blob_service",
    arm.CONTAINER: "container",
    arm.LIFECYCLE: "lifecycle",
    arm.ENDPOINT: "endpoint",
    arm.ZONE_GROUP: "zone_group",
    arm.ZONE: "zone",
    arm.ZONE_LINK: "zone_link",
    arm.ASSIGNMENT: "grant",
    arm.LOCK: "lock",
}
_ONE_OF_A_KIND: Final = (arm.GROUP, arm.ACCOUNT, arm.BLOB_SERVICE, arm.LIFECYCLE, arm.LOCK)


def changes(plan: Plan) -> list[tuple[Step, ArmWrite]]:
    """Return the plan's changes that are ARM writes, each with its step, in order."""
    return [(s, s.wanted) for s in plan.changes if isinstance(s.wanted, ArmWrite)]


def registrations(plan: Plan) -> list[RegistrationWanted]:
    """Return the provider registrations that the plan makes."""
    return [s.wanted for s in plan.changes if isinstance(s.wanted, RegistrationWanted)]


def identities(plan: Plan) -> list[IdentityWanted]:
    """Return the identities that the plan gives to machines."""
    return [s.wanted for s in plan.changes if isinstance(s.wanted, IdentityWanted)]


def symbols(ids: Iterable[tuple[str, str]], style: Callable[[str], str] = str) -> dict[str, str]:
    """Return a name in the code for each (resource type, resource id), by the id's key.

    The name tells what the resource is; a number tells apart what would be called the same.
    ``style`` turns ``snake_case`` into what is usual in a language.
    """
    names: dict[str, str] = {}
    for resource_type, resource_id in ids:
        first = _symbol(resource_type, resource_id)
        numbered = (f"{first}_n{number}" for number in count(2))
        candidates = map(style, chain([first], numbered))
        used = set(names.values())
        names[id_key(resource_id)] = next(name for name in candidates if name not in used)
    return names


def _symbol(resource_type: str, resource_id: str) -> str:
    noun = NOUNS[resource_type]
    if resource_type in _ONE_OF_A_KIND:
        return noun
    return f"{noun}_{_slug(_telling(resource_type, resource_id))}"


def _telling(resource_type: str, resource_id: str) -> str:
    """Return the part of an id that tells a reader which of its kind it is."""
    if resource_type in (arm.ZONE_GROUP, arm.ZONE_LINK):
        return name_of(arm.parent_of(resource_id))
    if resource_type == arm.ASSIGNMENT:
        return name_of(resource_id)[:8]
    return name_of(resource_id)


def _slug(text: str) -> str:
    return re.sub(r"[^0-9a-z]+", "_", text.casefold()).strip("_")


def own_group(writes: Iterable[ArmWrite]) -> str | None:
    """Return the id of the resource group that most of the writes go to; None for no group."""
    groups = [g for w in writes if w.resource_type != arm.GROUP and (g := _group(w))]
    keys = [id_key(g) for g in groups]
    return max(groups, key=lambda group: keys.count(id_key(group)), default=None)


def _group(write: ArmWrite) -> str | None:
    return arm.group_of(write.resource_id)
