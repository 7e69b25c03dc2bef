"""What stands behind a path, over captured shapes of /proc/mounts, lsblk and links of Azure VMs."""

from __future__ import annotations

import pytest

from ai4infra.diagnosis import behind as b
from ai4infra.mounts.disks import parse_lsblk
from ai4infra.mounts.lint import Document, parse
from ai4infra.mounts.live import parse_mounts

MOUNTS = """\
/dev/root / ext4 rw,relatime 0 0
/dev/sdb1 /mnt ext4 rw,relatime 0 0
/dev/md0 /mnt/nvme xfs rw,noatime 0 0
/dev/sdc1 /data ext4 rw,relatime 0 0
/dev/sdd1 /slow ext4 rw,relatime 0 0
tmpfs /dev/shm tmpfs rw 0 0
//sttrain.file.core.windows.net/share /mnt/smb cifs rw,vers=3.1.1,cache=strict 0 0
sttrain.file.core.windows.net:/sttrain/share /mnt/nfs nfs4 rw,vers=4.1 0 0
sttrain.blob.core.windows.net:/sttrain/training /mnt/nfs3 nfs rw,vers=3 0 0
blobfuse2 /mnt/training-data fuse rw,allow_other 0 0
blobfuse2 /mnt/other\\040data fuse rw 0 0
10.0.0.4@tcp:/lustrefs /lustre lustre rw 0 0
"""
LSBLK = """
{"blockdevices": [
 {"name":"sda","path":"/dev/sda","type":"disk","size":137438953472,"model":"Virtual Disk",
  "vendor":"Msft","hctl":"0:0:0:0","children":[
   {"name":"sda1","path":"/dev/sda1","type":"part","fstype":"ext4","mountpoint":"/"}]},
 {"name":"sdb","path":"/dev/sdb","type":"disk","size":1099511627776,"model":"Virtual Disk",
  "vendor":"Msft","hctl":"0:0:0:1","children":[
   {"name":"sdb1","path":"/dev/sdb1","type":"part","fstype":"ext4","label":"Temporary Storage",
    "mountpoint":"/mnt"}]},
 {"name":"sdc","path":"/dev/sdc","type":"disk","size":1099511627776,"model":"Virtual Disk",
  "vendor":"Msft","hctl":"1:0:0:0","children":[
   {"name":"sdc1","path":"/dev/sdc1","type":"part","fstype":"ext4","mountpoint":"/data"}]},
 {"name":"sdd","path":"/dev/sdd","type":"disk","size":1099511627776,"model":"Virtual Disk",
  "vendor":"Msft","hctl":"1:0:0:7","children":[
   {"name":"sdd1","path":"/dev/sdd1","type":"part","fstype":"ext4","mountpoint":"/slow"}]},
 {"name":"nvme0n1","path":"/dev/nvme0n1","type":"disk","size":3840755982336,
  "model":"Microsoft NVMe Direct Disk v2","children":[
   {"name":"md0","path":"/dev/md0","type":"raid0","fstype":"xfs","mountpoint":"/mnt/nvme"}]},
 {"name":"nvme1n1","path":"/dev/nvme1n1","type":"disk","size":1099511627776,
  "model":"MSFT NVMe Accelerator v1.0"}
]}
"""
ND_H100 = "Standard_ND96isr_H100_v5"


def config(text: str) -> dict[str, Document]:
    return {"/mnt/training-data": parse(text)}


def here(*, configs: dict[str, Document] | None = None, **more: object) -> b.Surroundings:
    fields: dict[str, object] = {
        "devices": parse_lsblk(LSBLK),
        "mounts": parse_mounts(MOUNTS),
        "links": {},
        "sizes_mib": {},
        "configs": configs or {},
        "size": ND_H100,
        "os_disk_sku": "Premium_LRS",
        "data_disk_skus": {0: "Premium_LRS", 7: "Standard_LRS"},
        **more,
    }
    return b.Surroundings(**fields)  # type: ignore[arg-type]  # fields of the record


def causes(path: str, surroundings: b.Surroundings) -> dict[str, bool | None]:
    return {c.cause: c.found for c in b.behind(path, surroundings).causes}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "OS disk"),
        ("/mnt/set", "temp disk"),
        ("/mnt/nvme/set", "local NVMe"),
        ("/data/set", "managed disk"),
        ("/dev/shm/set", "memory"),  # noqa: S108 - a path to be judged, not to be written to
        ("/mnt/smb/set", "SMB share"),
        ("/mnt/nfs/set", "NFS share"),
        ("/mnt/nfs3/set", "NFS share"),
        ("/mnt/training-data/set", "BlobFuse2"),
        ("/mnt/other data/set", "BlobFuse2"),
        ("/lustre/set", "Lustre"),
    ],
)
def test_a_path_is_what_its_deepest_mount_is(path: str, kind: str) -> None:
    assert b.behind(path, here()).kind == kind


