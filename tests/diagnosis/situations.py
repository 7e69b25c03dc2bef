"""Machines with a known cause: bundles of series that a verdict has to get right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ai4infra.diagnosis.answer import Diagnosis, Question
from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskFacts,
    DiskSample,
    GpuSample,
    Host,
    InterfaceFacts,
    MountFacts,
    NetSample,
    ProcessSample,
    Sample,
)
from ai4infra.diagnosis.series import Collector
from ai4infra.diagnosis.verdict import diagnose
from ai4infra.gpus import facts

Curve = Callable[[int], float | None]
SECONDS = 120
H100 = "Standard_ND96isr_H100_v5"


class Situation(NamedTuple):
    """A machine, and what is the matter with it."""

    name: str
    cause: str
    samples: tuple[Sample, ...]
    question: Question = Question()
    subject: str | None = None
    gpus: tuple[str, ...] = ()
    detail: str | None = None

    def judged(self) -> Diagnosis:
        """Return the verdict on it."""
        collector = Collector()
        collector.extend(self.samples)
        return diagnose(collector, self.question)


def flat(value: float | None) -> Curve:
    return lambda second: value


def noisy(mean: float, spread: float = 0.05, seed: int = 1) -> Curve:
    rnd = random.Random(seed)  # noqa: S311 - the same noise each time
    values = [min(1.0, max(0.0, mean + rnd.uniform(-spread, spread))) for _ in range(4000)]
    return lambda second: values[second % 4000]


def bursts(high: float, low: float, period: int, share: float, offset: int = 0) -> Curve:
    """High for a share of each period, low for the rest."""
    return lambda second: high if (second + offset) % period < period * share else low


def steps(*parts: tuple[int, float]) -> Curve:
    """So many seconds of each value; the last goes on."""

    def value(second: int) -> float:
        for length, level in parts:
            if second < length:
                return level
            second -= length
        return parts[-1][1]

    return value


def gpus(
    curves: Sequence[Curve] | Curve,
    *,
    count: int = 8,
    memory: float | None = 0.35,
    used: float | None = 6e10,
    power: float | None = 450.0,
    limit: float | None = 700.0,
    seconds: int = SECONDS,
    timed: bool = True,
    mig: Sequence[int] = (),
) -> Iterator[Sample]:
    """GPUs with the usual memory activity and power of the work that they do."""
    each = [curves] * count if callable(curves) else list(curves)
    for second in range(seconds):
        for index, curve in enumerate(each):
            utilization = None if index in mig else curve(second)
            work = utilization or 0.0
            yield GpuSample(
                time_s=1000.0 + second if timed else None,
                gpu=str(index),
                utilization=utilization,
                memory_activity=None if memory is None else memory * work,
                memory_used_bytes=used,
                power_w=None if power is None else 80 + (power - 80) * work,
                power_limit_w=limit,
                mig=True if index in mig else None,
            )


def disk(
    device: str,
    read: Curve | float = 0.0,
    *,
    write: Curve | float = 0.0,
    wait_ms: float | None = 0.2,
    queue: float | None = 0.05,
    busy: float | None = 0.1,
    request: float = 128e3,
    seconds: int = SECONDS,
    timed: bool = True,
    start: int = 0,
) -> Iterator[Sample]:
    """A disk by what it reads and writes, in bytes a second."""
    for second in range(seconds):
        reading, writing = _at(read, second), _at(write, second)
        yield DiskSample(
            time_s=1000.0 + start + second if timed else None,
            device=device,
            reads_s=reading / request,
            writes_s=writing / 512e3,
            read_bytes_s=reading,
            write_bytes_s=writing,
            read_wait_s=None if wait_ms is None else wait_ms / 1e3,
            write_wait_s=None if wait_ms is None else wait_ms / 1e3,
            queue=queue,
            busy=busy,
        )


def net(
    received: Curve | float,
    sent: Curve | float = 1e5,
    *,
    interface: str = "eth0",
    seconds: int = SECONDS,
    timed: bool = True,
) -> Iterator[Sample]:
    for second in range(seconds):
        yield NetSample(
            time_s=1000.0 + second if timed else None,
            interface=interface,
            received_bytes_s=_at(received, second),
            sent_bytes_s=_at(sent, second),
        )


def cpu(
    busy: float, iowait: float = 0.0, *, seconds: int = SECONDS, timed: bool = True
) -> Iterator[Sample]:
    for second in range(seconds):
        yield CpuSample(
            time_s=1000.0 + second if timed else None,
            cpu="all",
            user=busy * 0.9,
            system=busy * 0.1,
            iowait=iowait,
            steal=0.0,
            idle=1 - busy - iowait,
        )


def processes(
    count: int, cores: float, io_wait: float | None, role: Any = "loader", name: str = "python"
) -> Iterator[Sample]:
    for second in range(SECONDS):
        for pid in range(count):
            yield ProcessSample(
                time_s=1000.0 + second,
                pid=100 + pid,
                name=name,
                role=role,
                cpu_cores=cores,
                io_wait=io_wait,
            )


def _at(curve: Curve | float, second: int) -> float:
    return (curve(second) or 0.0) if callable(curve) else curve


def bundle(*parts: Iterator[Sample]) -> tuple[Sample, ...]:
    return tuple(sample for part in parts for sample in part)


QUIET_DISK = ("nvme0n1", 2e5)
HOST = Host(cpus=96)


def question(size: str | None = None, **fields: Any) -> Question:
    host = Host(**{"cpus": 96, **fields})
    return Question(host=host, size=facts(size) if size else None, price_per_hour=98.32)


def quiet(*, timed: bool = True) -> tuple[Sample, ...]:
    """Disks, network and CPUs of a machine that is not limited by any."""
    return bundle(
        disk("nvme0n1", 2e5, timed=timed), net(3e5, 3e5, timed=timed), cpu(0.2, timed=timed)
    )


ONE_LOW: list[Curve] = [noisy(0.97, 0.02, seed=i) for i in range(8)]
ONE_LOW[5] = noisy(0.18, 0.05)
LAGGING: Mapping[str, Any] = {"gpus": ("5",), "detail": "straggler"}


def situations() -> list[Situation]:
    """Every situation; the name says what is the matter."""
    return [*_fetch(), *_remote(), *_prep_and_network(), *_checkpoints(), *_healthy(), *_unclear()]


def _fetch() -> list[Situation]:
    low = noisy(0.12, 0.1)
    return [
        Situation(
            "standard HDD behind eight GPUs",
            "fetch",
            bundle(
                gpus(low), disk("sdc", 6e7, wait_ms=35, queue=12, busy=1.0), net(1e5), cpu(0.1, 0.1)
            ),
            question(),
            "sdc",
        ),
        Situation(
            "managed disks at the VM's disk limit",
            "fetch",
            bundle(
                gpus(noisy(0.3)), disk("sdc", 5.9e8, wait_ms=8, queue=5), net(1e5), cpu(0.2, 0.02)
            ),
            question(H100),
            "sdc",
        ),
        Situation(
            "four managed disks share the VM's limit",
            "fetch",
            bundle(
                gpus(noisy(0.3)),
                *(disk(f"sd{letter}", 1.5e8, wait_ms=4, queue=0.7) for letter in "cdef"),
                net(1e5),
                cpu(0.2),
            ),
            question(H100),
            "sdc, sdd, sde, sdf",
        ),
        Situation(
            "cache of a mount on the OS disk",
            "fetch",
            bundle(
                gpus(noisy(0.25)),
                disk("sda", 1.8e8, wait_ms=25, queue=9),
                disk("nvme0n1", 0.0),
                net(1e6),
                cpu(0.1, 0.08),
            ),
            question(
                disks=(DiskFacts(device="sda", disk_class="os"),),
                mounts=(
                    MountFacts(
                        path="/mnt/data", mount_kind="blobfuse2", device="sda", cache_class="os"
                    ),
                ),
            ),
            "sda (/mnt/data)",
        ),
        Situation(
            "single synchronous reader on a slow disk",
            "fetch",
            bundle(
                gpus(low),
                disk("sdb", 5e6, wait_ms=12, queue=1.0, request=64e3),
                net(1e5),
                cpu(0.05),
            ),
            question(),
            "sdb",
        ),
        Situation(
            "small random reads with bursts on the GPUs",
            "fetch",
            bundle(
                gpus(bursts(1.0, 0.0, 4, 0.25)),
                disk("sdc", 2e6, wait_ms=20, queue=3, request=4096),
                net(1e5),
                cpu(0.1, 0.03),
            ),
            question(),
            "sdc",
        ),
        Situation(
            "local NVMe with a deep queue",
            "fetch",
            bundle(
                gpus(noisy(0.5)),
                disk("nvme1n1", 6.5e9, wait_ms=4.5, queue=220, busy=1.0),
                net(1e5),
                cpu(0.4, 0.05),
            ),
            question(),
            "nvme1n1",
        ),
        Situation(
            "disk waits while nobody logged the network",
            "fetch",
            bundle(gpus(low), disk("sdc", 6e7, wait_ms=35, queue=12), cpu(0.1, 0.1)),
            question(),
            "sdc",
        ),
        Situation(
            "disk waits and the logs have no times",
            "fetch",
            bundle(
                gpus(low, timed=False),
                disk("sdc", 6e7, wait_ms=35, queue=12, timed=False),
                net(1e5, timed=False),
                cpu(0.1, 0.1, timed=False),
            ),
            question(),
            "sdc",
        ),
        Situation(
            "loader processes are blocked on a disk",
            "fetch",
            bundle(
                gpus(low),
                disk("sdc", 9e7, wait_ms=15, queue=8),
                net(1e5),
                cpu(0.1, 0.05),
                processes(16, 0.2, 0.7),
            ),
            question(),
            "sdc",
        ),
        Situation(
            "one starved rank among eight",
            "fetch",
            bundle(gpus(ONE_LOW), disk("sdd", 4e7, wait_ms=40, queue=4), net(1e5), cpu(0.2, 0.02)),
            question(),
            "sdd",
            **LAGGING,
        ),
        Situation(
            "one starved rank while the others spin in the all-reduce",
            "fetch",
            bundle(
                gpus(ONE_LOW, memory=0.04, power=250.0),
                disk("sdd", 4e7, wait_ms=40, queue=4),
                net(1e5),
                cpu(0.2, 0.02),
            ),
            question(),
            "sdd",
            **LAGGING,
        ),
        Situation(
            "a cache that filled up in the middle",
            "fetch",
            bundle(
                gpus(steps((60, 0.95), (60, 0.2))),
                disk("sdb", steps((60, 1e6), (60, 9e7)), wait_ms=30, queue=6),
                net(1e5),
                cpu(0.1, 0.02),
            ),
            question(),
            "sdb",
        ),
        Situation(
            "job that begins late, then starves",
            "fetch",
            bundle(
                gpus(steps((30, 0.0), (90, 0.15))),
                disk("sdc", 6e7, wait_ms=35, queue=12),
                net(1e5),
                cpu(0.1, 0.1),
            ),
            question(),
            "sdc",
        ),
        Situation(
            "waiting all the time with a model in memory",
            "fetch",
            bundle(
                gpus(flat(0.01)), disk("sdc", 6e7, wait_ms=60, queue=30), net(1e5), cpu(0.05, 0.2)
            ),
            question(),
            "sdc",
        ),
    ]


def _remote() -> list[Situation]:
    low = noisy(0.2, 0.1)
    share = MountFacts(path="/mnt/data", mount_kind="smb", cache_class="none")
    fuse = MountFacts(path="/mnt/blob", mount_kind="blobfuse2", cache_class="none")
    return [
        Situation(
            "Standard SMB share at 60 MB/s",
            "fetch",
            bundle(gpus(low), disk(*QUIET_DISK), net(6e7, 1e6), cpu(0.05)),
            question(mounts=(share,)),
            "/mnt/data (smb)",
        ),
        Situation(
            "BlobFuse2 without a cache, which iostat does not show",
            "fetch",
            bundle(
                gpus(low),
                disk(*QUIET_DISK),
                net(4e8, 4e6),
                cpu(0.1),
                processes(1, 3.5, None, role="mount", name="blobfuse2"),
            ),
            question(H100, mounts=(fuse,)),
            "/mnt/blob (blobfuse2)",
        ),
        Situation(
            "remote mount, from three text logs only",
            "fetch",
            bundle(gpus(low), disk(*QUIET_DISK), net(1.2e8, 2e6), cpu(0.08)),
            question(),
            "eth0",
        ),
        Situation(
            "remote mount with a virtual function beside its interface",
            "fetch",
            bundle(
                gpus(low),
                disk(*QUIET_DISK),
                net(1.2e8, 2e6),
                net(1.2e8, 2e6, interface="enP30832s1"),
                cpu(0.08),
            ),
            question(),
            "eth0",
        ),
        Situation(
            "remote mount with bursts on the GPUs",
            "fetch",
            bundle(
                gpus(bursts(1.0, 0.0, 5, 0.4)), disk(*QUIET_DISK), net(2e8, 2e6), cpu(0.08, 0.01)
            ),
            question(),
            "eth0",
        ),
    ]


def _prep_and_network() -> list[Situation]:
    low = noisy(0.4, 0.1)
    return [
        Situation(
            "all cores decode",
            "prep",
            bundle(gpus(low), disk("nvme1n1", 8e8), net(1e5), cpu(0.97)),
            question(),
        ),
        Situation(
            "all cores decode although the disk queues a little",
            "prep",
            bundle(gpus(low), disk("sdc", 2e8, wait_ms=12, queue=2), net(1e5), cpu(0.96, 0.01)),
            question(),
        ),
        Situation(
            "too few loader workers, each at its limit",
            "prep",
            bundle(gpus(low), disk("nvme1n1", 3e8), net(1e5), cpu(0.12), processes(8, 0.99, 0.01)),
            question(),
        ),
        Situation(
            "all cores decode what comes from a remote mount",
            "prep",
            bundle(gpus(low), disk(*QUIET_DISK), net(3e8, 3e6), cpu(0.98)),
            question(H100),
        ),
        Situation(
            "small VM whose few cores cannot keep up",
            "prep",
            bundle(gpus(noisy(0.55), count=1), disk("sdb", 4e7), net(1e5), cpu(0.95)),
            question("Standard_NC4as_T4_v3", cpus=4),
        ),
        Situation(
            "network of the VM at its limit",
            "network",
            bundle(gpus(low), disk(*QUIET_DISK), net(9.4e9, 5e7), cpu(0.4)),
            question(H100),
            "eth0",
        ),
        Situation(
            "network at its limit, read by interface speed",
            "network",
            bundle(gpus(low), disk(*QUIET_DISK), net(2.4e9, 5e7), cpu(0.4)),
            question(interfaces=(InterfaceFacts(interface="eth0", ceiling_bytes_s=2.5e9),)),
            "eth0",
        ),
        Situation(
            "network at its limit on a single-GPU VM",
            "network",
            bundle(gpus(noisy(0.5), count=1), disk(*QUIET_DISK), net(4.6e9, 5e7), cpu(0.4)),
            question("Standard_NC40ads_H100_v5", cpus=40),
            "eth0",
        ),
    ]


def _checkpoints() -> list[Situation]:
    stall = bursts(0.02, 0.97, 40, 0.25)
    saves = bursts(2e9, 1e5, 40, 0.25)
    return [
        Situation(
            "checkpoints to a managed disk",
            "checkpoint",
            bundle(
                gpus(stall),
                disk("sdc", 1e5, write=bursts(3e8, 1e5, 40, 0.25), wait_ms=30),
                net(1e5),
                cpu(0.1, 0.03),
            ),
            question(),
            "sdc",
        ),
        Situation(
            "checkpoints over the network",
            "checkpoint",
            bundle(gpus(stall), disk(*QUIET_DISK), net(1e5, saves), cpu(0.1)),
            question(),
        ),
        Situation(
            "checkpoints to NVMe that are too frequent",
            "checkpoint",
            bundle(
                gpus(bursts(0.05, 0.98, 20, 0.2)),
                disk("nvme1n1", 1e5, write=bursts(3e9, 1e5, 20, 0.2)),
                net(1e5),
                cpu(0.1),
            ),
            question(),
            "nvme1n1",
        ),
        Situation(
            "checkpoints where the logs have no times",
            "checkpoint",
            bundle(
                gpus(bursts(0.0, 0.98, 40, 0.3), timed=False),
                disk("sdc", 1e5, write=bursts(3e8, 1e5, 40, 0.3), timed=False),
                net(1e5, timed=False),
                cpu(0.1, timed=False),
            ),
            question(),
            "sdc",
        ),
    ]


def _healthy() -> list[Situation]:
    fed = noisy(0.97, 0.03)
    return [
        Situation(
            "fed from NVMe", "gpu", bundle(gpus(fed), disk("nvme1n1", 1.6e9), net(1e5), cpu(0.5))
        ),
        Situation(
            "fed although %util of NVMe is full",
            "gpu",
            bundle(gpus(fed), disk("nvme1n1", 1.6e9, busy=1.0), net(1e5), cpu(0.5)),
        ),
        Situation(
            "fed although iowait is high",
            "gpu",
            bundle(gpus(fed), disk("nvme1n1", 1.6e9), net(1e5), cpu(0.2, 0.3)),
        ),
        Situation(
            "fed although a disk queues",
            "gpu",
            bundle(gpus(noisy(0.92, 0.03)), disk("sdc", 9e7, wait_ms=30, queue=9), cpu(0.5)),
        ),
        Situation("fed, with nothing but GPU readings", "gpu", bundle(gpus(fed, timed=False))),
        Situation(
            "cold first epoch over the network, then fed from the cache",
            "gpu",
            bundle(
                gpus(steps((50, 0.2), (70, 0.96))),
                disk("nvme1n1", steps((50, 1e5), (70, 1.6e9))),
                net(steps((50, 3e8), (70, 1e5))),
                cpu(0.2),
            ),
        ),
        Situation(
            "cold first epoch from a disk, then fed from the page cache",
            "gpu",
            bundle(
                gpus(steps((40, 0.3), (80, 0.95))),
                disk("sdc", steps((40, 2e8), (80, 0.0)), wait_ms=25, queue=6),
                net(1e5),
                cpu(0.2, 0.02),
            ),
        ),
        Situation(
            "fed, between a late start and an early end",
            "gpu",
            bundle(gpus(steps((20, 0.0), (70, 0.95), (30, 0.0))), quiet_parts()),
        ),
        Situation(
            "fed, with rare short checkpoints",
            "gpu",
            bundle(
                gpus(bursts(0.1, 0.97, 60, 0.05)),
                disk("sdc", 1e5, write=bursts(5e8, 1e5, 60, 0.05)),
                net(1e5),
                cpu(0.3),
            ),
        ),
        Situation(
            "four GPUs fed and four that nobody uses",
            "gpu",
            bundle(
                gpus([*[fed] * 4, *[flat(0.0)] * 4], used=None),
                disk(*QUIET_DISK),
                net(1e5),
                cpu(0.2),
            ),
        ),
        Situation(
            "seven GPUs fed and one split",
            "gpu",
            bundle(gpus([fed] * 8, mig=(7,)), quiet_parts()),
        ),
    ]


def quiet_parts() -> Iterator[Sample]:
    yield from quiet()


def _unclear() -> list[Situation]:
    low = noisy(0.35, 0.1)
    return [
        Situation(
            "all-reduce over Ethernet",
            "other",
            bundle(gpus(noisy(0.6)), disk("nvme1n1", 2e8), net(8e8, 8e8), cpu(0.3)),
            question(H100),
            detail="communication",
        ),
        Situation(
            "all-reduce over Ethernet at the network's limit",
            "other",
            bundle(gpus(noisy(0.6)), disk("nvme1n1", 2e8), net(9.5e9, 9.5e9), cpu(0.3)),
            question(H100),
            detail="communication",
        ),
        Situation(
            "GPUs spin at 100 % with low power and idle memory",
            "other",
            bundle(gpus(flat(1.0), memory=0.03, power=230.0), quiet_parts()),
            question(),
            detail="communication",
        ),
        Situation(
            "small batches, nothing at a limit",
            "other",
            bundle(gpus(low), disk("nvme1n1", 2e8), net(1e5), cpu(0.2)),
            question(),
            detail="small-batches",
        ),
        Situation(
            "%util of NVMe is full and nothing waits",
            "other",
            bundle(gpus(low), disk("nvme1n1", 1.5e9, busy=1.0, queue=2.0), net(1e5), cpu(0.2)),
            question(),
        ),
        Situation(
            "iowait alone",
            "other",
            bundle(gpus(low), disk("nvme1n1", 2e8), net(1e5), cpu(0.2, 0.4)),
            question(),
        ),
        Situation(
            "a disk that others write to",
            "other",
            bundle(gpus(low), disk("sda", 0.0, write=4e7, wait_ms=40, queue=3), net(1e5), cpu(0.2)),
            question(),
        ),
        Situation(
            "one lagging rank and no shared reason",
            "other",
            bundle(gpus(ONE_LOW), quiet_parts()),
            question(),
            **LAGGING,
        ),
        Situation("low, and nobody looked at anything else", "undetermined", bundle(gpus(low))),
        Situation(
            "low, and nobody looked at the network",
            "undetermined",
            bundle(gpus(low), disk(*QUIET_DISK), cpu(0.1)),
            question(),
        ),
        Situation(
            "low, and the disk log has no waiting times",
            "undetermined",
            bundle(gpus(low), disk("sdc", 6e7, wait_ms=None, queue=None), net(1e5), cpu(0.1)),
            question(),
        ),
        Situation(
            "all GPUs are split", "undetermined", bundle(gpus(low, mig=range(8)), quiet_parts())
        ),
        Situation(
            "utilisation is unknown throughout",
            "undetermined",
            bundle(gpus(flat(None)), quiet_parts()),
        ),
        Situation("no GPU in the logs", "undetermined", quiet(), question()),
        Situation(
            "five readings", "undetermined", bundle(gpus(low, seconds=5), quiet_parts()), question()
        ),
        Situation(
            "nobody uses the GPUs",
            "idle",
            bundle(gpus(flat(0.0), used=5e8, power=80), quiet_parts()),
            question(),
        ),
        Situation(
            "data is copied before the job",
            "idle",
            bundle(
                gpus(flat(0.0), used=5e8, power=80),
                disk("nvme1n1", write=2e9),
                net(2e9),
                cpu(0.3),
            ),
            question(H100),
        ),
        Situation(
            "disks are read and nobody knows whether a job waits",
            "undetermined",
            bundle(gpus(flat(0.0), used=None, power=None), disk("sdc", 5e8, wait_ms=20), cpu(0.3)),
            question(),
        ),
    ]
