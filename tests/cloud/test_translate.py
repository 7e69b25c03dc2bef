from __future__ import annotations

import json
import subprocess

import pytest
import requests
import urllib3
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ai4infra.cloud.translate import (
    LONGEST_SENTENCE,
    error_of,
    one_sentence,
    quota_numbers,
    read_envelope,
    retry_after_seconds,
    role_for,
    translate,
    translated,
)
from ai4infra.errors import (
    Ai4infraError,
    ConflictError,
    ForbiddenError,
    NetworkError,
    NotFoundError,
    NotRegisteredError,
    PolicyDeniedError,
    ServiceError,
    SignInError,
    ThrottledError,
)

WHAT = "Cannot do it"
INSIDE = json.dumps({"error": {"code": "C", "message": "M"}})
SCOPE = "/subscriptions/7a1d3c52-90d4-4f7e-8f0e-5d7d6b1c2a34"
NEW_QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardDASv5Family "
    "Cores quota. Additional details - Deployment Model: Resource Manager, Location: eastus, "
    "Current Limit: 100, Current Usage: 96, Additional Required: 64, (Minimum) New Limit "
    "Required: 160. Setup Alerts when Quota reaches threshold."
)
OLD_QUOTA = (
    "Operation results in exceeding quota limits of Core. Maximum allowed: 100, Current in use: "
    "97, Additional requested: 4."
)


def an_error(status: int, code: str, message: str, **headers: str) -> Ai4infraError:
    body = json.dumps({"error": {"code": code, "message": message}})
    return error_of(status, headers, body, WHAT)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "C", "message": "M"}},
        {"code": "C", "message": "M"},
        {"Code": "C", "Message": "M", "Target": None, "Details": [{"Message": "M"}]},
        {"status": "Failed", "error": {"code": "C", "message": "M"}},
        {"odata.error": {"code": "C", "message": {"lang": "en", "value": "M"}}},
        {"error": "C", "error_description": "M"},
        json.dumps({"error": {"code": "C", "message": "M"}}),
        {
            "error": {
                "code": "Outer",
                "message": json.dumps({"error": {"code": "C", "message": "M"}}),
            }
        },
        {"error": {"code": "DeploymentFailed", "details": [{"code": "C", "message": "M"}]}},
        {
            "error": {
                "code": "InvalidTemplateDeployment",
                "details": [
                    {
                        "code": "PreflightValidationCheckFailed",
                        "details": [{"code": "C", "message": "M"}],
                    }
                ],
            }
        },
        {
            "error": {
                "code": "DeploymentFailed",
                "details": [
                    {
                        "code": "Conflict",
                        "message": INSIDE,
                    }
                ],
            }
        },
    ],
)
def test_every_shape_of_error_body_gives_code_and_message(body: object) -> None:
    found = read_envelope(json.dumps(body))
    assert found is not None
    assert (found.code, found.message) == ("C", "M")


def test_a_body_with_a_byte_order_mark_is_read() -> None:
    found = read_envelope(b"\xef\xbb\xbf" + b'{"code": "C"}')
    assert found is not None
    assert found.code == "C"


@pytest.mark.parametrize("body", ["", "<html>", "null", "[]", "{}", '{"error": {"co', "7", '"x"'])
def test_a_body_that_is_no_error_is_none(body: str) -> None:
    assert read_envelope(body) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "message", "Message", "details", "additionalInfo"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(json_values, st.sampled_from([200, 400, 401, 403, 404, 409, 429, 500, 503]))
def test_any_json_gives_one_sentence(value: object, status: int) -> None:
    error = error_of(status, {}, json.dumps(value), WHAT)
    assert isinstance(error, Ai4infraError)
    assert error.message.startswith(WHAT)
    assert "\n" not in error.message


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([400, 429, 500]))
def test_any_bytes_give_one_sentence(body: bytes, status: int) -> None:
    assert "\n" not in error_of(status, {}, body, WHAT).message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ServiceError),
        (401, SignInError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (412, ConflictError),
        (429, ThrottledError),
        (500, ServiceError),
        (503, ServiceError),
        (302, ServiceError),
    ],
)
def test_a_status_without_a_body_has_its_kind_and_a_next_step(
    status: int, kind: type[Ai4infraError]
) -> None:
    error = error_of(status, {}, b"", WHAT)
    assert type(error) is kind
    assert error.hint
    assert str(status) in error.message


def test_html_is_told_with_its_title_and_not_shown() -> None:
    body = "<!DOCTYPE HTML><html><head><title>Service Unavailable</title></head><p>x"
    error = error_of(503, {}, body, WHAT)
    assert "a web page (Service Unavailable)" in error.message
    assert "<p>" not in error.message


