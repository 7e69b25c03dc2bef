"""The verdict: what the GPUs wait for, how sure that is, what it costs and what helps.

Low utilisation alone decides nothing; each cause needs evidence of its own, and a source that
nobody looked at keeps a cause open. %util is no saturation on NVMe, and %iowait never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ai4infra.diagnosis.answer import (
    Cause,
    Confidence,
    Diagnosis,
    Evidence,
    Fix,
    GpuRow,
    GpuState,
    Phase,
    Question,
    Verdict,
    gpu_count,
    milliseconds,
    percent,
    rate,
    sentence,
)
from ai4infra.diagnosis.observe import Disk, Net, Process, observe, writing_spans
from ai4infra.diagnosis.phases import Level, split
from ai4infra.diagnosis.rules import Limits, Rules, rules
from ai4infra.diagnosis.series import Collector, Kind, Stats, window

_STEPS: tuple[Confidence, ...] = ("low", "medium", "high")
_STARVING: tuple[Cause, ...] = ("fetch", "prep", "network", "checkpoint")


class _Finding(NamedTuple):
    """A cause with what speaks for it."""

    cause: Cause
    confidence: Confidence
    subject: str | None = None
    detail: str | None = None
    tags: frozenset[str] = frozenset()


MISSING = {
    "disk": "Disks: iostat -xyt 1 60 > disk.txt, then --disk disk.txt.",
    "net": "Network: sar -n DEV 1 60 > net.txt, then --net net.txt;"
    " remote and FUSE mounts do not show in iostat.",
    "cpu": "CPUs: sar -u 1 60 > cpu.txt, then --cpu cpu.txt (iostat without -d has them too).",
    "gpu": "GPU utilisation: nvidia-smi dmon -s pum -o DT > gpu.txt, then --gpu gpu.txt.",
    "mig": "GPU utilisation under MIG: DCGM fields 1001 and 1002 (dcgmi dmon -e 1001,1002);"
    " nvidia-smi has none for a split GPU.",
    "memory": "GPU memory: nvidia-smi dmon -s pum, to tell a job that waits from no job.",
}


def diagnose(
    collected: Collector, question: Question | None = None, data: Rules | None = None
) -> Diagnosis:
    """Return the verdict on what was collected; never raises on what samples say."""
    return _Judge(collected, question or Question(), data or rules()).diagnosis()


class _Judge:
    """One diagnosis in the making."""

    def __init__(self, collected: Collector, question: Question, data: Rules) -> None:
        self.collected = collected
        self.question = question
        self.rules = data
        self.limits: Limits = data.limits
        self.aligned = _align(collected)
        self.all_gpus = self._rows(window(collected.series["gpu"]))
        self.parts = split(self._levels(), self.limits)
        self.judged = next((p for p in reversed(self.parts) if p.kind != "idle"), None)
        spans = self.judged.spans if self.judged and len(self.parts) > 1 else None
        self.gpus = self._rows(window(collected.series["gpu"], spans))
        whole = spans if self.aligned else None
        kinds: tuple[Kind, ...] = ("disk", "net", "cpu", "process")
        self.seen = observe(
            collected,
            dict.fromkeys(kinds, whole),
            question.host,
            question.size,
            data,
            aligned=self.aligned,
        )
        self.evidence: list[Evidence] = []

    def diagnosis(self) -> Diagnosis:
        """Decide, and put everything together."""
        self._gpu_evidence()
        finding = self._decide()
        lost = self._lost(finding)
        gpus = tuple(self._told(row, finding) for row in self.gpus)
        return Diagnosis(
            verdict=self._verdict(finding, lost),
            gpus=gpus,
            phases=tuple(self._phases()),
            evidence=tuple(self.evidence),
            missing=tuple(self._missing(finding)),
            fixes=tuple(self._fixes(finding)),
            warnings=tuple(self._warnings()),
            aligned=self.aligned,
        )

    # --- the GPUs

    def _rows(self, stats: Mapping[str, Stats]) -> list[GpuRow]:
        return [self._row(gpu, each) for gpu, each in sorted(stats.items(), key=_gpu_order)]

    def _row(self, gpu: str, stats: Stats) -> GpuRow:
        power, limit = stats.mean("power_w"), stats.mean("power_limit_w") or self._power_limit()
        share = power / limit if power is not None and limit else None
        utilization = stats.mean("utilization")
        memory = stats.mean("memory_activity")
        used = stats.mean("memory_used_bytes")
        return GpuRow(
            gpu=gpu,
            state=self._state(gpu, utilization, memory, share, used),
            utilization=utilization,
            low_share=stats.mean("low"),
            memory_activity=memory,
            memory_used_bytes=used,
            power_w=power,
            power_share=share,
            samples=stats.known("utilization"),
            note=self._note(gpu, utilization),
        )

    def _note(self, gpu: str, utilization: float | None) -> str | None:
        if gpu in self.collected.mig:
            return "split (MIG): nvidia-smi has no utilisation for it"
        return "no utilisation in the log: unknown, not idle" if utilization is None else None

    def _power_limit(self) -> float | None:
        size = self.question.size
        model = (size.gpu_model if size else None) or self.question.host.gpu_model or ""
        words = model.replace("-", " ").split()
        return next((w for m, w in self.rules.power_limits_w.items() if m in words), None)

    def _state(
        self,
        gpu: str,
        utilization: float | None,
        memory: float | None,
        power: float | None,
        used: float | None,
    ) -> GpuState:
        limits = self.limits
        if utilization is None or gpu in self.collected.mig:
            return "unknown"
        if utilization <= limits.gpu_unused and (used is None or used < limits.memory_idle_bytes):
            return "unused"
        if utilization >= limits.gpu_full:
            return "spinning" if self._spins(memory, power) else "full"
        return "busy" if utilization >= limits.gpu_busy else "waiting"

    def _spins(self, memory: float | None, power: float | None) -> bool:
        """Tell full utilisation without work: memory and power are low, as far as known."""
        limits = self.limits
        if memory is None or power is None:
            alone = memory is not None and memory < limits.memory_activity_idle
            return alone or (power is not None and power < limits.power_low)
        return memory < limits.memory_activity_low and power < limits.power_low

    def _active(self, rows: Sequence[GpuRow]) -> list[GpuRow]:
        return [row for row in rows if row.state not in ("unused", "unknown")]

    def _levels(self) -> list[Level]:
        names = {row.gpu for row in self._active(self.all_gpus)}
        levels = []
        for span, row in sorted(self.collected.series["gpu"].cells.items()):
            known = [
                mean
                for gpu, cell in row.items()
                if gpu in names and (mean := Stats("gpu", cell).mean("utilization")) is not None
            ]
            if known:
                levels.append(Level(span, sum(known) / len(known)))
        return levels

    def _stragglers(self) -> list[GpuRow]:
        """Return the GPUs that lag far behind the others, when they are the fewer."""
        active = self._active(self.gpus)
        if len(active) < 2:
            return []
        middle = median(row.utilization or 0.0 for row in active)
        lagging = [r for r in active if (r.utilization or 0) < self.limits.gpu_straggler * middle]
        fewer = len(lagging) * 2 < len(active) or len(active) == 2
        return lagging if fewer and middle >= self.limits.gpu_busy * _half(active) else []

    def _gpu_evidence(self) -> None:
        for row in self.gpus:
            if row.state == "spinning":
                self._say("gpu", row.gpu, _spinning_text(row))
        active = self._active(self.gpus)
        low = [row.low_share for row in active if row.low_share is not None]
        if active and low:
            mean = _mean(row.utilization or 0.0 for row in active)
            self._say(
                "gpu",
                "all",
                f"{gpu_count(len(active))} at {percent(mean)} on average,"
                f" below 10 % in {percent(_mean(low))} of the readings.",
            )

    # --- the decision

    def _decide(self) -> _Finding:
        active = self._active(self.gpus)
        if not active:
            return self._nobody_works()
        if sum(row.samples for row in active) / len(active) < self.limits.samples_few:
            return _Finding("undetermined", "low", detail="too-few-samples")
        stragglers = self._stragglers()
        if stragglers:
            return self._straggler(stragglers)
        mean = _mean(row.utilization or 0.0 for row in active)
        if stalls := self._checkpoints(mean):
            return stalls
        if mean >= self.limits.gpu_busy:
            return self._busy(active, mean)
        return self._cause() or self._no_cause()

    def _nobody_works(self) -> _Finding:
        if not self.gpus or any(row.state == "unknown" for row in self.gpus):
            return _Finding("undetermined", "low")
        feeding = [d for d in self.seen.disks or () if (d.read_bytes_s or 0) > 1e8]
        unknown_memory = all(row.memory_used_bytes is None for row in self.gpus)
        if feeding and unknown_memory:
            return _Finding("undetermined", "low", detail="no-gpu-memory")
        return _Finding("idle", "medium" if unknown_memory else "high")

    def _straggler(self, rows: list[GpuRow]) -> _Finding:
        names = ", ".join(row.gpu for row in rows)
        means = percent(_mean(row.utilization or 0.0 for row in rows))
        self._say("gpu", names, f"GPU {names} at {means} lags behind the others.")
        found = self._cause()
        if found is None:
            return self._lowered(_Finding("other", "medium", detail="straggler"))
        tags = found.tags | {"straggler"}
        return found._replace(detail="straggler", tags=tags)

    def _busy(self, active: list[GpuRow], mean: float) -> _Finding:
        spinning = [row for row in active if row.state == "spinning"]
        if len(spinning) * 2 > len(active):
            tags = frozenset({"communication"})
            return _Finding("other", "medium", detail="communication", tags=tags)
        return _Finding("gpu", "high" if mean >= self.limits.gpu_full else "medium")

    def _cause(self) -> _Finding | None:
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
        return self._lowered(found) if found else None

    def _network_full(self) -> _Finding | None:
        net = self.seen.net
        if net is None or not net.ceiling_bytes_s or net.received_bytes_s is None:
            return None
        share = net.received_bytes_s / net.ceiling_bytes_s
        if share < self.limits.ceiling_share or not self._one_way(net):
            return None
        self._say(
            "net",
            ", ".join(net.interfaces),
            f"{rate(net.received_bytes_s)} received is {percent(share)} of the"
            f" {rate(net.ceiling_bytes_s)} that the network of this VM has.",
        )
        return _Finding("network", "high", subject=", ".join(net.interfaces))

    def _disk_full(self) -> _Finding | None:
        for disk in self._by_reading():
            share = (disk.read_bytes_s or 0.0) / disk.ceiling_bytes_s if disk.ceiling_bytes_s else 0
            if share >= self.limits.ceiling_share and disk.ceiling_bytes_s:
                self._say(
                    "disk",
                    disk.device,
                    f"{disk.device} reads {rate(disk.read_bytes_s)}, {percent(share)} of the"
                    f" {rate(disk.ceiling_bytes_s)} that is its limit.",
                )
                return self._disk_finding(disk, "high")
        return self._disks_together()

    def _disks_together(self) -> _Finding | None:
        """Judge all remote disks by the one limit that the VM has for them."""
        remote = [disk for disk in self._by_reading() if disk.ceiling_bytes_s]
        ceiling = self.question.size and self.question.size.uncached_disk_mbytes_s
        total = sum(disk.read_bytes_s or 0.0 for disk in remote)
        if not ceiling or len(remote) < 2 or total < self.limits.ceiling_share * ceiling * 1e6:
            return None
        names = ", ".join(disk.device for disk in remote)
        self._say(
            "disk",
            names,
            f"{names} together read {rate(total)}, {percent(total / ceiling / 1e6)} of the"
            f" {rate(ceiling * 1e6)} that this VM reads from remote disks.",
        )
        return self._disk_finding(remote[0], "high")._replace(subject=names)

    def _disk_waits(self) -> _Finding | None:
        for disk in self._by_reading():
            if not self._slow(disk):
                continue
            self._say(
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

    def _disk_finding(self, disk: Disk, confidence: Confidence) -> _Finding:
        kind = {"os": "os-disk", "local-nvme": "local-nvme"}.get(disk.disk_class or "")
        tags = {kind or ("local-nvme" if disk.nvme else "block-device")}
        mount = next((m for m in self.question.host.mounts if m.device == disk.device), None)
        subject = f"{disk.device} ({mount.path})" if mount else disk.device
        if mount and mount.mount_kind not in ("local", "other"):
            tags.add("cache")
        return _Finding("fetch", confidence, subject=subject, tags=frozenset(tags))

    def _by_reading(self) -> list[Disk]:
        """Return the disks that are read from, the one with most bytes first."""
        reading = [
            disk
            for disk in self.seen.disks or ()
            if (disk.read_bytes_s or 0.0) >= self.limits.disk_read_bytes
            or ((disk.reads_s or 0.0) >= self.limits.disk_reads and disk.read_bytes_s != 0)
        ]
        return sorted(reading, key=lambda disk: -(disk.read_bytes_s or 0.0))

    def _waiters(self) -> bool:
        """Tell whether tasks wait for disks: says so, and never decides."""
        cpu = self.seen.cpu
        cores = cpu.iowait_cores if cpu else None
        waiting = [p for p in self._loaders() if p.io_wait and p.io_wait >= self.limits.loader_wait]
        for process in waiting[:3]:
            text = f"{process.name} waits for disks {percent(process.io_wait)} of its time."
            self._say("process", process.name, text)
        if cores is not None and cores >= self.limits.iowait_cores:
            self._say("cpu", "all", f"iowait is about {cores:.1f} tasks that wait for a disk.")
        return bool(waiting) or (cores is not None and cores >= self.limits.iowait_cores)

    def _loaders(self) -> list[Process]:
        return [p for p in self.seen.processes if p.role == "loader"]

    def _cpu_full(self) -> _Finding | None:
        cpu = self.seen.cpu
        if cpu is None or cpu.busy is None or cpu.busy < self.limits.cpu_full:
            return None
        of = f" of {cpu.cpus} cores" if cpu.cpus else ""
        self._say("cpu", "all", f"The CPUs are {percent(cpu.busy)} busy{of}: no core is left.")
        return _Finding("prep", "high", subject="CPU", tags=frozenset({"cpu-full"}))

    def _loaders_compute(self) -> _Finding | None:
        loaders = [p for p in self._loaders() if p.cpu_cores is not None]
        if not loaders:
            return None
        cores = _mean(p.cpu_cores or 0.0 for p in loaders)
        waits = _mean(p.io_wait or 0.0 for p in loaders)
        if cores < self.limits.loader_core or waits >= self.limits.loader_wait:
            return None
        self._say(
            "process",
            loaders[0].name,
            f"{len(loaders)} loader processes use {percent(cores)} of a core each and wait"
            f" {percent(waits)} of their time.",
        )
        return _Finding("prep", "high", subject="loaders", tags=frozenset({"few-workers"}))

    def _remote_feed(self) -> _Finding | None:
        """A mount over the network: bytes come in, no disk and no CPU is at its limit."""
        net = self.seen.net
        if net is None or (net.received_bytes_s or 0.0) < self.limits.net_feed_bytes:
            return None
        if not self._one_way(net):
            return None
        mount = next((m for m in self.question.host.mounts if m.mount_kind not in _LOCAL), None)
        where = f"{mount.path} ({mount.mount_kind})" if mount else ", ".join(net.interfaces)
        self._say(
            "net",
            ", ".join(net.interfaces),
            f"{rate(net.received_bytes_s)} comes in over the network and hardly anything goes out:"
            " the data is fetched from a remote mount, which iostat does not show.",
        )
        daemons = [p for p in self.seen.processes if p.role == "mount"]
        for daemon in daemons:
            text = f"{daemon.name} uses {daemon.cpu_cores or 0:.1f} cores."
            self._say("process", daemon.name, text)
        tags = {"remote"}
        if mount and mount.cache_class == "none":
            tags.add("no-cache")
        if mount and mount.cache_class == "os":
            tags.add("os-disk")
        known = bool(mount or daemons)
        return _Finding("fetch", "high" if known else "medium", where, tags=frozenset(tags))

    def _one_way(self, net: Net) -> bool:
        sent = net.sent_bytes_s or 0.0
        return (net.received_bytes_s or 0.0) >= self.limits.net_one_way * sent

    def _no_cause(self) -> _Finding:
        """Nothing is at a limit: another cause when all was seen, else nobody can tell."""
        if self._open_sources():
            return _Finding("undetermined", "low")
        net = self.seen.net
        if net and (net.received_bytes_s or 0.0) >= self.limits.net_feed_bytes:
            self._say(
                "net",
                ", ".join(net.interfaces),
                f"{rate(net.received_bytes_s)} comes in and {rate(net.sent_bytes_s)} goes out:"
                " ranks talk to each other.",
            )
            tags = frozenset({"communication"})
            return self._lowered(_Finding("other", "high", detail="communication", tags=tags))
        return self._lowered(_Finding("other", "medium", detail="small-batches"))

    def _background(self) -> None:
        """Say what speaks against the causes that are not it."""
        for disk in self.seen.disks or ():
            if disk.nvme and (disk.busy or 0) > 0.9 and not self._slow(disk):
                self._say(
                    "disk",
                    disk.device,
                    f"{disk.device} shows %util {percent(disk.busy)}, which is no saturation on"
                    f" NVMe: a read waits {milliseconds(disk.wait_s)}.",
                )
        cpu = self.seen.cpu
        if cpu and cpu.busy is not None and cpu.busy < self.limits.cpu_full:
            self._say("cpu", "all", f"The CPUs are {percent(cpu.busy)} busy: cores are free.")
        if self.seen.disks is not None and not self._by_reading():
            self._say("disk", "all", "No disk is read from.")

    # --- checkpoints

    def _checkpoints(self, mean: float) -> _Finding | None:
        if mean >= 1 - self.limits.checkpoint_lost or not self.judged:
            return None
        return self._stalls_in_time() if self.aligned else self._stalls_by_share()

    def _stalls_in_time(self) -> _Finding | None:
        assert self.judged is not None  # noqa: S101 - _checkpoints looked
        written = writing_spans(self.collected, self.rules)
        floor = self.limits.checkpoint_write_bytes
        levels = self.judged.levels
        writing = [level for level in levels if written.get(level.span, 0.0) >= floor]
        rest = [level for level in levels if written.get(level.span, 0.0) < floor]
        if not writing or not rest:
            return None
        lost = sum(1 - level.utilization for level in levels)
        stalled = sum(1 - level.utilization for level in writing)
        feeds = _mean(level.utilization for level in rest) >= self.limits.gpu_busy
        if not feeds or stalled < self.limits.checkpoint_share * lost:
            return None
        if stalled / len(levels) < self.limits.checkpoint_lost:
            return None
        amount = max(written[level.span] for level in writing)
        self._say(
            "disk",
            "all",
            f"{percent(stalled / lost)} of the lost time falls into writes of up to"
            f" {rate(amount)}; between them the GPUs are fed.",
        )
        return self._lowered(_Finding("checkpoint", "high", subject=self._written_to()))

    def _stalls_by_share(self) -> _Finding | None:
        """Compare shares where no clock tells what happened together."""
        rows = self._active(self.gpus)
        low = _mean(row.low_share or 0.0 for row in rows)
        mean = _mean(row.utilization or 0.0 for row in rows)
        if not self.limits.checkpoint_lost <= low <= 0.6 or mean / (1 - low) < self.limits.gpu_busy:
            return None
        written = writing_spans(self.collected, self.rules)
        floor = self.limits.checkpoint_write_bytes
        share = sum(v >= floor for v in written.values()) / len(written) if written else 0.0
        if not low / 2 <= share <= low * 2:
            return None
        self._say(
            "disk",
            "all",
            f"Disks are written to for {percent(share)} of the time, the GPUs wait for"
            f" {percent(low)} of it.",
        )
        return _Finding("checkpoint", "low", subject=self._written_to())

    def _written_to(self) -> str | None:
        disks = self.seen.disks or ()
        most = max(disks, key=lambda disk: disk.write_bytes_s or 0.0, default=None)
        if most and (most.write_bytes_s or 0.0) > 0:
            return most.device
        return ", ".join(self.seen.net.interfaces) if self.seen.net else None

    # --- how sure, and what is missing

    def _open_sources(self) -> list[str]:
        """Return what nobody looked at."""
        seen = self.seen
        net_known = seen.net is not None and seen.net.received_bytes_s is not None
        cpu_known = seen.cpu is not None and seen.cpu.busy is not None
        read = self._by_reading()
        disk_known = seen.disks is not None and all(
            disk.wait_s is not None or not disk.read_bytes_s for disk in read
        )
        known = {"disk": disk_known, "net": net_known, "cpu": cpu_known}
        return [name for name, is_known in known.items() if not is_known]

    def _lowered(self, finding: _Finding) -> _Finding:
        """Return the finding, less sure for each source that is missing."""
        level = _STEPS.index(finding.confidence)
        level -= len(self._open_sources())
        if not self.aligned:
            level = min(level, 1)
        if self._readings() < self.limits.samples_many:
            level -= 1
        return finding._replace(confidence=_STEPS[max(0, level)])

    def _readings(self) -> float:
        active = self._active(self.gpus)
        return _mean(row.samples for row in active) if active else 0.0

    def _missing(self, finding: _Finding) -> Iterator[str]:
        if any(row.state == "unknown" and row.gpu in self.collected.mig for row in self.gpus):
            yield MISSING["mig"]
        elif not self.gpus or any(row.state == "unknown" for row in self.gpus):
            yield MISSING["gpu"]
        if finding.detail == "no-gpu-memory":
            yield MISSING["memory"]
        if finding.cause not in ("gpu", "idle"):
            yield from (MISSING[name] for name in self._open_sources())

    def _warnings(self) -> Iterator[str]:
        yield from self.question.remarks
        size = self.question.size
        seen = {row.gpu.partition("/")[0] for row in self.gpus}
        if size and size.vendor == "AMD":
            yield f"{size.size} has AMD GPUs, for which nvidia-smi does not apply: use amd-smi."
        wanted = self.question.host.gpus
        if size and size.gpu_count and size.gpu_count.isdigit():
            wanted = int(size.gpu_count)
        if wanted and seen and len(seen) < wanted:
            yield (
                f"{len(seen)} of {wanted} GPUs were sampled; older drivers show four:"
                f" nvidia-smi dmon -i {','.join(map(str, range(wanted)))}."
            )
        others = [s for k, s in self.collected.series.items() if k != "gpu" and s.samples]
        if others and self.gpus and not self.aligned:
            yield (
                "The logs are not on one clock: they are compared as a whole."
                " Log with times (nvidia-smi dmon -o DT, iostat -t)."
            )

    # --- putting it together

    def _lost(self, finding: _Finding) -> float | None:
        active = self._active(self.gpus)
        if not active or finding.cause in ("undetermined", "idle"):
            return None
        rows = self._stragglers() if finding.detail == "straggler" else active
        return 1 - _mean(min(1.0, row.utilization or 0.0) for row in rows)

    def _verdict(self, finding: _Finding, lost: float | None) -> Verdict:
        price = self.question.price_per_hour
        starving = finding.cause in _STARVING
        straggling = finding.detail == "straggler"
        gpus = tuple(row.gpu for row in self._stragglers()) if straggling else ()
        return Verdict(
            cause=finding.cause,
            detail=finding.detail,
            subject=finding.subject,
            gpus=gpus,
            starving=starving,
            confidence=finding.confidence,
            sentence=sentence(finding.cause, finding.detail, finding.subject, gpus),
            lost_share=lost,
            lost_per_hour=price * lost if price is not None and lost is not None else None,
            currency=self.question.currency if price is not None else None,
        )

    def _told(self, row: GpuRow, finding: _Finding) -> GpuRow:
        """Return the row, starved where the verdict says so."""
        if row.state != "waiting" or finding.cause not in _STARVING:
            return row
        if finding.detail == "straggler" and row not in self._stragglers():
            return row
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        return GpuRow(**{**fields, "state": "starved"})

    def _phases(self) -> Iterator[Phase]:
        span_s = self.collected.series["gpu"].span_s
        for part in self.parts:
            yield Phase(
                phase=part.kind,
                start_s=part.spans.start * span_s,
                end_s=part.spans.stop * span_s,
                utilization=part.utilization,
                judged=part is self.judged,
            )

    def _fixes(self, finding: _Finding) -> Iterator[Fix]:
        causes = [finding.cause]
        if any(part.kind == "cold-start" for part in self.parts):
            causes.append("cold-start")  # type: ignore[arg-type]  # a cause of its own in the data
        for row in self.rules.fixes:
            if row.cause in causes and finding.tags >= set(row.tags):
                yield Fix(text=row.text, effect=row.effect, command=row.command)

    def _say(self, source: str, subject: str, text: str) -> None:
        found = Evidence(source=source, subject=subject, text=text)  # type: ignore[arg-type]
        if found not in self.evidence:
            self.evidence.append(found)


_LOCAL = ("local", "other")


def _align(collected: Collector) -> bool:
    """Bring all series to one length of span; tell whether they lie on one clock."""
    present = [series for series in collected.series.values() if series.samples]
    gpu = collected.series["gpu"]
    if not gpu.samples or len(present) < 2 or not all(series.timed for series in present):
        return False
    widest = max(_interval(series.cells, series.span_s) for series in present)
    for series in present:
        if series.span_s < widest:
            series.widen(widest)
    spans = set(gpu.cells)
    return all(
        len(spans & set(series.cells)) * 2 >= min(len(spans), len(series.cells))
        for series in present
    )


def _interval(spans: Iterable[int], span_s: float) -> float:
    """Return the usual distance of spans, in powers of two times their length."""
    ordered = sorted(spans)
    gaps = [after - before for before, after in pairwise(ordered)]
    usual = median(gaps) if gaps else 1
    factor = 1
    while factor < usual:
        factor *= 2
    return span_s * factor


def _gpu_order(item: tuple[str, Stats]) -> tuple[int, float, str]:
    name = item[0]
    head = name.partition("/")[0]
    return (0, float(head), name) if head.isdecimal() else (1, 0.0, name)


def _half(active: Sequence[GpuRow]) -> float:
    """Two GPUs have no majority: the middle of them is lower."""
    return 0.5 if len(active) == 2 else 1.0


def _spinning_text(row: GpuRow) -> str:
    seen = [
        *(
            [f"memory activity {percent(row.memory_activity)}"]
            if row.memory_activity is not None
            else []
        ),
        *(
            [f"power {percent(row.power_share)} of its limit"]
            if row.power_share is not None
            else []
        ),
    ]
    return (
        f"GPU {row.gpu} shows {percent(row.utilization)} with {' and '.join(seen)}:"
        " a kernel that waits, or very small ones."
    )


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0
