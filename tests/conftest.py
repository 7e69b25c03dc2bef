"""Fixtures that every test shares: a fresh sandbox, no network, no environment of the developer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from ai4infra.sandbox import Sandbox

_PREFIXES = ("AI4INFRA_", "AZCOPY_", "AZURE_", "ARM_", "IDENTITY_", "MSI_", "XDG_")
_NAMES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "NO_COLOR", "FORCE_COLOR")
_KEPT = ("AI4INFRA_TEST_AZ", "AI4INFRA_TEST_AZCOPY", "AI4INFRA_AZURITE")


# No example has a time limit: a loaded machine makes no test fail.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
# For the inner loop: scripts/test --fast.
settings.register_profile("fast", parent=settings.get_profile("suite"), max_examples=20)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the developer's settings and sign-ins; every folder is below ``tmp_path``."""
    for name in list(os.environ):
        if name not in _KEPT and (name.startswith(_PREFIXES) or name in _NAMES):
            monkeypatch.delenv(name)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for kind in ("CONFIG", "CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections that leave the machine, so that no test depends on the network."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if host not in ("127.0.0.1", "::1", "localhost", ""):
            raise OSError(f"tests may not connect to {host}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A fresh example world in memory; its clock starts at a fixed time and only waits move it."""
    from ai4infra.sandbox import open_sandbox

    with open_sandbox() as opened:
        yield opened
