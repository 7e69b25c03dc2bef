import pytest
from support import answer, broken, failed
from support_between import REGION, T4, T4_LIMIT, Between, dropped

from ai4infra import provision
from ai4infra.cloud.session import Session
from ai4infra.errors import UsageError
from ai4infra.model import Receipt, Step, StepResult, Subscription
from ai4infra.plan import Plan
from ai4infra.sandbox import Sandbox

QUOTA = "/quotas/"
STATUS = "/quotaRequests/"
H100 = "standardNDSH100v5Family"
ABOVE_THE_TOTAL = 400
"""A limit for the T4 family that the regional total of 350 vCPUs doesn't allow."""


@pytest.fixture
def azure(sandbox: Sandbox) -> Between:
    """A subscription that is registered for Microsoft.Quota."""
    between = Between(sandbox)
    between.register()
    return between


@pytest.fixture
def unregistered(sandbox: Sandbox) -> Between:
    return Between(sandbox)


@pytest.fixture
def session(azure: Between) -> Session:
    return azure.session()


def a_plan(session: Session, limit: int = 96, family: str = T4, **options: bool) -> Plan:
    subscription = "a1410000-0000-4000-8000-000000000001"
    return provision.plan_quota(session, subscription, REGION, family, limit, **options)


def states(receipt: Receipt) -> list[str]:
    return [result.state for result in receipt.results]


def only(receipt: Receipt) -> StepResult:
    assert len(receipt.results) == 1
    return receipt.results[0]


def test_a_plan_only_reads(azure, session):
    plan = a_plan(session)
    assert [s.detail for s in plan.changes] == [f"vCPU limit in eastus2: {T4_LIMIT} → 96"]
    assert azure.writes == []


def test_apply_raises_the_limit_and_says_so(azure, session):
    told = []
    receipt = provision.apply(session, a_plan(session), on_step=told.append)
    assert azure.limit(T4) == 96
    assert receipt.complete
    assert only(receipt).message == "The limit is 96."
    assert told == list(receipt.results)


def test_applying_the_same_again_keeps_it_and_writes_nothing(azure, session):
    provision.apply(session, a_plan(session))
    written = len(azure.writes)
    receipt = provision.apply(session, a_plan(session))
    assert states(receipt) == ["kept"]
    assert len(azure.writes) == written


def test_a_lower_limit_is_refused_and_not_sent(azure, session):
    receipt = provision.apply(session, a_plan(session, limit=8))
    assert only(receipt).state == "failed"
    assert "does not lower" in str(only(receipt).message)
    assert azure.writes == []


def test_a_refused_plan_sends_nothing_even_for_its_good_steps(azure, session):
    azure.instead("GET", f"{QUOTA}{T4}", answer(200, {"properties": {"isQuotaApplicable": False}}))
    plan = a_plan(session, limit=ABOVE_THE_TOTAL, with_regional=True)
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["not reached", "failed"]
    assert "support request" in str(receipt.results[1].hint)
    assert receipt.next_commands == ()
    assert receipt.failed
    assert azure.writes == []


def test_a_family_that_the_region_does_not_list_is_a_usage_error(azure, session):
    with pytest.raises(UsageError) as caught:
        a_plan(session, family="Standard NCASv3_T5 Family")
    assert T4 in str(caught.value.hint)
    assert azure.writes == []


def test_a_family_typed_without_blanks_is_asked_for_as_the_service_spells_it(azure, session):
    assert provision.apply(session, a_plan(session, family="standardncasv3_t4family")).complete
    assert azure.writes[0][1].endswith(f"/quotas/{T4}")


def test_the_regional_total_is_raised_before_the_family(azure, session):
    plan = a_plan(session, limit=ABOVE_THE_TOTAL, with_regional=True)
    assert provision.apply(session, plan).complete
    assert [path.rsplit("/", 1)[-1] for _, path, _ in azure.writes] == ["cores", T4]


def test_what_follows_a_failed_step_is_not_reached(azure, session):
    plan = a_plan(session, limit=999, with_regional=True)
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["failed", "not reached"]
    assert len(azure.writes) == 1


@pytest.mark.parametrize(
    ("family", "code", "hint"),
    [
        (H100, "ContactSupport", "support request"),
        ("standard NDAMSv4_A100Family", "QuotaNotAvailableForResource", "Another region"),
    ],
)
def test_a_request_that_the_service_turns_down_says_why_and_what_to_do(session, family, code, hint):
    result = only(provision.apply(session, a_plan(session, limit=300, family=family)))
    assert (result.state, result.code) == ("failed", code)
    assert "The service refused request" in str(result.message)
    assert hint in str(result.hint)


def test_a_request_that_is_granted_in_part_has_failed(azure, session):
    plan = a_plan(session)
    azure.instead("GET", QUOTA, answer(200, {"properties": {"limit": {"value": 80}}}))
    result = only(provision.apply(session, plan))
    assert result.state == "failed"
    assert "the limit is 80, not 96" in str(result.message)


def test_a_limit_that_cannot_be_read_back_is_done_all_the_same(azure, session):
    plan = a_plan(session)
    azure.instead("GET", QUOTA, failed(403, "AuthorizationFailed"))
    result = only(provision.apply(session, plan))
    assert result.state == "done"
    assert "not read back" in str(result.message)


def test_without_waiting_the_receipt_names_the_request_and_the_way_back(azure, session, sandbox):
    receipt = provision.apply(session, a_plan(session), wait=False)
    (request_id,) = sandbox.world.state.operations
    assert only(receipt).state == "in progress"
    assert request_id in str(only(receipt).message)
    assert not receipt.failed
    assert receipt.next_commands == (
        f"ai4infra quota request --subscription {sandbox.subscription_id} --region eastus2"
        f" --family '{T4}' --limit 96",
    )
    assert azure.waited() == 0


