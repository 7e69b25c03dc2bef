"""Azure Monitor, as far as an audit needs it: alert rules, and how full an account is.

https://learn.microsoft.com/rest/api/monitor/ and
https://learn.microsoft.com/azure/storage/blobs/monitor-blob-storage-reference
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from ai4infra.cloud.rows import decode_rows
from ai4infra.cloud.session import Session
from ai4infra.model import MetricAlert
from ai4infra.storage_names import subscription_scope

ALERTS_API_VERSION = "2018-03-01"
METRICS_API_VERSION = "2023-10-01"
USED_CAPACITY = "UsedCapacity"
_LOOK_BACK = timedelta(days=2)
"""The metric comes once an hour, sometimes late."""


class _Criteria(msgspec.Struct, rename="camel"):
    all_of: list[dict[str, Any]] | None = None


class _AlertProperties(msgspec.Struct, rename="camel"):
    enabled: bool | None = None
    scopes: list[str] | None = None
    target_resource_type: str | None = None
    criteria: _Criteria | None = None


class _Alert(msgspec.Struct):
    name: str
    properties: _AlertProperties | None = None


class _Point(msgspec.Struct):
    average: float | None = None


class _Series(msgspec.Struct):
    data: list[_Point] = []


class _Metric(msgspec.Struct):
    timeseries: list[_Series] = []


class _Metrics(msgspec.Struct):
    value: list[_Metric] = []


def metric_alerts(session: Session, subscription_id: str) -> tuple[MetricAlert, ...]:
    """Return the metric alert rules of a subscription."""
    what = "Cannot list the metric alerts"
    path = f"{subscription_scope(subscription_id)}/providers/Microsoft.Insights/metricAlerts"
    pages = session.pages(path, ALERTS_API_VERSION, what=what)
    return tuple(_alert(row) for page in pages for row in decode_rows(page, _Alert, what)[0])


def _alert(row: _Alert) -> MetricAlert:
    p = row.properties or _AlertProperties()
    rules = (p.criteria.all_of if p.criteria else None) or []
    return MetricAlert(
        name=row.name,
        enabled=p.enabled is not False,
        scopes=tuple(p.scopes or ()),
        target_type=p.target_resource_type,
        metrics=tuple(str(rule["metricName"]) for rule in rules if rule.get("metricName")),
    )


def used_bytes(session: Session, account_id: str, now: datetime | None = None) -> int | None:
    """Return how much an account holds by its last measurement; None while there is none."""
    now = now or datetime.now(timezone.utc)
    what = "Cannot read how much the account holds"
    path = f"{account_id}/providers/Microsoft.Insights/metrics"
    params = {
        "metricnames": USED_CAPACITY,
        "aggregation": "Average",
        "interval": "PT1H",
        "timespan": f"{_stamp(now - _LOOK_BACK)}/{_stamp(now)}",
    }
    found = session.get_json(path, METRICS_API_VERSION, _Metrics, params=params, what=what)
    values = [value for value in _values(found) if value is not None]
    return round(values[-1]) if values else None


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(found: _Metrics) -> Iterator[float | None]:
    # A point without a value has no key at all.
    for metric in found.value:
        for series in metric.timeseries:
            yield from (point.average for point in series.data)
