"""The causes that need evidence beside the GPUs: network, disks, CPUs, remote mounts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ai4infra.diagnosis.answer import (
    Cause,
    Confidence,
    Question,
    mean_of,
    milliseconds,
    percent,
    rate,
)
from ai4infra.diagnosis.observe import Disk, Net, Observed, Process
from ai4infra.diagnosis.rules import Limits
from ai4infra.diagnosis.samples import MountFacts
from ai4infra.diagnosis.series import Kind

Say = Callable[[str, str, str], None]
"""Takes a piece of evidence: source, subject, sentence."""
Together = Callable[[Kind, Sequence[str]], "float | None"]
"""Share of the lost GPU time in which something moved data; None without one clock."""
_LOCAL = ("local", "other")


_KINDS = {"os": "os-disk", "local-nvme": "local-nvme", "hdd": "hdd", "temp": "temp-disk"}


class Finding(NamedTuple):
    """A cause with what speaks for it."""

    cause: Cause
    confidence: Confidence
    subject: str | None = None
    detail: str | None = None
    tags: frozenset[str] = frozenset()


class Causes:
    """Looks for what the GPUs wait for, in what was observed."""

    def __init__(
        self,
        seen: Observed,
        question: Question,
        limits: Limits,
        say: Say,
        together: Together = lambda kind, subjects: None,
    ) -> None:
        self.seen = seen
        self.question = question
        self.limits = limits
        self.say = say
        self.together = together

    def find(self) -> Finding | None:
        """Return what the GPUs wait for, the surest evidence first."""
        checks = (
            self._network_full,
            self._disk_full,
            self._cpu_full,
            self._disk_waits,
            self._loaders_compute,
            self._remote_feed,
        )
        found = next((finding for check in checks if (finding := check())), None)
        self._background()
        return found

    def _network_full(self) -> Finding | None:
        net = self.seen.net
        if net is None or not net.ceiling_bytes_s or net.received_bytes_s is None:
            return None
        share = net.received_bytes_s / net.ceiling_bytes_s
        if share < self.limits.ceiling_share or not self.one_way(net) or not self._net_feeds(net):
            return None
        self.say(
            "net",
            ", ".join(net.interfaces),
            f"{rate(net.received_bytes_s)} received is {percent(share)} of the"
            f" {rate(net.ceiling_bytes_s)} that the network of this VM has.",
        )
        return Finding("network", "high", subject=", ".join(net.interfaces))

    def _disk_full(self) -> Finding | None:
        for disk in self._feeding():
            share = (disk.read_bytes_s or 0.0) / disk.ceiling_bytes_s if disk.ceiling_bytes_s else 0
            if share >= self.limits.ceiling_share and disk.ceiling_bytes_s:
                self.say(
                    "disk",
                    disk.device,
                    f"{disk.device} reads {rate(disk.read_bytes_s)}, {percent(share)} of the"
                    f" {rate(disk.ceiling_bytes_s)} that is its limit.",
                )
                return self._disk_finding(disk, "high")
        return self._disks_together()

    def _disks_together(self) -> Finding | None:
        """Judge all remote disks by the one limit that the VM has for them."""
        remote = [disk for disk in self._feeding() if disk.ceiling_bytes_s]
        ceiling = self.question.size and self.question.size.uncached_disk_mbytes_s
        total = sum(disk.read_bytes_s or 0.0 for disk in remote)
        if not ceiling or len(remote) < 2 or total < self.limits.ceiling_share * ceiling * 1e6:
            return None
        names = ", ".join(disk.device for disk in remote)
        self.say(
            "disk",
            names,
            f"{names} together read {rate(total)}, {percent(total / ceiling / 1e6)} of the"
            f" {rate(ceiling * 1e6)} that this VM reads from remote disks.",
        )
        return self._disk_finding(remote[0], "high")._replace(subject=names)

    def _disk_waits(self) -> Finding | None:
        for disk in self._feeding():
            if not self._slow(disk):
                continue
            self.say(
                "disk",
                disk.device,
                f"{disk.device} reads {rate(disk.read_bytes_s)}; a read waits"
                f" {milliseconds(disk.wait_s)}, {disk.queue or 0:.1f} requests in flight.",
            )
            return self._disk_finding(disk, "high" if self._waiters() else "medium")
        return None

    def _slow(self, disk: Disk) -> bool:
        limits = self.limits
        wait = limits.read_wait_nvme_s if disk.nvme else limits.read_wait_disk_s
        queue = limits.queue_nvme if disk.nvme else limits.queue_disk
        if disk.wait_s is None or disk.queue is None:
            return False
        return disk.wait_s >= wait and disk.queue >= queue

    def _disk_finding(self, disk: Disk, confidence: Confidence) -> Finding:
        kind = _KINDS.get(disk.disk_class or "")
        tags = {kind or ("local-nvme" if disk.nvme else "block-device")}
        if kind in ("hdd", "temp-disk"):
            tags.add("block-device")
        if disk.disk_class is None:
            tags.add("unknown")
        mount = next((m for m in self.question.host.mounts if _lies_on(m, disk)), None)
        subject = f"{disk.device} ({mount.path})" if mount else disk.device
        if mount and mount.mount_kind not in ("local", "other"):
            tags.add("cache")
        return Finding("fetch", confidence, subject=subject, tags=frozenset(tags))

    def reading(self) -> list[Disk]:
        """Return the disks that are read from, the one with most bytes first."""
        reading = [
            disk
            for disk in self.seen.disks or ()
            if disk.told
            and (
                (disk.read_bytes_s or 0.0) >= self.limits.disk_read_bytes
                or ((disk.reads_s or 0.0) >= self.limits.disk_reads and disk.read_bytes_s != 0)
            )
        ]
        return sorted(reading, key=lambda disk: -(disk.read_bytes_s or 0.0))

    def _feeding(self) -> list[Disk]:
        """Return the disks that are read from, and that the training data can come from."""
        return [
            disk for disk in self.reading() if self._can_feed(disk) and self._in_time(disk.device)
        ]

    def _can_feed(self, disk: Disk) -> bool:
        """Tell whether the data can lie on a disk, as far as its mounts are known."""
        mounts = self.question.host.mounts
        devices = {each.device for each in self.seen.disks or ()}
        possible = not mounts or any(_may_lie_on(m, disk, devices) for m in mounts)
        if not possible:
            paths = ", ".join(m.path for m in mounts)
            self.say("disk", disk.device, f"{disk.device} is read from, and {paths} is elsewhere.")
        return possible

    def _in_time(self, device: str) -> bool:
        """Tell whether a disk was read from while GPU time was lost, as far as one clock tells."""
        share = self.together("disk", [device])
        if share is None or share >= self.limits.feed_together:
            return True
        text = f"{device} is read from in {percent(share)} of the lost GPU time only."
        self.say("disk", device, text)
        return False

    def _net_feeds(self, net: Net) -> bool:
        """Tell whether the data can come over the network, as far as mounts and clock tell."""
        mounts = self.question.host.mounts
        if mounts and all(m.mount_kind == "local" for m in mounts):
            text = f"{mounts[0].path} is on a local disk: what comes in is something else."
            self.say("net", ", ".join(net.interfaces), text)
            return False
        share = self.together("net", net.interfaces)
        return share is None or share >= self.limits.feed_together

    def _waiters(self) -> bool:
        """Tell whether tasks wait for disks: says so, and never decides."""
        cpu = self.seen.cpu
        cores = cpu.iowait_cores if cpu else None
        waiting = [p for p in self._loaders() if p.io_wait and p.io_wait >= self.limits.loader_wait]
        for process in waiting[:3]:
            text = f"{process.name} waits for disks {percent(process.io_wait)} of its time."
            self.say("process", process.name, text)
        if cores is not None and cores >= self.limits.iowait_cores:
            self.say("cpu", "all", f"iowait is about {cores:.1f} tasks that wait for a disk.")
        return bool(waiting) or (cores is not None and cores >= self.limits.iowait_cores)

    def _loaders(self) -> list[Process]:
        return [p for p in self.seen.processes if p.role == "loader"]

    def _cpu_full(self) -> Finding | None:
        cpu = self.seen.cpu
        if cpu is None or cpu.busy is None or cpu.busy < self.limits.cpu_full:
            return None
        of = f" of {cpu.cpus} cores" if cpu.cpus else ""
        self.say("cpu", "all", f"The CPUs are {percent(cpu.busy)} busy{of}: no core is left.")
        return Finding("prep", "high", subject="CPU", tags=frozenset({"cpu-full"}))

    def _loaders_compute(self) -> Finding | None:
        # Loaders of another data set sleep, and say nothing of those that work.
        loaders = [p for p in self._loaders() if (p.cpu_cores or 0) > self.limits.loader_asleep]
        if not loaders:
            return None
        cores = mean_of(p.cpu_cores or 0.0 for p in loaders)
        waits = mean_of(p.io_wait or 0.0 for p in loaders)
        if cores < self.limits.loader_core or waits >= self.limits.loader_wait:
            return None
        self.say(
            "process",
            loaders[0].name,
            f"{len(loaders)} loader processes use {percent(cores)} of a core each and wait"
            f" {percent(waits)} of their time.",
        )
        return Finding("prep", "high", subject="loaders", tags=frozenset({"few-workers"}))

    def _remote_feed(self) -> Finding | None:
        """A mount over the network: bytes come in, no disk and no CPU is at its limit."""
        net = self.seen.net
        if net is None or (net.received_bytes_s or 0.0) < self.limits.net_feed_bytes:
            return None
        if not self.one_way(net) or not self._net_feeds(net):
            return None
        mount = next((m for m in self.question.host.mounts if m.mount_kind not in _LOCAL), None)
        where = f"{mount.path} ({mount.mount_kind})" if mount else ", ".join(net.interfaces)
        self.say(
            "net",
            ", ".join(net.interfaces),
            f"{rate(net.received_bytes_s)} comes in over the network and hardly anything goes out:"
            " the data is fetched from a remote mount, which iostat does not show.",
        )
        daemons = [p for p in self.seen.processes if p.role == "mount"]
        for daemon in daemons:
            text = f"{daemon.name} uses {daemon.cpu_cores or 0:.1f} cores."
            self.say("process", daemon.name, text)
        tags = {"remote"}
        if mount is None or mount.mount_kind == "blobfuse2":
            tags.add("container")
        if mount and mount.mount_kind in ("smb", "nfs"):
            tags.add("share")
        elif mount and mount.cache_class == "none":
            tags.add("no-cache")
        if mount and mount.cache_class == "os":
            tags.add("os-disk")
        sure: Confidence = "high" if mount or daemons else self._unknown_feed(net)
        return Finding("fetch", sure, where, tags=frozenset(tags))

    def _unknown_feed(self, net: Net) -> Confidence:
        """Return how sure a feed is that no known mount explains: a copy looks the same."""
        written = sum(disk.write_bytes_s or 0.0 for disk in self.seen.disks or ())
        if written < 0.5 * (net.received_bytes_s or 0.0):
            return "medium"
        text = "About as much is written to disks: a cache that fills, or a copy beside the job."
        self.say("disk", "all", text)
        return "low"

    def one_way(self, net: Net) -> bool:
        """Tell whether data comes in and hardly anything goes out."""
        sent = net.sent_bytes_s or 0.0
        return (net.received_bytes_s or 0.0) >= self.limits.net_one_way * sent

    def _background(self) -> None:
        """Say what speaks against the causes that are not it."""
        for disk in self.seen.disks or ():
            if disk.nvme and (disk.busy or 0) > 0.9 and not self._slow(disk):
                self.say(
                    "disk",
                    disk.device,
                    f"{disk.device} shows %util {percent(disk.busy)}, which is no saturation on"
                    f" NVMe: a read waits {milliseconds(disk.wait_s)}.",
                )
        cpu = self.seen.cpu
        if cpu and cpu.busy is not None and cpu.busy < self.limits.cpu_full:
            self.say("cpu", "all", f"The CPUs are {percent(cpu.busy)} busy: cores are free.")
        told = all(disk.told for disk in self.seen.disks or ())
        if self.seen.disks is not None and told and not self.reading():
            self.say("disk", "all", "No disk is read from.")


def _lies_on(mount: MountFacts, disk: Disk) -> bool:
    """Tell whether a mount, or its cache, is known to be on a disk."""
    if mount.device is not None or mount.mount_kind in _LOCAL:
        return mount.device == disk.device
    return disk.disk_class is not None and mount.cache_class == disk.disk_class


def _may_lie_on(mount: MountFacts, disk: Disk, devices: set[str]) -> bool:
    """Tell whether a mount, or its cache, can be on a disk; what is unknown can."""
    if mount.device in devices:
        return mount.device == disk.device
    if mount.mount_kind in _LOCAL or mount.cache_class is None or disk.disk_class is None:
        # A device that was not sampled, such as an array, may have this one below it.
        return mount.cache_class != "none"
    return mount.cache_class == disk.disk_class
