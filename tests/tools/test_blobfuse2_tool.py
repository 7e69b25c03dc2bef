from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_blobfuse2 import StandIn, sample, stand_in

from ai4infra.errors import Ai4infraError, ConflictError, NotFoundError, UsageError
from ai4infra.tools import blobfuse2
from ai4infra.tools.blobfuse2 import Progress


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return stand_in(tmp_path / "standin", monkeypatch)


def progress(done: int, total: int, failed: int = 0) -> Progress:
    return msgspec.convert(sample(done, total, failed), Progress)


def test_a_recent_blobfuse2_is_found_with_its_version(standin: StandIn) -> None:
    program = blobfuse2.installed()
    assert program.path == str(standin.folder / "bin" / "blobfuse2")
    assert program.version == "2.5.4"


@pytest.mark.parametrize("version", ["2.4.2", "2.5.0~preview.1", "1.4.5"])
def test_an_old_blobfuse2_is_refused(standin: StandIn, version: str) -> None:
    standin.set("version", version)
    with pytest.raises(Ai4infraError, match=r"it takes 2\.5\.0 or newer") as caught:
        blobfuse2.installed()
    assert version in caught.value.message
    assert caught.value.hint


def test_a_program_that_does_not_say_its_version_is_refused(standin: StandIn) -> None:
    standin.set("version", "who knows")
    with pytest.raises(Ai4infraError, match="does not say its version"):
        blobfuse2.installed()


def test_without_blobfuse2_it_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotFoundError, match="no program blobfuse2") as caught:
        blobfuse2.installed()
    assert "packages.microsoft.com" in str(caught.value.hint)


def test_it_is_started_with_the_configuration_and_nothing_secret(
    standin: StandIn, tmp_path: Path
) -> None:
    config = tmp_path / "x.yaml"
    config.write_text("read-only: true\n", "utf-8")
    program = blobfuse2.installed()
    blobfuse2.mount(program, tmp_path / "at", config)
    assert standin.calls[-1] == f"mount {tmp_path}/at --config-file={config} --wait-for-mount=60s"
    assert standin.config == "read-only: true\n"
    assert [each.path for each in blobfuse2.mounts()] == [str(tmp_path / "at")]
    (running,) = blobfuse2.running()
    assert (running.pid, running.config_file) == (4242, str(config))


