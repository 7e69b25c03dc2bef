from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support_storage import (
    ACCOUNT,
    ACCOUNT_ID,
    ALICE,
    CONTRIBUTOR,
    GROUP,
    KEY,
    KEY_IDENTITY,
    NODE,
    SUBNET,
    SUBSCRIPTION,
    VNET,
    WANTED,
    World,
    a_grant,
    a_wanted,
    a_world,
    carried_out,
    everything,
    looked_at,
    rule_of,
)

from ai4infra import arm, storage_plan
from ai4infra.arm import ArmWrite
from ai4infra.errors import UsageError
from ai4infra.model import (
    BlobServiceSettings,
    DnsZone,
    LifecycleRule,
    LifecycleWanted,
    Lock,
    NameCheck,
    PrivateEndpoint,
    ResourceGroup,
    RoleAssignment,
    Step,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import REGISTRATION, Plan, RegistrationWanted
from ai4infra.storage_checks import check_wanted, parse_sku
from ai4infra.storage_names import group_scope
from ai4infra.storage_plan import (
    post_check,
    rbac_remove_steps,
    rbac_steps,
    storage_delete_steps,
    storage_steps,
)

NOTHING = StorageLook()


def made(wanted: StorageWanted, **properties: Any) -> World:
    """The world after a create; ``properties`` of the account were changed since."""
    world = a_world(storage_steps(wanted, NOTHING))
    world[arm.id_key(ACCOUNT_ID)][1]["properties"].update(properties)
    return world


def by_kind(plan: Plan, kind: str) -> list[Step]:
    return [step for step in plan.steps if step.kind == kind]


def only(plan: Plan, kind: str) -> Step:
    (step,) = by_kind(plan, kind)
    return step


def write_of(step: Step) -> ArmWrite:
    assert isinstance(step.wanted, ArmWrite)
    return step.wanted


def body_of(step: Step) -> dict[str, Any]:
    body = write_of(step).body
    assert body is not None
    return body


# --- A subscription with nothing in it ---


def test_in_an_empty_subscription_everything_is_made_in_the_order_of_need():
    plan = storage_steps(
        everything(register=True), StorageLook(unregistered=("Microsoft.Network",))
    )
    assert {step.action for step in plan.steps} == {"create"}
    assert [step.kind for step in plan.steps] == [
        "provider registration",
        "resource group",
        "storage account",
        "private DNS zone",
        "private DNS zone",
        "blob service settings",
        "private DNS link",
        "private DNS link",
        "container",
        "container",
        "lifecycle policy",
        "private endpoint",
        "private endpoint",
        "private DNS zone group",
        "private DNS zone group",
        "role assignment",
        "role assignment",
        "lock",
    ]


def test_a_plain_create_needs_a_group_an_account_soft_delete_and_a_container_only():
    plan = storage_steps(a_wanted(), NOTHING)
    assert [step.name for step in plan.steps] == [GROUP, ACCOUNT, "default", "training-data"]
    assert plan.warnings == ()


def test_every_security_property_is_sent_and_none_is_left_to_a_default():
    body = body_of(only(storage_steps(a_wanted(), NOTHING), "storage account"))
    assert body == {
        "location": "eastus2",
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "tags": {},
        "properties": {
            "accessTier": "Hot",
            "isHnsEnabled": True,
            "minimumTlsVersion": "TLS1_2",
            "supportsHttpsTrafficOnly": True,
            "allowBlobPublicAccess": False,
            "allowSharedKeyAccess": False,
            "defaultToOAuthAuthentication": True,
            "allowCrossTenantReplication": False,
            "publicNetworkAccess": "Enabled",
            "networkAcls": {
                "bypass": "AzureServices",
                "defaultAction": "Allow",
                "ipRules": [],
                "virtualNetworkRules": [],
            },
            "encryption": {
                "keySource": "Microsoft.Storage",
                "requireInfrastructureEncryption": False,
                "services": {
                    "blob": {"enabled": True, "keyType": "Account"},
                    "file": {"enabled": True, "keyType": "Account"},
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("asked", "access", "action"),
    [
        ({"network": "open"}, "Enabled", "Allow"),
        ({"network": "restricted"}, "Enabled", "Deny"),
        ({"network": "private"}, "Disabled", "Deny"),
        ({"allow_ips": ("203.0.113.7",)}, "Enabled", "Deny"),
        ({"allow_subnets": (SUBNET,)}, "Enabled", "Deny"),
        ({"classification": "confidential"}, "Enabled", "Deny"),
        ({"endpoint_subnet": SUBNET}, "Enabled", "Allow"),
    ],
)
def test_a_network_setting_is_public_access_and_default_action(
    asked: dict[str, Any], access: str, action: str
):
    plan = storage_steps(a_wanted(**asked), NOTHING)
    properties = body_of(only(plan, "storage account"))["properties"]
    assert properties["publicNetworkAccess"] == access
    assert properties["networkAcls"]["defaultAction"] == action
    assert properties["networkAcls"]["bypass"] == "AzureServices"


def test_a_premium_account_is_of_block_blobs_without_an_access_tier():
    body = body_of(only(storage_steps(a_wanted(sku="Premium_ZRS"), NOTHING), "storage account"))
    assert body["kind"] == "BlockBlobStorage"
    assert body["sku"] == {"name": "Premium_ZRS"}
    assert "accessTier" not in body["properties"]


def test_a_customer_managed_key_comes_with_the_identity_that_reads_it():
    wanted = a_wanted(key_uri=f"{KEY}/{'0f' * 16}", key_identity=KEY_IDENTITY)
    body = body_of(only(storage_steps(wanted, NOTHING), "storage account"))
    assert body["identity"] == {
        "type": "UserAssigned",
        "userAssignedIdentities": {KEY_IDENTITY: {}},
    }
    assert body["properties"]["encryption"]["keySource"] == "Microsoft.Keyvault"
    assert body["properties"]["encryption"]["identity"] == {"userAssignedIdentity": KEY_IDENTITY}
    assert body["properties"]["encryption"]["keyvaultproperties"] == {
        "keyname": "train",
        "keyvaulturi": "https://kv-train.vault.azure.net",
        "keyversion": "0f" * 16,
    }


def test_soft_delete_covers_blobs_and_containers():
    body = body_of(only(storage_steps(a_wanted(), NOTHING), "blob service settings"))
    assert body == {
        "properties": {
            "deleteRetentionPolicy": {"enabled": True, "days": 7},
            "containerDeleteRetentionPolicy": {"enabled": True, "days": 7},
        }
    }


def test_a_flat_account_may_have_what_a_hierarchical_one_may_not():
    wanted = a_wanted(
        hns=False, versioning=True, change_feed=True, restore_days=6, soft_delete_days=7
    )
    plan = storage_steps(wanted, NOTHING)
    assert body_of(only(plan, "storage account"))["properties"]["isHnsEnabled"] is False
    sent = body_of(only(plan, "blob service settings"))["properties"]
    assert sent["isVersioningEnabled"] is True
    assert sent["changeFeed"] == {"enabled": True}
    assert sent["restorePolicy"] == {"enabled": True, "days": 6}


def test_a_container_is_made_through_arm_and_once_however_often_it_is_named():
    wanted = a_wanted(
        containers=("training-data", "runs", "runs"),
        lifecycles=(LifecycleWanted(container="runs", delete_after_days=30),),
    )
    steps = by_kind(storage_steps(wanted, NOTHING), "container")
    assert [step.name for step in steps] == ["training-data", "runs"]
    write = write_of(steps[0])
    assert write.resource_id == f"{ACCOUNT_ID}/blobServices/default/containers/training-data"
    assert write.body == {"properties": {"publicAccess": "None"}}
    assert write.stage == write_of(steps[1]).stage


def test_a_role_assignment_names_the_type_of_its_principal_and_has_always_the_same_name():
    first, second = by_kind(storage_steps(everything(), NOTHING), "role assignment")
    assert body_of(first) == {
        "properties": {
            "roleDefinitionId": f"/subscriptions/{SUBSCRIPTION}/providers"
            f"/Microsoft.Authorization/roleDefinitions/{CONTRIBUTOR}",
            "principalId": ALICE,
            "principalType": "User",
        }
    }
    assert str(second.resource_id).startswith(
        f"{ACCOUNT_ID}/blobServices/default/containers/training-data/providers/"
    )
    again = by_kind(storage_steps(everything(), NOTHING), "role assignment")
    assert [s.resource_id for s in again] == [first.resource_id, second.resource_id]


def test_a_grant_that_is_asked_for_twice_is_made_once():
    wanted = a_wanted(grants=(a_grant(), a_grant(label=ALICE, principal_id=ALICE.upper())))
    assert len(by_kind(storage_steps(wanted, NOTHING), "role assignment")) == 1


def test_a_grant_on_a_container_comes_with_the_same_one_on_the_account():
    wanted = a_wanted(grants=(a_grant(container="training-data"), a_grant()))
    inner, outer = by_kind(storage_steps(wanted, NOTHING), "role assignment")
    assert (outer.action, inner.action) == ("create", "keep")
    assert inner.reason == f"Inherited from {ACCOUNT_ID}."


@pytest.mark.parametrize("look", [NOTHING, looked_at(made(a_wanted()))])
def test_a_grant_on_a_container_that_nobody_makes_is_refused(look: StorageLook):
    plan = storage_steps(a_wanted(grants=(a_grant(container="runs"),)), look)
    assert "no such container" in str(only(plan, "role assignment").reason)
    assert only(plan, "role assignment").action == "refuse"


@pytest.mark.parametrize(("hns", "groups"), [(True, ["blob", "dfs"]), (False, ["blob"])])
def test_a_hierarchical_account_gets_an_endpoint_for_blob_and_one_for_dfs(
    hns: bool, groups: list[str]
):
    wanted = a_wanted(hns=hns, endpoint_subnet=SUBNET)
    plan = storage_steps(wanted, StorageLook(vnet_location="West Europe"))
    endpoints = [body_of(step) for step in by_kind(plan, "private endpoint")]
    connections = [b["properties"]["privateLinkServiceConnections"][0] for b in endpoints]
    assert [c["properties"]["groupIds"] for c in connections] == [[g] for g in groups]
    assert {b["location"] for b in endpoints} == {"westeurope"}
    assert [s.name for s in by_kind(plan, "private DNS zone")] == [
        f"privatelink.{g}.core.windows.net" for g in groups
    ]
    assert len(by_kind(plan, "private DNS zone group")) == len(groups)


def test_in_another_cloud_the_private_zones_carry_its_domain():
    wanted = a_wanted(endpoint_subnet=SUBNET, storage_suffix="core.usgovcloudapi.net")
    zones = by_kind(storage_steps(wanted, NOTHING), "private DNS zone")
    assert zones[0].name == "privatelink.blob.core.usgovcloudapi.net"


@pytest.mark.parametrize(
    ("price", "gib", "said"),
    [
        (None, 2000.0, "what it costs to keep is unknown"),
        (0.0184, None, "costs 0.0184 USD per GiB and month (list price)"),
        (0.0184, 2000.0, "about 36.80 USD a month for 2,000 GiB"),
    ],
)
def test_the_plan_says_what_the_data_costs_to_keep(
    price: float | None, gib: float | None, said: str
):
    wanted = a_wanted(price_per_gib_month=price, currency="USD", expected_gib=gib)
    assert said in only(storage_steps(wanted, NOTHING), "storage account").detail


@pytest.mark.parametrize("register", [True, False])
def test_a_missing_registration_is_made_when_asked_for_and_else_refused(register: bool):
    look = StorageLook(unregistered=("microsoft.storage", "Microsoft.Network", "Microsoft.Quota"))
    plan = storage_steps(a_wanted(register=register), look)
    step = only(plan, REGISTRATION)
    assert step.action == ("create" if register else "refuse")
    assert step.wanted == RegistrationWanted(
        subscription_id=SUBSCRIPTION, namespace="Microsoft.Storage"
    )
    assert register or "az provider register --namespace Microsoft.Storage" in str(step.reason)


# --- Again, and after a part of it ---


@pytest.mark.parametrize("wanted", [a_wanted(), everything()])
def test_the_same_again_keeps_everything(wanted: StorageWanted):
    plan = storage_steps(wanted, looked_at(made(wanted)))
    assert {step.action for step in plan.steps} == {"keep"}
    assert plan.warnings == ()


@given(wanted=WANTED)
@settings(max_examples=60, deadline=None)
def test_what_a_plan_makes_a_second_plan_keeps(wanted: StorageWanted):
    first = storage_steps(wanted, NOTHING)
    assert first.refusals == ()
    again = storage_steps(wanted, looked_at(a_world(first)))
    assert [s for s in again.steps if s.action != "keep"] == []


@given(wanted=WANTED, part=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_plan_that_broke_off_is_finished_by_the_next(wanted: StorageWanted, part: int):
    first = storage_steps(wanted, NOTHING)
    world = carried_out(first.steps[:part], {})
    second = storage_steps(structs.replace(wanted, update=True), looked_at(world))
    assert second.refusals == ()
    after = carried_out(second.steps, world)
    assert after == a_world(first)
    third = storage_steps(wanted, looked_at(after))
    assert third.changes == ()


@given(before=WANTED, wanted=WANTED)
@settings(max_examples=100, deadline=None)
def test_an_update_leads_from_any_account_to_the_wanted_one_or_is_refused(
    before: StorageWanted, wanted: StorageWanted
):
    world = made(before)
    plan = storage_steps(structs.replace(wanted, update=True), looked_at(world))
    if plan.refusals:
        assert "fixed at creation" in plan.refusals[0].detail
        return
    after = carried_out(plan.steps, world)
    again = storage_steps(wanted, looked_at(after))
    assert again.changes == ()
    assert [s.reason for s in again.steps if "differs" in str(s.reason)] == []
    assert [f for f in post_check(wanted, looked_at(after)) if f.verdict != "pass"] == []


@given(before=WANTED, wanted=WANTED)
@settings(max_examples=60, deadline=None)
def test_without_an_update_nothing_that_is_there_is_written(
    before: StorageWanted, wanted: StorageWanted
):
    world = made(before)
    plan = storage_steps(wanted, looked_at(world))
    after = carried_out(plan.steps, world) if not plan.refusals else world
    policy = arm.id_key(f"{ACCOUNT_ID}/managementPolicies/default")
    assert {k: v for k, v in after.items() if k in world and k != policy} == {
        k: v for k, v in world.items() if k != policy
    }


# --- An account that differs ---


@pytest.mark.parametrize(
    ("before", "asked", "named"),
    [
        ({"hns": False}, {}, "isHnsEnabled is false, wanted true"),
        ({}, {"hns": False}, "isHnsEnabled is true, wanted false"),
        ({}, {"sku": "Premium_LRS"}, "kind is StorageV2, wanted BlockBlobStorage"),
        ({}, {"sku": "Standard_ZRS"}, "sku is Standard_LRS, wanted Standard_ZRS"),
        (
            {},
            {"infrastructure_encryption": True},
            "requireInfrastructureEncryption is false, wanted true",
        ),
        ({}, {"location": "West Europe"}, "location is eastus2, wanted westeurope"),
        (
            {},
            {"classification": "confidential"},
            "requireInfrastructureEncryption is false, wanted true",
        ),
    ],
)
@pytest.mark.parametrize("update", [True, False])
def test_a_difference_that_is_fixed_at_creation_refuses_the_whole_plan(
    before: dict[str, Any], asked: dict[str, Any], named: str, update: bool
):
    look = looked_at(made(a_wanted(**before)))
    (step,) = storage_steps(a_wanted(**asked, update=update, lock=True), look).steps
    assert step.action == "refuse"
    assert named in str(step.reason)


def test_all_fixed_differences_are_listed_at_once():
    look = looked_at(made(a_wanted(hns=False)))
    wanted = a_wanted(infrastructure_encryption=True, location="westus3")
    (step,) = storage_steps(wanted, look).steps
    assert str(step.reason).count("wanted") == 3


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ({"infrastructure_encryption": True}, {}),
        ({"sku": "Premium_LRS"}, {}),
        ({"sku": "Standard_ZRS"}, {}),
        ({"location": "westeurope"}, {"location_said": False}),
        ({"network": "private"}, {}),
        ({"soft_delete_days": 90}, {"soft_delete_days": 7}),
        ({"tags": {"team": "vision"}}, {}),
    ],
)
def test_what_was_not_said_and_what_is_stronger_is_no_difference(
    before: dict[str, Any], asked: dict[str, Any]
):
    plan = storage_steps(a_wanted(**asked), looked_at(made(a_wanted(**before))))
    assert {(s.action, s.reason) for s in plan.steps} == {("keep", "It is there.")}


DRIFT = [
    ({"minimumTlsVersion": "TLS1_0"}, {"minimumTlsVersion": "TLS1_2"}),
    ({"supportsHttpsTrafficOnly": False}, {"supportsHttpsTrafficOnly": True}),
    ({"allowBlobPublicAccess": True}, {"allowBlobPublicAccess": False}),
    ({"allowBlobPublicAccess": None}, {"allowBlobPublicAccess": False}),
    ({"allowSharedKeyAccess": True}, {"allowSharedKeyAccess": False}),
    ({"allowSharedKeyAccess": None}, {"allowSharedKeyAccess": False}),
    ({"defaultToOAuthAuthentication": None}, {"defaultToOAuthAuthentication": True}),
    ({"allowCrossTenantReplication": True}, {"allowCrossTenantReplication": False}),
]


@pytest.mark.parametrize(("drift", "patch"), DRIFT)
def test_drift_is_kept_and_said_and_mended_by_an_update_that_names_nothing_else(
    drift: dict[str, Any], patch: dict[str, Any]
):
    look = looked_at(made(a_wanted(), **drift))
    kept = storage_steps(a_wanted(), look)
    step = only(kept, "storage account")
    assert step.action == "keep"
    assert next(iter(patch)) in str(step.reason)
    assert "--update" in str(step.reason)
    assert kept.warnings == (f"storage account {ACCOUNT}: {step.reason}",)
    changed = only(storage_steps(a_wanted(update=True), look), "storage account")
    assert changed.action == "update"
    assert write_of(changed).method == "PATCH"
    assert body_of(changed) == {"properties": patch}


def test_a_newer_tls_is_no_drift():
    plan = storage_steps(a_wanted(), looked_at(made(a_wanted(), minimumTlsVersion="TLS1_3")))
    assert only(plan, "storage account").reason == "It is there."


def test_network_rules_of_others_survive_an_update():
    foreign = {
        "bypass": "Logging, AzureServices",
        "defaultAction": "Allow",
        "ipRules": [{"value": "198.51.100.9", "action": "Allow"}],
        "virtualNetworkRules": [{"id": SUBNET.upper(), "action": "Allow", "state": "Succeeded"}],
        "resourceAccessRules": [{"tenantId": SUBSCRIPTION, "resourceId": "/subscriptions/x"}],
    }
    look = looked_at(made(a_wanted(), networkAcls=foreign))
    wanted = a_wanted(allow_ips=("203.0.113.7",), allow_subnets=(SUBNET,), update=True)
    acls = body_of(only(storage_steps(wanted, look), "storage account"))["properties"][
        "networkAcls"
    ]
    assert acls == {
        **foreign,
        "bypass": "AzureServices, Logging",
        "defaultAction": "Deny",
        "ipRules": [*foreign["ipRules"], {"value": "203.0.113.7", "action": "Allow"}],
    }


def test_tags_are_merged_whatever_their_case_and_foreign_ones_stay():
    world = made(a_wanted(tags={"Team": "vision", "owner": "ops"}))
    wanted = a_wanted(tags={"team": "speech", "stage": "dev"}, update=True)
    step = only(storage_steps(wanted, looked_at(world)), "storage account")
    assert body_of(step) == {"tags": {"Team": "speech", "owner": "ops", "stage": "dev"}}


def test_an_own_identity_and_others_survive_a_new_key():
    world = made(a_wanted())
    other = KEY_IDENTITY.replace("id-key", "id-other")
    world[arm.id_key(ACCOUNT_ID)][1]["identity"] = {
        "type": "SystemAssigned,UserAssigned",
        "userAssignedIdentities": {other: {}},
    }
    wanted = a_wanted(key_uri=KEY, key_identity=KEY_IDENTITY, update=True)
    body = body_of(only(storage_steps(wanted, looked_at(world)), "storage account"))
    assert body["identity"] == {
        "type": "SystemAssigned,UserAssigned",
        "userAssignedIdentities": {other: {}, KEY_IDENTITY: {}},
    }


def test_redundancy_without_zones_changes_by_an_update():
    look = looked_at(made(a_wanted()))
    step = only(storage_steps(a_wanted(sku="Standard_GRS", update=True), look), "storage account")
    assert body_of(step) == {"sku": {"name": "Standard_GRS"}}


def test_an_account_that_a_run_before_did_not_finish_gets_its_soft_delete():
    off = BlobServiceSettings(blob_soft_delete_days=0, container_soft_delete_days=0)
    look = structs.replace(looked_at(made(a_wanted())), blob_service=off, containers=())
    step = only(storage_steps(a_wanted(), look), "blob service settings")
    assert (step.action, step.reason) == ("update", None)
    unknown = structs.replace(look, containers=None)
    kept = only(storage_steps(a_wanted(), unknown), "blob service settings")
    assert kept.action == "keep"


def test_less_soft_delete_than_wanted_is_drift_of_the_blob_service():
    look = structs.replace(
        looked_at(made(a_wanted())),
        blob_service=BlobServiceSettings(blob_soft_delete_days=0, container_soft_delete_days=30),
    )
    step = only(storage_steps(a_wanted(), look), "blob service settings")
    assert "deleteRetentionPolicy is off, wanted 7 days" in str(step.reason)
    changed = only(storage_steps(a_wanted(update=True), look), "blob service settings")
    assert body_of(changed) == {
        "properties": {"deleteRetentionPolicy": {"enabled": True, "days": 7}}
    }


def test_an_anonymously_readable_container_is_closed_by_an_update_only():
    world = made(a_wanted())
    world[arm.id_key(arm.container_id(ACCOUNT_ID, "training-data"))][1]["properties"] = {
        "publicAccess": "Blob"
    }
    kept = storage_steps(a_wanted(), looked_at(world))
    assert "publicAccess is Blob" in kept.warnings[0]
    step = only(storage_steps(a_wanted(update=True), looked_at(world)), "container")
    assert (step.action, write_of(step).method) == ("update", "PATCH")
    assert body_of(step) == {"properties": {"publicAccess": "None"}}


# --- Names ---


def test_a_name_in_another_group_of_mine_says_which():
    there = ACCOUNT_ID.replace(GROUP, "rg-old")
    look = StorageLook(name=NameCheck(state="elsewhere", account_id=there))
    (step,) = storage_steps(a_wanted(), look).steps
    assert step.action == "refuse"
    assert "--resource-group rg-old" in str(step.reason)


def test_a_name_of_somebody_else_may_be_one_that_was_deleted():
    look = StorageLook(name=NameCheck(state="taken", message="The name is already taken."))
    (step,) = storage_steps(a_wanted(), look).steps
    assert step.action == "refuse"
    assert "Somebody else" in str(step.reason)
    assert "deleted" in str(step.reason)
    assert "The name is already taken." in str(step.reason)


@pytest.mark.parametrize("state", ["available", "mine"])
def test_a_name_that_can_be_had_stands_in_nobodys_way(state: Any):
    look = StorageLook(name=NameCheck(state=state))
    assert storage_steps(a_wanted(), look).refusals == ()


# --- Lifecycle ---

FOREIGN_RULE = {
    "name": "archive-logs",
    "enabled": True,
    "type": "Lifecycle",
    "definition": {
        "filters": {"blobTypes": ["appendBlob"], "prefixMatch": ["logs/"]},
        "actions": {"snapshot": {"delete": {"daysAfterCreationGreaterThan": 3}}},
    },
}
CHECKPOINTS = LifecycleWanted(container="checkpoints", cool_after_days=14, delete_after_days=90)


def with_rules(*rules: dict[str, Any], **asked: Any) -> StorageLook:
    look = looked_at(made(a_wanted(**asked)))
    return structs.replace(look, lifecycle=tuple(rule_of(rule) for rule in rules))


def test_a_rule_counts_days_since_modification_below_its_container():
    plan = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,)), NOTHING)
    assert body_of(only(plan, "lifecycle policy")) == {
        "properties": {
            "policy": {
                "rules": [
                    {
                        "name": "ai4infra-checkpoints",
                        "enabled": True,
                        "type": "Lifecycle",
                        "definition": {
                            "filters": {
                                "blobTypes": ["blockBlob"],
                                "prefixMatch": ["checkpoints/"],
                            },
                            "actions": {
                                "baseBlob": {
                                    "tierToCool": {"daysAfterModificationGreaterThan": 14},
                                    "delete": {"daysAfterModificationGreaterThan": 90},
                                }
                            },
                        },
                    }
                ]
            }
        }
    }


