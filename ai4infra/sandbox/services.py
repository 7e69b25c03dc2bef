"""The services that the sandbox knows; a new one is a file and a line here."""

from __future__ import annotations

from ai4infra.sandbox import (
    compute,
    identity,
    prices,
    providers,
    quota,
    resources,
    subscriptions,
)
from ai4infra.sandbox.app import Service

SERVICES: tuple[Service, ...] = (
    subscriptions.service,
    providers.service,
    resources.service,
    compute.service,
    quota.service,
    prices.service,
    identity.metadata,
    identity.managed,
    identity.login,
)
