"""The one door to Azure: one credential, one connection pool, one retry policy, one translation.

A ``Session`` reads with ``get``, ``get_json`` and ``pages``, changes with ``write``, asks a blob
service with ``get_blob``, and lends the same door to the generated clients of the SDK with
``client``. It is safe to share between threads.
"""

from __future__ import annotations

import base64
import codecs
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec
import requests
from azure.core import PipelineClient
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    ContentDecodePolicy,
    HTTPPolicy,
    RequestIdPolicy,
    RetryPolicy,
    UserAgentPolicy,
)
from azure.core.pipeline.transport import HttpTransport, RequestsTransport
from azure.core.rest import HttpRequest, HttpResponse
from requests.adapters import HTTPAdapter

from ai4infra.cloud.clouds import PUBLIC, Cloud, scope_of
from ai4infra.cloud.masking import mask
from ai4infra.cloud.rows import is_null
from ai4infra.cloud.signin import credential_for
from ai4infra.cloud.translate import (
    error_of,
    incomplete,
    one_sentence,
    read_envelope,
    retry_after_seconds,
    translated,
)
from ai4infra.errors import Ai4infraError, ServiceError, SignInError

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential
    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from ai4infra.cloud.operations import Pause, Written

T = TypeVar("T")
Trace = Callable[[str], None]
Params = Mapping[str, str]

CONNECT_TIMEOUT_SECONDS = 10
READ_TIMEOUT_SECONDS = 60
LONGEST_WAIT_SECONDS = 60.0
"""The longest Retry-After that is waited for; a longer one fails with ThrottledError."""
RETRIES = 3
RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
POOL_CONNECTIONS = 16
USER_AGENT = "ai4infra"
STORAGE_SCOPE = "https://storage.azure.com/.default"
"""The same in every cloud (https://learn.microsoft.com/azure/storage/blobs/authorize-access-azure-active-directory)."""
_LOOPBACK = ("localhost", "127.0.0.1")
BLOB_API_VERSION = "2023-11-03"
_JSON = "application/json"
# What the SDK has to complain about arrives as an exception; a second line of it would be noise.
logging.getLogger("azure").addHandler(logging.NullHandler())
_HURRY: dict[str, Any] = {
    "connection_timeout": 5,
    "read_timeout": 20,
    "retry_connect": 1,
    "retry_read": 0,
}
"""Nobody waits long for what a run can do without: prices, and the word of a custom endpoint."""
_Client = PipelineClient[HttpRequest, HttpResponse]


class TokenCache:
    """A credential that asks the one behind it once per scope, however many threads want it.

    Works as an azure.core ``TokenCredential``. Tokens live in memory only.
    """

    refresh_seconds = 300
    """A token that ends sooner than this is fetched anew."""
    failure_seconds = 5
    """So long a failure counts for all that waited for it: az can take 30 seconds to fail."""

    def __init__(self, source: Callable[[], TokenCredential]) -> None:
        self._source = source
        self._credential: TokenCredential | None = None
        self._tokens: dict[tuple[Any, ...], AccessToken] = {}
        self._failure: tuple[float, AzureError] | None = None
        self._lock = threading.Lock()

    def get_token(
        self,
        *scopes: str,
        claims: str | None = None,
        tenant_id: str | None = None,
        enable_cae: bool = False,
        **kwargs: Any,
    ) -> AccessToken:
        """Return a token that is good for some minutes. Raises what the credential raises."""
        key = (scopes, tenant_id)
        with self._lock:
            token = self._tokens.get(key)
            if claims or token is None or token.expires_on - time.time() < self.refresh_seconds:
                asked = {"claims": claims, "tenant_id": tenant_id, **kwargs}
                token = self._ask(*scopes, **{k: v for k, v in asked.items() if v})
                self._tokens[key] = token
            return token

    def forget(self, token: str) -> None:
        """Drop a token that the service refuses; one fetched in the meantime stays."""
        with self._lock:
            self._tokens = {k: t for k, t in self._tokens.items() if t.token != token}

    def _ask(self, *scopes: str, **options: Any) -> AccessToken:
        if self._failure and time.monotonic() - self._failure[0] < self.failure_seconds:
            raise self._failure[1]
        if self._credential is None:
            self._credential = self._source()
        try:
            return self._credential.get_token(*scopes, **options)
        except AzureError as error:
            self._failure = (time.monotonic(), error)
            raise
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise SignInError(
                f"Cannot sign in: {one_sentence(str(error))}",
                hint="Look at the file that the AZURE_… variables of the identity name.",
            ) from error


