from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ai4infra.diagnosis import behind as b
from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.live import paths
from ai4infra.live.probe import choose
from ai4infra.mounts.live import parse_mounts

if TYPE_CHECKING:
    from machine_tree import Tree


def test_links_are_followed_to_what_holds_the_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert paths.resolve(str(tmp_path / "link")) == str((tmp_path / "data").resolve())


def test_a_path_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        paths.resolve(str(tmp_path / "nothing"))


def test_this_machine_says_what_stands_behind_a_path(tmp_path: Path) -> None:
    path = paths.resolve(str(tmp_path))
    found = b.behind(path, paths.look(path))
    assert found.mount_path in ("/", *(str(parent) for parent in tmp_path.parents))
    assert len(found.causes) == 3


def test_a_file_system_that_is_not_there_has_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "STAT_SECONDS", 600.0)
    assert paths.size_mib(str(tmp_path / "nothing")) is None
    assert paths.size_mib(str(tmp_path)) is not None


def test_the_head_of_a_capture_has_limits_where_the_size_is_known(tree: Tree) -> None:
    tree.interface("eth0")
    tree.interface("enP1", master="eth0")
    here = b.Surroundings(
        devices=(),
        mounts=parse_mounts("blobfuse2 /mnt/training fuse rw 0 0\n"),
        links={},
        sizes_mib={},
        configs={},
        size="Standard_ND96isr_H100_v5",
        data_disk_skus={},
    )
    host = paths.host_facts(here, tree.kernel(), "/mnt/training")
    assert [(i.interface, i.ceiling_bytes_s, i.parent) for i in host.interfaces] == [
        ("eth0", 1e10, None),
        ("enP1", None, "eth0"),
    ]
    assert (host.mounts[0].mount_kind, host.mounts[0].interface) == ("blobfuse2", "eth0")


def test_a_question_that_hangs_is_left_behind() -> None:
    never = threading.Event()
    assert paths.answered(never.wait, 0.01) is None
    never.set()


def test_an_error_of_a_question_is_raised_here() -> None:
    def forbidden() -> str:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(PermissionError):
        paths.answered(forbidden, 10.0)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that this user may not enter, whoever it is."""
    folder = tmp_path / "closed"
    (folder / "set").mkdir(parents=True)
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    folder.chmod(0o700)


def test_a_folder_that_may_not_be_entered_is_not_called_missing(closed: Path) -> None:
    with pytest.raises(Ai4infraError, match="Permission denied") as told:
        paths.resolve(str(closed / "set"))
    assert not isinstance(told.value, NotFoundError)


def test_a_folder_that_may_not_be_listed_is_not_called_empty(closed: Path) -> None:
    with pytest.raises(Ai4infraError, match="Permission denied") as told:
        choose(str(closed), max_bytes=1000)
    assert not isinstance(told.value, NotFoundError)


@pytest.mark.parametrize("path", ["", " "])
def test_a_variable_that_is_not_set_is_not_the_current_folder(path: str) -> None:
    with pytest.raises(UsageError):
        paths.resolve(path)
