"""Whether what somebody needs fits access and quota, and what fits instead."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from ai4infra import gpus as gpu_facts
from ai4infra.errors import UsageError
from ai4infra.ids import quota_key, region_key, size_key, unknown_name
from ai4infra.mixes import Candidate, Pick, ways_through
from ai4infra.model import (
    Alternative,
    Need,
    NeedAnswer,
    NeedReport,
    Offer,
    Placement,
    Quota,
    Record,
    RegionQuota,
    Shortfall,
)
from ai4infra.plan import REGIONAL_QUOTA, SPOT_QUOTA, QuotaWanted, quota_command
from ai4infra.recon import (
    NO_ACCESS,
    exact_gpus,
    is_model,
    limits_of,
    memory_per_gpu_gib,
    natural_key,
    whole_gpu_memory_gib,
)
from ai4infra.selection import unlisted_sizes
from ai4infra.summary import REGION_ACCESS_PAGE

MAX_COUNT = 100_000
"""Most VMs or GPUs that one need may ask for."""
MAX_ALTERNATIVES = 10
_RETIRED = "retired on"

_HINT = "Write COUNTxSIZE for VMs (8xStandard_ND96asr_v4) or COUNTxMODEL for GPUs (16xA100)."
_FORM = re.compile(r"([0-9]+)\s*[xX*\u00d7]\s*([A-Za-z][\w /.-]*)")
_NEW_MODEL = re.compile(r"[A-Za-z]{1,10}[0-9]{1,4}[A-Za-z0-9]{0,8}", re.ASCII)
_SIZE = re.compile(r"(?:standard_)?n[a-z]*[0-9]\w*(?:-\w+)?", re.ASCII | re.IGNORECASE)


class _Place(Record, frozen=True):
    """One region of one subscription."""

    subscription_id: str
    region: str
    offers: tuple[Offer, ...]
    quotas: RegionQuota | None
    spot: bool


class _Choice(Record, frozen=True):
    """What was chosen for all needs, and what stands in the way."""

    picks: tuple[Pick, ...]
    blocked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _Wish(Record, frozen=True):
    """What an alternative has to offer in place of all needs together."""

    gpus: Fraction
    memory_gib: float
    """Of each GPU."""
    vendors: frozenset[str]
    whole: bool
    """Whether only whole GPUs will do."""


def parse_need(text: str) -> Need:
    """Parse a need: ``8xStandard_ND96asr_v4`` is VMs of a size, ``16xA100`` GPUs of a model.

    A name that is a known GPU model means GPUs, and so does one that could be a new model. Whether
    a region lists the size or the model is left to ``unknown_names``. Raises UsageError, with
    close names, for everything else.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a need.", hint=_HINT)
    count, name = _count(match[1], text), match[2].strip()
    model = gpu_facts.model_named(name)
    if model is not None:
        return Need(text=text, count=count, gpu_model=name if _has_memory(name, model) else model)
    if not _SIZE.fullmatch(name):
        if _NEW_MODEL.fullmatch(name):
            return Need(text=text, count=count, gpu_model=name)
        raise unknown_name("GPU size or model", name, _all_names(), listing=_HINT)
    size = gpu_facts.facts(f"Standard_{_without_prefix(name)}").size
    return Need(text=text, count=count, size=size)


def parse_needs(texts: Sequence[str]) -> tuple[Need, ...]:
    """Parse all needs of one question. Raises UsageError where there is none: nothing fits."""
    if not texts:
        raise UsageError("No need is given.", hint=_HINT)
    return tuple(map(parse_need, texts))


def unknown_names(needs: Iterable[Need], offers: Iterable[Offer]) -> UsageError | None:
    """Return the error for the first needed size or GPU model that is none, None when all are.

    A name counts as one when a row has it, or when our data does.
    """
    needs, rows = tuple(needs), tuple(offers)
    for model in (need.gpu_model for need in needs if need.gpu_model):
        if not gpu_facts.model_named(model) and not any(is_model(model, row) for row in rows):
            listed = [row.gpu_model for row in rows if row.gpu_model]
            return unknown_name("GPU size or model", model, [*_all_names(), *listed], listing=_HINT)
    return unlisted_sizes([need.size for need in needs if need.size], rows)


