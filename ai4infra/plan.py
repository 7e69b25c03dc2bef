"""Wanted and existing → steps: decide as values; nothing here sends anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from msgspec import structs

from ai4infra.errors import UsageError
from ai4infra.ids import quota_key, unknown_name
from ai4infra.model import GrantWanted, Quota, QuotaRequest, QuotaSetting, Record, Step, StepAction

QUOTA_LIMIT = "quota limit"
REGISTRATION = "provider registration"
QUOTA_PROVIDER = "Microsoft.Quota"
REGIONAL_QUOTA = "cores"
SPOT_QUOTA = "lowPriorityCores"
_POOL_TITLES = {
    REGIONAL_QUOTA: f"regional total ({REGIONAL_QUOTA})",
    SPOT_QUOTA.casefold(): f"spot pool ({SPOT_QUOTA})",
}


class Plan(Record, frozen=True):
    """The steps from what exists to what is wanted, in the order in which they are carried out."""

    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()
    """What a reader should know before saying yes, in sentences."""
    verify: Record | None = None
    """What was wanted, where it is compared afterwards with what the service tells."""

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that would change something."""
        return tuple(s for s in self.steps if s.action in ("create", "update", "delete"))

    @property
    def refusals(self) -> tuple[Step, ...]:
        """The steps that stand in the way; with one of them, nothing at all is sent."""
        return tuple(s for s in self.steps if s.action == "refuse")


class QuotaWanted(Record, frozen=True):
    """A limit that somebody wants; ``family`` is the quota row's name (``cores`` is the total)."""

    subscription_id: str
    region: str
    family: str
    limit_vcpus: int
    request_id: str | None = None
    """A request for exactly this that is already in progress."""


class RegistrationWanted(Record, frozen=True):
    """A resource provider that the subscription shall be registered for."""

    subscription_id: str
    namespace: str


class IdentityWanted(Record, frozen=True):
    """A machine that shall get an identity of its own."""

    resource_id: str
    api_version: str
    stage: int = 0


class LateGrant(Record, frozen=True):
    """A grant to an identity that does not exist while it is planned."""

    grant: GrantWanted
    """Its principal is unknown: an empty string."""
    scope: str
    resource_id: str
    """The machine whose identity gets the role."""
    stage: int


class QuotaLook(Record, frozen=True):
    """What there is in one region of one subscription before a quota request."""

    quotas: tuple[Quota, ...]
    """The VM quota rows of Microsoft.Compute."""
    settings: tuple[QuotaSetting, ...] = ()
    """What Microsoft.Quota knows of the rows in question; a row that it does not know is absent."""
    pending: tuple[QuotaRequest, ...] = ()
    """Requests that are not decided yet."""
    registered: bool = True
    """Whether the subscription is registered for Microsoft.Quota."""


def quota_steps(
    wanted: QuotaWanted, look: QuotaLook, *, with_regional: bool = False, register: bool = False
) -> Plan:
    """Plan the request for a higher limit.

    ``with_regional`` adds the regional total where it is too low for the family's new limit (it
    is asked for first: a family limit above the total cannot be used); otherwise a warning says
    so. ``register`` adds the registration for Microsoft.Quota where it is missing.
    Raises UsageError for a family that the region does not know and for a limit below one.
    """
    wanted = _checked(wanted, look)
    regional, warnings = _regional(wanted, look)
    limits = [_limit_step(w, look) for w in (*(regional if with_regional else ()), wanted)]
    if not with_regional:
        warnings += [_too_low(wanted, look, r) for r in regional]
    return Plan(
        steps=(*_registration_steps(wanted, look, limits, register), *limits),
        warnings=(*warnings, *_other_requests(wanted, look)),
    )


def quota_command(wanted: QuotaWanted) -> str:
    """Return the command line that asks for this limit, quoted for a shell."""
    words = ["ai4infra", "quota", "request", "--subscription", wanted.subscription_id]
    words += ["--region", wanted.region, "--family", wanted.family]
    return shlex.join([*words, "--limit", str(wanted.limit_vcpus)])


def quota_title(name: str) -> str:
    """Return a quota row's name for people: the two regional pools say what they are."""
    return _POOL_TITLES.get(quota_key(name), name)


def quota_scope(subscription_id: str, region: str) -> str:
    """Return the scope under which Microsoft.Quota keeps a region's VM quotas."""
    return f"/subscriptions/{subscription_id}/providers/Microsoft.Compute/locations/{region}"


