"""Move data: what a copy is, and how it is looked at, carried out and taken up.

A copy is planned first: everything that would fail hours into it is looked at then. AzCopy moves
the data, with the identity of the session.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import structs

from ai4infra.arm import container_id
from ai4infra.cloud import blobs, rbac
from ai4infra.cloud.identities import me
from ai4infra.cloud.session import Session
from ai4infra.cloud.signin import choose
from ai4infra.errors import (
    EXIT_INTERRUPTED,
    Ai4infraError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    SignInError,
    UsageError,
)
from ai4infra.model import Record, StorageAccount
from ai4infra.settings import Settings
from ai4infra.tools import azcopy, files
from ai4infra.tools.work import (
    Work,
    is_running,
    known_works,
    open_work,
)
from ai4infra.transfer import endpoints
from ai4infra.transfer.endpoints import Place
from ai4infra.transfer.jobs import Job, Overwrite, command_again, find_job
from ai4infra.transfer.outcome import Outcome, State, advice, judge, missed
from ai4infra.transfer.preflight import (
    Clashes,
    EmptyFolders,
    Links,
    Tree,
    check_room,
    check_tree,
    holds_role,
    local_name_problem,
    plan_bytes,
)
from ai4infra.transfer.progress import Meter, Progress, bytes_text
from ai4infra.transfer.schedule import Cap, is_capped, next_change
from ai4infra.transfer.stream import Counters, Listed, Transcript, Transfer
from ai4infra.transfer.verify import (
    Entry,
    Verification,
    compare,
    some,
    verification_sentence,
)

if TYPE_CHECKING:
    from ai4infra.tools.azcopy import Stop

OVERWRITE: dict[Overwrite, str] = {"always": "true", "newer": "ifSourceNewer", "never": "false"}
SAS_IS_SEEN = (
    "A SAS is used: it is never shown or stored, but whoever may list this machine's processes can"
    " see it while AzCopy runs."
)
WRITER = "Storage Blob Data Contributor"
READER = "Storage Blob Data Reader"
_MANY = 20_000
"""A listing says so often how far it is."""

OnProgress = Callable[[Progress], None]
Say = Callable[[str], None]


class CopyOptions(Record, frozen=True):
    """How to copy; None is a choice that was not made."""

    links: Links | None = None
    empty_folders: EmptyFolders | None = None
    overwrite: Overwrite | None = None
    put_md5: bool = True
    cap: Cap | None = None
    allow_sas: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False
    verify: bool = False
    failures: Path | None = None
    """File for the list of failed transfers; None is one in the work folder."""
    work_dir: Path | None = None
    stall_seconds: float = azcopy.STALL_SECONDS


class CopyPreview(Record, frozen=True):
    """What a copy would do, as far as it was looked at."""

    source: str
    target: str
    direction: str
    """``LocalBlob``, ``BlobLocal`` or ``BlobBlob``."""
    files: int
    size_bytes: int
    example: str | None
    """Where the target's first file would be."""
    identity: str
    """``env``, ``workload``, ``msi``, ``cli``, or ``SAS``."""
    azcopy: str
    azcopy_version: str
    work_dir: str
    cap: str | None
    overwrite: str | None
    preflight_seconds: float
    warnings: tuple[str, ...] = ()


class CopyReceipt(Record, frozen=True):
    """What became of a copy."""

    state: State
    reason: str
    hint: str | None
    source: str
    target: str
    job: str | None
    """AzCopy's; None where it got no further than its start."""
    files_total: int | None
    files_done: int | None
    files_failed: int | None
    files_skipped: int | None
    bytes_total: int | None
    bytes_done: int | None
    seconds: float
    megabytes_per_second: float | None
    stopped: str | None
    """``interrupted`` or ``stalled``, when we ended it."""
    resumable: bool
    failures_file: str | None
    verification: Verification | None
    advice: tuple[str, ...]
    log: str | None
    exit_code: int


class CopyPlan(NamedTuple):
    """A copy that was looked at and can begin. It holds secrets, so it is not for printing."""

    preview: CopyPreview
    source: Place
    target: Place
    tree: Tree
    options: CopyOptions
    tool: azcopy.Tool
    work: Work
    env: dict[str, str]
    trusted: tuple[str, ...]
    job: Job | None = None
    """The job to resume, None for a new one."""


