"""``storage delete``: an account and what is its own, as steps."""

from __future__ import annotations

from collections.abc import Iterator

from ai4infra import arm
from ai4infra.arm import is_at_or_above, same_id
from ai4infra.classification import TAG as CLASSIFICATION_TAG
from ai4infra.model import PrivateEndpoint, Step, StorageAccount, StorageLook
from ai4infra.plan import Plan
from ai4infra.storage_plan.steps import (
    ENDPOINT,
    STAGE_ACCOUNT,
    STAGE_GROUP,
    STORAGE_ACCOUNT,
    locked_step,
    unread_locks,
    write_step,
)


def storage_delete_steps(look: StorageLook) -> Plan:
    """Plan the deletion of an account with its own private endpoints.

    Raises nothing where there is no account: then there is nothing to do. A lock at or above it
    refuses. DNS zones stay, since others may use them.
    """
    if look.account is None:
        return Plan(steps=())
    account = look.account
    held = [k for k in look.locks or () if is_at_or_above(k.scope, account.id)]
    locks = [locked_step(k, "protects it") for k in held]
    if locks:
        return Plan(steps=tuple(locks))
    write = arm.delete(arm.ACCOUNT, account.id, stage=STAGE_ACCOUNT)
    step = write_step("delete", STORAGE_ACCOUNT, write, _losses(look))
    return Plan(
        steps=(*_own_endpoints(look, account), step), warnings=tuple(_last_words(look, account))
    )


def _losses(look: StorageLook) -> str:
    if look.containers is None:
        return "with all data; which containers it has is unknown"
    names = ", ".join(c.name for c in look.containers)
    count = "1 container" if len(look.containers) == 1 else f"{len(look.containers)} containers"
    return f"with all data in {count}: {names}" if names else "empty"


def _own_endpoints(look: StorageLook, account: StorageAccount) -> Iterator[Step]:
    for endpoint in look.endpoints or ():
        if same_id(endpoint.target_id, account.id) and _has_our_name(endpoint, account):
            write = arm.delete(arm.ENDPOINT, endpoint.id, stage=STAGE_GROUP)
            yield write_step("delete", ENDPOINT, write, "it connects to nothing else")


def _has_our_name(endpoint: PrivateEndpoint, account: StorageAccount) -> bool:
    return any(same_id(endpoint.id, arm.endpoint_id(account.id, g)) for g in ("blob", "dfs"))


def _last_words(look: StorageLook, account: StorageAccount) -> Iterator[str]:
    yield from unread_locks(look.locks, whole=look.locks_whole)
    for endpoint in look.endpoints or ():
        if endpoint.target_id is None:
            yield (
                f"The private endpoint {endpoint.id} could not be read: it stays, and is billed."
            )
    yield (
        "Soft delete does not outlive the account. Microsoft may recover it for 14 days, as long"
        " as nobody takes the name."
    )
    level = next((v for k, v in account.tags.items() if k.casefold() == CLASSIFICATION_TAG), None)
    if level is not None:
        yield f"Its data is classified {level}."
    for endpoint in look.endpoints or ():
        if same_id(endpoint.target_id, account.id) and not _has_our_name(endpoint, account):
            yield f"The private endpoint {endpoint.id} stays, connected to nothing, and is billed."
