"""The columns of sysstat's tables, by name, and rows turned into samples.

The names are those of iostat, sar and mpstat from sysstat 9 to 12, and of their JSON. Units come
from the name: kB is 1024 bytes, a sector and a Blk are 512 (iostat(1), sar(1)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from ai4infra.diagnosis.samples import CpuSample, DiskSample, NetSample
from ai4infra.diagnosis.text import GIB, KIB, MIB, SECTOR_BYTES, number

Kind = Literal["disk", "net", "cpu"]
SysstatSample: TypeAlias = DiskSample | NetSample | CpuSample
_MILLI, _PERCENT = 0.001, 0.01

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


Pair: TypeAlias = tuple[str, int, float]
"""Field, place among the words, scale."""
Build: TypeAlias = Callable[[list[str], "float | None"], "SysstatSample | None"]
"""Turns the words of a line and a time into a sample; None when a word is no plain number."""


class Table(NamedTuple):
    """A table by its header: where the name of a row stands, and which column is which field."""

    kind: Kind
    width: int
    """Words of a row, the time before it included."""
    prefix: int
    """Words of time before the columns."""
    name_at: int
    """Place of the name among the words; -1 where rows have none."""
    pairs: tuple[Pair, ...]
    """Field, place among the words, scale."""
    build: Build

    @property
    def name_last(self) -> bool:
        """True where the name is the last word."""
        return self.name_at == self.width - 1


def column_key(title: str) -> str:
    """Return a title as it is looked up: ``%util`` and ``util``, ``Device:`` and ``Device``."""
    return title.strip("%:").casefold()


def is_title(text: str) -> bool:
    """Tell whether a word is the title of a column or of the names."""
    key = column_key(text)
    return key in _NAMES or any(key in columns for columns in _COLUMNS.values()) or "/" in key


def is_device_header(titles: Sequence[str]) -> bool:
    """Tell the titles of iostat's devices; older releases translate the first of them."""
    keys = [column_key(title) for title in titles]
    if keys[0] == "device":
        return len(keys) > 1
    if keys[0] in _DISK or keys[0][:1].isdigit() or any(key in _NAMES for key in keys):
        return False
    return sum(key in _DISK for key in keys) >= 3


@lru_cache(maxsize=1024)
def whole_name(name: str) -> str:
    """Return the name of a device that sar calls by its numbers, where they tell it."""
    match = _NUMBERS.fullmatch(name)
    if match is None:
        return name
    major, minor = int(match[1]), int(match[2])
    if major == _SCSI_DISK:
        part = str(minor % 16) if minor % 16 else ""
        return f"sd{chr(ord('a') + minor // 16)}{part}"
    return f"md{minor}" if major == _ARRAY else name


_NUMBERS = re.compile(r"dev(\d{1,4})-(\d{1,3})", re.ASCII)
_SCSI_DISK, _ARRAY = 8, 9


@lru_cache(maxsize=256)
def table_of(titles: tuple[str, ...], *, prefix: int = 0, named: bool = True) -> Table | None:
    """Return the table that a header line begins; None for a table of other things.

    ``prefix`` words of time stand before the titles; rows that are not ``named`` are of all CPUs.
    """
    keys = [column_key(title) for title in titles]
    if len(keys) < 2:
        return None
    name_at = 0 if keys[0] in _NAMES else len(keys) - 1
    kind = _NAMES.get(keys[name_at])
    if kind is None:
        return None
    pairs = pairs_of(kind, keys)
    # The discards of --pretty have a table of their own: one of ours, with nothing that we keep.
    if not (pairs or name_at) or (kind == "cpu" and "idle" not in keys):
        return None
    shift = prefix if named else prefix - 1
    placed = tuple((field, at + shift, scale) for field, at, scale in pairs)
    place = name_at + prefix if named else -1
    name = f"words[{place}]" if named else "'all'"
    if kind == "disk" and prefix:
        name = f"({name} if {name}[0] != 'd' else whole_name({name}))"
    return Table(kind, len(keys) + shift, prefix, place, placed, builder(kind, name, placed))


def pairs_of(kind: Kind, keys: Sequence[str]) -> tuple[Pair, ...]:
    """Return which of the columns are fields of a sample, and how they are scaled."""
    known = _COLUMNS[kind]
    # Where reads and writes are told apart, their common mean says no more.
    told = [key for key in keys if key in known and not (key == "await" and "r_await" in keys)]
    return tuple((known[key][0], keys.index(key), known[key][1]) for key in told)


Make: TypeAlias = Callable[..., SysstatSample]
_MAKE: dict[Kind, tuple[Make, str]] = {
    "disk": (DiskSample, "device"),
    "net": (NetSample, "interface"),
    "cpu": (CpuSample, "cpu"),
}
_Number = Annotated[float, msgspec.Meta(ge=0, lt=1e18)]
# A JSON reader is several times faster at numbers than float(), and knows no nan and no infinity.
_BUILD = """
def build(words, time_s):
    try:
        [{values}] = decode(f"[{texts}]")
    except ValueError:
        return None
    return make(time_s=time_s, {subject}={name}, {fields})
"""


def builder(kind: Kind, name: str, pairs: Sequence[Pair]) -> Build:
    """Return what turns the plain rows of a table into samples; ``name`` is an expression.

    It is written out for the table and compiled, as a log has millions of rows: only places,
    scales and names from this file become part of it.
    """
    make, subject = _MAKE[kind]
    source = _BUILD.format(
        values=", ".join(f"v{at}" for _, at, _ in pairs),
        texts=",".join(f"{{words[{at}]}}" for _, at, _ in pairs),
        subject=subject,
        name=name,
        fields=", ".join(f"{field}={text}" for field, text in _fields(kind, pairs).items()),
    )
    decoder = msgspec.json.Decoder(tuple[(_Number,) * len(pairs)])  # type: ignore[misc]
    known: dict[str, Any] = {"decode": decoder.decode, "make": make, "whole_name": whole_name}
    exec(source, known)  # noqa: S102 - see above
    build: Build = known["build"]
    return build


def _fields(kind: Kind, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the fields of a sample as expressions of the values."""
    found: dict[str, str] = {}
    for field, at, scale in pairs:
        value = f"v{at} * {scale}" if scale != 1.0 else f"v{at}"
        if field == "busy":
            value = f"({value} if v{at} < {1 / scale} else 1.0)"
        found[field] = f"{found[field]} + {value}" if kind == "cpu" and field in found else value
    return found


def clamped(found: dict[str, float]) -> dict[str, float]:
    """Return the fields of a disk with %util at most 1: rounding takes it beyond."""
    if found.get("busy", 0.0) > 1.0:
        found["busy"] = 1.0
    return found


def odd_values(table: Table, words: Sequence[str]) -> dict[str, float]:
    """Return the fields of a row whose values are commas, suffixes or nonsense in part.

    ``1.2M`` (``-h``) names its own unit, whatever the column's is.
    """
    found: dict[str, float] = {}
    for field, at, scale in table.pairs:
        text = words[at] if at < len(words) else ""
        value = number(text)
        if value is not None:
            own_unit = scale >= SECTOR_BYTES and text[-1:].isalpha()
            summed = found.get(field, 0.0) if table.kind == "cpu" else 0.0
            found[field] = summed + value * (1.0 if own_unit else scale)
    return clamped(found)


def sample(kind: Kind, name: str, time_s: float | None, found: Mapping[str, Any]) -> SysstatSample:
    """Return the sample of a row."""
    make, subject = _MAKE[kind]
    return make(time_s=time_s, **{subject: name}, **found)
