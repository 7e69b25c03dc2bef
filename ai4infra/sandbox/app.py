"""The application behind transport and server: checks what every request must have, then routes.

It is as strict as Azure about tokens, api-versions and subscriptions, and it never answers a
route that it doesn't know: that is ``SandboxUnknownRoute``, status 501.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Literal

from ai4infra.ids import is_uuid
from ai4infra.sandbox.faults import Outcome, strike
from ai4infra.sandbox.messages import Hangup, Request, Response, ServiceFailure, http_date
from ai4infra.sandbox.tokens import check_token
from ai4infra.sandbox.world import Logged, Operation, World

Side = Literal["arm", "prices", "login", "identity", "data"]
"""Which of Azure's hosts a route lives on."""

_SIDES: tuple[tuple[str, tuple[Side, ...]], ...] = (
    (r"(.+\.)?management\..+", ("arm",)),
    (r"prices\..+", ("prices",)),
    (r"login\..+", ("login",)),
    (r"169\.254\.169\.254", ("identity",)),
    (r"localhost|127\.0\.0\.1", ("arm", "prices", "login", "identity")),
)


@dataclass(frozen=True)
class Call:
    """One request on its route, with the parts of its path by name."""

    world: World
    request: Request
    path: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.path[name]

    @property
    def query(self) -> dict[str, str]:
        """Query parameters, names in lower case."""
        return self.request.query

    @property
    def subscription(self) -> str:
        """Id of the subscription, in lower case."""
        return self.path["subscription"].lower()


Handler = Callable[[Call], Response]
Finisher = Callable[[World, Operation], None]
Guard = Callable[[Call], Call]
"""Refuses a call that is allowed so far, or returns it, maybe with another body."""
Claim = Callable[[World, Request], "Response | None"]
"""Answers a request that no path template finds, or leaves it to the routes."""


@dataclass(frozen=True)
class Route:
    """A method and a path template such as ``/subscriptions/{subscription}/locations``.

    ``{+scope}`` stands for several parts of the path.
    """

    method: str
    template: str
    side: Side
    open: bool
    """True where neither token nor api-version is asked for."""
    pattern: re.Pattern[str]
    handler: Handler


class Service:
    """The routes of one service, and what finishes its operations."""

    def __init__(self, side: Side = "arm", *, open: bool = False) -> None:  # noqa: A002
        self.side = side
        self.open = open
        self.routes: list[Route] = []
        self.finishers: dict[str, Finisher] = {}
        self.guards: list[Guard] = []
        self.claim: Claim | None = None

    def route(
        self,
        method: str,
        template: str,
        *,
        open: bool | None = None,  # noqa: A002
    ) -> Callable[[Handler], Handler]:
        """Register a handler; ``{name}`` stands for one part of the path, ``{+name}`` for more."""
        several = re.sub(r"\\\{\\\+(\w+)\\\}", r"(?P<\1>.+)", re.escape(template))
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", several)

        def register(handler: Handler) -> Handler:
            self.routes.append(
                Route(
                    method=method,
                    template=template,
                    side=self.side,
                    open=self.open if open is None else open,
                    pattern=re.compile(pattern, re.IGNORECASE),
                    handler=handler,
                )
            )
            return handler

        return register

    def finisher(self, kind: str) -> Callable[[Finisher], Finisher]:
        """Register what is done when an operation of this kind is due."""

        def register(finish: Finisher) -> Finisher:
            self.finishers[kind] = finish
            return finish

        return register

    def guard(self, check: Guard) -> Guard:
        """Register a check that every signed-in call passes before its handler."""
        self.guards.append(check)
        return check


