"""What a sandbox keeps between runs, and its clock."""

from __future__ import annotations

import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from azure.mgmt.resource.resources import ResourceManagementClient

from ai4infra.errors import Ai4infraError
from ai4infra.sandbox import Sandbox, World, open_sandbox
from ai4infra.sandbox.files import state_dir


def groups(sandbox: Sandbox) -> ResourceManagementClient:
    return ResourceManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )


def names(sandbox: Sandbox) -> list[str]:
    return [group.name for group in groups(sandbox).resource_groups.list()]


def create(sandbox: Sandbox, name: str) -> None:
    groups(sandbox).resource_groups.create_or_update(name, {"location": "eastus2"})


def test_a_world_in_memory_starts_at_a_fixed_time_and_only_waits_move_it(sandbox: Sandbox) -> None:
    transport = sandbox.transport()
    start = sandbox.world.now()

    transport.sleep(90)

    assert start == datetime(2026, 1, 5, 8, 47, tzinfo=timezone.utc)
    assert sandbox.world.now() - start == timedelta(seconds=90)


def test_two_worlds_in_memory_share_nothing(sandbox: Sandbox) -> None:
    create(sandbox, "rg")
    sandbox.world.catalogue.skus[sandbox.subscription_id].clear()

    with open_sandbox() as other:
        assert names(other) == []
        assert other.world.catalogue.skus[other.subscription_id]


def test_a_kept_world_is_there_in_the_next_run(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as first:
        create(first, "rg")

    with open_sandbox(tmp_path) as second:
        assert names(second) == ["rg"]


def test_waits_of_one_run_count_in_the_next(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as first:
        first.advance(3600)

    with open_sandbox(tmp_path) as second:
        ahead = second.world.now() - datetime.now(timezone.utc)
    assert timedelta(minutes=59) < ahead < timedelta(minutes=61)


def test_two_open_sandboxes_of_one_folder_see_each_other(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as one, open_sandbox(tmp_path) as other:
        create(one, "from-one")
        create(other, "from-other")

        assert names(one) == names(other) == ["from-one", "from-other"]


def test_the_state_is_for_its_owner_only_and_leaves_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with open_sandbox(folder) as sandbox:
        create(sandbox, "rg")

    assert [path.name for path in folder.iterdir()] == ["world.json"]
    assert stat.S_IMODE((folder / "world.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_state_holds_no_token(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as sandbox:
        create(sandbox, "rg")

    assert "eyJ" not in (tmp_path / "world.json").read_text()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"resources": 5}', '{"version": 99}'])
def test_a_broken_state_file_is_told_with_the_way_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "world.json").write_text(content)

    with pytest.raises(Ai4infraError) as caught:
        open_sandbox(tmp_path)

    assert caught.value.hint == "Start over with `ai4infra sandbox reset`."


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sandbox = open_sandbox(tmp_path / "file" / "below")

    with pytest.raises(Ai4infraError, match="cannot write"):
        sandbox.advance(1)


def test_reading_changes_no_file(tmp_path: Path) -> None:
    with open_sandbox(tmp_path) as sandbox:
        create(sandbox, "rg")
        before = (tmp_path / "world.json").stat()
        names(sandbox)

    assert (tmp_path / "world.json").stat() == before


def test_the_folder_is_the_environments_or_the_users(tmp_path: Path) -> None:
    assert state_dir({"AI4INFRA_STATE_DIR": str(tmp_path)}) == tmp_path / "sandbox"
    assert state_dir({}) == tmp_path / "state" / "ai4infra" / "sandbox"


def test_a_world_says_that_it_is_an_example() -> None:
    world = World()

    assert "example" in world.catalogue.note
    assert all(name.startswith("Example") for name in world.catalogue.subscriptions.values())
