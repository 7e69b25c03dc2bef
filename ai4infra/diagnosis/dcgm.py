"""Read what ``dcgmi dmon -e …`` prints, by the short names in its header.

It tells of GPUs (``GPU 0``) and, under MIG, of their instances (``GPU-I 3``, ``GPU-CI 5``), which
DCGM numbers through over all GPUs. Parts come behind what they are parts of (dcgmi, DeviceMonitor).
``N/A`` is unknown. There are no times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ai4infra.diagnosis.dmon import remark
from ai4infra.diagnosis.samples import GpuSample, Notes
from ai4infra.diagnosis.text import MIB, number, whole_lines

_ENTITIES = {"GPU": "gpu", "GPU-I": "i", "GPU-CI": "ci"}
"""A row's first word, from whole to part, and what dcgmi calls it in ``-i``."""
_DEPTHS = {entity: depth for depth, entity in enumerate(_ENTITIES)}
_ENDED = "dmon was stopped"


def column_names(line: str) -> list[str]:
    """Return the names in a header of dcgmi dmon, its entity left out; none for any other line."""
    names = line.lstrip("\ufeff ").replace("#", "# ", 1).split()
    return names[2:] if [name.casefold() for name in names[:2]] == ["#", "entity"] else []


def read_dcgm(lines: Iterable[str], notes: Notes) -> Iterator[GpuSample]:
    """Yield the samples of a dcgmi log; what is split is left to its parts."""
    held: tuple[int, GpuSample] | None = None
    for depth, sample in _rows(lines, notes):
        if held and depth <= held[0]:
            yield held[1]
        held = depth, sample
    if held:
        yield held[1]


def _rows(lines: Iterable[str], notes: Notes) -> Iterator[tuple[int, GpuSample]]:
    """Yield samples, and how deep below a GPU they are."""
    names: list[str] = []
    path: list[str] = []
    for line in whole_lines(lines, notes):
        fields = line.split()
        if header := column_names(line):
            names = header
        elif names and len(fields) == len(names) + 2 and fields[1].isdecimal():
            depth = _DEPTHS.get(fields[0])
            # NVSwitches and links have rows as well.
            if depth is not None:
                path = [*path[:depth], fields[1]]
                name = "/".join(path)
                if len(path) <= depth:
                    name = f"{_ENTITIES[fields[0]]}:{path.pop()}"
                yield depth, _sample(name, dict(zip(names, fields[2:], strict=True)))
        elif fields and fields[0].casefold() != "id" and _ENDED not in line:
            remark(line, notes)


def _sample(gpu: str, texts: dict[str, str]) -> GpuSample:
    def value(name: str, scale: float = 1.0) -> float | None:
        found = number(texts.get(name, ""))
        return None if found is None else found * scale

    return GpuSample(
        gpu=gpu,
        utilization=_share(value, ("GRACT", 1.0), ("GPUTL", 0.01), ("SMACT", 1.0)),
        memory_activity=_share(value, ("DRAMA", 1.0), ("MCUTL", 0.01)),
        memory_used_bytes=value("FBUSD", MIB),
        power_w=value("POWER"),
        sm_clock_mhz=value("SMCLK"),
        received_bytes_s=value("PCIRX"),
    )


def _share(
    value: Callable[[str, float], float | None], *columns: tuple[str, float]
) -> float | None:
    """Return the first that is known; profiling counters go beyond one."""
    known = (value(name, scale) for name, scale in columns)
    return next((min(share, 1.0) for share in known if share is not None), None)