def test_a_missing_rule_is_added_beside_the_rules_of_others():
    plan = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,)), with_rules(FOREIGN_RULE))
    step = only(plan, "lifecycle policy")
    assert step.action == "update"
    rules = body_of(step)["properties"]["policy"]["rules"]
    assert rules[0] == FOREIGN_RULE
    assert rules[1]["name"] == "ai4infra-checkpoints"


@pytest.mark.parametrize("update", [True, False])
def test_a_changed_rule_of_ours_is_set_right_by_an_update_only(update: bool):
    ours = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,)), NOTHING)
    rule = body_of(only(ours, "lifecycle policy"))["properties"]["policy"]["rules"][0]
    look = with_rules(FOREIGN_RULE, {**rule, "enabled": False})
    plan = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,), update=update), look)
    step = only(plan, "lifecycle policy")
    assert step.action == ("update" if update else "keep")
    assert update or "(disabled)" in str(step.reason)
    if update:
        assert body_of(step)["properties"]["policy"]["rules"] == [FOREIGN_RULE, rule]


def test_a_policy_that_could_not_be_read_is_not_written():
    look = structs.replace(looked_at(made(a_wanted())), lifecycle=None)
    plan = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,)), look)
    assert only(plan, "lifecycle policy").action == "refuse"


def test_a_policy_has_a_hundred_rules_at_most():
    rules = [{**FOREIGN_RULE, "name": f"rule{n}"} for n in range(100)]
    plan = storage_steps(a_wanted(lifecycles=(CHECKPOINTS,)), with_rules(*rules))
    assert "at most 100" in str(only(plan, "lifecycle policy").reason)