class _Known(NamedTuple):
    """A place, and what Resource Manager says of its account."""

    place: Place
    account: StorageAccount | None = None


class Connection(Protocol):
    """What moving data needs of a connection."""

    session: Session
    settings: Settings
    storage_account: Callable[..., StorageAccount]


def login_of(azure: Connection, env: Mapping[str, str]) -> azcopy.Login:
    """Return the identity of a connection's session, as AzCopy is told it."""
    kind = choose(azure.settings.auth, env)
    az_tenant = azure.settings.az_tenant if kind == "cli" else None
    return azcopy.Login(
        kind=kind,
        client_id=azure.settings.client_id,
        tenant=azure.settings.tenant or az_tenant,
        authority=azure.session.cloud.authority,
    )


# --- looking ----------------------------------------------------------------------------------


class Planning:
    """The looking before one copy."""

    def __init__(
        self, azure: Connection, options: CopyOptions, env: Mapping[str, str], say: Say
    ) -> None:
        self._azure = azure
        self._options = options
        self._given_env = env
        self._say = say
        self._warnings: list[str] = []
        self._there_bytes = 0
        """Of the target, where a download goes over files that are there."""
        self._first: str | None = None
        self._started = time.monotonic()

    def plan(self, source: Place, target: Place) -> CopyPlan:
        """Look, in the order in which the answers are cheap."""
        self._tool = azcopy.find_azcopy(self._given_env)
        if self._options.failures is not None:
            files.check_file(self._options.failures)
        start, end = self._known(source), self._known(target)
        self._prepare(start.place, end.place)
        if end.place.is_local:
            files.check_folder(Path(end.place.path))
        else:
            self._check_target(end)
        tree = self._tree(start, end)
        check_tree(
            tree,
            links=self._options.links,
            empty_folders=self._options.empty_folders,
            allow_empty=self._options.allow_empty,
        )
        self._check_kept_links(tree)
        ends = self._named(start.place, end.place, tree)
        endpoints.check_apart(*ends)
        self._check_empty_folders_fit(ends[1])
        self._check_conflicts(*ends, tree)
        if ends[1].is_local:
            where = Path(end.place.path)
            check_room(tree.size_bytes - self._there_bytes, files.free_bytes(where), str(where))
        self._check_plan_room(tree)
        self._warn_of_own_files(ends[0])
        return CopyPlan(
            preview=self._preview(*ends, tree),
            source=ends[0],
            target=ends[1],
            tree=tree,
            options=self._options,
            tool=self._tool,
            work=self._work,
            env=self._env,
            trusted=self._trusted,
        )

    def _known(self, place: Place) -> _Known:
        """Look a place's account up, where that is needed or helps."""
        if place.is_local:
            return _Known(structs.replace(place, path=files.absolute(place.path)))
        if place.was_dfs:
            self._warnings.append(
                f"{place.account}: the blob endpoint is used instead of dfs; it is the same data."
            )
        if place.sas is not None:
            return _Known(place)
        found = self._account(place)
        blob = found.endpoints.get("blob") if found else None
        if place.endpoint is None:
            return _Known(structs.replace(place, endpoint=self._endpoint(place, blob)), found)
        if not endpoints.is_public_host(place.host) and blob != place.endpoint:
            raise UsageError(
                f"No token is sent to {place.host}: it is not the address that Resource Manager"
                f" names for {place.account}.",
                hint=f"Say {place.shown}, or use a SAS with --allow-sas.",
            )
        return _Known(place, found)

    def _account(self, place: Place) -> StorageAccount | None:
        try:
            return self._azure.storage_account(place.account)
        except (NotFoundError, ForbiddenError, UsageError) as error:
            if place.endpoint is None and not isinstance(error, ForbiddenError):
                raise
            self._warnings.append(
                f"{place.account} was not looked up, so roles are not checked: {error.message}"
            )
            return None

    def _endpoint(self, place: Place, blob: str | None) -> str:
        suffix = self._azure.session.cloud.blob_suffix
        if blob is None and suffix is None:
            raise NotFoundError(f"The account {place.account} has no blob endpoint.")
        return blob or f"https://{place.account}.{suffix}/"

    def _prepare(self, source: Place, target: Place) -> None:
        """Make AzCopy's folders and environment."""
        self._work = open_work(self._given_env, self._options.work_dir, plan_bytes(0))
        self._work.prune(datetime.now(timezone.utc))
        places = (source, target)
        needs_login = any(not each.is_local and each.sas is None for each in places)
        self._login = login_of(self._azure, self._given_env) if needs_login else None
        self._env, dropped = azcopy.environment(self._given_env, self._login, self._work)
        self._trusted = azcopy.trusted_hosts(places)
        if dropped:
            self._warnings.append(f"{', '.join(dropped)} of the environment are not used.")
        if any(each.sas for each in places):
            self._warnings.append(SAS_IS_SEEN)

    def _check_target(self, known: _Known) -> None:
        place, account = known
        try:
            next(self._list(place), None)
        except Ai4infraError as error:
            raise _explained(error, place, account, WRITER) from error
        if account is None or place.sas is not None:
            return
        verdict = self._holds(place, account)
        if verdict is False:
            raise _no_role(place, account, WRITER)
        if verdict is None:
            self._warnings.append(
                f"Whether we may write to {place.shown} could not be told from our roles."
            )

    def _holds(self, place: Place, account: StorageAccount) -> bool | None:
        scope = container_id(account.id, place.container)
        try:
            mine = me(self._azure.session).object_id
            held = rbac.held(self._azure.session, scope, mine or "")
        except Ai4infraError:
            # Who may not read assignments may still have the role.
            return None
        return holds_role(held, "write")

    def _tree(self, start: _Known, end: _Known) -> Tree:
        place = start.place
        if place.is_local:
            self._say(f"looking at {place.path}")
            return files.survey(
                Path(place.path),
                links=self._options.links,
                hns=end.account.hns if end.account else None,
                prefix=end.place.path,
            )
        if self._options.links or self._options.empty_folders == "keep":
            self._warnings.append("Links and empty folders of a container are copied as blobs are.")
        return self._blob_tree(start, end.place)

    def _blob_tree(self, start: _Known, target: Place) -> Tree:
        count, size, single, unhashed = 0, 0, False, 0
        bad: list[str] = []
        clashes = Clashes()
        root = len(os.fsencode(target.path)) if target.is_local else 0
        for each in self._listed(start):
            count, size = count + 1, size + (each.size_bytes or 0)
            single = single or not each.path
            unhashed += each.md5 is None
            self._first = self._first or each.path
            if target.is_local and each.path:
                problem = local_name_problem(each.path, root)
                bad += [f"{each.path} {problem}"] if problem else []
                clash = clashes.add(each.path)
                bad += [f"{clash} is a file and a folder"] if clash else []
            if target.is_local:
                name = each.path or posixpath.basename(start.place.path)
                self._there_bytes += files.size_of(Path(target.path, name)) if not bad else 0
            if count % _MANY == 0:
                self._say(f"listing {start.place.shown}: {count:,} blobs")
        if count == 0 and not self._options.allow_empty:
            raise NotFoundError(
                f"There are no blobs at {start.place.shown}.",
                hint="Look at the path; it is exact, upper and lower case too.",
            )
        if single and count > 1:
            raise ConflictError(
                f"{start.place.shown} is both a blob and a folder.",
                hint="Copy what is below it by the names of its folders.",
            )
        return Tree(
            files=count,
            size_bytes=size,
            is_file=single,
            bad_names=some(bad),
            without_md5=unhashed,
        )

    def _listed(self, known: _Known) -> Iterator[Listed]:
        place, account = known
        try:
            yield from self._list(place)
        except Ai4infraError as error:
            raise _explained(error, place, account, READER) from error

    def _list(self, place: Place) -> Iterator[Listed]:
        return azcopy.list_blobs(
            self._tool,
            place,
            self._env,
            trusted=self._trusted,
            silence_seconds=min(azcopy.SILENCE_SECONDS, self._options.stall_seconds),
        )

    def _named(self, source: Place, target: Place, tree: Tree) -> tuple[Place, Place]:
        """Put the name of a single file below the target, which is always a folder."""
        if not tree.is_file:
            return source, target
        return source, endpoints.below(target, posixpath.basename(source.path))

    def _check_kept_links(self, tree: Tree) -> None:
        kept = tree.links.count and self._options.links == "keep"
        if kept and self._options.overwrite in ("never", "newer"):
            # AzCopy 10.32 crashes: "this sender only sends symlinks".
            raise UsageError(
                f"AzCopy cannot keep links with --overwrite {self._options.overwrite}.",
                hint="Choose --overwrite always, or --links follow or skip.",
            )

    def _check_empty_folders_fit(self, target: Place) -> None:
        if self._options.empty_folders == "keep" and not target.is_local and not target.path:
            # AzCopy 10.32 crashes where the marker of the root would be the container itself.
            raise UsageError(
                "AzCopy cannot keep empty folders right below a container.",
                hint=f"Copy into a folder: {target.shown}/data.",
            )

    def _check_conflicts(self, source: Place, target: Place, tree: Tree) -> None:
        """Refuse to go over what is there already, unless it was said what to do with it."""
        if self._options.overwrite is not None:
            return
        taken = next(self._conflicts(source, target, tree), None)
        if taken is not None:
            raise UsageError(
                f"{taken!r} is on the target already.",
                hint="Say --overwrite always, newer (only where the source is newer) or never.",
            )

    def _conflicts(self, source: Place, target: Place, tree: Tree) -> Iterator[str]:
        if target.is_local:
            yield from self._local_conflicts(source, target, tree)
            return
        there = self._list(target)
        if tree.is_file:
            yield from (target.path for each in there if not each.path)
        elif source.is_local:
            root = Path(source.path)
            names = (each.path for each in there)
            # The folder that is copied into may be a blob itself.
            yield from (name or target.path for name in names if os.path.lexists(root / name))
        else:
            known = {each.path for each in there}
            mine = self._listed(_Known(source)) if known else iter(())
            yield from (each.path for each in mine if each.path in known)

    def _local_conflicts(self, source: Place, target: Place, tree: Tree) -> Iterator[str]:
        root = Path(target.path)
        if tree.is_file:
            yield from [target.path] if os.path.lexists(root) else []
        elif root.is_dir() and any(root.iterdir()):
            mine = self._listed(_Known(source))
            yield from (each.path for each in mine if os.path.lexists(root / each.path))

    def _warn_of_own_files(self, source: Place) -> None:
        if source.is_local and self._work.folder.is_relative_to(source.path):
            self._warnings.append(
                f"AzCopy's own plans and logs, in {self._work.folder}, are in the source and"
                " change while it is copied: --work-dir names another folder."
            )

    def _check_plan_room(self, tree: Tree) -> None:
        work = open_work(self._given_env, self._options.work_dir, plan_bytes(tree.files))
        if work.folder != self._work.folder:
            self._work = work
            self._env, _ = azcopy.environment(self._given_env, self._login, work)

    def _preview(self, source: Place, target: Place, tree: Tree) -> CopyPreview:
        cap = self._options.cap
        return CopyPreview(
            source=source.shown,
            target=target.shown,
            direction=endpoints.from_to(source, target),
            files=tree.files,
            size_bytes=tree.size_bytes,
            example=self._example(source, target, tree),
            identity=self._login.kind if self._login else "SAS",
            azcopy=self._tool.path,
            azcopy_version=self._tool.version,
            work_dir=str(self._work.folder),
            cap=cap.text if cap else None,
            overwrite=self._options.overwrite,
            preflight_seconds=round(time.monotonic() - self._started, 2),
            warnings=tuple(self._warnings),
        )

    def _example(self, source: Place, target: Place, tree: Tree) -> str | None:
        if tree.is_file:
            return target.shown
        if not source.is_local:
            return endpoints.below(target, self._first).shown if self._first else None
        with suppress(OSError):
            name = next(files.walk(Path(source.path), self._options.links), None)
            return endpoints.below(target, name[0]).shown if name else None
        return None


