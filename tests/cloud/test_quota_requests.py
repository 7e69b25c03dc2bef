import pytest
from support import answer, failed
from support_between import REGION, T4, T4_LIMIT, Between, dropped

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
from ai4infra.model import QuotaRequest, QuotaSetting
from ai4infra.sandbox import Sandbox

QUOTA = "/quotas/"
STATUS = "/quotaRequests/"
NAMESPACE = "Microsoft.Quota"


@pytest.fixture
def azure(sandbox: Sandbox) -> Between:
    between = Between(sandbox)
    between.register()
    return between


@pytest.fixture
def session(azure: Between) -> Session:
    return azure.session()


@pytest.fixture
def subscription(sandbox: Sandbox) -> str:
    return sandbox.subscription_id


@pytest.fixture
def filed(session: Session, subscription: str) -> QuotaRequest:
    return quota.request_limit(session, subscription, REGION, T4, 96)


def the_setting(session: Session, subscription: str, family: str = T4) -> QuotaSetting:
    setting = quota.current_limit(session, subscription, REGION, family)
    assert setting is not None
    return setting


def test_a_quota_tells_its_limit_and_that_it_can_be_raised(session, subscription):
    setting = the_setting(session, subscription)
    assert (setting.name, setting.limit, setting.adjustable) == (T4, T4_LIMIT, True)


def test_a_quota_that_cannot_be_raised_says_so(session, subscription):
    assert the_setting(session, subscription, "availabilitySets").adjustable is False


@pytest.mark.parametrize(("status", "code"), [(400, "InvalidResourceName"), (404, "NotFound")])
def test_a_quota_that_the_service_does_not_know_is_none(azure, session, subscription, status, code):
    azure.instead("GET", QUOTA, failed(status, code))
    assert quota.current_limit(session, subscription, REGION, T4) is None


def test_an_unknown_subscription_is_not_an_unknown_quota(azure, session, subscription):
    azure.instead("GET", QUOTA, failed(404, "SubscriptionNotFound"))
    with pytest.raises(NotFoundError):
        quota.current_limit(session, subscription, REGION, T4)


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
def test_what_the_service_leaves_out_is_unknown(azure, session, subscription, properties):
    azure.instead("GET", QUOTA, answer(200, {"name": T4, "properties": properties}))
    setting = the_setting(session, subscription)
    assert (setting.limit, setting.adjustable) == (None, None)


def test_a_limit_written_as_a_bare_number_is_read(azure, session, subscription):
    azure.instead("GET", QUOTA, answer(200, {"name": T4, "properties": {"limit": 24}}))
    assert the_setting(session, subscription).limit == 24


def test_an_answer_of_another_shape_is_an_error_and_no_traceback(azure, session, subscription):
    azure.instead("GET", QUOTA, answer(200, {"properties": {"limit": {"value": "many"}}}))
    with pytest.raises(ServiceError):
        quota.current_limit(session, subscription, REGION, T4)


def test_a_request_is_one_put_with_the_nested_limit_and_the_family_verbatim(
    azure, subscription, filed
):
    ((method, path, body),) = azure.writes
    assert method == "PUT"
    assert path == (
        f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{REGION}"
        f"/providers/Microsoft.Quota/quotas/{T4}"
    )
    assert body["properties"]["limit"] == {"limitObjectType": "LimitValue", "value": 96}
    assert body["properties"]["name"] == {"value": T4}
    assert filed.pending


def test_blanks_in_the_family_are_escaped_on_the_wire(azure, filed):
    assert "/quotas/Standard%20NCASv3_T4%20Family?" in azure.urls[-1]


def test_the_family_keeps_its_spelling_though_the_answer_shouts(filed):
    assert (filed.family, filed.limit_vcpus) == (T4, 96)


def test_a_request_that_is_granted_at_once_has_no_id_and_is_not_waited_for(
    azure, session, subscription
):
    granted = {"name": T4, "properties": {"limit": {"value": 96}}}
    azure.instead("PUT", QUOTA, answer(200, granted))
    request = quota.request_limit(session, subscription, REGION, T4, 96)
    assert request.succeeded
    assert request.request_id is None
    assert quota.request_status(session, request) == request
    assert quota.wait_for(session, request) == request


