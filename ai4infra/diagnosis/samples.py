"""Samples of one machine, whoever took them, and the capture file that keeps them.

Everything is in base units: bytes, seconds, watts, fractions of one. None is unknown, never zero.
``time_s`` counts seconds on the source's own clock; text logs count from midnight of their first
day. None means that the source does not say when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, TypeAlias

import msgspec

from ai4infra.errors import UsageError
from ai4infra.model import Record

CAPTURE_VERSION = "1.0"
"""Version of the capture file; the major part changes when a field goes or means another thing."""

DiskClass = Literal["local-nvme", "remote-nvme", "temp", "os", "managed", "hdd"]
MountKind = Literal["local", "smb", "nfs", "blobfuse2", "lustre", "other"]


class GpuSample(Record, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="gpu"):
    """One reading of one GPU."""

    time_s: float | None = None
    gpu: str
    """Index, or UUID or bus id where the log has no index; ``0/1`` is instance 1 of GPU 0 (MIG)."""
    utilization: float | None = None
    """Share of time with a kernel running: full at one busy SM of a hundred."""
    memory_activity: float | None = None
    """Share of time in which GPU memory was read or written."""
    memory_used_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    received_bytes_s: float | None = None
    """Over PCIe, into the GPU."""
    mig: bool | None = None
    """True where the GPU is split (MIG) and therefore has no utilisation."""


class DiskSample(Record, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="disk"):
    """One reading of one block device."""

    time_s: float | None = None
    device: str
    reads_s: float | None = None
    writes_s: float | None = None
    operations_s: float | None = None
    """All requests a second, where they are not told apart."""
    read_bytes_s: float | None = None
    write_bytes_s: float | None = None
    total_bytes_s: float | None = None
    """All bytes a second, where they are not told apart."""
    read_wait_s: float | None = None
    """Time of a read request from issue to answer, queueing included."""
    write_wait_s: float | None = None
    wait_s: float | None = None
    """The same of all requests, where they are not told apart."""
    queue: float | None = None
    """Requests in flight, on average."""
    busy: float | None = None
    """Share of time with a request in flight (%util), at most 1; no saturation on NVMe."""


class NetSample(Record, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="net"):
    """One reading of one network interface."""

    time_s: float | None = None
    interface: str
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None


class CpuSample(Record, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="cpu"):
    """One reading of all CPUs together (``all``) or of one of them."""

    time_s: float | None = None
    cpu: str
    user: float | None = None
    """Nice and guests included."""
    system: float | None = None
    """Interrupts included."""
    iowait: float | None = None
    steal: float | None = None
    idle: float | None = None


class ProcessSample(Record, frozen=True, kw_only=True, gc=False, tag_field="kind", tag="process"):
    """One reading of a process that feeds the GPUs: a loader, or the daemon of a mount."""

    time_s: float | None = None
    pid: int
    name: str
    role: Literal["loader", "trainer", "mount"]
    cpu_cores: float | None = None
    """CPU time used a second: 1 is one whole core."""
    io_wait: float | None = None
    """Share of time blocked on block devices (delay accounting)."""
    read_bytes_s: float | None = None
    """As read() returned it, cached or not."""
    gpu: str | None = None
    """GPU whose rank it feeds, where that is known."""


class DiskFacts(Record, frozen=True, kw_only=True):
    """What a block device is."""

    device: str
    disk_class: DiskClass | None = None
    ceiling_bytes_s: float | None = None
    """What the device or its VM can read."""


class MountFacts(Record, frozen=True, kw_only=True):
    """What stands behind the path that the data is read from."""

    path: str
    mount_kind: MountKind
    device: str | None = None
    """Block device, for local file systems and for the cache of a mount."""
    cache_class: DiskClass | Literal["none"] | None = None
    """What the cache of a remote mount lies on; ``none`` is no cache."""
    interface: str | None = None
    source: str | None = None
    """What is mounted: ``ACCOUNT/CONTAINER`` of BlobFuse2, the server and share of others."""


class InterfaceFacts(Record, frozen=True, kw_only=True):
    """What a network interface is."""

    interface: str
    ceiling_bytes_s: float | None = None
    parent: str | None = None
    """The synthetic interface that already counts the traffic of this virtual function."""


class Host(Record, frozen=True, kw_only=True, tag_field="kind", tag="capture"):
    """The first line of a capture: the machine, and how it was sampled."""

    capture_version: str = CAPTURE_VERSION
    tool: str | None = None
    """``ai4infra`` and its version."""
    started: str | None = None
    """ISO time of ``time_s`` 0."""
    interval_s: float | None = None
    size: str | None = None
    """VM size, where the machine knows it."""
    region: str | None = None
    cpus: int | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    disks: tuple[DiskFacts, ...] = ()
    mounts: tuple[MountFacts, ...] = ()
    interfaces: tuple[InterfaceFacts, ...] = ()


Sample: TypeAlias = GpuSample | DiskSample | NetSample | CpuSample | ProcessSample
Line: TypeAlias = Host | Sample


class Source(Protocol):
    """Something that gives samples: a log, a capture, or the machine itself."""

    @property
    def notes(self) -> Notes:
        """What was odd, complete once the samples have been read."""

    @property
    def host(self) -> Host:
        """What is known of the machine, complete once the samples have been read."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples, each kind in order of time."""


