"""Resource providers: whether a subscription is registered for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import Response, ServiceFailure, answer, page_of
from ai4infra.sandbox.world import World

service = Service()

_TYPES: dict[str, tuple[str, ...]] = {
    "Microsoft.Compute": (
        "skus",
        "virtualMachines",
        "virtualMachineScaleSets",
        "locations/usages",
    ),
    "Microsoft.Resources": ("resourceGroups", "subscriptions", "tags"),
    "Microsoft.Storage": ("storageAccounts", "checkNameAvailability", "locations/usages"),
    "Microsoft.Authorization": ("roleAssignments", "roleDefinitions", "locks"),
    "Microsoft.ManagedIdentity": ("userAssignedIdentities",),
    "Microsoft.Network": ("virtualNetworks", "privateEndpoints", "privateDnsZones"),
    "Microsoft.Insights": ("metricAlerts", "diagnosticSettings"),
    "Microsoft.Quota": ("quotas", "usages", "quotaRequests", "operationsStatus"),
}
_VERSIONS = ["2025-09-01", "2024-11-01", "2024-07-01", "2023-07-01", "2022-09-01", "2021-04-01"]


@service.route("GET", "/subscriptions/{subscription}/providers")
def list_providers(call: Call) -> Response:
    """Answer with all providers."""
    rows = [_row(call, name) for name in _names(call.world)]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


@service.route("GET", "/subscriptions/{subscription}/providers/{namespace}")
def get_provider(call: Call) -> Response:
    """Answer with one provider and its registration."""
    return answer(_row(call, _known(call)))


@service.route("POST", "/subscriptions/{subscription}/providers/{namespace}/register")
def register(call: Call) -> Response:
    """Begin a registration, which takes a while; one that is there stays."""
    name = _known(call)
    if registration_state(call.world, call.subscription, name) == "NotRegistered":
        delay = timedelta(seconds=call.world.catalogue.providers["registering_seconds"])
        call.world.state.registrations[_key(call.subscription, name)] = call.world.now() + delay
    return answer(_row(call, name))


def registration_state(world: World, subscription: str, namespace: str) -> str:
    """Return ``NotRegistered``, ``Registering`` or ``Registered``."""
    if namespace in world.catalogue.providers["registered"]:
        return "Registered"
    since = world.state.registrations.get(_key(subscription, namespace))
    if since is None:
        return "NotRegistered"
    return "Registered" if since <= world.now() else "Registering"


def require_registered(world: World, subscription: str, namespace: str) -> None:
    """Refuse a request to a provider that the subscription isn't registered for."""
    if registration_state(world, subscription, namespace) != "Registered":
        message = (
            f"The subscription is not registered to use namespace '{namespace}'. See "
            "https://aka.ms/rps-not-found for how to register subscriptions."
        )
        raise ServiceFailure(409, "MissingSubscriptionRegistration", message)


def _names(world: World) -> list[str]:
    providers = world.catalogue.providers
    return sorted([*providers["registered"], *providers["known"]])


def _known(call: Call) -> str:
    for name in _names(call.world):
        if name.lower() == call["namespace"].lower():
            return name
    message = f"The resource namespace '{call['namespace']}' is invalid."
    raise ServiceFailure(404, "InvalidResourceNamespace", message)


def _key(subscription: str, namespace: str) -> str:
    return f"{subscription}/{namespace}".lower()


def _row(call: Call, name: str) -> dict[str, Any]:
    regions = call.world.catalogue.regions.values()
    places = [region.display_name for region in regions if region.kind == "Physical"]
    return {
        "id": f"/subscriptions/{call.subscription}/providers/{name}",
        "namespace": name,
        "resourceTypes": [
            {"resourceType": kind, "locations": places, "apiVersions": _VERSIONS}
            for kind in _TYPES.get(name, ())
        ],
        "registrationState": registration_state(call.world, call.subscription, name),
        "registrationPolicy": "RegistrationRequired",
    }
