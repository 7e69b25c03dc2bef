"""``ai4infra.diagnose``: logs in, a diagnosis out, from a script."""

from __future__ import annotations

from pathlib import Path

import pytest
import shapes

import ai4infra

DMON = "#Date       Time        gpu   pwr    sm   mem    fb\n"
DEVICE = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n"


def stamp(second: int) -> tuple[int, str]:
    day, second = divmod(second, 86_400)
    return day, f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def dmon(begin: int, *, day: int = 5) -> str:
    rows = []
    for second in range(begin, begin + 60):
        later, time = stamp(second)
        rows.append(f" 202601{day + later:02}   {time}      0   120    12     5 60000\n")
    return DMON + "".join(rows)


def iostat(begin: int, date: str) -> str:
    head = f"Linux 6.8.0 (trainer) \t{date} \t_x86_64_\t(96 CPU)\n\n\n"
    return head + "".join(
        f"{date} {stamp(second)[1]}\n{shapes.AVG} 5.00 0.00 1.00 10.00 0.00 84.00\n\n"
        f"{DEVICE}sdc 460.00 60000.00 35.00 0.00 0.00 0.00 16.00 100.00\n\n"
        for second in range(begin, begin + 60)
    )


def written(folder: Path, **logs: str) -> list[Path]:
    paths = []
    for name, text in logs.items():
        paths.append(folder / f"{name}.txt")
        paths[-1].write_text(text, "utf-8")
    return paths


def test_a_script_gets_the_verdict_with_the_money(tmp_path: Path) -> None:
    logs = written(tmp_path, gpu=dmon(3600), disk=iostat(3600, "01/05/2026"))
    found = ai4infra.diagnose(logs, size="ND96isr_H100_v5", price_per_hour=100, currency="eur")
    assert isinstance(found, ai4infra.Diagnosis)
    assert (found.verdict.cause, found.verdict.subject, found.aligned) == ("fetch", "sdc", True)
    assert found.verdict.lost_per_hour == pytest.approx(88)
    assert found.verdict.currency == "EUR"


def test_one_log_needs_no_list(tmp_path: Path) -> None:
    (gpu,) = written(tmp_path, gpu=dmon(0))
    assert ai4infra.diagnose(gpu) == ai4infra.diagnose([str(gpu)])


def test_logs_that_begin_on_both_sides_of_midnight_lie_on_one_clock(tmp_path: Path) -> None:
    night = 86_400 - 5
    late = written(tmp_path, gpu=dmon(night), disk=iostat(3, "01/06/2026"))
    assert ai4infra.diagnose(late).aligned
    assert ai4infra.diagnose(late[::-1]).aligned
    assert ai4infra.diagnose(
        written(tmp_path, gpu=dmon(night), disk=iostat(3, "06.01.2026"))
    ).aligned


def test_logs_of_the_same_hour_on_different_days_say_little(tmp_path: Path) -> None:
    logs = written(tmp_path, gpu=dmon(3600), disk=iostat(3600, "2026-01-06"))
    found = ai4infra.diagnose(logs)
    assert (found.aligned, found.verdict.confidence) == (False, "low")
    assert "of different times" in " ".join(found.warnings)


@pytest.mark.parametrize(
    ("logs", "fields", "error", "said"),
    [
        ([], {}, ai4infra.UsageError, "nothing to read"),
        (["none.txt"], {}, ai4infra.NotFoundError, "no file none.txt"),
        (["none.txt"], {"size": "D4s_v5"}, ai4infra.UsageError, "no GPU size"),
        (["none.txt"], {"price_per_hour": -1.0}, ai4infra.UsageError, "no price"),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(
    logs: list[str], fields: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ai4infra.diagnose(logs, **fields)  # type: ignore[arg-type]