def test_waiting_ends_with_the_decision(azure, session, filed):
    told = []
    assert quota.wait_for(session, filed, on_progress=told.append).succeeded
    assert azure.limit(T4) == 96
    assert told[0].endswith("InProgress after 0 s")
    assert all(str(filed.request_id) in line for line in told)


def test_waiting_ends_when_the_time_is_over(azure, session, filed):
    assert quota.wait_for(session, filed, timeout_seconds=30).pending
    assert azure.waited() == 30


def test_a_refused_request_carries_the_code_and_the_message(session, subscription):
    request = quota.request_limit(session, subscription, REGION, "standardNDSH100v5Family", 384)
    decided = quota.wait_for(session, request)
    assert decided.refused
    assert decided.code == "ContactSupport"
    assert decided.message == "Request failed, please contact support."


def test_only_undecided_requests_for_the_family_are_pending(session, subscription):
    decided = quota.request_limit(session, subscription, REGION, T4, 72)
    quota.wait_for(session, decided)
    waiting = quota.request_limit(session, subscription, REGION, T4, 96)
    quota.request_limit(session, subscription, REGION, "cores", 900)
    (found,) = quota.pending_requests(session, subscription, REGION, T4.upper())
    assert found.request_id == waiting.request_id
    assert found.limit_vcpus == 96
    assert found.submitted is not None


def test_an_unregistered_subscription_is_told_and_not_registered(sandbox, subscription):
    azure = Between(sandbox)
    with pytest.raises(NotRegisteredError) as caught:
        quota.current_limit(azure.session(), subscription, REGION, T4)
    assert NAMESPACE in str(caught.value.hint)
    assert azure.writes == []


def test_a_forbidden_request_names_the_role(azure, session, subscription):
    said = (
        "The client 'x' with object id 'y' does not have authorization to perform action"
        f" 'Microsoft.Quota/quotas/write' over scope '/subscriptions/{subscription}'."
    )
    azure.instead("PUT", QUOTA, failed(403, "AuthorizationFailed", said))
    with pytest.raises(ForbiddenError) as caught:
        quota.request_limit(session, subscription, REGION, T4, 96)
    assert "Quota Request Operator" in str(caught.value.hint)


def test_a_long_retry_after_is_told_and_not_waited_for(azure, session, subscription):
    azure.instead("PUT", QUOTA, failed(429, "TooManyRequests", retry_after="3600"))
    with pytest.raises(ThrottledError) as caught:
        quota.request_limit(session, subscription, REGION, T4, 96)
    assert caught.value.retry_after_seconds == 3600
    assert azure.waited() == 0


def test_a_short_retry_after_in_mid_poll_is_waited_for(azure, session, filed):
    azure.instead("GET", STATUS, failed(429, "TooManyRequests", retry_after="7"))
    assert quota.wait_for(session, filed).succeeded


def test_a_token_that_expires_in_mid_poll_is_replaced(sandbox, session, filed):
    sandbox.fail("expired-token", STATUS)
    assert quota.wait_for(session, filed).succeeded


def test_a_connection_dropped_once_in_mid_poll_does_not_end_the_wait(azure, session, filed):
    azure.instead("GET", STATUS, dropped())
    assert quota.wait_for(session, filed).succeeded


def test_a_connection_that_stays_dropped_is_a_network_error(azure, session, filed):
    azure.instead("GET", STATUS, *[dropped()] * 20)
    with pytest.raises(NetworkError):
        quota.wait_for(session, filed)


def test_registering_takes_a_while(sandbox, subscription):
    session = Between(sandbox).session()
    assert providers.registration_state(session, subscription, NAMESPACE) == "NotRegistered"
    assert providers.register(session, subscription, NAMESPACE) == "Registering"
    told = []
    assert providers.wait_until_registered(
        session, subscription, NAMESPACE, on_progress=told.append
    )
    assert told[0] == "Microsoft.Quota: Registering after 0 s"
    assert providers.registration_state(session, subscription, NAMESPACE) == "Registered"


def test_a_registration_that_does_not_end_in_time_is_given_up(sandbox, subscription):
    session = Between(sandbox).session()
    providers.register(session, subscription, NAMESPACE)
    assert not providers.wait_until_registered(session, subscription, NAMESPACE, timeout_seconds=10)
