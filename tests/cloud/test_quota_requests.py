import pytest
from support_quota import (
    REGION,
    SUBSCRIPTION,
    T4,
    QuotaService,
    a_session,
    an_error,
    answer,
    dropped,
    fault,
)

from ai4infra.cloud import providers, quota
from ai4infra.cloud.session import Session
from ai4infra.errors import (
    ForbiddenError,
    NetworkError,
    NotFoundError,
    NotRegisteredError,
    ServiceError,
    ThrottledError,
)
from ai4infra.model import QuotaRequest

STATUS = "/quotaRequests/"


@pytest.fixture
def service() -> QuotaService:
    return QuotaService()


@pytest.fixture
def session(service: QuotaService) -> Session:
    return a_session(service)


def file(session: Session, limit: int = 64) -> QuotaRequest:
    return quota.request_limit(session, SUBSCRIPTION, REGION, T4, limit)


def test_a_quota_tells_its_limit_and_that_it_can_be_raised(session):
    setting = quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert setting is not None
    assert (setting.name, setting.limit, setting.adjustable) == (T4, 16, True)


def test_a_quota_that_cannot_be_raised_says_so(session, service):
    service.fixed = {T4}
    setting = quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert setting is not None
    assert setting.adjustable is False


@pytest.mark.parametrize("status", [(400, "InvalidResourceName"), (404, "ResourceNotFound")])
def test_a_quota_that_the_service_does_not_know_is_none(session, service, status):
    service.faults = [fault(an_error(*status))]
    assert quota.current_limit(session, SUBSCRIPTION, REGION, T4) is None


def test_an_unknown_subscription_is_not_an_unknown_quota(session, service):
    service.faults = [fault(an_error(404, "SubscriptionNotFound"))]
    with pytest.raises(NotFoundError):
        quota.current_limit(session, SUBSCRIPTION, REGION, T4)


@pytest.mark.parametrize(
    "properties",
    [
        None,
        {},
        {"limit": None, "isQuotaApplicable": None},
        {"limit": {}},
        {"name": {"value": T4}, "limit": {"limitObjectType": "LimitValue", "value": None}},
    ],
)
def test_what_the_service_leaves_out_is_unknown(session, service, properties):
    service.faults = [fault(answer(200, {"name": T4, "properties": properties}))]
    setting = quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert setting is not None
    assert (setting.limit, setting.adjustable) == (None, None)


def test_a_limit_written_as_a_bare_number_is_read(session, service):
    service.faults = [fault(answer(200, {"name": T4, "properties": {"limit": 24}}))]
    setting = quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert setting is not None
    assert setting.limit == 24


def test_an_answer_of_another_shape_is_an_error_and_no_traceback(session, service):
    service.faults = [fault(answer(200, {"properties": {"limit": {"value": "many"}}}))]
    with pytest.raises(ServiceError):
        quota.current_limit(session, SUBSCRIPTION, REGION, T4)


def test_a_request_is_one_put_with_the_nested_limit_and_the_family_verbatim(session, service):
    request = file(session)
    (write,) = service.writes
    method, path, body = write
    assert method == "PUT"
    assert path == (
        f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{REGION}"
        f"/providers/Microsoft.Quota/quotas/{T4}"
    )
    assert body["properties"]["limit"] == {"limitObjectType": "LimitValue", "value": 64}
    assert body["properties"]["name"] == {"value": T4}
    assert request.pending


def test_the_family_keeps_its_spelling_though_the_answer_shouts(session):
    request = file(session)
    assert request.family == T4
    assert request.limit_vcpus == 64


def test_blanks_in_the_family_are_escaped_on_the_wire(session, service):
    urls = []
    service.faults = [lambda request: urls.append(request.url)]
    quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert "/quotas/Standard%20NCASv3_T4%20Family?" in urls[0]


def test_a_request_that_is_granted_at_once_has_no_id_and_is_not_waited_for(session, service):
    service.at_once = True
    request = quota.wait_for(session, file(session))
    assert request.succeeded
    assert request.request_id is None
    assert quota.request_status(session, request) == request


def test_waiting_ends_with_the_decision(session):
    told = []
    request = quota.wait_for(session, file(session), on_progress=told.append)
    assert request.succeeded
    assert all(str(request.request_id) in line for line in told)
    assert told[0].endswith("InProgress after 0 s")


