from __future__ import annotations

import configparser
from typing import Any

import pytest

from ai4infra.errors import UsageError
from ai4infra.mounts.units import fstab_line, unit, unit_name

ASKED: dict[str, Any] = {
    "mount_path": "/data/train",
    "config_file": "/etc/blobfuse2/train.yaml",
    "cache_path": "/mnt/nvme/blobfuse2/a/b",
    "cache_mount": "/mnt/nvme",
    "title": "sttrain/data",
}


def read(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # as its documentation says
    parser.read_string(text)
    return parser


def test_a_unit_waits_for_the_network_and_for_the_disk_of_the_cache() -> None:
    found = read(unit(**ASKED))
    assert found["Unit"]["After"] == "network-online.target"
    assert found["Unit"]["Wants"] == "network-online.target"
    assert found["Unit"]["RequiresMountsFor"] == "/mnt/nvme"
    assert found["Unit"]["AssertPathIsMountPoint"] == "/mnt/nvme"
    assert found["Service"]["ExecStart"].split()[:4] == [
        "/usr/bin/blobfuse2",
        "mount",
        "/data/train",
        "--config-file=/etc/blobfuse2/train.yaml",
    ]
    assert found["Service"]["ExecStartPre"].endswith("/data/train /mnt/nvme/blobfuse2/a/b")
    assert found["Service"]["ExecStop"] == "/usr/bin/blobfuse2 unmount /data/train"
    assert found["Service"]["Restart"] == "on-failure"


def test_without_a_cache_on_disk_there_is_no_disk_to_wait_for() -> None:
    found = read(unit(**{**ASKED, "cache_mount": None, "cache_path": None}))
    assert "RequiresMountsFor" not in found["Unit"]
    assert found["Service"]["ExecStartPre"] == "/bin/mkdir -p /data/train"


def test_percent_signs_are_no_specifiers() -> None:
    assert "/data/50%%" in unit(**{**ASKED, "mount_path": "/data/50%"})


def test_an_fstab_line_has_six_fields_and_no_blank_in_its_options() -> None:
    line = fstab_line(mount_path="/data/train", config_file="/etc/x.yaml", cache_mount="/mnt/nvme")
    fields = line.split()
    assert len(fields) == 6
    assert fields[:3] == ["blobfuse2", "/data/train", "fuse3"]
    assert fields[3].split(",") == [
        "defaults",
        "_netdev",
        "nofail",
        "--config-file=/etc/x.yaml",
        "x-systemd.requires-mounts-for=/mnt/nvme",
    ]
    assert fields[4:] == ["0", "0"]


@pytest.mark.parametrize("path", ["data", "/my data", "/a\nb", "/a'b", '/a"b', "/a;b", "/a$b"])
def test_paths_that_neither_can_hold_are_refused(path: str) -> None:
    with pytest.raises(UsageError):
        unit(**{**ASKED, "mount_path": path})
    with pytest.raises(UsageError):
        fstab_line(mount_path="/d", config_file=path, cache_mount=None)


def test_a_comma_would_part_the_options() -> None:
    with pytest.raises(UsageError, match="comma"):
        fstab_line(mount_path="/d", config_file="/a,b.yaml", cache_mount=None)


@pytest.mark.parametrize(
    ("path", "name"),
    [("/data/train", "blobfuse2-data-train.service"), ("/", "blobfuse2-root.service")],
)
def test_a_unit_is_named_after_its_mount(path: str, name: str) -> None:
    assert unit_name(path) == name
