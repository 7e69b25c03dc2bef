from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import requests
import urllib3
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from support import SUBSCRIPTION, Script, Tokens, answer, broken, failed, listed

from ai4infra.cloud import clouds
from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.session import (
    LONGEST_WAIT_SECONDS,
    RETRIES,
    Session,
    TokenCache,
    make_transport,
    may_have_token,
    read_metadata,
)
from ai4infra.cloud.translate import translated
from ai4infra.errors import (
    ConflictError,
    ForbiddenError,
    NetworkError,
    NotFoundError,
    NotRegisteredError,
    ServiceError,
    SignInError,
    ThrottledError,
)

INVALID_TOKEN = 'Bearer authorization_uri="https://login.windows.net/x", error="invalid_token"'
EXPIRED = failed(401, "ExpiredAuthenticationToken", "Expired.", www_authenticate=INVALID_TOKEN)


def test_a_get_asks_the_arm_endpoint_with_the_api_version_and_the_token() -> None:
    script = Script().on("/subscriptions", answer(body={"a": 1}))
    body = script.session().get("/subscriptions", "2022-12-01", params={"x": "y z"})
    assert json.loads(body) == {"a": 1}
    assert script.urls == [
        "https://management.azure.com/subscriptions?x=y z&api-version=2022-12-01"
    ]
    assert script.tokens == ["Bearer token-1"]
    assert script.requests[0].headers["User-Agent"].startswith("ai4infra")


@pytest.mark.parametrize("value", ["a&b=c", "a#b", "a+b", "ü %25", "location eq 'x'"])
def test_a_parameter_arrives_as_it_was_given(value: str) -> None:
    script = Script().on(".", answer())
    script.session().get("/a", "1", params={"$filter": value})
    query = parse_qs(urlsplit(str(script.requests[0].url)).query)
    assert query == {"$filter": [value], "api-version": ["1"]}


def test_nothing_is_sent_and_no_identity_is_chosen_before_the_first_call() -> None:
    script = Script()
    script.session(credential=None, auth="nonsense")
    assert script.requests == []


def test_all_threads_and_clients_share_one_token() -> None:
    tokens = Tokens()
    script = Script().on(".", listed())
    session = script.session(credential=tokens)
    fan_out(lambda n: session.get(f"/p{n}", "1"), range(20))
    list(session.client(ComputeManagementClient, SUBSCRIPTION).resource_skus.list())
    assert tokens.asked == [("https://management.azure.com/.default",)]


def test_a_token_about_to_end_is_fetched_anew() -> None:
    class Short(Tokens):
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            return AccessToken(super().get_token(*scopes).token, int(time.time()) + 60)

    cache = TokenCache(Short)
    assert [cache.get_token("a").token for _ in range(2)] == ["token-1", "token-2"]


def test_forgetting_an_old_token_keeps_the_new_one() -> None:
    cache = TokenCache(Tokens)
    cache.get_token("a")
    cache.forget("token-1")
    assert cache.get_token("a").token == "token-2"
    cache.forget("token-1")
    assert cache.get_token("a").token == "token-2"


def test_an_expired_token_in_the_middle_is_renewed_once() -> None:
    script = Script().on(".", answer(body=[1]), EXPIRED, answer(body=[2]))
    session = script.session()
    assert session.get("/a", "1") == b"[1]"
    assert session.get("/b", "1") == b"[2]"
    assert script.tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_a_token_refused_twice_is_a_sign_in_error_with_both_ways_on() -> None:
    script = Script().on(".", EXPIRED)
    with pytest.raises(SignInError) as caught:
        script.session().get("/a", "1")
    assert caught.value.code == "ExpiredAuthenticationToken"
    assert "az login" in str(caught.value.hint)
    assert "--sandbox" in str(caught.value.hint)
    assert len(script.requests) == 2


