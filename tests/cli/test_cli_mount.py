from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import support_machines as machines
import yaml
from support_blobfuse2 import StandIn, sample, stand_in

from ai4infra.cli.mount_check import context_of
from ai4infra.mounts.lint import parse

NOTICE = "sandbox: an example world, not your subscription\n"
CONFIG = """\
read-only: true
components: [libfuse, block_cache, azstorage]
block_cache:
  mem-size-mb: 64
  block-size-mb: 1
  prefetch: 11
azstorage:
  type: adls
  account-name: sttrain
  container: data
  mode: msi
"""
SECRET = "c2VjcmV0LXZhbHVlLTQyLXRoYXQtbXVzdC1ub3Qtc2hvdw"
TARGET = "sttrain/training-data"


@pytest.fixture
def nvme(tmp_path: Path) -> str:
    """A GPU VM whose NVMe is mounted, captured."""
    return str(machines.ND_H100_V5_MADE.write(tmp_path / "machine"))


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return stand_in(tmp_path / "standin", monkeypatch)


def written(folder: Path, text: str, name: str = "x.yaml") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


# --- disks


def test_disks_say_what_is_nvme_and_what_is_not(run: Any) -> None:
    shown = run("mount", "disks")
    assert (shown.code, shown.stderr) == (0, NOTICE)
    rows = [line.split("  ")[0] for line in shown.lines if line.startswith("/dev/")]
    assert rows == ["/dev/sda", "/dev/sdb", *(f"/dev/nvme{n}n1" for n in range(8))]
    assert "/mnt: the SCSI temp disk, not NVMe." in shown.lines
    assert "  sudo mkfs.xfs -L ai4infra /dev/md0" in shown.lines
    assert "blank after a stop with deallocation" in shown.stdout


def test_the_document_has_disks_places_and_the_plan(real: Any, tmp_path: Path) -> None:
    folder = machines.NC_T4_V3.write(tmp_path)
    document = real("mount", "disks", "--machine", str(folder), "-o", "json").json
    assert document["kind"] == "disks"
    assert [disk["role"] for disk in document["disks"]] == ["os disk", "temp disk", "data disk"]
    assert document["plan"]["state"] == "no"
    assert document["places"][0]["path"] == "/mnt"


def test_another_target_is_planned_for(run: Any) -> None:
    shown = run("mount", "disks", "--target", "/scratch")
    assert "  sudo mount -o noatime /dev/md0 /scratch" in shown.lines


@pytest.mark.parametrize("target", ["scratch", "/a b", "/a;b"])
def test_a_target_that_is_no_plain_path_is_refused(run: Any, target: str) -> None:
    assert run("mount", "disks", "--target", target).code == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--apply"], "needs --yes"),
        (["--apply", "--yes", "--machine", "."], "--apply and --machine do not go together"),
    ],
)
def test_disks_are_changed_with_yes_and_on_this_machine_alone(
    real: Any, words: list[str], says: str
) -> None:
    shown = real("mount", "disks", *words)
    assert (shown.code, shown.stdout) == (2, "")
    assert says in shown.stderr


def test_the_sandbox_has_no_disks_to_change(run: Any) -> None:
    shown = run("mount", "disks", "--apply", "--yes")
    assert (shown.code, shown.stdout) == (2, "")
    assert "The sandbox has no machine" in shown.stderr


