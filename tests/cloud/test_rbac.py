"""Roles, locks, and who is meant."""

from __future__ import annotations

from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed
from support_jwt import Jwt

from ai4infra.cloud import identities, locks, rbac
from ai4infra.cloud.identities import Principal
from ai4infra.errors import ForbiddenError, NotFoundError, SignInError, UsageError
from ai4infra.model import RoleAssignment
from ai4infra.storage_names import parse_who

SCOPE = f"/subscriptions/{SUBSCRIPTION}"
GROUP = f"{SCOPE}/resourceGroups/rg"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/datasets"
READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
OID = "11111111-2222-4333-8444-555555555555"
CLIENT = "99999999-2222-4333-8444-555555555555"
USER_IDENTITY = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/uai"


def session(script: Script, **claims: Any) -> Any:
    return script.session(credential=Jwt(**(claims or {"oid": OID, "idtyp": "app"})))


def resolved(script: Script, who: str, *, enable: bool = False, **claims: Any) -> Any:
    return identities.resolve(
        session(script, **claims), parse_who(who), SUBSCRIPTION, enable_identity=enable
    )


def a_row(**properties: Any) -> dict[str, Any]:
    row = {
        "roleDefinitionId": f"{SCOPE}/providers/Microsoft.Authorization/roleDefinitions/{READER}",
        "principalId": OID,
        "principalType": "User",
        "scope": GROUP,
        "createdOn": "2019-12-25T04:30:39.1269461Z",
        "createdBy": None,
    }
    name = "235c5307-bb4d-4075-b9a0-bc180b16e27a"
    id_ = f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/{name}"
    return {"id": id_, "name": name, "properties": {**row, **properties}}


# --- assignments


def test_an_assignment_is_read_with_its_roles_guid() -> None:
    script = Script().on("roleAssignments", listed(a_row(condition="@x")))
    (found,) = rbac.assignments(script.session(), ACCOUNT)
    assert found == RoleAssignment(
        id=a_row()["id"],
        scope=GROUP,
        role_id=READER,
        principal_id=OID,
        principal_type="User",
        condition="@x",
    )


def test_an_assignment_without_a_scope_has_the_one_of_its_id() -> None:
    script = Script().on("roleAssignments", listed(a_row(scope=None)))
    assert rbac.assignments(script.session(), ACCOUNT)[0].scope == GROUP


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, "$filter=atScope()"),
        ({"principal_id": OID}, f"$filter=principalId eq '{OID}'"),
    ],
)
def test_what_is_asked_for_is_filtered_by_the_service(options, asked) -> None:
    script = Script().on("roleAssignments", listed())
    rbac.assignments(script.session(), ACCOUNT, **options)
    assert asked in script.urls[0]
    assert f"{ACCOUNT}/providers/Microsoft.Authorization/roleAssignments?" in script.urls[0]


def test_with_what_lies_below_nothing_is_filtered() -> None:
    script = Script().on("roleAssignments", listed())
    rbac.assignments(script.session(), ACCOUNT, below=True)
    assert "$filter" not in script.urls[0]


def test_the_root_has_one_slash() -> None:
    script = Script().on("roleAssignments", listed())
    rbac.assignments(script.session(), "/")
    assert "azure.com/providers/Microsoft.Authorization/roleAssignments" in script.urls[0]


def test_forbidden_is_not_no_assignments() -> None:
    script = Script().on("roleAssignments", failed(403, "AuthorizationFailed"))
    with pytest.raises(ForbiddenError):
        rbac.assignments(script.session(), ACCOUNT)


# --- roles


def test_a_role_has_its_guid_wherever_it_is_listed() -> None:
    row = {
        "id": f"{SCOPE}/providers/Microsoft.Authorization/roleDefinitions/{READER.upper()}",
        "name": READER.upper(),
        "properties": {"roleName": "Storage Blob Data Reader", "type": "BuiltInRole"},
    }
    script = Script().on("roleDefinitions", listed(row))
    (found,) = rbac.role_definitions(script.session(), GROUP, "Storage Blob Data Reader")
    assert (found.name, found.id, found.custom) == ("Storage Blob Data Reader", READER, False)
    assert "$filter=roleName eq 'Storage Blob Data Reader'" in script.urls[0]


def test_a_quote_in_a_roles_name_is_doubled() -> None:
    script = Script().on("roleDefinitions", listed())
    rbac.role_definitions(script.session(), GROUP, "Bob's role")
    assert "roleName eq 'Bob''s role'" in script.urls[0]


