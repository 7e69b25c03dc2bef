"""Azurite behind the accounts: it keeps the blobs, the sandbox decides who may.

Azurite (https://github.com/Azure/Azurite) is a program of its own, from npm. It is started with
the accounts that there are, and started again when there are others; containers that were made
through Resource Manager are made in it before the first request to their account.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

import msgspec

from ai4infra.errors import Ai4infraError, NotFoundError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.blobs import CONTAINER_KIND, container_of, drop_container, make_container
from ai4infra.sandbox.certificate import CertificateFiles
from ai4infra.sandbox.copies import copied, is_copy
from ai4infra.sandbox.dataplane import Allowed, Target
from ai4infra.sandbox.files import write_private
from ai4infra.sandbox.identity import identity_named
from ai4infra.sandbox.messages import Request, Response
from ai4infra.sandbox.storage import KIND, account_named, key_of
from ai4infra.sandbox.tokens import issue
from ai4infra.sandbox.tracked import rows
from ai4infra.sandbox.world import World

HOST = "127.0.0.1"
VARIABLE = "AI4INFRA_AZURITE"
_PROGRAM = "azurite-blob"
_END_SECONDS = 10
_TIMEOUT_SECONDS = 120
_VERSION = "2021-12-02"
# What belongs to one connection is not passed on: https://www.rfc-editor.org/rfc/rfc9110#name-connection
_OWN_HEADERS = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "host",
    "accept-encoding",
    "expect",
}


@dataclass(frozen=True)
class Passed(Response):
    """An answer of Azurite, which is sent as it came."""


def find_program(env: Mapping[str, str], folder: Path) -> str:
    """Return where Azurite is: ``AI4INFRA_AZURITE``, the path, or ``node_modules`` in a folder.

    Raises NotFoundError with the way to install it.
    """
    chosen = env.get(VARIABLE)
    local = str(folder / "node_modules" / ".bin")
    found = shutil.which(chosen or _PROGRAM, path=env.get("PATH"))
    found = found or (None if chosen else shutil.which(_PROGRAM, path=local))
    if found is None:
        where = f"at {chosen} ({VARIABLE})" if chosen else "on the path or in node_modules"
        raise NotFoundError(
            f"The data plane needs Azurite, which is not {where}.",
            hint="Install it with `npm install azurite` (Node.js 18 or newer), or name its"
            f" azurite-blob in {VARIABLE}.",
        )
    # The whole of Azurite serves queues and tables too, and does not tell its port in these words.
    blobs = Path(found).with_name(_PROGRAM)
    return str(blobs) if Path(found).name == "azurite" and blobs.exists() else found


class Azurite:
    """A running Azurite for a served sandbox; ``close`` ends it. Its data stays in the folder."""

    def __init__(self, program: str, folder: Path, files: CertificateFiles) -> None:
        self._program = program
        self._folder = folder
        self._files = files
        self._gate = threading.Condition()
        self._under_way = 0
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self._accounts: dict[str, str] = {}
        self._made = _Made(folder / "containers.json")
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def close(self) -> None:
        """End the program."""
        with self._gate:
            self._stop()

    def answer(self, sandbox: Sandbox, request: Request, allowed: Allowed) -> Response:
        """Pass an allowed request on, and tell the sandbox of containers made or removed."""
        target = allowed.target
        with self._admitted(sandbox, target.account):
            if is_copy(request):
                return copied(sandbox, request, self._send)
            response = self._send(request)
        if _is_about_container(request, target) and response.status in (201, 202):
            sandbox.change(lambda world: self._note(world, request, target))
        return response

    @contextlib.contextmanager
    def _admitted(self, sandbox: Sandbox, account: str) -> Iterator[None]:
        """Hold the program while a request is under way: it is not started anew meanwhile."""
        with self._gate:
            self._prepare(sandbox, account)
            self._under_way += 1
        try:
            yield
        finally:
            with self._gate:
                self._under_way -= 1
                self._gate.notify_all()

    def _prepare(self, sandbox: Sandbox, account: str) -> None:
        accounts, containers = sandbox.change(lambda world: _snapshot(world, account))
        if self._process is None or self._process.poll() is not None or accounts != self._accounts:
            self._gate.wait_for(lambda: self._under_way == 0)
            self._stop()
            self._start(accounts)
        if self._made.of.get(account) != containers:
            self._match(sandbox, account, containers)

    def _start(self, accounts: dict[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        listed = ";".join(f"{name}:{key}" for name, key in accounts.items())
        # No secret on the command line: keys go through the environment.
        self._process = subprocess.Popen(  # noqa: S603 - the program that the user installed
            [self._program, *self._options()],
            env={**os.environ, "AZURITE_ACCOUNTS": listed},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._accounts, self._port = accounts, _port_of(self._process)

    def _options(self) -> list[str]:
        certificate = str(self._files.server)
        return [
            *("--blobHost", HOST, "--blobPort", "0", "--location", str(self._folder)),
            *("--oauth", "basic", "--cert", certificate, "--key", certificate),
            *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
        ]

    def _stop(self) -> None:
        while self._idle:
            self._idle.pop().close()
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _match(self, sandbox: Sandbox, account: str, wanted: dict[str, str]) -> None:
        """Make Azurite's containers those of the account: an etag tells one made anew."""
        made = self._made.of.get(account, {})
        for name in sorted(made.keys() | wanted.keys()):
            if made.get(name) == wanted.get(name):
                continue
            if name in made:
                self._container(sandbox, "DELETE", account, name)
            if name in wanted:
                self._container(sandbox, "PUT", account, name)
        self._made.set(account, wanted)

    def _container(self, sandbox: Sandbox, method: str, account: str, name: str) -> None:
        deploy = identity_named(sandbox.world, "deploy")
        token, _ = issue(sandbox.world, deploy, "https://storage.azure.com")
        url = f"https://{HOST}/{account}/{quote(name)}?restype=container"
        headers = {"authorization": f"Bearer {token}", "x-ms-version": _VERSION}
        response = self._send(Request(method, url, headers))
        # Another run may have got as far as making or removing it.
        if response.status not in (201, 202, 404, 409):
            raise Ai4infraError(
                f"Azurite answers {response.status} to {method} of the container {name}.",
                detail=response.body.decode("utf-8", "replace"),
            )

    def _note(self, world: World, request: Request, target: Target) -> None:
        account = account_named(world, target.account)
        if account is None:
            return
        if request.method == "DELETE":
            drop_container(world, account, target.container)
        elif container_of(world, account, target.container) is None:
            make_container(world, account, target.container, {})
        self._made.set(target.account, _containers(world, account))

    def _send(self, request: Request) -> Passed:
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle.pop()
                # One that was kept may have been closed by the other side meanwhile.
                with contextlib.suppress(http.client.HTTPException, OSError):
                    return self._sent(request, connection)
                connection.close()
        return self._sent(request, self._connection())

    def _connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self._files.authority))
        return http.client.HTTPSConnection(
            HOST, self._port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def _sent(self, request: Request, connection: http.client.HTTPSConnection) -> Passed:
        parts = urlsplit(request.url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        headers = {k: v for k, v in request.headers.items() if k not in _OWN_HEADERS}
        connection.request(request.method, path, body=request.body, headers=headers)
        response = connection.getresponse()
        told = {k.lower(): v for k, v in response.getheaders() if k.lower() not in _OWN_HEADERS}
        body = response.read()
        self._idle.append(connection)
        return Passed(response.status, body, told)


class _Made:
    """Which containers Azurite has, by account: name to the etag that Resource Manager gave it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.of: dict[str, dict[str, str]] = {}
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self.of = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])

    def set(self, account: str, containers: dict[str, str]) -> None:
        """Write down an account's containers."""
        self.of[account] = containers
        write_private(self._path, msgspec.json.encode(self.of))


def _snapshot(world: World, account: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return all accounts with their keys, and the containers of one of them with their etags."""
    accounts = {row["name"]: key_of(row) for row in rows(world, "", KIND)}
    row = account_named(world, account)
    return accounts, _containers(world, row) if row else {}


def _containers(world: World, account: dict[str, str]) -> dict[str, str]:
    return {row["name"]: row["etag"] for row in rows(world, account["id"], CONTAINER_KIND)}


def _is_about_container(request: Request, target: Target) -> bool:
    whole = request.query.get("restype") == "container" and "comp" not in request.query
    return whole and not target.blob and request.method in ("PUT", "DELETE")


def _port_of(process: subprocess.Popen[str]) -> int:
    """Return the port that the program says it listens on. Raises Ai4infraError when it ends."""
    said = []
    for line in process.stdout or ():
        said.append(line)
        match = re.search(r"listens on \w+://[^:]+:(\d+)", line)
        if match:
            _drain(process.stdout)
            return int(match.group(1))
    process.wait()
    raise Ai4infraError(
        "Azurite ended before it was ready.",
        hint="Run it by hand to see why: azurite-blob --help.",
        detail="".join(said),
    )


def _drain(stream: IO[str] | None) -> None:
    """Read on what the program says, so that it never waits for a reader."""

    def read() -> None:
        with contextlib.suppress(ValueError, OSError):
            for _ in stream or ():
                pass

    threading.Thread(target=read, daemon=True).start()
