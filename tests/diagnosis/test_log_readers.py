"""Reading what the tools print: the same samples whatever version, locale and unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import shapes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ai4infra.diagnosis.dcgm import read_dcgm
from ai4infra.diagnosis.dmon import read_dmon
from ai4infra.diagnosis.iostat import HELD_SAMPLES, read_iostat
from ai4infra.diagnosis.logs import LogSource, kind_of
from ai4infra.diagnosis.samples import CpuSample, DiskSample, GpuSample, NetSample, Notes, Sample
from ai4infra.diagnosis.sar import read_sar
from ai4infra.diagnosis.smi_csv import read_smi_csv
from ai4infra.diagnosis.sysstat_json import read_sysstat_json
from ai4infra.diagnosis.text import Clock, number, time_of_day
from ai4infra.errors import UsageError

Reader = Callable[[Iterable[str], Notes], Iterator[Sample]]
READERS: list[Reader] = [
    read_dmon,
    read_dcgm,
    read_smi_csv,
    read_iostat,
    read_sar,
    read_sysstat_json,
]
LOGS = pytest.mark.parametrize("log", shapes.EVERY_LOG.values(), ids=shapes.EVERY_LOG)


def read(reader: Reader, text: str) -> tuple[list[Any], Notes]:
    notes = Notes()
    return list(reader(text.splitlines(keepends=True), notes)), notes


def rounded(sample: Any) -> Any:
    fields = {name: getattr(sample, name) for name in sample.__struct_fields__}
    return replace(
        sample, **{k: float(f"{v:.9g}") for k, v in fields.items() if isinstance(v, float)}
    )


def any_log(text: str) -> list[Any]:
    return list(LogSource(text.splitlines(keepends=True), "log").samples())


# --- iostat


@pytest.mark.parametrize("log", shapes.EXTENDED.values(), ids=shapes.EXTENDED)
def test_every_version_of_iostat_gives_the_same_samples(log: str) -> None:
    found, notes = read(read_iostat, log)
    assert [rounded(sample) for sample in found] == [
        rounded(shapes.CPU),
        rounded(shapes.SDA),
        rounded(shapes.NVME),
    ]
    assert (notes.since_boot, notes.cpus, notes.skipped) == ("dropped", 96, 0)


def test_json_gives_the_same_samples_as_text() -> None:
    found, notes = read(read_sysstat_json, shapes.JSON)
    assert [rounded(s) for s in found] == [
        rounded(s) for s in (shapes.CPU, shapes.SDA, shapes.NVME)
    ]
    assert (notes.since_boot, notes.cpus, notes.skipped, notes.cut) == ("dropped", 96, 0, False)


@pytest.mark.parametrize("command", ["$ iostat -xy 1 60\n", "root@vm:~# iostat -d -yx 1\n"])
def test_the_first_report_counts_where_the_command_has_y(command: str) -> None:
    log = command + shapes.SYSSTAT_12
    found, notes = read(read_iostat, log)
    assert len(found) == 5
    assert notes.since_boot == "none"


def test_the_second_blank_line_of_y_tells_that_the_first_report_counts() -> None:
    log = shapes.SYSSTAT_12.replace("\n\navg-cpu", "\n\n\navg-cpu", 1)
    assert len(read(read_iostat, log)[0]) == 5


def test_a_report_without_a_second_one_counts_and_is_said() -> None:
    log = shapes.LINUX + "\n" + shapes.HEADER_12 + shapes.NOW_12
    found, notes = read(read_iostat, log)
    assert [sample.device for sample in found] == ["sda", "nvme0n1"]
    assert notes.since_boot == "kept"
    assert "since boot" in " ".join(notes.remarks())


def test_reports_without_cpus_begin_where_a_device_comes_again() -> None:
    log = shapes.reports(shapes.HEADER_12, shapes.BOOT_12, shapes.NOW_12, cpu=False)
    found, notes = read(read_iostat, log)
    assert [rounded(sample) for sample in found] == [rounded(shapes.SDA), rounded(shapes.NVME)]
    assert notes.since_boot == "dropped"


def test_two_logs_in_one_file_drop_a_first_report_each() -> None:
    assert (
        read(read_iostat, shapes.SYSSTAT_12 * 2)[0] == read(read_iostat, shapes.SYSSTAT_12)[0] * 2
    )


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("01/05/2026 08:47:02", 31622),
        ("01/05/2026 08:47:02 PM", 74822),
        ("2026-01-05T08:47:02+0000", 31622),
        ("05.01.2026 08:47:02", 31622),
        ("2026年01月05日 08時47分02秒", 31622),
        ("05.01.2026 8.47.02", 31622),
    ],
)
def test_the_time_of_a_report_is_read_in_any_locale(stamp: str, seconds: float) -> None:
    log = f"{shapes.LINUX}\n{stamp}\n{shapes.HEADER_12}{shapes.NOW_12}\n"
    assert {sample.time_s for sample in read(read_iostat, log)[0]} == {seconds}


@pytest.mark.parametrize(
    ("header", "row", "wanted"),
    [
        (
            "Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util",
            "sda 50.00 6144.00 3.00 10.40 122.88 0.52 45.00",
            DiskSample(
                device="sda",
                operations_s=50,
                total_bytes_s=6144 * 1024,
                wait_s=0.0104,
                queue=0.52,
                busy=0.45,
            ),
        ),
        (
            "Device:            tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn",
            "sda 50.00 5120.00 1024.00 5120 1024",
            DiskSample(
                device="sda",
                operations_s=50,
                read_bytes_s=5120 * 1024,
                write_bytes_s=1024 * 1024,
            ),
        ),
        (
            "Device:            tps   Blk_read/s   Blk_wrtn/s   Blk_read   Blk_wrtn",
            "sda 50.00 10240.00 2048.00 10240 2048",
            DiskSample(
                device="sda",
                operations_s=50,
                read_bytes_s=5120 * 1024,
                write_bytes_s=1024 * 1024,
            ),
        ),
    ],
)
def test_short_reports_give_what_they_have(header: str, row: str, wanted: DiskSample) -> None:
    found, _ = read(read_iostat, f"{header}\n{row}\n")
    assert [rounded(sample) for sample in found] == [rounded(wanted)]


def test_a_value_that_is_not_a_number_is_unknown() -> None:
    log = f"{shapes.HEADER_12}{shapes.NOW_12.replace(' 12.50 ', ' -nan ')}"
    assert read(read_iostat, log)[0][0] == replace(shapes.SDA, read_wait_s=None)


def test_memory_stays_bounded_when_a_report_never_ends() -> None:
    def endless() -> Iterator[str]:
        yield shapes.HEADER_12
        for count in range(HELD_SAMPLES + 2):
            yield shapes.NOW_12.split("\n")[0].replace("sda", f"sd{count}") + "\n"

    reader = read_iostat(endless(), Notes())
    assert next(reader).device == "sd0"  # type: ignore[union-attr]


# --- broken JSON


@pytest.mark.parametrize(
    ("broken", "cut"),
    [
        (shapes.JSON_HEAD + shapes.JSON_BOOT + ",\n" + shapes.JSON_NOW, True),
        (shapes.JSON.replace("},\n" + " " * 24 + '{"disk', "}\n" + " " * 24 + '{"disk'), False),
        (f"{shapes.JSON_HEAD},\n{shapes.JSON_NOW}{shapes.JSON_TAIL}", False),
        (shapes.JSON_Y, False),
        (shapes.JSON.replace(".00", ",00").replace(".50", ",50"), False),
        (shapes.JSON.replace("\n", "\r\n"), False),
        (" ".join(shapes.JSON.split()), False),
    ],
    ids=["no end", "no comma", "comma of -y", "-y", "decimal commas", "CRLF", "one line"],
)
def test_broken_json_gives_what_is_whole_in_it(broken: str, cut: bool) -> None:
    found, notes = read(read_sysstat_json, broken)
    assert [type(sample) for sample in found] == [CpuSample, DiskSample, DiskSample]
    assert [s.device for s in found[1:]] == ["sda", "nvme0n1"]
    assert notes.cut == cut


def test_json_that_ends_in_a_row_gives_the_rows_before_it() -> None:
    cut = shapes.JSON[: shapes.JSON.rindex("nvme0n1") + 30]
    found, notes = read(read_sysstat_json, cut)
    assert [sample.device for sample in found[1:]] == ["sda"]
    assert notes.cut


def test_json_in_pieces_of_any_size_gives_the_same() -> None:
    whole, _ = read(read_sysstat_json, shapes.JSON)
    for size in (1, 7, 1000, 100_000):
        pieces = [shapes.JSON[at : at + size] for at in range(0, len(shapes.JSON), size)]
        assert list(read_sysstat_json(pieces, Notes())) == whole


def test_sadf_names_its_columns_in_its_own_way() -> None:
    log = """{"sysstat": {"hosts": [{"number-of-cpus": 4, "statistics": [
    {"timestamp": {"date": "2026-01-05", "time": "08:47:02", "utc": 1, "interval": 1},
    "cpu-load": [{"cpu": "all", "user": 30.0, "nice": 1.0, "system": 5.0, "iowait": 4.0,
     "steal": 0.0, "idle": 60.0}],
    "disk": [{"disk-device": "sda", "tps": 50.0, "rkB": 5120.0, "wkB": 1024.0, "aqu-sz": 0.52,
     "await": 10.4, "util-percent": 45.0}],
    "network": {"net-dev": [{"iface": "eth0", "rxpck": 1.0, "rxkB": 60000.0, "txkB": 600.0}]}}
    ]}]}}"""
    found, _ = read(read_sysstat_json, log)
    assert [type(sample) for sample in found] == [CpuSample, DiskSample, NetSample]
    assert {sample.time_s for sample in found} == {31622}
    assert (found[1].read_bytes_s, found[2].received_bytes_s) == (5120 * 1024, 60000 * 1024)


# --- sar


@pytest.mark.parametrize(
    "log", [shapes.SAR_CPU, shapes.SAR_CPU_ALL, shapes.SAR_JAPANESE, shapes.SAR_FRENCH]
)
def test_every_form_of_cpu_table_gives_the_same_sample(log: str) -> None:
    found, notes = read(read_sar, log)
    assert [rounded(s) for s in found] == [rounded(replace(shapes.CPU, time_s=31622.0))]
    assert (notes.cpus, notes.skipped) == (96, 0)


def test_mpstat_gives_all_cpus_and_each() -> None:
    found, _ = read(read_sar, shapes.MPSTAT)
    assert rounded(found[0]) == rounded(replace(shapes.CPU, time_s=31622.0))
    assert (found[1].cpu, found[1].user) == ("0", 1.0)


@pytest.mark.parametrize("log", [shapes.SAR_DISK_10, shapes.SAR_DISK_12, shapes.SAR_DISK_PRETTY])
def test_every_form_of_disk_table_gives_the_same_sample(log: str) -> None:
    wanted = DiskSample(
        time_s=31622.0,
        device="sda",
        operations_s=50.0,
        read_bytes_s=5120 * 1024.0,
        write_bytes_s=1024 * 1024.0,
        wait_s=0.0104,
        queue=0.52,
        busy=0.45,
    )
    assert [rounded(sample) for sample in read(read_sar, log)[0]] == [rounded(wanted)]


def test_network_tables_give_bytes() -> None:
    found, _ = read(read_sar, shapes.SAR_NET)
    assert found[1] == NetSample(
        time_s=31622.0,
        interface="eth0",
        received_bytes_s=60000 * 1024.0,
        sent_bytes_s=600 * 1024.0,
    )
    assert len(found) == 2


def test_am_and_pm_and_midnight_are_understood() -> None:
    hours = [(s.time_s or 0) / 3600 for s in read(read_sar, shapes.SAR_HALF_DAY)[0]]
    assert [round(hour, 2) for hour in hours] == [12, 13, 24, 24]


def test_tables_of_other_things_are_passed_over() -> None:
    log = """08:47:01    kbmemfree   kbavail kbmemused  %memused
