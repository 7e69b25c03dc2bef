import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.model import Quota, QuotaRequest, QuotaSetting, Step
from ai4infra.plan import (
    Plan,
    QuotaLook,
    QuotaWanted,
    quota_command,
    quota_steps,
    quota_title,
    refusal_hint,
)

SUBSCRIPTION = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
T4 = "Standard NCASv3_T4 Family"
LIMITS = st.integers(min_value=1, max_value=10_000)


def a_row(name: str, limit: int | None, used: int | None = 0) -> Quota:
    return Quota(name=name, label=f"{name} vCPUs", region="eastus2", used=used, limit=limit)


def a_setting(name: str, limit: int | None, adjustable: bool | None = True) -> QuotaSetting:
    return QuotaSetting(name=name, label=name, limit=limit, adjustable=adjustable)


def a_request(limit: int, state: str = "InProgress", family: str = T4) -> QuotaRequest:
    return QuotaRequest(
        subscription_id=SUBSCRIPTION,
        region="eastus2",
        family=family,
        limit_vcpus=limit,
        state=state,
        request_id=f"request-{limit}",
    )


def wanted(limit: int, family: str = T4) -> QuotaWanted:
    return QuotaWanted(
        subscription_id=SUBSCRIPTION, region="eastus2", family=family, limit_vcpus=limit
    )


def a_look(
    *, family: int | None = 16, total: int | None = 1000, used: int = 0, **others: object
) -> QuotaLook:
    """A region with one T4 family and a regional total, both known to Microsoft.Quota."""
    rows = (a_row(T4, family), a_row("cores", total, used), a_row("lowPriorityCores", 100))
    settings = (a_setting(T4, family), a_setting("cores", total))
    return QuotaLook(**{"quotas": rows, "settings": settings, **others})  # type: ignore[arg-type]


def only(plan: Plan) -> Step:
    assert len(plan.steps) == 1
    return plan.steps[0]


def test_a_higher_limit_is_an_update_from_the_present_one():
    step = only(quota_steps(wanted(64), a_look()))
    assert step.action == "update"
    assert step.detail == "vCPU limit in eastus2: 16 → 64"
    assert step.wanted == wanted(64)


def test_the_limit_that_is_already_there_is_kept():
    plan = quota_steps(wanted(16), a_look())
    assert only(plan).action == "keep"
    assert plan.changes == ()
    assert plan.refusals == ()


def test_a_lower_limit_is_refused_with_the_present_one():
    step = only(quota_steps(wanted(8), a_look()))
    assert step.action == "refuse"
    assert "The limit is 16" in str(step.reason)
    assert "more than 16" in str(step.hint)


@given(current=LIMITS, asked=LIMITS)
def test_one_step_is_decided_whatever_the_numbers(current: int, asked: int):
    step = only(quota_steps(wanted(asked), a_look(family=current, total=10**6)))
    expected = "keep" if asked == current else "update" if asked > current else "refuse"
    assert step.action == expected


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("cores", "regional total (cores)"),
        ("LowPriorityCores", "spot pool (lowPriorityCores)"),
        (T4, T4),
    ],
)
def test_the_regional_pools_have_titles_and_families_their_names(name: str, title: str):
    assert quota_title(name) == title


@pytest.mark.parametrize("limit", [0, -8])
def test_a_limit_below_one_is_a_usage_error(limit: int):
    with pytest.raises(UsageError) as caught:
        quota_steps(wanted(limit), a_look())
    assert "new limit" in str(caught.value.hint)


def test_the_family_is_found_whatever_its_case_and_blanks_and_sent_verbatim():
    step = only(quota_steps(wanted(64, "standardncasv3_t4family"), a_look()))
    assert step.name == T4
    assert str(step.resource_id).endswith(f"/quotas/{T4}")


def test_an_unknown_family_offers_close_names():
    with pytest.raises(UsageError) as caught:
        quota_steps(wanted(64, "standardNCASv3_T5Family"), a_look())
    assert T4 in str(caught.value.hint)
    assert "eastus2" in caught.value.message


def test_an_unknown_family_is_refused_before_anything_is_registered_for_it():
    look = a_look(settings=(), registered=False)
    with pytest.raises(UsageError, match="called 'standardNDSH900v9Family'"):
        quota_steps(wanted(64, "standardNDSH900v9Family"), look, register=True)


def test_a_family_that_only_microsoft_quota_lists_is_raised_from_its_limit_there():
    look = a_look(settings=(a_setting("standardNDSH100v5Family", 96),))
    step = only(quota_steps(wanted(192, "standardNDSH100v5Family"), look))
    assert step.action == "update"
    assert step.detail.endswith("96 → 192")


def test_a_family_without_a_known_limit_is_asked_for_from_unknown_not_from_zero():
    step = only(quota_steps(wanted(64), a_look(family=None)))
    assert step.action == "update"
    assert "unknown → 64" in step.detail


