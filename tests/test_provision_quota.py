import pytest
from support_quota import (
    REGION,
    SUBSCRIPTION,
    T4,
    QuotaService,
    a_session,
    an_error,
    dropped,
    fault,
)

from ai4infra import provision
from ai4infra.cloud.session import Session
from ai4infra.errors import UsageError
from ai4infra.model import Receipt, Step, StepResult, Subscription
from ai4infra.plan import Plan

STATUS = "/quotaRequests/"


@pytest.fixture
def service() -> QuotaService:
    return QuotaService()


@pytest.fixture
def session(service: QuotaService) -> Session:
    return a_session(service)


def a_plan(session: Session, limit: int = 64, family: str = T4, **options: bool) -> Plan:
    return provision.plan_quota(session, SUBSCRIPTION, REGION, family, limit, **options)


def states(receipt: Receipt) -> list[str]:
    return [result.state for result in receipt.results]


def only(receipt: Receipt) -> StepResult:
    assert len(receipt.results) == 1
    return receipt.results[0]


def test_a_plan_only_reads(session, service):
    plan = a_plan(session)
    assert [s.detail for s in plan.changes] == ["vCPU limit in eastus2: 16 → 64"]
    assert service.writes == []


def test_apply_raises_the_limit_and_says_so(session, service):
    told = []
    receipt = provision.apply(session, a_plan(session), on_step=told.append)
    assert service.limits[T4] == 64
    assert receipt.complete
    assert only(receipt).message == "The limit is 64."
    assert told == list(receipt.results)


def test_applying_the_same_again_keeps_it_and_writes_nothing(session, service):
    provision.apply(session, a_plan(session))
    written = len(service.writes)
    receipt = provision.apply(session, a_plan(session))
    assert states(receipt) == ["kept"]
    assert len(service.writes) == written


def test_a_refused_plan_sends_nothing_even_for_its_good_steps(session, service):
    service.fixed = {T4}
    service.limits["cores"] = 20
    plan = a_plan(session, with_regional=True)
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["not reached", "failed"]
    assert "support request" in str(receipt.results[1].message)
    assert service.writes == []
    assert receipt.failed


def test_a_family_that_the_region_does_not_list_is_a_usage_error(session, service):
    with pytest.raises(UsageError):
        a_plan(session, family="standardNCFamily9")
    assert service.writes == []


def test_a_family_typed_without_blanks_is_asked_for_as_the_service_spells_it(session, service):
    receipt = provision.apply(session, a_plan(session, family="standardncasv3_t4family"))
    assert receipt.complete
    assert service.writes[0][1].endswith(f"/quotas/{T4}")


def test_the_regional_total_is_raised_before_the_family(session, service):
    service.limits["cores"] = 20
    receipt = provision.apply(session, a_plan(session, with_regional=True))
    assert receipt.complete
    assert [path.rsplit("/", 1)[-1] for _, path, _ in service.writes] == ["cores", T4]


def test_what_follows_a_failed_step_is_not_reached(session, service):
    service.limits["cores"] = 20
    service.decision, service.code = "Failed", "ContactSupport"
    receipt = provision.apply(session, a_plan(session, with_regional=True))
    assert states(receipt) == ["failed", "not reached"]
    assert len(service.writes) == 1


@pytest.mark.parametrize(
    ("code", "hint"),
    [("ContactSupport", "support request"), ("QuotaNotAvailableForResource", "Another region")],
)
def test_a_request_that_the_service_turns_down_says_why_and_what_to_do(
    session, service, code, hint
):
    service.decision, service.code = "Failed", code
    result = only(provision.apply(session, a_plan(session)))
    assert (result.state, result.code) == ("failed", code)
    assert "Request failed." in str(result.message)
    assert hint in str(result.hint)


def test_a_request_that_is_granted_in_part_has_failed(session, service):
    service.granted = 32
    result = only(provision.apply(session, a_plan(session)))
    assert result.state == "failed"
    assert "the limit is 32, not 64" in str(result.message)


def test_a_limit_that_cannot_be_read_back_is_done_all_the_same(session, service):
    plan = a_plan(session)
    service.faults = [fault(an_error(403, "AuthorizationFailed"), path="/quotas/")]
    result = only(provision.apply(session, plan))
    assert result.state == "done"
    assert "not read back" in str(result.message)


def test_without_waiting_the_receipt_names_the_request_and_the_way_back(session, service):
    receipt = provision.apply(session, a_plan(session), wait=False)
    result = only(receipt)
    assert result.state == "in progress"
    (request_id,) = service.requests
    assert request_id in str(result.message)
    assert not receipt.failed
    assert receipt.next_commands == (
        f"ai4infra quota request --subscription {SUBSCRIPTION} --region eastus2"
        f" --family '{T4}' --limit 64",
    )


def test_running_again_waits_for_the_request_in_progress_and_files_no_second(session, service):
    service.polls_until_decided = 6
    provision.apply(session, a_plan(session), wait=False)
    receipt = provision.apply(session, a_plan(session))
    assert receipt.complete
    assert service.limits[T4] == 64
    assert len(service.writes) == 1