def test_forbidden_names_the_action_the_scope_and_the_role() -> None:
    error = an_error(
        403,
        "AuthorizationFailed",
        "The client '027a' with object id '027a' does not have authorization to perform action "
        f"'Microsoft.Quota/quotas/write' over scope '{SCOPE}' or the scope is invalid. If access "
        "was recently granted, please refresh your credentials.",
    )
    assert type(error) is ForbiddenError
    assert error.message == f"{WHAT}: not allowed to do Microsoft.Quota/quotas/write on {SCOPE}."
    assert "'Quota Request Operator'" in str(error.hint)


@pytest.mark.parametrize(
    ("action", "role"),
    [
        ("Microsoft.Compute/skus/read", "Reader"),
        ("Microsoft.Quota/quotas/read", "Reader"),
        (
            "microsoft.authorization/roleAssignments/write",
            "Role Based Access Control Administrator",
        ),
        ("Microsoft.Storage/storageAccounts/write", "Storage Account Contributor"),
        ("Microsoft.Resources/subscriptions/resourceGroups/write", "Contributor"),
    ],
)
def test_the_role_to_ask_for_is_the_least_one(action: str, role: str) -> None:
    assert role_for(action) == role


def test_a_policy_denial_names_policy_property_and_wanted_value() -> None:
    info = {
        "policyDefinitionDisplayName": "Allowed locations",
        "policyAssignmentDisplayName": "Only Europe",
        "evaluationDetails": {
            "evaluatedExpressions": [
                {
                    "path": "location",
                    "expressionValue": "eastus",
                    "operator": "In",
                    "targetValue": ["westeurope"],
                }
            ]
        },
    }
    additional = [{"type": "PolicyViolation", "info": info}]
    body = {"error": {"code": "RequestDisallowedByPolicy", "additionalInfo": additional}}
    error = error_of(403, {}, json.dumps(body), WHAT)
    assert type(error) is PolicyDeniedError
    for part in ("Allowed locations", "Only Europe", "location is 'eastus'", "westeurope"):
        assert part in error.message


def test_a_policy_named_only_inside_the_message_is_found() -> None:
    policies = '[{"policyAssignment":{"name":"lock"},"policyDefinition":{"name":"p2","id":"x"}}]'
    said = f"Resource 'n' was disallowed by policy. Policy identifiers: '{policies}'."
    error = an_error(403, "RequestDisallowedByPolicy", said)
    assert "policy 'p2'" in error.message


def test_a_missing_registration_tells_the_command() -> None:
    said = "The subscription is not registered to use namespace 'Microsoft.Quota'. See https://x."
    error = an_error(409, "MissingSubscriptionRegistration", said)
    assert type(error) is NotRegisteredError
    assert "az provider register --namespace Microsoft.Quota" in str(error.hint)


def test_a_wrong_tenant_tells_the_right_one() -> None:
    right, wrong = (
        "1" * 8 + "-0000-0000-0000-000000000000",
        "2" * 8 + "-0000-0000-0000-000000000000",
    )
    said = (
        f"The access token is from the wrong issuer 'https://sts.windows.net/{wrong}/'. It must "
        f"match the tenant 'https://sts.windows.net/{right}/' associated with this subscription."
    )
    error = an_error(401, "InvalidAuthenticationTokenTenant", said)
    assert type(error) is SignInError
    assert str(error.hint).endswith(f"az login --tenant {right}")


@pytest.mark.parametrize(
    "said",
    [
        "The subscription 'x' could not be found.",
        "The provided subscription identifier 'x' is malformed or invalid.",
    ],
)
def test_an_unknown_subscription_is_not_found(said: str) -> None:
    error = an_error(404, "SubscriptionNotFound", said)
    assert type(error) is NotFoundError
    assert error.exit_code == 3
    assert "az account list" in str(error.hint)


@pytest.mark.parametrize(
    ("status", "code", "kind", "part"),
    [
        (404, "ResourceGroupNotFound", NotFoundError, "resource group"),
        (409, "ScopeLocked", ConflictError, "az lock list"),
        (409, "SkuNotAvailable", ConflictError, "another zone, region or size"),
        (200, "ZonalAllocationFailed", ConflictError, "another zone, region or size"),
        (401, "InvalidAuthenticationToken", SignInError, "az login"),
        (409, "StorageAccountAlreadyTaken", ConflictError, "exists"),
    ],
)
def test_a_known_code_has_its_own_next_step(
    status: int, code: str, kind: type[Ai4infraError], part: str
) -> None:
    error = an_error(status, code, "Said.")
    assert type(error) is kind
    assert error.code == code
    assert part in str(error.hint)


