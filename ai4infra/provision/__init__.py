"""Look, plan, apply: the only package that changes anything in Azure."""

from ai4infra.provision.access import (
    RoleWait,
    find_principals,
    grants_to,
    plan_assign,
    plan_unassign,
    role_of,
    wait_role,
    with_late_grants,
)
from ai4infra.provision.apply import EXECUTORS, ApplyInterrupted, apply
from ai4infra.provision.quota import look_quota, plan_quota
from ai4infra.provision.run import Run
from ai4infra.provision.storage import look_storage, plan_storage, plan_storage_delete

__all__ = [
    "EXECUTORS",
    "ApplyInterrupted",
    "RoleWait",
    "Run",
    "apply",
    "find_principals",
    "grants_to",
    "look_quota",
    "look_storage",
    "plan_assign",
    "plan_quota",
    "plan_storage",
    "plan_storage_delete",
    "plan_unassign",
    "role_of",
    "wait_role",
    "with_late_grants",
]
