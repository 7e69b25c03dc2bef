"""``ai4infra storage advise``: the decision matrix, as arithmetic. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import SETTINGS, Command, Options, common, filled, switch, whole
from ai4infra.cli.start import offline
from ai4infra.cli.storage import one_of

if TYPE_CHECKING:
    from ai4infra.render import Column, Page, Tone
    from ai4infra.sizing import Demand, StorageAdvice, StorageOption

EXAMPLES = """
ai4infra storage advise --dataset 2TB --files 12M --gpus 8xND96asr_v4 --epochs 90
ai4infra storage advise --dataset 500GB --gpus 4xND96isr_H100_v5 --workload text
ai4infra storage advise --dataset 105GB --gpus 8xND96isr_H100_v5 --workload checkpoints
"""
WORKLOADS = ("images", "text", "checkpoints")


@click.command(cls=Command, context_settings=SETTINGS, epilog=EXAMPLES)
@click.option(
    "--dataset",
    required=True,
    metavar="SIZE",
    callback=filled,
    help="Size: 2TB, 2TiB. Of one checkpoint for those.",
)
@click.option("--files", metavar="COUNT", callback=filled, help="Number of files: 12M, 800K.")
@click.option(
    "--sample-size",
    metavar="SIZE",
    callback=filled,
    help="Size of a sample, where files hold many.",
)
@click.option(
    "--gpus", required=True, metavar="COUNTxSIZE", help="VMs of a GPU size: 8xND96asr_v4."
)
@click.option(
    "--epochs", callback=whole, default="1", metavar="COUNT", help="Passes over the dataset."
)
@click.option(
    "--workload",
    default="images",
    metavar="|".join(WORKLOADS),
    callback=one_of("workload", WORKLOADS),
    help="What is read or written.",
)
@click.option(
    "--shared-by",
    callback=whole,
    default="1",
    metavar="COUNT",
    help="Jobs on the account, this one counted.",
)
@click.option(
    "-r",
    "--region",
    "-l",
    "--location",
    "region",
    metavar="REGION",
    callback=filled,
    shell_complete=complete.regions,
    help="Region, for its account limits.  [default: what holds everywhere]",
)
@switch("--premium", help="The account is for premium block blobs.")
@common()
def advise(options: Options, **given: Any) -> None:
    """Rank the ways to keep a dataset: what each feeds, its first wall, time and cost.

    From what the GPUs take in (MLPerf Storage), the limits of accounts, shares and disks, and the
    network and disks of the VM size. Nothing is asked of Azure.
    """
    from ai4infra import sizing
    from ai4infra.ids import region_key

    out = offline(options)
    vms = sizing.parse_vms(given["gpus"])
    job = sizing.Job(
        dataset_bytes=sizing.parse_bytes(given["dataset"]),
        vms=vms.count,
        size=vms.size,
        workload=given["workload"],
        files=sizing.parse_count(given["files"]) if given["files"] else None,
        sample_bytes=sizing.parse_bytes(given["sample_size"]) if given["sample_size"] else None,
        epochs=given["epochs"],
        shared_by=given["shared_by"],
        region=given["region"],
        premium=given["premium"],
    )
    if job.region is not None and region_key(job.region) not in complete.known_regions():
        out.warn(f"No region called {job.region!r} is known here: what holds everywhere is used.")
    out.result(_page(sizing.advise(job)))


def _page(advice: StorageAdvice) -> Page:
    from ai4infra.render import Page, document
    from ai4infra.sizing import StorageOption

    return Page(
        document=document(
            "storage advice",
            job=advice.job,
            demand=advice.demand,
            usage=advice.usage,
            options=advice.options,
            notes=advice.notes,
        ),
        rows=advice.options,
        row_type=StorageOption,
        columns=_columns(),
        above=list(_asked(advice)),
        below=list(_lines(advice)),
        tone=_tone,
    )


def _asked(advice: StorageAdvice) -> Iterator[str]:
    job = advice.job
    epochs = "1 epoch" if job.epochs == 1 else f"{job.epochs} epochs"
    yield f"{job.vms} x {job.size}, {job.workload}, {epochs}"
    yield _demand(advice.demand)
    for use in advice.usage:
        if use.percent is not None:
            yield f"  {_number(use.percent)} % of {use.text}"


def _demand(demand: Demand) -> str:
    if demand.mbytes_s is None:
        return "What the GPUs take in is unknown."
    gpus = f"{_number(demand.gpus)} {demand.gpu_model or 'GPUs'}"
    samples = f"{_number(demand.samples_s)} samples/s ({demand.basis})"
    return f"{gpus} take in {_number(demand.mbytes_s)} MB/s: {samples}. From the account uncached:"


def _columns() -> list[Column]:
    from ai4infra.render import Column

    return [
        Column("Storage", lambda o: o.name),
        Column("Suitable", lambda o: o.suitable),
        Column("MB/s", lambda o: _number(o.feed_mbytes_s), True),
        Column("GPU %", lambda o: _number(o.gpu_feed_percent), True),
        Column("First pass", lambda o: _duration(o.first_pass_seconds), True, 2),
        Column("USD/month", lambda o: _number(o.monthly_usd), True, 3),
        Column("First wall", lambda o: o.first_wall or "?", rank=1),
    ]


def _lines(advice: StorageAdvice) -> Iterator[str]:
    for option in advice.options:
        yield f"{option.name}: {option.why}"
        yield from (f"  {note}" for note in option.notes)
    if advice.notes:
        yield ""
        yield from advice.notes


def _number(value: float | None) -> str:
    from ai4infra.render import number

    return number(value, 0 if value is None or value >= 10 else 1)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def _tone(option: StorageOption) -> Tone | None:
    tones: dict[str, Tone] = {"yes": "good", "no": "dim", "never": "bad"}
    return tones.get(option.suitable)
