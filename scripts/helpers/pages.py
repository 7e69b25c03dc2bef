"""Hold the pages' examples against what the commands print, or write it into the pages.

Run in the sandbox, each page with a fresh world: every ``$`` command of a ```` ```console ````
block, and every ```` ```python ```` block whose output is the ```` ```text ```` block after it.
A line ``…`` of its own stands for any lines. A block after ``<!-- not run: needs REASON -->``,
where REASON begins with ``root`` or ``Azure``, is left out. Relative links have to lead somewhere.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANY_LINES = "…"
FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: needs (root|Azure)\b.*-->$")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page: its language, its lines, and where they stand (from 0)."""

    language: str
    lines: tuple[str, ...]
    start: int
    run: bool


@dataclass(frozen=True, kw_only=True)
class Example:
    """A command of a block, and the lines that the page says it prints."""

    command: str
    source: tuple[str, ...]
    expected: tuple[str, ...]


class Sandbox:
    """A place to run examples in: a home with docs in it, a fixed width, and the local Azure."""

    def __init__(self, home: str) -> None:
        self._home = home
        (Path(home) / "docs").symlink_to(ROOT / "docs")
        self._last_code = 0
        self._env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": home,
            "XDG_STATE_HOME": f"{home}/state",
            "XDG_CACHE_HOME": f"{home}/cache",
            "XDG_CONFIG_HOME": f"{home}/config",
            "AI4INFRA_SANDBOX": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def shell(self, command: str) -> tuple[str, ...]:
        """Run a shell command; its output and errors as lines, as a terminal shows them."""
        # The code of the command before is handed on, so that `echo $?` says what a reader sees.
        script = f"(exit {self._last_code})\n{command}"
        output, self._last_code = self._run(["bash", "-c", script])
        return output

    def python(self, code: str) -> tuple[str, ...]:
        """Run a Python program; its output and errors as lines."""
        output, _ = self._run([sys.executable, "-c", code])
        return output

    def _run(self, arguments: list[str]) -> tuple[tuple[str, ...], int]:
        done = subprocess.run(
            arguments,
            cwd=self._home,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        lines = done.stdout.replace(self._home, "~").rstrip("\n").split("\n")
        return tuple(line.rstrip() for line in lines if done.stdout), done.returncode


def blocks_of(text: str) -> list[Block]:
    """Find the fenced blocks of a page."""
    found: list[Block] = []
    lines = text.split("\n")
    opened: int | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if opened is None:
            opened = number
            continue
        language = lines[opened][3:].strip()
        run = not (opened and NOT_RUN.match(lines[opened - 1]))
        body = tuple(lines[opened + 1 : number])
        found.append(Block(language=language, lines=body, start=opened + 1, run=run))
        opened = None
    return found


def examples_of(block: Block) -> list[Example]:
    """Split a console block into its commands and what follows each."""
    examples: list[Example] = []
    continued = False
    for line in block.lines:
        if line.startswith("$ "):
            examples.append(Example(command=line[2:], source=(line,), expected=()))
        elif examples and continued:
            last = examples[-1]
            command = f"{last.command}\n{line}"
            examples[-1] = replace(last, command=command, source=(*last.source, line))
        elif examples:
            examples[-1] = replace(examples[-1], expected=(*examples[-1].expected, line))
        continued = bool(examples) and not examples[-1].expected and line.endswith("\\")
    return examples


def agrees(expected: tuple[str, ...], actual: tuple[str, ...]) -> bool:
    """Tell whether a page's lines are these lines; a line ``…`` stands for any number of them."""
    wanted = re.escape("\n".join(("", *expected, "")))
    pattern = wanted.replace(f"\n{ANY_LINES}\\\n", "\n(?:[^\n]*\n)*").replace("\\\n", "\n")
    return re.fullmatch(pattern, "\n".join(("", *actual, ""))) is not None


def console_lines(block: Block, sandbox: Sandbox) -> tuple[str, ...]:
    """What a console block should say: as it is where it agrees, else what was printed."""
    lines: list[str] = []
    for example in examples_of(block):
        actual = sandbox.shell(example.command)
        # The blank line that parts two commands is the page's, not the command's.
        expected, blank = strip_blank(example.expected)
        shown = expected if agrees(expected, actual) else actual
        lines += [*example.source, *shown, *blank]
    return tuple(lines)


def strip_blank(lines: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part lines from the blank ones at their end."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end], lines[end:]


def refreshed(text: str, sandbox: Sandbox) -> str:
    """The page with every example's output as it is now."""
    blocks = blocks_of(text)
    changes: list[tuple[Block, tuple[str, ...]]] = []
    for block, following in zip_longest(blocks, blocks[1:]):
        if block.language == "console" and block.run:
            changes.append((block, console_lines(block, sandbox)))
        elif block.language == "python" and block.run:
            actual = sandbox.python("\n".join(block.lines))
            shown = following if following and following.language == "text" else None
            if shown and not agrees(shown.lines, actual):
                changes.append((shown, actual))
            elif not shown and actual:
                changes.append((block, (*block.lines, "# prints, without a text block:", *actual)))
    return replace_blocks(text, changes)


def replace_blocks(text: str, changes: list[tuple[Block, tuple[str, ...]]]) -> str:
    """The page with other lines in some of its blocks."""
    lines = text.split("\n")
    for block, new in sorted(changes, key=lambda change: change[0].start, reverse=True):
        lines[block.start : block.start + len(block.lines)] = new
    return "\n".join(lines)


def anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Links of a page to files or headings that are not there."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [
        f"{target}#{anchor}" if anchor else target
        for target, anchor in LINK.findall(prose)
        if not re.match(r"\w+:", target) and not leads_somewhere(page, target, anchor)
    ]


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    """Tell whether a relative link has a file, and a heading if it names one."""
    file = page.parent / target if target else page
    return file.exists() and (not anchor or anchor in anchors(file.read_text("utf-8")))


def check_page(page: Path, *, write: bool) -> list[str]:
    """Check one page, or bring it up to date; what is wrong with it, as lines."""
    text = page.read_text("utf-8")
    name = str(page.relative_to(ROOT))
    with tempfile.TemporaryDirectory(prefix="ai4infra-docs-") as home:
        actual = refreshed(text, Sandbox(home))
    wrong = [f"{name}: broken link: {link}" for link in broken_links(page, text)]
    if write:
        page.write_text(actual, "utf-8")
        return wrong
    diff = difflib.unified_diff(
        text.split("\n"), actual.split("\n"), name, f"{name} as it is now", lineterm=""
    )
    return [*wrong, *diff]


def main() -> int:
    """Check or write all pages; 1 when a page is wrong."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail where a page is out of date")
    mode.add_argument("--write", action="store_true", help="bring the pages up to date")
    write = parser.parse_args().write
    pages = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda page: check_page(page, write=write), pages))
    wrong = [line for answer in answers for line in answer]
    if wrong:
        print("\n".join(wrong))
        print("scripts/docs --write brings the examples up to date.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
