"""The data plane in process: what tells somebody whether a grant works, and why it does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from arm_client import CONTRIBUTOR, READER, TEAM, USER, Arm, Http, Reply, grant

from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.transport import SandboxCredential

HOST = "https://stdata.blob.core.windows.net"
LIST = {"restype": "container", "comp": "list"}


@pytest.fixture
def container(arm: Arm, account: str) -> str:
    """Id of a container named data."""
    id_ = f"{account}/blobServices/default/containers/data"
    assert arm("PUT", id_, json={}).status_code == 201
    return id_


def read(
    http: Http,
    sandbox: Sandbox,
    path: str = "/data",
    *,
    method: str = "GET",
    scope: str = "https://storage.azure.com",
    identity: str = "user",
    **params: str,
) -> Reply:
    token = SandboxCredential(sandbox, identity).get_token(f"{scope}/.default").token
    headers = {"Authorization": f"Bearer {token}", "x-ms-version": "2021-12-02"}
    return http.request(method, HOST + path, headers=headers, params=params or LIST)


def refusal(reply: Reply) -> tuple[int, str]:
    """Status and code, which header and body both tell."""
    match = re.search("<Code>(.*)</Code>", reply.text)
    assert match is not None
    assert reply.headers["x-ms-error-code"] == match.group(1)
    return reply.status_code, match.group(1)


MISMATCH = (403, "AuthorizationPermissionMismatch")


def test_a_fresh_grant_works_after_a_while(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    assert refusal(read(http, sandbox)) == MISMATCH
    grant(arm, container, USER)
    assert refusal(read(http, sandbox)) == MISMATCH

    sandbox.advance(120)

    assert read(http, sandbox).status_code == 200
    assert 'ContainerName="data"' in read(http, sandbox).text
    head = read(http, sandbox, method="HEAD", restype="container")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("level", ["subscription", "group", "account", "container"])
def test_a_grant_counts_below_its_scope(
    http: Http, arm: Arm, sandbox: Sandbox, container: str, level: str
) -> None:
    account = container.rpartition("/blobServices")[0]
    group = account.rpartition("/providers")[0]
    scopes = {"subscription": "@", "group": group, "account": account, "container": container}

    grant(arm, scopes[level], USER)
    sandbox.advance(120)

    assert read(http, sandbox).status_code == 200
    assert refusal(read(http, sandbox, identity="deploy")) == MISMATCH


def test_a_grant_on_one_container_opens_no_other(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    arm("PUT", f"{container}-2", json={})
    grant(arm, container, USER)
    sandbox.advance(120)

    assert refusal(read(http, sandbox, "/data-2")) == MISMATCH


def test_a_grant_to_a_group_works_for_its_members(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    grant(arm, container, TEAM)
    sandbox.advance(120)

    assert read(http, sandbox).status_code == 200


def test_owner_is_no_data_role_and_a_reader_writes_nothing(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    grant(arm, container, USER, READER)
    sandbox.advance(120)

    assert refusal(read(http, sandbox, identity="managed")) == MISMATCH
    assert refusal(read(http, sandbox, "/data/blob", method="PUT", comp="block")) == MISMATCH
    assert refusal(read(http, sandbox, "/data/blob", method="DELETE", x="1")) == MISMATCH


def test_a_grant_under_a_condition_counts_for_nothing(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    grant(arm, container, USER, condition="@Resource[x] StringEquals 'y'", conditionVersion="2.0")
    sandbox.advance(120)

    assert refusal(read(http, sandbox)) == MISMATCH


def granted(arm: Arm, sandbox: Sandbox, container: str) -> str:
    grant(arm, container, USER, CONTRIBUTOR)
    sandbox.advance(120)
    return container.rpartition("/blobServices")[0]


def test_a_closed_network_is_told_apart_from_a_missing_role(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    account = granted(arm, sandbox, container)

    def answered(**properties: Any) -> Reply:
        arm("PATCH", account, json={"properties": properties})
        return read(http, sandbox)

    denied = (403, "AuthorizationFailure")
    assert refusal(answered(networkAcls={"defaultAction": "Deny"})) == denied
    mine = [{"value": "203.0.113.0/24"}]
    assert answered(networkAcls={"ipRules": mine}).status_code == 200
    assert refusal(answered(networkAcls={"ipRules": [{"value": "198.51.100.1"}]})) == denied
    assert answered(networkAcls={"defaultAction": "Allow"}).status_code == 200
    assert refusal(answered(publicNetworkAccess="Disabled")) == denied


def test_keys_are_refused_where_they_are_off(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    account = granted(arm, sandbox, container)
    headers = {"Authorization": "SharedKey stdata:c2ln", "x-ms-version": "2021-12-02"}
    signed = {**LIST, "sig": "x", "sv": "2021-12-02"}

    assert refusal(http.get(f"{HOST}/data", headers=headers, params=LIST))[0] == 501
    arm("PATCH", account, json={"properties": {"allowSharedKeyAccess": False}})

    off = (403, "KeyBasedAuthenticationNotPermitted")
    assert refusal(http.get(f"{HOST}/data", headers=headers, params=LIST)) == off
    assert refusal(http.get(f"{HOST}/data", params=signed)) == off


@pytest.mark.parametrize("scope", ["https://management.azure.com", "https://vault.azure.net"])
def test_a_token_for_something_else_is_401(
    http: Http, arm: Arm, sandbox: Sandbox, container: str, scope: str
) -> None:
    granted(arm, sandbox, container)
    reply = read(http, sandbox, scope=scope)

    assert refusal(reply) == (401, "InvalidAuthenticationInfo")
    assert "Audience validation failed" in reply.text
    assert reply.headers["www-authenticate"].startswith("Bearer authorization_uri=")


def test_no_token_a_bad_one_and_one_in_an_old_version_are_told_apart(
    http: Http, container: str
) -> None:
    def answered(**headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return refusal(http.get(f"{HOST}/data", headers=named, params=LIST))

    version = "2021-12-02"
    assert answered() == (401, "NoAuthenticationInformation")
    bad = answered(authorization="Bearer x", x_ms_version=version)
    assert bad == (401, "InvalidAuthenticationInfo")
    assert answered(authorization="Bearer x") == (400, "InvalidAuthenticationInfo")
    assert answered(authorization="Basic x") == (400, "InvalidAuthenticationInfo")


def test_a_missing_container_and_a_missing_account_are_404(
    http: Http, arm: Arm, sandbox: Sandbox, account: str
) -> None:
    grant(arm, account, USER)
    sandbox.advance(120)

    assert refusal(read(http, sandbox, "/none")) == (404, "ContainerNotFound")
    nobody = http.get("https://stnone.blob.core.windows.net/data", params=LIST)
    assert refusal(nobody) == (404, "ResourceNotFound")


def test_what_needs_blobs_fails_loudly(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    granted(arm, sandbox, container)

    reply = read(http, sandbox, "/data/blob", x="1")

    assert refusal(reply) == (501, "SandboxUnknownRoute")
    assert "--data-plane" in reply.text


def test_a_fault_strikes_the_data_plane_too(
    http: Http, arm: Arm, sandbox: Sandbox, container: str
) -> None:
    granted(arm, sandbox, container)
    sandbox.fail("unavailable", "/data")

    assert [read(http, sandbox).status_code for _ in range(2)] == [503, 200]
