"""Reads the kernel's list of mounts and the command lines of running mounters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from ai4infra.model import Record
from ai4infra.mounts.reference import reference

BLOBFUSE2 = "blobfuse2"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(Record, frozen=True):
    """One line of ``/proc/mounts``."""

    device: str
    path: str
    fstype: str
    options: tuple[str, ...] = ()

    @property
    def is_blobfuse2(self) -> bool:
        """True for a mount of BlobFuse2."""
        return self.device == BLOBFUSE2 or self.fstype == f"fuse.{BLOBFUSE2}"

    @property
    def read_only(self) -> bool:
        """True when it was mounted ro."""
        return "ro" in self.options


class Running(Record, frozen=True):
    """A ``blobfuse2 mount`` that runs, as its command line tells it."""

    pid: int
    mount_path: str
    config_file: str | None
    """Absolute where the folder that it was started in is known."""
    settings: dict[str, str]
    """Keys that flags set over the configuration, as ``SECTION.KEY``; secrets are left out."""
    unknown_flags: tuple[str, ...] = ()


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse ``/proc/mounts``; lines that are none are passed over."""
    fields = (line.split(" ") for line in text.splitlines())
    return tuple(
        Mount(
            device=_unescaped(each[0]),
            path=_unescaped(each[1]),
            fstype=each[2],
            options=tuple(each[3].split(",")),
        )
        for each in fields
        if len(each) >= 4
    )


def _unescaped(text: str) -> str:
    """Undo the kernel's escapes: a blank in a path is ``\\040``."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it, by their names alone."""
    inner, outer = PurePosixPath(path), PurePosixPath(folder)
    return inner == outer or outer in inner.parents


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return the mount that holds a path: the longest prefix, the last of several on one."""
    holding = [mount for mount in mounts if is_below(path, mount.path)]
    longest = max((len(PurePosixPath(m.path).parts) for m in holding), default=0)
    deepest = [m for m in holding if len(PurePosixPath(m.path).parts) == longest]
    return deepest[-1] if deepest else None


def parse_command(pid: int, argv: Sequence[str], folder: str | None = None) -> Running | None:
    """Read the command line of a process; None when it is not a ``blobfuse2 mount``.

    ``folder`` is the one that it was started in. Both forms of a flag are read, ``--flag=value``
    and ``--flag value``; a switch without a value is true. So is the form of ``/etc/fstab``, which
    leaves ``mount`` out and has the flags among the options after ``-o``.
    """
    words = _mount_words(argv)
    places: list[str] = []
    flags: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            places.append(word)
            continue
        name, given, value = word.lstrip("-").partition("=")
        flags[name] = value if given else _value_of(name, words)
    if not places or places[0] in ("all", "list"):
        return None
    return _running(pid, places[0], flags, folder)


def _mount_words(argv: Sequence[str]) -> list[str]:
    """Return what comes after ``blobfuse2 mount``, with the flags among the options of fstab."""
    if len(argv) < 2 or PurePosixPath(argv[0]).name != BLOBFUSE2:
        return []
    if argv[1] == "mount":
        return _spread(argv[2:])
    return _spread(argv[1:]) if argv[1].startswith("/") else []


def _spread(argv: Sequence[str]) -> list[str]:
    """Take BlobFuse2's own flags out of the options after ``-o``."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word != "-o" or not rest:
            words.append(word)
            continue
        options = rest.pop(0).split(",")
        own = [each for each in options if each.startswith("--")]
        own += ["--read-only"] if "ro" in options else []
        words += [f"-o={','.join(each for each in options if not each.startswith('--'))}", *own]
    return words


def _value_of(name: str, rest: list[str]) -> str:
    flag = reference().flags.get(name)
    if flag is None or flag.switch or not rest:
        return "true"
    return rest.pop(0)


def _running(pid: int, place: str, flags: dict[str, str], folder: str | None) -> Running:
    known = reference().flags
    config = flags.get("config-file")
    settings = {
        str(known[name].key): value
        for name, value in flags.items()
        if name in known and known[name].key and not known[name].secret
    }
    return Running(
        pid=pid,
        mount_path=_absolute(place, folder),
        config_file=None if config is None else _absolute(config, folder),
        settings=settings,
        unknown_flags=tuple(name for name in flags if name not in known),
    )


def _absolute(path: str, folder: str | None) -> str:
    return str(PurePosixPath(folder) / path) if folder else path
