from __future__ import annotations

import json

import pytest
import support_machines as machines
from hypothesis import given
from hypothesis import strategies as st
from support_machines import MACHINES, Captured, disk, lsblk, mounted, nvme, os_disk, part

from ai4infra.errors import UsageError
from ai4infra.mounts.disks import DiskPlan, parse_lsblk, plan_nvme, recheck

LOCAL = {"local nvme"}


def plan(captured: Captured, target: str = "/mnt/nvme") -> DiskPlan:
    return plan_nvme(captured.layout, captured.devices, target=target)


def lines(made: DiskPlan) -> list[str]:
    return [" ".join(step.argv) for step in made.commands]


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        (
            "ND A100 v4",
            {"sda": "os disk", "sdb": "temp disk"} | {f"nvme{n}n1": "local nvme" for n in range(8)},
        ),
        (
            "ND H100 v5",
            {"sda": "os disk", "sdb": "temp disk", "sdc": "data disk"}
            | {f"nvme{n}n1": "local nvme" for n in range(8)},
        ),
        (
            "NC A100 v4",
            {
                "sda": "os disk",
                "sdb": "temp disk",
                "nvme0n1": "local nvme",
                "nvme1n1": "local nvme",
            },
        ),
        ("NC T4 v3", {"sda": "os disk", "sdb": "temp disk", "sdc": "data disk"}),
        (
            "v6, remote NVMe",
            {"nvme0n1": "os disk", "nvme0n2": "remote nvme", "nvme1n1": "local nvme"},
        ),
        ("laptop", {"nvme0n1": "os disk", "sda": "other"}),
    ],
)
def test_every_disk_of_every_machine_is_told(name: str, roles: dict[str, str]) -> None:
    assert MACHINES[name].roles == {f"/dev/{disk}": role for disk, role in roles.items()}


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("ND H100 v5", {"/dev/sda": "in use", "/dev/sdb": "in use", "/dev/sdc": "raw"}),
        ("ND H100 v5, made", {"/dev/nvme0n1": "in use"}),
        ("v6, remote NVMe", {"/dev/nvme0n2": "in use", "/dev/nvme1n1": "raw"}),
        ("laptop", {"/dev/sda": "raw", "/dev/nvme0n1": "in use"}),
    ],
)
def test_what_holds_anything_is_not_raw(name: str, states: dict[str, str]) -> None:
    found = {disk.path: disk.state for disk in MACHINES[name].layout.disks}
    assert {path: found[path] for path in states} == states


def test_only_what_is_local_is_lost_on_deallocation() -> None:
    found = {d.role: d.lost_on_deallocation for d in machines.ND_H100_V5.layout.disks}
    assert found == {"os disk": False, "temp disk": True, "data disk": False, "local nvme": True}
    unknown = machines.LAPTOP.layout.disks[-1]
    assert (unknown.role, unknown.lost_on_deallocation) == ("other", None)


@pytest.mark.parametrize(
    ("name", "path", "says"),
    [
        ("ND A100 v4", "/mnt", "the SCSI temp disk, not NVMe"),
        ("ND H100 v5", "/mnt/resource", "the SCSI temp disk, not NVMe"),
        ("ND H100 v5", "/mnt", "nothing is mounted here: it is a folder of /, the OS disk"),
        ("ND H100 v5, made", "/mnt/nvme", "local NVMe"),
        ("NC T4 v3", "/mnt/nvme", "it is a folder of /mnt, the SCSI temp disk, not NVMe"),
        ("container", "/mnt", "it is a folder of /, no disk that is recognized"),
    ],
)
def test_the_usual_cache_folders_are_told_from_nvme(name: str, path: str, says: str) -> None:
    places = {place.path: place.note for place in MACHINES[name].layout.places}
    assert says in places[path]


def test_raw_nvme_becomes_one_filesystem_that_refuses_what_holds_something() -> None:
    made = plan(machines.ND_H100_V5)
    disks = " ".join(f"/dev/nvme{n}n1" for n in range(8))
    assert made.state == "make"
    assert lines(made) == [
        f"mdadm --create /dev/md0 --level=0 --name=ai4infra --raid-devices=8 {disks}",
        "mkfs.xfs -L ai4infra /dev/md0",
        "mkdir -p /mnt/nvme",
        "mount -o noatime /dev/md0 /mnt/nvme",
        "chmod 1777 /mnt/nvme",
    ]
    assert not {"-f", "--force", "--run", "-F"} & {w for s in made.commands for w in s.argv}
    assert "deallocation" in str(made.lost)
    assert all(step.why for step in made.commands)


