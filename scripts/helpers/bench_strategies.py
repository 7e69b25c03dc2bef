"""Read the GPU sizes of all regions in one of two ways, so that the choice is a measured one.

``filtered`` is what ai4infra does: concurrent calls, one region each. ``unfiltered`` is one call
for all regions; it decodes less of each size than ai4infra would have to, so it is measured kindly.
Usage: bench_strategies.py filtered|unfiltered ORIGIN SUBSCRIPTION REGION...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from ai4infra.cloud import compute
from ai4infra.cloud.clouds import find
from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.session import Session


class Row(msgspec.Struct, rename="camel"):
    """A size with its lists left raw, as ai4infra reads it first."""

    name: str
    locations: list[str]
    capabilities: msgspec.Raw


class Capability(msgspec.Struct):
    """A capability of a size."""

    name: str
    value: str


def filtered(session: Session, subscription: str, regions: Iterable[str]) -> Iterator[str]:
    """Size names of all regions by concurrent filtered calls."""
    for outcome in fan_out(partial(compute.skus, session, subscription), regions):
        yield from (sku.name for sku in outcome.result().skus)


def unfiltered(session: Session, subscription: str, regions: Iterable[str]) -> Iterator[str]:
    """Size names of all regions by one call."""
    wanted = set(regions)
    path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
    for page in session.pages(path, compute.SKUS_API_VERSION, what="Cannot list sizes"):
        for row in msgspec.json.decode(page, type=list[Row]):
            if compute.is_gpu_size(row.name) and wanted.intersection(row.locations):
                msgspec.json.decode(row.capabilities, type=list[Capability])
                yield row.name


def main() -> None:
    """Print the size names, one a line."""
    way, origin, subscription, *regions = sys.argv[1:]
    session = Session(cloud=find(arm_endpoint=origin, env=os.environ))
    read = {"filtered": filtered, "unfiltered": unfiltered}[way]
    print("\n".join(read(session, subscription, regions)))


if __name__ == "__main__":
    main()
