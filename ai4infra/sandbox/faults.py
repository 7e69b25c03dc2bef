"""Faults that can be asked for: what a bad day of Azure looks like to a client.

The bodies are modelled on answers that Resource Manager has been seen to give.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ai4infra.errors import UsageError
from ai4infra.ids import unknown_name
from ai4infra.sandbox.messages import JSON_TYPE, Hangup, Request, Response

Outcome = Response | Hangup
Effect = Callable[["Fault", Request, Callable[[], Response]], Outcome]
SPEC_FORM = "KIND[,path=REGEX][,method=GET][,times=1][,after=0][,retry-after=SECONDS]"


@dataclass
class Fault:
    """One fault that waits for its requests.

    ``path`` is a regular expression searched in path and query, ignoring case; ``after`` lets so
    many matching requests through first; ``times`` is how often it strikes, 0 for always.
    ``retry_after`` is sent as it stands, None sends no such header.
    """

    kind: str
    path: str = ""
    method: str = ""
    times: int = 1
    after: int = 0
    retry_after: str | None = None
    struck: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("fault", self.kind, KINDS, listing=f"Known: {', '.join(KINDS)}.")
        try:
            re.compile(self.path)
        except re.error as error:
            raise UsageError(
                f"The fault's path {self.path!r} is no expression: {error}."
            ) from error

    def matches(self, request: Request) -> bool:
        """Tell whether the fault is about this request."""
        if self.method and self.method.upper() != request.method:
            return False
        rest = request.url.split("://", 1)[-1].partition("/")[2]
        return re.search(self.path, f"/{rest}", re.IGNORECASE) is not None

    @property
    def spent(self) -> bool:
        """True when it strikes no more."""
        return 0 < self.times <= self.struck


def strike(faults: list[Fault], request: Request, answer: Callable[[], Response]) -> Outcome:
    """Answer the request, or do what the first fault that is due says."""
    fault = _due(faults, request)
    if fault is None:
        return answer()
    fault.struck += 1
    if fault.spent:
        faults.remove(fault)
    return KINDS[fault.kind](fault, request, answer)


def _due(faults: list[Fault], request: Request) -> Fault | None:
    for fault in faults:
        if fault.matches(request):
            if fault.after <= 0:
                return fault
            fault.after -= 1
    return None


def parse_fault(spec: str) -> Fault:
    """Read ``KIND,path=/skus,times=2``. Raises UsageError naming the form."""
    kind, *parts = spec.split(",")
    values = dict(part.split("=", 1) for part in parts if "=" in part)
    known = {"path", "method", "times", "after", "retry-after"}
    if len(values) != len(parts) or set(values) - known:
        raise UsageError(f"The fault {spec!r} cannot be read.", hint=f"Its form is {SPEC_FORM}.")
    return Fault(
        kind=kind.strip(),
        path=values.get("path", ""),
        method=values.get("method", ""),
        times=_count(spec, values.get("times", "1")),
        after=_count(spec, values.get("after", "0")),
        retry_after=values.get("retry-after"),
    )


def _count(spec: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"In the fault {spec!r}, {text!r} is no number.", hint=SPEC_FORM)
    return int(text)


def _refusal(status: int, body: Any, **headers: str) -> Effect:
    """Return an effect that answers instead of the service."""

    def effect(fault: Fault, request: Request, answer: Callable[[], Response]) -> Response:
        named = {"content-type": JSON_TYPE, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if fault.retry_after is not None:
            named["retry-after"] = fault.retry_after
        text = body if isinstance(body, str) else json.dumps(body)
        return Response(status, text.replace("@SUBJECT@", _subject(request)).encode(), named)

    return effect


def _subject(request: Request) -> str:
    return request.path.replace('"', "")


def _arm(status: int, code: str, message: str, **fields: Any) -> Effect:
    return _refusal(status, {"error": {"code": code, "message": message, **fields}})


def _hangup(how: str) -> Effect:
    return lambda fault, request, answer: Hangup(how)


def _truncated(fault: Fault, request: Request, answer: Callable[[], Response]) -> Response:
    """Cut the answer off in the middle."""
    whole = answer()
    return Response(whole.status, whole.body[: len(whole.body) // 2], whole.headers)


def _short(fault: Fault, request: Request, answer: Callable[[], Response]) -> Response:
    """Leave out the second half of a list, and that more pages follow."""
    whole = answer()
    try:
        body = json.loads(whole.body)
    except ValueError:
        return whole
    name = next((n for n in ("value", "Items") if isinstance(body.get(n), list)), None)
    if name is None:
        return whole
    rows = body[name]
    kept = {name: rows[: len(rows) // 2]}
    return Response(whole.status, json.dumps(kept).encode(), whole.headers)


_THROTTLED = (
    "Number of read requests for subscription exceeded the limit of '12000' for time interval "
    "'01:00:00'. Please try again after '17' seconds."
)
_SITE_LOCKED = (
    "Cannot acquire exclusive lock to create, update or delete this site. Retry the request later."
)
_UNAVAILABLE = (
    "<!DOCTYPE HTML><HTML><HEAD><TITLE>Service Unavailable</TITLE></HEAD>\n"
    "<BODY><h2>Service Unavailable</h2>\n"
    "<hr><p>HTTP Error 503. The service is unavailable.</p>\n</BODY></HTML>\n"
)
_EXPIRED = (
    "The access token expiry UTC time '1/5/2026 7:40:48 AM' is earlier than current UTC time "
    "'1/5/2026 8:47:00 AM'."
)
_CHALLENGE = (
    'Bearer authorization_uri="https://login.microsoftonline.com/common", error="invalid_token", '
    'error_description="The access token has expired."'
)
_DELETION_BLOCKED = (
    "Deletion of resource group 'rg' failed as resources with identifiers "
    "'Microsoft.Network/virtualNetworks/vnet' could not be deleted. The provisioning state of the "
    "resource group will be rolled back."
)
_BEING_DELETED = (
    "The resource group is in deprovisioning state and cannot perform this operation. Target: "
    "'@SUBJECT@'."
)
_ACCOUNT_BUSY = (
    "An operation is currently performing on this storage account that requires exclusive access."
)
_FORBIDDEN = (
    "The client 'sandbox' with object id '00000000-0000-0000-0000-00000000f0b1' does not have "
    "authorization to perform this action over scope '@SUBJECT@' or the scope is invalid. If "
    "access was recently granted, please refresh your credentials."
)
_ASSIGNMENT = "/providers/Microsoft.Authorization/policyAssignments/allowed-locations"
_DEFINITION = "/providers/Microsoft.Authorization/policyDefinitions/allowed-locations"
_POLICY = {
    "type": "PolicyViolation",
    "info": {
        "policyDefinitionDisplayName": "Allowed locations",
        "policyDefinitionId": _DEFINITION,
        "policyDefinitionName": "allowed-locations",
        "policyDefinitionEffect": "deny",
        "policyAssignmentId": _ASSIGNMENT,
        "policyAssignmentName": "allowed-locations",
        "evaluationDetails": {
            "evaluatedExpressions": [
                {
                    "result": "False",
                    "expressionKind": "Field",
                    "expression": "location",
                    "path": "location",
                    "expressionValue": "eastus2",
                    "targetValue": ["westeurope"],
                    "operator": "In",
                }
            ]
        },
    },
}

KINDS: dict[str, Effect] = {
    "throttled": _arm(429, "SubscriptionRequestsThrottled", _THROTTLED),
    "too-many-requests": _refusal(
        429, {"Code": "TooManyRequests", "Message": "Too many requests.  Please try again later."}
    ),
    "code-429": _refusal(429, {"Code": "429", "Message": _SITE_LOCKED, "Target": None}),
    "conflict-429": _refusal(
        429,
        {
            "Code": "Conflict",
            "Message": "Cannot modify this plan because another operation is in progress.",
            "Target": None,
        },
    ),
    "internal-error": _arm(
        500, "InternalServerError", "Encountered internal server error. Diagnostic information: x."
    ),
    "unavailable": _refusal(503, _UNAVAILABLE, content_type="text/html; charset=us-ascii"),
    "gateway-timeout": _arm(
        504, "GatewayTimeout", "The gateway did not receive a response from the service in time."
    ),
    "connect-timeout": _hangup("connect timeout"),
    "read-timeout": _hangup("read timeout"),
    "drop": _hangup("drop"),
    "expired-token": _refusal(
        401,
        {"error": {"code": "ExpiredAuthenticationToken", "message": _EXPIRED}},
        www_authenticate=_CHALLENGE,
    ),
    "forbidden": _arm(403, "AuthorizationFailed", _FORBIDDEN),
    "policy": _arm(
        403,
        "RequestDisallowedByPolicy",
        "Resource '@SUBJECT@' was disallowed by policy. Policy identifiers: "
        '\'[{"policyAssignment":{"name":"allowed-locations"}}]\'.',
        additionalInfo=[_POLICY],
    ),
    "principal-not-found": _arm(
        400,
        "PrincipalNotFound",
        "Principal 0b7ec700000040008000000000000099 does not exist in the directory "
        "7e0a0000-0000-4000-8000-00000000a141.",
    ),
    "group-being-deleted": _arm(409, "ResourceGroupBeingDeleted", _BEING_DELETED),
    # The poll of a deletion answers in capitals.
    "deletion-blocked": _refusal(
        409,
        {
            "Error": {
                "Code": "ResourceGroupDeletionBlocked",
                "Target": None,
                "Message": _DELETION_BLOCKED,
                "Details": [],
            }
        },
    ),
    "account-busy": _arm(409, "StorageAccountOperationInProgress", _ACCOUNT_BUSY),
    "operation-timed-out": _arm(
        500,
        "OperationTimedOut",
        "Operation could not be completed within the specified time.",
    ),
    "truncated": _truncated,
    "short": _short,
}
"""Every fault by name."""
