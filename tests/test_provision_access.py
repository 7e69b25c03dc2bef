"""Roles: planned, given late, removed, and waited for."""

from __future__ import annotations

from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed
from support_jwt import Jwt

from ai4infra import provision
from ai4infra.errors import ForbiddenError, NotFoundError, SignInError, UsageError
from ai4infra.model import GrantWanted
from ai4infra.plan import Plan

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/datasets"
CONTAINER = f"{ACCOUNT}/blobServices/default/containers/runs"
READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
VM_READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
OID = "11111111-2222-4333-8444-555555555555"
NODE = "9b0d7c1f-20c4-4a5e-9f27-3c6e5d4b8a02"
VM = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/node-0"
BLOB_READER = "Storage Blob Data Reader"
CUSTOM = "33333333-2222-4333-8444-555555555555"


def session(script: Script, **claims: Any) -> Any:
    return script.session(credential=Jwt(**(claims or {"oid": OID, "idtyp": "user"})))


def held(role: str = READER, by: str = OID, scope: str = ACCOUNT) -> dict[str, Any]:
    told = {"roleDefinitionId": f"/x/{role}", "principalId": by, "scope": scope}
    id_ = f"{scope}/providers/Microsoft.Authorization/roleAssignments/0f"
    return {"id": id_, "properties": told}


def azure(*assignments: dict[str, Any], tags: dict[str, str] | None = None) -> Script:
    script = Script().on("GET .*roleAssignments", listed(*assignments))
    script.on("GET .*/locks", listed())
    script.on("GET .*/blobServices/default/containers", listed({"id": "/c", "name": "data"}))
    custom = {"name": CUSTOM, "properties": {"roleName": "Trainer", "type": "CustomRole"}}
    script.on("roleDefinitions.*Trainer", listed(custom))
    script.on("roleDefinitions", listed())
    script.on("userAssignedIdentities", listed())
    endpoints = {"blob": "https://datasets.blob.core.windows.net/"}
    row = {"id": ACCOUNT, "name": "datasets", "tags": tags or {}}
    script.on(
        "(?i)GET .*storageAccounts/datasets[?]",
        answer(200, {**row, "properties": {"primaryEndpoints": endpoints}}),
    )
    return script


def assigned(script: Script, role: str = BLOB_READER, who: str = "me", on: str = ACCOUNT) -> Plan:
    return provision.plan_assign(session(script), role, [who], on, SUBSCRIPTION)


# --- assigning


def test_a_grant_has_the_same_name_every_time_and_its_type() -> None:
    (first,) = assigned(azure()).changes
    (again,) = assigned(azure(), role=READER.upper(), on=f"{ACCOUNT.upper()}/").changes
    assert str(first.resource_id).rpartition("/")[2] == str(again.resource_id).rpartition("/")[2]
    assert first.wanted.body["properties"]["principalType"] == "User"  # type: ignore[union-attr]


@pytest.mark.parametrize("scope", [ACCOUNT, GROUP, f"/subscriptions/{SUBSCRIPTION}"])
def test_what_is_there_or_inherited_is_kept_and_said(scope) -> None:
    (step,) = assigned(azure(held(scope=scope))).steps
    assert step.action == "keep"
    assert ("Inherited from" in str(step.reason)) == (scope != ACCOUNT)


def test_a_role_that_is_not_built_in_is_asked_for_at_the_scope() -> None:
    (step,) = assigned(azure(), role="Trainer").changes
    assert CUSTOM in step.wanted.body["properties"]["roleDefinitionId"]  # type: ignore[union-attr]
    assert step.detail == "Trainer on datasets"


@pytest.mark.parametrize("role", ["Storage Blob Data Reder", "Data Reader", "no such thing"])
def test_a_role_that_does_not_exist_is_a_usage_error_with_the_close_ones(role) -> None:
    with pytest.raises(UsageError) as caught:
        assigned(azure(), role=role)
    assert caught.value.hint


def test_assignments_that_may_not_be_listed_are_sent_and_a_warning_says_so() -> None:
    script = Script().on("GET .*roleAssignments", failed(403, "AuthorizationFailed"))
    script.replies += azure().replies
    plan = assigned(script)
    assert len(plan.changes) == 1
    assert "could not be read" in plan.warnings[0]


