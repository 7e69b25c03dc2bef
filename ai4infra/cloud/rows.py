"""Decodes the rows of a list so that one odd row costs only itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from ai4infra.cloud.translate import incomplete

T = TypeVar("T")


def decode_rows(
    page: msgspec.Raw,
    type: type[T],  # noqa: A002 - as msgspec calls it
    what: str,
) -> tuple[list[T], int]:
    """Return the rows of a page that fit the type, and the number of those that don't.

    ``what`` says what is tried. Raises ServiceError when the page is not a list.
    """
    try:
        return msgspec.json.decode(page, type=list[type]), 0  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return _one_by_one(page, type, what)


def whole_rows(
    pages: Iterable[msgspec.Raw],
    type: type[T],  # noqa: A002 - as msgspec calls it
    what: str,
) -> list[T]:
    """Return the rows of all pages, where one that is left out would be taken for not there.

    Raises ServiceError for a row that doesn't fit the type, and for a page that is not a list.
    """
    found: list[T] = []
    for page in pages:
        rows, odd = decode_rows(page, type, what)
        if odd:
            raise incomplete(what, f"{odd} rows could not be read")
        found += rows
    return found


def _one_by_one(page: msgspec.Raw, type_: type[T], what: str) -> tuple[list[T], int]:
    try:
        rows = msgspec.json.decode(page, type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise incomplete(what, str(error)) from error
    found = [row for row, odd in (field(raw, type_) for raw in rows) if row is not None]
    return found, len(rows) - len(found)


def is_null(raw: msgspec.Raw) -> bool:
    """Tell whether a raw field is absent or null."""
    return bytes(memoryview(raw)[:4]) in (b"", b"null")


def field(raw: msgspec.Raw, type: type[T]) -> tuple[T | None, bool]:  # noqa: A002 - as msgspec calls it
    """Return the value of one field, and whether there was one that doesn't fit the type."""
    if is_null(raw):
        return None, False
    try:
        return msgspec.json.decode(raw, type=type), False
    except msgspec.ValidationError:
        return None, True