def answer(
    needs: Sequence[Need],
    offers: Iterable[Offer],
    quotas: RegionQuota | None,
    *,
    subscription_id: str,
    region: str,
    spot: bool = False,
) -> NeedAnswer:
    """Answer whether all needs together fit one region of one subscription.

    ``offers`` may hold other regions too; they should not be filtered. ``quotas`` are the two
    regional pools, None when they could not be read. ``spot`` judges the spot pool and spot prices.

    GPUs of a model are met by whole-GPU sizes with access, confidential ones left out: by the
    fewest sizes that fit, then those that do not retire, then the lowest price. Sizes with a
    fraction of a GPU are used only where the region offers no other size of the model. Mixes of
    more than three sizes for one need are not tried.
    """
    place = _place(offers, quotas, subscription_id, region, spot)
    choice = _choose(needs, place)
    required = _required(choice.picks, spot)
    pools = _pools(place)
    shortfalls = tuple(_shortfalls(required, pools))
    prices = [_placement(pick, spot).price_per_hour for pick in choice.picks]
    known = [price for price in prices if price is not None]
    return NeedAnswer(
        subscription_id=subscription_id,
        region=place.region,
        fits=_verdict(choice, shortfalls, required, pools, spot),
        placements=tuple(_placement(pick, spot) for pick in choice.picks),
        shortfalls=shortfalls,
        blocked=choice.blocked,
        price_per_hour=math.fsum(known) if prices and len(known) == len(prices) else None,
        currency=next((pick.offer.currency for pick in choice.picks if pick.offer.currency), None),
        actions=tuple(dict.fromkeys(_actions(needs, choice, shortfalls, required, pools, place))),
    )


def report(
    needs: Sequence[Need],
    offers: Iterable[Offer],
    region_quotas: Iterable[RegionQuota],
    *,
    spot: bool = False,
) -> NeedReport:
    """Answer the needs for every region and subscription that was read, in the order of the pools.

    Alternatives are listed where the needs do not fit everywhere: one size that alone brings as
    many GPUs of the same maker with at least the same memory each, whole ones for whole ones.
    """
    rows = tuple(offers)
    pools = {(q.subscription_id, region_key(q.region)): q for q in region_quotas}
    answers = tuple(
        answer(needs, own, pools.get(where), subscription_id=where[0], region=where[1], spot=spot)
        for where, own in _by_place(pools, rows).items()
    )
    verdicts = [a.fits for a in answers]
    everywhere = all(verdict is True for verdict in verdicts)
    return NeedReport(
        needs=tuple(needs),
        answers=answers,
        alternatives=() if everywhere else _alternatives(needs, rows, pools, spot),
        fits_somewhere=_any(verdicts),
    )


def _by_place(
    first: Iterable[tuple[str, str]], offers: Iterable[Offer]
) -> dict[tuple[str, str], list[Offer]]:
    """Group the rows by subscription and region: the given ones first, then by name."""
    by_place: dict[tuple[str, str], list[Offer]] = {where: [] for where in first}
    for offer in sorted(offers, key=lambda o: (o.subscription_id, o.region)):
        by_place.setdefault((offer.subscription_id, offer.region), []).append(offer)
    return by_place


# --- parsing


def _count(digits: str, text: str) -> int:
    # The length is checked first: int() of very long texts is slow, or an error of its own.
    count = int(digits) if len(digits) <= len(str(MAX_COUNT)) else MAX_COUNT + 1
    if not 1 <= count <= MAX_COUNT:
        raise UsageError(f"{text!r} asks for no number from 1 to {MAX_COUNT}.", hint=_HINT)
    return count


def _has_memory(name: str, model: str) -> bool:
    """Tell whether the name narrows the model by its memory (``A100-80GB``)."""
    return not gpu_facts.gpu_matches(name, model, 0)


