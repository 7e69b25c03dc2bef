"""A stand-in for AzCopy that says what it is told to, and the real one's place."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

JOB = "714d21e6-1d64-984e-4ee2-38d2d29621f9"
VERSION = "azcopy version 10.32.2"


def program(folder: Path, text: str, name: str = "azcopy", version: str = VERSION) -> Path:
    """Write a program in Python that answers ``--version`` and else runs the text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport json, os, signal, sys, time\n"
        f"if sys.argv[1:] == ['--version']:\n    print({version!r})\n    sys.exit()\n"
        "def say(kind, content):\n"
        "    said = content if isinstance(content, str) else json.dumps(content)\n"
        "    line = {'MessageType': kind, 'MessageContent': said}\n"
        "    os.write(1, json.dumps(line).encode() + b'\\n')\n"
        f"JOB = {JOB!r}\n{text}",
        "utf-8",
    )
    path.chmod(0o755)
    return path


def counters(status: str = "Completed", **more: Any) -> dict[str, Any]:
    """Return the content of a ``Progress`` or ``EndOfJob``."""
    return {
        "JobID": JOB,
        "JobStatus": status,
        "CompleteJobOrdered": True,
        "TotalTransfers": "3",
        "TransfersCompleted": "3",
        "TransfersFailed": "0",
        "TransfersSkipped": "0",
        "BytesOverWire": "30",
        "TotalBytesTransferred": "30",
        "TotalBytesExpected": "30",
        **more,
    }


def saying(*pairs: tuple[str, Any]) -> str:
    """Return the text of a program that says these kinds and contents, then ends."""
    return "".join(f"say({kind!r}, {json.loads(json.dumps(what))!r})\n" for kind, what in pairs)


def real_azcopy() -> str:
    """Return the real AzCopy; the test fails where there is none."""
    found = os.environ.get("AI4INFRA_TEST_AZCOPY") or shutil.which("azcopy")
    if found is None:
        pytest.fail("These tests need AzCopy: run scripts/test, or set AI4INFRA_TEST_AZCOPY.")
    return found
