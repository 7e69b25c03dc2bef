"""The verdict: what the GPUs wait for, how sure that is, what it costs and what helps.

Low utilisation alone decides nothing; each cause needs evidence of its own, and a source that
nobody looked at keeps a cause open. %util is no saturation on NVMe, and %iowait never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from msgspec.structs import replace

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
    mean_of,
    percent,
    rate,
    sentence,
)
from ai4infra.diagnosis.causes import Causes, Finding
from ai4infra.diagnosis.fixes import filled
from ai4infra.diagnosis.observe import moving_spans, observe, writing_spans
from ai4infra.diagnosis.phases import Level, split
from ai4infra.diagnosis.rules import Limits, Rules, rules
from ai4infra.diagnosis.series import Collector, Kind, Series, Stats, window

_STEPS: tuple[Confidence, ...] = ("low", "medium", "high")
_WHOLE_JOB = (
    "The others do work, so only what it loses itself is counted; where all are ranks of one job,"
    " they wait for it at each step."
)
_NOT_JUDGED: tuple[GpuState, ...] = ("unused", "lost", "unknown")
_STARVING: tuple[Cause, ...] = ("fetch", "prep", "network", "checkpoint")


MISSING = {
    "disk": "Disks: iostat -xyt 1 60 > disk.txt, then --disk disk.txt.",
    "net": "Network: sar -n DEV 1 60 > net.txt, then --net net.txt;"
    " remote and FUSE mounts do not show in iostat.",
    "cpu": "CPUs: sar -u 1 60 > cpu.txt, then --cpu cpu.txt (iostat without -d has them too).",
    "gpu": "GPU utilisation: nvidia-smi dmon -s pum -o DT > gpu.txt, then --gpu gpu.txt.",
    "mig": "GPU utilisation under MIG, which nvidia-smi does not have:"
    " dcgmi dmon -e 1001,1002,1005,252 -i '*,*/*' > gpu.txt, then --gpu gpu.txt.",
    "process": "Loader processes: ai4infra diagnose watch --duration 60; a few that are at their"
    " limit do not show in the mean of all cores.",
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
        self.lost = _lost(collected.series["gpu"], self.limits)
        self.all_gpus = self._rows(window(collected.series["gpu"]))
        self.parts = split(self._levels(), self.limits)
        self.judged = next((p for p in reversed(self.parts) if p.kind != "idle"), None)
        spans = self.judged.spans if self.judged and len(self.parts) > 1 else None
        self.gpus = self._rows(window(collected.series["gpu"], spans))
        whole = self.judged.spans if self.aligned and self.judged else None
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
        self.causes = Causes(self.seen, question, self.limits, self._say, self._together)

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
        split = {gpu.partition("/")[0] for gpu in stats if "/" in gpu} & self.collected.mig
        rows = [
            self._row(gpu, each)
            for gpu, each in sorted(stats.items(), key=_gpu_order)
            if gpu not in split
        ]
        working = [r for r in self._active(rows) if (r.utilization or 0) > self.limits.gpu_unused]
        spinning = sum(row.state == "spinning" for row in working)
        # A rank that stands still stops its peers: they spin. Where they work, it is no rank.
        if not working or spinning * 2 > len(working):
            return rows
        return [row if row in working else self._unused(row) for row in rows]

    def _unused(self, row: GpuRow) -> GpuRow:
        if row.state != "waiting":
            return row
        note = f"{(row.memory_used_bytes or 0) / 1e9:.0f} GB are held, and nothing computes"
        return replace(row, state="unused", note=note)

    def _together(self, kind: Kind, subjects: Sequence[str]) -> float | None:
        """Return the share of the lost GPU time in which something moved data."""
        if not self.aligned or not self.judged:
            return None
        series = self.collected.series[kind]
        moving = moving_spans(series, subjects, self.limits)
        # A reading is of the time before it, and clocks are read one after another.
        near = {span + step for span in moving for step in (-1, 0, 1)}
        known = {span + step for span in series.cells for step in (-1, 0, 1)}
        lost = {x.span: 1 - x.utilization for x in self.judged.levels if x.span in known}
        total = sum(lost.values())
        return sum(share for span, share in lost.items() if span in near) / total if total else None

    def _row(self, gpu: str, stats: Stats) -> GpuRow:
        power, limit = stats.mean("power_w"), stats.mean("power_limit_w") or self._power_limit()
        share = power / limit if power is not None and limit else None
        utilization = stats.mean("utilization")
        memory = stats.mean("memory_activity")
        used = stats.mean("memory_used_bytes")
        return GpuRow(
            gpu=gpu,
            state="lost"
            if gpu in self.lost
            else self._state(gpu, utilization, memory, share, used),
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
        if gpu in self.lost:
            return f"no reading in the last {percent(self.lost[gpu])} of the time: left out"
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
        return [row for row in rows if row.state not in _NOT_JUDGED]

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
        for gpu, share in self.lost.items():
            self._say(
                "gpu", gpu, f"GPU {gpu} has no reading in the last {percent(share)} of the time."
            )
        for row in self.gpus:
            if row.state == "spinning":
                self._say("gpu", row.gpu, _spinning_text(row))
        active = self._active(self.gpus)
        low = [row.low_share for row in active if row.low_share is not None]
        if active and low:
            mean = mean_of(row.utilization or 0.0 for row in active)
            self._say(
                "gpu",
                "all",
                f"{gpu_count(len(active))} at {percent(mean)} on average,"
                f" below 10 % in {percent(mean_of(low))} of the readings.",
            )

    # --- the decision

    def _decide(self) -> Finding:
        active = self._active(self.gpus)
        if not active:
            return self._nobody_works()
        if sum(row.samples for row in active) / len(active) < self.limits.samples_few:
            return Finding("undetermined", "low", detail="too-few-samples")
        stragglers = self._stragglers()
        if stragglers:
            return self._straggler(stragglers)
        mean = mean_of(row.utilization or 0.0 for row in active)
        if stalls := self._checkpoints(mean):
            return stalls
        if mean >= self.limits.gpu_busy:
            return self._busy(active, mean)
        found = self._found()
        if found and self._only_held(found, mean):
            return Finding("undetermined", "low", detail="held-feed")
        return found or self._no_cause(mean)

    def _only_held(self, found: Finding, mean: float) -> bool:
        """Tell whether GPUs that hold a model, and do nothing, may have nothing to do."""
        return mean <= self.limits.gpu_unused and "remote" in found.tags and not self._mounted()

    def _mounted(self) -> bool:
        return any(m.mount_kind not in ("local", "other") for m in self.question.host.mounts)

    def _nobody_works(self) -> Finding:
        if not self.gpus:
            return Finding(
                "undetermined", "low", detail="no-gpu" if self.question.host.tool else None
            )
        if any(row.state in ("unknown", "lost") for row in self.gpus):
            return Finding("undetermined", "low")
        feeding = [d for d in self.seen.disks or () if (d.read_bytes_s or 0) > 1e8]
        unknown_memory = all(row.memory_used_bytes is None for row in self.gpus)
        if feeding and unknown_memory:
            return Finding("undetermined", "low", detail="no-gpu-memory")
        return Finding("idle", "medium" if unknown_memory else "high")

    def _straggler(self, rows: list[GpuRow]) -> Finding:
        names = ", ".join(row.gpu for row in rows)
        means = percent(mean_of(row.utilization or 0.0 for row in rows))
        self._say("gpu", names, f"GPU {names} at {means} lags behind the others.")
        if not any(row.state == "spinning" for row in self._active(self.gpus)):
            self._say("gpu", "all", _WHOLE_JOB)
        found = self._found()
        if found is None:
            return self._lowered(Finding("other", "medium", detail="straggler"))
        tags = found.tags | {"straggler"}
        return found._replace(detail="straggler", tags=tags)

    def _busy(self, active: list[GpuRow], mean: float) -> Finding:
        spinning = [row for row in active if row.state == "spinning"]
        if len(spinning) * 2 > len(active):
            tags = frozenset({"communication"})
            one_sign = any(r.memory_activity is None or r.power_share is None for r in spinning)
            sure: Confidence = "low" if one_sign else "medium"
            return Finding("other", sure, detail="communication", tags=tags)
        return Finding("gpu", "high" if mean >= self.limits.gpu_full else "medium")

    def _found(self) -> Finding | None:
        found = self.causes.find()
        return self._lowered(found) if found else None

    def _no_cause(self, mean: float) -> Finding:
        """Nothing is at a limit: another cause when all was seen, else nobody can tell."""
        if self._open_sources():
            return Finding("undetermined", "low")
        if mean <= self.limits.gpu_unused:
            return self._lowered(Finding("idle", "medium", detail="held"))
        net = self.seen.net
        talks = net and (net.received_bytes_s or 0.0) >= self.limits.net_feed_bytes
        if net and talks and not self.causes.one_way(net):
            self._say(
                "net",
                ", ".join(net.interfaces),
                f"{rate(net.received_bytes_s)} comes in and {rate(net.sent_bytes_s)} goes out:"
                " ranks talk to each other.",
            )
            tags = frozenset({"communication"})
            sure: Confidence = "medium" if self._mounted() else "high"
            return self._lowered(Finding("other", sure, detail="communication", tags=tags))
        # A few loaders at their limit do not show in the mean of all cores.
        sure = "medium" if self.seen.processes else "low"
        return self._lowered(Finding("other", sure, detail="small-batches"))

    # --- checkpoints

    def _checkpoints(self, mean: float) -> Finding | None:
        if mean >= 1 - self.limits.checkpoint_lost or not self.judged:
            return None
        return self._stalls_in_time() if self.aligned else self._stalls_by_share()

    def _stalls_in_time(self) -> Finding | None:
        assert self.judged is not None  # noqa: S101 - _checkpoints looked
        written = writing_spans(self.collected, self.rules)
        floor = self.limits.checkpoint_write_bytes
        parts = [p for p in self.parts if p is self.judged or p.kind == "steady"]
        levels = [level for part in parts for level in part.levels]
        writing = [level for level in levels if written.get(level.span, 0.0) >= floor]
        rest = [level for level in levels if written.get(level.span, 0.0) < floor]
        if not writing or not rest:
            return None
        lost = sum(1 - level.utilization for level in levels)
        stalled = sum(1 - level.utilization for level in writing)
        feeds = mean_of(level.utilization for level in rest) >= self.limits.gpu_busy
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
        return self._lowered(Finding("checkpoint", "high", subject=self._written_to()))

    def _stalls_by_share(self) -> Finding | None:
        """Compare shares where no clock tells what happened together."""
        rows = self._active(self.gpus)
        low = mean_of(row.low_share or 0.0 for row in rows)
        mean = mean_of(row.utilization or 0.0 for row in rows)
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
        return Finding("checkpoint", "low", subject=self._written_to())

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
        read = self.causes.reading()
        disk_known = seen.disks is not None and all(
            disk.wait_s is not None or not disk.read_bytes_s for disk in read
        )
        disk_known = disk_known and all(disk.told for disk in seen.disks or ())
        known = {"disk": disk_known, "net": net_known, "cpu": cpu_known}
        return [name for name, is_known in known.items() if not is_known]

    def _lowered(self, finding: Finding) -> Finding:
        """Return the finding, less sure for each source that is missing."""
        level = _STEPS.index(finding.confidence)
        level -= len(self._open_sources())
        if not self.aligned:
            level = min(level, 0 if self._apart() else 1)
        if self._readings() < self.limits.samples_many:
            level -= 1
        return finding._replace(confidence=_STEPS[max(0, level)])

    def _apart(self) -> bool:
        """Tell whether all logs have times, and were not taken at the same one."""
        return all(series.timed for series in self.collected.series.values() if series.cells)

    def _readings(self) -> float:
        active = self._active(self.gpus)
        return mean_of(row.samples for row in active) if active else 0.0

    def _missing(self, finding: Finding) -> Iterator[str]:
        if any(row.state == "unknown" and row.gpu in self.collected.mig for row in self.gpus):
            yield MISSING["mig"]
        elif finding.detail == "no-gpu":
            # The machine was watched: another log of it would have no GPU either.
            return
        elif not self.gpus or any(row.state == "unknown" for row in self.gpus):
            yield MISSING["gpu"]
        if finding.detail == "no-gpu-memory":
            yield MISSING["memory"]
        if finding.cause not in ("gpu", "idle"):
            yield from (MISSING[name] for name in self._open_sources())
        if finding.detail == "small-batches" and not self.seen.processes:
            yield MISSING["process"]

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
        others = [s for k, s in self.collected.series.items() if k != "gpu" and s.cells]
        if others and self.gpus and not self.aligned and self._apart():
            yield (
                "The logs are of different times: they are compared as a whole, which says little."
                " Log at once, and in one time zone (containers often have UTC)."
            )
        elif others and self.gpus and not self.aligned:
            yield (
                "The logs are not on one clock: they are compared as a whole."
                " Log with times (nvidia-smi dmon -o DT, iostat -t)."
            )

    # --- putting it together

    def _lost(self, finding: Finding) -> float | None:
        active = self._active(self.gpus)
        if not active or finding.cause in ("undetermined", "idle"):
            return None
        if finding.detail == "communication" and any(r.state == "spinning" for r in active):
            # Busy waiting counts as use: how much of it is lost is not known.
            return None
        waiting = self._stragglers() if finding.detail == "straggler" else []
        least = mean_of(row.utilization or 0.0 for row in waiting)
        used = (least if waiting and row.state == "spinning" else row.utilization for row in active)
        return 1 - mean_of(min(1.0, share or 0.0) for share in used)

    def _cost(self, lost: float | None) -> float | None:
        """Return what is lost an hour; GPUs that nobody uses are paid for, and not lost by this."""
        price = self.question.price_per_hour
        if price is None or lost is None:
            return None
        known = [row for row in self.gpus if row.state != "unknown"]
        return price * lost * len(self._active(self.gpus)) / len(known)

    def _verdict(self, finding: Finding, lost: float | None) -> Verdict:
        cost = self._cost(lost)
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
            lost_per_hour=cost,
            currency=self.question.currency if self.question.price_per_hour is not None else None,
            price_basis=self.question.price_basis,
        )

    def _told(self, row: GpuRow, finding: Finding) -> GpuRow:
        """Return the row, starved where the verdict says so."""
        if row.state != "waiting" or finding.cause not in _STARVING:
            return row
        if finding.detail == "straggler" and row not in self._stragglers():
            return row
        return replace(row, state="starved")

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

    def _fixes(self, finding: Finding) -> Iterator[Fix]:
        causes: list[str] = ["no-gpu" if finding.detail == "no-gpu" else finding.cause]
        if any(part.kind == "cold-start" for part in self.parts):
            causes.append("cold-start")
        for row in self.rules.fixes:
            if row.cause in causes and finding.tags >= set(row.tags):
                command = filled(row.command, self.question) if row.command else None
                yield Fix(text=row.text, effect=row.effect, command=command)

    def _say(self, source: str, subject: str, text: str) -> None:
        found = Evidence(source=source, subject=subject, text=text)  # type: ignore[arg-type]
        if found not in self.evidence:
            self.evidence.append(found)


def _lost(series: Series, limits: Limits) -> dict[str, float]:
    """Return the GPUs whose readings end long before the others', with that share of the time."""
    last: dict[str, int] = {}
    for span, row in sorted(series.cells.items()):
        # A driver that lost a GPU may go on to print rows of it, without values.
        last |= {gpu: span for gpu, cell in row.items() if Stats("gpu", cell).known("utilization")}
    end = max(last.values(), default=0)
    length = end - min(series.cells, default=0) + 1
    least = max(limits.gpu_gone * length, limits.samples_few)
    return {gpu: (end - at) / length for gpu, at in last.items() if end - at > least}


def _align(collected: Collector) -> bool:
    """Bring all series to one length of span; tell whether they lie on one clock."""
    present = [series for series in collected.series.values() if series.cells]
    gpu = collected.series["gpu"]
    if not gpu.cells or len(present) < 2 or not all(series.timed for series in present):
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