@pytest.mark.parametrize("there", [True, False])
def test_premium_blobs_are_deleted_and_never_cooled(there: bool):
    look = with_rules(sku="Premium_LRS") if there else NOTHING
    wanted = a_wanted(sku="Premium_LRS", lifecycles=(CHECKPOINTS,))
    plan = storage_steps(wanted, look)
    (rule,) = body_of(only(plan, "lifecycle policy"))["properties"]["policy"]["rules"]
    assert list(rule["definition"]["actions"]["baseBlob"]) == ["delete"]
    assert "no cool tier" in plan.warnings[0]


def test_a_rule_that_only_cools_has_nothing_to_do_on_a_premium_account():
    rule = LifecycleWanted(container="runs", cool_after_days=7)
    plan = storage_steps(a_wanted(lifecycles=(rule,)), with_rules(sku="Premium_LRS"))
    assert by_kind(plan, "lifecycle policy") == []
    assert "runs is not cooled" in plan.warnings[0]


def test_deleting_before_the_cool_tiers_minimum_is_over_is_said():
    rule = LifecycleWanted(container="runs", cool_after_days=7, delete_after_days=30)
    plan = storage_steps(a_wanted(lifecycles=(rule,)), NOTHING)
    assert "30 days" in plan.warnings[0]


# --- Private endpoints ---


