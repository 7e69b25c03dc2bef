"""Microsoft.Insights: metric alerts, diagnostic settings, and metrics that are not measured."""

from __future__ import annotations

from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import Response, ServiceFailure, answer, arm_time, json_body
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

ALERT_KIND = "Microsoft.Insights/metricAlerts"
SETTING_KIND = "Microsoft.Insights/diagnosticSettings"
_ALERT = f"{GROUP}/providers/{ALERT_KIND}/{{name}}"
_SETTINGS = f"/{{+scope}}/providers/{SETTING_KIND}"
_METRICS = {
    "UsedCapacity": "Bytes",
    "BlobCapacity": "Bytes",
    "Transactions": "Count",
    "Ingress": "Bytes",
    "Egress": "Bytes",
    "Availability": "Percent",
    "SuccessE2ELatency": "MilliSeconds",
}


@service.route("GET", f"{GROUP}/providers/{ALERT_KIND}")
@service.route("GET", f"{SUBSCRIPTION}/providers/{ALERT_KIND}")
def list_alerts(call: Call) -> Response:
    """Answer with the metric alerts of the group or the subscription."""
    return listed(call, rows(call.world, above(call), ALERT_KIND))


@service.route("GET", _ALERT)
def get_alert(call: Call) -> Response:
    """Answer with one metric alert."""
    return answer(existing(call, ALERT_KIND, call["name"]))


@service.route("PUT", _ALERT)
def put_alert(call: Call) -> Response:
    """Create or replace a metric alert; both are 200."""
    body = json_body(call.request)
    told = properties(body)
    missing = [name for name in ("scopes", "criteria", "severity") if told.get(name) is None]
    if missing:
        message = f"The property '{missing[0]}' is required."
        raise ServiceFailure(400, "BadRequest", message)
    row = {
        "location": body.get("location", "global"),
        "type": ALERT_KIND,
        "name": call["name"],
        "id": id_to_write(call, ALERT_KIND, call["name"]),
        "tags": tags(body),
        "properties": {"enabled": True, **told},
    }
    return answer(keep(call.world, row))


@service.route("DELETE", _ALERT)
def delete_alert(call: Call) -> Response:
    """Delete a metric alert."""
    return delete(call, ALERT_KIND, call["name"])


@service.route("GET", _SETTINGS)
def list_settings(call: Call) -> Response:
    """Answer with the diagnostic settings of a resource, in one page."""
    return answer({"value": rows(call.world, f"/{call['scope']}", SETTING_KIND)})


@service.route("PUT", f"{_SETTINGS}/{{name}}")
def put_setting(call: Call) -> Response:
    """Create or replace a diagnostic setting."""
    row = {
        "id": f"/{call['scope']}/providers/{SETTING_KIND}/{call['name']}",
        "type": SETTING_KIND,
        "name": call["name"],
        "properties": properties(json_body(call.request)),
    }
    return answer(keep(call.world, row))


@service.route("GET", "/{+scope}/providers/Microsoft.Insights/metrics")
def get_metrics(call: Call) -> Response:
    """Answer with points in time that have no value: nothing is measured here."""
    if found(call.world, f"/{call['scope']}") is None:
        message = f"The resource '/{call['scope']}' could not be found."
        raise ServiceFailure(404, "ResourceNotFound", message)
    names = [name for name in call.query.get("metricnames", "").split(",") if name]
    unknown = [name for name in names if name not in _METRICS]
    if unknown:
        message = (
            f"Failed to find metric configuration for provider: Microsoft.Storage, metric:"
            f" {unknown[0]}, Valid metrics: {','.join(_METRICS)}"
        )
        raise ServiceFailure(400, "BadRequest", message)
    return answer({"cost": 0, "interval": "PT1H", "value": [_metric(call, n) for n in names]})


def _metric(call: Call, name: str) -> Row:
    return {
        "id": f"/{call['scope']}/providers/Microsoft.Insights/metrics/{name}",
        "type": "Microsoft.Insights/metrics",
        "name": {"value": name, "localizedValue": name},
        "unit": _METRICS[name],
        "timeseries": [{"metadatavalues": [], "data": [{"timeStamp": arm_time(call.world.now())}]}],
        "errorCode": "Success",
    }