def test_a_management_role_is_no_data_role_and_a_warning_says_so() -> None:
    plan = assigned(azure(), role="Contributor")
    assert "opens no blob" in plan.warnings[-1]


def test_a_classification_keeps_out_who_it_does_not_admit() -> None:
    script = azure(tags={"Classification": "restricted"})
    plan = provision.plan_assign(
        session(script), BLOB_READER, [f"id:{OID}:Group"], ACCOUNT, SUBSCRIPTION
    )
    assert plan.refusals
    assert plan.changes == ()


def test_a_classification_that_may_not_be_read_is_unknown_and_said() -> None:
    script = Script().on("storageAccounts/datasets[?]", failed(403, "AuthorizationFailed"))
    script.replies += azure().replies
    assert any("classification" in w for w in assigned(script).warnings)


def test_locks_that_may_not_be_read_are_unknown_and_said() -> None:
    script = Script().on("GET .*Authorization/locks", failed(403, "AuthorizationFailed"))
    script.replies += azure().replies
    assert any("locks" in w for w in assigned(script).warnings)


def test_that_only_the_groups_locks_may_be_read_is_said() -> None:
    refused = failed(403, "AuthorizationFailed")
    script = Script().on(f"GET .*{SUBSCRIPTION}/providers/Microsoft.Authorization/locks", refused)
    script.replies += azure().replies
    assert any("locks of the subscription itself" in w for w in assigned(script).warnings)


def test_a_group_that_does_not_exist_is_not_found() -> None:
    for plan in (provision.plan_assign, provision.plan_unassign):
        script = Script().on("GET .*resourceGroups/rg[?]", failed(404, "ResourceGroupNotFound"))
        script.replies += azure().replies
        with pytest.raises(NotFoundError) as caught:
            plan(session(script), BLOB_READER, ["me"], GROUP, SUBSCRIPTION)
        assert "resource group rg" in caught.value.message
        assert {request.method for request in script.requests} == {"GET"}


def test_a_group_that_may_not_be_read_is_left_to_the_service() -> None:
    script = Script().on("GET .*resourceGroups/rg[?]", failed(403, "AuthorizationFailed"))
    script.replies += azure().replies
    assert assigned(script, on=GROUP).changes


def test_an_account_that_does_not_exist_is_not_found() -> None:
    script = Script().on("storageAccounts/datasets[?]", failed(404, "ResourceNotFound"))
    script.replies += azure().replies
    with pytest.raises(NotFoundError):
        assigned(script)


@pytest.mark.parametrize("who", ["ada@example.org", "", "vm:node-0", "id:7"])
def test_who_cannot_be_read_is_a_usage_error_and_nobody_is_asked(who) -> None:
    script = Script()
    with pytest.raises(UsageError):
        assigned(script, who=who)
    assert script.requests == []


@pytest.mark.parametrize("on", ["datasets", "", "/subscriptions/7"])
def test_a_scope_that_cannot_be_read_is_a_usage_error_and_nobody_is_asked(on) -> None:
    script = Script()
    with pytest.raises(UsageError):
        assigned(script, on=on)
    assert script.requests == []


# --- a machine that gets its identity first


def machine(script: Script, *identities: Any) -> Script:
    rows = [answer(200, {"id": VM, "identity": each}) for each in identities]
    script.replies.insert(0, ("GET .*virtualMachines/node-0", rows))
    return script


OWN = {"type": "SystemAssigned", "principalId": NODE}


def late_plan(script: Script) -> Plan:
    return provision.plan_assign(
        session(script), BLOB_READER, ["vm:rg/node-0"], ACCOUNT, SUBSCRIPTION, enable_identity=True
    )


def test_a_machine_without_identity_gets_one_before_its_role() -> None:
    plan = late_plan(machine(azure(), None))
    assert [step.kind for step in plan.changes] == ["managed identity", "role assignment"]
    assert "identity is made" in plan.warnings[0]


def test_a_scale_set_whose_vms_have_to_take_the_identity_over_says_how() -> None:
    script = azure()
    body = {"id": "/vmss", "properties": {"orchestrationMode": "Uniform"}}
    script.replies.insert(0, ("GET .*virtualMachineScaleSets/nodes", [answer(200, body)]))
    plan = provision.plan_assign(
        session(script), BLOB_READER, ["vmss:rg/nodes"], ACCOUNT, SUBSCRIPTION, enable_identity=True
    )
    assert "az vmss update-instances -g rg -n nodes --instance-ids '*'" in plan.warnings[1]