def an_endpoint(**fields: Any) -> PrivateEndpoint:
    plain: dict[str, Any] = {
        "id": f"{group_scope(SUBSCRIPTION, 'rg-net')}/providers/{arm.ENDPOINT}/pe-by-hand",
        "name": "pe-by-hand",
        "subnet_id": SUBNET,
        "target_id": ACCOUNT_ID,
        "group_ids": ("blob",),
        "state": "Approved",
        "zone_ids": (),
    }
    return PrivateEndpoint(**{**plain, **fields})


def a_zone(group: str = "rg-else", *, linked: bool = False, unread: bool = False) -> DnsZone:
    name = "privatelink.blob.core.windows.net"
    vnets = None if unread else (VNET.upper(),) if linked else ()
    return DnsZone(
        id=arm.zone_id(group_scope(SUBSCRIPTION, group), name), name=name, vnet_ids=vnets
    )


FLAT = a_wanted(hns=False, endpoint_subnet=SUBNET)


def test_an_endpoint_that_was_made_by_hand_is_kept_and_gets_its_zone():
    look = StorageLook(endpoints=(an_endpoint(),))
    plan = storage_steps(FLAT, look)
    assert only(plan, "private endpoint").action == "keep"
    group = only(plan, "private DNS zone group")
    assert group.action == "create"
    assert str(group.resource_id).endswith("/pe-by-hand/privateDnsZoneGroups/default")


