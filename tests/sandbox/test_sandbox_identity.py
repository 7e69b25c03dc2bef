"""Signing in to the sandbox: managed identities, service principals, custom clouds."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from ai4infra.sandbox.identity import IDENTITY_HEADER

if TYPE_CHECKING:
    from arm_client import Http, Reply

    from ai4infra.sandbox import Sandbox

HOST = "https://localhost:8943"
MANAGED = f"{HOST}/msi/token"
ARM_RESOURCE = "https://management.azure.com/"


def claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=="))
    return found


def ask(http: Http, **params: str) -> Reply:
    wanted = {"api-version": "2019-08-01", "resource": ARM_RESOURCE, **params}
    return http.get(MANAGED, params=wanted, headers={"X-IDENTITY-HEADER": IDENTITY_HEADER})


def test_the_managed_identity_endpoint_gives_a_token_that_arm_takes(
    http: Http, sandbox: Sandbox
) -> None:
    given = ask(http).json()

    said = claims(given["access_token"])
    identity = sandbox.world.catalogue.identities["managed"]
    assert (said["oid"], said["appid"]) == (identity["object_id"], identity["client_id"])
    assert said["tid"] == sandbox.world.catalogue.tenant_id
    assert said["exp"] == int(given["expires_on"]) > time.time()
    listed = http.get(
        f"{HOST}/subscriptions?api-version=2022-12-01",
        headers={"Authorization": f"Bearer {given['access_token']}"},
    )
    assert listed.status_code == 200


def test_the_managed_identity_endpoint_wants_its_header_version_and_resource(http: Http) -> None:
    bare = http.get(MANAGED, params={"api-version": "2019-08-01", "resource": ARM_RESOURCE})

    assert bare.status_code == 401
    assert ask(http, **{"api-version": "2017-09-01"}).status_code == 400
    assert ask(http, resource="").status_code == 400


def test_only_the_identity_that_exists_can_be_named(http: Http, sandbox: Sandbox) -> None:
    mine = sandbox.world.catalogue.identities["managed"]

    assert ask(http, client_id=mine["client_id"]).status_code == 200
    assert ask(http, object_id=mine["object_id"]).status_code == 200
    assert ask(http, client_id="00000000-0000-0000-0000-000000000000").status_code == 400
    assert ask(http, mi_res_id="/subscriptions/x").status_code == 400


def test_the_endpoint_of_virtual_machines_wants_the_metadata_header(http: Http) -> None:
    url = "https://169.254.169.254/metadata/identity/oauth2/token"
    params = {"api-version": "2018-02-01", "resource": ARM_RESOURCE}

    without = http.get(url, params=params)
    given = http.get(url, params=params, headers={"Metadata": "true"})

    assert (without.status_code, without.json()["error"]) == (400, "invalid_request")
    assert given.json()["token_type"] == "Bearer"


def grant(http: Http, sandbox: Sandbox, **changes: str) -> Reply:
    known = sandbox.world.catalogue
    form = {
        "grant_type": "client_credentials",
        "client_id": known.identities["deploy"]["client_id"],
        "client_secret": known.identities["deploy"]["secret"],
        "scope": "https://management.azure.com/.default",
        **changes,
    }
    tenant = form.pop("tenant", known.tenant_id)
    return http.post(f"https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token", data=form)


def test_a_service_principal_gets_a_token_for_its_secret(http: Http, sandbox: Sandbox) -> None:
    given = grant(http, sandbox).json()

    assert claims(given["access_token"])["aud"] == "https://management.azure.com"
    assert grant(http, sandbox, client_secret="guessed").json()["error"] == "invalid_client"
    assert grant(http, sandbox, client_id="unknown").status_code == 401


def test_other_grants_and_tenants_are_refused(http: Http, sandbox: Sandbox) -> None:
    password = grant(http, sandbox, grant_type="password")
    elsewhere = grant(http, sandbox, tenant="elsewhere.example")

    assert password.json()["error"] == "unsupported_grant_type"
    assert elsewhere.json()["error"] == "invalid_tenant"


def test_secrets_stay_out_of_the_log(http: Http, sandbox: Sandbox) -> None:
    grant(http, sandbox)

    assert sandbox.world.log[-1].body is None
    assert "sandbox-only" not in repr(sandbox.world.log)


def test_discovery_points_back_to_the_sandbox(http: Http, sandbox: Sandbox) -> None:
    tenant = sandbox.world.catalogue.tenant_id

    found = http.get(f"{HOST}/{tenant}/v2.0/.well-known/openid-configuration").json()
    instance = http.get(f"{HOST}/common/discovery/instance?api-version=1.1").json()

    assert found["token_endpoint"] == f"{HOST}/{tenant}/oauth2/v2.0/token"
    assert instance["tenant_discovery_endpoint"].startswith(f"{HOST}/{tenant}/")


@pytest.mark.parametrize("version", ["2015-01-01", "2022-09-01"])
def test_the_endpoints_call_names_sign_in_host_and_audience(http: Http, version: str) -> None:
    found = http.get(f"{HOST}/metadata/endpoints?api-version={version}").json()

    assert found["authentication"]["loginEndpoint"] == HOST
    assert found["authentication"]["audiences"] == [HOST]


def test_the_credential_of_the_sandbox_is_a_user(sandbox: Sandbox) -> None:
    token = sandbox.credential.get_token("https://management.azure.com/.default")

    assert claims(token.token)["idtyp"] == "user"
    assert token.expires_on > time.time()


def test_tokens_are_not_signed(sandbox: Sandbox) -> None:
    signature = sandbox.credential.get_token("https://x/.default").token.split(".")[2]

    assert base64.urlsafe_b64decode(signature + "==").startswith(b"unsigned")
