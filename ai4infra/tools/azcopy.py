"""AzCopy: found, checked, started with one identity, listened to, and stopped gently."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

import platformdirs

from ai4infra.errors import Ai4infraError, NetworkError, NotFoundError
from ai4infra.model import Record
from ai4infra.tools.run import run
from ai4infra.tools.work import Work
from ai4infra.transfer.endpoints import Place, is_public_host
from ai4infra.transfer.stream import (
    TEXT,
    Counters,
    Envelope,
    Listed,
    Transcript,
    Transfer,
    first_sentence,
    parse_line,
    read_listed,
    read_transfers,
    service_code,
)

VARIABLE = "AI4INFRA_AZCOPY"
MINIMUM = (10, 27, 0)
"""``list`` as JSON with properties, and automatic login as the Azure CLI and workload identity."""
DOWNLOAD = "https://learn.microsoft.com/azure/storage/common/storage-use-azcopy-v10"
VERSION_SECONDS = 30.0
STOP_SECONDS = 60.0
"""AzCopy ends what is on its way first; after this it is killed, and can be resumed as well."""
STALL_SECONDS = 900.0
SILENCE_SECONDS = 60.0
"""AzCopy tries to list for a quarter of an hour where nobody answers."""
_TICK_SECONDS = 0.25
_LIBRARY = "libsecret"
# Whoever signs in, and where plans go, is for us to say; what tunes AzCopy stays the user's.
_OURS = (
    "AZCOPY_AUTO_LOGIN_TYPE",
    "AZCOPY_TENANT_ID",
    "AZCOPY_ACTIVE_DIRECTORY_ENDPOINT",
    "AZCOPY_OAUTH_TOKEN_INFO",
    "AZCOPY_LOG_LOCATION",
    "AZCOPY_JOB_PLAN_LOCATION",
)
_OURS_BEGIN = ("AZCOPY_SPA_", "AZCOPY_MSI_")

LoginKind = Literal["env", "workload", "msi", "cli"]
Stop = Literal["interrupted", "boundary", "stalled"]


class Tool(Record, frozen=True):
    """An AzCopy that can be used."""

    path: str
    version: str


def install_folder(env: Mapping[str, str]) -> Path:
    """Return where ``tools install`` puts programs: ``AI4INFRA_TOOLS_DIR`` or the data folder."""
    given = env.get("AI4INFRA_TOOLS_DIR")
    return Path(given) if given else Path(platformdirs.user_data_dir("ai4infra"), "bin")


def find_azcopy(env: Mapping[str, str]) -> Tool:
    """Return the AzCopy to use: ``AI4INFRA_AZCOPY``, then the path, then our own folder.

    Raises NotFoundError where there is none, Ai4infraError for one that is too old or broken.
    """
    given = env.get(VARIABLE)
    own = install_folder(env) / "azcopy"
    found = shutil.which(given or "azcopy", path=env.get("PATH"))
    if found is None and given is None and own.is_file():
        found = str(own)
    if found is None and given and Path(given).is_file():
        raise Ai4infraError(
            f"{given} ({VARIABLE}) is not executable.", hint=f"chmod +x {shlex.quote(given)}"
        )
    if found is None:
        where = f"at {given} ({VARIABLE})" if given else "on the path"
        raise NotFoundError(
            f"AzCopy is not {where}.",
            hint=f"`ai4infra tools install azcopy` installs it; or get it from {DOWNLOAD}",
        )
    return check_tool(found, env)


def check_tool(path: str, env: Mapping[str, str]) -> Tool:
    """Return a program as a tool, once it says that it is an AzCopy that is recent enough."""
    text = _version_text(path, env)
    match = re.search(r"azcopy version (\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise Ai4infraError(
            f"{path} does not say which AzCopy it is: {first_sentence(text)[:200]!r}.",
            hint="`ai4infra tools install azcopy` installs one that does.",
        )
    version = tuple(map(int, match.groups()))
    if version < MINIMUM:
        raise Ai4infraError(
            f"{path} is AzCopy {_dotted(version)}; {_dotted(MINIMUM)} or newer is needed.",
            hint=f"`ai4infra tools install azcopy`, or get it from {DOWNLOAD}",
        )
    return Tool(path=path, version=_dotted(version))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version_text(path: str, env: Mapping[str, str]) -> str:
    try:
        done = run((path, "--version"), env=_quiet(env), timeout_seconds=VERSION_SECONDS)
    except Ai4infraError as error:
        raise Ai4infraError(
            error.message, hint="`ai4infra tools install azcopy` installs one that can be run."
        ) from error.__cause__
    text = done.stdout + done.stderr
    if _LIBRARY in text and "cannot open" in text:
        raise Ai4infraError(
            f"{path} cannot be run: the library libsecret is missing.",
            hint="Debian, Ubuntu: apt-get install libsecret-1-0. Red Hat: dnf install libsecret.",
        )
    return text


def _quiet(env: Mapping[str, str]) -> dict[str, str]:
    return {**env, "AZCOPY_DISABLE_SYSLOG": "true"}


# --- the environment --------------------------------------------------------------------------


class Login(Record, frozen=True):
    """Whose identity AzCopy takes."""

    kind: LoginKind
    client_id: str | None = None
    tenant: str | None = None
    authority: str | None = None


def login_variables(login: Login, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that sign AzCopy in as our own session does.

    https://learn.microsoft.com/azure/storage/common/storage-use-azcopy-authorize-user-identity
    """
    tenant = login.tenant or env.get("AZURE_TENANT_ID")
    common = {"AZCOPY_TENANT_ID": tenant, "AZCOPY_ACTIVE_DIRECTORY_ENDPOINT": login.authority}
    client = login.client_id or env.get("AZURE_CLIENT_ID")
    own: dict[str, str | None] = {}
    if login.kind == "msi":
        # A managed identity has one tenant, its own.
        common, own = {}, {"AZCOPY_MSI_CLIENT_ID": client}
    elif login.kind == "env":
        own = {
            "AZCOPY_SPA_APPLICATION_ID": client,
            "AZCOPY_SPA_CLIENT_SECRET": env.get("AZURE_CLIENT_SECRET"),
            "AZCOPY_SPA_CERT_PATH": env.get("AZURE_CLIENT_CERTIFICATE_PATH"),
            "AZCOPY_SPA_CERT_PASSWORD": env.get("AZURE_CLIENT_CERTIFICATE_PASSWORD"),
        }
    elif login.kind == "workload":
        own = {"AZURE_CLIENT_ID": client, "AZURE_TENANT_ID": tenant}
    names = {"msi": "MSI", "env": "SPN", "workload": "WORKLOAD", "cli": "AZCLI"}
    chosen = {"AZCOPY_AUTO_LOGIN_TYPE": names[login.kind], **common, **own}
    return {name: value for name, value in chosen.items() if value}