def test_an_endpoint_with_a_zone_from_elsewhere_needs_no_zone_of_ours():
    zone = "/subscriptions/hub/resourceGroups/dns/providers/Microsoft.Network/privateDnsZones/z"
    plan = storage_steps(FLAT, StorageLook(endpoints=(an_endpoint(zone_ids=(zone,)),)))
    assert by_kind(plan, "private DNS zone") == []
    assert only(plan, "private DNS zone group").action == "keep"


def test_an_endpoint_that_waits_for_approval_is_said():
    plan = storage_steps(FLAT, StorageLook(endpoints=(an_endpoint(state="Pending"),)))
    assert only(plan, "private endpoint").action == "keep"
    assert "connection is Pending" in plan.warnings[0]


def test_an_endpoint_of_our_name_for_something_else_is_not_overwritten():
    foreign = an_endpoint(id=arm.endpoint_id(ACCOUNT_ID, "blob"), target_id=ACCOUNT_ID + "x")
    plan = storage_steps(FLAT, StorageLook(endpoints=(foreign,)))
    assert only(plan, "private endpoint").action == "refuse"


@pytest.mark.parametrize(
    ("zones", "chosen", "linked"),
    [
        ((), GROUP, False),
        ((a_zone("rg-else"),), "rg-else", False),
        ((a_zone("rg-else"), a_zone(GROUP)), GROUP, False),
        ((a_zone(GROUP), a_zone("rg-else", linked=True)), "rg-else", True),
    ],
)
def test_the_zone_that_the_network_is_linked_to_comes_before_ours_and_before_any(
    zones: tuple[DnsZone, ...], chosen: str, linked: bool
):
    plan = storage_steps(FLAT, StorageLook(dns_zones=zones))
    step = only(plan, "private DNS zone")
    assert f"/resourceGroups/{chosen}/" in str(step.resource_id)
    assert step.action == ("keep" if zones else "create")
    assert only(plan, "private DNS link").action == ("keep" if linked else "create")


def test_a_network_of_the_same_name_keeps_its_link_and_ours_gets_another():
    others = structs.replace(
        a_zone(), vnet_ids=(VNET.replace("rg-net", "rg-hub"),), link_names=("VNET",)
    )
    link = only(storage_steps(FLAT, StorageLook(dns_zones=(others,))), "private DNS link")
    assert link.action == "create"
    assert str(link.resource_id).rpartition("/")[2].startswith("vnet-")
    assert isinstance(link.wanted, ArmWrite)
    sent = link.wanted.body or {}
    assert sent["properties"]["virtualNetwork"]["id"] == VNET


def test_a_lifecycle_policy_that_is_kept_says_what_it_does():
    wanted = a_wanted(lifecycles=(CHECKPOINTS,))
    step = only(storage_steps(wanted, looked_at(made(wanted))), "lifecycle policy")
    assert step.action == "keep"
    assert step.detail == "checkpoints/: cool after 14 d, delete after 90 d"


def test_where_versions_are_kept_a_deletion_that_frees_nothing_is_said():
    wanted = a_wanted(hns=False, versioning=True, lifecycles=(CHECKPOINTS,))
    (warning,) = storage_steps(wanted, NOTHING).warnings
    assert "stays as an earlier version" in warning


