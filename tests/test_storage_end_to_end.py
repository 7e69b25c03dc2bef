"""Storage and roles from the first call to the last, over the sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from support import broken, failed
from support_between import Between, dropped

from ai4infra import provision
from ai4infra.client import Azure
from ai4infra.cloud import providers, resources
from ai4infra.model import Receipt, StepResult
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.world import Policy
from ai4infra.settings import Settings

GROUP = "rg-ai-training"
ACCOUNTS = "Microsoft.Storage/storageAccounts"
READER = "Storage Blob Data Reader"
GROUP_API, COMPUTE_API, NETWORK_API, IDENTITY_API = (
    "2024-03-01",
    "2024-07-01",
    "2024-05-01",
    "2023-01-31",
)


@pytest.fixture
def between(sandbox: Sandbox) -> Between:
    return Between(sandbox)


@pytest.fixture
def az(between: Between, sandbox: Sandbox) -> Azure:
    return Azure(between.session(), Settings(subscription=sandbox.subscription_id))


def group_id(az: Azure, name: str = GROUP) -> str:
    return f"/subscriptions/{az.settings.subscription}/resourceGroups/{name}"


def make(az: Azure, id_: str, version: str, **body: Any) -> str:
    """Put a resource into the world, as somebody else would have."""
    told = {"location": "eastus2", **body}
    resources.put_resource(
        az.session, id_, version, told, what="Cannot make it", pause=az.session.transport.sleep
    )
    return id_


def a_group(az: Azure, name: str = GROUP, **body: Any) -> str:
    return make(az, group_id(az, name), GROUP_API, **body)


def a_vm(az: Azure, name: str = "node-0", **body: Any) -> str:
    above = a_group(az, "rg-train")
    id_ = f"{above}/providers/Microsoft.Compute/virtualMachines/{name}"
    return make(az, id_, COMPUTE_API, properties={}, **body)


def a_subnet(az: Azure) -> str:
    vnet = f"{a_group(az, 'rg-net')}/providers/Microsoft.Network/virtualNetworks/vnet"
    subnet = {"name": "storage", "properties": {"addressPrefix": "10.0.1.0/24"}}
    space = {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [subnet]}
    return f"{make(az, vnet, NETWORK_API, properties=space)}/subnets/storage"


def created(az: Azure, **options: Any) -> Receipt:
    return az.apply(az.plan_storage(**options))


def done(receipt: Receipt) -> list[str]:
    """What was sent, by kind."""
    return [r.step.kind for r in receipt.results if r.state == "done"]


def by_kind(receipt: Receipt, kind: str) -> StepResult:
    return next(r for r in receipt.results if r.step.kind == kind)


def writes(between: Between) -> list[str]:
    """The writing requests so far; a check of a name writes nothing."""
    return [path for method, path, _ in between.writes if method != "POST"]


# --- the first run and the second


def test_one_call_makes_the_account_right_and_gives_us_access(az) -> None:
    receipt = created(az)
    assert receipt.complete
    account = az.storage_accounts()[0]
    assert account.hns
    assert account.minimum_tls_version == "TLS1_2"
    assert account.allow_shared_key_access is False
    assert account.allow_blob_public_access is False
    assert account.default_to_oauth
    details = az.storage_details(account.name)
    assert [c.name for c in details.containers or ()] == ["training-data"]
    assert details.blob_service is not None
    assert details.blob_service.blob_soft_delete_days == 7
    assert len(az.assignments(account.id, to="me", inherited=False)) == 1


def test_the_first_run_asks_no_more_than_it_must(az, between) -> None:
    created(az)
    polls = [path for _, path, _ in between.sent if "asyncoperations" in path]
    assert len(between.sent) - len(polls) == 6


def test_the_second_run_has_nothing_to_do(az, between) -> None:
    created(az)
    before = len(writes(between))
    plan = az.plan_storage()
    assert plan.changes == ()
    assert plan.warnings == ()
    assert az.apply(plan).complete
    assert len(writes(between)) == before


def test_everything_that_can_be_asked_for_is_made_and_found_again(az, between) -> None:
    asked = {
        "account": "everything0",
        "network": "restricted",
        "allow_ips": ["203.0.113.7"],
        "private_endpoint": a_subnet(az),
        "containers": ["data", "runs"],
        "checkpoints": ["ckpt"],
        "readers": ["me"],
        "classification": "internal",
        "infrastructure_encryption": True,
        "tags": {"team": "vision"},
        "lock": True,
    }
    receipt = created(az, **asked)
    assert receipt.complete, [r for r in receipt.results if r.state != "done"]
    assert {f.verdict for f in receipt.findings} == {"pass"}
    assert done(receipt).count("private endpoint") == 2
    before = len(writes(between))
    again = az.plan_storage(**asked)
    assert again.changes == ()
    assert again.refusals == ()
    assert len(writes(between)) == before


@pytest.mark.slow
def test_two_hundred_containers_and_fifty_grants(az, between) -> None:
    nodes = [a_vm(az, f"node-{n}", identity={"type": "SystemAssigned"}) for n in range(50)]
    between.sandbox.advance(600)
    before = len(writes(between))
    receipt = created(az, containers=[f"runs-{n}" for n in range(200)], readers=nodes)
    assert receipt.complete
    assert len(writes(between)) - before == 3 + 200 + 50
    assert (
        az.plan_storage(containers=[f"runs-{n}" for n in range(200)], readers=nodes).changes == ()
    )


# --- what is there already


def test_a_group_that_is_there_keeps_its_tags(az) -> None:
    a_group(az, tags={"owner": "ada"})
    assert created(az).complete
    found = resources.group(az.session, az.subscription().id, GROUP)
    assert found is not None
    assert found.tags == {"owner": "ada"}


def test_foreign_tags_and_rules_survive_an_update(az) -> None:
    created(az, account="datasets0", tags={"Team": "vision"}, lifecycles=["old=7d:30d"])
    created(az, account="datasets0", tags={"team": "audio", "x": "1"}, update=True)
    account = az.storage_account("datasets0")
    assert account.tags == {"Team": "audio", "x": "1"}
    created(az, account="datasets0", lifecycles=["new=7d:30d"])
    names = [r.name for r in az.storage_details("datasets0").lifecycle or ()]
    assert len(names) == 2


def test_a_fixed_difference_refuses_and_nothing_is_written(az, between) -> None:
    created(az, account="flat0", hns=False)
    before = len(writes(between))
    plan = az.plan_storage("flat0")
    assert "isHnsEnabled" in str(plan.refusals[0].reason)
    receipt = az.apply(plan)
    assert receipt.failed
    assert len(writes(between)) == before


def test_drift_is_told_and_mended_only_when_asked(az) -> None:
    created(az, account="drifting0")
    id_ = az.storage_account("drifting0").id
    body = {"properties": {"allowSharedKeyAccess": True}}
    resources.patch_resource(az.session, id_, "2024-01-01", body, what="x")
    plan = az.plan_storage("drifting0")
    assert plan.changes == ()
    assert "allowSharedKeyAccess" in plan.warnings[0]
    receipt = created(az, account="drifting0", update=True)
    assert receipt.complete
    assert az.storage_account("drifting0").allow_shared_key_access is False


def test_a_name_of_our_own_in_another_group_is_told(az) -> None:
    created(az, account="elsewhere0", group="rg-one")
    plan = az.plan_storage("elsewhere0", group="rg-two")
    assert "rg-one" in str(plan.refusals[0].reason)


def test_a_name_of_somebody_else_is_told(az) -> None:
    plan = az.plan_storage("mldata")
    assert "Somebody else" in str(plan.refusals[0].reason)


def test_a_name_that_the_check_calls_free_and_the_service_does_not_give(az) -> None:
    receipt = created(az, account="staitrainingold")
    account = by_kind(receipt, "storage account")
    assert (account.state, account.code) == ("failed", "StorageAccountAlreadyTaken")
    assert account.hint


# --- what goes wrong, and the run after


def test_a_failure_in_the_middle_is_finished_by_the_next_run(az, between) -> None:
    between.instead("PUT", "blobServices/default$", failed(400, "BadRequest"))
    receipt = created(az)
    assert done(receipt) == ["resource group", "storage account"]
    assert by_kind(receipt, "container").state == "not reached"
    plan = az.plan_storage(update=True)
    kinds = {step.kind for step in plan.changes}
    assert kinds == {"blob service settings", "container", "role assignment"}
    assert az.apply(plan).complete
    assert az.plan_storage().changes == ()


def test_an_update_of_soft_delete_leaves_other_settings_of_the_blob_service(az) -> None:
    created(az, account="settings00")
    cors = {
        "corsRules": [
            {
                "allowedOrigins": ["https://example.com"],
                "allowedMethods": ["GET"],
                "maxAgeInSeconds": 60,
                "exposedHeaders": ["*"],
                "allowedHeaders": ["*"],
            }
        ]
    }
    id_ = f"{group_id(az)}/providers/{ACCOUNTS}/settings00/blobServices/default"
    tracking = {"enable": True, "name": "AccessTimeTracking"}
    others = {"cors": cors, "lastAccessTimeTrackingPolicy": tracking}
    make(az, id_, "2024-01-01", properties=others)
    created(az, account="settings00", update=True)
    settings = az.storage_details("settings00").blob_service
    assert settings.blob_soft_delete_days == settings.container_soft_delete_days == 7
    assert settings.raw["cors"] == cors
    assert settings.raw["lastAccessTimeTrackingPolicy"] == tracking


def test_ctrl_c_in_mid_creation_is_understood_by_the_next_run(az, between) -> None:
    between.instead("GET", "asyncoperations", broken(KeyboardInterrupt()))
    with pytest.raises(provision.ApplyInterrupted) as caught:
        created(az)
    assert by_kind(caught.value.receipt, "storage account").state in ("in progress", "failed")
    assert created(az, update=True).complete
    assert az.plan_storage().changes == ()


def test_without_waiting_the_next_run_finishes(az) -> None:
    receipt = az.apply(az.plan_storage(), wait=False)
    assert by_kind(receipt, "storage account").state == "in progress"
    assert not receipt.failed
    assert created(az, update=True).complete
    assert az.plan_storage().changes == ()


def test_a_token_that_expires_in_mid_creation_ends_nothing(az, sandbox) -> None:
    sandbox.fail("expired-token", "asyncoperations")
    assert created(az).complete


@pytest.mark.parametrize("kind", ["throttled", "internal-error", "unavailable", "drop"])
def test_trouble_of_the_service_is_waited_out(az, sandbox, kind) -> None:
    sandbox.fail(kind, "storageAccounts/[a-z0-9]+[?]", method="PUT", retry_after=5)
    assert created(az).complete


def test_a_connection_that_drops_while_the_account_is_made_is_no_second_account(
    az, between
) -> None:
    between.instead("GET", "asyncoperations", dropped())
    receipt = created(az)
    account = by_kind(receipt, "storage account")
    assert account.state in ("done", "in progress")
    assert created(az, update=True).complete
    assert len(az.storage_accounts()) == 1


def deny(az: Azure, sandbox: Sandbox) -> None:
    sandbox.world.state.policies.append(
        Policy(
            name="deny-public",
            display_name="No public network",
            resource_type=ACCOUNTS,
            field="properties.publicNetworkAccess",
            operator="notEquals",
            value="Disabled",
        )
    )


def test_a_policys_denial_is_readable_and_the_way_out_works(az, sandbox) -> None:
    deny(az, sandbox)
    account = by_kind(created(az), "storage account")
    assert (account.state, account.code) == ("failed", "RequestDisallowedByPolicy")
    for word in ("No public network", "properties.publicNetworkAccess", "'Disabled'"):
        assert word in str(account.message)
    assert created(az, network="private").complete


def test_a_policy_that_changes_what_was_sent_is_found(az, sandbox) -> None:
    sandbox.world.state.policies.append(
        Policy(
            name="keys-on",
            effect="modify",
            resource_type=ACCOUNTS,
            field="properties.allowSharedKeyAccess",
            operator="equals",
            value=False,
            put=True,
        )
    )
    receipt = created(az)
    assert [f.check for f in receipt.overridden] == ["allowSharedKeyAccess"]
    assert receipt.failed


def test_a_lock_refuses_the_deletion_before_anything_is_sent(az, between) -> None:
    created(az, account="locked0", lock=True)
    before = len(writes(between))
    plan = az.plan_storage_delete("locked0")
    assert plan.refusals
    assert az.apply(plan).failed
    assert len(writes(between)) == before


def test_an_account_goes_with_its_endpoints(az) -> None:
    created(az, account="leaving0", private_endpoint=a_subnet(az), network="private")
    receipt = az.apply(az.plan_storage_delete("leaving0"))
    assert receipt.complete
    assert done(receipt).count("private endpoint") == 2
    assert az.storage_accounts() == ()


# --- roles


def test_a_machine_that_gets_its_identity_now_is_waited_for(az, sandbox) -> None:
    a_vm(az)
    plan = az.plan_storage(readers=["vm:rg-train/node-0"], enable_identity=True)
    receipt = az.apply(plan)
    assert receipt.complete
    assert "managed identity" in done(receipt)
    assert az.plan_storage(readers=["vm:rg-train/node-0"]).changes == ()


def test_all_identities_that_users_gave_a_machine_get_the_role(az, sandbox) -> None:
    above = a_group(az, "rg-train")
    providers.register(az.session, az.subscription().id, "Microsoft.ManagedIdentity")
    sandbox.advance(600)
    ids = [
        make(
            az,
            f"{above}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/uai-{n}",
            IDENTITY_API,
        )
        for n in range(2)
    ]
    users = {"type": "UserAssigned", "userAssignedIdentities": {id_: {} for id_ in ids}}
    a_vm(az, identity=users)
    receipt = created(az, readers=["vm:rg-train/node-0"])
    assert receipt.complete
    assert done(receipt).count("role assignment") == 2


def test_a_role_works_some_time_after_it_was_given_and_the_waiting_tells(az) -> None:
    created(az, account="waiting0")
    id_ = az.storage_account("waiting0").id
    found = az.wait_role("Storage Blob Data Contributor", "me", id_)
    assert found.works
    assert found.elapsed_seconds > 0
    again = az.wait_role("Storage Blob Data Contributor", "me", id_)
    assert (again.works, again.elapsed_seconds) == (True, 0.0)


def test_an_inherited_role_is_not_given_twice(az) -> None:
    above = a_group(az)
    assert az.apply(az.plan_assign(READER, "me", above)).complete
    plan = az.plan_storage(readers=["me"])
    (step,) = [s for s in plan.steps if s.kind == "role assignment"]
    assert step.action == "keep"
    assert "Inherited" in str(step.reason)


def test_a_role_is_given_found_and_taken_away(az) -> None:
    created(az, account="roles0")
    id_ = az.storage_account("roles0").id
    assert az.apply(
        az.plan_assign(READER, "me", f"{id_}/".replace("/resourceG", "/RESOURCEG"))
    ).complete
    assert az.plan_assign(READER, "me", id_).changes == ()
    assert az.apply(az.plan_unassign(READER, "me", id_)).complete
    assert az.plan_unassign(READER, "me", id_).changes == ()


def test_one_that_somebody_gave_under_another_name_is_kept(az, between) -> None:
    created(az, account="named0")
    id_ = az.storage_account("named0").id
    plan = az.plan_assign(READER, "me", id_)
    step = plan.changes[0]
    wanted: Any = step.wanted
    name = "0b7ec700-0000-4000-8000-00000000abcd"
    other = id_ + f"/providers/Microsoft.Authorization/roleAssignments/{name}"
    resources.put_resource(az.session, other, "2022-04-01", wanted.body, what="x")
    receipt = az.apply(plan)
    assert receipt.results[0].state == "kept"
    assert name in str(receipt.results[0].message)


def test_the_unregistered_provider_is_registered_when_asked(az, sandbox) -> None:
    world = sandbox.world
    key = f"{sandbox.subscription_id}/microsoft.storage"
    world.state.registrations.pop(key, None)
    plan = az.plan_storage(register=True)
    assert az.apply(plan).complete


def test_a_plan_that_is_shown_writes_nothing(az, between) -> None:
    az.plan_storage(readers=["me"])
    assert writes(between) == []
