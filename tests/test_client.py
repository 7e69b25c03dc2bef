from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import SUBSCRIPTION, Script, Tokens, failed, listed

import ai4infra
from ai4infra import (
    Azure,
    ForbiddenError,
    NotFoundError,
    SignInError,
    ThrottledError,
    UsageError,
    connect,
)
from ai4infra.sandbox import Sandbox

LAB = "a1410000-0000-4000-8000-000000000002"


@pytest.fixture
def az(sandbox: Sandbox, tmp_path: Path) -> Iterator[Azure]:
    """A connection to a fresh example world, with a cache and no settings but the subscription."""
    with connected(sandbox, tmp_path, AI4INFRA_SUBSCRIPTION=sandbox.subscription_id) as opened:
        yield opened


def connected(sandbox: Sandbox, folder: Path, **env: str) -> Azure:
    return connect(
        credential=sandbox.credential,
        transport=sandbox.transport(),
        env={
            "AI4INFRA_CONFIG": str(folder / "config.toml"),
            "AI4INFRA_CACHE_DIR": str(folder / "cache"),
            "AZURE_CONFIG_DIR": str(folder / "azure"),
            **env,
        },
    )


def asked(sandbox: Sandbox, part: str) -> list[str]:
    """The URLs asked for that hold this text."""
    return [request.url for request in sandbox.world.log if part in request.url]


def sizes(found: Any) -> list[str]:
    return [offer.size for offer in found.offers]


# --- the package


