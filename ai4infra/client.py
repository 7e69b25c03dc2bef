"""``connect()`` and what it returns: all that a script, or the command line, asks Azure for.

Nothing is sent before the first question. Reading never changes anything; ``apply`` carries out
a plan that ``plan_quota``, ``plan_storage`` or another of its kind made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timezone
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from msgspec import structs

from ai4infra import needs as needs_
from ai4infra import recon as recon_
from ai4infra import selection
from ai4infra import summary as summary_
from ai4infra.client_audit import AuditMethods
from ai4infra.client_data import DataMethods
from ai4infra.client_storage import StorageMethods
from ai4infra.cloud import compute, prices, subscriptions
from ai4infra.cloud.cache import Cache, default_dir
from ai4infra.cloud.clouds import find
from ai4infra.cloud.fanout import Outcome, fan_out
from ai4infra.cloud.session import Session
from ai4infra.errors import Ai4infraError, SignInError, UsageError
from ai4infra.ids import quota_key, region_key, several, size_key, unknown_name
from ai4infra.model import (
    NeedReport,
    Offer,
    Problem,
    Quota,
    Receipt,
    Recon,
    Record,
    Region,
    RegionQuota,
    StepResult,
    Subscription,
)
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA
from ai4infra.settings import Settings, az_profile_path, read_az_profile, resolve, wants_sandbox

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline.transport import HttpTransport
    from typing_extensions import Unpack

    from ai4infra.plan import Plan

T = TypeVar("T")
Say = Callable[[str], None]

_NAMES_SHOWN = 3


class Where(TypedDict, total=False):
    """What a survey asks, and where, beside its regions; see ``Azure.survey``."""

    subscriptions: Sequence[str]
    all_subscriptions: bool
    all_regions: bool
    with_prices: bool
    currency: str
    physical_zones: bool
    refresh: bool
    on_progress: Say | None


class Survey(Record, frozen=True):
    """What some regions say, before anything is filtered; what could not be read is a problem."""

    offers: tuple[Offer, ...]
    region_quotas: tuple[RegionQuota, ...]
    subscriptions: tuple[Subscription, ...]
    regions: tuple[str, ...]
    """Names of the regions that were asked."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class QuotaLists(Record, frozen=True):
    """The VM quota rows of some regions, in their order."""

    subscription: Subscription
    quotas: tuple[Quota, ...]
    problems: tuple[Problem, ...] = ()


def connect(
    *,
    subscription: str | None = None,
    sandbox: bool | None = None,
    auth: str | None = None,
    client_id: str | None = None,
    tenant: str | None = None,
    cloud: str | None = None,
    arm_endpoint: str | None = None,
    location: str | None = None,
    output: str | None = None,
    credential: TokenCredential | None = None,
    transport: HttpTransport[Any, Any] | None = None,
    env: Mapping[str, str] | None = None,
    trace: Say | None = None,
) -> Azure:
    """Return the object to ask; nothing is sent yet.

    What is left out comes from the environment, the config file and the az profile. ``sandbox``
    asks a local example world instead of Azure (``AI4INFRA_SANDBOX=1`` does so too); ``credential``
    and ``transport`` are azure.core's and replace our own. ``trace`` receives masked request
    lines. Raises UsageError for settings that cannot be.
    """
    env = os.environ if env is None else env
    given = {
        "subscription": subscription,
        "auth": auth,
        "client_id": client_id,
        "tenant": tenant,
        "cloud": cloud,
        "arm_endpoint": arm_endpoint,
        "location": location,
        "output": output,
    }
    settings = resolve(given, env)
    if sandbox is None:
        sandbox = wants_sandbox(env)
    if sandbox:
        return _in_sandbox(settings, env, trace)
    session = Session(
        cloud=find(
            settings.cloud,
            arm_endpoint=settings.arm_endpoint,
            prices_endpoint=settings.prices_endpoint,
            env=env,
        ),
        credential=credential,
        auth=settings.auth,
        client_id=settings.client_id,
        tenant_id=settings.tenant,
        az_tenant=settings.az_tenant,
        transport=transport,
        env=env,
        trace=trace,
    )
    folder = Path(settings.cache_dir) if settings.cache_dir else default_dir(env)
    names = {a.id: a.name for a in read_az_profile(az_profile_path(env))}
    return Azure(session, settings, cache_folder=folder, names=names)


