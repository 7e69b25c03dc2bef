"""Microsoft.Quota for Microsoft.Compute: limits, and requests that take a while to be decided.

Shapes follow the REST reference (https://learn.microsoft.com/rest/api/quota).
"""

from __future__ import annotations

from typing import Any

from ai4infra.ids import quota_key
from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.compute import known_region, limit_key, limit_of
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    arm_time,
    invalid_content,
    json_body,
    page_of,
)
from ai4infra.sandbox.providers import require_registered
from ai4infra.sandbox.world import Operation, World

service = Service()
Row = dict[str, Any]

KIND = "quota"
_SCOPE = "/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}"
_QUOTA = f"{_SCOPE}/providers/Microsoft.Quota"
_ADJUSTABLE = ("cores", "lowprioritycores")
RETRY_AFTER_SECONDS = 30


@service.route("GET", f"{_QUOTA}/quotas")
def list_quotas(call: Call) -> Response:
    """Answer with all limits of the region."""
    rows = [_limit_row(call, row) for row in _rows(call)]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


@service.route("GET", f"{_QUOTA}/quotas/{{name}}")
def get_quota(call: Call) -> Response:
    """Answer with one limit."""
    return answer(_limit_row(call, _named(call)))


@service.route("GET", f"{_QUOTA}/usages")
def list_usages(call: Call) -> Response:
    """Answer with what is used of all limits of the region."""
    rows = [_usage_row(call, row) for row in _rows(call)]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


@service.route("GET", f"{_QUOTA}/usages/{{name}}")
def get_usage(call: Call) -> Response:
    """Answer with what is used of one limit."""
    return answer(_usage_row(call, _named(call)))


@service.route("PUT", f"{_QUOTA}/quotas/{{name}}")
@service.route("PATCH", f"{_QUOTA}/quotas/{{name}}")
def request_quota(call: Call) -> Response:
    """Take a request for a new limit; it is decided later."""
    row = _named(call)
    if not _adjustable(row):
        raise _invalid_name(call)
    wanted = _wanted(call)
    operation = call.world.start_operation(
        KIND,
        call.subscription,
        call.world.catalogue.quota_requests["seconds"],
        region=known_region(call, "locations").name,
        name=row["name"]["value"],
        label=row["name"]["localizedValue"],
        limit=wanted,
    )
    status = _url(call, "operationsStatus", operation.id)
    body = _request_row(call, operation)
    # The service shouts the name back in this one answer.
    body["properties"] = {
        "limit": _limit(wanted),
        "name": {"value": row["name"]["value"].upper()},
        "properties": {},
        "provisioningState": "InProgress",
        "isQuotaApplicable": True,
    }
    return answer(
        body,
        202,
        location=status,
        azure_asyncoperation=status,
        retry_after=str(RETRY_AFTER_SECONDS),
    )


@service.route("GET", f"{_QUOTA}/operationsStatus/{{id}}")
def get_operation(call: Call) -> Response:
    """Answer with the state of a request; when it is decided, with where to read it."""
    operation = _operation(call)
    status = _url(call, "operationsStatus", operation.id)
    body: Row = {
        "id": status.partition("?")[0].removeprefix(call.request.origin),
        "name": operation.id,
        "type": "Microsoft.Quota/OperationsStatus",
        "startTime": f"{operation.started:%Y-%m-%dT%H:%M:%SZ}",
        "status": operation.outcome or "InProgress",
    }
    if operation.outcome == "Failed":
        body["error"] = _error(call.world, operation)
    if operation.outcome is None:
        return answer(body, location=status, azure_asyncoperation=status)
    return answer(body, location=_url(call, "quotaRequests", operation.id))


@service.route("GET", f"{_QUOTA}/quotaRequests")
def list_requests(call: Call) -> Response:
    """Answer with the requests of the region, newest first."""
    region = _checked_region(call)
    mine = [
        operation
        for operation in call.world.state.operations.values()
        if operation.kind == KIND
        and operation.subscription_id == call.subscription
        and operation.details["region"] == region
    ]
    rows = [_request_row(call, operation) for operation in reversed(mine)]
    return answer(page_of(rows, call.request, call.world.catalogue.page_rows))


@service.route("GET", f"{_QUOTA}/quotaRequests/{{id}}")
def get_request(call: Call) -> Response:
    """Answer with one request and what became of it."""
    return answer(_request_row(call, _operation(call)))


