from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ai4infra import __version__, render
from ai4infra.cli.main import COMMANDS, Root, main
from ai4infra.cli.options import FORMATS, Group
from ai4infra.errors import NotFoundError, ServiceError, UsageError

HEAVY = ("azure", "msgspec", "requests", "yaml", "jmespath", "platformdirs", "cryptography")
COUNT_HEAVY = f"""
import sys
from ai4infra.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
print("LOADED", [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
"""


def every_command(group: click.Command, *path: str) -> list[tuple[str, ...]]:
    """The words of every command, the groups included."""
    words = [path]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            words += every_command(found, *path, name)
    return words


@pytest.mark.parametrize("words", every_command(main), ids=" ".join)
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_HEAVY, *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: ")
    assert done.stderr.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize("words", every_command(main), ids=" ".join)
def test_help_ends_with_examples_where_there_are_any(real: Any, words: tuple[str, ...]) -> None:
    shown = real(*words, "-h")
    assert shown.code == 0
    sections = [line for line in shown.lines if line.endswith(":") and line[:1].isalpha()]
    assert "Examples:" not in sections[:-1]
    # Sentences about commands are whole; those of options and the first line may have dots.
    listed = shown.stdout.partition("\nCommands:\n")[2].partition("\nExamples:\n")[0]
    assert "..." not in listed


def test_every_command_of_the_table_can_be_imported() -> None:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name


def test_the_formats_that_help_names_are_those_that_there_are() -> None:
    assert FORMATS == render.FORMATS


def test_without_a_command_the_help_is_shown(real: Any) -> None:
    shown = real()
    assert shown.code == 0
    assert "Commands:" in shown.stdout