def test_zones_that_could_not_be_read_are_not_written_over():
    plan = storage_steps(FLAT, StorageLook(dns_zones=None))
    assert [step.kind for step in plan.refusals] == ["private DNS zone"]
    with_zone = StorageLook(dns_zones=None, endpoints=(an_endpoint(zone_ids=("/z",)),))
    assert storage_steps(FLAT, with_zone).refusals == ()


def test_links_that_could_not_be_read_are_left_alone_and_said():
    plan = storage_steps(FLAT, StorageLook(dns_zones=(a_zone(unread=True),)))
    assert only(plan, "private DNS link").action == "keep"
    assert "could not be read" in plan.warnings[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"network": "private"}, "private endpoints for blob and dfs"),
        ({"network": "private", "hns": False}, "private endpoints for blob:"),
        ({"network": "restricted"}, "--allow-ip or --allow-subnet"),
        ({"endpoint_subnet": SUBNET}, "do not close the public one"),
    ],
)
def test_a_closed_door_without_another_and_an_open_one_beside_an_endpoint_are_said(
    asked: dict[str, Any], words: str
):
    (warning,) = storage_steps(a_wanted(**asked), NOTHING).warnings
    assert words in warning


@pytest.mark.parametrize(
    "asked",
    [
        {"network": "private", "endpoint_subnet": SUBNET},
        {"network": "restricted", "allow_ips": ("203.0.113.7",)},
        {"network": "restricted", "endpoint_subnet": SUBNET},
    ],
)
def test_an_account_that_somebody_reaches_needs_no_warning(asked: dict[str, Any]):
    assert storage_steps(a_wanted(**asked), NOTHING).warnings == ()


# --- Role assignments ---


def an_assignment(scope: str = ACCOUNT_ID, **fields: Any) -> RoleAssignment:
    plain: dict[str, Any] = {
        "id": f"{scope}/providers/{arm.ASSIGNMENT}/7d1f0a52-6c3e-4f0b-8a49-0e1d2c3b4a59",
        "scope": scope,
        "role_id": CONTRIBUTOR,
        "principal_id": ALICE,
        "principal_type": "User",
    }
    return RoleAssignment(**{**plain, **fields})


HERE = a_grant(scope=ACCOUNT_ID)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        (an_assignment(), "It is assigned already."),
        (an_assignment(ACCOUNT_ID.upper() + "/"), "It is assigned already."),
        (an_assignment(principal_id=ALICE.replace("-", "").upper()), "It is assigned already."),
        (
            an_assignment(group_scope(SUBSCRIPTION, GROUP)),
            f"Inherited from {group_scope(SUBSCRIPTION, GROUP)}.",
        ),
        (
            an_assignment("/providers/Microsoft.Management/managementGroups/root"),
            "Inherited from /providers/Microsoft.Management/managementGroups/root.",
        ),
        (an_assignment("/"), "Inherited from /."),
        (
            an_assignment(condition="@Resource[x] StringEquals 'y'"),
            "It is assigned, but under a condition that narrows it.",
        ),
    ],
)
def test_a_role_that_is_held_here_or_from_above_is_kept_and_said(
    assignment: RoleAssignment, said: str
):
    (step,) = rbac_steps((HERE,), (assignment,)).steps
    assert (step.action, step.reason, step.resource_id) == ("keep", said, assignment.id)


@pytest.mark.parametrize(
    "assignment",
    [
        an_assignment(principal_id=NODE),
        an_assignment(role_id="acdd72a7-3385-48ef-bd42-f606fba81ae7"),
        an_assignment(arm.container_id(ACCOUNT_ID, "training-data")),
        an_assignment(ACCOUNT_ID + "x"),
        an_assignment(group_scope(SUBSCRIPTION, GROUP), condition="a condition"),
    ],
)
def test_another_role_principal_scope_or_a_condition_above_is_no_such_role(
    assignment: RoleAssignment,
):
    (step,) = rbac_steps((HERE,), (assignment,)).steps
    assert step.action == "create"


def test_assignments_that_could_not_be_read_are_sent_and_it_is_said():
    plan = rbac_steps((HERE,), None)
    assert [s.action for s in plan.steps] == ["create"]
    assert "could not be read" in plan.warnings[0]


def test_a_role_is_removed_by_the_id_of_its_assignment_here():
    found = an_assignment()
    (step,) = rbac_remove_steps((HERE,), (found,)).steps
    assert step.action == "delete"
    assert write_of(step).method == "DELETE"
    assert write_of(step).resource_id == found.id


def test_a_role_from_above_cannot_be_removed_here_and_says_where():
    found = an_assignment(group_scope(SUBSCRIPTION, GROUP))
    (step,) = rbac_remove_steps((HERE,), (found,)).steps
    assert step.action == "refuse"
    assert group_scope(SUBSCRIPTION, GROUP) in str(step.reason)


def test_a_role_that_is_here_and_above_is_removed_here_and_what_stays_is_said():
    above = group_scope(SUBSCRIPTION, GROUP)
    plan = rbac_remove_steps((HERE,), (an_assignment(above), an_assignment()))
    assert [(s.action, s.resource_id) for s in plan.steps] == [("delete", an_assignment().id)]
    (warning,) = plan.warnings
    assert f"inherited from {above}" in warning


def test_removing_what_is_not_assigned_is_nothing_to_do():
    assert rbac_remove_steps((HERE,), ()).changes == ()


@pytest.mark.parametrize(
    ("scope", "blocks"),
    [(ACCOUNT_ID, True), (group_scope(SUBSCRIPTION, GROUP), True), (ACCOUNT_ID + "x", False)],
)
def test_a_lock_at_or_above_keeps_a_role_from_being_removed(scope: str, blocks: bool):
    plan = rbac_remove_steps((HERE,), (an_assignment(),), locks=(a_lock(scope),))
    assert bool(plan.refusals) is blocks


# --- Locks ---


def a_lock(scope: str = ACCOUNT_ID, level: str = "CanNotDelete") -> Lock:
    return Lock(id=f"{scope}/providers/{arm.LOCK}/keep", name="keep", level=level)


def test_a_lock_above_the_account_is_lock_enough():
    look = StorageLook(locks=(a_lock(group_scope(SUBSCRIPTION, GROUP)),))
    step = only(storage_steps(a_wanted(lock=True), look), "lock")
    assert step.action == "keep"
    assert "keep (CanNotDelete)" in str(step.reason)


