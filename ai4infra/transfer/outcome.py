"""What became of a job: judged by its counters, never by exit code, status or percent alone."""

from __future__ import annotations

from typing import Literal

from ai4infra.errors import EXIT_FAILED, EXIT_INCOMPLETE, EXIT_OK
from ai4infra.model import Record
from ai4infra.transfer.stream import Counters, first_sentence

State = Literal["ok", "partial", "empty", "failed"]
EXIT_CODES: dict[State, int] = {
    "ok": EXIT_OK,
    "partial": EXIT_INCOMPLETE,
    "empty": EXIT_FAILED,
    "failed": EXIT_FAILED,
}
THROTTLED_FROM_PERCENT = 5.0


class Outcome(Record, frozen=True):
    """How a job ended, in one sentence."""

    state: State
    reason: str
    hint: str | None = None
    accepted: bool = False
    """The caller said before that this would do."""

    @property
    def exit_code(self) -> int:
        """0 for ok and what was accepted, 5 for partial, 1 for the rest."""
        return EXIT_OK if self.accepted else EXIT_CODES[self.state]


def judge(
    counters: Counters | None,
    errors: tuple[str, ...] = (),
    *,
    ended: bool = True,
    stopped: bool = False,
    allow_empty: bool = False,
    allow_skipped: bool = False,
) -> Outcome:
    """Judge a job by what it counted.

    ``errors`` are the texts that AzCopy gave; ``ended`` is whether its last message came;
    ``stopped`` is whether we ended it.
    """
    said = first_sentence(errors[-1]) if errors else ""
    total = counters.total if counters else None
    if counters is None or total is None:
        return Outcome(
            state="failed", reason=_sentence(f"AzCopy ended without a count: {said or 'no word'}")
        )
    done, failed, skipped = (
        n or 0 for n in (counters.completed, counters.failed, counters.skipped)
    )
    if total == 0:
        return _of_nothing(said or (counters.error or ""), ended, stopped, allow_empty)
    left = total - done - failed - skipped
    # Whoever stops a job while it still looks for files has counted only those found so far.
    whole = ended and (counters.ordered or (counters.ordered is None and not stopped))
    if failed == 0 and left <= 0 and skipped == 0 and whole:
        return Outcome(state="ok", reason=f"{done:,} of {total:,} files were copied.")
    told = _told(done, total, failed, skipped, left, said)
    if failed == 0 and left <= 0 and whole:
        if allow_skipped:
            return Outcome(state="ok", reason=told)
        return Outcome(state="partial", reason=told, hint=_SKIPPED)
    state: State = "partial" if done or skipped else "failed"
    return Outcome(state=state, reason=told)


_SKIPPED = "Files that exist on the target were left: --overwrite always or newer replaces them."


def _of_nothing(said: str, ended: bool, stopped: bool, allow_empty: bool) -> Outcome:
    if said:
        return Outcome(state="failed", reason=_sentence(said))
    if stopped or not ended:
        return Outcome(state="failed", reason="It ended before there was anything to copy.")
    return Outcome(
        state="empty",
        reason="There was nothing to copy.",
        accepted=allow_empty,
        hint="Look at the source; --allow-empty takes this for a success.",
    )


def missed(outcome: Outcome, counters: Counters | None, looked_at: int, *, blobs: bool) -> Outcome:
    """Return an outcome that is no success where AzCopy found fewer files than the preflight."""
    total = counters.total if counters else None
    if outcome.state != "ok" or total is None or total >= looked_at:
        return outcome
    return Outcome(
        state="partial",
        reason=f"AzCopy saw {total:,} of the {looked_at:,} files that were there before.",
        hint="Links that were kept as such come down with --links keep only."
        if blobs
        else "Did the source change meanwhile?",
    )


def _told(done: int, total: int, failed: int, skipped: int, left: int, said: str) -> str:
    parts = [f"{done:,} of {total:,} files were copied"]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    parts += [f"{left:,} {'was' if left == 1 else 'were'} not reached"] if left > 0 else []
    return _sentence(", ".join(parts) + (f": {said}" if said else ""))


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


def advice(counters: Counters) -> tuple[str, ...]:
    """Return what would make it faster; being throttled is advice and no failure."""
    busy = counters.server_busy_percent
    own: tuple[str, ...] = ()
    if busy is not None and busy >= THROTTLED_FROM_PERCENT:
        own = (
            f"The service was busy for {busy:.0f}% of the requests: fewer connections"
            " (AZCOPY_CONCURRENCY_VALUE) or --cap-mbps may be faster.",
        )
    return (*own, *counters.advice)
