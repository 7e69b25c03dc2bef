"""`ai4infra sandbox serve|env|reset` as programs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner, Result

from ai4infra.cli.main import COMMANDS
from ai4infra.cli.sandbox import env_lines, sandbox
from ai4infra.errors import NotFoundError
from ai4infra.sandbox import open_sandbox
from ai4infra.sandbox.serve import note_running, serve


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sandbox, arguments)


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ai4infra", "sandbox", *arguments]


def test_the_group_is_known_to_the_command() -> None:
    assert COMMANDS["sandbox"].target == "ai4infra.cli.sandbox:sandbox"
    assert run("--help").exit_code == 0


@pytest.mark.slow
def test_serve_prints_its_url_answers_and_ends_at_an_interrupt(tmp_path: Path) -> None:
    command = program("serve", "--port", "0", "--state", str(tmp_path), "--fault", "forbidden")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        assert served.stdout is not None
        url = served.stdout.readline().decode().strip()
        bundle = str(tmp_path / "tls" / "bundle.pem")
        statuses = [
            requests.get(f"{url}/metadata/endpoints", verify=bundle, timeout=10).status_code
            for _ in range(2)
        ]
        lines = run("env", "--state", str(tmp_path)).stdout
        served.send_signal(signal.SIGINT)
        rest, said = served.communicate(timeout=20)

    assert statuses == [403, 200]
    assert f"export AI4INFRA_ARM_ENDPOINT={url}" in lines
    assert (served.returncode, rest) == (0, b"")
    assert b"not your subscription" in said
    assert not (tmp_path / "served").exists()


@pytest.mark.slow
def test_a_bad_fault_is_a_usage_error(tmp_path: Path) -> None:
    command = program("serve", "--state", str(tmp_path), "--fault", "nothing")
    done = subprocess.run(command, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")


def test_a_data_plane_without_azurite_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("AI4INFRA_AZURITE", raising=False)
    monkeypatch.chdir(tmp_path)

    result = run("serve", "--data-plane", "--port", "0", "--state", str(tmp_path))

    assert isinstance(result.exception, NotFoundError)
    assert "npm install azurite" in (result.exception.hint or "")


def test_env_prints_lines_for_the_shell_and_how_to_sign_az_in(tmp_path: Path) -> None:
    with open_sandbox() as opened, serve(opened, tmp_path) as server:
        note_running(tmp_path, server.url)
        bash = run("env", "--state", str(tmp_path)).stdout.splitlines()
        fish = run("env", "--state", str(tmp_path), "--shell", "fish").stdout.splitlines()

    assert f"export IDENTITY_ENDPOINT={server.url}/msi/token" in bash
    assert f"set -gx IDENTITY_ENDPOINT {server.url}/msi/token;" in fish
    assert bash[-1] == "#   az login --identity"
    assert all(line.startswith(("export ", "#")) for line in bash)


def test_values_are_quoted_for_the_shell() -> None:
    assert list(env_lines({"A": "it's $HOME"}, "bash")) == ["export A='it'\"'\"'s $HOME'"]


def test_env_without_a_served_sandbox_says_how_to_start_one(tmp_path: Path) -> None:
    result = run("env", "--state", str(tmp_path))

    assert result.stdout == ""
    assert "sandbox serve" in str(getattr(result.exception, "hint", ""))


def test_reset_forgets_the_world_and_keeps_the_certificate(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as opened, serve(opened, tmp_path):
        opened.advance(60)
    certificate = (tmp_path / "tls" / "ca.pem").read_bytes()

    first, second = run("reset", "--state", str(tmp_path)), run("reset", "--state", str(tmp_path))

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "Removed" in first.stderr
    assert "Nothing to remove" in second.stderr
    assert not (tmp_path / "world.json").exists()
    assert (tmp_path / "tls" / "ca.pem").read_bytes() == certificate


def test_reset_helps_where_the_state_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "world.json").write_text("broken")

    run("reset", "--state", str(tmp_path))

    with open_sandbox(tmp_path) as opened:
        assert opened.world.state.resources == {}