def _without_prefix(name: str) -> str:
    return name[len("standard_") :] if name.casefold().startswith("standard_") else name


def _all_names() -> list[str]:
    sizes = gpu_facts.all_sizes()
    return [*gpu_facts.models(), *sizes, *(_without_prefix(size) for size in sizes)]


# --- one region


def _place(
    offers: Iterable[Offer],
    quotas: RegionQuota | None,
    subscription_id: str,
    region: str,
    spot: bool,
) -> _Place:
    """Keep the rows of the place, in an order that does not depend on the one given."""
    key = region_key(region)
    own = [o for o in offers if (o.subscription_id, o.region) == (subscription_id, key)]
    return _Place(
        subscription_id=subscription_id,
        region=key,
        offers=tuple(sorted(own, key=lambda o: natural_key(o.size))),
        quotas=quotas,
        spot=spot,
    )


def _pools(place: _Place) -> dict[str, Quota]:
    """Return the quotas of the place by ``quota_key``, the regional one first."""
    limits = [q for o in place.offers for q in limits_of(o, place.quotas, spot=place.spot)]
    by_name = {quota_key(quota.name): quota for quota in limits}
    first = quota_key(SPOT_QUOTA if place.spot else REGIONAL_QUOTA)
    return dict(sorted(by_name.items(), key=lambda item: (item[0] != first, item[0])))


def _choose(needs: Sequence[Need], place: _Place) -> _Choice:
    """Take the sizes that are named, then the best way to meet the models."""
    fixed = [_of_size(need, place) for need in needs if need.size]
    candidates = {need.text: _candidates(need, place) for need in needs if need.gpu_model}
    models = [need for need in needs if candidates.get(need.text)]
    stuck = [_no_candidate(n, place) for n in needs if n.gpu_model and not candidates[n.text]]
    picks = tuple(pick for choice in fixed for pick in choice.picks)
    chosen = ways_through(models, candidates, _required(picks, place.spot), _pools(place))
    parts = [*fixed, *stuck]
    return _Choice(
        picks=tuple(sorted((*picks, *chosen), key=lambda pick: needs.index(pick.need))),
        blocked=tuple(dict.fromkeys(text for part in parts for text in part.blocked)),
        unknown=tuple(dict.fromkeys(text for part in parts for text in part.unknown)),
    )


def _of_size(need: Need, place: _Place) -> _Choice:
    wanted = size_key(need.size or "")
    offer = next((o for o in place.offers if size_key(o.size) == wanted), None)
    if offer is None:
        return _Choice(picks=(), blocked=(f"{need.size} is not listed in {place.region}.",))
    obstacle = _obstacle(offer, place.spot)
    return _Choice(
        picks=(Pick(need=need, offer=offer, vms=need.count),),
        blocked=(obstacle,) if obstacle else (),
    )


def _obstacle(offer: Offer, spot: bool) -> str | None:
    """Say why the size cannot be used here, whatever the quota; None when it can."""
    if offer.access in ("blocked", "retired"):
        state = "blocked" if offer.access == "blocked" else "no longer offered"
        return f"{offer.size} is {state} in {offer.region} ({offer.access_reason})."
    if spot and offer.spot_capable is False:
        return f"{offer.size} cannot run as spot in {offer.region}."
    return None


def _of_model(need: Need, place: _Place) -> list[Offer]:
    """Return the sizes with the model, without the confidential ones: they need other images."""
    model = need.gpu_model or ""
    return [o for o in place.offers if o.series_class != "NCC" and is_model(model, o)]


def _candidates(need: Need, place: _Place) -> list[Candidate]:
    """Return the sizes that can bring the GPUs, whole ones only where there are any."""
    usable = [o for o in _of_model(need, place) if not _obstacle(o, place.spot)]
    found = [c for c in (_candidate(o, place) for o in usable) if c is not None]
    whole = [c for c in found if c.gpus.denominator == 1]
    return whole or found


