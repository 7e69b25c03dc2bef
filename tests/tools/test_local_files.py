"""What a local source holds."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.tools.files import (
    _Survey,
    absolute,
    check_file,
    check_folder,
    disk_of,
    exists,
    free_bytes,
    survey,
    walk,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "a" / "b").mkdir(parents=True)
    (root / "one.bin").write_bytes(b"1")
    (root / "a" / "two.bin").write_bytes(b"22")
    (root / "a" / "b" / "three.bin").write_bytes(b"333")
    return root


def test_files_and_bytes_are_counted_below_all_folders(folder: Path) -> None:
    found = survey(folder)
    assert (found.files, found.size_bytes, found.is_file) == (3, 6, False)


def test_a_single_file_is_counted_as_one(folder: Path) -> None:
    found = survey(folder / "one.bin")
    assert (found.files, found.size_bytes, found.is_file) == (1, 1, True)


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        survey(tmp_path / "nothing")


def test_a_source_that_is_neither_file_nor_folder_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Ai4infraError, match="neither a file nor a folder"):
        survey(tmp_path / "pipe")


def test_pipes_in_a_folder_are_named_and_not_counted(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    found = survey(folder)
    assert (found.files, found.special.names) == (3, ("pipe",))


def test_empty_folders_are_named_and_the_root_is_none(folder: Path, tmp_path: Path) -> None:
    (folder / "a" / "empty").mkdir()
    assert survey(folder).empty_folders.names == ("a/empty",)
    (tmp_path / "root").mkdir()
    assert survey(tmp_path / "root").empty_folders.count == 0


def test_links_are_named_and_counted_as_was_chosen(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "four.bin").write_bytes(b"4444")
    (folder / "file-link").symlink_to("one.bin")
    (folder / "folder-link").symlink_to(tmp_path / "outside")
    assert survey(folder).links.count == 2
    skipped, followed, kept = (survey(folder, links=c) for c in ("skip", "follow", "keep"))
    assert (skipped.files, followed.files, kept.files) == (3, 5, 5)
    assert followed.size_bytes == 6 + 1 + 4
    assert kept.size_bytes == 6 + len("one.bin") + len(str(tmp_path / "outside"))


def test_links_to_nothing_are_named(folder: Path) -> None:
    (folder / "gone").symlink_to("nowhere")
    assert survey(folder, links="follow").dangling.names == ("gone",)


def test_links_to_a_folder_that_they_are_in_are_named_and_not_followed(folder: Path) -> None:
    (folder / "a" / "up").symlink_to("..")
    found = survey(folder, links="follow")
    assert (found.loops.names, found.files) == (("a/up",), 3)


def test_links_to_folders_that_are_copied_anyway_are_named(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "again").symlink_to("a")
    (folder / "first").symlink_to(outside)
    (folder / "second").symlink_to(outside)
    assert survey(folder, links="follow").repeats.count == 2


def test_names_are_checked_with_the_targets_path_before_them(folder: Path) -> None:
    (folder / "dot.").touch()
    (folder / "back\\slash").touch()
    assert survey(folder).bad_names.count == 2
    deep = "/".join("p" * 252)
    assert survey(folder, prefix=deep).bad_names.count == 3


def test_a_name_that_is_not_utf8_is_named_so_that_it_can_be_shown(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff")).touch()
    (shown,) = survey(folder).bad_names.names
    assert shown.encode() == b"bad\\udcff is not UTF-8"


@pytest.fixture
def somebody() -> Iterator[Path]:
    """A folder of somebody who is not root, and we are that somebody."""
    nobody = 65534
    folder = Path(tempfile.mkdtemp())
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        if was_root:
            os.seteuid(0)
        (folder / "closed").chmod(0o700)
        shutil.rmtree(folder)


def test_files_and_folders_that_may_not_be_read_are_named(somebody: Path) -> None:
    (somebody / "one.bin").touch(0)
    (somebody / "closed").mkdir(0)
    assert set(survey(somebody).unreadable.names) == {"one.bin", "closed/"}


@pytest.mark.parametrize("links", ["skip", "follow", "keep"])
def test_what_is_counted_is_what_is_walked(folder: Path, links: str) -> None:
    (folder / "file-link").symlink_to("one.bin")
    (folder / "a" / "up").symlink_to("..")
    found = survey(folder, links=links)  # type: ignore[arg-type]  # one of the three
    walked = dict(walk(folder, links))  # type: ignore[arg-type]  # as above
    assert (len(walked), sum(walked.values())) == (found.files, found.size_bytes)


def test_names_are_those_below_the_root(folder: Path) -> None:
    assert sorted(name for name, _ in walk(folder)) == ["a/b/three.bin", "a/two.bin", "one.bin"]


def test_a_dangling_link_exists(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")
    assert exists(str(tmp_path / "gone"))
    assert not exists(str(tmp_path / "nothing"))


def test_room_is_that_of_the_disk_a_folder_would_be_on(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") == free_bytes(tmp_path)


def test_a_folder_is_a_place_for_plans_only_where_we_may_write(tmp_path: Path) -> None:
    found = disk_of(tmp_path, used_as="azcopy")
    assert found is not None
    assert (found.path, found.exists) == (str(tmp_path / "azcopy"), False)
    (tmp_path / "file").touch()
    assert disk_of(tmp_path / "file", used_as="azcopy") is None


def test_a_file_that_goes_away_meanwhile_hides_nothing_else_of_its_folder(folder: Path) -> None:
    class Vanishing(_Survey):
        def _entry(self, entry: os.DirEntry[str], *more: Any) -> None:
            if entry.name == "one.bin":
                (folder / "one.bin").unlink()
            super()._entry(entry, *more)

    (folder / "later.bin").touch()
    found = Vanishing(None, None, "").tree(str(folder))
    assert (found.files, (folder / "one.bin").exists()) == (3, False)


def test_the_home_folder_of_nobody_is_a_name_like_others() -> None:
    assert not exists("~nobody-of-this-name/data")
    assert absolute("~nobody-of-this-name").endswith("/~nobody-of-this-name")


def test_a_target_that_is_or_is_below_a_file_is_refused(folder: Path) -> None:
    check_folder(folder / "new" / "er")
    for path in (folder / "one.bin", folder / "one.bin" / "below"):
        with pytest.raises(UsageError, match="is no folder"):
            check_folder(path)


def test_a_list_that_could_not_be_written_is_refused_before_anything_is_copied(
    folder: Path,
) -> None:
    check_file(folder / "failed.jsonl")
    with pytest.raises(UsageError, match="cannot be written"):
        check_file(folder / "nowhere" / "failed.jsonl")


def test_a_source_with_a_star_is_refused_as_azcopy_would_copy_its_neighbours_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "st*r").mkdir()
    (tmp_path / "link").symlink_to("st*r")
    for name in ("st*r", "link"):
        with pytest.raises(UsageError, match="takes for a pattern"):
            survey(tmp_path / name)
    (tmp_path / "folder" / "st*r").mkdir(parents=True)
    assert survey(tmp_path / "folder").bad_names.count == 0
