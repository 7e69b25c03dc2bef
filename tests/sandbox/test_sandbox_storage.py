"""Storage accounts: created after a while, checked strictly, fixed where Azure's are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from arm_client import Arm, Http, Reply, account_body, code
from azure.core.exceptions import HttpResponseError

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from azure.mgmt.storage import StorageManagementClient

ACCOUNTS = "@/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts"
CHECK = "@/providers/Microsoft.Storage/checkNameAvailability"
pytestmark = pytest.mark.usefixtures("group")


def create(arm: Arm, name: str = "stnew", **options: Any) -> Reply:
    return arm("PUT", f"{ACCOUNTS}/{name}", json=account_body(**options))


def check(arm: Arm, name: str) -> Any:
    reply = arm("POST", CHECK, json={"name": name, "type": "Microsoft.Storage/storageAccounts"})
    assert reply.status_code == 200
    return reply.json()


def test_creation_is_202_without_a_body_and_says_only_where_to_ask(arm: Arm) -> None:
    reply = create(arm)

    assert (reply.status_code, reply.content) == (202, b"")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["retry-after"] == "17"
    assert "azure-asyncoperation" not in reply.headers


def follow(http: Http, sandbox: Sandbox, reply: Reply) -> Reply:
    token = sandbox.credential.get_token("https://management.azure.com/.default").token
    return http.get(reply.headers["location"], headers={"Authorization": f"Bearer {token}"})


def test_every_poll_names_a_new_long_signed_address_and_the_last_answers_with_the_account(
    arm: Arm, http: Http, sandbox: Sandbox
) -> None:
    first = create(arm)
    sandbox.advance(17)
    second = follow(http, sandbox, first)
    sandbox.advance(17)
    last = follow(http, sandbox, second)

    assert (second.status_code, second.content) == (202, b"")
    assert first.headers["location"] != second.headers["location"]
    assert len(second.headers["location"]) > 3000
    assert set(parse_qs(urlsplit(second.headers["location"]).query)) == {
        *("monitor", "api-version", "t", "c", "s", "h")
    }
    assert last.status_code == 200
    assert last.json()["properties"]["provisioningState"] == "Succeeded"


def test_a_cut_address_is_refused(arm: Arm, http: Http, sandbox: Sandbox) -> None:
    reply = create(arm)
    reply.headers["location"] = reply.headers["location"][:900]

    assert code(follow(http, sandbox, reply)) == "SandboxBrokenLink"


def test_the_sdk_waits_for_an_account_in_sandbox_time(
    storage: StorageManagementClient, sandbox: Sandbox
) -> None:
    started = sandbox.world.now()

    made = storage.storage_accounts.begin_create("rg", "stnew", account_body()).result()

    assert made.name == "stnew"
    assert (sandbox.world.now() - started).total_seconds() == 34


def test_an_account_that_is_being_created_takes_nothing_in(arm: Arm) -> None:
    create(arm)

    assert code(create(arm)) == "StorageAccountOperationInProgress"
    container = f"{ACCOUNTS}/stnew/blobServices/default/containers/data"
    assert code(arm("PUT", container, json={})) == "StorageAccountIsNotProvisioned"
    state = arm("GET", f"{ACCOUNTS}/stnew").json()["properties"]["provisioningState"]
    assert state == "Creating"


def test_the_same_body_again_is_200_at_once(arm: Arm, account: str) -> None:
    again = arm("PUT", account, json=account_body(isHnsEnabled=True))

    assert (again.status_code, again.json()["name"]) == (200, "stdata")


def test_what_is_not_sent_is_insecure_or_not_said(arm: Arm, sandbox: Sandbox) -> None:
    create(arm)
    sandbox.advance(60)

    told = arm("GET", f"{ACCOUNTS}/stnew").json()["properties"]

    assert (told["minimumTlsVersion"], told["allowBlobPublicAccess"]) == ("TLS1_0", True)
    assert told["networkAcls"]["defaultAction"] == "Allow"
    unsaid = {"isHnsEnabled", "allowSharedKeyAccess", "publicNetworkAccess"}
    assert unsaid & set(told) == set()
    assert "requireInfrastructureEncryption" not in told["encryption"]


def test_before_2019_an_account_was_not_https_only(arm: Arm, sandbox: Sandbox) -> None:
    arm("PUT", f"{ACCOUNTS}/stold", json=account_body(), version="2018-11-01")
    create(arm)

    told = {r["name"]: r["properties"] for r in arm("GET", ACCOUNTS).json()["value"]}
    assert told["stold"]["supportsHttpsTrafficOnly"] is False
    assert told["stnew"]["supportsHttpsTrafficOnly"] is True


def test_what_is_sent_is_kept(arm: Arm, sandbox: Sandbox) -> None:
    sent = {
        "minimumTlsVersion": "TLS1_2",
        "allowSharedKeyAccess": False,
        "allowBlobPublicAccess": False,
        "isHnsEnabled": True,
        "publicNetworkAccess": "Disabled",
        "defaultToOAuthAuthentication": True,
    }
    encryption = {"keySource": "Microsoft.Storage", "requireInfrastructureEncryption": True}
    create(arm, encryption=encryption, **sent)

    told = arm("GET", f"{ACCOUNTS}/stnew").json()["properties"]

    assert {name: told[name] for name in sent} == sent
    assert told["encryption"]["requireInfrastructureEncryption"] is True


def test_the_group_in_an_id_comes_back_in_lower_case(arm: Arm) -> None:
    arm("PUT", "@/resourceGroups/Rg-Mixed", json={"location": "eastus2"})
    path = "@/resourceGroups/Rg-Mixed/providers/Microsoft.Storage/storageAccounts/stmixed"
    arm("PUT", path, json=account_body())

    assert "/resourceGroups/rg-mixed/providers/" in arm("GET", path).json()["id"]


def test_the_check_of_a_name_tells_free_invalid_and_taken_also_by_oneself(
    arm: Arm, account: str
) -> None:
    assert check(arm, "stfree") == {"nameAvailable": True}
    assert check(arm, "stdata")["reason"] == "AlreadyExists"
    assert check(arm, "trainingdata")["reason"] == "AlreadyExists"
    invalid = check(arm, "Not_valid")
    assert (invalid["nameAvailable"], invalid["reason"]) == (False, "AccountNameInvalid")


def test_a_name_of_somebody_else_is_taken_and_getting_it_is_404(arm: Arm) -> None:
    taken = create(arm, "trainingdata")

    assert (taken.status_code, code(taken)) == (409, "StorageAccountAlreadyTaken")
    assert code(arm("GET", f"{ACCOUNTS}/trainingdata")) == "ResourceNotFound"


def test_a_name_can_be_taken_though_the_check_said_free(arm: Arm) -> None:
    assert check(arm, "staitrainingold") == {"nameAvailable": True}
    assert code(create(arm, "staitrainingold")) == "StorageAccountAlreadyTaken"


def test_a_name_in_another_group_of_the_subscription_is_said_so(arm: Arm, account: str) -> None:
    arm("PUT", "@/resourceGroups/other", json={"location": "eastus2"})
    other = "@/resourceGroups/other/providers/Microsoft.Storage/storageAccounts/stdata"

    assert code(arm("PUT", other, json=account_body())) == "StorageAccountInAnotherResourceGroup"


def test_the_name_of_a_deleted_account_stays_its_subscriptions_for_a_while(
    arm: Arm, account: str, sandbox: Sandbox
) -> None:
    arm("DELETE", account)
    lab = f"/subscriptions/{sandbox.world.catalogue.subscription_ids[1]}"
    arm("PUT", f"{lab}/resourceGroups/rg", json={"location": "eastus2"})
    there = f"{lab}/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/stdata"

    assert check(arm, "stdata") == {"nameAvailable": True}
    assert code(arm("PUT", there, json=account_body())) == "StorageAccountAlreadyTaken"
    assert create(arm, "stdata").status_code == 202

    arm("DELETE", account)
    sandbox.advance(2 * 86400)
    assert arm("PUT", there, json=account_body()).status_code == 202


@pytest.mark.parametrize("name", ["ab", "x" * 25, "Upper", "under_score", "hyphen-ated"])
def test_a_bad_name_is_refused(arm: Arm, name: str) -> None:
    reply = create(arm, name)

    assert (reply.status_code, code(reply)) == (400, "AccountNameInvalid")


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"kind": "Nonsense"}, "InvalidRequestPropertyValue"),
        ({"sku": "Standard_XRS"}, "InvalidAccountType"),
        ({"kind": "BlockBlobStorage"}, "InvalidRequestPropertyValue"),
        ({"kind": "BlobStorage", "sku": "Standard_ZRS"}, "InvalidRequestPropertyValue"),
        ({"location": "mars"}, "LocationNotAvailableForResourceType"),
        ({"location": ""}, "LocationRequired"),
        ({"location": "westcentralus", "sku": "Standard_ZRS"}, "AccountTypeNotSupportedInLocation"),
        ({"minimumTlsVersion": "TLS9"}, "InvalidRequestPropertyValue"),
        ({"allowSharedKeyAccess": "no"}, "InvalidRequestPropertyValue"),
        ({"isHnsEnabled": 1}, "InvalidRequestPropertyValue"),
        ({"publicNetworkAccess": "Perhaps"}, "InvalidRequestPropertyValue"),
        ({"networkAcls": {"defaultAction": "Block"}}, "InvalidRequestPropertyValue"),
        ({"encryption": {"keySource": "Mine"}}, "UnknownEncryptionKeySource"),
        ({"encryption": {"keySource": "Microsoft.Keyvault"}}, "InvalidRequestPropertyValue"),
        ({"isSftpEnabled": True}, "InvalidRequestPropertyValue"),
    ],
)
def test_what_no_account_can_be_is_refused(arm: Arm, body: dict[str, Any], refused: str) -> None:
    reply = create(arm, **body)

    assert (reply.status_code, code(reply)) == (400, refused)


@pytest.mark.parametrize(
    ("kind", "sku"),
    [
        ("BlobStorage", "Standard_LRS"),
        ("Storage", "Standard_LRS"),
        ("FileStorage", "Premium_LRS"),
        ("StorageV2", "Premium_LRS"),
    ],
)
def test_the_hierarchical_namespace_is_refused_where_the_kind_has_none(
    arm: Arm, kind: str, sku: str
) -> None:
    error = create(arm, kind=kind, sku=sku, isHnsEnabled=True).json()["error"]

    assert error["code"] == "InvalidRequestPropertyValue"
    assert error["message"].startswith("The value 'True' is not allowed for property isHnsEnabled.")


def test_premium_block_blobs_have_their_own_kind_and_the_namespace(arm: Arm) -> None:
    premium = {"kind": "BlockBlobStorage", "sku": "Premium_ZRS"}

    assert create(arm, isHnsEnabled=True, **premium).status_code == 202
    told = arm("GET", f"{ACCOUNTS}/stnew").json()
    assert (told["sku"]["tier"], told["properties"]["accessTier"]) == ("Premium", "Premium")
    assert set(told["properties"]["primaryEndpoints"]) == {"blob", "dfs", "web"}


def test_geo_redundant_accounts_tell_their_second_place(arm: Arm) -> None:
    create(arm, sku="Standard_RAGRS")

    told = arm("GET", f"{ACCOUNTS}/stnew").json()["properties"]

    assert told["secondaryLocation"] == "centralus"
    assert told["secondaryEndpoints"]["blob"] == "https://stnew-secondary.blob.core.windows.net/"


@pytest.mark.parametrize(
    "properties",
    [{"isHnsEnabled": False}, {"encryption": {"requireInfrastructureEncryption": True}}],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_what_is_fixed_at_creation_cannot_be_changed(
    arm: Arm, account: str, method: str, properties: dict[str, Any]
) -> None:
    reply = arm(method, account, json=account_body(**properties))

    assert (reply.status_code, code(reply)) == (400, "AccountPropertyCannotBeUpdated")


def test_an_account_cannot_move_nor_change_its_kind(arm: Arm, account: str) -> None:
    moved = arm("PUT", account, json=account_body(location="westus2"))
    other = arm("PATCH", account, json={"kind": "BlockBlobStorage"})

    assert (moved.status_code, code(moved)) == (409, "InvalidResourceLocation")
    assert code(other) == "AccountPropertyCannotBeUpdated"


def test_an_old_kind_can_be_upgraded(arm: Arm, sandbox: Sandbox) -> None:
    create(arm, kind="Storage")
    sandbox.advance(60)

    upgraded = arm("PATCH", f"{ACCOUNTS}/stnew", json={"kind": "StorageV2"})

    assert (upgraded.status_code, upgraded.json()["kind"]) == (200, "StorageV2")


def test_redundancy_can_change_but_not_to_zones_or_premium(arm: Arm, account: str) -> None:
    def changed(sku: str) -> Reply:
        return arm("PATCH", account, json={"sku": {"name": sku}})

    assert changed("Standard_GRS").json()["properties"]["secondaryLocation"] == "centralus"
    assert "secondaryLocation" not in changed("Standard_LRS").json()["properties"]
    assert code(changed("Standard_ZRS")) == "StorageAccountTypeConversionNotAllowed"
    assert code(changed("Premium_LRS")) == "StorageAccountTypeConversionNotAllowed"


def test_a_patch_changes_what_it_names(arm: Arm, account: str) -> None:
    arm("PATCH", account, json={"tags": {"a": "1"}})

    told = arm("PATCH", account, json={"properties": {"minimumTlsVersion": "TLS1_2"}}).json()

    assert (told["tags"], told["properties"]["minimumTlsVersion"]) == ({"a": "1"}, "TLS1_2")
    assert told["properties"]["isHnsEnabled"] is True


def test_network_rules_are_public_addresses_and_subnets_that_have_the_service_endpoint(
    arm: Arm, account: str, group: str
) -> None:
    def ruled(**acls: Any) -> Reply:
        return arm("PATCH", account, json={"properties": {"networkAcls": acls}})

    subnets = [
        {"name": "open", "properties": {"serviceEndpoints": [{"service": "Microsoft.Storage"}]}},
        {"name": "bare"},
    ]
    network = f"{group}/providers/Microsoft.Network/virtualNetworks/vnet"
    arm("PUT", network, json={"location": "eastus2", "properties": {"subnets": subnets}})
    good = ruled(
        defaultAction="Deny",
        ipRules=[{"value": "203.0.113.0/24"}],
        virtualNetworkRules=[{"id": f"{network}/subnets/open"}],
    )

    assert good.json()["properties"]["networkAcls"]["ipRules"] == [
        {"action": "Allow", "value": "203.0.113.0/24"}
    ]
    for address in ("10.1.0.0/16", "203.0.113.4/32", "2001:db8::1", "here"):
        assert code(ruled(ipRules=[{"value": address}])) == "InvalidValuesForRequestParameters"
    for name in ("bare", "none"):
        refused = ruled(virtualNetworkRules=[{"id": f"{network}/subnets/{name}"}])
        assert code(refused) == "NetworkAclsValidationFailure"


def test_a_deletion_is_200_and_then_204(arm: Arm, account: str) -> None:
    container = f"{account}/blobServices/default/containers/data"
    arm("PUT", container, json={})

    assert [arm("DELETE", account).status_code for _ in range(2)] == [200, 204]
    assert code(arm("GET", account)) == "ResourceNotFound"
    assert code(arm("GET", container)) == "ParentResourceNotFound"


def test_accounts_are_listed_in_pages_by_group_and_subscription(
    storage: StorageManagementClient, arm: Arm, sandbox: Sandbox
) -> None:
    sandbox.world.catalogue.page_rows = 2
    for number in range(5):
        create(arm, f"stpage{number}")
    arm("PUT", "@/resourceGroups/other", json={"location": "eastus2"})

    names = [f"stpage{number}" for number in range(5)]
    assert [a.name for a in storage.storage_accounts.list()] == names
    assert [a.name for a in storage.storage_accounts.list_by_resource_group("rg")] == names
    assert list(storage.storage_accounts.list_by_resource_group("other")) == []


def test_keys_are_listed_also_where_they_are_off_and_the_log_says_so(
    storage: StorageManagementClient, arm: Arm, account: str, sandbox: Sandbox
) -> None:
    arm("PATCH", account, json={"properties": {"allowSharedKeyAccess": False}})

    keys = storage.storage_accounts.list_keys("rg", "stdata")

    assert [key["keyName"] for key in keys["keys"]] == ["key1", "key2"]
    assert any(entry.url.split("?")[0].endswith("/listKeys") for entry in sandbox.world.log)


def test_the_region_tells_how_many_accounts_there_may_be(
    storage: StorageManagementClient, account: str
) -> None:
    (row,) = storage.usages.list_by_location("eastus2")

    assert (row.current_value, row.limit) == (1, 250)


def test_nothing_can_be_created_in_a_missing_group_or_one_that_goes(arm: Arm) -> None:
    missing = "@/resourceGroups/none/providers/Microsoft.Storage/storageAccounts/stnew"
    assert code(arm("PUT", missing, json=account_body())) == "ResourceGroupNotFound"

    arm("DELETE", "@/resourceGroups/rg")

    assert code(create(arm)) == "ResourceGroupBeingDeleted"


def test_a_token_that_expires_in_mid_poll_ends_the_wait_but_not_the_creation(
    storage: StorageManagementClient, sandbox: Sandbox
) -> None:
    sandbox.fail("expired-token", "asyncoperations")

    with pytest.raises(HttpResponseError, match="ExpiredAuthenticationToken"):
        storage.storage_accounts.begin_create("rg", "stnew", account_body()).result()
    sandbox.advance(60)

    found = storage.storage_accounts.get_properties("rg", "stnew")
    assert found.provisioning_state == "Succeeded"


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("operation-timed-out", "OperationTimedOut"),
        ("group-being-deleted", "ResourceGroupBeingDeleted"),
        ("account-busy", "StorageAccountOperationInProgress"),
    ],
)
def test_a_creation_can_fail_as_it_does_in_azure(
    arm: Arm, sandbox: Sandbox, kind: str, refused: str
) -> None:
    sandbox.fail(kind, method="PUT")

    assert code(create(arm)) == refused


def test_in_an_instant_world_an_account_is_there_at_once(arm: Arm, sandbox: Sandbox) -> None:
    sandbox.world.instant = True

    made = create(arm)

    assert made.status_code == 200
    assert made.json()["properties"]["provisioningState"] == "Succeeded"
