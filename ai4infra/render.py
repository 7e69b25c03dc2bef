"""Turn records into text: table, JSON, JSON lines, CSV, TSV and YAML, with a query before it.

Everything here is a value: nothing is printed, no terminal is asked. Unknown is ``?`` in a
table, null in JSON and YAML, empty in CSV and TSV; it is never a zero.
"""

from __future__ import annotations

import csv
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ai4infra.errors import UsageError
from ai4infra.model import SCHEMA_VERSION, Record

Format = Literal["table", "json", "jsonl", "csv", "tsv", "yaml"]
FORMATS: tuple[Format, ...] = ("table", "json", "jsonl", "csv", "tsv", "yaml")

UNKNOWN = "?"
NOT_APPLICABLE = "-"

Query = Callable[[Any], Any]
Tone = Literal["dim", "good", "bad"]

_GAP = "  "
_LEAST_ROOM = 24
"""Cells of a last column that is broken into lines."""
_HELD = "\x00"
"""Stands for a blank at which no line may break."""
_STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "good": "\x1b[32m", "bad": "\x1b[31m"}
_RESET = "\x1b[0m"


class Column(NamedTuple):
    """One column of a table for people."""

    title: str
    cell: Callable[[Any], str]
    """Text of a row's cell; unknown and not applicable are the two constants above."""
    right: bool = False
    rank: int = 0
    """On a narrow terminal the highest rank goes first; rank 0 always stays."""


class Screen(NamedTuple):
    """Where the text goes. ``width`` is None where there is no terminal: then nothing is left out.

    ``width`` counts character cells.
    """

    width: int | None = None
    color: bool = False


class Verbatim(str):
    """A line that is never wrapped: a command, to be copied, or one of a table."""

    __slots__ = ()


class Page(NamedTuple):
    """A whole answer: the document for machines, and its rows and lines for people."""

    document: Mapping[str, Any]
    """What JSON and YAML print and what a query sees."""
    rows: Sequence[Record]
    row_type: type[Record]
    columns: Sequence[Column]
    above: Sequence[str] = ()
    below: Sequence[str] = ()
    """Lines around the table; on a terminal they are wrapped, unless they are ``Verbatim``."""
    tone: Callable[[Any], Tone | None] = lambda row: None


class Rendered(NamedTuple):
    """The text, without a line break at its end, and the columns that had no room in it."""

    text: str
    hidden: tuple[str, ...] = ()


def document(kind: str, **parts: Any) -> dict[str, Any]:
    """Return the document for machines: version and kind, then the parts, named in camelCase."""
    named = {_camel(name): part for name, part in parts.items()}
    return {"schemaVersion": SCHEMA_VERSION, "kind": kind, **named}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def plain(value: Any) -> Any:
    """Return records as what JSON knows: dictionaries with camelCase names, lists, scalars."""
    # to_builtins would keep tuples, which a query does not take for lists
    return msgspec.json.decode(msgspec.json.encode(value))


def compile_query(text: str) -> Query:
    """Compile a JMESPath expression; raises UsageError when it isn't one.

    What the query itself raises when it runs (a function on the wrong type) is a UsageError too.
    """
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        raise _bad_query(text, error) from error

    def run(value: Any) -> Any:
        try:
            return compiled.search(value)
        except JMESPathError as error:
            raise _bad_query(text, error) from error

    return run


def _bad_query(text: str, error: Exception) -> UsageError:
    why = " ".join(str(error).split("\n")[0].split())
    return UsageError(
        f"--query {text!r} does not work: {why.rstrip('.: ')}.",
        hint="--query takes a JMESPath expression: https://jmespath.org",
    )


def render(
    page: Page, form: Format, *, query: Query | None = None, screen: Screen | None = None
) -> Rendered:
    """Return the page in one of the formats, or what the query finds in its document."""
    screen = screen or Screen()
    if query is not None:
        found = query(plain(page.document))
        return Rendered(_RESULT_WRITERS[form](found, screen))
    if form == "table":
        return _page_table(page, screen)
    if form in ("json", "yaml"):
        return Rendered(_RESULT_WRITERS[form](page.document, screen))
    if form == "jsonl":
        return Rendered(_jsonl(page.rows))
    names = [f.encode_name for f in msgspec.structs.fields(page.row_type)]
    rows = [list(row.values()) for row in plain(page.rows)]
    return Rendered(_csv([names, *rows]) if form == "csv" else _tsv(rows))


