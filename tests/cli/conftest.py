"""Runs the command line in this process, over the example world in a folder of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from ai4infra.cli.main import main
from ai4infra.cloud.session import Session
from ai4infra.sandbox import open_sandbox
from ai4infra.sandbox.files import state_dir


class Ran(NamedTuple):
    """What one call printed, and its exit code."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[str]:
        """The lines of stdout."""
        return self.stdout.splitlines()


Run = Callable[..., Ran]


@pytest.fixture
def real() -> Run:
    """Run the command line as it is."""

    def run(*words: str, answer: str | None = None, **env: str) -> Ran:
        result = CliRunner().invoke(main, list(words), input=answer, env=env)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def run(real: Run) -> Run:
    """Run the command line with ``--sandbox``."""
    return lambda *words, **more: real("--sandbox", *words, **more)


Put = Callable[..., None]


@pytest.fixture
def put() -> Put:
    """Write a resource into the world that the command line asks, as Resource Manager would."""

    def put(path: str, api_version: str, body: dict[str, Any]) -> None:
        with open_sandbox(state_dir(os.environ)) as sandbox:
            transport = sandbox.transport()
            session = Session(credential=sandbox.credential, transport=transport, env={})
            below = f"/subscriptions/{sandbox.subscription_id}/resourceGroups/{path}"
            session.write("PUT", below, api_version, body, what="put", pause=transport.sleep)

    return put


@pytest.fixture
def machine(put: Put) -> Callable[..., str]:
    """Make a VM in the world, with the identity that is said; returns the WHO that names it."""

    def make(identity: dict[str, Any] | None = None) -> str:
        put("rg-gpu", "2024-03-01", {"location": "eastus2"})
        path = "rg-gpu/providers/Microsoft.Compute/virtualMachines/node-0"
        body = {
            "location": "eastus2",
            "properties": {},
            **({"identity": identity} if identity else {}),
        }
        put(path, "2024-07-01", body)
        return "vm:rg-gpu/node-0"

    return make
