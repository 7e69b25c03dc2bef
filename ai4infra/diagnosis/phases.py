"""Parts of a capture that are not alike: before the job, a cold first epoch, the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from ai4infra.diagnosis.rules import Limits

PhaseKind = Literal["idle", "cold-start", "steady", "degraded"]
_FEWEST = 5
"""Spans that a phase needs, at least."""


class Level(NamedTuple):
    """How busy the GPUs were in one span."""

    span: int
    utilization: float


class Part(NamedTuple):
    """Some levels in a row."""

    kind: PhaseKind
    levels: Sequence[Level]

    @property
    def spans(self) -> range:
        """Return the spans from the first to the last."""
        return range(self.levels[0].span, self.levels[-1].span + 1)

    @property
    def utilization(self) -> float:
        """Return the mean of the levels."""
        return sum(level.utilization for level in self.levels) / len(self.levels)

    @property
    def usual(self) -> float:
        """Return the median of the levels."""
        return median(level.utilization for level in self.levels)


def split(levels: Sequence[Level], limits: Limits) -> list[Part]:
    """Return the parts of a capture; the last one that is not idle is what is judged."""
    active = [at for at, level in enumerate(levels) if level.utilization > limits.gpu_unused]
    if not active:
        return [Part("steady", levels)] if levels else []
    # Where the GPUs pause between bursts, a moment of nothing at the edges is such a pause.
    pause = max((after - at - 1 for at, after in pairwise(active)), default=0)
    shortest = min(pause + 1, _FEWEST)
    first, last = active[0], active[-1] + 1
    first = first if first >= shortest else 0
    last = last if len(levels) - last >= shortest else len(levels)
    parts = [Part("idle", levels[:first]), *_steps(levels[first:last], limits)]
    return [part for part in (*parts, Part("idle", levels[last:])) if part.levels]


def _steps(levels: Sequence[Level], limits: Limits) -> list[Part]:
    """Split where the mean before and the mean after differ most, when that is a step."""
    at = _best_split([level.utilization for level in levels])
    before, after = Part("steady", levels[:at]), Part("steady", levels[at:])
    if min(at, len(levels) - at) < max(_FEWEST, limits.phase_share * len(levels)):
        return [Part("steady", levels)]
    # Regular pauses move the mean of a part, not what is usual in it.
    steps = (after.utilization - before.utilization, after.usual - before.usual)
    if min(steps) >= limits.phase_step:
        return [before._replace(kind="cold-start"), after]
    if max(steps) <= -limits.phase_step and before.utilization >= limits.gpu_busy:
        return [before, after._replace(kind="degraded")]
    return [Part("steady", levels)]


def _best_split(values: Sequence[float]) -> int:
    """Return where to split so that both sides vary least around their means."""
    total, left, best, best_at = sum(values), 0.0, -1.0, 0
    for at in range(1, len(values)):
        left += values[at - 1]
        right = len(values) - at
        difference = left / at - (total - left) / right
        gain = difference * difference * at * right
        if gain > best:
            best, best_at = gain, at
    return best_at
