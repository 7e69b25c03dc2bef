"""Starts BlobFuse2: finds it, mounts, follows a preload, waits until it reads, unmounts."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from ai4infra.errors import Ai4infraError, ConflictError, NotFoundError, UsageError
from ai4infra.model import Record
from ai4infra.mounts.lint import Document, parse
from ai4infra.mounts.live import Mount, Running, mount_of, parse_command
from ai4infra.mounts.reference import reference, version_key
from ai4infra.tools import lsblk
from ai4infra.tools.run import Ran, find, run

PROGRAM = "blobfuse2"
VERSION_SECONDS = 30.0
MOUNT_SECONDS = 180.0
UNMOUNT_SECONDS = 600.0
"""What was written is uploaded at the unmount."""
READABLE_SECONDS = 60.0
POLL_SECONDS = 1.0
PROC = Path("/proc")
"""The kernel's list of mounts and processes."""

EXPORT_SECONDS = 4.0
"""How often BlobFuse2 adds a sample of its progress, until all that it has listed is done."""
SILENT_SECONDS = 60.0
"""So long a preload may tell nothing: an empty container never does."""
MAX_CONFIG_BYTES = 128 * 1024
"""A configuration with all that the reference has and says is 14 KiB."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_VERSION = re.compile(r"(\d+\.\d+\.\d+(?:~[\w.]+)?)")
_INSTALL = (
    "It comes from https://packages.microsoft.com; as in"
    " https://learn.microsoft.com/azure/storage/blobs/blobfuse2-install."
)

_LOOK = "`ai4infra mount check` looks at the configuration; its log has more."

Sleep = Callable[[float], None]


class Program(Record, frozen=True):
    """A BlobFuse2 that is installed."""

    path: str
    version: str


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a preload's exported progress; names are BlobFuse2's."""

    percent: float = msgspec.field(name="PercentCompleted", default=0.0)
    total: int = msgspec.field(name="Total", default=0)
    """Files and folders listed so far: it grows while the listing goes on."""
    done: int = msgspec.field(name="Done", default=0)
    failed: int = msgspec.field(name="Failed", default=0)
    pending: int = msgspec.field(name="Pending", default=0)
    bytes_transferred: int = msgspec.field(name="BytesTransferred", default=0)
    mbits_s: float = msgspec.field(name="Bandwidth(Mbps)", default=0.0)
    """2**20 bits a second since the start."""

    @property
    def complete(self) -> bool:
        """True when all that was listed is done or failed."""
        return self.total > 0 and self.pending == 0


def installed(*, any_release: bool = False) -> Program:
    """Return the BlobFuse2 on the PATH.

    Raises NotFoundError when there is none, Ai4infraError when it is older than what our
    configurations are for, unless ``any_release`` will do.
    """
    path = find(PROGRAM)
    if path is None:
        raise NotFoundError("There is no program blobfuse2 on this machine.", hint=_INSTALL)
    done = run((path, "--version"), timeout_seconds=VERSION_SECONDS)
    found = _VERSION.search(done.stdout or done.stderr)
    if done.code or not found:
        raise Ai4infraError(f"{path} does not say its version.", hint=_INSTALL)
    minimum = reference().reference.minimum
    if not any_release and version_key(found[1]) < version_key(minimum):
        raise Ai4infraError(
            f"{path} is BlobFuse2 {found[1]}, and it takes {minimum} or newer.", hint=_INSTALL
        )
    return Program(path=path, version=found[1])


def mounts() -> tuple[Mount, ...]:
    """Return the mounts of BlobFuse2 on this machine."""
    return tuple(mount for mount in _all_mounts() if mount.is_blobfuse2)


def _all_mounts() -> tuple[Mount, ...]:
    return lsblk.mounts(PROC)


