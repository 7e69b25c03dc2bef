"""What is refused before anything is copied."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import Ai4infraError, UsageError
from ai4infra.model import RoleAssignment
from ai4infra.roles import BLOB_CONTRIBUTOR, BLOB_READER
from ai4infra.transfer.preflight import (
    PLAN_BYTES_PER_FILE,
    Clashes,
    Disk,
    EmptyFolders,
    Links,
    Some,
    Tree,
    check_room,
    check_tree,
    choose_work,
    holds_role,
    local_name_problem,
    part_problem,
    path_problem,
    plan_bytes,
)

GIB = 1 << 30
ONE = Some(count=1, names=("x",))
CONTRIBUTOR_OF_ARM = "b24988ac-6180-42a0-ab88-20f7382dd24c"
CUSTOM = "00000000-1111-4000-8000-000000000000"


def refused(
    tree: Tree, links: Links | None = None, empty_folders: EmptyFolders | None = None
) -> Ai4infraError:
    with pytest.raises(Ai4infraError) as caught:
        check_tree(tree, links=links, empty_folders=empty_folders)
    return caught.value


@pytest.mark.parametrize(
    "name",
    ["a", "a b", "ünï日本", "q?m", "h#h", "p%41", "st*r", "c.txt", " lead", "trail ", ".dot"],
)
def test_awkward_names_that_an_account_holds_are_fine(name: str) -> None:
    assert part_problem(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("back\\slash", "backslash"),
        ("new\nline", "control character"),
        ("c1\x85", "control character"),
        ("bad\udcff", "UTF-8"),
        ("dot.", "ends with a dot"),
    ],
)
def test_names_that_an_account_cannot_hold_are_told_with_the_reason(name: str, why: str) -> None:
    assert why in (part_problem(name) or "")


def test_an_account_holds_names_up_to_a_length_and_a_depth() -> None:
    assert path_problem(1024, 254, hns=None) is None
    assert "longer than 1024" in (path_problem(1025, 1, hns=None) or "")
    assert "255 parts deep, of 254" in (path_problem(600, 255, hns=None) or "")


def test_a_hierarchical_account_holds_fewer_folders_in_one_another() -> None:
    assert path_problem(200, 62, hns=False) is None
    assert path_problem(200, 62, hns=None) is None
    assert "62 parts deep, of 61" in (path_problem(200, 62, hns=True) or "")


@pytest.mark.parametrize("name", ["a//b", "../a", "a/./b", "a\0b", "x" * 256, "a/" * 2048 + "a"])
def test_blobs_that_a_file_system_cannot_hold_are_told(name: str) -> None:
    assert local_name_problem(name)


@pytest.mark.parametrize("name", ["a/b", "back\\slash", "dot.", "x" * 255, "ü" * 127])
def test_blobs_that_a_file_system_holds_are_fine(name: str) -> None:
    assert local_name_problem(name) is None


def test_the_local_folder_counts_to_the_length_of_a_path() -> None:
    assert local_name_problem("a" * 200, root_bytes=4000)


def test_links_need_a_choice() -> None:
    error = refused(Tree(files=1, size_bytes=1, links=ONE))
    assert isinstance(error, UsageError)
    assert "--links follow" in (error.hint or "")


@pytest.mark.parametrize("links", ["follow", "skip", "keep"])
def test_links_with_a_choice_are_fine(links: Links) -> None:
    check_tree(Tree(files=1, size_bytes=1, links=ONE), links=links, empty_folders=None)


@pytest.mark.parametrize("kind", ["loops", "dangling", "repeats"])
def test_links_that_cannot_be_followed_are_named(kind: str) -> None:
    tree = Tree(files=1, size_bytes=1, links=ONE, **{kind: Some(count=7, names=("bad-link",))})
    error = refused(tree, links="follow")
    assert "'bad-link' and 6 more" in error.message
    check_tree(tree, links="skip", empty_folders=None)


def test_empty_folders_need_a_choice() -> None:
    tree = Tree(files=1, size_bytes=1, empty_folders=ONE)
    assert "--empty-folders skip" in (refused(tree).hint or "")
    check_tree(tree, links=None, empty_folders="skip")


@pytest.mark.parametrize("kind", ["unreadable", "bad_names"])
def test_files_that_cannot_be_copied_are_named(kind: str) -> None:
    assert "'x'" in refused(Tree(files=1, size_bytes=1, **{kind: ONE})).message


def test_an_empty_source_is_refused_unless_it_is_allowed() -> None:
    nothing = Tree(files=0, size_bytes=0)
    assert "empty" in refused(nothing).message
    check_tree(nothing, links=None, empty_folders=None, allow_empty=True)


def test_a_disk_without_room_is_refused() -> None:
    with pytest.raises(Ai4infraError, match=r"1\.1 GB free, of 2\.1 GB needed"):
        check_room(2 * GIB, GIB, "/mnt")
    check_room(2 * GIB, 4 * GIB, "/mnt")
    check_room(2 * GIB, None, "/mnt")


def test_a_small_copy_fits_a_small_disk() -> None:
    check_room(10_000_000, 64_000_000, "/dev/shm")  # noqa: S108 - nothing is written


def disk(path: str, free_gib: int, *, on_os_disk: bool = False) -> Disk:
    return Disk(path=path, free_bytes=free_gib * GIB, on_os_disk=on_os_disk)


def test_plans_stay_in_the_users_folder_where_it_has_room() -> None:
    own = disk("/home", 100, on_os_disk=True)
    assert choose_work([own, disk("/mnt", 900)], GIB) is own
    assert choose_work([disk("/home", 10)], GIB).path == "/home"


def test_plans_leave_a_small_os_disk_for_the_roomiest_other_one() -> None:
    disks = [disk("/home", 20, on_os_disk=True), disk("/mnt", 100), disk("/scratch", 900)]
    assert choose_work(disks, GIB).path == "/scratch"
    assert choose_work(disks[:1], GIB).path == "/home"


def test_no_room_for_plans_is_refused_with_the_way_out() -> None:
    with pytest.raises(Ai4infraError) as caught:
        choose_work([disk("/home", 1)], 5 * GIB)
    assert "--work-dir" in (caught.value.hint or "")


def held(role: str, condition: str | None = None) -> RoleAssignment:
    return RoleAssignment(
        id="/a", scope="/", role_id=role, principal_id="p", principal_type="User",
        condition=condition,
    )  # fmt: skip


def test_a_role_that_writes_lets_us_write() -> None:
    assert holds_role([held(BLOB_READER), held(BLOB_CONTRIBUTOR)], "write") is True


def test_roles_that_only_read_or_manage_do_not_let_us_write() -> None:
    assert holds_role([held(BLOB_READER), held(CONTRIBUTOR_OF_ARM)], "write") is False
    assert holds_role([held(BLOB_READER)], "read") is True
    assert holds_role([], "write") is False


def test_a_custom_role_or_a_condition_leaves_it_unknown() -> None:
    assert holds_role([held(CUSTOM)], "write") is None
    assert holds_role([held(BLOB_CONTRIBUTOR, "@Resource…")], "write") is None


@given(st.integers(0, 10**9))
def test_plans_of_more_files_need_more_room(files: int) -> None:
    assert plan_bytes(files + 1) - plan_bytes(files) == PLAN_BYTES_PER_FILE


@given(st.text())
def test_any_part_of_a_name_is_held_or_told_why_not(part: str) -> None:
    is_odd = any(unicodedata.category(each) in ("Cc", "Cs") for each in part)
    assert bool(part_problem(part)) == (is_odd or "\\" in part or part.endswith("."))


@pytest.mark.parametrize("names", [["a", "a/b"], ["a/b/c", "a"], ["a/b", "a/b/c/d"]])
def test_a_blob_that_is_a_folder_of_others_too_is_found_in_any_order(names: list[str]) -> None:
    clashes = Clashes()
    assert [clashes.add(name) for name in names] == [None, min(names, key=len)]


def test_blobs_beside_each_other_do_not_clash() -> None:
    clashes = Clashes()
    assert {clashes.add(name) for name in ("a/b", "a/c", "ab", "a-", "b/a")} == {None}


def test_a_very_long_name_is_shown_by_its_ends() -> None:
    text = Some(count=1, names=("x" * 2000 + " is longer than 1024 characters",)).text
    assert len(text) < 120
    assert "is longer than 1024 characters" in text
