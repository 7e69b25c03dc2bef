"""Lifecycle rules: read what is typed, build the rule, merge it with the rules of others.

A rule looks at block blobs below a container (and prefix) and counts the days since their last
modification (https://learn.microsoft.com/azure/storage/blobs/lifecycle-management-overview).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import structs

from ai4infra.errors import UsageError
from ai4infra.model import LifecycleRule, LifecycleWanted

DEFAULT_RETENTION = "14d:90d"
"""Of checkpoint containers."""
MAX_RULES = 100
COOL_MINIMUM_DAYS = 30
"""Days that the cool tier charges at least for a blob
(https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview)."""

_DAYS = re.compile(r"(\d{1,5})d?", re.ASCII | re.IGNORECASE)
_HINT = "Write COOL:DELETE in days: 14d:90d, 14d: (never delete) or :90d (never cool)."


def parse_retention(text: str) -> tuple[int | None, int | None]:
    """Read ``14d:90d``: days until cool, days until delete; either side may be empty.

    Raises UsageError for anything else, for zero days of both, and for a delete before the cool.
    """
    left, colon, right = text.strip().partition(":")
    cool, delete = _days(left, text), _days(right, text)
    if not colon or (cool is None and delete is None):
        raise UsageError(f"{text!r} is no retention.", hint=_HINT)
    if cool is not None and delete is not None and delete <= cool:
        raise UsageError(
            f"{text!r} would delete blobs no later than it cools them.",
            hint="The second number is days since the same modification, not since the cooling.",
        )
    return cool, delete


def _days(text: str, whole: str) -> int | None:
    if not text.strip():
        return None
    match = _DAYS.fullmatch(text.strip())
    if match is None or int(match[1]) < 1:
        raise UsageError(f"{whole!r} is no retention.", hint=_HINT)
    return int(match[1])


def parse_lifecycle(text: str) -> LifecycleWanted:
    """Read ``CONTAINER[/PREFIX]=COOL:DELETE``, such as ``runs/old=7d:30d``.

    Raises UsageError where a part is missing or the retention cannot be read. Whether the name
    is one that a container can have is checked with the other names.
    """
    where, equals, retention = text.strip().rpartition("=")
    container, _, prefix = where.partition("/")
    if not equals or not container:
        raise UsageError(
            f"{text!r} is no lifecycle.", hint=f"Write CONTAINER[/PREFIX]=COOL:DELETE. {_HINT}"
        )
    cool, delete = parse_retention(retention)
    return LifecycleWanted(
        container=container, prefix=prefix, cool_after_days=cool, delete_after_days=delete
    )


def rule_name(wanted: LifecycleWanted) -> str:
    """Return the rule's name: the same for the same container and prefix, always."""
    if not wanted.prefix:
        return f"ai4infra-{wanted.container}"
    digest = hashlib.sha256(wanted.prefix.encode()).hexdigest()[:8]
    return f"ai4infra-{wanted.container}-{digest}"


def wanted_rule(wanted: LifecycleWanted, *, premium: bool = False) -> LifecycleRule:
    """Build the rule as ARM takes it; premium block blobs have no cool tier, so none is asked."""
    cool = None if premium else wanted.cool_after_days
    prefix = f"{wanted.container}/{wanted.prefix}"
    actions = {"tierToCool": _after(cool), "delete": _after(wanted.delete_after_days)}
    rule = LifecycleRule(
        name=rule_name(wanted),
        prefixes=(prefix,),
        cool_after_days=cool,
        delete_after_days=wanted.delete_after_days,
    )
    definition = {
        "filters": {"blobTypes": ["blockBlob"], "prefixMatch": [prefix]},
        "actions": {"baseBlob": {name: after for name, after in actions.items() if after}},
    }
    raw = {"name": rule.name, "enabled": True, "type": "Lifecycle", "definition": definition}
    return structs.replace(rule, raw=raw)


def _after(days: int | None) -> dict[str, int] | None:
    return None if days is None else {"daysAfterModificationGreaterThan": days}


def same_rule(one: LifecycleRule, other: LifecycleRule) -> bool:
    """Tell whether two rules of one name do the same, as far as our rules go."""
    return _shape(one) == _shape(other) and is_partial(one) == is_partial(other)


def _shape(rule: LifecycleRule) -> tuple[object, ...]:
    return rule.enabled, sorted(rule.prefixes), rule.cool_after_days, rule.delete_after_days


def is_partial(rule: LifecycleRule) -> bool:
    """Tell whether a rule passes over some of the block blobs below its prefixes.

    Rules for tagged blobs, for append blobs, and for old versions and snapshots alone do.
    """
    definition = _part(rule.raw, "definition")
    filters = _part(definition, "filters")
    kinds = [str(kind).casefold() for kind in filters.get("blobTypes") or ["blockBlob"]]
    acts = not definition or bool(_part(_part(definition, "actions"), "baseBlob"))
    return bool(filters.get("blobIndexMatch")) or "blockblob" not in kinds or not acts


def _part(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def describe(rule: LifecycleRule) -> str:
    """Say in a few words what a rule does."""
    does = [
        f"cool after {rule.cool_after_days} d" if rule.cool_after_days is not None else "",
        f"delete after {rule.delete_after_days} d" if rule.delete_after_days is not None else "",
    ]
    where = ", ".join(rule.prefixes) or "all blobs"
    state = "" if rule.enabled else " (disabled)"
    return f"{where}: {', '.join(filter(None, does)) or 'something else'}{state}"


def merged(existing: Sequence[LifecycleRule], ours: Iterable[LifecycleRule]) -> dict[str, Any]:
    """Return the whole policy with our rules put in by name and every other rule as it was."""
    by_name = {rule.name: rule.raw for rule in (*existing, *ours)}
    return {"properties": {"policy": {"rules": list(by_name.values())}}}


def charged_early(wanted: LifecycleWanted) -> bool:
    """Tell whether blobs are deleted before the cool tier's minimum charge is used up."""
    cool, delete = wanted.cool_after_days, wanted.delete_after_days
    return cool is not None and delete is not None and delete - cool < COOL_MINIMUM_DAYS
