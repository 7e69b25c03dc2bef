"""Below an account: settings of the blob service, containers, the lifecycle policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from arm_client import Arm, Reply, account_body, code
from azure.mgmt.storage.models import BlobServiceProperties, DeleteRetentionPolicy

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from azure.mgmt.storage import StorageManagementClient


def container(arm: Arm, account: str, name: str, method: str = "PUT", **properties: Any) -> Reply:
    path = f"{account}/blobServices/default/containers/{name}"
    return arm(method, path, json={"properties": properties})


def settings(arm: Arm, account: str, **properties: Any) -> Reply:
    return arm("PUT", f"{account}/blobServices/default", json={"properties": properties})


def test_soft_delete_is_off_from_the_start_and_can_be_set(
    storage: StorageManagementClient, account: str
) -> None:
    before = storage.blob_services.get_service_properties("rg", "stdata")
    kept = DeleteRetentionPolicy(enabled=True, days=7)
    storage.blob_services.set_service_properties(
        "rg",
        "stdata",
        BlobServiceProperties(delete_retention_policy=kept, container_delete_retention_policy=kept),
    )

    after = storage.blob_services.get_service_properties("rg", "stdata")
    assert before.delete_retention_policy is not None
    assert before.delete_retention_policy.enabled is False
    assert before.container_delete_retention_policy is None
    assert after.container_delete_retention_policy is not None
    assert after.container_delete_retention_policy.days == 7


@pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"isVersioningEnabled": True}, "Versioning"),
        ({"changeFeed": {"enabled": True}}, "ChangeFeed"),
        ({"restorePolicy": {"enabled": True, "days": 3}}, "RestorePolicy"),
    ],
)
def test_the_hierarchical_namespace_takes_no_versions_feed_or_restore(
    arm: Arm, account: str, properties: dict[str, Any], feature: str
) -> None:
    reply = settings(arm, account, **properties)

    assert (reply.status_code, code(reply)) == (409, "FeatureNotSupportedForAccount")
    assert reply.json()["error"]["message"] == f"{feature} is not supported for the account."


def test_a_refused_setting_changes_nothing(arm: Arm, account: str) -> None:
    settings(arm, account, isVersioningEnabled=True)

    told = arm("GET", f"{account}/blobServices/default").json()["properties"]
    assert "isVersioningEnabled" not in told


def test_restore_on_a_flat_account_takes_all_it_builds_on(
    arm: Arm, group: str, sandbox: Sandbox
) -> None:
    flat = f"{group}/providers/Microsoft.Storage/storageAccounts/stflat"
    arm("PUT", flat, json=account_body())
    sandbox.advance(60)
    restore = {"restorePolicy": {"enabled": True, "days": 6}}

    assert code(settings(arm, flat, **restore)) == "InvalidRequestPropertyValue"
    whole = {
        "isVersioningEnabled": True,
        "changeFeed": {"enabled": True},
        "deleteRetentionPolicy": {"enabled": True, "days": 7},
    }
    assert settings(arm, flat, **whole, **restore).status_code == 200


@pytest.mark.parametrize("days", [0, 366, None])
def test_soft_delete_lasts_1_to_365_days(arm: Arm, account: str, days: Any) -> None:
    reply = settings(arm, account, deleteRetentionPolicy={"enabled": True, "days": days})

    assert code(reply) == "InvalidRequestPropertyValue"


def test_a_file_account_has_no_blobs(arm: Arm, group: str, sandbox: Sandbox) -> None:
    files = f"{group}/providers/Microsoft.Storage/storageAccounts/stfiles"
    arm("PUT", files, json=account_body("Premium_LRS", "FileStorage"))
    sandbox.advance(60)

    assert code(arm("GET", f"{files}/blobServices/default")) == "FeatureNotSupportedForAccount"


def test_a_container_is_201_when_new_and_200_when_not(arm: Arm, account: str) -> None:
    assert container(arm, account, "data").status_code == 201
    assert container(arm, account, "data", metadata={"a": "b"}).status_code == 200

    told = container(arm, account, "data", "GET").json()["properties"]
    assert (told["publicAccess"], told["metadata"]) == ("None", {"a": "b"})


def test_a_missing_container_is_404_and_its_deletion_204(arm: Arm, account: str) -> None:
    assert code(container(arm, account, "none", "GET")) == "ContainerNotFound"
    assert container(arm, account, "none", "DELETE").status_code == 204


def test_a_deleted_container_holds_its_name_for_a_while(
    arm: Arm, account: str, sandbox: Sandbox
) -> None:
    container(arm, account, "data")
    assert container(arm, account, "data", "DELETE").status_code == 200

    assert code(container(arm, account, "data")) == "ContainerBeingDeleted"
    sandbox.advance(30)
    assert container(arm, account, "data").status_code == 201


@pytest.mark.parametrize("name", ["ab", "x" * 64, "Upper", "-x1", "two--hyphens", "x_y"])
def test_a_bad_container_name_is_refused(arm: Arm, account: str, name: str) -> None:
    assert code(container(arm, account, name)) == "InvalidResourceName"


def test_a_container_is_open_to_everybody_only_where_the_account_lets_it(
    arm: Arm, account: str
) -> None:
    assert container(arm, account, "open", publicAccess="Blob").status_code == 201

    arm("PATCH", account, json={"properties": {"allowBlobPublicAccess": False}})

    refused = container(arm, account, "open2", publicAccess="Container")
    assert (refused.status_code, code(refused)) == (409, "PublicAccessNotPermitted")


def test_containers_are_listed_by_name_in_pages(
    storage: StorageManagementClient, arm: Arm, account: str
) -> None:
    for name in ("gamma", "alpha", "beta"):
        container(arm, account, name)

    listed = [c.name for c in storage.blob_containers.list("rg", "stdata", maxpagesize="2")]
    filtered = [c.name for c in storage.blob_containers.list("rg", "stdata", filter="be")]
    assert (listed, filtered) == (["alpha", "beta", "gamma"], ["beta"])


RULE: dict[str, Any] = {
    "enabled": True,
    "name": "checkpoints",
    "type": "Lifecycle",
    "definition": {
        "actions": {"baseBlob": {"tierToCool": {"daysAfterModificationGreaterThan": 30}}},
        "filters": {"blobTypes": ["blockBlob"], "prefixMatch": ["checkpoints/"]},
    },
}


def policy(arm: Arm, account: str, *rules: Any) -> Reply:
    body = {"properties": {"policy": {"rules": list(rules)}}}
    return arm("PUT", f"{account}/managementPolicies/default", json=body)


def test_a_lifecycle_policy_comes_back_under_another_name_with_fractions(
    arm: Arm, account: str
) -> None:
    made = policy(arm, account, RULE)

    assert (made.status_code, made.json()["name"]) == (200, "DefaultManagementPolicy")
    assert '"daysAfterModificationGreaterThan":30.0' in made.text
    assert arm("GET", f"{account}/managementPolicies/default").json() == made.json()


def test_no_policy_is_404_and_a_deleted_one_too(arm: Arm, account: str) -> None:
    path = f"{account}/managementPolicies/default"
    missing = arm("GET", path)
    policy(arm, account, RULE)

    assert (missing.status_code, code(missing)) == (404, "ManagementPolicyNotFound")
    assert [arm("DELETE", path).status_code for _ in range(2)] == [200, 204]
    assert code(arm("GET", path)) == "ManagementPolicyNotFound"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Other"},
        {"name": ""},
        {"definition": {**RULE["definition"], "filters": {}}},
        {"definition": {**RULE["definition"], "actions": {}}},
    ],
)
def test_a_rule_without_type_name_blobs_or_actions_is_refused(
    arm: Arm, account: str, change: dict[str, Any]
) -> None:
    assert policy(arm, account, {**RULE, **change}).status_code == 400


def test_a_policy_needs_rules_with_different_names(arm: Arm, account: str) -> None:
    assert policy(arm, account).status_code == 400
    assert policy(arm, account, RULE, RULE).status_code == 400
