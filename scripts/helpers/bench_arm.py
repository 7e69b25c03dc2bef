"""A local Resource Manager for the benchmark: HTTPS, answers encoded and compressed beforehand.

Serves the calls that the Azure CLI, ai4infra and the floor program make, with answers of real
size: about 4 kB a size, 1,000 sizes a region of which about 50 are N-series, 55 regions. It
honours ``$filter`` and ``Accept-Encoding: gzip``, and does as little as it can per request, so
that what is measured is the client. The number of regions is that of the subscription.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from bench_payload import REGION_NAMES, SUBSCRIPTIONS, locations, regional_list, usages

from ai4infra.sandbox.certificate import ensure_certificate

TENANT = "00000000-0000-0000-0000-0000000000aa"


class Answers:
    """Every answer, ready to send: path and region filter to plain and compressed bytes."""

    def __init__(self, names: tuple[str, ...]) -> None:
        template = regional_list("regionname", names)
        bodies = {name: template.replace(b"regionname", name.encode()) for name in REGION_NAMES}
        self.filtered = {name: both(enclosed([body])) for name, body in bodies.items()}
        self.unfiltered = both(enclosed(list(bodies.values())))
        self.usages = both(encoded(usages(names)))

    def skus(self, condition: str) -> tuple[bytes, bytes]:
        """The SKU list under a ``$filter``, plain and compressed."""
        if not condition:
            return self.unfiltered
        region = condition.partition("eq")[2].strip(" '").lower()
        return self.filtered.get(region, both(b'{"value":[]}'))


def encoded(answer: Any) -> bytes:
    """An answer as JSON."""
    return json.dumps(answer).encode()


def enclosed(bodies: list[bytes]) -> bytes:
    """Lists of records, without their brackets, as one answer."""
    return b'{\r\n  "value": [' + b",".join(bodies) + b"\r\n  ]\r\n}"


def both(body: bytes) -> tuple[bytes, bytes]:
    """A body plain and compressed."""
    compressor = zlib.compressobj(4, wbits=31)
    return body, compressor.compress(body) + compressor.flush()


def token() -> bytes:
    """A token for every resource; what it claims is what the Azure CLI reads."""
    claims = {"tid": TENANT, "oid": "00000000-0000-0000-0000-0000000000bb", "exp": 4102444800}
    parts = ({"alg": "RS256", "typ": "JWT"}, claims, "signature")
    text = ".".join(base64.urlsafe_b64encode(encoded(p)).decode().rstrip("=") for p in parts)
    return encoded({"access_token": text, "expires_on": "4102444800", "token_type": "Bearer"})


def subscription(name: str) -> dict[str, Any]:
    """A subscription as Resource Manager lists it."""
    return {
        "id": f"/subscriptions/{name}",
        "subscriptionId": name,
        "tenantId": TENANT,
        "displayName": f"bench-{SUBSCRIPTIONS[name]}",
        "state": "Enabled",
        "managedByTenants": [],
    }


class Handler(BaseHTTPRequestHandler):
    """Answers GET requests out of the prepared bytes."""

    protocol_version = "HTTP/1.1"
    answers: Answers
    origin: str

    def do_GET(self) -> None:
        """Find the answer and send it compressed where the client allows."""
        url = urlsplit(self.path)
        plain, compressed = self._answer(unquote(url.path).lower(), parse_qs(url.query))
        gzip = "gzip" in self.headers.get("Accept-Encoding", "")
        body = compressed if gzip else plain
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        coding = "\r\nContent-Encoding: gzip" if gzip else ""
        self.wfile.write(f"{head}{coding}\r\n\r\n".encode())
        self.wfile.write(body)

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[bytes, bytes]:
        if path.endswith("/skus"):
            return self.answers.skus("".join(query.get("$filter", [])))
        if path.endswith("/usages"):
            return self.answers.usages
        return both(self._small_answer(path))

    def _small_answer(self, path: str) -> bytes:
        parts = path.strip("/").split("/")
        if path == "/metadata/endpoints":
            return encoded(endpoints(self.origin))
        if path == "/token":
            return token()
        if parts[-1] == "locations":
            return encoded({"value": locations(parts[1], SUBSCRIPTIONS[parts[1]])})
        if parts[0] == "subscriptions" and len(parts) == 2:
            return encoded(subscription(parts[1]))
        if parts[0] == "subscriptions":
            return encoded({"value": [subscription(name) for name in SUBSCRIPTIONS]})
        return encoded({"value": [{"id": f"/tenants/{TENANT}", "tenantId": TENANT}]})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


def endpoints(origin: str) -> dict[str, Any]:
    """What a cloud says of itself; ``az cloud register`` and ai4infra read it."""
    return {
        "name": "bench",
        "authentication": {
            "loginEndpoint": origin,
            "audiences": [origin],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "resourceManager": origin,
        "activeDirectory": origin,
        "activeDirectoryResourceId": origin,
        "graphAudience": origin,
        "graph": origin,
        "suffixes": {"storage": "core.bench.invalid", "keyVaultDns": "vault.bench.invalid"},
    }


class Server(ThreadingHTTPServer):
    """A threading server whose TLS handshakes happen in the thread of the connection."""

    daemon_threads = True
    request_queue_size = 128
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands, then answer."""
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave connections that clients drop at their end without a word."""


def main() -> None:
    """Serve with a certificate made in a folder until killed; print the origin when ready."""
    folder, *names = sys.argv[1:]
    Handler.answers = Answers(tuple(names))
    server = Server(("127.0.0.1", 0), Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(ensure_certificate(Path(folder)).server)
    Handler.origin = f"https://localhost:{server.server_address[1]}"
    print(Handler.origin, len(Handler.answers.unfiltered[0]), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