def test_a_claims_challenge_asks_for_a_token_with_the_claims() -> None:
    asked: list[object] = []

    class Claims(Tokens):
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            asked.append(options.get("claims"))
            return super().get_token(*scopes)

    challenge = 'Bearer error="insufficient_claims", claims="eyJhIjoxfQ=="'
    script = Script().on(
        ".", failed(401, "InvalidAuthenticationToken", www_authenticate=challenge), answer()
    )
    script.session(credential=Claims()).get("/a", "1")
    assert asked == [None, '{"a":1}']


@pytest.mark.parametrize("status", [401, 403, 404, 409, 400])
def test_retry_after_zero_on_a_refusal_is_not_retried(status: int) -> None:
    script = Script().on(".", failed(status, "Whatever", retry_after="0"))
    with pytest.raises((SignInError, ForbiddenError, NotFoundError, ConflictError, ServiceError)):
        script.session().get("/a", "1")
    assert len(script.requests) == 1
    assert script.slept == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_retried_with_a_growing_wait(status: int) -> None:
    script = Script().on(".", failed(status, "X"), failed(status, "X"), answer(body=[1]))
    assert script.session().get("/a", "1") == b"[1]"
    assert len(script.slept) == 2
    assert 0 < script.slept[0] < script.slept[1]


def test_retry_after_is_waited_for() -> None:
    script = Script().on(".", failed(429, "TooManyRequests", retry_after="17"), answer(body=[1]))
    script.session().get("/a", "1")
    assert 17 <= script.slept[0] < 18


def test_a_wait_longer_than_bearable_fails_at_once_and_names_it() -> None:
    script = Script().on(".", failed(429, "TooManyRequests", retry_after="1200"))
    with pytest.raises(ThrottledError) as caught:
        script.session().get("/a", "1")
    assert caught.value.retry_after_seconds == 1200
    assert "1200 seconds" in str(caught.value.hint)
    assert script.slept == []


@pytest.mark.parametrize("value", ["soon", "", "-5", "Thu, 99 Foo 2026", "nan", "1e99"])
def test_a_nonsensical_retry_after_counts_as_none(value: str) -> None:
    script = Script().on(".", failed(429, "TooManyRequests", retry_after=value))
    with pytest.raises(ThrottledError):
        script.session().get("/a", "1")
    assert len(script.slept) == RETRIES
    assert max(script.slept) < LONGEST_WAIT_SECONDS


def test_throttling_that_stays_ends_after_a_few_retries() -> None:
    script = Script().on(".", failed(429, "TooManyRequests", retry_after="1"))
    with pytest.raises(ThrottledError):
        script.session().get("/a", "1")
    assert len(script.requests) == RETRIES + 1


def test_a_dropped_connection_is_tried_again() -> None:
    dropped = requests.ConnectionError(urllib3.exceptions.ProtocolError("Connection aborted."))
    script = Script().on(".", broken(dropped), answer(body=[1]))
    assert script.session().get("/a", "1") == b"[1]"


def test_a_host_that_stays_away_is_a_network_error() -> None:
    script = Script().on(".", broken(requests.ConnectionError("HTTPSConnectionPool(host='x')")))
    with pytest.raises(NetworkError, match="x cannot be reached"):
        script.session().get("/a", "1")
    assert len(script.requests) == 3


def test_what_a_run_can_do_without_is_not_waited_for_long() -> None:
    script = Script().on(".", broken(requests.ReadTimeout("HTTPSConnectionPool(host='x')")))
    with pytest.raises(NetworkError):
        list(script.session().public_pages("https://x/prices", params={}, what="Cannot read"))
    assert script.timeouts == [(5, 20)]


def test_a_file_of_certificates_that_is_not_there_is_told_with_what_names_it() -> None:
    missing = OSError("Could not find a suitable TLS CA certificate bundle, invalid path: /no.pem")
    with pytest.raises(NetworkError, match=r"invalid path: /no\.pem") as caught:
        Script().on(".", broken(missing)).session().get("/x", "2020-01-01")
    assert "REQUESTS_CA_BUNDLE" in str(caught.value.hint)


def test_an_answer_cut_off_on_the_way_is_asked_for_again_and_then_incomplete() -> None:
    script = Script().on(".", answer(body='{"value": [', content_length="500"))
    with pytest.raises(ServiceError, match="incomplete answer"):
        script.session().get("/a", "1")
    assert len(script.requests) > 1


