"""One HTML file that shows a diagnosis: verdict, timeline, evidence, fixes. Pure.

The file needs nothing beside itself: style and drawing are inside, and there is no script. It
prints on two pages: the verdict with its timeline, then what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape as markup_escaped
from typing import Literal, NamedTuple

from ai4infra.diagnosis.answer import Diagnosis, Fix, GpuRow, GpuState, Phase
from ai4infra.diagnosis.samples import Host
from ai4infra.diagnosis.timeline import Curve, Drawn, Kind
from ai4infra.model import Record

Tone = Literal["bad", "warn", "good", "unknown"]

MBYTE = 10**6
HEALTHY = 0.8
"""The line in the chart of GPU utilisation; the verdict rests on more than that."""
OUTLIER = 0.6
"""A GPU below this share of the median is named in the chart."""
MOST_LINES = 4
"""Devices and interfaces that get a line of their own: those that moved most."""
MAX_ROWS = 12
"""Of evidence and GPUs each: two pages have room for that."""


class Report(Record, frozen=True, kw_only=True):
    """What the file says."""

    title: str
    diagnosis: Diagnosis
    drawn: Drawn
    host: Host
    made: str = ""
    """By what, and when."""


def tone_of(diagnosis: Diagnosis) -> Tone:
    """Return how bad a verdict is."""
    if diagnosis.verdict.starving:
        return "bad"
    tones: dict[str, Tone] = {"gpu": "good", "other": "warn"}
    return tones.get(diagnosis.verdict.cause, "unknown")


def figures(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield caption and value of what is shown large."""
    verdict = diagnosis.verdict
    yield "Cause", _CAUSES[verdict.cause]
    yield "Confidence", verdict.confidence
    if verdict.lost_share is not None:
        yield "GPU time lost", _percent(verdict.lost_share)
    if verdict.lost_per_hour is not None:
        currency = verdict.currency or ""
        yield "Lost an hour", f"{verdict.lost_per_hour:,.2f} {currency}".strip()


_CAUSES: dict[str, str] = {
    "fetch": "fetching data",
    "prep": "preparing data",
    "network": "network",
    "checkpoint": "checkpoints",
    "gpu": "GPU-bound",
    "idle": "idle",
    "other": "not data",
    "undetermined": "undetermined",
}


def escape(text: str) -> str:
    """Return a text as it can stand in the page: no markup, and nothing that cannot be seen."""
    return markup_escaped("".join(each if each.isprintable() else " " for each in text))


def html(report: Report) -> str:
    """Return the whole file."""
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(report.title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n",
            f'<main>\n<section class="first">\n{_head(report)}{_timeline(report)}</section>\n',
            f'<section class="second">\n{_second(report)}</section>\n</main>\n</body>\n</html>\n',
        )
    )


def _head(report: Report) -> str:
    shown = "".join(
        f"<div><dt>{escape(caption)}</dt><dd>{escape(value)}</dd></div>"
        for caption, value in figures(report.diagnosis)
    )
    summary = " ".join(e.text for e in report.diagnosis.evidence[:2])
    return (
        f'<header class="{tone_of(report.diagnosis)}">\n'
        f'<p class="kicker">{escape(report.title)}</p>\n'
        f"<h1>{escape(report.diagnosis.verdict.sentence)}</h1>\n<p>{escape(summary)}</p>\n"
        f'<dl class="figures">{shown}</dl>\n</header>\n'
    )


def _second(report: Report) -> str:
    found = report.diagnosis
    parts = (
        _fixes(found.fixes),
        _list("What it rests on", [e.text for e in found.evidence]),
        _list("What is missing", found.missing),
        _list("Good to know", found.warnings),
        _gpu_table(found.gpus),
        _facts(tuple(_machine(report))),
        f"<footer>{escape(report.made)}</footer>\n" if report.made else "",
    )
    return "".join(parts)


