"""The state of the sandbox: what is fixed by the catalogue, what requests change, and a clock."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import msgspec

from ai4infra.errors import Ai4infraError
from ai4infra.sandbox.catalogue import Catalogue, example
from ai4infra.sandbox.faults import Fault
from ai4infra.sandbox.files import write_private

START = datetime(2026, 1, 5, 8, 47, tzinfo=timezone.utc)
"""Where the clock of a world in memory starts: a Monday morning."""
STATE_FILE = "world.json"
_NAMESPACE = uuid.UUID("5f0c1f0e-6b0a-4c43-9d0a-a14a5a4db0c1")

Body = dict[str, Any]
"""A JSON object in Azure's own spelling."""


class Operation(msgspec.Struct, kw_only=True):
    """Something that goes on after its request was answered."""

    kind: str
    """Which service finishes it: ``quota``, ``delete group``."""
    id: str
    subscription_id: str
    started: datetime
    due: datetime
    details: Body = msgspec.field(default_factory=dict)
    outcome: str | None = None
    """None while it goes on, then ``Succeeded`` or ``Failed``."""


class Policy(msgspec.Struct, kw_only=True, frozen=True):
    """A policy that is assigned to every subscription: what it looks at, and what it does.

    It applies where ``field`` compares with ``value`` by ``operator``.
    """

    name: str
    display_name: str = ""
    effect: Literal["deny", "modify"] = "deny"
    resource_type: str
    """``Microsoft.Storage/storageAccounts``; ``*`` for every type."""
    field: str
    """``location``, ``kind``, ``sku.name``, ``tags.team`` or ``properties.minimumTlsVersion``."""
    operator: Literal["equals", "notEquals", "in", "notIn", "exists"] = "notEquals"
    value: Any
    put: Any = None
    """What the effect ``modify`` puts into the field."""


class State(msgspec.Struct, kw_only=True):
    """What requests change: all of it can be written as JSON, and is what a state file holds."""

    version: int = 1
    offset_seconds: float = 0.0
    """How far waiting has moved the clock."""
    counter: int = 0
    """Ids given out so far."""
    resources: dict[str, Body] = msgspec.field(default_factory=dict)
    """Lower-case ARM id to the resource as Azure shows it."""
    registrations: dict[str, datetime] = msgspec.field(default_factory=dict)
    """``subscription/namespace`` in lower case to the time from which it is registered."""
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    """``subscription/region/family`` in lower case to the limit that a request was granted."""
    operations: dict[str, Operation] = msgspec.field(default_factory=dict)
    principals: dict[str, datetime] = msgspec.field(default_factory=dict)
    """Object id of each identity that requests created to the time of its creation."""
    held: dict[str, datetime] = msgspec.field(default_factory=dict)
    """What was deleted, by lower-case id or name, to the time until which it is held back."""
    policies: list[Policy] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class Logged:
    """One request that the sandbox answered, without its token."""

    method: str
    url: str
    body: Any
    """The JSON body, None for none and for sign-in requests."""
    status: int | None
    """None when the connection broke."""


@dataclass
class World:
    """The catalogue, the state, a clock, and what was asked for.

    ``start`` is where the clock starts, which then moves by waiting only, until ``run_clock`` is
    called; without it the clock is the machine's, plus the waits.
    """

    catalogue: Catalogue = field(default_factory=example)
    state: State = field(default_factory=State)
    start: datetime | None = START
    faults: list[Fault] = field(default_factory=list)
    log: list[Logged] = field(default_factory=list)
    running_since: datetime | None = None
    """The machine's time at which a clock with a start began to run."""
    instant: bool = False
    """True where nothing takes time: operations end at once, grants work at once."""
    client_ip: str = "203.0.113.17"
    """Public address of whoever asks, which network rules look at."""

    def now(self) -> datetime:
        """Return the time in the sandbox, in UTC."""
        real = datetime.now(timezone.utc)
        base = self.start or real
        if self.start and self.running_since:
            base += real - self.running_since
        return base + timedelta(seconds=self.state.offset_seconds)

    def run_clock(self) -> None:
        """Let the clock run by itself: a program from outside waits for real."""
        self.running_since = self.running_since or datetime.now(timezone.utc)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.state.offset_seconds += max(0.0, seconds)

    def new_id(self) -> str:
        """Return a UUID that was not given out before; the same in every run."""
        self.state.counter += 1
        return str(uuid.uuid5(_NAMESPACE, str(self.state.counter)))

    def start_operation(
        self, kind: str, subscription_id: str, seconds: float, **details: Any
    ) -> Operation:
        """Begin something that is done after so many seconds."""
        now = self.now()
        operation = Operation(
            kind=kind,
            id=self.new_id(),
            subscription_id=subscription_id,
            started=now,
            due=now + timedelta(seconds=self.lasting(seconds)),
            details=details,
        )
        self.state.operations[operation.id] = operation
        return operation

    def lasting(self, seconds: float) -> float:
        """Return how long something takes here that takes so many seconds."""
        return 0.0 if self.instant else seconds

    def hold(self, key: str, seconds: float) -> None:
        """Hold an id or a name back for a while, after what had it was deleted."""
        self.state.held[key.lower()] = self.now() + timedelta(seconds=self.lasting(seconds))

    def is_held(self, key: str) -> bool:
        """Tell whether an id or a name is held back."""
        until = self.state.held.get(key.lower())
        return until is not None and until > self.now()

    def due_operations(self) -> list[Operation]:
        """Return what goes on but should be done by now, oldest first."""
        now = self.now()
        waiting = (o for o in self.state.operations.values() if o.outcome is None and o.due <= now)
        return sorted(waiting, key=lambda operation: operation.due)


class StateFile:
    """The state file of one folder: read when it changed, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / STATE_FILE
        self._stamp: tuple[int, int] | None = None
        self._written = b""

    def load(self) -> State | None:
        """Return the state when another process changed the file since, else None.

        Raises Ai4infraError for a file that cannot be read.
        """
        stamp = self._look()
        if stamp is None or stamp == self._stamp:
            return None
        try:
            body = self.path.read_bytes()
            state = msgspec.json.decode(body, type=State)
        except (OSError, msgspec.DecodeError) as error:
            raise self._broken(str(error)) from error
        if state.version != State().version:
            raise self._broken(f"its version is {state.version}")
        self._stamp, self._written = stamp, body
        return state

    def save(self, state: State) -> None:
        """Write the state, unless the file holds it already."""
        body = msgspec.json.encode(state)
        if body == self._written:
            return
        write_private(self.path, body)
        self._stamp, self._written = self._look(), body

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._broken(str(error)) from error
        return found.st_mtime_ns, found.st_ino

    def _broken(self, detail: str) -> Ai4infraError:
        return Ai4infraError(
            f"The sandbox's state in {self.path} cannot be read.",
            hint="Start over with `ai4infra sandbox reset`.",
            detail=detail,
        )
