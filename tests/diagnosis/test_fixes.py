"""What to do about a cause: commands with what is known filled in."""

from __future__ import annotations

import pytest
from hard_situations import LOW, SLOW
from situations import H100, QUIET_DISK, Situation, bundle, cpu, disk, gpus, net, question

from ai4infra.diagnosis.answer import Question
from ai4infra.diagnosis.fixes import filled
from ai4infra.diagnosis.samples import DiskClass, DiskFacts, MountFacts, MountKind


def mounted(kind: MountKind, source: str | None = None, size: str | None = None) -> Question:
    mount = MountFacts(path="/mnt/my data", mount_kind=kind, cache_class="none", source=source)
    return question(size, mounts=(mount,))


def over_network(asked: Question) -> list[str | None]:
    parts = bundle(gpus(LOW), disk(*QUIET_DISK), net(6e7, 1e6), cpu(0.1))
    return [fix.command for fix in Situation("", "", parts, asked).judged().fixes]


def from_disk(disk_class: DiskClass | None) -> list[str]:
    facts = (DiskFacts(device="sdc", disk_class=disk_class),) if disk_class else ()
    parts = bundle(gpus(LOW), disk("sdc", 6e7, **SLOW), net(1e5), cpu(0.1, 0.1))
    found = Situation("", "", parts, question(disks=facts)).judged().fixes
    return [f"{fix.text} {fix.command}" for fix in found]


def test_the_container_of_the_mount_is_in_the_commands() -> None:
    commands = over_network(mounted("blobfuse2", "sttrain/training-data", H100))
    assert (
        "ai4infra mount config sttrain/training-data --for training --cache /mnt/nvme/cache"
        in commands
    )
    assert "ai4infra data copy sttrain/training-data /mnt/nvme/data" in commands
    assert f"ai4infra storage advise --gpus 1x{H100} --dataset DATASET" in commands
    assert any("--mode preload" in (command or "") for command in commands)
    assert not any("ACCOUNT" in (command or "") for command in commands)


@pytest.mark.parametrize("source", [None, "blobfuse2", "//sttrain.file.core.windows.net/share"])
def test_a_container_that_is_not_known_stays_open(source: str | None) -> None:
    commands = over_network(mounted("blobfuse2", source))
    assert "ai4infra data copy ACCOUNT/CONTAINER/FOLDER /mnt/nvme/data" in commands


def test_a_share_has_fixes_of_its_own() -> None:
    commands = over_network(mounted("smb"))
    assert commands[0] == "ai4infra data copy '/mnt/my data' ACCOUNT/CONTAINER/FOLDER"
    assert not any("mount config" in (command or "") for command in commands)


@pytest.mark.parametrize(
    ("disk_class", "said"),
    [
        ("hdd", "off the Standard HDD"),
        ("temp", "in the place of the SCSI temp disk"),
        ("os", "from the OS disk to local NVMe"),
        ("managed", "Stage the data on local NVMe"),
        (None, "Stage the data on local NVMe"),
    ],
)
def test_each_kind_of_disk_has_its_fix_first(disk_class: DiskClass | None, said: str) -> None:
    assert said in from_disk(disk_class)[0]


def test_what_the_disk_is_is_asked_where_nobody_knows() -> None:
    asked = "ai4infra diagnose path PATH"
    assert any(asked in text for text in from_disk(None))
    assert not any(asked in text for text in from_disk("managed"))


def test_the_model_of_the_size_is_searched_for() -> None:
    assert filled("ai4infra recon --gpu MODEL --all-regions", question(H100)).split()[3] == "H100"
    assert "MODEL" in filled("ai4infra recon --gpu MODEL --all-regions", question())
