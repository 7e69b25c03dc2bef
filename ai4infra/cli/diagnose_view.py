"""What ``diagnose watch`` shows while it samples: one picture on a terminal, renewed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    NetSample,
    ProcessSample,
    Sample,
)

BAR = 20
NAME, VALUE = 24, 24
MOST_ROWS = 4
"""Of disks, interfaces and processes each: the busiest."""
HEALTHY, LOW = 0.8, 0.1
_MBYTE = 1e6


Show = Callable[[Sequence[Sample], float], None]
"""Shows the samples of one moment, and the seconds that are left."""


@contextmanager
def on_terminal() -> Iterator[Show]:
    """Yield what shows each moment on stderr in the place of the one before; nothing stays."""
    # No thread of its own: the picture changes when there is something new.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield lambda moment, left_s: live.update(picture(moment, left_s), refresh=True)


def picture(moment: Sequence[Sample], left_s: float) -> Text:
    """Return one moment as text; one text costs a tenth of a table of cells."""
    text = Text(no_wrap=True, overflow="crop")
    for sample in moment:
        if isinstance(sample, GpuSample):
            _gpu(text, sample)
    disks = [s for s in moment if isinstance(s, DiskSample)]
    for disk in sorted(disks, key=lambda d: -(d.read_bytes_s or 0))[:MOST_ROWS]:
        wait = "" if disk.read_wait_s is None else f"{disk.read_wait_s * 1000:.1f} ms a read"
        _line(text, disk.device, f"{_rate(disk.read_bytes_s)} read", wait)
    nets = [s for s in moment if isinstance(s, NetSample)]
    for net in sorted(nets, key=lambda n: -(n.received_bytes_s or 0))[:MOST_ROWS]:
        _line(text, net.interface, f"{_rate(net.received_bytes_s)} received", "")
    for sample in moment:
        if isinstance(sample, CpuSample):
            _cpu(text, sample)
    processes = [s for s in moment if isinstance(s, ProcessSample) and s.role != "trainer"]
    for process in sorted(processes, key=lambda p: -(p.io_wait or 0))[:MOST_ROWS]:
        _process(text, process)
    left = f"{max(0.0, left_s):.0f} s left; Ctrl-C ends it with the verdict so far"
    return text.append(left, "dim")


def _gpu(text: Text, sample: GpuSample) -> None:
    power = "" if sample.power_w is None else f"{sample.power_w:.0f} W"
    memory = "" if sample.memory_activity is None else f"memory {_percent(sample.memory_activity)}"
    text.append(f"GPU {sample.gpu}".ljust(NAME))
    if sample.utilization is None:
        _rest(text, "MIG" if sample.mig else "?", power)
        return
    filled = round(min(1.0, sample.utilization) * BAR)
    healthy, low = sample.utilization >= HEALTHY, sample.utilization < LOW
    text.append("█" * filled, "green" if healthy else "red" if low else "yellow")
    text.append("·" * (BAR - filled) + " ", "dim")
    _rest(text, f"{_percent(sample.utilization)}  {memory}", power)


def _cpu(text: Text, sample: CpuSample) -> None:
    busy = (sample.user or 0) + (sample.system or 0)
    wait = "" if sample.iowait is None else f"{_percent(sample.iowait)} waiting"
    _line(text, "CPUs", f"{_percent(busy)} busy", wait)


def _process(text: Text, sample: ProcessSample) -> None:
    wait = "" if sample.io_wait is None else f"{_percent(sample.io_wait)} waiting for data"
    _line(text, f"{sample.name[:15]} {sample.pid}", f"{_rate(sample.read_bytes_s)} read", wait)


def _line(text: Text, name: str, value: str, more: str) -> None:
    # A process names itself, and could move the cursor with it.
    shown = "".join(each if each.isprintable() else "?" for each in name)
    text.append(shown[: NAME - 1].ljust(NAME))
    _rest(text, value, more)


def _rest(text: Text, value: str, more: str) -> None:
    text.append(f"{value:<{VALUE}}{more}\n")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _rate(bytes_s: float | None) -> str:
    return "?" if bytes_s is None else f"{bytes_s / _MBYTE:,.0f} MB/s"
