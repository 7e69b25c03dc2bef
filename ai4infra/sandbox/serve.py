"""The sandbox behind HTTPS on this machine, for ``az``, AzCopy and any other program."""

from __future__ import annotations

import contextlib
import errno
import gzip
import socket
import ssl
import threading
from collections.abc import Callable
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ai4infra.errors import Ai4infraError, ConflictError, NotFoundError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.azurite import Azurite, Passed
from ai4infra.sandbox.certificate import CertificateFiles, ensure_certificate
from ai4infra.sandbox.dataplane import Allowed, failure
from ai4infra.sandbox.faults import Outcome
from ai4infra.sandbox.files import write_private
from ai4infra.sandbox.identity import IDENTITY_HEADER, IDENTITY_PATH
from ai4infra.sandbox.messages import Hangup, Request, Response

HOST = "127.0.0.1"
DEFAULT_PORT = 8943
GZIP_FROM_BYTES = 1024
IDLE_SECONDS = 60
PROBE_SECONDS = 2
POLL_SECONDS = 0.05
"""How soon the server notices that it is to end."""
RUNNING_FILE = "served"
LARGEST_BODY_BYTES = 64 * 2**20
Answer = Callable[[Request], Outcome]


class Server:
    """A served sandbox; ``with`` stops it at the end.

    ``env`` is what other programs need to find and trust it.
    """

    def __init__(
        self, sandbox: Sandbox, folder: Path, port: int = 0, azurite: str | None = None
    ) -> None:
        self.sandbox = sandbox
        self.files = ensure_certificate(folder / "tls")
        self._azurite = Azurite(azurite, folder / "azurite", self.files) if azurite else None
        self._http = _listen(self._answer, self.files, port)
        self.url = f"https://localhost:{self._http.server_address[1]}"
        self.env = environment(self.url, folder)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(POLL_SECONDS,), daemon=True
        )

    def __enter__(self) -> Server:
        self.sandbox.world.run_clock()
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if self._azurite is not None:
            self._azurite.close()
        self.sandbox.close()

    def _answer(self, request: Request) -> Outcome:
        outcome = self.sandbox.handle(request)
        if self._azurite is None or not isinstance(outcome, Allowed):
            return outcome
        try:
            return self._azurite.answer(self.sandbox, request, outcome)
        except (Ai4infraError, HTTPException, OSError) as error:
            return failure(request, 500, "SandboxNoAzurite", str(error))


def serve(sandbox: Sandbox, folder: Path, port: int = 0, *, azurite: str | None = None) -> Server:
    """Serve a sandbox; use with ``with``. Port 0 takes any free one.

    ``folder`` keeps the certificate and the configuration of ``az``; ``azurite`` is the program
    that stands behind the accounts (see ``azurite.find_program``). Raises Ai4infraError when the
    port is taken or the folder cannot be written.
    """
    return Server(sandbox, folder, port, azurite)


def environment(url: str, folder: Path) -> dict[str, str]:
    """Return the variables that point programs at a served sandbox.

    ``AZURE_CONFIG_DIR`` is a folder of the sandbox's own: the real az sign-in stays untouched.
    """
    bundle = str(folder / "tls" / "bundle.pem")
    return {
        "AI4INFRA_ARM_ENDPOINT": url,
        "AI4INFRA_PRICES_ENDPOINT": url,
        "AZURE_CONFIG_DIR": str(folder / "az"),
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_INSTANCE_DISCOVERY": "false",
        "IDENTITY_ENDPOINT": f"{url}{IDENTITY_PATH}",
        "IDENTITY_HEADER": IDENTITY_HEADER,
        "NO_PROXY": "localhost,127.0.0.1",
        "REQUESTS_CA_BUNDLE": bundle,
        "SSL_CERT_FILE": bundle,
    }


def az_lines(url: str) -> tuple[str, ...]:
    """Return the commands that make ``az`` use a served sandbox."""
    return (
        f"az cloud register --name ai4infra-sandbox --endpoint-resource-manager {url}",
        "az cloud set --name ai4infra-sandbox",
        "az login --identity",
    )


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that leaves or distrusts the certificate knows why."""


def _listen(answer: Answer, files: CertificateFiles, port: int) -> _Http:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    try:
        http = _Http((HOST, port), _handler(answer))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Ai4infraError(f"Cannot listen on {HOST}:{port}: {error.strerror}.") from error
        raise Ai4infraError(
            f"Port {port} is taken.", hint="Choose another one with --port, or 0 for any."
        ) from error
    # The handshake is left to each connection's thread, so that a slow client blocks no other.
    http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    return http


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    """Return a handler class; http.server wants a class and passes nothing of ours to it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "ai4infra-sandbox"
        sys_version = ""
        timeout = IDLE_SECONDS
        disable_nagle_algorithm = True

        def reply(self) -> None:
            """Answer one request, or hang up."""
            request = self._request()
            if request is None:
                return
            outcome = answer(request)
            if isinstance(outcome, Hangup):
                self.close_connection = True
                return
            with contextlib.suppress(ConnectionError):
                self._write(outcome)

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = do_OPTIONS = reply  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Keep quiet; the sandbox has a log of its own."""

        def _request(self) -> Request | None:
            length = self.headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > LARGEST_BODY_BYTES:
                self.send_error(413 if length.isdecimal() else 400)
                self.close_connection = True
                return None
            host = self.headers.get("host") or HOST
            return Request(
                method=self.command,
                url=f"https://{host}{self.path}",
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(int(length)),
            )

        def _write(self, response: Response) -> None:
            body, headers = _encoded(response, self.headers.get("accept-encoding", ""))
            self.send_response_only(response.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return Handler


def _encoded(response: Response, accepted: str) -> tuple[bytes, dict[str, str]]:
    """Return body and headers, packed where the client takes that."""
    body, headers = response.body, dict(response.headers)
    if isinstance(response, Passed):
        # The length of a HEAD's answer is that of the body that it doesn't have.
        return body, {"content-length": str(len(body)), **headers}
    if "gzip" in accepted.lower() and len(body) >= GZIP_FROM_BYTES:
        body = gzip.compress(body, compresslevel=1)
        headers["content-encoding"] = "gzip"
    if response.status != 204:
        headers["content-length"] = str(len(body))
    return body, headers


def note_running(folder: Path, url: str) -> Path:
    """Write down where the sandbox of this folder is served, and return the file."""
    path = folder / RUNNING_FILE
    write_private(path, url.encode())
    return path


def refuse_second(folder: Path) -> None:
    """Raise ConflictError when the sandbox of this folder is served already."""
    with contextlib.suppress(NotFoundError):
        url = running_url(folder)
        raise ConflictError(
            f"This sandbox is being served at {url} already.",
            hint="Use that one, or serve another folder with --state.",
        )


def running_url(folder: Path) -> str:
    """Return where the sandbox of this folder is served now.

    Raises NotFoundError when nothing answers there.
    """
    with contextlib.suppress(OSError, ValueError):
        url = (folder / RUNNING_FILE).read_text("utf-8")
        port = urlsplit(url).port or 0
        socket.create_connection((HOST, port), timeout=PROBE_SECONDS).close()
        return url
    raise NotFoundError(
        "No sandbox is being served.", hint="Start one with `ai4infra sandbox serve`."
    )
