"""The page of ``ai4infra diagnose``: the verdict, the GPUs, the evidence, what to do."""

from __future__ import annotations

from collections.abc import Iterator

from ai4infra.diagnosis.answer import Diagnosis, GpuRow, Verdict
from ai4infra.model import GpuFacts
from ai4infra.render import Column, Page, Tone, Verbatim, document


def diagnosis_page(found: Diagnosis, size: GpuFacts | None) -> Page:
    """Return the verdict, the GPUs, and below them what led to it and what to do."""
    parts = {name: getattr(found, name) for name in found.__struct_fields__}
    return Page(
        document=document("diagnosis", size=size.size if size else None, **parts),
        rows=found.gpus,
        row_type=GpuRow,
        columns=_columns(),
        above=list(_title(found.verdict)),
        below=list(_below(found)),
        tone=_tone,
    )


def _title(verdict: Verdict) -> Iterator[str]:
    yield verdict.sentence
    yield f"Cause: {_WORDS[verdict.cause]}; confidence: {verdict.confidence}."
    if verdict.lost_share is not None:
        cost = ""
        if verdict.lost_per_hour is not None:
            cost = f": {verdict.lost_per_hour:,.2f} {verdict.currency} an hour"
        yield f"GPU time that is not used: {verdict.lost_share * 100:.0f} %{cost}."
    if verdict.price_basis:
        yield f"Price: {verdict.price_basis}."


_WORDS = {
    "fetch": "fetch-bound",
    "prep": "prep-bound",
    "network": "network-bound",
    "checkpoint": "checkpoint stalls",
    "gpu": "GPU-bound",
    "idle": "idle",
    "other": "other (communication, small batches)",
    "undetermined": "undetermined",
}


def _columns() -> list[Column]:
    return [
        Column("GPU", lambda r: r.gpu),
        Column("State", lambda r: r.state),
        Column("Util", lambda r: _share(r.utilization), True),
        Column("Below 10 %", lambda r: _share(r.low_share), True, 2),
        Column("Memory busy", lambda r: _share(r.memory_activity), True, 3),
        Column("Power", _watts, True, 4),
        Column("Readings", lambda r: str(r.samples), True, 5),
        Column("Note", lambda r: r.note or "", False, 6),
    ]


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value * 100:.0f} %"


def _watts(row: GpuRow) -> str:
    if row.power_w is None:
        return "?"
    share = "" if row.power_share is None else f" ({row.power_share * 100:.0f} %)"
    return f"{row.power_w:.0f} W{share}"


def _tone(row: GpuRow) -> Tone | None:
    return _TONES.get(row.state)


_TONES: dict[str, Tone] = {
    "lost": "bad",
    "starved": "bad",
    "full": "good",
    "unused": "dim",
    "unknown": "dim",
}


def _below(found: Diagnosis) -> Iterator[str]:
    blocks = (
        ("Phases:", _phase_lines(found) if len(found.phases) > 1 else ()),
        ("Evidence:", (each.text for each in found.evidence)),
        ("Missing:", found.missing),
        ("What to do, in order of effect:", _fix_lines(found)),
    )
    separator = False
    for title, lines in blocks:
        told = [type(line)(f"  {line}") for line in lines]
        if told:
            yield from ([""] if separator else [])
            yield title
            yield from told
            separator = True


def _phase_lines(found: Diagnosis) -> Iterator[str]:
    start = found.phases[0].start_s
    for phase in found.phases:
        span = f"{phase.start_s - start:.0f} to {phase.end_s - start:.0f} s"
        judged = ", judged" if phase.judged else ""
        yield f"{phase.phase}: {span}, GPUs at {phase.utilization * 100:.0f} %{judged}"


def _fix_lines(found: Diagnosis) -> Iterator[str]:
    for number, fix in enumerate(found.fixes, start=1):
        yield f"{number}. {fix.text} {fix.effect}"
        if fix.command:
            yield Verbatim(f"   {fix.command}")
