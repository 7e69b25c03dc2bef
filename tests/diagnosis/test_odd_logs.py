"""Logs as people really have them: other formats, other tools, other encodings, other days."""

from __future__ import annotations

import bz2
import lzma
from pathlib import Path
from typing import Any

import pytest
import shapes

from ai4infra.diagnosis.files import opened
from ai4infra.diagnosis.logs import LogSource
from ai4infra.diagnosis.samples import Notes
from ai4infra.diagnosis.text import days_in, days_of
from ai4infra.errors import Ai4infraError, UsageError


def samples(text: str) -> list[Any]:
    return list(LogSource(text.splitlines(keepends=True), "log").samples())


def refusal(text: str) -> str:
    with pytest.raises(UsageError, match="no log that can be read") as caught:
        samples(text)
    return str(caught.value.hint)


# --- nvidia-smi


@pytest.mark.parametrize("separator", [", ", ","])
def test_dmon_as_csv_is_the_same(separator: str) -> None:
    lines = []
    for line in shapes.DMON_DATED.splitlines():
        mark, words = ("#", line[1:].split()) if line.startswith("#") else ("", line.split())
        lines.append(mark + separator.join(words))
    assert samples("\n".join(lines) + "\n") == samples(shapes.DMON_DATED)


def test_dmon_as_csv_without_its_units_is_the_same() -> None:
    lines = [",".join(line.replace("#", "#").split()) for line in shapes.DMON_OLD.splitlines()]
    del lines[1]
    lines[0] = lines[0].replace("#,", "#")
    assert samples("\n".join(lines) + "\n") == samples(shapes.DMON_OLD)


def test_a_split_gpu_is_as_busy_as_its_engines() -> None:
    log = "# gpu    pwr     sm    mem      gract\n# Idx      W      %      %      GPM:%\n"
    found = samples(
        log + "    0    321      -      -       34.0\n    1    321     50      -   34.0\n"
    )
    assert [sample.utilization for sample in found] == [0.34, 0.5]


def test_violations_and_errors_of_a_gpu_are_not_its_utilisation() -> None:
    log = (
        "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk pviol tviol    fb  bar1"
        " sbecc dbecc   pci rxpci txpci\n"
        "# Idx     W     C     C     %     %     %     %   MHz   MHz     %  bool    MB    MB  errs"
        "  errs  errs  MB/s  MB/s\n"
        "    0   399    61    70    99    55     0     0  1593  1095    80     0 40000     5     0"
        "     0     0   900    30\n"
        "    1  ERR!  ERR!  ERR!  ERR!  ERR!     -     -  ERR!  ERR!     -     - 40000     5     -"
        "     -     -     -     -\n"
    )
    first, second = samples(log)
    assert (first.utilization, first.received_bytes_s) == (0.99, 900 * 2**20)
    assert (second.utilization, second.power_w) == (None, None)


@pytest.mark.parametrize(
    "header",
    [
        "utilization.gpu [%]",
        "utilization.gpu [%], memory.used [MiB]",
        "power.draw [W], utilization.gpu [%], memory.used [MiB]",
    ],
)
def test_a_query_without_an_index_is_read(header: str) -> None:
    cells = {"utilization.gpu [%]": "12 %", "memory.used [MiB]": "9 MiB", "power.draw [W]": "80 W"}
    row = ", ".join(cells[name] for name in header.split(", "))
    assert samples(f"{header}\n{row}\n")[0].utilization == 0.12


def test_a_query_says_unknown_in_many_words() -> None:
    head = "index, utilization.gpu [%], power.draw [W]\n"
    said = ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "ERR!", "N/A", "")
    found = samples(head + "".join(f"{at}, {word}, {word}\n" for at, word in enumerate(said)))
    assert {(s.utilization, s.power_w) for s in found} == {(None, None)}


TABLE = """\
Mon Jan  5 08:47:02 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H100 80GB HBM3          On  |   00000001:00:00.0 Off |                    0 |
| N/A   36C    P0            112W /  700W |   43210MiB /  81559MiB |     12%      Default |
"""
PMON = """\
# gpu         pid  type    sm    mem    enc    dec    command
# Idx           #   C/G     %      %      %      %    name
    0       12345     C    35     12      -      -    python
"""


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        (TABLE, "nvidia-smi dmon -s pum -o DT > gpu.txt"),
        (PMON, "tells of processes"),
        ("pid, process_name, used_gpu_memory [MiB]\n123, python, 43210 MiB\n", "of processes"),
        ("timestamp, pid, used_gpu_memory [MiB]\n2026/01/05, 1, 3 MiB\n", "of processes"),
        ("0, 35 %, 43210 MiB\n1, 36 %, 43210 MiB\n", "without `noheader`"),
        ("2026/01/05 08:47:02.117, 0, 35 %, 321.40 W\n", "without `noheader`"),
        ("35 %\n36 %\n", "without `noheader`"),
        ("0, 35, 43210\n", "without `noheader`"),
        ("<?xml version='1.0'?>\n<nvidia_smi_log>\n", "at one moment"),
        ("==============NVSMI LOG==============\n", "at one moment"),
        ("======== ROCm System Management Interface ========\n", "AMD"),
        ("procs -----------memory---------- ---swap--\n", "iostat -xyt"),
        ("hello\n", "Known: nvidia-smi dmon"),
    ],
)
def test_the_wrong_tool_is_named_with_the_right_one(log: str, hint: str) -> None:
    assert hint in refusal(log)


