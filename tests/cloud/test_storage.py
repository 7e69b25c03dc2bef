"""What the service tells of storage accounts, as recorded oddities have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed

from ai4infra.cloud import locks, rbac, storage
from ai4infra.errors import ForbiddenError, NotFoundError, ServiceError, UsageError
from ai4infra.model import BlobServiceSettings, StorageAccount

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
ID = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/datasets"
ENDPOINT = f"{GROUP}/providers/Microsoft.Network/privateEndpoints/pe"
PROPERTIES = {
    "provisioningState": "Succeeded",
    "primaryEndpoints": {
        "blob": "https://datasets.blob.core.windows.net/",
        "dfs": "https://datasets.dfs.core.windows.net/",
        "microsoftEndpoints": {"blob": "https://datasets-ms.blob.core.windows.net/"},
    },
    "isHnsEnabled": True,
    "minimumTlsVersion": "TLS1_2",
    "supportsHttpsTrafficOnly": True,
    "allowBlobPublicAccess": False,
    "allowSharedKeyAccess": False,
    "defaultToOAuthAuthentication": True,
    "allowCrossTenantReplication": False,
    "publicNetworkAccess": "Enabled",
    "networkAcls": {"bypass": "AzureServices", "defaultAction": "Allow", "resourceAccessRules": []},
    "accessTier": "Hot",
    "keyCreationTime": {"key1": None},
    "encryption": {
        "keySource": "Microsoft.Keyvault",
        "requireInfrastructureEncryption": True,
        "keyvaultproperties": {
            "keyname": "data",
            "keyvaulturi": "https://v.vault.azure.net/",
            "keyversion": "",
        },
        "identity": {"userAssignedIdentity": "/i"},
    },
    "privateEndpointConnections": [
        {
            "properties": {
                "privateEndpoint": {"id": ENDPOINT},
                "privateLinkServiceConnectionState": {"status": "Approved"},
            }
        }
    ],
}
ROW = {
    "id": ID,
    "name": "datasets",
    "location": "eastus2",
    "kind": "StorageV2",
    "sku": {"name": "Standard_LRS", "tier": "Standard"},
    "tags": {"classification": "internal"},
    "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/i": {"clientId": "c"}}},
    "properties": PROPERTIES,
}


def an_account(properties: dict[str, Any] | None) -> StorageAccount:
    row = {"id": ID, "name": "datasets", "properties": properties}
    session = Script().on("GET", answer(200, row)).session()
    return storage.account(session, SUBSCRIPTION, "rg", "datasets").account


def checked(*replies: Any) -> Any:
    script = Script().on("POST .*checkNameAvailability", replies[0])
    if replies[1:]:
        script.on("GET .*storageAccounts", *replies[1:])
    return storage.check_name(script.session(), SUBSCRIPTION, "rg", "datasets")


def test_everything_that_is_asked_for_is_read() -> None:
    script = Script().on("GET", answer(200, ROW))
    view = storage.account(script.session(), SUBSCRIPTION, "rg", "datasets")
    assert view.endpoints == {ENDPOINT: "Approved"}
    assert view.account == StorageAccount(
        id=ID,
        name="datasets",
        location="eastus2",
        kind="StorageV2",
        sku="Standard_LRS",
        tags={"classification": "internal"},
        provisioning_state="Succeeded",
        endpoints={
            "blob": "https://datasets.blob.core.windows.net/",
            "dfs": "https://datasets.dfs.core.windows.net/",
        },
        hns=True,
        infrastructure_encryption=True,
        minimum_tls_version="TLS1_2",
        https_only=True,
        allow_blob_public_access=False,
        allow_shared_key_access=False,
        default_to_oauth=True,
        allow_cross_tenant_replication=False,
        public_network_access="Enabled",
        network_acls=PROPERTIES["networkAcls"],
        key_source="Microsoft.Keyvault",
        key_uri="https://v.vault.azure.net/keys/data",
        key_identity="/i",
        identity_type="UserAssigned",
        user_identities=("/i",),
        access_tier="Hot",
    )


def test_no_key_is_ever_listed() -> None:
    script = Script().on("GET", answer(200, ROW))
    storage.account(script.session(), SUBSCRIPTION, "rg", "datasets")
    assert [r.method for r in script.requests] == ["GET"]


@pytest.mark.parametrize("properties", [None, {}, {"encryption": None, "primaryEndpoints": None}])
def test_what_the_service_leaves_out_of_an_account_is_unknown(properties) -> None:
    found = an_account(properties)
    silent = (found.hns, found.minimum_tls_version, found.allow_shared_key_access, found.key_uri)
    assert silent == (None, None, None, None)


def test_the_namespace_may_be_absent_or_false() -> None:
    assert an_account({"isHnsEnabled": False}).hns is False
    assert an_account({}).hns is None


def test_the_old_insecure_defaults_are_told_as_they_are() -> None:
    found = an_account(
        {
            "minimumTlsVersion": "TLS1_0",
            "allowBlobPublicAccess": True,
            "supportsHttpsTrafficOnly": False,
        }
    )
    assert found.minimum_tls_version == "TLS1_0"
    assert found.allow_blob_public_access is True
    assert found.https_only is False


@pytest.mark.parametrize(
    ("key", "uri"),
    [
        (
            {"keyname": "k", "keyvaulturi": "https://v/", "keyversion": "7"},
            "https://v/keys/k/7",
        ),
        ({"keyname": "k", "keyvaulturi": "https://v"}, "https://v/keys/k"),
        ({"keyname": None, "keyvaulturi": None}, None),
    ],
)
def test_a_key_is_told_by_its_uri(key, uri) -> None:
    assert an_account({"encryption": {"keyvaultproperties": key}}).key_uri == uri


@pytest.mark.parametrize("code", ["ResourceNotFound", "ResourceGroupNotFound"])
def test_an_account_that_does_not_exist_tells_by_its_code_what_is_missing(code) -> None:
    script = Script().on("GET", failed(404, code))
    with pytest.raises(NotFoundError) as caught:
        storage.account(script.session(), SUBSCRIPTION, "rg", "datasets")
    assert caught.value.code == code


def test_an_account_of_another_shape_is_an_error_and_no_traceback() -> None:
    script = Script().on("GET", answer(200, {"id": 7}))
    with pytest.raises(ServiceError):
        storage.account(script.session(), SUBSCRIPTION, "rg", "datasets")
    with pytest.raises(ServiceError):
        storage.read_account({"name": "datasets"})


def test_accounts_come_by_name_from_all_pages() -> None:
    later = f"https://management.azure.com{GROUP}/providers/Microsoft.Storage/next?$skiptoken=2"
    script = Script().on("next", listed({"id": "/b", "name": "b"}))
    script.on(
        "storageAccounts",
        listed({"id": "/c", "name": "c"}, {"id": "/a", "name": "a"}, next_link=later),
    )
    found = storage.accounts(script.session(), SUBSCRIPTION)
    assert [a.name for a in found] == ["a", "b", "c"]


def test_accounts_of_one_group_are_asked_for_there() -> None:
    script = Script().on("GET", listed(ROW))
    storage.accounts(script.session(), SUBSCRIPTION, "rg")
    assert f"{GROUP}/providers/Microsoft.Storage/storageAccounts?" in script.urls[0]


# --- names


def test_a_free_name_is_available() -> None:
    assert checked(answer(200, {"nameAvailable": True})).state == "available"


TAKEN = answer(
    200,
    {"nameAvailable": False, "reason": "AlreadyExists", "message": "It is already taken."},
)
ELSEWHERE = ID.replace("/rg/", "/rg-other/")


@pytest.mark.parametrize(
    ("known", "state", "account_id"),
    [
        (ID, "mine", ID),
        (ID.replace("resourceGroups/rg", "resourcegroups/RG"), "mine", None),
        (ELSEWHERE, "elsewhere", ELSEWHERE),
    ],
)
def test_a_taken_name_may_be_our_own(known, state, account_id) -> None:
    found = checked(TAKEN, listed({"id": known, "name": "datasets"}))
    assert found.state == state
    assert account_id in (None, found.account_id)


def test_a_name_that_is_not_ours_is_taken_in_the_words_of_the_service() -> None:
    found = checked(TAKEN, listed({"id": "/x", "name": "other"}))
    assert (found.state, found.message) == ("taken", "It is already taken.")


def test_whose_a_name_is_stays_unknown_where_our_own_accounts_cannot_be_listed() -> None:
    assert checked(TAKEN, failed(403, "AuthorizationFailed")).state == "in use"


def test_a_name_that_no_account_can_have_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="lower-case"):
        checked(
            answer(
                200,
                {"nameAvailable": False, "reason": "AccountNameInvalid", "message": "lower-case"},
            )
        )


def test_a_name_check_without_an_answer_is_an_error() -> None:
    with pytest.raises(ServiceError):
        checked(answer(200, ""))


# --- blob service, containers, lifecycle


def settings(properties: Any) -> BlobServiceSettings:
    script = Script().on("blobServices/default", answer(200, {"properties": properties}))
    return storage.blob_service(script.session(), ID)


def test_soft_delete_is_told_in_days() -> None:
    said = {
        "deleteRetentionPolicy": {"enabled": True, "days": 14},
        "containerDeleteRetentionPolicy": {"enabled": True, "days": 7},
        "isVersioningEnabled": True,
        "changeFeed": {"enabled": True, "retentionInDays": 3},
        "restorePolicy": {"enabled": True, "days": 5},
    }
    restore = {**said["restorePolicy"], "minRestoreTime": "2026-11-01T00:00:00Z"}
    found = settings({**said, "restorePolicy": restore})
    assert found == BlobServiceSettings(
        blob_soft_delete_days=14,
        container_soft_delete_days=7,
        versioning=True,
        change_feed=True,
        restore_days=5,
        raw=said,
    )


def test_what_was_never_switched_on_is_off() -> None:
    found = settings({"deleteRetentionPolicy": {"enabled": False, "days": 7}})
    assert (found.blob_soft_delete_days, found.container_soft_delete_days) == (0, 0)
    assert found.versioning is False


def test_a_blob_service_without_properties_is_unknown() -> None:
    assert settings(None) == BlobServiceSettings()


def test_containers_come_from_all_pages_and_in_order() -> None:
    later = f"https://management.azure.com{ID}/blobServices/default/containers?$skipToken=2"
    script = Script().on(r"skipToken=2", listed({"id": "/1", "name": "a"}))
    script.on(
        "containers",
        listed({"id": "/2", "name": "b", "properties": {"publicAccess": "Blob"}}, next_link=later),
    )
    found = storage.containers(script.session(), ID)
    assert [(c.name, c.public_access) for c in found] == [("b", "Blob"), ("a", None)]


def rules(*found: Any) -> Any:
    body = {"name": "DefaultManagementPolicy", "properties": {"policy": {"rules": list(found)}}}
    script = Script().on("managementPolicies/default", answer(200, body))
    return storage.lifecycle_rules(script.session(), ID)


def test_a_rule_is_read_and_kept_verbatim() -> None:
    raw = {
        "name": "old-runs",
        "enabled": True,
        "type": "Lifecycle",
        "definition": {
            "filters": {"blobTypes": ["blockBlob"], "prefixMatch": ["runs/old"]},
            "actions": {
                "baseBlob": {
                    "tierToCool": {"daysAfterModificationGreaterThan": 14.0},
                    "delete": {"daysAfterModificationGreaterThan": 90.0},
                },
                "snapshot": {"delete": {"daysAfterCreationGreaterThan": 9}},
            },
        },
    }
    (rule,) = rules(raw)
    assert (rule.prefixes, rule.cool_after_days, rule.delete_after_days) == (("runs/old",), 14, 90)
    assert rule.raw == raw


@pytest.mark.parametrize(
    "raw",
    [{"name": "r"}, {"name": "r", "definition": None}, {"name": "r", "definition": {"actions": 7}}],
)
def test_a_rule_that_does_other_things_has_no_days(raw) -> None:
    (rule,) = rules(raw)
    assert (rule.cool_after_days, rule.delete_after_days, rule.prefixes) == (None, None, ())


def test_a_disabled_rule_is_disabled() -> None:
    assert not rules({"name": "r", "enabled": False})[0].enabled


def test_no_policy_is_no_rules() -> None:
    script = Script().on("GET", failed(404, "ManagementPolicyNotFound"))
    assert storage.lifecycle_rules(script.session(), ID) == ()


def test_a_missing_account_is_not_a_missing_policy() -> None:
    script = Script().on("GET", failed(404, "ResourceNotFound"))
    with pytest.raises(NotFoundError):
        storage.lifecycle_rules(script.session(), ID)


def test_forbidden_is_never_no_rules() -> None:
    script = Script().on("GET", failed(403, "AuthorizationFailed"))
    with pytest.raises(ForbiddenError):
        storage.lifecycle_rules(script.session(), ID)


@pytest.mark.parametrize(
    ("path", "odd", "asked"),
    [
        ("containers", {"id": "c", "name": 7}, lambda s: storage.containers(s, ID)),
        ("storageAccounts", {"name": "sta"}, lambda s: storage.accounts(s, SUBSCRIPTION)),
        (
            "locks",
            {"id": "/l", "name": "keep", "properties": {"level": 7}},
            lambda s: locks.locks(s, SUBSCRIPTION, "rg", ID),
        ),
        (
            "roleAssignments",
            {"id": "/a", "properties": {"roleDefinitionId": "x"}},
            lambda s: rbac.assignments(s, ID),
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(
    path: str, odd: dict[str, Any], asked: Callable[[Any], Any]
) -> None:
    script = Script().on(path, listed(odd))
    with pytest.raises(ServiceError) as caught:
        asked(script.session())
    assert "incomplete answer" in caught.value.message


def test_a_tag_without_a_value_costs_no_account() -> None:
    row = {"id": ID, "name": "sta", "tags": {"team": None}}
    (found,) = storage.accounts(Script().on("GET", listed(row)).session(), SUBSCRIPTION)
    assert found.tags == {"team": ""}


@pytest.mark.parametrize(
    "acls",
    [
        {"defaultAction": 7},
        {"bypass": ["AzureServices"]},
        {"ipRules": "odd"},
        {"ipRules": [None]},
        {"ipRules": [{"value": {}}]},
        {"virtualNetworkRules": [7]},
    ],
)
def test_network_rules_that_cannot_be_read_are_an_error_and_not_none(acls: dict[str, Any]) -> None:
    row = {"id": ID, "name": "datasets", "properties": {"networkAcls": acls}}
    script = Script().on("GET", answer(200, row))
    with pytest.raises(ServiceError):
        storage.account(script.session(), SUBSCRIPTION, "rg", "datasets")


@pytest.mark.parametrize(
    "rule",
    [
        {"enabled": True},
        {"name": "a", "definition": 7},
        {"name": "a", "definition": {"filters": {"prefixMatch": 7}}},
        {"name": "a", "definition": {"filters": {"blobTypes": "blockBlob"}}},
    ],
)
def test_a_lifecycle_rule_that_cannot_be_read_is_not_written_over(rule: dict[str, Any]) -> None:
    body = {"properties": {"policy": {"rules": [rule]}}}
    script = Script().on("GET", answer(200, body))
    with pytest.raises(ServiceError):
        storage.lifecycle_rules(script.session(), ID)
