"""The sandbox over HTTPS: found by its environment, trusted by its certificate."""

from __future__ import annotations

import gzip
import http.client
import os
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from azure.identity import ClientSecretCredential, ManagedIdentityCredential
from azure.mgmt.compute import ComputeManagementClient

import ai4infra
from ai4infra.errors import Ai4infraError, ConflictError, NotFoundError
from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.certificate import ensure_certificate
from ai4infra.sandbox.serve import Server, note_running, refuse_second, running_url, serve


@pytest.fixture
def server(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A served sandbox, with its environment set."""
    with serve(sandbox, tmp_path) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


def connect(server: Server) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(server.files.authority))
    parts = urlsplit(server.url)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context)


def test_the_sdk_works_with_a_managed_identity(server: Server, sandbox: Sandbox) -> None:
    client = ComputeManagementClient(
        ManagedIdentityCredential(),
        sandbox.subscription_id,
        base_url=server.url,
        credential_scopes=[f"{server.url}/.default"],
    )

    assert {row.name.value for row in client.usage.list("eastus2")} >= {"cores"}


def test_the_sdk_works_with_a_service_principal(server: Server, sandbox: Sandbox) -> None:
    known = sandbox.world.catalogue
    credential = ClientSecretCredential(
        known.tenant_id,
        known.identities["deploy"]["client_id"],
        known.identities["deploy"]["secret"],
        authority=server.url,
        disable_instance_discovery=True,
    )
    client = ComputeManagementClient(
        credential,
        sandbox.subscription_id,
        base_url=server.url,
        credential_scopes=[f"{server.url}/.default"],
    )

    assert list(client.resource_skus.list(filter="location eq 'eastus2'"))


def test_prices_and_their_next_pages_come_from_the_same_host(server: Server) -> None:
    first = requests.get(f"{server.url}/api/retail/prices", timeout=10).json()

    assert first["NextPageLink"].startswith(f"{server.url}/api/retail/prices?")
    assert requests.get(first["NextPageLink"], timeout=10).json()["Items"]


def test_the_certificate_is_trusted_by_nobody_who_isnt_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")

    with pytest.raises(requests.exceptions.SSLError):
        requests.get(server.url, timeout=10)


def test_a_client_that_distrusts_it_does_not_disturb_the_others(server: Server) -> None:
    for _ in range(3):
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(server.url, verify=requests.utils.DEFAULT_CA_BUNDLE_PATH, timeout=10)

    assert requests.get(f"{server.url}/metadata/endpoints", timeout=10).status_code == 200


def test_connections_are_kept_and_long_answers_packed_when_asked(server: Server) -> None:
    connection = connect(server)
    path = "/api/retail/prices"
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    packed = connection.getresponse()
    body = packed.read()
    first = connection.sock
    connection.request("GET", path)
    plain = connection.getresponse()

    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == plain.read()
    assert plain.headers["content-encoding"] is None
    assert connection.sock is first
    connection.close()


def test_head_has_no_body_and_a_bad_length_ends_the_connection(server: Server) -> None:
    connection = connect(server)
    connection.request("HEAD", "/subscriptions")
    assert connection.getresponse().read() == b""

    connection.putrequest("POST", "/subscriptions")
    connection.putheader("Content-Length", "many")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize("kind", ["drop", "read-timeout", "connect-timeout"])
def test_a_fault_of_the_connection_hangs_up(server: Server, sandbox: Sandbox, kind: str) -> None:
    sandbox.fail(kind)
    url = f"{server.url}/metadata/endpoints"

    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=10)
    assert requests.get(url, timeout=10).status_code == 200


def test_many_requests_at_once_are_all_answered(server: Server) -> None:
    statuses: list[int] = []

    def ask() -> None:
        reply = requests.get(f"{server.url}/metadata/endpoints", timeout=10)
        statuses.append(reply.status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 8


def test_a_served_world_has_a_clock_that_runs(server: Server, sandbox: Sandbox) -> None:
    before = sandbox.world.now()

    requests.get(f"{server.url}/metadata/endpoints", timeout=10)

    assert before < sandbox.world.now() < before + timedelta(minutes=10)


def test_a_taken_port_is_told_with_the_way_out(server: Server, tmp_path: Path) -> None:
    port = urlsplit(server.url).port or 0

    with pytest.raises(Ai4infraError) as caught:
        serve(server.sandbox, tmp_path, port)

    assert str(port) in caught.value.message
    assert "--port" in (caught.value.hint or "")


def test_only_this_machine_can_connect(server: Server) -> None:
    assert server._http.server_address[0] == "127.0.0.1"


def test_the_private_key_is_for_its_owner_only_and_that_of_the_authority_is_nowhere(
    tmp_path: Path,
) -> None:
    files = ensure_certificate(tmp_path)

    assert stat.S_IMODE(files.server.stat().st_mode) == 0o600
    keys = [path for path in tmp_path.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert keys == [files.server]


def test_a_certificate_is_kept_and_a_broken_one_made_anew(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path)
    first = files.server.read_bytes()
    ensure_certificate(tmp_path)
    assert files.server.read_bytes() == first

    files.server.write_text("broken")
    ensure_certificate(tmp_path)

    assert files.server.read_bytes() not in (first, b"broken")


def test_a_server_certificate_of_another_authority_is_made_anew(tmp_path: Path) -> None:
    one, other = ensure_certificate(tmp_path / "one"), ensure_certificate(tmp_path / "other")
    one.authority.write_bytes(other.authority.read_bytes())

    ensure_certificate(tmp_path / "one")

    assert one.authority.read_bytes() != other.authority.read_bytes()


def test_the_environment_leaves_the_real_az_sign_in_alone(server: Server, tmp_path: Path) -> None:
    assert server.env["AZURE_CONFIG_DIR"] == str(tmp_path / "az")
    assert not (Path(os.environ["HOME"]) / ".azure").exists()


def test_a_served_sandbox_is_found_again_until_it_ends(server: Server, tmp_path: Path) -> None:
    note_running(tmp_path, server.url)
    assert running_url(tmp_path) == server.url
    with pytest.raises(ConflictError, match=server.url):
        refuse_second(tmp_path)

    note_running(tmp_path, "https://localhost:1")
    refuse_second(tmp_path)
    with pytest.raises(NotFoundError):
        running_url(tmp_path)


def test_a_role_is_tried_on_the_blobs_that_are_served_here(
    server: Server, sandbox: Sandbox
) -> None:
    # In process, waiting moves the clock; the served sandbox waits for real.
    wanted = sandbox.subscription_id
    with ai4infra.connect(transport=sandbox.transport(), subscription=wanted) as az:
        assert az.apply(az.plan_storage("sttrain")).complete
        account = az.storage_account("sttrain")
    with ai4infra.connect(subscription=wanted) as az:
        found = az.wait_role("Storage Blob Data Contributor", "me", account.id, timeout_seconds=0)
    assert found.code == "AuthorizationPermissionMismatch"
