from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.live import counters as c

DISKSTATS = """\
   7       0 loop0 45 0 2100 10 0 0 0 0 0 40 10 0 0 0 0 0 0
 259       0 nvme0n1 1000 5 204800 500 20 3 4096 40 2 900 540 0 0 0 0 7 1
 259       1 nvme0n1p1 900 5 200000 450 20 3 4096 40 0 900 490 0 0 0 0
   8      16 sdb 4 0 x 3 0 0 0 0 0 3 3
"""


def test_only_the_wanted_disks_are_read_and_a_broken_line_is_passed_over() -> None:
    found = c.parse_diskstats(DISKSTATS, {"nvme0n1", "sdb"})
    assert found == {"nvme0n1": c.DiskCount(1000, 204800, 500, 20, 4096, 40, 900, 540)}


def test_a_disk_is_told_in_bytes_and_seconds() -> None:
    before = c.DiskCount(0, 0, 0, 0, 0, 0, 0, 0)
    after = c.DiskCount(100, 204800, 50, 0, 0, 0, 1500, 4000)
    sample = c.disk_sample("nvme0n1", before, after, 2.0, 7.0)
    assert sample is not None
    assert (sample.reads_s, sample.read_bytes_s, sample.read_wait_s) == (50, 52428800, 0.0005)
    assert (sample.busy, sample.queue, sample.time_s) == (0.75, 2.0, 7.0)


def test_a_disk_without_a_write_has_no_waiting_time_of_writes() -> None:
    zero = c.DiskCount(0, 0, 0, 0, 0, 0, 0, 0)
    sample = c.disk_sample("sda", zero, zero, 1.0, 1.0)
    assert sample is not None
    assert sample.write_wait_s is None
    assert sample.writes_s == 0


def test_a_disk_whose_counters_went_backwards_is_unknown() -> None:
    before = c.DiskCount(100, 1, 1, 1, 1, 1, 1, 1)
    assert c.disk_sample("sda", before, before._replace(reads=3), 1.0, 1.0) is None


def test_a_disk_is_never_more_than_wholly_busy() -> None:
    before = c.DiskCount(0, 0, 0, 0, 0, 0, 0, 0)
    sample = c.disk_sample("sda", before, before._replace(busy_ms=1100), 1.0, 1.0)
    assert sample is not None
    assert sample.busy == 1.0


def test_cpu_time_adds_up_and_counts_guests_once() -> None:
    before = c.parse_cpu("cpu  0 0 0 0 0 0 0 0 0 0\n")
    # Guests (the last two) are in user and nice already.
    after = c.parse_cpu("cpu  30 10 15 20 15 3 2 5 25 5\ncpu0 1 1 1 1\n")
    assert before is not None
    assert after is not None
    sample = c.cpu_sample(before, after, 1.0)
    assert sample is not None
    shares = (sample.user, sample.system, sample.idle, sample.iowait, sample.steal)
    assert shares == (0.4, 0.2, 0.2, 0.15, 0.05)


def test_an_old_kernel_without_steal_is_read() -> None:
    assert c.parse_cpu("cpu  1 2 3 4 5\n") == c.CpuCount(3, 3, 4, 5, 0)


def test_the_network_is_read_where_the_name_touches_the_number() -> None:
    text = (
        "head\n  eth0:123 1 0 0 0 0 0 0 45 1 0 0 0 0 0 0\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n"
    )
    assert c.parse_net(text, {"eth0"}) == {"eth0": c.NetCount(received=123, sent=45)}


@pytest.mark.parametrize("name", ["python3", "a b", "x) S 1 (y", ")", ""])
def test_a_process_may_be_called_anything(name: str) -> None:
    text = f"7 ({name}) D 3 " + " ".join(str(n) for n in range(5, 53))
    found = c.parse_process(text)
    assert found is not None
    assert (found.name, found.state, found.parent) == (name, "D", 3)
    assert (found.cpu_ticks, found.started, found.blocked_ticks) == (14 + 15, 22, 42)


def test_a_virtual_function_is_left_to_its_parent() -> None:
    masters = {"lo": None, "eth0": None, "enP1s1": "eth0", "docker0": None, "ib0": None}
    assert c.counted_interfaces(masters, {"eth0", "enP1s1", "ib0"}) == ("eth0", "ib0")


def test_in_a_container_without_hardware_the_virtual_interface_counts() -> None:
    assert c.counted_interfaces({"lo": None, "eth0": None}, set()) == ("eth0",)


@given(st.text(), st.sampled_from(["sda", "eth0"]))
def test_no_text_breaks_a_reader(text: str, name: str) -> None:
    c.parse_diskstats(text, {name})
    c.parse_cpu(text)
    c.parse_net(text, {name})
    c.parse_process(text)
    c.parse_read_bytes(text)


@given(st.lists(st.integers(0, 2**63), min_size=8, max_size=8), st.floats(0.001, 1e4))
def test_rates_are_never_negative_nor_infinite(counts: list[int], seconds: float) -> None:
    zero = c.DiskCount(*[0] * 8)
    sample = c.disk_sample("sda", zero, c.DiskCount(*counts), seconds, 0.0)
    assert sample is not None
    values = (sample.reads_s, sample.read_bytes_s, sample.queue, sample.busy)
    assert all(value is not None and 0 <= value < math.inf for value in values)
