"""What every command shares: lazy groups, help with sections, and the options that az has too."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from ai4infra.cli import complete
from ai4infra.cli.complete import FORMATS

F = TypeVar("F", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
_COMMON = "Common options"


class Lazy(NamedTuple):
    """A command that is imported when it is called; its help line is known before."""

    target: str
    """``module:attribute``."""
    help: str


class Options(NamedTuple):
    """The common options of one call; None and empty mean that nothing was said."""

    subscriptions: tuple[str, ...]
    all_subscriptions: bool
    output: str | None
    query: str | None
    sandbox: bool
    verbose: bool
    debug: bool
    only_show_errors: bool
    auth: str | None
    client_id: str | None
    tenant: str | None
    cloud: str | None
    arm_endpoint: str | None


class Command(click.Command):
    """A command whose help keeps its own options and the common ones apart."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; what is left over is refused with what was meant."""
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise _left_over(self, ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, the common ones last."""
        params = [(p, p.get_help_record(ctx)) for p in self.get_params(ctx)]
        known = [(p, record) for p, record in params if record is not None]
        for title, wanted in (("Options", False), (_COMMON, True)):
            records = [r for p, r in known if isinstance(p, CommonOption) is wanted]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, last and as they are."""
        write_examples(self.epilog, formatter)


def _left_over(command: Command, ctx: click.Context) -> HintedUsage:
    """Build the error for arguments that a command does not take; regions are options."""
    given = "".join(ctx.args).casefold()
    takes_regions = any(p.name in ("region", "regions") for p in command.params)
    regions = complete.known_regions() if takes_regions else []
    hint = f"`{ctx.command_path} --help` shows what there is."
    if all(name in regions for name in given.split(",")):
        hint = f"Did you mean --region {given}?"
    words = " ".join(ctx.args)
    return HintedUsage(f"`{ctx.command_path}` takes no argument {words!r}.", ctx, hint)


class CommonOption(click.Option):
    """An option that every command has."""


class Group(click.Group):
    """A group whose commands are imported when they are called."""

    command_class = Command

    def __init__(self, *args: Any, lazy: dict[str, Lazy] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("no_args_is_help", False)
        super().__init__(*args, **kwargs)
        self.lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands: its own, then the lazy ones, as they are written."""
        return [*(name for name in self.commands if name not in self.lazy), *self.lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None when there is none of this name."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is a usage error with close names."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise unknown_choice("command", args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing the lazy ones."""
        rows = [(name, self._short_help(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, last and as they are."""
        write_examples(self.epilog, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them, and options."""
        names = [n for n in self.list_commands(ctx) if n.startswith(incomplete)]
        items = [CompletionItem(name, help=self._short_help(name)) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def _short_help(self, name: str) -> str:
        if name in self.lazy:
            return self.lazy[name].help
        return self.commands[name].get_short_help_str(limit=200)


def write_examples(text: str | None, formatter: click.HelpFormatter) -> None:
    """Write a block of examples without wrapping: a wrapped command cannot be copied."""
    if not text:
        return
    with formatter.section("Examples"):
        for line in text.strip("\n").splitlines():
            formatter.write(f"{'':>{formatter.current_indent}}{line}".rstrip() + "\n")


class HintedUsage(click.UsageError):
    """A usage error of the command line with the next thing to do."""

    def __init__(self, message: str, ctx: click.Context | None = None, hint: str | None = None):
        super().__init__(message, ctx)
        self.hint = hint


def unknown_choice(
    what: str, given: str, known: Iterable[str], ctx: click.Context | None = None
) -> HintedUsage:
    """Build the usage error for a name that is not known, with close names as its hint."""
    # ids brings difflib and uuid along, which help does not need
    from ai4infra.ids import close_names

    names = list(known)
    close = close_names(given, names)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(names)}."
    return HintedUsage(f"There is no {what} called {given!r}.", ctx, hint)


class _YesNo(click.types.BoolParamType):
    """A switch that a variable may turn on too; what is neither yes nor no is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return the value as a bool. Called by click."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            variable = param.envvar if param else None
            raise HintedUsage(
                f"{variable} is {value!r}, neither yes nor no.", ctx, "Set it to 1 or 0."
            ) from None


def _option(*names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, cls=CommonOption, **attributes)


def _format(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or value.strip().casefold() in FORMATS:
        return value.strip().casefold() if value else value
    raise unknown_choice("output format", value, FORMATS, ctx)


_SWITCHES: Sequence[Callable[[F], F]] = (
    _option(
        "--sandbox",
        is_flag=True,
        type=_YesNo(),
        envvar="AI4INFRA_SANDBOX",
        show_default=False,
        help="Use the local example world instead of Azure.",
    ),
    _option("--verbose", is_flag=True, show_default=False, help="Say on stderr what is used."),
    _option("--debug", is_flag=True, show_default=False, help="Show requests, secrets masked."),
    _option(
        "--only-show-errors",
        is_flag=True,
        type=_YesNo(),
        envvar="AI4INFRA_ONLY_SHOW_ERRORS",
        show_default=False,
        help="No warnings, notes or progress.",
    ),
)

_OUTPUT: Sequence[Callable[[F], F]] = (
    _option(
        "-o",
        "--output",
        metavar="FORMAT",
        callback=_format,
        shell_complete=complete.formats,
        help=f"{', '.join(FORMATS)}.  [default: table, or AI4INFRA_OUTPUT]",
    ),
    _option("--query", metavar="JMESPATH", help="Print what this finds in the JSON document."),
)

_IDENTITY: Sequence[Callable[[F], F]] = (
    _option("--auth", metavar="KIND", help="Identity: env, workload, msi or cli."),
    _option("--client-id", metavar="ID", help="Client id of a user-assigned managed identity."),
    _option("--tenant", metavar="ID", help="Tenant to sign in to."),
    _option("--cloud", metavar="NAME", help="AzureCloud, AzureUSGovernment, AzureChinaCloud, …"),
    _option("--arm-endpoint", metavar="URL", help="Another Resource Manager endpoint."),
)

switches = _SWITCHES


def common(*, many_subscriptions: bool = False) -> Callable[[F], F]:
    """Give a command the common options; it receives them as its first argument, ``Options``."""
    subscription: Callable[[Any], Any] = _option(
        "--subscription",
        "subscriptions",
        multiple=many_subscriptions,
        metavar="NAME|ID",
        help=f"Subscription{'; repeatable' if many_subscriptions else ''}.",
    )
    every: Callable[[Any], Any] = _option(
        "--all-subscriptions",
        is_flag=True,
        show_default=False,
        help="Every subscription that you can see.",
    )
    subscriptions = (subscription, every) if many_subscriptions else (subscription,)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(**kwargs: Any) -> Any:
            return function(_gather(kwargs), **kwargs)

        decorated: Any = wrapper
        for option in reversed((*subscriptions, *_OUTPUT, *_SWITCHES, *_IDENTITY)):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]  # click's decorators keep the function

    return decorate


def is_common(name: str) -> bool:
    """Tell whether every command has an option of this name."""
    decorated: Any = common(many_subscriptions=True)(lambda options: None)
    return any(name in param.opts for param in decorated.__click_params__)


def _gather(kwargs: dict[str, Any]) -> Options:
    """Take the common options out of a command's arguments; switches count before it as well."""
    root = click.get_current_context().find_root().params
    values = {name: kwargs.pop(name, False) for name in Options._fields}
    given = values["subscriptions"]
    values["subscriptions"] = given if isinstance(given, tuple) else (given,) if given else ()
    for name in ("sandbox", "verbose", "debug", "only_show_errors"):
        values[name] = bool(values[name] or root.get(name))
    return Options(**values)


def switch(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """Give a command an option without a value."""
    return click.option(*names, is_flag=True, show_default=False, help=help)


def number(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the number that an option was given. A callback of click's."""
    try:
        return None if value is None else float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number", ctx, param) from None


def whole(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Return the whole number that an option was given. A callback of click's."""
    try:
        return None if value is None else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no whole number", ctx, param) from None


def at_least_one(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the number that an option was given, 1 or more. A callback of click's."""
    given = number(ctx, param, value)
    if given is not None and not 1 <= given < math.inf:
        raise click.BadParameter(f"{value!r} is not 1 or more", ctx, param)
    return given


def listed(ctx: click.Context, param: click.Parameter, values: Iterable[str]) -> tuple[str, ...]:
    """Return the values of a repeatable option; each may itself be a list with commas.

    A callback of click's. An empty value, as of a variable that isn't set, would ask for
    everything, so it is refused.
    """
    found = [[part.strip() for part in value.split(",") if part.strip()] for value in values]
    if not all(found):
        raise click.BadParameter("it is empty", ctx, param)
    return tuple(part for parts in found for part in parts)


def filled(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the value of an option that may be left out, but not be empty; a callback."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty", ctx, param)
    return value


regions_option = click.option(
    "-r",
    "--region",
    "-l",
    "--location",
    "regions",
    multiple=True,
    callback=listed,
    metavar="REGION",
    shell_complete=complete.regions,
    help="Region; repeatable, or several with commas.  [default: AZURE_DEFAULTS_LOCATION]",
)