def test_where_there_is_no_plan_apply_fails(
    real: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.json").write_text(machines.NC_T4_V3.lsblk, "utf-8")
    (tmp_path / "lsblk").write_text(f"#!/bin/bash\ncat {tmp_path}/out.json\n", "utf-8")
    (tmp_path / "lsblk").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    shown = real("mount", "disks", "--apply", "--yes")
    assert (shown.code, shown.stdout) == (1, "")
    assert "Nothing was done:" in shown.stderr


def test_a_folder_without_a_machine_is_refused(real: Any, tmp_path: Path) -> None:
    shown = real("mount", "disks", "--machine", str(tmp_path))
    assert shown.code == 2
    assert "holds no captured machine" in shown.stderr


def test_the_root_is_no_target(run: Any) -> None:
    shown = run("mount", "disks", "--target", "/")
    assert (shown.code, shown.stdout) == (2, "")
    assert "would hide the whole system" in shown.stderr


# --- config


def test_a_configuration_is_all_that_is_on_stdout(real: Any, nvme: str) -> None:
    shown = real("mount", "config", TARGET, "--hns", "--machine", nvme)
    assert shown.code == 0
    document = yaml.safe_load(shown.stdout)
    assert document["azstorage"]["account-name"] == "sttrain"
    assert document["file_cache"]["path"] == "/mnt/nvme/blobfuse2/sttrain/training-data"
    assert shown.stdout.startswith("# file-cache: ")


@pytest.mark.parametrize(("hns", "kind"), [("--hns", "adls"), ("--no-hns", "block")])
def test_azure_is_asked_for_the_namespace(run: Any, hns: str, kind: str) -> None:
    flat = ["--no-hns"] if hns == "--no-hns" else []
    assert run("storage", "create", "--name", "sttrain", *flat, "--yes").code == 0
    shown = run("mount", "config", TARGET, "--verbose")
    assert shown.code == 0
    assert yaml.safe_load(shown.stdout)["azstorage"]["type"] == kind
    assert "(Azure)" in shown.stderr
    assert "Assumed" not in shown.stderr


def test_without_a_sign_in_the_assumption_is_said(real: Any, nvme: str) -> None:
    shown = real("mount", "config", TARGET, "--machine", nvme, "--auth", "env")
    assert shown.code == 0
    assert yaml.safe_load(shown.stdout)["azstorage"]["type"] == "adls"
    assert "WARNING: Assumed a hierarchical namespace (type adls)" in shown.stderr


def test_an_account_that_is_not_seen_is_an_assumption_too(run: Any) -> None:
    shown = run("mount", "config", "stnobody/data")
    assert shown.code == 0
    assert "Azure does not tell about stnobody" in shown.stderr
    assert "Assumed" in shown.stderr


def test_it_is_written_for_its_owner_alone_and_passes_the_check(
    real: Any, nvme: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.yaml"
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", str(file))
    shown = real(*words)
    assert (shown.code, shown.stdout) == (0, "")
    assert f"Wrote {file}: file-cache" in shown.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert real("mount", "check", str(file), "--hns", "--machine", nvme).code == 0
    assert real(*words).code == 0


def test_another_file_is_not_replaced_unasked(real: Any, nvme: str, tmp_path: Path) -> None:
    file = Path(written(tmp_path, "mine: true\n"))
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", str(file))
    shown = real(*words)
    assert shown.code == 2
    assert "--overwrite replaces it" in shown.stderr
    assert file.read_text("utf-8") == "mine: true\n"
    assert real(*words, "--overwrite").code == 0
    assert "azstorage" in file.read_text("utf-8")


def test_a_folder_that_is_not_there_is_told(real: Any, nvme: str, tmp_path: Path) -> None:
    file = str(tmp_path / "no" / "x.yaml")
    shown = real("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", file)
    assert shown.code == 1
    assert "cannot be written: No such file or directory" in shown.stderr


def test_the_document_has_every_line_with_its_reason(real: Any, nvme: str) -> None:
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "--dataset", "2TB")
    document = real(*words, "-o", "json").json
    assert (document["mode"], document["readOnly"], document["hns"]) == ("preload", True, True)
    assert all(line["why"] for line in document["lines"])
    assert yaml.safe_load(document["text"])["components"][1] == "xload"
    query = "lines[?key=='path'].value | [0]"
    shown = real(*words, "-o", "tsv", "--query", query)
    assert shown.stdout == "'/mnt/nvme/blobfuse2/sttrain/training-data'\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mode", "preload", "--for", "checkpoints"], "A preload is read-only"),
        (["--mode", "preload", "--dataset", "90TB"], "The data does not fit"),
        (["--mode", "preload"], "the size of the data is not known"),
        (["--cache", "/var/cache"], "is on the OS disk"),
        (["--cache", "cache"], "is not an absolute path"),
        (["--identity", "me"], "neither a client id"),
        (["--mode", "fast"], "no mode called 'fast'"),
        (["--for", "fun"], "no purpose called 'fun'"),
        (["--dataset", "2 pounds"], "is not a size"),
        (["--unit"], "--unit needs -f and --at"),
        (["--unit", "--fstab"], "do not go together"),
        (["--cache", ""], "it is empty"),
        (["--mounts", "0"], "'0' is not 1 or more"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(
    real: Any, nvme: str, words: list[str], says: str
) -> None:
    shown = real("mount", "config", TARGET, "--machine", nvme, *words)
    assert (shown.code, shown.stdout) == (2, "")
    assert says in shown.stderr
    assert "Azure" not in shown.stderr


def test_nvme_that_nobody_mounted_is_told(run: Any) -> None:
    shown = run("mount", "config", TARGET, "--hns")
    assert (
        "8 local NVMe disks are not mounted: `ai4infra --sandbox mount disks` plans them."
        in shown.stderr
    )


def test_a_unit_and_an_fstab_line_name_the_file_and_the_place(
    real: Any, nvme: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", str(file))
    unit = real(*words, "--at", "/data/train", "--unit")
    assert unit.code == 0
    assert f"--config-file={file}" in unit.stdout
    assert "RequiresMountsFor=/mnt/nvme" in unit.stdout
    assert "blobfuse2-data-train.service" in unit.stderr
    document = yaml.safe_load(file.read_text("utf-8"))
    assert document["allow-other"] is True
    assert document["logging"]["file-path"].startswith("/var/log/blobfuse2/")
    fstab = real(*words, "--at", "/data/train", "--fstab")
    assert fstab.stdout.startswith("blobfuse2 /data/train fuse3 defaults,_netdev,nofail,")
    assert len(fstab.lines) == 1


def test_what_cannot_stand_in_a_unit_leaves_no_file_behind(
    real: Any, nvme: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", str(file))
    for form in ("--unit", "--fstab"):
        shown = real(*words, "--at", "/data/my train", form)
        assert (shown.code, shown.stdout) == (2, "")
    assert list(tmp_path.glob("*.yaml")) == []


def test_a_file_that_is_no_text_is_not_replaced_unasked(
    real: Any, nvme: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe")
    shown = real("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", str(file))
    assert shown.code == 2
    assert "--overwrite replaces it" in shown.stderr
    assert file.read_bytes() == b"\xff\xfe"


def test_what_has_to_be_there_before_a_mount_at_the_start_is_told(
    real: Any, nvme: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "x.yaml")
    words = ("mount", "config", TARGET, "--hns", "--machine", nvme, "-f", file, "--at", "/data")
    unit = real(*words, "--dataset", "1GB", "--unit")
    assert "/mnt/nvme has to be mounted before it, at each start" in unit.stderr
    assert "no folder above it" not in unit.stderr
    fstab = real(*words, "--dataset", "1GB", "--fstab")
    assert "no folder above it" in fstab.stderr


@pytest.mark.parametrize(("hns", "kind"), [("--hns", "dfs"), ("--no-hns", "blob")])
def test_outside_public_azure_the_endpoint_is_written(
    real: Any, nvme: str, hns: str, kind: str, tmp_path: Path
) -> None:
    words = ("mount", "config", TARGET, hns, "--machine", nvme, "--cloud", "AzureUSGovernment")
    shown = real(*words)
    endpoint = f"https://sttrain.{kind}.core.usgovcloudapi.net"
    assert yaml.safe_load(shown.stdout)["azstorage"]["endpoint"] == endpoint
    file = written(tmp_path, shown.stdout)
    assert real("mount", "check", file, hns, "--machine", nvme).code == 0


# --- check


def test_findings_are_listed_with_their_line_and_end_in_4(real: Any, tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG.replace("mem-size-mb: 64", "memory-mb: 64"))
    shown = real("mount", "check", file, "--no-host")
    assert shown.code == 4
    assert f"{file}:4" in shown.stdout
    assert "block_cache.memory-mb is no key of BlobFuse2, and is ignored." in shown.stdout
    assert shown.lines[-1] == "1 file checked: 1 error, 1 warning."


def test_a_good_file_ends_in_0(real: Any, tmp_path: Path) -> None:
    shown = real("mount", "check", written(tmp_path, CONFIG), "--no-host")
    assert (shown.code, shown.lines) == (0, ["1 file checked: nothing found."])


def test_the_machine_tells_where_a_cache_lies(real: Any, nvme: str, tmp_path: Path) -> None:
    text = CONFIG.replace("  prefetch", "  path: /srv/cache\n  disk-size-mb: 9\n  prefetch")
    file = written(tmp_path, text)
    rules = "findings[].rule"
    shown = real("mount", "check", file, "--machine", nvme, "-o", "json", "--query", rules)
    assert (shown.code, shown.json) == (4, ["cache-os-disk", "cleanup"])
    allowed = real("mount", "check", file, "--machine", nvme, "--allow-os-disk")
    assert allowed.lines[-1] == "1 file checked: 0 errors, 2 warnings."


def test_files_are_checked_together(real: Any, nvme: str, tmp_path: Path) -> None:
    text = CONFIG.replace(
        "  prefetch",
        "  path: /mnt/nvme/a\n  disk-size-mb: 9\n  cleanup-on-start: true\n  prefetch",
    )
    files = [written(tmp_path, text, f"{n}.yaml") for n in range(2)]
    shown = real("mount", "check", *files, "--machine", nvme, "-o", "jsonl")
    assert shown.code == 4
    assert '"rule":"cache-shared"' in shown.stdout


def test_the_namespace_can_be_said(real: Any, tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG)
    assert real("mount", "check", file, "--no-host", "--hns").code == 0
    assert "type is adls" in real("mount", "check", file, "--no-host", "--no-hns").stdout


def test_a_secret_is_found_and_not_shown(real: Any, tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG.replace("mode: msi", f"mode: key\n  account-key: {SECRET}"))
    for form in ("table", "json", "csv"):
        shown = real("mount", "check", file, "--no-host", "-o", form, "--debug")
        assert shown.code == 4
        assert "azstorage.account-key is a secret" in shown.stdout
        assert SECRET not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "is not YAML at line"),
        ("", "is empty"),
        ("words", "no BlobFuse2 configuration"),
        ("a: 1\n" * 2**18, "larger than 128 KiB"),
    ],
)
def test_what_is_no_configuration_is_bad_input(
    real: Any, tmp_path: Path, text: str, says: str
) -> None:
    shown = real("mount", "check", written(tmp_path, text), "--no-host")
    assert (shown.code, shown.stdout) == (2, "")
    assert says in shown.stderr


def test_a_home_in_a_path_is_filled_in_for_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = CONFIG.replace("  prefetch", "  path: ~/a\n  prefetch")
    assert context_of([parse(text)], None).where("~/a") == str(tmp_path / "a")


def test_a_file_that_is_not_there_is_not_found(real: Any, tmp_path: Path) -> None:
    shown = real("mount", "check", str(tmp_path / "none.yaml"))
    assert (shown.code, shown.stdout) == (3, "")
    assert "There is no file" in shown.stderr


@pytest.mark.parametrize("words", [[], ["x.yaml", "--mounted"]])
def test_it_checks_files_or_mounts(real: Any, words: list[str]) -> None:
    shown = real("mount", "check", *words)
    assert shown.code == 2
    assert "configurations or --mounted" in shown.stderr


def test_files_are_checked_without_loading_azure(tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG)
    code = (
        "import sys\nfrom ai4infra.cli.main import main\n"
        f"main(['mount', 'check', {file!r}], standalone_mode=False)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('azure', 'requests')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


# --- up, down, status


def test_a_mount_comes_up_shows_and_goes_down(real: Any, standin: StandIn, tmp_path: Path) -> None:
    file, at = written(tmp_path, CONFIG), tmp_path / "data" / "train"
    up = real("mount", "up", str(at), "-f", file)
    assert up.code == 0, up.stderr
    assert standin.calls[-1] == f"mount {at} --config-file={file} --wait-for-mount=60s"
    assert standin.config == CONFIG
    assert f"{at}  sttrain/data  block_cache" in up.stdout
    (row,) = real("mount", "status", "-o", "json").json["mounts"]
    assert (row["path"], row["pid"], row["configFile"]) == (str(at), 4242, file)
    assert (row["readOnly"], row["preloadPercent"]) == (True, None)
    assert real("mount", "check", "--mounted").code == 0
    down = real("mount", "down", str(at))
    assert (down.code, down.stdout) == (0, "")
    assert standin.calls[-1] == f"unmount {at}"
    assert real("mount", "status").lines == ["BlobFuse2 has nothing mounted here."]


def test_a_preload_is_followed_and_what_failed_is_told(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    cache = tmp_path / "cache" / "a"
    text = CONFIG.replace("block_cache, az", "xload, az").replace(
        "block_cache:\n  mem-size-mb: 64\n  block-size-mb: 1\n  prefetch: 11\n",
        f"xload:\n  path: {cache}\n  export-progress: true\n  cleanup-on-start: true\n",
    )
    standin.preload(sample(7, 8, failed=1))
    # This machine's disk may well be the OS disk, which the check finds.
    words = ("-f", written(tmp_path, text), "--force")
    shown = real("mount", "up", str(tmp_path / "at"), *words)
    assert shown.code == 0, shown.stderr
    assert "1 of 8 files were not preloaded" in shown.stderr
    assert "100%, 1 failed" in shown.stdout
    assert cache.is_dir()


def test_a_configuration_with_errors_is_not_mounted(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    file = written(tmp_path, CONFIG.replace("prefetch: 11", "prefetch: 5"))
    shown = real("mount", "up", str(tmp_path / "at"), "-f", file)
    assert (shown.code, shown.stdout) == (2, "")
    assert "block_cache.prefetch is less than 11" in shown.stderr
    assert "has 1 error; nothing was mounted" in shown.stderr
    assert standin.calls == ["--version"]
    assert real("mount", "up", str(tmp_path / "at"), "-f", file, "--force").code == 0


def test_a_newer_key_than_the_program_is_an_error(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    standin.set("version", "2.5.1")
    file = written(tmp_path, CONFIG.replace("  type: adls", "  type: adls\n  cap-iops: 10"))
    shown = real("mount", "up", str(tmp_path / "at"), "-f", file)
    assert shown.code == 2
    assert "azstorage.cap-iops came with 2.5.3; this is 2.5.1" in shown.stderr


def test_a_cache_below_a_variable_is_made_where_blobfuse2_looks_for_it(
    real: Any, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    text = CONFIG.replace(
        "  prefetch",
        "  path: ${SCRATCH}/a\n  disk-size-mb: 9\n  cleanup-on-start: true\n  prefetch",
    )
    shown = real("mount", "up", "at", "-f", written(tmp_path, text), "--force")
    assert shown.code == 0, shown.stderr
    assert (tmp_path / "scratch" / "a").is_dir()
    assert not (tmp_path / "${SCRATCH}").exists()


def test_what_is_mounted_already_is_told_before_anything_is_made(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    at = tmp_path / "at"
    dead = f"blobfuse2 {at} fuse.blobfuse2 rw 0 0\n"
    (standin.folder / "proc" / "mounts").write_text(dead, "utf-8")
    shown = real("mount", "up", str(at), "-f", written(tmp_path, CONFIG))
    assert (shown.code, shown.stdout) == (1, "")
    assert f"{at} is a mount of BlobFuse2 already" in shown.stderr
    assert f"ai4infra mount down {at}" in shown.stderr
    assert not at.exists()


def test_a_mount_point_that_is_a_file_is_called_a_file(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    at = written(tmp_path, "mine", "at")
    shown = real("mount", "up", at, "-f", written(tmp_path, CONFIG))
    assert (shown.code, shown.stdout) == (1, "")
    assert f"{at} is a file." in shown.stderr
    assert standin.calls == ["--version"]


def test_a_cache_in_the_mount_point_is_refused(real: Any, standin: StandIn, tmp_path: Path) -> None:
    text = CONFIG.replace(
        "  prefetch",
        f"  path: {tmp_path}/at/cache\n  disk-size-mb: 9\n  cleanup-on-start: true\n  prefetch",
    )
    shown = real("mount", "up", str(tmp_path / "at"), "-f", written(tmp_path, text), "--force")
    assert shown.code == 1
    assert "lie in one another" in shown.stderr
    assert standin.calls == ["--version"]


def test_a_mount_below_a_link_comes_up_shows_and_goes_down(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    at = str(tmp_path / "data" / "train")
    assert real("mount", "up", at, "-f", written(tmp_path, CONFIG)).code == 0
    (row,) = real("mount", "status", at, "-o", "json").json["mounts"]
    assert (row["path"], row["pid"]) == (str(tmp_path / "disk" / "train"), 4242)
    assert real("mount", "down", at).code == 0


def test_a_mount_that_is_not_there_yet_is_told(real: Any, standin: StandIn, tmp_path: Path) -> None:
    program = standin.folder / "bin" / "blobfuse2"
    program.write_text("#!/bin/bash\necho blobfuse2 version 2.5.4\n", "utf-8")
    words = ("-f", written(tmp_path, CONFIG), "--no-wait")
    shown = real("mount", "up", str(tmp_path / "at"), *words)
    assert shown.code == 0
    assert "is not in the list of mounts yet" in shown.stderr


def test_a_mount_of_an_old_release_goes_down(real: Any, standin: StandIn, tmp_path: Path) -> None:
    at = str(tmp_path / "at")
    assert real("mount", "up", at, "-f", written(tmp_path, CONFIG)).code == 0
    standin.set("version", "2.3.2")
    assert real("mount", "down", at).code == 0


def test_a_folder_that_holds_something_is_not_hidden(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    at = tmp_path / "at"
    at.mkdir()
    written(at, "mine", "file")
    shown = real("mount", "up", str(at), "-f", written(tmp_path, CONFIG))
    assert shown.code == 1
    assert "a mount would hide what is in it" in shown.stderr
    assert standin.calls == ["--version"]


def test_what_blobfuse2_says_is_the_error(real: Any, standin: StandIn, tmp_path: Path) -> None:
    standin.set("refuses", "Error: failed to authenticate credentials for azstorage\n")
    shown = real("mount", "up", str(tmp_path / "at"), "-f", written(tmp_path, CONFIG))
    assert (shown.code, shown.stdout) == (1, "")
    assert "failed to authenticate credentials for azstorage" in shown.stderr
    assert "hint:" in shown.stderr


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("RESPONSE 403: AuthorizationPermissionMismatch", "rbac assign"),
        ("Status=403 Code=AuthorizationFailure", "network rule"),
        ("config error in file_cache [temp directory not empty]", "cleanup-on-start"),
        ("mkdir: No space left on device", "disk is full"),
        ("something new", "mount check"),
    ],
)
def test_what_can_be_done_about_a_failure_is_the_hint(
    real: Any, standin: StandIn, tmp_path: Path, said: str, hint: str
) -> None:
    standin.set("refuses", f"Error: {said}\n")
    shown = real("mount", "up", str(tmp_path / "at"), "-f", written(tmp_path, CONFIG))
    assert shown.code == 1
    assert hint in shown.stderr.split("hint:")[1]


def test_a_signature_in_its_words_is_masked(real: Any, standin: StandIn, tmp_path: Path) -> None:
    standin.set("refuses", f"GET https://a.blob.core.windows.net/c?sv=1&sig={SECRET} failed\n")
    shown = real("mount", "up", str(tmp_path / "at"), "-f", written(tmp_path, CONFIG), "--debug")
    assert "sig=***" in shown.stderr
    assert SECRET not in shown.stderr


def test_an_old_or_missing_blobfuse2_is_told_first(
    real: Any, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("mount", "up", str(tmp_path / "at"), "-f", written(tmp_path, CONFIG))
    standin.set("version", "2.4.2")
    assert "it takes 2.5.0 or newer" in real(*words).stderr
    monkeypatch.setenv("PATH", "/nowhere")
    shown = real(*words)
    assert shown.code == 3
    assert "no program blobfuse2" in shown.stderr
    assert not (tmp_path / "at").exists()


def test_nothing_is_mounted_in_the_sandbox(run: Any, tmp_path: Path) -> None:
    file = written(tmp_path, CONFIG)
    for words in (("up", "/x", "-f", file), ("down", "/x"), ("status",)):
        shown = run("mount", *words)
        assert (shown.code, shown.stdout) == (2, "")


def test_what_is_not_mounted_is_not_found(real: Any, standin: StandIn, tmp_path: Path) -> None:
    down = real("mount", "down", str(tmp_path))
    assert (down.code, down.stdout) == (3, "")
    shown = real("mount", "status", str(tmp_path))
    assert shown.code == 3
    assert "no mount of BlobFuse2" in shown.stderr


def test_a_busy_mount_says_how_to_let_go(real: Any, standin: StandIn, tmp_path: Path) -> None:
    at = tmp_path / "at"
    assert real("mount", "up", str(at), "-f", written(tmp_path, CONFIG), "--no-wait").code == 0
    standin.set("busy", "")
    shown = real("mount", "down", str(at))
    assert shown.code == 1
    assert "--lazy" in shown.stderr


def test_a_mount_whose_process_is_gone_is_a_finding(
    real: Any, standin: StandIn, tmp_path: Path
) -> None:
    at = tmp_path / "at"
    assert real("mount", "up", str(at), "-f", written(tmp_path, CONFIG), "--no-wait").code == 0
    (standin.folder / "proc" / "4242" / "cmdline").unlink()
    shown = real("mount", "check", "--mounted", "-o", "json")
    assert shown.code == 4
    assert [each["rule"] for each in shown.json["findings"]] == ["no-mounter"]
    (row,) = real("mount", "status", "-o", "json").json["mounts"]
    assert (row["pid"], row["account"]) == (None, None)
