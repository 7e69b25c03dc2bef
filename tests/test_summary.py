from msgspec import structs
from support_offers import (
    A100,
    SUBSCRIPTION,
    a_quota,
    a_sku,
    location,
    request_line,
    row,
    rows,
    zonal,
)

from ai4infra.model import Offer, RegionQuota
from ai4infra.summary import summary


def a_world() -> tuple[Offer, ...]:
    """T4 can be started, A100 lacks quota, H100 no access, K80 is retired, V100 unknown."""
    quotas = [
        a_quota("T4", 100),
        a_quota("A100", 0),
        a_quota("A10", 40, 40),
        a_quota("H100", 500),
        a_quota("cores", 350),
        a_quota("K80", 12),
    ]
    return rows(
        a_sku("Standard_NC4as_T4_v3", family="T4", vcpus=4),
        a_sku("Standard_NC24ads_A100_v4", family="A100", vcpus=24),
        a_sku("Standard_NC96ads_A100_v4", family="A100", vcpus=96),
        a_sku("Standard_NV36ads_A10_v5", family="A10", vcpus=36),
        a_sku("Standard_ND96isr_H100_v5", family="H100", restrictions=(location(),)),
        a_sku("Standard_ND96isr_H200_v5", family="H200", restrictions=(location("QuotaId"),)),
        a_sku("Standard_NC6", family="K80", vcpus=6),
        a_sku("Standard_NC9xyz_B777_v9", family="B777", vcpus=9),
        a_sku("Standard_ND500x_B778_v9", family="H100", vcpus=500, restrictions=(zonal("1"),)),
        quotas=quotas,
    )


def test_the_summary_counts_each_row_once() -> None:
    told = summary(a_world())
    assert (told.sizes, told.startable, told.unknown) == (9, 1, 1)
    assert told.blocked_by == {
        "family quota is 0": 2,
        "family quota used up or too small": 1,
        "no access in the region": 1,
        "offer type not entitled": 1,
        "regional total (cores) used up or too small": 1,
        "retired": 1,
    }
    assert told.sizes == told.startable + told.unknown + sum(told.blocked_by.values())


def test_the_summary_gives_the_exact_request_for_one_more_vm_and_the_pages_for_the_rest() -> None:
    pools = RegionQuota(
        subscription_id=SUBSCRIPTION, region="eastus2", regional=a_quota("cores", 350, 0), spot=None
    )
    actions = summary(a_world(), [pools]).actions
    requests = [a for a in actions if a.startswith("ai4infra quota request")]
    assert requests == [
        request_line("cores", 500),
        request_line("A100", 24),
        request_line("A10", 76),
    ]
    others = [a for a in actions if a not in requests]
    assert "Standard_ND96isr_H100_v5 in eastus2" in others[0]
    assert "region-access-request-process" in others[0]
    assert "offer type does not include Standard_ND96isr_H200_v5" in others[1]
    assert "Standard_NC9xyz_B777_v9 in eastus2 is not known" in others[2]
    assert "zonal-enablement" in others[3]
    assert len(others) == 4


def test_rows_of_unknown_access_are_counted_apart_and_say_what_to_do() -> None:
    told = summary([*a_world(), row(a_sku(restrictions_known=False))])
    assert (told.sizes, told.startable, told.unknown, told.unknown_access) == (10, 1, 2, 1)
    unclear = [a for a in told.actions if "Whether you have access" in a]
    assert len(unclear) == 1
    assert "az vm list-skus --location eastus2 --size Standard_ND96asr_v4 --all" in unclear[0]
    assert not any("quota of Standard_ND96asr_v4" in a for a in told.actions)


def test_another_region_where_the_model_can_be_started_comes_first() -> None:
    here = row(quotas=[a_quota(A100, 0), a_quota("cores", 100)])
    there = structs.replace(row(), region="westus3")
    assert summary([here, there]).actions[0] == (
        "A100 can be started in westus3 (Standard_ND96asr_v4)."
    )


def test_the_spot_summary_asks_for_spot_quota() -> None:
    one = row(a_sku(spot_capable=True), quotas=[a_quota("lowPriorityCores", 20, 10)])
    pools = RegionQuota(
        subscription_id=SUBSCRIPTION,
        region="eastus2",
        regional=None,
        spot=a_quota("lowPriorityCores", 20, 10),
    )
    told = summary([one], [pools], spot=True)
    assert told.blocked_by == {"spot pool (lowPriorityCores) used up or too small": 1}
    assert told.actions == (request_line("lowPriorityCores", 106),)


def test_everything_startable_needs_no_action() -> None:
    assert summary([row()]).actions == ()
    assert summary([]).blocked_by == {}


def test_a_reason_that_nobody_knows_is_passed_on_with_a_next_step() -> None:
    told = summary([row(a_sku(restrictions=(location("NewRule"),)))])
    assert told.blocked_by == {"NewRule": 1}
    (action,) = told.actions
    assert "Standard_ND96asr_v4 in eastus2" in action
    assert "NewRule" in action
