from __future__ import annotations

import itertools
import re
from typing import Any

import msgspec
import pytest
import support_machines as machines
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support_machines import MACHINES

from ai4infra.errors import UsageError
from ai4infra.mounts.config import (
    MIN_PREFETCH,
    Config,
    Wanted,
    configure,
    parse_target,
    quoted,
)
from ai4infra.mounts.host import Host
from ai4infra.mounts.lint import Context, lint, lint_all, parse

IDENTITY = "2f1a8e4c-7b30-4d55-9c1e-0d6a4b8f3e21"
RESOURCE = (
    "/subscriptions/a1410000-0000-4000-8000-000000000001/resourceGroups/rg/providers"
    "/Microsoft.ManagedIdentity/userAssignedIdentities/id-train"
)
TB, GB = 10**12, 10**9
MADE = machines.ND_H100_V5_MADE.host()


def made(host: Host = MADE, **changes: Any) -> Config:
    wanted = Wanted(account="sttrain", container="data", hns=True, identity=IDENTITY)
    return configure(msgspec.structs.replace(wanted, **changes), host)


def read(config: Config) -> Any:
    return yaml.safe_load(config.text())


# --- text


def test_every_line_of_the_file_says_why() -> None:
    for mode in ("file-cache", "block-cache", "preload"):
        lines = made(mode=mode, partial=True).text().splitlines()
        for before, line in itertools.pairwise(lines):
            if line and not line.lstrip().startswith("#"):
                assert "#" in line or re.match(r" *# \S", before), line
        assert all(len(line) < 120 for line in lines)


def test_the_file_is_what_was_decided() -> None:
    config = made()
    document = read(config)
    flat = {
        f"{line.section}.{line.key}".lstrip("."): yaml.safe_load(line.value)
        for line in config.lines
    }
    for name, value in flat.items():
        section, _, key = name.rpartition(".")
        assert (document[section] if section else document)[key] == value


def test_names_that_yaml_would_read_as_something_else_stay_names() -> None:
    config = made(account="123456", container="1e5", subdirectory="no/yes: #1 'x'")
    storage = read(config)["azstorage"]
    assert storage["account-name"] == "123456"
    assert storage["container"] == "1e5"
    assert storage["subdirectory"] == "no/yes: #1 'x'"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cn"])))
def test_a_quoted_text_is_read_back_as_it_was(text: str) -> None:
    assert yaml.safe_load(quoted(text)) == text


# --- where and how large


@pytest.mark.parametrize(
    ("name", "path", "mount"),
    [
        ("ND H100 v5, made", "/mnt/nvme/blobfuse2/sttrain/data", "/mnt/nvme"),
        ("ND H100 v5", "/mnt/resource/blobfuse2/sttrain/data", "/mnt/resource"),
        ("ND A100 v4", "/mnt/blobfuse2/sttrain/data", "/mnt"),
        ("NC T4 v3", "/mnt/blobfuse2/sttrain/data", "/mnt"),
    ],
)
def test_the_cache_goes_to_nvme_else_to_the_temp_disk(name: str, path: str, mount: str) -> None:
    config = made(MACHINES[name].host())
    assert (config.mode, config.cache_path, config.cache_mount) == ("file-cache", path, mount)
    assert read(config)["file_cache"]["path"] == path


@pytest.mark.parametrize("name", ["laptop", "container"])
def test_without_a_disk_for_it_blocks_are_cached_in_memory(name: str) -> None:
    config = made(MACHINES[name].host())
    assert (config.mode, config.cache_path) == ("block-cache", None)
    assert "path" not in read(config)["block_cache"]


def test_a_cache_on_the_os_disk_has_to_be_allowed() -> None:
    host = machines.LAPTOP.host()
    with pytest.raises(UsageError, match="is on the OS disk"):
        made(host, cache="/var/cache")
    config = made(host, cache="/var/cache", allow_os_disk=True)
    assert config.cache_path == "/var/cache/sttrain/data"
    assert config.cache_mount is None
    assert any("OS disk" in note for note in config.notes)


