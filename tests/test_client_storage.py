"""Storage accounts and roles as a script asks for them."""

from __future__ import annotations

from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed
from support_jwt import Jwt

from ai4infra.client import Azure
from ai4infra.client_storage import Access
from ai4infra.errors import NotFoundError, UsageError
from ai4infra.model import StorageWanted
from ai4infra.plan import Plan
from ai4infra.settings import Settings
from ai4infra.storage_names import default_account_name

OID = "11111111-2222-4333-8444-555555555555"
NODE = "9b0d7c1f-20c4-4a5e-9f27-3c6e5d4b8a02"
READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/datasets"
VM = "vm:rg/node-0"


def azure(script: Script, **settings: Any) -> Azure:
    session = script.session(credential=Jwt(oid=OID, idtyp="user"))
    return Azure(session, Settings(subscription=SUBSCRIPTION, **settings))


def empty(*, identity: Any = None) -> Script:
    """A subscription without the group; with one machine."""
    script = Script().on("virtualMachines/node-0", answer(200, {"id": "/vm", "identity": identity}))
    script.on("POST .*checkName", answer(200, {"nameAvailable": True}))
    script.on("storageAccounts/", failed(404, "ResourceGroupNotFound"))
    return script


def wanted_of(plan: Plan) -> StorageWanted:
    assert isinstance(plan.verify, StorageWanted)
    return plan.verify


def planned(**options: Any) -> StorageWanted:
    return wanted_of(azure(empty()).plan_storage(**options))


# --- plan_storage


def test_without_arguments_everything_has_a_default() -> None:
    plan = azure(empty()).plan_storage()
    wanted = wanted_of(plan)
    assert wanted.account == default_account_name(SUBSCRIPTION, "rg-ai-training")
    assert (wanted.group, wanted.location) == ("rg-ai-training", "eastus2")
    assert (wanted.containers, wanted.location_said) == (("training-data",), False)
    (grant,) = wanted.grants
    assert (grant.role, grant.label) == ("Storage Blob Data Contributor", "me")
    assert (grant.principal_id, grant.principal_type) == (OID, "User")
    assert [step.kind for step in plan.changes] == [
        "resource group",
        "storage account",
        "blob service settings",
        "container",
        "role assignment",
    ]


def test_the_configured_group_and_location_are_taken_and_what_is_said_wins() -> None:
    with_settings = azure(empty(), group="rg-mine", location="westeurope")
    wanted = wanted_of(with_settings.plan_storage())
    assert (wanted.group, wanted.location, wanted.location_said) == (
        "rg-mine",
        "westeurope",
        False,
    )
    said = wanted_of(with_settings.plan_storage(group="rg-other", location="swedencentral"))
    assert (said.group, said.location, said.location_said) == ("rg-other", "swedencentral", True)


def test_it_says_what_the_data_costs_where_that_is_known() -> None:
    plan = azure(empty()).plan_storage(expect="2TB")
    account = next(step for step in plan.steps if step.kind == "storage account")
    assert "0.018 USD per GiB and month" in account.detail
    zoned = azure(empty()).plan_storage(sku="ZRS")
    account = next(step for step in zoned.steps if step.kind == "storage account")
    assert "unknown" in account.detail


def test_what_will_not_keep_up_is_a_warning() -> None:
    plan = azure(empty()).plan_storage(expect="2TB", vms="64xStandard_ND96isr_H100_v5")
    assert plan.warnings


def test_checkpoints_get_a_container_with_a_rule() -> None:
    wanted = planned(checkpoints=["ckpt"], checkpoint_retention="7d:30d", containers=["data"])
    (rule,) = wanted.lifecycles
    assert (rule.container, rule.cool_after_days, rule.delete_after_days) == ("ckpt", 7, 30)
    assert wanted.containers == ("data",)


def test_roles_can_be_given_on_one_container() -> None:
    access = [Access(role="Storage Blob Data Reader", who="me", container="training-data")]
    plan = azure(empty()).plan_storage(access=access)
    (step,) = [s for s in plan.changes if s.kind == "role assignment"]
    assert "/containers/training-data/providers/" in str(step.resource_id)


def test_who_is_named_is_instead_of_us() -> None:
    script = empty(identity={"type": "SystemAssigned", "principalId": NODE})
    wanted = wanted_of(azure(script).plan_storage(readers=[VM]))
    assert [(g.label, g.principal_id, g.role_id) for g in wanted.grants] == [(VM, NODE, READER)]