class Notes:
    """What a reader met beside samples; grows while the samples are read."""

    def __init__(self) -> None:
        self.empty = True
        """True while there was no sample."""
        self.skipped = 0
        """Lines that should have been samples and could not be read."""
        self.cut = False
        """True when the last line was cut off, and left out."""
        self.since_boot: Literal["dropped", "kept", "none"] | None = None
        """First report of iostat: dropped, kept as the only one, or not printed (``-y``)."""
        self.cpus: int | None = None
        self.gpu_model: str | None = None
        self.days: frozenset[int] = frozenset()
        """Days that times count from: several where a date can be read in two ways."""
        self.lost_gpus: dict[str, str] = {}
        """GPU to what the driver said of it; ``driver`` when it is the driver that failed."""

    def lost(self, gpu: str, said: str) -> None:
        """Add a GPU that the driver no longer reaches."""
        if len(self.lost_gpus) < _MAX_MESSAGES:
            self.lost_gpus.setdefault(gpu, said)

    def remarks(self) -> Iterator[str]:
        """Yield what a reader of the verdict should know of this log, in sentences."""
        for gpu, said in self.lost_gpus.items():
            what = "The driver failed" if gpu == "driver" else f"GPU {gpu} is lost"
            yield f"{what}: {said}"
        if self.empty:
            yield "there is no sample in it."
        if self.since_boot == "kept":
            yield "its one report covers the time since boot: log with -y and an interval."
        if self.skipped:
            yield f"{self.skipped:,} lines could not be read and are left out."
        if self.cut:
            yield "the end is cut off; the last line is left out."


_MAX_MESSAGES = 64
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_HEAD: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode(line: Line) -> bytes:
    """Return one line of a capture, with its line break."""
    return _ENCODER.encode(line) + b"\n"


def decode_capture(lines: Iterable[bytes | str], notes: Notes) -> Iterator[Line]:
    """Yield the host and the samples of a capture.

    Unknown fields and kinds of newer minor versions are passed over. Raises UsageError when the
    first line is no capture header or has another major version.
    """
    first = True
    for line in lines:
        if not line.strip():
            continue
        if first:
            yield _header(line)
            first = False
            continue
        try:
            decoded = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            notes.skipped += 1
            continue
        yield decoded
    if first:
        raise UsageError("The capture is empty.", hint="`diagnose watch --save` writes captures.")


def _header(line: bytes | str) -> Host:
    try:
        fields = _HEAD.decode(line)
        version = msgspec.json.decode(fields.get("captureVersion", b'""'), type=str)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(
            "The file is no capture: its first line is no capture header.",
            hint="`diagnose watch --save` writes captures; logs go to --gpu, --disk, --net, --cpu.",
        ) from error
    if version.partition(".")[0] != CAPTURE_VERSION.partition(".")[0]:
        raise UsageError(
            f"The capture has version {version or 'none'}; this program reads {CAPTURE_VERSION}.",
            hint="Read it with the release of ai4infra that wrote it.",
        )
    try:
        host = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"The header of the capture is wrong: {error}.") from error
    if not isinstance(host, Host):
        raise UsageError("The capture does not begin with its header.")
    return host