08:47:02      1234567   2345678   3456789     47.11
08:47:01        IFACE   rxerr/s   txerr/s    coll/s
08:47:02         eth0      0.00      0.00      0.00
"""
    assert read(read_sar, shapes.SAR_NET + log)[0] == read(read_sar, shapes.SAR_NET)[0]


def test_a_restart_between_tables_does_not_end_the_log() -> None:
    log = shapes.SAR_NET + "\n08:50:00     LINUX RESTART\t(48 CPU)\n\n" + shapes.SAR_NET
    assert len(read(read_sar, log)[0]) == 4


# --- nvidia-smi


def test_dmon_columns_are_found_by_their_names() -> None:
    new, _ = read(read_dmon, shapes.DMON)
    old, _ = read(read_dmon, shapes.DMON_OLD)
    assert new[0] == GpuSample(
        gpu="0",
        utilization=0.35,
        memory_activity=0.12,
        memory_used_bytes=43210 * 2**20,
        power_w=321,
        sm_clock_mhz=1980,
    )
    assert [replace(sample, memory_used_bytes=None) for sample in new] == old


def test_dmon_times_pass_midnight() -> None:
    found, notes = read(read_dmon, shapes.DMON_DATED)
    assert [sample.time_s for sample in found] == [86399, 86399, 86400, 86400]
    assert notes.skipped == 0


def test_a_dash_is_unknown_and_not_zero() -> None:
    assert (
        read(read_dmon, shapes.DMON_OLD.replace("    0     0  2619   345", "    -     -  -  -"))[0][
            1
        ].utilization
        == 0
    )
    unknown, _ = read(read_dmon, shapes.DMON_OLD.replace("38     -     0     0", "38     - - -"))
    assert unknown[1].utilization is unknown[1].memory_activity is None


def test_instances_of_a_split_gpu_are_told_apart() -> None:
    log = "# gpu   mig   pwr    sm\n    0     1   100     -\n    0     -   100    20\n"
    assert [sample.gpu for sample in read(read_dmon, log)[0]] == ["0/1", "0"]


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        (
            "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
            "0000:3B:00.0",
        ),
        ("Unable to determine the device handle for GPU1: 0000:01:00.0: Unknown Error", "1"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver"),
        ("No devices were found", "driver"),
    ],
)
def test_a_lost_gpu_is_a_finding_and_the_others_are_read(line: str, gpu: str) -> None:
    found, notes = read(read_dmon, f"{shapes.DMON}{line}\n{shapes.DMON}")
    assert len(found) == 4
    assert notes.lost_gpus == {gpu: line}


def test_a_query_log_is_read_by_its_header() -> None:
    found, notes = read(read_smi_csv, shapes.QUERY_CSV)
    assert found[0] == GpuSample(
        time_s=31622,
        gpu="0",
        utilization=0.35,
        memory_activity=0.12,
        memory_used_bytes=43210 * 2**20,
        power_w=321.4,
        power_limit_w=700,
        mig=False,
    )
    assert (found[1].utilization, found[1].mig) == (None, True)
    assert notes.gpu_model == "NVIDIA H100 80GB HBM3"


def test_a_query_log_without_units_is_the_same() -> None:
    bare = shapes.QUERY_CSV
    for unit in (" %,", " MiB,", " W,"):
        bare = bare.replace(unit, ",")
    assert read(read_smi_csv, bare)[0] == read(read_smi_csv, shapes.QUERY_CSV)[0]


# --- dcgmi


def test_dcgmi_tells_of_instances_in_place_of_the_gpu_that_is_split() -> None:
    found, notes = read(read_dcgm, shapes.DCGM)
    assert [(s.gpu, s.utilization) for s in found] == [
        ("0/0", None),
        ("0/1", 0.75),
        ("1", 0.982),
        ("0/0", 0),
        ("0/1", 1),
        ("1", 0.984),
    ]
    assert (found[1].memory_activity, found[1].memory_used_bytes) == (0.8, 20411 * 2**20)
    assert notes.skipped == 0


def test_compute_instances_stand_for_the_instance_that_they_are_part_of() -> None:
    log = (
        "# Entity  GRACT  POWER\n      Id\n   GPU 1  0.5  300.0\n  GPU-I 7  0.5  N/A\n"
        " GPU-CI 9  0.6  N/A\n GPU-CI 10  0.4  N/A\n"
    )
    assert [s.gpu for s in read(read_dcgm, log)[0]] == ["1/7/9", "1/7/10"]


def test_an_instance_without_its_gpu_has_the_name_that_dcgmi_takes() -> None:
    log = "#Entity GPUTL\nID\nGPU-CI 4 40\nGPU-I 3 50\nNVSwitch 0 1\n"
    found, notes = read(read_dcgm, log + "\n\ndmon was stopped do to receiving a signal\n")
    assert [(s.gpu, s.utilization) for s in found] == [("ci:4", 0.4), ("i:3", 0.5)]
    assert notes.skipped == 0


# --- what holds for all of them


@LOGS
def test_every_log_is_known_by_its_first_lines(log: str) -> None:
    assert any_log(log)


@LOGS
def test_line_ends_of_windows_change_nothing(log: str) -> None:
    assert any_log(log.replace("\n", "\r\n")) == any_log(log)


@LOGS
def test_lines_without_line_ends_change_nothing(log: str) -> None:
    if not log.startswith("{"):
        assert list(LogSource(log.splitlines(), "log").samples()) == any_log(log)


@LOGS
def test_headers_that_come_again_change_nothing(log: str) -> None:
    lines = log.splitlines(keepends=True)
    repeated = [
        each
        for line in lines
        for each in ([line, line] if line.startswith(("#", "Device", "timestamp")) else [line])
    ]
    assert any_log("".join(repeated)) == any_log(log)


@LOGS
def test_a_cut_tail_costs_the_last_line_and_nothing_else(log: str) -> None:
    last = log.rstrip("\n").split("\n")[-1]
    if log.startswith("{"):
        return
    for length in range(1, len(last)):
        assert any_log(log + last[:length])[: len(any_log(log))] == any_log(log)
        assert len(any_log(log + last[:length])) == len(any_log(log))


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "a,b,c\n1,2,3\n", "<html></html>"])
def test_what_is_no_log_is_refused(text: str) -> None:
    assert kind_of(text.splitlines()) is None
    with pytest.raises(UsageError, match="no log that can be read"):
        any_log(text)


numbers = st.floats(0, 1e7).map(lambda value: f"{value:.2f}")
words = st.sampled_from(
    [
        *shapes.DMON.split(),
        *shapes.DCGM.split(),
        *shapes.SYSSTAT_12.split(),
        *shapes.SAR_NET.split(),
        "-",
        "-nan",
        "inf",
    ]
)
lines = st.lists(st.lists(words | numbers | st.text(max_size=8), max_size=14).map(" ".join))
ends = st.sampled_from(["\n", "\r\n", ""])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(READERS), lines, ends)
@example(read_iostat, ["Device tps", "Device tps", "avg-cpu: %idle", "1"], "\n")
@example(read_sar, ["08:47:02 CPU %idle", "08:47:02 all 1e400"], "\n")
def test_no_lines_make_a_reader_fail(reader: Reader, text: list[str], end: str) -> None:
    list(reader([line + end for line in text], Notes()))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(READERS), st.sampled_from([*shapes.EVERY_LOG.values()]), st.data())
def test_no_damage_to_a_log_makes_a_reader_fail(
    reader: Reader, log: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(log)))
    log = log[:at] + data.draw(st.text(max_size=6)) + log[data.draw(st.integers(at, len(log))) :]
    for sample in reader(log.splitlines(keepends=True), Notes()):
        values = [getattr(sample, name) for name in sample.__struct_fields__]
        assert all(0 <= v < float("inf") for v in values if isinstance(v, float))


@settings(max_examples=100, deadline=None)
@given(st.permutations(shapes.DMON_DATED.splitlines(keepends=True)[2:4]))
def test_the_order_of_gpus_in_a_reading_does_not_matter(rows: list[str]) -> None:
    log = shapes.DMON_DATED.splitlines(keepends=True)
    found = any_log("".join([*log[:2], *rows, *log[4:]]))
    assert sorted(found, key=lambda s: (s.time_s, s.gpu)) == any_log(shapes.DMON_DATED)


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_unknown(text: str) -> None:
    value = number(text)
    assert value is None or 0 <= value < 1e18
    assert time_of_day(text) is None or 0 <= (time_of_day(text) or 0) <= 86400
    Clock().of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("1,5", 1.5), ("1.2M", 1.2 * 2**20), ("9.3%", 9.3), ("0.0B", 0), ("12k", 12288)],
)
def test_numbers_are_read_with_their_suffix(text: str, value: float) -> None:
    assert number(text) == pytest.approx(value)