def test_a_standard_hdd_is_found_by_its_lun() -> None:
    found = b.behind("/slow/set", here())
    assert (found.disk_sku, found.ceiling_mbytes_s) == ("Standard_LRS", 60)
    assert causes("/slow/set", here())[b.SLOW_TIER] is True
    assert causes("/data/set", here())[b.SLOW_TIER] is False


def test_premium_disks_end_where_the_vm_does() -> None:
    assert b.behind("/data/set", here()).ceiling_mbytes_s == 612


def test_a_disk_whose_sku_is_not_known_is_unknown_and_not_fine() -> None:
    assert causes("/data/set", here(data_disk_skus={}))[b.SLOW_TIER] is None


def test_a_remote_nvme_disk_is_found_by_its_link() -> None:
    mounts = parse_mounts("/dev/nvme1n1 /data xfs rw 0 0\n/dev/root / ext4 rw 0 0\n")
    links = {"/dev/disk/azure/data/by-lun/7": "/dev/nvme1n1"}
    found = b.behind("/data", here(mounts=mounts, links=links))
    assert (found.kind, found.disk_sku) == ("managed disk", "Standard_LRS")


def test_a_share_too_small_to_be_premium_is_a_small_standard_one() -> None:
    surroundings = here(sizes_mib={"/mnt/smb": 20 * 1024})
    found = b.behind("/mnt/smb/set", surroundings)
    assert causes("/mnt/smb/set", surroundings)[b.SLOW_TIER] is True
    assert found.ceiling_mbytes_s == pytest.approx(62.9, abs=0.1)


def test_a_share_of_50_gib_may_be_a_fast_one_of_provisioned_v2() -> None:
    surroundings = here(sizes_mib={"/mnt/smb": 50 * 1024, "/mnt/nfs": 50 * 1024})
    assert causes("/mnt/smb/set", surroundings)[b.SLOW_TIER] is None
    assert b.behind("/mnt/smb/set", surroundings).ceiling_mbytes_s is None
    assert causes("/mnt/nfs/set", surroundings)[b.SLOW_TIER] is False
    assert b.behind("/mnt/nfs/set", surroundings).ceiling_mbytes_s is None


@pytest.mark.parametrize(
    ("line", "fstype"),
    [
        ("s3fs /mnt/x fuse.s3fs rw 0 0", "fuse.s3fs"),
        ("gdrive: /mnt/x fuse.rclone rw 0 0", "fuse.rclone"),
        ("overlay /mnt/x overlay rw 0 0", "overlay"),
        ("systemd-1 /mnt/x autofs rw 0 0", "autofs"),
    ],
)
def test_what_an_unknown_mount_caches_is_unknown_and_not_fine(line: str, fstype: str) -> None:
    surroundings = here(mounts=parse_mounts(f"/dev/root / ext4 rw 0 0\n{line}\n"))
    assert b.behind("/mnt/x/set", surroundings).fstype == fstype
    assert set(causes("/mnt/x/set", surroundings).values()) == {None}


@pytest.mark.parametrize("line", ["tank/data /mnt/x zfs rw 0 0", "/dev/sdz1 /mnt/x btrfs rw 0 0"])
def test_a_local_filesystem_on_an_unknown_disk_is_no_remote_mount(line: str) -> None:
    surroundings = here(mounts=parse_mounts(f"/dev/root / ext4 rw 0 0\n{line}\n"))
    found = b.behind("/mnt/x/set", surroundings)
    assert causes("/mnt/x/set", surroundings)[b.SLOW_TIER] is None
    assert causes("/mnt/x/set", surroundings)[b.NO_CACHE] is False
    assert b.mount_facts(found, "eth0").mount_kind == "local"


def test_a_machine_of_which_no_mount_is_known_has_causes_that_are_unknown() -> None:
    assert set(causes("/data", here(mounts=())).values()) == {None}


STRIPED = """
{"blockdevices": [
 {"name":"sdc","path":"/dev/sdc","type":"disk","model":"Virtual Disk","vendor":"Msft",
  "hctl":"1:0:0:0","children":[{"name":"vg-lv","path":"/dev/mapper/vg-lv","type":"lvm"}]},
 {"name":"sdd","path":"/dev/sdd","type":"disk","model":"Virtual Disk","vendor":"Msft",
  "hctl":"1:0:0:7","children":[{"name":"vg-lv","path":"/dev/mapper/vg-lv","type":"lvm"}]}
]}
"""


def test_a_volume_over_several_disks_has_a_standard_hdd_among_them() -> None:
    mounts = parse_mounts("/dev/mapper/vg-lv /data xfs rw 0 0\n")
    surroundings = here(devices=parse_lsblk(STRIPED), mounts=mounts)
    assert causes("/data", surroundings)[b.SLOW_TIER] is True
    assert b.behind("/data", surroundings).ceiling_mbytes_s == 120
    half = here(devices=parse_lsblk(STRIPED), mounts=mounts, data_disk_skus={0: "Premium_LRS"})
    assert causes("/data", half)[b.SLOW_TIER] is None


def test_a_name_that_is_no_text_can_be_told() -> None:
    assert b.behind("/data/\udcff", here()).path == "/data/?"


