"""The way into the sandbox without a network: a transport and a credential for the Azure SDK."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import requests
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3.response import HTTPResponse

from ai4infra.sandbox.identity import identity_named
from ai4infra.sandbox.messages import Hangup, Request, Response
from ai4infra.sandbox.tokens import issue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ai4infra.sandbox import Sandbox


class SandboxAdapter(BaseAdapter):
    """Answers what a ``requests`` session sends, out of the sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Answer the request, or raise what a broken connection raises."""
        outcome = self._sandbox.handle(_request(request))
        if isinstance(outcome, Hangup):
            raise _broken(outcome, request)
        return _response(request, outcome)

    def close(self) -> None:
        """Keep the sandbox open."""


class SandboxTransport(RequestsTransport):  # type: ignore[misc]  # exported lazily: Any to mypy
    """A transport for the Azure SDK whose waits move the sandbox's clock and take no time."""

    def __init__(self, sandbox: Sandbox) -> None:
        session = requests.Session()
        session.trust_env = False
        session.mount("https://", SandboxAdapter(sandbox))
        # Sessions come with an adapter for http too, which would reach the network.
        session.adapters.pop("http://")
        self._sandbox = sandbox
        super().__init__(session=session, session_owner=False, use_env_settings=False)

    def sleep(self, duration: float) -> None:
        """Move the sandbox's clock."""
        self._sandbox.advance(duration)


class SandboxCredential:
    """Signs in as one of the sandbox's identities; an azure.core ``TokenCredential``."""

    def __init__(self, sandbox: Sandbox, identity: str = "user") -> None:
        self._sandbox = sandbox
        self._identity = identity

    def get_token(
        self,
        *scopes: str,
        claims: str | None = None,
        tenant_id: str | None = None,
        enable_cae: bool = False,
        **kwargs: Any,
    ) -> AccessToken:
        """Return a token for the first scope's audience."""
        audience = scopes[0].removesuffix("/.default")
        world = self._sandbox.world
        token, ends = issue(world, identity_named(world, self._identity), audience)
        return AccessToken(token, ends)


def _request(sent: requests.PreparedRequest) -> Request:
    body = sent.body or b""
    return Request(
        method=str(sent.method).upper(),
        url=str(sent.url),
        headers={str(name).lower(): str(value) for name, value in sent.headers.items()},
        body=body.encode() if isinstance(body, str) else bytes(body),
    )


def _response(request: requests.PreparedRequest, answer: Response) -> requests.Response:
    raw = HTTPResponse(
        body=io.BytesIO(answer.body),
        headers={**answer.headers, "content-length": str(len(answer.body))},
        status=answer.status,
        preload_content=False,
    )
    response: requests.Response = HTTPAdapter().build_response(request, raw)
    return response


def _broken(hangup: Hangup, request: requests.PreparedRequest) -> requests.RequestException:
    kinds: dict[str, type[requests.RequestException]] = {
        "connect timeout": requests.ConnectTimeout,
        "read timeout": requests.ReadTimeout,
        "drop": requests.ConnectionError,
    }
    return kinds[hangup.how](f"sandbox fault: {hangup.how}", request=request)
