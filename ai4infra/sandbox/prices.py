"""The retail price list: https://prices.azure.com/api/retail/prices.

Reference: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import JSON_TYPE, Request, Response, ServiceFailure, answer

service = Service("prices", open=True)
Row = dict[str, Any]
Test = Callable[[Row], bool]

CASE_SENSITIVE_SINCE = "2023-01-01-preview"
_FIELDS = {
    name.lower(): name
    for name in (
        "armRegionName",
        "armSkuName",
        "currencyCode",
        "isPrimaryMeterRegion",
        "location",
        "meterId",
        "meterName",
        "priceType",
        "productId",
        "productName",
        "reservationTerm",
        "serviceFamily",
        "serviceId",
        "serviceName",
        "skuId",
        "skuName",
        "type",
        "unitOfMeasure",
    )
}


@service.route("GET", "/api/retail/prices")
def list_prices(call: Call) -> Response:
    """Answer with one page of rows; ``$filter`` knows eq, ne, contains and ``and``."""
    known = call.world.catalogue
    currency = call.query.get("currencycode", "USD").strip("'").upper()
    rate = known.currency_rates.get(currency)
    if rate is None:
        raise _bad_request(f"Invalid currency code '{currency}' supplied")
    test = _test(call.query.get("$filter", ""), exact=_is_exact(call.query))
    rows = [row for row in known.prices if test(row)]
    start = _start(call.query.get("$skip", "0"))
    page = [_converted(row, currency, rate) for row in rows[start:][: known.price_page_rows]]
    end = start + len(page)
    body = {
        "BillingCurrency": currency,
        "CustomerEntityId": "Default",
        "CustomerEntityType": "Retail",
        "Items": page,
        "NextPageLink": _next(call.request, end) if end < len(rows) else None,
        "Count": len(page),
    }
    return answer(body)


class _PriceFailure(ServiceFailure):
    """The price list has an error envelope of its own."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)
        body = {"Error": {"Code": "BadRequest", "Message": message}}
        self.response = Response(400, msgspec.json.encode(body), {"content-type": JSON_TYPE})


def _bad_request(message: str) -> ServiceFailure:
    return _PriceFailure(message)


def _is_exact(query: dict[str, str]) -> bool:
    version = query.get("api-version", "").strip("'")
    return version >= CASE_SENSITIVE_SINCE


def _start(text: str) -> int:
    if not text.isdecimal():
        raise _bad_request("Invalid OData parameters supplied")
    return int(text)


def _test(expression: str, *, exact: bool) -> Test:
    if not expression.strip():
        return lambda row: True
    tests = [_condition(part, exact=exact) for part in _split(expression)]
    return lambda row: all(test(row) for test in tests)


def _split(expression: str) -> list[str]:
    """Split at ``and`` outside of quotes."""
    parts = [""]
    for piece in re.split(r"('[^']*'|\band\b)", expression):
        if piece == "and":
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def _condition(part: str, *, exact: bool) -> Test:
    equality = re.fullmatch(r"(\w+)\s+(eq|ne)\s+(?:'([^']*)'|(true|false))", part)
    if equality:
        field, operator, text, flag = equality.groups()
        wanted = flag if text is None else text
        return _equality(_field(field), operator, wanted, exact=exact)
    contained = re.fullmatch(r"contains\(\s*(\w+)\s*,\s*'([^']*)'\s*\)", part)
    if contained:
        return _contains(_field(contained[1]), contained[2], exact=exact)
    raise _bad_request("Invalid OData parameters supplied")


def _field(name: str) -> str:
    if name.lower() not in _FIELDS:
        raise _bad_request("Invalid OData parameters supplied")
    field = _FIELDS[name.lower()]
    return "type" if field == "priceType" else field


def _equality(field: str, operator: str, wanted: str, *, exact: bool) -> Test:
    key = _key(wanted, exact=exact)
    same = operator == "eq"
    return lambda row: (_key(row.get(field), exact=exact) == key) is same


def _contains(field: str, wanted: str, *, exact: bool) -> Test:
    key = _key(wanted, exact=exact)
    return lambda row: key in _key(row.get(field), exact=exact)


def _key(value: object, *, exact: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = "" if value is None else str(value)
    return text if exact else text.lower()


def _converted(row: Row, currency: str, rate: float) -> Row:
    if currency == "USD":
        return row
    price = round(row["retailPrice"] * rate, 6)
    return {**row, "currencyCode": currency, "retailPrice": price, "unitPrice": price}


def _next(request: Request, start: int) -> str:
    query = {**request.query, "$skip": str(start)}
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    origin = request.origin
    # The real list names its port, which a client must take for the same host.
    if origin.count(":") == 1:
        origin = f"{origin}:443"
    return f"{origin}{request.path}?{pairs}"
