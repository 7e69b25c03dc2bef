"""Microsoft.Compute: the list of sizes and the usages."""

from __future__ import annotations

import re
from typing import Any

from ai4infra.ids import region_key
from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.catalogue import Catalogue, Region
from ai4infra.sandbox.messages import Response, ServiceFailure, answer
from ai4infra.sandbox.world import World

service = Service()
Row = dict[str, Any]


@service.route("GET", "/subscriptions/{subscription}/providers/Microsoft.Compute/skus")
def list_skus(call: Call) -> Response:
    """Answer with every size, disk and host type; ``$filter`` knows ``location eq`` only.

    An unknown location is an empty list, not an error, and there is no paging, as in Azure.
    """
    rows = call.world.catalogue.skus[call.subscription]
    wanted = call.query.get("$filter")
    if wanted:
        key = _filtered_region(wanted)
        rows = [row for row in rows if key in {region_key(name) for name in row["locations"]}]
    return answer({"value": rows})


def _filtered_region(expression: str) -> str:
    match = re.fullmatch(r"\s*location\s+eq\s+'([^']*)'\s*", expression, re.IGNORECASE)
    if match is None:
        message = f"The filter '{expression}' is not supported; only 'location eq' is."
        raise ServiceFailure(400, "InvalidParameter", message, target="$filter")
    return region_key(match.group(1))


@service.route(
    "GET", "/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/usages"
)
def list_usages(call: Call) -> Response:
    """Answer with used and limit of every quota that the region tells."""
    region = known_region(call, "locations/usages")
    return answer({"value": usages_of(call.world, call.subscription, region.name)})


def known_region(call: Call, kind: str) -> Region:
    """Return the region of the path. Raises ServiceFailure as ARM does for an unknown one."""
    known = call.world.catalogue
    region = known.regions.get(region_key(call["location"]))
    if region is None or region.kind != "Physical":
        raise _no_provider(known, call["location"], call.query["api-version"], kind)
    return region


def _no_provider(known: Catalogue, location: str, version: str, kind: str) -> ServiceFailure:
    names = ", ".join(region.name for region in known.regions.values() if region.kind == "Physical")
    message = (
        f"No registered resource provider found for location '{location}' and API version"
        f" '{version}' for type '{kind}'. The supported api-versions are '2023-07-01, 2024-03-01,"
        f" 2024-07-01, 2024-11-01'. The supported locations are '{names}'."
    )
    return ServiceFailure(400, "NoRegisteredProviderFound", message)


def usages_of(world: World, subscription: str, region: str) -> list[Row]:
    """Return the usage rows of a region, with the limits that were granted since."""
    rows = world.catalogue.usages[subscription].get(region, [])
    return [{**row, "limit": limit_of(world, subscription, region, row)} for row in rows]


def limit_of(world: World, subscription: str, region: str, row: Row) -> int:
    """Return the limit of a usage row as it stands now."""
    granted = world.state.limits.get(limit_key(subscription, region, row["name"]["value"]))
    return int(row["limit"] if granted is None else granted)


def limit_key(subscription: str, region: str, family: str) -> str:
    """Return the key of a granted limit in the state."""
    return f"{subscription}/{region}/{family}".lower()