def test_a_machine_without_identity_gets_one_and_then_its_role() -> None:
    plan = azure(empty()).plan_storage(readers=[VM], contributors=["me"], enable_identity=True)
    kinds = [step.kind for step in plan.changes]
    assert kinds[0] == "managed identity"
    assert kinds[-2:] == ["role assignment", "role assignment"]
    assert [g.label for g in wanted_of(plan).grants] == ["me", VM]


def test_a_machine_without_identity_gets_no_role_on_a_container_that_is_not_there() -> None:
    access = [Access(role=READER, who=VM, container="nope")]
    plan = azure(empty()).plan_storage(access=access, enable_identity=True)
    assert [s.name for s in plan.refusals] == [VM]
    assert "no such container" in str(plan.refusals[0].reason)


@pytest.mark.parametrize(
    "options",
    [
        {"account": "Not_A_Name"},
        {"group": "ends-with."},
        {"containers": ["$logs"]},
        {"containers": ["Upper"]},
        {"sku": "ULTRA"},
        {"sku": "GRS", "premium": True},
        {"readers": ["ada@example.org"]},
        {"contributors": ["vm:node"]},
        {"access": [Access(role="x", who="nobody")]},
        {"lifecycles": ["runs"]},
        {"checkpoints": ["ckpt"], "checkpoint_retention": "90d:14d"},
        {"expect": "2Tb"},
        {"vms": "8xA100"},
        {"classification": "secret"},
        {"versioning": True},
        {"network": "private", "allow_ips": ["203.0.113.7"]},
        {"tags": {"a": "1", "A": "2"}},
        {"key_uri": "https://v.vault.azure.net/secrets/x"},
        {"private_endpoint": "/subnets/s"},
    ],
)
def test_what_cannot_be_is_a_usage_error_and_nothing_is_sent(options) -> None:
    script = Script()
    with pytest.raises(UsageError):
        azure(script).plan_storage(**options)
    assert script.requests == []


# --- accounts


def rows() -> Script:
    mine = {"id": ACCOUNT, "name": "datasets", "location": "eastus2"}
    return Script().on("storageAccounts[?]", listed(mine, {"id": "/x/y/z", "name": "others"}))


def test_accounts_are_listed_by_name() -> None:
    assert [a.name for a in azure(rows()).storage_accounts()] == ["datasets", "others"]


def test_an_account_is_found_by_its_name_alone() -> None:
    assert azure(rows()).storage_account("datasets").id == ACCOUNT


def test_an_account_that_does_not_exist_is_not_found_with_the_close_names() -> None:
    with pytest.raises(NotFoundError) as caught:
        azure(rows()).storage_account("dataset")
    assert "datasets" in str(caught.value.hint)


def test_in_a_group_the_account_itself_is_asked_for() -> None:
    row = {"id": ACCOUNT, "name": "datasets"}
    script = Script().on("storageAccounts/datasets[?]", answer(200, row))
    assert azure(script).storage_account("datasets", group="rg").name == "datasets"


@pytest.mark.parametrize("name", ["", "UPPER", "ab", "a" * 25])
def test_a_name_that_no_account_has_is_a_usage_error(name) -> None:
    script = Script()
    with pytest.raises(UsageError):
        azure(script).storage_account(name)
    assert script.requests == []


def everything() -> Script:
    script = Script().on("blobServices/default[?]", answer(200, {"properties": {}}))
    script.on("containers", listed({"id": "/c", "name": "runs"}))
    script.on("managementPolicies", failed(404, "ManagementPolicyNotFound"))
    script.on("roleAssignments|/locks", listed())
    script.on("storageAccounts/datasets[?]", answer(200, {"id": ACCOUNT, "name": "datasets"}))
    script.on("resourceGroups/rg[?]", answer(200, {"id": GROUP, "name": "rg", "location": "x"}))
    script.replies += rows().replies
    return script


def test_the_details_of_an_account_are_all_that_belongs_to_it() -> None:
    found = azure(everything()).storage_details("datasets")
    assert found.account is not None
    assert [c.name for c in found.containers or ()] == ["runs"]
    assert found.lifecycle == ()


def test_a_deletion_is_planned_for_the_account_of_the_name() -> None:
    (step,) = azure(everything()).plan_storage_delete("datasets").changes
    assert step.resource_id == ACCOUNT