def test_a_larger_share_does_not_tell_its_tier() -> None:
    surroundings = here(sizes_mib={"/mnt/smb": 1024 * 1024})
    [tier, *_] = b.behind("/mnt/smb", surroundings).causes
    assert tier.found is None
    assert tier.fix == "ai4infra storage show --name sttrain"


def test_nfs_shares_of_azure_files_are_premium_and_grow_with_their_size() -> None:
    surroundings = here(sizes_mib={"/mnt/nfs": 10240 * 1024})
    found = b.behind("/mnt/nfs", surroundings)
    assert found.causes[0].found is False
    assert found.ceiling_mbytes_s == pytest.approx((100 + 410 + 615) * 1.048576, abs=1)


@pytest.mark.parametrize("path", ["/mnt/smb", "/mnt/nfs", "/mnt/nfs3"])
def test_a_share_without_a_local_cache_is_found(path: str) -> None:
    assert causes(path, here())[b.NO_CACHE] is True


def test_a_share_under_fs_cache_has_one() -> None:
    mounts = parse_mounts("h:/s /mnt/nfs nfs4 rw,fsc 0 0\n")
    assert causes("/mnt/nfs", here(mounts=mounts))[b.NO_CACHE] is False


FILE_CACHE = """
components: [libfuse, file_cache, attr_cache, azstorage]
file_cache: {{path: {path}, timeout-sec: 120}}
azstorage: {{account-name: sttrain, container: training}}
"""


@pytest.mark.parametrize(
    ("path", "on", "found"),
    [
        ("/mnt/nvme/cache", "local NVMe", False),
        ("/mnt/cache", "temp disk", False),
        ("/var/cache/blobfuse2", "OS disk", True),
    ],
)
def test_a_cache_is_judged_by_what_it_lies_on(path: str, on: str, found: bool) -> None:
    surroundings = here(configs=config(FILE_CACHE.format(path=path)))
    told = b.behind("/mnt/training-data/set", surroundings)
    assert (told.mode, told.cache_on, told.source) == ("file cache", on, "sttrain/training")
    assert causes("/mnt/training-data/set", surroundings)[b.CACHE_ON_OS_DISK] is found


def test_a_cache_on_the_os_disk_goes_to_nvme_that_is_not_formatted_yet_first() -> None:
    raw = '{"blockdevices":[{"name":"nvme0n1","type":"disk","model":"Microsoft NVMe Direct Disk"}]}'
    surroundings = here(
        configs=config(FILE_CACHE.format(path="/var/cache")),
        devices=parse_lsblk(raw),
    )
    fixes = [c.fix for c in b.behind("/mnt/training-data", surroundings).causes if c.found]
    assert fixes == ["ai4infra mount disks"]


def test_block_cache_is_in_memory_and_its_weakness_is_told() -> None:
    surroundings = here(configs=config("components: [libfuse, block_cache, azstorage]"))
    found = b.behind("/mnt/training-data", surroundings)
    assert (found.mode, found.cache_on) == ("block cache", "memory")
    assert "random reads" in found.notes[0]


def test_a_pipeline_without_a_cache_is_found() -> None:
    surroundings = here(configs=config("components: [libfuse, attr_cache, azstorage]"))
    assert causes("/mnt/training-data", surroundings)[b.NO_CACHE] is True


def test_a_cache_that_forgets_at_once_is_none() -> None:
    text = FILE_CACHE.format(path="/mnt/nvme/cache").replace("120", "0")
    assert causes("/mnt/training-data", here(configs=config(text)))[b.NO_CACHE] is True


def test_a_mount_of_somebody_else_is_unknown_and_not_fine() -> None:
    found = causes("/mnt/training-data", here())
    assert (found[b.NO_CACHE], found[b.CACHE_ON_OS_DISK]) == (None, None)


def test_in_a_container_nothing_is_called_an_os_disk() -> None:
    mounts = parse_mounts("overlay / overlay rw 0 0\n")
    assert b.behind("/data", here(mounts=mounts, devices=())).kind == "other"


def test_a_capture_gets_the_same_facts() -> None:
    surroundings = here(configs=config(FILE_CACHE.format(path="/var/cache")))
    facts = b.mount_facts(b.behind("/mnt/training-data", surroundings), "eth0")
    assert (facts.mount_kind, facts.cache_class, facts.interface) == ("blobfuse2", "os", "eth0")
    local = b.mount_facts(b.behind("/mnt/nvme", surroundings), "eth0")
    assert (local.mount_kind, local.device, local.interface) == ("local", "nvme0n1", None)


def test_every_device_of_a_disk_gets_its_class() -> None:
    classes = dict(b.disk_classes(here()))
    assert classes["nvme0n1"] == classes["md0"] == "local-nvme"
    assert (classes["sda"], classes["sdb1"]) == ("os", "temp")
    assert (classes["sdc"], classes["sdd"]) == ("managed", "hdd")
    assert classes["nvme1n1"] == "remote-nvme"
