from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.lifecycle import (
    DEFAULT_RETENTION,
    charged_early,
    parse_lifecycle,
    parse_retention,
    rule_name,
)
from ai4infra.model import LifecycleWanted


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("7d:30d", (7, 30)),
        ("7:30", (7, 30)),
        (" 7D : 30 ", (7, 30)),
        ("7d:", (7, None)),
        (":30d", (None, 30)),
        (DEFAULT_RETENTION, (14, 90)),
    ],
)
def test_a_retention_is_days_until_cool_and_days_until_delete(
    text: str, days: tuple[int | None, int | None]
):
    assert parse_retention(text) == days


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "30d",
        "7d:30d:90d",
        "7w:30d",
        "-7:30",
        "0:30",
        "7:0",
        "30d:7d",
        "7:7",
        "\u0667:\u0669",
    ],
)
def test_anything_else_is_no_retention(text: str):
    with pytest.raises(UsageError) as caught:
        parse_retention(text)
    assert caught.value.hint


@given(cool=st.integers(1, 9999), more=st.integers(1, 9999))
def test_a_retention_reads_back_what_was_written(cool: int, more: int):
    assert parse_retention(f"{cool}d:{cool + more}d") == (cool, cool + more)


@given(st.text(max_size=12))
def test_a_retention_is_read_or_is_a_usage_error(text: str):
    try:
        cool, delete = parse_retention(text)
    except UsageError:
        return
    assert (cool, delete) != (None, None)


def test_a_lifecycle_names_its_container_and_a_prefix_where_it_has_one():
    assert parse_lifecycle("runs=7d:30d") == LifecycleWanted(
        container="runs", cool_after_days=7, delete_after_days=30
    )
    assert parse_lifecycle("runs/old/a=b=:30d") == LifecycleWanted(
        container="runs", prefix="old/a=b", delete_after_days=30
    )


@pytest.mark.parametrize("text", ["runs", "=7:30", "/old=7:30", "7d:30d", "runs="])
def test_a_lifecycle_without_one_of_its_parts_is_a_usage_error(text: str):
    with pytest.raises(UsageError):
        parse_lifecycle(text)


@given(
    st.lists(
        st.builds(
            LifecycleWanted,
            container=st.from_regex(r"[a-z0-9]{3,8}", fullmatch=True),
            prefix=st.text(max_size=8),
        ),
        min_size=2,
        max_size=5,
        unique_by=lambda rule: (rule.container, rule.prefix),
    )
)
def test_every_container_and_prefix_has_a_rule_of_its_own_name(rules: list[LifecycleWanted]):
    names = [rule_name(rule) for rule in rules]
    assert len(set(names)) == len(rules)
    assert all(name.replace("-", "").isalnum() and name.isascii() for name in names)


@pytest.mark.parametrize(
    ("cool", "delete", "early"),
    [(7, 30, True), (14, 90, False), (60, 90, False), (None, 5, False), (5, None, False)],
)
def test_cool_days_are_charged_for_a_month_at_least(
    cool: int | None, delete: int | None, early: bool
):
    rule = LifecycleWanted(container="runs", cool_after_days=cool, delete_after_days=delete)
    assert charged_early(rule) is early