def support_hint(wanted: QuotaWanted) -> str:
    """Return how to ask a person for what the API does not give."""
    return (
        "Ask through the Azure portal: Help + support, Create a support request, issue type"
        " 'Service and subscription limits (quotas)', quota type 'Compute-VM (cores-vCPUs)'"
        f" ({quota_title(wanted.family)} in {wanted.region}, new limit {wanted.limit_vcpus})."
    )


def refusal_hint(code: str | None, wanted: QuotaWanted) -> str:
    """Return what to do about a quota request that the service turned down with this code."""
    first = _BY_CODE.get((code or "").casefold())
    return " ".join(filter(None, (first, support_hint(wanted))))


def turned_down(code: str | None) -> bool:
    """Tell whether a code means that the service will not give the limit, however often asked."""
    return (code or "").casefold() in {*_BY_CODE, "contactsupport", "unabletoincreasequota"}


def spelling(family: str, quotas: Iterable[Quota]) -> str:
    """Return the family as its quota row spells it; as typed where no row has it."""
    return next((q.name for q in quotas if quota_key(q.name) == quota_key(family)), family)


# Codes and their meaning: https://learn.microsoft.com/rest/api/reserved-vm-instances/quotaapi
_BY_CODE = {
    "quotanotavailableforresource": "Another region or size may have it now.",
    "resourcenotavailableforoffer": "The subscription's offer does not include it in this region.",
    "resourcenotavailableforsubscription": "The subscription has no access to it in this region.",
    "deprecatedquotatype": "The family is being retired: its successor can be raised.",
}


def check_wanted(wanted: QuotaWanted) -> None:
    """Raise UsageError for a request that cannot be made, whatever there is."""
    if wanted.limit_vcpus < 1:
        raise UsageError(
            f"A limit of {wanted.limit_vcpus} vCPUs cannot be asked for.",
            hint="--limit is the new limit in vCPUs, not the number to add.",
        )
    # The name becomes a part of an address.
    if not re.fullmatch(r"\w[\w .()-]*", wanted.family):
        raise UsageError(
            f"{wanted.family!r} is no name of a quota.",
            hint=f"`ai4infra quota list --region {wanted.region}` shows the names.",
        )


def _checked(wanted: QuotaWanted, look: QuotaLook) -> QuotaWanted:
    """Return the same with the family as the service spells it."""
    check_wanted(wanted)
    names = [*(q.name for q in look.quotas), *(s.name for s in look.settings)]
    known = next((n for n in names if quota_key(n) == quota_key(wanted.family)), None)
    if known is None:
        raise unknown_name(
            f"VM quota in {wanted.region}",
            wanted.family,
            names,
            listing=f"`ai4infra quota list --region {wanted.region}` shows the names.",
        )
    return structs.replace(wanted, family=known)


def _limit_step(wanted: QuotaWanted, look: QuotaLook) -> Step:
    """Decide about one quota row: keep, refuse or update."""
    current = _current_limit(wanted.family, look)
    if current == wanted.limit_vcpus:
        return _step("keep", wanted, current, reason="The limit is already this.")
    refusal = _refusal(wanted, current, look)
    if refusal is not None:
        return _step("refuse", wanted, current, *refusal)
    pending = _same_request(wanted, look)
    if pending is None:
        return _step("update", wanted, current)
    return _step(
        "update",
        structs.replace(wanted, request_id=pending.request_id),
        current,
        reason=f"Request {pending.request_id} for it is in progress: no second one is filed.",
    )


def _step(
    action: StepAction,
    wanted: QuotaWanted,
    current: int | None,
    reason: str | None = None,
    hint: str | None = None,
) -> Step:
    scope = quota_scope(wanted.subscription_id, wanted.region)
    return Step(
        action=action,
        kind=QUOTA_LIMIT,
        name=wanted.family,
        detail=f"vCPU limit in {wanted.region}: {_shown(current)} → {wanted.limit_vcpus}",
        resource_id=f"{scope}/providers/Microsoft.Quota/quotas/{wanted.family}",
        reason=reason,
        hint=hint,
        wanted=wanted,
    )


