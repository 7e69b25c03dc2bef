"""A Microsoft.Quota in memory, under the real SDK: state in, requests, state out."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import BaseAdapter, HTTPAdapter

from ai4infra.cloud.session import Session

SUBSCRIPTION = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
REGION = "eastus2"
T4 = "Standard NCASv3_T4 Family"
Fault = Callable[[requests.PreparedRequest], "urllib3.HTTPResponse | BaseException | None"]


def answer(
    status: int, body: object = None, headers: dict[str, str] | None = None
) -> urllib3.HTTPResponse:
    """Build a response as the network would give it; a str body is sent as it is."""
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    return urllib3.HTTPResponse(
        body=io.BytesIO(text.encode()),
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
        preload_content=False,
    )


def an_error(
    status: int, code: str, message: str = "No.", headers: dict[str, str] | None = None
) -> urllib3.HTTPResponse:
    return answer(status, {"error": {"code": code, "message": message}}, headers)


class QuotaService(HTTPAdapter):
    """Quotas of one region; ``faults`` answer instead of it, in their order, where they apply."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, int] = {T4: 16, "cores": 1000}
        self.used: dict[str, int] = {}
        self.fixed: set[str] = set()
        self.unknown: set[str] = set()
        self.registration = "Registered"
        self.polls_until_registered = 2
        self.polls_until_decided = 2
        self.decision = "Succeeded"
        self.code: str | None = None
        self.granted: int | None = None
        self.at_once = False
        self.requests: dict[str, dict[str, Any]] = {}
        self.faults: list[Fault] = []
        self.sent: list[tuple[str, str, Any]] = []

    @property
    def writes(self) -> list[tuple[str, str, Any]]:
        """What was sent that changes something: method, path, body."""
        return [one for one in self.sent if one[0] != "GET"]

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        path = unquote(urlsplit(str(request.url)).path)
        body = json.loads(request.body) if request.body else None
        self.sent.append((str(request.method), path, body))
        response = self._fault(request) or self._route(str(request.method), path, body)
        return self.build_response(request, response)

    def _fault(self, request: requests.PreparedRequest) -> urllib3.HTTPResponse | None:
        for number, fault in enumerate(self.faults):
            response = fault(request)
            if response is not None:
                del self.faults[number]
            if isinstance(response, BaseException):
                raise response
            if response is not None:
                return response
        return None

    def _route(self, method: str, path: str, body: Any) -> urllib3.HTTPResponse:
        if match := re.search(r"/providers/(Microsoft\.Quota)(/register)?$", path):
            return self._provider(match[2] is not None)
        if path.endswith("/usages"):
            return answer(200, {"value": [self._usage(name) for name in self.limits]})
        if self.registration != "Registered":
            said = "The subscription is not registered to use namespace 'Microsoft.Quota'."
            return an_error(409, "MissingSubscriptionRegistration", said)
        if match := re.search(r"/Microsoft\.Quota/quotas/(.+)$", path):
            return self._put(match[1], body) if method == "PUT" else self._quota(match[1])
        if match := re.search(r"/Microsoft\.Quota/quotaRequests(?:/(.+))?$", path):
            return self._status(match[1]) if match[1] else self._history()
        raise AssertionError(f"{method} {path} was not expected")

    def _provider(self, register: bool) -> urllib3.HTTPResponse:
        if register:
            self.registration = "Registering"
        elif self.registration == "Registering":
            self.polls_until_registered -= 1
            if self.polls_until_registered <= 0:
                self.registration = "Registered"
        body = {"namespace": "Microsoft.Quota", "registrationState": self.registration}
        return answer(200, body)

    def _usage(self, name: str) -> dict[str, Any]:
        return {
            "name": {"value": name, "localizedValue": f"{name} vCPUs"},
            "currentValue": self.used.get(name, 0),
            "limit": self.limits[name],
            "unit": "Count",
        }

    def _quota(self, family: str) -> urllib3.HTTPResponse:
        if family in self.unknown or family not in self.limits:
            return an_error(400, "InvalidResourceName", "Resource name is invalid.")
        limit = {"limitObjectType": "LimitValue", "value": self.limits[family]}
        properties = {
            "limit": limit,
            "name": {"value": family, "localizedValue": f"{family} vCPUs"},
            "unit": "Count",
            "isQuotaApplicable": family not in self.fixed,
        }
        return answer(200, {"name": family, "properties": properties})

    def _put(self, family: str, body: Any) -> urllib3.HTTPResponse:
        wanted = body["properties"]["limit"]["value"]
        if self.at_once:
            self.limits[family] = wanted
            return self._quota(family)
        name = f"00000000-0000-0000-0000-{len(self.requests):012}"
        self.requests[name] = {
            "family": family,
            "limit": wanted,
            "state": "InProgress",
            "polls": self.polls_until_decided,
        }
        return answer(202, self._filed(name), {"Location": "https://management.azure.com/x"})

    def _filed(self, name: str) -> dict[str, Any]:
        """Answer as the service does: a quota's body, a shouted name, the request's id."""
        request = self.requests[name]
        properties = {
            "limit": {"limitObjectType": "LimitValue", "value": request["limit"]},
            "name": {"value": request["family"].upper()},
            "provisioningState": request["state"],
            "isQuotaApplicable": True,
        }
        path = f"/subscriptions/{SUBSCRIPTION}/x/providers/Microsoft.Quota/quotaRequests/{name}"
        return {"id": path, "name": name, "properties": properties}

    def _status(self, name: str) -> urllib3.HTTPResponse:
        request = self.requests[name]
        request["polls"] -= 1
        if request["polls"] <= 0 and request["state"] == "InProgress":
            self._decide(request)
        return answer(200, self._details(name))

    def _decide(self, request: dict[str, Any]) -> None:
        request["state"] = self.decision
        if self.decision == "Succeeded":
            granted = request["limit"] if self.granted is None else self.granted
            self.limits[request["family"]] = granted

    def _details(self, name: str) -> dict[str, Any]:
        request = self.requests[name]
        properties: dict[str, Any] = {
            "provisioningState": request["state"],
            "message": "Request failed." if request["state"] == "Failed" else "Request submitted.",
            "requestSubmitTime": "2026-03-01T10:00:00Z",
            "value": [
                {
                    "name": {"value": request["family"]},
                    "limit": {"limitObjectType": "LimitValue", "value": request["limit"]},
                    "provisioningState": request["state"],
                }
            ],
        }
        if request["state"] == "Failed":
            properties["error"] = {"code": self.code, "message": "Request failed."}
        path = f"/subscriptions/{SUBSCRIPTION}/x/providers/Microsoft.Quota/quotaRequests/{name}"
        return {"id": path, "name": name, "properties": properties}

    def _history(self) -> urllib3.HTTPResponse:
        return answer(200, {"value": [self._details(name) for name in self.requests]})


