"""Does one thing to many items at once, through one bounded pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar, cast

import msgspec

from ai4infra.errors import Ai4infraError

T = TypeVar("T")
R = TypeVar("R")

WORKERS = 8
"""Requests that are under way at once."""


class Outcome(msgspec.Struct, Generic[T, R], frozen=True, kw_only=True):
    """What became of one item: a value or an error, never both."""

    item: T
    value: R | None = None
    error: Ai4infraError | None = None

    def result(self) -> R:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast("R", self.value)


def fan_out(
    function: Callable[[T], R], items: Iterable[T], *, workers: int = WORKERS
) -> list[Outcome[T, R]]:
    """Call the function on every item and return the outcomes in the order of the items.

    An Ai4infraError is the outcome of its item; any other exception is a bug and is raised. An
    interrupt is raised at once: the threads are daemons and what they wait for is not waited for.
    """
    listed = list(items)
    if len(listed) < 2:
        return [_outcome(function, item) for item in listed]
    todo: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[tuple[int, Outcome[T, R] | BaseException]] = SimpleQueue()
    for index in range(len(listed)):
        todo.put(index)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                index = todo.get_nowait()
            except Empty:
                return
            done.put((index, _caught(function, listed[index])))

    for _ in range(min(workers, len(listed))):
        threading.Thread(target=work, daemon=True).start()
    try:
        return _collect(done, len(listed))
    finally:
        stop.set()


def _collect(
    done: SimpleQueue[tuple[int, Outcome[T, R] | BaseException]], count: int
) -> list[Outcome[T, R]]:
    found: dict[int, Outcome[T, R]] = {}
    while len(found) < count:
        index, outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        found[index] = outcome
    return [found[index] for index in range(count)]


def _outcome(function: Callable[[T], R], item: T) -> Outcome[T, R]:
    try:
        return Outcome(item=item, value=function(item))
    except Ai4infraError as error:
        return Outcome(item=item, error=error)


def _caught(function: Callable[[T], R], item: T) -> Outcome[T, R] | BaseException:
    try:
        return _outcome(function, item)
    except BaseException as error:  # carried to the caller's thread
        return error