def test_the_late_grant_goes_to_the_identity_that_was_made() -> None:
    script = machine(azure(), None, OWN)
    script.on("PATCH .*virtualMachines/node-0", answer(200, {"id": VM, "identity": OWN}))
    unknown = failed(400, "PrincipalNotFound")
    script.replies.insert(0, ("PUT .*roleAssignments", [unknown, unknown, answer(201, {})]))
    receipt = provision.apply(session(script), late_plan(script))
    assert receipt.complete
    sent = [b for b in script.bodies if b]
    assert sent[0] == {"identity": {"type": "SystemAssigned"}}
    assert {b["properties"]["principalId"] for b in sent[1:]} == {NODE}
    puts = [u for u, r in zip(script.urls, script.requests, strict=True) if r.method == "PUT"]
    assert len(set(puts)) == 1


def test_running_again_finds_the_identity_and_asks_for_the_same_assignment() -> None:
    script = machine(azure(), None, OWN)
    script.on("PATCH", answer(200, {"id": VM, "identity": OWN}))
    script.replies.insert(0, ("PUT .*roleAssignments", [answer(201, {})]))
    provision.apply(session(script), late_plan(script))
    (put,) = [u for u, r in zip(script.urls, script.requests, strict=True) if r.method == "PUT"]
    (step,) = late_plan(machine(azure(), OWN)).changes
    assert str(step.resource_id) in put


def test_an_identity_that_is_still_not_there_fails_and_says_to_run_again() -> None:
    script = machine(azure(), None)
    script.on("PATCH", answer(200, {}))
    receipt = provision.apply(session(script), late_plan(script))
    assert [r.state for r in receipt.results] == ["done", "failed"]
    assert "again" in str(receipt.results[1].hint)


def test_a_refused_plan_gets_no_late_grants() -> None:
    script = machine(azure(tags={"classification": "restricted"}), None)
    plan = provision.plan_assign(
        session(script),
        BLOB_READER,
        [f"id:{OID}:Group", "vm:rg/node-0"],
        ACCOUNT,
        SUBSCRIPTION,
        enable_identity=True,
    )
    assert plan.changes == ()


# --- removing


def removed(script: Script, on: str = ACCOUNT) -> Plan:
    return provision.plan_unassign(session(script), BLOB_READER, ["me"], on, SUBSCRIPTION)


def test_an_assignment_is_removed_by_the_id_that_it_has() -> None:
    script = azure(held())
    script.on("DELETE", answer(200, held()))
    plan = removed(script)
    assert [step.action for step in plan.steps] == ["delete"]
    assert provision.apply(session(script), plan).complete
    assert "roleAssignments/0f" in script.urls[-1]


def test_what_is_inherited_is_not_removed_from_below() -> None:
    plan = removed(azure(held(scope=GROUP)))
    assert GROUP in str(plan.refusals[0].reason)


def test_what_is_not_assigned_needs_no_removal() -> None:
    assert removed(azure()).changes == ()


# --- waiting


def blob(status: int, code: str = "") -> Any:
    return answer(status, "<x/>", x_ms_error_code=code, content_type="application/xml")


OK = blob(200)
NOT_YET = blob(403, "AuthorizationPermissionMismatch")


def waited(script: Script, *replies: Any, on: str = ACCOUNT, **options: Any) -> Any:
    script.on("GET https://datasets.blob", *replies)
    return provision.wait_role(session(script), BLOB_READER, "me", on, SUBSCRIPTION, **options)


def test_a_role_of_our_own_is_tried_until_it_works() -> None:
    said: list[str] = []
    script = azure(held())
    found = waited(script, NOT_YET, NOT_YET, NOT_YET, OK, on_progress=said.append)
    assert found.works is True
    assert found.elapsed_seconds == pytest.approx(sum(script.slept))
    assert len(said) == 3
    assert "not yet after 0 s" in said[0]


def test_a_role_that_works_takes_no_time() -> None:
    found = waited(azure(held()), OK)
    assert (found.works, found.elapsed_seconds) == (True, 0.0)


