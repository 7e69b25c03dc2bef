"""How far a job is."""

from __future__ import annotations

import pytest

from ai4infra.transfer.progress import Meter, bytes_text, duration_text, progress_text
from ai4infra.transfer.stream import Counters


def at(done: int, wire: int | None = None, files: int = 0) -> Counters:
    return Counters(
        job="j",
        total=10,
        completed=files,
        bytes_done=done,
        bytes_expected=1_000_000_000,
        bytes_over_wire=wire,
    )


def test_rate_percent_and_time_left_come_from_the_bytes() -> None:
    meter = Meter()
    meter.read(at(0), 0.0)
    found = meter.read(at(100_000_000, files=1), 2.0)
    assert (found.megabytes_per_second, found.percent, found.seconds_left) == (50.0, 10.0, 18.0)


def test_a_single_sample_has_no_rate_and_no_time_left() -> None:
    found = Meter().read(at(5), 1.0)
    assert (found.megabytes_per_second, found.seconds_left) == (None, None)


def test_a_rate_is_that_of_the_last_half_minute() -> None:
    meter = Meter()
    meter.read(at(0), 0.0)
    meter.read(at(500_000_000), 10.0)
    for second in range(20, 60, 10):
        found = meter.read(at(500_000_000), float(second))
    assert found.megabytes_per_second == 0.0
    assert found.seconds_left is None


def test_counters_that_fall_begin_a_new_rate() -> None:
    meter = Meter()
    meter.read(at(500), 0.0)
    meter.read(at(100), 1.0)
    found = meter.read(at(1_000_100), 2.0)
    assert found.megabytes_per_second == 1.0


def test_files_tell_the_percent_where_all_are_empty() -> None:
    counters = Counters(total=4, completed=1, bytes_done=0, bytes_expected=0)
    assert Meter().read(counters, 0.0).percent == 25.0


def test_the_line_for_a_terminal_says_files_bytes_rate_percent_and_time_left() -> None:
    meter = Meter()
    meter.read(at(0), 0.0)
    text = progress_text(meter.read(at(100_000_000, files=1), 2.0, capped=True))
    assert text == ("10.0% · 1 of 10 files · 100.0 MB of 1.0 GB · 50.0 MB/s (capped) · 18 s left")


def test_what_is_not_known_is_a_question_mark() -> None:
    text = progress_text(Meter().read(Counters(), 0.0))
    assert text == "?% · ? of ? files · ? of ? · ? MB/s · ? left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.2, "0 s"), (61, "1 min 01 s"), (7500, "2 h 05 min"), (3599.7, "1 h 00 min")],
)
def test_durations_for_people(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2 * 10**15, "2.0 PB")]
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert bytes_text(count) == text
