"""Installs AzCopy: out of its npm package, or out of a file that somebody downloaded."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.tools.azcopy import DOWNLOAD, Tool, check_tool, install_folder
from ai4infra.tools.run import run

PACKAGES = {"linux": "@azure-tools/azcopy-linux", "darwin": "@azure-tools/azcopy-darwin"}
VERSION = "10.32.2"
"""The one that our tests run with."""
NPM_SECONDS = 600.0
LARGEST_BYTES = 1 << 30
_NAMES = ("azcopy", "azcopy_linux_amd64", "azcopy_linux_arm64", "azcopy_darwin_amd64")
_X86 = ("x86_64", "amd64")


def install_azcopy(
    env: Mapping[str, str],
    *,
    file: Path | None = None,
    version: str = VERSION,
    folder: Path | None = None,
) -> Tool:
    """Install AzCopy and return it, once it has run; what was there before stays until then.

    ``file`` is the program, or a .tar.gz, .tgz or .zip with it in; without one it comes from its
    npm package. Raises NotFoundError without npm, UsageError for a file that holds no AzCopy.
    """
    chosen = (folder or install_folder(env)).expanduser().absolute()
    with tempfile.TemporaryDirectory(prefix="ai4infra-azcopy-") as name:
        packed = file if file is not None else _from_npm(env, version, Path(name))
        return _placed(packed, chosen, env)


def _from_npm(env: Mapping[str, str], version: str, folder: Path) -> Path:
    package = PACKAGES.get(sys.platform)
    if package is None or platform.machine().lower() not in _X86:
        raise NotFoundError(
            f"There is no npm package of AzCopy for {sys.platform} on {platform.machine()}.",
            hint=f"Download it from {DOWNLOAD} and install it with --from FILE.",
        )
    npm = shutil.which("npm", path=env.get("PATH"))
    if npm is None:
        raise NotFoundError(
            "npm is not on the path.",
            hint=f"Install Node.js, or download AzCopy from {DOWNLOAD} and use --from FILE.",
        )
    words = [npm, "pack", "--loglevel=error", "--ignore-scripts", f"{package}@{version}"]
    done = run(words, env=env, folder=folder, timeout_seconds=NPM_SECONDS)
    packed = sorted(folder.glob("*.tgz"))
    if done.code or not packed:
        said = _said(done.stderr)
        raise Ai4infraError(
            f"npm cannot fetch {package}@{version}: {said[0] if said else 'it says nothing'}.",
            hint=f"Download AzCopy from {DOWNLOAD} and use --from FILE.",
            detail="\n".join(said),
        )
    return packed[0]


def _said(errors: str) -> list[str]:
    """Return what npm says went wrong, its bare codes last."""
    lines = re.findall(r"(?m)^(?:npm (?:error|ERR!) )?(\S.*)$", errors)
    return sorted((line.rstrip(" .") for line in lines), key=lambda line: line.startswith("code "))


def _placed(packed: Path, folder: Path, env: Mapping[str, str]) -> Tool:
    target = folder / "azcopy"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".azcopy-", dir=folder)
    except OSError as error:
        raise Ai4infraError(f"Cannot install into {folder}: {error.strerror}.") from error
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, _program(packed) as program:
            shutil.copyfileobj(program, out)
        fresh.chmod(0o755)
        tool = _checked(fresh, packed, env)
        fresh.replace(target)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise UsageError(f"{packed} cannot be unpacked: {error}.") from error
    finally:
        fresh.unlink(missing_ok=True)
    return Tool(path=str(target), version=tool.version)


def _checked(fresh: Path, packed: Path, env: Mapping[str, str]) -> Tool:
    """Run the program once; what is wrong with it is told of the file that it came from."""
    try:
        return check_tool(str(fresh), env)
    except Ai4infraError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.ENOEXEC:
            here = f"{platform.system()}, {platform.machine()}"
            raise UsageError(
                f"{packed} is no program that this machine runs ({here}).",
                hint=f"Download the one for it from {DOWNLOAD}",
            ) from error
        told = str(error).replace(str(fresh), str(packed))
        raise UsageError(told, hint=error.hint) from error


@contextmanager
def _program(packed: Path) -> Iterator[IO[bytes]]:
    """Open the program in a file, or the file itself."""
    if tarfile.is_tarfile(packed):
        with tarfile.open(packed) as tar, _of_tar(tar, packed) as found:
            yield found
    elif zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as archive, _of_zip(archive, packed) as found:
            yield found
    else:
        with packed.open("rb") as found:
            yield found


def _of_tar(tar: tarfile.TarFile, packed: Path) -> IO[bytes]:
    for member in tar:
        if member.isfile() and _fits(member.name, member.size):
            found = tar.extractfile(member)
            if found is not None:
                return found
    raise _holds_none(packed)


def _of_zip(archive: zipfile.ZipFile, packed: Path) -> IO[bytes]:
    for member in archive.infolist():
        if not member.is_dir() and _fits(member.filename, member.file_size):
            return archive.open(member)
    raise _holds_none(packed)


def _fits(name: str, size: int) -> bool:
    return Path(name).name in _NAMES and size <= LARGEST_BYTES


def _holds_none(packed: Path) -> UsageError:
    return UsageError(f"{packed} holds no AzCopy.", hint=f"Its own downloads do: {DOWNLOAD}")
