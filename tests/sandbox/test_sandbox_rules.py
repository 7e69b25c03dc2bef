"""What stands in the way of a call: locks and policies. And tags."""

from __future__ import annotations

from typing import Any

import pytest
from arm_client import Arm, Reply, account_body, code

from ai4infra.sandbox import Policy, Sandbox

ACCOUNT_TYPE = "Microsoft.Storage/storageAccounts"


def lock(arm: Arm, scope: str, level: str = "CanNotDelete", name: str = "keep") -> Reply:
    path = f"{scope}/providers/Microsoft.Authorization/locks/{name}"
    return arm("PUT", path, json={"properties": {"level": level, "notes": "why"}})


def test_a_lock_is_created_read_listed_and_removed(arm: Arm, account: str) -> None:
    made = lock(arm, account)
    path = made.json()["id"]

    assert (made.status_code, lock(arm, account).status_code) == (201, 200)
    assert arm("GET", path).json()["properties"] == {"level": "CanNotDelete", "notes": "why"}
    assert [arm("DELETE", path).status_code for _ in range(2)] == [200, 204]
    assert code(arm("GET", path)) == "LockNotFound"
    assert code(lock(arm, account, "Sometimes")) == "InvalidRequestContent"


def test_locks_are_listed_at_above_and_below_unless_told_otherwise(
    arm: Arm, account: str, group: str
) -> None:
    lock(arm, group, name="above")
    lock(arm, account, name="below")

    def names(scope: str, **params: str) -> set[str]:
        path = f"{scope}/providers/Microsoft.Authorization/locks"
        return {row["name"] for row in arm("GET", path, params=params).json()["value"]}

    assert names(account) == names(group) == names("@") == {"above", "below"}
    assert names(group, **{"$filter": "atScope()"}) == {"above"}


def test_a_lock_against_deletion_lets_everything_else_through(arm: Arm, account: str) -> None:
    lock(arm, account)
    container = f"{account}/blobServices/default/containers/data"

    assert arm("PUT", container, json={}).status_code == 201
    assert arm("PATCH", account, json={"tags": {"a": "b"}}).status_code == 200
    for path in (account, container):
        refused = arm("DELETE", path)
        assert (refused.status_code, code(refused)) == (409, "ScopeLocked")


def test_a_group_with_something_locked_in_it_cannot_go(arm: Arm, account: str, group: str) -> None:
    lock(arm, account)

    error = arm("DELETE", group).json()["error"]

    assert error["code"] == "ScopeLocked"
    assert f"following scope(s) are locked: '{account}'" in error["message"]
    assert arm("GET", group).json()["properties"]["provisioningState"] == "Succeeded"


def test_a_read_only_lock_refuses_writes_and_keys_but_can_be_removed(
    arm: Arm, account: str, group: str
) -> None:
    path = lock(arm, group, "ReadOnly").json()["id"]

    assert code(arm("PATCH", account, json={})) == "ScopeLocked"
    assert code(arm("POST", f"{account}/listKeys")) == "ScopeLocked"
    assert arm("GET", account).status_code == 200
    assert arm("DELETE", path).status_code == 200
    assert arm("PATCH", account, json={}).status_code == 200


TLS = Policy(
    name="tls",
    display_name="Storage accounts should use TLS 1.2",
    resource_type=ACCOUNT_TYPE,
    field="properties.minimumTlsVersion",
    value="TLS1_2",
)


def create(arm: Arm, group: str, **properties: Any) -> Reply:
    path = f"{group}/providers/{ACCOUNT_TYPE}/stnew"
    return arm("PUT", path, json=account_body(**properties))