# --- sysstat


@pytest.mark.parametrize("title", ["Device:", "Gerät:", "Périphérique:", "设备:", "デバイス:"])
def test_a_translated_title_of_devices_is_one(title: str) -> None:
    translated = shapes.SYSSTAT_10.replace("Device:", title)
    assert samples(translated) == samples(shapes.SYSSTAT_10)
    lines = translated.splitlines(keepends=True)
    assert len(samples("".join([*lines[-5:]]))) == 2


def test_times_with_a_half_of_the_day_in_two_words_are_read() -> None:
    found = samples(shapes.SAR_HALF_DAY.replace(" PM ", " p. m. ").replace(" AM ", " a. m. "))
    assert len(found) == 4


def test_devices_that_sar_calls_by_number_have_their_names() -> None:
    log = shapes.SAR_DISK_12.replace("  sda ", " dev8-32 ")
    assert [sample.device for sample in samples(log)] == ["sdc"]
    assert samples(shapes.SAR_DISK_12.replace("sda", "dev8-33"))[0].device == "sdc1"
    assert samples(shapes.SAR_DISK_12.replace("sda", "dev259-3"))[0].device == "dev259-3"


@pytest.mark.parametrize(
    ("line", "days"),
    [
        ("Linux 6.8.0 (trainer) \t01/05/2026 \t_x86_64_", {"2026-01-05", "2026-05-01"}),
        ("Linux 6.8.0 (trainer) \t25.01.2026 \t_x86_64_", {"2026-01-25"}),
        ("Linux 6.8.0 (trainer) \t2026-01-05 \t_x86_64_", {"2026-01-05"}),
        ("Linux 6.8.0 (trainer) \t2026年01月05日 \t_x86_64_", {"2026-01-05"}),
        ("Linux 3.10.0-1160.el7.x86_64 (host)  01/13/23  _x86_64_", {"2023-01-13"}),
        ("Linux 6.8.0 (trainer)", set()),
    ],
)
def test_the_day_of_a_report_is_known_in_every_order(line: str, days: set[str]) -> None:
    assert days_in(line) == {days_of(day) for day in days}


# --- files


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_powershell_writes_is_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "gpu.txt"
    path.write_bytes(shapes.DMON_DATED.replace("\n", "\r\n").encode(encoding))
    with opened(path) as source:
        assert list(source.samples()) == samples(shapes.DMON_DATED)


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress])
def test_packed_logs_are_read_as_far_as_they_go(pack: Any, tmp_path: Path) -> None:
    path = tmp_path / "gpu.txt.packed"
    path.write_bytes(pack(shapes.DMON_DATED.encode()))
    with opened(path) as source:
        assert list(source.samples()) == samples(shapes.DMON_DATED)
    path.write_bytes(pack(shapes.DMON_DATED.encode())[:30])
    with pytest.raises(Ai4infraError), opened(path) as source:
        list(source.samples())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x28\xb5\x2f\xfd\x00\x01", "zstd -d"),
        (b"PK\x03\x04\x14\x00", "ZIP"),
        (b"\x96\xd5\x75\x21\x0c\x06", "sar -u -d -n DEV -f FILE"),
        (bytes(4096), "what the tools print"),
    ],
)
def test_what_is_no_text_is_refused_at_once(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no text") as caught, opened(path):
        pass
    assert said in str(caught.value.hint)


def test_json_in_one_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "disk.json"
    report = shapes.JSON_NOW.replace("\n", " ")
    text = shapes.JSON_HEAD.replace("\n", " ") + ", ".join([report] * 400) + " ]}]}}"
    path.write_text(text, "utf-8")
    with opened(path) as source:
        found = list(source.samples())
    assert len(found) == 399 * 3
    assert source.notes.skipped == 0


def test_a_file_of_no_lines_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 3_000_000)
    with opened(path) as source, pytest.raises(UsageError, match="no log"):
        list(source.samples())


def test_the_day_of_dated_rows_is_noted() -> None:
    for log in (shapes.DMON_DATED, shapes.QUERY_CSV):
        notes = Notes()
        list(LogSource(log.splitlines(keepends=True), "log", notes).samples())
        assert notes.days == {days_of("2026-01-05")}