def test_json_that_ends_too_early_is_asked_for_again() -> None:
    script = Script().on(".", answer(body='{"value": [1, 2'), listed(1))
    assert [bytes(page) for page in script.session().pages("/a", "1")] == [b"[1]"]


def test_json_too_deep_to_be_an_answer_is_incomplete() -> None:
    script = Script().on(".", answer(body="[" * 100_000 + "]" * 100_000))
    with pytest.raises(ServiceError, match="incomplete answer"):
        script.session().get_json("/a", "1", list[Any])


def test_json_that_always_ends_too_early_is_incomplete() -> None:
    script = Script().on(".", answer(body='{"value": [1, 2'))
    with pytest.raises(ServiceError, match="incomplete answer"):
        list(script.session().pages("/a", "1"))
    assert len(script.requests) == 2


def test_a_web_page_with_status_200_is_told_as_one() -> None:
    script = Script().on(".", answer(body="<html><title>Sign in to the proxy</title></html>"))
    with pytest.raises(ServiceError, match=r"a web page \(Sign in to the proxy\)"):
        list(script.session().pages("/a", "1"))


def test_a_failure_hidden_in_status_200_is_found() -> None:
    hidden = {"status": "Failed", "error": {"code": "AuthorizationFailed", "message": "No."}}
    script = Script().on(".", answer(body=hidden))
    with pytest.raises(ForbiddenError):
        list(script.session().pages("/a", "1"))


@pytest.mark.parametrize("body", [{}, {"value": None}, [], "null", {"values": []}])
def test_a_page_without_a_list_is_incomplete(body: object) -> None:
    script = Script().on(".", answer(body=body))
    with pytest.raises(ServiceError):
        list(script.session().pages("/a", "1"))


def test_pages_are_followed_and_the_parameters_sent_once() -> None:
    more = "https://management.azure.com/a?api-version=1&$skiptoken=2"
    script = Script().on("skiptoken", listed(2)).on("/a", listed(1, next_link=more))
    pages = script.session().pages("/a", "1", params={"$filter": "x"})
    assert [bytes(page) for page in pages] == [b"[1]", b"[2]"]
    assert script.urls[1] == more


def test_a_relative_next_link_is_followed() -> None:
    script = Script().on("two", listed(2)).on("/a", listed(1, next_link="/a?page=two"))
    assert len(list(script.session().pages("/a", "1"))) == 2


def test_an_empty_next_link_ends_the_list() -> None:
    script = Script().on(".", answer(body={"value": [], "nextLink": ""}))
    assert len(list(script.session().pages("/a", "1"))) == 1


def test_pages_that_go_round_in_a_circle_are_refused() -> None:
    link = "https://management.azure.com/a?p=2"
    script = Script().on(".", listed(1, next_link=link))
    with pytest.raises(ServiceError, match="back to one another"):
        list(script.session().pages("/a", "1"))


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/a",
        "http://management.azure.com/a",
        "https://management.azure.com.evil.example/a",
        "https://management.azure.com:8443/a",
        "https://management.azure.com:port/a",
        "https://[bad/a",
        "a?relative",
    ],
)
def test_the_token_never_follows_a_link_to_another_host(link: str) -> None:
    script = Script().on(".", listed(1, next_link=link))
    with pytest.raises(ServiceError, match="another host"):
        list(script.session().pages("/a", "1"))
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://management.azure.com/a", True),
        ("https://MANAGEMENT.azure.com:443/a", True),
        ("https://eastus2.management.azure.com?x", True),
        ("http://management.azure.com/a", False),
        ("https://management.azure.com:8443/a", False),
        ("https://xmanagement.azure.com/a", False),
        ("https://evil.example/management.azure.com", False),
        ("https://evil.example\\.management.azure.com/a", False),
        ("https://management.azure.com@evil.example/a", False),
        ("https://evil.example@management.azure.com/a", False),
        ("https://[bad/a", False),
    ],
)
def test_a_token_goes_to_the_arm_host_and_those_below_it(url: str, allowed: bool) -> None:
    assert may_have_token(url, "management.azure.com") is allowed


