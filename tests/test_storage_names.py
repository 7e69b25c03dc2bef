"""Names, scopes and principals: what Azure takes, what it refuses, and how they compare."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.storage_names import (
    RESERVED_CONTAINERS,
    Scope,
    account_scope,
    assignment_name,
    check_account_name,
    check_container_name,
    check_group_name,
    container_scope,
    default_account_name,
    group_scope,
    parse_scope,
    parse_who,
    resource_id,
    scope_key,
    subscription_scope,
)

SUB = "a1410000-0000-4000-8000-000000000001"
OBJECT = "0b7ec700-0000-4000-8000-00000000000a"
ACCOUNT = f"/subscriptions/{SUB}/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acc"
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=70)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


# ---- account names -------------------------------------------------------------------------


@given(name=st.text("abcxyz0189", min_size=3, max_size=24))
def test_lower_case_letters_and_digits_make_an_account_name(name: str) -> None:
    assert check_account_name(name) == name


@given(name=PRINTABLE)
@example(name="ab")
@example(name="a" * 25)
@example(name="Training")
@example(name="stai-training")
@example(name="stai\n")
@example(name="sta٣٤")
def test_every_other_account_name_is_refused_with_the_rule(name: str) -> None:
    assume(not (3 <= len(name) <= 24 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789")))
    with pytest.raises(UsageError, match="3 to 24 lower-case letters and digits") as error:
        check_account_name(name)
    assert error.value.exit_code == 2
    if error.value.hint:
        check_account_name(error.value.hint.removesuffix(" would do."))


def test_a_refused_account_name_comes_with_one_that_would_do() -> None:
    with pytest.raises(UsageError) as error:
        check_account_name("Stai-Training_01")
    assert error.value.hint == "staitraining01 would do."


def test_the_default_account_name_is_the_same_in_every_release() -> None:
    assert default_account_name(SUB, "rg-ai-training") == "staitraining44219563"


@given(group=NAME)
def test_the_default_account_name_ignores_case_and_is_a_name(group: str) -> None:
    name = default_account_name(SUB, group)
    assert check_account_name(name) == name
    assert name == default_account_name(SUB.upper(), group.swapcase())
    assert name != default_account_name(SUB, group + "2")


# ---- container names -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["abc", "training-data", "0-1-2", "a" * 63, "1st"])
def test_a_container_name_that_azure_takes_is_taken(name: str) -> None:
    assert check_container_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["ab", "a" * 64, "Data", "a--b", "-ab", "ab-", "a_b", "a.b", "a b", "", "abc\n", "data/raw"],
)
def test_a_container_name_that_azure_refuses_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(UsageError, match="lower-case letters, digits and single hyphens"):
        check_container_name(name)


@pytest.mark.parametrize("name", [*RESERVED_CONTAINERS, "$WEB"])
def test_a_reserved_container_is_told_from_a_misspelt_one(name: str) -> None:
    with pytest.raises(UsageError, match="is reserved"):
        check_container_name(name)


@given(name=PRINTABLE)
def test_what_is_proposed_for_a_container_can_be_one(name: str) -> None:
    try:
        check_container_name(name)
    except UsageError as error:
        proposed = re.fullmatch(r"(.+) would do\.", error.hint or "")
        assert proposed is None or check_container_name(proposed[1])


# ---- group names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rg", "rg-ai.training", "(x)", "größe", "a" * 90])
def test_a_group_name_that_azure_takes_is_taken(name: str) -> None:
    assert check_group_name(name) == name


@pytest.mark.parametrize("name", ["", "rg.", "a/b", "a b", "a" * 91])
def test_a_group_name_that_azure_refuses_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="does not end with a period"):
        check_group_name(name)


# ---- scopes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        ACCOUNT,
        ACCOUNT + "/",
        ACCOUNT[1:],
        ACCOUNT.upper(),
        ACCOUNT.replace("resourceGroups", "resourcegroups"),
        f"  {ACCOUNT}\n",
        "https://management.azure.com" + ACCOUNT,
        "https://portal.azure.com/#@example.com/resource" + ACCOUNT,
    ],
)
def test_a_scope_has_one_key_however_it_is_spelt(spelling: str) -> None:
    assert scope_key(spelling) == ACCOUNT.lower()


@given(group=NAME, account=NAME, container=NAME)
def test_what_is_built_is_taken_apart_again(group: str, account: str, container: str) -> None:
    assert parse_scope(subscription_scope(SUB)).kind == "subscription"
    parsed_group = parse_scope(group_scope(SUB, group))
    assert (parsed_group.kind, parsed_group.group) == ("resource group", group)
    parsed = parse_scope(container_scope(SUB, group, account, container))
    assert parsed.resource_type == "Microsoft.Storage/storageAccounts/blobServices/containers"
    assert parsed.names == (account, "default", container)
    assert parsed.subscription_id == SUB
    assert parse_scope(parsed.id) == parsed


def test_root_and_management_groups_are_scopes() -> None:
    assert parse_scope("/").kind == "root"
    group = parse_scope("/providers/Microsoft.Management/managementGroups/Contoso")
    assert (group.kind, group.name) == ("management group", "Contoso")


def test_a_resource_of_a_resource_of_another_provider_has_the_inner_type() -> None:
    scope = parse_scope(f"{ACCOUNT}/providers/Microsoft.Authorization/locks/keep")
    assert (scope.resource_type, scope.names) == ("Microsoft.Authorization/locks", ("keep",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "myaccount",
        "/subscriptions",
        "/subscriptions/not-an-id",
        f"/subscriptions/{SUB}/resourceGroups",
        f"/subscriptions/{SUB}/resourceGroups/rg/providers",
        f"/subscriptions/{SUB}/resourceGroups/rg/providers/Microsoft.Storage",
        f"/subscriptions/{SUB}/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts",
        f"/subscriptions/{SUB}//resourceGroups/rg",
        f"/subscriptions/{SUB}/storageAccounts/acc",
        ACCOUNT + "?sig=x",
        "/providers/Microsoft.Management/managementGroups",
    ],
)
def test_what_is_no_scope_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="is not a scope") as error:
        parse_scope(text)
    assert "/resourceGroups/NAME" in (error.value.hint or "")


@given(
    parts=st.lists(st.sampled_from(["/", "subscriptions/", SUB, "/providers/", "a/b", " ", "?"]))
)
def test_parsing_a_scope_gives_a_scope_or_a_usage_error(parts: list[str]) -> None:
    try:
        scope = parse_scope("".join(parts))
    except UsageError:
        return
    assert parse_scope(scope.id) == scope


def test_a_role_at_a_scope_holds_below_it_and_nowhere_else() -> None:
    account = parse_scope(ACCOUNT)
    below = parse_scope(f"{ACCOUNT.upper()}/blobServices/default/containers/c")
    assert account.covers(below)
    assert account.covers(account)
    assert not below.covers(account)
    assert not account.covers(parse_scope(ACCOUNT + "2"))
    assert parse_scope(group_scope(SUB, "RG")).covers(account)
    assert parse_scope("/").covers(account)


def test_whether_a_management_group_covers_a_subscription_is_unknown() -> None:
    group = Scope(id="/providers/Microsoft.Management/managementGroups/m", kind="management group")
    assert group.covers(parse_scope(ACCOUNT)) is None


def test_a_resource_id_takes_as_many_names_as_types() -> None:
    assert account_scope(SUB, "rg", "acc") == ACCOUNT
    with pytest.raises(ValueError, match="takes 1 names, not 2"):
        resource_id(SUB, "rg", "Microsoft.Storage/storageAccounts", "a", "b")


# ---- who -----------------------------------------------------------------------------------


def test_me_is_the_one_who_signed_in() -> None:
    who = parse_who(" Me ")
    assert (who.kind, who.object_id, who.resource_in(SUB)) == ("me", None, None)


@pytest.mark.parametrize(
    ("text", "resource_type"),
    [
        ("vm:rg/gpu-0", "Microsoft.Compute/virtualMachines"),
        ("VMSS:rg/gpu-0", "Microsoft.Compute/virtualMachineScaleSets"),
        ("identity:rg/gpu-0", "Microsoft.ManagedIdentity/userAssignedIdentities"),
    ],
)
def test_a_resource_by_group_and_name_becomes_an_arm_id(text: str, resource_type: str) -> None:
    who = parse_who(text)
    assert who.resource_in(SUB) == resource_id(SUB, "rg", resource_type, "gpu-0")
    assert who.principal_type == "ServicePrincipal"


def test_a_resource_id_is_kept_as_it_is() -> None:
    who = parse_who(ACCOUNT + "/")
    assert (who.kind, who.resource_in("another"), who.name) == ("resource", ACCOUNT, "acc")


@pytest.mark.parametrize(
    ("suffix", "principal_type"),
    [
        ("", None),
        (":User", "User"),
        (":group", "Group"),
        (":servicePrincipal", "ServicePrincipal"),
    ],
)
def test_an_object_id_may_say_its_type(suffix: str, principal_type: str | None) -> None:
    who = parse_who(f"id:{OBJECT.upper()}{suffix}")
    assert (who.object_id, who.principal_type) == (OBJECT, principal_type)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "does not say who"),
        ("you", "does not say who"),
        ("me:x", "does not say who"),
        (OBJECT, "does not say who"),
        ("someone@example.com", "does not say who"),
        ("vm:gpu-0", "vm:GROUP/NAME"),
        ("vm:rg/", "vm:GROUP/NAME"),
        ("vm:rg/a/b", "vm:GROUP/NAME"),
        ("vm:/gpu-0", "cannot be a resource group"),
        ("identity:rg/a?b", "cannot be the name of a resource"),
        ("id:", "is not an object id"),
        ("id:1234", "is not an object id"),
        (f"id:{OBJECT}:Robot", "is not a type of principal"),
        (f"id:{OBJECT}:", "is not a type of principal"),
        (f"/subscriptions/{SUB}", "subscription has no identity"),
        (f"/subscriptions/{SUB}/resourceGroups/rg", "resource group has no identity"),
        ("/subscriptions/x/y", "is not a scope"),
    ],
)
def test_who_in_any_other_form_is_refused_in_one_sentence(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_who(text)
    assert told in error.value.message
    assert "\n" not in error.value.message
    assert error.value.exit_code == 2


def test_a_bare_object_id_and_a_mail_address_get_the_form_to_use() -> None:
    for text, form in ((OBJECT, f"id:{OBJECT}"), ("a@b.com", "az ad user show --id a@b.com")):
        with pytest.raises(UsageError) as error:
            parse_who(text)
        assert form in (error.value.hint or "")


@given(text=PRINTABLE)
def test_parsing_who_gives_a_record_or_a_usage_error(text: str) -> None:
    try:
        who = parse_who(text)
    except UsageError:
        return
    assert who.text == text


# ---- assignment names ----------------------------------------------------------------------


def test_an_assignment_has_the_same_name_in_every_release() -> None:
    name = assignment_name(ACCOUNT, OBJECT, "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1")
    assert name == "15cb0272-7fe1-54f3-b292-584bc1693d4f"
    assert uuid.UUID(name).version == 5


def test_an_assignments_name_ignores_spelling_and_nothing_else() -> None:
    name = assignment_name(ACCOUNT, OBJECT, SUB)
    assert name == assignment_name(ACCOUNT.upper() + "/", OBJECT.upper(), SUB.upper())
    others = [
        assignment_name(ACCOUNT + "2", OBJECT, SUB),
        assignment_name(ACCOUNT, SUB, SUB),
        assignment_name(ACCOUNT, OBJECT, OBJECT),
    ]
    assert len({name, *others}) == 4