def _candidate(offer: Offer, place: _Place) -> Candidate | None:
    count = exact_gpus(offer)
    if not count or not offer.vcpus:
        return None
    return Candidate(
        offer=offer,
        gpus=count,
        vcpus=offer.vcpus,
        pools=_pool_keys(offer, place.spot),
        price=_price(offer, place.spot),
        certain=not _unsure(offer, place.spot),
    )


def _no_candidate(need: Need, place: _Place) -> _Choice:
    """Say why no size of the region can meet a need for a model."""
    rows = _of_model(need, place)
    obstacles = tuple(text for text in (_obstacle(o, place.spot) for o in rows) if text)
    if len(obstacles) < len(rows):
        unclear = f"GPUs or vCPUs of the {need.gpu_model} sizes in {place.region} are not known."
        return _Choice(picks=(), unknown=(unclear,))
    none = f"No size in {place.region} has {need.gpu_model} GPUs."
    return _Choice(picks=(), blocked=obstacles or (none,))


def _pool_keys(offer: Offer, spot: bool) -> tuple[str, ...]:
    return tuple(quota_key(quota.name) for quota in limits_of(offer, None, spot=spot))


def _price(offer: Offer, spot: bool) -> float | None:
    return offer.spot_price_per_hour if spot else offer.price_per_hour


# --- the verdict


def _required(picks: Iterable[Pick], spot: bool) -> dict[str, int]:
    """Return the vCPUs that the picks take of each quota; unknown vCPUs count nothing."""
    required: dict[str, int] = {}
    for pick in picks:
        for name in _pool_keys(pick.offer, spot):
            required[name] = required.get(name, 0) + pick.vms * (pick.offer.vcpus or 0)
    return required


def _shortfalls(required: Mapping[str, int], pools: Mapping[str, Quota]) -> Iterator[Shortfall]:
    for name, quota in pools.items():
        vcpus = required.get(name, 0)
        if quota.free is not None and quota.used is not None and vcpus > quota.free:
            yield Shortfall(
                limit=quota.name,
                label=quota.label,
                required_vcpus=vcpus,
                free_vcpus=quota.free,
                short_vcpus=vcpus - quota.free,
                new_limit_vcpus=quota.used + vcpus,
            )


def _verdict(
    choice: _Choice,
    shortfalls: Sequence[Shortfall],
    required: Mapping[str, int],
    pools: Mapping[str, Quota],
    spot: bool,
) -> bool | None:
    """Judge: what is known to refuse decides, then what is not known."""
    if choice.blocked or shortfalls:
        return False
    unsure = choice.unknown or any(_unsure(pick.offer, spot) for pick in choice.picks)
    return None if unsure or _unknown_pools(required, pools) else True


def _unsure(offer: Offer, spot: bool) -> bool:
    unknown_use = spot and offer.spot_capable is None
    return not offer.vcpus or offer.access == "unknown" or unknown_use


def _unknown_pools(required: Mapping[str, int], pools: Mapping[str, Quota]) -> list[str]:
    return [quota.name for key, quota in pools.items() if key in required and quota.free is None]


def _placement(pick: Pick, spot: bool) -> Placement:
    offer, count, price = pick.offer, exact_gpus(pick.offer), _price(pick.offer, spot)
    return Placement(
        need=pick.need.text,
        size=offer.size,
        vms=pick.vms,
        gpus=None if count is None else float(count * pick.vms),
        vcpus=offer.vcpus * pick.vms if offer.vcpus else None,
        price_per_hour=_total(price, pick.vms),
        price_per_gpu_hour=_gpu_price(offer, spot),
    )


def _gpu_price(offer: Offer, spot: bool) -> float | None:
    return offer.spot_price_per_gpu_hour if spot else offer.price_per_gpu_hour


def _total(price: float | None, vms: int) -> float | None:
    """Multiply in decimals, so that no price shows digits that nobody charges."""
    return None if price is None else float(Fraction(str(price)) * vms)


