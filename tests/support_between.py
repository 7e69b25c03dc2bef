"""Stands between the SDK and the sandbox: records what is sent, and answers in its place."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import requests
import urllib3

from ai4infra.cloud.session import Session
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.compute import limit_key
from ai4infra.sandbox.transport import SandboxAdapter, SandboxTransport

if TYPE_CHECKING:
    from support import Reply

REGION = "eastus2"
T4 = "Standard NCASv3_T4 Family"
T4_LIMIT = 64


class Between(requests.adapters.HTTPAdapter):
    """Passes requests on to a sandbox, except those that somebody asked to answer otherwise."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self.sandbox = sandbox
        self.urls: list[str] = []
        self.sent: list[tuple[str, str, Any]] = []
        self._inner = SandboxAdapter(sandbox)
        self._replies: list[tuple[str, str, Reply]] = []

    @property
    def writes(self) -> list[tuple[str, str, Any]]:
        """What was sent that changes something: method, unquoted path, body."""
        return [one for one in self.sent if one[0] != "GET"]

    def instead(self, method: str, pattern: str, *replies: Reply) -> None:
        """Answer the next requests of the method whose unquoted path matches, one reply each."""
        self._replies += [(method, pattern, reply) for reply in replies]

    def pass_all(self) -> None:
        """Answer nothing in the sandbox's place any more."""
        self._replies.clear()

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Answer one request."""
        method, path = str(request.method), unquote(urlsplit(str(request.url)).path)
        self.urls.append(str(request.url))
        self.sent.append((method, path, json.loads(request.body) if request.body else None))
        for number, (wanted, pattern, reply) in enumerate(self._replies):
            if wanted == method and re.search(pattern, path):
                del self._replies[number]
                return self._built(request, reply(request))
        return self._inner.send(request)

    def _built(
        self, request: requests.PreparedRequest, reply: urllib3.HTTPResponse | BaseException
    ) -> requests.Response:
        if isinstance(reply, BaseException):
            raise reply
        return self.build_response(request, reply)

    def session(self) -> Session:
        """Return a session whose waits move the sandbox's clock."""
        transport = SandboxTransport(self.sandbox)
        transport.session.mount("https://", self)
        return Session(credential=self.sandbox.credential, transport=transport)

    def register(self) -> None:
        """Have the subscription registered for Microsoft.Quota since yesterday."""
        world = self.sandbox.world
        key = f"{self.sandbox.subscription_id}/microsoft.quota"
        world.state.registrations[key] = world.now() - timedelta(days=1)

    def limit(self, family: str) -> int:
        """Return the limit that was granted to a family."""
        return self.sandbox.world.state.limits[
            limit_key(self.sandbox.subscription_id, REGION, family)
        ]

    def waited(self) -> float:
        """Return the seconds that went by in the sandbox."""
        return self.sandbox.world.state.offset_seconds


def dropped() -> Reply:
    """What requests raises when the other side hangs up instead of answering."""
    cause = urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104))
    return lambda request: requests.ConnectionError(cause)