def test_a_folder_of_nvme_that_is_not_mounted_is_the_os_disk() -> None:
    with pytest.raises(UsageError, match="/mnt/nvme is on the OS disk"):
        made(machines.ND_H100_V5.host(), cache="/mnt/nvme")


def test_the_cache_is_bounded_and_shared_by_the_mounts() -> None:
    size, free = machines.ND_H100_V5_MADE.sizes["/mnt/nvme"]
    alone = read(made())["file_cache"]["max-size-mb"]
    assert alone == size * 80 // 100
    assert alone < free
    assert read(made(mounts=3))["file_cache"]["max-size-mb"] == alone // 3


def test_what_others_keep_on_the_disk_is_left_alone() -> None:
    captured = machines.NC_T4_V3._replace(sizes={"/": (1, 1), "/mnt": (354_000, 100_000)})
    limit = read(made(captured.host()))["file_cache"]["max-size-mb"]
    assert limit == 100_000 - 354_000 * 5 // 100


def test_a_folder_has_a_cache_of_its_own() -> None:
    paths = {made(subdirectory=folder).cache_path for folder in (None, "2026", "2026/a b")}
    assert len(paths) == 3
    assert "/mnt/nvme/blobfuse2/sttrain/data--2026" in paths


# --- which mode


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({}, "file-cache"),
        ({"dataset_bytes": 2 * TB}, "preload"),
        ({"dataset_bytes": 40 * TB}, "file-cache"),
        ({"dataset_bytes": 40 * TB, "largest_file_bytes": 30 * TB}, "block-cache"),
        ({"purpose": "inference"}, "block-cache"),
        ({"purpose": "inference", "dataset_bytes": 200 * GB}, "preload"),
        ({"purpose": "preprocessing", "dataset_bytes": 200 * GB}, "block-cache"),
        ({"purpose": "checkpoints", "dataset_bytes": 200 * GB}, "block-cache"),
        ({"mode": "block-cache", "dataset_bytes": 2 * TB}, "block-cache"),
    ],
)
def test_the_mode_follows_from_purpose_and_size(changes: dict[str, Any], mode: str) -> None:
    config = made(**changes)
    assert config.mode == mode
    assert config.reason


def test_only_what_writes_is_mounted_for_writing() -> None:
    purposes = ("training", "inference", "preprocessing", "checkpoints")
    assert [made(purpose=p).read_only for p in purposes] == [True, True, False, False]
    assert "read-only" not in read(made(purpose="checkpoints"))
    assert read(made())["read-only"] is True


@pytest.mark.parametrize("purpose", ["checkpoints", "preprocessing"])
def test_a_preload_is_refused_for_what_writes(purpose: str) -> None:
    with pytest.raises(UsageError, match="A preload is read-only"):
        made(purpose=purpose, mode="preload", partial=True)


def test_a_preload_of_more_than_there_is_room_for_is_refused() -> None:
    with pytest.raises(UsageError, match="The data does not fit") as caught:
        made(mode="preload", dataset_bytes=40 * TB)
    assert "--partial" in str(caught.value.hint)
    assert made(mode="preload", dataset_bytes=40 * TB, partial=True).mode == "preload"


def test_a_preload_has_to_know_how_much_it_is() -> None:
    with pytest.raises(UsageError, match="the size of the data is not known"):
        made(mode="preload")


def test_a_preload_writes_nothing_that_would_be_ignored() -> None:
    document = read(made(dataset_bytes=TB))
    assert document["xload"] == {
        "path": "/mnt/nvme/blobfuse2/sttrain/data",
        "export-progress": True,
        "validate-md5": True,
        "cleanup-on-start": True,
    }
    assert "file_cache" not in document
    assert document["read-only"] is True


@pytest.mark.parametrize("mode", ["file-cache", "preload"])
def test_a_mode_with_files_needs_a_disk_for_them(mode: str) -> None:
    with pytest.raises(UsageError, match="this machine has none mounted"):
        made(machines.LAPTOP.host(), mode=mode, partial=True)


