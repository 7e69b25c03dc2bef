"""The blob service itself, as far as it is asked whether a role works yet.

https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
"""

from __future__ import annotations

from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, ForbiddenError, SignInError
from ai4infra.model import Record


class Refusal(Record, frozen=True):
    """What a refusal of the blob service means."""

    meaning: str
    hint: str
    passes: bool = False
    """It may be over in some minutes by itself."""


_ROLE = Refusal(
    meaning="the role is missing, or does not work yet",
    hint="A new role takes up to 10 minutes, in rare cases 30. Which one it takes: ai4infra rbac"
    " list; Owner and Contributor of the subscription open no blob.",
    passes=True,
)
_NETWORK = Refusal(
    meaning="the account's network rules keep this machine out",
    hint="Let its address in (ai4infra storage create --update --allow-ip ADDRESS), or run this"
    " from a network with a private endpoint.",
)
_TOKEN = Refusal(
    meaning="the token is not taken: expired, for another tenant, or this machine's clock is off",
    hint="Sign in again, and compare the clock with the time of day.",
)
_KEY = Refusal(
    meaning="the account takes no shared keys, and a key or a SAS of a key was used",
    hint="Use the identity: AZCOPY_AUTO_LOGIN_TYPE, or --auth-mode login.",
)
REFUSALS: dict[str, Refusal] = {
    "authorizationpermissionmismatch": _ROLE,
    "insufficientaccountpermissions": _ROLE,
    "authorizationfailure": _NETWORK,
    "publicaccessnotpermitted": _NETWORK,
    "authenticationfailed": _TOKEN,
    "invalidauthenticationinfo": _TOKEN,
    "noauthenticationinformation": _TOKEN,
    "keybasedauthenticationnotpermitted": _KEY,
}
"""By the service's code in lower case; a 403 alone does not say which of them it is."""


def refusal(error: Ai4infraError) -> Refusal | None:
    """Return what a refusal means; None for any other error."""
    return REFUSALS.get((error.code or "").casefold())


def explained(error: Ai4infraError, what: str) -> Ai4infraError:
    """Return an error of the blob service that says what its code means."""
    found = refusal(error)
    if found is None:
        return error
    kind = SignInError if found is _TOKEN else ForbiddenError
    return kind(
        f"{what}: {found.meaning}.",
        code=error.code,
        hint=found.hint,
        status=error.status,
        detail=error.detail,
    )


def probe(session: Session, endpoint: str, container: str) -> None:
    """Read one row of the list of a container's blobs with our own identity.

    That takes a data role; the list of containers does not. Changes nothing and returns nothing;
    raises what the service refuses it with, explained.
    """
    where = f"{endpoint.rstrip('/')}/{container}"
    what = f"Cannot read {where}"
    try:
        session.get_blob(f"{where}?restype=container&comp=list&maxresults=1", what=what)
    except Ai4infraError as error:
        raise explained(error, what) from error
