"""A credential whose tokens say who it is."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from azure.core.credentials import AccessToken


class Jwt:
    """A credential whose tokens have these claims; unsigned, as nobody here checks."""

    def __init__(self, **claims: Any) -> None:
        self.claims = claims
        self.asked: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Give a token that is good for an hour."""
        self.asked.append(scopes)
        body = base64.urlsafe_b64encode(json.dumps(self.claims).encode()).decode().rstrip("=")
        return AccessToken(f"eyJ0.{body}.c2ln", int(time.time()) + 3600)