def environment(
    env: Mapping[str, str], login: Login | None, work: Work
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return AzCopy's environment, and the inherited variables that it does without.

    ``login`` None is for places that all have a SAS.
    """
    ours = {
        **(login_variables(login, env) if login else {}),
        "AZCOPY_LOG_LOCATION": str(work.logs),
        "AZCOPY_JOB_PLAN_LOCATION": str(work.plans),
    }
    kept = {name: value for name, value in env.items() if not _is_ours(name)}
    dropped = [name for name in env if _is_ours(name) and ours.get(name) != env[name]]
    return _quiet({**kept, **ours}), tuple(sorted(dropped))


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith(_OURS_BEGIN)


def trusted_hosts(places: Sequence[Place]) -> tuple[str, ...]:
    """Return the hosts that AzCopy sends tokens to only when told so.

    Resource Manager has named them as the accounts' own, or they are none of Azure's and need a
    SAS.
    """
    hosts = (each.host for each in places if not each.is_local and each.sas is None)
    return tuple(sorted({host for host in hosts if not is_public_host(host)}))


def trust_options(hosts: Sequence[str]) -> list[str]:
    """Return the option for such hosts."""
    return ["--trusted-microsoft-suffixes", ";".join(hosts)] if hosts else []


# --- running ----------------------------------------------------------------------------------


class Ended(Record, frozen=True):
    """How AzCopy ended."""

    exit_code: int
    stop: Stop | None = None
    """Why we ended it, None when it ended by itself."""


Listen = Callable[[Envelope], None]


class Running:
    """An AzCopy at work. Its output is read by a thread, so that a silent one can be stopped."""

    def __init__(self, tool: Tool, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        # Own session: Ctrl-C goes to us, and we end it once and gently.
        self._process = subprocess.Popen(  # noqa: S603 - the program that the user installed
            [tool.path, *arguments, "--output-type", "json"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.process = self._process.pid
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=10_000)
        self._thread = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *args: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(queue.Empty):
            while self._thread.is_alive():
                self._lines.get(timeout=_TICK_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self, stream: IO[bytes] | None) -> None:
        for line in stream or ():
            self._lines.put(line)
        self._lines.put(None)

    def envelopes(self) -> Iterator[Envelope | None]:
        """Yield what it says; None now and then while it says nothing."""
        while True:
            try:
                line = self._lines.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                yield None
                continue
            if line is None:
                return
            envelope = parse_line(line)
            if envelope is not None:
                yield envelope

    def wait(self) -> int:
        """Return its exit code, once it has said everything."""
        return self._process.wait()

    def interrupt(self) -> None:
        """Ask it to stop as Ctrl-C does: the job can be resumed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """End it at once; the job can be resumed all the same."""
        self._process.kill()


class Watch:
    """Decides when a run is to be stopped: at a boundary, or when nothing moves any more."""

    def __init__(
        self,
        until: Callable[[], bool] = lambda: False,
        stall_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._until = until
        self._stall = stall_seconds
        self._clock = clock
        self._moved_at = clock()
        self._last: tuple[int | None, ...] = ()

    def hear(self, counters: Counters | None) -> None:
        """Take in the latest counters."""
        moved = counters and (
            counters.total,
            counters.completed,
            counters.failed,
            counters.skipped,
            counters.bytes_over_wire,
        )
        if moved and moved != self._last:
            self._last, self._moved_at = moved, self._clock()

    def verdict(self) -> Stop | None:
        """Return why to stop, None to go on."""
        if self._until():
            return "boundary"
        return "stalled" if self._clock() - self._moved_at > self._stall else None


def run_azcopy(
    tool: Tool,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    transcript: Transcript,
    watch: Watch,
    started: Callable[[int], None] = lambda process: None,
    listen: Callable[[Transcript], None] = lambda transcript: None,
) -> Ended:
    """Run a job to its end, or until the watch or Ctrl-C stops it: then it can be resumed.

    ``listen`` is called after every line. A second Ctrl-C kills it.
    """
    with Running(tool, arguments, env) as running:
        started(running.process)
        stops = _Stops(running, watch)
        while not _heard_all(running, stops, transcript, listen):
            pass
        return Ended(exit_code=running.wait(), stop=stops.stop)


class _Stops:
    """Stops a run once, gently; a second Ctrl-C and an AzCopy that does not end kill it."""

    def __init__(self, running: Running, watch: Watch) -> None:
        self.watch = watch
        self.stop: Stop | None = None
        self._running = running
        self._deadline = 0.0

    def look(self) -> None:
        """Stop the run where it is time to."""
        if self.stop is None:
            verdict = self.watch.verdict()
            if verdict is not None:
                self._ask(verdict)
        elif time.monotonic() > self._deadline:
            self._running.kill()

    def interrupted(self) -> None:
        """Take a Ctrl-C."""
        if self.stop == "interrupted":
            self._running.kill()
        self._ask("interrupted")

    def _ask(self, why: Stop) -> None:
        self.stop = why
        self._deadline = time.monotonic() + STOP_SECONDS
        self._running.interrupt()


def _heard_all(
    running: Running,
    stops: _Stops,
    transcript: Transcript,
    listen: Callable[[Transcript], None],
) -> bool:
    """Listen to the end, True, or to a Ctrl-C, False: what was not heard then is still there."""
    try:
        for envelope in running.envelopes():
            if envelope is not None:
                transcript.hear(envelope)
                stops.watch.hear(transcript.counters)
                listen(transcript)
            stops.look()
    except KeyboardInterrupt:
        stops.interrupted()
        return False
    return True


# --- questions --------------------------------------------------------------------------------


def list_blobs(
    tool: Tool,
    place: Place,
    env: Mapping[str, str],
    *,
    trusted: Sequence[str] = (),
    silence_seconds: float = SILENCE_SECONDS,
) -> Iterator[Listed]:
    """Yield every blob below a place; one with an empty path is the place itself.

    Raises an error with the service's code when the listing fails, at any time, and NetworkError
    when nothing comes for so long.
    """
    arguments = [
        "list",
        place.secret_url(),
        *("--location", "Blob", "--machine-readable", "--properties", "ContentMD5"),
        *("--log-level", "NONE"),
        *trust_options(trusted),
    ]
    errors: list[str] = []
    # Libraries warn on stderr, which is no failure of the listing.
    texts: list[str] = []
    with Running(tool, arguments, env) as running:
        for envelope in _answers(running, place, silence_seconds):
            if envelope.kind == "ListObject":
                listed = read_listed(envelope.body)
                if listed is not None:
                    yield listed
            elif envelope.kind == TEXT:
                texts.append(envelope.text)
            elif envelope.kind not in ("Info", "EndOfJob", "Init"):
                errors.append(envelope.text)
        code = running.wait()
    if code or errors:
        raise _failed_listing(place, errors or texts, code)


def _answers(running: Running, place: Place, silence_seconds: float) -> Iterator[Envelope]:
    silent = 0.0
    for envelope in running.envelopes():
        silent = silent + _TICK_SECONDS if envelope is None else 0.0
        if silent >= silence_seconds:
            raise NetworkError(
                f"{place.host} does not answer: AzCopy heard nothing for {silent:.0f} s.",
                hint="Look at the network, the proxy, and the account's firewall.",
            )
        if envelope is not None:
            yield envelope


def _failed_listing(place: Place, errors: Sequence[str], exit_code: int) -> Ai4infraError:
    text = "\n".join(errors)
    code = service_code(text)
    said = first_sentence(errors[0]) if errors else f"AzCopy ended with {exit_code}"
    return Ai4infraError(
        f"Cannot list {place.shown}: {without_queries(said)}.",
        code=code,
        detail=without_queries(text),
    )


def without_queries(text: str) -> str:
    """Return a text without the queries of its URLs, which may be secret."""
    return re.sub(r"(https://[^\s?\"']+)\?[^\s\"']+", r"\1", text)


def failed_transfers(tool: Tool, job: str, env: Mapping[str, str]) -> tuple[Transfer, ...]:
    """Return every file of a job that failed, as its plan has them; none where it tells nothing."""
    found: dict[str, Transfer] = {}
    arguments = ["jobs", "show", job, "--with-status", "Failed"]
    with Running(tool, arguments, env) as running:
        for envelope in running.envelopes():
            if envelope is not None:
                rows = read_transfers(envelope.body.get("Details"))
                found.update({each.source: each for each in rows})
        running.wait()
    return tuple(found.values())
