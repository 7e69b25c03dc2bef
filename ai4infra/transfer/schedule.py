"""When a cap on the rate holds: office hours of a time zone, right across clock changes too."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ai4infra.errors import UsageError
from ai4infra.ids import close_names
from ai4infra.model import Record

_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_MINUTE = timedelta(minutes=1)
_MINUTES_AHEAD = 3 * 24 * 60
"""A clock change may remove a boundary of one day, not those of the days around it."""


class Cap(Record, frozen=True):
    """A limit of the rate, always or in some hours of the day only."""

    megabits_per_second: float
    start_minute: int = 0
    """Of the day, on the clock of the zone."""
    end_minute: int = 0
    """Not included; less than the start for hours that go past midnight."""
    zone: str | None = None
    """IANA name; None for a limit that holds always."""

    @property
    def text(self) -> str:
        """The limit for people, in bits and in bytes."""
        rate = f"{self.megabits_per_second:g} Mbit/s ({self.megabits_per_second / 8:g} MB/s)"
        if self.zone is None:
            return rate
        return f"{rate} in {_clock(self.start_minute)}-{_clock(self.end_minute)} {self.zone}"


def make_cap(
    megabits: float | None, hours: str | None = None, zone: str | None = None
) -> Cap | None:
    """Return the cap that is asked for, None for none.

    Raises UsageError for a rate that is none, hours that are none, an unknown zone, and for
    hours without a rate or a zone.
    """
    if megabits is None:
        if hours or zone:
            raise UsageError(
                "--cap-hours and --tz need a rate to cap.", hint="Add --cap-mbps N, in megabits."
            )
        return None
    if not (math.isfinite(megabits) and megabits > 0):
        raise UsageError(
            f"--cap-mbps {megabits:g} is no rate.", hint="Say megabits per second, above 0."
        )
    if hours is None:
        if zone:
            raise UsageError("--tz needs --cap-hours.", hint="For example --cap-hours 08:00-18:00.")
        return Cap(megabits_per_second=megabits)
    if zone is None:
        raise UsageError(
            "--cap-hours needs a time zone: the machine's own is often UTC.",
            hint="Add --tz, for example --tz America/Sao_Paulo.",
        )
    start, end = _parse_hours(hours)
    return Cap(
        megabits_per_second=megabits, start_minute=start, end_minute=end, zone=_zone(zone).key
    )


def _parse_hours(text: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(text.strip())
    numbers = [int(part) for part in match.groups()] if match else []
    if not numbers or numbers[1] > 59 or numbers[3] > 59 or not _is_time(numbers):
        raise UsageError(
            f"--cap-hours {text!r} are no hours.", hint="Say START-END, for example 08:00-18:00."
        )
    start, end = numbers[0] * 60 + numbers[1], (numbers[2] * 60 + numbers[3]) % (24 * 60)
    if start == end:
        raise UsageError(
            f"--cap-hours {text!r} begin and end at the same time.",
            hint="Leave --cap-hours out for a cap that holds all day.",
        )
    return start, end


def _is_time(numbers: list[int]) -> bool:
    return numbers[0] < 24 and (numbers[2] < 24 or numbers[2:] == [24, 0])


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones()
        if not known:
            raise UsageError(
                "This machine has no list of time zones.",
                hint="Install tzdata: apt-get install tzdata, or pip install tzdata.",
            ) from error
        close = close_names(name, known)
        hint = f"Did you mean {' or '.join(close)}?" if close else "Say Area/City, as in tz names."
        raise UsageError(f"There is no time zone called {name!r}.", hint=hint) from error


def is_capped(cap: Cap, when: datetime) -> bool:
    """Tell whether the cap holds at an instant; ``when`` has a time zone."""
    if cap.zone is None:
        return True
    local = when.astimezone(ZoneInfo(cap.zone))
    minute = local.hour * 60 + local.minute
    if cap.start_minute < cap.end_minute:
        return cap.start_minute <= minute < cap.end_minute
    return minute >= cap.start_minute or minute < cap.end_minute


def next_change(cap: Cap, when: datetime) -> datetime | None:
    """Return the next instant, in UTC, at which the cap begins or ends to hold; None for never."""
    if cap.zone is None:
        return None
    now = is_capped(cap, when)
    at = when.astimezone(timezone.utc).replace(second=0, microsecond=0)
    # Minute by minute is right whatever the clocks do meanwhile, and takes a few milliseconds.
    for _ in range(_MINUTES_AHEAD):
        at += _MINUTE
        if is_capped(cap, at) is not now:
            return at
    return None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
