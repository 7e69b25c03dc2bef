"""What is wanted and observed, as steps: ``storage create``, ``storage delete``, ``rbac``."""

from __future__ import annotations

from ai4infra.storage_plan.access import rbac_remove_steps, rbac_steps
from ai4infra.storage_plan.create import LOCK_NAME, post_check, storage_steps
from ai4infra.storage_plan.delete import storage_delete_steps
from ai4infra.storage_plan.network import endpoint_groups
from ai4infra.storage_plan.steps import (
    ASSIGNMENT,
    BLOB_SERVICE,
    CONTAINER,
    DNS_LINK,
    DNS_ZONE,
    DNS_ZONE_GROUP,
    ENDPOINT,
    LIFECYCLE,
    LOCK,
    RESOURCE_GROUP,
    STAGE_GRANTS,
    STORAGE_ACCOUNT,
)

__all__ = [
    "ASSIGNMENT",
    "BLOB_SERVICE",
    "CONTAINER",
    "DNS_LINK",
    "DNS_ZONE",
    "DNS_ZONE_GROUP",
    "ENDPOINT",
    "LIFECYCLE",
    "LOCK",
    "LOCK_NAME",
    "RESOURCE_GROUP",
    "STAGE_GRANTS",
    "STORAGE_ACCOUNT",
    "endpoint_groups",
    "post_check",
    "rbac_remove_steps",
    "rbac_steps",
    "storage_delete_steps",
    "storage_steps",
]
