"""Blobs for real: Azurite behind the accounts of a served sandbox, which still decides who may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from arm_client import CONTRIBUTOR, USER, Arm, grant

from ai4infra.errors import NotFoundError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.azurite import find_program
from ai4infra.sandbox.serve import Server, serve
from ai4infra.sandbox.transport import SandboxCredential

peers = pytest.mark.peers
Blobs = Callable[..., requests.Response]
CONTENT = os.urandom(300_000)


@pytest.fixture
def server(sandbox: Sandbox, tmp_path: Path) -> Iterator[Server]:
    if not (os.environ.get("AI4INFRA_AZURITE") or shutil.which("azurite-blob")):
        pytest.fail("These tests need Azurite: run scripts/test, or set AI4INFRA_AZURITE.")
    sandbox.world.instant = True
    program = find_program(os.environ, tmp_path)
    with serve(sandbox, tmp_path, azurite=program) as running:
        yield running


@pytest.fixture
def blobs(server: Server, sandbox: Sandbox, arm: Arm, account: str) -> Blobs:
    """Send a request to the account's blob endpoint, as the user."""
    grant(arm, account, USER, CONTRIBUTOR)
    base = server.url.replace("localhost", "127.0.0.1")
    session = requests.Session()
    session.trust_env = False
    session.verify = str(server.files.authority)

    def send(method: str, path: str, identity: str = "user", **options: Any) -> requests.Response:
        credential = SandboxCredential(sandbox, identity)
        token = credential.get_token("https://storage.azure.com/.default").token
        headers = {"Authorization": f"Bearer {token}", "x-ms-version": "2021-12-02"}
        headers |= options.pop("headers", {})
        return session.request(
            method, f"{base}/stdata/{path}", headers=headers, timeout=60, **options
        )

    return send


def container(arm: Arm, account: str, method: str = "PUT", name: str = "data") -> int:
    path = f"{account}/blobServices/default/containers/{name}"
    return arm(method, path, json={} if method == "PUT" else None).status_code


def upload(blobs: Blobs, path: str = "data/folder/one.bin") -> int:
    headers = {"x-ms-blob-type": "BlockBlob"}
    return blobs("PUT", path, data=CONTENT, headers=headers).status_code


@peers
def test_a_blob_goes_into_a_container_made_through_resource_manager_and_comes_back(
    blobs: Blobs, arm: Arm, account: str
) -> None:
    container(arm, account)

    assert upload(blobs) == 201
    assert blobs("GET", "data/folder/one.bin").content == CONTENT
    head = blobs("HEAD", "data/folder/one.bin")
    assert (head.headers["content-length"], head.content) == ("300000", b"")
    listed = blobs("GET", "data?restype=container&comp=list").text
    assert "<Name>folder/one.bin</Name>" in listed


@peers
def test_who_may_not_gets_nothing(blobs: Blobs, arm: Arm, account: str, sandbox: Sandbox) -> None:
    container(arm, account)
    upload(blobs)

    refused = blobs("GET", "data/folder/one.bin", "deploy")

    assert refused.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"
    arm("PATCH", account, json={"properties": {"publicNetworkAccess": "Disabled"}})
    closed = blobs("GET", "data/folder/one.bin")
    assert closed.headers["x-ms-error-code"] == "AuthorizationFailure"


@peers
def test_a_container_made_anew_is_empty(blobs: Blobs, arm: Arm, account: str) -> None:
    container(arm, account)
    upload(blobs)
    assert (container(arm, account, "DELETE"), container(arm, account)) == (200, 201)

    assert blobs("GET", "data/folder/one.bin").status_code == 404
    assert upload(blobs) == 201


@peers
def test_an_account_made_later_is_there_and_the_first_keeps_its_blobs(
    blobs: Blobs, arm: Arm, account: str
) -> None:
    container(arm, account)
    upload(blobs)
    later = account.replace("stdata", "stlater")
    arm("PUT", later, json={"location": "eastus2", "kind": "StorageV2", "sku": _LRS})
    container(arm, later)
    grant(arm, later, USER, CONTRIBUTOR)

    assert upload(blobs, "../stlater/data/two.bin") == 201
    assert blobs("GET", "data/folder/one.bin").content == CONTENT


_LRS = {"name": "Standard_LRS"}


@peers
def test_a_container_made_on_the_data_plane_is_known_to_resource_manager(
    blobs: Blobs, arm: Arm, account: str
) -> None:
    path = f"{account}/blobServices/default/containers/more"
    made = blobs("PUT", "more?restype=container")

    assert (made.status_code, arm("GET", path).status_code) == (201, 200)
    assert upload(blobs, "more/one.bin") == 201
    assert blobs("DELETE", "more?restype=container").status_code == 202
    assert arm("GET", path).status_code == 404


@peers
def test_azurite_ends_with_the_server_and_its_blobs_stay(
    sandbox: Sandbox, tmp_path: Path, arm: Arm, account: str, blobs: Blobs, server: Server
) -> None:
    container(arm, account)
    upload(blobs)
    azurite = server._azurite
    assert azurite is not None
    process = azurite._process
    assert process is not None

    azurite.close()

    assert isinstance(process.poll(), int)
    assert blobs("GET", "data/folder/one.bin").content == CONTENT


