"""The columns of sysstat's tables, by name, and rows turned into samples.

The names are those of iostat, sar and mpstat from sysstat 9 to 12, and of their JSON. Units come
from the name: kB is 1024 bytes, a sector and a Blk are 512 (iostat(1), sar(1)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample
from ai4infra.diagnosis.text import GIB, KIB, MIB, SECTOR_BYTES, number

Kind = Literal["disk", "net", "cpu"]
SysstatSample: TypeAlias = DiskSample | NetSample | CpuSample
_MILLI, _PERCENT = 0.001, 0.01
_LARGEST = 1e18

_RATES = {
    "kb": KIB,
    "mb": MIB,
    "gb": GIB,
    "sec": SECTOR_BYTES,
    "blk": SECTOR_BYTES,
}
_DISK: dict[str, tuple[str, float]] = {
    "r/s": ("reads_s", 1.0),
    "w/s": ("writes_s", 1.0),
    "tps": ("operations_s", 1.0),
    "rd_sec/s": ("read_bytes_s", SECTOR_BYTES),
    "wr_sec/s": ("write_bytes_s", SECTOR_BYTES),
    "r_await": ("read_wait_s", _MILLI),
    "w_await": ("write_wait_s", _MILLI),
    "await": ("wait_s", _MILLI),
    "aqu-sz": ("queue", 1.0),
    "avgqu-sz": ("queue", 1.0),
    "util": ("busy", _PERCENT),
    **{f"r{unit}/s": ("read_bytes_s", scale) for unit, scale in _RATES.items()},
    **{f"w{unit}/s": ("write_bytes_s", scale) for unit, scale in _RATES.items()},
    **{f"{unit}/s": ("total_bytes_s", scale) for unit, scale in _RATES.items()},
    **{f"{unit}_read/s": ("read_bytes_s", scale) for unit, scale in _RATES.items()},
    **{f"{unit}_wrtn/s": ("write_bytes_s", scale) for unit, scale in _RATES.items()},
}
_NET: dict[str, tuple[str, float]] = {
    "rxbyt/s": ("received_bytes_s", 1.0),
    "txbyt/s": ("sent_bytes_s", 1.0),
    "rxkb/s": ("received_bytes_s", KIB),
    "txkb/s": ("sent_bytes_s", KIB),
    "rxmb/s": ("received_bytes_s", MIB),
    "txmb/s": ("sent_bytes_s", MIB),
}
_CPU = {
    **dict.fromkeys(("user", "usr", "nice", "guest", "gnice"), "user"),
    **dict.fromkeys(("system", "sys", "irq", "soft"), "system"),
    "iowait": "iowait",
    "steal": "steal",
    "idle": "idle",
}
_NAMES: dict[str, Kind] = {"device": "disk", "dev": "disk", "iface": "net", "cpu": "cpu"}
_COLUMNS: dict[Kind, dict[str, tuple[str, float]]] = {
    "disk": _DISK,
    "net": _NET,
    "cpu": {name: (field, _PERCENT) for name, field in _CPU.items()},
}


class Table(NamedTuple):
    """A table by its header: where the name of a row stands, and which column is which field."""

    kind: Kind
    columns: tuple[str, ...]
    width: int
    name_last: bool
    pairs: tuple[tuple[str, int, float], ...]
    """Field, place among the values (the row without its name), scale."""

    def name(self, fields: Sequence[str]) -> str:
        """Return what a row is about."""
        return fields[-1] if self.name_last else fields[0]

    def values(self, fields: Sequence[str]) -> Sequence[str]:
        """Return a row without its name."""
        return fields[:-1] if self.name_last else fields[1:]


def column_key(title: str) -> str:
    """Return a title as it is looked up: ``%util`` and ``util``, ``Device:`` and ``Device``."""
    return title.strip("%:").casefold()


def table_of(titles: Sequence[str]) -> Table | None:
    """Return the table that a header line begins; None for a table of other things."""
    if len(titles) < 2:
        return None
    keys = [column_key(title) for title in titles]
    name_last = keys[0] not in _NAMES
    kind = _NAMES.get(keys[-1] if name_last else keys[0])
    if kind is None:
        return None
    values = keys[:-1] if name_last else keys[1:]
    pairs = pairs_of(kind, values)
    # The discards of --pretty have a table of their own: one of ours, with nothing that we keep.
    if not (pairs or name_last) or (kind == "cpu" and "idle" not in values):
        return None
    return Table(kind, tuple(keys), len(keys), name_last, pairs)


def pairs_of(kind: Kind, keys: Sequence[str]) -> tuple[tuple[str, int, float], ...]:
    """Return which of the columns are fields of a sample, and how they are scaled."""
    known = _COLUMNS[kind]
    return tuple((known[key][0], at, known[key][1]) for at, key in enumerate(keys) if key in known)


Make: TypeAlias = Callable[..., SysstatSample]
_MAKE: dict[Kind, tuple[Make, str]] = {
    "disk": (DiskSample, "device"),
    "net": (NetSample, "interface"),
    "cpu": (CpuSample, "cpu"),
}


def scaled(table: Table, values: Sequence[str]) -> dict[str, float] | None:
    """Return the fields of a row; None when a value is no plain number."""
    try:
        floats = list(map(float, values))
    except ValueError:
        return None
    # Also false for not-a-number, which sysstat prints where it divides by nothing.
    if not (min(floats) >= 0 and sum(floats) < _LARGEST):
        return None
    if table.kind == "cpu":
        return _summed(table.pairs, floats)
    found = {field: floats[at] * scale for field, at, scale in table.pairs}
    if found.get("busy", 0.0) > 1.0:
        found["busy"] = 1.0
    return found


def _summed(pairs: Sequence[tuple[str, int, float]], floats: Sequence[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for field, at, scale in pairs:
        found[field] = found.get(field, 0.0) + floats[at] * scale
    return found


def odd_values(table: Table, values: Sequence[str]) -> dict[str, float]:
    """Return the fields of a row whose values are commas, suffixes or nonsense in part.

    ``1.2M`` (``-h``) names its own unit, whatever the column's is.
    """
    found: dict[str, float] = {}
    for field, at, scale in table.pairs:
        text = values[at] if at < len(values) else ""
        value = number(text)
        if value is not None:
            own_unit = scale >= SECTOR_BYTES and text[-1:].isalpha()
            summed = found.get(field, 0.0) if table.kind == "cpu" else 0.0
            found[field] = summed + value * (1.0 if own_unit else scale)
    if "busy" in found:
        found["busy"] = min(found["busy"], 1.0)
    return found


def sample(kind: Kind, name: str, time_s: float | None, found: Mapping[str, Any]) -> SysstatSample:
    """Return the sample of a row."""
    make, subject = _MAKE[kind]
    return make(time_s=time_s, **{subject: name}, **found)