def test_a_generated_client_does_not_send_the_token_to_another_host_either() -> None:
    script = Script().on(".", listed({"name": "a"}, next_link="https://evil.example/a"))
    client = script.session().client(ComputeManagementClient, SUBSCRIPTION)
    with pytest.raises(ServiceError, match="No token is sent"), translated("Cannot list"):
        list(client.resource_skus.list())
    assert len(script.requests) == 1


def test_a_default_port_in_the_link_is_the_same_host() -> None:
    link = "https://prices.azure.com:443/api?page=2"
    second = answer(body={"Items": [], "NextPageLink": None})
    script = (
        Script().on("page=2", second).on(".", answer(body={"Items": [1], "NextPageLink": link}))
    )
    pages = script.session().public_pages("https://prices.azure.com/api", params={}, what="X")
    assert [bytes(page) for page in pages] == [b"[1]", b"[]"]
    assert script.tokens == [None, None]


def test_a_generated_client_reads_through_the_same_door() -> None:
    script = Script().on("skus", failed(500, "X"), listed({"name": "Standard_NC6"}))
    session = script.session()
    with session.client(ComputeManagementClient, SUBSCRIPTION) as client:
        assert [sku.name for sku in client.resource_skus.list()] == ["Standard_NC6"]
    assert len(script.slept) == 1
    assert session.get("/skus", "1")


def test_a_generated_client_never_registers_a_provider_by_itself() -> None:
    said = "The subscription is not registered to use namespace 'Microsoft.Compute'."
    script = Script().on(".", failed(409, "MissingSubscriptionRegistration", said))
    client = script.session().client(ComputeManagementClient, SUBSCRIPTION)
    with pytest.raises(NotRegisteredError), translated("Cannot list sizes"):
        list(client.resource_skus.list())
    assert [request.method for request in script.requests] == ["GET"]


def test_an_older_generated_client_works_too() -> None:
    script = Script().on(".", answer(body={"namespace": "Microsoft.Quota"}))
    client = script.session().client(ResourceManagementClient, SUBSCRIPTION)
    assert client.providers.get("Microsoft.Quota").namespace == "Microsoft.Quota"


def test_get_json_gives_the_type() -> None:
    script = Script().on(".", answer(body={"a": 1}))
    assert script.session().get_json("/a", "1", dict[str, int]) == {"a": 1}


def test_get_json_of_another_shape_is_a_service_error() -> None:
    script = Script().on(".", answer(body={"a": "b"}))
    with pytest.raises(ServiceError):
        script.session().get_json("/a", "1", dict[str, int])


def test_a_custom_endpoint_is_asked_for_its_audience_once() -> None:
    tokens = Tokens()
    said = {"authentication": {"loginEndpoint": "https://login.x/", "audiences": ["https://a/"]}}
    script = Script().on("metadata/endpoints", answer(body=said)).on(".", answer())
    session = script.session(
        credential=tokens, cloud=clouds.find(arm_endpoint="https://arm.local:8443/")
    )
    session.get("/a", "1")
    session.get("/b", "1")
    assert tokens.asked == [("https://a//.default",)]
    assert [request.headers.get("Authorization") for request in script.requests] == [
        None,
        "Bearer token-1",
        "Bearer token-1",
    ]


@pytest.mark.parametrize("reply", [answer(404, ""), answer(body="<html>"), answer(body=[])])
def test_a_custom_endpoint_that_says_nothing_is_its_own_audience(reply: object) -> None:
    tokens = Tokens()
    script = Script().on("metadata", reply).on(".", answer())  # type: ignore[arg-type]
    cloud = clouds.find(arm_endpoint="https://arm.local")
    script.session(credential=tokens, cloud=cloud).get("/a", "1")
    assert tokens.asked == [("https://arm.local/.default",)]


