"""Gathers from this machine what ``diagnosis.behind`` judges. Nothing is changed, no data read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ai4infra import gpus
from ai4infra.cloud.instance import Instance, this_vm
from ai4infra.diagnosis import behind
from ai4infra.diagnosis.behind import Surroundings
from ai4infra.diagnosis.samples import DiskFacts, Host, InterfaceFacts
from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.live.machine import Kernel
from ai4infra.mounts.disks import Device
from ai4infra.mounts.lint import Document, with_settings
from ai4infra.mounts.live import Mount, Running, mount_of
from ai4infra.tools import blobfuse2, lsblk

T = TypeVar("T")

STAT_SECONDS = 2.0
RESOLVE_SECONDS = 10.0
"""A share whose server is gone answers statfs never: then its size is unknown."""
_BYTES_S_PER_GBPS = 125_000_000


def resolve(path: str) -> str:
    """Return an existing path, absolute and with its links followed; NotFoundError without it."""
    if not path.strip():
        raise UsageError("The path is empty.", hint="Is a variable of the shell not set?")
    try:
        found = answered(lambda: str(Path(path).resolve(strict=True)), RESOLVE_SECONDS)
        if found is None:
            raise Ai4infraError(
                f"{path} does not answer: the server or program behind its mount may be gone.",
                hint="`findmnt` lists what is mounted.",
            )
        return found
    except PermissionError as error:
        raise Ai4infraError(
            f"{path} cannot be looked at: {error.strerror}.",
            hint="Run it as a user that may enter the folder.",
        ) from error
    except OSError as error:
        raise NotFoundError(
            f"{path} is not there: {error.strerror}.", hint="`findmnt` lists what is mounted."
        ) from error
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"{path!r} is no path.") from error


def look(
    path: str | None = None, *, size: str | None = None, region: str | None = None
) -> Surroundings:
    """Look at this machine; the size of a share is asked only for the one that holds ``path``.

    ``size`` and ``region`` are the VM's where the machine does not know them.
    """
    devices, mounts, links, sizes = _machine()
    holding = mount_of(path, mounts) if path else None
    if holding and holding.path not in sizes:
        mib = size_mib(holding.path)
        sizes = sizes if mib is None else {**sizes, holding.path: mib}
    vm = this_vm() or Instance(size=None, region=None, os_disk_sku=None, data_disk_skus={})
    return Surroundings(
        devices=devices,
        mounts=mounts,
        links=links,
        sizes_mib=sizes,
        configs=_configs(),
        size=size or vm.size,
        region=region or vm.region,
        os_disk_sku=vm.os_disk_sku,
        data_disk_skus=vm.data_disk_skus,
    )


def captured(machine: lsblk.Machine, *, size: str | None = None) -> Surroundings:
    """Return what a captured machine has; the SKUs of its disks and what runs are unknown."""
    return Surroundings(
        devices=machine.devices,
        mounts=machine.mounts,
        links=machine.links,
        sizes_mib={path: found[0] for path, found in machine.sizes.items()},
        configs={},
        size=size,
        data_disk_skus={},
    )


def host_facts(
    here: Surroundings, kernel: Kernel, path: str | None = None, *, tool: str | None = None
) -> Host:
    """Return what a capture says of the machine at its head."""
    found = behind.behind(path, here) if path else None
    interface = kernel.interfaces[0] if len(kernel.interfaces) == 1 else None
    return Host(
        tool=tool,
        size=here.size,
        region=here.region,
        cpus=os.cpu_count(),
        disks=tuple(_disks(here)),
        mounts=(behind.mount_facts(found, interface),) if found else (),
        interfaces=tuple(_interfaces(here, kernel)),
    )


def _machine() -> tuple[tuple[Device, ...], tuple[Mount, ...], dict[str, str], dict[str, int]]:
    try:
        found = lsblk.this_machine()
    except Ai4infraError:
        # Without lsblk the mounts still tell what is remote.
        return (), lsblk.mounts(), {}, {}
    sizes = {path: size[0] for path, size in found.sizes.items()}
    return found.devices, found.mounts, found.links, sizes


def size_mib(path: str) -> int | None:
    """Return the size that a file system gives, in MiB; None when it does not answer in time."""
    told = answered(lambda: lsblk.size_mib(path), STAT_SECONDS)
    return told[0] if told else None


def answered(ask: Callable[[], T], seconds: float) -> T | None:
    """Return what a question has for an answer, None when it has none in time.

    Raises what the question raises. One that hangs is left behind in a thread of its own.
    """
    answers: list[T | Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        return answer
    return None


def _configs() -> dict[str, Document]:
    found = {}
    for running in blobfuse2.running():
        document = _config(running)
        if document is not None:
            found[running.mount_path] = document
    return found


def _config(running: Running) -> Document | None:
    """Return the configuration of a mount; what is only in its command line will do."""
    document = (
        Document(file="", settings=(), sections={})
        if running.config_file is None
        else blobfuse2.read_document(running.config_file)
    )
    return document and with_settings(document, running.settings)


def _disks(here: Surroundings) -> list[DiskFacts]:
    vm = gpus.facts(here.size).uncached_disk_mbytes_s if here.size else None
    remote = ("managed", "remote-nvme", "os", "hdd")
    return [
        DiskFacts(
            device=device,
            disk_class=kind,
            ceiling_bytes_s=vm * 1e6 if vm is not None and kind in remote else None,
        )
        for device, kind in behind.disk_classes(here)
    ]


def _interfaces(here: Surroundings, kernel: Kernel) -> list[InterfaceFacts]:
    gbps = gpus.facts(here.size).network_gbps if here.size else None
    # The VM's limit is for all interfaces together; with one, it is that one's.
    ceiling = gbps * _BYTES_S_PER_GBPS if gbps and len(kernel.interfaces) == 1 else None
    counted = [InterfaceFacts(interface=n, ceiling_bytes_s=ceiling) for n in kernel.interfaces]
    return [
        *counted,
        *(InterfaceFacts(interface=n, parent=p) for n, p in sorted(kernel.parents.items())),
    ]
