"""Machines as lsblk and /proc/mounts show them, written from Microsoft's and util-linux's pages.

Disks, their number, sizes and models: the size's page and
https://learn.microsoft.com/azure/virtual-machines/enable-nvme-temp-faqs; links and models:
https://learn.microsoft.com/azure/virtual-machines/linux/azure-virtual-machine-utilities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ai4infra.mounts.disks import Device, Layout, layout, parse_lsblk
from ai4infra.mounts.host import Host, spaces
from ai4infra.mounts.live import parse_mounts

GIB = 2**30
DIRECT = "Microsoft NVMe Direct Disk"
DIRECT_2 = "Microsoft NVMe Direct Disk v2"
REMOTE = "MSFT NVMe Accelerator v1.0"
KERNEL = "proc /proc proc rw,nosuid 0 0\ntmpfs /run tmpfs rw,nosuid,size=1g 0 0\n"


class Captured(NamedTuple):
    """The texts of one machine."""

    lsblk: str
    mounts: str
    links: dict[str, str]
    cpus: int = 8
    memory_mib: int = 64 * 1024
    sizes: Mapping[str, tuple[int, int]] = MappingProxyType({})

    @property
    def devices(self) -> tuple[Device, ...]:
        return parse_lsblk(self.lsblk)

    @property
    def layout(self) -> Layout:
        return layout(self.devices, parse_mounts(self.mounts), self.links)

    @property
    def roles(self) -> dict[str, str]:
        return {disk.path: disk.role for disk in self.layout.disks}

    def host(self) -> Host:
        mounts = parse_mounts(self.mounts)
        return Host(
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            available_mib=self.memory_mib * 9 // 10,
            layout=self.layout,
            mounts=mounts,
            spaces=spaces(mounts, self.layout, self.sizes),
        )

    def write(self, folder: Path) -> Path:
        """Write the machine as ``--machine`` reads it."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lsblk.json").write_text(self.lsblk, "utf-8")
        (folder / "mounts").write_text(self.mounts, "utf-8")
        (folder / "links").write_text("".join(f"{a} {b}\n" for a, b in self.links.items()), "utf-8")
        kib = self.memory_mib * 1024
        memory = f"MemTotal: {kib} kB\nMemAvailable: {kib * 9 // 10} kB\n"
        (folder / "meminfo").write_text(memory, "utf-8")
        extra = {"cpus": self.cpus, "sizes": dict(self.sizes)}
        (folder / "host.json").write_text(json.dumps(extra), "utf-8")
        return folder


def disk(name: str, gib: float, *children: dict[str, Any], **columns: Any) -> dict[str, Any]:
    row = {
        "name": name,
        "path": columns.pop("path", f"/dev/{name}"),
        "type": columns.pop("type", "disk"),
        "size": int(gib * GIB),
        "model": None,
        "vendor": None,
        "fstype": None,
        "label": None,
        "pttype": None,
        "hctl": None,
        "mountpoint": None,
        "ro": False,
    }
    return {**row, **columns, **({"children": list(children)} if children else {})}


