from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ai4infra import render as r
from ai4infra.errors import UsageError
from ai4infra.model import Record


class Row(Record, frozen=True):
    name: str
    gpu_count: float | None = None
    zones: tuple[str, ...] = ()
    extra: dict[str, int] | None = None


COLUMNS = (
    r.Column("Name", lambda row: row.name),
    r.Column("GPUs", lambda row: r.number(row.gpu_count), right=True),
    r.Column("Zones", lambda row: ",".join(row.zones) or r.NOT_APPLICABLE, rank=2),
)
ROWS = (Row(name="a100", gpu_count=8, zones=("1", "3")), Row(name="unknown"))


def page(rows: tuple[Row, ...] = ROWS, **more: object) -> r.Page:
    document = r.document("rows", rows=rows)
    return r.Page(document, rows, Row, COLUMNS, **more)  # type: ignore[arg-type]


def text(form: r.Format, rows: tuple[Row, ...] = ROWS, query: str | None = None) -> str:
    compiled = r.compile_query(query) if query else None
    return r.render(page(rows), form, query=compiled).text


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    assert text("table").splitlines() == [
        "Name     GPUs  Zones",
        "a100        8  1,3",
        "unknown     ?  -",
    ]


def test_lines_above_and_below_stand_apart_from_the_table() -> None:
    done = r.render(page(above=["Title"], below=["One", "Two"]), "table")
    assert done.text.split("\n\n")[0] == "Title"
    assert done.text.split("\n\n")[2] == "One\nTwo"


def test_without_rows_a_table_has_no_heading() -> None:
    assert r.render(page((), below=["None."]), "table").text == "None."


def test_a_narrow_terminal_loses_the_least_important_column_and_says_which() -> None:
    done = r.render(page(), "table", screen=r.Screen(width=15))
    assert done.text.splitlines()[0] == "Name     GPUs"
    assert done.hidden == ("Zones",)


def test_a_last_column_of_words_is_broken_between_words_where_the_terminal_ends() -> None:
    columns = (
        COLUMNS[0],
        r.Column("Zones", lambda row: "one, two and then a-word-that-is-longer-than-the-room"),
    )
    shown = page()._replace(columns=columns, tone=lambda row: "good")
    lines = r.render(shown, "table", screen=r.Screen(width=33)).text.splitlines()
    assert lines == [
        "Name     Zones",
        "a100     one, two and then",
        "         a-word-that-is-longer-than-the-room",
        "unknown  one, two and then",
        "         a-word-that-is-longer-than-the-room",
    ]
    colored = r.render(shown, "table", screen=r.Screen(width=33, color=True)).text
    assert colored.count("\x1b[32m") == 4


def test_important_columns_stay_whole_however_narrow_the_terminal_is() -> None:
    done = r.render(page(), "table", screen=r.Screen(width=3))
    assert "unknown     ?" in done.text


def test_a_table_that_goes_to_no_terminal_is_whole_and_has_no_colours() -> None:
    done = r.render(page((Row(name="x" * 300),)), "table")
    assert "x" * 300 in done.text
    assert "\x1b" not in done.text
    assert done.hidden == ()


def test_colours_wrap_whole_lines_and_end_on_each() -> None:
    done = r.render(page(tone=lambda row: "dim"), "table", screen=r.Screen(color=True))
    first, second, _ = done.text.splitlines()
    assert first == "\x1b[1mName     GPUs  Zones\x1b[0m"
    assert second == "\x1b[2ma100        8  1,3\x1b[0m"


def test_wide_characters_take_two_cells() -> None:
    lines = text(
        "table", (Row(name="東京", gpu_count=1), Row(name="abcd", gpu_count=2))
    ).splitlines()
    assert lines[1] == "東京     1  -"
    assert lines[2] == "abcd     2  -"


def test_control_characters_of_a_name_never_reach_the_terminal() -> None:
    assert "\x1b" not in text("table", (Row(name="a\x1b[31mb\n"),))


def test_json_is_a_document_with_its_schema_version() -> None:
    assert json.loads(text("json")) == {
        "schemaVersion": "1.0",
        "kind": "rows",
        "rows": [
            {"name": "a100", "gpuCount": 8, "zones": ["1", "3"], "extra": None},
            {"name": "unknown", "gpuCount": None, "zones": [], "extra": None},
        ],
    }
    assert text("json").startswith('{\n  "schemaVersion"')


def test_yaml_says_the_same_as_json() -> None:
    assert yaml.safe_load(text("yaml")) == json.loads(text("json"))


def test_json_lines_are_the_rows() -> None:
    assert [json.loads(line) for line in text("jsonl").splitlines()] == json.loads(text("json"))[
        "rows"
    ]


