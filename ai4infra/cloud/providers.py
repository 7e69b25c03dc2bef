"""Registration of a subscription for resource providers; never done in passing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azure.mgmt.resource.resources import ResourceManagementClient

from ai4infra.cloud.session import Session
from ai4infra.cloud.translate import translated

POLL_SECONDS = 10.0
WAIT_SECONDS = 600.0
"""Most registrations take less than two minutes."""

Progress = Callable[[str], None]


def registration_state(session: Session, subscription_id: str, namespace: str) -> str:
    """Return the service's word: NotRegistered, Registering, Registered, Unregistering."""
    with translated(f"Cannot read the registration for {namespace}"):
        provider = _providers(session, subscription_id).get(namespace)
    return str(provider.registration_state)


def register(session: Session, subscription_id: str, namespace: str) -> str:
    """Register the subscription for a provider and return the state; does not wait."""
    with translated(f"Cannot register the subscription for {namespace}"):
        provider = _providers(session, subscription_id).register(namespace)
    return str(provider.registration_state)


def wait_until_registered(
    session: Session,
    subscription_id: str,
    namespace: str,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    on_progress: Progress | None = None,
) -> bool:
    """Wait for the registration; False when it is not there in time."""
    waited = 0.0
    state = registration_state(session, subscription_id, namespace)
    while state.casefold() != "registered" and waited < timeout_seconds:
        if on_progress is not None:
            on_progress(f"{namespace}: {state} after {waited:.0f} s")
        session.transport.sleep(POLL_SECONDS)
        waited += POLL_SECONDS
        state = registration_state(session, subscription_id, namespace)
    return state.casefold() == "registered"


def _providers(session: Session, subscription_id: str) -> Any:
    return session.client(ResourceManagementClient, subscription_id).providers