def _refusal(wanted: QuotaWanted, current: int | None, look: QuotaLook) -> tuple[str, str] | None:
    """Say why this limit cannot be asked for through the API, and what to do; None when it can."""
    if current is not None and wanted.limit_vcpus < current:
        return (
            f"The limit is {current}; the service does not lower limits on request.",
            f"A limit costs nothing: leave it, or ask for more than {current}.",
        )
    if not look.registered:
        return None
    setting = _named(wanted.family, look.settings)
    if setting is None:
        return f"{QUOTA_PROVIDER} does not know this quota.", support_hint(wanted)
    if setting.adjustable is False:
        return "This quota cannot be raised through the API.", support_hint(wanted)
    return None


def _current_limit(family: str, look: QuotaLook) -> int | None:
    """Return the limit in force: of the quota row, else what Microsoft.Quota says."""
    row = _row(family, look)
    if row is not None and row.limit is not None:
        return row.limit
    setting = _named(family, look.settings)
    return setting.limit if setting else None


def _row(family: str, look: QuotaLook) -> Quota | None:
    return next((q for q in look.quotas if quota_key(q.name) == quota_key(family)), None)


def _named(family: str, settings: Iterable[QuotaSetting]) -> QuotaSetting | None:
    return next((s for s in settings if quota_key(s.name) == quota_key(family)), None)


def _requests(wanted: QuotaWanted, look: QuotaLook) -> list[QuotaRequest]:
    key = quota_key(wanted.family)
    return [r for r in look.pending if r.pending and quota_key(r.family) == key]


def _same_request(wanted: QuotaWanted, look: QuotaLook) -> QuotaRequest | None:
    same = (r for r in _requests(wanted, look) if r.limit_vcpus == wanted.limit_vcpus)
    return next(same, None)


def _other_requests(wanted: QuotaWanted, look: QuotaLook) -> list[str]:
    """Tell of undecided requests for another limit of the same quota."""
    return [
        f"Request {r.request_id} for {quota_title(r.family)} with limit"
        f" {_shown(r.limit_vcpus)} is in progress."
        for r in _requests(wanted, look)
        if r.limit_vcpus != wanted.limit_vcpus
    ]


def _regional(wanted: QuotaWanted, look: QuotaLook) -> tuple[list[QuotaWanted], list[str]]:
    """Return the regional total that the new limit needs, where there is too little of it.

    The second part is a warning where the total is unknown.
    """
    # The pools and the rows that count other things than vCPUs are not part of the total.
    if not quota_key(wanted.family).endswith("family"):
        return [], []
    total, family = _row(REGIONAL_QUOTA, look), _row(wanted.family, look)
    if total is None or total.limit is None or total.used is None:
        title = quota_title(REGIONAL_QUOTA)
        return [], [f"The {title} of {wanted.region} is unknown; it binds as well."]
    others = total.used - ((family.used or 0) if family else 0)
    needed = others + wanted.limit_vcpus
    if needed <= total.limit:
        return [], []
    return [structs.replace(wanted, family=total.name, limit_vcpus=needed)], []


def _too_low(wanted: QuotaWanted, look: QuotaLook, regional: QuotaWanted) -> str:
    total = _current_limit(regional.family, look)
    return (
        f"The {quota_title(regional.family)} of {wanted.region} is {total} vCPUs; using"
        f" {wanted.limit_vcpus} of {wanted.family} needs {regional.limit_vcpus}."
        f" Add --with-regional, or run: {quota_command(regional)}"
    )


def _registration_steps(
    wanted: QuotaWanted, look: QuotaLook, limits: Sequence[Step], register: bool
) -> list[Step]:
    """Return the registration that the updates need; refused unless it was asked for."""
    if look.registered or not any(s.action == "update" for s in limits):
        return []
    return [
        Step(
            action="create" if register else "refuse",
            kind=REGISTRATION,
            name=QUOTA_PROVIDER,
            detail=f"register subscription {wanted.subscription_id} for {QUOTA_PROVIDER}",
            reason=None
            if register
            else f"The subscription is not registered for {QUOTA_PROVIDER}.",
            hint=None if register else _register_hint(wanted.subscription_id),
            wanted=RegistrationWanted(
                subscription_id=wanted.subscription_id, namespace=QUOTA_PROVIDER
            ),
        )
    ]


def _register_hint(subscription_id: str) -> str:
    return (
        "Add --register, or run:"
        f" az provider register --namespace {QUOTA_PROVIDER} --subscription {subscription_id}"
    )


def _shown(number: int | None) -> str:
    return "unknown" if number is None else str(number)
