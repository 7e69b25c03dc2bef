from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ai4infra.cloud.cache import Cache, default_dir

KEY = ("cloud", "subscription", "region", "kind")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_stored_is_found_with_its_age(tmp_path: Path) -> None:
    now = [100.0]
    cache = Cache(tmp_path, clock=lambda: now[0])
    cache.put(KEY, {"a": 1})
    now[0] = 130
    assert cache.get(KEY, dict[str, int], 60) == {"a": 1}


def test_what_is_too_old_is_not_found(tmp_path: Path) -> None:
    now = [100.0]
    cache = Cache(tmp_path, clock=lambda: now[0])
    cache.put(KEY, 1)
    now[0] = 161
    assert cache.get(KEY, int, 60) is None


def test_what_comes_from_the_future_is_not_found(tmp_path: Path) -> None:
    Cache(tmp_path, clock=lambda: 200.0).put(KEY, 1)
    assert Cache(tmp_path, clock=lambda: 100.0).get(KEY, int, 60) is None


@pytest.mark.parametrize("number", range(4))
def test_every_part_of_the_key_counts(tmp_path: Path, number: int) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, 1)
    other = tuple("other" if index == number else part for index, part in enumerate(KEY))
    assert cache.get(other, int, 60) is None


def test_refresh_misses_and_still_stores(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, 1)
    fresh = Cache(tmp_path, refresh=True)
    assert fresh.get(KEY, int, 60) is None
    fresh.put(KEY, 2)
    assert Cache(tmp_path).get(KEY, int, 60) == 2


def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    Cache(tmp_path / "new").put(KEY, 1)
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_in_the_file_are_a_miss(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    cache = Cache(folder)
    cache.put(KEY, {"a": 1})
    (file,) = files(folder)
    file.write_bytes(body)
    assert cache.get(KEY, dict[str, int], 60) is None


def test_a_value_of_another_shape_is_a_miss(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, "text")
    assert Cache(tmp_path).get(KEY, int, 60) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "below")
    cache.put(KEY, 1)
    assert cache.get(KEY, int, 60) is None


def test_a_directory_in_the_place_of_the_file_is_no_error(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, 1)
    (file,) = files(tmp_path)
    file.unlink()
    file.mkdir()
    cache.put(KEY, 2)
    assert cache.get(KEY, int, 60) is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("part", ["../../etc", "a/b", "..", ".", "", "https://x:8443"])
def test_no_key_leaves_the_folder(tmp_path: Path, part: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put((part, part), 7)
    found = cache.get((part, part), int, 60)
    assert found is not None
    assert all((tmp_path / "cache") in file.parents for file in files(tmp_path))


def test_the_folder_is_the_given_one_or_the_users_own() -> None:
    assert default_dir({"AI4INFRA_CACHE_DIR": "/somewhere"}) == Path("/somewhere")
    assert default_dir({}).name == "ai4infra"
