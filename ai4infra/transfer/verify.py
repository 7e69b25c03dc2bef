"""Holds the listings of both sides against each other, and says what that proves and what not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ai4infra.model import Record
from ai4infra.transfer.preflight import SAMPLES, Some
from ai4infra.transfer.progress import files_text


class Entry(NamedTuple):
    """A file of a listing."""

    size_bytes: int | None
    md5: str | None = None


class Verification(Record, frozen=True):
    """What was compared, and what came of it."""

    source_files: int
    target_files: int
    """Of those that the source has."""
    source_bytes: int
    target_bytes: int
    missing: Some = Some()
    other_size: Some = Some()
    other_md5: Some = Some()
    extra: int = 0
    """Files of the target that the source has not; a copy never removes any."""
    md5_compared: int = 0
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything of the source is there, as far as it was checked."""
        return not (self.missing.count or self.other_size.count or self.other_md5.count)


def compare(
    source: Mapping[str, Entry], target: Mapping[str, Entry], *, from_to: str, put_md5: bool = True
) -> Verification:
    """Compare two listings by name, size and, where both have it, MD5."""
    shared = source.keys() & target.keys()
    missing = sorted(source.keys() - shared)
    sized = sorted(n for n in shared if _differ(source[n].size_bytes, target[n].size_bytes))
    hashed = [n for n in shared if source[n].md5 and target[n].md5]
    changed = sorted(n for n in hashed if source[n].md5 != target[n].md5)
    return Verification(
        source_files=len(source),
        target_files=len(shared),
        source_bytes=sum(entry.size_bytes or 0 for entry in source.values()),
        target_bytes=sum(target[name].size_bytes or 0 for name in shared),
        missing=some(missing),
        other_size=some(sized),
        other_md5=some(changed),
        extra=len(target) - len(shared),
        md5_compared=len(hashed),
        checked=_checked(len(source), len(hashed)),
        not_checked=_not_checked(source, target, len(hashed), from_to, put_md5=put_md5),
    )


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def some(names: list[str]) -> Some:
    """Return how many names there are, and the first few."""
    return Some(count=len(names), names=tuple(names[:SAMPLES]))


def _checked(files: int, hashed: int) -> tuple[str, ...]:
    lines = [f"name and size of {files_text(files)}, in listings of both sides"]
    return (
        (*lines, f"MD5 of {files_text(hashed)}, as both sides store it") if hashed else tuple(lines)
    )


def _not_checked(
    source: Mapping[str, Entry],
    target: Mapping[str, Entry],
    hashed: int,
    from_to: str,
    *,
    put_md5: bool,
) -> tuple[str, ...]:
    lines: list[str] = []
    unhashed = len(source) - hashed
    unknown = sum(
        name in target and None in (entry.size_bytes, target[name].size_bytes)
        for name, entry in source.items()
    )
    if unknown:
        lines.append(f"size of {files_text(unknown)}, which a listing does not tell")
    if unhashed:
        lines.append(f"content of {files_text(unhashed)}: {_WHY[from_to]}")
    if from_to == "LocalBlob" and not put_md5:
        lines.append("no MD5 was stored (--no-put-md5): later downloads cannot be checked either")
    lines.append("changes after the listings were read")
    return tuple(lines)


_WHY = {
    "LocalBlob": "local files have no stored MD5; AzCopy computes it while it reads and stores it"
    " with the blob",
    "BlobLocal": "local files have no stored MD5; AzCopy compares the blob's, where it has one,"
    " while it writes",
    "BlobBlob": "one of the blobs has no stored MD5",
}


def verification_sentence(found: Verification) -> str:
    """Return the result in one sentence."""
    if not found.source_files:
        return "The source holds no files, so there was nothing to compare."
    if found.passed:
        whole = "The file" if found.source_files == 1 else f"All {files_text(found.source_files)}"
        return f"{whole} of the source {'is' if found.source_files == 1 else 'are'} on the target."
    parts = [
        f"{some_.count:,} {what}: {some_.text}"
        for some_, what in (
            (found.missing, "missing"),
            (found.other_size, "with another size"),
            (found.other_md5, "with another MD5"),
        )
        if some_.count
    ]
    return f"Of {files_text(found.source_files)}, {'; '.join(parts)}."