def _in_sandbox(settings: Settings, env: Mapping[str, str], trace: Say | None) -> Azure:
    """Open the user's example world; a subscription of the real one means nothing there."""
    from ai4infra.sandbox import open_sandbox
    from ai4infra.sandbox.files import state_dir

    sandbox = open_sandbox(state_dir(env))
    said = settings.source("subscription") == "--subscription"
    settings = structs.replace(
        settings, subscription=settings.subscription if said else sandbox.subscription_id
    )
    closing = ExitStack()
    closing.callback(sandbox.close)
    return Azure(
        Session(credential=sandbox.credential, transport=sandbox.transport(), env={}, trace=trace),
        settings,
        names=sandbox.world.catalogue.subscriptions,
        today=lambda: sandbox.world.now().date(),
        closing=closing,
    )


class Azure(StorageMethods, AuditMethods, DataMethods):
    """One identity's view of Azure. Safe to share between threads; close it, or use ``with``."""

    def __init__(
        self,
        session: Session,
        settings: Settings | None = None,
        *,
        cache_folder: Path | None = None,
        names: Mapping[str, str] | None = None,
        today: Callable[[], date] | None = None,
        closing: ExitStack | None = None,
    ) -> None:
        self.session = session
        self.settings = settings or Settings()
        self._cache_folder = cache_folder
        self._names = dict(names or {})
        self._today = today or (lambda: datetime.now(timezone.utc).date())
        self._closing = closing or ExitStack()
        self._regions: dict[str, tuple[Region, ...]] = {}

    def __enter__(self) -> Azure:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; what the sandbox remembers is written."""
        self.session.close()
        self._closing.close()

    # --- prices

    def list_prices(
        self, regions: Sequence[str], *, currency: str = "USD", refresh: bool = False
    ) -> prices.PriceListing:
        """Return the list prices of GPU sizes in some regions; nobody has to be signed in.

        What the price list does not tell is unknown, with a warning. Raises UsageError for a
        currency that it does not have.
        """
        cache = Cache(self._cache_folder, refresh=refresh) if self._cache_folder else None
        return prices.prices(self.session, several(regions), currency, cache=cache)

    # --- subscriptions and regions

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Return all subscriptions that the identity sees, by name."""
        return subscriptions.list_all(self.session)

    def subscription(self, wanted: str | None = None) -> Subscription:
        """Return the subscription of this name or id, or else the one of the settings.

        Raises UsageError for an unknown or ambiguous name, and where nothing chooses one of many.
        """
        name = wanted or self.settings.subscription
        if name is None:
            return self._only_subscription()
        return self._named(subscriptions.resolve(self.session, [name])[0])

    def regions(self, subscription: str | None = None) -> tuple[Region, ...]:
        """Return the regions of a subscription, by name."""
        return self._regions_of(self.subscription(subscription).id)

    def region(self, name: str, subscription: str | None = None) -> Region:
        """Return one region; raises UsageError with close names for an unknown one."""
        return subscriptions.check_region(name, self.regions(subscription))

    def _only_subscription(self) -> Subscription:
        known = self.subscriptions()
        if len(known) == 1:
            return known[0]
        if not known:
            raise SignInError(
                "The identity sees no subscription.",
                hint="Ask for a role such as Reader on one, or sign in as somebody else.",
            )
        raise UsageError(
            f"There are {len(known)} subscriptions and none is chosen.",
            hint=f"Add --subscription NAME: {_some(s.name for s in known)}.",
        )

    def _named(self, subscription: Subscription) -> Subscription:
        """Put in the name that az knows, where only the id was given."""
        if subscription.name != subscription.id or subscription.id not in self._names:
            return subscription
        return Subscription(id=subscription.id, name=self._names[subscription.id])

    def _regions_of(self, subscription_id: str) -> tuple[Region, ...]:
        if subscription_id not in self._regions:
            self._regions[subscription_id] = subscriptions.regions(self.session, subscription_id)
        return self._regions[subscription_id]

    # --- what can be started

    def recon(
        self,
        *regions: str,
        families: Sequence[str] | None = None,
        gpus: Sequence[str] = (),
        min_gpus: float | None = None,
        min_gpu_memory_gib: float | None = None,
        sizes: Sequence[str] = (),
        startable: bool = False,
        spot: bool = False,
        sort: str | None = None,
        **where: Unpack[Where],
    ) -> Recon:
        """Return one row per GPU size that the regions list: access, quota, prices, what fits.

        Rows come by subscription, region and size unless ``sort`` (``price``, ``-fit``, …) says
        otherwise. The filters are those of ``selection.select``, the other arguments those of
        ``survey``. A region that could not be read is in ``problems``. Raises UsageError for a
        region, size, GPU model or subscription that does not exist, and what Azure says where
        nothing at all could be read.
        """
        sizes = several(sizes)
        chosen = partial(
            selection.select,
            families=families,
            gpus=gpus,
            min_gpus=min_gpus,
            min_gpu_memory_gib=min_gpu_memory_gib,
            startable=startable,
            spot=spot,
            sizes=sizes,
        )
        ordered = partial(selection.sort, key=sort, spot=spot) if sort else tuple[Offer, ...]
        ordered(())
        selection.select(
            (), families=families, min_gpus=min_gpus, min_gpu_memory_gib=min_gpu_memory_gib
        )
        found = self.survey(*regions, **where)
        if sizes and (unknown := selection.unlisted_sizes(sizes, found.offers)):
            raise unknown
        offers = ordered(chosen(found.offers))
        return Recon(
            offers=offers,
            summary=summary_.summary(offers, found.region_quotas, spot=spot),
            region_quotas=found.region_quotas,
            subscriptions=found.subscriptions,
            problems=found.problems,
            warnings=(*found.warnings, *_unlisted(sizes, offers, found)),
        )

    def need(
        self,
        *needs: str,
        regions: Sequence[str] = (),
        spot: bool = False,
        **where: Unpack[Where],
    ) -> NeedReport:
        """Answer whether all needs together fit, for every region: ``8xStandard_ND96asr_v4``.

        ``16xA100`` means GPUs of a model. The other arguments are those of ``survey``. Raises
        UsageError for a need that cannot be read; see ``recon`` for the rest.
        """
        self.check_needs(*needs)
        return self.need_in(self.survey(*several(regions), **where), *needs, spot=spot)

    def check_needs(self, *needs: str) -> None:
        """Raise UsageError for a need that cannot be read, or none at all; sends nothing."""
        needs_.parse_needs(needs)

    def need_in(self, found: Survey, *needs: str, spot: bool = False) -> NeedReport:
        """Answer needs from a survey that was made before; sends nothing."""
        parsed = needs_.parse_needs(needs)
        if unknown := needs_.unknown_names(parsed, found.offers):
            raise unknown
        return needs_.report(parsed, found.offers, found.region_quotas, spot=spot)

    def survey(
        self,
        *regions: str,
        subscriptions: Sequence[str] = (),
        all_subscriptions: bool = False,
        all_regions: bool = False,
        with_prices: bool = True,
        currency: str = "USD",
        physical_zones: bool = False,
        refresh: bool = False,
        on_progress: Say | None = None,
    ) -> Survey:
        """Read sizes, quota and list prices of some regions, side by side and unfiltered.

        Without regions the default location of the settings is taken, without subscriptions the
        default one. ``physical_zones`` fills that field of the offers, ``refresh`` asks again for
        what is cached, and ``on_progress`` receives a line per region. Raises as ``recon`` does.
        """
        currency = prices.check_currency(currency)
        asked = self._asked(regions, all_regions)
        chosen, states = self._chosen(subscriptions, all_subscriptions)
        places, warnings, missing = self._places(chosen, asked)
        cache = Cache(self._cache_folder, refresh=refresh) if self._cache_folder else None
        wanted = _Wanted(currency if with_prices else None, physical_zones)
        answers = _Answers(self._ask(_jobs(self, places, wanted, cache), len(places), on_progress))
        self._check(places, answers)
        rows = [self._offers(place, answers, wanted) for place in places]
        listing = answers.prices
        return Survey(
            offers=tuple(offer for part in rows for offer in part),
            region_quotas=tuple(_pools(p, answers.quotas(p)) for p in places if answers.read(p)),
            subscriptions=tuple(chosen),
            regions=tuple(dict.fromkeys(place.region for place in places)),
            problems=(*missing, *_problems(places, answers, many=len(chosen) > 1)),
            warnings=(
                *states,
                *warnings,
                *_remarks(places, answers, all_regions=all_regions),
                *(listing.warnings if listing else ()),
            ),
        )

    def _asked(self, regions: Sequence[str], all_regions: bool | None = None) -> list[str]:
        """Return the regions by canonical name, none for all of them.

        ``all_regions`` is None where all of them cannot be asked for.
        """
        if all_regions:
            return []
        names = [*regions] or [name for name in (self.settings.location,) if name]
        if not names:
            every = "" if all_regions is None else " or --all-regions"
            raise UsageError(
                "No region is given.",
                hint=f"Add --region NAME{every}, or set AZURE_DEFAULTS_LOCATION.",
            )
        return list(dict.fromkeys(map(region_key, names)))

    def _chosen(self, wanted: Sequence[str], every: bool) -> tuple[list[Subscription], list[str]]:
        """Return the subscriptions to ask, and what is odd about their states."""
        if every:
            return self._every_subscription()
        if not wanted:
            found = [self.subscription()]
        else:
            named = subscriptions.resolve(self.session, several(wanted))
            found = [self._named(s) for s in named]
        return found, [*_states(found)]

    def _every_subscription(self) -> tuple[list[Subscription], list[str]]:
        seen = self.subscriptions() or (self._only_subscription(),)
        found = [s for s in seen if not subscriptions.is_off(s)] or list(seen)
        left = [s for s in seen if s not in found]
        return found, [
            *_states(found),
            *(f"Subscription {s.name} is left out: it is {s.state}." for s in left),
        ]

    def _places(
        self, chosen: Sequence[Subscription], asked: Sequence[str]
    ) -> tuple[list[_Place], list[str], list[Problem]]:
        """Return where to look, what is left out of all regions, and whose are not known."""
        if asked:
            return [_Place(s, region) for s in chosen for region in asked], [], []
        known = fan_out(self._regions_of, [s.id for s in chosen])
        if all(outcome.error for outcome in known):
            known[0].result()
        missing = [_problem(f"regions of {o.item}", o.error) for o in known if o.error]
        listed = {outcome.item: outcome.value or () for outcome in known}
        places = [
            _Place(s, r.name) for s in chosen for r in listed[s.id] if r.physical and not r.staging
        ]
        staging = {r.name for found in listed.values() for r in found if r.physical and r.staging}
        note = (
            f"{_regions(len(staging), 'is', 'are')} left out as staging: {_some(sorted(staging))}."
        )
        return places, [note] if staging else [], missing

    def _ask(
        self, jobs: Mapping[_Job, Callable[[], Any]], count: int, on_progress: Say | None
    ) -> dict[_Job, Outcome[_Job, Any]]:
        done = 0

        def run(job: _Job) -> Any:
            nonlocal done
            value = jobs[job]()
            if on_progress is not None and count > 1 and job.kind == "skus":
                # Two threads may count the same number: a progress line can bear that.
                done += 1
                on_progress(f"{done} of {count} regions")
            return value

        return {outcome.item: outcome for outcome in fan_out(run, jobs)}

    def _check(self, places: Sequence[_Place], answers: _Answers) -> None:
        """Raise what ends the run: wrong input, no sign-in, nothing that could be read."""
        errors = answers.errors()
        refused = list(filter(None, map(answers.sign_in_error, places)))
        if refused and len(refused) == len(places):
            raise refused[0]
        for error in errors:
            if isinstance(error, UsageError):
                raise error
        for region in dict.fromkeys(place.region for place in places):
            here = [place for place in places if place.region == region]
            if all(map(answers.looks_unknown, here)):
                self._check_region(region, *(place.subscription.id for place in here))
        if errors and not any(answers.read(place) for place in places):
            raise errors[0]

    def _check_region(self, name: str, *subscription_ids: str) -> None:
        """Raise UsageError for a region that none of the subscriptions knows."""
        try:
            known = [region for id_ in subscription_ids for region in self._regions_of(id_)]
        except Ai4infraError:
            return
        subscriptions.check_region(name, known)

    def _offers(self, place: _Place, answers: _Answers, wanted: _Wanted) -> tuple[Offer, ...]:
        listing = answers.skus(place)
        if listing is None:
            return ()
        return recon_.offers(
            listing.skus,
            answers.quotas(place),
            answers.prices_of(place),
            subscription_id=place.subscription.id,
            region=place.region,
            today=self._today(),
            physical_zones=answers.zones(place) if wanted.physical_zones else None,
            currency=wanted.currency,
            closed=_closed(place.subscription),
        )

    # --- quota

    def quotas(
        self, region: str | None = None, *, subscription: str | None = None
    ) -> tuple[Quota, ...]:
        """Return all VM (Microsoft.Compute) quota rows of a region; a missing row is unknown."""
        found = self.quota_lists(*([region] if region else []), subscription=subscription)
        return found.quotas

    def quota_lists(self, *regions: str, subscription: str | None = None) -> QuotaLists:
        """Return the VM quota rows of several regions; one that could not be read is a problem.

        Raises UsageError for an unknown region, and what Azure says where none could be read.
        """
        asked = self._asked(regions)
        chosen = self.subscription(subscription)
        read = partial(compute.usages, self.session, chosen.id)
        outcomes = fan_out(read, asked)
        for outcome in outcomes:
            if outcome.value == () or _may_be_unknown(outcome.error):
                self._check_region(outcome.item, chosen.id)
        failed = [o for o in outcomes if o.error is not None]
        if len(failed) == len(outcomes):
            failed[0].result()
        return QuotaLists(
            subscription=chosen,
            quotas=tuple(quota for o in outcomes for quota in o.value or ()),
            problems=tuple(_problem(o.item, o.error) for o in outcomes if o.error),
        )

    def plan_quota(
        self,
        region: str,
        family: str,
        limit_vcpus: int,
        *,
        subscription: str | None = None,
        with_regional: bool = False,
        register: bool = False,
    ) -> Plan:
        """Plan the request for a higher quota limit; reads only.

        ``family`` is a quota row's name, ignoring case and blanks, or a size, which stands for
        its family. Raises UsageError for an unknown region, family or size.
        """
        from ai4infra import provision

        chosen = self.subscription(subscription)
        name = subscriptions.check_region(region, self._regions_of(chosen.id)).name
        return provision.plan_quota(
            self.session,
            chosen.id,
            name,
            self._family(family, chosen.id, name),
            limit_vcpus,
            with_regional=with_regional,
            register=register,
        )

    def apply(
        self,
        plan: Plan,
        *,
        on_step: Callable[[StepResult], None] = lambda result: None,
        on_progress: Say = lambda text: None,
        wait: bool = True,
    ) -> Receipt:
        """Carry a plan out and return what became of each step; see ``provision.apply``."""
        from ai4infra import provision

        return provision.apply(
            self.session, plan, on_step=on_step, on_progress=on_progress, wait=wait
        )

    def _family(self, wanted: str, subscription_id: str, region: str) -> str:
        """Return the quota family that a size counts against; other text is a family's name."""
        from ai4infra.gpus import size_name

        if quota_key(wanted).endswith("family") or size_name(wanted) is None:
            return wanted
        rows = compute.skus(self.session, subscription_id, region).skus
        found = next((row for row in rows if size_key(row.name) == size_key(wanted)), None)
        if found is None:
            raise unknown_name(
                f"GPU size in {region}",
                wanted,
                [row.name for row in rows],
                listing=f"`ai4infra recon --region {region}` lists the sizes.",
            )
        return found.family or wanted