class ArmAuthentication(BearerTokenCredentialPolicy[Any, Any]):
    """Sends the token, over https and to the cloud's own host only; renews a refused one once."""

    def __init__(self, tokens: TokenCache, scope: Callable[[], str], host: str) -> None:
        super().__init__(tokens)
        self._cache = tokens
        self._scope = scope
        self._host = host

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Authorize the request, or refuse to send it."""
        url = request.http_request.url
        if not may_have_token(url, self._host):
            raise ServiceError(f"No token is sent to {url.partition('?')[0]}, another host.")
        self.authorize_request(request, self._scope())

    def authorize_request(self, request: PipelineRequest[Any], *scopes: str, **kwargs: Any) -> None:
        """Put a token on the request."""
        # The base keeps its token in a field that another thread may clear between set and use.
        token = self._cache.get_token(*(scopes or (self._scope(),)), **kwargs).token
        request.http_request.headers["Authorization"] = f"Bearer {token}"

    def on_challenge(
        self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]
    ) -> bool:
        """Refresh a token that the service calls invalid; leave other challenges to the SDK."""
        challenge = response.http_response.headers.get("WWW-Authenticate", "")
        sent = request.http_request.headers.get("Authorization", "").removeprefix("Bearer ")
        self._cache.forget(sent)
        if re.search(r'error="?invalid_token', challenge):
            self.authorize_request(request)
            return True
        return super().on_challenge(request, response)


def may_have_token(url: str, arm_host: str) -> bool:
    """Tell whether a URL is https and on the ARM host, or on a regional one below it."""
    match = re.match(r"https://([a-z0-9.-]+(?::\d+)?)(?:[/?#]|$)", url, re.I)
    if match is None:
        return False
    host, own = match[1].lower().removesuffix(":443"), arm_host.removesuffix(":443")
    return host == own or host.endswith(f".{own}")


class BoundedRetry(RetryPolicy[Any, Any]):
    """The SDK's retry policy with bounded waits.

    The SDK retries any status that comes with Retry-After, even 401, 403 and 409, and waits as
    long as it is told. Here only ``RETRIED_STATUSES`` are retried, and a wait of more than
    ``LONGEST_WAIT_SECONDS`` isn't made.
    """

    def __init__(self) -> None:
        super().__init__(
            retry_total=RETRIES,
            retry_connect=2,
            retry_read=1,
            retry_backoff_factor=0.5,
            retry_backoff_max=20,
        )

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        """Tell whether to send the request again."""
        if response.http_response.status_code not in RETRIED_STATUSES or settings["total"] <= 0:
            return False
        wait = self.get_retry_after(response)
        if wait is not None:
            return wait <= LONGEST_WAIT_SECONDS
        return bool(super().is_retry(settings, response))

    def get_retry_after(self, response: PipelineResponse[Any, Any]) -> float | None:
        """Return the seconds that the service names; None for none, zero or nonsense."""
        return retry_after_seconds(response.http_response.headers)

    def sleep(
        self,
        settings: dict[str, Any],
        transport: HttpTransport[Any, Any],
        response: PipelineResponse[Any, Any] | None = None,
    ) -> None:
        """Wait before the next try; a little longer each time, and never all at once."""
        named = self.get_retry_after(response) if response is not None else None
        tries = len(settings["history"])
        backoff = min(settings["max_backoff"], settings["backoff"] * 2**tries)
        # Spread, so that eight requests refused together don't come back together.
        transport.sleep((named or backoff) + backoff * random.uniform(0, 0.5))  # noqa: S311


class TracePolicy(HTTPPolicy[Any, Any]):
    """Tells one masked line per request and per answer to whoever listens."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send the request on, with a line before and after."""
        sent = request.http_request
        name = mask(f"{sent.method} {unquote(sent.url)}")
        started = time.monotonic()
        self._trace(f"> {name}")
        try:
            response = self.next.send(request)
        except AzureError as error:
            self._trace(f"< {name}: {mask(str(error))}")
            raise
        got = response.http_response
        took = time.monotonic() - started
        self._trace(f"< {got.status_code} after {took:.2f} s, {_ids(got.headers)}")
        return response


def _ids(headers: Mapping[str, str]) -> str:
    wanted = ("content-length", "retry-after", "x-ms-request-id", "x-ms-correlation-request-id")
    return ", ".join(f"{name} {headers[name]}" for name in wanted if headers.get(name))


