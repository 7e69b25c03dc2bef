"""Writing requests, and the long operations that they begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed

from ai4infra.cloud import resources
from ai4infra.cloud.masking import MASK
from ai4infra.cloud.operations import Written
from ai4infra.cloud.session import Session
from ai4infra.errors import ConflictError, NotFoundError, ServiceError, UsageError

ARM = "https://management.azure.com"
ACCOUNT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Storage"
ACCOUNT += "/storageAccounts/datasets"
OPERATION = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage/locations/eastus2"
OPERATION += "/asyncoperations/7"
CERTIFICATE = "MIIHhz" + "Q0EtY2VydGlmaWNhdGU" * 140
MADE = {"id": ACCOUNT, "name": "datasets", "properties": {"provisioningState": "Succeeded"}}


def signed(turn: int) -> str:
    """The address of an operation as the service signs it, another for each answer."""
    query = f"monitor=true&api-version=2024-01-01&t={turn}&c={CERTIFICATE}&s=c2ln{turn}&h=aGFzaA"
    return f"{ARM}{OPERATION}?{query}"


def accepted(turn: int, **headers: str) -> Any:
    return answer(202, "", location=signed(turn), content_type="text/plain", **headers)


def put(session: Session, pause: Callable[[float], None] | None = None) -> Written:
    body = {"location": "eastus2"}
    return resources.put_resource(
        session, ACCOUNT, "2024-01-01", body, what="Cannot create it", pause=pause
    )


def test_an_answer_at_once_is_the_resource() -> None:
    script = Script().on("PUT", answer(200, MADE))
    written = put(script.session())
    assert (written.status, written.body, written.running) == (200, MADE, False)
    assert script.bodies == [{"location": "eastus2"}]
    assert script.urls == [f"{ARM}{ACCOUNT}?api-version=2024-01-01"]


def test_a_202_without_a_body_is_followed_until_the_resource_comes() -> None:
    script = Script().on("PUT", accepted(1, retry_after="17"))
    script.on("GET", accepted(2, retry_after="17"), answer(200, MADE))
    waits: list[float] = []
    written = put(script.session(), waits.append)
    assert (written.body, written.running) == (MADE, False)
    assert waits == [17.0]


def test_each_poll_goes_to_the_newest_address_uncut() -> None:
    script = Script().on("PUT", accepted(1))
    script.on("GET", accepted(2), accepted(3), answer(200, MADE))
    put(script.session(), lambda seconds: None)
    assert [str(request.url) for request in script.requests[1:]] == [signed(n) for n in (1, 2, 3)]


def test_a_retry_after_of_nothing_does_not_hurry_the_polls() -> None:
    script = Script().on("PUT", accepted(1, retry_after="0"))
    script.on("GET", accepted(2, retry_after="0"), answer(200, MADE))
    waits: list[float] = []
    put(script.session(), waits.append)
    assert min(waits) >= 1


def test_without_a_pause_the_operation_is_left_running() -> None:
    script = Script().on("PUT", accepted(1))
    written = put(script.session())
    assert written.running
    assert len(script.requests) == 1


def test_nothing_of_a_signed_address_is_traced() -> None:
    script = Script().on("PUT", accepted(1))
    script.on("GET", accepted(2), answer(200, MADE))
    lines: list[str] = []
    put(script.session(trace=lines.append), lambda seconds: None)
    told = "\n".join(lines)
    assert CERTIFICATE[:20] not in told
    assert "c2ln" not in told
    assert f"&c={MASK}" in told


def test_nothing_of_a_signed_address_is_in_an_error() -> None:
    script = Script().on("PUT", accepted(1)).on("GET", failed(500, "OperationTimedOut", signed(9)))
    with pytest.raises(ServiceError) as caught:
        put(script.session(), lambda seconds: None)
    told = f"{caught.value.message} {caught.value.hint} {caught.value.detail}"
    assert CERTIFICATE[:20] not in told


def test_a_token_that_expires_between_two_polls_is_renewed() -> None:
    challenge = 'Bearer authorization_uri="https://login", error="invalid_token"'
    expired = failed(401, "ExpiredAuthenticationToken", www_authenticate=challenge)
    script = Script().on("PUT", accepted(1)).on("GET", accepted(2), expired, answer(200, MADE))
    assert put(script.session(), lambda seconds: None).body == MADE
    assert script.tokens[-1] != script.tokens[0]


def test_throttling_of_a_poll_is_waited_out() -> None:
    script = Script().on("PUT", accepted(1))
    script.on("GET", failed(429, "TooManyRequests", retry_after="4"), answer(200, MADE))
    assert put(script.session(), lambda seconds: None).body == MADE
    assert script.slept


def test_what_ends_the_waiting_leaves_it() -> None:
    class EnoughError(Exception):
        pass

    def enough(seconds: float) -> None:
        raise EnoughError

    script = Script().on("PUT", accepted(1)).on("GET", accepted(2))
    with pytest.raises(EnoughError):
        put(script.session(), enough)


def test_a_failure_that_comes_with_a_poll_is_the_error() -> None:
    script = Script().on("DELETE", accepted(1))
    script.on("GET", failed(409, "ResourceGroupDeletionBlocked", "Deletion of it failed."))
    with pytest.raises(ConflictError) as caught:
        resources.delete_resource(
            script.session(), ACCOUNT, "2024-01-01", what="Cannot delete it", pause=lambda s: None
        )
    assert caught.value.code == "ResourceGroupDeletionBlocked"


def test_a_failure_that_comes_with_status_200_is_the_error() -> None:
    body = {"status": "Failed", "error": {"code": "SubnetIsFull", "message": "No address left."}}
    script = Script().on(
        "PUT", answer(201, MADE, azure_asyncoperation=f"{ARM}{OPERATION}?api-version=1")
    )
    script.on("asyncoperations", answer(200, body))
    with pytest.raises(ServiceError) as caught:
        put(script.session(), lambda seconds: None)
    assert caught.value.code == "SubnetIsFull"
    assert "No address left" in caught.value.message


def test_a_failure_at_the_address_that_the_resource_was_to_come_from_is_the_error() -> None:
    body = {"status": "Failed", "error": {"code": "InternalError", "message": "It broke."}}
    script = Script().on("PUT", accepted(1)).on("GET", answer(200, body))
    with pytest.raises(ServiceError) as caught:
        put(script.session(), lambda seconds: None)
    assert caught.value.code == "InternalError"
    assert "It broke" in caught.value.message


@pytest.mark.parametrize("said", ["soon", "-5", "", "1e400"])
def test_a_retry_after_that_cannot_be_read_is_none(said: str) -> None:
    script = Script().on("PUT", accepted(1, retry_after=said))
    script.on("GET", accepted(2, retry_after=said), answer(200, MADE))
    assert put(script.session(), lambda seconds: None).body == MADE


def test_a_202_without_an_address_is_followed_by_reading_the_resource() -> None:
    begun = {"id": ACCOUNT, "properties": {"provisioningState": "Creating"}}
    script = Script().on("PUT", answer(202, ""))
    script.on("GET", failed(404, "ResourceNotFound"), answer(200, begun), answer(200, MADE))
    assert put(script.session(), lambda seconds: None).body == MADE
    assert script.urls[-1] == f"{ARM}{ACCOUNT}?api-version=2024-01-01"


def test_a_deletion_without_an_address_is_over_when_nothing_is_there() -> None:
    script = Script().on("DELETE", answer(202, ""))
    script.on("GET", answer(200, MADE), failed(404, "ResourceNotFound"))
    resources.delete_resource(
        script.session(), ACCOUNT, "2024-01-01", what="Cannot delete it", pause=lambda s: None
    )
    assert [request.method for request in script.requests] == ["DELETE", "GET", "GET"]


def test_an_azure_asyncoperation_ends_with_reading_the_resource() -> None:
    begun = {"id": ACCOUNT, "properties": {"provisioningState": "Updating"}}
    link = f"{ARM}{OPERATION}?api-version=1"
    script = Script().on("PUT", answer(201, begun, azure_asyncoperation=link))
    script.on(
        "asyncoperations",
        answer(200, {"status": "InProgress"}),
        answer(200, {"status": "Succeeded"}),
    )
    script.on("storageAccounts/datasets", answer(200, MADE))
    waits: list[float] = []
    assert put(script.session(), waits.append).body == MADE
    assert len(waits) == 1


def test_a_resource_that_is_still_updating_is_asked_for_again() -> None:
    begun = {"id": ACCOUNT, "properties": {"provisioningState": "Updating"}}
    script = Script().on("PUT", answer(200, begun)).on("GET", answer(200, begun), answer(200, MADE))
    assert put(script.session(), lambda seconds: None).body == MADE


@pytest.mark.parametrize("properties", [{}, {"publicAccess": "None"}, {"principalId": "7"}])
def test_a_201_that_says_nothing_of_a_state_is_done(properties) -> None:
    script = Script().on("PUT", answer(201, {"id": ACCOUNT, "properties": properties}))
    assert not put(script.session(), lambda seconds: None).running
    assert len(script.requests) == 1


def test_a_201_with_a_relative_location_is_done() -> None:
    identity = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/rg/providers/x/y/z"
    script = Script().on("PUT", answer(201, {"id": identity}, location=identity))
    assert put(script.session(), lambda seconds: None).body == {"id": identity}


def test_a_relative_address_of_an_operation_is_of_the_same_host() -> None:
    script = Script().on("PUT", answer(202, "", location=f"{OPERATION}?api-version=1"))
    script.on("GET", answer(200, MADE))
    put(script.session(), lambda seconds: None)
    assert script.urls[-1] == f"{ARM}{OPERATION}?api-version=1"


def test_no_token_goes_to_an_operation_on_another_host() -> None:
    script = Script().on("PUT", answer(202, "", location="https://elsewhere.example/op"))
    with pytest.raises(ServiceError, match="No token is sent to https://elsewhere"):
        put(script.session(), lambda seconds: None)


@pytest.mark.parametrize("status", [200, 204])
def test_a_deletion_has_no_body(status) -> None:
    script = Script().on("DELETE", answer(status, ""))
    written = resources.delete_resource(script.session(), ACCOUNT, "1", what="Cannot delete it")
    assert (written.status, written.body, written.running) == (status, None, False)


def test_what_is_gone_already_counts_as_deleted() -> None:
    script = Script().on("DELETE", failed(404, "ResourceNotFound"))
    assert not resources.delete_resource(script.session(), ACCOUNT, "1", what="x").running


def test_a_subscription_that_does_not_exist_is_no_deletion() -> None:
    script = Script().on("DELETE", failed(404, "SubscriptionNotFound"))
    with pytest.raises(NotFoundError):
        resources.delete_resource(script.session(), ACCOUNT, "1", what="x")


def test_a_conflict_is_not_sent_again() -> None:
    script = Script().on("PUT", failed(409, "StorageAccountAlreadyTaken", retry_after="1"))
    with pytest.raises(ConflictError):
        put(script.session())
    assert len(script.requests) == 1


# --- groups and resources by id


def test_a_group_has_its_location_and_tags() -> None:
    row = {"id": "/x", "name": "rg", "location": "eastus2", "tags": {"team": "ml"}}
    found = resources.group(Script().on("GET", answer(200, row)).session(), SUBSCRIPTION, "rg")
    assert found is not None
    assert (found.name, found.location, found.tags) == ("rg", "eastus2", {"team": "ml"})


def test_a_group_that_does_not_exist_is_none() -> None:
    script = Script().on("GET", failed(404, "ResourceGroupNotFound"))
    assert resources.group(script.session(), SUBSCRIPTION, "rg") is None


def test_a_group_of_an_unknown_subscription_is_an_error() -> None:
    script = Script().on("GET", failed(404, "SubscriptionNotFound"))
    with pytest.raises(NotFoundError):
        resources.group(script.session(), SUBSCRIPTION, "rg")


def provider(**types: list[str]) -> Any:
    rows = [{"resourceType": name, "apiVersions": found} for name, found in types.items()]
    return answer(200, {"namespace": "Microsoft.Example", "resourceTypes": rows})


def test_the_newest_version_is_no_preview_where_there_is_another() -> None:
    versions = ["2026-01-01-preview", "2023-05-01", "2024-05-01"]
    script = Script().on("providers/Microsoft.Example", provider(things=versions))
    found = resources.newest_version(script.session(), SUBSCRIPTION, "Microsoft.Example/Things")
    assert found == "2024-05-01"


def test_a_type_with_previews_only_has_the_newest_of_them() -> None:
    script = Script().on("providers", provider(things=["2023-01-01-preview", "2024-01-01-preview"]))
    found = resources.newest_version(script.session(), SUBSCRIPTION, "Microsoft.Example/things")
    assert found == "2024-01-01-preview"


def test_a_type_that_its_provider_does_not_have_is_a_usage_error() -> None:
    script = Script().on("providers", provider(things=["2023-01-01"]))
    with pytest.raises(UsageError) as caught:
        resources.newest_version(script.session(), SUBSCRIPTION, "Microsoft.Example/thing")
    assert "things" in str(caught.value.hint)


def test_a_scope_that_is_no_resource_is_not_read() -> None:
    script = Script()
    with pytest.raises(UsageError):
        resources.read(script.session(), f"/subscriptions/{SUBSCRIPTION}")
    assert script.requests == []
