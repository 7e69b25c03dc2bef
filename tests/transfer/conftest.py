"""The real AzCopy, and Azurite behind a served sandbox, or alone for a SAS."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import requests
from support_azcopy import real_azcopy

from ai4infra.client import Azure, connect
from ai4infra.sandbox import open_sandbox
from ai4infra.sandbox.azurite import find_program
from ai4infra.sandbox.certificate import CertificateFiles, ensure_certificate
from ai4infra.sandbox.serve import Server, serve

ACCOUNT, OTHER, CONTAINER = "sttrain", "stother", "training-data"
KEY = base64.b64encode(b"a key of these tests, and no other").decode()


def azurite_program() -> str:
    if not os.environ.get("AI4INFRA_AZURITE"):
        pytest.fail("These tests need Azurite: run scripts/test, or set AI4INFRA_AZURITE.")
    return find_program(os.environ, Path.cwd())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A served sandbox whose accounts keep blobs."""
    sandbox = open_sandbox()
    sandbox.world.instant = True
    folder = tmp_path_factory.mktemp("served")
    with serve(sandbox, folder, azurite=azurite_program()) as running:
        yield running


@pytest.fixture
def env(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who uses that sandbox and has AzCopy."""
    monkeypatch.setenv("AI4INFRA_AZCOPY", real_azcopy())
    monkeypatch.setenv("AI4INFRA_WORK_DIR", str(tmp_path / "work"))
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", server.sandbox.subscription_id)
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)


@pytest.fixture
def azure(env: dict[str, str]) -> Iterator[Azure]:
    """A connection to that sandbox, in which both accounts have a container for us."""
    with connect(env=env) as az:
        for name in (ACCOUNT, OTHER):
            az.apply(az.plan_storage(name, containers=[CONTAINER]))
        yield az


@pytest.fixture
def home(azure: Azure, request: pytest.FixtureRequest) -> str:
    """A folder of our own in the container."""
    return f"{ACCOUNT}/{CONTAINER}/{re.sub(r'[^a-z0-9]+', '-', request.node.name)[:60]}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small folder with folders in it."""
    root = tmp_path / "src"
    (root / "a" / "b").mkdir(parents=True)
    (root / "one.bin").write_bytes(os.urandom(100_000))
    (root / "a" / "two.txt").write_text("two", "utf-8")
    (root / "a" / "b" / "none").touch()
    return root


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A folder that takes some seconds at a low cap."""
    root = tmp_path / "big"
    root.mkdir()
    for number in range(6):
        (root / f"{number}.bin").write_bytes(os.urandom(4_000_000))
    return root


def content(root: Path) -> dict[str, bytes]:
    """Return what a folder holds: name below it to bytes."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


class Blobs:
    """Azurite alone, opened with a SAS; it can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.files: CertificateFiles = ensure_certificate(folder / "tls")
        self._folder = folder / "blobs"
        self._program = azurite_program()
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self) -> None:
        """Start it, on the same port as before."""
        certificate = str(self.files.server)
        self._process = subprocess.Popen(
            [
                self._program,
                *("--blobPort", str(self.port), "--location", str(self._folder)),
                *("--cert", certificate, "--key", certificate, "--silent"),
                *("--skipApiVersionCheck", "--disableTelemetry"),
            ],
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match = re.search(r"listens on https://127\.0\.0\.1:(\d+)", line)
            if match:
                self.port = int(match[1])
                return
        pytest.fail("Azurite does not start.")

    def stop(self) -> None:
        """End it; it writes down what it holds."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def url(self, path: str, *, sas: bool = True) -> str:
        """Return the URL of a container or blob."""
        bare = f"https://127.0.0.1:{self.port}/{ACCOUNT}/{path}"
        return f"{bare}?{signature()}" if sas else bare

    def make(self, container: str) -> None:
        """Make a container."""
        url = f"{self.url(container)}&restype=container"
        done = requests.put(url, verify=str(self.files.authority), timeout=30)
        assert done.status_code == 201, done.text


def signature() -> str:
    """Return a SAS for all of the account, valid for a long time.

    https://learn.microsoft.com/rest/api/storageservices/create-account-sas
    """
    fields = {
        "sp": "rwdlacup",
        "ss": "b",
        "srt": "sco",
        "st": "",
        "se": "2099-12-31T00:00:00Z",
        "sip": "",
        "spr": "https",
        "sv": "2020-10-02",
    }
    signed = "\n".join([ACCOUNT, *fields.values(), ""]).encode()
    digest = hmac.new(base64.b64decode(KEY), signed, hashlib.sha256).digest()
    told = {name: value for name, value in fields.items() if value}
    return urlencode({**told, "sig": base64.b64encode(digest).decode()})


@pytest.fixture
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Blobs]:
    """Azurite alone with a container ``data``, in an environment without any identity."""
    started = Blobs(tmp_path)
    started.start()
    started.make("data")
    monkeypatch.setenv("SSL_CERT_FILE", str(started.files.bundle))
    monkeypatch.setenv("AI4INFRA_AZCOPY", real_azcopy())
    monkeypatch.setenv("AI4INFRA_WORK_DIR", str(tmp_path / "work"))
    yield started
    started.stop()
