"""Tokens of the sandbox: JWTs in Entra's shape that no real service would take."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

from ai4infra.ids import is_uuid
from ai4infra.sandbox.messages import Request, ServiceFailure
from ai4infra.sandbox.world import World

LIFETIME_SECONDS = 24 * 3600
"""As long as managed-identity tokens live; clients ask about it against their own clock."""
_ARM_AUDIENCE = r"(.+\.)?management\..+|localhost|127\.0\.0\.1"


@dataclass(frozen=True)
class Identity:
    """Somebody who can sign in."""

    object_id: str
    client_id: str
    kind: str = "app"
    """``app`` or ``user``."""


def issue(world: World, identity: Identity, audience: str) -> tuple[str, int]:
    """Return a token and the time at which it ends, in seconds since 1970."""
    now = int(time.time())
    ends = now + LIFETIME_SECONDS
    tenant = world.catalogue.tenant_id
    claims = {
        "aud": audience,
        "iss": f"https://sts.windows.net/{tenant}/",
        "iat": now,
        "nbf": now,
        "exp": ends,
        "appid": identity.client_id,
        "idtyp": identity.kind,
        "oid": identity.object_id,
        "sub": identity.object_id,
        "tid": tenant,
        "ver": "1.0",
    }
    header = {"typ": "JWT", "alg": "RS256", "kid": "sandbox"}
    # Nothing is signed: whoever checks signatures must not take these for tokens of Entra.
    return ".".join((_part(header), _part(claims), _encode(b"unsigned: sandbox"))), ends


def check_token(world: World, request: Request) -> None:
    """Refuse a request without a token of this sandbox for Resource Manager."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise _refused(
            world,
            "AuthenticationFailed",
            "Authentication failed. The 'Authorization' header is missing.",
        )
    claims = _claims(token)
    if claims is None:
        raise _refused(world, "InvalidAuthenticationToken", "The access token is invalid.")
    _check_claims(world, claims)


def claims_of(request: Request) -> dict[str, Any]:
    """Return what the token of a request says; nothing for one that cannot be read."""
    token = request.headers.get("authorization", "").partition(" ")[2]
    return _claims(token) or {}


def _check_claims(world: World, claims: dict[str, Any]) -> None:
    audience = str(claims.get("aud"))
    if not re.fullmatch(_ARM_AUDIENCE, urlsplit(audience).hostname or ""):
        message = f"The access token has been obtained for wrong audience or resource '{audience}'."
        raise _refused(world, "InvalidAuthenticationTokenAudience", message)
    if claims.get("tid") != world.catalogue.tenant_id:
        message = "The access token is from the wrong issuer. It must match the tenant of the"
        raise _refused(world, "InvalidAuthenticationTokenTenant", f"{message} subscription.")
    ends = int(claims.get("exp", 0))
    if ends < time.time():
        raise _refused(world, "ExpiredAuthenticationToken", _expired(ends))


def _expired(ends: int) -> str:
    end, now = (datetime.fromtimestamp(t, timezone.utc) for t in (ends, time.time()))
    form = "%m/%d/%Y %I:%M:%S %p"
    return (
        f"The access token expiry UTC time '{end:{form}}' is earlier than current UTC time"
        f" '{now:{form}}'."
    )


def _refused(world: World, code: str, message: str) -> ServiceFailure:
    authority = f"https://login.microsoftonline.com/{world.catalogue.tenant_id}"
    challenge = (
        f'Bearer authorization_uri="{authority}", error="invalid_token", '
        f'error_description="{message}"'
    )
    return ServiceFailure(401, code, message, headers={"www-authenticate": challenge})


def _claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) and is_uuid(str(claims.get("oid"))) else None


def _part(value: dict[str, Any]) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