def test_the_own_cloud_is_found_in_a_list_of_clouds() -> None:
    listed_clouds = [
        {"resourceManager": f"https://{host}/", "authentication": {"audiences": [f"aud-{host}"]}}
        for host in ("one", "two")
    ]
    assert read_metadata(json.dumps(listed_clouds).encode(), "two").audience == "aud-two"


def test_the_trace_tells_requests_without_secrets() -> None:
    lines: list[str] = []
    script = Script().on(".", answer(x_ms_request_id="abc"))
    session = script.session(trace=lines.append)
    session.get("/a", "1", params={"sig": "SECRET", "t": "SECRET", "x": "seen"})
    text = "\n".join(lines)
    assert "GET https://management.azure.com/a" in text
    assert "x=seen" in text
    assert "200" in text
    assert "abc" in text
    assert "SECRET" not in text
    assert "token-1" not in text


def test_the_trace_tells_a_failure_of_the_network() -> None:
    lines: list[str] = []
    script = Script().on(".", broken(requests.ConnectionError("no route")))
    with pytest.raises(NetworkError):
        script.session(trace=lines.append).get("/a", "1")
    assert any("no route" in line for line in lines)


def test_a_netrc_file_does_not_replace_the_token() -> None:
    home = Path(os.environ["HOME"])
    home.mkdir(exist_ok=True)
    (home / ".netrc").write_text("machine arm.local login a password b")
    sent = requests.Request("GET", "https://arm.local/", headers={"Authorization": "Bearer x"})
    transport = make_transport()
    assert transport.session.prepare_request(sent).headers["Authorization"] == "Bearer x"
    transport.close()


def test_a_given_transport_stays_open_and_an_own_one_is_closed() -> None:
    script = Script().on(".", answer())
    transport = script.transport()
    with Session(transport=transport, credential=Tokens()) as session:
        session.get("/a", "1")
    assert transport.session is not None
    with Session(credential=Tokens()) as own:
        assert isinstance(own, Session)


def test_a_bug_in_the_credential_is_not_dressed_up_as_a_sign_in_problem() -> None:
    class Broken:
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Script().session(credential=Broken()).get("/a", "1")


def test_threads_that_waited_for_a_failing_sign_in_fail_with_it() -> None:
    asked: list[str] = []

    class Unable:
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            asked.append(scopes[0])
            raise CredentialUnavailableError(message="Please run 'az login' to set up an account")

    session = Script().session(credential=Unable())
    outcomes = fan_out(lambda n: session.get(f"/p{n}", "1"), range(30))
    assert all(isinstance(outcome.error, SignInError) for outcome in outcomes)
    assert len(asked) == 1


def test_two_threads_that_need_a_new_token_cause_one_request_for_it() -> None:
    started = threading.Barrier(2)

    class Slow(Tokens):
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            return super().get_token(*scopes)

    cache = TokenCache(Slow)

    def both(_: int) -> str:
        started.wait(timeout=5)
        return cache.get_token("a").token

    assert [o.result() for o in fan_out(both, [1, 2])] == ["token-1", "token-1"]


def test_msgspec_types_are_given_undecoded_pages() -> None:
    script = Script().on(".", listed({"a": 1}))
    (page,) = script.session().pages("/a", "1")
    assert msgspec.json.decode(page) == [{"a": 1}]


def test_a_byte_order_mark_before_an_answer_does_no_harm() -> None:
    script = Script().on(".", answer(body='\ufeff{"value": [1, 2]}'))
    assert [bytes(page) for page in script.session().pages("/x", "1")] == [b"[1, 2]"]


def test_a_token_file_that_is_not_there_is_a_sign_in_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "token")
    env = {
        "AZURE_TENANT_ID": "t",
        "AZURE_CLIENT_ID": "c",
        "AZURE_FEDERATED_TOKEN_FILE": missing,
        "AZURE_AUTHORITY_HOST": "https://localhost",
    }
    session = Script().session(credential=None, env=env)
    with pytest.raises(SignInError, match="token") as caught:
        session.get("/x", "1")
    assert "AZURE_" in str(caught.value.hint)
