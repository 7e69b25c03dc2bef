"""The local side of a transfer: what a folder holds, without reading any of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.transfer.preflight import (
    SAMPLES,
    Disk,
    Links,
    Some,
    Tree,
    part_problem,
    path_problem,
)

_EFFECTIVE = os.access in os.supports_effective_ids


class _Names:
    """Counts names of one kind and keeps the first few."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < SAMPLES:
            self.names.append(name.encode("utf-8", "backslashreplace").decode())

    @property
    def some(self) -> Some:
        return Some(count=self.count, names=tuple(self.names))


class _Survey:
    """Counts what is below a folder; a million files take some seconds and no memory."""

    def __init__(self, links: Links | None, hns: bool | None, prefix: str) -> None:
        self._links = links
        self._hns = hns
        self._prefix_length = len(prefix) + 1 if prefix else 0
        self._prefix_segments = prefix.count("/") + 1 if prefix else 0
        self._user = os.geteuid()
        self._groups = {os.getegid(), *os.getgroups()}
        self._is_root = self._user == 0
        self.files = 0
        self.size = 0
        self._pending: list[tuple[str, str, int]] = []
        """Folders that were found: path, name with a slash, depth."""
        self._folders_followed: set[str] = set()
        self._real_root = ""
        self.linked, self.dangling, self.loops = _Names(), _Names(), _Names()
        self.repeats, self.empty, self.unreadable = _Names(), _Names(), _Names()
        self.special, self.bad = _Names(), _Names()

    def tree(self, root: str) -> Tree:
        self._real_root = os.path.realpath(root)
        self._pending = [(root, "", 0)]
        while self._pending:
            self._folder(*self._pending.pop())
        return self.result()

    def result(self, *, is_file: bool = False) -> Tree:
        return Tree(
            files=self.files,
            size_bytes=self.size,
            is_file=is_file,
            links=self.linked.some,
            dangling=self.dangling.some,
            loops=self.loops.some,
            repeats=self.repeats.some,
            empty_folders=self.empty.some,
            unreadable=self.unreadable.some,
            special=self.special.some,
            bad_names=self.bad.some,
        )

    def _folder(self, path: str, prefix: str, depth: int) -> None:
        """Count a folder, unless it went away meanwhile, as what is being written to may."""
        seen = False
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    seen = True
                    with suppress(FileNotFoundError):
                        self._entry(entry, prefix, depth)
        except FileNotFoundError:
            return
        except OSError:
            self.unreadable.add(prefix or path)
            return
        if not seen and prefix:
            self.empty.add(prefix.rstrip("/"))

    def _entry(self, entry: os.DirEntry[str], prefix: str, depth: int) -> None:
        if entry.is_file(follow_symlinks=False):
            self._file(entry.name, prefix, depth, entry.stat(follow_symlinks=False), entry.path)
        elif entry.is_symlink():
            self._link(entry, prefix + entry.name, depth)
        elif entry.is_dir():
            self._pending.append((entry.path, f"{prefix}{entry.name}/", depth + 1))
            self._check_name(entry.name, prefix, depth)
        else:
            self.special.add(prefix + entry.name)

    def _link(self, entry: os.DirEntry[str], name: str, depth: int) -> None:
        self.linked.add(name)
        if self._links == "keep":
            self.files += 1
            self.size += len(os.fsencode(os.readlink(entry.path)))  # noqa: PTH115 - as below
            self._check_name(entry.name, name[: -len(entry.name)], depth)
        elif self._links != "skip":
            self._followed(entry, name, depth)

    def _followed(self, entry: os.DirEntry[str], name: str, depth: int) -> None:
        real = os.path.realpath(entry.path)
        folder = os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120 - as below
        if not os.path.exists(real):  # noqa: PTH110 - a Path for each of a million files is slow
            self.dangling.add(name)
        elif not os.path.isdir(real):  # noqa: PTH112 - as above
            self._linked_file(entry.name, name, depth, real)
        elif _is_in(folder, real):
            self.loops.add(name)
        elif _is_in(real, self._real_root) or real in self._folders_followed:
            self.repeats.add(name)
        elif self._links == "follow":
            self._folders_followed.add(real)
            self._pending.append((entry.path, f"{name}/", depth + 1))

    def _linked_file(self, part: str, name: str, depth: int, real: str) -> None:
        status = os.stat(real)  # noqa: PTH116 - as above
        if stat.S_ISREG(status.st_mode):
            self._file(part, name[: -len(part)], depth, status, real)
        else:
            self.special.add(name)

    def _file(self, part: str, prefix: str, depth: int, status: os.stat_result, path: str) -> None:
        self.files += 1
        self.size += status.st_size
        self._check_name(part, prefix, depth)
        if not (self._is_root or self._may_read(status, path)):
            self.unreadable.add(prefix + part)

    def _may_read(self, status: os.stat_result, path: str) -> bool:
        """Look at the mode, which costs nothing; ask the system only where it says no."""
        if status.st_uid == self._user:
            granted = status.st_mode & stat.S_IRUSR
        elif status.st_gid in self._groups:
            granted = status.st_mode & stat.S_IRGRP
        else:
            granted = status.st_mode & stat.S_IROTH
        return bool(granted) or os.access(path, os.R_OK, effective_ids=_EFFECTIVE)

    def _check_name(self, part: str, prefix: str, depth: int) -> None:
        problem = part_problem(part) or path_problem(
            self._prefix_length + len(prefix) + len(part),
            self._prefix_segments + depth + 1,
            hns=self._hns,
        )
        if problem:
            self.bad.add(f"{prefix}{part} {problem}")


