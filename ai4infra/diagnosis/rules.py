"""Read ``data/diagnosis.toml``: what the verdict goes by, each number with its reason."""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources
from typing import Any

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of the verdict; each has its reason in the data."""

    gpu_busy: float
    gpu_full: float
    gpu_unused: float
    gpu_straggler: float
    memory_idle_bytes: float
    power_low: float
    memory_activity_low: float
    memory_activity_idle: float
    gpu_gone: float
    samples_few: float
    samples_many: float
    disk_read_bytes: float
    disk_reads: float
    read_wait_nvme_s: float
    read_wait_disk_s: float
    queue_nvme: float
    queue_disk: float
    ceiling_share: float
    cpu_full: float
    loader_core: float
    loader_wait: float
    loader_asleep: float
    iowait_cores: float
    net_feed_bytes: float
    net_one_way: float
    feed_together: float
    checkpoint_write_bytes: float
    checkpoint_lost: float
    checkpoint_share: float
    phase_step: float
    phase_share: float


class FixRow(msgspec.Struct, frozen=True, kw_only=True):
    """What helps against a cause, where all tags hold."""

    cause: str
    text: str
    effect: str
    tags: tuple[str, ...] = ()
    command: str | None = None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """All of the data."""

    limits: Limits
    fixes: tuple[FixRow, ...]
    power_limits_w: dict[str, float]
    """GPU model to the power limit of its usual board."""
    ignored_interfaces: tuple[str, ...]
    virtual_functions: tuple[str, ...]
    ignored_devices: tuple[str, ...]
    stacked_devices: tuple[str, ...]
    nvme_devices: tuple[str, ...]


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    value: Any
    reason: str


@cache
def rules() -> Rules:
    """Return the data that comes with the package."""
    text = resources.files("ai4infra").joinpath("data/diagnosis.toml").read_text(encoding="utf-8")
    return parse_rules(text)


def parse_rules(text: str) -> Rules:
    """Return the rules that a TOML text holds; raises when a row lacks its reason."""
    data = tomllib.loads(text)
    tables = {
        name: {key: msgspec.convert(row, _Row).value for key, row in data[name].items()}
        for name in ("limits", "power_limits", "interfaces", "devices")
    }
    return Rules(
        limits=msgspec.convert(tables["limits"], Limits),
        fixes=tuple(msgspec.convert(row, FixRow) for row in data["fixes"]),
        power_limits_w=msgspec.convert(tables["power_limits"], dict[str, float]),
        ignored_interfaces=tuple(tables["interfaces"]["ignored"]),
        virtual_functions=tuple(tables["interfaces"]["virtual_function"]),
        ignored_devices=tuple(tables["devices"]["ignored"]),
        stacked_devices=tuple(tables["devices"]["stacked"]),
        nvme_devices=tuple(tables["devices"]["nvme"]),
    )
