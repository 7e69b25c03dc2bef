"""Machines that look like something else: each was, or would be, taken for another cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situations import (
    H100,
    HOST,
    QUIET_DISK,
    SECONDS,
    Situation,
    bundle,
    bursts,
    cpu,
    disk,
    flat,
    gpus,
    net,
    noisy,
    processes,
    question,
    quiet_parts,
    steps,
)

from ai4infra.diagnosis.answer import Question
from ai4infra.diagnosis.samples import DiskFacts, DiskSample, MountFacts, Sample

FED = noisy(0.97, 0.02)
LOW = noisy(0.3, 0.1)
LOCAL = MountFacts(path="/data", mount_kind="local", device="nvme1n1")
BLOB = MountFacts(
    path="/mnt/blob", mount_kind="blobfuse2", cache_class="none", source="sttrain/training-data"
)
SLOW: dict[str, Any] = {"wait_ms": 35, "queue": 12}


def hard_situations() -> list[Situation]:
    """Every situation of this file; the name says what is the matter."""
    return [*_not_the_feed(), *_remote(), *_not_starved(), *_held(), *_sources(), *_one_of_eight()]


def _not_the_feed() -> list[Situation]:
    """Something is read or received, and it is not what the GPUs wait for."""
    return [
        Situation(
            "small batches after a slow load of the model",
            "other",
            bundle(
                gpus(LOW), disk("sdc", steps((15, 1e9), (105, 0.0)), **SLOW), net(1e5), cpu(0.2)
            ),
            question(),
        ),
        Situation(
            "a disk is slow after the job has ended",
            "gpu",
            bundle(
                gpus(noisy(0.85, 0.02)),
                disk("sdc", steps((120, 0.0), (400, 9e7)), seconds=520, **SLOW),
                net(1e5),
                cpu(0.2),
            ),
            question(),
        ),
        Situation(
            "small batches, and a disk is slow after the job has ended",
            "other",
            bundle(
                gpus(LOW),
                disk("sdc", steps((120, 0.0), (400, 9e7)), seconds=520, **SLOW),
                net(1e5),
                cpu(0.2),
            ),
            question(),
        ),
        Situation(
            "small batches, and a backup reads the OS disk",
            "other",
            bundle(
                gpus(LOW), disk("sda", 9e7, **SLOW), disk("nvme1n1", 2e8), net(1e5), cpu(0.2, 0.05)
            ),
            question(mounts=(LOCAL,)),
        ),
        Situation(
            "small batches from local NVMe, and a download at the network's limit",
            "other",
            bundle(gpus(LOW), disk("nvme1n1", 2e8), net(9.5e9, 1e7), cpu(0.2)),
            question(H100, mounts=(LOCAL,)),
        ),
        Situation(
            "small batches from local NVMe, and a download",
            "other",
            bundle(gpus(LOW), disk("nvme1n1", 2e8), net(3e8, 1e6), cpu(0.2)),
            question(mounts=(LOCAL,)),
        ),
        Situation(
            "a download that ends early",
            "other",
            bundle(gpus(LOW), disk(*QUIET_DISK), net(steps((20, 3e8), (100, 1e5)), 1e3), cpu(0.2)),
            question(),
        ),
        Situation(
            "writes that wait on a disk whose log does not tell reads from writes",
            "undetermined",
            bundle(gpus(LOW), _short("sdc"), net(1e5), cpu(0.2)),
            question(),
        ),
    ]


def _short(device: str) -> Iterator[Sample]:
    """What `iostat -s` prints of a disk that is written to."""
    for second in range(SECONDS):
        yield DiskSample(
            time_s=1000.0 + second,
            device=device,
            operations_s=900.0,
            total_bytes_s=4e8,
            wait_s=0.04,
            queue=30.0,
            busy=1.0,
        )


def _remote() -> list[Situation]:
    fill = bursts(8e8, 1e5, 20, 0.5)
    starts = bursts(0.02, 0.97, 20, 0.5)
    return [
        Situation(
            "file cache that fills while the GPUs wait is no checkpoint",
            "fetch",
            bundle(gpus(starts), disk("nvme1n1", 1e5, write=fill), net(fill, 1e5), cpu(0.1)),
            question(
                mounts=(
                    MountFacts(path="/mnt/blob", mount_kind="blobfuse2", cache_class="local-nvme"),
                )
            ),
            "/mnt/blob (blobfuse2)",
        ),
        Situation(
            "virtual function that is called eth1, at six tenths of the limit each",
            "fetch",
            bundle(
                gpus(LOW),
                disk(*QUIET_DISK),
                net(6e9, 6e7),
                net(6e9, 6e7, interface="eth1"),
                cpu(0.2),
            ),
            question(H100),
            "eth0",
        ),
        Situation(
            "remote mount while the OS disk is slow at something else",
            "fetch",
            bundle(
                gpus(LOW), disk("sda", 3e6, wait_ms=20, queue=1.0), net(2e8, 1e6), cpu(0.1, 0.01)
            ),
            question(mounts=(BLOB,)),
            "/mnt/blob (blobfuse2)",
        ),
        Situation(
            "cache on the OS disk, of which only its class is known",
            "fetch",
            bundle(gpus(LOW), disk("sda", 1.8e8, wait_ms=25, queue=9), net(1e6), cpu(0.1, 0.08)),
            question(
                disks=(DiskFacts(device="sda", disk_class="os"),),
                mounts=(MountFacts(path="/mnt/blob", mount_kind="blobfuse2", cache_class="os"),),
            ),
            "sda (/mnt/blob)",
        ),
        Situation(
            "managed disk that a newer size attaches as NVMe",
            "fetch",
            bundle(gpus(LOW), disk("nvme0n2", 6e7, wait_ms=35, queue=2), net(1e5), cpu(0.1, 0.05)),
            question(),
            "nvme0n2",
        ),
        Situation(
            "sysstat 9, whose await is of all requests",
            "fetch",
            bundle(gpus(LOW), _old("sdc"), net(1e5), cpu(0.1, 0.05)),
            question(),
            "sdc",
        ),
        Situation(
            "slow disk that is read in bursts while the GPUs wait",
            "fetch",
            bundle(
                gpus(bursts(0.0, 1.0, 20, 0.6)),
                disk("sdc", bursts(1e8, 0.0, 20, 0.6), **SLOW),
                net(1e5),
                cpu(0.1, 0.05),
            ),
            question(),
            "sdc",
        ),
    ]


def _old(device: str) -> Iterator[Sample]:
    for second in range(SECONDS):
        yield DiskSample(
            time_s=1000.0 + second,
            device=device,
            reads_s=460.0,
            writes_s=0.0,
            read_bytes_s=6e7,
            write_bytes_s=0.0,
            wait_s=0.035,
            queue=12.0,
            busy=1.0,
        )


def _not_starved() -> list[Situation]:
    return [
        Situation(
            "one second at full and one at nothing, in turn",
            "other",
            bundle(gpus(bursts(1.0, 0.0, 2, 0.5)), quiet_parts()),
            question(),
            detail="small-batches",
        ),
        Situation(
            "fed from the page cache",
            "gpu",
            bundle(gpus(FED), disk("sdc", 0.0), net(1e5), cpu(0.4)),
            question(),
        ),
        Situation(
            "evaluation between epochs",
            "other",
            bundle(gpus(bursts(0.35, 0.9, 30, 0.4)), quiet_parts()),
            question(),
        ),
        Situation(
            "kernel that waits in a collective, and nobody logged its memory",
            "other",
            bundle(gpus(flat(1.0), memory=None, power=240.0), quiet_parts()),
            question(),
            detail="communication",
        ),
        Situation(
            "clocks lowered by heat, with the memory at work",
            "gpu",
            bundle(gpus(flat(1.0), memory=0.25, power=270.0), quiet_parts()),
            question(),
        ),
        Situation(
            "power capped",
            "gpu",
            bundle(gpus(flat(0.99), power=400.0, limit=400.0), quiet_parts()),
            question(),
        ),
        Situation(
            "half of the cores are in use by others, loaders at their limit",
            "prep",
            bundle(gpus(LOW), disk("nvme1n1", 2e8), net(1e5), cpu(0.55), processes(8, 0.98, 0.0)),
            question(),
        ),
        Situation(
            "loaders at their limit beside those of another data set that sleep",
            "prep",
            bundle(
                gpus(LOW),
                disk("nvme1n1", 2e8),
                net(1e5),
                cpu(0.1),
                processes(8, 0.98, 0.0),
                processes(8, 0.0, 0.0, name="validation"),
            ),
            question(),
        ),
        Situation(
            "checkpoint of a minute each five to a remote mount",
            "checkpoint",
            bundle(
                gpus(bursts(0.0, 0.97, 300, 0.2, offset=100), seconds=600),
                disk(*QUIET_DISK, seconds=600),
                net(1e5, bursts(1e9, 1e5, 300, 0.2, offset=100), seconds=600),
                cpu(0.1, seconds=600),
            ),
            question(mounts=(BLOB,)),
        ),
        Situation(
            "a long checkpoint in the second half of the log",
            "checkpoint",
            bundle(
                gpus(steps((70, 0.95), (50, 0.06))),
                disk("sdc", 0.0, write=steps((70, 1e5), (50, 2e8)), wait_ms=50, queue=30),
                net(1e5),
                cpu(0.1),
            ),
            question(),
            "sdc",
        ),
    ]


def _held() -> list[Situation]:
    return [
        Situation(
            "memory is held and nobody asks",
            "idle",
            bundle(gpus(flat(0.0)), quiet_parts()),
            question(),
            detail="held",
        ),
        Situation(
            "memory is held and a download goes on",
            "undetermined",
            bundle(gpus(flat(0.0)), disk("nvme1n1", 0.0, write=3e8), net(3e8, 1e6), cpu(0.1)),
            question(),
            detail="held-feed",
        ),
        Situation(
            "inference with few requests",
            "other",
            bundle(gpus(bursts(0.4, 0.0, 10, 0.2), count=1), quiet_parts()),
            question(),
            detail="small-batches",
        ),
        Situation(
            "one GPU is held by a notebook beside seven at work, and a disk is slow",
            "gpu",
            bundle(
                gpus([*[FED] * 7, flat(0.0)]), disk("sdc", 6e7, **SLOW), net(1e5), cpu(0.1, 0.1)
            ),
            question(),
        ),
        Situation(
            "two of eight are not used",
            "gpu",
            bundle(gpus([*[FED] * 6, *[flat(0.0)] * 2], used=4e6), quiet_parts()),
            question(),
        ),
        Situation(
            "six of eight starve and two are not used",
            "fetch",
            bundle(
                gpus([*[noisy(0.12)] * 6, *[flat(0.0)] * 2], used=1e9),
                disk("sdc", 6e7, **SLOW),
                net(1e5),
                cpu(0.1, 0.1),
            ),
            question(),
            "sdc",
        ),
    ]


def _sources() -> list[Situation]:
    return [
        Situation(
            "nobody looked at the disks",
            "undetermined",
            bundle(gpus(LOW), net(1e5), cpu(0.1)),
            question(),
        ),
        Situation(
            "nobody looked at the CPUs",
            "undetermined",
            bundle(gpus(LOW), disk("nvme1n1", 2e8), net(1e5)),
            question(),
        ),
        Situation(
            "only loopback was logged",
            "undetermined",
            bundle(gpus(LOW), disk("nvme1n1", 2e8), net(3e8, interface="lo"), cpu(0.1)),
            question(),
        ),
        Situation(
            "twenty seconds of a starved job",
            "fetch",
            bundle(
                gpus(LOW, seconds=20),
                disk("sdc", 6e7, seconds=20, **SLOW),
                net(1e5, seconds=20),
                cpu(0.1, 0.1, seconds=20),
            ),
            question(),
        ),
        Situation(
            "half of the GPUs cannot be read",
            "fetch",
            bundle(
                gpus([*[noisy(0.12)] * 4, *[flat(None)] * 4]),
                disk("sdc", 6e7, **SLOW),
                net(1e5),
                cpu(0.1, 0.1),
            ),
            Question(host=HOST),
            "sdc",
        ),
    ]


def _one_of_eight() -> list[Situation]:
    return [
        Situation(
            "a rank that stands still while its peers spin",
            "fetch",
            bundle(
                gpus([*[FED] * 7, flat(0.01)], memory=0.03, power=240.0),
                disk("sdd", 4e7, wait_ms=40, queue=4),
                net(1e5),
                cpu(0.2, 0.02),
            ),
            question(),
            "sdd",
            gpus=("7",),
            detail="straggler",
        ),
    ]