def test_a_single_disk_needs_no_raid() -> None:
    made = plan(machines.V6_REMOTE, "/cache")
    assert lines(made)[0] == "mkfs.xfs -L ai4infra /dev/nvme1n1"
    assert made.devices == ("/dev/nvme1n1",)
    assert lines(made)[-1] == "chmod 1777 /cache"


def test_the_next_free_array_is_taken() -> None:
    other = disk("sdc", 10, disk("md0", 10, type="raid1"), fstype="linux_raid_member")
    captured = Captured(lsblk(os_disk("sda"), other, *nvme(2, 894, machines.DIRECT)), mounted(), {})
    assert "/dev/md1" in lines(plan(captured))[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NC T4 v3", "no local NVMe"),
        ("laptop", "no local NVMe"),
        ("container", "a container: its disks belong to the host"),
    ],
)
def test_there_is_no_plan_where_nothing_may_be_touched(name: str, says: str) -> None:
    made = plan(MACHINES[name])
    assert (made.state, made.commands, made.devices) == ("no", (), ())
    assert says in made.reason


def test_nvme_that_is_in_use_is_left_alone() -> None:
    made = plan(machines.ND_H100_V5_MADE)
    assert (made.state, made.commands) == ("done", ())
    assert made.reason == "The local NVMe is in use: /dev/nvme0n1 at /mnt/nvme."


HELD = [
    {"fstype": "ext4"},
    {"fstype": "linux_raid_member"},
    {"fstype": "LVM2_member"},
    {"pttype": "gpt"},
    {"children": [part("nvme1n1p1", 10)]},
]


@pytest.mark.parametrize("held", HELD)
def test_one_disk_that_holds_something_keeps_all_from_being_touched(held: dict[str, str]) -> None:
    first, second = nvme(2, 894, machines.DIRECT)
    captured = Captured(lsblk(os_disk("sda"), first, {**second, **held}), mounted(), {})
    made = plan(captured)
    assert (made.state, made.commands) == ("no", ())
    assert "/dev/nvme1n1 holds" in made.reason


def test_after_a_restart_its_own_filesystem_is_mounted_as_it_is() -> None:
    raid = {**machines.MD, "mountpoint": None, "name": "md127", "path": "/dev/md127"}
    members = [
        {**row, "fstype": "linux_raid_member", "children": [raid]}
        for row in nvme(2, 894, machines.DIRECT)
    ]
    made = plan(Captured(lsblk(os_disk("sda"), *members), mounted(), {}))
    assert made.state == "mount"
    assert lines(made) == [
        "mkdir -p /mnt/nvme",
        "mount -o noatime /dev/md127 /mnt/nvme",
        "chmod 1777 /mnt/nvme",
    ]
    assert made.devices == ()


def array(member: dict[str, object], **columns: object) -> Captured:
    """Two local disks in one array, as mdadm leaves it."""
    raid = disk("md0", 1788, type="raid0", **columns)
    rows = [
        {**row, "fstype": "linux_raid_member", **member, "children": [raid]}
        for row in nvme(2, 894, machines.DIRECT)
    ]
    return Captured(lsblk(os_disk("sda"), *rows), mounted(), {})


def test_an_array_that_an_earlier_run_left_bare_gets_its_filesystem() -> None:
    captured = array({"label": "gpu-vm:ai4infra"})
    made = plan(captured)
    assert (made.state, made.devices) == ("make", ("/dev/md0",))
    assert lines(made)[:2] == ["mkfs.xfs -L ai4infra /dev/md0", "mkdir -p /mnt/nvme"]
    assert recheck(made, captured.layout, {"/dev/md0": ""}) is None
    assert "could not be read" in str(recheck(made, captured.layout, {}))
    assert "holds xfs" in str(recheck(made, captured.layout, {"/dev/md0": "xfs"}))
    formatted = array({"label": "gpu-vm:ai4infra"}, fstype="xfs")
    assert "now holds xfs" in str(recheck(made, formatted.layout, {"/dev/md0": ""}))