# --- the answers of a survey


class _Place(NamedTuple):
    subscription: Subscription
    region: str


class _Wanted(NamedTuple):
    currency: str | None
    """None where no prices are wanted."""
    physical_zones: bool


class _Job(NamedTuple):
    kind: str
    subscription_id: str = ""
    region: str = ""


def _jobs(
    azure: Azure, places: Sequence[_Place], wanted: _Wanted, cache: Cache | None
) -> dict[_Job, Callable[[], Any]]:
    """Return every call of a survey; they do not wait for one another."""
    session = azure.session
    jobs: dict[_Job, Callable[[], Any]] = {}
    if wanted.currency is not None:
        names = list(dict.fromkeys(place.region for place in places))
        jobs[_Job("prices")] = partial(prices.prices, session, names, wanted.currency, cache=cache)
    for place in places:
        where = (place.subscription.id, place.region)
        jobs[_Job("skus", *where)] = partial(compute.skus, session, *where, cache=cache)
        jobs[_Job("usages", *where)] = partial(compute.usages, session, *where)
    if wanted.physical_zones:
        for id_ in dict.fromkeys(place.subscription.id for place in places):
            jobs[_Job("regions", id_)] = partial(azure._regions_of, id_)
    return jobs


class _Answers:
    """The outcomes of a survey's calls, by place."""

    def __init__(self, outcomes: Mapping[_Job, Outcome[_Job, Any]]) -> None:
        self._outcomes = outcomes

    def _value(self, job: _Job) -> Any:
        outcome = self._outcomes.get(job)
        return outcome.value if outcome else None

    def error(self, kind: str, place: _Place) -> Ai4infraError | None:
        """Return what went wrong with one call, None when nothing did."""
        outcome = self._outcomes.get(_Job(kind, place.subscription.id, place.region))
        return outcome.error if outcome else None

    def errors(self) -> list[Ai4infraError]:
        """Return all errors, in the order of the calls."""
        return [o.error for o in self._outcomes.values() if o.error is not None]

    def sign_in_error(self, place: _Place) -> SignInError | None:
        """Return the error of a place that the sign-in is not good for, None where it is."""
        found = (self.error(kind, place) for kind in ("skus", "usages"))
        return next((error for error in found if isinstance(error, SignInError)), None)

    def skus(self, place: _Place) -> compute.SkuListing | None:
        """Return the sizes of a place, None where they could not be read."""
        found: compute.SkuListing | None = self._value(
            _Job("skus", place.subscription.id, place.region)
        )
        return found

    def quotas(self, place: _Place) -> tuple[Quota, ...] | None:
        """Return the quota rows of a place, None where they could not be read."""
        found: tuple[Quota, ...] | None = self._value(
            _Job("usages", place.subscription.id, place.region)
        )
        return found

    def of_kind(self, kind: str) -> list[tuple[_Job, Outcome[_Job, Any]]]:
        """Return the calls of one kind and their outcomes."""
        return [(job, outcome) for job, outcome in self._outcomes.items() if job.kind == kind]

    @property
    def prices(self) -> prices.PriceListing | None:
        """The list prices, None where they were not asked for."""
        found: prices.PriceListing | None = self._value(_Job("prices"))
        return found

    def prices_of(self, place: _Place) -> Mapping[str, Any] | None:
        """Return the prices of a region by size, None where they were not asked for."""
        if self.prices is None:
            return None
        return self.prices.regions.get(place.region, prices.RegionPrices()).sizes

    def zones(self, place: _Place) -> dict[str, str]:
        """Return the physical zones of a place by logical zone; empty where they are unknown."""
        listed: tuple[Region, ...] = self._value(_Job("regions", place.subscription.id)) or ()
        return next((r.physical_zones for r in listed if r.name == place.region), {})

    def read(self, place: _Place) -> bool:
        """Tell whether the sizes of a place could be read."""
        return self.skus(place) is not None

    def looks_unknown(self, place: _Place) -> bool:
        """Tell whether a place answers as one does that does not exist."""
        listing = self.skus(place)
        if listing is not None:
            return not listing.skus
        return _may_be_unknown(self.error("skus", place))


