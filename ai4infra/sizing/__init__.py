"""Storage arithmetic: what the GPUs ask for, what stands in the way, and what serves them best.

All rates are of the whole job in MB a second (10**6 bytes): what one VM can do counts once for
each VM, what jobs share is divided by their number. The smallest ceiling is the first wall. A
ceiling that is not known leaves the rate an upper bound, and a note says so; where none is known
the rate is None. Figures come from ``data/storage.toml`` and ``data/gpus.toml``.
"""

from __future__ import annotations

from ai4infra.sizing.demands import demand
from ai4infra.sizing.growth import GROWTH, growth_warnings
from ai4infra.sizing.matrix import advise
from ai4infra.sizing.options import (
    BLOCK_CACHE,
    FILE_CACHE,
    HDD,
    LUSTRE,
    NFS,
    PRELOAD,
    SMB,
    SSD,
    SSD_V2,
    STAGING,
    STANDARD_SMB,
)
from ai4infra.sizing.quantities import parse_bytes, parse_count, parse_vms
from ai4infra.sizing.records import (
    WORKLOADS,
    Ceiling,
    Demand,
    Job,
    StorageAdvice,
    StorageOption,
    Usage,
    Vms,
)

__all__ = [
    "BLOCK_CACHE",
    "FILE_CACHE",
    "GROWTH",
    "HDD",
    "LUSTRE",
    "NFS",
    "PRELOAD",
    "SMB",
    "SSD",
    "SSD_V2",
    "STAGING",
    "STANDARD_SMB",
    "WORKLOADS",
    "Ceiling",
    "Demand",
    "Job",
    "StorageAdvice",
    "StorageOption",
    "Usage",
    "Vms",
    "advise",
    "demand",
    "growth_warnings",
    "parse_bytes",
    "parse_count",
    "parse_vms",
]
