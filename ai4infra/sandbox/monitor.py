"""Microsoft.Insights, as far as storage needs it: metric alerts, and an account's used capacity."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import Response, ServiceFailure, answer, invalid_content, json_body
from ai4infra.sandbox.tracked import (
    GROUP,
    SUBSCRIPTION,
    above,
    delete,
    existing,
    found,
    id_to_write,
    keep,
    listed,
    properties,
    rows,
    tags,
)

service = Service()
Row = dict[str, Any]

KIND = "Microsoft.Insights/metricAlerts"
CAPACITY = "UsedCapacity"
_ALERTS = f"/providers/{KIND}"
_ALERT = f"{GROUP}{_ALERTS}/{{name}}"
_METRICS = (
    f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{{account}}"
    "/providers/Microsoft.Insights/metrics"
)


@service.route("PUT", _ALERT)
def put_alert(call: Call) -> Response:
    """Create or replace a metric alert."""
    body = json_body(call.request)
    given = properties(body)
    if not given.get("scopes") or not isinstance(given.get("criteria"), dict):
        raise invalid_content("a metric alert needs scopes and criteria")
    id_ = id_to_write(call, KIND, call["name"])
    old = found(call.world, id_)
    row = {
        "id": id_,
        "name": call["name"],
        "type": KIND,
        "location": "global",
        "tags": tags(body),
        "properties": {"enabled": True, **given},
    }
    return answer(keep(call.world, row), 200 if old else 201)


@service.route("GET", _ALERT)
def get_alert(call: Call) -> Response:
    """Answer with one metric alert."""
    return answer(existing(call, KIND, call["name"]))


@service.route("DELETE", _ALERT)
def delete_alert(call: Call) -> Response:
    """Delete a metric alert."""
    return delete(call, KIND, call["name"])


@service.route("GET", f"{GROUP}{_ALERTS}")
@service.route("GET", f"{SUBSCRIPTION}{_ALERTS}")
def list_alerts(call: Call) -> Response:
    """Answer with the metric alerts of a group or subscription."""
    return listed(call, rows(call.world, above(call), KIND))


@service.route("GET", _METRICS)
def get_metrics(call: Call) -> Response:
    """Answer with how much an account holds: nothing is measured, so points have no value."""
    existing(call, "Microsoft.Storage/storageAccounts", call["account"])
    name = call.query.get("metricnames", CAPACITY)
    if name.lower() != CAPACITY.lower():
        message = f"Failed to find metric configuration for metric: {name}. Valid: {CAPACITY}"
        raise ServiceFailure(400, "BadRequest", message)
    stamp = call.world.now().strftime("%Y-%m-%dT%H:00:00Z")
    metric = {
        "id": f"{call.request.path}/{CAPACITY}",
        "type": "Microsoft.Insights/metrics",
        "name": {"value": CAPACITY, "localizedValue": "Used capacity"},
        "unit": "Bytes",
        "timeseries": [{"metadatavalues": [], "data": [{"timeStamp": stamp}]}],
    }
    return answer({"cost": 0, "interval": "PT1H", "value": [metric]})
