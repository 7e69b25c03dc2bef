from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core import PipelineClient
from azure.identity import (
    AzureCliCredential,
    ClientSecretCredential,
    ManagedIdentityCredential,
    WorkloadIdentityCredential,
)
from support import Reply, Script, answer

from ai4infra import settings
from ai4infra.cloud.identity_endpoint import IdentityEndpoint
from ai4infra.cloud.signin import AUTHS, choose, credential_for
from ai4infra.errors import SignInError, UsageError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

PRINCIPAL = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": "s"}
CERTIFICATE = {**PRINCIPAL, "AZURE_CLIENT_SECRET": ""}
CERTIFICATE["AZURE_CLIENT_CERTIFICATE_PATH"] = "/no/such.pem"
WORKLOAD = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_FEDERATED_TOKEN_FILE": "/f"}
TOKEN = {"access_token": "t0ken", "expires_on": "4102444800", "token_type": "Bearer"}
MSI = {"IDENTITY_ENDPOINT": "https://localhost/token", "IDENTITY_HEADER": "h"}


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ({}, "cli"),
        (PRINCIPAL, "env"),
        ({"AZURE_CLIENT_ID": "c", "AZURE_CLIENT_CERTIFICATE_PATH": "/c"}, "env"),
        (WORKLOAD, "workload"),
        (MSI, "msi"),
        ({"MSI_ENDPOINT": "http://x"}, "msi"),
        (PRINCIPAL | WORKLOAD | MSI, "env"),
        (WORKLOAD | MSI, "workload"),
        ({"AZURE_CLIENT_ID": "c"}, "cli"),
        ({"AZURE_CLIENT_ID": "", "AZURE_CLIENT_SECRET": ""}, "cli"),
        (PRINCIPAL | {"AZURE_TOKEN_CREDENTIALS": "dev"}, "cli"),
        (PRINCIPAL | {"AZURE_TOKEN_CREDENTIALS": "prod"}, "env"),
        ({"AZURE_TOKEN_CREDENTIALS": "PROD"}, "msi"),
        (PRINCIPAL | {"AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential"}, "msi"),
        (PRINCIPAL | {"AZURE_TOKEN_CREDENTIALS": "AzureCliCredential"}, "cli"),
    ],
)
def test_the_identity_is_the_one_that_is_announced(env: dict[str, str], kind: str) -> None:
    assert choose(None, env) == kind


@pytest.mark.parametrize("auth", AUTHS)
def test_an_option_beats_all_announcements(auth: str) -> None:
    env = PRINCIPAL | WORKLOAD | MSI | {"AZURE_TOKEN_CREDENTIALS": "dev"}
    assert choose(auth.upper(), env) == auth


def test_an_unknown_option_or_variable_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        choose("clii", {})
    with pytest.raises(UsageError, match="AZURE_TOKEN_CREDENTIALS"):
        choose(None, {"AZURE_TOKEN_CREDENTIALS": "staging"})


def test_settings_allow_the_same_identities() -> None:
    assert settings.AUTHS == AUTHS


def credential(auth: str | None = None, **given: str) -> TokenCredential:
    return credential_for(
        auth=auth,
        client_id=None,
        tenant_id=None,
        az_tenant=None,
        authority="https://login.microsoftonline.com",
        env=given,
        client=PipelineClient("https://localhost"),
    )


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ({}, AzureCliCredential),
        (PRINCIPAL, ClientSecretCredential),
        (WORKLOAD, WorkloadIdentityCredential),
        (MSI, IdentityEndpoint),
        (MSI | {"IDENTITY_SERVER_THUMBPRINT": "t"}, ManagedIdentityCredential),
        ({"MSI_ENDPOINT": "http://x", "MSI_SECRET": "s"}, ManagedIdentityCredential),
    ],
)
def test_each_identity_has_its_credential(env: dict[str, str], kind: type) -> None:
    assert type(credential(None, **env)) is kind


@pytest.mark.parametrize(
    ("auth", "env", "missing"),
    [
        ("env", {}, "AZURE_TENANT_ID, AZURE_CLIENT_ID are not set"),
        ("env", {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}, "AZURE_CLIENT_SECRET is not set"),
        ("workload", PRINCIPAL, "AZURE_FEDERATED_TOKEN_FILE is not set"),
    ],
)
def test_what_an_asked_for_identity_lacks_is_named(
    auth: str, env: dict[str, str], missing: str
) -> None:
    with pytest.raises(SignInError, match=missing) as caught:
        credential(auth, **env)
    assert "--auth" in str(caught.value.hint)


