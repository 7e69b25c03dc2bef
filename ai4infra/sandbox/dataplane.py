"""The data plane of the accounts: who may do what, answered as the blob service does.

In process it knows the calls that tell whether a grant works: lists of containers and of blobs, and
properties of a container. What else is allowed goes on to Azurite, where it stands behind.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from ai4infra.sandbox.app import Service
from ai4infra.sandbox.authorization import allows
from ai4infra.sandbox.blobs import CONTAINER_KIND, container_of
from ai4infra.sandbox.messages import Request, Response
from ai4infra.sandbox.storage import account_named
from ai4infra.sandbox.tokens import claims_of
from ai4infra.sandbox.tracked import rows
from ai4infra.sandbox.world import World

service = Service("data", open=True)
Row = dict[str, Any]

_HOST = re.compile(r"([a-z0-9]{3,24})\.(blob|dfs)\.core\.windows\.net")
_HERE = ("127.0.0.1", "localhost")
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_OAUTH_SINCE = "2017-11-09"
XML_TYPE = "application/xml"


@dataclass(frozen=True)
class Target:
    """What a data-plane request is about."""

    account: str
    endpoint: str
    """``blob`` or ``dfs``."""
    container: str
    """Empty for the account itself."""
    blob: str


@dataclass(frozen=True)
class Allowed(Response):
    """The answer to an allowed request where nothing stands behind the accounts."""

    target: Target = Target("", "blob", "", "")


def target_of(world: World, request: Request) -> Target | None:
    """Return what a request to the data plane is about, None for any other request."""
    parts = [part for part in request.path.split("/") if part]
    match = _HOST.fullmatch(request.host)
    if match:
        return _target(match.group(1), match.group(2), parts)
    if request.host in _HERE and parts and account_named(world, parts[0]):
        return _target(parts[0], "blob", parts[1:])
    return None


def _target(account: str, endpoint: str, parts: list[str]) -> Target:
    return Target(account, endpoint, parts[0] if parts else "", "/".join(parts[1:]))


def claim(world: World, request: Request) -> Response | None:
    """Answer a request to the data plane."""
    target = target_of(world, request)
    if target is None:
        return None
    account = account_named(world, target.account)
    if account is None:
        return failure(request, 404, "ResourceNotFound", "The specified resource does not exist.")
    return _refused(world, request, target, account) or _answered(world, request, target, account)


service.claim = claim


def _refused(world: World, request: Request, target: Target, account: Row) -> Response | None:
    return (
        _bad_credential(request, account)
        or _bad_token(world, request)
        or _bad_network(world, request, account)
        or _bad_role(world, request, target, account)
    )


def _bad_credential(request: Request, account: Row) -> Response | None:
    kind = request.headers.get("authorization", "").partition(" ")[0].lower()
    by_key = kind in ("sharedkey", "sharedkeylite") or _is_signed_by_key(request)
    if by_key:
        return _bad_key(request, account)
    if not kind:
        return failure(
            request,
            401,
            "NoAuthenticationInformation",
            "Server failed to authenticate the request. Please refer to the information in the"
            " www-authenticate header.",
        )
    return None if kind == "bearer" else _wrong_header(request)


def _is_signed_by_key(request: Request) -> bool:
    """Tell a shared access signature of an account key: one of a user names who delegated it."""
    return "sig" in request.query and "skoid" not in request.query


def _bad_key(request: Request, account: Row) -> Response:
    if account["properties"].get("allowSharedKeyAccess") is False:
        return failure(
            request,
            403,
            "KeyBasedAuthenticationNotPermitted",
            "Key based authentication is not permitted on this storage account.",
        )
    return failure(
        request,
        501,
        "SandboxNoKeys",
        "the sandbox opens no data with account keys; use a token",
    )


def _wrong_header(request: Request) -> Response:
    message = (
        "Authentication information is not given in the correct format. Check the value of"
        " Authorization header."
    )
    return failure(request, 400, "InvalidAuthenticationInfo", message)


def _bad_token(world: World, request: Request) -> Response | None:
    if request.headers.get("x-ms-version", "") < _OAUTH_SINCE:
        return _wrong_header(request)
    claims = claims_of(request)
    audience = str(claims.get("aud", "")).rstrip("/")
    wrong = (
        "" if claims else "Signature validation failed.",
        "" if _is_audience(audience) else "Audience validation failed.",
        "" if claims.get("tid") == world.catalogue.tenant_id else "Issuer validation failed.",
        "" if int(claims.get("exp", 0)) > time.time() else "Lifetime validation failed.",
    )
    detail = next((text for text in wrong if text), None)
    if detail is None:
        return None
    message = (
        "Server failed to authenticate the request. Please refer to the information in the"
        " www-authenticate header."
    )
    return failure(request, 401, "InvalidAuthenticationInfo", message, detail)


def _is_audience(audience: str) -> bool:
    host = urlsplit(audience).hostname or ""
    return host == "storage.azure.com" or host.endswith(".blob.core.windows.net")


def _bad_network(world: World, request: Request, account: Row) -> Response | None:
    told = account["properties"]
    acls = told["networkAcls"]
    closed = told.get("publicNetworkAccess") in ("Disabled", "SecuredByPerimeter")
    allowed = any(_is_in(world.client_ip, rule["value"]) for rule in acls["ipRules"])
    if closed or (acls["defaultAction"] == "Deny" and not allowed):
        return failure(
            request,
            403,
            "AuthorizationFailure",
            "This request is not authorized to perform this operation.",
        )
    return None


def _is_in(address: str, rule: str) -> bool:
    return ip_address(address) in ip_network(rule, strict=False)


def _bad_role(world: World, request: Request, target: Target, account: Row) -> Response | None:
    scope = account["id"]
    if target.container:
        scope = f"{scope}/blobServices/default/containers/{target.container}"
    action = f"{_BLOBS}/{_ACTIONS.get(request.method, 'write')}"
    if allows(world, str(claims_of(request)["oid"]), scope, action):
        return None
    return failure(
        request,
        403,
        "AuthorizationPermissionMismatch",
        "This request is not authorized to perform this operation using this permission.",
    )


_ACTIONS = {"GET": "read", "HEAD": "read", "OPTIONS": "read", "DELETE": "delete"}


def _answered(world: World, request: Request, target: Target, account: Row) -> Response:
    if target.endpoint == "dfs":
        return _unknown(request, target)
    creates = request.method == "PUT" and request.query.get("restype") == "container"
    if target.container and not creates and container_of(world, account, target.container) is None:
        return failure(request, 404, "ContainerNotFound", "The specified container does not exist.")
    if _is_probe(request, target):
        return _probe(world, request, target, account)
    return _unknown(request, target)


def _is_probe(request: Request, target: Target) -> bool:
    """Tell the lists of blobs and of containers, and properties, from everything else."""
    reads = request.method in ("GET", "HEAD") and request.query.get("comp", "list") == "list"
    if target.container:
        return reads and not target.blob and request.query.get("restype") == "container"
    return reads and "comp" in request.query and "restype" not in request.query


def _probe(world: World, request: Request, target: Target, account: Row) -> Response:
    body = ""
    if request.query.get("comp") == "list" and request.method == "GET":
        named = f' ContainerName="{escape(target.container)}"' if target.container else ""
        found = (
            "<Blobs /><NextMarker />" if target.container else _containers(world, request, account)
        )
        body = (
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint='
            f'"https://{target.account}.blob.core.windows.net/"{named}>{found}'
            "</EnumerationResults>"
        )
    return Allowed(200, body.encode(), _headers(request), target)


def _containers(world: World, request: Request, account: Row) -> str:
    """Return the list of an account's containers, as far as ``maxresults`` goes."""
    names = sorted(row["name"] for row in rows(world, account["id"], CONTAINER_KIND))
    count = int(request.query.get("maxresults", len(names)))
    shown = "".join(f"<Container><Name>{name}</Name></Container>" for name in names[:count])
    following = names[count : count + 1]
    return f"<Containers>{shown}</Containers><NextMarker>{''.join(following)}</NextMarker>"


def _unknown(request: Request, target: Target) -> Response:
    message = f"the sandbox does not know {request.method} {request.path} on the data plane"
    hint = "; blobs need `ai4infra sandbox serve --data-plane`"
    refusal = failure(request, 501, "SandboxUnknownRoute", message + hint)
    if target.endpoint == "dfs":
        return refusal
    return Allowed(refusal.status, refusal.body, refusal.headers, target)


def failure(
    request: Request, status: int, code: str, message: str, detail: str | None = None
) -> Response:
    """Return an error as the blob service words it: XML, with the code in a header too."""
    told = (
        f"<AuthenticationErrorDetail>{escape(detail)}</AuthenticationErrorDetail>" if detail else ""
    )
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message>{told}</Error>"
    ).encode()
    headers = {**_headers(request), "x-ms-error-code": code}
    if status == 401:
        headers["www-authenticate"] = (
            "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize"
            " resource_id=https://storage.azure.com"
        )
    return Response(status, b"" if request.method == "HEAD" else body, headers)


def _headers(request: Request) -> dict[str, str]:
    version = request.headers.get("x-ms-version", "2021-12-02")
    return {"content-type": XML_TYPE, "x-ms-version": version}
