"""Both sides held against each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ai4infra.transfer.verify import Entry, compare, verification_sentence

SOURCE = {"a": Entry(1, "m1"), "b/c": Entry(2, "m2")}


def test_sides_that_are_the_same_pass_and_say_what_was_compared() -> None:
    found = compare(SOURCE, dict(SOURCE), from_to="BlobBlob")
    assert found.passed
    assert (found.source_files, found.target_files, found.md5_compared) == (2, 2, 2)
    assert (found.source_bytes, found.target_bytes) == (3, 3)
    assert found.checked == (
        "name and size of 2 files, in listings of both sides",
        "MD5 of 2 files, as both sides store it",
    )
    assert verification_sentence(found) == "All 2 files of the source are on the target."


def test_one_file_is_told_as_one() -> None:
    one = {"a": Entry(1)}
    found = compare(one, one, from_to="LocalBlob")
    assert found.checked == ("name and size of 1 file, in listings of both sides",)
    assert verification_sentence(found) == "The file of the source is on the target."


def test_a_missing_file_is_named() -> None:
    found = compare(SOURCE, {"a": SOURCE["a"]}, from_to="BlobBlob")
    assert not found.passed
    assert found.missing.names == ("b/c",)
    assert verification_sentence(found) == "Of 2 files, 1 missing: 'b/c'."


def test_another_size_and_another_md5_are_named() -> None:
    found = compare(SOURCE, {"a": Entry(9, "m1"), "b/c": Entry(2, "xx")}, from_to="BlobBlob")
    assert (found.other_size.names, found.other_md5.names) == (("a",), ("b/c",))
    assert not found.passed


def test_what_only_the_target_has_is_counted_and_fails_nothing() -> None:
    found = compare(SOURCE, {**SOURCE, "z": Entry(1)}, from_to="BlobBlob")
    assert (found.passed, found.extra) == (True, 1)


def test_local_files_have_no_md5_and_the_receipt_says_so() -> None:
    local = {name: Entry(entry.size_bytes) for name, entry in SOURCE.items()}
    found = compare(local, SOURCE, from_to="LocalBlob")
    assert (found.passed, found.md5_compared) == (True, 0)
    assert "content of 2 files: local files have no stored MD5" in found.not_checked[0]


def test_an_upload_without_md5_is_told() -> None:
    found = compare({}, {}, from_to="LocalBlob", put_md5=False)
    assert any("--no-put-md5" in line for line in found.not_checked)


def test_a_size_that_a_listing_does_not_tell_is_not_called_checked() -> None:
    found = compare({"a": Entry(None)}, {"a": Entry(1)}, from_to="BlobBlob")
    assert found.passed
    assert "size of 1 file," in found.not_checked[0]


listings = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Entry, st.integers(0, 3) | st.none(), st.sampled_from(["x", "y"]) | st.none()),
)


@given(listings, listings)
def test_it_passes_exactly_when_every_file_is_there_and_nothing_known_differs(
    source: dict[str, Entry], target: dict[str, Entry]
) -> None:
    found = compare(source, target, from_to="BlobBlob")
    same = all(
        name in target
        and all(a is None or b is None or a == b for a, b in zip(entry, target[name], strict=True))
        for name, entry in source.items()
    )
    assert found.passed == same