@pytest.mark.parametrize(
    ("member", "columns"),
    [
        ({}, {}),
        ({"label": "gpu-vm:scratch"}, {}),
        ({"label": "gpu-vm:ai4infra"}, {"fstype": "ext4"}),
        ({"label": "gpu-vm:ai4infra"}, {"pttype": "gpt"}),
        ({"label": "gpu-vm:ai4infra"}, {"children": [part("md0p1", 10)]}),
        ({"label": "gpu-vm:ai4infra", "fstype": "LVM2_member"}, {}),
    ],
)
def test_an_array_of_others_or_with_something_on_it_is_not_touched(
    member: dict[str, object], columns: dict[str, object]
) -> None:
    made = plan(array(member, **columns))
    assert (made.state, made.commands) == ("no", ())


def test_a_filesystem_of_the_same_label_elsewhere_is_not_taken_for_ours() -> None:
    data = disk("sdc", 100, fstype="xfs", label="ai4infra", model="Virtual Disk", vendor="Msft")
    captured = Captured(lsblk(os_disk("sda"), data, *nvme(1, 894, machines.DIRECT)), mounted(), {})
    assert plan(captured).devices == ("/dev/nvme0n1",)


def test_swap_counts_as_use() -> None:
    row = {**nvme(1, 894, machines.DIRECT)[0], "fstype": "swap", "mountpoint": "[SWAP]"}
    made = plan(Captured(lsblk(os_disk("sda"), row), mounted(), {}))
    assert (made.state, made.commands) == ("done", ())
    assert "swap" in made.reason


# --- right before


CLEAN = {f"/dev/nvme{n}n1": "" for n in range(8)}


def test_a_plan_whose_disks_are_still_raw_may_run() -> None:
    made = plan(machines.ND_H100_V5)
    assert recheck(made, machines.ND_H100_V5.layout, CLEAN) is None


@pytest.mark.parametrize(
    ("now", "signatures", "says"),
    [
        (machines.ND_H100_V5_MADE, CLEAN, "/dev/nvme0n1 now holds linux_raid_member"),
        (machines.NC_T4_V3, CLEAN, "/dev/nvme0n1 is not there any more"),
        (machines.ND_H100_V5, {}, "/dev/nvme0n1 could not be read"),
        (
            machines.ND_H100_V5,
            {**CLEAN, "/dev/nvme3n1": "DEVICE OFFSET TYPE\nnvme3n1 0x0 xfs\n"},
            "/dev/nvme3n1 holds DEVICE OFFSET TYPE nvme3n1 0x0 xfs",
        ),
    ],
)
def test_what_came_in_between_stops_the_plan(
    now: Captured, signatures: dict[str, str], says: str
) -> None:
    assert says in str(recheck(plan(machines.ND_H100_V5), now.layout, signatures))


# --- lsblk


def test_an_older_lsblk_writes_numbers_and_switches_as_text() -> None:
    text = '{"blockdevices": [{"name": "sda", "type": "disk", "size": "1024", "ro": "1"}]}'
    (found,) = parse_lsblk(text)
    assert (found.path, found.size_bytes, found.read_only) == ("/dev/sda", 1024, True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"blockdevices": 3}', "null"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="lsblk"):
        parse_lsblk(text)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
COLUMNS = dict.fromkeys(("type", "size", "fstype", "pttype", "mountpoint", "hctl", "ro"), SCALARS)
MODELS = st.sampled_from([None, machines.DIRECT, machines.DIRECT_2, machines.REMOTE])
ROWS = st.recursive(
    st.fixed_dictionaries({"name": st.text(max_size=5), "model": MODELS}, optional=COLUMNS),
    lambda rows: st.fixed_dictionaries(
        {"name": st.text(max_size=5), "model": MODELS, "children": st.lists(rows, max_size=3)}
    ),
    max_leaves=8,
)


@given(st.lists(ROWS, max_size=6))
def test_no_plan_ever_touches_what_is_not_raw_local_nvme(rows: list[dict[str, object]]) -> None:
    # The kernel gives no name twice.
    named = [{**row, "name": f"d{n}"} for n, row in enumerate(rows)]
    text = json.dumps({"blockdevices": named})
    captured = Captured(text, mounted(), {})
    made = plan_nvme(captured.layout, captured.devices)
    disks = {d.path: d for d in captured.layout.disks}
    assert all(disks[path].role == "local nvme" for path in made.devices)
    assert all(disks[path].state == "raw" for path in made.devices)