def test_csv_has_a_heading_and_leaves_unknown_empty() -> None:
    rows = list(csv.reader(io.StringIO(text("csv"))))
    assert rows == [
        ["name", "gpuCount", "zones", "extra"],
        ["a100", "8", "1;3", ""],
        ["unknown", "", "", ""],
    ]


def test_csv_without_rows_is_its_heading() -> None:
    assert text("csv", ()) == "name,gpuCount,zones,extra"


def test_csv_quotes_what_needs_it() -> None:
    assert 'a,"b"' in next(
        csv.reader(io.StringIO(text("csv", (Row(name='a,"b"'),)).split("\n")[1]))
    )


def test_tsv_has_no_heading_and_one_line_per_row() -> None:
    assert text("tsv", (Row(name="a\tb\nc\\", gpu_count=0.5),)) == "a\\tb\\nc\\\\\t0.5\t\t"


@pytest.mark.parametrize("form", ["table", "jsonl", "tsv"])
def test_nothing_found_prints_nothing(form: r.Format) -> None:
    assert text(form, ()) == ""


def test_an_empty_document_is_still_a_document() -> None:
    assert json.loads(text("json", ()))["rows"] == []


def test_a_query_sees_the_document_in_every_format() -> None:
    query = "rows[?gpuCount].{name: name, gpus: gpuCount}"
    assert json.loads(text("json", query=query)) == [{"name": "a100", "gpus": 8}]
    assert text("jsonl", query=query) == '{"name":"a100","gpus":8}'
    assert text("csv", query=query) == "name,gpus\na100,8"
    assert text("tsv", query=query) == "a100\t8"
    assert text("yaml", query=query) == "- name: a100\n  gpus: 8"
    assert text("table", query=query) == "Name  Gpus\na100     8"


def test_a_query_for_scalars_gives_one_line_each() -> None:
    for form in ("table", "tsv", "csv"):
        assert text(form, query="rows[].name") == "a100\nunknown"
    assert text("yaml", query="kind") == "rows"


def test_a_query_for_lists_gives_numbered_columns_in_a_table() -> None:
    assert text("table", query="rows[].[name, gpuCount]").splitlines()[0] == "Column1  Column2"
    assert text("tsv", query="rows[].[name, gpuCount]") == "a100\t8\nunknown\t"


def test_a_query_that_finds_nothing_is_null_in_json_and_nothing_elsewhere() -> None:
    assert text("json", query="nothing") == "null"
    for form in ("table", "tsv", "csv"):
        assert text(form, query="nothing") == ""


@pytest.mark.parametrize("query", ["[", "rows[?", "a..b", "unknown_function(@)"])
def test_a_query_that_does_not_parse_or_run_is_a_usage_error(query: str) -> None:
    with pytest.raises(UsageError, match="--query"):
        r.compile_query(query)(r.plain(page().document))


def test_a_format_is_known_in_any_case_and_no_other() -> None:
    assert r.checked_format(" JSON ") == "json"
    with pytest.raises(UsageError, match="xml"):
        r.checked_format("xml")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "?"), (0, "0"), (1900.0, "1,900"), (0.9, "0.9"), (98.324, "98.32"), (10, "10")],
)
def test_numbers_are_shown_for_people(value: float | None, shown: str) -> None:
    assert r.number(value) == shown


@given(st.lists(st.tuples(st.text(), st.lists(st.text(max_size=5), max_size=3)), max_size=5))
def test_any_text_keeps_its_row_in_every_line_format(values: list[tuple[str, list[str]]]) -> None:
    rows = tuple(Row(name=name, zones=tuple(zones)) for name, zones in values)
    assert text("tsv", rows).count("\n") == max(0, len(rows) - 1)
    assert [row[0] for row in csv.reader(io.StringIO(text("csv", rows), newline=""))][1:] == [
        row.name.replace("\0", "\ufffd") for row in rows
    ]
    decoded = [msgspec.json.decode(line) for line in text("jsonl", rows).split("\n") if line]
    assert [row["name"] for row in decoded] == [row.name for row in rows]


def test_csv_has_no_nul_that_its_readers_refuse() -> None:
    assert text("csv", (Row(name="a\0b"),)).split("\n")[1].startswith("a\ufffdb,")


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("  ask for what is there", ["  ask for", "    what is", "    there"]),
        ("see `a b c d e f` now", ["see", "  `a b c d e f`", "  now"]),
        ("https://example.org/page", ["https://example.org/page"]),
        (r.Verbatim("a command that is long"), ["a command that is long"]),
        ("short", ["short"]),
    ],
)
def test_a_terminal_breaks_prose_between_words_and_nothing_else(
    line: str, lines: list[str]
) -> None:
    shown = page((), below=[line])
    assert r.render(shown, "table", screen=r.Screen(width=11)).text.split("\n") == lines
    assert r.render(shown, "table").text == line
