"""A scripted Azure: answers by URL, under the real SDK pipeline, whose sleep takes no time."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import requests
import urllib3
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import HTTPAdapter

from ai4infra.cloud.session import Session

SUBSCRIPTION = "7a1d3c52-90d4-4f7e-8f0e-5d7d6b1c2a34"
Answer = urllib3.HTTPResponse
Reply = Callable[[requests.PreparedRequest], "Answer | BaseException"]


def answer(status: int = 200, body: Any = None, **headers: str) -> Reply:
    """Build an answer; ``retry_after="5"`` is a header, a str body is sent as it is."""
    text = body if isinstance(body, str) else json.dumps({} if body is None else body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: Answer(
        body=io.BytesIO(text.encode()),
        status=status,
        headers={"content-type": "application/json", **named},
        preload_content=False,
        request_method=request.method,
    )


def listed(*rows: Any, next_link: str | None = None) -> Reply:
    """Build a page of a Resource Manager list."""
    return answer(body={"value": list(rows), **({"nextLink": next_link} if next_link else {})})


def failed(status: int, code: str, message: str = "No.", **headers: str) -> Reply:
    """Build an error in Resource Manager's usual envelope."""
    return answer(status, {"error": {"code": code, "message": message}}, **headers)


def broken(error: BaseException) -> Reply:
    """Build an answer that never comes."""
    return lambda request: error


class Script(HTTPAdapter):
    """Answers by a pattern on method and unquoted URL; the last answer of a pattern stays."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[tuple[str, list[Reply]]] = []
        self.requests: list[requests.PreparedRequest] = []
        self.slept: list[float] = []
        self._lock = threading.Lock()
        self.timeouts: list[tuple[float, float]] = []
        """Seconds to connect and to read that each request was given."""

    def on(self, pattern: str, *replies: Reply) -> Script:
        """Answer requests such as ``GET https://…`` that match, in this order."""
        self.replies.append((pattern, list(replies)))
        return self

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Answer one request."""
        self.timeouts.append(kwargs["timeout"])
        reply = self._chosen(request)(request)
        if isinstance(reply, BaseException):
            raise reply
        return self.build_response(request, reply)

    def _chosen(self, request: requests.PreparedRequest) -> Reply:
        url = unquote(str(request.url)).replace("+", " ")
        with self._lock:
            self.requests.append(request)
            for pattern, replies in self.replies:
                if re.search(pattern, f"{request.method} {url}"):
                    return replies.pop(0) if len(replies) > 1 else replies[0]
        raise AssertionError(f"nobody wrote an answer for {request.method} {url}")

    @property
    def urls(self) -> list[str]:
        """The unquoted URLs that were asked."""
        return [unquote(str(request.url)).replace("+", " ") for request in self.requests]

    @property
    def bodies(self) -> list[Any]:
        """The JSON that was sent, None where nothing was."""
        return [json.loads(r.body) if r.body else None for r in self.requests]

    @property
    def tokens(self) -> list[str | None]:
        """The Authorization header of each request."""
        return [request.headers.get("Authorization") for request in self.requests]

    def transport(self) -> RequestsTransport:
        """Return an azure.core transport over this script whose sleep takes no time."""
        session = requests.Session()
        session.mount("https://", self)
        transport = RequestsTransport(session=session)
        transport.sleep = self.slept.append
        return transport

    def session(self, **options: Any) -> Session:
        """Return a session over this script, signed in unless told otherwise."""
        options.setdefault("credential", Tokens())
        options.setdefault("env", {})
        return Session(transport=self.transport(), **options)


class Tokens:
    """A credential that gives token-1, token-2 and so on, all good for an hour."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Give the next token."""
        self.asked.append(scopes)
        return AccessToken(f"token-{len(self.asked)}", int(time.time()) + 3600)