def test_a_missing_azurite_is_told_with_the_way_to_install_it(tmp_path: Path) -> None:
    for env in ({"PATH": ""}, {"PATH": "", "AI4INFRA_AZURITE": "/nowhere/azurite-blob"}):
        with pytest.raises(NotFoundError) as caught:
            find_program(env, tmp_path)
        assert "npm install azurite" in (caught.value.hint or "")


def test_azurite_is_found_in_node_modules_and_elsewhere_when_named(tmp_path: Path) -> None:
    program = tmp_path / "node_modules" / ".bin" / "azurite-blob"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)

    assert find_program({"PATH": ""}, tmp_path) == str(program)
    assert find_program({"AI4INFRA_AZURITE": str(program)}, Path("/")) == str(program)
    whole = program.with_name("azurite")
    whole.write_text("#!/bin/sh\n")
    whole.chmod(0o700)
    assert find_program({"AI4INFRA_AZURITE": str(whole)}, Path("/")) == str(program)


def test_an_azurite_that_does_not_start_is_told(
    sandbox: Sandbox, tmp_path: Path, arm: Arm, account: str
) -> None:
    container(arm, account)
    grant(arm, account, USER, CONTRIBUTOR)
    sandbox.advance(120)
    token = sandbox.credential.get_token("https://storage.azure.com/.default").token
    with serve(sandbox, tmp_path, azurite=shutil.which("true")) as running:
        url = running.url.replace("localhost", "127.0.0.1")
        reply = requests.get(
            f"{url}/stdata/data/one.bin",
            headers={"Authorization": f"Bearer {token}", "x-ms-version": "2021-12-02"},
            verify=str(running.files.authority),
            timeout=30,
        )

    assert reply.headers["x-ms-error-code"] == "SandboxNoAzurite"
    assert "Azurite ended before it was ready" in reply.text


@peers
def test_az_copies_a_file_in_and_out(
    server: Server, arm: Arm, account: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    program = os.environ.get("AI4INFRA_TEST_AZ") or shutil.which("az")
    assert program is not None
    managed = sandbox.world.catalogue.identities["managed"]["object_id"]
    container(arm, account)
    grant(arm, account, managed, CONTRIBUTOR)
    given, got = tmp_path / "given", tmp_path / "got"
    given.write_bytes(CONTENT)

    def az(*words: str) -> None:
        done = subprocess.run(
            [program, *words],
            env={**os.environ, **server.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    from ai4infra.sandbox.serve import az_lines

    for line in az_lines(server.url):
        az(*line.split()[1:])
    endpoint = f"{server.url.replace('localhost', '127.0.0.1')}/stdata"
    where = ("--blob-endpoint", endpoint, "--auth-mode", "login", "-c", "data", "-n", "a.bin")
    az("storage", "blob", "upload", "--file", str(given), *where)
    az("storage", "blob", "download", "--file", str(got), *where)

    assert got.read_bytes() == CONTENT


def copied(blobs: Blobs, server: Server, path: str, source: str, **headers: str) -> int:
    """Copy a blob from its URL, with a token for the source."""
    token = SandboxCredential(server.sandbox, "user").get_token(
        "https://storage.azure.com/.default"
    )
    base = server.url.replace("localhost", "127.0.0.1")
    told = {
        "x-ms-copy-source": f"{base}/stdata/{source}",
        "x-ms-copy-source-authorization": f"Bearer {token.token}",
        **headers,
    }
    return blobs("PUT", path, headers=told).status_code


@peers
def test_a_blob_is_copied_from_a_url_whole_and_in_blocks(
    blobs: Blobs, server: Server, arm: Arm, account: str
) -> None:
    container(arm, account)
    upload(blobs)
    source = "data/folder/one.bin"
    assert copied(blobs, server, "data/whole", source, **{"x-ms-blob-type": "BlockBlob"}) == 201
    assert blobs("GET", "data/whole").content == CONTENT

    block = "data/parts?comp=block&blockid=MDAwMQ=="
    part = {"x-ms-source-range": "bytes=10-99"}
    assert copied(blobs, server, block, source, **part) == 201
    listed = "<BlockList><Latest>MDAwMQ==</Latest></BlockList>"
    assert blobs("PUT", "data/parts?comp=blocklist", data=listed).status_code == 201
    assert blobs("GET", "data/parts").content == CONTENT[10:100]


@peers
def test_a_copy_from_a_url_needs_a_right_to_the_source(
    blobs: Blobs, server: Server, arm: Arm, account: str
) -> None:
    container(arm, account)
    upload(blobs)
    kind = {"x-ms-blob-type": "BlockBlob"}
    refused = {**kind, "x-ms-copy-source-authorization": "Bearer nobody"}
    assert copied(blobs, server, "data/x", "data/folder/one.bin", **refused) == 401
    assert copied(blobs, server, "data/x", "data/nothing", **kind) == 404
    assert blobs("GET", "data/x").status_code == 404
