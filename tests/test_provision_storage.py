"""What is looked at before a plan of storage, and what cannot be read is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from support import Script, answer, failed, listed
from support_storage import (
    ACCOUNT,
    ACCOUNT_ID,
    GROUP,
    SUBNET,
    SUBSCRIPTION,
    VNET,
    a_grant,
    a_wanted,
)

from ai4infra import provision
from ai4infra.arm import endpoint_id
from ai4infra.errors import (
    ForbiddenError,
    NotFoundError,
    SignInError,
    UsageError,
)
from ai4infra.model import NameCheck, ResourceGroup, StorageLook
from ai4infra.storage_names import default_account_name, group_scope

GROUP_ID = group_scope(SUBSCRIPTION, GROUP)
GROUP_ROW = {"id": GROUP_ID, "name": GROUP, "location": "eastus2"}
FREE = answer(200, {"nameAvailable": True})
NOT_THERE = failed(404, "ResourceNotFound")
NO_GROUP = failed(404, "ResourceGroupNotFound")
FORBIDDEN = failed(403, "AuthorizationFailed")
RULE = {"name": "ours", "definition": {}}


def account_row(**properties: Any) -> dict[str, Any]:
    row = {"id": ACCOUNT_ID, "name": ACCOUNT, "location": "eastus2", "kind": "StorageV2"}
    return {**row, "properties": {"isHnsEnabled": True, **properties}}


def azure(**replies: Any) -> Script:
    """An Azure with the account and everything around it, except where a reply says otherwise."""
    given = {
        "name": FREE,
        "blobs": answer(200, {"properties": {}}),
        "containers": listed({"id": "/c", "name": "training-data"}),
        "policy": answer(200, {"properties": {"policy": {"rules": [RULE]}}}),
        "assignments": listed(),
        "locks": listed(),
        "endpoints": NOT_THERE,
        "links": listed(),
        "zones": listed(),
        "vnet": answer(200, {"id": VNET, "name": "vnet", "location": "westeurope"}),
        "network": answer(200, {"namespace": "x", "registrationState": "Registered"}),
        "account": answer(200, account_row()),
        "group": answer(200, GROUP_ROW),
        **replies,
    }
    script = Script()
    for kind, pattern in PATTERNS.items():
        script.on(pattern, given[kind])
    return script


PATTERNS = {
    "name": "POST .*checkNameAvailability",
    "blobs": "GET .*blobServices/default[?]",
    "containers": "GET .*blobServices/default/containers",
    "policy": "GET .*managementPolicies/default",
    "assignments": "GET .*roleAssignments",
    "locks": "GET .*Microsoft.Authorization/locks",
    "endpoints": "GET .*privateEndpoints",
    "links": "GET .*virtualNetworkLinks",
    "zones": "GET .*privateDnsZones",
    "vnet": "GET .*virtualNetworks/vnet[?]",
    "network": "GET .*providers/Microsoft.Network[?]",
    "account": "GET .*storageAccounts/",
    "group": "GET .*resourceGroups/[^/]+[?]",
}


def look(script: Script, **fields: Any) -> StorageLook:
    return provision.look_storage(script.session(), a_wanted(**fields))


def paths(script: Script) -> set[str]:
    """The last part of each path that was asked."""
    return {url.partition("?")[0].rpartition("/")[2] for url in script.urls}


# --- nothing there yet


def test_without_a_group_only_the_name_is_asked_about() -> None:
    script = azure(account=NO_GROUP)
    assert look(script) == StorageLook(name=NameCheck(state="available"), assignments=())
    assert len(script.requests) == 2


def test_a_name_made_of_subscription_and_group_is_not_asked_about_in_a_new_group() -> None:
    script = azure(account=NO_GROUP)
    found = look(script, account=default_account_name(SUBSCRIPTION, GROUP))
    assert found == StorageLook(assignments=())
    assert len(script.requests) == 1


def test_in_a_group_that_is_there_every_name_is_asked_about() -> None:
    script = azure(account=NOT_THERE)
    found = look(script, account=default_account_name(SUBSCRIPTION, GROUP))
    assert found.name == NameCheck(state="available")


def test_who_would_register_looks_before() -> None:
    state = answer(200, {"namespace": "x", "registrationState": "NotRegistered"})
    script = Script().on("GET .*providers/Microsoft.Storage[?]", state)
    script.replies += azure(account=NO_GROUP).replies
    assert look(script, register=True).unregistered == ("Microsoft.Storage",)


def test_in_a_group_its_place_and_its_locks_are_asked_for_as_well() -> None:
    script = azure(account=NOT_THERE)
    found = look(script)
    assert found.group == ResourceGroup(id=GROUP_ID, name=GROUP, location="eastus2")
    assert paths(script) == {ACCOUNT, "checkNameAvailability", GROUP, "locks"}


def test_roles_that_the_group_would_pass_on_are_asked_for_where_roles_are_wanted() -> None:
    script = azure(account=NOT_THERE)
    look(script, grants=(a_grant(),))
    assert any(f"{GROUP_ID}/providers/Microsoft.Authorization/roleAssign" in u for u in script.urls)


def test_looking_changes_nothing() -> None:
    script = azure(account=NOT_THERE)
    look(script, grants=(a_grant(),), endpoint_subnet=SUBNET)
    assert {r.method for r in script.requests} == {"GET", "POST"}
    assert [u for u, r in zip(script.urls, script.requests, strict=True) if r.method == "POST"] == [
        next(u for u in script.urls if "checkNameAvailability" in u)
    ]


def test_a_subscription_that_does_not_exist_is_no_missing_account() -> None:
    with pytest.raises(NotFoundError) as caught:
        look(azure(account=failed(404, "SubscriptionNotFound")))
    assert caught.value.code == "SubscriptionNotFound"


UNREGISTERED = failed(
    409,
    "MissingSubscriptionRegistration",
    "The subscription is not registered to use namespace 'Microsoft.Storage'.",
)


@pytest.mark.parametrize(
    "replies", [{"account": UNREGISTERED}, {"account": NO_GROUP, "name": UNREGISTERED}]
)
def test_a_provider_that_is_not_registered_is_told(replies) -> None:
    assert look(azure(**replies)).unregistered == ("Microsoft.Storage",)


def test_a_plan_for_an_unregistered_provider_says_so_or_registers_it() -> None:
    script = azure(account=UNREGISTERED)
    plan = provision.plan_storage(script.session(), a_wanted())
    assert [step.kind for step in plan.refusals] == ["provider registration"]
    assert "--register" in str(plan.refusals[0].reason)
    plan = provision.plan_storage(script.session(), a_wanted(register=True))
    assert plan.refusals == ()
    assert plan.steps[0].kind == "provider registration"


def test_a_group_that_is_there_is_kept_where_the_provider_is_not_registered() -> None:
    plan = provision.plan_storage(azure(account=UNREGISTERED).session(), a_wanted(register=True))
    assert [s.action for s in plan.steps if s.kind == "resource group"] == ["keep"]


@pytest.mark.parametrize("part", ["name", "group"])
def test_nothing_is_planned_where_what_decides_cannot_be_read(part) -> None:
    with pytest.raises(ForbiddenError):
        look(azure(account=NOT_THERE, **{part: FORBIDDEN}))


def test_an_account_that_may_not_be_read_is_not_a_missing_one() -> None:
    with pytest.raises(ForbiddenError):
        look(azure(account=FORBIDDEN))


# --- an account that is there


def test_everything_of_an_account_is_looked_at() -> None:
    found = look(azure())
    assert found.account is not None
    assert found.account.hns is True
    assert found.name is None
    assert [c.name for c in found.containers or ()] == ["training-data"]
    assert [r.name for r in found.lifecycle or ()] == ["ours"]
    assert found.blob_service is not None
    assert (found.assignments, found.locks, found.endpoints, found.dns_zones) == ((), (), (), ())


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("blobs", "blob_service"),
        ("containers", "containers"),
        ("policy", "lifecycle"),
        ("assignments", "assignments"),
        ("locks", "locks"),
    ],
)
def test_what_may_not_be_read_of_an_account_is_unknown(part, field) -> None:
    assert getattr(look(azure(**{part: FORBIDDEN})), field) is None


def test_locks_that_may_be_read_in_the_group_only_are_said_to_be_a_part() -> None:
    script = Script().on(f"GET .*{SUBSCRIPTION}/providers/Microsoft.Authorization/locks", FORBIDDEN)
    script.replies += azure().replies
    found = look(script)
    assert (found.locks, found.locks_whole) == ((), False)
    plan = provision.plan_storage(script.session(), a_wanted(containers=("more",)))
    assert any("locks of the subscription itself" in w for w in plan.warnings)


def test_a_group_that_may_not_be_read_is_kept_and_said_where_its_account_is_there() -> None:
    script = azure(group=FORBIDDEN)
    plan = provision.plan_storage(script.session(), a_wanted(containers=("more",)))
    actions = {step.kind: step.action for step in plan.steps}
    assert (actions["resource group"], actions["container"]) == ("keep", "create")
    assert any(f"{GROUP} could not be read" in w for w in plan.warnings)


def test_a_group_that_cannot_be_read_for_another_reason_ends_it() -> None:
    with pytest.raises(SignInError):
        look(azure(group=failed(401, "ExpiredAuthenticationToken")))


def test_a_sign_in_that_ends_meanwhile_is_no_unknown() -> None:
    with pytest.raises(SignInError):
        look(azure(containers=failed(401, "ExpiredAuthenticationToken")))


def test_an_account_that_an_earlier_run_left_in_the_making_is_waited_for() -> None:
    states = [answer(200, account_row(provisioningState=s)) for s in ("Creating", "ResolvingDNS")]
    script = azure()
    made = answer(200, account_row(provisioningState="Succeeded"))
    script.replies.insert(0, ("GET .*storageAccounts/[a-z0-9]+[?]", [*states, made]))
    found = look(script)
    assert found.account is not None
    assert found.account.provisioning_state == "Succeeded"
    assert script.slept == [5.0, 5.0]


def test_an_account_that_stays_in_the_making_is_looked_at_as_it_is() -> None:
    script = azure(account=answer(200, account_row(provisioningState="Creating")))
    assert look(script).account is not None
    assert sum(script.slept) == 300


def test_no_policy_is_known_to_be_none() -> None:
    assert look(azure(policy=failed(404, "ManagementPolicyNotFound"))).lifecycle == ()


def test_a_second_run_has_nothing_to_do() -> None:
    retention = {"enabled": True, "days": 7}
    blobs = {"deleteRetentionPolicy": retention, "containerDeleteRetentionPolicy": retention}
    secure = {
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": False,
        "defaultToOAuthAuthentication": True,
        "allowCrossTenantReplication": False,
    }
    script = azure(
        account=answer(200, account_row(**secure)), blobs=answer(200, {"properties": blobs})
    )
    plan = provision.plan_storage(script.session(), a_wanted())
    assert plan.changes == ()
    assert plan.warnings == ()
    receipt = provision.apply(script.session(), plan)
    assert receipt.complete
    assert receipt.findings == ()
    assert {request.method for request in script.requests} == {"GET"}


def test_a_fixed_difference_refuses_and_nothing_is_sent() -> None:
    script = azure(account=answer(200, account_row(isHnsEnabled=False)))
    plan = provision.plan_storage(script.session(), a_wanted())
    assert "isHnsEnabled" in str(plan.refusals[0].reason)
    provision.apply(script.session(), plan)
    assert {request.method for request in script.requests} == {"GET"}


@pytest.mark.parametrize(
    "fields",
    [
        {"account": "Not_A_Name"},
        {"containers": ("$web",)},
        {"versioning": True},
        {"restore_days": 3},
        {"allow_ips": ("10.0.0.1",)},
    ],
)
def test_what_no_account_can_be_is_told_before_anything_is_asked(fields) -> None:
    script = Script()
    with pytest.raises(UsageError):
        provision.plan_storage(script.session(), a_wanted(**fields))
    assert script.requests == []


# --- endpoints and zones


def test_endpoints_and_zones_are_looked_at_only_for_a_private_endpoint() -> None:
    script = azure()
    look(script)
    assert "privateDnsZones" not in paths(script)
    look(script, endpoint_subnet=SUBNET)
    assert {"privateDnsZones", "vnet", "Microsoft.Network"} <= paths(script)


def test_the_endpoints_that_would_have_our_names_are_looked_at_once() -> None:
    ours = endpoint_id(ACCOUNT_ID, "blob")
    connection = {"properties": {"privateEndpoint": {"id": ours.upper()}}}
    row = account_row(privateEndpointConnections=[connection])
    script = azure(account=answer(200, row))
    look(script, endpoint_subnet=SUBNET)
    asked = [url.lower() for url in script.urls if "privateendpoints" in url.lower()]
    assert len(asked) == len(set(asked)) == 2


def test_an_endpoint_that_may_not_be_read_is_told_as_the_account_knows_it() -> None:
    connection = {
        "properties": {
            "privateEndpoint": {"id": "/elsewhere/pe"},
            "privateLinkServiceConnectionState": {"status": "Approved"},
        }
    }
    row = account_row(privateEndpointConnections=[connection])
    script = Script().on("elsewhere/pe", FORBIDDEN)
    script.replies += azure(account=answer(200, row)).replies
    found = look(script)
    assert found.endpoints is not None
    assert [(e.id, e.state, e.zone_ids) for e in found.endpoints] == [
        ("/elsewhere/pe", "Approved", None)
    ]


def test_the_networks_region_is_where_the_endpoints_go() -> None:
    assert look(azure(), endpoint_subnet=SUBNET).vnet_location == "westeurope"


def test_a_network_that_does_not_exist_stops_the_plan() -> None:
    with pytest.raises(NotFoundError):
        look(azure(vnet=NOT_THERE), endpoint_subnet=SUBNET)


def test_the_network_provider_that_is_not_registered_is_told() -> None:
    state = answer(200, {"namespace": "x", "registrationState": "NotRegistered"})
    assert look(azure(network=state), endpoint_subnet=SUBNET).unregistered == ("Microsoft.Network",)


def test_zones_that_may_not_be_read_are_unknown() -> None:
    assert look(azure(zones=FORBIDDEN), endpoint_subnet=SUBNET).dns_zones is None


# --- deleting


def test_the_deletion_names_what_is_lost() -> None:
    plan = provision.plan_storage_delete(azure().session(), SUBSCRIPTION, GROUP, ACCOUNT)
    (step,) = plan.changes
    assert (step.action, step.kind) == ("delete", "storage account")
    assert "training-data" in step.detail


def test_a_deletion_is_waited_for() -> None:
    link = f"https://management.azure.com{ACCOUNT_ID}/op?api-version=1"
    script = azure()
    script.replies.insert(0, ("DELETE", [answer(202, "", location=link, retry_after="5")]))
    script.replies.insert(0, ("GET .*/op", [answer(202, "", location=link), answer(204, "")]))
    session = script.session()
    plan = provision.plan_storage_delete(session, SUBSCRIPTION, GROUP, ACCOUNT)
    assert provision.apply(session, plan).complete


def test_there_is_nothing_to_delete_where_there_is_no_account() -> None:
    with pytest.raises(NotFoundError):
        provision.plan_storage_delete(
            azure(account=NOT_THERE).session(), SUBSCRIPTION, GROUP, ACCOUNT
        )


def test_a_lock_stands_in_the_way_of_a_deletion() -> None:
    lock = {
        "id": f"{GROUP_ID}/providers/Microsoft.Authorization/locks/keep",
        "name": "keep",
        "properties": {"level": "CanNotDelete"},
    }
    script = azure(locks=listed(lock))
    plan = provision.plan_storage_delete(script.session(), SUBSCRIPTION, GROUP, ACCOUNT)
    assert "az lock delete" in str(plan.refusals[0].reason)
