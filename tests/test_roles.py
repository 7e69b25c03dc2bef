"""Built-in roles: found by name or id, never guessed, and what they allow on blobs."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra import roles
from ai4infra.errors import UsageError
from ai4infra.ids import is_uuid
from ai4infra.roles import Role, allows_blobs, guid_of, not_a_data_role, role_id, role_name

ROLES = roles.builtin()
each_role = pytest.mark.parametrize("role", ROLES, ids=[role.name for role in ROLES])
CUSTOM = "11111111-2222-4333-8444-555555555555"
DEFINITIONS = "/providers/Microsoft.Authorization/roleDefinitions/"


@each_role
def test_a_row_is_found_by_its_name_its_guid_and_its_arm_id(role: Role) -> None:
    assert is_uuid(role.id)
    assert role.id == role.id.lower()
    subscription = f"/subscriptions/{CUSTOM}"
    for text in (
        role.name,
        role.name.upper(),
        f"  {role.name.replace(' ', '  ')} ",
        role.id,
        role.id.upper(),
        DEFINITIONS + role.id,
        subscription + DEFINITIONS.lower() + role.id + "/",
    ):
        assert role_id(text) == role.id
    assert role_name(role.id) == role.name


@each_role
def test_a_row_says_where_and_when_it_was_read(role: Role) -> None:
    assert (role.source or "").startswith("https://learn.microsoft.com/")
    assert datetime.date.fromisoformat(role.date or "") <= datetime.date(2026, 12, 31)


def test_no_two_roles_share_an_id() -> None:
    assert len({role.id for role in ROLES}) == len(ROLES)


@pytest.mark.parametrize(
    ("name", "guid"),
    [
        ("Storage Blob Data Reader", "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"),
        ("Storage Blob Data Contributor", "ba92f5b4-2d11-453d-a403-e96b0029c9fe"),
        ("Storage Blob Data Owner", "b7e6dc6d-f1e8-4753-8033-0f276bb0955b"),
    ],
)
def test_the_three_blob_roles_have_the_ids_that_azure_gave_them(name: str, guid: str) -> None:
    assert role_id(name) == guid
    assert guid in (roles.BLOB_READER, roles.BLOB_CONTRIBUTOR, roles.BLOB_OWNER)


def test_any_guid_is_taken_for_a_role_that_is_not_known_here() -> None:
    assert role_id(CUSTOM.upper()) == CUSTOM
    assert role_name(CUSTOM) == CUSTOM
    assert allows_blobs(CUSTOM, "read") is None
    assert not_a_data_role(CUSTOM) is None


def test_a_misspelt_role_gets_the_close_ones_and_no_id() -> None:
    with pytest.raises(UsageError, match="no role called") as error:
        role_id("Storage Blob Data Raeder")
    assert "Storage Blob Data Reader" in (error.value.hint or "")


def test_part_of_several_names_is_ambiguous_and_not_guessed() -> None:
    with pytest.raises(UsageError, match="may be any of 3 roles") as error:
        role_id("blob data")
    for name in ("Owner", "Contributor", "Reader"):
        assert f"Storage Blob Data {name}" in (error.value.hint or "")


def test_part_of_one_name_is_proposed_and_not_taken() -> None:
    with pytest.raises(UsageError, match="no role called") as error:
        role_id("blob delegator")
    assert error.value.hint == "Did you mean Storage Blob Delegator?"


def test_a_name_far_from_all_gets_the_way_to_list_them() -> None:
    for text in ("", "zzzzzzzz"):
        with pytest.raises(UsageError) as error:
            role_id(text)
        assert "az role definition list" in (error.value.hint or "")


def test_a_custom_role_that_azure_listed_is_found_by_name() -> None:
    custom = Role(name="Dataset Curator", id=CUSTOM)
    assert role_id("dataset curator", [custom]) == CUSTOM


def test_a_name_that_two_roles_have_is_refused_with_both_ids() -> None:
    other = "99999999-2222-4333-8444-555555555555"
    twins = [Role(name="Curator", id=CUSTOM), Role(name="curator", id=other)]
    with pytest.raises(UsageError, match=f"{CUSTOM} and {other}"):
        role_id("Curator", twins)


def test_azures_listing_of_a_builtin_role_does_not_make_it_ambiguous() -> None:
    listed = Role(name="Reader", id="ACDD72A7-3385-48EF-BD42-F606FBA81AE7")
    assert role_id("reader", [listed]) == listed.id.lower()


@given(text=st.text(max_size=60))
def test_a_guid_is_found_only_in_a_guid_or_the_id_of_a_role_definition(text: str) -> None:
    assert guid_of(text) is None
    assert guid_of(f"{text}/{CUSTOM}") is None


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("Storage Blob Data Reader", True, False),
        ("Storage Blob Data Contributor", True, True),
        ("Storage Blob Data Owner", True, True),
        ("Storage Blob Delegator", False, False),
        ("Owner", False, False),
        ("Storage Account Contributor", False, False),
        ("Storage Queue Data Contributor", False, False),
    ],
)
def test_what_a_role_allows_on_blobs(name: str, read: bool, write: bool) -> None:
    guid = role_id(name)
    assert (allows_blobs(guid, "read"), allows_blobs(guid, "write")) == (read, write)


def test_owner_is_not_a_data_role_and_the_sentence_says_what_is() -> None:
    sentence = not_a_data_role(role_id("Owner")) or ""
    assert sentence.startswith("Owner opens no blob")
    assert "Storage Blob Data Reader" in sentence
    assert "list the account's keys" in sentence
    assert "keys" not in (not_a_data_role(role_id("Reader")) or "")


@pytest.mark.parametrize("name", ["Storage Blob Data Reader", "AcrPull", "Network Contributor"])
def test_no_sentence_for_data_roles_and_for_roles_of_other_things(name: str) -> None:
    assert not_a_data_role(role_id(name)) is None
