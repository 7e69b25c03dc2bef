"""Long operations of Microsoft.Network and Microsoft.Compute: asked for at an address of theirs.

The address is in ``Azure-AsyncOperation``; it tells ``InProgress``, ``Succeeded`` or ``Failed``,
always with status 200.
"""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import Response, ServiceFailure, answer, arm_time, empty
from ai4infra.sandbox.resources import forget
from ai4infra.sandbox.tracked import GROUP, SUBSCRIPTION
from ai4infra.sandbox.world import Operation, World

service = Service()
Row = dict[str, Any]

WRITE_KIND = "write resource"
DELETE_KIND = "delete resource"
RETRY_AFTER_SECONDS = 10


def written(
    call: Call, row: Row, status: int, seconds: float, error: Row | None = None
) -> Response:
    """Answer a write whose resource is ready after so many seconds, or then fails."""
    details = {"id": row["id"], "error": error}
    operation = call.world.start_operation(WRITE_KIND, call.subscription, seconds, **details)
    row["properties"]["provisioningState"] = "Updating"
    if call.world.instant and error is None:
        row["properties"]["provisioningState"] = "Succeeded"
        return answer(row, status)
    return answer(row, status, **_headers(call, row, operation))


def deleted(call: Call, row: Row | None, seconds: float) -> Response:
    """Answer a deletion that takes so many seconds; 204 where there is nothing."""
    if row is None:
        return empty(204)
    row["properties"]["provisioningState"] = "Deleting"
    operation = call.world.start_operation(DELETE_KIND, call.subscription, seconds, id=row["id"])
    return empty(202, **_headers(call, row, operation))


@service.finisher(WRITE_KIND)
def finish_write(world: World, operation: Operation) -> None:
    """Make the resource ready, or failed."""
    row = world.state.resources.get(operation.details["id"].lower())
    if operation.details["error"]:
        operation.outcome = "Failed"
    if row is not None and row["properties"]["provisioningState"] == "Updating":
        row["properties"]["provisioningState"] = operation.outcome


@service.finisher(DELETE_KIND)
def finish_deletion(world: World, operation: Operation) -> None:
    """Remove the resource with what belongs to it."""
    forget(world, operation.details["id"])


@service.route(
    "GET", f"{SUBSCRIPTION}/providers/Microsoft.Network/locations/{{location}}/operations/{{id}}"
)
@service.route(
    "GET", f"{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{{location}}/operations/{{id}}"
)
@service.route("GET", f"{GROUP}/providers/Microsoft.Network/privateDnsOperationStatuses/{{id}}")
def get_operation(call: Call) -> Response:
    """Answer how an operation stands."""
    operation = call.world.state.operations.get(call["id"].lower())
    if operation is None or operation.subscription_id != call.subscription:
        raise ServiceFailure(
            404, "OperationNotFound", f"The operation '{call['id']}' was not found."
        )
    body: Row = {"name": operation.id, "status": operation.outcome or "InProgress"}
    if operation.outcome == "Failed":
        body["error"] = operation.details["error"]
    if operation.outcome is None:
        return answer(body, retry_after=str(RETRY_AFTER_SECONDS))
    return answer(
        {**body, "startTime": arm_time(operation.started), "endTime": arm_time(operation.due)}
    )


def _headers(call: Call, row: Row, operation: Operation) -> dict[str, str]:
    path = f"{_address(row)}/{operation.id}"
    url = f"{call.request.origin}{path}?api-version={call.query['api-version']}"
    return {"azure_asyncoperation": url, "retry_after": str(RETRY_AFTER_SECONDS)}


def _address(row: Row) -> str:
    _, _, subscription, _, group, _, namespace, *_ = row["id"].split("/")
    if "privatednszones" in row["id"].lower():
        return (
            f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network"
            "/privateDnsOperationStatuses"
        )
    place = row.get("location", "global")
    return f"/subscriptions/{subscription}/providers/{namespace}/locations/{place}/operations"
