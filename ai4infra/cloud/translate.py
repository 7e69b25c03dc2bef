"""Turns whatever Azure, the SDK or the network says into one error of ours."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)

from ai4infra.cloud.masking import mask
from ai4infra.errors import (
    Ai4infraError,
    ConflictError,
    ForbiddenError,
    NetworkError,
    NotFoundError,
    NotRegisteredError,
    PolicyDeniedError,
    ServiceError,
    SignInError,
    ThrottledError,
)
from ai4infra.model import Record

LONGEST_SENTENCE = 400
_DEEPEST = 8
SIGN_IN_HINT = "Sign in with `az login`, or try everything without a subscription: add `--sandbox`."
MANAGED_IDENTITY_HINT = (
    "Give this machine a managed identity, and name a user-assigned one with `--client-id`; away"
    " from Azure, sign in with `az login` and add `--auth cli`, or try everything with `--sandbox`."
)
_WRAPPERS = frozenset(
    [
        "deploymentfailed",
        "invalidtemplatedeployment",
        "multipleerrorsoccurred",
        "resourcedeploymentfailure",
        "batchoperationfailed",
        "preflightvalidationcheckfailed",
    ]
)


class Envelope(Record, frozen=True):
    """What an error body says, whichever of its shapes it came in."""

    code: str | None = None
    message: str | None = None
    policies: tuple[str, ...] = ()
    """One line per policy that refused: its name, the property and the wanted value."""


class QuotaNumbers(Record, frozen=True):
    """The numbers inside a quota message of Microsoft.Compute; counts are vCPUs."""

    quota: str
    """As the message names it: ``standardDASv5Family Cores``, ``Core``."""
    limit: int
    used: int
    required: int
    new_limit: int
    region: str | None = None


def read_envelope(body: bytes | str) -> Envelope | None:
    """Return what an error body says, or None when it isn't an error in JSON.

    Reads ``{"error": {...}}``, bare ``code``/``message`` in any case, OData, OAuth, JSON inside
    a JSON string, and the first detail of codes that only wrap others.
    """
    text = body.decode("utf-8-sig", "replace") if isinstance(body, bytes) else body
    return _envelope(_json(text), depth=0)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _envelope(value: object, depth: int) -> Envelope | None:
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return _envelope(_json(value), depth + 1)
    if not isinstance(value, dict):
        return None
    fields = {str(key).casefold(): item for key, item in value.items()}
    for key in ("error", "odata.error"):
        if isinstance(fields.get(key), dict):
            return _envelope(fields[key], depth + 1)
    return _inner(fields, depth) or _fields(fields)


def _inner(fields: dict[str, Any], depth: int) -> Envelope | None:
    """Return the cause of an error that only wraps another one."""
    message = fields.get("message")
    if isinstance(message, str) and message.lstrip().startswith("{"):
        return _envelope(message, depth + 1)
    details = fields.get("details")
    wraps = str(fields.get("code")).casefold() in _WRAPPERS
    if not wraps or not isinstance(details, list) or not details:
        return None
    return _envelope(details[0], depth + 1)


def _fields(fields: dict[str, Any]) -> Envelope | None:
    code, message = fields.get("code"), fields.get("message")
    if isinstance(fields.get("error"), str):  # OAuth: the code is the error itself
        code, message = fields["error"], fields.get("error_description")
    if isinstance(message, dict):
        message = message.get("value")
    if code is None and message is None:
        return None
    return Envelope(
        code=str(code) if code is not None else None,
        message=str(message) if message else None,
        policies=tuple(_policies(fields.get("additionalinfo"))),
    )


def _policies(additional: object) -> Iterator[str]:
    for entry in additional if isinstance(additional, list) else []:
        info = entry.get("info") if isinstance(entry, dict) else None
        if isinstance(info, dict):
            yield _policy(info)


def _policy(info: dict[str, Any]) -> str:
    name = info.get("policyDefinitionDisplayName") or info.get("policyDefinitionName")
    assignment = info.get("policyAssignmentDisplayName") or info.get("policyAssignmentName")
    details = info.get("evaluationDetails")
    expressions = details.get("evaluatedExpressions") if isinstance(details, dict) else None
    wanted = [_expression(item) for item in expressions or [] if isinstance(item, dict)]
    return f"policy {name!r} (assigned as {assignment!r})" + "".join(f"; {w}" for w in wanted)


def _expression(item: dict[str, Any]) -> str:
    path = item.get("path") or item.get("expression")
    return (
        f"{path} is {item.get('expressionValue')!r}, "
        f"the policy tests {item.get('operator')} {item.get('targetValue')!r}"
    )


def one_sentence(text: str) -> str:
    """Return the text masked, on one line, ended, and cut at a word where it is endless."""
    line = " ".join(mask(text).split())
    if len(line) > LONGEST_SENTENCE:
        kept = line[:LONGEST_SENTENCE]
        line = (kept.rsplit(" ", 1)[0] if " " in kept else kept) + " …"
    return line if line.endswith((".", "!", "?", "…")) else f"{line.rstrip(':;,')}."


_NEW_QUOTA = re.compile(
    r"approved (?P<quota>.+?) quota\..*?(?:Location: (?P<region>[\w ]+?),.*?)?"
    r"Current Limit: (?P<limit>\d+), Current Usage: (?P<used>\d+), "
    r"Additional Required: (?P<required>\d+)"
    r"(?:, \(Minimum\) New Limit Required: (?P<new_limit>\d+))?",
    re.S,
)
_OLD_QUOTA = re.compile(
    r"exceeding quota limits of (?P<quota>.+?)\. Maximum allowed: (?P<limit>\d+), "
    r"Current in use: (?P<used>\d+), Additional requested: (?P<required>\d+)"
)


def quota_numbers(message: str) -> QuotaNumbers | None:
    """Read the numbers out of either wording of Compute's quota message."""
    match = _NEW_QUOTA.search(message) or _OLD_QUOTA.search(message)
    if match is None:
        return None
    found = match.groupdict()
    used, required = int(found["used"]), int(found["required"])
    return QuotaNumbers(
        quota=found["quota"],
        limit=int(found["limit"]),
        used=used,
        required=required,
        new_limit=int(found.get("new_limit") or used + required),
        region=found.get("region"),
    )