# --- formats for machines -------------------------------------------------------------------


def _json(value: Any) -> str:
    # msgspec formats megabytes in milliseconds, where json.dumps(indent=2) takes seconds
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _jsonl(values: Iterable[Any]) -> str:
    return "\n".join(msgspec.json.encode(value).decode() for value in values)


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    lines = _Lines()
    # csv quotes a carriage return only where it is part of the line's end
    csv.writer(lines, lineterminator="\r\n").writerows(map(_csv_cell, row) for row in rows)
    return "\n".join(line.removesuffix("\r\n") for line in lines)


def _csv_cell(value: Any) -> str:
    """Return one value without NUL, which readers of CSV refuse."""
    return _flat(value).replace("\0", "\ufffd")


class _Lines(list[str]):
    """A file to csv, which writes a row at a time."""

    write = list.append


def _tsv(rows: Iterable[Sequence[Any]]) -> str:
    return "\n".join("\t".join(_escaped(_flat(value)) for value in row) for row in rows)


def _escaped(text: str) -> str:
    """Keep a value on its line and in its column: backslash, tab and line breaks are escaped."""
    text = text.replace("\\", "\\\\").replace("\t", "\\t")
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _flat(value: Any) -> str:
    """Return one value as a cell for machines: unknown is empty, lists are joined by ``;``."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(v, (dict, list)) for v in value):
        return ";".join(map(_flat, value))
    return msgspec.json.encode(value).decode()


# --- what a query finds ---------------------------------------------------------------------


def _as_rows(found: Any) -> tuple[list[str] | None, list[list[Any]]]:
    """Return the titles (None where the values have no names) and rows of a query's result."""
    items = found if isinstance(found, list) else [] if found is None else [found]
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        return names, [[item.get(name) for name in names] for item in items]
    return None, [item if isinstance(item, list) else [item] for item in items]


def _result_jsonl(found: Any) -> str:
    return _jsonl(found if isinstance(found, list) else [found])


def _result_csv(found: Any) -> str:
    names, rows = _as_rows(found)
    return _csv([names, *rows] if names else rows)


def _result_table(found: Any, screen: Screen) -> str:
    names, rows = _as_rows(found)
    if not rows:
        return ""
    if names is None and all(len(row) == 1 for row in rows):
        return "\n".join(_shown(row[0]) for row in rows)
    count = max(map(len, rows))
    titles = [f"{name[:1].upper()}{name[1:]}" for name in names or []]
    titles = titles or [f"Column{i + 1}" for i in range(count)]
    padded = [[*row, *[None] * (count - len(row))] for row in rows]
    right = [_numeric(column) for column in zip(*padded, strict=True)]
    return _table(titles, right, [list(map(_shown, row)) for row in padded], screen)