def _explained(
    error: Ai4infraError, place: Place, account: StorageAccount | None, role: str
) -> Ai4infraError:
    """Return an error of a listing that says what its code means, and what helps."""
    code = (error.code or "").casefold()
    if code == "containernotfound":
        makes = f"ai4infra storage create --name {place.account} --container {place.container}"
        return NotFoundError(
            f"There is no container {place.container} in {place.account}.",
            code=error.code,
            hint=f"`{makes} --update` makes it."
            if role == WRITER
            else "Look at the name; it is the part after the account's.",
        )
    if "auto-login" in error.message or "oauth token" in error.message.casefold():
        return SignInError(
            f"AzCopy cannot sign in: {error.message}",
            hint="Sign in (az login), or choose the identity with --auth.",
            detail=error.detail,
        )
    if code == "authorizationpermissionmismatch" and account is not None:
        return _no_role(place, account, role, code=error.code)
    return blobs.explained(error, f"Cannot list {place.shown}")


def _no_role(
    place: Place, account: StorageAccount, role: str, code: str | None = None
) -> ForbiddenError:
    scope = container_id(account.id, place.container)
    return ForbiddenError(
        f"The role {role} on {place.shown} is missing, or does not work yet.",
        code=code,
        hint=f'`ai4infra rbac assign "{role}" --to me --on {scope}` gives it; it takes up to 10'
        " minutes to work.",
    )


