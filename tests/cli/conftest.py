"""Runs the command line in this process, over the example world in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from ai4infra.cli.main import main


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