@pytest.mark.parametrize("lock", [True, False])
def test_locks_that_could_not_be_read_are_unknown_and_said(lock: bool):
    plan = storage_steps(a_wanted(lock=lock), StorageLook(locks=None))
    assert [w for w in plan.warnings if "locks" in w and "could not be read" in w]
    assert plan.refusals == ()


def test_unknown_locks_are_not_worth_a_word_where_nothing_changes():
    look = structs.replace(looked_at(made(a_wanted())), locks=None)
    assert storage_steps(a_wanted(), look).warnings == ()


def test_unknown_locks_are_said_before_roles_and_deletions():
    look = structs.replace(looked_at(made(a_wanted())), locks=None)
    plans = [
        rbac_steps((HERE,), (), locks=None),
        rbac_remove_steps((HERE,), (an_assignment(),), locks=None),
        storage_delete_steps(look),
    ]
    assert [any("locks" in w for w in plan.warnings) for plan in plans] == [True] * 3


def test_that_only_the_groups_locks_could_be_read_is_said_before_changes():
    look = structs.replace(looked_at(made(a_wanted())), locks_whole=False)
    plans = [
        storage_steps(a_wanted(containers=("runs",)), look),
        rbac_steps((HERE,), (), locks_whole=False),
        rbac_remove_steps((HERE,), (an_assignment(),), locks_whole=False),
        storage_delete_steps(look),
    ]
    assert all(any("locks of the subscription itself" in w for w in p.warnings) for p in plans)
    assert storage_steps(a_wanted(), look).warnings == ()


def test_a_lock_against_changes_refuses_changes_and_nothing_else():
    world = made(a_wanted())
    look = structs.replace(looked_at(world), locks=(a_lock(level="ReadOnly"),))
    assert storage_steps(a_wanted(), look).refusals == ()
    (refusal,) = storage_steps(a_wanted(containers=("runs",)), look).refusals
    assert f"az lock delete --ids {a_lock().id}" in str(refusal.reason)


# --- Reading back ---


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"allowSharedKeyAccess": True}, "allowSharedKeyAccess"),
        ({"minimumTlsVersion": "TLS1_0"}, "minimumTlsVersion"),
        ({"publicNetworkAccess": "Enabled"}, "publicNetworkAccess"),
        ({"isHnsEnabled": None}, "isHnsEnabled"),
        ({"networkAcls": {"defaultAction": "Allow"}}, "networkAcls.defaultAction"),
        ({"encryption": {}}, "requireInfrastructureEncryption"),
    ],
)
def test_what_a_policy_changed_is_found_when_read_back(changed: dict[str, Any], check: str):
    wanted = a_wanted(network="private", infrastructure_encryption=True)
    assert {f.verdict for f in post_check(wanted, looked_at(made(wanted)))} == {"pass"}
    findings = post_check(wanted, looked_at(made(wanted, **changed)))
    assert [f.check for f in findings if f.verdict == "fail"] == [check]


def test_what_the_service_does_not_tell_is_unknown_and_does_not_pass():
    findings = post_check(a_wanted(), looked_at(made(a_wanted(), allowBlobPublicAccess=None)))
    assert [(f.check, f.actual) for f in findings if f.verdict == "unknown"] == [
        ("allowBlobPublicAccess", None)
    ]


# --- What could not be read ---


def test_containers_that_could_not_be_read_are_not_written_over():
    look = structs.replace(looked_at(made(a_wanted())), containers=None)
    (refusal,) = storage_steps(a_wanted(), look).refusals
    assert refusal.kind == "container"
    assert "could not be read" in str(refusal.reason)


def test_private_endpoints_that_could_not_be_read_are_not_written_over():
    plan = storage_steps(FLAT, StorageLook(endpoints=None))
    (refusal,) = plan.refusals
    assert refusal.kind == "private endpoint"
    assert "could not be read" in str(refusal.reason)


def test_roles_that_could_not_be_read_are_said_of_a_new_account_as_well():
    plan = storage_steps(a_wanted(grants=(a_grant(),)), StorageLook(assignments=None))
    assert any("role assignments" in w for w in plan.warnings)


def test_a_name_whose_owner_is_unknown_is_not_called_somebody_elses():
    look = StorageLook(name=NameCheck(state="in use"))
    (refusal,) = storage_steps(a_wanted(), look).refusals
    assert "could not be found out" in str(refusal.reason)


# --- Deleting ---


def test_a_deletion_says_what_is_lost_and_takes_our_endpoints_along():
    wanted = everything(lock=False)
    look = looked_at(made(wanted))
    plan = storage_delete_steps(
        structs.replace(look, endpoints=(*(look.endpoints or ()), an_endpoint()))
    )
    assert [(s.action, s.kind) for s in plan.steps] == [
        ("delete", "private endpoint"),
        ("delete", "private endpoint"),
        ("delete", "storage account"),
    ]
    assert "2 containers: training-data, checkpoints" in plan.steps[-1].detail
    assert any("Soft delete does not outlive" in w for w in plan.warnings)
    assert any("classified confidential" in w for w in plan.warnings)
    assert any("pe-by-hand stays" in w for w in plan.warnings)


def test_an_endpoint_that_could_not_be_read_is_named_before_a_deletion():
    unread = PrivateEndpoint(id=arm.endpoint_id(ACCOUNT_ID, "blob"), name="pe", state="Approved")
    look = structs.replace(looked_at(made(a_wanted())), endpoints=(unread,))
    plan = storage_delete_steps(look)
    assert [s.kind for s in plan.steps] == ["storage account"]
    assert any(unread.id in w and "could not be read" in w for w in plan.warnings)


def test_what_a_deletion_loses_is_unknown_where_containers_were_not_listed():
    look = structs.replace(looked_at(made(a_wanted())), containers=None)
    assert "unknown" in storage_delete_steps(look).steps[0].detail


@pytest.mark.parametrize("level", ["CanNotDelete", "ReadOnly"])
def test_a_lock_keeps_an_account_from_being_deleted(level: str):
    look = structs.replace(looked_at(made(a_wanted())), locks=(a_lock(level=level),))
    plan = storage_delete_steps(look)
    assert plan.changes == ()
    assert plan.refusals[0].name == "keep"


def test_deleting_what_is_not_there_is_nothing_to_do():
    assert storage_delete_steps(NOTHING) == Plan(steps=())


# --- What no account can be ---


RESTORE = {"hns": False, "versioning": True, "change_feed": True, "restore_days": 6}