def _may_be_unknown(error: Ai4infraError | None) -> bool:
    return error is not None and error.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


def _pools(place: _Place, quotas: Iterable[Quota] | None) -> RegionQuota:
    by_key = {quota_key(quota.name): quota for quota in quotas or ()}
    return RegionQuota(
        subscription_id=place.subscription.id,
        region=place.region,
        regional=by_key.get(quota_key(REGIONAL_QUOTA)),
        spot=by_key.get(quota_key(SPOT_QUOTA)),
    )


def _problems(places: Sequence[_Place], answers: _Answers, *, many: bool) -> Iterable[Problem]:
    """Tell of each place what could not be read; without sizes its quota is of no interest."""
    for place in places:
        error = answers.error("skus", place) or answers.error("usages", place)
        if error is not None:
            name = f"{place.region} ({place.subscription.name})" if many else place.region
            yield _problem(name, error)
    for job, outcome in answers.of_kind("regions"):
        if outcome.error is not None:
            yield _problem(f"regions of {job.subscription_id}", outcome.error)


def _closed(subscription: Subscription) -> str | None:
    if not subscriptions.is_off(subscription):
        return None
    return f"the subscription is {subscription.state}"


def _states(found: Iterable[Subscription]) -> Iterable[str]:
    """Say what a subscription's state means for those who want to start something in it."""
    for each in found:
        if subscriptions.is_off(each):
            yield (
                f"Subscription {each.name} is {each.state}: nothing can be started in it until its"
                " owner enables it again."
            )
        elif (each.state or "Enabled").casefold() != "enabled":
            yield f"Subscription {each.name} is {each.state}: Azure may disable it soon."


