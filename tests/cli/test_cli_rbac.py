from __future__ import annotations

from typing import Any

import pytest

SUBSCRIPTION = "/subscriptions/a1410000-0000-4000-8000-000000000001"
GROUP = f"{SUBSCRIPTION}/resourceGroups/rg-ai-training"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/sttrain"
READER = "Storage Blob Data Reader"
CONTRIBUTOR = "Storage Blob Data Contributor"


@pytest.fixture
def made(run: Any) -> Any:
    """The command line over a world with an account that nobody has a role on."""
    assert run("storage", "create", "--name", "sttrain", "--no-grant", "--yes").code == 0
    return run


def states(shown: Any) -> list[str]:
    return [step["state"] for step in shown.json["steps"]]


def roles(run: Any, *words: str) -> list[str]:
    listed = run("rbac", "list", *(words or ("--on", ACCOUNT)), "-o", "json")
    return [row["role"] for row in listed.json["assignments"]]


def test_a_role_is_assigned_by_name_and_a_second_time_is_fine(made: Any) -> None:
    words = ("rbac", "assign", "storage blob data reader", "--to", "me", "--on", ACCOUNT)
    first, second = made(*words, "-o", "json"), made(*words, "-o", "json")
    assert (first.code, states(first)) == (0, ["done"])
    assert (second.code, states(second)) == (0, ["kept"])
    assert READER in roles(made)


def test_a_role_is_assigned_by_its_id(made: Any) -> None:
    role = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
    assert made("rbac", "assign", role, "--to", "me", "--on", ACCOUNT).code == 0
    assert READER in roles(made)


@pytest.mark.parametrize(
    "scope",
    [
        ACCOUNT.upper().replace("/SUBSCRIPTIONS", "/subscriptions"),
        ACCOUNT.strip("/") + "/",
        f"https://portal.azure.com/#@contoso.com/resource{ACCOUNT}",
    ],
)
def test_a_scope_may_be_spelled_any_way(made: Any, scope: str) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    shown = made("rbac", "assign", READER, "--to", "me", "--on", scope, "-o", "json")
    assert (shown.code, states(shown)) == (0, ["kept"])


@pytest.mark.parametrize("verb", [("assign", "--to"), ("remove", "--from")])
@pytest.mark.parametrize(
    "scope",
    [
        f"{SUBSCRIPTION}/resourceGroups/rg-none",
        f"{SUBSCRIPTION}/resourceGroups/rg-none/providers/Microsoft.Storage/storageAccounts/stnone",
        f"{GROUP}/providers/Microsoft.Storage/storageAccounts/stnone",
    ],
)
def test_a_scope_that_does_not_exist_is_not_found(
    made: Any, verb: tuple[str, str], scope: str
) -> None:
    command, to = verb
    shown = made("rbac", command, READER, to, "me", "--on", scope, "--yes")
    assert (shown.code, shown.stdout) == (3, "")