def test_a_file_larger_than_the_cache_is_refused() -> None:
    with pytest.raises(UsageError, match="The largest file does not fit"):
        made(mode="file-cache", largest_file_bytes=30 * TB)


def test_a_full_disk_is_refused() -> None:
    full = machines.NC_T4_V3._replace(sizes={"/": (1, 1), "/mnt": (354_000, 12_000)}).host()
    with pytest.raises(UsageError, match="/mnt has no room for a cache: 0 MiB"):
        made(full, mode="file-cache")
    assert made(full).mode == "block-cache"


# --- memory


def test_memory_is_divided_by_the_mounts_and_holds_what_is_read_ahead() -> None:
    pools = []
    for mounts in (1, 4, 40):
        cache = read(made(machines.NC_A100_V4.host(), mode="block-cache", mounts=mounts))
        cache = cache["block_cache"]
        assert cache["prefetch"] >= MIN_PREFETCH
        assert cache["mem-size-mb"] >= cache["block-size-mb"] * cache["prefetch"]
        pools.append(cache["mem-size-mb"])
    share = machines.NC_A100_V4.host().available_mib * 40 // 100
    assert pools == [64 * 1024, share // 4, share // 40]


def test_no_memory_is_refused() -> None:
    tiny = machines.LAPTOP._replace(memory_mib=20).host()
    with pytest.raises(UsageError, match="no memory for a block cache"):
        made(tiny)


# --- the account


@pytest.mark.parametrize(("hns", "kind", "virtual"), [(True, "adls", None), (False, "block", True)])
def test_the_type_is_the_namespaces(hns: bool, kind: str, virtual: bool | None) -> None:
    storage = read(made(hns=hns))["azstorage"]
    assert storage["type"] == kind
    assert storage.get("virtual-directory") is virtual
    assert "endpoint" not in storage


def test_another_cloud_has_its_endpoint_said() -> None:
    url = "https://sttrain.dfs.core.usgovcloudapi.net/"
    assert read(made(endpoint=url))["azstorage"]["endpoint"] == url


@pytest.mark.parametrize(("identity", "key"), [(IDENTITY, "appid"), (RESOURCE, "resid")])
def test_one_id_names_the_identity(identity: str, key: str) -> None:
    storage = read(made(identity=identity))["azstorage"]
    assert {name: storage.get(name) for name in ("appid", "resid", "objid")} == {
        "appid": None,
        "resid": None,
        "objid": None,
        key: identity,
    }
    assert storage["mode"] == "msi"
    assert not {"account-key", "sas"} & set(storage)


@pytest.mark.parametrize("identity", ["id-train", "/subscriptions/x", "a b", "00000000"])
def test_what_names_no_identity_is_refused(identity: str) -> None:
    with pytest.raises(UsageError, match="neither a client id nor the resource id"):
        made(identity=identity)


def test_without_an_identity_the_only_one_is_meant_and_that_is_said() -> None:
    config = made(identity=None)
    assert not {"appid", "resid"} & set(read(config)["azstorage"])
    assert any("single identity" in note for note in config.notes)


def test_where_others_write_little_is_remembered() -> None:
    document = read(made(purpose="preprocessing", shared_write=True))
    assert document["attr_cache"]["timeout-sec"] == 1
    assert document["libfuse"]["negative-entry-expiration-sec"] == 1
    assert read(made())["attr_cache"]["timeout-sec"] == 3600


# --- targets


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sttrain/data", ("sttrain", "data", None)),
        ("sttrain/data/", ("sttrain", "data", None)),
        ("sttrain/data/2026/a b/", ("sttrain", "data", "2026/a b")),
        ("sttrain/$web", ("sttrain", "$web", None)),
    ],
)
def test_a_target_is_an_account_a_container_and_perhaps_a_folder(text: str, parts: Any) -> None:
    assert parse_target(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", "sttrain", "sttrain/", "/data", "St/data", "sttrain/a--b", "sttrain/x/../y", "sttrain/D"],
)
def test_anything_else_is_no_target(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


def test_a_name_that_azure_would_refuse_is_told_with_one_close_to_it() -> None:
    with pytest.raises(UsageError) as caught:
        parse_target("sttrain/Training_Data")
    assert "training-data" in (caught.value.hint or "")


# --- what we write passes our own check


HOSTS = st.sampled_from(list(MACHINES.values()))
SIZES = st.none() | st.integers(1, 100 * TB)
ANY = st.fixed_dictionaries(
    {
        "hns": st.booleans(),
        "mode": st.sampled_from(["auto", "file-cache", "block-cache", "preload"]),
        "purpose": st.sampled_from(["training", "preprocessing", "inference", "checkpoints"]),
        "cache": st.sampled_from([None, "/mnt/nvme", "/mnt", "/mnt/resource/c", "/data/c"]),
        "identity": st.sampled_from([None, IDENTITY, RESOURCE]),
        "subdirectory": st.none() | st.text("abc '#:/-_.é", min_size=1, max_size=8),
        "dataset_bytes": SIZES,
        "largest_file_bytes": SIZES,
        "mounts": st.integers(1, 20),
        "partial": st.booleans(),
        "shared_write": st.booleans(),
        "allow_other": st.booleans(),
    }
)


@given(HOSTS, ANY, st.integers(256, 4 * 2**20), st.integers(1, 416))
def test_what_is_written_passes_the_check_on_its_machine(
    captured: machines.Captured, changes: dict[str, Any], memory_mib: int, cpus: int
) -> None:
    host = captured._replace(memory_mib=memory_mib, cpus=cpus).host()
    try:
        config = made(host, **changes)
    except UsageError:
        return
    document = parse(config.text())
    context = Context(host=host, hns=changes["hns"], version="2.5.0")
    assert lint(document, context) == ()
    assert document.cache_path == config.cache_path


def test_two_mounts_of_one_machine_pass_it_together() -> None:
    configs = [made(container=name, mounts=2) for name in ("train", "valid")]
    documents = [parse(config.text(), f"{n}.yaml") for n, config in enumerate(configs)]
    assert lint_all(documents, Context(host=MADE, hns=True)) == ()


@pytest.mark.parametrize("folder", ["2026", "a/b", "a-b", "é", "x" * 300])
def test_folders_of_one_container_never_share_a_cache_with_it_or_with_one_another(
    folder: str,
) -> None:
    others = [None, "2026-", "a b", "a/b/c", "e", "x" * 299]
    mine = made(subdirectory=folder)
    for other in others:
        theirs = made(subdirectory=other)
        documents = [parse(mine.text(), "1.yaml"), parse(theirs.text(), "2.yaml")]
        assert lint_all(documents, Context(host=MADE)) == ()
    assert mine.cache_path is not None
    assert mine.cache_path.isascii()
    assert max(map(len, mine.cache_path.split("/"))) < 200


@pytest.mark.parametrize("tail", ["", "/", "/providers", "/userAssignedIdentities/"])
def test_an_identity_that_the_check_refuses_is_refused_here_too(tail: str) -> None:
    resource = RESOURCE.rpartition("/userAssignedIdentities")[0] + tail
    with pytest.raises(UsageError, match="neither a client id nor the resource id"):
        made(identity=resource)


def test_a_cache_that_a_block_cache_has_no_use_for_is_told() -> None:
    config = made(mode="block-cache", purpose="inference", cache="/mnt/nvme")
    assert config.cache_path is None
    assert any("--cache is not used" in note for note in config.notes)


def test_a_cache_is_looked_for_where_its_path_really_leads() -> None:
    with pytest.raises(UsageError, match=r"/mnt/nvme/\.\./\.\./var is on the OS disk"):
        made(cache="/mnt/nvme/../../var")