class App:
    """Answers requests to one world, one at a time."""

    def __init__(self, world: World, services: tuple[Service, ...]) -> None:
        self.world = world
        self._routes = [route for service in services for route in service.routes]
        self._finishers = {k: f for service in services for k, f in service.finishers.items()}
        self._guards = [guard for service in services for guard in service.guards]
        self._claims = [service.claim for service in services if service.claim]
        self.lock = threading.RLock()

    def handle(self, request: Request) -> Outcome:
        """Answer a request, or break the connection where a fault says so."""
        with self.lock:
            self._settle()
            outcome = strike(self.world.faults, request, lambda: self._answer(request))
            if isinstance(outcome, Response):
                outcome = self._dressed(outcome)
            self.world.log.append(self._logged(request, outcome))
            return outcome

    def _settle(self) -> None:
        for operation in self.world.due_operations():
            operation.outcome = "Succeeded"
            self._finishers[operation.kind](self.world, operation)

    def _answer(self, request: Request) -> Response:
        try:
            claimed = (claim(self.world, request) for claim in self._claims)
            found = next((response for response in claimed if response is not None), None)
            return found or self._routed(request)
        except ServiceFailure as failure:
            return failure.response

    def _routed(self, request: Request) -> Response:
        route, path = self._find(request)
        call = Call(self.world, request, path)
        if not route.open:
            check_token(self.world, request)
            _check_version(request)
        _check_subscription(self.world, path)
        for guard in () if route.open else self._guards:
            call = guard(call)
        return route.handler(call)

    def _find(self, request: Request) -> tuple[Route, dict[str, str]]:
        sides = _sides(request.host)
        path = request.path
        for route in self._routes:
            if route.side in sides and route.method == request.method:
                match = route.pattern.fullmatch(path)
                if match:
                    return route, _parts(match.groupdict())
        raise _unknown_route(request, known_host=bool(sides))

    def _dressed(self, response: Response) -> Response:
        request_id = str(uuid.uuid4())
        dressing = {
            "date": http_date(self.world.now()),
            "cache-control": "no-cache",
            "x-ms-request-id": request_id,
            "x-ms-correlation-request-id": request_id,
        }
        return replace(response, headers={**dressing, **response.headers})

    def _logged(self, request: Request, outcome: Outcome) -> Logged:
        status = None if isinstance(outcome, Hangup) else outcome.status
        return Logged(request.method, request.url, _shown_body(request), status)


def _parts(found: dict[str, str]) -> dict[str, str]:
    """Return the named parts, with the subscription that a scope begins with."""
    first = re.match(r"subscriptions/([^/]+)", found.get("scope", ""), re.IGNORECASE)
    return {**found, "subscription": first.group(1)} if first else found


def _sides(host: str) -> tuple[Side, ...]:
    return next((sides for pattern, sides in _SIDES if re.fullmatch(pattern, host)), ())


def _unknown_route(request: Request, *, known_host: bool) -> ServiceFailure:
    name = request.path if known_host else f"{request.host}{request.path}"
    message = f"the sandbox does not know {request.method} {name}"
    return ServiceFailure(HTTPStatus.NOT_IMPLEMENTED, "SandboxUnknownRoute", message)


def _check_version(request: Request) -> None:
    version = request.query.get("api-version")
    if version is None:
        message = "The api-version query parameter (?api-version=) is required for all requests."
        raise ServiceFailure(400, "MissingApiVersionParameter", message)
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(-[a-z0-9.]+)?", version):
        message = f"The api-version '{version}' is invalid."
        raise ServiceFailure(400, "InvalidApiVersionParameter", message)


def _check_subscription(world: World, path: dict[str, str]) -> None:
    given = path.get("subscription")
    if given is None:
        return
    if not is_uuid(given):
        message = f"The provided subscription identifier '{given}' is malformed or invalid."
        raise ServiceFailure(400, "InvalidSubscriptionId", message)
    if given.lower() not in world.catalogue.subscription_ids:
        message = f"The subscription '{given}' could not be found."
        raise ServiceFailure(404, "SubscriptionNotFound", message)


def _shown_body(request: Request) -> Any:
    if not request.body or "oauth2" in request.path.lower():
        return None
    try:
        return json.loads(request.body)
    except ValueError:
        return request.body.decode("utf-8", "replace")
