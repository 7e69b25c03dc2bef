"""Jobs of ours: what is written down of each, and which one a resume means. No SAS is in them."""

from __future__ import annotations

from collections.abc import Iterable

from ai4infra.errors import ConflictError, NotFoundError
from ai4infra.model import Record
from ai4infra.transfer.outcome import State

FINISHED = ("ok", "empty")


class Job(Record, frozen=True):
    """A transfer that was started; its plan is AzCopy's, in the folder of the record."""

    id: str
    """AzCopy's job id."""
    source: str
    """As ``Place.shown`` says it: without any SAS."""
    target: str
    from_to: str
    """``LocalBlob``, ``BlobLocal`` or ``BlobBlob``."""
    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    state: State | None = None
    """None while it runs, or when it ended without a word."""
    reason: str | None = None
    files_total: int | None = None
    files_done: int | None = None
    files_failed: int | None = None
    bytes_total: int | None = None
    bytes_done: int | None = None
    ordered: bool = False
    """Everything was found that is to be copied; AzCopy resumes no other job."""
    process: int | None = None
    """Of AzCopy, while it runs."""
    cap: str | None = None
    sources_sas: bool = False
    """A SAS was used for the source, which a resume needs again."""
    targets_sas: bool = False
    source_endpoint: str | None = None
    """Of its blob service; None for a local path."""
    target_endpoint: str | None = None
    trusted: tuple[str, ...] = ()
    """Hosts beyond Azure's own that Resource Manager named as blob endpoints."""
    links: str | None = None
    empty_folders: str | None = None
    log: str | None = None

    @property
    def resumable(self) -> bool:
        """Whether there is something left to copy."""
        return self.state not in FINISHED


def newest_first(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs, the newest first."""
    return sorted(jobs, key=lambda job: (job.started, job.id), reverse=True)


def find_job(
    jobs: Iterable[Job], wanted: str | None, source: str | None = None, target: str | None = None
) -> Job:
    """Return the job to resume: by the start of its id, else by source and target.

    Without any of these it is the only one that can be resumed. Raises NotFoundError where there
    is none, ConflictError where several could be meant or it is finished.
    """
    known = newest_first(jobs)
    if wanted is not None:
        return _by_id(known, wanted)
    found = [
        job
        for job in known
        if job.resumable and source in (None, job.source) and target in (None, job.target)
    ]
    if not found:
        what = f" from {source} to {target}" if source and target else ""
        raise NotFoundError(
            f"There is no job{what} to resume.", hint="`ai4infra data jobs` lists what there is."
        )
    ways = {(job.source, job.target) for job in found}
    if len(ways) > 1:
        raise ConflictError(
            f"{len(ways)} different copies could be resumed.",
            hint=f"Name one: ai4infra data resume {found[0].id[:8]} is the newest.",
        )
    return found[0]


def _by_id(jobs: list[Job], wanted: str) -> Job:
    found = [job for job in jobs if job.id.startswith(wanted.casefold())]
    if not found:
        raise NotFoundError(
            f"There is no job {wanted!r}.", hint="`ai4infra data jobs` lists what there is."
        )
    if len(found) > 1:
        raise ConflictError(f"{len(found)} jobs begin with {wanted!r}.", hint="Give more of it.")
    if not found[0].resumable:
        raise ConflictError(f"The job {found[0].id} is finished: {found[0].reason}")
    return found[0]
