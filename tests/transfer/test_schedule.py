"""Caps in office hours, where the office's clock is changed as well."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.transfer.schedule import Cap, is_capped, make_cap, next_change

SAO_PAULO = "America/Sao_Paulo"
NEW_YORK = "America/New_York"


def cap(hours: str, zone: str = SAO_PAULO) -> Cap:
    made = make_cap(400, hours, zone)
    assert made is not None
    return made


def local(text: str, zone: str = SAO_PAULO, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


def test_a_cap_holds_in_its_hours_only_and_not_at_their_end() -> None:
    office = cap("08:00-18:00")
    assert not is_capped(office, local("2026-12-01T07:59:59"))
    assert is_capped(office, local("2026-12-01T08:00"))
    assert is_capped(office, local("2026-12-01T17:59:59"))
    assert not is_capped(office, local("2026-12-01T18:00"))


def test_hours_may_go_past_midnight() -> None:
    night = cap("22:00-06:00")
    assert is_capped(night, local("2026-12-01T23:00"))
    assert is_capped(night, local("2026-12-01T05:59"))
    assert not is_capped(night, local("2026-12-01T06:00"))


def test_hours_may_end_at_midnight() -> None:
    assert is_capped(cap("18:00-24:00"), local("2026-12-01T23:59"))
    assert not is_capped(cap("18:00-24:00"), local("2026-12-02T00:00"))


def test_the_next_change_is_the_end_of_the_hours_and_then_their_start() -> None:
    office = cap("08:00-18:00")
    assert next_change(office, local("2026-12-01T08:00")) == local("2026-12-01T18:00")
    assert next_change(office, local("2026-12-01T18:00")) == local("2026-12-02T08:00")


def test_the_hours_are_those_of_the_zone_and_not_of_utc() -> None:
    assert next_change(cap("08:00-18:00"), datetime(2026, 12, 1, tzinfo=timezone.utc)) == (
        datetime(2026, 12, 1, 11, tzinfo=timezone.utc)
    )


def test_a_night_that_is_an_hour_short_has_its_office_hours_at_the_right_time() -> None:
    office = cap("08:00-18:00", NEW_YORK)
    evening = local("2026-03-07T18:00", NEW_YORK)
    change = next_change(office, evening)
    assert change == local("2026-03-08T08:00", NEW_YORK)
    assert change - evening.astimezone(timezone.utc) == timedelta(hours=13)


def test_a_night_that_is_an_hour_long_has_its_office_hours_at_the_right_time() -> None:
    office = cap("08:00-18:00", NEW_YORK)
    evening = local("2026-10-31T18:00", NEW_YORK)
    change = next_change(office, evening)
    assert change is not None
    assert change - evening.astimezone(timezone.utc) == timedelta(hours=15)


def test_hours_that_begin_where_the_clock_jumps_begin_at_the_jump() -> None:
    early = cap("02:30-04:00", NEW_YORK)
    assert next_change(early, local("2026-03-08T01:00", NEW_YORK)) == (
        datetime(2026, 3, 8, 7, 0, tzinfo=timezone.utc)
    )


def test_hours_in_an_hour_that_comes_twice_hold_twice() -> None:
    early = cap("01:00-02:00", NEW_YORK)
    first = local("2026-11-01T01:30", NEW_YORK)
    assert is_capped(early, first)
    assert is_capped(early, local("2026-11-01T01:30", NEW_YORK, fold=1))
    assert next_change(early, first) == datetime(2026, 11, 1, 7, 0, tzinfo=timezone.utc)


def test_a_cap_without_hours_holds_always() -> None:
    always = make_cap(100)
    assert always is not None
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert is_capped(always, now)
    assert next_change(always, now) is None


def test_a_rate_is_said_in_bits_and_in_bytes() -> None:
    assert cap("08:00-18:00").text == f"400 Mbit/s (50 MB/s) in 08:00-18:00 {SAO_PAULO}"


def test_no_rate_is_no_cap() -> None:
    assert make_cap(None) is None


@pytest.mark.parametrize(
    ("rate", "hours", "zone"),
    [
        (None, "08:00-18:00", SAO_PAULO),
        (None, None, SAO_PAULO),
        (100, None, SAO_PAULO),
        (100, "08:00-18:00", None),
        (0, None, None),
        (-1, None, None),
        (float("nan"), None, None),
        (float("inf"), None, None),
        (100, "08:00-08:00", SAO_PAULO),
        (100, "00:00-24:00", SAO_PAULO),
        (100, "8-18", SAO_PAULO),
        (100, "08:60-18:00", SAO_PAULO),
        (100, "24:00-18:00", SAO_PAULO),
        (100, "08:00-24:30", SAO_PAULO),
        (100, "", SAO_PAULO),
    ],
)
def test_what_is_no_cap_is_refused(rate: float | None, hours: str | None, zone: str | None) -> None:
    with pytest.raises(UsageError):
        make_cap(rate, hours, zone)


def test_an_unknown_zone_is_told_with_the_right_one() -> None:
    with pytest.raises(UsageError) as caught:
        make_cap(100, "08:00-18:00", "America/Sao_Paolo")
    assert SAO_PAULO in (caught.value.hint or "")


@pytest.mark.parametrize("zone", ["../etc/passwd", "/etc/localtime", "", "\0"])
def test_a_path_is_no_zone(zone: str) -> None:
    with pytest.raises(UsageError):
        make_cap(100, "08:00-18:00", zone)


minutes = st.integers(0, 24 * 60 - 1)
instants = st.datetimes(
    min_value=datetime(2024, 1, 1),
    max_value=datetime(2030, 1, 1),
    timezones=st.just(timezone.utc),
)
zones = st.sampled_from([SAO_PAULO, NEW_YORK, "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])


@given(minutes, minutes, zones, instants)
def test_the_cap_really_changes_at_the_next_change_and_not_before(
    start: int, end: int, zone: str, when: datetime
) -> None:
    if start == end:
        end = (end + 1) % (24 * 60)
    some = Cap(megabits_per_second=1, start_minute=start, end_minute=end, zone=zone)
    change = next_change(some, when)
    assert change is not None
    assert change > when
    before = is_capped(some, when)
    assert is_capped(some, change) is not before
    assert is_capped(some, change - timedelta(minutes=1)) is before
