"""Requests for higher limits: filed, decided a while later, granted or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.quota import QuotaMgmtClient

from ai4infra.sandbox import Sandbox

if TYPE_CHECKING:
    from arm_client import Arm, Reply

A100 = "Standard NDASv4_A100 Family"
SCOPE = "@/providers/Microsoft.Compute/locations/eastus2/providers/Microsoft.Quota"


@pytest.fixture
def registered(arm: Arm, sandbox: Sandbox) -> None:
    arm("POST", "@/providers/Microsoft.Quota/register")
    sandbox.advance(60)


def body(limit: Any) -> dict[str, Any]:
    return {"properties": {"limit": {"limitObjectType": "LimitValue", "value": limit}}}


def file(arm: Arm, family: str, limit: Any) -> Reply:
    return arm("PUT", f"{SCOPE}/quotas/{family}", json=body(limit))


def outcome(arm: Arm, filed: Reply) -> dict[str, Any]:
    properties: dict[str, Any] = arm("GET", f"{SCOPE}/quotaRequests/{filed.json()['name']}").json()[
        "properties"
    ]
    return properties


def test_a_subscription_that_is_not_registered_is_409(arm: Arm) -> None:
    response = file(arm, A100, 768)

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "MissingSubscriptionRegistration"


def test_registering_takes_a_while(arm: Arm, sandbox: Sandbox) -> None:
    first = arm("POST", "@/providers/microsoft.quota/register").json()["registrationState"]
    sandbox.advance(60)
    later = arm("GET", "@/providers/Microsoft.Quota").json()["registrationState"]

    assert (first, later) == ("Registering", "Registered")


def test_an_unknown_provider_is_404(arm: Arm) -> None:
    response = arm("POST", "@/providers/Microsoft.Unheard/register")

    assert response.json()["error"]["code"] == "InvalidResourceNamespace"


def test_providers_are_listed_with_their_state(arm: Arm) -> None:
    rows = {
        r["namespace"]: r["registrationState"] for r in arm("GET", "@/providers").json()["value"]
    }

    assert rows["Microsoft.Compute"] == "Registered"
    assert rows["Microsoft.Quota"] == "NotRegistered"


@pytest.mark.usefixtures("registered")
def test_a_request_is_202_with_where_to_ask_and_shouts_the_name(arm: Arm) -> None:
    response = file(arm, A100, 768)

    assert response.status_code == 202
    assert "/operationsStatus/" in response.headers["azure-asyncoperation"]
    assert response.headers["location"] == response.headers["azure-asyncoperation"]
    assert response.headers["retry-after"] == "30"
    assert response.json()["properties"]["name"]["value"] == A100.upper()
    assert response.json()["properties"]["provisioningState"] == "InProgress"


@pytest.mark.usefixtures("registered")
def test_a_granted_request_changes_the_usages(sandbox: Sandbox) -> None:
    quota = QuotaMgmtClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    compute = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    scope = f"subscriptions/{sandbox.subscription_id}/providers/Microsoft.Compute/locations/eastus2"

    def limits() -> dict[str, int]:
        return {row.name.value: row.limit for row in compute.usage.list("eastus2")}

    before = limits()
    quota.quota.begin_create_or_update(A100, scope, body(768)).result()

    assert (before[A100], limits()[A100]) == (192, 768)
    assert limits()["cores"] == before["cores"]


@pytest.mark.usefixtures("registered")
def test_a_request_goes_on_for_a_while_and_then_succeeds(arm: Arm, sandbox: Sandbox) -> None:
    filed = file(arm, A100, 768)
    status = f"{SCOPE}/operationsStatus/{filed.json()['name']}"

    before = arm("GET", status)
    sandbox.advance(60)
    after = arm("GET", status)

    assert (before.json()["status"], after.json()["status"]) == ("InProgress", "Succeeded")
    assert "/quotaRequests/" in after.headers["location"]
    assert outcome(arm, filed)["provisioningState"] == "Succeeded"


@pytest.mark.parametrize(
    ("family", "limit", "code"),
    [
        ("standardNDSH100v5Family", 384, "ContactSupport"),
        ("standard NDAMSv4_A100Family", 96, "QuotaNotAvailableForResource"),
        (A100, 5000, "ContactSupport"),
    ],
)
@pytest.mark.usefixtures("registered")
def test_what_the_api_cannot_raise_fails_with_the_services_code(
    arm: Arm, sandbox: Sandbox, family: str, limit: int, code: str
) -> None:
    filed = file(arm, family, limit)
    sandbox.advance(60)

    decided = outcome(arm, filed)

    assert (decided["provisioningState"], decided["error"]["code"]) == ("Failed", code)
    status = arm("GET", f"{SCOPE}/operationsStatus/{filed.json()['name']}").json()
    assert (status["status"], status["error"]["code"]) == ("Failed", code)


@pytest.mark.usefixtures("registered")
def test_the_generated_client_reads_quotas_usages_and_requests(sandbox: Sandbox, arm: Arm) -> None:
    client = QuotaMgmtClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    scope = f"subscriptions/{sandbox.subscription_id}/providers/Microsoft.Compute/locations/eastus2"
    sandbox.world.catalogue.page_rows = 5
    filed = file(arm, A100, 768).json()["name"]

    limits = {q.properties.name.value: q.properties for q in client.quota.list(scope)}
    used = {u.properties.name.value: u.properties for u in client.usages.list(scope)}

    assert limits[A100].limit.value == 192
    assert limits[A100].is_quota_applicable
    assert not limits["availabilitySets"].is_quota_applicable
    assert used["cores"].usages.value == 152
    assert client.usages.get("cores", scope).properties.usages.value == 152
    assert [request.name for request in client.quota_request_status.list(scope)] == [filed]


@pytest.mark.usefixtures("registered")
def test_a_name_that_cannot_be_requested_is_400(arm: Arm) -> None:
    for name in ("standardNoSuchFamily", "availabilitySets"):
        response = file(arm, name, 5)
        assert (response.status_code, response.json()["error"]["code"]) == (
            400,
            "InvalidResourceName",
        )


@pytest.mark.parametrize("limit", [None, "many", -1, True])
@pytest.mark.usefixtures("registered")
def test_a_limit_that_is_no_number_is_400(arm: Arm, limit: object) -> None:
    assert file(arm, A100, limit).json()["error"]["code"] == "InvalidRequestContent"


@pytest.mark.usefixtures("registered")
def test_a_request_is_found_only_where_it_was_filed(arm: Arm) -> None:
    name = file(arm, A100, 768).json()["name"]
    elsewhere = SCOPE.replace("eastus2", "eastus")

    assert arm("GET", f"{elsewhere}/quotaRequests/{name}").status_code == 404
    assert arm("GET", f"{elsewhere}/quotaRequests").json()["value"] == []


@pytest.mark.usefixtures("registered")
def test_the_client_sees_a_refusal_as_an_error(sandbox: Sandbox) -> None:
    client = QuotaMgmtClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    scope = f"subscriptions/{sandbox.subscription_id}/providers/Microsoft.Compute/locations/eastus2"
    poller = client.quota.begin_create_or_update("standardNDSH100v5Family", scope, body(960))

    with pytest.raises(HttpResponseError, match="ContactSupport"):
        poller.result()