def _machine(report: Report) -> Iterator[tuple[str, str]]:
    host, drawn = report.host, report.drawn
    count = host.gpus or len(report.diagnosis.gpus) or None
    named: tuple[tuple[str, str | None], ...] = (
        ("Size", host.size),
        ("Region", host.region),
        ("Price", report.diagnosis.verdict.price_basis),
        ("GPUs", " x ".join(str(part) for part in (count, host.gpu_model) if part) or None),
        ("CPUs", None if host.cpus is None else str(host.cpus)),
        ("Begin", host.started.replace("T", " ") if host.started else None),
        ("Time", _seconds(drawn.bins * drawn.bin_s) if drawn.clocked else None),
        ("Interval", None if host.interval_s is None else _seconds(host.interval_s)),
        *(("Path", f"{mount.path} ({mount.mount_kind})") for mount in host.mounts),
        *(("Cache", mount.cache_class) for mount in host.mounts if mount.cache_class),
    )
    yield from ((name, value) for name, value in named if value)


def _fixes(fixes: Sequence[Fix]) -> str:
    if not fixes:
        return ""
    rows = "".join(
        f'<li>{escape(fix.text)} <span class="more">{escape(fix.effect)}</span>'
        + (f"<pre><code>{escape(fix.command)}</code></pre>" if fix.command else "")
        + "</li>"
        for fix in fixes
    )
    return f'<h2>What to do, most effect first</h2>\n<ol class="fixes">{rows}</ol>\n'


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    rows = "".join(f"<li>{escape(line)}</li>" for line in lines[:MAX_ROWS])
    more = len(lines) - MAX_ROWS
    rest = f'<li class="more">and {more} more</li>' if more > 0 else ""
    return f"<h2>{escape(title)}</h2>\n<ul>{rows}{rest}</ul>\n"


def _gpu_table(rows: Sequence[GpuRow]) -> str:
    if not rows:
        return ""
    # The worst first, so that what is cut off is like what is shown.
    shown = sorted(rows, key=lambda row: _STATES.index(row.state))[:MAX_ROWS]
    body = "".join(_gpu_row(row) for row in shown)
    more = len(rows) - len(shown)
    rest = f'<p class="more">and {more} more</p>' if more > 0 else ""
    titles = ("GPU", "Utilisation", "Below 10 %", "Memory activity", "Power", "State")
    heads = "".join(f'<th scope="col">{title}</th>' for title in titles)
    return (
        f'<h2>Each GPU</h2>\n<div class="wide"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{rest}\n"
    )


_STATES: tuple[GpuState, ...] = (
    "lost",
    "starved",
    "waiting",
    "spinning",
    "unknown",
    "unused",
    "busy",
    "full",
)
_STATE_TONES: dict[str, Tone] = {
    "lost": "bad",
    "starved": "bad",
    "waiting": "warn",
    "spinning": "warn",
    "busy": "good",
    "full": "good",
}


def _gpu_row(row: GpuRow) -> str:
    power = "?" if row.power_w is None else f"{row.power_w:,.0f} W"
    cells = (
        _percent(row.utilization),
        _percent(row.low_share),
        _percent(row.memory_activity),
        power if row.power_share is None else f"{power}, {_percent(row.power_share)}",
    )
    values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    state = f"{row.state}: {row.note}" if row.note else row.state
    return (
        f'<tr class="{_STATE_TONES.get(row.state, "unknown")}"><th scope="row">GPU '
        f"{escape(row.gpu)}</th>{values}<td>{escape(state)}</td></tr>"
    )


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share * 100:.0f} %"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    rows = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts)
    return f'<h2>The machine</h2>\n<dl class="facts">{rows}</dl>\n'


# --- the timeline

_WIDTH = 960.0
_LEFT, _RIGHT = 62.0, 108.0
_PLOT = _WIDTH - _LEFT - _RIGHT
_HEIGHT, _GAP = 124.0, 36.0
_TOP = 42.0


class _Chart(NamedTuple):
    """One of the stacked charts."""

    title: str
    kind: Kind
    curves: tuple[Curve, ...]
    top: float
    """Value at the upper edge."""
    unit: str
    scale: float
    """What a value is divided by to be written."""


def _timeline(report: Report) -> str:
    drawn = report.drawn
    charts = list(_charts(drawn))
    if not charts or drawn.bins < 2:
        return '<p class="empty">There are too few samples for a timeline.</p>\n'
    height = _TOP + len(charts) * (_HEIGHT + _GAP) + 8
    span = drawn.bins * drawn.bin_s
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="Timeline of GPUs, disks,'
        ' network and CPUs">',
        *_bands(report, span, height),
    ]
    for at, chart in enumerate(charts):
        parts += _chart(chart, _TOP + at * (_HEIGHT + _GAP), drawn.bins)
    parts += [*_ticks(span, height - _GAP - 8, clocked=drawn.clocked), "</svg>"]
    note = "" if drawn.clocked else _UNCLOCKED
    return f"<figure>{''.join(parts)}<figcaption>{_caption(drawn)}{note}</figcaption></figure>\n"


