"""Names and ids: how they compare, and what is suggested for a name that is not known."""

from __future__ import annotations

import fnmatch
import re
import uuid

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.ids import (
    close_names,
    is_uuid,
    quota_key,
    region_key,
    size_key,
    size_matches,
    unknown_name,
)

WORD = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", max_size=20)
SIZES = ("Standard_ND96asr_v4", "Standard_NC24ads_A100_v4", "Standard_NC6", "Standard_NC6s_v3")


@pytest.mark.parametrize("spelling", ["eastus2", "EastUS2", "East US 2", " east us2\t"])
def test_a_region_has_one_key_however_it_is_spelt(spelling: str) -> None:
    assert region_key(spelling) == "eastus2"


def test_a_quota_family_keeps_its_underscores_and_loses_case_and_blanks() -> None:
    assert quota_key("Standard NCASv3_T4 Family") == quota_key("standardncasv3_t4family")
    assert quota_key("StandardNCASv3T4Family") != quota_key("StandardNCASv3_T4Family")


@given(name=WORD, blanks=st.sampled_from(["", " ", "\t", "  "]))
def test_keys_ignore_case_and_blanks_around(name: str, blanks: str) -> None:
    for key in (region_key, quota_key, size_key):
        assert key(blanks + name.upper() + blanks) == key(name.lower())


@given(name=WORD)
def test_a_size_with_and_without_its_prefix_is_the_same_size(name: str) -> None:
    assume(not name.lower().startswith("standard_"))
    assert size_key("Standard_" + name) == size_key(name)
    assert size_matches(name, "Standard_" + name)


@given(pattern=st.text("ab*_1", min_size=1, max_size=12), name=st.text("ab_1", max_size=12))
@example(pattern="a*a", name="a")
@example(pattern="**a*b", name="xab")
@example(pattern="ab*ab", name="ab")
@example(pattern="*_1", name="1")
def test_a_star_matches_as_a_shell_would(pattern: str, name: str) -> None:
    if "*" in pattern:
        spellings = (name, f"standard_{name}")
        expected = any(fnmatch.fnmatchcase(spelling, pattern) for spelling in spellings)
    else:
        expected = pattern == name
    assert size_matches(pattern, name) is expected


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("nd96ASR_v4", True),
        ("Standard_ND96asr_v4", True),
        ("ND96asr", False),
        ("ND*", True),
        ("standard_nd*_v4", True),
        ("Standard*", True),
        ("*_v4", True),
        ("*", True),
        ("NC*", False),
        ("ND96.sr_v4", False),
        ("ND96?sr_v4", False),
        ("", False),
    ],
)
def test_a_size_matches_exactly_or_by_stars_only(pattern: str, matches: bool) -> None:
    assert size_matches(pattern, "Standard_ND96asr_v4") is matches


def test_a_pattern_of_many_stars_is_answered_at_once() -> None:
    assert not size_matches("*a" * 40 + "b", "a" * 60)


@given(value=st.uuids())
def test_every_uuid_in_dashed_form_is_one_in_either_case(value: uuid.UUID) -> None:
    assert is_uuid(str(value))
    assert is_uuid(str(value).upper())
    assert not is_uuid(value.hex)
    assert not is_uuid(f"{{{value}}}")


@given(text=st.text())
def test_any_other_text_is_no_uuid(text: str) -> None:
    assert is_uuid(text) == bool(
        re.fullmatch(r"(?ai)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
    )


def test_close_names_come_as_the_known_names_are_spelt_best_first() -> None:
    assert close_names("nd96asr_v5", SIZES)[0] == "Standard_ND96asr_v4"
    assert close_names("East US 3", ["westeurope", "eastus2"]) == ["eastus2"]


def test_a_short_size_is_found_without_its_prefix() -> None:
    assert close_names("NC7", SIZES)[0] == "Standard_NC6"


def test_nothing_close_suggests_nothing() -> None:
    assert close_names("zzz", SIZES) == []


@given(wanted=st.text(), known=st.lists(st.text()), limit=st.integers(1, 5))
def test_suggestions_are_known_names_and_no_more_than_the_limit(
    wanted: str, known: list[str], limit: int
) -> None:
    close = close_names(wanted, known, limit)
    assert len(close) <= limit
    assert set(close) <= set(known)


def test_an_unknown_name_says_what_was_meant_instead() -> None:
    error = unknown_name("region", "eastus22", ["eastus2", "westeurope"], listing="List them.")
    assert isinstance(error, UsageError)
    assert error.message == "There is no region called 'eastus22'."
    assert error.hint == "Did you mean eastus2?"


def test_an_unknown_name_with_nothing_close_says_where_to_look() -> None:
    assert unknown_name("region", "zz", ["eastus2"], listing="List them.").hint == "List them."


@given(wanted=st.text())
def test_an_unknown_name_is_told_in_one_line(wanted: str) -> None:
    assert len(unknown_name("size", wanted, SIZES, listing="-").message.splitlines()) == 1


def test_names_that_go_on_from_what_was_typed_come_first() -> None:
    known = ["Standard_ND6s", "Standard_ND96isr_H100_v5", "Standard_ND96asr_v4"]
    assert close_names("nd96", known)[:2] == ["Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"]
