"""Kinds and order of a storage plan's steps, and how a step is built, kept or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from ai4infra.arm import ArmWrite, name_of
from ai4infra.classification import Level
from ai4infra.model import Lock, Step, StepAction, StorageWanted
from ai4infra.storage_names import account_scope

RESOURCE_GROUP: Final = "resource group"
STORAGE_ACCOUNT: Final = "storage account"
BLOB_SERVICE: Final = "blob service settings"
CONTAINER: Final = "container"
LIFECYCLE: Final = "lifecycle policy"
ENDPOINT: Final = "private endpoint"
DNS_ZONE: Final = "private DNS zone"
DNS_LINK: Final = "private DNS link"
DNS_ZONE_GROUP: Final = "private DNS zone group"
ASSIGNMENT: Final = "role assignment"
LOCK: Final = "lock"
CLASSIFICATION: Final = "classification"
THERE: Final = "It is there."
LOCKS_UNREAD: Final = "The locks that are there could not be read: one may refuse what is planned."
SUBSCRIPTION_LOCKS_UNREAD: Final = (
    "The locks of the subscription itself could not be read, only those in the group: one of them"
    " may refuse what is planned."
)
ASSIGNMENTS_UNREAD: Final = "The role assignments that are there could not be read."
# The account's own children change one after the other: it refuses a second operation while one
# is under way. Containers and role assignments do not count as such.
STAGE_GROUP: Final = 1
STAGE_ACCOUNT: Final = 2
STAGE_BLOB_SERVICE: Final = 3
STAGE_CONTAINERS: Final = 4
STAGE_LIFECYCLE: Final = 5
STAGE_ENDPOINTS: Final = {"blob": 5, "dfs": 6}
STAGE_ZONE_GROUPS: Final = 7
STAGE_GRANTS: Final = 7
STAGE_LOCK: Final = 8


def account_id(wanted: StorageWanted) -> str:
    """Return the id of the account that is wanted."""
    return account_scope(wanted.subscription_id, wanted.group, wanted.account)


def write_step(action: StepAction, kind: str, write: ArmWrite, detail: str) -> Step:
    """Build a step of one write, named after what it writes."""
    name = name_of(write.resource_id)
    return Step(
        action=action,
        kind=kind,
        name=name,
        detail=detail,
        resource_id=write.resource_id,
        wanted=write,
    )


def kept_step(step: Step, reason: str = THERE) -> Step:
    """Return the same step as one that is kept; its write still says where it belongs."""
    return structs.replace(step, action="keep", reason=reason)


def refused_step(step: Step, reason: str) -> Step:
    """Return the same step as one that is refused and carries nothing."""
    return structs.replace(step, action="refuse", reason=reason, wanted=None)


def contradiction_step(level: Level, reason: str) -> Step:
    """Build the refusal of what a classification does not allow."""
    return Step(
        action="refuse",
        kind=CLASSIFICATION,
        name=level.name,
        detail="the classification does not allow this",
        reason=reason,
    )


def unread_locks(locks: Sequence[Lock] | None, *, whole: bool) -> list[str]:
    """Say which locks could not be read."""
    if locks is None:
        return [LOCKS_UNREAD]
    return [] if whole else [SUBSCRIPTION_LOCKS_UNREAD]


def read_only_steps(steps: Sequence[Step], locks: Iterable[Lock]) -> list[Step]:
    """Return the refusal that a ReadOnly lock is, where there is anything to write."""
    found = [lock for lock in locks if lock.level.casefold() == "readonly"]
    if not found or all(step.action == "keep" for step in steps):
        return []
    return [locked_step(found[0], "lets nothing be changed")]


def locked_step(lock: Lock, what: str) -> Step:
    """Build the refusal that a lock is, with the command that removes it."""
    return Step(
        action="refuse",
        kind=LOCK,
        name=lock.name,
        detail=f"{lock.level} lock on {lock.scope or 'the subscription'}",
        resource_id=lock.id,
        reason=f"The lock {lock.name} {what}. Remove it first: az lock delete --ids {lock.id}",
    )