def test_a_policy_denies_what_is_not_as_it_wants_and_says_what_that_is(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    sandbox.world.state.policies.append(TLS)

    refused = create(arm, group, minimumTlsVersion="TLS1_0")

    error = refused.json()["error"]
    info = error["additionalInfo"][0]["info"]
    assert (refused.status_code, error["code"]) == (403, "RequestDisallowedByPolicy")
    assert error["target"] == "stnew"
    assert info["policyDefinitionDisplayName"] == "Storage accounts should use TLS 1.2"
    assert info["evaluationDetails"]["evaluatedExpressions"] == [
        {
            "result": "True",
            "expressionKind": "Field",
            "expression": f"{ACCOUNT_TYPE}/minimumTlsVersion",
            "path": "properties.minimumTlsVersion",
            "targetValue": "TLS1_2",
            "operator": "NotEquals",
            "expressionValue": "TLS1_0",
        }
    ]
    assert code(create(arm, group)) == "RequestDisallowedByPolicy"
    assert create(arm, group, minimumTlsVersion="TLS1_2").status_code == 202


@pytest.mark.parametrize(
    ("field", "operator", "value"),
    [
        ("location", "notIn", ["westeurope"]),
        ("location", "in", ["eastus2"]),
        ("kind", "equals", "storagev2"),
        ("tags.team", "exists", False),
        ("properties.networkAcls.defaultAction", "notEquals", "Deny"),
    ],
)
def test_a_policy_looks_at_any_field(
    arm: Arm, group: str, sandbox: Sandbox, field: str, operator: Any, value: Any
) -> None:
    rule = Policy(name="p", resource_type=ACCOUNT_TYPE, field=field, operator=operator, value=value)
    sandbox.world.state.policies.append(rule)

    assert code(create(arm, group)) == "RequestDisallowedByPolicy"


def test_a_policy_on_groups_or_on_everything_counts_for_groups(arm: Arm, sandbox: Sandbox) -> None:
    kind = "Microsoft.Resources/subscriptions/resourceGroups"
    for resource_type in (kind, "*"):
        sandbox.world.state.policies[:] = [
            Policy(name="p", resource_type=resource_type, field="tags.team", value="ml")
        ]
        body: Any = {"location": "eastus2"}
        assert code(arm("PUT", "@/resourcegroups/rg2", json=body)) == "RequestDisallowedByPolicy"
        body["tags"] = {"team": "ML"}
        assert arm("PUT", "@/resourcegroups/rg2", json=body).status_code in (200, 201)


def test_a_patch_is_judged_by_what_comes_out(arm: Arm, group: str, sandbox: Sandbox) -> None:
    create(arm, group, minimumTlsVersion="TLS1_2")
    sandbox.advance(60)
    sandbox.world.state.policies.append(TLS)
    path = f"{group}/providers/{ACCOUNT_TYPE}/stnew"

    assert arm("PATCH", path, json={"tags": {"a": "b"}}).status_code == 200
    weaker = {"properties": {"minimumTlsVersion": "TLS1_1"}}
    assert code(arm("PATCH", path, json=weaker)) == "RequestDisallowedByPolicy"


def test_a_policy_can_change_what_was_sent_without_saying_so(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    sandbox.world.state.policies.append(
        Policy(
            name="open",
            effect="modify",
            resource_type=ACCOUNT_TYPE,
            field="properties.publicNetworkAccess",
            value="Enabled",
            put="Enabled",
        )
    )

    assert create(arm, group, publicNetworkAccess="Disabled").status_code == 202

    told = arm("GET", f"{group}/providers/{ACCOUNT_TYPE}/stnew").json()["properties"]
    assert told["publicNetworkAccess"] == "Enabled"


def test_policies_are_kept_with_the_world(tmp_path: Any) -> None:
    from ai4infra.sandbox import open_sandbox

    with open_sandbox(tmp_path) as first:
        first.world.state.policies.append(TLS)
    with open_sandbox(tmp_path) as again:
        assert again.world.state.policies == [TLS]


def tags(arm: Arm, scope: str, operation: str, **values: str) -> Reply:
    path = f"{scope}/providers/Microsoft.Resources/tags/default"
    body = {"operation": operation, "properties": {"tags": values}}
    return arm("PATCH", path, json=body)


def test_tags_are_merged_ignoring_case_and_leave_the_others(arm: Arm, account: str) -> None:
    arm("PATCH", account, json={"tags": {"Team": "ml", "cost": "1"}})

    merged = tags(arm, account, "Merge", team="data", new="x")

    expected = {"Team": "data", "cost": "1", "new": "x"}
    assert merged.json()["properties"]["tags"] == expected
    assert arm("GET", account).json()["tags"] == expected


def test_tags_are_replaced_deleted_and_limited(arm: Arm, group: str) -> None:
    path = f"{group}/providers/Microsoft.Resources/tags/default"
    tags(arm, group, "Replace", a="1", b="2")
    tags(arm, group, "Delete", A="1")

    assert arm("GET", path).json()["properties"]["tags"] == {"b": "2"}
    assert code(tags(arm, group, "Mix", a="1")) == "InvalidRequestContent"
    many = {f"t{number}": "x" for number in range(51)}
    assert code(tags(arm, group, "Merge", **many)) == "InvalidTagNameOrValue"
    arm("PUT", path, json={"properties": {"tags": {"c": "3"}}})
    assert arm("GET", group).json()["tags"] == {"c": "3"}
    assert arm("DELETE", path).status_code == 200
    assert arm("GET", group).json()["tags"] == {}


def test_tags_of_nothing_are_404(arm: Arm, group: str) -> None:
    none = f"{group}/providers/{ACCOUNT_TYPE}/none"

    assert code(tags(arm, none, "Merge", a="1")) == "ResourceNotFound"


def test_resources_are_listed_by_type_name_and_tag(arm: Arm, account: str, group: str) -> None:
    lock(arm, account)
    arm("PATCH", account, json={"tags": {"Team": "ml"}})
    arm("PUT", f"{account}/blobServices/default/containers/data", json={})

    def names(path: str, expression: str = "") -> list[str]:
        rows = arm("GET", path, params={"$filter": expression} if expression else {})
        return [row["name"] for row in rows.json()["value"]]

    assert names("@/resources") == names(f"{group}/resources") == ["stdata"]
    assert names("@/resources", f"resourceType eq '{ACCOUNT_TYPE}' and name eq 'stdata'")
    assert names("@/resources", "tagName eq 'team' and tagValue eq 'ml'") == ["stdata"]
    assert names("@/resources", "resourceType eq 'Microsoft.Compute/virtualMachines'") == []
    refused = arm("GET", "@/resources", params={"$filter": "color eq 'red'"})
    assert code(refused) == "InvalidFilterInQueryString"


def test_a_deletion_can_be_blocked_after_it_began(arm: Arm, group: str, sandbox: Sandbox) -> None:
    where = arm("DELETE", group).headers["location"]
    sandbox.fail("deletion-blocked", "operationresults")

    reply = arm("GET", where.split("azure.com", 1)[1].split("?")[0])

    assert reply.status_code == 409
    assert reply.json()["Error"]["Code"] == "ResourceGroupDeletionBlocked"
