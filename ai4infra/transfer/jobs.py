"""Jobs of ours: what is written down of each, and which one a resume means. No SAS is in them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable
from typing import Literal

from ai4infra.errors import ConflictError, NotFoundError
from ai4infra.model import Record
from ai4infra.transfer.outcome import State
from ai4infra.transfer.preflight import EmptyFolders, Links
from ai4infra.transfer.schedule import Cap

Overwrite = Literal["always", "newer", "never"]

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
    complete: bool = False
    """AzCopy has nothing left to do, whatever came of it."""
    single_file: bool = False
    """The source is one file, and its name the last part of the target."""
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
    links: Links | None = None
    empty_folders: EmptyFolders | None = None
    overwrite: Overwrite | None = None
    put_md5: bool = True
    limit: Cap | None = None
    """The cap as a value; a resume keeps it."""
    log: str | None = None

    @property
    def short_id(self) -> str:
        """The beginning of its id, which is enough to name it."""
        return self.id[:8]

    @property
    def resumable(self) -> bool:
        """Whether there is something left to copy."""
        return self.state not in FINISHED and not self.complete


def newest_first(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs, the newest first."""
    return sorted(jobs, key=lambda job: (job.started, job.id), reverse=True)


def find_job(
    jobs: Iterable[Job], wanted: str | None, source: str | None = None, target: str | None = None
) -> Job:
    """Return the job to resume: by the start of its id, else by source and target.

    Without any of these it is the only one that can be resumed; jobs that were started again and
    finished then don't count. Raises NotFoundError where there is none, ConflictError where several
    could be meant or it is finished.
    """
    known = newest_first(jobs)
    if wanted is not None:
        return _by_id(known, wanted)
    found = [
        job
        for job in _not_superseded(known)
        if source in (None, job.source) and target in (None, job.target, _folder(job))
    ]
    if not found:
        what = f" from {source} to {target}" if source and target else ""
        raise NotFoundError(
            f"There is no job{what} to resume.", hint="`ai4infra data jobs` lists what there is."
        )
    found = [job for job in found if job.ordered] or found
    ways = {(job.source, job.target) for job in found}
    if len(ways) > 1:
        raise ConflictError(
            f"{len(ways)} different copies could be resumed.",
            hint=f"Name one: ai4infra data resume {found[0].short_id} is the newest.",
        )
    return found[0]


def _not_superseded(jobs: list[Job]) -> list[Job]:
    """Return what is left to copy of jobs, the newest first: a later one may have copied it."""
    finished: set[tuple[str, str]] = set()
    found = []
    for job in jobs:
        if job.resumable and (job.source, job.target) not in finished:
            found.append(job)
        elif job.state != "empty" and not job.resumable:
            finished.add((job.source, job.target))
    return found


def _folder(job: Job) -> str | None:
    """Return the target as it was given where the job is of a single file; else None."""
    return posixpath.dirname(job.target) if job.single_file else None


def command_again(job: Job, overwrite: Overwrite = "never") -> str:
    """Return the command that starts a job again; it leaves what has been copied, or not."""
    target = _folder(job) or job.target
    # AzCopy 10.32 crashes where it shall keep links and leave what is there.
    overwrite = "always" if job.links == "keep" and job.from_to == "LocalBlob" else overwrite
    words = ["ai4infra", "data", "copy", job.source, target, "--overwrite", overwrite]
    words += ["--links", job.links] if job.links else []
    words += ["--empty-folders", job.empty_folders] if job.empty_folders else []
    return shlex.join(words)


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
