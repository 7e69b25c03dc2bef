from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed

from ai4infra.cloud.monitor import metric_alerts, used_bytes
from ai4infra.errors import ForbiddenError
from ai4infra.model import MetricAlert

ACCOUNT = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Storage"
    "/storageAccounts/sttrain"
)
NOW = datetime(2026, 1, 5, 8, 47, tzinfo=timezone.utc)


def a_metric(*points: dict[str, Any]) -> dict[str, Any]:
    return {"value": [{"name": {"value": "UsedCapacity"}, "timeseries": [{"data": list(points)}]}]}


def test_an_alert_tells_what_it_watches_and_whether_it_is_on() -> None:
    rule = {
        "name": "up",
        "properties": {
            "enabled": False,
            "scopes": [ACCOUNT],
            "targetResourceType": "Microsoft.Storage/storageAccounts",
            "criteria": {"allOf": [{"metricName": "Availability"}, {"name": "odd"}]},
        },
    }
    script = Script().on("metricAlerts", listed(rule, {"name": "bare"}))
    assert metric_alerts(script.session(), SUBSCRIPTION) == (
        MetricAlert(
            name="up",
            enabled=False,
            scopes=(ACCOUNT,),
            target_type="Microsoft.Storage/storageAccounts",
            metrics=("Availability",),
        ),
        MetricAlert(name="bare", enabled=True),
    )


def test_the_last_point_that_has_a_value_counts() -> None:
    points = ({"average": 1.0}, {"average": 2048.4}, {"timeStamp": "2026-01-05T08:00:00Z"})
    script = Script().on("metrics", answer(body=a_metric(*points)))
    assert used_bytes(script.session(), ACCOUNT, NOW) == 2048
    assert "timespan=2026-01-03T08:47:00Z/2026-01-05T08:47:00Z" in script.urls[0]


@pytest.mark.parametrize(
    "body", [{}, {"value": []}, a_metric(), a_metric({"timeStamp": "2026-01-05T08:00:00Z"})]
)
def test_an_account_without_a_measurement_holds_an_unknown_amount(body: dict[str, Any]) -> None:
    script = Script().on("metrics", answer(body=body))
    assert used_bytes(script.session(), ACCOUNT, NOW) is None


def test_who_may_not_read_metrics_is_told_so() -> None:
    script = Script().on("metrics", failed(403, "AuthorizationFailed"))
    with pytest.raises(ForbiddenError):
        used_bytes(script.session(), ACCOUNT, NOW)