@service.finisher(KIND)
def decide(world: World, operation: Operation) -> None:
    """Grant a request, or refuse it where the family or the number isn't for an API to give."""
    if _refusal(world, operation) is not None:
        operation.outcome = "Failed"
        return
    details = operation.details
    key = limit_key(operation.subscription_id, details["region"], details["name"])
    world.state.limits[key] = details["limit"]


def _refusal(world: World, operation: Operation) -> str | None:
    rules = world.catalogue.quota_requests
    code: str | None = rules["refused"].get(operation.details["name"])
    if code is None and operation.details["limit"] > rules["largest_limit"]:
        code = "ContactSupport"
    return code


def _error(world: World, operation: Operation) -> Row:
    code = _refusal(world, operation) or "ContactSupport"
    return {"code": code, "message": world.catalogue.quota_requests["messages"][code]}


def _checked_region(call: Call) -> str:
    require_registered(call.world, call.subscription, "Microsoft.Quota")
    return known_region(call, "locations").name


def _rows(call: Call) -> list[Row]:
    region = _checked_region(call)
    return call.world.catalogue.usages[call.subscription].get(region, [])


def _named(call: Call) -> Row:
    wanted = quota_key(call["name"])
    for row in _rows(call):
        if quota_key(row["name"]["value"]) == wanted:
            return row
    raise _invalid_name(call)


def _invalid_name(call: Call) -> ServiceFailure:
    message = f"The resource name '{call['name']}' is invalid or not supported in the location."
    return ServiceFailure(400, "InvalidResourceName", message)


def _adjustable(row: Row) -> bool:
    name = row["name"]["value"].lower()
    return name in _ADJUSTABLE or name.endswith("family")


def _wanted(call: Call) -> int:
    properties = json_body(call.request).get("properties")
    limit = properties.get("limit") if isinstance(properties, dict) else None
    value = limit.get("value") if isinstance(limit, dict) else limit
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid_content("properties.limit.value must be a number that is not negative")
    return value


def _operation(call: Call) -> Operation:
    region = _checked_region(call)
    found = call.world.state.operations.get(call["id"].lower())
    mine = (KIND, call.subscription, region)
    if found is None or (found.kind, found.subscription_id, found.details["region"]) != mine:
        raise ServiceFailure(404, "NotFound", f"The request '{call['id']}' was not found.")
    return found


def _limit_row(call: Call, row: Row) -> Row:
    region = known_region(call, "locations").name
    properties = {
        "limit": _limit(limit_of(call.world, call.subscription, region, row)),
        "name": row["name"],
        "properties": {},
        "unit": row["unit"],
        "isQuotaApplicable": _adjustable(row),
    }
    return _resource(call, "quotas", row["name"]["value"], "Microsoft.Quota/Quotas", properties)


def _usage_row(call: Call, row: Row) -> Row:
    properties = {
        "usages": {"value": row["currentValue"]},
        "name": row["name"],
        "properties": {},
        "unit": row["unit"],
        "isQuotaApplicable": _adjustable(row),
    }
    return _resource(call, "usages", row["name"]["value"], "Microsoft.Quota/Usages", properties)


def _request_row(call: Call, operation: Operation) -> Row:
    state = operation.outcome or "InProgress"
    failed = _error(call.world, operation) if state == "Failed" else None
    message = failed["message"] if failed else f"Request {state.lower()}"
    details = operation.details
    properties: Row = {
        "message": message,
        "provisioningState": state,
        "requestSubmitTime": arm_time(operation.started),
        "value": [
            {
                "name": {"value": details["name"], "localizedValue": details["label"]},
                "limit": _limit(details["limit"]),
                "message": message,
                "provisioningState": state,
                "subRequestId": operation.id,
            }
        ],
    }
    if failed:
        properties["error"] = failed
    return _resource(
        call, "quotaRequests", operation.id, "Microsoft.Quota/quotaRequests", properties
    )


def _limit(value: int) -> Row:
    return {"limitObjectType": "LimitValue", "limitType": "Independent", "value": value}


def _resource(call: Call, kind: str, name: str, type_: str, properties: Row) -> Row:
    return {
        "properties": properties,
        "id": f"{_scope(call)}/{kind}/{name}",
        "type": type_,
        "name": name,
    }


def _scope(call: Call) -> str:
    region = known_region(call, "locations").name
    return (
        f"/subscriptions/{call.subscription}/providers/Microsoft.Compute/locations/{region}"
        "/providers/Microsoft.Quota"
    )


def _url(call: Call, kind: str, id_: str) -> str:
    version = call.query["api-version"]
    return f"{call.request.origin}{_scope(call)}/{kind}/{id_}?api-version={version}"