class Resuming:
    """The looking before a job is taken up."""

    def __init__(self, azure: Connection, options: CopyOptions, env: Mapping[str, str]) -> None:
        self._azure = azure
        self._options = options
        self._env = env

    def plan(self, wanted: str | None, source: str | None, target: str | None) -> CopyPlan:
        """Find the job, and what AzCopy needs to take it up."""
        started = time.monotonic()
        ends = [self._place(each) for each in (source, target)]
        endpoints.check_sas(*(each for each in ends if each), allowed=self._options.allow_sas)
        tool = azcopy.find_azcopy(self._env)
        works = {
            job.id: (job, work)
            for work in known_works(self._env, self._options.work_dir)
            for job in work.read()
        }
        shown = [each.shown if each else None for each in ends]
        job = find_job([job for job, _ in works.values()], wanted, *shown)
        work = works[job.id][1]
        _check_resumable(job, work)
        start, end = (self._of(job, place, i) for i, place in enumerate(ends))
        options = _as_before(self._options, job)
        login = login_of(self._azure, self._env) if _needs_login(job) else None
        env, dropped = azcopy.environment(self._env, login, work)
        warnings = [f"{', '.join(dropped)} of the environment are not used."] if dropped else []
        warnings += [SAS_IS_SEEN] if start.sas or end.sas else []
        tree = Tree(
            files=job.files_total or 0, size_bytes=job.bytes_total or 0, is_file=job.single_file
        )
        preview = CopyPreview(
            source=job.source,
            target=job.target,
            direction=job.from_to,
            files=tree.files,
            size_bytes=tree.size_bytes,
            example=None,
            identity=login.kind if login else "SAS",
            azcopy=tool.path,
            azcopy_version=tool.version,
            work_dir=str(work.folder),
            cap=options.cap.text if options.cap else None,
            overwrite=options.overwrite,
            preflight_seconds=round(time.monotonic() - started, 2),
            warnings=tuple(warnings),
        )
        return CopyPlan(preview, start, end, tree, options, tool, work, env, job.trusted, job)

    def _place(self, text: str | None) -> Place | None:
        if text is None:
            return None
        place = endpoints.parse_place(text, files.exists)
        if place.is_local:
            return structs.replace(place, path=files.absolute(place.path))
        return place

    def _of(self, job: Job, given: Place | None, which: int) -> Place:
        """Return an end of the job: as given, which may carry the SAS, else as written down."""
        needs_sas = (job.sources_sas, job.targets_sas)[which]
        shown = (job.source, job.target)[which]
        if needs_sas and (given is None or given.sas is None):
            option = ("--source", "--target")[which]
            raise UsageError(
                f"The job used a SAS for {shown}, which is not stored.",
                hint=f"Give the URL with its SAS again: {option} URL --allow-sas.",
            )
        is_local = job.from_to.startswith("Local") if which == 0 else job.from_to.endswith("Local")
        place = endpoints.parse_place(shown, lambda path: is_local)
        return structs.replace(
            place,
            endpoint=(job.source_endpoint, job.target_endpoint)[which],
            sas=given.sas if given else None,
        )