def test_a_family_that_the_api_cannot_raise_is_refused_with_the_form_to_fill():
    look = a_look(settings=(a_setting(T4, 16, adjustable=False),))
    hint = str(only(quota_steps(wanted(64), look)).hint)
    assert "Service and subscription limits (quotas)" in hint
    assert f"{T4} in eastus2, new limit 64" in hint


def test_a_family_that_microsoft_quota_does_not_know_is_refused():
    step = only(quota_steps(wanted(64), a_look(settings=())))
    assert step.action == "refuse"
    assert "does not know" in str(step.reason)


def test_silence_about_adjustability_does_not_refuse():
    look = a_look(settings=(a_setting(T4, 16, adjustable=None),))
    assert only(quota_steps(wanted(64), look)).action == "update"


def test_an_unregistered_subscription_is_refused_with_both_ways_on():
    plan = quota_steps(wanted(64), a_look(settings=(), registered=False))
    (refusal,) = plan.refusals
    assert refusal.kind == "provider registration"
    assert "is not registered" in str(refusal.reason)
    assert "--register" in str(refusal.hint)
    assert "az provider register --namespace Microsoft.Quota" in str(refusal.hint)


def test_registration_comes_first_when_it_is_asked_for():
    plan = quota_steps(wanted(64), a_look(settings=(), registered=False), register=True)
    assert [s.kind for s in plan.changes] == ["provider registration", "quota limit"]
    assert plan.refusals == ()


def test_nothing_is_registered_for_a_limit_that_is_already_there():
    plan = quota_steps(wanted(16), a_look(settings=(), registered=False), register=True)
    assert only(plan).action == "keep"


def test_no_registration_is_planned_where_the_subscription_has_it():
    assert only(quota_steps(wanted(64), a_look(), register=True)).kind == "quota limit"


def test_the_same_request_in_progress_is_taken_up_instead_of_filed_twice():
    step = only(quota_steps(wanted(64), a_look(pending=(a_request(64),))))
    assert isinstance(step.wanted, QuotaWanted)
    assert step.wanted.request_id == "request-64"
    assert "no second one" in str(step.reason)


def test_a_decided_request_is_not_taken_up():
    step = only(quota_steps(wanted(64), a_look(pending=(a_request(64, "Failed"),))))
    assert step.wanted == wanted(64)


def test_a_request_in_progress_for_another_limit_is_told():
    plan = quota_steps(wanted(64), a_look(pending=(a_request(32),)))
    assert only(plan).wanted == wanted(64)
    assert any("request-32" in w and "limit 32" in w for w in plan.warnings)


def test_a_regional_total_that_is_too_low_is_warned_of_with_the_command():
    plan = quota_steps(wanted(64), a_look(total=100, used=80))
    (warning,) = plan.warnings
    assert "--with-regional" in warning
    assert "--family cores --limit 144" in warning
    assert only(plan).action == "update"


def test_what_the_family_uses_already_is_not_counted_twice_in_the_regional_total():
    look = QuotaLook(
        quotas=(a_row(T4, 16, 16), a_row("cores", 100, 50)), settings=(a_setting(T4, 16),)
    )
    assert quota_steps(wanted(66), look).warnings == ()
    assert quota_steps(wanted(67), look).warnings != ()


def test_the_regional_total_is_raised_first_when_asked_for():
    plan = quota_steps(wanted(64), a_look(total=100, used=80), with_regional=True)
    assert [(s.name, s.action) for s in plan.steps] == [("cores", "update"), (T4, "update")]
    assert plan.steps[0].detail.endswith("100 → 144")
    assert plan.warnings == ()


def test_a_regional_total_that_suffices_adds_no_step():
    assert only(quota_steps(wanted(64), a_look(), with_regional=True)).name == T4


def test_an_unknown_regional_total_is_told_as_unknown():
    plan = quota_steps(wanted(64), a_look(total=None))
    assert "is unknown" in plan.warnings[0]


@pytest.mark.parametrize("pool", ["cores", "lowPriorityCores", "availabilitySets"])
def test_what_is_no_family_is_not_checked_against_the_regional_total(pool: str):
    look = a_look(total=100, used=100, settings=(a_setting(pool, 100),))
    plan = quota_steps(wanted(200, pool), look, with_regional=True)
    assert only(plan).name == pool
    assert plan.warnings == ()


@given(family=st.text(st.characters(blacklist_categories=("Cs",)), min_size=1), limit=LIMITS)
def test_the_command_for_a_shell_gives_the_family_back(family: str, limit: int):
    words = shlex.split(quota_command(wanted(limit, family)))
    assert words[:3] == ["ai4infra", "quota", "request"]
    assert words[words.index("--family") + 1] == family
    assert words[-1] == str(limit)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("QuotaNotAvailableForResource", "Another region"),
        ("DeprecatedQuotaType", "successor"),
        ("ContactSupport", "support request"),
        ("SomethingNew", "support request"),
        (None, "support request"),
    ],
)
def test_every_code_of_a_refusal_has_a_next_step(code: str | None, said: str):
    assert said in refusal_hint(code, wanted(64))