def _actions(
    needs: Sequence[Need],
    choice: _Choice,
    shortfalls: Sequence[Shortfall],
    required: Mapping[str, int],
    pools: Mapping[str, Quota],
    place: _Place,
) -> Iterator[str]:
    yield from _mixes_named(needs, choice.picks)
    yield from _remarks_on_picks(choice, shortfalls, pools, place.spot)
    useful = _required([pick for pick in choice.picks if not _is_gone(pick.offer)], place.spot)
    for lack in shortfalls:
        if lack.new_limit_vcpus is not None and quota_key(lack.limit) in useful:
            wanted = QuotaWanted(
                subscription_id=place.subscription_id,
                region=place.region,
                family=lack.limit,
                limit_vcpus=lack.new_limit_vcpus,
            )
            yield quota_command(wanted)
    if any(NO_ACCESS in text and _RETIRED not in text for text in choice.blocked):
        yield f"Ask for access: {REGION_ACCESS_PAGE}"
    yield from choice.unknown
    for name in _unknown_pools(required, pools):
        yield (
            f"The quota {name!r} in {place.region} is not known:"
            f" `ai4infra quota list --region {place.region}` shows what Azure tells."
        )


def _is_gone(offer: Offer) -> bool:
    """Tell whether no quota and no access can bring the size back."""
    return offer.access == "retired" or _RETIRED in (offer.access_reason or "")


def _mixes_named(needs: Sequence[Need], picks: Sequence[Pick]) -> Iterator[str]:
    """Say where only a mix fits; a need that is given twice is two needs and no mix."""
    for need in dict.fromkeys(needs):
        sizes = [pick for pick in picks if pick.need == need]
        if len(sizes) > needs.count(need):
            mix = " and ".join(f"{pick.vms}x{pick.offer.size}" for pick in sizes)
            yield f"No single size brings {need.text} within quota; {mix} do."


def _remarks_on_picks(
    choice: _Choice, shortfalls: Sequence[Shortfall], pools: Mapping[str, Quota], spot: bool
) -> Iterator[str]:
    """Say how many of a refused size fit, and what retires."""
    short = {quota_key(lack.limit) for lack in shortfalls}
    for pick in choice.picks:
        if short & set(_pool_keys(pick.offer, spot)):
            fit = _fitting(pick, pools, spot)
            if 0 < fit < pick.vms:
                yield f"{fit} of {pick.vms} {pick.offer.size} would fit now, on their own."
        if pick.offer.access == "unknown":
            where = f"{pick.offer.size} in {pick.offer.region}"
            yield f"Whether you have access to {where} is not known: {pick.offer.access_reason}."
        if pick.offer.access == "retiring":
            yield f"{pick.offer.size} {pick.offer.access_reason}."


