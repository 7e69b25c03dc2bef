"""AzCopy installed out of its package, or out of a file."""

from __future__ import annotations

import io
import platform
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support_azcopy import program

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.tools.azcopy import find_azcopy
from ai4infra.tools.install import install_azcopy

on_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the package is for Linux"
)


def tarball(path: Path, name: str, content: bytes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return program(tmp_path / "made", "").read_bytes()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"AI4INFRA_TOOLS_DIR": str(tmp_path / "tools"), "PATH": str(tmp_path / "bin")}


@pytest.mark.parametrize(
    "member", ["azcopy_linux_amd64_10.32.2/azcopy", "package/dist/bin/azcopy_linux_amd64"]
)
def test_it_is_taken_out_of_an_archive_made_to_run_and_found(
    member: str, content: bytes, env: dict[str, str], tmp_path: Path
) -> None:
    packed = tarball(tmp_path / "azcopy.tar.gz", member, content)
    installed = install_azcopy(env, file=packed)
    assert (installed.path, installed.version) == (str(tmp_path / "tools" / "azcopy"), "10.32.2")
    assert find_azcopy(env) == installed


def test_a_zip_and_the_program_itself_do_as_well(
    content: bytes, env: dict[str, str], tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "azcopy.zip", "w") as archive:
        archive.writestr("folder/azcopy", content)
    (tmp_path / "plain").write_bytes(content)
    for file in (tmp_path / "azcopy.zip", tmp_path / "plain"):
        assert install_azcopy(env, file=file).version == "10.32.2"


@on_linux
def test_without_a_file_it_comes_from_its_npm_package(
    content: bytes, env: dict[str, str], tmp_path: Path
) -> None:
    packed = tarball(tmp_path / "p.tgz", "package/dist/bin/azcopy_linux_amd64", content)
    program(
        tmp_path / "bin",
        "import shutil\nassert sys.argv[1] == 'pack'\n"
        "assert sys.argv[-1] == '@azure-tools/azcopy-linux@10.32.2'\n"
        f"shutil.copy({str(packed)!r}, 'azcopy-linux-10.32.2.tgz')\n",
        name="npm",
    )
    assert install_azcopy(env).version == "10.32.2"


@on_linux
def test_npm_that_fails_or_is_missing_is_told_with_another_way(
    env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match="npm is not on the path") as caught:
        install_azcopy(env)
    assert "--from FILE" in (caught.value.hint or "")
    said = "npm error code ETARGET\\nnpm error notarget No matching version found"
    program(
        tmp_path / "bin",
        f"'--silent' in sys.argv or print('{said}', file=sys.stderr); sys.exit(1)",
        name="npm",
    )
    with pytest.raises(Ai4infraError, match=r"10\.32\.2: notarget No matching version found\.$"):
        install_azcopy(env)


def test_a_file_that_holds_no_azcopy_is_refused_and_what_was_there_stays(
    content: bytes, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(content)
    installed = install_azcopy(env, file=tmp_path / "plain")
    with pytest.raises(UsageError, match="holds no AzCopy"):
        install_azcopy(env, file=tarball(tmp_path / "x.tgz", "readme.txt", b"x"))
    (tmp_path / "text").write_text("not a program", "utf-8")
    with pytest.raises(UsageError, match=r"/text is no program that this machine runs"):
        install_azcopy(env, file=tmp_path / "text")
    program(tmp_path, "", name="old", version="azcopy version 10.20.0")
    with pytest.raises(UsageError, match=r"/old is AzCopy 10\.20\.0; .* is needed"):
        install_azcopy(env, file=tmp_path / "old")
    assert find_azcopy(env) == installed
    assert [path.name for path in (tmp_path / "tools").iterdir()] == ["azcopy"]


def test_an_archive_that_is_cut_off_is_refused(
    content: bytes, env: dict[str, str], tmp_path: Path
) -> None:
    packed = tarball(tmp_path / "azcopy.tar.gz", "azcopy", content * 50)
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(Ai4infraError):
        install_azcopy(env, file=packed)
    assert list((tmp_path / "tools").iterdir()) == []
