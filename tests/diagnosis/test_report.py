"""The page of --report: what is in it, that it needs nothing else, that a browser shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.diagnosis.answer import Question
from ai4infra.diagnosis.report import Report, html, nice
from ai4infra.diagnosis.samples import (
    CpuSample,
    DiskSample,
    GpuSample,
    Host,
    MountFacts,
    NetSample,
    Sample,
)
from ai4infra.diagnosis.series import Collector
from ai4infra.diagnosis.timeline import draw
from ai4infra.diagnosis.verdict import diagnose

HOST = Host(
    size="Standard_ND96isr_H100_v5",
    gpus=8,
    gpu_model="NVIDIA H100 80GB HBM3",
    cpus=96,
    interval_s=1,
    started="2026-11-30T08:47:00+00:00",
    mounts=(MountFacts(path="/mnt/training-data", mount_kind="blobfuse2", cache_class="os"),),
)


def page(samples: list[Sample], host: Host = HOST, **more: str) -> str:
    collected = Collector()
    collected.extend(samples)
    question = Question(host=host, price_per_hour=98.32, currency="USD")
    found = diagnose(collected, question)
    fields = {"title": "GPU feed on gpu-07", "made": "ai4infra", **more}
    return html(Report(diagnosis=found, drawn=draw(collected), host=host, **fields))


def cold_then_warm(seconds: int = 300) -> list[Sample]:
    """A first epoch that waits for a slow disk, then epochs from memory."""
    samples: list[Sample] = []
    for at in range(seconds):
        cold = at < seconds * 0.4
        busy = (0.9 if at % 9 < 2 else 0.05) if cold else 0.95
        samples += [gpu_sample(at, str(g), busy if g != 5 else busy * 0.3) for g in range(8)]
        samples.append(
            DiskSample(
                time_s=at,
                device="sdc",
                reads_s=400,
                read_bytes_s=6e7 if cold else 1e6,
                read_wait_s=0.03,
                queue=12 if cold else 0.1,
            )
        )
        samples.append(NetSample(time_s=at, interface="eth0", received_bytes_s=2e6, sent_bytes_s=1))
        samples.append(CpuSample(time_s=at, cpu="all", user=0.2, system=0.1, iowait=0.1, idle=0.6))
    return samples


def gpu_sample(at: float, gpu: str, utilization: float) -> GpuSample:
    return GpuSample(
        time_s=at,
        gpu=gpu,
        utilization=utilization,
        memory_activity=utilization / 3,
        memory_used_bytes=5e10,
        power_w=200 + 450 * utilization,
        power_limit_w=700,
    )


class Words(HTMLParser):
    """The text of a page by element, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "line", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.found.setdefault(self.open[-1], []).append(data.strip())


def drawing(text: str) -> Xml.Element:
    return Xml.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL)[0])  # type: ignore[index]  # noqa: S314 - our own


def labels(text: str) -> set[str]:
    return {e.text or "" for e in drawing(text).iter("text")}


def test_the_page_says_verdict_evidence_fixes_and_machine() -> None:
    words = Words(page(cold_then_warm()))
    assert words.open == []
    assert words.found["h1"] == [words.found["h1"][0]]
    assert "Each GPU" in words.found["h2"]
    assert "Standard_ND96isr_H100_v5" in words.found["dd"]
    assert next(w for w in words.found["th"] if w.startswith("GPU ")) == "GPU 5"


def test_gpus_disks_network_and_cpus_are_drawn_with_phases() -> None:
    found = labels(page(cold_then_warm()))
    titles = {"GPU utilisation, %", "Disk reads, MB/s", "Network received, MB/s", "CPU, %"}
    assert titles <= found
    assert {"sdc", "eth0", "busy", "waiting", "mean of 8"} <= found
    assert any(label.startswith("cold-start") for label in found)


def test_the_one_gpu_that_lags_is_named_in_the_drawing() -> None:
    found = labels(page(cold_then_warm()))
    assert "GPU 5" in found
    assert "GPU 4" not in found


def test_the_page_needs_nothing_beside_itself() -> None:
    text = page(cold_then_warm())
    for outside in ("<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import"):
        assert outside not in text
    assert "//" not in re.sub(r"<pre>.*?</pre>", "", text)


def test_names_cannot_become_markup() -> None:
    evil = '</svg><script>alert("x")</script>&'
    samples: list[Sample] = [
        *(gpu_sample(at, evil, 0.2) for at in range(20)),
        *(DiskSample(time_s=at, device=evil, read_bytes_s=1e8) for at in range(20)),
    ]
    host = Host(size=evil, gpu_model=evil, mounts=(MountFacts(path=evil, mount_kind="nfs"),))
    text = page(samples, host, title=evil, made=evil)
    assert "<script" not in text
    assert Words(text).open == []
    drawing(text)


