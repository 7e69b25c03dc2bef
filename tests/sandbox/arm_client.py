"""A plain HTTP client into the sandbox, for what the SDK would hide."""

from __future__ import annotations

from collections.abc import Callable

import requests

ARM = "https://management.azure.com"
Http = requests.Session
Reply = requests.Response
Arm = Callable[..., Reply]
"""Sends a request to Resource Manager; see the fixture ``arm``."""


def code(reply: Reply) -> str:
    """The code in an error answer."""
    return str(reply.json()["error"]["code"])
