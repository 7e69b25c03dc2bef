"""Tell what a log is by its first lines, and read it with the reader of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal

import msgspec

from ai4infra.diagnosis.dcgm import column_names, read_dcgm
from ai4infra.diagnosis.dmon import header_names, is_driver_message, read_dmon
from ai4infra.diagnosis.iostat import read_iostat
from ai4infra.diagnosis.samples import Host, Notes, Sample, decode_capture
from ai4infra.diagnosis.sar import header_of, read_sar
from ai4infra.diagnosis.smi_csv import is_header, read_smi_csv
from ai4infra.diagnosis.sysstat import is_device_header
from ai4infra.diagnosis.sysstat_json import read_sysstat_json
from ai4infra.errors import UsageError

LogKind = Literal["capture", "dmon", "dcgm", "smi-csv", "iostat", "sar", "sysstat-json"]
SNIFFED_LINES = 200
Read = Callable[[Iterable[str], Notes], Iterator[Sample]]
_READERS: dict[LogKind, Read] = {
    "dmon": read_dmon,
    "dcgm": read_dcgm,
    "smi-csv": read_smi_csv,
    "iostat": read_iostat,
    "sar": read_sar,
    "sysstat-json": read_sysstat_json,
}


class LogSource:
    """A log or capture as a source of samples; ``name`` is what messages call it."""

    def __init__(self, lines: Iterable[str], name: str, notes: Notes | None = None) -> None:
        self._lines = lines
        self._name = name
        self.notes = notes or Notes()
        self._host = Host()

    @property
    def host(self) -> Host:
        """What the log says of the machine, complete once the samples have been read."""
        if self._host.cpus or not (self.notes.cpus or self.notes.gpu_model):
            return self._host
        return Host(cpus=self.notes.cpus, gpu_model=self.notes.gpu_model)

    def samples(self) -> Iterator[Sample]:
        """Return the samples. Raises UsageError when the log is of no kind that is known."""
        lines = iter(self._lines)
        first = list(islice(lines, SNIFFED_LINES))
        kind = kind_of(first)
        if kind is None:
            raise UsageError(
                f"{self._name} is no log that can be read.",
                hint=_instead(first)
                or "Known: nvidia-smi dmon, nvidia-smi --query-gpu with its header, dcgmi dmon,"
                " iostat, sar -u, -d or -n DEV, mpstat, their JSON, captures of diagnose watch.",
            )
        everything = chain(first, lines)
        read = self._capture if kind == "capture" else _READERS[kind]
        samples = read(everything, self.notes)
        sample = next(samples, None)
        if sample is None:
            return samples
        self.notes.empty = False
        # Passing each of millions through one more generator takes a while.
        return chain((sample,), samples)

    def _capture(self, lines: Iterable[str], notes: Notes) -> Iterator[Sample]:
        for line in decode_capture(lines, notes):
            if isinstance(line, Host):
                self._host = line
            else:
                yield line


def kind_of(lines: Sequence[str]) -> LogKind | None:
    """Return what kind of log begins with these lines; None when it is none that is known."""
    start = next((line.lstrip(" \t\ufeff") for line in lines if line.strip()), "")
    if start.startswith(("{", "[")):
        return "capture" if '"captureVersion"' in start else "sysstat-json"
    return next(filter(None, map(_kind_of_line, lines)), None)


_GPU_LOG = "`nvidia-smi dmon -s pum -o DT > gpu.txt` logs them."
_INSTEAD = (
    (r"Driver Version:|NVSMI LOG|<nvidia_smi_log", f"It shows the GPUs at one moment: {_GPU_LOG}"),
    (r"^#\s*gpu\s+pid\b", f"nvidia-smi pmon tells of processes, not of GPUs: {_GPU_LOG}"),
    (r"^\s*pid\s*,|,\s*pid\s*,", f"This query tells of processes, not of GPUs: {_GPU_LOG}"),
    (
        r"ROCm|rocm-smi|amd-smi|\bGFX_|\bGFX%",
        "The tools of AMD GPUs are not read; disks, network and CPUs are, without them.",
    ),
    (r"^procs -+memory", "vmstat tells no disk from another: `iostat -xyt 1 > disk.txt` does."),
    (
        r"^\s*[\w/:. -]+,.*(?: %|MiB|\d W)|^\s*\d+(?:\s*,\s*[\d.]+)+\s*$|^\s*\d+ %\s*$",
        "Without a header nobody can tell the columns: log without `noheader`.",
    ),
)


def _instead(lines: Sequence[str]) -> str | None:
    """Return what to do about a log that is known not to help."""
    for pattern, hint in _INSTEAD:
        if any(re.search(pattern, line[:_SHOWN], re.IGNORECASE) for line in lines):
            return hint
    return None


_SHOWN = 500


def _kind_of_line(line: str) -> LogKind | None:
    fields = line.split()
    if not fields:
        return None
    if fields[0].startswith("#"):
        return "dmon" if header_names(line) else "dcgm" if column_names(line) else None
    if is_header(line):
        return "smi-csv"
    if fields[0] == "avg-cpu:" or fields[-1] in ("Device", "Device:") or is_device_header(fields):
        return "iostat"
    if is_driver_message(line):
        return "dmon"
    return "sar" if len(fields) > 2 and header_of(fields) else None


def one_host(hosts: Iterable[Host]) -> Host:
    """Return what several sources say of one machine: the first that knows a thing tells it."""
    known = list(hosts)
    default = Host()
    told = {
        name: next((value for host in known if (value := getattr(host, name))), None)
        for name in default.__struct_fields__
    }
    return msgspec.structs.replace(default, **{k: v for k, v in told.items() if v is not None})