def test_all_roles_are_listed_without_a_name() -> None:
    row = {"name": READER, "properties": {"roleName": "Ours", "type": "CustomRole"}}
    script = Script().on("roleDefinitions", listed(row))
    assert rbac.role_definitions(script.session(), GROUP)[0].custom


# --- locks


def a_lock(scope: str, name: str, level: str = "CanNotDelete") -> dict[str, Any]:
    id_ = f"{scope}/providers/Microsoft.Authorization/locks/{name}"
    return {"id": id_, "name": name, "properties": {"level": level}}


def test_locks_at_and_above_count_and_those_beside_do_not() -> None:
    rows = [
        a_lock(SCOPE, "all", "ReadOnly"),
        a_lock(GROUP.upper().replace("SUBSCRIPTIONS", "subscriptions"), "group"),
        a_lock(ACCOUNT, "own"),
        a_lock(f"{ACCOUNT}2", "beside"),
        a_lock(f"{SCOPE}/resourceGroups/rg2", "other"),
    ]
    script = Script().on("locks", listed(*rows))
    found = locks.locks(script.session(), SUBSCRIPTION, "rg", ACCOUNT)
    assert [(lock.name, lock.level) for lock in found.found] == [
        ("all", "ReadOnly"),
        ("group", "CanNotDelete"),
        ("own", "CanNotDelete"),
    ]
    assert found.whole


def test_who_may_not_list_the_subscriptions_locks_sees_the_groups() -> None:
    script = Script().on("resourceGroups/rg/providers", listed(a_lock(GROUP, "group")))
    script.on("locks", failed(403, "AuthorizationFailed"))
    found = locks.locks(script.session(), SUBSCRIPTION, "rg", ACCOUNT)
    assert [lock.name for lock in found.found] == ["group"]
    assert not found.whole


# --- me


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ({"idtyp": "user"}, "User"),
        ({"idtyp": "app"}, "ServicePrincipal"),
        ({"scp": "user_impersonation"}, "User"),
        ({"appid": CLIENT}, "ServicePrincipal"),
    ],
)
def test_me_is_who_the_token_says_and_nobody_is_asked(claims, kind) -> None:
    script = Script()
    (found,) = resolved(script, "me", oid=OID.upper(), **claims)
    assert (found.object_id, found.type, found.label) == (OID, kind, "me")
    assert script.requests == []


def test_me_has_the_name_of_the_sign_in() -> None:
    (found,) = resolved(Script(), "me", oid=OID, idtyp="user", upn="ada@example.org")
    assert found.name == "ada@example.org"


@pytest.mark.parametrize("claims", [{"sub": "x"}, {"oid": "not one"}])
def test_a_token_that_names_nobody_is_a_sign_in_error(claims) -> None:
    with pytest.raises(SignInError, match="no object id"):
        resolved(Script(), "me", **claims)


def test_a_token_that_is_no_jwt_names_nobody() -> None:
    with pytest.raises(SignInError):
        identities.me(Script().session())


# --- machines and identities


def machine(**identity: Any) -> Any:
    return answer(200, {"id": "/vm", "identity": identity or None, "properties": {"vmId": "7"}})


@pytest.mark.parametrize(
    ("who", "type_"),
    [("vm:rg/node-0", "virtualMachines"), ("vmss:rg/node-0", "virtualMachineScaleSets")],
)
def test_a_machine_means_its_own_identity(who, type_) -> None:
    script = Script().on(
        type_, machine(type="SystemAssigned, UserAssigned", principalId=OID.upper())
    )
    (found,) = resolved(script, who)
    assert found == Principal(
        label=who,
        type="ServicePrincipal",
        object_id=OID,
        resource_id=f"{GROUP}/providers/Microsoft.Compute/{type_}/node-0",
    )


def test_a_machine_without_its_own_identity_means_all_that_users_gave_it() -> None:
    other = USER_IDENTITY.replace("uai", "uai2")
    given = {USER_IDENTITY: {"principalId": OID, "clientId": CLIENT}, other: {}}
    script = Script().on(
        "virtualMachines", machine(type="UserAssigned", userAssignedIdentities=given)
    )
    script.on("uai2", answer(200, {"id": other, "properties": {"principalId": CLIENT}}))
    found = resolved(script, "vm:rg/node-0")
    assert [p.object_id for p in found] == [OID, CLIENT]
    assert [p.label for p in found] == [
        "vm:rg/node-0 (identity:rg/uai)",
        "vm:rg/node-0 (identity:rg/uai2)",
    ]


