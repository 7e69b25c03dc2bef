"""Read the JSON of iostat and mpstat (``-o JSON``) and of ``sadf -j``, whole or broken.

Releases print a comma too many (``-y``), no comma where one belongs, decimal commas, or no end
(SIGTERM). The document is therefore not read as a whole: its innermost objects are found one by
one, so that memory stays the same and what is not broken is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ai4infra.diagnosis.iostat import FirstReport
from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.sysstat import Kind, SysstatSample, column_key, pairs_of, sample
from ai4infra.diagnosis.text import Clock

_INNERMOST = re.compile(r"\{[^{}]*\}")
_TIMESTAMP = re.compile(r'"timestamp"\s*:\s*"([^"]{1,64})"')
_CPUS = re.compile(r'"number-of-cpus"\s*:\s*(\d{1,5})')
_OMITTED = re.compile(r'"statistics"\s*:\s*\[[ \t]*\r?\n[ \t]*(?:\r?\n|,)')
_CPU_LOAD = re.compile(r'"avg-cpu"\s*:\s*$')
_DECIMAL_COMMA = re.compile(r"(?<=:)(\s*\d+),(?=\d+\s*[,}])")
_REST = 1 << 20
"""More characters than this between two objects are nothing of sysstat's."""
_DEVICES = ("disk_device", "disk-device", "device")


def read_sysstat_json(chunks: Iterable[str], notes: Notes) -> Iterator[SysstatSample]:
    """Yield the samples of a JSON report, given in lines or in pieces of any size."""
    reader = _Reader(notes)
    rest = ""
    for chunk in chunks:
        rest += chunk
        if "}" not in chunk:
            rest = rest[-_REST:]
            continue
        end = 0
        for match in _INNERMOST.finditer(rest):
            yield from reader.context(rest[end : match.start()])
            yield from reader.object(match[0])
            end = match.end()
        rest = rest[end:][-_REST:]
    notes.cut |= rest.count("{") > 0 or not rest.strip().endswith("}")
    yield from reader.first.end()


class _Reader:
    """What is known while the objects go by."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.first = FirstReport(notes)
        self.clock = Clock()
        self.time_s: float | None = None
        self.seen: set[tuple[Kind, str]] = set()
        self.iostat = False
        self.after_cpu_load = False

    def context(self, text: str) -> Iterator[SysstatSample]:
        """Take what stands between two objects: times, the machine, the signs of ``-y``."""
        if '"statistics"' in text:
            yield from self.first.end()
            self.seen.clear()
            self.first.omitted = bool(_OMITTED.search(text))
        if '"number-of-cpus"' in text and (cpus := _CPUS.search(text)):
            self.notes.cpus = int(cpus[1])
        if '"timestamp"' in text and (stamp := _TIMESTAMP.search(text)):
            self.time_s = self.clock.of(stamp[1])
        self.after_cpu_load = bool(_CPU_LOAD.search(text))

    def object(self, text: str) -> Iterator[SysstatSample]:
        """Take an object: a disk, an interface, a CPU, a time, or something else."""
        fields = _decoded(text)
        if fields is None:
            self.notes.skipped += 1
            return
        if isinstance(fields.get("time"), str):
            self.time_s = self.clock.of(f"{fields.get('date', '')} {fields['time']}")
            return
        found = _row(fields, whole_cpu=self.after_cpu_load)
        if found is not None:
            yield from self._sample(*found)

    def _sample(self, kind: Kind, name: str, found: dict[str, float]) -> Iterator[SysstatSample]:
        # Only iostat begins with a report since boot, and only its rows lead to one.
        self.iostat |= kind == "disk" or self.after_cpu_load
        if not self.first.reports or (kind, name) in self.seen:
            yield from self.first.next_report()
            self.seen.clear()
        self.seen.add((kind, name))
        if not self.iostat:
            self.first.omitted = True
        yield from self.first.keep(sample(kind, name, self.time_s, found))


def _decoded(text: str) -> dict[str, Any] | None:
    for candidate in (text, _DECIMAL_COMMA.sub(r"\1.", text)):
        try:
            return msgspec.json.decode(candidate, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError):
            continue
    return None


def _row(
    fields: Mapping[str, Any], *, whole_cpu: bool
) -> tuple[Kind, str, dict[str, float]] | None:
    device = next((fields[key] for key in _DEVICES if isinstance(fields.get(key), str)), None)
    if device is not None:
        return "disk", device, _fields("disk", fields)
    if isinstance(fields.get("iface"), str) and "rxpck" in fields:
        return "net", fields["iface"], _fields("net", fields)
    if "idle" in fields and (whole_cpu or "cpu" in fields):
        return "cpu", str(fields.get("cpu", "all")), _fields("cpu", fields)
    return None


def _fields(kind: Kind, fields: Mapping[str, Any]) -> dict[str, float]:
    numbers = {
        _key(kind, name): float(value)
        for name, value in fields.items()
        if isinstance(value, (int, float)) and 0 <= value < 1e18
    }
    found: dict[str, float] = {}
    values = list(numbers.values())
    for field, at, scale in pairs_of(kind, list(numbers)):
        summed = found.get(field, 0.0) if kind == "cpu" else 0.0
        found[field] = summed + values[at] * scale
    if "busy" in found:
        found["busy"] = min(found["busy"], 1.0)
    return found


_SADF = {"rd_sec": "rd_sec/s", "wr_sec": "wr_sec/s", "util-percent": "util"}
_RATES_WITHOUT_UNIT = ("rxkb", "txkb", "rkb", "wkb", "rxbyt", "txbyt")


def _key(kind: Kind, name: str) -> str:
    """Return the key of a name in JSON; sadf leaves ``/s`` away."""
    key = column_key(name)
    if key in _RATES_WITHOUT_UNIT:
        return f"{key}/s"
    return _SADF.get(key, key)