class SharedTransport(HttpTransport[Any, Any]):
    """A transport that many clients share: closing one client doesn't close it."""

    def __init__(self, transport: HttpTransport[Any, Any]) -> None:
        self._transport = transport

    def send(self, request: Any, **kwargs: Any) -> Any:
        """Send the request through the shared transport."""
        return self._transport.send(request, **kwargs)

    def sleep(self, duration: float) -> None:
        """Sleep as the shared transport does."""
        self._transport.sleep(duration)

    def open(self) -> None:
        """Open the shared transport."""
        self._transport.open()

    def close(self) -> None:
        """Leave the shared transport open."""

    def __enter__(self) -> SharedTransport:
        self.open()
        return self

    def __exit__(self, *args: object) -> None:
        pass


def make_transport() -> RequestsTransport:
    """Return a transport with our time limits and a pool that the fan-out fits in."""
    session = requests.Session()
    adapter = HTTPAdapter(pool_connections=POOL_CONNECTIONS, pool_maxsize=POOL_CONNECTIONS)
    session.mount("https://", adapter)
    # Without an auth of its own, requests lets ~/.netrc replace the Authorization header.
    session.auth = lambda request: request
    return RequestsTransport(
        session=session,
        connection_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
    )


class _Page(
    msgspec.Struct, rename={"next_link": "nextLink", "next_page": "NextPageLink", "items": "Items"}
):
    """What every page has, however long its list is."""

    value: msgspec.Raw = msgspec.Raw()
    items: msgspec.Raw = msgspec.Raw()
    next_link: str | None = None
    next_page: str | None = None
    """The retail price list's spelling."""

    @property
    def rows(self) -> msgspec.Raw | None:
        return next((rows for rows in (self.value, self.items) if not is_null(rows)), None)

    def link(self, base: str) -> str | None:
        link = self.next_link or self.next_page
        return urljoin(base, link) if link and link.startswith("/") else link