def test_running_again_waits_for_the_request_in_progress_and_files_no_second(azure, session):
    provision.apply(session, a_plan(session), wait=False)
    assert provision.apply(session, a_plan(session)).complete
    assert azure.limit(T4) == 96
    assert len(azure.writes) == 1


def test_a_decision_that_does_not_come_in_time_is_in_progress(session):
    receipt = provision.apply(session, a_plan(session), timeout_seconds=30)
    assert states(receipt) == ["in progress"]
    assert not receipt.complete
    assert receipt.next_commands


def test_an_unregistered_subscription_is_not_registered_in_passing(unregistered):
    session = unregistered.session()
    receipt = provision.apply(session, a_plan(session))
    assert states(receipt) == ["failed", "not reached"]
    assert "--register" in str(receipt.results[0].hint)
    assert unregistered.writes == []


def test_registering_when_asked_to_then_raises_the_limit(unregistered):
    session = unregistered.session()
    receipt = provision.apply(session, a_plan(session, register=True))
    assert states(receipt) == ["done", "done"]
    assert unregistered.limit(T4) == 96


def test_a_registration_that_takes_too_long_stops_before_the_request(unregistered):
    session = unregistered.session()
    receipt = provision.apply(session, a_plan(session, register=True), timeout_seconds=10)
    assert states(receipt) == ["failed", "not reached"]
    assert "still going on" in str(receipt.results[0].message)
    assert [method for method, _, _ in unregistered.writes] == ["POST"]


def test_a_subscription_that_may_not_be_registered_says_so(unregistered):
    session = unregistered.session()
    plan = a_plan(session, register=True)
    unregistered.instead("POST", "/register", failed(403, "AuthorizationFailed"))
    receipt = provision.apply(session, plan)
    assert states(receipt) == ["failed", "not reached"]
    assert receipt.results[0].code == "AuthorizationFailed"


@pytest.mark.parametrize(
    ("status", "code", "headers"),
    [
        (403, "AuthorizationFailed", {}),
        (403, "RequestDisallowedByPolicy", {}),
        (409, "MissingSubscriptionRegistration", {}),
        (429, "TooManyRequests", {"retry_after": "1800"}),
        (400, "InvalidQuotaRequest", {}),
        (400, "ContactSupport", {}),
    ],
)
def test_a_request_that_is_not_taken_has_failed_with_the_code_and_a_hint(
    azure, session, sandbox, status, code, headers
):
    plan = a_plan(session)
    azure.instead("PUT", QUOTA, failed(status, code, **headers))
    result = only(provision.apply(session, plan))
    assert (result.state, result.code) == ("failed", code)
    assert result.hint
    assert sandbox.world.state.operations == {}


def test_a_request_that_is_turned_down_at_once_says_whom_to_ask(azure, session):
    plan = a_plan(session)
    azure.instead("PUT", QUOTA, failed(400, "ContactSupport"))
    assert "support request" in str(only(provision.apply(session, plan)).hint)


def test_a_connection_lost_for_good_in_mid_poll_leaves_the_request_in_progress(azure, session):
    azure.instead("GET", STATUS, *[dropped()] * 40)
    for _ in range(2):
        result = only(provision.apply(session, a_plan(session)))
        assert result.state == "in progress"
        assert "dropped the connection" in str(result.message)
    azure.pass_all()
    assert provision.apply(session, a_plan(session)).complete
    assert len(azure.writes) == 1


@pytest.mark.parametrize("kind", ["forbidden", "truncated", "throttled"])
def test_a_poll_that_cannot_be_read_leaves_the_request_in_progress(session, sandbox, kind):
    plan = a_plan(session)
    sandbox.fail(kind, STATUS, times=0, retry_after=1800)
    result = only(provision.apply(session, plan))
    assert result.state == "in progress"
    assert result.hint


def test_a_token_that_expires_in_mid_poll_does_not_end_the_wait(session, sandbox):
    plan = a_plan(session)
    sandbox.fail("expired-token", STATUS)
    assert provision.apply(session, plan).complete


def test_ctrl_c_in_mid_poll_tells_what_was_reached_and_what_was_not(azure, session):
    plan = a_plan(session, limit=ABOVE_THE_TOTAL, with_regional=True)
    azure.instead("GET", STATUS, broken(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as caught:
        provision.apply(session, plan)
    assert isinstance(caught.value, provision.ApplyInterrupted)
    assert states(caught.value.receipt) == ["in progress", "not reached"]
    assert len(caught.value.receipt.next_commands) == 2


def test_ctrl_c_while_the_request_is_sent_says_that_it_may_have_arrived(azure, session):
    plan = a_plan(session)
    azure.instead("PUT", QUOTA, broken(KeyboardInterrupt()))
    with pytest.raises(provision.ApplyInterrupted) as caught:
        provision.apply(session, plan)
    result = only(caught.value.receipt)
    assert result.state == "failed"
    assert "may have taken" in str(result.message)


def test_ctrl_c_between_two_steps_leaves_the_next_one_not_reached(session):
    plan = a_plan(session, limit=ABOVE_THE_TOTAL, with_regional=True)

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
    stranger = Subscription(id="1", name="mine")
    step = Step(action="update", kind="quota limit", name=T4, detail="", wanted=stranger)
    with pytest.raises(TypeError):
        provision.apply(session, Plan(steps=(step,)))