def test_a_decision_that_does_not_come_in_time_is_in_progress(session, service):
    service.polls_until_decided = 1000
    receipt = provision.apply(session, a_plan(session), timeout_seconds=45)
    assert states(receipt) == ["in progress"]
    assert not receipt.complete
    assert receipt.next_commands


def test_an_unregistered_subscription_is_not_registered_in_passing(session, service):
    service.registration = "NotRegistered"
    receipt = provision.apply(session, a_plan(session))
    assert states(receipt) == ["failed", "not reached"]
    assert service.registration == "NotRegistered"
    assert service.writes == []


def test_registering_when_asked_to_then_raises_the_limit(session, service):
    service.registration = "NotRegistered"
    receipt = provision.apply(session, a_plan(session, register=True))
    assert states(receipt) == ["done", "done"]
    assert service.limits[T4] == 64


def test_a_registration_that_takes_too_long_stops_before_the_request(session, service):
    service.registration, service.polls_until_registered = "NotRegistered", 10_000
    receipt = provision.apply(session, a_plan(session, register=True))
    assert states(receipt) == ["failed", "not reached"]
    assert "still going on" in str(receipt.results[0].message)
    assert T4 not in str(service.writes)


def test_a_subscription_that_may_not_be_registered_says_so(session, service):
    service.registration = "NotRegistered"
    plan = a_plan(session, register=True)
    service.faults = [fault(an_error(403, "AuthorizationFailed"), method="POST")]
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["failed", "not reached"]
    assert receipt.results[0].code == "AuthorizationFailed"


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (lambda: an_error(403, "AuthorizationFailed"), "AuthorizationFailed"),
        (
            lambda: an_error(409, "MissingSubscriptionRegistration"),
            "MissingSubscriptionRegistration",
        ),
        (
            lambda: an_error(429, "TooManyRequests", headers={"Retry-After": "1800"}),
            "TooManyRequests",
        ),
        (lambda: an_error(400, "InvalidQuotaRequest"), "InvalidQuotaRequest"),
    ],
)
def test_a_request_that_is_not_taken_has_failed_with_the_code_and_a_hint(
    session, service, response, code
):
    plan = a_plan(session)
    service.faults = [fault(response(), method="PUT")]
    result = only(provision.apply(session, plan))
    assert (result.state, result.code) == ("failed", code)
    assert result.hint
    assert service.requests == {}


def test_a_request_that_is_turned_down_at_once_says_how_to_go_on(session, service):
    plan = a_plan(session)
    service.faults = [fault(an_error(400, "ContactSupport"), method="PUT")]
    result = only(provision.apply(session, plan))
    assert (result.state, result.code) == ("failed", "ContactSupport")
    assert "support request" in str(result.hint)


def test_a_connection_lost_for_good_in_mid_poll_leaves_the_request_in_progress(session, service):
    plan = a_plan(session)
    service.faults = [fault(dropped(), path=STATUS) for _ in range(20)]
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["in progress"]
    assert "dropped the connection" in str(only(receipt).message)
    service.faults = []
    assert provision.apply(session, a_plan(session)).complete
    assert len(service.writes) == 1


def test_ctrl_c_in_mid_poll_tells_what_was_reached_and_what_was_not(session, service):
    service.limits["cores"] = 20
    plan = a_plan(session, with_regional=True)
    service.faults = [fault(KeyboardInterrupt(), path=STATUS)]
    with pytest.raises(KeyboardInterrupt) as caught:
        provision.apply(session, plan)
    assert isinstance(caught.value, provision.ApplyInterrupted)
    assert states(caught.value.receipt) == ["in progress", "not reached"]
    assert len(caught.value.receipt.next_commands) == 2


def test_ctrl_c_while_the_request_is_sent_says_that_it_may_have_arrived(session, service):
    plan = a_plan(session)
    service.faults = [fault(KeyboardInterrupt(), method="PUT")]
    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(session, plan)
    result = only(caught.value.receipt)
    assert result.state == "failed"
    assert "may have taken" in str(result.message)


def test_ctrl_c_between_two_steps_leaves_the_next_one_not_reached(session, service):
    service.limits["cores"] = 20
    plan = a_plan(session, with_regional=True)

    def stop(result: StepResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(session, plan, on_step=stop)
    assert states(caught.value.receipt) == ["done", "not reached"]


def test_a_kind_of_step_needs_one_row_in_the_table(session, monkeypatch):
    step = Step(action="create", kind="flag", name="f", detail="raise a flag")
    raised = []

    def raise_flag(step: Step, run: provision.Run) -> StepResult:
        raised.append(step.name)
        return StepResult(step=step, state="done")

    monkeypatch.setitem(provision.EXECUTORS, "flag", raise_flag)
    assert provision.apply(session, Plan(steps=(step,))).complete
    assert raised == ["f"]


def test_a_step_that_carries_the_wrong_record_is_a_programming_error(session):
    stranger = Subscription(id=SUBSCRIPTION, name="mine")
    step = Step(action="update", kind="quota limit", name=T4, detail="", wanted=stranger)
    with pytest.raises(TypeError):
        provision.apply(session, Plan(steps=(step,)))