def test_waiting_ends_when_the_time_is_over(session, service):
    service.polls_until_decided = 1000
    request = quota.wait_for(session, file(session), timeout_seconds=60)
    assert request.pending
    assert session.transport._transport.slept_seconds == 60


def test_a_refused_request_carries_the_code_and_the_message(session, service):
    service.decision, service.code = "Failed", "ContactSupport"
    request = quota.wait_for(session, file(session))
    assert request.refused
    assert (request.code, request.message) == ("ContactSupport", "Request failed.")


def test_only_undecided_requests_for_the_family_are_pending(session, service):
    waiting = file(session)
    quota.request_limit(session, SUBSCRIPTION, REGION, "cores", 2000)
    decided = file(session, 32)
    service.requests[str(decided.request_id)]["state"] = "Failed"
    (found,) = quota.pending_requests(session, SUBSCRIPTION, REGION, T4.upper())
    assert found.request_id == waiting.request_id
    assert found.limit_vcpus == 64
    assert found.submitted == "2026-03-01T10:00:00Z"


def test_an_unregistered_subscription_is_told_and_not_registered(session, service):
    service.registration = "NotRegistered"
    with pytest.raises(NotRegisteredError) as caught:
        quota.current_limit(session, SUBSCRIPTION, REGION, T4)
    assert "Microsoft.Quota" in str(caught.value.hint)
    assert service.writes == []


def test_a_forbidden_request_names_the_role(session, service):
    said = (
        "The client 'x' with object id 'y' does not have authorization to perform action"
        f" 'Microsoft.Quota/quotas/write' over scope '/subscriptions/{SUBSCRIPTION}'."
    )
    service.faults = [fault(an_error(403, "AuthorizationFailed", said), method="PUT")]
    with pytest.raises(ForbiddenError) as caught:
        file(session)
    assert "Quota Request Operator" in str(caught.value.hint)


def test_a_long_retry_after_is_told_and_not_waited_for(session, service):
    throttled = an_error(429, "TooManyRequests", headers={"Retry-After": "3600"})
    service.faults = [fault(throttled, method="PUT")]
    with pytest.raises(ThrottledError) as caught:
        file(session)
    assert caught.value.retry_after_seconds == 3600
    assert session.transport._transport.slept_seconds == 0


def test_a_short_retry_after_in_mid_poll_is_waited_for(session, service):
    throttled = an_error(429, "TooManyRequests", headers={"Retry-After": "7"})
    service.faults = [fault(throttled, path=STATUS)]
    assert quota.wait_for(session, file(session)).succeeded


def test_a_token_that_expires_in_mid_poll_is_replaced(session, service):
    expired = an_error(
        401,
        "ExpiredAuthenticationToken",
        headers={"WWW-Authenticate": 'Bearer authorization_uri="x", error="invalid_token"'},
    )
    service.faults = [fault(expired, path=STATUS)]
    assert quota.wait_for(session, file(session)).succeeded


def test_a_connection_dropped_once_in_mid_poll_does_not_end_the_wait(session, service):
    service.faults = [fault(dropped(), path=STATUS)]
    assert quota.wait_for(session, file(session)).succeeded


def test_a_connection_that_stays_dropped_is_a_network_error(session, service):
    service.faults = [fault(dropped(), path=STATUS) for _ in range(20)]
    with pytest.raises(NetworkError):
        quota.wait_for(session, file(session))


@pytest.mark.parametrize("state", ["NotRegistered", "Registering", "Registered"])
def test_the_registration_is_read_as_the_service_says_it(session, service, state):
    service.registration, service.polls_until_registered = state, 9
    found = providers.registration_state(session, SUBSCRIPTION, "Microsoft.Quota")
    assert found == state


def test_registering_takes_a_while(session, service):
    service.registration = "NotRegistered"
    assert providers.register(session, SUBSCRIPTION, "Microsoft.Quota") == "Registering"
    told = []
    assert providers.wait_until_registered(
        session, SUBSCRIPTION, "Microsoft.Quota", on_progress=told.append
    )
    assert told == ["Microsoft.Quota: Registering after 0 s"]


def test_a_registration_that_does_not_end_is_given_up(session, service):
    service.registration, service.polls_until_registered = "Registering", 1000
    assert not providers.wait_until_registered(
        session, SUBSCRIPTION, "Microsoft.Quota", timeout_seconds=30
    )