def test_a_code_is_known_in_any_case() -> None:
    assert type(an_error(409, "scopelocked", "x")) is ConflictError
    assert "lock" in str(an_error(409, "scopelocked", "x").hint)


def test_the_code_of_an_empty_body_comes_from_the_header() -> None:
    error = error_of(404, {"x-ms-error-code": "ResourceNotFound"}, b"", WHAT)
    assert error.code == "ResourceNotFound"


def test_both_wordings_of_a_quota_message_give_the_numbers() -> None:
    new, old = quota_numbers(NEW_QUOTA), quota_numbers(OLD_QUOTA)
    assert new is not None
    assert old is not None
    assert (new.quota, new.region) == ("standardDASv5Family Cores", "eastus")
    assert (new.limit, new.used, new.required, new.new_limit) == (100, 96, 64, 160)
    assert (old.quota, old.limit, old.used, old.required, old.new_limit) == (
        "Core",
        100,
        97,
        4,
        101,
    )


def test_a_quota_message_without_a_location_gives_the_numbers() -> None:
    found = quota_numbers(NEW_QUOTA.replace("Location: eastus, ", ""))
    assert found is not None
    assert (found.region, found.limit) == (None, 100)


def test_a_quota_error_tells_the_numbers_and_the_request() -> None:
    error = an_error(409, "OperationNotAllowed", NEW_QUOTA)
    assert type(error) is ConflictError
    assert "limit 100, used 96, 64 more required" in error.message
    command = "ai4infra quota request --region eastus --family standardDASv5Family --limit 160"
    assert command in str(error.hint)


def test_operation_not_allowed_that_is_not_quota_keeps_its_sentence() -> None:
    error = an_error(409, "OperationNotAllowed", "The VM is being deleted.")
    assert "The VM is being deleted." in error.message
    assert "quota request" not in str(error.hint)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "SubscriptionRequestsThrottled", "message": "limit of '1200'."}},
        {"error": {"code": "TooManyRequests", "message": "x"}},
        {"Code": "TooManyRequests", "Message": "Too many requests."},
        {"Code": "429", "Message": "Cannot acquire exclusive lock."},
        {"error": {"code": "429", "message": "Too many requests"}},
        {"error": {"code": "OperationNotAllowed", "message": "too many requests received"}},
        {"id": "/subscriptions/x", "name": "a group"},
        "",
    ],
)
def test_throttling_is_told_in_each_of_its_shapes(body: object) -> None:
    error = error_of(429, {"retry-after": "7"}, json.dumps(body) if body else "", WHAT)
    assert isinstance(error, ThrottledError)
    assert error.retry_after_seconds == 7
    assert "in 7 seconds" in str(error.hint)


@pytest.mark.parametrize("code", ["Conflict", "RetryableError", "ReferencedResourceNotProvisioned"])
def test_a_busy_resource_with_status_429_is_not_throttling(code: str) -> None:
    error = an_error(429, code, "Another operation is in progress.")
    assert type(error) is ConflictError


