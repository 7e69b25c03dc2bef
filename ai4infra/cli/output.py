"""Where text goes: the result to stdout, everything else to stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ai4infra.cli.options import Options
    from ai4infra.model import Problem
    from ai4infra.render import Format, Page, Query, Screen

SANDBOX_NOTICE = "sandbox: an example world, not your subscription"
_CLEAR_LINE = "\r\x1b[K"


class Output:
    """The two streams of one command, and the form in which its result is wanted.

    Building it checks ``--output`` and ``--query``: a bad one fails before anything is sent.
    """

    def __init__(self, options: Options, *, default_format: str | None = None) -> None:
        from ai4infra.render import checked_format, compile_query

        self.format: Format = checked_format(options.output or default_format or "table")
        self.query: Query | None = None if options.query is None else compile_query(options.query)
        self._query_text = options.query
        self._quiet = options.only_show_errors
        self._verbose = (options.verbose or options.debug) and not self._quiet
        self._debug = options.debug
        self._sandbox = options.sandbox
        self._subscription_said = bool(options.subscriptions or options.all_subscriptions)
        self._progress_shown = False

    def result(self, page: Page) -> None:
        """Print the result to stdout; nothing else ever goes there."""
        from ai4infra.render import render

        self.end_progress()
        page = page._replace(below=[type(line)(self._copyable(line)) for line in page.below])
        done = render(page, self.format, query=self.query, screen=screen(sys.stdout))
        if done.text:
            click.echo(done.text)
        if done.hidden:
            self.note(
                f"no room for {', '.join(done.hidden)}: a wider terminal or -o json shows all"
            )
        if self._query_text and self._query_text.startswith("[") and done.text in ("", "null"):
            self.note(_document_note(page))

    def warn(self, text: str) -> None:
        """Tell of something that the result lacks or that looks wrong."""
        if not self._quiet:
            self._say(f"WARNING: {text}")

    def note(self, text: str) -> None:
        """Tell something that is good to know."""
        if not self._quiet:
            self._say(text)

    def verbose(self, text: str) -> None:
        """Tell what is used and what is done, for ``--verbose``."""
        if self._verbose:
            self._say(text)

    def debug(self, text: str) -> None:
        """Tell of a request, for ``--debug``."""
        if self._debug:
            self.end_progress()
            click.echo(text, err=True)

    def problem(self, text: str, *, code: str | None = None, hint: str | None = None) -> None:
        """Tell of a part that failed while the rest goes on; never kept quiet."""
        self.end_progress()
        error_lines(self._sayable(text), code=code, hint=hint and self._sayable(hint))

    def problems(self, problems: Iterable[Problem]) -> None:
        """Tell of everything that the result lacks."""
        for each in problems:
            self.problem(f"{each.subject}: {each.message}", code=each.code, hint=each.hint)

    def progress(self, text: str) -> None:
        """Show what is going on: one line that overwrites itself, on a terminal only."""
        if self._quiet or not sys.stderr.isatty():
            return
        # A line that wraps could not be taken away again.
        room = (_width(sys.stderr) or len(text) + 1) - 1
        click.echo(f"{_CLEAR_LINE}{text[:room]}", nl=False, err=True)
        self._progress_shown = True

    def end_progress(self) -> None:
        """Take the line of ``progress`` away."""
        if self._progress_shown:
            click.echo(_CLEAR_LINE, nl=False, err=True)
            self._progress_shown = False

    def _say(self, text: str) -> None:
        self.end_progress()
        click.echo(fitted(self._sayable(text)), err=True)

    def _sayable(self, text: str) -> str:
        text = self._copyable(text)
        return about_az(text) if self._sandbox else text

    def _copyable(self, text: str) -> str:
        """Fit the commands in a text to this run, so that they go on where it is."""
        if not self._subscription_said:
            text = _NAMED_SUBSCRIPTION.sub(r"\1", text)
        return in_sandbox(text) if self._sandbox else text


def _document_note(page: Page) -> str:
    lists = [name for name, part in page.document.items() if isinstance(part, (list, tuple))]
    return f"The document is an object: its lists are {', '.join(lists)}, as in --query 'NAME[]'."


def screen(stream: TextIO) -> Screen:
    """Return what the stream can show: no terminal has no width and no colours."""
    from ai4infra.render import Screen

    if not stream.isatty():
        return Screen()
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return Screen(width=_width(stream), color=not dumb and not os.environ.get("NO_COLOR"))


def _width(stream: TextIO) -> int | None:
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"]) or None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


_NAMED_SUBSCRIPTION = re.compile(r"(\bai4infra [a-z]+ [a-z]+) --subscription \S+")
_COMMAND = re.compile(r"\bai4infra (?=[a-z])(?!sandbox\b|completion\b)")


def in_sandbox(text: str) -> str:
    """Make the commands in a text go to the sandbox, unless the environment does so anyway."""
    from ai4infra.settings import wants_sandbox

    return text if wants_sandbox(os.environ) else _COMMAND.sub("ai4infra --sandbox ", text)


_AZ = re.compile(r"\baz (?=[a-z])")
_AZ_IN_SANDBOX = " (az reaches the sandbox through `ai4infra sandbox serve`.)"


def about_az(text: str) -> str:
    """Say behind a text that names a command of az how that gets to the sandbox."""
    return f"{text}{_AZ_IN_SANDBOX}" if _AZ.search(text) else text


_COMMANDS = re.compile(r"\b(?:az|ai4infra) (?=[a-z-])")


def fitted(text: str) -> str:
    """Break a sentence between words at the width of the terminal.

    What is piped stays on one line, and so does what holds a command: it is to be copied.
    """
    width = _width(sys.stderr) if sys.stderr.isatty() else None
    if width is None or len(text) <= width or "\n" in text or _COMMANDS.search(text):
        return text
    import textwrap

    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def error_lines(text: str, *, code: str | None = None, hint: str | None = None) -> None:
    """Print one error: a sentence with the service's code, then what to do next.

    What was typed may be in it, and with it a signature or a key.
    """
    from ai4infra.cloud.masking import mask

    click.echo(fitted(f"ERROR: {f'({code}) ' if code else ''}{mask(text)}"), err=True)
    if hint:
        click.echo(fitted(f"hint: {mask(hint)}"), err=True)


@contextmanager
def quiet_interrupt(lines: Sequence[str]) -> Iterator[None]:
    """Say these lines when Ctrl-C ends what is inside."""
    try:
        yield
    except KeyboardInterrupt:
        for line in lines:
            click.echo(fitted(line), err=True)
        raise