class Clock(RequestsTransport):
    """A transport whose sleep moves a clock and takes no time."""

    def __init__(self, service: BaseAdapter) -> None:
        session = requests.Session()
        session.mount("https://", service)
        super().__init__(session=session)
        self.slept_seconds = 0.0

    def sleep(self, duration: float) -> None:
        """Move the clock."""
        self.slept_seconds += duration


class Tokens:
    """A credential whose every token is a new one."""

    def __init__(self) -> None:
        self.given = 0

    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        """Give a token that is good for an hour."""
        self.given += 1
        return AccessToken(f"token-{self.given}", int(time.time()) + 3600)


def a_session(service: BaseAdapter) -> Session:
    return Session(credential=Tokens(), transport=Clock(service))


def dropped() -> requests.ConnectionError:
    """What requests raises when the other side hangs up instead of answering."""
    cause = urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104))
    return requests.ConnectionError(cause)


def fault(
    response: urllib3.HTTPResponse | BaseException, *, method: str = "GET", path: str = ""
) -> Fault:
    """Answer in the service's place, once: the next request of the method with this in its URL."""

    def apply(
        request: requests.PreparedRequest,
    ) -> urllib3.HTTPResponse | BaseException | None:
        fits = request.method == method and path in unquote(str(request.url))
        return response if fits else None

    return apply
