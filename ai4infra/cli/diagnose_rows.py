"""Rows that ``diagnose`` prints, flat enough for CSV."""

from __future__ import annotations

from ai4infra.diagnosis.feed import Pass, Preparation
from ai4infra.model import Record


class FeedRow(Record, frozen=True):
    """One pass of a probe, or its preparation; MB are 10**6 bytes."""

    name: str
    seconds: float
    files: int
    bytes: int
    mbytes_s: float
    files_s: float
    median_ms: float
    p95_ms: float | None = None
    p99_ms: float | None = None

    @classmethod
    def of_pass(cls, done: Pass) -> FeedRow:
        """Return the row of a pass."""
        return cls(
            name=done.temperature,
            seconds=done.seconds,
            files=done.files,
            bytes=done.bytes,
            mbytes_s=done.mbytes_s,
            files_s=done.files_s,
            median_ms=done.median_ms,
            p95_ms=done.p95_ms,
            p99_ms=done.p99_ms,
        )

    @classmethod
    def of_preparation(cls, done: Preparation) -> FeedRow:
        """Return the row of the preparation."""
        return cls(
            name="decode",
            seconds=done.seconds,
            files=done.files,
            bytes=done.bytes,
            mbytes_s=done.mbytes_s,
            files_s=done.files_s,
            median_ms=done.median_ms,
        )
