"""Faults on request: each as a client of the SDK or a plain one meets it."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.faults import KINDS, Fault, parse_fault

if TYPE_CHECKING:
    from arm_client import Arm, Http


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("throttled", 429, "SubscriptionRequestsThrottled"),
        ("too-many-requests", 429, "TooManyRequests"),
        ("code-429", 429, "429"),
        ("conflict-429", 429, "Conflict"),
        ("internal-error", 500, "InternalServerError"),
        ("gateway-timeout", 504, "GatewayTimeout"),
        ("expired-token", 401, "ExpiredAuthenticationToken"),
        ("forbidden", 403, "AuthorizationFailed"),
        ("policy", 403, "RequestDisallowedByPolicy"),
    ],
)
def test_a_fault_answers_once_instead_of_the_service(
    sandbox: Sandbox, arm: Arm, kind: str, status: int, code: str
) -> None:
    sandbox.fail(kind)

    answer = arm("GET", "/subscriptions")
    body = answer.json()

    assert answer.status_code == status
    assert body.get("Code", body.get("error", {}).get("code")) == code
    assert arm("GET", "/subscriptions").status_code == 200


def test_an_unavailable_service_answers_in_html(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.fail("unavailable")

    answer = arm("GET", "/subscriptions")

    assert (answer.status_code, answer.headers["content-type"]) == (
        503,
        "text/html; charset=us-ascii",
    )
    assert "<h2>Service Unavailable</h2>" in answer.text


def test_retry_after_is_sent_as_it_stands(sandbox: Sandbox, arm: Arm) -> None:
    for value in (303, "Wed, 21 Oct 2026 07:28:00 GMT", "soon"):
        sandbox.fail("throttled", retry_after=value)
        assert arm("GET", "/subscriptions").headers["retry-after"] == str(value)
    sandbox.fail("throttled")
    assert "retry-after" not in arm("GET", "/subscriptions").headers


def test_the_sdk_waits_out_throttling_in_sandbox_time(sandbox: Sandbox) -> None:
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    sandbox.fail("throttled", "/usages", times=2, retry_after=17)
    started = sandbox.world.now()

    assert list(client.usage.list("eastus2"))

    assert (sandbox.world.now() - started).total_seconds() == 34


def test_a_fault_strikes_only_what_it_matches(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.fail("internal-error", "/RESOURCEGROUPS/rg", method="PUT")

    assert arm("GET", "/subscriptions").status_code == 200
    assert arm("GET", "@/resourcegroups/rg").status_code == 404
    assert arm("PUT", "@/resourcegroups/rg", json={"location": "eastus2"}).status_code == 500


def test_a_fault_can_strike_late_and_always(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.fail("internal-error", times=0, after=1)

    statuses = [arm("GET", "/subscriptions").status_code for _ in range(4)]

    assert statuses == [200, 500, 500, 500]


def test_a_token_can_expire_in_the_middle_of_a_poll(sandbox: Sandbox) -> None:
    client = ResourceManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    client.resource_groups.create_or_update("rg", {"location": "eastus2"})
    sandbox.fail("expired-token", "operationresults", after=1)
    poller = client.resource_groups.begin_delete("rg")

    with pytest.raises(HttpResponseError, match="ExpiredAuthenticationToken"):
        poller.result()


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("connect-timeout", ServiceRequestError),
        ("read-timeout", ServiceResponseError),
        ("drop", ServiceRequestError),
    ],
)
def test_a_broken_connection_raises_what_the_sdk_raises(
    sandbox: Sandbox, kind: str, raised: type[Exception]
) -> None:
    client = ComputeManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport(), retry_total=0
    )
    sandbox.fail(kind)

    with pytest.raises(raised):
        list(client.usage.list("eastus2"))
    assert sandbox.world.log[-1].status is None


def test_an_answer_can_break_off(sandbox: Sandbox, arm: Arm) -> None:
    whole = arm("GET", "@/locations").content
    sandbox.fail("truncated")

    half = arm("GET", "@/locations")

    assert half.status_code == 200
    assert whole.startswith(half.content)
    with pytest.raises(json.JSONDecodeError):
        json.loads(half.content)


def test_a_list_can_be_short_without_saying_so(sandbox: Sandbox, arm: Arm, http: Http) -> None:
    sandbox.world.catalogue.page_rows = 1
    sandbox.fail("short", times=2)

    half = arm("GET", "/subscriptions").json()
    prices = http.get("https://prices.azure.com/api/retail/prices").json()

    assert half == {"value": []}
    assert (len(prices["Items"]), "NextPageLink" in prices) == (500, False)


def test_a_short_answer_that_is_no_list_stays_whole(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.fail("short")

    assert arm("GET", "@").json()["displayName"] == "Example Training"


def test_a_policy_denial_says_which_policy(sandbox: Sandbox, arm: Arm) -> None:
    sandbox.fail("policy", method="PUT")

    error = arm("PUT", "@/resourcegroups/rg", json={"location": "eastus2"}).json()["error"]

    info = error["additionalInfo"][0]["info"]
    assert info["policyDefinitionDisplayName"] == "Allowed locations"
    assert info["evaluationDetails"]["evaluatedExpressions"][0]["path"] == "location"


def test_an_unknown_fault_names_the_ones_that_are_close(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError) as caught:
        sandbox.fail("throttle")

    assert caught.value.hint == "Did you mean throttled?"


def test_a_spec_says_everything_that_a_fault_has() -> None:
    fault = parse_fault("throttled,path=/skus.*eastus2,method=GET,times=2,after=1,retry-after=5")

    assert fault == Fault("throttled", "/skus.*eastus2", "GET", 2, 1, "5")
    assert parse_fault("drop") == Fault("drop")


@pytest.mark.parametrize("spec", ["", "drop,", "drop,when=now", "drop,times=x", "drop,path=("])
def test_a_bad_spec_is_a_usage_error(spec: str) -> None:
    with pytest.raises(UsageError):
        parse_fault(spec)


@given(st.text())
def test_any_text_is_a_fault_or_a_usage_error(spec: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_fault(spec).kind in KINDS
