"""Names and ids of Azure: parse, check, compare, suggest. Case and blanks never matter."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterable

from ai4infra.errors import UsageError

_STANDARD = "standard_"


def region_key(name: str) -> str:
    """Return the canonical spelling of a region name: ``East US 2`` and ``EastUS2`` are eastus2."""
    return re.sub(r"\s+", "", name).casefold()


def quota_key(name: str) -> str:
    """Return the key on which quota families compare: case and blanks dropped, nothing else."""
    return re.sub(r"\s+", "", name).casefold()


def size_key(name: str) -> str:
    """Return the key on which size names compare: no case, no ``Standard_`` prefix."""
    return name.strip().casefold().removeprefix(_STANDARD)


def size_matches(pattern: str, name: str) -> bool:
    """Tell whether a size matches: exactly, unless the pattern holds ``*``."""
    wanted, given = size_key(pattern), size_key(name)
    if "*" not in wanted:
        return wanted == given
    expression = ".*".join(re.escape(part) for part in wanted.split("*"))
    return re.fullmatch(expression, given) is not None


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID in its usual dashed form."""
    try:
        return str(uuid.UUID(text)) == text.casefold()
    except ValueError:
        return False


def close_names(wanted: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return up to ``limit`` of the known names that look like the wanted one, best first."""
    by_key = {re.sub(r"\s+", "", name).casefold(): name for name in known}
    key = re.sub(r"\s+", "", wanted).casefold()
    close = difflib.get_close_matches(key, by_key, n=limit, cutoff=0.6)
    return [by_key[name] for name in close]


def unknown_name(what: str, wanted: str, known: Iterable[str], *, listing: str) -> UsageError:
    """Build the error for a name that is not known, with close names as the hint.

    ``listing`` is the hint where nothing comes close: how to see the known names.
    """
    close = close_names(wanted, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else listing
    return UsageError(f"There is no {what} called {wanted!r}.", hint=hint)
