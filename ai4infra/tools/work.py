"""The folder of plans, logs and our own records of jobs: kept off a small disk, and pruned."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import platformdirs

from ai4infra.errors import Ai4infraError
from ai4infra.model import Record
from ai4infra.tools.files import disk_of, free_bytes
from ai4infra.transfer.jobs import Job, newest_first
from ai4infra.transfer.preflight import Disk, choose_work
from ai4infra.transfer.progress import bytes_text
from ai4infra.transfer.stream import Transfer

VARIABLE = "AI4INFRA_WORK_DIR"
SCRATCH = ("/mnt/resource", "/mnt", "/mnt/nvme", "/mnt/scratch", "/scratch", "/data")
"""Where machines have room; looked at only when the user's own folder is on a small disk."""
FINISHED_FOR = timedelta(days=7)
OLDEST = timedelta(days=90)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Removed(Record, frozen=True):
    """What a cleaning took away."""

    jobs: int
    files: int
    size_bytes: int


class Work:
    """One such folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plans = folder / "plans"
        self.logs = folder / "logs"
        self.jobs = folder / "jobs"
        self.failures = folder / "failures"

    def make(self) -> None:
        """Make the folders; only we may look into them."""
        try:
            for folder in (self.folder, self.plans, self.logs, self.jobs, self.failures):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=self.plans).close()
        except OSError as error:
            raise Ai4infraError(
                f"AzCopy's plans and logs cannot be kept in {self.folder}: {error.strerror}.",
                hint=f"Name another folder with --work-dir or {VARIABLE}.",
            ) from error

    def read(self) -> list[Job]:
        """Return what is known of our jobs, the newest first; what cannot be read is left out."""
        found = []
        for path in self.jobs.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Job))
        return newest_first(found)

    def write(self, job: Job) -> None:
        """Write down a job, all at once. Raises Ai4infraError."""
        path = self.jobs / f"{job.id}.json"
        partial = path.with_suffix(".new")
        try:
            partial.write_bytes(msgspec.json.encode(job))
            partial.replace(path)
        except OSError as error:
            raise Ai4infraError(
                f"The record of the job cannot be written to {self.jobs}: {error.strerror}."
            ) from error

    def write_failures(self, job: str, transfers: Iterable[Transfer], path: Path | None) -> Path:
        """Write the files that failed, one JSON object per line, and return the file."""
        chosen = path or self.failures / f"{job}.jsonl"
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in transfers)
        try:
            chosen.write_bytes(lines)
        except OSError as error:
            raise Ai4infraError(
                f"The list of failed files cannot be written to {chosen}: {error.strerror}."
            ) from error
        return chosen

    def prune(self, now: datetime, *, older_than: timedelta | None = None) -> Removed:
        """Remove what is old: of finished jobs after a week, of all after three months.

        ``older_than`` replaces both, for jobs that are finished or not. A running job stays.
        """
        jobs = {job.id: job for job in self.read()}
        count, size, gone = 0, 0, set()
        for job_id, files in self._by_job().items():
            if not _is_old(jobs.get(job_id), files, now, older_than):
                continue
            gone.add(job_id)
            for path, bytes_ in files:
                with contextlib.suppress(OSError):
                    path.unlink()
                    count, size = count + 1, size + bytes_
        return Removed(jobs=len(gone & jobs.keys()), files=count, size_bytes=size)

    def _by_job(self) -> Mapping[str, list[tuple[Path, int]]]:
        found: dict[str, list[tuple[Path, int]]] = {}
        for folder in (self.plans, self.logs, self.jobs, self.failures):
            for path in folder.glob("*"):
                match = _ID.match(path.name)
                if match and path.is_file():
                    found.setdefault(match[0], []).append((path, path.stat().st_size))
        return found


def all_jobs(works: Iterable[Work]) -> list[Job]:
    """Return our jobs of several folders, the newest first."""
    return newest_first(job for work in works for job in work.read())


def prune_all(works: Iterable[Work], now: datetime, older_than: timedelta | None) -> Removed:
    """Remove what is old in several folders; see ``Work.prune``."""
    gone = [work.prune(now, older_than=older_than) for work in works]
    return Removed(
        jobs=sum(each.jobs for each in gone),
        files=sum(each.files for each in gone),
        size_bytes=sum(each.size_bytes for each in gone),
    )


def _is_old(
    job: Job | None,
    files: list[tuple[Path, int]],
    now: datetime,
    older_than: timedelta | None,
) -> bool:
    if job is not None and is_running(job):
        return False
    newest = max((path.stat().st_mtime for path, _ in files if path.exists()), default=0.0)
    age = now - datetime.fromtimestamp(newest, timezone.utc)
    if older_than is not None:
        return age >= older_than
    # What has no record is the log of a listing.
    return age >= (OLDEST if job is not None and job.resumable else FINISHED_FOR)


def is_running(job: Job) -> bool:
    """Tell whether AzCopy is still at work on a job."""
    if job.process is None:
        return False
    try:
        words = Path(f"/proc/{job.process}/cmdline").read_bytes()
    except OSError:
        return _is_alive(job.process) and not Path("/proc").is_dir()
    # The number may have been given to another program meanwhile; ours may have any name.
    program = words.partition(b"\0")[0].rpartition(b"/")[2].lower()
    return b"azcopy" in program or words.endswith(b"\0--output-type\0json\0")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def work_disks(env: Mapping[str, str]) -> Iterator[Disk]:
    """Yield where plans and logs could be: the user's state folder, then roomier places."""
    state = env.get("AI4INFRA_STATE_DIR")
    own = Path(state) if state else Path(platformdirs.user_state_dir("ai4infra"))
    first = disk_of(own, used_as="azcopy")
    if first is not None:
        yield first
    for folder in map(Path, SCRATCH):
        if folder.is_dir():
            found = disk_of(folder, used_as=f"ai4infra-azcopy-{os.geteuid()}")
            if found is not None and not found.on_os_disk:
                yield found


def open_work(env: Mapping[str, str], given: Path | None, needed_bytes: int) -> Work:
    """Return the folder to use, made and writable; ``given`` or ``AI4INFRA_WORK_DIR`` decides.

    Raises Ai4infraError where no place has room.
    """
    chosen = given or (Path(env[VARIABLE]) if env.get(VARIABLE) else None)
    disks = list(work_disks(env)) if chosen is None else []
    if chosen is None:
        if not disks:
            raise Ai4infraError(
                "There is no folder to keep AzCopy's plans and logs in.",
                hint=f"Name one with --work-dir or {VARIABLE}.",
            )
        chosen = Path(choose_work(disks, needed_bytes).path)
    work = Work(chosen.absolute())
    work.make()
    free = free_bytes(work.folder)
    if free is not None and free < needed_bytes:
        raise Ai4infraError(
            f"{work.folder} has {bytes_text(free)} free; AzCopy's plans and logs need"
            f" {bytes_text(needed_bytes)}.",
            hint=f"Name a folder on a bigger disk with --work-dir or {VARIABLE}.",
        )
    return work


def known_works(env: Mapping[str, str], given: Path | None) -> list[Work]:
    """Return every folder that may hold jobs of ours; the choice may have changed meanwhile."""
    chosen = given or (Path(env[VARIABLE]) if env.get(VARIABLE) else None)
    if chosen is not None:
        return [Work(chosen.absolute())]
    return [Work(Path(disk.path)) for disk in work_disks(env) if disk.exists]
