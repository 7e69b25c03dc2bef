"""The commands of fixes, with what is known put in the place of their placeholders."""

from __future__ import annotations

import re
import shlex

from ai4infra.diagnosis.answer import Question

PLACEHOLDERS = {
    "ACCOUNT/CONTAINER/FOLDER": "sttrain/training-data/imagenet",
    "ACCOUNT/CONTAINER": "sttrain/training-data",
    "PATH": "/mnt/training-data",
    "SIZE": "Standard_ND96isr_H100_v5",
    "MODEL": "H100",
    "DATASET": "2TB",
    "MODULE:FUNCTION": "pipeline:decode",
}
"""What stands in commands of ``data/diagnosis.toml`` where nothing is known, with an example."""
_NAMES = "|".join(map(re.escape, PLACEHOLDERS))
# Longer names stand first; 1xSIZE has one within a word.
_ANY = re.compile(rf"(?:(?<![\w/-])|(?<=\b1x))(?:{_NAMES})(?![\w/:])")
_CONTAINER = re.compile(r"[a-z0-9]{3,24}/[a-z0-9$-]{3,63}", re.ASCII)


def filled(command: str, question: Question) -> str:
    """Return a command with paths, containers, sizes and models that are known filled in."""
    known = _known(question)
    return _ANY.sub(lambda match: known.get(match[0], match[0]), command)


def _known(question: Question) -> dict[str, str]:
    host, size = question.host, question.size
    mount = next((m for m in host.mounts if m.mount_kind == "blobfuse2"), None)
    container = mount.source if mount and mount.source else None
    if container is not None and not _CONTAINER.fullmatch(container):
        container = None
    found = {
        "PATH": shlex.quote(host.mounts[0].path) if host.mounts else None,
        "SIZE": size.size if size else host.size,
        "MODEL": size.gpu_model if size else None,
        "ACCOUNT/CONTAINER": container,
        "ACCOUNT/CONTAINER/FOLDER": container,
    }
    return {name: value for name, value in found.items() if value}