AZ = """#!{python}
import json, sys, time
if "fail" in {mode!r}:
    sys.exit(sys.stderr.write({mode!r}[5:]) and 1)
print(json.dumps({{"accessToken": " ".join(sys.argv[1:]), "expires_on": int(time.time()) + 3600}}))
"""


def install_az(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "ok") -> None:
    """Put a program called az on an otherwise empty PATH."""
    file = folder / "az"
    file.write_text(AZ.format(python=sys.executable, mode=mode))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("tenant", "az_tenant", "asked"),
    [(None, None, ""), (None, "t1", "--tenant t1"), ("t2", "t1", "--tenant t2")],
)
def test_az_is_asked_for_the_tenant_of_the_subscription(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tenant: str | None,
    az_tenant: str | None,
    asked: str,
) -> None:
    install_az(tmp_path, monkeypatch)
    script = Script().on(".", answer())
    session = script.session(credential=None, tenant_id=tenant, az_tenant=az_tenant)
    session.get("/a", "1")
    (header,) = script.tokens
    assert "--resource https://management.azure.com" in str(header)
    assert str(header).endswith(asked)


def test_without_az_the_error_tells_both_ways_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    script = Script()
    with pytest.raises(SignInError, match="az is not installed") as caught:
        script.session(credential=None).get("/a", "1")
    assert "az login" in str(caught.value.hint)
    assert "--sandbox" in str(caught.value.hint)
    assert script.requests == []
    assert script.slept == []


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ("Please run 'az login' to setup account.", "not signed in"),
        (
            "AADSTS700082: The refresh token has expired. Trace ID: 1",
            "The refresh token has expired",
        ),
    ],
)
def test_az_without_a_sign_in_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, part: str
) -> None:
    install_az(tmp_path, monkeypatch, f"fail {said}")
    with pytest.raises(SignInError, match=part) as caught:
        Script().session(credential=None).get("/a", "1")
    assert "az login" in str(caught.value.hint)


def test_a_user_assigned_identity_is_chosen_by_its_client_id() -> None:
    assert isinstance(credential("msi", AZURE_CLIENT_ID="mine"), ManagedIdentityCredential)


def test_an_identity_endpoint_is_asked_for_a_token_of_the_cloud() -> None:
    script = Script().on("/token", answer(body=TOKEN)).on("management", answer(body={"a": 1}))
    script.session(credential=None, env=MSI | {"AZURE_CLIENT_ID": "mine"}).get("/a", "1")
    asked, sent = script.requests
    assert asked.headers["X-IDENTITY-HEADER"] == "h"
    assert parse_qs(urlsplit(str(asked.url)).query) == {
        "api-version": ["2019-08-01"],
        "resource": ["https://management.azure.com"],
        "client_id": ["mine"],
    }
    assert sent.headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(400, {"message": "Identity not found"}), "Identity not found"),
        (answer(401, "<html>"), "status 401"),
        (answer(200, {"access_token": "t0ken"}), "sent no token"),
        (answer(200, "oops"), "sent no token"),
    ],
)
def test_an_identity_endpoint_without_a_token_is_one_sentence(reply: Reply, said: str) -> None:
    session = Script().on("/token", reply).session(credential=None, env=MSI)
    with pytest.raises(SignInError, match=said) as caught:
        session.get("/a", "1")
    assert "t0ken" not in str(caught.value.detail)


@pytest.mark.parametrize(
    ("auth", "env", "said"),
    [
        ("env", CERTIFICATE, "/no/such.pem"),
        ("env", {**PRINCIPAL, "AZURE_TENANT_ID": "a/b", "AZURE_CLIENT_SECRET": "s"}, "tenant ID"),
    ],
)
def test_a_setting_of_the_identity_that_cannot_be_is_one_sentence(
    auth: str, env: dict[str, str], said: str
) -> None:
    with pytest.raises(SignInError, match=f"Cannot sign in: .*{said}"):
        credential(auth, **env)
