"""Requests, answers and errors as Azure Resource Manager words them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

JSON_TYPE = "application/json; charset=utf-8"
SKIP = "$skiptoken"


@dataclass(frozen=True)
class Request:
    """One HTTP request; header names are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path, unescaped, with single slashes and none at its end."""
        path = unquote(urlsplit(self.url).path)
        return "/" + "/".join(part for part in path.split("/") if part)

    @property
    def host(self) -> str:
        """Host name without port, in lower case."""
        return (urlsplit(self.url).hostname or "").lower()

    @property
    def origin(self) -> str:
        """Scheme and host with port: what answers put into their links."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def query(self) -> dict[str, str]:
        """Query parameters; names in lower case, since Azure ignores their case."""
        pairs = parse_qsl(urlsplit(self.url).query, keep_blank_values=True)
        return {name.lower(): value for name, value in pairs}


@dataclass(frozen=True)
class Response:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hangup:
    """No answer at all: how the connection fails."""

    how: str
    """``connect timeout``, ``read timeout`` or ``drop``."""


class ServiceFailure(Exception):  # noqa: N818 - an answer of the service, not an error of ours
    """An error answer, raised by whichever part of the sandbox finds it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.response = Response(
            status,
            msgspec.json.encode({"error": {"code": code, "message": message, **fields}}),
            {"content-type": JSON_TYPE, **(headers or {})},
        )


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    """Return a JSON answer; ``_`` in header names stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, msgspec.json.encode(body), {"content-type": JSON_TYPE, **named})


def empty(status: int, **headers: str) -> Response:
    """Return an answer without a body."""
    return Response(status, b"", {name.replace("_", "-"): value for name, value in headers.items()})


def json_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object. Raises ServiceFailure as ARM does for anything else."""
    try:
        value = json.loads(request.body or b"null")
    except ValueError as error:
        raise invalid_content(str(error)) from error
    if not isinstance(value, dict):
        raise invalid_content("a JSON object is expected")
    return value


def invalid_content(detail: str) -> ServiceFailure:
    """Build the error for a request body that ARM cannot read."""
    message = f"The request content was invalid and could not be deserialized: '{detail}'."
    return ServiceFailure(400, "InvalidRequestContent", message)


def page_of(rows: list[Any], request: Request, size: int) -> dict[str, Any]:
    """Return one page of an ARM list, with a nextLink where more rows follow.

    Raises ServiceFailure for a token that the sandbox did not give out.
    """
    given = request.query.get(SKIP, "0")
    if not given.isdecimal():
        raise ServiceFailure(400, "InvalidSkipToken", f"The skip token '{given}' is invalid.")
    start = int(given)
    page: dict[str, Any] = {"value": rows[start : start + size]}
    if start + size < len(rows):
        page["nextLink"] = _next(request, start + size)
    return page


def _next(request: Request, start: int) -> str:
    query = {**request.query, SKIP: str(start)}
    # Reserved characters of OData stay readable in Azure's links.
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"{request.origin}{quote(request.path)}?{pairs}"


def http_date(moment: datetime) -> str:
    """Return the time as HTTP headers spell it."""
    return format_datetime(moment, usegmt=True)


def arm_time(moment: datetime) -> str:
    """Return the time as ARM spells it, with seven fractional digits."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}0Z"
