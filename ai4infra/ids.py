"""Names and ids of Azure: parse, check, compare, suggest. Case and blanks never matter."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterable

from ai4infra.errors import UsageError

_STANDARD = "standard_"
_SHORTEST_START = 4


def several(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names that were given; a single one is one name, not its letters."""
    return (names,) if isinstance(names, str) else tuple(names)


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
    """Tell whether a size matches: exactly, unless the pattern holds ``*``.

    A pattern may be written with or without the ``Standard_`` prefix (``ND*``, ``Standard*``).
    """
    wanted, given = size_key(pattern), size_key(name)
    if "*" not in wanted:
        return wanted == given
    parts = wanted.split("*")
    return _parts_match(parts, given) or _parts_match(parts, _STANDARD + given)


def _parts_match(parts: list[str], text: str) -> bool:
    """Tell whether the text starts and ends with the outer parts, the others between in order."""
    first, *middle, last = parts
    start, end = len(first), len(text) - len(last)
    if start > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID in its usual dashed form."""
    try:
        return str(uuid.UUID(text)) == text.casefold()
    except ValueError:
        return False


def close_names(wanted: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return up to ``limit`` of the known names that look like the wanted one, best first.

    Case, blanks and a ``Standard_`` prefix make no difference. Of names that look alike, those
    that begin with the wanted one come first: it may be a name that was not typed to its end.
    """
    by_key = {_shape(name): name for name in known}
    key = _shape(wanted)
    longer = sorted((k for k in by_key if _begins(k, key)), key=len)
    close = difflib.get_close_matches(key, by_key, n=limit, cutoff=0.6)
    return [by_key[name] for name in dict.fromkeys([*longer, *close])][:limit]


def _begins(name: str, start: str) -> bool:
    return len(start) >= _SHORTEST_START and name.startswith(start)


def _shape(name: str) -> str:
    return size_key(re.sub(r"\s+", "", name))


def unknown_name(what: str, wanted: str, known: Iterable[str], *, listing: str) -> UsageError:
    """Build the error for a name that is not known, with close names as the hint.

    ``listing`` is the hint where nothing comes close: how to see the known names.
    """
    close = close_names(wanted, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else listing
    return UsageError(f"There is no {what} called {wanted!r}.", hint=hint)