def test_what_blobfuse2_says_about_a_failure_is_told(standin: StandIn, tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    standin.set("refuses", "Error: failed to initialize new pipeline [account name not provided]\n")
    with pytest.raises(Ai4infraError, match="account name not provided"):
        blobfuse2.mount(blobfuse2.installed(), tmp_path / "at", config)


def test_a_place_that_is_mounted_is_not_mounted_again(standin: StandIn, tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    program = blobfuse2.installed()
    blobfuse2.mount(program, tmp_path / "at", config)
    with pytest.raises(ConflictError, match="is a mount of BlobFuse2 already"):
        blobfuse2.mount(program, tmp_path / "at", config)


def test_unmounting_takes_it_away(standin: StandIn, tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    program = blobfuse2.installed()
    blobfuse2.mount(program, tmp_path / "at", config)
    standin.set("busy", "")
    with pytest.raises(ConflictError, match="device or resource busy") as caught:
        blobfuse2.unmount(program, tmp_path / "at")
    assert "--lazy" in str(caught.value.hint)
    (standin.folder / "busy").unlink()
    blobfuse2.unmount(program, tmp_path / "at", lazy=True)
    assert standin.calls[-1] == f"unmount {tmp_path}/at --lazy"
    assert blobfuse2.mounts() == ()


def test_what_is_not_mounted_cannot_be_unmounted(standin: StandIn, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is no mount of BlobFuse2"):
        blobfuse2.unmount(blobfuse2.installed(), tmp_path)


# --- waiting


def test_a_mount_is_waited_for_until_it_can_be_read(tmp_path: Path) -> None:
    answers = [False, False, True]
    slept: list[float] = []
    blobfuse2.wait_readable(tmp_path, sleep=slept.append, is_mounted=lambda path: answers.pop(0))
    assert (answers, slept) == ([], [1.0, 1.0])


def test_a_mount_that_never_comes_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        Ai4infraError, match="cannot be read after 3 seconds: it is not in the list"
    ):
        blobfuse2.wait_readable(
            tmp_path, seconds=3, sleep=lambda s: None, is_mounted=lambda path: False
        )


def test_a_mount_that_refuses_is_told_with_why(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="No such file or directory") as caught:
        blobfuse2.wait_readable(
            tmp_path / "gone", seconds=1, sleep=lambda s: None, is_mounted=lambda path: True
        )
    assert "data role" in str(caught.value.hint)


# --- preload


def test_progress_is_the_last_sample() -> None:
    text = json.dumps([sample(0, 0), sample(3, 10), sample(5, 12, failed=1)])
    found = blobfuse2.last_sample(text)
    assert found is not None
    assert (found.total, found.done, found.failed, found.pending) == (12, 5, 1, 6)
    assert found.percent == 50
    assert found.mbits_s == 8000.5
    assert not found.complete


def test_a_file_that_is_being_written_gives_the_last_whole_sample() -> None:
    text = json.dumps([sample(1, 10), sample(2, 10)], indent=1)
    for cut in range(text.index("}") + 1, len(text)):
        found = blobfuse2.last_sample(text[:cut])
        assert found is not None
        assert found.done in (1, 2)


@pytest.mark.parametrize("text", ["", "[\n", "[]", "{}", "[1]", "nonsense}", "[{\n"])
def test_a_file_without_a_sample_gives_none(text: str) -> None:
    assert blobfuse2.last_sample(text) is None


@given(st.text())
def test_any_file_is_read_without_an_error(text: str) -> None:
    assert blobfuse2.last_sample(text) is None or text


def followed(samples: list[Progress | None]) -> tuple[Progress | None, int]:
    """Return the end of a preload that tells these samples, the last for ever, and the waits."""
    waits: list[float] = []
    rest = list(samples)
    last = blobfuse2.follow_preload(
        lambda: rest.pop(0) if len(rest) > 1 else rest[0],
        lambda each: None,
        alive=lambda: True,
        sleep=waits.append,
    )
    return last, len(waits)


def test_a_preload_is_followed_until_it_stays_complete_for_longer_than_a_sample_takes() -> None:
    # The listing goes on while all that is listed is done: 3 of 3 is not the end of it.
    early = [progress(3, 3)] * 4
    last, waits = followed([None, progress(1, 3), *early, progress(3, 9), progress(9, 9)])
    assert last == progress(9, 9)
    assert waits == 12


@pytest.mark.parametrize("told", [None, progress(0, 0)])
def test_a_preload_that_tells_nothing_is_not_followed_for_ever(told: Progress | None) -> None:
    last, waits = followed([told])
    assert (last, waits) == (told, 60)


def test_a_preload_whose_mounter_ended_is_told() -> None:
    with pytest.raises(Ai4infraError, match="ended before the preload did"):
        blobfuse2.follow_preload(
            lambda: progress(1, 3), lambda each: None, alive=lambda: False, sleep=lambda s: None
        )


def test_the_progress_of_a_mounter_is_in_its_working_folder(
    standin: StandIn, tmp_path: Path
) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    blobfuse2.mount(blobfuse2.installed(), tmp_path / "at", config)
    (mounter,) = blobfuse2.running()
    folder = blobfuse2.working_folder(mounter)
    assert folder == standin.folder / ".blobfuse2"
    assert blobfuse2.progress_of(mounter.pid, folder) is None
    standin.preload(sample(2, 4))
    found = blobfuse2.progress_of(mounter.pid, folder)
    assert found is not None
    assert found.done == 2
    assert blobfuse2.working_folder(mounter, "/var/lib/b") == Path("/var/lib/b")


def test_a_configuration_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no file"):
        blobfuse2.config_text(tmp_path / "none.yaml")
    with pytest.raises(Ai4infraError, match="Is a directory"):
        blobfuse2.config_text(tmp_path)


@pytest.mark.parametrize(
    ("raw", "says"),
    [(b"\x00\xff\xfe", "it is no text"), (b"a" * 2**18, "larger than 128 KiB")],
)
def test_what_is_no_configuration_at_all_is_bad_input(
    raw: bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / "x.yaml").write_bytes(raw)
    with pytest.raises(UsageError, match=says):
        blobfuse2.config_text(tmp_path / "x.yaml")


def test_a_byte_order_mark_is_no_part_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbfaccountName a\n")
    assert blobfuse2.config_text(tmp_path / "x.yaml") == "accountName a\n"


def test_paths_are_filled_in_as_blobfuse2_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/mnt/nvme")
    monkeypatch.delenv("NOBODY", raising=False)
    for path, told in (
        ("~/cache", "/home/me/cache"),
        ("$SCRATCH/a", "/mnt/nvme/a"),
        ("${SCRATCH}a", "/mnt/nvmea"),
        ("/x$NOBODY/y", "/x/y"),
        ("cache", str(Path.cwd() / "cache")),
    ):
        assert blobfuse2.expanded(path) == told


def test_a_mount_below_a_link_is_where_the_kernel_has_it(standin: StandIn, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    assert blobfuse2.place_of(tmp_path / "data" / "train") == tmp_path / "disk" / "train"
    assert blobfuse2.place_of(tmp_path / "data") == tmp_path / "disk"
    (standin.folder / "proc" / "7").mkdir()
    words = f"blobfuse2\0mount\0{tmp_path}/data/train\0"
    (standin.folder / "proc" / "7" / "cmdline").write_text(words, "utf-8")
    (running,) = blobfuse2.running()
    assert running.mount_path == str(tmp_path / "disk" / "train")


def test_an_unmount_waits_for_what_is_still_uploaded(standin: StandIn, tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    program = blobfuse2.installed()
    blobfuse2.mount(program, tmp_path / "at", config)
    line = (standin.folder / "proc" / "4242" / "cmdline").read_bytes()
    other = standin.folder / "proc" / "4243"
    other.mkdir()
    (other / "cmdline").write_bytes(line)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            (other / "cmdline").unlink()

    blobfuse2.unmount(program, tmp_path / "at", sleep=sleep)
    assert len(waits) == 3


def test_a_mounter_that_does_not_end_is_told(standin: StandIn, tmp_path: Path) -> None:
    config = tmp_path / "x.yaml"
    config.touch()
    program = blobfuse2.installed()
    blobfuse2.mount(program, tmp_path / "at", config)
    other = standin.folder / "proc" / "4243"
    other.mkdir()
    (other / "cmdline").write_bytes((standin.folder / "proc/4242/cmdline").read_bytes())
    with pytest.raises(Ai4infraError, match="process 4243 still uploads"):
        blobfuse2.unmount(program, tmp_path / "at", sleep=lambda s: None)


def test_a_mount_of_an_old_release_can_be_taken_away(standin: StandIn, tmp_path: Path) -> None:
    standin.set("version", "2.3.2")
    assert blobfuse2.installed(any_release=True).version == "2.3.2"


def test_a_mount_that_hangs_says_how_to_see_what_became_of_it(
    standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = blobfuse2.installed()
    (standin.folder / "bin" / "blobfuse2").write_text("#!/bin/bash\nexec tail -f /dev/null\n")
    monkeypatch.setattr(blobfuse2, "MOUNT_SECONDS", 0.0)
    with pytest.raises(Ai4infraError, match="did not come to an end") as caught:
        blobfuse2.mount(program, tmp_path / "at", tmp_path / "x.yaml")
    assert "mount status" in str(caught.value.hint)