def test_every_public_name_can_be_had_and_no_other() -> None:
    for name in ai4infra.__all__:
        assert getattr(ai4infra, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = ai4infra.nothing_like_this


def test_importing_the_package_imports_nothing_of_azure() -> None:
    code = "import sys, ai4infra; print([m for m in sys.modules if m.startswith('azure')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- recon


def test_rows_come_by_subscription_region_and_size(az: Azure) -> None:
    found = az.recon("westus3", "eastus2", subscriptions=["Example Lab", "Example Training"])
    places = list(dict.fromkeys((o.subscription_id, o.region) for o in found.offers))
    training = az.subscription().id
    assert places == [
        (LAB, "westus3"),
        (LAB, "eastus2"),
        (training, "westus3"),
        (training, "eastus2"),
    ]
    assert [q.region for q in found.region_quotas] == ["westus3", "eastus2"] * 2


def test_the_same_region_in_two_spellings_is_asked_once(az: Azure) -> None:
    assert sizes(az.recon("East US 2", "eastus2")) == sizes(az.recon("EASTUS2"))


def test_sizes_and_prices_are_cached_and_quota_never(az: Azure, sandbox: Sandbox) -> None:
    first = az.recon("eastus2")
    assert az.recon("eastus2") == first
    assert len(asked(sandbox, "/skus?")) == 1
    assert len(asked(sandbox, "/usages?")) == 2


def test_refresh_asks_again(az: Azure, sandbox: Sandbox) -> None:
    az.recon("eastus2")
    az.recon("eastus2", refresh=True)
    assert len(asked(sandbox, "/skus?")) == 2


def test_without_prices_the_price_list_is_not_asked(az: Azure, sandbox: Sandbox) -> None:
    found = az.recon("eastus2", with_prices=False)
    assert {o.price_per_hour for o in found.offers} == {None}
    assert asked(sandbox, "/api/retail/prices") == []


def test_a_region_that_fails_is_a_problem_and_the_others_are_there(
    az: Azure, sandbox: Sandbox
) -> None:
    sandbox.fail("forbidden", "skus.*westus3", times=0)
    found = az.recon("eastus2", "westus3")
    assert {o.region for o in found.offers} == {"eastus2"}
    assert [p.subject for p in found.problems] == ["westus3"]
    assert found.problems[0].code == "AuthorizationFailed"


def test_quota_that_cannot_be_read_leaves_sizes_with_unknown_quota(
    az: Azure, sandbox: Sandbox
) -> None:
    sandbox.fail("forbidden", "/usages", times=0)
    found = az.recon("eastus2")
    assert {(o.quota_limit, o.fit_vms) for o in found.offers} == {(None, None)}
    assert [p.subject for p in found.problems] == ["eastus2"]


def test_where_nothing_can_be_read_azures_own_error_is_raised(az: Azure, sandbox: Sandbox) -> None:
    sandbox.fail("forbidden", "/skus", times=0)
    with pytest.raises(ForbiddenError):
        az.recon("eastus2", "westus3")


def test_a_throttled_run_says_so(az: Azure, sandbox: Sandbox) -> None:
    sandbox.fail("throttled", "/skus", times=0, retry_after=1200)
    with pytest.raises(ThrottledError) as refused:
        az.recon("eastus2")
    assert refused.value.retry_after_seconds == 1200


def test_short_throttling_is_waited_for(az: Azure, sandbox: Sandbox) -> None:
    sandbox.fail("throttled", "/skus", times=2, retry_after=5)
    assert sizes(az.recon("eastus2"))


def test_an_unknown_region_is_told_with_close_names_before_anything_else(az: Azure) -> None:
    with pytest.raises(UsageError) as refused:
        az.recon("eastus2", "estus2")
    assert refused.value.hint is not None
    assert "eastus2" in refused.value.hint


def test_a_known_region_without_gpus_is_a_warning(az: Azure, sandbox: Sandbox) -> None:
    for rows in sandbox.world.catalogue.skus.values():
        rows[:] = [r for r in rows if "westus3" not in [name.lower() for name in r["locations"]]]
    found = az.recon("eastus2", "westus3")
    assert "westus3 lists no GPU sizes." in found.warnings
    assert found.problems == ()


def test_a_size_that_exists_elsewhere_is_a_warning_and_a_made_up_one_an_error(az: Azure) -> None:
    found = az.recon("eastus2", sizes=["ND128isr_GB300_v6"])
    assert found.offers == ()
    assert "ND128isr_GB300_v6 is not listed in eastus2." in found.warnings
    with pytest.raises(UsageError, match="ND1_v9"):
        az.recon("eastus2", sizes=["ND1_v9"])


def test_wrong_filters_are_refused_before_anything_is_sent(az: Azure, sandbox: Sandbox) -> None:
    wrong: list[dict[str, Any]] = [
        {"sort": "prize"},
        {"families": ["NX"]},
        {"currency": "dollars"},
    ]
    for arguments in wrong:
        with pytest.raises(UsageError):
            az.recon("eastus2", **arguments)
    assert sandbox.world.log == []


def test_all_regions_leave_out_staging_and_logical_regions(az: Azure) -> None:
    found = az.recon(all_regions=True, with_prices=False)
    known = {region.name: region for region in az.regions()}
    read = {quotas.region for quotas in found.region_quotas}
    assert read == {n for n, r in known.items() if r.physical and not r.staging}
    assert any("eastus2euap" in warning for warning in found.warnings)


def test_progress_counts_the_regions(az: Azure) -> None:
    said: list[str] = []
    az.recon("eastus2", "westus3", on_progress=said.append)
    assert said[-1] == "2 of 2 regions"


# --- which subscription


def test_a_subscription_is_known_by_name_and_by_id(az: Azure) -> None:
    assert az.subscription("example LAB").id == LAB
    assert az.subscription(LAB).id == LAB


def test_without_a_choice_among_many_subscriptions_the_names_are_told(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    with connected(sandbox, tmp_path) as az, pytest.raises(UsageError) as refused:
        az.recon("eastus2")
    assert "Example Lab" in str(refused.value.hint)


def test_a_subscription_that_nobody_sees_is_azures_error(az: Azure) -> None:
    with pytest.raises(NotFoundError):
        az.recon("eastus2", subscriptions=["00000000-0000-4000-8000-000000000000"])


def test_a_failing_sign_in_ends_the_run(sandbox: Sandbox, tmp_path: Path) -> None:
    empty = {"AI4INFRA_SUBSCRIPTION": LAB, "PATH": "", "AI4INFRA_AUTH": "env"}
    az = connect(transport=sandbox.transport(), env={**empty, "HOME": str(tmp_path)})
    with az, pytest.raises(SignInError):
        az.recon("eastus2", "westus3")


def test_a_subscription_of_another_tenant_leaves_the_others_their_rows(
    az: Azure, sandbox: Sandbox
) -> None:
    sandbox.fail("expired-token", f"{LAB}/providers/Microsoft.Compute", times=9)
    found = az.recon("eastus2", all_subscriptions=True, with_prices=False)
    assert {offer.subscription_id for offer in found.offers} == {sandbox.subscription_id}
    assert [problem.code for problem in found.problems] == ["ExpiredAuthenticationToken"]


def test_a_subscription_whose_regions_cannot_be_listed_is_a_problem_among_several(
    az: Azure, sandbox: Sandbox
) -> None:
    sandbox.fail("forbidden", f"{LAB}/locations", times=9)
    found = az.recon(all_regions=True, all_subscriptions=True, with_prices=False)
    assert {offer.subscription_id for offer in found.offers} == {sandbox.subscription_id}
    assert [(p.subject, p.code) for p in found.problems] == [
        (f"regions of {LAB}", "AuthorizationFailed")
    ]
    with pytest.raises(ForbiddenError):
        az.recon(all_regions=True, subscriptions=[LAB], with_prices=False)


def test_a_region_that_one_of_the_subscriptions_knows_is_no_wrong_input(tmp_path: Path) -> None:
    size = {
        "resourceType": "virtualMachines",
        "name": "Standard_NC4as_T4_v3",
        "capabilities": [{"name": "vCPUs", "value": "4"}, {"name": "MemoryGB", "value": "28"}],
    }
    script = (
        Script()
        .on(f"{LAB}/.*/skus", listed())
        .on(f"{LAB}/.*/usages", failed(400, "NoRegisteredProviderFound"))
        .on(f"{LAB}/locations", listed({"name": "westus"}))
        .on("/skus", listed(size))
        .on("/usages", listed())
        .on("/locations", listed({"name": "newregion"}))
    )
    env = {"HOME": str(tmp_path), "AI4INFRA_CACHE_DIR": str(tmp_path / "cache")}
    with connect(credential=Tokens(), transport=script.transport(), env=env) as az:
        found = az.recon("newregion", subscriptions=[SUBSCRIPTION, LAB], with_prices=False)
        assert sizes(found) == ["Standard_NC4as_T4_v3"]
        assert [problem.code for problem in found.problems] == ["NoRegisteredProviderFound"]
        with pytest.raises(UsageError, match="no region called 'newregion'"):
            az.recon("newregion", subscriptions=[LAB], with_prices=False)


def test_the_name_of_a_subscription_comes_from_az_where_it_is_known(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    profile = tmp_path / "azure" / "azureProfile.json"
    profile.parent.mkdir()
    profile.write_text(
        f'{{"subscriptions": [{{"id": "{LAB}", "name": "My lab", "isDefault": true}}]}}'
    )
    with connected(sandbox, tmp_path) as az:
        assert az.recon("eastus2").subscriptions[0].name == "My lab"


# --- needs, quota, requests


def test_needs_are_answered_for_every_region(az: Azure) -> None:
    report = az.need("2xStandard_ND96asr_v4", regions=["eastus2", "westeurope"])
    assert [(a.region, a.fits) for a in report.answers] == [
        ("eastus2", True),
        ("westeurope", False),
    ]
    assert report.fits_somewhere


def test_a_bad_need_or_none_is_refused_before_anything_is_asked(
    az: Azure, sandbox: Sandbox
) -> None:
    for needs in ([], ["eight"], ["1xT4", ""]):
        with pytest.raises(UsageError, match="need"):
            az.need(*needs, regions=["eastus2"])
    assert asked(sandbox, "/skus") == []


def test_a_need_that_cannot_be_read_is_refused(az: Azure) -> None:
    with pytest.raises(UsageError, match="eight"):
        az.need("eight", regions=["eastus2"])
    with pytest.raises(UsageError, match="eight"):
        az.check_needs("1xT4", "eight")


def test_quota_rows_are_those_of_the_region(az: Azure) -> None:
    rows = {quota.name: quota for quota in az.quotas("East US 2")}
    assert rows["Standard NDASv4_A100 Family"].limit == 192
    assert {quota.region for quota in rows.values()} == {"eastus2"}


def test_quota_of_an_unknown_region_is_told_with_close_names(az: Azure) -> None:
    with pytest.raises(UsageError, match="eastus9"):
        az.quotas("eastus9")


def test_quota_lists_go_on_where_one_region_fails(az: Azure, sandbox: Sandbox) -> None:
    sandbox.fail("forbidden", "westus3/usages", times=0)
    found = az.quota_lists("westus3", "eastus2")
    assert {quota.region for quota in found.quotas} == {"eastus2"}
    assert [p.subject for p in found.problems] == ["westus3"]


@pytest.mark.parametrize(
    "family", ["standardndasv4_a100family", "Standard NDASv4_A100 Family", "ND96asr_v4"]
)
def test_a_plan_names_the_family_as_the_service_does(az: Azure, family: str) -> None:
    plan = az.plan_quota("East US 2", family, 384, register=True)
    assert plan.changes[-1].name == "Standard NDASv4_A100 Family"


def test_a_plan_for_an_unknown_size_family_or_region_is_refused(az: Azure) -> None:
    az.apply(az.plan_quota("eastus2", "ND96asr_v4", 288, register=True))
    for region, family in [
        ("eastus2", "ND96asr_v9"),
        ("eastus2", "standardNXFamily"),
        ("estus2", "ND96asr_v4"),
    ]:
        with pytest.raises(UsageError):
            az.plan_quota(region, family, 384, register=True)


def test_an_applied_plan_raises_the_limit(az: Azure) -> None:
    receipt = az.apply(az.plan_quota("eastus2", "ND96asr_v4", 288, register=True))
    assert receipt.complete
    limits = {quota.name: quota.limit for quota in az.quotas("eastus2")}
    assert limits["Standard NDASv4_A100 Family"] == 288


# --- the sandbox of the user


def test_the_users_sandbox_remembers_between_connections(tmp_path: Path) -> None:
    env = {"AI4INFRA_SANDBOX": "yes", "AI4INFRA_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    with connect(env=env) as az:
        az.apply(az.plan_quota("eastus2", "ND96asr_v4", 288, register=True))
    with connect(env=env) as az:
        limits = {quota.name: quota.limit for quota in az.quotas("eastus2")}
    assert limits["Standard NDASv4_A100 Family"] == 288


def test_the_sandbox_is_never_taken_unasked(tmp_path: Path) -> None:
    with connect(env={"AI4INFRA_SANDBOX": "0", "HOME": str(tmp_path)}) as az:
        assert az.session.transport is not None
        with pytest.raises(SignInError):
            az.subscriptions()


def by_state(tmp_path: Path, *states: str | None) -> Azure:
    """A connection to subscriptions of these states, with one GPU size and no quota."""
    script = Script().on(
        r"/subscriptions\?",
        listed(
            *(
                {"subscriptionId": f"{i}", "displayName": f"S{i}", "state": state}
                for i, state in enumerate(states)
            )
        ),
    )
    size = {"name": "Standard_NC24ads_A100_v4", "resourceType": "virtualMachines"}
    script.on("/skus", listed({**size, "locations": ["eastus2"]}))
    script.on("/locations", listed({"name": "eastus2"})).on("/usages", listed())
    env = {"AI4INFRA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    return connect(credential=Tokens(), transport=script.transport(), env=env)


def test_every_subscription_is_each_one_that_is_not_off_and_the_others_are_told(
    tmp_path: Path,
) -> None:
    az = by_state(tmp_path, "Enabled", "Warned", "PastDue", "Disabled", None)
    found = az.recon("eastus2", all_subscriptions=True, with_prices=False)
    assert [s.name for s in found.subscriptions] == ["S0", "S1", "S2", "S4"]
    assert [w for w in found.warnings if w.startswith("Subscription")] == [
        "Subscription S1 is Warned: Azure may disable it soon.",
        "Subscription S2 is PastDue: Azure may disable it soon.",
        "Subscription S3 is left out: it is Disabled.",
    ]


@pytest.mark.parametrize("where", [{"subscriptions": ["S0"]}, {"all_subscriptions": True}, {}])
def test_a_disabled_subscription_starts_nothing_and_is_told(tmp_path: Path, where: Any) -> None:
    found = by_state(tmp_path, "Disabled").recon("eastus2", with_prices=False, **where)
    (row,) = found.offers
    assert (row.access, row.startable) == ("blocked", False)
    assert "the subscription is Disabled" in (row.access_reason or "")
    (action,) = found.summary.actions
    assert "enable it again" in action
    assert found.warnings[0].startswith("Subscription S0 is Disabled: nothing can be started")


def test_one_name_may_be_given_as_it_is_where_several_may_be(az: Azure) -> None:
    found = az.recon("eastus2", gpus="H100", families="ND", sizes="ND96*", with_prices=False)
    assert sizes(found) == ["Standard_ND96isr_H100_v5"]
    assert az.need("8xH100", regions="eastus2", with_prices=False).fits_somewhere is True
    lab = az.recon("eastus2", subscriptions="Example Lab", with_prices=False)
    assert [s.id for s in lab.subscriptions] == [LAB]
