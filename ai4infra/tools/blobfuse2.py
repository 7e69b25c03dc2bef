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

from ai4infra.errors import Ai4infraError, ConflictError, NotFoundError
from ai4infra.model import Record
from ai4infra.mounts.live import Mount, Running, mount_of, parse_command, parse_mounts
from ai4infra.mounts.reference import reference, version_key
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


def installed() -> Program:
    """Return the BlobFuse2 on the PATH.

    Raises NotFoundError when there is none, Ai4infraError when it is older than what our
    configurations are for.
    """
    path = find(PROGRAM)
    if path is None:
        raise NotFoundError("There is no program blobfuse2 on this machine.", hint=_INSTALL)
    done = run((path, "--version"), timeout_seconds=VERSION_SECONDS)
    found = _VERSION.search(done.stdout or done.stderr)
    if done.code or not found:
        raise Ai4infraError(f"{path} does not say its version.", hint=_INSTALL)
    minimum = reference().reference.minimum
    if version_key(found[1]) < version_key(minimum):
        raise Ai4infraError(
            f"{path} is BlobFuse2 {found[1]}, and it takes {minimum} or newer.", hint=_INSTALL
        )
    return Program(path=path, version=found[1])


def mounts() -> tuple[Mount, ...]:
    """Return the mounts of BlobFuse2 on this machine."""
    return tuple(mount for mount in _all_mounts() if mount.is_blobfuse2)


def _all_mounts() -> tuple[Mount, ...]:
    try:
        return parse_mounts((PROC / "mounts").read_text("utf-8", "replace"))
    except OSError as error:
        raise NotFoundError(
            f"{PROC / 'mounts'} cannot be read: {error.strerror}.",
            hint="Mounts are looked at on the Linux VM itself.",
        ) from error


def running() -> tuple[Running, ...]:
    """Return the running mounters, by their command lines; those of others may be hidden."""
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
    return parse_command(pid, words[:-1], None if cwd == "/" else cwd)


def working_folder(mounter: Running, configured: str = "") -> Path | None:
    """Return the folder where a mounter writes its progress; None where it cannot be told."""
    given = mounter.settings.get("default-working-dir") or configured
    if given:
        return Path(given)
    try:
        environ = (PROC / str(mounter.pid) / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    homes = [word[5:] for word in environ.split("\0") if word.startswith("HOME=")]
    return Path(homes[0]) / ".blobfuse2" if homes else None


def mount(
    program: Program, mount_path: Path, config: Path, *, mask: Callable[[str], str] = str
) -> Ran:
    """Mount; BlobFuse2 goes to the background once it is there.

    ``mask`` takes out of BlobFuse2's words what nobody may see.

    Raises ConflictError where something is mounted already, Ai4infraError with BlobFuse2's own
    words when it does not mount.
    """
    place = str(mount_path)
    there = mount_of(place, _all_mounts())
    if there is not None and there.path == place:
        what = "BlobFuse2" if there.is_blobfuse2 else there.fstype
        raise ConflictError(
            f"{place} is a mount of {what} already.", hint=f"`ai4infra mount down {place}` ends it."
        )
    argv = (program.path, "mount", place, f"--config-file={config}", "--wait-for-mount=60s")
    done = run(argv, timeout_seconds=MOUNT_SECONDS)
    if done.code:
        raise Ai4infraError(
            f"BlobFuse2 does not mount {place}: {mask(done.said) or f'exit code {done.code}'}.",
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
                hint="Its log says why; a missing data role is the usual reason.",
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
) -> Progress:
    """Follow a preload to its end, and return the last sample.

    A total that is all done may still grow while the listing goes on, so that it has to be told
    twice. Raises Ai4infraError when the mounter ends before the preload does.
    """
    before: Progress | None = None
    while True:
        now = read()
        if now is not None:
            on_progress(now)
            if now.complete and before == now:
                return now
        if not alive():
            raise Ai4infraError("BlobFuse2 ended before the preload did.", hint="Its log says why.")
        before = now
        sleep(POLL_SECONDS)


def unmount(program: Program, mount_path: Path, *, lazy: bool = False) -> None:
    """Unmount; what was written is uploaded first.

    Raises NotFoundError where nothing of BlobFuse2 is mounted, ConflictError when it is in use.
    """
    place = str(mount_path)
    if place not in {each.path for each in mounts()}:
        raise NotFoundError(
            f"{place} is no mount of BlobFuse2.", hint="`ai4infra mount status` lists them."
        )
    words = ("--lazy",) if lazy else ()
    done = run((program.path, "unmount", place, *words), timeout_seconds=UNMOUNT_SECONDS)
    if done.code or (not lazy and _is_mounted(place)):
        raise ConflictError(
            f"{place} is not unmounted: {done.said or f'exit code {done.code}'}.",
            hint="A file of it is open, or a shell is in it; --lazy unmounts it when it is free.",
        )


def config_text(config: Path) -> str:
    """Read a configuration; raises NotFoundError or Ai4infraError when it cannot be read."""
    try:
        return config.read_text("utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {config}.") from error
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Ai4infraError(f"{config} cannot be read: {why}.") from error
