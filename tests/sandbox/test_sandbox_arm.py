"""What every request to Resource Manager must have, and what an unknown one gets."""

from __future__ import annotations

import pytest
from arm_client import ARM, Arm, Http, code

from ai4infra.sandbox import Sandbox


def test_a_request_without_a_token_is_401_with_a_challenge(http: Http) -> None:
    response = http.get(f"{ARM}/subscriptions?api-version=2022-12-01")

    assert (response.status_code, code(response)) == (401, "AuthenticationFailed")
    assert response.headers["WWW-Authenticate"].startswith("Bearer authorization_uri=")


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "e30.e30.e30"])
def test_a_token_of_somebody_else_is_refused(arm: Arm, token: str) -> None:
    response = arm("GET", "/subscriptions", headers={"Authorization": f"Bearer {token}"})

    assert (response.status_code, code(response)) == (401, "InvalidAuthenticationToken")


def test_a_token_for_another_audience_is_refused(sandbox: Sandbox, arm: Arm) -> None:
    token = sandbox.credential.get_token("https://storage.azure.com/.default").token

    response = arm("GET", "/subscriptions", headers={"Authorization": f"Bearer {token}"})

    assert code(response) == "InvalidAuthenticationTokenAudience"


def test_a_token_of_another_tenant_is_refused(sandbox: Sandbox, arm: Arm) -> None:
    token = sandbox.credential.get_token(f"{ARM}/.default").token
    sandbox.world.catalogue.tenant_id = "11111111-0000-4000-8000-000000000000"

    response = arm("GET", "/subscriptions", headers={"Authorization": f"Bearer {token}"})

    assert code(response) == "InvalidAuthenticationTokenTenant"


def test_a_request_without_an_api_version_is_400(arm: Arm) -> None:
    response = arm("GET", "/subscriptions", version=None)

    assert (response.status_code, code(response)) == (400, "MissingApiVersionParameter")


def test_an_api_version_that_is_no_date_is_400(arm: Arm) -> None:
    assert code(arm("GET", "/subscriptions", version="latest")) == "InvalidApiVersionParameter"


def test_an_unknown_subscription_is_404_and_a_malformed_one_400(arm: Arm) -> None:
    unknown = arm("GET", "/subscriptions/00000000-0000-0000-0000-000000000000/locations")
    malformed = arm("GET", "/subscriptions/mine/locations")

    assert (unknown.status_code, code(unknown)) == (404, "SubscriptionNotFound")
    assert (malformed.status_code, code(malformed)) == (400, "InvalidSubscriptionId")


def test_paths_and_query_names_are_read_without_regard_to_case(arm: Arm, sandbox: Sandbox) -> None:
    path = f"/SUBSCRIPTIONS/{sandbox.subscription_id.upper()}/Locations"

    response = arm("GET", path, version=None, params={"API-Version": "2022-12-01"})

    assert response.status_code == 200


def test_an_unknown_route_fails_loudly(arm: Arm) -> None:
    response = arm("GET", "@/providers/Microsoft.Unheard/of")

    assert (response.status_code, code(response)) == (501, "SandboxUnknownRoute")
    assert response.json()["error"]["message"].startswith("the sandbox does not know GET /subsc")


def test_a_known_path_on_the_wrong_host_or_with_another_method_is_an_unknown_route(
    http: Http, arm: Arm
) -> None:
    prices_on_arm = arm("GET", "/api/retail/prices")
    elsewhere = http.get("https://example.com/subscriptions?api-version=2022-12-01")

    assert code(prices_on_arm) == code(elsewhere) == "SandboxUnknownRoute"
    assert "example.com/subscriptions" in elsewhere.json()["error"]["message"]
    assert code(arm("DELETE", "/subscriptions")) == "SandboxUnknownRoute"


def test_a_body_that_is_no_json_object_is_400(arm: Arm) -> None:
    for body in ("{", "[]", ""):
        response = arm("PUT", "@/resourcegroups/rg", data=body)
        assert (response.status_code, code(response)) == (400, "InvalidRequestContent")


def test_the_log_keeps_requests_without_tokens(sandbox: Sandbox, arm: Arm) -> None:
    arm("PUT", "@/resourcegroups/rg", json={"location": "eastus2"})

    logged = sandbox.world.log[-1]

    assert (logged.method, logged.status, logged.body) == ("PUT", 201, {"location": "eastus2"})
    assert "Bearer" not in repr(sandbox.world.log)


def test_subscriptions_come_in_pages(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.world.catalogue.page_rows = 1

    first = arm("GET", "/subscriptions", version="2022-12-01").json()
    link = first["nextLink"].removeprefix(ARM)
    second = arm("GET", link, version=None).json()

    rows = [*first["value"], *second["value"]]
    assert [row["displayName"] for row in rows] == ["Example Training", "Example Lab"]
    assert "nextLink" not in second


def test_a_made_up_skip_token_is_400(arm: Arm) -> None:
    response = arm("GET", "/subscriptions", params={"$skiptoken": "x"})

    assert code(response) == "InvalidSkipToken"


def test_locations_tell_zones_of_this_subscription_and_none_where_there_are_none(
    arm: Arm, sandbox: Sandbox
) -> None:
    rows = {row["name"]: row for row in arm("GET", "@/locations").json()["value"]}
    other = sandbox.world.catalogue.subscription_ids[1]
    others = {r["name"]: r for r in arm("GET", f"/subscriptions/{other}/locations").json()["value"]}

    mapping = rows["eastus2"]["availabilityZoneMappings"]
    assert [m["logicalZone"] for m in mapping] == ["1", "2", "3"]
    assert {m["physicalZone"] for m in mapping} == {f"eastus2-az{n}" for n in (1, 2, 3)}
    assert "availabilityZoneMappings" not in rows["westcentralus"]
    assert rows["europe"]["metadata"]["regionType"] == "Logical"
    assert [rows[n]["availabilityZoneMappings"] for n in ("eastus", "westus2", "uksouth")] != [
        others[n]["availabilityZoneMappings"] for n in ("eastus", "westus2", "uksouth")
    ]


def test_the_tenant_is_told(arm: Arm) -> None:
    assert [t["displayName"] for t in arm("GET", "/tenants").json()["value"]] == ["Example Company"]
