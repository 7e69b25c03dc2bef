"""The services that the sandbox knows; a new one is a file and a line here."""

from __future__ import annotations

from ai4infra.sandbox import (
    authorization,
    blobs,
    compute,
    dataplane,
    identities,
    identity,
    insights,
    labels,
    locks,
    machines,
    network,
    operations,
    policies,
    prices,
    providers,
    quota,
    resources,
    storage,
    subscriptions,
)
from ai4infra.sandbox.app import Service

SERVICES: tuple[Service, ...] = (
    subscriptions.service,
    providers.service,
    resources.service,
    compute.service,
    quota.service,
    machines.service,
    identities.service,
    storage.service,
    blobs.service,
    network.service,
    operations.service,
    insights.service,
    labels.service,
    authorization.service,
    locks.service,
    policies.service,
    dataplane.service,
    prices.service,
    identity.metadata,
    identity.managed,
    identity.login,
)