def test_an_inherited_role_is_success_and_said(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", GROUP)
    shown = made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    assert shown.code == 0
    assert f"Inherited from {GROUP}." in shown.stdout


def test_making_an_identity_is_asked_for_and_a_role_alone_is_not(made: Any, machine: Any) -> None:
    words = ("rbac", "assign", READER, "--to", machine(), "--on", ACCOUNT, "--enable-identity")
    assert made(*words).code == 2
    assert READER not in roles(made)
    shown = made(*words, "--yes", "-o", "json")
    assert (shown.code, states(shown)) == (0, ["done", "done"])
    assert READER in roles(made)


def test_waiting_for_somebody_else_says_that_only_the_assignment_is_seen(
    made: Any, machine: Any
) -> None:
    who = machine({"type": "SystemAssigned"})
    made("rbac", "assign", READER, "--to", who, "--on", ACCOUNT)
    shown = made("rbac", "wait", READER, "--to", who, "--on", ACCOUNT, "-o", "json")
    assert (shown.code, shown.json["works"]) == (0, None)
    assert f"only {who} itself can try" in shown.stderr


def test_a_network_rule_is_told_from_a_missing_role(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    words = ("--network", "private", "--no-grant", "--update", "--yes")
    made("storage", "create", "--name", "sttrain", *words)
    shown = made("rbac", "wait", READER, "--to", "me", "--on", ACCOUNT)
    assert (shown.code, shown.stdout) == (1, "")
    assert "(AuthorizationFailure)" in shown.stderr
    assert "network rules keep this machine out" in shown.stderr


def test_a_role_that_does_not_work_in_time_ends_with_1_and_the_code(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    words = ("--to", "me", "--on", ACCOUNT, "--timeout", "5s", "-o", "json")
    shown = made("rbac", "wait", READER, *words)
    assert (shown.code, shown.json["works"]) == (1, False)
    assert "(AuthorizationPermissionMismatch)" in shown.stderr


def test_a_dry_run_assigns_nothing(made: Any) -> None:
    shown = made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT, "--dry-run", "-o", "json")
    assert (shown.code, states(shown)) == (0, ["planned"])
    assert READER not in roles(made)


def test_a_role_that_opens_no_blob_is_told(made: Any) -> None:
    shown = made("rbac", "assign", "Reader", "--to", "me", "--on", ACCOUNT)
    assert shown.code == 0
    assert "WARNING: Reader opens no blob" in shown.stderr


def test_a_role_is_taken_away_only_with_yes(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    words = ("rbac", "remove", READER, "--from", "me", "--on", ACCOUNT)
    assert made(*words).code == 2
    assert READER in roles(made)
    assert made(*words, "--yes").code == 0
    assert READER not in roles(made)


def test_a_role_that_is_not_assigned_is_taken_away_already(made: Any) -> None:
    shown = made("rbac", "remove", READER, "--from", "me", "--on", ACCOUNT, "-o", "json")
    assert (shown.code, states(shown)) == (0, ["kept"])


def test_an_inherited_role_is_not_taken_away_below(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", GROUP)
    shown = made("rbac", "remove", READER, "--from", "me", "--on", ACCOUNT, "--yes")
    assert shown.code == 1
    assert GROUP in shown.stderr


def test_the_list_leaves_out_what_is_not_asked_for(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", GROUP)
    made("rbac", "assign", CONTRIBUTOR, "--to", "me", "--on", ACCOUNT)
    own = roles(made, "--on", ACCOUNT, "--no-inherited", "--to", "me")
    assert own == [CONTRIBUTOR]
    assert sorted(roles(made, "--on", GROUP, "--below", "--to", "me")).count(CONTRIBUTOR) == 1
    assert {READER, CONTRIBUTOR} <= set(roles(made, "--on", ACCOUNT, "--to", "me"))


def test_waiting_tries_a_blob_role_of_our_own_and_says_how_long_it_took(made: Any) -> None:
    made("rbac", "assign", READER, "--to", "me", "--on", ACCOUNT)
    shown = made("rbac", "wait", READER, "--to", "me", "--on", ACCOUNT, "-o", "json")
    assert shown.code == 0
    assert shown.json["works"] is True
    assert shown.json["elapsedSeconds"] >= 0


def test_waiting_for_another_role_says_that_only_the_assignment_is_seen(made: Any) -> None:
    made("rbac", "assign", "Reader", "--to", "me", "--on", ACCOUNT)
    shown = made("rbac", "wait", "Reader", "--to", "me", "--on", ACCOUNT, "-o", "json")
    assert (shown.code, shown.json["works"]) == (0, None)
    assert "WARNING: It is assigned." in shown.stderr


def test_waiting_for_a_role_that_nobody_gave_ends_with_3(made: Any) -> None:
    shown = made("rbac", "wait", CONTRIBUTOR, "--to", "me", "--on", ACCOUNT)
    assert (shown.code, shown.stdout) == (3, "")
    assert "hint: " in shown.stderr
    assert "ai4infra --sandbox rbac assign" in shown.stderr


@pytest.mark.parametrize(
    ("role", "who", "scope", "said"),
    [
        ("Storage Blob Data Raeder", "me", ACCOUNT, READER),
        ("Storage Blob", "me", ACCOUNT, "may be any of"),
        (READER, "alice", ACCOUNT, "does not say who"),
        (READER, "alice@contoso.com", ACCOUNT, "az ad user show"),
        (READER, "id:x", ACCOUNT, "not an object id"),
        (READER, "id:5f3c2a9e-74bd-4f0f-a6b3-8d1e0c9b7a61:Robot", ACCOUNT, "type of principal"),
        (READER, GROUP, ACCOUNT, "has no identity"),
        (READER, ACCOUNT, ACCOUNT, "has no identity"),
        (READER, "me", "sttrain", "is not a scope"),
        (READER, "me", f"{SUBSCRIPTION}/resourceGroups", "is not a scope"),
    ],
)
def test_what_cannot_be_assigned_ends_with_2_and_the_rule(
    made: Any, role: str, who: str, scope: str, said: str
) -> None:
    shown = made("rbac", "assign", role, "--to", who, "--on", scope)
    assert (shown.code, shown.stdout) == (2, "")
    assert said in shown.stderr
    assert READER not in roles(made)


@pytest.mark.parametrize(
    ("who", "scope"),
    [("vm:rg-none/node", ACCOUNT), ("me", f"{ACCOUNT}x"), ("vmss:rg-none/nodes", ACCOUNT)],
)
def test_who_or_what_does_not_exist_ends_with_3(made: Any, who: str, scope: str) -> None:
    shown = made("rbac", "assign", READER, "--to", who, "--on", scope)
    assert (shown.code, shown.stdout) == (3, "")


@pytest.mark.parametrize("timeout", ["soon", "40m", "-1", "1d"])
def test_a_wait_that_is_no_time_or_too_long_ends_with_2(run: Any, timeout: str) -> None:
    words = ("rbac", "wait", READER, "--to", "me", "--on", ACCOUNT)
    shown = run(*words, f"--timeout={timeout}")
    assert (shown.code, shown.stdout) == (2, "")
    assert "30m is the longest" in shown.stderr


def test_an_empty_list_says_where_else_to_look(made: Any) -> None:
    who = "id:5f3c2a9e-74bd-4f0f-a6b3-8d1e0c9b7a61:User"
    assert "--below" in made("rbac", "list", "--to", who).stdout
    assert "--below" not in made("rbac", "list", "--to", who, "--below").stdout
