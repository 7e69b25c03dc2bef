"""What would go wrong hours into a transfer, said before it: names, links, folders, room, roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ai4infra.errors import Ai4infraError, UsageError
from ai4infra.model import Record, RoleAssignment
from ai4infra.roles import allows_blobs
from ai4infra.transfer.progress import bytes_text

# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
BLOB_NAME_CHARACTERS = 1024
FLAT_SEGMENTS = 254
HNS_SEGMENTS = 63
"""With the account's host and the container, which count too."""
# https://www.man7.org/linux/man-pages/man0/limits.h.0p.html
FILE_NAME_BYTES = 255
PATH_BYTES = 4095
SAMPLES = 5
"""So many names are shown of each kind; the number says how many there are."""
SHOWN_CHARACTERS = 160
ROOM_LEFT_BYTES = 1 << 30
"""Kept free on a disk that is downloaded to."""
PLAN_BYTES_PER_FILE = 700
"""Of AzCopy's plan: two paths and 120 bytes a file, measured with long names."""
SMALL_DISK_BYTES = 32 << 30

Links = Literal["follow", "skip", "keep"]
EmptyFolders = Literal["skip", "keep"]


def _short(name: str) -> str:
    """Return a name in quotes; of a very long one its ends, where a reason stands."""
    return repr(name if len(name) <= SHOWN_CHARACTERS else f"{name[:40]}…{name[-60:]}")


class Some(Record, frozen=True):
    """Names of one kind: how many there are, and the first few."""

    count: int = 0
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The first names for people."""
        more = f" and {self.count - len(self.names):,} more" if self.count > len(self.names) else ""
        return ", ".join(map(_short, self.names)) + more


class Tree(Record, frozen=True):
    """What a source holds."""

    files: int
    size_bytes: int
    is_file: bool = False
    """The source is one file."""
    links: Some = Some()
    dangling: Some = Some()
    """Links to nothing."""
    loops: Some = Some()
    """Links to a folder that they are in."""
    repeats: Some = Some()
    """Links to a folder that is copied anyway: AzCopy goes into each folder once."""
    empty_folders: Some = Some()
    unreadable: Some = Some()
    special: Some = Some()
    """Sockets, pipes and devices, which hold no data."""
    bad_names: Some = Some()
    """With the reason after each."""
    without_md5: int | None = None
    """Blobs without one; None for local files, which have none by nature."""


def part_problem(part: str) -> str | None:
    """Say why a part of a blob's name, between two slashes, cannot be; None when it can."""
    if part.isascii() and part.isprintable() and "\\" not in part and part[-1:] != ".":
        return None
    try:
        part.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in part):
        return "has a control character"
    if "\\" in part:
        return "has a backslash, which the service takes for a slash"
    return "has a part that ends with a dot" if part.endswith(".") else None


def path_problem(characters: int, segments: int, *, hns: bool | None) -> str | None:
    """Say why a blob's name of this length and depth cannot be; None when it can.

    ``hns`` None is not known: then only what neither kind of account can hold is a problem.
    """
    if characters > BLOB_NAME_CHARACTERS:
        return f"is longer than {BLOB_NAME_CHARACTERS} characters"
    allowed = HNS_SEGMENTS - 2 if hns else FLAT_SEGMENTS
    return f"is {segments} parts deep, of {allowed} at most" if segments > allowed else None


def local_name_problem(name: str, root_bytes: int = 0) -> str | None:
    """Say why a Linux file system cannot hold a blob's name, None when it can."""
    if "\0" in name:
        return "has a NUL character"
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty, . or .. part"
    if any(len(part.encode("utf-8", "replace")) > FILE_NAME_BYTES for part in parts):
        return f"has a part longer than {FILE_NAME_BYTES} bytes"
    if root_bytes + 1 + len(name.encode("utf-8", "replace")) > PATH_BYTES:
        return f"is longer than {PATH_BYTES} bytes below the target"
    return None


class Clashes:
    """Finds blobs whose name is a folder of others, which an account can hold and a disk cannot."""

    def __init__(self) -> None:
        # Hashes: the names of a million blobs would take three times the room.
        self._files: set[int] = set()
        self._folders: set[str] = set()

    def add(self, name: str) -> str | None:
        """Take in a blob's name; return the one that is both file and folder, None for none."""
        clash = name if name in self._folders else None
        folder = name.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            clash = folder if hash(folder) in self._files else clash
            folder = folder.rpartition("/")[0]
        self._files.add(hash(name))
        return clash


