"""Waits for Resource Manager's long operations, by the SDK's own polling.

https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

import msgspec
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest
from azure.mgmt.core.polling.arm_polling import ARMPolling

from ai4infra.model import Record

POLL_SECONDS = 5.0
"""Between two questions where the service names no wait."""
SHORTEST_SECONDS = 1.0
"""The service says ``Retry-After: 0`` of operations that take seconds."""
_JSON = "application/json"
_ADDRESSES = ("location", "azure-asyncoperation", "operation-location")
_FAILED = ("failed", "canceled")
_ENDED = ("succeeded", "failed", "canceled")

Pause = Callable[[float], None]
"""Waits so many seconds before the next question; raises what ends the waiting."""


class Written(Record, frozen=True):
    """What a writing request came to."""

    status: int
    body: dict[str, Any] | None = None
    """The resource as the service answers it; None where it answered nothing."""
    running: bool = False
    """The service took the request and is still at it."""


class Polling(ARMPolling):
    """The SDK's polling (newest Location, Retry-After) whose waits are ours to make."""

    def __init__(self, base: str, pause: Pause) -> None:
        super().__init__(timeout=POLL_SECONDS)
        self._base = base
        self._pause = pause

    def _extract_delay(self) -> float:
        """Return the wait that the service names; one that cannot be read counts as none."""
        try:
            return float(super()._extract_delay())
        except ValueError:
            return POLL_SECONDS

    def _sleep(self, delay: float) -> None:
        self._pause(max(delay, SHORTEST_SECONDS))

    def request_status(self, status_link: str) -> Any:
        """Ask how the operation stands; a link may be a path only."""
        return super().request_status(urljoin(self._base, status_link))


def read_body(response: Any) -> dict[str, Any] | None:
    """Return the JSON object of an answer; None where there is none."""
    try:
        found = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def is_running(status: int, headers: Mapping[str, str], body: dict[str, Any] | None) -> bool:
    """Tell whether an answer only begins an operation.

    A 201 with a Location is none by itself: that is where the new resource lies.
    """
    if status == HTTPStatus.ACCEPTED or headers.get("azure-asyncoperation"):
        return True
    properties = (body or {}).get("properties")
    state = properties.get("provisioningState") if isinstance(properties, dict) else None
    return isinstance(state, str) and state.casefold() not in _ENDED


def finish(client: Any, started: Any, base: str, pause: Pause) -> dict[str, Any] | None:
    """Wait for the operation that an answer began; return the resource that it ends with.

    ``started`` is the pipeline's response to the writing request. Raises azure.core's errors for
    an operation that fails, and what ``pause`` raises.
    """
    response = started.http_response
    if not any(response.headers.get(name) for name in _ADDRESSES):
        return _read_until_ended(client, response, pause)
    polling: Any = Polling(base, pause)
    polling.initialize(client, started, lambda response: read_body(response.http_response))
    polling.run()
    found: dict[str, Any] | None = polling.resource()
    if _is_failure(found):
        raise HttpResponseError(response=polling._pipeline_response.http_response)
    return found


def _is_failure(body: Mapping[str, Any] | None) -> bool:
    """Tell an operation that failed from a resource: both come with status 200."""
    status = (body or {}).get("status")
    return isinstance(status, str) and status.casefold() in _FAILED


def _read_until_ended(client: Any, response: Any, pause: Pause) -> dict[str, Any] | None:
    """Wait for an operation that has no address of its own: by reading the resource.

    What is deleted is read until it is gone.
    """
    url, deletes = response.request.url, response.request.method.casefold() == "delete"
    while True:
        pause(POLL_SECONDS)
        answer = client.send_request(HttpRequest("GET", url, headers={"Accept": _JSON}))
        if answer.status_code == HTTPStatus.NOT_FOUND:
            if deletes:
                return None
            continue
        answer.raise_for_status()
        found = read_body(answer)
        if not deletes and not is_running(answer.status_code, answer.headers, found):
            return found
