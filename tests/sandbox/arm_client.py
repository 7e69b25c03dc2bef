"""A plain HTTP client into the sandbox, for what the SDK would hide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests

ARM = "https://management.azure.com"
Http = requests.Session
Reply = requests.Response
Arm = Callable[..., Reply]
"""Sends a request to Resource Manager; see the fixture ``arm``."""


def code(reply: Reply) -> str:
    """The code in an error answer."""
    return str(reply.json()["error"]["code"])


def account_body(
    sku: str = "Standard_LRS", kind: str = "StorageV2", location: str = "eastus2", **properties: Any
) -> dict[str, Any]:
    """A body that creates a storage account."""
    return {"location": location, "kind": kind, "sku": {"name": sku}, "properties": properties}