def _as_before(options: CopyOptions, job: Job) -> CopyOptions:
    """Return the options with what the job was started with, which AzCopy goes on with."""
    return structs.replace(
        options,
        links=job.links,
        empty_folders=job.empty_folders,
        overwrite=job.overwrite,
        put_md5=job.put_md5,
        cap=options.cap or job.limit,
    )


def _needs_login(job: Job) -> bool:
    ends = (
        (job.from_to.startswith("Blob"), job.sources_sas),
        (job.from_to.endswith("Blob"), job.targets_sas),
    )
    return any(is_blob and not has_sas for is_blob, has_sas in ends)


def _check_resumable(job: Job, work: Work) -> None:
    if is_running(job):
        raise ConflictError(
            f"The job {job.id} is running, as process {job.process}.",
            hint="Wait for it, or stop that process with Ctrl-C or kill -INT.",
        )
    if not job.ordered or not any(work.plans.glob(f"{job.id}*")):
        raise ConflictError(
            f"AzCopy cannot take up the job {job.id}: it ended before everything was listed.",
            hint=f"Start it again and leave what is there: {command_again(job)}",
        )


# --- copying ----------------------------------------------------------------------------------


class Copying:
    """One copy under way: AzCopy is started, and started again where a cap begins or ends."""

    def __init__(
        self,
        plan: CopyPlan,
        on_progress: OnProgress,
        say: Say,
        now: Callable[[], datetime],
    ) -> None:
        self._plan = plan
        self._on_progress = on_progress
        self._say = say
        self._now = now
        self._meter = Meter()
        self._job = plan.job
        self._capped = False
        self._stop: Stop | None = None
        self._unwritten = False

    def run(self) -> CopyReceipt:
        """Copy until it ends or is stopped."""
        started = time.monotonic()
        transcript, ended = self._once(self._job.id if self._job else None)
        while ended.stop == "boundary" and transcript.job is not None:
            if _is_complete(transcript):
                break
            self._say("the cap begins" if not self._capped else "the cap ends")
            transcript, ended = self._once(transcript.job)
        self._stop = None if ended.stop == "boundary" else ended.stop
        return self._receipt(transcript, time.monotonic() - started)

    def _once(self, job: str | None) -> tuple[Transcript, azcopy.Ended]:
        cap, now = self._plan.options.cap, self._now()
        self._capped = cap is not None and is_capped(cap, now)
        change = next_change(cap, now) if cap else None
        transcript = Transcript()

        def at_boundary() -> bool:
            # Before everything is listed, a job that is stopped cannot be resumed.
            ready = bool(transcript.counters and transcript.counters.ordered)
            return ready and change is not None and self._now() >= change

        ended = azcopy.run_azcopy(
            self._plan.tool,
            self._arguments(job),
            self._plan.env,
            transcript=transcript,
            watch=azcopy.Watch(at_boundary, self._plan.options.stall_seconds),
            started=self._note_process,
            listen=self._listen,
        )
        return transcript, ended

    def _arguments(self, job: str | None) -> list[str]:
        plan, options = self._plan, self._plan.options
        shared = [*azcopy.trust_options(plan.trusted), "--log-level", "ERROR"]
        if self._capped and options.cap is not None:
            shared += ["--cap-mbps", f"{options.cap.megabits_per_second:g}"]
        if job is not None:
            return ["jobs", "resume", job, *self._resume_secrets(), *shared]
        return ["copy", *self._ends(), *self._copy_options(), *shared]

    def _ends(self) -> list[str]:
        ends = (self._plan.source, self._plan.target)
        return [
            os.path.realpath(each.path) if each.is_local else each.secret_url() for each in ends
        ]

    def _copy_options(self) -> list[str]:
        plan, options = self._plan, self._plan.options
        chosen = ["--from-to", plan.preview.direction, "--recursive", "--as-subdir=false"]
        # Without a choice the preflight found nothing to go over; asking again for each file would
        # be one more request a file.
        chosen += ["--overwrite", OVERWRITE[options.overwrite or "always"]]
        if plan.source.is_local:
            chosen += ["--put-md5"] if options.put_md5 else []
            chosen += {"follow": ["--follow-symlinks"], "keep": ["--preserve-symlinks"]}.get(
                options.links or "", []
            )
        elif options.links == "keep":
            chosen += ["--preserve-symlinks"]
        if options.empty_folders == "keep":
            chosen += ["--include-directory-stub"]
        return chosen

    def _resume_secrets(self) -> list[str]:
        pairs = (
            ("--source-sas", self._plan.source.sas),
            ("--destination-sas", self._plan.target.sas),
        )
        return [word for option, sas in pairs if sas for word in (option, sas.reveal())]

    def _note_process(self, process: int) -> None:
        self._process = process

    def _listen(self, transcript: Transcript) -> None:
        self._remember(transcript)
        if transcript.counters is not None:
            progress = self._meter.read(transcript.counters, time.monotonic(), capped=self._capped)
            self._on_progress(progress)

    def _remember(self, transcript: Transcript) -> None:
        """Write the job down when its id is known, and when everything was listed."""
        counters = transcript.counters or Counters()
        ordered = bool(counters.ordered)
        if transcript.job is None:
            return
        if self._job is None or self._job.process != self._process:
            self._job = self._record(transcript.job, ordered or bool(self._plan.job))
        elif ordered and not self._job.ordered:
            self._job = structs.replace(
                self._job,
                ordered=True,
                files_total=counters.total,
                bytes_total=counters.bytes_expected,
            )
        else:
            return
        self._write_down(self._job)

    def _write_down(self, job: Job) -> None:
        """Write the record; the copy goes on where that fails, as it may be nearly done."""
        try:
            self._plan.work.write(job)
        except Ai4infraError as error:
            if not self._unwritten:
                self._say(f"{error} It cannot be taken up by its id.")
            self._unwritten = True

    def _record(self, job: str, ordered: bool) -> Job:
        plan = self._plan
        if self._job is not None:
            return structs.replace(
                self._job,
                process=self._process,
                state=None,
                ended=None,
                ordered=True,
                cap=plan.preview.cap,
                limit=plan.options.cap,
            )
        return Job(
            id=job,
            source=plan.source.shown,
            target=plan.target.shown,
            from_to=plan.preview.direction,
            started=_stamp(self._now()),
            process=self._process,
            ordered=ordered,
            cap=plan.preview.cap,
            sources_sas=plan.source.sas is not None,
            targets_sas=plan.target.sas is not None,
            source_endpoint=plan.source.endpoint,
            target_endpoint=plan.target.endpoint,
            trusted=plan.trusted,
            links=plan.options.links,
            empty_folders=plan.options.empty_folders,
            overwrite=plan.options.overwrite,
            put_md5=plan.options.put_md5,
            limit=plan.options.cap,
            single_file=plan.tree.is_file,
            log=str(plan.work.logs / f"{job}.log"),
        )

    # --- afterwards

    def _receipt(self, transcript: Transcript, seconds: float) -> CopyReceipt:
        counters = transcript.counters or Counters()
        outcome = self._judged(transcript)
        failures = self._failures(transcript)
        if self._plan.job is None:
            blobs_ = not self._plan.source.is_local
            outcome = missed(outcome, counters, self._plan.tree.files, blobs=blobs_)
        outcome, verification = self._verified(outcome)
        self._close_record(transcript, outcome)
        done = counters.bytes_done
        return CopyReceipt(
            state=outcome.state,
            reason=outcome.reason,
            hint=outcome.hint or self._hint(transcript, outcome),
            source=self._plan.source.shown,
            target=self._plan.target.shown,
            job=transcript.job,
            files_total=counters.total,
            files_done=counters.completed,
            files_failed=counters.failed,
            files_skipped=counters.skipped,
            bytes_total=counters.bytes_expected,
            bytes_done=done,
            seconds=round(seconds, 2),
            megabytes_per_second=round(done / seconds / 1e6, 2) if done and seconds else None,
            stopped=self._stop,
            resumable=bool(self._job and self._job.resumable and self._job.ordered),
            failures_file=failures,
            verification=verification,
            advice=advice(counters),
            log=self._job.log if self._job else None,
            exit_code=EXIT_INTERRUPTED if self._stop == "interrupted" else outcome.exit_code,
        )

    def _judged(self, transcript: Transcript) -> Outcome:
        options = self._plan.options
        found = judge(
            transcript.counters,
            tuple(azcopy.without_queries(text) for text in transcript.last_words),
            ended=transcript.ended,
            stopped=self._stop is not None,
            allow_empty=options.allow_empty,
            allow_skipped=options.allow_skipped or options.overwrite in ("never", "newer"),
        )
        if self._stop == "stalled":
            reason = f"Nothing moved for {options.stall_seconds:g} s; {found.reason}"
            return structs.replace(found, reason=reason)
        return found

    def _hint(self, transcript: Transcript, outcome: Outcome) -> str | None:
        if outcome.state in ("ok", "empty") or transcript.job is None:
            return None
        full = self._full_disk(transcript)
        if full is not None:
            return full
        if self._job is not None and self._job.complete:
            return f"Copy it again: {command_again(self._job, 'always')}"
        if self._job is not None and self._job.ordered:
            return f"ai4infra data resume {self._job.short_id} goes on with what is missing."
        if self._job is not None:
            return f"Start it again: {command_again(self._job)}"
        return "Start it again with --overwrite never: what is there is left."

    def _full_disk(self, transcript: Transcript) -> str | None:
        """Say that the disk is full where that stopped a download; AzCopy's counters don't."""
        counters, target = transcript.counters, self._plan.target
        if counters is None or not counters.failed or not target.is_local:
            return None
        left = (counters.bytes_expected or 0) - (counters.bytes_done or 0)
        free = files.free_bytes(Path(target.path))
        if free is None or free >= left:
            return None
        return (
            f"The disk of {target.path} is full, with {bytes_text(free)} free of"
            f" {bytes_text(left)} that are missing: make room, then ai4infra data resume"
            f" {self._job.short_id if self._job else ''}"
        )

    def _failures(self, transcript: Transcript) -> str | None:
        counters = transcript.counters
        if transcript.job is None or not (counters and counters.failed):
            return None
        found: dict[str, Transfer] = {}
        with suppress(Ai4infraError, OSError):
            rows = azcopy.failed_transfers(self._plan.tool, transcript.job, self._plan.env)
            found.update({each.source: each for each in rows})
        found.update({each.source: each for each in transcript.failures})
        return self._listed_failures(transcript.job, found.values(), self._plan.options.failures)

    def _listed_failures(
        self, job: str, failed: Iterable[Transfer], wanted: Path | None
    ) -> str | None:
        """Write the list where it was asked for, else where we can: the receipt is never lost."""
        try:
            return str(self._plan.work.write_failures(job, failed, wanted))
        except Ai4infraError as error:
            self._say(str(error))
        return None if wanted is None else self._listed_failures(job, failed, None)

    def _close_record(self, transcript: Transcript, outcome: Outcome) -> None:
        if self._job is None:
            return
        counters = transcript.counters or Counters()
        self._job = structs.replace(
            self._job,
            ended=_stamp(self._now()),
            state=outcome.state,
            reason=outcome.reason,
            files_total=counters.total,
            files_done=counters.completed,
            files_failed=counters.failed,
            bytes_total=counters.bytes_expected,
            bytes_done=counters.bytes_done,
            complete=_is_complete(transcript),
            process=None,
        )
        self._write_down(self._job)

    def _verified(self, outcome: Outcome) -> tuple[Outcome, Verification | None]:
        """Verify where that was asked for; what differs, or cannot be told, is no success."""
        if not self._plan.options.verify or self._stop is not None or outcome.state == "failed":
            return outcome, None
        self._say("listing both sides")
        try:
            found = self._compared()
        except (Ai4infraError, OSError) as error:
            reason = f"{outcome.reason} They could not be verified: {error}"
            return Outcome(state="partial", reason=reason), None
        if found.passed or outcome.state != "ok":
            return outcome, found
        reason = f"{outcome.reason} The sides differ: {verification_sentence(found)}"
        return Outcome(state="partial", reason=reason), found

    def _compared(self) -> Verification:
        return compare(
            self._entries(self._plan.source),
            self._entries(self._plan.target),
            from_to=self._plan.preview.direction,
            put_md5=self._plan.options.put_md5,
        )

    def _entries(self, place: Place) -> dict[str, Entry]:
        """Return a side's files by name; a single file is named as the target is."""
        alone = posixpath.basename(self._plan.source.path)
        if not place.is_local:
            plan = self._plan
            rows = azcopy.list_blobs(plan.tool, place, plan.env, trusted=plan.trusted)
            return {each.path or alone: Entry(each.size_bytes, each.md5) for each in rows}
        root = Path(place.path)
        if root.is_file():
            return {alone: Entry(root.stat().st_size)}
        if not root.exists():
            return {}
        return {name: Entry(size) for name, size in files.walk(root, self._plan.options.links)}


def _is_complete(transcript: Transcript) -> bool:
    """Tell whether AzCopy came to its end with every file copied or left on purpose."""
    counters = transcript.counters
    if counters is None or not counters.total or not transcript.ended or not counters.ordered:
        return False
    done = (counters.completed or 0) + (counters.skipped or 0)
    return not counters.failed and done >= counters.total


def _stamp(when: datetime) -> str:
    return when.astimezone(timezone.utc).isoformat(timespec="seconds")
