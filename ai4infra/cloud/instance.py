"""Asks the instance metadata service what VM this is; it answers on an Azure VM alone.

Source: https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ai4infra.model import Record

ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""What Azure's hosts put into the firmware tables: elsewhere nobody is asked."""
_TAG_FILE = Path("/sys/class/dmi/id/chassis_asset_tag")
_HOST = "169.254.169.254"
_PATH = "/metadata/instance/compute?api-version=2021-02-01"
_TIMEOUT_S = 1.0
_MOST_BYTES = 2**20
_LUN = re.compile(r"[0-9]{1,4}")


class Instance(Record, frozen=True, kw_only=True):
    """What an Azure VM knows of itself; None means unknown."""

    size: str | None
    region: str | None
    os_disk_sku: str | None
    """``Standard_LRS`` is a Standard HDD, ``Premium_LRS`` a Premium SSD."""
    data_disk_skus: dict[int, str]
    """LUN to the SKU of the managed disk."""


def this_vm(
    *, host: str = _HOST, tag_file: Path = _TAG_FILE, timeout_s: float = _TIMEOUT_S
) -> Instance | None:
    """Return what VM this is; None off Azure, and where the service does not answer in time."""
    try:
        if tag_file.read_text("utf-8", "replace").strip() != ASSET_TAG:
            return None
    except OSError:
        return None
    return _asked(host, timeout_s)


def _asked(host: str, timeout_s: float) -> Instance | None:
    """Ask in a thread of its own: an answer that drips in would else take as long as it likes."""
    found: list[Instance] = []

    def ask() -> None:
        from http.client import HTTPException

        with suppress(OSError, HTTPException, msgspec.DecodeError):
            found.append(parse_instance(_ask(host, timeout_s)))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(2 * timeout_s)
    return found[0] if found else None


def _ask(host: str, timeout_s: float) -> bytes:
    # Imported here, where there is somebody to ask: it takes longer than all the rest.
    from http.client import OK, HTTPConnection

    # No proxy is asked: the address means the host of this VM.
    connection = HTTPConnection(host, timeout=timeout_s)
    try:
        connection.request("GET", _PATH, headers={"Metadata": "true"})
        answer = connection.getresponse()
        return answer.read(_MOST_BYTES) if answer.status == OK else b"{}"
    finally:
        connection.close()


def parse_instance(text: bytes) -> Instance:
    """Parse the answer; what it leaves out, or says in another shape, is unknown."""
    found = msgspec.json.decode(text)
    compute = found if isinstance(found, dict) else {}
    profile = _part(compute, "storageProfile")
    disks = profile.get("dataDisks")
    skus = {
        int(disk["lun"]): sku
        for disk in (disks if isinstance(disks, list) else [])
        if isinstance(disk, dict) and _LUN.fullmatch(str(disk.get("lun"))) and (sku := _sku(disk))
    }
    return Instance(
        size=_text(compute.get("vmSize")),
        region=_text(compute.get("location")),
        os_disk_sku=_sku(_part(profile, "osDisk")),
        data_disk_skus=skus,
    )


def _part(fields: dict[str, Any], name: str) -> dict[str, Any]:
    part = fields.get(name)
    return part if isinstance(part, dict) else {}


def _sku(disk: dict[str, Any]) -> str | None:
    return _text(_part(disk, "managedDisk").get("storageAccountType"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