@pytest.mark.parametrize("enable", [False, True])
def test_a_flexible_scale_set_takes_identities_of_users_only(enable: bool) -> None:
    body = {"id": "/vmss", "properties": {"orchestrationMode": "Flexible"}}
    script = Script().on("virtualMachineScaleSets", answer(200, body))
    with pytest.raises(UsageError) as caught:
        resolved(script, "vmss:rg/nodes", enable=enable)
    assert "user-assigned" in f"{caught.value.message} {caught.value.hint}"
    assert "--enable-identity" not in (caught.value.hint or "")


def test_a_machine_without_identity_is_refused_with_the_way_out() -> None:
    script = Script().on("virtualMachines", machine())
    with pytest.raises(UsageError) as caught:
        resolved(script, "vm:rg/node-0")
    assert "has no identity" in caught.value.message
    assert "--enable-identity" in str(caught.value.hint)


def test_a_machine_that_shall_get_an_identity_has_no_object_id_yet() -> None:
    script = Script().on("virtualMachines", machine())
    (found,) = resolved(script, "vm:rg/node-0", enable=True)
    assert found.object_id is None
    assert str(found.resource_id).endswith("/virtualMachines/node-0")


def test_only_machines_get_an_identity() -> None:
    script = Script().on("providers/Microsoft.Web[?]", provider("Microsoft.Web", "sites"))
    script.on("sites", answer(200, {"id": "/x"}))
    with pytest.raises(UsageError, match="only virtual machines"):
        resolved(script, f"{GROUP}/providers/Microsoft.Web/sites/app", enable=True)


def test_a_machine_that_does_not_exist_is_not_found() -> None:
    script = Script().on("virtualMachines", failed(404, "ResourceNotFound"))
    with pytest.raises(NotFoundError):
        resolved(script, "vm:rg/node-0")


def test_a_user_assigned_identity_means_its_object_and_not_its_client_id() -> None:
    row = {"id": USER_IDENTITY, "properties": {"principalId": OID, "clientId": CLIENT}}
    script = Script().on("userAssignedIdentities/uai", answer(200, row))
    (found,) = resolved(script, "identity:rg/uai")
    assert found.object_id == OID


def provider(namespace: str, type_: str) -> Any:
    types = [{"resourceType": type_, "apiVersions": ["2024-04-01"]}]
    return answer(200, {"namespace": namespace, "resourceTypes": types})


def test_any_resource_with_an_identity_can_be_named_by_its_id() -> None:
    script = Script().on("providers/Microsoft.Web[?]", provider("Microsoft.Web", "sites"))
    script.on("sites/app", answer(200, {"id": "/x", "identity": {"principalId": OID}}))
    (found,) = resolved(script, f"{GROUP}/providers/Microsoft.Web/sites/app")
    assert found.object_id == OID
    assert "sites/app?api-version=2024-04-01" in script.urls[-1]


# --- object ids

IDENTITIES = listed(
    {"id": USER_IDENTITY, "name": "uai", "properties": {"principalId": OID, "clientId": CLIENT}}
)


def test_an_object_id_is_taken_as_it_is() -> None:
    script = Script().on("userAssignedIdentities", IDENTITIES)
    (found,) = resolved(script, f"id:{OID}", oid=READER, appid=READER)
    assert (found.object_id, found.type) == (OID, "ServicePrincipal")


@pytest.mark.parametrize("kind", ["User", "Group"])
def test_a_person_or_group_is_not_looked_for_among_identities(kind) -> None:
    script = Script()
    (found,) = resolved(script, f"id:{OID}:{kind.lower()}")
    assert found.type == kind
    assert script.requests == []


def test_our_own_object_id_is_of_our_own_type() -> None:
    script = Script().on("userAssignedIdentities", listed())
    (found,) = resolved(script, f"id:{OID}", oid=OID, idtyp="user")
    assert found.type == "User"


def test_the_client_id_of_an_identity_is_no_object_id() -> None:
    script = Script().on("userAssignedIdentities", IDENTITIES)
    with pytest.raises(UsageError) as caught:
        resolved(script, f"id:{CLIENT}")
    assert "client id of the identity uai" in caught.value.message
    assert "identity:rg/uai" in str(caught.value.hint)
    assert OID in str(caught.value.hint)


def test_our_own_client_id_is_no_object_id() -> None:
    script = Script()
    with pytest.raises(UsageError, match="client id of this sign-in"):
        resolved(script, f"id:{CLIENT}", oid=OID, appid=CLIENT.upper())
    assert script.requests == []


def test_identities_that_may_not_be_listed_do_not_stand_in_the_way() -> None:
    script = Script().on("userAssignedIdentities", failed(403, "AuthorizationFailed"))
    assert resolved(script, f"id:{CLIENT}")[0].object_id == CLIENT
