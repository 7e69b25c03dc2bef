from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.mounts.live import is_below, mount_of, parse_command, parse_mounts

MOUNTS = """\
/dev/root / ext4 rw,relatime 0 0
/dev/sdb1 /mnt ext4 rw 0 0
blobfuse2 /data/my\\040set fuse.blobfuse2 ro,nosuid,allow_other 0 0
blobfuse2 /data/old fuse rw 0 0
tmpfs /mnt tmpfs rw 0 0
broken
"""


def test_mounts_are_read_with_their_escapes() -> None:
    found = parse_mounts(MOUNTS)
    assert [mount.path for mount in found] == ["/", "/mnt", "/data/my set", "/data/old", "/mnt"]
    assert [mount.path for mount in found if mount.is_blobfuse2] == ["/data/my set", "/data/old"]
    assert [mount.read_only for mount in found[2:4]] == [True, False]


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("/mnt/nvme", ("/mnt", "tmpfs")),
        ("/mntx", ("/", "ext4")),
        ("/", ("/", "ext4")),
        ("/data/my set/a", ("/data/my set", "fuse.blobfuse2")),
    ],
)
def test_the_longest_prefix_holds_a_path_and_the_last_mount_of_two(
    path: str, holds: tuple[str, str]
) -> None:
    found = mount_of(path, parse_mounts(MOUNTS))
    assert found is not None
    assert (found.path, found.fstype) == holds


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(isinstance(mount.path, str) for mount in parse_mounts(text))


def test_a_folder_is_below_itself_but_not_below_a_longer_name() -> None:
    assert is_below("/a/b", "/a/b")
    assert is_below("/a/b/c", "/a/b")
    assert not is_below("/a/bc", "/a/b")


def test_a_command_line_is_read_in_both_forms_of_its_flags() -> None:
    words = (
        "/usr/bin/blobfuse2 mount data --config-file conf/x.yaml --read-only --tmp-path=/mnt/c"
        " --file-cache-timeout 60 -o allow_other --allow-other=false --brand-new=3"
    )
    found = parse_command(7, words.split(), "/srv")
    assert found is not None
    assert (found.pid, found.mount_path) == (7, "/srv/data")
    assert found.config_file == "/srv/conf/x.yaml"
    assert found.settings == {
        "read-only": "true",
        "file_cache.path": "/mnt/c",
        "file_cache.timeout-sec": "60",
        "libfuse-options": "allow_other",
        "allow-other": "false",
    }
    assert found.unknown_flags == ("brand-new",)


def test_a_mount_of_fstab_is_read_though_it_does_not_say_mount() -> None:
    options = "rw,--config-file=/etc/x.yaml,--file-cache-timeout=60,dev,suid"
    found = parse_command(7, ["blobfuse2", "/data/train", "-o", options])
    assert found is not None
    assert (found.mount_path, found.config_file) == ("/data/train", "/etc/x.yaml")
    assert found.settings == {"file_cache.timeout-sec": "60", "libfuse-options": "rw,dev,suid"}
    read_only = parse_command(7, ["blobfuse2", "/data", "-o", "ro,--config-file=/etc/x.yaml"])
    assert read_only is not None
    assert read_only.settings["read-only"] == "true"


def test_a_passphrase_on_the_command_line_is_not_kept() -> None:
    found = parse_command(7, ["blobfuse2", "mount", "/d", "--passphrase=hunter2hunter2"])
    assert found is not None
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "blobfuse2",
        "blobfuse2 mount",
        "blobfuse2 mount list",
        "blobfuse2 mount all /d",
        "blobfuse2 unmount /d",
        "vim mount /d",
        "blobfuse2 mount --read-only",
    ],
)
def test_what_is_no_mount_is_passed_over(words: str) -> None:
    assert parse_command(7, words.split()) is None


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_command_line_is_read_without_an_error(words: list[str]) -> None:
    found = parse_command(1, ["blobfuse2", "mount", *words])
    assert found is None or found.pid == 1
