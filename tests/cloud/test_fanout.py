from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from ai4infra.cloud.fanout import fan_out
from ai4infra.errors import NotFoundError


def test_outcomes_keep_the_order_of_the_items() -> None:
    turn = {number: threading.Event() for number in range(5)}
    turn[4].set()

    def backwards(number: int) -> int:
        assert turn[number].wait(timeout=5)
        if number:
            turn[number - 1].set()
        return number * 10

    assert [o.value for o in fan_out(backwards, range(5))] == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_has_one_outcome(count: int) -> None:
    outcomes = fan_out(str, range(count), workers=4)
    assert [(o.item, o.value) for o in outcomes] == [(n, str(n)) for n in range(count)]


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_of_ours_is_the_outcome_of_its_item(count: int) -> None:
    def odd_fails(number: int) -> int:
        if number % 2 == 0:
            raise NotFoundError(f"no {number}")
        return number

    outcomes = fan_out(odd_fails, range(count))
    assert str(outcomes[0].error) == "no 0"
    with pytest.raises(NotFoundError, match="no 0"):
        outcomes[0].result()


@pytest.mark.parametrize("count", [1, 3])
def test_a_bug_is_raised(count: int) -> None:
    with pytest.raises(ZeroDivisionError):
        fan_out(lambda number: number / 0, range(count))


def test_no_more_than_the_workers_run_at_once() -> None:
    lock = threading.Lock()
    running, most = [0], [0]
    meet = threading.Barrier(3)

    def count(_: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        meet.wait(timeout=5)
        with lock:
            running[0] -= 1

    fan_out(count, range(9), workers=3)
    assert most[0] == 3


_INTERRUPTED = """
import threading
from ai4infra.cloud.fanout import fan_out
def wait(number):
    if number == 1:
        print("waiting", flush=True)
    threading.Event().wait(600)
try:
    fan_out(wait, range(4))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_the_threads() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"
    assert process.returncode == 0