class Session:
    """The one door to Azure. Nothing is sent, and no identity chosen, before the first call.

    ``credential`` replaces the choice of identity, ``auth`` (``env``, ``workload``, ``msi``,
    ``cli``) forces it; see ``signin.choose``. ``az_tenant`` is the tenant that the az sign-in is
    asked for a token of. ``trace`` receives masked request lines.
    All methods raise errors of ``ai4infra.errors`` only.
    """

    def __init__(
        self,
        *,
        cloud: Cloud = PUBLIC,
        credential: TokenCredential | None = None,
        auth: str | None = None,
        client_id: str | None = None,
        tenant_id: str | None = None,
        az_tenant: str | None = None,
        transport: HttpTransport[Any, Any] | None = None,
        env: Mapping[str, str] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.cloud = cloud
        self._own = None if transport else make_transport()
        self.transport = SharedTransport(transport or cast("HttpTransport[Any, Any]", self._own))
        self._trace = trace
        self._endpoints = _Endpoints(cloud)
        self._endpoints_lock = threading.Lock()

        def choose() -> TokenCredential:
            return credential or credential_for(
                auth=auth,
                client_id=client_id,
                tenant_id=tenant_id,
                az_tenant=az_tenant,
                authority=self._endpoints.authority,
                env=os.environ if env is None else env,
                client=self._public,
            )

        self.tokens = TokenCache(choose)
        self._arm = self._pipeline(self._authentication())
        self._public = self._pipeline(None)

    def get(
        self, path: str, api_version: str, *, params: Params | None = None, what: str | None = None
    ) -> bytes:
        """Return the body of a Resource Manager GET, checked for status but not decoded.

        ``what`` says what is tried, as the start of an error sentence.
        """
        url = f"{self.cloud.arm}/{path.lstrip('/')}"
        query = {**(params or {}), "api-version": api_version}
        return self._read(self._arm, url, query, what or f"Cannot read {path}")

    def get_json(
        self,
        path: str,
        api_version: str,
        type: type[T],  # noqa: A002 - as msgspec calls it
        *,
        params: Params | None = None,
        what: str | None = None,
    ) -> T:
        """Return the answer of a Resource Manager GET as the msgspec type."""
        what = what or f"Cannot read {path}"
        return _decoded(lambda: self.get(path, api_version, params=params, what=what), type, what)[
            1
        ]

    def pages(
        self, path: str, api_version: str, *, params: Params | None = None, what: str | None = None
    ) -> Iterator[msgspec.Raw]:
        """Yield the list of each page of a Resource Manager list, as JSON not yet decoded.

        Raises ServiceError when a page stays incomplete after a second try, is no list, links to
        a page that was read already, or links to another host.
        """
        url = f"{self.cloud.arm}/{path.lstrip('/')}"
        query = {**(params or {}), "api-version": api_version}
        return self._follow(self._arm, url, query, what or f"Cannot list {path}")

    def public_pages(self, url: str, *, params: Params, what: str) -> Iterator[msgspec.Raw]:
        """Yield the list of each page of something anybody may read; no token is sent."""
        return self._follow(self._public, url, params, what)

    def write(
        self,
        method: str,
        path: str,
        api_version: str,
        body: Mapping[str, Any] | None = None,
        *,
        what: str,
        pause: Pause | None = None,
    ) -> Written:
        """Send a writing request to Resource Manager, and wait for what it begins.

        A long operation is asked about at its newest address after each ``pause``, which may end
        the waiting by raising; without ``pause`` it is left running.
        """
        # Only here: nobody who reads needs the SDK's polling.
        from ai4infra.cloud import operations

        url = f"{self.cloud.arm}/{path.lstrip('/')}"
        params = {"api-version": quote(api_version, safe="")}
        request = HttpRequest(method, url, params=params, json=body, headers={"Accept": _JSON})
        with translated(what):
            started: Any = self._arm.send_request(request, _return_pipeline_response=True)
            response = started.http_response
            if not HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
                raise error_of(response.status_code, response.headers, response.content, what)
            found = operations.read_body(response)
            running = operations.is_running(response.status_code, response.headers, found)
            if running and pause is not None:
                found = operations.finish(self._arm, started, url, pause)
                running = False
        return operations.Written(status=response.status_code, body=found, running=running)

    def get_blob(self, url: str, *, what: str) -> bytes:
        """Return the body of a GET to a blob service of this cloud, with a token for storage only.

        Raises ServiceError for a host that is no blob service of this cloud.
        """
        host = self._blob_host(url)
        if host is None:
            raise ServiceError(f"{what}: {url.partition('?')[0]} is no blob service of this cloud.")
        client = self._pipeline(ArmAuthentication(self.tokens, lambda: STORAGE_SCOPE, host))
        headers = {"x-ms-version": BLOB_API_VERSION}
        with translated(what):
            response = client.send_request(HttpRequest("GET", url, headers=headers))
        if response.status_code != HTTPStatus.OK:
            raise error_of(response.status_code, response.headers, response.content, what)
        return response.content

    def _blob_host(self, url: str) -> str | None:
        """Return the host at which a blob service may be sent a token; None for any other.

        A cloud that is served on this machine has its blobs there, at the same port.
        """
        hosts = [self.cloud.blob_suffix] if self.cloud.blob_suffix else []
        name, _, port = self.cloud.host.partition(":")
        if name in _LOOPBACK:
            hosts += [f"{each}:{port}" for each in _LOOPBACK]
        return next((host for host in hosts if may_have_token(url, host)), None)

    def claims(self) -> dict[str, Any]:
        """Return what our own Resource Manager token says of us; empty where it cannot be read.

        Nothing is verified: the service does that.
        """
        with translated("Cannot sign in"):
            token = self.tokens.get_token(self._arm_scope()).token
        try:
            payload = token.split(".")[1]
            found = msgspec.json.decode(
                base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            )
        except (IndexError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def client(self, client_class: Callable[..., T], subscription_id: str, **options: Any) -> T:
        """Return a generated client of the SDK that uses this door.

        Wrap its calls in ``translate.translated``. It never registers a resource provider by
        itself, and closing it leaves the connections open.
        """
        return client_class(
            credential=self.tokens,
            subscription_id=subscription_id,
            base_url=self.cloud.arm,
            credential_scopes=[self._arm_scope()],
            transport=self.transport,
            policies=[ContentDecodePolicy(), *self._policies(self._authentication())],
            **options,
        )

    def close(self) -> None:
        """Close the connections, unless the transport was given by the caller."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _authentication(self) -> ArmAuthentication:
        return ArmAuthentication(self.tokens, self._arm_scope, self.cloud.host)

    def _policies(self, authentication: HTTPPolicy[Any, Any] | None) -> list[Any]:
        policies = [
            RequestIdPolicy(),
            UserAgentPolicy(base_user_agent=USER_AGENT),
            BoundedRetry(),
            authentication,
            TracePolicy(self._trace) if self._trace else None,
        ]
        return [policy for policy in policies if policy is not None]

    def _pipeline(self, authentication: HTTPPolicy[Any, Any] | None) -> _Client:
        return PipelineClient(
            self.cloud.arm, transport=self.transport, policies=self._policies(authentication)
        )

    def _read(self, client: _Client, url: str, params: Params, what: str) -> bytes:
        # HttpRequest puts parameters into the URL as they are.
        quoted = {name: quote(value, safe="") for name, value in params.items()}
        request = HttpRequest("GET", url, params=quoted, headers={"Accept": _JSON})
        with translated(what):
            response = client.send_request(request, **(_HURRY if client is self._public else {}))
        if response.status_code != HTTPStatus.OK:
            raise error_of(response.status_code, response.headers, response.content, what)
        return response.content.removeprefix(codecs.BOM_UTF8)

    def _follow(
        self, client: _Client, url: str, params: Params, what: str
    ) -> Iterator[msgspec.Raw]:
        seen = set()
        link: str | None = url
        while link:
            if link in seen:
                raise ServiceError(f"{what}: the service's pages lead back to one another.")
            if not _same_origin(link, url):
                raise ServiceError(
                    f"{what}: the next page is on another host, {link.partition('?')[0]!r}.",
                    hint="If it is a proxy's name, set the endpoint to that name.",
                )
            seen.add(link)
            rows, next_link = self._page(client, link, params, what)
            yield rows
            params, link = {}, next_link

    def _page(
        self, client: _Client, url: str, params: Params, what: str
    ) -> tuple[msgspec.Raw, str | None]:
        body, page = _decoded(lambda: self._read(client, url, params, what), _Page, what)
        if page.rows is not None:
            return page.rows, page.link(url)
        if read_envelope(body):
            raise error_of(HTTPStatus.OK, {}, body, what)
        raise incomplete(what, body[:500].decode("utf-8", "replace"))

    def _arm_scope(self) -> str:
        with self._endpoints_lock:
            if self._endpoints.scope is None:
                self._endpoints = self._ask_endpoints()
            return self._endpoints.scope or scope_of(self.cloud.arm)

    def _ask_endpoints(self) -> _Endpoints:
        """Ask a custom ARM endpoint for its audience; without an answer it is its own."""
        url = f"{self.cloud.arm}/metadata/endpoints"
        try:
            body = self._read(self._public, url, {"api-version": "2015-01-01"}, "Cannot ask")
        except Ai4infraError:
            body = b""
        return _Endpoints(self.cloud, read_metadata(body, self.cloud.host))


class Metadata(msgspec.Struct):
    """What ``/metadata/endpoints`` says of signing in."""

    audience: str | None = None
    login: str | None = None


def read_metadata(body: bytes, host: str) -> Metadata:
    """Read the answer of ``/metadata/endpoints``: one cloud, or a list of clouds."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return Metadata()
    clouds = [item for item in (found if isinstance(found, list) else [found]) if _is_cloud(item)]
    mine = [c for c in clouds if urlsplit(str(c.get("resourceManager"))).netloc == host]
    chosen = (mine or clouds or [{}])[0].get("authentication", {})
    audiences = chosen.get("audiences")
    return Metadata(
        audience=str(audiences[0]) if isinstance(audiences, list) and audiences else None,
        login=str(chosen["loginEndpoint"]) if chosen.get("loginEndpoint") else None,
    )


def _is_cloud(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("authentication"), dict)


class _Endpoints:
    """Scope and sign-in host, as the table or the endpoint itself tells them."""

    def __init__(self, cloud: Cloud, said: Metadata | None = None) -> None:
        self.scope = cloud.scope
        self.authority = cloud.authority
        if said is not None:
            self.scope = scope_of(said.audience or cloud.arm)
            self.authority = cloud.authority or said.login


def _same_origin(link: str, url: str) -> bool:
    try:
        return _origin(link) == _origin(url)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or 443


def _decoded(read: Callable[[], bytes], type_: type[T], what: str) -> tuple[bytes, T]:
    """Return body and value; a body that isn't JSON to its end is asked for once more."""
    decoder = msgspec.json.Decoder(type_)
    for last_try in (False, True):
        body = read()
        try:
            return body, decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            if last_try:
                raise _unreadable(body, error, what) from error
    raise AssertionError


def _unreadable(body: bytes, error: Exception, what: str) -> Ai4infraError:
    start = body.lstrip()[:1]
    if start == b"<":
        return error_of(HTTPStatus.OK, {}, body, what)
    return incomplete(what, f"{error}: {body[:500].decode('utf-8', 'replace')}")
