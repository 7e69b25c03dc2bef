"""Sizes, counts and VMs: read as they are typed, said in words."""

from __future__ import annotations

import re
from fractions import Fraction

from ai4infra import gpus
from ai4infra.errors import UsageError
from ai4infra.ids import unknown_name
from ai4infra.sizing.records import Job, LocalDisk, Vms

_BYTES = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([KMGTP]?)(i?)B", re.ASCII | re.IGNORECASE)
_BITS = re.compile(r"[\d.]+\s*[KMGTP]i?b", re.ASCII)
_COUNT = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([KMB]?)", re.ASCII | re.IGNORECASE)
_VMS = re.compile(r"(?:(\d{1,6})\s*x\s*)?([A-Z][A-Z0-9_-]*)", re.ASCII | re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Parse a size: ``2TB`` is 2 * 10**12 bytes, ``2TiB`` is 2 * 2**40, exactly.

    Raises UsageError for anything else, for bits (``2Tb``), parts of a byte, and nothing.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None or _BITS.fullmatch(text.strip()):
        raise UsageError(
            f"{text!r} is not a size.", hint="Say 500GB or 2TB (powers of 1000), or 2TiB (1024)."
        )
    power = "KMGTP".find(match[2].upper()) + 1 if match[2] else 0
    if match[3] and not power:
        raise UsageError(f"{text!r} is not a size.", hint="Say KiB, MiB, GiB, TiB or PiB.")
    return _whole(Fraction(match[1]) * (1024 if match[3] else 1000) ** power, text, "byte")


def parse_count(text: str) -> int:
    """Parse a number of things: ``12M`` is 12,000,000; K, M and B (10**9) are known.

    Raises UsageError for anything else, for parts of one, and none.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a number.", hint="Say 12000000 or 12M.")
    power = "KMB".find(match[2].upper()) + 1 if match[2] else 0
    return _whole(Fraction(match[1]) * 1000**power, text, "one")


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number: part of {unit} is left over.")
    if value == 0:
        raise UsageError(f"{text!r} is nothing.")
    return value.numerator


def parse_vms(text: str) -> Vms:
    """Parse VMs: ``8xStandard_ND96asr_v4``, ``8xND96asr_v4``, or one by its size alone.

    Raises UsageError, with close names, for a size of which nothing is known.
    """
    match = _VMS.fullmatch(text.strip())
    if match is None or int(match[1] or 1) == 0:
        raise UsageError(f"{text!r} is not a number of VMs.", hint="Say 8xND96asr_v4.")
    model = gpus.model_named(match[2])
    if model:
        raise UsageError(
            f"{match[2]} is a GPU; which VM they are in decides what can feed them.",
            hint="Say the size, such as 8xND96asr_v4; ai4infra recon --gpu lists them.",
        )
    if gpus.series_class(match[2]) is None:
        raise unknown_name(
            "GPU size", match[2], gpus.all_sizes(), listing="Say the size, such as 8xND96asr_v4."
        )
    return Vms(count=int(match[1] or 1), size=match[2])


def shared_words(job: Job) -> str:
    """Say how many jobs share a limit; nothing for one alone."""
    return f" shared by {job.shared_by} jobs" if job.shared_by > 1 else ""


def rate_words(mbytes_s: float) -> str:
    """Say a rate in MB a second."""
    return f"{mbytes_s:,.0f} MB/s" if mbytes_s >= 10 else f"{mbytes_s:.2g} MB/s"


def percent_words(percent: float) -> str:
    """Say a percentage: whole, or in two digits where it is small."""
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def size_words(count: float) -> str:
    """Write bytes in the largest decimal unit that leaves at least one."""
    for power, unit in ((15, "PB"), (12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:.4g} {unit}"
    return f"{count:.4g} B"


def gib_words(local: LocalDisk) -> str:
    """Say what a local disk holds."""
    return f"{local.gib or 0:,.0f} GiB of {local.name}"


def duration_words(seconds: float) -> str:
    """Say a time in its largest unit."""
    for length, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
