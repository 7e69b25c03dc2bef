"""The one question that is put to a blob service, and what its refusals mean."""

from __future__ import annotations

from typing import Any

import pytest
from support import Script, Tokens, answer, failed

from ai4infra.cloud import blobs
from ai4infra.cloud.clouds import CHINA, Cloud
from ai4infra.errors import ForbiddenError, NotFoundError, ServiceError, SignInError

HOST = "https://datasets.blob.core.windows.net/"


def refused(code: str, status: int = 403) -> Any:
    xml = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>No.</Message></Error>'
    return answer(status, xml, x_ms_error_code=code, content_type="application/xml")


def probe_of(script: Script) -> Tokens:
    tokens = Tokens()
    blobs.probe(script.session(credential=tokens), HOST, "runs")
    return tokens


def test_the_service_gets_a_token_for_storage_and_never_the_one_for_arm() -> None:
    script = Script().on("GET", answer(200, "<EnumerationResults/>"))
    tokens = probe_of(script)
    assert tokens.asked == [("https://storage.azure.com/.default",)]
    assert script.tokens == ["Bearer token-1"]


def test_the_question_is_one_row_of_a_containers_blobs() -> None:
    script = Script().on("GET", answer(200, "<EnumerationResults/>"))
    probe_of(script)
    assert script.urls == [f"{HOST}runs?restype=container&comp=list&maxresults=1"]
    assert script.requests[0].headers["x-ms-version"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://datasets.blob.example.com/",
        "https://evilblob.core.windows.net/",
        "https://datasets.blob.core.windows.net.example.com/",
        "http://datasets.blob.core.windows.net/",
        "https://management.azure.com/",
    ],
)
def test_no_token_goes_to_a_host_that_is_no_blob_service(endpoint) -> None:
    script, tokens = Script(), Tokens()
    with pytest.raises(ServiceError, match="is no blob service"):
        blobs.probe(script.session(credential=tokens), endpoint, "runs")
    assert (script.requests, tokens.asked) == ([], [])


def test_another_cloud_has_other_hosts() -> None:
    script = Script().on("GET", answer(200, ""))
    session = script.session(cloud=CHINA)
    blobs.probe(session, "https://datasets.blob.core.chinacloudapi.cn", "runs")
    with pytest.raises(ServiceError):
        blobs.probe(session, HOST, "runs")


def test_a_cloud_whose_storage_is_unknown_has_no_blob_service() -> None:
    cloud = Cloud(
        name="c", arm="https://a", scope="s", authority=None, storage_suffix=None, prices=None
    )
    with pytest.raises(ServiceError):
        blobs.probe(Script().session(cloud=cloud), HOST, "runs")


@pytest.mark.parametrize(
    ("code", "kind", "said", "passes"),
    [
        ("AuthorizationPermissionMismatch", ForbiddenError, "role is missing", True),
        ("AuthorizationFailure", ForbiddenError, "network rules", False),
        ("AuthenticationFailed", SignInError, "clock", False),
        ("KeyBasedAuthenticationNotPermitted", ForbiddenError, "no shared keys", False),
    ],
)
def test_a_403_is_explained_by_its_code(code, kind, said, passes) -> None:
    script = Script().on("GET", refused(code))
    with pytest.raises(kind) as caught:
        probe_of(script)
    assert said in caught.value.message
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
    found = blobs.refusal(caught.value)
    assert found is not None
    assert found.passes is passes


def test_any_other_error_stays_as_it_is() -> None:
    script = Script().on("GET", refused("ContainerNotFound", 404))
    with pytest.raises(NotFoundError) as caught:
        probe_of(script)
    assert blobs.refusal(caught.value) is None
    assert caught.value.code == "ContainerNotFound"


def test_a_busy_service_is_asked_again() -> None:
    script = Script().on("GET", failed(503, "ServerBusy"), answer(200, ""))
    probe_of(script)
    assert len(script.requests) == 2
