"""A machine in a folder, and folders of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from machine_tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine with nothing in it."""
    return Tree(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder of files of these sizes."""

    def make(*sizes: int) -> Path:
        folder = tmp_path / "data"
        for at, size in enumerate(sizes):
            file = folder / f"part{at % 3}" / f"{at}.bin"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(size))
        return folder

    return make
