"""Both ends of a copy, as people write them."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.transfer.endpoints import (
    Place,
    Secret,
    below,
    check_apart,
    check_sas,
    from_to,
    has_secret,
    is_public_host,
    parse_place,
    parse_places,
)

SIGNATURE = "qzVERYsecretSIGNATURE"
SAS = f"sv=2024-11-04&ss=b&sp=rl&se=2027-01-01&sig={SIGNATURE}%3D"
BLOB = "https://sttrain.blob.core.windows.net/"


def nowhere(path: str) -> bool:
    return False


def everywhere(path: str) -> bool:
    return True


def place(text: str) -> Place:
    return parse_place(text, nowhere)


@pytest.mark.parametrize("text", ["/data", "./data", "../data", ".", "..", "~", "~/data"])
def test_what_begins_as_a_path_is_local(text: str) -> None:
    assert place(text) == Place(kind="local", path=text)


def test_account_container_and_path_are_told_apart() -> None:
    found = place("sttrain/training-data/a/b c")
    assert (found.kind, found.account, found.container) == ("blob", "sttrain", "training-data")
    assert (found.path, found.endpoint) == ("a/b c", None)


def test_a_path_that_exists_is_local_though_it_could_be_an_account() -> None:
    assert parse_place("data/train", everywhere).is_local


def test_the_target_of_a_local_source_is_never_local() -> None:
    source, target = parse_places("data/train", "data/train", everywhere)
    assert (source.kind, target.kind) == ("local", "blob")


def test_the_target_of_a_container_is_local_where_that_folder_exists() -> None:
    _, target = parse_places(f"{BLOB}data", "data/train", everywhere)
    assert target.is_local


def test_two_local_ends_are_refused() -> None:
    with pytest.raises(UsageError, match="Both ends are local"):
        parse_places("/data", "./copy", nowhere)


def test_a_slash_at_the_end_changes_nothing() -> None:
    assert place("sttrain/data/a/") == place("sttrain/data/a")
    assert place(f"{BLOB}data/a/") == place(f"{BLOB}data/a")
    assert place("sttrain/data/") == place("sttrain/data")


def test_a_url_is_taken_apart_and_put_together_again() -> None:
    found = place(f"{BLOB}data/a%20b/%E6%97%A5")
    assert (found.account, found.container, found.path) == ("sttrain", "data", "a b/日")
    assert (found.endpoint, found.host) == (BLOB, "sttrain.blob.core.windows.net")
    assert found.url == f"{BLOB}data/a%20b/%E6%97%A5"


def test_the_data_lake_endpoint_is_the_same_data_at_the_blob_endpoint() -> None:
    found = place("https://sttrain.dfs.core.windows.net/data/a")
    assert (found.endpoint, found.was_dfs) == (BLOB, True)


def test_an_account_in_a_dns_zone_keeps_its_zone() -> None:
    found = place("https://sttrain.z01.blob.storage.azure.net/data")
    assert (found.account, found.host) == ("sttrain", "sttrain.z01.blob.storage.azure.net")


def test_on_an_address_of_this_machine_the_account_is_in_the_path() -> None:
    found = place("https://127.0.0.1:10000/sttrain/data/a")
    assert (found.account, found.container, found.path) == ("sttrain", "data", "a")
    assert (found.endpoint, found.host) == ("https://127.0.0.1:10000/sttrain/", "127.0.0.1:10000")
    assert found.url == "https://127.0.0.1:10000/sttrain/data/a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "data",
        "Sttrain/data",
        "sttrain/",
        "sttrain/Data",
        "sttrain/da",
        "sttrain/data/a//b",
        "sttrain/data/../b",
        "sttrain/data/*.jpg",
        BLOB,
        "http://sttrain.blob.core.windows.net/data",
        "https://sttrain.file.core.windows.net/share",
        "https://s3.amazonaws.com/bucket",
        "https://user:pass@sttrain.blob.core.windows.net/data",
        "https://sttrain.blob.core.windows.net:port/data",
        f"{BLOB}data?snapshot=2024",
        f"{BLOB}data#part",
        "https://127.0.0.1:10000",
        "https://127.0.0.1:10000/sttrain",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        place(text)


def test_a_sas_is_refused_unless_it_is_allowed_and_not_shown() -> None:
    found = place(f"{BLOB}data?{SAS}")
    with pytest.raises(UsageError) as caught:
        check_sas(found, allowed=False)
    assert SIGNATURE not in f"{caught.value} {caught.value.hint} {caught.value.detail}"
    check_sas(found, allowed=True)
    check_sas(place(f"{BLOB}data"), allowed=False)


def test_a_sas_shows_itself_to_nobody_but_azcopy() -> None:
    found = place(f"{BLOB}data/a?{SAS}")
    for text in (repr(found), str(found), found.shown, found.url, f"{found.sas}", repr(found.sas)):
        assert SIGNATURE not in text
    assert found.secret_url() == f"{BLOB}data/a?{SAS}"


def test_a_bad_url_with_a_sas_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        place(f"http://sttrain.blob.core.windows.net/data?{SAS}")
    assert SIGNATURE not in f"{caught.value} {caught.value.hint}"


def test_a_sas_may_go_to_this_machine_without_https() -> None:
    for host in ("127.0.0.1:10000", "localhost:10000"):
        found = place(f"http://{host}/devstoreaccount1/data/x?{SAS}")
        assert found.url == f"http://{host}/devstoreaccount1/data/x"
    for text in (
        "http://127.0.0.1:10000/devstoreaccount1/data",
        f"http://10.0.0.4:10000/devstoreaccount1/data?{SAS}",
    ):
        with pytest.raises(UsageError, match="plain https"):
            place(text)


def test_secrets_compare_by_what_they_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1


def test_a_text_with_a_sas_is_known() -> None:
    assert has_secret(f"{BLOB}data?{SAS}")
    assert not has_secret(f"{BLOB}data?comp=list")


def test_tokens_go_to_azures_own_domains_by_themselves() -> None:
    assert is_public_host("sttrain.blob.core.windows.net")
    assert is_public_host("sttrain.blob.core.chinacloudapi.cn:443")
    assert not is_public_host("127.0.0.1:10000")
    assert not is_public_host("sttrain.blob.core.windows.net.example.com")
    assert not is_public_host("core.windows.net")


def test_the_direction_has_azcopys_name() -> None:
    assert from_to(place("/a"), place("sttrain/data")) == "LocalBlob"
    assert from_to(place("sttrain/data"), place("/a")) == "BlobLocal"


def test_a_file_goes_below_its_target() -> None:
    assert below(place("sttrain/data"), "x.bin").shown == "sttrain/data/x.bin"
    assert below(place("sttrain/data/a"), "x.bin").shown == "sttrain/data/a/x.bin"
    assert below(place("/mnt/"), "x.bin").path == "/mnt/x.bin"


parts = st.text(
    st.characters(exclude_characters="/*\0", exclude_categories=["Cs", "Cc"]), min_size=1
).filter(lambda part: part not in (".", "..") and part.strip() == part)


@given(st.lists(parts, min_size=1, max_size=4))
def test_every_path_survives_being_a_url(names: list[str]) -> None:
    found = Place(kind="blob", account="sttrain", container="data", path="/".join(names))
    by_url = place(Place(**{**_fields(found), "endpoint": BLOB}).url)
    assert by_url.path == found.path


def _fields(found: Place) -> dict[str, str]:
    return {name: getattr(found, name) for name in ("kind", "account", "container", "path")}


@given(st.text())
def test_any_text_is_a_place_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert place(text).shown


def test_a_local_path_with_a_colon_and_slashes_is_no_url() -> None:
    assert place("./s3://old").is_local


def test_a_sas_without_a_url_is_refused_and_not_shown() -> None:
    for text in (f"sttrain/data/x?{SAS}", f"sttrain.blob.core.windows.net/data?{SAS}"):
        with pytest.raises(UsageError, match="has a SAS and is no URL") as caught:
            place(text)
        assert SIGNATURE not in f"{caught.value} {caught.value.hint}"


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        place("https://me:hunter2@sttrain.blob.core.windows.net/data")
    assert "hunter2" not in str(caught.value)


def test_a_local_path_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="is not UTF-8"):
        place("/data/\udcff")


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        ("sttrain/data/a", "sttrain/data/a", True),
        ("sttrain/data/a", "sttrain/data/a/b", True),
        ("sttrain/data", "sttrain/data/b", True),
        ("sttrain/data/a", "sttrain/data/ab", False),
        ("sttrain/data/a/b", "sttrain/data/a", False),
        ("sttrain/data/a", "stother/data/a", False),
        ("/a", "sttrain/data/a", False),
    ],
)
def test_nothing_is_copied_into_itself(source: str, target: str, refused: bool) -> None:
    with pytest.raises(UsageError) if refused else nullcontext():
        check_apart(place(source), place(target))
