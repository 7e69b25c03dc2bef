from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from support_storage import (
    KEY,
    KEY_IDENTITY,
    NODE,
    SUBNET,
    a_grant,
    a_wanted,
    a_world,
    looked_at,
)

from ai4infra import classification
from ai4infra.errors import UsageError
from ai4infra.model import StorageLook, StorageWanted
from ai4infra.storage_plan import storage_steps

NOTHING = StorageLook()
LEVELS = list(classification.levels().values())


def reasons(wanted: StorageWanted, look: StorageLook = NOTHING) -> list[str]:
    """Why the plan is refused, all of it for the classification."""
    refusals = storage_steps(wanted, look).refusals
    assert {step.kind for step in refusals} <= {"classification"}
    return [str(step.reason) for step in refusals]


def enough(level: str, **fields: Any) -> StorageWanted:
    """The least that has to be said for an account of this level."""
    key = {"key_uri": KEY, "key_identity": KEY_IDENTITY} if level == "restricted" else {}
    return a_wanted(classification=level, **{**key, **fields})


def test_the_levels_go_from_the_least_to_the_most_demanding():
    assert list(classification.levels()) == ["public", "internal", "confidential", "restricted"]
    for less, more in pairwise(LEVELS):
        assert not classification.less_isolated(more.network, less.network)
        assert more.soft_delete_days >= less.soft_delete_days
        assert more.infrastructure_encryption >= less.infrastructure_encryption
        assert more.customer_key >= less.customer_key
        assert set(more.readers) <= set(less.readers)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_every_level_has_its_source_and_date(level: classification.Level):
    assert level.source.startswith("https://learn.microsoft.com/")
    assert date.fromisoformat(level.date)
    assert level.description.endswith(".")


def test_a_level_is_found_whatever_its_case_and_a_typo_offers_the_close_one():
    assert classification.level(" Confidential ").name == "confidential"
    with pytest.raises(UsageError) as caught:
        classification.level("confidental")
    assert "confidential" in str(caught.value.hint)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_what_was_not_said_is_taken_from_the_level(level: classification.Level):
    plan = storage_steps(enough(level.name), NOTHING)
    assert plan.refusals == ()
    look = looked_at(a_world(plan))
    assert look.account is not None
    assert look.blob_service is not None
    assert look.account.tags["classification"] == level.name
    assert look.account.infrastructure_encryption is level.infrastructure_encryption
    assert bool(look.account.key_uri) is level.customer_key
    days = look.blob_service.blob_soft_delete_days
    assert days is not None
    assert days >= level.soft_delete_days


@pytest.mark.parametrize(
    ("level", "asked", "words"),
    [
        ("confidential", {"network": "open"}, "needs --network restricted"),
        ("restricted", {"network": "restricted"}, "needs --network private"),
        ("restricted", {"allow_ips": ("203.0.113.7",)}, "needs --network private"),
        ("confidential", {"infrastructure_encryption": False}, "infrastructure encryption"),
        ("confidential", {"soft_delete_days": 7}, "needs 14 days of soft delete; 7 are fewer"),
        ("restricted", {"key_uri": None, "key_identity": None}, "customer-managed key"),
        (
            "restricted",
            {"grants": (a_grant(principal_type="Group", label="id:team"),)},
            "id:team (Storage Blob Data Contributor) is a Group",
        ),
        ("internal", {"grants": (a_grant(principal_type="ForeignGroup"),)}, "ForeignGroup"),
    ],
)
def test_what_a_level_does_not_allow_is_refused_with_the_reason(
    level: str, asked: dict[str, Any], words: str
):
    (reason,) = reasons(enough(level, **asked))
    assert words in reason
    assert reason.startswith(f"{level} data")


def test_all_contradictions_are_told_at_once():
    wanted = enough(
        "restricted", network="open", soft_delete_days=1, key_uri=None, key_identity=None
    )
    assert len(reasons(wanted)) == 3


@pytest.mark.parametrize(
    "asked",
    [
        {"network": "private", "endpoint_subnet": SUBNET},
        {"soft_delete_days": 365},
        {"infrastructure_encryption": True},
        {"grants": (a_grant(principal_id=NODE, principal_type="ServicePrincipal"),)},
    ],
)
@pytest.mark.parametrize("level", [level.name for level in LEVELS])
def test_more_than_a_level_demands_is_allowed(level: str, asked: dict[str, Any]):
    assert reasons(enough(level, **asked)) == []


def test_an_account_that_has_its_key_needs_no_other():
    look = looked_at(a_world(storage_steps(enough("restricted"), NOTHING)))
    again = a_wanted(classification="restricted", endpoint_subnet=SUBNET)
    assert reasons(again, look) == []


def test_a_recorded_level_holds_where_none_is_given():
    look = looked_at(a_world(storage_steps(enough("restricted"), NOTHING)))
    wanted = a_wanted(grants=(a_grant(principal_type="Group"),))
    assert "is a Group" in reasons(wanted, look)[0]


def test_a_lower_level_holds_only_once_it_is_recorded():
    look = looked_at(a_world(storage_steps(enough("restricted"), NOTHING)))
    wanted = a_wanted(classification="internal", grants=(a_grant(principal_type="Group"),))
    assert "restricted data" in reasons(wanted, look)[0]
    update = a_wanted(
        classification="internal", grants=(a_grant(principal_type="Group"),), update=True
    )
    assert reasons(update, look) == []


def test_a_tag_that_is_no_level_is_somebody_elses_word():
    world = a_world(storage_steps(a_wanted(tags={"Classification": "TLP:RED"}), NOTHING))
    assert reasons(a_wanted(network="open"), looked_at(world)) == []


def test_a_level_wins_over_a_tag_of_the_same_name():
    plan = storage_steps(a_wanted(classification="internal", tags={"Classification": "x"}), NOTHING)
    account = looked_at(a_world(plan)).account
    assert account is not None
    assert account.tags == {"classification": "internal"}


def test_readers_that_the_level_does_not_admit_are_said_of_an_account_that_is_there():
    group = a_grant(principal_type="Group")
    look = looked_at(a_world(storage_steps(enough("confidential", grants=(group,)), NOTHING)))
    plan = storage_steps(
        enough("restricted", endpoint_subnet=SUBNET, infrastructure_encryption=True), look
    )
    assert any("does not admit a Group" in w for w in plan.warnings)