def retry_after_seconds(headers: Mapping[str, str], message: str | None = None) -> float | None:
    """Return the wait that a response names: by header, or in the sentence of its message.

    Knows seconds and HTTP dates; a header that is neither counts as none. Never negative.
    """
    for name, unit in (
        ("retry-after", 1.0),
        ("retry-after-ms", 0.001),
        ("x-ms-retry-after-ms", 0.001),
    ):
        seconds = _seconds(headers.get(name), unit, headers.get("date"))
        if seconds:
            return seconds
    said = re.search(r"(?:again|retry) (?:after|in) '?(\d+)'? seconds", message or "", re.I)
    return float(said[1]) if said else None


def _seconds(value: str | None, unit: float, now: str | None) -> float | None:
    if not value:
        return None
    try:
        seconds = float(value) * unit
    except ValueError:
        return _until(value, now)
    return max(0.0, seconds) if seconds < 1e9 else None


def _until(date: str, now: str | None) -> float | None:
    """Return the seconds from the answer's own date on: our clock may be wrong."""
    try:
        start = parsedate_to_datetime(now) if now else datetime.now(timezone.utc)
        return max(0.0, (parsedate_to_datetime(date) - start).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


class Answer(Record, frozen=True):
    """A failed answer, read as far as it can be."""

    status: int | None
    code: str | None
    text: str
    """The message, masked and on one line."""
    policies: tuple[str, ...]
    retry_after_seconds: float | None
    what: str
    raw: str

    @property
    def message(self) -> str:
        """The message as one sentence of bearable length."""
        return one_sentence(self.text)

    def build(
        self,
        kind: type[Ai4infraError],
        hint: str | None = None,
        *,
        message: str | None = None,
        detail: str | None = None,
    ) -> Ai4infraError:
        """Return an error of the kind, with the answer's code, status and body."""
        return kind(
            message or f"{self.what}: {self.message}",
            code=self.code,
            hint=hint,
            status=self.status,
            detail=detail or self.raw or None,
        )


def error_of(
    status: int | None, headers: Mapping[str, str], body: bytes | str, what: str
) -> Ai4infraError:
    """Return the error for a failed answer; ``what`` says what was tried (``Cannot list …``)."""
    answer = _read(status, headers, body, what)
    by_code = _BY_CODE.get((answer.code or "").casefold())
    if by_code is not None:
        return by_code(answer)
    return _by_status(answer)


def _read(status: int | None, headers: Mapping[str, str], body: bytes | str, what: str) -> Answer:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    said = read_envelope(text) or Envelope()
    return Answer(
        status=status,
        code=said.code or headers.get("x-ms-error-code"),
        text=" ".join(mask(said.message or _describe(status, text)).split()),
        policies=said.policies,
        retry_after_seconds=retry_after_seconds(headers, said.message),
        what=what,
        raw=mask(text)[:8000],
    )


def _describe(status: int | None, text: str) -> str:
    """Say what came where no message did."""
    start = text.lstrip()[:200].casefold()
    if "<html" in start or start.startswith(("<!doctype", "<?xml")):
        title = re.search(r"<(?:title|h1|h2)[^>]*>([^<]+)<", text, re.I)
        said = f" ({title[1].strip()})" if title else ""
        return f"the answer was a web page{said} instead of data, with HTTP status {status}."
    if not start:
        return f"the service answered with HTTP status {status} and nothing else."
    if _json(text) is not None:
        return f"the service answered with HTTP status {status} and no reason."
    return f"the service answered with HTTP status {status}: {text}"


def _by_status(answer: Answer) -> Ai4infraError:
    status = answer.status or 0
    if status == 429:
        return _throttled(answer) if _is_throttling(answer) else _busy(answer)
    if status >= 500 or status == 408:
        return answer.build(ServiceError, "The service has trouble; try again in a few minutes.")
    kinds: dict[int, tuple[type[Ai4infraError], str | None]] = {
        401: (SignInError, SIGN_IN_HINT),
        403: (ForbiddenError, "Ask an owner of the subscription for the right to do this."),
        404: (NotFoundError, "Check the name, the resource group and the subscription."),
        409: (ConflictError, "Look at the state of the resource, then run this again."),
        412: (ConflictError, "Somebody changed it in the meantime; run this again."),
    }
    kind, hint = kinds.get(status, (ServiceError, "Run again with --debug to see the answer."))
    return answer.build(kind, hint)


def _is_throttling(answer: Answer) -> bool:
    code = (answer.code or "").casefold()
    return (
        not code
        or code.isdigit()
        or re.search(r"throttl|too ?many ?requests|limit", f"{code} {answer.message}", re.I)
        is not None
    )


def _busy(answer: Answer) -> Ai4infraError:
    return answer.build(ConflictError, "The resource is busy; run this again in a minute.")


def _throttled(answer: Answer) -> Ai4infraError:
    wait = answer.retry_after_seconds
    when = f"in {wait:.0f} seconds" if wait else "in a few minutes"
    return ThrottledError(
        f"{answer.what}: {answer.message}",
        retry_after_seconds=wait,
        code=answer.code,
        hint=f"The service asks for fewer requests; run this again {when}.",
        status=answer.status,
        detail=answer.raw or None,
    )


_ROLES: tuple[tuple[str, str], ...] = (
    ("microsoft.authorization/roleassignments/", "Role Based Access Control Administrator"),
    ("microsoft.authorization/locks/", "User Access Administrator"),
    ("microsoft.quota/quotas/read", "Reader"),
    ("microsoft.quota/", "Quota Request Operator"),
    ("microsoft.storage/", "Storage Account Contributor"),
    ("microsoft.consumption/budgets/", "Cost Management Contributor"),
)


def role_for(action: str) -> str:
    """Return the least built-in role that usually allows the action."""
    low = action.casefold()
    if low.endswith("/read"):
        return "Reader"
    return next((role for prefix, role in _ROLES if low.startswith(prefix)), "Contributor")


def _forbidden(answer: Answer) -> Ai4infraError:
    match = re.search(r"perform action '([^']+)'.*?over scope '([^']+)'", answer.text)
    if match is None:
        return answer.build(ForbiddenError, "Ask an owner of the scope for the right to do this.")
    action, scope = match.groups()
    return answer.build(
        ForbiddenError,
        f"Ask an owner for the role {role_for(action)!r} on {scope}; "
        "a role granted just now takes some minutes, and a new sign-in, to work.",
        message=f"{answer.what}: not allowed to do {action} on {scope}.",
    )


def _policy_denied(answer: Answer) -> Ai4infraError:
    lines = list(answer.policies) or _named_policies(answer.raw)
    message = f"{answer.what}: Azure Policy refuses it"
    return answer.build(
        PolicyDeniedError,
        "Change what the policy tests, or ask the policy's owner for an exemption.",
        message=f"{message}: {one_sentence(lines[0])}" if lines else f"{message}. {answer.message}",
        detail="\n".join([*lines, answer.raw]),
    )


def _named_policies(raw: str) -> list[str]:
    names = re.findall(r'policyDefinition\\*":\s*{\\*"name\\*":\s*\\*"([^"\\]+)', raw)
    return [f"policy {name!r}" for name in names]


def _not_registered(answer: Answer) -> Ai4infraError:
    match = re.search(r"namespace '([\w.]+)'", answer.message)
    name = match[1] if match else "<namespace>"
    return answer.build(
        NotRegisteredError,
        f"Register it once: az provider register --namespace {name} --wait",
        message=f"{answer.what}: the subscription is not registered for {name}.",
    )


def _sign_in_again(answer: Answer) -> Ai4infraError:
    return answer.build(SignInError, f"The sign-in has expired or is not valid. {SIGN_IN_HINT}")


def _wrong_tenant(answer: Answer) -> Ai4infraError:
    tenants = re.findall(r"sts\.windows\.net/([0-9a-f-]{36})", answer.message, re.I)
    where = f" --tenant {tenants[-1]}" if tenants else " --tenant <tenant of the subscription>"
    return answer.build(
        SignInError,
        f"The subscription belongs to another tenant: az login{where}",
        message=f"{answer.what}: the sign-in is for another tenant than the subscription's.",
    )


def _disabled(answer: Answer) -> Ai4infraError:
    return answer.build(
        ForbiddenError,
        "The subscription's owner can enable it again in the portal, under Subscriptions; or use"
        " another one: --subscription NAME.",
    )


def _no_subscription(answer: Answer) -> Ai4infraError:
    return answer.build(
        NotFoundError,
        "See which ones this sign-in reaches: az account list -o table; "
        "a subscription of another tenant needs az login --tenant <tenant>.",
    )


def _not_found(answer: Answer) -> Ai4infraError:
    return answer.build(NotFoundError, "Check the name, the resource group and the subscription.")


def _locked(answer: Answer) -> Ai4infraError:
    return answer.build(
        ConflictError, "A lock protects it; see it with az lock list, and ask who set it."
    )


def _no_capacity(answer: Answer) -> Ai4infraError:
    return answer.build(
        ConflictError,
        "Azure has none of it to give there now; try another zone, region or size: "
        "`ai4infra recon --all-regions --startable` lists them.",
    )


def _exists(answer: Answer) -> Ai4infraError:
    return answer.build(ConflictError, "It exists already; choose another name or use it.")


def _not_allowed(answer: Answer) -> Ai4infraError:
    numbers = quota_numbers(answer.text)
    if answer.status == 429:
        return _throttled(answer)
    if numbers is None:
        return _by_status(answer)
    return _over_quota(answer, numbers)


def _quota_row(named: str) -> str:
    """Return the name of the quota row that a message speaks of (``Total Regional Cores``)."""
    name = re.sub(r"(?i) cores?$", "", named.strip())
    pools = {"total regional": "cores", "core": "cores", "cores": "cores"}
    spot = re.search(r"low.?priority|spot", name, re.I)
    return "lowPriorityCores" if spot else pools.get(name.casefold(), name)


def _over_quota(answer: Answer, numbers: QuotaNumbers) -> Ai4infraError:
    where = f" in {numbers.region}" if numbers.region else ""
    region = numbers.region or "<region>"
    family = shlex.quote(_quota_row(numbers.quota))
    return answer.build(
        ConflictError,
        f"Ask for more: ai4infra quota request --region {region} "
        f"--family {family} --limit {numbers.new_limit}",
        message=(
            f"{answer.what}: quota {numbers.quota}{where} is used up: limit {numbers.limit}, "
            f"used {numbers.used}, {numbers.required} more required, "
            f"new limit needed {numbers.new_limit}."
        ),
    )


_Translator = Callable[[Answer], Ai4infraError]
_HANDLERS: tuple[tuple[str, _Translator], ...] = (
    ("AuthorizationFailed LinkedAuthorizationFailed", _forbidden),
    ("RequestDisallowedByPolicy", _policy_denied),
    (
        "MissingSubscriptionRegistration SubscriptionNotRegistered MissingRegistration",
        _not_registered,
    ),
    (
        "InvalidAuthenticationToken ExpiredAuthenticationToken AuthenticationFailed "
        "AuthenticationFailedMissingToken InvalidAuthenticationInfo",
        _sign_in_again,
    ),
    ("InvalidAuthenticationTokenTenant", _wrong_tenant),
    ("SubscriptionNotFound InvalidSubscriptionId", _no_subscription),
    ("ReadOnlyDisabledSubscription SubscriptionDisabled SubscriptionIsDisabled", _disabled),
    ("ResourceNotFound ResourceGroupNotFound ParentResourceNotFound NotFound", _not_found),
    ("ScopeLocked", _locked),
    (
        "SkuNotAvailable AllocationFailed ZonalAllocationFailed OverconstrainedAllocationRequest "
        "OverconstrainedZonalAllocationRequest",
        _no_capacity,
    ),
    ("StorageAccountAlreadyTaken StorageAccountAlreadyExists RoleAssignmentExists", _exists),
    ("OperationNotAllowed QuotaExceeded", _not_allowed),
    (
        "TooManyRequests SubscriptionRequestsThrottled ResourceRequestsThrottled "
        "TenantRequestsThrottled ResourceCollectionRequestsThrottled",
        _throttled,
    ),
)
_BY_CODE: dict[str, _Translator] = {
    code.casefold(): handler for codes, handler in _HANDLERS for code in codes.split()
}


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Let nothing of the SDK out: any error of azure.core leaves as one of ours.

    ``what`` says what was tried, as the start of a sentence: ``Cannot list the sizes of eastus``.
    Iterate inside the block: the SDK's pagers ask only when they are iterated.
    """
    try:
        yield
    except AzureError as error:
        raise translate(error, what) from error
    except OSError as error:
        # requests raises one, past the SDK, for a file of certificates that isn't there.
        raise NetworkError(
            f"{what}: {one_sentence(str(error))}",
            hint="Check REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and the proxy settings.",
        ) from error


def translate(error: AzureError, what: str) -> Ai4infraError:
    """Return our error for one of azure.core's."""
    if isinstance(error, IncompleteReadError | DecodeError):
        return incomplete(what, str(error))
    if isinstance(error, ClientAuthenticationError) and _aadsts(str(error)):
        return sign_in_error(error, what)
    response = getattr(error, "response", None)
    if isinstance(error, HttpResponseError) and response is not None:
        return error_of(response.status_code, response.headers, _body(response), what)
    if isinstance(error, ClientAuthenticationError):
        return sign_in_error(error, what)
    if isinstance(error, ServiceRequestError | ServiceResponseError):
        return _network(error, what)
    return ServiceError(
        f"{what}: {one_sentence(str(error))}", hint="Run again with --debug to see more."
    )


def incomplete(what: str, detail: str | None = None) -> ServiceError:
    """Return the error for an answer that ends before it is complete, or is not what it says."""
    return ServiceError(
        f"{what}: the service sent an incomplete answer.",
        hint="Run this again; if it stays, look at the proxy between here and Azure.",
        detail=mask(detail) if detail else None,
    )


def _body(response: Any) -> bytes:
    try:
        body: bytes = response.content if hasattr(response, "content") else response.body()
    except AzureError:
        return b""
    return body


def sign_in_error(error: Exception, what: str) -> SignInError:
    """Return the error for a credential that gives no token."""
    text = str(getattr(error, "message", None) or error)
    slow = type(error.__cause__).__name__ == "TimeoutExpired"
    return SignInError(
        f"{what}: {_sign_in_sentence(text, slow)}",
        code=_aadsts(text),
        hint=_sign_in_hint(text, slow),
        detail=mask(text),
    )


def _aadsts(text: str) -> str | None:
    match = re.search(r"\bAADSTS\d+", text)
    return match[0] if match else None


def _sign_in_sentence(text: str, slow: bool) -> str:
    if slow:
        return "az was too slow: it gave no token within 30 seconds."
    if "Azure CLI not found" in text or "Failed to execute" in text:
        return "not signed in: there is no other identity, and az is not installed."
    if "az login" in text and not _aadsts(text):
        return "not signed in."
    return one_sentence(re.split(r"\n|Trace ID|To mitigate this issue", text.strip())[0])


def _sign_in_hint(text: str, slow: bool) -> str:
    if slow:
        return "Try az account get-access-token by hand, then run this again."
    if "Azure CLI not found" in text:
        return (
            "Install the Azure CLI (https://aka.ms/azure-cli) and sign in with `az login`, "
            "or try everything without a subscription: add `--sandbox`."
        )
    if re.search(r"managed.?identity|\bimds\b", text, re.I):
        return MANAGED_IDENTITY_HINT
    return SIGN_IN_HINT


def _network(error: AzureError, what: str) -> Ai4infraError:
    text = str(error)
    found = re.search(r"host='([^']+)'|host=\"([^\"]+)\"", text)
    host = (found[1] or found[2]) if found else "the service"
    sentence, hint = _network_words(error, text, host)
    return NetworkError(f"{what}: {sentence}", hint=hint, detail=mask(text))


def _network_words(error: AzureError, text: str, host: str) -> tuple[str, str]:
    low = f"{type(error.inner_exception).__name__} {text}".casefold()
    if "ssl" in low or "certificate" in low:
        return (
            f"the certificate of {host} is not trusted.",
            "Behind a proxy that opens TLS, point REQUESTS_CA_BUNDLE at its certificate file.",
        )
    if "proxy" in low:
        return (
            f"the proxy in front of {host} does not let the request through.",
            "Check HTTPS_PROXY and NO_PROXY.",
        )
    if re.search(r"nameresolution|failed to resolve|getaddrinfo|name or service", low):
        return f"the name {host} cannot be resolved.", "Check the network, DNS and VPN."
    if isinstance(error, ServiceRequestTimeoutError) or ("timed out" in low and "connect" in low):
        return f"{host} cannot be reached in time.", "Check the network, firewall and proxy."
    if isinstance(error, ServiceResponseTimeoutError) or "timed out" in low:
        return f"{host} took too long to answer.", "Run this again."
    if isinstance(error, ServiceRequestError):
        return f"{host} cannot be reached.", "Check the network, firewall and proxy."
    return f"{host} dropped the connection.", "Run this again."
