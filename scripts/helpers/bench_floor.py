"""The floor: as little as a Python program can do to list a region's N-series sizes.

One filtered request with the standard library, decoded with orjson, filtered and printed. The
token is given. Usage: bench_floor.py ORIGIN SUBSCRIPTION REGION TOKEN CERTIFICATE
"""

from __future__ import annotations

import http.client
import ssl
import sys
import zlib
from urllib.parse import quote

import orjson

origin, subscription, region, token, certificate = sys.argv[1:]
connection = http.client.HTTPSConnection(
    origin.removeprefix("https://"), context=ssl.create_default_context(cafile=certificate)
)
condition = quote(f"location eq '{region}'")
connection.request(
    "GET",
    f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
    f"?api-version=2021-07-01&$filter={condition}",
    headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"},
)
sizes = orjson.loads(zlib.decompress(connection.getresponse().read(), wbits=31))["value"]
for size in sizes:
    if size["resourceType"] == "virtualMachines" and size["name"].startswith("Standard_N"):
        values = {c["name"]: c["value"] for c in size["capabilities"]}
        print(size["name"], size["family"], values.get("vCPUs"), values.get("MemoryGB"))
