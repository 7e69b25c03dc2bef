"""The scripts around the package: what they need, say and refuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bench_payload
import pages
import pytest

ROOT = Path(__file__).parents[1]
MACHINE = dict(os.environ)
"""As it was before the fixtures: an installation may need its proxy and its index."""
VENV = ROOT / "scripts" / "helpers" / "venv.sh"
PAGE = """\
# A page

```console
$ seq 1 9
1
…
9
$ false
$ echo $?
1

$ echo a \\
  b
a b
```

```python
print(6 * 7)
```

```text
42
```

<!-- not run: needs Azure, and an hour -->
```console
$ exit 99
this is never printed
```
"""


def shell(script: str, *, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", f"set -euo pipefail; source {VENV}; {script}"],
        env={"PATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n", "utf-8")
    (folder / name).chmod(0o755)


def sandbox(tmp_path: Path) -> pages.Sandbox:
    return pages.Sandbox(str(tmp_path))


def test_a_machine_without_python_is_told_how_to_get_it(tmp_path: Path) -> None:
    done = shell('find_python "${pythons[@]}"', path=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs Python 3.10 or newer" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_a_python_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "python3.13", "exit 127")
    program(tmp_path, "python3", "exit 1")
    done = shell("find_python python3.13 python3", path=str(tmp_path))
    assert done.returncode == 1
    assert "looked for: python3.13 python3" in done.stderr


def test_a_python_without_its_venv_module_is_told_which_package_has_it(tmp_path: Path) -> None:
    program(tmp_path, "python3", f'[[ $2 != *venv* ]] || exit 1; exec {sys.executable} "$@"')
    done = shell("find_python python3", path=str(tmp_path))
    assert done.returncode == 1
    assert f"apt-get install python3.{sys.version_info[1]}-venv" in done.stderr


def test_what_is_installed_is_stale_once_its_list_has_changed(tmp_path: Path) -> None:
    wanted, venv = tmp_path / "pyproject.toml", tmp_path / "venv"
    wanted.write_text("one", "utf-8")
    program(venv, "python", "")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(venv / "python")
    path = os.environ["PATH"]
    stamp = f"venv_identity {venv} >{venv}/identity; fingerprint {wanted} -e . >{venv}/stamp"
    look = f"is_installed {venv} stamp {wanted}"
    assert shell(f"{stamp}; {look} -e .", path=path).returncode == 0
    assert shell(f"{look} -e . --group dev", path=path).returncode == 1
    wanted.write_text("two", "utf-8")
    assert shell(f"{look} -e .", path=path).returncode == 1


def test_a_failed_installation_shows_why_and_leaves_no_stamp(tmp_path: Path) -> None:
    program(tmp_path, "python", "echo no such index; exit 3")
    (tmp_path / "bin").symlink_to(tmp_path)
    done = shell(f"pip_install {tmp_path} nothing; echo installed", path=os.environ["PATH"])
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such index" in done.stderr
    assert "pip could not install nothing" in done.stderr


@pytest.mark.slow
def test_a_fresh_checkout_sets_itself_up_once_and_runs_from_anywhere(tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "tests")
    shutil.copytree(ROOT, checkout, ignore=ignore)
    link = tmp_path / "ai4infra"
    link.symlink_to(checkout / "scripts" / "ai4infra")
    first, second = (
        subprocess.run(
            [link, "--version"],
            cwd="/",
            env=MACHINE,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        for _ in range(2)
    )
    assert first.stdout == second.stdout == f"ai4infra {version()}\n"
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""


def version() -> str:
    line = next(x for x in (ROOT / "pyproject.toml").read_text().split("\n") if "version =" in x)
    return line.split('"')[1]


def test_a_page_whose_examples_hold_stays_as_it_is(tmp_path: Path) -> None:
    assert pages.refreshed(PAGE, sandbox(tmp_path)) == PAGE


def test_an_output_that_has_changed_is_replaced_and_no_other(tmp_path: Path) -> None:
    stale = PAGE.replace("\n42\n", "\n41\n").replace("\na b\n", "\na\nb\n")
    assert pages.refreshed(stale, sandbox(tmp_path)) == PAGE


def test_a_line_of_three_dots_stands_for_lines_and_not_for_others() -> None:
    assert pages.agrees(("1", "…", "9"), ("1", "9"))
    assert pages.agrees(("…",), ())
    assert not pages.agrees(("1", "…", "9"), ("1", "2"))
    assert not pages.agrees(("a.c",), ("abc",))


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The first *heading*\n", "utf-8")
    links = "[a](page.md#the-first-heading) [b](#gone) [c](none.md) [d](https://example.com/x)"
    assert pages.broken_links(page, links) == ["#gone", "none.md"]


def test_the_benchmark_serves_records_of_real_size() -> None:
    listed = json.loads(b"[" + bench_payload.regional_list("somewhere", ("Standard_NC6",)) + b"]")
    assert len(listed) == bench_payload.SIZES_PER_REGION
    assert {len(each["capabilities"]) for each in listed} == {25}
    assert sum(each["name"] == "Standard_NC6" for each in listed) == 1