def check_tree(
    tree: Tree,
    *,
    links: Links | None,
    empty_folders: EmptyFolders | None,
    allow_empty: bool = False,
) -> None:
    """Refuse a source that cannot be copied as it is, or of which a choice is missing.

    Raises UsageError for a missing choice, Ai4infraError for the rest.
    """
    if tree.unreadable.count:
        raise Ai4infraError(
            f"Some of the source cannot be read ({tree.unreadable.count:,}):"
            f" {tree.unreadable.text}.",
            hint="Make them readable for this user, or run as one who may read them.",
        )
    if tree.bad_names.count:
        raise Ai4infraError(
            f"The target cannot hold {tree.bad_names.count:,} of the names: {tree.bad_names.text}.",
            hint="Rename them first.",
        )
    _check_links(tree, links)
    _check_empty_folders(tree, empty_folders)
    if tree.files == 0 and not allow_empty:
        raise Ai4infraError(
            "The source is empty: nothing was copied.",
            hint="Is it mounted, and the right path? --allow-empty takes this for a success.",
        )


def _check_links(tree: Tree, links: Links | None) -> None:
    if tree.links.count and links is None:
        raise UsageError(
            f"The source holds symbolic links ({tree.links.count:,}): {tree.links.text}.",
            hint="Choose --links follow (copy what they lead to), skip, or keep (as links).",
        )
    if links == "follow" and tree.loops.count:
        raise Ai4infraError(
            f"Links lead back to a folder that they are in ({tree.loops.count:,}):"
            f" {tree.loops.text}.",
            hint="Choose --links skip or keep.",
        )
    if links == "follow" and tree.repeats.count:
        raise Ai4infraError(
            f"Links lead to folders that are copied already ({tree.repeats.count:,}), which AzCopy"
            f" does not do twice: {tree.repeats.text}.",
            hint="Choose --links skip or keep.",
        )
    if links == "follow" and tree.dangling.count:
        raise Ai4infraError(
            f"Links lead to nothing ({tree.dangling.count:,}): {tree.dangling.text}.",
            hint="Remove them, or choose --links skip or keep.",
        )


def _check_empty_folders(tree: Tree, choice: EmptyFolders | None) -> None:
    if tree.empty_folders.count and choice is None:
        raise UsageError(
            f"The source holds empty folders ({tree.empty_folders.count:,}):"
            f" {tree.empty_folders.text}.",
            hint="Choose --empty-folders skip, or keep (a marker blob for each folder).",
        )


def check_room(needed_bytes: int, free_bytes: int | None, where: str) -> None:
    """Refuse a download that the disk has no room for; None is a disk that tells nothing."""
    # A small copy fits a small disk.
    spare = min(ROOM_LEFT_BYTES, max(0, needed_bytes) // 10)
    if free_bytes is not None and needed_bytes + spare > free_bytes:
        raise Ai4infraError(
            f"{where} has {bytes_text(free_bytes)} free, of {bytes_text(needed_bytes)} needed and"
            f" {bytes_text(spare)} to spare.",
            hint="Choose a bigger disk, or copy a part of it.",
        )


def plan_bytes(files: int) -> int:
    """Return about how much room AzCopy's plan of so many files takes."""
    return files * PLAN_BYTES_PER_FILE + (64 << 20)


class Disk(Record, frozen=True):
    """A folder that could keep AzCopy's plans and logs."""

    path: str
    free_bytes: int
    on_os_disk: bool
    exists: bool = False
    """It has been used for this before."""


def choose_work(disks: Iterable[Disk], needed_bytes: int) -> Disk:
    """Return where plans and logs go: the first, unless it is small and another has more room.

    The first is the user's own state folder. Raises Ai4infraError where none has room.
    """
    first, *others = disks
    fits = [disk for disk in (first, *others) if disk.free_bytes > needed_bytes + ROOM_LEFT_BYTES]
    is_small = first.on_os_disk and first.free_bytes < SMALL_DISK_BYTES
    if first in fits and not is_small:
        return first
    if not fits:
        raise Ai4infraError(
            f"{first.path} has no room for AzCopy's plans and logs:"
            f" {bytes_text(needed_bytes)} are needed.",
            hint="Name a folder on a bigger disk with --work-dir or AI4INFRA_WORK_DIR.",
        )
    return max(fits, key=lambda disk: disk.free_bytes)


def holds_role(held: Iterable[RoleAssignment], access: Literal["read", "write"]) -> bool | None:
    """Tell from our own assignments at a container and above whether we may read or write.

    None where it cannot be told: a custom role or a condition may decide it.
    """
    verdicts = [(allows_blobs(each.role_id, access), each.condition) for each in held]
    if any(allowed and not condition for allowed, condition in verdicts):
        return True
    return None if any(allowed is not False for allowed, _ in verdicts) else False