def test_a_throttled_request_without_a_header_reads_the_wait_from_the_sentence() -> None:
    said = "Number of requests exceeded the limit. Please try again after '303' seconds."
    error = an_error(429, "SubscriptionRequestsThrottled", said)
    assert isinstance(error, ThrottledError)
    assert error.retry_after_seconds == 303


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "5"}, 5),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"x-ms-retry-after-ms": "500"}, 0.5),
        (
            {
                "date": "Tue, 01 Dec 2026 12:00:00 GMT",
                "retry-after": "Tue, 01 Dec 2026 12:00:30 GMT",
            },
            30,
        ),
        ({"retry-after": "0"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_from_any_header(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_retry_after_is_none_or_a_sane_wait(value: str) -> None:
    seconds = retry_after_seconds({"retry-after": value, "date": "Tue, 01 Dec 2026 12:00:00 GMT"})
    assert seconds is None or seconds >= 0


def test_a_sentence_is_one_line_of_bearable_length_without_secrets() -> None:
    text = one_sentence("First line\r\n  second sig=SECRET " + "word " * 500)
    assert text.startswith("First line second sig=***")
    assert len(text) <= LONGEST_SENTENCE + 2
    assert text.endswith("…")


def test_the_detail_keeps_the_body_masked() -> None:
    error = an_error(400, "X", "see https://a.blob.core.windows.net/c?sv=1&sig=SECRET")
    assert "sv=1" in str(error.detail)
    assert "SECRET" not in str(error.detail) + error.message


def inner(error: Exception, kind: type[AzureError] = ServiceRequestError) -> AzureError:
    return kind(error, error=error)


def pool_error(reason: str) -> requests.ConnectionError:
    return requests.ConnectionError(
        f"HTTPSConnectionPool(host='management.azure.com', port=443): Max retries exceeded "
        f"(Caused by {reason})"
    )


@pytest.mark.parametrize(
    ("error", "part", "hint"),
    [
        (
            inner(pool_error("NameResolutionError(\"Failed to resolve 'management.azure.com'\")")),
            "the name management.azure.com cannot be resolved",
            "DNS",
        ),
        (
            inner(requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] host='x'")),
            "the certificate of x is not trusted",
            "REQUESTS_CA_BUNDLE",
        ),
        (
            inner(requests.exceptions.ProxyError("host='x' Cannot connect to proxy")),
            "the proxy in front of x",
            "HTTPS_PROXY",
        ),
        (
            inner(requests.ConnectTimeout("host='x' timed out"), ServiceRequestTimeoutError),
            "x cannot be reached in time",
            "firewall",
        ),
        (
            inner(requests.ReadTimeout("host='x' Read timed out."), ServiceResponseTimeoutError),
            "x took too long to answer",
            "again",
        ),
        (
            inner(urllib3.exceptions.ProtocolError("Connection aborted."), ServiceResponseError),
            "the service dropped the connection",
            "again",
        ),
        (
            inner(pool_error("NewConnectionError('Connection refused')")),
            "management.azure.com cannot be reached",
            "firewall",
        ),
    ],
)
def test_a_failure_of_the_network_is_told_by_its_cause(
    error: AzureError, part: str, hint: str
) -> None:
    told = translate(error, WHAT)
    assert type(told) is NetworkError
    assert part in told.message
    assert hint in str(told.hint)


def test_an_answer_cut_off_is_incomplete() -> None:
    assert "incomplete" in translate(IncompleteReadError("x"), WHAT).message


def signing_in(message: str, cause: Exception | None = None) -> Ai4infraError:
    error = ClientAuthenticationError(message)
    error.__cause__ = cause
    return translate(error, WHAT)


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("Please run 'az login' to set up an account", "not signed in."),
        ("Azure CLI not found on path", "az is not installed"),
        ("ERROR: AADSTS70043: The refresh token has expired.\nTrace ID: 5", "refresh token"),
        ("ManagedIdentityCredential authentication unavailable.", "ManagedIdentityCredential"),
    ],
)
def test_a_missing_sign_in_is_one_sentence_and_both_ways_on(message: str, part: str) -> None:
    error = signing_in(message)
    assert type(error) is SignInError
    assert part in error.message
    assert "az login" in str(error.hint)
    assert "--sandbox" in str(error.hint)


@pytest.mark.parametrize(
    "message",
    [
        "ManagedIdentityCredential authentication unavailable, no response from the IMDS endpoint",
        "The managed identity endpoint gives no token: Identity not found",
    ],
)
def test_a_missing_managed_identity_is_a_sentence_with_ways_to_one(message: str) -> None:
    error = signing_in(message)
    assert error.message == f"{WHAT}: {message}."
    assert "managed identity" in str(error.hint)
    assert "--client-id" in str(error.hint)


def test_a_slow_az_is_told_as_slow() -> None:
    cause = subprocess.TimeoutExpired("az", 30)
    assert "too slow" in signing_in("Failed to invoke the Azure CLI", cause).message


def test_the_code_of_the_sign_in_service_is_kept() -> None:
    assert signing_in("AADSTS50076: more needed").code == "AADSTS50076"


def test_a_refusal_of_the_sign_in_service_is_not_taken_for_one_of_azure() -> None:
    response = requests.Response()
    response.status_code = 400
    error = ClientAuthenticationError("AADSTS7000215: Invalid client secret provided.")
    error.response = response
    told = translate(error, WHAT)
    assert (type(told), told.code) == (SignInError, "AADSTS7000215")


def test_translated_lets_our_own_errors_and_bugs_through() -> None:
    with pytest.raises(ZeroDivisionError), translated(WHAT):
        _ = 1 / 0
    with pytest.raises(NotFoundError), translated(WHAT):
        raise NotFoundError("x")


def test_translated_keeps_the_cause() -> None:
    with pytest.raises(ServiceError) as caught, translated(WHAT):
        raise HttpResponseError("Operation returned an invalid status")
    assert isinstance(caught.value.__cause__, HttpResponseError)


@pytest.mark.parametrize("code", ["ReadOnlyDisabledSubscription", "SubscriptionDisabled"])
def test_a_disabled_subscription_is_told_as_such(code: str) -> None:
    error = an_error(409, code, "The subscription is disabled.")
    assert isinstance(error, ForbiddenError)
    assert "enable it again" in str(error.hint)
