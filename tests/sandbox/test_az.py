"""The real Azure CLI against the served sandbox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from arm_client import COLLEAGUE

from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.serve import Server, az_lines, serve

pytestmark = pytest.mark.peers

Az = Callable[..., str]


@pytest.fixture
def server(sandbox: Sandbox, tmp_path: Path) -> Iterator[Server]:
    with serve(sandbox, tmp_path) as running:
        yield running


@pytest.fixture
def az(server: Server) -> Az:
    """Run az with the sandbox's environment and return what it prints."""
    program = os.environ.get("AI4INFRA_TEST_AZ") or shutil.which("az")
    if program is None:
        pytest.fail("These tests need the Azure CLI: run scripts/test, or set AI4INFRA_TEST_AZ.")

    def run(*words: str) -> str:
        done = subprocess.run(
            [program, *words],
            env={**os.environ, **server.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def register(az: Az, server: Server) -> None:
    for line in az_lines(server.url)[:2]:
        az(*line.split()[1:])


@pytest.fixture
def signed_in(az: Az, server: Server) -> Az:
    for line in az_lines(server.url):
        az(*line.split()[1:])
    return az


def loads(text: str) -> Any:
    return json.loads(text)


def test_az_signs_in_with_the_managed_identity(signed_in: Az) -> None:
    accounts = loads(signed_in("account", "list", "-o", "json"))

    assert [account["name"] for account in accounts] == ["Example Training", "Example Lab"]


def test_az_signs_in_as_a_service_principal(az: Az, server: Server, sandbox: Sandbox) -> None:
    known = sandbox.world.catalogue
    deploy = known.identities["deploy"]
    register(az, server)
    accounts = loads(
        az(
            *("login", "--service-principal", "--tenant", known.tenant_id),
            *("--username", deploy["client_id"], "--password", deploy["secret"]),
        )
    )

    assert accounts[0]["user"]["name"] == deploy["client_id"]


def test_az_lists_sizes_and_what_restricts_them(signed_in: Az) -> None:
    table = signed_in(
        "vm", "list-skus", "--location", "eastus2", "--size", "Standard_N", "-o", "table"
    )

    lines = {line.split()[2]: line for line in table.splitlines()[2:]}
    assert lines["Standard_NC24ads_A100_v4"].rstrip().endswith("None")
    assert "type: Zone, locations: eastus2, zones: 1" in lines["Standard_ND96isr_H100_v5"]
    assert "Standard_D2s_v5" not in lines


def test_az_lists_usage(signed_in: Az) -> None:
    rows = loads(signed_in("vm", "list-usage", "--location", "eastus2", "-o", "json"))

    found = {row["name"]["value"]: (row["currentValue"], row["limit"]) for row in rows}
    assert [int(n) for n in found["Standard NCASv3_T4 Family"]] == [8, 64]


def test_az_creates_and_deletes_a_group(signed_in: Az, sandbox: Sandbox) -> None:
    group = loads(signed_in("group", "create", "-n", "rg-az", "-l", "eastus2"))
    assert group["properties"]["provisioningState"] == "Succeeded"

    signed_in("group", "delete", "-n", "rg-az", "--yes", "--no-wait")

    (left,) = sandbox.world.state.resources.values()
    assert left["properties"]["provisioningState"] == "Deleting"


@pytest.fixture
def instant(sandbox: Sandbox) -> None:
    """Let nothing take time, since az waits for real."""
    sandbox.world.instant = True


@pytest.mark.usefixtures("instant")
def test_az_creates_a_storage_account_and_shows_it(signed_in: Az) -> None:
    signed_in("group", "create", "-n", "rg-az", "-l", "eastus2")
    made = loads(
        signed_in(
            *("storage", "account", "create", "-g", "rg-az", "-n", "staz", "-l", "eastus2"),
            *("--sku", "Standard_LRS", "--hns", "true", "--allow-shared-key-access", "false"),
            *("--min-tls-version", "TLS1_2", "--allow-blob-public-access", "false"),
        )
    )
    shown = loads(signed_in("storage", "account", "show", "-g", "rg-az", "-n", "staz"))

    assert shown == made
    assert (shown["isHnsEnabled"], shown["allowSharedKeyAccess"]) == (True, False)
    checked = loads(signed_in("storage", "account", "check-name", "-n", "staz"))
    assert (checked["nameAvailable"], checked["reason"]) == (False, "AlreadyExists")


def test_az_waits_for_a_storage_account(signed_in: Az, sandbox: Sandbox) -> None:
    sandbox.world.catalogue.storage["create_seconds"] = 1
    signed_in("group", "create", "-n", "rg-az", "-l", "eastus2")

    made = loads(signed_in("storage", "account", "create", "-g", "rg-az", "-n", "staz"))

    assert made["provisioningState"] == "Succeeded"
    assert any("asyncoperations" in entry.url for entry in sandbox.world.log)


@pytest.mark.usefixtures("instant")
def test_az_assigns_a_role_by_object_id_and_lists_it(signed_in: Az) -> None:
    group = loads(signed_in("group", "create", "-n", "rg-az", "-l", "eastus2"))["id"]
    role = "Storage Blob Data Reader"
    made = loads(
        signed_in(
            *("role", "assignment", "create", "--role", role, "--scope", group),
            *("--assignee-object-id", COLLEAGUE, "--assignee-principal-type", "User"),
        )
    )
    listed = loads(
        signed_in(
            *("role", "assignment", "list", "--scope", group, "--assignee-object-id", COLLEAGUE),
            *("--fill-principal-name", "false"),
        )
    )

    assert [row["id"] for row in listed] == [made["id"]]
    assert listed[0]["roleDefinitionName"] == role


@pytest.mark.usefixtures("instant")
def test_az_deletes_a_group_unless_something_in_it_is_locked(
    az: Az, signed_in: Az, sandbox: Sandbox
) -> None:
    signed_in("group", "create", "-n", "rg-az", "-l", "eastus2")
    signed_in("group", "lock", "create", "-g", "rg-az", "-n", "keep", "--lock-type", "CanNotDelete")
    with pytest.raises(AssertionError, match="ScopeLocked"):
        signed_in("group", "delete", "-n", "rg-az", "--yes")
    signed_in("group", "lock", "delete", "-g", "rg-az", "-n", "keep")

    signed_in("group", "delete", "-n", "rg-az", "--yes")
    signed_in("group", "list")

    assert sandbox.world.state.resources == {}