@pytest.mark.parametrize(
    ("asked", "kept"), [({}, 7), ({"classification": "confidential", "restore_days": 13}, 14)]
)
def test_restore_is_measured_by_the_soft_delete_that_nobody_had_to_say(
    asked: dict[str, Any], kept: int
):
    plan = storage_steps(a_wanted(**{**RESTORE, **asked}), NOTHING)
    (sent,) = [body_of(s)["properties"] for s in plan.steps if s.kind == "blob service settings"]
    assert sent["restorePolicy"]["days"] == kept - 1
    assert sent["deleteRetentionPolicy"]["days"] == kept


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"account": "Not_A_Name"}, "Not_A_Name"),
        ({"containers": ("a--b",)}, "a--b"),
        ({"containers": ("$logs",)}, "$logs"),
        ({"lifecycles": (LifecycleWanted(container="X", delete_after_days=1),)}, "X"),
        ({"sku": "Premium_GRS"}, "Premium_GRS"),
        ({"classification": "secret"}, "secret"),
        ({"network": "open", "allow_ips": ("203.0.113.7",)}, "--network open"),
        ({"network": "private", "allow_subnets": (SUBNET,)}, "--network private"),
        ({"allow_ips": ("10.0.0.4",)}, "private"),
        ({"allow_ips": ("192.168.1.0/24",)}, "private"),
        ({"allow_ips": ("203.0.113.0/31",)}, "range of 2"),
        ({"allow_ips": ("203.0.113.1/24",)}, "no IPv4"),
        ({"allow_ips": ("2001:db8::1",)}, "no IPv4"),
        ({"allow_ips": ("203.0.113.0/255.255.255.0",)}, "no IPv4"),
        ({"allow_ips": ("203.0.113.0/024",)}, "no IPv4"),
        ({"allow_ips": tuple(f"203.0.{n // 256}.{n % 256}" for n in range(401))}, "400"),
        ({"allow_subnets": ("default",)}, "subnet"),
        ({"endpoint_subnet": VNET}, "subnet"),
        ({"key_uri": "http://kv/keys/a", "key_identity": KEY_IDENTITY}, "URI"),
        ({"key_uri": f"{KEY}?sig=1", "key_identity": KEY_IDENTITY}, "URI"),
        ({"key_uri": KEY}, "identity"),
        ({"key_identity": KEY_IDENTITY}, "no key"),
        ({"key_uri": KEY, "key_identity": ALICE}, "user-assigned identity"),
        ({"versioning": True}, "no blob versioning"),
        ({"change_feed": True}, "no change feed"),
        ({"restore_days": 6}, "point-in-time restore"),
        ({"hns": False, "restore_days": 6}, "needs versioning"),
        (
            {
                "hns": False,
                "restore_days": 7,
                "versioning": True,
                "change_feed": True,
                "soft_delete_days": 7,
            },
            "fewer days",
        ),
        ({**RESTORE, "restore_days": 7}, "fewer days (7) than soft delete keeps (7)"),
        ({**RESTORE, "sku": "Premium_LRS"}, "Premium block blobs have no point-in-time"),
        ({"soft_delete_days": 0}, "1 to 365"),
        ({"soft_delete_days": 366}, "1 to 365"),
        ({"lifecycles": (CHECKPOINTS, CHECKPOINTS)}, "Two lifecycles"),
        (
            {
                "sku": "Premium_LRS",
                "lifecycles": (LifecycleWanted(container="runs", cool_after_days=1),),
            },
            "no cool tier",
        ),
        ({"tags": {"a/b": "c"}}, "cannot be a tag"),
        ({"tags": {" ": "c"}}, "cannot be a tag"),
        ({"tags": {"a": "b\nc"}}, "cannot be a tag"),
        ({"tags": {"a": "b" * 257}}, "too long"),
        ({"tags": {"Azure-team": "b"}}, "cannot be a tag"),
        ({"tags": {"microsoft.x": "b"}}, "cannot be a tag"),
        ({"tags": {"a": "1", "A": "2"}}, "given twice"),
        ({"tags": {str(n): "" for n in range(51)}}, "at most 50"),
    ],
)
def test_what_no_account_can_be_is_a_usage_error(asked: dict[str, Any], words: str):
    with pytest.raises(UsageError) as caught:
        check_wanted(a_wanted(**asked))
    assert words in caught.value.message
    with pytest.raises(UsageError):
        storage_steps(a_wanted(**asked), NOTHING)


@pytest.mark.parametrize(
    ("text", "premium", "sku"),
    [
        (None, False, None),
        (None, True, "Premium_LRS"),
        ("LRS", False, "Standard_LRS"),
        ("zrs", True, "Premium_ZRS"),
        ("standard_ra-gzrs", False, "Standard_RAGZRS"),
        ("Premium_ZRS", False, "Premium_ZRS"),
    ],
)
def test_a_sku_is_named_with_or_without_its_tier(text: str | None, premium: bool, sku: str | None):
    assert parse_sku(text, premium=premium) == sku


@pytest.mark.parametrize(
    ("text", "premium"),
    [
        ("GRS", True),
        ("Premium_GZRS", False),
        ("Standard_LRS", True),
        ("XRS", False),
        ("", False),
        ("StandardV2_LRS", False),
    ],
)
def test_a_sku_that_does_not_exist_offers_those_that_do(text: str, premium: bool):
    with pytest.raises(UsageError) as caught:
        parse_sku(text, premium=premium)
    assert "LRS, ZRS" in str(caught.value.hint)


def test_every_kind_of_write_has_an_api_version_and_one_stage_needs_nothing_of_itself():
    steps = storage_steps(everything(), NOTHING).steps
    writes = [write_of(step) for step in steps]
    assert {w.resource_type for w in writes} == set(arm.API_VERSIONS)
    assert all(w.api_version == arm.API_VERSIONS[w.resource_type] for w in writes)
    stage = {arm.id_key(w.resource_id): w.stage for w in writes}
    for write in writes:
        needed = [*write.after, arm.parent_of(write.resource_id)]
        assert all(stage.get(arm.id_key(i), -1) < write.stage for i in needed)


def test_the_plan_does_not_know_the_rest_of_an_account():
    account = StorageAccount(id=ACCOUNT_ID, name=ACCOUNT, location="eastus2", kind="StorageV2")
    look = StorageLook(
        group=ResourceGroup(id=group_scope(SUBSCRIPTION, GROUP), name=GROUP, location="eastus2"),
        account=structs.replace(account, hns=True),
        lifecycle=(LifecycleRule(name="x"),),
    )
    plan = storage_steps(a_wanted(), look)
    assert only(plan, storage_plan.BLOB_SERVICE).reason == "The settings could not be read."
    assert "minimumTlsVersion is not said" in str(only(plan, "storage account").reason)
