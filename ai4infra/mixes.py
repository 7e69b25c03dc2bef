"""The search for the sizes that meet needs for a GPU model within what quota leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, permutations

from ai4infra.model import Need, Offer, Quota, Record
from ai4infra.recon import natural_key

_UNLIMITED = 10**12
_MOST_SIZES_IN_A_MIX = 3
_TRIES = 2_000
_WAYS_PER_NEED = 24


class Candidate(Record, frozen=True):
    """A size that can meet a need, with what the search has to know of it."""

    offer: Offer
    gpus: Fraction
    vcpus: int
    pools: tuple[str, ...]
    """Keys of the quotas that its VMs count against."""
    price: float | None
    certain: bool
    """False where it is unknown whether the size may be used at all."""


class Pick(Record, frozen=True):
    """So many VMs of one size for one need."""

    need: Need
    offer: Offer
    vms: int


def ways_through(
    needs: Sequence[Need],
    candidates: Mapping[str, Sequence[Candidate]],
    required: Mapping[str, int],
    pools: Mapping[str, Quota],
) -> tuple[Pick, ...]:
    """Choose sizes for all needs: what surely fits, else what may, else what lacks least."""
    sure = _free(pools, required, unknown=0)
    certain = {text: [c for c in every if c.certain] for text, every in candidates.items()}
    possible = _free(pools, required, unknown=_UNLIMITED)
    found = _search(needs, certain, sure)
    if found is None:
        found = _search(needs, candidates, possible)
    return _closest(needs, candidates, possible) if found is None else found


def _free(
    pools: Mapping[str, Quota], required: Mapping[str, int], *, unknown: int
) -> dict[str, int]:
    """Return what the named sizes leave of each quota, with a number in place of unknown."""
    free = {name: unknown if q.free is None else q.free for name, q in pools.items()}
    return {name: max(0, left - required.get(name, 0)) for name, left in free.items()}


def _search(
    needs: Sequence[Need],
    candidates: Mapping[str, Sequence[Candidate]],
    free: Mapping[str, int],
) -> tuple[Pick, ...] | None:
    """Return the first way to meet all needs, going back where an earlier one leaves no room."""
    if not needs:
        return ()
    need = needs[0]
    for mix in islice(_mixes(need.count, candidates[need.text], free), _WAYS_PER_NEED):
        rest = _search(needs[1:], candidates, _after(free, mix))
        if rest is not None:
            return (*(Pick(need=need, offer=c.offer, vms=vms) for c, vms in mix), *rest)
    return None


_Mix = tuple[tuple[Candidate, int], ...]


def _mixes(count: int, candidates: Sequence[Candidate], free: Mapping[str, int]) -> Iterator[_Mix]:
    """Yield the ways to bring so many GPUs within quota, the best first: one size before two.

    One size is judged exactly. In a mix, each size but the last takes the most VMs that quota and
    need allow, or some fewer, in every order: exact for the few VMs that one need usually is, and
    for more of them the corners near which a cheapest mix has to lie. ``_TRIES`` bounds the work.
    """
    usable = [c for c in candidates if _most_vms(c, free) > 0]
    if _most_gpus(usable, free) < count:
        return
    for sizes in range(1, min(len(usable), _MOST_SIZES_IN_A_MIX) + 1):
        window = _window(len(usable), sizes)
        found = {
            tuple((c.offer.size, vms) for c, vms in _by_size(mix)): _by_size(mix)
            for order in permutations(usable, sizes)
            for mix in _fills(Fraction(count), order, free, window)
        }
        yield from sorted(found.values(), key=_rank)


def _by_size(mix: _Mix) -> _Mix:
    """Put a mix into the order of the sizes' names, the same whatever order it was found in."""
    return tuple(sorted(mix, key=lambda part: natural_key(part[0].offer.size)))


def _window(usable: int, sizes: int) -> int:
    """Return how many counts of each size but the last to try."""
    return math.ceil(math.pow(_TRIES / math.perm(usable, sizes), 1 / max(1, sizes - 1)))


def _fills(
    count: Fraction, order: Sequence[Candidate], free: Mapping[str, int], window: int
) -> Iterator[_Mix]:
    """Yield the mixes that use all the sizes, each but the last as far as it goes."""
    first, others = order[0], order[1:]
    needed, most = math.ceil(count / first.gpus), _most_vms(first, free)
    if not others:
        if needed <= most:
            yield ((first, needed),)
        return
    top = min(most, needed - 1)
    for vms in range(top, max(0, top - window), -1):
        left = _after(free, ((first, vms),))
        for rest in _fills(count - vms * first.gpus, others, left, window):
            yield ((first, vms), *rest)


def _most_vms(candidate: Candidate, free: Mapping[str, int]) -> int:
    return min(free[name] // candidate.vcpus for name in candidate.pools)


def _most_gpus(candidates: Sequence[Candidate], free: Mapping[str, int]) -> Fraction:
    """Return a bound on the GPUs within quota: as if parts of VMs could be had."""
    left, total = dict(free), Fraction(0)
    for c in sorted(candidates, key=lambda c: c.vcpus / c.gpus):
        vcpus = min(left[name] for name in c.pools)
        left |= {name: left[name] - vcpus for name in c.pools}
        total += vcpus * c.gpus / c.vcpus
    return total


def _after(free: Mapping[str, int], mix: _Mix) -> dict[str, int]:
    left = dict(free)
    for candidate, vms in mix:
        for name in candidate.pools:
            left[name] -= vms * candidate.vcpus
    return left


def _rank(mix: _Mix) -> tuple[bool, float, int, list[str]]:
    """Order mixes: not retiring, cheap (unknown last), few VMs, by name."""
    total = sum(math.inf if c.price is None else c.price * vms for c, vms in mix)
    retiring = any(c.offer.access == "retiring" for c, _ in mix)
    return (retiring, total, sum(vms for _, vms in mix), sorted(c.offer.size for c, _ in mix))


def _closest(
    needs: Sequence[Need],
    candidates: Mapping[str, Sequence[Candidate]],
    free: Mapping[str, int],
) -> tuple[Pick, ...]:
    """Meet each need by the one size that lacks the fewest vCPUs."""
    if not needs:
        return ()
    need = needs[0]
    ways: list[_Mix] = [((c, math.ceil(need.count / c.gpus)),) for c in candidates[need.text]]
    best = min(ways, key=lambda mix: (_lacking(mix, free), _rank(mix)))
    picks = tuple(Pick(need=need, offer=c.offer, vms=vms) for c, vms in best)
    return (*picks, *_closest(needs[1:], candidates, _after(free, best)))


def _lacking(mix: _Mix, free: Mapping[str, int]) -> int:
    """Return the vCPUs that the mix lacks more than are lacking already."""
    left = _after(free, mix)
    return sum(max(0, -left[name]) - max(0, -free[name]) for name in left)
