"""SKU records, regions and quota rows of the size and shape that Azure answers with.

Records are made from a few counters, so that two runs measure the same bytes. Like the service's
own, the SKU list is indented and ends its lines with CR LF.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

SIZES_PER_REGION = 1000
REGION_NAMES = tuple(
    f"{place}{number}"
    for place in ("eastbench", "westbench", "northbench", "southbench", "centralbench")
    for number in range(1, 12)
)
SUBSCRIPTIONS = {f"00000000-0000-0000-0000-{regions:012d}": regions for regions in (55, 22, 11)}
"""Subscription id to the number of regions that it has."""
ZONE_CAPABILITIES = ("UltraSSDAvailable", "PremiumV2Available")
SWITCHES = (
    "PremiumIO",
    "EncryptionAtHostSupported",
    "EphemeralOSDiskSupported",
    "AcceleratedNetworkingEnabled",
    "CapacityReservationSupported",
    "MemoryPreservingMaintenanceSupported",
    "LowPriorityCapable",
    "HibernationSupported",
)


def regional_list(region: str, gpu_sizes: tuple[str, ...]) -> bytes:
    """All records of a region as JSON, without the brackets around them."""
    text = json.dumps({"value": list(records(region, gpu_sizes))}, indent=2)
    inner = text[text.index("[") + 1 : text.rindex("]")].rstrip()
    return inner.replace("\n", "\r\n").encode()


def records(region: str, gpu_sizes: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The sizes of a region: GPU sizes evenly among the others."""
    every = SIZES_PER_REGION // len(gpu_sizes)
    for number in range(SIZES_PER_REGION):
        gpu = number % every == 0 and number // every < len(gpu_sizes)
        name = gpu_sizes[number // every] if gpu else f"Standard_D{number}ads_v{number % 4 + 3}"
        yield record(region, name, number, gpu=gpu)


def record(region: str, name: str, number: int, *, gpu: bool) -> dict[str, Any]:
    """One size as Microsoft.Compute/skus lists it."""
    zones = ["3", "1", "2"]
    details = [
        {
            "Name": [zone],
            "capabilities": [{"name": c, "value": "True"} for c in ZONE_CAPABILITIES],
        }
        for zone in zones
    ]
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "tier": "Standard",
        "size": name.removeprefix("Standard_"),
        "family": family(name),
        "locations": [region],
        "locationInfo": [{"location": region, "zones": zones, "zoneDetails": details}],
        "capabilities": capabilities(number, gpu=gpu),
        "restrictions": [] if number % 3 else [restriction(region)],
    }


def family(name: str) -> str:
    """A quota family for a size: one per letters and version."""
    letters = "".join(c for c in name.removeprefix("Standard_") if not c.isdigit())
    return f"standard{letters.replace('_', '')}Family"


def restriction(region: str) -> dict[str, Any]:
    """A zone that the subscription may not use."""
    return {
        "type": "Zone",
        "values": [region],
        "restrictionInfo": {"locations": [region], "zones": ["2"]},
        "reasonCode": "NotAvailableForSubscription",
    }


def capabilities(number: int, *, gpu: bool) -> list[dict[str, str]]:
    """The 25 capabilities of a size, all of them strings as the service has it."""
    vcpus = 8 + number % 88
    values = {
        "MaxResourceVolumeMB": str(65536 + number),
        "OSVhdSizeMB": "1047552",
        "vCPUs": str(vcpus),
        "vCPUsAvailable": str(vcpus),
        "vCPUsPerCore": "2",
        "MemoryGB": str(vcpus * 8),
        "MaxDataDiskCount": "32",
        "MaxNetworkInterfaces": "8",
        "CpuArchitectureType": "x64",
        "HyperVGenerations": "V1,V2",
        "VMDeploymentTypes": "IaaS",
        "CombinedTempDiskAndCachedIOPS": str(9000 + number),
        "CombinedTempDiskAndCachedReadBytesPerSecond": str(131072000 + number),
        "UncachedDiskIOPS": str(6400 + number),
        "UncachedDiskBytesPerSecond": str(200540160 + number),
        "RdmaEnabled": str(gpu),
        "GPUs" if gpu else "ACUs": str(number % 8 + 1),
    }
    switches = {name: str((number + place) % 5 != 0) for place, name in enumerate(SWITCHES)}
    return [{"name": name, "value": value} for name, value in {**values, **switches}.items()]


def locations(subscription: str, count: int) -> list[dict[str, Any]]:
    """The regions of a subscription, as the locations call lists them."""
    return [
        {
            "id": f"/subscriptions/{subscription}/locations/{name}",
            "name": name,
            "type": "Region",
            "displayName": name.title(),
            "regionalDisplayName": name.title(),
            "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
            "availabilityZoneMappings": [
                {"logicalZone": zone, "physicalZone": f"{name}-az{zone}"} for zone in "123"
            ],
        }
        for name in REGION_NAMES[:count]
    ]


def usages(gpu_sizes: tuple[str, ...]) -> dict[str, Any]:
    """The quota rows of a region: the pools, the families of the GPU sizes, and some others."""
    names = ["cores", "lowPriorityCores", *sorted({family(size) for size in gpu_sizes})]
    names += [f"standardD{number}Family" for number in range(100)]
    return {
        "value": [
            {
                "unit": "Count",
                "currentValue": 0,
                "limit": 5000,
                "name": {"value": name, "localizedValue": f"{name} vCPUs"},
            }
            for name in names
        ]
    }
