from __future__ import annotations

import pytest

from ai4infra.cloud import compute, prices, subscriptions
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.faults import KINDS

REFUSALS = (
    *("forbidden", "policy", "principal-not-found", "group-being-deleted"),
    *("deletion-blocked", "account-busy"),
)
"""Faults that trying again does not cure; ``short`` cannot be told from a whole answer."""
CURABLE = [kind for kind in KINDS if kind not in (*REFUSALS, "short")]


@pytest.fixture
def session(sandbox: Sandbox) -> Session:
    return Session(credential=sandbox.credential, transport=sandbox.transport(), env={})


def test_a_region_is_read_from_end_to_end(sandbox: Sandbox, session: Session) -> None:
    subscription = subscriptions.list_all(session)[0]
    region = subscriptions.check_region(
        "East US 2", subscriptions.regions(session, subscription.id)
    )
    listing = compute.skus(session, subscription.id, region.name)
    families = {quota.name for quota in compute.usages(session, subscription.id, region.name)}
    assert listing.warnings == ()
    assert listing.skus
    assert {"cores", "lowPriorityCores"} <= families
    assert any(sku.family in families for sku in listing.skus)
    assert prices.prices(session, [region.name], today=sandbox.world.now().date()).warnings == ()


def test_an_unknown_subscription_is_not_found(session: Session) -> None:
    with pytest.raises(NotFoundError):
        subscriptions.regions(session, "11111111-2222-3333-4444-555555555555")


@pytest.mark.parametrize("kind", CURABLE)
def test_a_passing_fault_is_got_over(kind: str, sandbox: Sandbox, session: Session) -> None:
    sound = compute.skus(session, sandbox.subscription_id, "eastus2")
    sandbox.fail(kind, "/skus")
    assert compute.skus(session, sandbox.subscription_id, "eastus2") == sound


@pytest.mark.parametrize("kind", [*CURABLE, *REFUSALS])
def test_a_lasting_fault_is_one_sentence_with_a_next_step(
    kind: str, sandbox: Sandbox, session: Session
) -> None:
    sandbox.fail(kind, "/skus", times=0, retry_after="1")
    with pytest.raises(Ai4infraError) as caught:
        compute.skus(session, sandbox.subscription_id, "eastus2")
    assert caught.value.message.startswith("Cannot list the sizes of eastus2: ")
    assert caught.value.hint
    assert "\n" not in caught.value.message