_UNCLOCKED = (
    " A source did not say when its samples were taken, so the charts may be shifted against each"
    " other."
)


def _caption(drawn: Drawn) -> str:
    return f"Each point is the mean of {_seconds(drawn.bin_s)}. Dotted: 80 % of GPU time."


def _charts(drawn: Drawn) -> Iterator[_Chart]:
    gpus = drawn.of("gpu")
    if gpus:
        yield _Chart("GPU utilisation", "gpu", gpus, 1.0, "%", 0.01)
    for title, kind in _RATES:
        curves = _busiest(drawn.of(kind))
        if curves:
            top = nice(max(s.peak for s in curves) / MBYTE) * MBYTE
            yield _Chart(title, kind, curves, top, "MB/s", MBYTE)
    cpu = drawn.of("cpu")
    if cpu:
        yield _Chart("CPU", "cpu", cpu, 1.0, "%", 0.01)


_RATES: tuple[tuple[str, Kind], ...] = (("Disk reads", "disk"), ("Network received", "net"))


def _busiest(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    moving = sorted((s for s in curves if s.peak > 0), key=lambda s: -(s.mean or 0.0))
    return tuple(moving[:MOST_LINES]) or tuple(curves[:1])


def nice(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … that is not less; 1 for nothing."""
    if value <= 1:
        return 1.0
    power: float = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _bands(report: Report, span: float, height: float) -> Iterator[str]:
    phases = report.diagnosis.phases
    bottom = height - _GAP - 8
    for phase in phases if len(phases) > 1 else ():
        begin = phase.start_s - report.drawn.begin_s
        left = _x(max(0.0, begin) / span)
        right = _x(min(span, begin + phase.end_s - phase.start_s) / span)
        if right <= left:
            continue
        yield (
            f'<g class="band {_phase_tone(phase, report)}"><rect x="{left:.1f}" y="16" '
            f'width="{right - left:.1f}" height="{bottom - 16:.1f}"/>'
        )
        name = f"{phase.phase} {_percent(phase.utilization)}"
        if right - left > 7 * len(name):
            yield f'<text x="{left + 4:.1f}" y="12">{escape(name)}</text>'
        yield f"<title>{escape(name)}</title></g>"


def _phase_tone(phase: Phase, report: Report) -> Tone:
    if phase.judged:
        return tone_of(report.diagnosis)
    return "unknown" if phase.phase == "idle" else "warn"


def _chart(chart: _Chart, y: float, bins: int) -> Iterator[str]:
    bottom = y + _HEIGHT
    yield f'<g class="chart {chart.kind}">'
    yield f'<text class="title" x="{_LEFT:g}" y="{y - 7:g}">{chart.title}, {chart.unit}</text>'
    for share in (0.0, 0.5, 1.0):
        at = bottom - share * _HEIGHT
        value = chart.top * share / chart.scale
        yield f'<line class="grid" x1="{_LEFT:g}" x2="{_LEFT + _PLOT:g}" y1="{at:g}" y2="{at:g}"/>'
        yield f'<text class="axis" x="{_LEFT - 6:g}" y="{at + 4:g}">{_figure(value)}</text>'
    if chart.kind == "gpu":
        at = bottom - HEALTHY * _HEIGHT
        yield f'<line class="goal" x1="{_LEFT:g}" x2="{_LEFT + _PLOT:g}" y1="{at:g}" y2="{at:g}"/>'
        yield from _gpu_lines(chart, y, bins)
    else:
        yield from _lines(chart, y, bins)
    yield "</g>"


def _gpu_lines(chart: _Chart, y: float, bins: int) -> Iterator[str]:
    """Draw every GPU faintly, their mean strongly, and those far below the others by name."""
    mean = Curve(kind="gpu", name="mean", values=_mean_of(chart.curves, bins))
    low = outliers(chart.curves)
    several = len(chart.curves) > 1
    for curve in chart.curves if several else ():
        yield _path(curve, chart, y, bins, "odd" if curve in low else "each")
    yield _path(mean, chart, y, bins, "line0")
    name = f"mean of {len(chart.curves)}" if several else f"GPU {chart.curves[0].name}"
    labels = [(mean, name, "line0"), *((s, f"GPU {s.name}", "odd") for s in low[:3])]
    yield from _labels(labels, chart, y)


def outliers(curves: Sequence[Curve]) -> list[Curve]:
    """Return the GPUs whose mean is far below the median of all, lowest first."""
    means = sorted(s.mean for s in curves if s.mean is not None)
    if len(means) < 3:
        return []
    limit = means[len(means) // 2] * OUTLIER
    low = [s for s in curves if s.mean is not None and s.mean < limit]
    return sorted(low, key=lambda s: s.mean or 0.0)


def _mean_of(curves: Sequence[Curve], bins: int) -> tuple[float | None, ...]:
    columns = ([s.values[i] for s in curves if s.values[i] is not None] for i in range(bins))
    return tuple(sum(v for v in c if v is not None) / len(c) if c else None for c in columns)


def _lines(chart: _Chart, y: float, bins: int) -> Iterator[str]:
    labels = []
    for at, curve in enumerate(chart.curves):
        yield _path(curve, chart, y, bins, f"line{at}")
        labels.append((curve, curve.name, f"line{at}"))
    yield from _labels(labels, chart, y)


def _labels(labels: Sequence[tuple[Curve, str, str]], chart: _Chart, y: float) -> Iterator[str]:
    """Write names at the right edge, each near its line's end and none over another."""
    placed: list[float] = []
    wanted = sorted(
        ((y + _HEIGHT * (1 - min(1.0, _last(s) / chart.top)), n, c) for s, n, c in labels),
    )
    for want, _, _ in wanted:
        at = max(want, placed[-1] + 13 if placed else y + 8)
        placed.append(at)
    # When they run over the lower edge, all move up together.
    over = max(0.0, placed[-1] - (y + _HEIGHT + 2)) if placed else 0.0
    for at, (_, name, css) in zip(placed, wanted, strict=True):
        shown = name if len(name) <= 15 else f"{name[:14]}…"
        yield (
            f'<text class="label {css}" x="{_LEFT + _PLOT + 8:g}" y="{at - over + 4:.1f}">'
            f"{escape(shown)}</text>"
        )


def _last(curve: Curve) -> float:
    return next((value for value in reversed(curve.values) if value is not None), 0.0)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _path(curve: Curve, chart: _Chart, y: float, bins: int, css: str) -> str:
    steps: list[str] = []
    pen = "M"
    for at, value in enumerate(curve.values):
        if value is None:
            pen = "M"
            continue
        share = min(1.0, value / chart.top) if chart.top else 0.0
        steps.append(f"{pen}{_x((at + 0.5) / bins):.1f} {y + _HEIGHT * (1 - share):.1f}")
        if pen == "M":
            # A lone point is a line of no length, which round ends make visible.
            steps.append("l0 0")
        pen = "L"
    return f'<path class="{css}" d="{"".join(steps)}"/>'


def _ticks(span: float, y: float, *, clocked: bool) -> Iterator[str]:
    step = _tick(span)
    yield '<g class="chart">'
    for at in range(int(span // step) + 1):
        x = _x(at * step / span)
        text = _seconds(at * step) if clocked else f"{at * step:g}"
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y:g}" y2="{y + 5:g}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{y + 17:g}">{text}</text>'
    yield "</g>"


def _tick(span: float) -> float:
    steps = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
    return next((float(s) for s in steps if span / s <= 9), 86400.0 * math.ceil(span / 86400 / 9))


def _x(share: float) -> float:
    return _LEFT + share * _PLOT


def _seconds(seconds: float) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


_CSS = """
:root{color-scheme:light;--ink:#1b2430;--soft:#5a6675;--rule:#dfe4ea;--paper:#fff;--ground:#f3f5f8;
--bad:#b3261e;--warn:#a15c00;--good:#1d6f42;--unknown:#4b5a6b;
--c0:#0b62c4;--c1:#c2410c;--c2:#0f766e;--c3:#7c3aed}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:1040px;margin:24px auto;padding:0 16px}
section{background:var(--paper);border:1px solid var(--rule);border-radius:10px;
padding:28px 32px;margin-bottom:20px}
header{border-left:6px solid var(--unknown);padding-left:18px;margin-bottom:18px}
header.bad{border-color:var(--bad)}header.warn{border-color:var(--warn)}
header.good{border-color:var(--good)}
header.bad h1{color:var(--bad)}header.warn h1{color:var(--warn)}header.good h1{color:var(--good)}
.kicker{margin:0;color:var(--soft);font-size:13px}
h1{margin:2px 0 4px;font-size:27px;line-height:1.2}
header p{margin:4px 0;max-width:75ch}
.figures{display:flex;flex-wrap:wrap;gap:10px 36px;margin:14px 0 0}
.figures dt{color:var(--soft);font-size:12.5px}
.figures dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
figure{margin:0}svg{display:block;width:100%;height:auto}
figcaption,.empty,.more,footer{color:var(--soft);font-size:12.5px}
svg text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:var(--soft)}
svg .title{font-weight:600;font-size:13px;fill:var(--ink)}
svg .axis{text-anchor:end}svg .tick{text-anchor:middle}
svg .grid{stroke:var(--rule);stroke-width:1}
svg .goal{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
svg path{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
svg path.each{stroke:var(--c0);stroke-width:1;opacity:.28}
svg path.odd{stroke:var(--bad);stroke-width:1.4}
svg path.line0{stroke:var(--c0)}svg path.line1{stroke:var(--c1)}
svg path.line2{stroke:var(--c2)}svg path.line3{stroke:var(--c3)}
svg .label{font-weight:600}
svg .label.line0{fill:var(--c0)}svg .label.line1{fill:var(--c1)}
svg .label.line2{fill:var(--c2)}svg .label.line3{fill:var(--c3)}svg .label.odd{fill:var(--bad)}
.band rect{fill:var(--unknown);opacity:.07}
.band.bad rect{fill:var(--bad);opacity:.1}.band.warn rect{fill:var(--warn);opacity:.1}
.band.good rect{fill:var(--good);opacity:.08}
.band text{font-weight:600}.band.bad text{fill:var(--bad)}.band.warn text{fill:var(--warn)}
.band.good text{fill:var(--good)}
h2{font-size:16px;margin:22px 0 8px}section>h2:first-child{margin-top:0}
ol,ul{margin:0;padding-left:22px}li{margin:3px 0}li.more{list-style:none}
pre{margin:4px 0 8px;padding:7px 10px;background:var(--ground);border:1px solid var(--rule);
border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere}
code{font:13px ui-monospace,"DejaVu Sans Mono",Consolas,monospace}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px 4px 0;text-align:right;border-bottom:1px solid var(--rule);font-weight:400}
thead th{color:var(--soft);font-size:12.5px}
th:first-child,th:last-child,td:last-child{text-align:left}
th:last-child,td:last-child{padding-left:18px}tr.bad td:last-child{color:var(--bad);font-weight:600}
tr.warn td:last-child{color:var(--warn);font-weight:600}tr.good td:last-child{color:var(--good)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:4px 28px;margin:0}
.facts div{display:flex;gap:10px}.facts dt{color:var(--soft);min-width:68px}
.facts dd{margin:0;overflow-wrap:anywhere}
footer{margin-top:22px}
@media (max-width:640px){section{padding:20px 16px}h1{font-size:22px}
figure,.wide{overflow-x:auto}
svg{min-width:620px}th,td{white-space:nowrap}}
@media (prefers-color-scheme:dark){@media screen{:root{color-scheme:dark;--ink:#e7ecf2;
--soft:#9aa7b5;--rule:#2f3945;--paper:#161c23;--ground:#0e1318;--bad:#ff8a80;--warn:#ffb74d;
--good:#7bd8a0;--unknown:#9aa7b5;--c0:#6cb2ff;--c1:#ff9a66;--c2:#5fd4c6;--c3:#b79bff}}}
@media print{@page{size:A4;margin:13mm}body{background:none;font-size:12px;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{max-width:none;margin:0;padding:0}section{border:0;border-radius:0;padding:0;margin:0}
.first{break-after:page}h2,tr,li,figure{break-inside:avoid}h2{break-after:avoid;margin-top:14px}
li{margin:1px 0}pre{padding:4px 8px;margin:2px 0 4px}code{font-size:11px}}
"""
