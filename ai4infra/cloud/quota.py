"""VM quota limits and the requests to raise them, through Microsoft.Quota.

REST reference: https://learn.microsoft.com/rest/api/quota. A request is a PUT that answers with
the id of a quota request; the request is asked about until the service has decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from azure.mgmt.quota import QuotaMgmtClient
from azure.mgmt.quota.models import CurrentQuotaLimitBase, LimitObject, QuotaProperties
from azure.mgmt.quota.models import ResourceName as QuotaName

from ai4infra.cloud.session import Session
from ai4infra.cloud.translate import incomplete, translated
from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.ids import quota_key
from ai4infra.model import QuotaRequest, QuotaSetting

POLL_SECONDS = 15.0
"""Between two questions; the service names no wait of its own. Decisions take minutes."""
WAIT_SECONDS = 900.0
"""How long a request is waited for when nobody says otherwise."""

Progress = Callable[[str], None]


class _Name(msgspec.Struct, frozen=True):
    value: str | None = None
    localizedValue: str | None = None  # noqa: N815 - the service's spelling


class _Limit(msgspec.Struct, frozen=True):
    value: int | None = None


class _Error(msgspec.Struct, frozen=True):
    code: str | None = None
    message: str | None = None


class _Part(msgspec.Struct):
    """One quota of a request; every request of ours has one."""

    name: _Name = _Name()
    limit: _Limit | int | None = None


class _Properties(msgspec.Struct, rename="camel"):
    name: _Name | None = None
    limit: _Limit | int | None = None
    is_quota_applicable: bool | None = None
    provisioning_state: str | None = None
    message: str | None = None
    error: _Error | None = None
    request_submit_time: str | None = None
    value: list[_Part] | None = None


class _Answer(msgspec.Struct):
    """A quota or a quota request: the PUT answers with a mixture of the two."""

    id: str | None = None
    name: str | None = None
    properties: _Properties | None = None


def current_limit(
    session: Session, subscription_id: str, region: str, family: str
) -> QuotaSetting | None:
    """Return one VM quota as Microsoft.Quota knows it, None where it does not know it.

    ``family`` is the quota row's name, verbatim. Raises NotRegisteredError where the subscription
    is not registered for Microsoft.Quota.
    """
    what = f"Cannot read the quota {family} of {region}"
    try:
        with translated(what):
            answer = _client(session, subscription_id).quota.get(
                family, _scope(subscription_id, region)
            )
    except Ai4infraError as error:
        if _unknown_quota(error):
            return None
        raise
    return _setting(_read(answer, what), family)


def pending_requests(
    session: Session, subscription_id: str, region: str, family: str
) -> tuple[QuotaRequest, ...]:
    """Return the undecided requests for one quota, in the service's order."""
    what = f"Cannot list the quota requests of {region}"
    with translated(what):
        client = _client(session, subscription_id)
        listed = list(client.quota_request_status.list(_scope(subscription_id, region)))
    found = (_request(_read(one, what), subscription_id, region, family) for one in listed)
    wanted = quota_key(family)
    return tuple(r for r in found if r.pending and quota_key(r.family) == wanted)


def request_limit(
    session: Session, subscription_id: str, region: str, family: str, limit_vcpus: int
) -> QuotaRequest:
    """File one request for a new limit and return it as the service took it; does not wait."""
    what = f"Cannot request {limit_vcpus} vCPUs of {family} in {region}"
    body = CurrentQuotaLimitBase(
        properties=QuotaProperties(
            limit=LimitObject(value=limit_vcpus), name=QuotaName(value=family)
        )
    )
    with translated(what):
        filed = _client(session, subscription_id).quota.begin_create_or_update(
            family, _scope(subscription_id, region), body, polling=False
        )
        answer = _read(filed.result(), what)
    request = _request(answer, subscription_id, region, family)
    # The answer shouts the name; what was asked for is known better here.
    return msgspec.structs.replace(request, family=family, limit_vcpus=limit_vcpus)


def request_status(session: Session, request: QuotaRequest) -> QuotaRequest:
    """Return the request as it stands now; one that was decided at once stays as it is."""
    if request.request_id is None:
        return request
    what = f"Cannot read quota request {request.request_id}"
    with translated(what):
        answer = _client(session, request.subscription_id).quota_request_status.get(
            request.request_id, _scope(request.subscription_id, request.region)
        )
    now = _request(_read(answer, what), request.subscription_id, request.region, request.family)
    return msgspec.structs.replace(
        now,
        request_id=request.request_id,
        family=request.family,
        limit_vcpus=request.limit_vcpus,
    )


def wait_for(
    session: Session,
    request: QuotaRequest,
    *,
    timeout_seconds: float = WAIT_SECONDS,
    on_progress: Progress | None = None,
) -> QuotaRequest:
    """Ask about a request until it is decided or the time is over; return it as it stands then."""
    waited = 0.0
    while request.pending and waited < timeout_seconds:
        if on_progress is not None:
            on_progress(_progress(request, waited))
        session.transport.sleep(POLL_SECONDS)
        waited += POLL_SECONDS
        request = request_status(session, request)
    return request


def _progress(request: QuotaRequest, waited: float) -> str:
    return (
        f"Quota request {request.request_id} for {request.limit_vcpus} vCPUs of {request.family}"
        f" in {request.region}: {request.state} after {waited:.0f} s"
    )


def _client(session: Session, subscription_id: str) -> Any:
    return session.client(QuotaMgmtClient, subscription_id)


def _scope(subscription_id: str, region: str) -> str:
    # Without the leading slash: the SDK puts one before the scope.
    return f"subscriptions/{subscription_id}/providers/Microsoft.Compute/locations/{region}"


def _unknown_quota(error: Ai4infraError) -> bool:
    if isinstance(error, NotFoundError):
        return (error.code or "").casefold() not in ("subscriptionnotfound",)
    return (error.code or "").casefold() == "invalidresourcename"


def _read(answer: Any, what: str) -> _Answer:
    try:
        return msgspec.convert(answer.as_dict(), _Answer, strict=False)
    except (msgspec.ValidationError, AttributeError) as error:
        raise incomplete(what, str(error)) from error


def _setting(answer: _Answer, family: str) -> QuotaSetting:
    properties = answer.properties or _Properties()
    name = properties.name or _Name()
    return QuotaSetting(
        name=family,
        label=name.localizedValue or family,
        limit=_number(properties.limit),
        adjustable=properties.is_quota_applicable,
    )


def _request(answer: _Answer, subscription_id: str, region: str, family: str) -> QuotaRequest:
    properties = answer.properties or _Properties()
    part = properties.value[0] if properties.value else None
    name = part.name.value if part else (properties.name or _Name()).value
    error = properties.error or _Error()
    return QuotaRequest(
        subscription_id=subscription_id,
        region=region,
        family=name or family,
        limit_vcpus=_number(part.limit if part else properties.limit),
        state=properties.provisioning_state or _state(answer),
        request_id=_request_id(answer),
        code=error.code,
        message=error.message or properties.message,
        submitted=properties.request_submit_time,
    )


def _state(answer: _Answer) -> str:
    return "InProgress" if _request_id(answer) else "Succeeded"


def _request_id(answer: _Answer) -> str | None:
    """Return the request's id; a PUT that is decided at once answers with the quota instead."""
    path = (answer.id or "").rstrip("/").split("/")
    if len(path) > 1 and path[-2].casefold() == "quotarequests":
        return path[-1]
    return None


def _number(limit: _Limit | int | None) -> int | None:
    return limit.value if isinstance(limit, _Limit) else limit