def part(name: str, gib: float, *children: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return disk(name, gib, *children, **{"type": "part", **columns})


def scsi(name: str, gib: float, address: str, *children: dict[str, Any]) -> dict[str, Any]:
    columns = {"model": "Virtual Disk    ", "vendor": "Msft    ", "hctl": address}
    return disk(name, gib, *children, pttype="gpt" if children else None, **columns)


def os_disk(name: str, address: str = "0:0:0:0") -> dict[str, Any]:
    root = part(f"{name}1", 127, fstype="ext4", mountpoint="/")
    return scsi(name, 128, address, root, part(f"{name}15", 0.1, mountpoint="/boot/efi"))


def temp_disk(name: str, gib: float, address: str, where: str = "/mnt") -> dict[str, Any]:
    return scsi(name, gib, address, part(f"{name}1", gib, fstype="ext4", mountpoint=where))


def nvme(count: int, gib: float, model: str, **columns: Any) -> list[dict[str, Any]]:
    return [disk(f"nvme{n}n1", gib, model=model, **columns) for n in range(count)]


def lsblk(*disks: dict[str, Any]) -> str:
    return json.dumps({"blockdevices": list(disks)}, indent=3)


def links(*, os: str, temp: str | None = None, local: int = 0) -> dict[str, str]:
    found = {"/dev/disk/azure/os": f"/dev/{os}", "/dev/disk/azure/os-part1": f"/dev/{os}1"}
    if temp:
        found["/dev/disk/azure/resource"] = f"/dev/{temp}"
    for n in range(local):
        found[f"/dev/disk/azure/local/by-serial/5ca1ab1e{n:04d}"] = f"/dev/nvme{n}n1"
    return found


def mounted(*lines: str, root: str = "/dev/root") -> str:
    # Azure's kernels call the device of the root /dev/root.
    return KERNEL + f"{root} / ext4 rw,relatime 0 0\n" + "".join(f"{line}\n" for line in lines)


SMALL_ROOT = {"/": (126_879, 98_000)}

ND_A100_V4 = Captured(
    lsblk(os_disk("sda"), temp_disk("sdb", 2900, "0:0:0:1"), *nvme(8, 894.1, DIRECT)),
    mounted("/dev/sdb1 /mnt ext4 rw,relatime 0 0"),
    links(os="sda", temp="sdb", local=8),
    cpus=96,
    memory_mib=1800 * 1024,
    sizes={**SMALL_ROOT, "/mnt": (2_920_000, 2_770_000)},
)
ND_H100_V5 = Captured(
    lsblk(
        os_disk("sda"),
        temp_disk("sdb", 1024, "0:0:0:1", "/mnt/resource"),
        scsi("sdc", 4096, "1:0:0:0"),
        *nvme(8, 3576.3, DIRECT_2),
    ),
    mounted("/dev/sdb1 /mnt/resource ext4 rw,relatime 0 0"),
    {**links(os="sda", temp="sdb", local=8), "/dev/disk/azure/scsi1/lun0": "/dev/sdc"},
    cpus=96,
    memory_mib=1900 * 1024,
    sizes={**SMALL_ROOT, "/mnt/resource": (1_031_018, 978_000)},
)
"""With an unformatted data disk, as it comes."""
RAID = "/dev/md0 /mnt/nvme xfs rw,noatime 0 0"
MD = disk("md0", 28_600, type="raid0", fstype="xfs", label="ai4infra", mountpoint="/mnt/nvme")
ND_H100_V5_MADE = Captured(
    lsblk(
        os_disk("sda"),
        temp_disk("sdb", 1024, "0:0:0:1"),
        *[
            {**row, "fstype": "linux_raid_member", "children": [MD]}
            for row in nvme(8, 3576.3, DIRECT_2)
        ],
    ),
    mounted("/dev/sdb1 /mnt ext4 rw,relatime 0 0", RAID),
    links(os="sda", temp="sdb", local=8),
    cpus=96,
    memory_mib=1900 * 1024,
    sizes={**SMALL_ROOT, "/mnt": (1_031_018, 978_000), "/mnt/nvme": (29_286_000, 29_080_000)},
)
"""The same after the plan."""
NC_A100_V4 = Captured(
    lsblk(os_disk("sda"), temp_disk("sdb", 128, "0:0:0:1"), *nvme(2, 894.1, DIRECT)),
    mounted("/dev/sdb1 /mnt ext4 rw,relatime 0 0"),
    # An image without azure-vm-utils: the agent's links alone.
    {"/dev/disk/azure/root": "/dev/sda", "/dev/disk/azure/resource": "/dev/sdb"},
    cpus=48,
    memory_mib=440 * 1024,
    sizes={**SMALL_ROOT, "/mnt": (128_700, 122_000)},
)
NC_T4_V3 = Captured(
    lsblk(os_disk("sda", "2:0:0:0"), temp_disk("sdb", 352, "3:0:1:0"), scsi("sdc", 512, "5:0:0:0")),
    mounted("/dev/sdb1 /mnt ext4 rw,relatime 0 0"),
    {},
    cpus=16,
    memory_mib=110 * 1024,
    sizes={**SMALL_ROOT, "/mnt": (354_000, 336_000)},
)
"""Generation 1 and no links at all: addresses alone tell."""
V6_REMOTE = Captured(
    lsblk(
        disk("nvme0n1", 64, part("nvme0n1p1", 63, mountpoint="/"), model=REMOTE, pttype="gpt"),
        disk("nvme0n2", 1024, model=REMOTE, fstype="xfs", mountpoint="/data"),
        disk("nvme1n1", 440, model=DIRECT_2),
    ),
    mounted("/dev/nvme0n2 /data xfs rw 0 0"),
    {"/dev/disk/azure/local/by-index/1": "/dev/nvme1n1"},
)
LAPTOP = Captured(
    lsblk(
        disk("loop0", 0.1, type="loop", mountpoint="/snap/core"),
        disk(
            "nvme0n1",
            953,
            part("nvme0n1p1", 1, fstype="vfat", mountpoint="/boot/efi"),
            part(
                "nvme0n1p2",
                952,
                disk(
                    "root",
                    952,
                    path="/dev/mapper/root",
                    type="crypt",
                    fstype="ext4",
                    mountpoint="/",
                ),
                fstype="crypto_LUKS",
            ),
            model="Samsung SSD 980 PRO 1TB",
            pttype="gpt",
        ),
        disk("sda", 57, model="Cruzer Blade", vendor="SanDisk "),
        disk("zram0", 8, mountpoint="[SWAP]"),
    ),
    mounted("/dev/nvme0n1p1 /boot/efi vfat rw 0 0", root="/dev/mapper/root"),
    {},
    sizes={"/": (936_000, 400_000)},
)
CONTAINER = Captured(
    lsblk(disk("sda", 128), *nvme(8, 3576.3, DIRECT_2)),
    KERNEL + "overlay / overlay rw,relatime,lowerdir=/a:/b 0 0\n/dev/sda1 /etc/hosts ext4 rw 0 0\n",
    {},
    sizes={"/": (126_000, 90_000)},
)
"""Inside one, the host's disks look raw: nothing of it says what they hold."""

MACHINES = {
    "ND A100 v4": ND_A100_V4,
    "ND H100 v5": ND_H100_V5,
    "ND H100 v5, made": ND_H100_V5_MADE,
    "NC A100 v4": NC_A100_V4,
    "NC T4 v3": NC_T4_V3,
    "v6, remote NVMe": V6_REMOTE,
    "laptop": LAPTOP,
    "container": CONTAINER,
}
