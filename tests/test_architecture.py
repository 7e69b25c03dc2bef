"""docs/architecture.md is held against the code: its tables are read from the page itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ai4infra"
PAGE = PACKAGE.parent / "docs" / "architecture.md"
READS_DATA = {"gpus", "classification", "limits", "roles", "mounts"}
PURE = {
    *READS_DATA,
    *("errors", "model", "ids", "storage_names", "sizing", "recon", "selection", "summary"),
    *("mixes", "needs", "plan", "render", "diagnosis"),
    *("lifecycle", "arm", "storage_checks", "storage_target", "storage_plan", "emit", "audit"),
    "transfer",
}
CLOCKS = {"now", "today", "utcnow", "time", "monotonic", "perf_counter"}
FILES = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
WRITING_METHODS = {"PUT", "POST", "PATCH", "DELETE"}
WRITING_OPERATION = re.compile(
    r"begin_\w+|create|create_or_update\w*|create_by_\w+|delete|delete_by_\w+|register"
)


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading: first cell to the words of the second."""
    section = PAGE.read_text("utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]*?) \|", section, re.MULTILINE)
    return {name: re.findall(r"[\w.]+", cell) for name, cell in rows}


def may_import_whom() -> dict[str, set[str]]:
    """Module to the modules that it may import; "all of them" leaves out what starts them all."""
    rows = {name: set(words) for name, words in table("Who may import whom").items()}
    everything = set(rows) - {"__main__"}
    return {
        name: everything - {name} if words == {"all", "of", "them"} else words
        for name, words in rows.items()
    }


def modules() -> dict[str, list[Path]]:
    """Every module or subpackage of the package, with its files."""
    found: dict[str, list[Path]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        top = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found.setdefault(top, []).append(file)
    return found


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def imports(file: Path) -> Iterator[str]:
    """Dotted names that a file imports anywhere, functions included."""
    here = ("ai4infra", *file.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield str(first.value)


def own_imports(file: Path, known: set[str]) -> set[str]:
    """The modules of the package that a file imports; a name of the package itself is __init__."""
    parts = [name.split(".") for name in imports(file)]
    return {
        p[1] if len(p) > 1 and p[1] in known else "__init__" for p in parts if p[0] == "ai4infra"
    }


def outside_imports(file: Path) -> set[str]:
    return {name for name in imports(file) if name.split(".")[0] != "ai4infra"}


def is_below(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def test_the_table_of_the_page_names_every_module_and_no_other() -> None:
    assert set(may_import_whom()) == set(modules())


def test_every_module_imports_only_what_the_page_allows() -> None:
    allowed = may_import_whom()
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for module, files in modules().items()
        for file in files
        for name in own_imports(file, set(allowed)) - allowed.get(module, set()) - {module}
    ]
    assert wrong == []


def test_no_module_is_allowed_to_import_in_a_circle() -> None:
    allowed = may_import_whom()
    done: set[str] = set()
    while ready := {m for m, others in allowed.items() if m not in done and others <= done}:
        done |= ready
    assert set(allowed) - done == set()


def test_a_package_from_outside_is_imported_only_where_the_page_says() -> None:
    kept = table("What only some may import")
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {name}"
        for module, files in modules().items()
        for file in files
        for name in outside_imports(file)
        if not may_import(kept, module, name)
    ]
    assert wrong == []


def may_import(kept: dict[str, list[str]], module: str, name: str) -> bool:
    """Tell whether a module may import a name: the longest row that covers it decides."""
    rows = [row for row in kept if is_below(name, row)]
    return not rows or module in kept[max(rows, key=len)]


def impure_files() -> set[str]:
    """Files of pure modules that may touch the world, as the page lists them."""
    section = PAGE.read_text("utf-8").split("## Impure files of pure modules\n", 1)[1]
    return set(re.findall(r"^\| `([\w/.]+)` \|", section, re.MULTILINE))


def test_the_impure_files_that_the_page_names_are_there() -> None:
    assert all((PACKAGE / name).is_file() for name in impure_files())


def test_the_core_reads_no_clock_and_opens_no_file() -> None:
    allowed = impure_files()
    wrong = [
        f"{file.relative_to(PACKAGE)}:{node.lineno} calls {ast.unparse(node.func)}"
        for module in sorted(PURE & set(modules()))
        for file in modules()[module]
        if str(file.relative_to(PACKAGE)) not in allowed
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and is_impure(module, node.func)
    ]
    assert wrong == []


def is_impure(module: str, called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
    # READS_DATA read the package's own data files, and nothing else.
    return name in CLOCKS or (name in FILES and module not in READS_DATA)


def writers() -> dict[str, Path]:
    """Functions of cloud/ that send a writing request, or call one that does."""
    found: dict[str, Path] = {}
    functions = [
        (node, file)
        for file in modules()["cloud"]
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef)
    ]
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {f.name: file for f, file in functions if writes(f, set(found))}
    return found


def writes(function: ast.FunctionDef, known: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and node.value in WRITING_METHODS:
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rsplit(".", 1)[-1]
            is_attribute = isinstance(node.func, ast.Attribute)
            if name in known or (is_attribute and WRITING_OPERATION.fullmatch(name)):
                return True
    return False


def test_the_functions_that_change_azure_are_recognized() -> None:
    assert "request_limit" in writers()
    assert "current_limit" not in writers()


def test_only_provision_uses_a_function_that_changes_azure() -> None:
    public = {name for name in writers() if not name.startswith("_")}
    wrong = [
        f"{file.relative_to(PACKAGE)} uses cloud.{name}"
        for module, files in modules().items()
        if module not in ("cloud", "provision")
        for file in files
        for name in public & cloud_names(file)
    ]
    assert wrong == []


def cloud_names(file: Path) -> set[str]:
    """Names that a file takes from the modules of cloud/."""
    taken = {name for name in imports(file) if name.startswith("ai4infra.cloud")}
    lent = {name.rsplit(".", 1)[-1] for name in taken}
    attributes = {
        node.attr
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in lent
    }
    return lent | attributes