def _problem(subject: str, error: Ai4infraError | None) -> Problem:
    if error is None:
        raise ValueError("nothing went wrong")
    return Problem(subject=subject, message=error.message, code=error.code, hint=error.hint)


def _remarks(places: Sequence[_Place], answers: _Answers, *, all_regions: bool) -> Iterable[str]:
    """Say what is odd about the lists, and which regions have no GPU sizes."""
    listings = [(place, answers.skus(place)) for place in places]
    without = [place.region for place, listing in listings if listing and not listing.skus]
    for _, listing in listings:
        if listing and (listing.skus or not all_regions):
            yield from listing.warnings
    if all_regions and without:
        many = _regions(len(without), "lists", "list")
        yield f"{many} no GPU sizes: {_some(dict.fromkeys(without))}."
    elif without:
        yield from (f"{region} lists no GPU sizes." for region in dict.fromkeys(without))


def _unlisted(sizes: Sequence[str], offers: Sequence[Offer], found: Survey) -> Iterable[str]:
    """Name the asked sizes that exist but that none of the regions lists."""
    for size in sizes:
        if not selection.select(found.offers, sizes=[size]):
            yield f"{size} is not listed in {_some(found.regions)}."


def _regions(number: int, one: str, many: str) -> str:
    return f"1 region {one}" if number == 1 else f"{number} regions {many}"


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMES_SHOWN
    shown = ", ".join(every[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