def test_the_version_is_printed(real: Any) -> None:
    assert real("--version").stdout == f"ai4infra {__version__}\n"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ai4infra", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ai4infra {__version__}\n"


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["recno"], "There is no command called 'recno'.", "Did you mean recon?"),
        (["quota", "lst"], "There is no command called 'lst'.", "Did you mean list?"),
        (["recon", "--regin", "x"], "There is no option --regin.", "--region"),
        (["recon", "-o", "jsno"], "There is no output format called 'jsno'.", "json"),
        (["recon", "--min-gpus", "x"], "'x' is no number.", "`ai4infra recon --help`"),
        (["recon", "eastus2"], "no argument 'eastus2'", "Did you mean --region eastus2?"),
        (["recon", "East", "US", "2"], "no argument 'East US 2'", "--region eastus2?"),
        (["quota", "list", "eastus2,westus"], "no argument", "--region eastus2,westus?"),
        (["recon", "x"], "`ai4infra recon` takes no argument 'x'.", "`ai4infra recon --help`"),
        (["completion", "bash", "eastus2"], "no argument", "`ai4infra completion --help`"),
        (["tools", "install", "azcop"], "ERROR: 'azcop' is not 'azcopy'.", "--help`"),
        (["sandbox", "recon", "-r", "a b"], "'recon' here", "`ai4infra --sandbox recon -r 'a b'`"),
        (["sandbox", "serv"], "no command called 'serv'", "Did you mean serve?"),
        (["sandbox", "serve", "--port", "65536"], "ports are 0 to 65535.", "--help`"),
        (["quota"], "Missing command.", "`ai4infra quota --help`"),
        (["completion", "bsh"], "There is no shell called 'bsh'.", "Did you mean bash or"),
        (["quota", "request"], "Missing option", "`ai4infra quota request --help`"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_slip_on_the_command_line_is_told_with_what_was_meant(
    real: Any, words: list[str], said: str, hint: str
) -> None:
    shown = real(*words)
    assert shown.code == 2
    assert shown.stdout == ""
    error, hinted = shown.stderr.splitlines()
    assert error.startswith("ERROR: ")
    assert said in error
    assert hinted.startswith("hint: ")
    assert hint in hinted


def command_that(raises: Callable[[], Any], *words: str) -> tuple[int, str]:
    """Run a command line whose one command does this; exit code and stderr."""

    @click.command()
    @click.option("--debug", is_flag=True)
    def fail(debug: bool) -> None:
        raises()

    root = Root("ai4infra", commands={"fail": fail})
    result = CliRunner().invoke(root, ["fail", *words])
    assert result.stdout == ""
    return result.exit_code, result.stderr


def throw(error: BaseException) -> Callable[[], Any]:
    def raises() -> None:
        raise error

    return raises


def test_an_error_is_a_sentence_with_its_code_and_a_hint() -> None:
    error = NotFoundError("It is gone.", code="ResourceNotFound", hint="Look elsewhere.")
    assert command_that(throw(error)) == (
        3,
        "ERROR: (ResourceNotFound) It is gone.\nhint: Look elsewhere.\n",
    )


def test_the_detail_of_an_error_is_shown_for_debug_only() -> None:
    error = ServiceError("No.", detail="request 42")
    assert command_that(throw(error)) == (1, "ERROR: No.\n")
    assert command_that(throw(error), "--debug") == (1, "ERROR: No.\nrequest 42\n")


def test_wrong_input_ends_with_2() -> None:
    assert command_that(throw(UsageError("Wrong.")))[0] == 2


@pytest.mark.parametrize("end", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_quiet(end: BaseException) -> None:
    assert command_that(throw(end))[0] == 130
    assert "Traceback" not in command_that(throw(end))[1]


def test_something_unexpected_is_one_sentence_without_a_traceback() -> None:
    code, said = command_that(throw(ValueError("sig=abcdefghijkl is odd")))
    assert code == 1
    assert said.splitlines() == [
        "ERROR: Something unexpected happened (ValueError: sig=*** is odd).",
        "hint: Run it with --debug to see more.",
    ]


def test_a_signature_that_was_typed_is_not_repeated_in_the_error(real: Any) -> None:
    shown = real(
        "--sandbox", "rbac", "list", "--on", "https://st.blob.core.windows.net/c?sv=1&sig=abc%2Fdef"
    )
    assert shown.code == 2
    assert "abc" not in shown.stderr
    assert "sig=***" in shown.stderr


def test_debug_shows_the_traceback_with_secrets_masked() -> None:
    _, said = command_that(throw(ValueError("password=hunter2hunter2")), "--debug")
    assert "Traceback" in said
    assert "hunter2hunter2')" not in said.split("ValueError: ")[-1]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_an_error_and_no_silence(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ai4infra", "completion", "bash"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: The system says: No space left on device.")
    assert "Traceback" not in done.stderr


NOBODYS = "00000000-0000-0000-0000-000000000001"


def test_a_sign_in_that_fails_is_told_once_and_by_nobody_else(tmp_path: Path) -> None:
    names = ("HOME", "AZURE_CONFIG_DIR", "AI4INFRA_CACHE_DIR", "PATH")
    words = ("recon", "-r", "eastus2", "--auth", "cli", "--no-prices", "--subscription", NOBODYS)
    done = subprocess.run(
        [sys.executable, "-m", "ai4infra", *words],
        env={**os.environ, **dict.fromkeys(names, str(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["ERROR:", "hint:"]


@pytest.mark.parametrize(("words", "code"), [("completion bash", 0), ("completion csh", 2)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_loses_its_text_and_nothing_else(
    words: str, code: int, closed: str
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m ai4infra {words} {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "ai4infra", "completion", "bash"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_group_without_lazy_commands_lists_its_own() -> None:
    @click.group(cls=Group)
    def group() -> None:
        """Hold one command."""

    @group.command()
    def inner() -> None:
        """Do something."""

    assert "inner  Do something." in CliRunner().invoke(group, ["--help"]).stdout


@pytest.mark.parametrize("words", every_command(main), ids=" ".join)
def test_help_speaks_of_values_in_plain_words(real: Any, words: tuple[str, ...]) -> None:
    shown = real(*words, "--help").stdout
    assert not re.search(r"RANGE|<=|>=|FLOAT|INTEGER", shown)


def test_a_list_is_not_completed_by_what_it_has(real: Any) -> None:
    words = "ai4infra recon --region eastus,eastus"
    shown = real(_AI4INFRA_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert "plain,eastus,eastus" not in shown.lines
    assert "plain,eastus,eastus2" in shown.lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_names_the_program(real: Any, shell: str) -> None:
    shown = real("completion", shell)
    assert shown.code == 0
    assert "_AI4INFRA_COMPLETE" in shown.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ai4infra re", "recon"),
        ("ai4infra quota re", "request"),
        ("ai4infra recon --region eastus", "eastus2"),
        ("ai4infra recon --gpu a1", "A100"),
        ("ai4infra recon --family n", "NC"),
        ("ai4infra recon --size nd96asr", "ND96asr_v4"),
        ("ai4infra recon --size Standard_ND96asr", "Standard_ND96asr_v4"),
        ("ai4infra recon -o j", "jsonl"),
        ("ai4infra recon --need", "--need"),
        ("ai4infra completion f", "fish"),
        ("ai4infra recon --region westeurope,eastus", "westeurope,eastus2"),
        ("ai4infra recon --gpu a100,h", "a100,H100"),
        ("ai4infra recon --sort gpu", "gpu-price"),
        ("ai4infra quota request --family standardnda", "StandardNDASv4_A100Family"),
        ("ai4infra quota request --family low", "lowPriorityCores"),
        ("ai4infra quota request --family nd96asr", "ND96asr_v4"),
    ],
)
def test_the_shell_completes_commands_options_and_values(
    real: Any, words: str, completed: str
) -> None:
    count = len(words.split()) - 1
    shown = real(_AI4INFRA_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count))
    assert f"plain,{completed}" in shown.lines


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--cloud", "AzureCloud", "recon"), "`ai4infra COMMAND --cloud …`"),
        (("quota", "-o", "json", "list"), "`ai4infra quota COMMAND -o …`"),
    ],
)
def test_an_option_before_its_command_is_told_where_it_goes(
    real: Any, words: tuple[str, ...], hint: str
) -> None:
    shown = real(*words)
    assert shown.code == 2
    assert hint in shown.stderr


def test_a_variable_that_is_neither_yes_nor_no_is_named(real: Any) -> None:
    shown = real("recon", "-r", "eastus2", AI4INFRA_SANDBOX="maybe")
    assert shown.code == 2
    assert "AI4INFRA_SANDBOX is 'maybe', neither yes nor no." in shown.stderr