def survey(
    root: Path, *, links: Links | None = None, hns: bool | None = None, prefix: str = ""
) -> Tree:
    """Return what a local source holds, checked against the names that a container takes.

    ``prefix`` is the target's path in the container. Raises NotFoundError where there is
    nothing, UsageError for a path with a ``*``, Ai4infraError for what is neither a file nor a
    folder.
    """
    counted = _Survey(links, hns, prefix)
    if "*" in os.path.realpath(root):
        raise UsageError(
            f"{root} has a *, which AzCopy takes for a pattern: more would be copied.",
            hint="Rename it, or copy the folder above it: a * below the source is no matter.",
        )
    try:
        status = root.stat()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"The source {root} does not exist.", hint="Is it mounted, and spelt right?"
        ) from error
    except OSError as error:
        raise Ai4infraError(f"The source {root} cannot be read: {error.strerror}.") from error
    if stat.S_ISDIR(status.st_mode):
        return counted.tree(str(root))
    if not stat.S_ISREG(status.st_mode):
        raise Ai4infraError(f"The source {root} is neither a file nor a folder.")
    counted._file(root.name, "", 0, status, str(root))
    return counted.result(is_file=True)


def walk(root: Path, links: Links | None = None) -> Iterator[tuple[str, int]]:
    """Yield name below the root and size of every file that would be copied.

    A link that leads back to a folder that it is in is not followed.
    """
    pending = [(str(root), "")]
    while pending:
        path, prefix = pending.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_symlink() and links != "follow":
                    if links == "keep":
                        yield name, len(os.fsencode(os.readlink(entry.path)))  # noqa: PTH115 - as above
                elif entry.is_dir():
                    if not (entry.is_symlink() and _is_loop(entry.path, path)):
                        pending.append((entry.path, f"{name}/"))
                elif entry.is_file():
                    yield name, entry.stat().st_size


def _is_loop(link: str, folder: str) -> bool:
    return _is_in(os.path.realpath(folder), os.path.realpath(link))


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def absolute(path: str) -> str:
    """Return a path from the root on; ``~`` is the home folder."""
    return str(Path(os.path.expanduser(path)).absolute())  # noqa: PTH111 - Path's raises for ~nobody


def exists(path: str) -> bool:
    """Tell whether there is something at a local path, a dangling link included."""
    return os.path.lexists(absolute(path))


def size_of(path: Path) -> int:
    """Return the size of a file; 0 where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made or written to. Raises UsageError, Ai4infraError."""
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise UsageError(
            f"{there} is no folder; the target of a copy is one.", hint="Name another folder."
        )
    if not _writable(there):
        raise Ai4infraError(
            f"{there} cannot be written to.", hint="Choose another folder, or mend its permissions."
        )


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written. Raises UsageError."""
    chosen = path if path.exists() else path.absolute().parent
    if not os.access(chosen, os.W_OK, effective_ids=_EFFECTIVE):
        raise UsageError(
            f"{path} cannot be written.", hint="Name a file in a folder that is there."
        )


def free_bytes(path: Path) -> int | None:
    """Return the free room of the disk that a path is, or would be, on; None when it is hidden."""
    for folder in (path, *path.absolute().parents):
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None


def disk_of(path: Path, *, used_as: str) -> Disk | None:
    """Return a folder as a place for plans and logs; None where we may not write.

    ``used_as`` is the name of our own folder in it.
    """
    own = path / used_as
    base = own if own.is_dir() else path
    free = free_bytes(base)
    if free is None or not _writable(base):
        return None
    return Disk(path=str(own), free_bytes=free, on_os_disk=_on_os_disk(base), exists=own.is_dir())


def _writable(path: Path) -> bool:
    for folder in (path, *path.absolute().parents):
        if folder.exists():
            return folder.is_dir() and os.access(
                folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE
            )
    return False


def _on_os_disk(path: Path) -> bool:
    for folder in (path, *path.absolute().parents):
        if folder.exists():
            return folder.stat().st_dev == Path("/").stat().st_dev
    return True
