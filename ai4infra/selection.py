"""Which offers somebody wants to see, and in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ai4infra import gpus as gpu_facts
from ai4infra.errors import UsageError
from ai4infra.ids import close_names, several, size_key, size_matches, unknown_name
from ai4infra.model import Offer
from ai4infra.recon import is_model, is_startable, memory_per_gpu_gib, natural_key

FAMILIES = ("NC", "ND", "NV", "NG", "NP", "NCC")
DEFAULT_FAMILIES = ("NC", "ND", "NV")
ALL_FAMILIES = "all"


def select(
    offers: Iterable[Offer],
    *,
    families: Sequence[str] | None = None,
    gpus: Sequence[str] = (),
    min_gpus: float | None = None,
    min_gpu_memory_gib: float | None = None,
    startable: bool = False,
    spot: bool = False,
    sizes: Sequence[str] = (),
) -> tuple[Offer, ...]:
    """Keep the rows that pass every filter, in their order; a filter drops rows it cannot judge.

    ``families`` are classes of ``FAMILIES`` or ``all``. None means NC, ND and NV; naming GPU models
    lifts it to every class but the confidential NCC, naming sizes to every class.
    ``min_gpu_memory_gib`` is per GPU: what one whole GPU has, or the share that the VM gets.
    ``startable`` keeps what access and quota allow now, of the spot pool when ``spot`` is set too;
    ``spot`` alone keeps what can run as spot. ``sizes`` are names, or patterns with ``*``.
    Raises UsageError for an unknown family class or GPU model, and for a least that is no number.
    """
    rows = tuple(offers)
    families = None if families is None else several(families)
    gpus, sizes = several(gpus), several(sizes)
    _check_least(min_gpus, "GPUs")
    _check_least(min_gpu_memory_gib, "GiB of GPU memory")
    classes = _classes(families, gpus, sizes)
    _check_models(gpus, rows)
    return tuple(
        o
        for o in rows
        if (classes is None or o.series_class in classes)
        and (not gpus or any(is_model(g, o) for g in gpus))
        and (not sizes or any(size_matches(s, o.size) for s in sizes))
        and _at_least(o.gpu_count, min_gpus)
        and _at_least(memory_per_gpu_gib(o), min_gpu_memory_gib)
        and (not spot or o.spot_capable is True)
        and (not startable or is_startable(o, spot=spot) is True)
    )


def unlisted_sizes(
    names: Iterable[str], offers: Iterable[Offer], known: Iterable[str] | None = None
) -> UsageError | None:
    """Return the error for the first name or pattern that fits no size at all, None when all do.

    A size that is in ``known`` (by default all sizes of our data) is a size, listed here or not.
    """
    sizes = {o.size: None for o in offers} | dict.fromkeys(
        gpu_facts.all_sizes() if known is None else known
    )
    for name in names:
        if not any(size_matches(name, size) for size in sizes):
            return _unknown_size(name, list(sizes))
    return None


def _unknown_size(name: str, sizes: Sequence[str]) -> UsageError:
    """Compare without the prefix, which would make all sizes look alike."""
    by_key = {size_key(size): size for size in sizes}
    close = [by_key[key] for key in close_names(size_key(name), by_key)]
    hint = f"Did you mean {' or '.join(close)}?" if close else "`ai4infra recon` lists the sizes."
    return UsageError(f"There is no GPU size called {name!r}.", hint=hint)


def _classes(
    families: Sequence[str] | None, gpus: Sequence[str], sizes: Sequence[str]
) -> frozenset[str] | None:
    """Return the classes to keep, None for all."""
    if families is None:
        if sizes:
            return None
        return frozenset({*FAMILIES, "other"} - {"NCC"} if gpus else DEFAULT_FAMILIES)
    wanted = {family.strip().upper() for family in families}
    for family in families:
        if family.strip().upper() not in {*FAMILIES, ALL_FAMILIES.upper()}:
            raise unknown_name(
                "family class",
                family,
                (*FAMILIES, ALL_FAMILIES),
                listing=f"One of {', '.join(FAMILIES)} or {ALL_FAMILIES}.",
            )
    return None if ALL_FAMILIES.upper() in wanted else frozenset(wanted)


def _check_models(gpus: Sequence[str], rows: Sequence[Offer]) -> None:
    listed = [o.gpu_model for o in rows if o.gpu_model]
    for name in gpus:
        known = gpu_facts.model_named(name) or any(gpu_facts.gpu_matches(name, m) for m in listed)
        if not known:
            models = dict.fromkeys((*gpu_facts.models(), *listed))
            raise unknown_name(
                "GPU model", name, models, listing=f"Known models: {', '.join(models)}."
            )


def _check_least(least: float | None, what: str) -> None:
    if least is not None and not 0 <= least < math.inf:
        raise UsageError(f"{least} is no number of {what}.", hint="Give a number such as 4 or 0.5.")


def _at_least(value: float | None, least: float | None) -> bool:
    return least is None or (value is not None and value >= least)


# --- order


_KEYS: dict[str, Callable[[Offer], Any]] = {
    "size": lambda o: natural_key(o.size),
    "price": lambda o: o.price_per_hour,
    "gpu-price": lambda o: o.price_per_gpu_hour,
    "fit": lambda o: o.fit_vms,
    "gpus": lambda o: o.gpu_count,
    "gpu-memory": lambda o: o.gpu_memory_gib,
    "memory": lambda o: o.memory_gib,
    "region": lambda o: natural_key(o.region),
}
_SPOT_KEYS: dict[str, Callable[[Offer], Any]] = {
    "price": lambda o: o.spot_price_per_hour,
    "gpu-price": lambda o: o.spot_price_per_gpu_hour,
    "fit": lambda o: o.spot_fit_vms,
}
SORT_KEYS = tuple(_KEYS)
"""Keys of ``sort``; ``memory`` is the VM's RAM, ``gpu-memory`` that of all its GPUs."""


def sort(offers: Iterable[Offer], key: str = "size", *, spot: bool = False) -> tuple[Offer, ...]:
    """Sort by one of ``SORT_KEYS``, downwards with a hyphen before it (``-price``).

    Unknown values come last both ways; equal ones keep their order. ``spot`` takes spot prices and
    the spot pool. Raises UsageError for another key.
    """
    name = key.removeprefix("-")
    if name not in _KEYS:
        raise unknown_name(
            "sort key", key, SORT_KEYS, listing=f"One of {', '.join(SORT_KEYS)}; -price descends."
        )
    value = (_SPOT_KEYS if spot else {}).get(name, _KEYS[name])
    rows = tuple(offers)
    known = [o for o in rows if value(o) is not None]
    unknown = [o for o in rows if value(o) is None]
    return (*sorted(known, key=value, reverse=key.startswith("-")), *unknown)
