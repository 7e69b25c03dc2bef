"""Roles and their assignments: unique, inherited, refused for whoever the directory knows not."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from arm_client import COLLEAGUE, CONTRIBUTOR, MANAGED, READER, TEAM, USER, Arm, code, grant
from azure.core.exceptions import HttpResponseError

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from azure.mgmt.authorization import AuthorizationManagementClient

NOBODY = "0b7ec700-0000-4000-8000-0000000000ff"


def listed(arm: Arm, scope: str, expression: str = "") -> set[tuple[str, str]]:
    """Principal and role of each assignment that a list has."""
    path = f"{scope}/providers/Microsoft.Authorization/roleAssignments"
    params = {"$filter": expression} if expression else {}
    rows = [row["properties"] for row in arm("GET", path, params=params).json()["value"]]
    return {(row["principalId"], row["roleDefinitionId"].rpartition("/")[2]) for row in rows}


def test_a_role_is_found_by_name_and_shown_at_the_subscription(
    roles: AuthorizationManagementClient, group: str, sandbox: Sandbox
) -> None:
    (found,) = roles.role_definitions.list(
        group, filter="roleName eq 'Storage Blob Data Contributor'"
    )

    above = f"/subscriptions/{sandbox.subscription_id}"
    assert found.id == (f"{above}/providers/Microsoft.Authorization/roleDefinitions/{CONTRIBUTOR}")
    assert (found.role_type, found.assignable_scopes) == ("BuiltInRole", ["/"])


def test_role_definitions_are_listed_filtered_and_got(arm: Arm) -> None:
    path = "@/providers/Microsoft.Authorization/roleDefinitions"

    def names(expression: str) -> list[str]:
        rows = arm("GET", path, params={"$filter": expression}).json()["value"]
        return [row["properties"]["roleName"] for row in rows]

    assert len(arm("GET", path).json()["value"]) == len(names("type eq 'BuiltInRole'")) > 10
    assert names("roleName eq 'reader'") == ["Reader"]
    assert names("roleName eq 'None'") == []
    assert code(arm("GET", path, params={"$filter": "color eq 'red'"})) == "UnsupportedQuery"
    assert arm("GET", f"{path}/{READER}").json()["name"] == READER
    assert code(arm("GET", f"{path}/{NOBODY}")) == "RoleDefinitionDoesNotExist"


def test_a_new_assignment_is_201_and_does_not_say_who_made_it(arm: Arm, account: str) -> None:
    reply = grant(arm, account, principalType="User")
    told = reply.json()["properties"]

    assert reply.status_code == 201
    assert (told["principalType"], told["createdBy"], told["updatedBy"]) == ("User", None, USER)
    assert re.fullmatch(r".*\.\d{7}Z", told["createdOn"])
    assert arm("GET", reply.json()["id"]).json()["properties"]["createdBy"] == USER


def test_the_same_assignment_by_another_name_is_409_without_its_id(arm: Arm, account: str) -> None:
    grant(arm, account)

    again = grant(arm, account.upper().replace("/SUBSCRIPTIONS", "/subscriptions"))

    assert (again.status_code, code(again)) == (409, "RoleAssignmentExists")
    assert again.json()["error"]["message"] == "The role assignment already exists."


def test_the_same_name_again_is_fine_for_the_same_and_refused_for_another(
    arm: Arm, account: str
) -> None:
    name = str(uuid.uuid4())
    grant(arm, account, name=name)

    assert grant(arm, account, name=name, description="why").status_code == 200
    other = grant(arm, account, principal=TEAM, name=name)
    assert (other.status_code, code(other)) == (400, "RoleAssignmentUpdateNotPermitted")


def test_the_same_role_at_a_scope_below_is_another_assignment(
    arm: Arm, account: str, group: str
) -> None:
    container = f"{account}/blobServices/default/containers/data"

    made = [grant(arm, scope).status_code for scope in (group, account, container)]
    assert made == [201, 201, 201]


@pytest.mark.parametrize(
    ("change", "status", "refused"),
    [
        ({"principal": NOBODY}, 400, "PrincipalNotFound"),
        ({"principal": "me"}, 400, "InvalidPrincipalId"),
        ({"role": NOBODY}, 404, "RoleDefinitionDoesNotExist"),
        ({"name": "mine"}, 400, "InvalidRoleAssignmentId"),
        ({"principalType": "Group"}, 400, "UnmatchedPrincipalType"),
    ],
)
def test_what_no_assignment_can_be_is_refused(
    arm: Arm, account: str, change: dict[str, Any], status: int, refused: str
) -> None:
    reply = grant(arm, account, **change)

    assert (reply.status_code, code(reply)) == (status, refused)


def test_a_scope_has_to_exist(arm: Arm, group: str) -> None:
    none = f"{group}/providers/Microsoft.Storage/storageAccounts/none"

    assert code(grant(arm, none)) == "ResourceNotFound"
    assert code(grant(arm, "@/resourceGroups/none")) == "ResourceGroupNotFound"


def identity(arm: Arm, sandbox: Sandbox, group: str) -> dict[str, str]:
    arm("POST", "@/providers/Microsoft.ManagedIdentity/register")
    sandbox.advance(60)
    path = f"{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/id-train"
    told: dict[str, str] = arm("PUT", path, json={"location": "eastus2"}).json()["properties"]
    return told


def test_a_fresh_principal_is_unknown_for_a_while_and_named_without_dashes(
    arm: Arm, account: str, group: str, sandbox: Sandbox
) -> None:
    principal = identity(arm, sandbox, group)["principalId"]
    name = str(uuid.uuid4())

    early = grant(arm, account, principal, name=name, principalType="ServicePrincipal")
    sandbox.advance(75)
    later = grant(arm, account, principal, name=name, principalType="ServicePrincipal")

    assert (early.status_code, code(early)) == (400, "PrincipalNotFound")
    assert early.json()["error"]["message"] == (
        f"Principal {principal.replace('-', '')} does not exist in the directory"
        f" {sandbox.world.catalogue.tenant_id}."
    )
    assert later.status_code == 201


def test_a_client_id_is_no_principal(arm: Arm, account: str, group: str, sandbox: Sandbox) -> None:
    client = identity(arm, sandbox, group)["clientId"]
    sandbox.advance(300)

    assert code(grant(arm, account, client)) == "PrincipalNotFound"


def test_a_list_has_what_is_at_above_and_below_unless_told_otherwise(
    arm: Arm, account: str, group: str
) -> None:
    container = f"{account}/blobServices/default/containers/data"
    grant(arm, group, COLLEAGUE)
    grant(arm, container, TEAM)

    mine = f"principalId eq '{COLLEAGUE}'"
    assert listed(arm, account) > {(COLLEAGUE, READER), (TEAM, READER)}
    assert (TEAM, READER) not in listed(arm, account, "atScope()")
    assert listed(arm, container, f"atScope() and {mine}") == {(COLLEAGUE, READER)}
    assert listed(arm, container, mine) == {(COLLEAGUE, READER)}


def test_what_a_group_has_counts_for_its_members_when_asked_so(arm: Arm, account: str) -> None:
    grant(arm, account, TEAM)

    assert (TEAM, READER) in listed(arm, account, f"assignedTo('{USER}')")
    assert (TEAM, READER) not in listed(arm, account, f"principalId eq '{USER}'")
    assert (
        code(
            arm(
                "GET",
                f"{account}/providers/Microsoft.Authorization/roleAssignments",
                params={"$filter": "scope eq 'x'"},
            )
        )
        == "UnsupportedQuery"
    )


def test_whoever_signs_in_owns_the_subscription_from_the_start(arm: Arm) -> None:
    owner = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"

    assert {(USER, owner), (MANAGED, owner)} <= listed(arm, "@")


def test_a_deletion_answers_with_what_was_there_and_then_204(arm: Arm, account: str) -> None:
    made = grant(arm, account).json()

    gone = arm("DELETE", made["id"])

    assert (gone.status_code, gone.json()["name"]) == (200, made["name"])
    assert arm("DELETE", made["id"]).status_code == 204
    assert code(arm("GET", made["id"])) == "RoleAssignmentNotFound"


def test_assignments_go_with_their_scope(arm: Arm, account: str) -> None:
    grant(arm, account)

    arm("DELETE", account)

    assert (COLLEAGUE, READER) not in listed(arm, "@")


def test_the_sdk_creates_and_reads_an_assignment(
    roles: AuthorizationManagementClient, account: str
) -> None:
    name = str(uuid.uuid4())
    body: Any = {
        "properties": {
            "roleDefinitionId": f"/providers/Microsoft.Authorization/roleDefinitions/{READER}",
            "principalId": COLLEAGUE,
            "principalType": "User",
        }
    }

    made = roles.role_assignments.create(account, name, body)

    assert made.scope == account
    with pytest.raises(HttpResponseError, match="RoleAssignmentExists"):
        roles.role_assignments.create(account, str(uuid.uuid4()), body)


def test_a_fault_can_make_anybody_unknown(arm: Arm, account: str, sandbox: Sandbox) -> None:
    sandbox.fail("principal-not-found", "roleAssignments", method="PUT", times=2)

    answers = [grant(arm, account).status_code for _ in range(3)]

    assert answers == [400, 400, 201]