def test_names_cannot_hide_or_turn_what_is_read() -> None:
    evil = "sd\x00a\x1b[2J\u202e"
    samples = [DiskSample(time_s=at, device=evil, read_bytes_s=1e8) for at in range(20)]
    text = page(list[Sample](samples), Host(size=evil), title=evil)
    assert "sd a [2J" in text
    assert all(each.isprintable() for each in text.replace("\n", ""))


def test_too_few_samples_are_told_instead_of_drawn() -> None:
    text = page([])
    assert "<svg" not in text
    assert "too few samples" in text


def test_a_gap_in_the_samples_is_a_gap_in_the_line() -> None:
    samples: list[Sample] = [gpu_sample(at, "0", 0.5) for at in (*range(10), *range(20, 30))]
    [line] = [e for e in drawing(page(samples)).iter("path") if e.get("class") == "line0"]
    assert line.get("d", "").count("M") == 2


def test_a_scale_ends_at_a_round_number_that_is_not_less() -> None:
    assert [nice(v) for v in (0, 0.3, 1, 1.1, 4.9, 5, 612, 1000, 1001)] == [
        *(1, 1, 1, 2, 5, 5, 1000, 1000, 2000),
    ]


@given(
    st.lists(
        st.builds(
            GpuSample,
            time_s=st.one_of(st.none(), st.floats(0, 1e6)),
            gpu=st.sampled_from(["0", "1", "7", "0/1"]),
            utilization=st.one_of(st.none(), st.floats(0, 1)),
        ),
        max_size=30,
    )
)
def test_whatever_was_sampled_the_page_is_whole(samples: list[Sample]) -> None:
    text = page(samples)
    assert Words(text).open == []
    if "<svg" in text:
        drawing(text)


# --- a real browser

slow = pytest.mark.slow


def chromium(*words: str | Path, home: Path) -> str:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.fail("These tests need Chromium: run scripts/test, or install it.")
    argv = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    # Whatever the page would load from elsewhere would not be found.
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={home}"]
    done = subprocess.run(
        [*argv, *offline, *words], check=True, capture_output=True, timeout=120, env={"HOME": home}
    )
    return done.stdout.decode()


def run(*words: str | Path) -> bytes:
    return subprocess.run(words, check=True, capture_output=True).stdout


def colours(file: Path) -> dict[bytes, int]:
    """How often each colour is in a picture (PPM)."""
    header, _, rest = file.read_bytes().partition(b"255\n")
    assert header.startswith(b"P6")
    counts: dict[bytes, int] = {}
    for at in range(0, len(rest) - 2, 3):
        pixel = rest[at : at + 3]
        counts[pixel] = counts.get(pixel, 0) + 1
    return counts


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """The page as a browser prints it."""
    file, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    file.write_text(page(cold_then_warm()), encoding="utf-8")
    chromium("--no-pdf-header-footer", f"--print-to-pdf={pdf}", file.as_uri(), home=tmp_path)
    return pdf


@slow
def test_a_browser_prints_the_page_on_two_sheets(printed: Path) -> None:
    assert b"Pages:           2" in run("pdfinfo", printed)
    first, second = (
        run("pdftotext", "-f", str(n), "-l", str(n), "-layout", printed, "-").decode()
        for n in (1, 2)
    )
    assert "GPU utilisation, %" in first
    assert "Each GPU" in second
    assert "Each GPU" not in first


@slow
def test_a_browser_draws_the_lines(printed: Path, tmp_path: Path) -> None:
    run("pdftoppm", "-r", "60", "-f", "1", "-l", "1", printed, tmp_path / "sheet")
    [picture] = tmp_path.glob("sheet*.ppm")
    counts = colours(picture)
    blue = sum(n for c, n in counts.items() if c[2] > 150 and c[0] < 90)
    assert blue > 500


@slow
def test_at_the_width_of_a_phone_nothing_is_wider_than_the_page(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    # No window is narrower than 500 pixels, so the page is made so, and tells how wide it came out.
    wide = """<script>
    document.body.style.width = "380px"
    const wide = each => each.scrollWidth > each.clientWidth
    document.title = [...document.querySelectorAll("section")].filter(wide).length
    </script>"""
    file.write_text(page(cold_then_warm()) + wide, encoding="utf-8")
    shown = chromium("--window-size=500,900", "--dump-dom", file.as_uri(), home=tmp_path)
    assert "Each GPU" in shown
    assert "<title>0</title>" in shown
