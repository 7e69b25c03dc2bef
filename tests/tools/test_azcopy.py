"""AzCopy: found, checked, signed in, run and stopped. Programs here are stand-ins."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from support_azcopy import JOB, counters, program, saying

from ai4infra.errors import Ai4infraError, NetworkError, NotFoundError
from ai4infra.tools.azcopy import (
    Login,
    Tool,
    Watch,
    environment,
    failed_transfers,
    find_azcopy,
    list_blobs,
    login_variables,
    run_azcopy,
    trusted_hosts,
)
from ai4infra.tools.work import Work
from ai4infra.transfer.endpoints import Place, parse_place
from ai4infra.transfer.stream import Counters, Transcript

SIGNATURE = "qzVERYsecretSIGNATURE"
HERE = parse_place("https://127.0.0.1:10000/sttrain/data/a", lambda path: False)
SECRET = parse_place(
    f"https://sttrain.blob.core.windows.net/data?sv=2024-11-04&sig={SIGNATURE}", lambda path: False
)


def tool(path: Path) -> Tool:
    return Tool(path=str(path), version="10.32.2")


def run(
    path: Path, transcript: Transcript, watch: Watch | None = None, env: Mapping[str, str] = {}
) -> tuple[int, str | None]:
    ended = run_azcopy(tool(path), ["copy"], env, transcript=transcript, watch=watch or Watch())
    return ended.exit_code, ended.stop


# --- finding


def test_no_azcopy_is_told_with_the_command_that_installs_it() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_azcopy({"PATH": "/nowhere"})
    assert "ai4infra tools install azcopy" in (caught.value.hint or "")


def test_the_variable_decides_then_the_path_then_our_own_folder(tmp_path: Path) -> None:
    named = program(tmp_path / "named", "")
    on_path = program(tmp_path / "path", "")
    own = program(tmp_path / "own", "")
    env = {"AI4INFRA_TOOLS_DIR": str(own.parent), "PATH": str(on_path.parent)}
    assert find_azcopy({**env, "AI4INFRA_AZCOPY": str(named)}).path == str(named)
    assert find_azcopy(env).path == str(on_path)
    assert find_azcopy({**env, "PATH": "/nowhere"}).path == str(own)


def test_an_azcopy_that_is_named_and_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    on_path = program(tmp_path, "")
    with pytest.raises(NotFoundError, match="/nowhere/azcopy"):
        find_azcopy({"PATH": str(on_path.parent), "AI4INFRA_AZCOPY": "/nowhere/azcopy"})


def test_an_azcopy_that_is_too_old_is_refused_with_both_versions(tmp_path: Path) -> None:
    program(tmp_path, "", version="azcopy version 10.18.1")
    with pytest.raises(Ai4infraError, match=r"is AzCopy 10\.18\.1; 10\.27\.0 or newer"):
        find_azcopy({"PATH": str(tmp_path)})


def test_a_notice_before_the_version_is_no_matter(tmp_path: Path) -> None:
    program(tmp_path, "", version="INFO: a newer version is available\nazcopy version 11.0.0")
    assert find_azcopy({"PATH": str(tmp_path)}).version == "11.0.0"


def test_another_program_of_the_name_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "", version="hello")
    with pytest.raises(Ai4infraError, match="does not say which AzCopy"):
        find_azcopy({"PATH": str(tmp_path)})


def test_a_library_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    said = "azcopy: error while loading shared libraries: libsecret-1.so.0: cannot open shared"
    program(tmp_path, "", version=said)
    with pytest.raises(Ai4infraError) as caught:
        find_azcopy({"PATH": str(tmp_path)})
    assert "apt-get install libsecret-1-0" in (caught.value.hint or "")


def test_a_file_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "azcopy").write_text("no program", "utf-8")
    (tmp_path / "azcopy").chmod(0o755)
    with pytest.raises(Ai4infraError, match="cannot be run"):
        find_azcopy({"PATH": str(tmp_path)})


# --- the environment


@pytest.mark.parametrize(
    ("login", "env", "wanted"),
    [
        (Login(kind="msi"), {"AZURE_TENANT_ID": "t"}, {"AZCOPY_AUTO_LOGIN_TYPE": "MSI"}),
        (
            Login(kind="msi", client_id="c"),
            {},
            {"AZCOPY_AUTO_LOGIN_TYPE": "MSI", "AZCOPY_MSI_CLIENT_ID": "c"},
        ),
        (
            Login(kind="cli", tenant="t"),
            {},
            {"AZCOPY_AUTO_LOGIN_TYPE": "AZCLI", "AZCOPY_TENANT_ID": "t"},
        ),
        (
            Login(kind="env", authority="https://login.microsoftonline.us"),
            {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": "s"},
            {
                "AZCOPY_AUTO_LOGIN_TYPE": "SPN",
                "AZCOPY_TENANT_ID": "t",
                "AZCOPY_ACTIVE_DIRECTORY_ENDPOINT": "https://login.microsoftonline.us",
                "AZCOPY_SPA_APPLICATION_ID": "c",
                "AZCOPY_SPA_CLIENT_SECRET": "s",
            },
        ),
        (
            Login(kind="workload", client_id="c"),
            {"AZURE_TENANT_ID": "t"},
            {
                "AZCOPY_AUTO_LOGIN_TYPE": "WORKLOAD",
                "AZCOPY_TENANT_ID": "t",
                "AZURE_CLIENT_ID": "c",
                "AZURE_TENANT_ID": "t",
            },
        ),
    ],
)
def test_azcopy_signs_in_as_the_session_does(
    login: Login, env: dict[str, str], wanted: dict[str, str]
) -> None:
    assert login_variables(login, env) == wanted


def test_what_was_inherited_of_another_identity_is_dropped_and_told(tmp_path: Path) -> None:
    inherited = {
        "AZCOPY_AUTO_LOGIN_TYPE": "DEVICE",
        "AZCOPY_SPA_CLIENT_SECRET": "old",
        "AZCOPY_MSI_OBJECT_ID": "old",
        "AZCOPY_LOG_LOCATION": "/small",
        "AZCOPY_CONCURRENCY_VALUE": "64",
        "HOME": "/home/me",
    }
    env, dropped = environment(inherited, Login(kind="msi"), Work(tmp_path))
    assert dropped == (
        "AZCOPY_AUTO_LOGIN_TYPE",
        "AZCOPY_LOG_LOCATION",
        "AZCOPY_MSI_OBJECT_ID",
        "AZCOPY_SPA_CLIENT_SECRET",
    )
    assert env["AZCOPY_AUTO_LOGIN_TYPE"] == "MSI"
    assert env["AZCOPY_LOG_LOCATION"] == str(tmp_path / "logs")
    assert (env["AZCOPY_CONCURRENCY_VALUE"], env["HOME"]) == ("64", "/home/me")
    assert "AZCOPY_SPA_CLIENT_SECRET" not in env


def test_no_identity_is_given_where_a_sas_is(tmp_path: Path) -> None:
    env, dropped = environment({"AZCOPY_AUTO_LOGIN_TYPE": "MSI"}, None, Work(tmp_path))
    assert "AZCOPY_AUTO_LOGIN_TYPE" not in env
    assert dropped == ("AZCOPY_AUTO_LOGIN_TYPE",)


def test_only_hosts_beyond_azures_own_that_need_a_token_are_trusted_by_name() -> None:
    public = parse_place("https://sttrain.blob.core.windows.net/data", lambda path: False)
    assert trusted_hosts([HERE, public, Place(kind="local", path="/a")]) == ("127.0.0.1:10000",)
    assert trusted_hosts([SECRET]) == ()


# --- running


def test_a_run_is_heard_to_its_end(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        saying(
            ("Init", {"JobID": JOB, "LogFileLocation": "/log"}),
            ("Progress", counters("InProgress")),
            ("EndOfJob", counters()),
        )
        + "sys.exit(3)",
    )
    transcript = Transcript()
    assert run(path, transcript) == (3, None)
    assert (transcript.job, transcript.ended) == (JOB, True)


def test_azcopy_reads_nothing_and_gets_no_shell(tmp_path: Path) -> None:
    path = program(tmp_path, "say('Info', repr((sys.stdin.read(), sys.argv[1:])))")
    transcript = Transcript()
    run_azcopy(tool(path), ["copy", "$(boom) `x` ; *"], {}, transcript=transcript, watch=Watch())
    assert transcript.notes == ["('', ['copy', '$(boom) `x` ; *', '--output-type', 'json'])"]


def test_a_crash_is_heard_from_stderr(tmp_path: Path) -> None:
    path = program(tmp_path, "print('panic: boom', file=sys.stderr); sys.exit(2)")
    transcript = Transcript()
    assert run(path, transcript) == (2, None)
    assert (transcript.notes, transcript.ended) == (["panic: boom"], False)


CANCELLED = saying(("EndOfJob", counters("Cancelled")))
WAITING = (
    # A blocked signal waits to be taken: there is no moment at which it could be missed.
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
    + saying(("Init", {"JobID": JOB}), ("Progress", counters("InProgress")))
    + f"say('Info', 'ready')\nsignal.sigwait({{signal.SIGINT}})\n{CANCELLED}sys.exit(1)\n"
)


def test_at_a_boundary_it_is_interrupted_and_heard_to_its_end(tmp_path: Path) -> None:
    transcript = Transcript()
    watch = Watch(until=lambda: "ready" in transcript.notes)
    assert run(program(tmp_path, WAITING), transcript, watch) == (1, "boundary")
    assert transcript.counters is not None
    assert transcript.counters.status == "Cancelled"


def test_ctrl_c_interrupts_it_once_and_its_last_words_are_heard(tmp_path: Path) -> None:
    transcript = Transcript()
    told: list[int] = []

    def once(heard: Transcript) -> None:
        if "ready" in heard.notes and not told:
            told.append(1)
            raise KeyboardInterrupt

    ended = run_azcopy(
        tool(program(tmp_path, WAITING)),
        ["copy"],
        {},
        transcript=transcript,
        watch=Watch(),
        listen=once,
    )
    assert (ended.exit_code, ended.stop) == (1, "interrupted")
    assert transcript.ended


def test_a_second_ctrl_c_kills_it(tmp_path: Path) -> None:
    stubborn = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nsay('Info', 'ready')\n"
        "while True: signal.sigwait({signal.SIGINT}); say('Info', 'no')\n"
    )
    path = program(tmp_path, stubborn)

    def twice(heard: Transcript) -> None:
        raise KeyboardInterrupt

    ended = run_azcopy(
        tool(path), ["copy"], {}, transcript=Transcript(), watch=Watch(), listen=twice
    )
    assert (ended.exit_code, ended.stop) == (-signal.SIGKILL, "interrupted")


@pytest.mark.slow
def test_a_run_in_which_nothing_moves_is_stopped(tmp_path: Path) -> None:
    transcript = Transcript()
    ticks = iter(range(0, 10_000, 10))
    watch = Watch(stall_seconds=60, clock=lambda: float(next(ticks)) if transcript.notes else 0.0)
    assert run(program(tmp_path, WAITING), transcript, watch) == (1, "stalled")


def test_counters_that_change_are_movement() -> None:
    now = [0.0]
    watch = Watch(stall_seconds=10, clock=lambda: now[0])
    for second in range(0, 60, 9):
        now[0] = float(second)
        watch.hear(Counters(total=9, bytes_over_wire=second))
        assert watch.verdict() is None
    now[0] += 11
    watch.hear(Counters(total=9, bytes_over_wire=54))
    assert watch.verdict() == "stalled"


def test_more_output_than_is_read_at_once_blocks_nobody(tmp_path: Path) -> None:
    path = program(tmp_path, "for i in range(30000): say('ListObject', {'Path': str(i)})")
    found = list(list_blobs(tool(path), HERE, {}))
    assert (len(found), found[-1].path) == (30_000, "29999")


# --- questions


def test_a_listing_that_is_left_early_ends_its_program(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    path = program(
        tmp_path,
        f"open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "for i in range(10**9): say('ListObject', {'Path': str(i), 'ContentLength': '1'})",
    )
    listing = list_blobs(tool(path), HERE, {})
    assert next(listing).path == "0"
    listing.close()
    assert not Path(f"/proc/{note.read_text()}").exists()


def test_a_listing_that_fails_raises_the_services_code_and_no_secret(tmp_path: Path) -> None:
    said = (
        f"cannot list files due to reason GET {SECRET.secret_url()}\n"
        "ERROR CODE: ContainerNotFound\n"
    )
    path = program(tmp_path, f"say('Error', {said!r}); sys.exit(1)")
    with pytest.raises(Ai4infraError) as caught:
        list(list_blobs(tool(path), SECRET, {}))
    assert caught.value.code == "ContainerNotFound"
    assert SIGNATURE not in f"{caught.value} {caught.value.detail}"


def test_a_listing_that_ends_badly_without_a_word_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Ai4infraError, match="AzCopy ended with 7"):
        list(list_blobs(tool(program(tmp_path, "sys.exit(7)")), HERE, {}))


def test_a_listing_in_which_nothing_comes_is_given_up(tmp_path: Path) -> None:
    listing = list_blobs(tool(program(tmp_path, "signal.pause()")), HERE, {}, silence_seconds=0.25)
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:10000 does not answer"):
        next(listing)


def test_tokens_are_sent_to_another_host_only_when_it_is_trusted(tmp_path: Path) -> None:
    path = program(tmp_path, "say('ListObject', {'Path': ' '.join(sys.argv)})")
    assert "trusted" not in next(iter(list_blobs(tool(path), HERE, {}))).path
    (found,) = list_blobs(tool(path), HERE, {}, trusted=["127.0.0.1:10000"])
    assert "--trusted-microsoft-suffixes 127.0.0.1:10000" in found.path


def test_every_failed_file_of_a_job_is_listed_once(tmp_path: Path) -> None:
    rows = [{"Src": "/a", "Dst": "/b", "TransferStatus": "Failed", "ErrorCode": "403"}]
    text = saying(("ListJobTransfers", {"Details": rows}), ("EndOfJob", {"Details": rows}))
    found = failed_transfers(tool(program(tmp_path, text)), JOB, dict(os.environ))
    assert [(each.source, each.code, each.size_bytes) for each in found] == [("/a", "403", None)]


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    run(program(tmp_path, saying(("EndOfJob", counters()))), Transcript())
    assert threading.active_count() == before


def test_a_file_that_is_named_and_not_executable_is_told(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    path.chmod(0o644)
    with pytest.raises(Ai4infraError, match="is not executable") as caught:
        find_azcopy({"AI4INFRA_AZCOPY": str(path)})
    assert "chmod +x" in (caught.value.hint or "")


def test_what_libraries_say_on_stderr_is_no_failure_of_a_listing(tmp_path: Path) -> None:
    path = program(
        tmp_path, "print('dbus: no session', file=sys.stderr)\nsay('ListObject', {'Path': 'a'})"
    )
    assert [each.path for each in list_blobs(tool(path), HERE, {})] == ["a"]


def test_a_listing_that_crashes_says_so(tmp_path: Path) -> None:
    path = program(tmp_path, "print('panic: boom', file=sys.stderr); sys.exit(2)")
    with pytest.raises(Ai4infraError, match="panic: boom"):
        list(list_blobs(tool(path), HERE, {}))
