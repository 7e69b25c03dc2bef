"""How a plan of storage is carried out: stage by stage, patiently, within the limits."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support import Script, answer, broken, failed
from support_storage import ACCOUNT, ACCOUNT_ID, ALICE, GROUP, READER, a_grant, a_wanted

from ai4infra import provision
from ai4infra.arm import grant_write, lock_write
from ai4infra.model import Receipt, Step, StepResult, StorageLook, StorageWanted
from ai4infra.plan import Plan
from ai4infra.storage_plan import ASSIGNMENT, LOCK, rbac_steps, storage_steps

OPERATION = "https://management.azure.com/subscriptions/x/asyncoperations/7?api-version=1&t=1&c=C"
ARM_WRITE = "PUT https://management.azure.com"
TAGS = {"properties": {"provisioningState": "Succeeded"}}


def the_account(**properties: Any) -> dict[str, Any]:
    """The account as the service answers when it does as it is told."""
    told = {
        "provisioningState": "Succeeded",
        "isHnsEnabled": True,
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": False,
        "defaultToOAuthAuthentication": True,
        "allowCrossTenantReplication": False,
        "publicNetworkAccess": "Enabled",
    }
    row = {"id": ACCOUNT_ID, "name": ACCOUNT_ID.rpartition("/")[2], "kind": "StorageV2"}
    return {
        **row,
        "location": "eastus2",
        "sku": {"name": "Standard_LRS"},
        "properties": {**told, **properties},
    }


RETENTION = {"enabled": True, "days": 7}
BLOBS = {
    "id": f"{ACCOUNT_ID}/blobServices/default",
    "properties": {
        "deleteRetentionPolicy": RETENTION,
        "containerDeleteRetentionPolicy": RETENTION,
    },
}


def azure(**replies: Any) -> Script:
    """An Azure that takes every write of a plan, except where a reply says otherwise."""
    script = Script()
    for kind, reply in replies.items():
        script.on(PATTERNS[kind], *(reply if isinstance(reply, list) else [reply]))
    script.on(PATTERNS["containers"], answer(201, {}))
    script.on(PATTERNS["blobs"], answer(200, BLOBS))
    script.on(PATTERNS["grants"], answer(201, {}))
    script.on(PATTERNS["account"], answer(200, the_account()))
    script.on(PATTERNS["group"], answer(201, TAGS))
    return script


PATTERNS = {
    "containers": "PUT .*/blobServices/default/containers/",
    "blobs": "PUT .*/blobServices/default[?]",
    "grants": "PUT .*/roleAssignments/",
    "listed": "GET .*/roleAssignments[?]",
    "account": r"PUT .*/storageAccounts/\w+[?]",
    "polls": "GET .*asyncoperations",
    "group": r"PUT .*/resourceGroups/[\w-]+[?]",
}


def a_plan(wanted: StorageWanted | None = None) -> Plan:
    wanted = wanted or a_wanted(grants=(a_grant(),))
    plan = storage_steps(wanted, StorageLook())
    return Plan(steps=plan.steps, warnings=plan.warnings, verify=wanted)


def many(containers: int = 1, grants: int = 0) -> Plan:
    return a_plan(
        a_wanted(
            containers=tuple(f"runs-{n}" for n in range(containers)),
            grants=tuple(
                a_grant(principal_id=f"5f3c2a9e-74bd-4f0f-a6b3-{n:012x}") for n in range(grants)
            ),
        )
    )


def states(receipt: Receipt) -> dict[str, str]:
    return {result.step.kind: result.state for result in receipt.results}


def result_of(receipt: Receipt, kind: str) -> StepResult:
    return next(result for result in receipt.results if result.step.kind == kind)


def only_grant(**fields: Any) -> Plan:
    return rbac_steps([a_grant(scope=ACCOUNT_ID, **fields)], ())


def written(script: Script) -> list[str]:
    """The last two parts of what was written, in order."""
    paths = [u.partition("?")[0] for u, r in zip(script.urls, script.requests, strict=True)]
    puts = [p for p, r in zip(paths, script.requests, strict=True) if r.method != "GET"]
    return ["/".join(path.split("/")[-2:]) for path in puts]


# --- stages


def test_a_plan_is_carried_out_in_the_order_that_its_writes_need() -> None:
    script = azure()
    receipt = provision.apply(script.session(), a_plan())
    assert receipt.complete
    assert [name.partition("/")[0] for name in written(script)] == [
        "resourceGroups",
        "storageAccounts",
        "blobServices",
        "containers",
        "roleAssignments",
    ]


def test_two_hundred_containers_and_fifty_grants_are_all_made_once() -> None:
    script = azure()
    receipt = provision.apply(script.session(), many(200, 50))
    assert receipt.complete
    assert len(set(written(script))) == len(written(script)) == 3 + 200 + 50


def test_writes_of_a_stage_are_under_way_together() -> None:
    both = threading.Barrier(2, timeout=10)

    def wait_for_the_other(request: Any) -> Any:
        both.wait()
        return answer(201, {})(request)

    script = azure(containers=wait_for_the_other)
    assert provision.apply(script.session(), many(2)).complete


def test_many_writes_are_spaced_and_few_are_not() -> None:
    few, more, most = azure(), azure(), azure()
    provision.apply(few.session(), many(5))
    provision.apply(more.session(), many(108))
    provision.apply(most.session(), many(208))
    assert few.slept == []
    # The account and its blob service count as well: ten writes at once, then ten per second.
    assert sum(more.slept) == pytest.approx(10.0)
    assert sum(most.slept) == pytest.approx(20.0)


def test_results_keep_the_order_of_the_plan_whatever_ends_first() -> None:
    plan = many(30, 10)
    receipt = provision.apply(azure().session(), plan)
    assert [result.step for result in receipt.results] == list(plan.steps)


def test_every_step_is_told_once() -> None:
    told: list[StepResult] = []
    receipt = provision.apply(azure().session(), many(20, 5), on_step=told.append)
    assert len(told) == len(receipt.results)
    assert {id(result) for result in told} == {id(result) for result in receipt.results}


def test_one_that_fails_leaves_its_stage_done_and_the_rest_not_reached() -> None:
    script = azure(
        containers=[answer(201, {}), failed(400, "ContainerNameInvalid"), answer(201, {})]
    )
    plan = a_plan(a_wanted(containers=("a-1", "a-2", "a-3"), grants=(a_grant(),)))
    receipt = provision.apply(script.session(), plan)
    containers = [r.state for r in receipt.results if r.step.kind == "container"]
    assert sorted(containers) == ["done", "done", "failed"]
    assert states(receipt)["role assignment"] == "not reached"
    assert receipt.failed


def test_the_receipt_of_a_failure_says_what_is_done_and_what_failed_and_why() -> None:
    script = azure(blobs=failed(409, "FeatureNotSupportedForAccount", "Not with a namespace."))
    receipt = provision.apply(script.session(), a_plan())
    assert states(receipt) == {
        "resource group": "done",
        "storage account": "done",
        "blob service settings": "failed",
        "container": "not reached",
        "role assignment": "not reached",
    }
    failure = result_of(receipt, "blob service settings")
    assert failure.code == "FeatureNotSupportedForAccount"
    assert "Cannot create the blob service settings" in str(failure.message)
    assert "Not with a namespace" in str(failure.message)


def test_kept_steps_send_nothing() -> None:
    lock = lock_write(ACCOUNT_ID, "l", "", stage=8)
    step = Step(action="keep", kind=LOCK, name="l", detail="", reason="There.", wanted=lock)
    script = Script()
    receipt = provision.apply(script.session(), Plan(steps=(step,)))
    assert (receipt.results[0].state, receipt.results[0].message) == ("kept", "There.")
    assert script.requests == []


def test_a_plan_with_a_refusal_sends_nothing() -> None:
    plan = a_plan()
    refused = Step(action="refuse", kind="lock", name="l", detail="", reason="Locked.")
    script = azure()
    receipt = provision.apply(script.session(), Plan(steps=(*plan.steps, refused)))
    assert script.requests == []
    assert {r.state for r in receipt.results} == {"not reached", "failed"}


# --- long operations


def accepted(turn: int) -> Any:
    return answer(202, "", location=OPERATION.replace("t=1", f"t={turn}"), retry_after="17")


def test_the_account_is_waited_for_before_anything_in_it() -> None:
    script = azure(
        account=accepted(1), polls=[accepted(2), accepted(3), answer(200, the_account())]
    )
    said: list[str] = []
    receipt = provision.apply(script.session(), a_plan(), on_progress=said.append)
    assert receipt.complete
    assert script.slept == [17.0, 17.0]
    assert "t=3" in script.urls[4]
    assert written(script)[2] == "blobServices/default"
    assert said == [
        "storage account staitraining0a1b2c3d: in progress after 0 s",
        "storage account staitraining0a1b2c3d: in progress after 17 s",
    ]


def test_without_waiting_the_rest_is_planned_and_the_receipt_says_how_to_ask() -> None:
    script = azure(account=accepted(1))
    receipt = provision.apply(script.session(), a_plan(), wait=False)
    assert states(receipt) == {
        "resource group": "done",
        "storage account": "in progress",
        "blob service settings": "planned",
        "container": "planned",
        "role assignment": "planned",
    }
    assert not receipt.failed
    assert not receipt.complete
    assert "ai4infra storage show" in receipt.next_commands[0]
    assert "&c=" not in str(receipt)


def test_a_wait_has_an_end() -> None:
    script = azure(account=accepted(1), polls=accepted(2))
    receipt = provision.apply(script.session(), a_plan(), timeout_seconds=60)
    assert states(receipt)["storage account"] == "in progress"
    assert sum(script.slept) == pytest.approx(60)


def test_an_operation_that_fails_has_failed() -> None:
    script = azure(account=accepted(1), polls=failed(409, "AadDsTenantNotFound", "No tenant."))
    receipt = provision.apply(script.session(), a_plan())
    account = result_of(receipt, "storage account")
    assert (account.state, account.code) == ("failed", "AadDsTenantNotFound")


def test_an_operation_that_cannot_be_asked_about_is_still_in_progress() -> None:
    script = azure(account=accepted(1), polls=[accepted(2), failed(503, "ServerBusy")])
    account = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert account.state == "in progress"


# --- patience


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "StorageAccountIsNotProvisioned"),
        (409, "StorageAccountOperationInProgress"),
        (409, "AccountBeingCreated"),
        (409, "AccountBeingProvisioned"),
        (409, "ContainerBeingDeleted"),
        (429, "RetryableError"),
        (429, "ReferencedResourceNotProvisioned"),
    ],
)
def test_a_write_that_comes_too_early_is_sent_again(status, code) -> None:
    script = azure(blobs=[failed(status, code)] * 4 + [answer(200, BLOBS)])
    assert provision.apply(script.session(), a_plan()).complete


def test_patience_has_an_end() -> None:
    script = azure(blobs=failed(409, "StorageAccountOperationInProgress"))
    receipt = provision.apply(script.session(), a_plan(), timeout_seconds=50)
    failure = result_of(receipt, "blob service settings")
    assert (failure.state, failure.code) == ("failed", "StorageAccountOperationInProgress")
    assert sum(script.slept) == pytest.approx(50)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "InvalidRequestPropertyValue"),
        (409, "ResourceGroupBeingDeleted"),
        (409, "ScopeLocked"),
        (403, "RequestDisallowedByPolicy"),
        (403, "LinkedAuthorizationFailed"),
        (403, "AuthorizationFailed"),
    ],
)
def test_other_refusals_are_final(status, code) -> None:
    script = azure(account=failed(status, code))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert (failure.state, failure.code) == ("failed", code)
    assert failure.hint
    assert script.slept == []


ELSEWHERE = ACCOUNT_ID.replace(GROUP, "rg-other")


@pytest.mark.parametrize(
    ("check", "rows", "said"),
    [
        ({"nameAvailable": False, "reason": "AlreadyExists"}, [], "Somebody else has the name"),
        (
            {"nameAvailable": False, "reason": "AlreadyExists"},
            [{"id": ELSEWHERE, "name": ACCOUNT}],
            f"It is yours, as {ELSEWHERE}",
        ),
        (
            {"nameAvailable": False, "reason": "AlreadyExists"},
            [{"id": ACCOUNT_ID, "name": ACCOUNT}],
            "Run the same again",
        ),
        ({"nameAvailable": True}, [], "Run the same again"),
    ],
)
def test_a_name_that_is_taken_after_all_is_told_apart(check, rows, said) -> None:
    script = azure(account=failed(409, "StorageAccountAlreadyTaken"))
    script.on("POST .*checkNameAvailability", answer(200, check))
    script.on("GET .*storageAccounts[?]", answer(200, {"value": rows}))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert (failure.state, failure.code) == ("failed", "StorageAccountAlreadyTaken")
    assert said in str(failure.hint)


def test_a_taken_name_whose_owner_cannot_be_asked_about_is_still_that_error() -> None:
    script = azure(account=failed(409, "StorageAccountAlreadyTaken"))
    script.on("POST .*checkNameAvailability", failed(403, "AuthorizationFailed"))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert failure.code == "StorageAccountAlreadyTaken"


def test_a_provider_that_turns_out_unregistered_is_answered_with_the_option() -> None:
    message = "The subscription is not registered to use namespace 'Microsoft.Storage'."
    script = azure(account=failed(409, "MissingSubscriptionRegistration", message))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert "--register" in str(failure.hint)


@pytest.mark.parametrize("status", [400, 409])
def test_a_region_that_is_full_of_accounts_is_answered_with_the_ways_out(status: int) -> None:
    code = "MaxStorageAccountsCountPerSubscriptionExceeded"
    message = "Subscription s already contains 250 storage accounts."
    script = azure(account=failed(status, code, message))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    assert (failure.state, failure.code) == ("failed", code)
    assert "--location" in str(failure.hint)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (400, "RoleAssignmentLimitExceeded", "to a group"),
        (403, "DenyAssignmentAuthorizationFailed", "to owners too"),
    ],
)
def test_what_no_owner_can_help_with_is_not_sent_to_one(status: int, code: str, said: str) -> None:
    script = azure(grants=failed(status, code, "No."))
    (result,) = provision.apply(script.session(), only_grant()).results
    assert (result.state, result.code) == ("failed", code)
    assert said in str(result.hint)
    assert "An owner can run" not in str(result.hint)


def test_the_service_that_has_trouble_is_asked_again() -> None:
    script = azure(account=[failed(500, "OperationTimedOut"), answer(200, the_account())])
    assert provision.apply(script.session(), a_plan()).complete


def test_a_policys_denial_names_the_policy_the_property_and_the_wanted_value() -> None:
    info = {
        "policyDefinitionDisplayName": "Only Disabled",
        "policyAssignmentName": "net",
        "evaluationDetails": {
            "evaluatedExpressions": [
                {
                    "path": "properties.publicNetworkAccess",
                    "expressionValue": "Enabled",
                    "operator": "NotEquals",
                    "targetValue": "Disabled",
                }
            ]
        },
    }
    body = {
        "error": {
            "code": "RequestDisallowedByPolicy",
            "message": "Disallowed.",
            "additionalInfo": [{"type": "PolicyViolation", "info": info}],
        }
    }
    script = azure(account=answer(403, body))
    failure = result_of(provision.apply(script.session(), a_plan()), "storage account")
    for word in ("Only Disabled", "properties.publicNetworkAccess", "'Disabled'"):
        assert word in str(failure.message)


# --- role assignments


NOBODY = failed(400, "PrincipalNotFound", f"Principal {ALICE.replace('-', '')} does not exist.")


def test_a_new_principal_is_waited_for_with_the_same_assignment() -> None:
    script = azure(grants=[NOBODY] * 12 + [answer(201, {})])
    assert provision.apply(script.session(), only_grant()).complete
    assert len(set(script.urls)) == 1
    assert script.bodies[0]["properties"]["principalType"] == "User"
    assert sum(script.slept) > 120


def test_every_assignment_waits_for_itself() -> None:
    plan = rbac_steps(
        [a_grant(scope=ACCOUNT_ID), a_grant(scope=ACCOUNT_ID, role_id=READER, role="R")], ()
    )
    script = azure(grants=[NOBODY] * 6 + [answer(201, {})])
    assert provision.apply(script.session(), plan).complete


def test_a_principal_that_never_comes_fails_within_the_bound() -> None:
    script = azure(grants=NOBODY)
    failure = provision.apply(script.session(), only_grant()).results[0]
    assert (failure.state, failure.code) == ("failed", "PrincipalNotFound")
    assert sum(script.slept) == pytest.approx(300)
    assert "client id" in str(failure.hint)


@pytest.mark.parametrize("code", ["InvalidPrincipalId", "UnmatchedPrincipalType", "BadRequest"])
def test_no_other_400_is_tried_again(code) -> None:
    script = azure(grants=failed(400, code))
    failure = provision.apply(script.session(), only_grant()).results[0]
    assert (failure.state, failure.code) == ("failed", code)
    assert len(script.requests) == 1


def test_the_wrong_type_of_principal_is_answered_with_the_way_to_say_it() -> None:
    script = azure(grants=failed(400, "UnmatchedPrincipalType"))
    failure = provision.apply(script.session(), only_grant(label=f"id:{ALICE}")).results[0]
    assert ":User, :Group or :ServicePrincipal" in str(failure.hint)


EXISTS = failed(409, "RoleAssignmentExists", "The role assignment already exists.")


def an_assignment(role: str, scope: str = ACCOUNT_ID) -> dict[str, Any]:
    id_ = f"{scope}/providers/Microsoft.Authorization/roleAssignments/0f"
    told = {"roleDefinitionId": f"/x/{role.upper()}", "principalId": ALICE, "scope": scope}
    return {"id": id_, "properties": told}


def test_one_that_exists_under_another_name_is_as_good_as_done() -> None:
    grant = a_grant()
    script = azure(grants=EXISTS, listed=answer(200, {"value": [an_assignment(grant.role_id)]}))
    receipt = provision.apply(script.session(), only_grant())
    assert receipt.complete
    assert receipt.results[0].state == "kept"
    assert "assigned already, as 0f" in str(receipt.results[0].message)
    assert f"principalId eq '{ALICE}'" in script.urls[1]


def test_one_that_exists_under_a_condition_is_kept_and_that_is_said() -> None:
    row = an_assignment(a_grant().role_id)
    row["properties"]["condition"] = "(@Resource[x] StringEquals 'a')"
    script = azure(grants=EXISTS, listed=answer(200, {"value": [row]}))
    (result,) = provision.apply(script.session(), only_grant()).results
    assert result.state == "kept"
    assert "under a condition" in str(result.message)


def test_one_that_exists_where_none_may_be_listed_is_still_that_error() -> None:
    script = azure(grants=EXISTS, listed=failed(403, "AuthorizationFailed"))
    (result,) = provision.apply(script.session(), only_grant()).results
    assert (result.state, result.code) == ("failed", "RoleAssignmentExists")
    assert "may not list" in str(result.hint)


@pytest.mark.parametrize(
    "row",
    [an_assignment(READER), an_assignment(a_grant().role_id, scope=f"{ACCOUNT_ID}/other")],
)
def test_one_that_exists_by_word_only_has_failed(row) -> None:
    script = azure(grants=EXISTS, listed=answer(200, {"value": [row]}))
    failure = provision.apply(script.session(), only_grant()).results[0]
    assert (failure.state, failure.code) == ("failed", "RoleAssignmentExists")


def test_who_may_not_assign_gets_the_line_for_somebody_who_may() -> None:
    message = (
        f"The client 'x' with object id 'x' does not have authorization to perform action"
        f" 'Microsoft.Authorization/roleAssignments/write' over scope '{ACCOUNT_ID}' or the scope"
        " is invalid. If access was recently granted, please refresh your credentials."
    )
    script = azure(grants=failed(403, "AuthorizationFailed", message))
    failure = provision.apply(script.session(), only_grant()).results[0]
    assert f"az role assignment create --role {a_grant().role_id}" in str(failure.hint)
    assert f"--assignee-object-id {ALICE} --assignee-principal-type User" in str(failure.hint)
    assert f"--scope {ACCOUNT_ID}" in str(failure.hint)


# --- what the service makes of it


def test_what_came_out_as_wanted_passes() -> None:
    receipt = provision.apply(azure().session(), a_plan())
    assert receipt.findings
    assert {finding.verdict for finding in receipt.findings} == {"pass"}


@pytest.mark.parametrize(
    ("told", "check"),
    [
        ({"minimumTlsVersion": "TLS1_0"}, "minimumTlsVersion"),
        ({"allowBlobPublicAccess": True}, "allowBlobPublicAccess"),
        ({"allowSharedKeyAccess": True}, "allowSharedKeyAccess"),
        ({"isHnsEnabled": False}, "isHnsEnabled"),
    ],
)
def test_what_a_policy_changed_is_found_and_the_receipt_has_failed(told, check) -> None:
    receipt = provision.apply(azure(account=answer(200, the_account(**told))).session(), a_plan())
    assert [finding.check for finding in receipt.overridden] == [check]
    assert receipt.failed
    assert not receipt.complete


def test_soft_delete_that_was_not_taken_is_found() -> None:
    silent = {**BLOBS, "properties": {"deleteRetentionPolicy": {"enabled": False}}}
    receipt = provision.apply(azure(blobs=answer(200, silent)).session(), a_plan())
    assert [finding.check for finding in receipt.overridden] == [
        "deleteRetentionPolicy",
        "containerDeleteRetentionPolicy",
    ]


def test_the_comparison_takes_no_request_of_its_own() -> None:
    script = azure()
    provision.apply(script.session(), a_plan())
    assert {request.method for request in script.requests} == {"PUT"}


def test_an_answer_without_an_account_is_read_once_more() -> None:
    script = azure(account=answer(200, {}))
    script.on("GET .*storageAccounts", answer(200, the_account()))
    receipt = provision.apply(script.session(), a_plan())
    assert {finding.verdict for finding in receipt.findings} == {"pass"}


def test_what_cannot_be_read_back_is_unknown_and_no_failure() -> None:
    script = azure(account=answer(200, {}))
    script.on("GET .*storageAccounts", failed(403, "AuthorizationFailed"))
    receipt = provision.apply(script.session(), a_plan())
    assert [finding.verdict for finding in receipt.findings] == ["unknown"]
    assert not receipt.failed


def test_what_was_not_written_is_not_compared() -> None:
    receipt = provision.apply(azure().session(), only_grant())
    assert receipt.findings == ()


# --- Ctrl-C


def test_ctrl_c_tells_what_is_done_what_may_be_and_what_is_not() -> None:
    script = azure(account=broken(KeyboardInterrupt()))
    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(script.session(), a_plan())
    assert list(states(caught.value.receipt).values()) == [
        "done",
        "failed",
        "not reached",
        "not reached",
        "not reached",
    ]
    assert "may have taken" in str(result_of(caught.value.receipt, "storage account").message)


def test_ctrl_c_while_the_account_is_made_leaves_it_in_progress() -> None:
    script = azure(account=accepted(1), polls=[accepted(2), broken(KeyboardInterrupt())])
    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(script.session(), a_plan())
    assert result_of(caught.value.receipt, "storage account").state == "in progress"


def test_ctrl_c_in_a_stage_of_many_keeps_what_was_done() -> None:
    script = azure(containers=[answer(201, {})] * 5 + [broken(KeyboardInterrupt())])
    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(script.session(), many(20))
    containers = [r.state for r in caught.value.receipt.results if r.step.kind == "container"]
    assert containers.count("done") >= 1
    assert len(containers) == 20
    assert set(containers) <= {"done", "failed", "not reached"}


def test_a_thread_that_still_waits_after_ctrl_c_writes_no_more() -> None:
    waiting, released = threading.Event(), threading.Event()
    plan = rbac_steps(
        [a_grant(scope=ACCOUNT_ID), a_grant(scope=ACCOUNT_ID, role_id=READER, role="R")], ()
    )

    def interrupt(request: Any) -> Any:
        waiting.wait(10)
        return KeyboardInterrupt()

    patient = str(plan.steps[0].resource_id).rpartition("/")[2]
    script = Script().on(patient, NOBODY).on("roleAssignments", interrupt)
    session = script.session()

    def sleep(seconds: float) -> None:
        waiting.set()
        released.wait(10)

    session.transport.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(provision.ApplyInterrupted):
        provision.apply(session, plan)
    sent = len(script.requests)
    released.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(5)
    assert len(script.requests) == sent == 2


def test_an_assignment_step_can_remove_as_well() -> None:
    write = grant_write(a_grant(), ACCOUNT_ID, stage=7)
    gone = type(write)(
        method="DELETE",
        resource_id=write.resource_id,
        resource_type=write.resource_type,
        api_version=write.api_version,
    )
    step = Step(action="delete", kind=ASSIGNMENT, name="me", detail="", wanted=gone)
    script = Script().on("DELETE", answer(200, {"id": "x"}))
    assert provision.apply(script.session(), Plan(steps=(step,))).complete