def _numeric(values: Iterable[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(v, (int, float)) for v in known)


def _shown(value: Any) -> str:
    """Return one value as a cell for people."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return number(value)
    return _flat(value) if value != [] else NOT_APPLICABLE


_RESULT_WRITERS: dict[Format, Callable[[Any, Screen], str]] = {
    "table": _result_table,
    "json": lambda found, _: _json(found),
    "jsonl": lambda found, _: _result_jsonl(found),
    "csv": lambda found, _: _result_csv(found),
    "tsv": lambda found, _: _tsv(_as_rows(found)[1]),
    "yaml": lambda found, _: _yaml(found),
}


# --- tables ---------------------------------------------------------------------------------


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for people: grouped thousands, at most so many decimals, ``?`` for None."""
    if value is None:
        return UNKNOWN
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def yes_no(value: bool | None) -> str:
    """Return ``yes`` or ``no`` for people, ``?`` for None."""
    return UNKNOWN if value is None else "yes" if value else "no"


def _page_table(page: Page, screen: Screen) -> Rendered:
    cells = [[column.cell(row) for row in page.rows] for column in page.columns]
    shown = _fitting(page.columns, cells, screen.width)
    hidden = tuple(c.title for i, c in enumerate(page.columns) if i not in shown)
    titles = [page.columns[i].title for i in shown]
    right = [page.columns[i].right for i in shown]
    rows = [[cells[i][r] for i in shown] for r in range(len(page.rows))]
    tones = [page.tone(row) for row in page.rows]
    if screen.width is not None and not right[-1]:
        rows, tones = _folded(titles, rows, tones, screen.width)
    table = _table(titles, right, rows, screen, tones)
    above, below = _lines(page.above, screen.width), _lines(page.below, screen.width)
    blocks = [above, table if page.rows else "", below]
    return Rendered("\n\n".join(filter(None, blocks)), hidden)


def table_lines(columns: Sequence[Column], rows: Sequence[Any]) -> list[str]:
    """Return the lines of a small table for use among other lines: whole and without colours."""
    cells = [[column.cell(row) for column in columns] for row in rows]
    titles, right = [c.title for c in columns], [c.right for c in columns]
    return [Verbatim(line) for line in _table(titles, right, cells, Screen()).split("\n")]


def _lines(lines: Iterable[str], width: int | None) -> str:
    return "\n".join(part for line in lines for part in _wrapped(line, width))


def _wrapped(line: str, width: int | None) -> list[str]:
    """Break a line between words where the terminal would break it anywhere; not in backticks."""
    clean = _clean(line)
    if width is None or isinstance(line, Verbatim) or _width(clean) <= width:
        return [clean]
    indent = clean[: len(clean) - len(clean.lstrip())]
    parts = textwrap.wrap(
        re.sub(r"`[^`]*`", lambda command: command[0].replace(" ", _HELD), clean),
        width,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_HELD, " ") for part in parts]


def _fitting(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None
) -> list[int]:
    """Return the columns that fit the width, leaving out those of the highest rank first."""
    shown = list(range(len(columns)))
    widths = [
        max(map(_width, (c.title, *column))) for c, column in zip(columns, cells, strict=True)
    ]
    while width is not None and sum(widths[i] + len(_GAP) for i in shown) - len(_GAP) > width:
        last = max(shown, key=lambda i: (columns[i].rank, i))
        if columns[last].rank == 0:
            break
        shown.remove(last)
    return shown


def _folded(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    tones: Sequence[Tone | None],
    width: int,
) -> tuple[list[list[str]], list[Tone | None]]:
    """Break the last column between words where the table is too wide, each line a row."""
    others = [max(map(_width, column)) for column in zip(titles, *rows, strict=True)][:-1]
    room = max(width - sum(others) - len(_GAP) * len(others), _LEAST_ROOM)
    folded: list[list[str]] = []
    toned: list[Tone | None] = []
    for row, tone in zip(rows, tones, strict=True):
        first, *rest = _broken(row[-1], room)
        folded += [[*row[:-1], first], *([*[""] * len(others), line] for line in rest)]
        toned += [tone] * (1 + len(rest))
    return folded, toned


def _broken(cell: str, room: int) -> list[str]:
    if _width(cell) <= room:
        return [cell]
    return textwrap.wrap(cell, room, break_long_words=False, break_on_hyphens=False) or [""]


def _table(
    titles: Sequence[str],
    right: Sequence[bool],
    rows: Sequence[Sequence[str]],
    screen: Screen,
    tones: Sequence[Tone | None] = (),
) -> str:
    """Return aligned lines: titles, then the rows; a last column on the left has no padding."""
    clean = [[_clean(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(titles, *clean, strict=True)]
    lines = [_line(row, widths, right) for row in (titles, *clean)]
    if not screen.color:
        return "\n".join(lines)
    styles = ["bold", *(tones or [None] * len(rows))]
    return "\n".join(_styled(line, style) for line, style in zip(lines, styles, strict=True))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        " " * (width - _width(cell)) + cell if to_right else cell + " " * (width - _width(cell))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return _GAP.join(padded).rstrip()


def _styled(text: str, style: str | None) -> str:
    return f"{_STYLES[style]}{text}{_RESET}" if style else text


def _clean(text: str) -> str:
    """Drop what would move the cursor or change colours: a name may come from anywhere."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def checked_format(text: str) -> Format:
    """Return the format of this name, in any case; raises UsageError for another name."""
    for form in FORMATS:
        if form == text.strip().casefold():
            return form
    raise UsageError(
        f"There is no output format called {text!r}.", hint=f"Formats: {', '.join(FORMATS)}."
    )
