"""GPU sizes, quota, prices, storage and roles on Azure, from a script.

``import ai4infra; az = ai4infra.connect(); az.recon("eastus2")``. Everything is imported when it
is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ai4infra.client import Azure, connect
    from ai4infra.client_audit import Audited
    from ai4infra.client_copy import CopyOptions, CopyReceipt
    from ai4infra.client_diagnose import diagnose
    from ai4infra.client_storage import Access
    from ai4infra.diagnosis.answer import Diagnosis, Evidence, Fix, GpuRow, Phase, Verdict
    from ai4infra.errors import (
        Ai4infraError,
        ConflictError,
        ForbiddenError,
        NetworkError,
        NotFoundError,
        NotRegisteredError,
        PolicyDeniedError,
        ServiceError,
        SignInError,
        ThrottledError,
        UsageError,
    )
    from ai4infra.model import (
        Alternative,
        Finding,
        Need,
        NeedAnswer,
        NeedReport,
        Offer,
        Placement,
        Problem,
        Quota,
        QuotaRequest,
        Receipt,
        Recon,
        Region,
        RegionQuota,
        RoleAssignment,
        Shortfall,
        Step,
        StepResult,
        StorageAccount,
        StorageLook,
        Subscription,
        Summary,
    )
    from ai4infra.plan import Plan

_HOMES = {
    "client": ("Azure", "connect"),
    "client_audit": ("Audited",),
    "client_copy": ("CopyOptions", "CopyReceipt"),
    "client_diagnose": ("diagnose",),
    "client_storage": ("Access",),
    "diagnosis.answer": ("Diagnosis", "Evidence", "Fix", "GpuRow", "Phase", "Verdict"),
    "errors": (
        "Ai4infraError",
        "ConflictError",
        "ForbiddenError",
        "NetworkError",
        "NotFoundError",
        "NotRegisteredError",
        "PolicyDeniedError",
        "ServiceError",
        "SignInError",
        "ThrottledError",
        "UsageError",
    ),
    "model": (
        "Alternative",
        "Finding",
        "Need",
        "NeedAnswer",
        "NeedReport",
        "Offer",
        "Placement",
        "Problem",
        "Quota",
        "QuotaRequest",
        "Receipt",
        "Recon",
        "Region",
        "RegionQuota",
        "RoleAssignment",
        "Shortfall",
        "Step",
        "StepResult",
        "StorageAccount",
        "StorageLook",
        "Subscription",
        "Summary",
    ),
    "plan": ("Plan",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Access",
    "Ai4infraError",
    "Alternative",
    "Audited",
    "Azure",
    "ConflictError",
    "CopyOptions",
    "CopyReceipt",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Fix",
    "ForbiddenError",
    "GpuRow",
    "Need",
    "NeedAnswer",
    "NeedReport",
    "NetworkError",
    "NotFoundError",
    "NotRegisteredError",
    "Offer",
    "Phase",
    "Placement",
    "Plan",
    "PolicyDeniedError",
    "Problem",
    "Quota",
    "QuotaRequest",
    "Receipt",
    "Recon",
    "Region",
    "RegionQuota",
    "RoleAssignment",
    "ServiceError",
    "Shortfall",
    "SignInError",
    "Step",
    "StepResult",
    "StorageAccount",
    "StorageLook",
    "Subscription",
    "Summary",
    "ThrottledError",
    "UsageError",
    "Verdict",
    "__version__",
    "connect",
    "diagnose",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
