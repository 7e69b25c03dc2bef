from __future__ import annotations

import datetime
import re

import pytest

from ai4infra.mounts.reference import CACHES, reference, version_key

KNOWN = reference()


def test_the_reference_says_which_release_it_is_of_and_when_it_was_read() -> None:
    source = KNOWN.reference
    assert source.version.startswith("2.5.")
    assert version_key(source.minimum) <= version_key(source.version)
    assert datetime.date.fromisoformat(source.released) < datetime.date.fromisoformat(source.date)
    assert source.source.startswith("https://github.com/Azure/azure-storage-fuse/blob/")
    assert source.source.endswith("setup/advancedConfig.yaml")


def test_every_key_says_what_it_means_and_choices_have_their_default_among_them() -> None:
    keys = [(s, n, key) for s, there in KNOWN.keys.items() for n, key in there.items()]
    assert all(key.meaning for _, _, key in keys)
    assert [n for _, n, key in keys if (key.type == "choice") != bool(key.choices)] == []
    wrong = [
        n for _, n, key in keys if key.choices and key.default and key.default not in key.choices
    ]
    assert wrong == []
    assert [n for _, n, key in keys if key.secret and not key.environment] == []


def test_what_is_old_is_not_also_valid_and_its_replacement_is() -> None:
    for old in KNOWN.old:
        section, _, name = old.key.rpartition(".")
        assert KNOWN.key(section, name) is None
        named = re.match(r"(\w+)\.([\w-]+)", old.instead)
        if named:
            assert KNOWN.key(named[1], named[2]) is not None, old.instead


def test_flags_set_keys_that_there_are_or_were() -> None:
    for name, flag in KNOWN.flags.items():
        if flag.key:
            section, _, key = flag.key.rpartition(".")
            assert KNOWN.key(section, key) or KNOWN.replacement(section, key), name


def test_caches_shut_one_another_out_by_their_rank() -> None:
    assert {KNOWN.components[name].rank for name in CACHES} == {3}
    assert KNOWN.components["libfuse"].rank < 3 < KNOWN.components["azstorage"].rank


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2.4.2", "2.5.0"), ("2.5.0~preview.1", "2.5.0"), ("2.5.4", "2.5.10"), ("2.5", "2.5.1")],
)
def test_releases_compare_by_number(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)