def test_a_role_on_a_container_is_tried_there() -> None:
    script = azure(held(scope=GROUP))
    waited(script, OK, on=CONTAINER)
    assert "/runs?restype=container&comp=list" in script.urls[-1]


def test_a_role_on_the_account_is_tried_on_one_of_its_containers() -> None:
    script = azure(held())
    waited(script, OK)
    assert "/data?restype=container&comp=list" in script.urls[-1]


def test_a_role_on_an_account_without_containers_cannot_be_tried() -> None:
    script = Script().on("GET .*/blobServices/default/containers", listed())
    script.replies += azure(held()).replies
    found = waited(script, OK)
    assert found.works is None
    assert "no container to try" in found.message


def test_a_role_that_never_works_ends_at_the_limit_with_the_reason() -> None:
    script = azure(held())
    found = waited(script, NOT_YET)
    assert (found.works, found.code) == (False, "AuthorizationPermissionMismatch")
    assert found.elapsed_seconds == pytest.approx(1800)
    assert sum(script.slept) == pytest.approx(1800)
    assert "role is missing" in found.message
    assert found.hint


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("AuthorizationFailure", ForbiddenError, "network rules"),
        ("AuthenticationFailed", SignInError, "clock"),
        ("KeyBasedAuthenticationNotPermitted", ForbiddenError, "shared keys"),
    ],
)
def test_a_refusal_that_waiting_does_not_mend_ends_it_at_once(code, kind, said) -> None:
    script = azure(held())
    with pytest.raises(kind) as caught:
        waited(script, blob(403, code))
    assert said in caught.value.message
    assert script.slept == []


def test_a_role_that_is_not_assigned_is_not_waited_for() -> None:
    with pytest.raises(NotFoundError) as caught:
        waited(azure(), OK)
    assert "ai4infra rbac assign 'Storage Blob Data Reader' --to me" in str(caught.value.hint)


def test_of_somebody_else_only_the_assignment_can_be_seen() -> None:
    script = machine(azure(held(by=NODE)), OWN)
    found = provision.wait_role(session(script), BLOB_READER, "vm:rg/node-0", ACCOUNT, SUBSCRIPTION)
    assert found.works is None
    assert "only vm:rg/node-0 itself" in found.message


@pytest.mark.parametrize(("role", "on"), [("Reader", ACCOUNT), (BLOB_READER, GROUP)])
def test_only_blob_roles_on_an_account_can_be_tried(role, on) -> None:
    script = azure(held(role=READER if role == BLOB_READER else VM_READER, scope=GROUP))
    found = provision.wait_role(session(script), role, "me", on, SUBSCRIPTION)
    assert found.works is None
    assert "blob" not in " ".join(u for u in script.urls if "core.windows" in u)


def test_the_blob_service_gets_no_token_of_arm() -> None:
    script = azure(held())
    credential = Jwt(oid=OID, idtyp="user")
    script.on("GET https://datasets.blob", OK)
    provision.wait_role(
        script.session(credential=credential), BLOB_READER, "me", ACCOUNT, SUBSCRIPTION
    )
    assert credential.asked == [
        ("https://management.azure.com/.default",),
        ("https://storage.azure.com/.default",),
    ]


# --- who is meant


def test_one_who_is_named_twice_is_asked_for_once() -> None:
    script = machine(azure(), OWN)
    found = provision.find_principals(
        session(script), ["vm:rg/node-0", "me", "vm:rg/node-0"], SUBSCRIPTION
    )
    assert list(found) == ["vm:rg/node-0", "me"]
    assert len(script.requests) == 1


def test_a_grant_without_an_identity_has_an_empty_principal() -> None:
    script = machine(azure(), None)
    found = provision.find_principals(
        session(script), ["vm:rg/node-0"], SUBSCRIPTION, enable_identity=True
    )
    role = provision.role_of(session(script), BLOB_READER, ACCOUNT)
    (grant,) = provision.grants_to(found["vm:rg/node-0"], role, container="runs", scope=None)
    assert grant == GrantWanted(
        role_id=READER,
        role=BLOB_READER,
        principal_id="",
        principal_type="ServicePrincipal",
        label="vm:rg/node-0",
        container="runs",
    )