# --- roles


def held(by: str, scope: str = ACCOUNT) -> dict[str, Any]:
    told = {"roleDefinitionId": f"/x/{READER}", "principalId": by, "scope": scope}
    return {
        "id": f"{scope}/providers/Microsoft.Authorization/roleAssignments/1",
        "properties": told,
    }


def assignments(**options: Any) -> list[str]:
    script = Script().on("roleAssignments", listed(held(OID), held(NODE), held(OID, GROUP)))
    script.on("userAssignedIdentities", listed())
    return [a.scope for a in azure(script).assignments(ACCOUNT, **options)]


def test_assignments_are_told_with_those_from_above() -> None:
    assert assignments() == [ACCOUNT, ACCOUNT, GROUP]


def test_inherited_ones_can_be_left_out() -> None:
    assert assignments(inherited=False) == [ACCOUNT, ACCOUNT]


def test_only_those_of_somebody_can_be_asked_for() -> None:
    assert assignments(to="me") == [ACCOUNT, GROUP]
    assert assignments(to=f"id:{NODE}") == [ACCOUNT]


def test_without_a_scope_it_is_the_subscription() -> None:
    script = Script().on("roleAssignments", listed())
    azure(script).assignments()
    assert f"azure.com/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Auth" in script.urls[0]


def test_names_are_meant_in_the_scopes_own_subscription() -> None:
    other = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
    script = Script().on("virtualMachines", failed(404, "ResourceNotFound"))
    with pytest.raises(NotFoundError):
        azure(script).plan_assign("Reader", VM, f"/subscriptions/{other}")
    assert other in script.urls[0]


@pytest.mark.parametrize("to", [[], "nobody", ["me", "x@y.z"]])
def test_nobody_and_no_name_is_a_usage_error_and_nothing_is_sent(to) -> None:
    script = Script()
    for plan in (azure(script).plan_assign, azure(script).plan_unassign):
        with pytest.raises(UsageError):
            plan("Reader", to, ACCOUNT)
    assert script.requests == []


def test_a_role_is_planned_applied_and_awaited() -> None:
    script = Script().on("PUT .*roleAssignments", answer(201, {}))
    script.on("roleAssignments", listed(), listed(held(OID)))
    script.on("/locks", listed())
    endpoints = {"blob": "https://datasets.blob.core.windows.net/"}
    row = {"id": ACCOUNT, "name": "datasets", "properties": {"primaryEndpoints": endpoints}}
    script.on("storageAccounts/datasets[?]", answer(200, row))
    script.on("default/containers", listed({"id": "/c", "name": "data"}))
    script.on("blob.core", answer(200, "<x/>"))
    az = azure(script)
    plan = az.plan_assign("storage blob data reader", "me", f"{ACCOUNT}/")
    assert az.apply(plan).complete
    assert az.wait_role("Storage Blob Data Reader", "me", ACCOUNT).works


def test_a_role_is_removed() -> None:
    script = Script().on("DELETE", answer(200, {})).on("roleAssignments", listed(held(OID)))
    script.on("/locks", listed())
    script.on("storageAccounts/datasets[?]", answer(200, {"id": ACCOUNT, "name": "datasets"}))
    az = azure(script)
    assert az.apply(az.plan_unassign(READER, ["me"], ACCOUNT)).complete


@pytest.mark.parametrize(
    "asked",
    [
        {"network": "closed"},
        {"network": "Private"},
        {"tags": {"cost": 7}},
        {"soft_delete_days": "7"},
        {"containers": [7]},
        {"account": ""},
        {"group": ""},
    ],
)
def test_what_is_of_another_kind_is_a_usage_error_and_nobody_is_asked(
    asked: dict[str, Any],
) -> None:
    script = Script()
    with pytest.raises(UsageError):
        azure(script).plan_storage(**asked)
    assert script.requests == []


def test_one_text_by_itself_is_one_of_them_and_not_its_letters() -> None:
    wanted = planned(
        containers="data",
        checkpoints="ckpt",
        lifecycles="runs=:30d",
        allow_ips="203.0.113.7",
        readers="me",
    )
    assert wanted.containers == ("data",)
    assert [rule.container for rule in wanted.lifecycles] == ["ckpt", "runs"]
    assert wanted.allow_ips == ("203.0.113.7",)
    assert [grant.label for grant in wanted.grants] == ["me"]
