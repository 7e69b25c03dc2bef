"""Microsoft.Resources: tenants, subscriptions and their locations."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.catalogue import Catalogue, Region
from ai4infra.sandbox.messages import Response, answer, page_of

service = Service()


@service.route("GET", "/tenants")
def list_tenants(call: Call) -> Response:
    """Answer with the one tenant."""
    known = call.world.catalogue
    row = {
        "id": f"/tenants/{known.tenant_id}",
        "tenantId": known.tenant_id,
        "countryCode": "US",
        "displayName": known.tenant_name,
        "domains": [known.tenant_domain],
        "tenantCategory": "Home",
        "defaultDomain": known.tenant_domain,
        "tenantType": "AAD",
    }
    return answer(page_of([row], call.request, known.page_rows))


@service.route("GET", "/subscriptions")
def list_subscriptions(call: Call) -> Response:
    """Answer with the subscriptions, in pages."""
    known = call.world.catalogue
    rows = [_subscription(known, id_) for id_ in known.subscriptions]
    page = page_of(rows, call.request, known.page_rows)
    return answer({**page, "count": {"type": "Total", "value": len(rows)}})


@service.route("GET", "/subscriptions/{subscription}")
def get_subscription(call: Call) -> Response:
    """Answer with one subscription."""
    return answer(_subscription(call.world.catalogue, call.subscription))


@service.route("GET", "/subscriptions/{subscription}/locations")
def list_locations(call: Call) -> Response:
    """Answer with the regions, each with the zones of this subscription."""
    known = call.world.catalogue
    rows = [_location(call.subscription, region, known) for region in known.regions.values()]
    return answer({"value": rows})


def _subscription(known: Catalogue, id_: str) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{id_}",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
        "subscriptionId": id_,
        "tenantId": known.tenant_id,
        "displayName": known.subscriptions[id_],
        "state": "Enabled",
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01",
            "quotaId": "PayAsYouGo_2014-09-01",
            "spendingLimit": "Off",
        },
    }


def _location(subscription: str, region: Region, known: Catalogue) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"/subscriptions/{subscription}/locations/{region.name}",
        "name": region.name,
        "type": "Region",
        "displayName": region.display_name,
        "regionalDisplayName": f"({region.geography_group}) {region.display_name}",
        "metadata": _metadata(region),
    }
    # Azure leaves the key out where a region has no zones.
    if region.zones:
        row["availabilityZoneMappings"] = [
            {"logicalZone": logical, "physicalZone": f"{region.name}-az{physical}"}
            for logical, physical in known.zone_order(subscription, region).items()
        ]
    return row


def _metadata(region: Region) -> dict[str, Any]:
    if region.kind != "Physical":
        return {
            "regionType": region.kind,
            "regionCategory": "Other",
            "geographyGroup": region.geography_group,
        }
    return {
        "regionType": region.kind,
        "regionCategory": "Recommended" if region.zones else "Other",
        "geography": region.geography,
        "geographyGroup": region.geography_group,
        "physicalLocation": region.place,
        "pairedRegion": [],
    }
