"""docs/sandbox.md: every test that it names exists, and its tables are complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ai4infra.sandbox.catalogue import example
from ai4infra.sandbox.faults import KINDS
from ai4infra.sandbox.services import SERVICES

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "sandbox.md").read_text("utf-8")


def names_in(file: str) -> set[str]:
    path = HERE / file
    tree = ast.parse(path.read_text("utf-8")) if path.exists() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", PAGE)

    assert len(named) > 40
    assert [f"{file}::{test}" for file, test in named if test not in names_in(file)] == []


def test_the_page_names_every_fault() -> None:
    section = PAGE.split("## Faults", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)

    assert {kind for cell in cells for kind in re.findall(r"`([\w-]+)`", cell)} == set(KINDS)


def test_no_route_is_registered_twice() -> None:
    routes = [
        (route.side, route.method, route.template.lower())
        for service in SERVICES
        for route in service.routes
    ]

    assert sorted(routes) == sorted(set(routes))


def test_no_account_can_have_a_name_that_begins_a_path_of_the_sandbox() -> None:
    first = {route.template.split("/")[1] for service in SERVICES for route in service.routes}
    words = {word for word in first if "{" not in word and re.fullmatch("[a-z0-9]{3,24}", word)}

    assert words
    assert words <= set(example().storage["taken"])