def _fitting(pick: Pick, pools: Mapping[str, Quota], spot: bool) -> int:
    """Return how many VMs of the size the known quotas allow, nothing else counted."""
    free = [pools[name].free for name in _pool_keys(pick.offer, spot)]
    known = [left // pick.offer.vcpus for left in free if left is not None and pick.offer.vcpus]
    return min(known, default=0) if len(known) == len(free) else 0


def _any(verdicts: Sequence[bool | None]) -> bool | None:
    """True when one is True; None when one of the others, or all there is, is unknown."""
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


# --- alternatives


def _alternatives(
    needs: Sequence[Need],
    offers: Sequence[Offer],
    pools: Mapping[tuple[str, str], RegionQuota],
    spot: bool,
) -> tuple[Alternative, ...]:
    """Return the sizes that alone do for all needs within known quota, cheapest per GPU first."""
    wish = _wish(needs, offers)
    if wish is None:
        return ()
    found = [
        _alternative(o, wish, pools.get((o.subscription_id, o.region)), spot)
        for o in offers
        if _serves(o, wish) and not _obstacle(o, spot) and not _unsure(o, spot)
    ]
    return tuple(sorted(filter(None, found), key=_alternative_rank)[:MAX_ALTERNATIVES])


def _alternative(
    offer: Offer, wish: _Wish, quotas: RegionQuota | None, spot: bool
) -> Alternative | None:
    """Return the offer as an alternative, None unless quota is known to allow it."""
    count, vcpus = exact_gpus(offer) or Fraction(1), offer.vcpus or 0
    vms = math.ceil(wish.gpus / count)
    free = [quota.free for quota in limits_of(offer, quotas, spot=spot)]
    if any(left is None or vms * vcpus > left for left in free):
        return None
    return Alternative(
        region=offer.region,
        subscription_id=offer.subscription_id,
        size=offer.size,
        gpu_model=offer.gpu_model,
        vms=vms,
        gpus=float(count * vms),
        price_per_hour=_total(_price(offer, spot), vms),
        price_per_gpu_hour=_gpu_price(offer, spot),
        currency=offer.currency,
    )


def _alternative_rank(a: Alternative) -> tuple[object, ...]:
    unknown = a.price_per_gpu_hour is None
    return (
        unknown,
        a.price_per_gpu_hour or 0,
        a.price_per_hour or 0,
        a.region,
        natural_key(a.size),
        a.subscription_id,
    )


def _serves(offer: Offer, wish: _Wish) -> bool:
    count, memory = exact_gpus(offer), memory_per_gpu_gib(offer)
    if not count or memory is None or offer.series_class in ("NP", "NCC"):
        return False
    return (
        memory >= wish.memory_gib
        and not (wish.whole and count.denominator > 1)
        and (offer.vendor is None or offer.vendor in wish.vendors or not wish.vendors)
    )


def _wish(needs: Sequence[Need], offers: Sequence[Offer]) -> _Wish | None:
    """Add the needs up to GPUs and the memory of each; None when one of them is not known."""
    wishes = [_wish_of(need, offers) for need in needs]
    known = [wish for wish in wishes if wish is not None]
    if not known or len(known) < len(wishes):
        return None
    return _Wish(
        gpus=sum((wish.gpus for wish in known), Fraction(0)),
        memory_gib=max(wish.memory_gib for wish in known),
        vendors=frozenset[str]().union(*(wish.vendors for wish in known)),
        whole=any(wish.whole for wish in known),
    )


def _wish_of(need: Need, offers: Sequence[Offer]) -> _Wish | None:
    """Read a need's GPUs from our data, else from the rows that have them; the least that counts.

    ``16xA100`` is content with the smallest A100 there is.
    """
    told = _told_by_data(need) or _told_by_rows(need, offers)
    return min(told, key=lambda wish: (wish.memory_gib, wish.gpus), default=None)


def _told_by_data(need: Need) -> list[_Wish]:
    names = [need.size] if need.size else gpu_facts.all_sizes()
    found = []
    for facts in map(gpu_facts.facts, names):
        count = gpu_facts.fraction(facts.gpu_count) if facts.gpu_count else None
        if need.size or gpu_facts.gpu_matches(
            need.gpu_model or "", facts.gpu_model, facts.gpu_memory_gib
        ):
            found.append(_wish_for(need, count, facts.gpu_memory_gib, facts.vendor))
    return [wish for wish in found if wish is not None]


def _told_by_rows(need: Need, offers: Sequence[Offer]) -> list[_Wish]:
    found = [
        _wish_for(need, exact_gpus(o), whole_gpu_memory_gib(o), o.vendor)
        for o in offers
        if (
            size_key(o.size) == size_key(need.size)
            if need.size
            else is_model(need.gpu_model or "", o)
        )
    ]
    return [wish for wish in found if wish is not None]


def _wish_for(
    need: Need, gpus: Fraction | None, whole_gib: float | None, vendor: str | None
) -> _Wish | None:
    """Return what one need asks for, given a size's GPUs and the memory of a whole one."""
    if not gpus or whole_gib is None:
        return None
    share = min(gpus, Fraction(1)) if need.size else Fraction(1)
    return _Wish(
        gpus=gpus * need.count if need.size else Fraction(need.count),
        memory_gib=float(Fraction(whole_gib) * share),
        vendors=frozenset([vendor] if vendor else []),
        whole=need.gpu_model is not None or gpus.denominator == 1,
    )