def running() -> tuple[Running, ...]:
    """Return the running mounters, by their command lines; those of others may be hidden.

    Their mount paths are as the kernel has them, with links in the folders above followed.
    """
    found = (_running(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return tuple(sorted((each for each in found if each), key=lambda each: each.pid))


def _running(pid: int) -> Running | None:
    folder = PROC / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    cwd = None
    with contextlib.suppress(OSError):
        cwd = os.readlink(folder / "cwd")  # noqa: PTH115 - resolve() would follow it further
    # The daemon moves to /, so its own folder says nothing of where it was started.
    found = parse_command(pid, words[:-1], None if cwd == "/" else cwd)
    return found and msgspec.structs.replace(found, mount_path=_above_resolved(found.mount_path))


def _above_resolved(path: str) -> str:
    """Follow the links above a path; a dead mount point itself cannot be looked at."""
    if not path.startswith("/"):
        return path
    head, tail = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(head), tail) if tail else head  # noqa: PTH118


def place_of(path: Path) -> Path:
    """Return a mount point as the kernel has it in its list, with links followed."""
    place = Path(_above_resolved(str(path.expanduser().absolute())))
    if str(place) in {each.path for each in _all_mounts()}:
        return place
    return Path(os.path.realpath(place))


def expanded(path: str) -> str:
    """Return a path of a configuration as BlobFuse2 reads it: ``~/`` and variables filled in."""
    home = os.path.expanduser(path) if path.startswith("~/") else path  # noqa: PTH111
    filled = _VARIABLE.sub(lambda found: os.environ.get(found[1] or found[2], ""), home)
    return os.path.abspath(filled)  # noqa: PTH100 - links are not to be followed


def working_folder(mounter: Running, configured: str = "") -> Path | None:
    """Return the folder where a mounter writes its progress; None where it cannot be told."""
    given = mounter.settings.get("default-working-dir") or configured
    if given:
        return Path(expanded(given))
    try:
        environ = (PROC / str(mounter.pid) / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    homes = [word[5:] for word in environ.split("\0") if word.startswith("HOME=")]
    return Path(homes[0]) / ".blobfuse2" if homes else None


def check_free(mount_path: Path) -> None:
    """Raise ConflictError where something is mounted already, be its mounter alive or not."""
    place = str(mount_path)
    there = mount_of(place, _all_mounts())
    if there is not None and there.path == place:
        what = "BlobFuse2" if there.is_blobfuse2 else there.fstype
        end = f"ai4infra mount down {place}" if there.is_blobfuse2 else f"umount {place}"
        raise ConflictError(f"{place} is a mount of {what} already.", hint=f"`{end}` ends it.")


def mount(
    program: Program, mount_path: Path, config: Path, *, mask: Callable[[str], str] = str
) -> Ran:
    """Mount; BlobFuse2 goes to the background once it is there.

    ``mask`` takes out of BlobFuse2's words what nobody may see.

    Raises ConflictError where something is mounted already, Ai4infraError with BlobFuse2's own
    words when it does not mount.
    """
    check_free(mount_path)
    place = str(mount_path)
    argv = (program.path, "mount", place, f"--config-file={config}", "--wait-for-mount=60s")
    try:
        done = run(argv, timeout_seconds=MOUNT_SECONDS)
    except Ai4infraError as error:
        raise Ai4infraError(
            error.message, hint="`ai4infra mount status` says whether it is mounted after all."
        ) from error
    if done.code:
        raise Ai4infraError(
            f"BlobFuse2 does not mount {place}: {mask(done.said)}.",
            hint=reference().advice(done.said + done.stdout) or _LOOK,
        )
    return done


def wait_readable(
    mount_path: Path,
    *,
    seconds: float = READABLE_SECONDS,
    sleep: Sleep = time.sleep,
    is_mounted: Callable[[str], bool] | None = None,
) -> None:
    """Wait until the mount is in the kernel's list and can be listed.

    Raises Ai4infraError when it is not within ``seconds``, or when listing it is refused.
    """
    there = is_mounted or _is_mounted
    left, why = seconds, "it is not in the list of mounts"
    while True:
        if there(str(mount_path)):
            try:
                with os.scandir(mount_path) as entries:
                    next(entries, None)
                return
            except OSError as error:
                why = str(error.strerror)
        if left <= 0:
            raise Ai4infraError(
                f"{mount_path} cannot be read after {seconds:g} seconds: {why}.",
                hint="Its log says why; a missing data role is the usual reason."
                f" It stays as it is; `ai4infra mount down {mount_path}` takes it away.",
            )
        sleep(POLL_SECONDS)
        left -= POLL_SECONDS


def _is_mounted(path: str) -> bool:
    there = mount_of(path, _all_mounts())
    return there is not None and there.path == path


def progress_of(pid: int, folder: Path) -> Progress | None:
    """Return the last sample of one mounter's preload; None where there is none yet."""
    try:
        return last_sample((folder / f"xload_stats_{pid}.json").read_text("utf-8", "replace"))
    except OSError:
        return None


def last_sample(text: str) -> Progress | None:
    """Return the last whole sample of an exported progress; None when there is none.

    The file is a JSON array that is written over at its end, so it may be read half written.
    """
    for candidate in islice(_whole(text), 3):
        with contextlib.suppress(msgspec.DecodeError):
            samples = msgspec.json.decode(candidate, type=list[Progress])
            if samples:
                return samples[-1]
    return None


def _whole(text: str) -> Iterator[str]:
    """Yield the text, then what is left of it when the sample at its end is left out."""
    yield text
    end = text.rfind("}")
    while end > 0:
        yield text[: end + 1].rstrip().rstrip(",") + "]"
        end = text.rfind("}", 0, end)


def follow_preload(
    read: Callable[[], Progress | None],
    on_progress: Callable[[Progress], None],
    *,
    alive: Callable[[], bool],
    sleep: Sleep = time.sleep,
) -> Progress | None:
    """Follow a preload to its end, and return the last sample.

    A total that is all done may still grow while the listing goes on, so it has to stay so for
    longer than a sample takes. None, or a sample with nothing in it, means that it told nothing
    for ``SILENT_SECONDS``. Raises Ai4infraError when the mounter ends before the preload does.
    """
    before, since, silent = None, 0.0, 0.0
    while True:
        now = read()
        if now is not None:
            on_progress(now)
        since = since + POLL_SECONDS if now == before else 0.0
        silent = 0.0 if now is not None and now.total else silent + POLL_SECONDS
        if silent > SILENT_SECONDS or (now and now.complete and since > EXPORT_SECONDS):
            return now
        if not alive():
            raise Ai4infraError("BlobFuse2 ended before the preload did.", hint="Its log says why.")
        before = now
        sleep(POLL_SECONDS)


def unmount(
    program: Program, mount_path: Path, *, lazy: bool = False, sleep: Sleep = time.sleep
) -> None:
    """Unmount, and wait for the mounter's end: what was written is uploaded until then.

    Raises NotFoundError where nothing of BlobFuse2 is mounted, ConflictError when it is in use,
    Ai4infraError when the mounter does not end.
    """
    place = str(mount_path)
    if place not in {each.path for each in mounts()}:
        raise NotFoundError(
            f"{place} is no mount of BlobFuse2.", hint="`ai4infra mount status` lists them."
        )
    mounters = {each.pid for each in running() if each.mount_path == place}
    words = ("--lazy",) if lazy else ()
    done = run((program.path, "unmount", place, *words), timeout_seconds=UNMOUNT_SECONDS)
    if done.code or (not lazy and _is_mounted(place)):
        raise ConflictError(
            f"{place} is not unmounted: {done.said}.",
            hint="A file of it is open, or a shell is in it; --lazy unmounts it when it is free.",
        )
    if not lazy:
        _wait_ended(place, mounters, sleep)


def _wait_ended(place: str, mounters: set[int], sleep: Sleep) -> None:
    left = UNMOUNT_SECONDS
    while alive := mounters & {each.pid for each in running() if each.mount_path == place}:
        if left <= 0:
            raise Ai4infraError(
                f"{place} is unmounted, and process {min(alive)} still uploads what was written.",
                hint="Do not stop the machine before it has ended; its log says how far it is.",
            )
        sleep(POLL_SECONDS)
        left -= POLL_SECONDS


def config_text(config: Path) -> str:
    """Read a configuration.

    Raises NotFoundError when there is none, UsageError for what is no text, Ai4infraError when it
    cannot be read.
    """
    try:
        with config.open("rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {config}.") from error
    except OSError as error:
        raise Ai4infraError(f"{config} cannot be read: {error.strerror}.") from error
    if len(raw) > MAX_CONFIG_BYTES:
        raise UsageError(f"{config} is no configuration: it is larger than 128 KiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeError as error:
        raise UsageError(f"{config} is no configuration: it is no text.") from error


def read_document(file: str | None) -> Document | None:
    """Return a running mount's configuration; None where there is none that can be read."""
    if file is None:
        return None
    try:
        return parse(config_text(Path(file)), file)
    except Ai4infraError:
        return None
