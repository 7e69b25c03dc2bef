"""A plain HTTP client into the sandbox, for what the SDK would hide."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import requests

ARM = "https://management.azure.com"
Http = requests.Session
Reply = requests.Response
Arm = Callable[..., Reply]
"""Sends a request to Resource Manager; see the fixture ``arm``."""

READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
USER = "0b7ec700-0000-4000-8000-000000000001"
MANAGED = "0b7ec700-0000-4000-8000-000000000002"
COLLEAGUE = "0b7ec700-0000-4000-8000-000000000011"
TEAM = "0b7ec700-0000-4000-8000-000000000021"


def code(reply: Reply) -> str:
    """The code in an error answer."""
    return str(reply.json()["error"]["code"])


def account_body(
    sku: str = "Standard_LRS", kind: str = "StorageV2", location: str = "eastus2", **properties: Any
) -> dict[str, Any]:
    """A body that creates a storage account."""
    return {"location": location, "kind": kind, "sku": {"name": sku}, "properties": properties}


def path_of(scope: str, name: str | None = None) -> str:
    last = name or str(uuid.uuid4())
    return f"{scope}/providers/Microsoft.Authorization/roleAssignments/{last}"


def grant(
    arm: Arm,
    scope: str,
    principal: str = COLLEAGUE,
    role: str = READER,
    name: str | None = None,
    **properties: Any,
) -> Reply:
    """Assign a role at a scope."""
    above = "@/providers/Microsoft.Authorization/roleDefinitions/"
    body = {"roleDefinitionId": f"{above}{role}", "principalId": principal, **properties}
    return arm("PUT", path_of(scope, name), json={"properties": body})
