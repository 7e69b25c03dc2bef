from __future__ import annotations

import os
import shlex
from typing import Any

import click
import pytest

from ai4infra.cli.main import main
from ai4infra.roles import BLOB_READER
from ai4infra.sandbox import open_sandbox
from ai4infra.sandbox.files import state_dir
from ai4infra.sandbox.world import Policy

CREATE = ("storage", "create")
EXAMPLE = "a1410000-0000-4000-8000-000000000001"
VNET = (
    f"/subscriptions/{EXAMPLE}/resourceGroups/rg-net/providers/Microsoft.Network"
    "/virtualNetworks/vnet"
)


def steps(shown: Any) -> list[tuple[str, str, str]]:
    return [(step["state"], step["kind"], step["name"]) for step in shown.json["steps"]]


def states(shown: Any) -> set[str]:
    return {state for state, _, _ in steps(shown)}


def accounts(run: Any) -> list[str]:
    listed = run("storage", "list", "-o", "json")
    return [account["name"] for account in listed.json["accounts"]]


# --- create


def test_without_arguments_the_account_of_subscription_and_group_is_made(run: Any) -> None:
    shown = run(*CREATE, "--yes", "-o", "json")
    assert (shown.code, states(shown)) == (0, {"done"})
    assert [kind for _, kind, _ in steps(shown)] == [
        "resource group",
        "storage account",
        "blob service settings",
        "container",
        "role assignment",
    ]
    account = shown.json["account"]
    assert account["name"].startswith("staitraining")
    assert len(account["name"]) == len("staitraining") + 8
    assert "/resourceGroups/rg-ai-training/" in account["id"]
    assert account["endpoints"]["dfs"] == f"https://{account['name']}.dfs.core.windows.net/"
    assert all(finding["verdict"] == "pass" for finding in shown.json["findings"])


def test_run_again_there_is_nothing_to_do(run: Any) -> None:
    first, second = (run(*CREATE, "--yes", "-o", "json") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert states(second) == {"kept"}
    assert second.json["account"] == first.json["account"]


def test_a_plan_says_all_that_the_blob_service_shall_do(run: Any) -> None:
    words = ("--no-hns", "--versioning", "--change-feed", "--soft-delete-days", "9")
    shown = run(*CREATE, *words, "--restore-days", "5", "--dry-run")
    assert (
        "soft delete 9 days, blobs and containers, versions, change feed, restore within 5 days"
        in shown.stdout
    )


def test_the_receipt_says_where_it_is_and_what_comes_next(run: Any) -> None:
    shown = run(*CREATE, "--name", "sttrain", "--yes")
    assert shown.code == 0
    assert "https://sttrain.blob.core.windows.net/" in shown.stdout
    commands = shown.stdout.split("Next:\n")[1].splitlines()
    assert commands[0].startswith("  ai4infra --sandbox rbac wait ")
    assert commands[1:4] == [
        "  ai4infra --sandbox data copy ./training-data sttrain/training-data",
        "  ai4infra --sandbox mount config sttrain/training-data -f training-data.yaml",
        "  ai4infra --sandbox mount up /mnt/training-data -f training-data.yaml",
    ]
    for line in filter(None, commands):
        words = shlex.split(line)
        assert words[0] == "ai4infra"
        assert parses([word for word in words[1:] if word != "--sandbox"]), line


def parses(words: list[str]) -> bool:
    """Tell whether a command line is one of ours; a usage error raises."""
    command: click.Command = main
    context = click.Context(command, info_name="ai4infra")
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        if found is None:
            return False
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=found.name)
    command.make_context(command.name, list(words), parent=context.parent).close()
    return True


def test_the_account_has_what_was_sent(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--tag", "team=vision", "--yes")
    account = run("storage", "show", "--name", "sttrain", "-o", "json").json["account"]
    assert account["tags"] == {"team": "vision"}
    assert account["minimumTlsVersion"] == "TLS1_2"
    flags = ("hns", "httpsOnly", "allowBlobPublicAccess", "allowSharedKeyAccess", "defaultToOauth")
    assert [account[flag] for flag in flags] == [True, True, False, False, True]


def test_a_dry_run_shows_every_step_and_what_it_costs_and_makes_nothing(run: Any) -> None:
    shown = run(*CREATE, "--dry-run")
    assert shown.code == 0
    assert "planned  create  storage account: staitraining" in shown.stdout
    assert "USD per GiB and month" in shown.stdout
    assert accounts(run) == []


def test_without_a_terminal_it_needs_yes(run: Any) -> None:
    shown = run(*CREATE, answer="y\n")
    assert (shown.code, shown.stdout) == (2, "")
    assert "hint: Add --yes to go ahead, or --dry-run to see the plan." in shown.stderr
    assert accounts(run) == []


def test_what_nobody_waits_for_is_told_and_finished_by_the_next_run(run: Any) -> None:
    shown = run(*CREATE, "--yes", "--no-wait", "-o", "json")
    assert shown.code == 0
    assert ("in progress", "storage account") in {(s, k) for s, k, _ in steps(shown)}
    assert any("storage show" in command for command in shown.json["nextCommands"])
    done = run(*CREATE, "--yes", "-o", "json")
    assert done.code == 0
    assert [kind for state, kind, _ in steps(done) if state == "done"] == [
        "blob service settings",
        "container",
        "role assignment",
    ]
    assert states(run(*CREATE, "--yes", "-o", "json")) == {"kept"}


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("bicep", "resource "),
        ("terraform", 'resource "azapi_resource"'),
        ("az", "az storage account create"),
    ],
)
def test_emitted_code_is_all_that_is_on_stdout_and_nothing_is_made(
    run: Any, language: str, line: str
) -> None:
    shown = run(*CREATE, "--emit", language, "--lock")
    assert shown.code == 0
    assert line in shown.stdout
    assert "WARNING" not in shown.stdout
    assert shown.stdout.endswith("\n")
    assert accounts(run) == []


def test_checkpoints_get_a_container_and_a_rule(run: Any) -> None:
    words = ("--name", "sttrain", "--checkpoints", "ckpt", "--checkpoint-retention", "7d:30d")
    assert run(*CREATE, *words, "--yes").code == 0
    look = run("storage", "show", "--name", "sttrain", "-o", "json").json
    assert [c["name"] for c in look["containers"]] == ["ckpt"]
    rule = look["lifecycle"][0]
    assert (rule["coolAfterDays"], rule["deleteAfterDays"]) == (7, 30)


def test_a_role_can_be_for_one_container_only(run: Any) -> None:
    who = "id:5f3c2a9e-74bd-4f0f-a6b3-8d1e0c9b7a61:User"
    words = ("--name", "sttrain", "--container", "data", "--reader", f"{who}@data", "--reader", who)
    shown = run(*CREATE, *words, "--dry-run", "-o", "json")
    details = [s["detail"] for s in shown.json["steps"] if s["kind"] == "role assignment"]
    assert sorted(d.split(" on ")[1] for d in details) == ["data", "sttrain"]


def test_nobody_gets_a_role_where_that_is_asked(run: Any) -> None:
    shown = run(*CREATE, "--no-grant", "--dry-run", "-o", "json")
    assert "role assignment" not in {kind for _, kind, _ in steps(shown)}


def test_growth_and_hungry_gpus_are_warned_of(run: Any) -> None:
    words = ("--expect", "1PB", "--gpus", "64xND96isr_H100_v5", "--dry-run")
    shown = run(*CREATE, *words)
    assert shown.code == 0
    assert "WARNING: 10 times 1 PB is 10 PB" in shown.stderr
    assert "times the account egress" in shown.stderr


def test_an_immutable_difference_refuses_and_names_it(run: Any) -> None:
    run(*CREATE, "--name", "stflat", "--no-hns", "--yes")
    shown = run(*CREATE, "--name", "stflat", "--update", "--yes")
    assert shown.code == 1
    assert "isHnsEnabled is false, wanted true" in shown.stderr


def test_drift_is_shown_and_changed_only_with_update(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--yes")
    words = (*CREATE, "--name", "sttrain", "--network", "restricted", "--yes", "-o", "json")
    kept = run(*words, "--allow-ip", "203.0.113.7")
    assert kept.code == 0
    assert "--update changes it" in kept.stderr
    changed = run(*words, "--allow-ip", "203.0.113.7", "--update")
    assert ("done", "storage account", "sttrain") in steps(changed)
    again = run(*words, "--allow-ip", "203.0.113.7")
    assert states(again) == {"kept"}


def test_tags_of_others_stay(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--tag", "owner=alice", "--yes")
    run(*CREATE, "--name", "sttrain", "--tag", "team=vision", "--update", "--yes")
    account = run("storage", "show", "--name", "sttrain", "-o", "json").json["account"]
    assert account["tags"] == {"owner": "alice", "team": "vision"}


def test_a_classification_that_is_contradicted_refuses_with_the_reason(run: Any) -> None:
    words = ("--classification", "confidential", "--network", "open", "--yes")
    shown = run(*CREATE, *words)
    assert shown.code == 1
    assert "confidential data needs --network restricted" in shown.stderr
    assert accounts(run) == []


def test_a_name_of_mine_in_another_group_is_told_from_one_of_somebody_else(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "-g", "rg-one", "--yes")
    shown = run(*CREATE, "--name", "sttrain", "-g", "rg-two", "--yes")
    assert shown.code == 1
    assert "use --resource-group rg-one" in shown.stderr


# --- who


def test_a_machine_gets_its_role_through_its_own_identity(run: Any, machine: Any) -> None:
    who = machine({"type": "SystemAssigned"})
    shown = run(*CREATE, "--name", "sttrain", "--reader", who, "--yes", "-o", "json")
    assert shown.code == 0
    assert ("done", "role assignment", who) in steps(shown)
    look = run("storage", "show", "--name", "sttrain", "-o", "json").json
    held = [(a["roleId"], a["principalType"]) for a in look["roleAssignments"]]
    assert (BLOB_READER, "ServicePrincipal") in held


def test_a_machine_without_identity_is_refused_before_anything_is_sent(
    run: Any, machine: Any
) -> None:
    shown = run(*CREATE, "--reader", machine(), "--yes")
    assert (shown.code, shown.stdout) == (2, "")
    assert "hint: Add --enable-identity to give it one." in shown.stderr
    assert accounts(run) == []


def test_a_machine_gets_an_identity_where_that_is_asked(run: Any, machine: Any) -> None:
    words = (*CREATE, "--reader", machine(), "--enable-identity", "--yes", "-o", "json")
    first, second = run(*words), run(*words)
    assert (first.code, states(first)) == (0, {"done"})
    assert [kind for _, kind, _ in steps(first)].count("managed identity") == 1
    assert (second.code, states(second)) == (0, {"kept"})


def test_code_for_az_gives_a_machine_its_identity_and_other_code_says_how(
    run: Any, machine: Any
) -> None:
    words = (*CREATE, "--reader", machine(), "--enable-identity", "--emit")
    script = run(*words, "az")
    assert "identity_1=$(az vm identity assign" in script.stdout
    assert '--assignee-object-id "$identity_1"' in script.stdout
    code = run(*words, "terraform")
    assert "node-0" not in code.stdout
    assert "az vm identity assign --subscription" in code.stderr
    assert "--name node-0" in code.stderr


# --- bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "St_Train"), "3 to 24 lower-case letters and digits"),
        (("--name", "st"), "3 to 24 lower-case letters and digits"),
        (("--container", "Data"), "3 to 63 lower-case letters"),
        (("--container", "a--b"), "single hyphens"),
        (("--container", "$web"), "reserved"),
        (("--checkpoints", "$logs"), "reserved"),
        (("--resource-group", "rg."), "does not end with a period"),
        (("--sku", "Standard_XRS"), "no SKU"),
        (("--premium", "--sku", "GRS"), "no SKU of a premium account"),
        (("--network", "closed"), "no network called 'closed'"),
        (("--network", "open", "--allow-ip", "203.0.113.7"), "everybody is let in"),
        (("--allow-ip", "10.0.0.4"), "is private"),
        (("--allow-ip", "somewhere"), "no IPv4 address"),
        (("--allow-subnet", "subnet"), "no resource id of a subnet"),
        (("--private-endpoint", VNET), "no resource id of a subnet"),
        (("--classification", "secret"), "no classification called 'secret'"),
        (("--versioning",), "no blob versioning"),
        (("--change-feed",), "no change feed"),
        (("--restore-days", "7"), "point-in-time restore"),
        (("--soft-delete-days", "0"), "1 to 365 days"),
        (("--soft-delete-days", "week"), "no whole number"),
        (("--name", " "), "it is empty"),
        (("--key-uri", "https://kv.vault.azure.net/keys/k"), "user-assigned identity"),
        (("--key-identity", "x"), "but no key"),
        (("--checkpoints", "ckpt", "--checkpoint-retention", "90d:14d"), "no later than it cools"),
        (("--checkpoint-retention", "7d:30d"), "no container for checkpoints"),
        (("--tag", "Classification=restricted"), "--classification"),
        (("--allow-ip", "0.0.0.0/0"), "only public"),
        (("--lifecycle", "data"), "no lifecycle"),
        (("--expect", "2Tb"), "not a size"),
        (("--gpus", "8xA100"), "is a GPU"),
        (("--gpus", "8xD96ds_v5"), "no GPU size"),
        (("--tag", "team"), "no tag"),
        (("--tag", "a=1", "--tag", "A=2"), "twice"),
        (("--reader", "alice"), "does not say who"),
        (("--reader", "alice@contoso.com"), "az ad user show"),
        (("--reader", "vm:node-0"), "resource group and a name"),
        (("--reader", "id:not-a-uuid"), "not an object id"),
        (("--reader", "me@Data"), "3 to 63 lower-case letters"),
        (("--emit", "pulumi"), "no language called 'pulumi'"),
        (("--location", "eastus9"), "eastus"),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule_and_nothing_is_made(
    run: Any, words: tuple[str, ...], said: str
) -> None:
    shown = run(*CREATE, *words, "--yes")
    assert (shown.code, shown.stdout) == (2, "")
    assert said in shown.stderr
    assert accounts(run) == []


@pytest.mark.parametrize("who", ["vm:rg-none/node", "vmss:rg-none/nodes"])
def test_who_does_not_exist_is_not_found(run: Any, who: str) -> None:
    shown = run(*CREATE, "--reader", who, "--yes")
    assert (shown.code, shown.stdout) == (3, "")
    assert accounts(run) == []


def test_a_role_on_a_container_that_is_not_made_is_refused(run: Any) -> None:
    shown = run(*CREATE, "--name", "sttrain", "--reader", "me@other", "--yes")
    assert shown.code == 1
    assert "--container makes it" in shown.stderr
    assert accounts(run) == []


# --- list, show, delete


def test_accounts_are_listed_with_what_an_auditor_looks_at(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--classification", "internal", "--yes")
    shown = run("storage", "list")
    assert shown.code == 0
    title, row = (line.split() for line in shown.lines)
    found = dict(zip(title, row, strict=True))
    assert found["Name"] == "sttrain"
    assert (found["HNS"], found["TLS"], found["Keys"]) == ("yes", "TLS1_2", "off")
    assert (found["Network"], found["Data"]) == ("open", "internal")


def test_no_account_at_all_is_an_empty_list(run: Any) -> None:
    shown = run("storage", "list", "-o", "json")
    assert (shown.code, shown.json["accounts"]) == (0, [])


def test_show_without_a_name_shows_the_account_of_subscription_and_group(run: Any) -> None:
    made = run(*CREATE, "--yes", "-o", "json").json["account"]
    shown = run("storage", "show", "-o", "json").json
    assert shown["account"]["id"] == made["id"]
    assert [c["name"] for c in shown["containers"]] == ["training-data"]


@pytest.mark.parametrize("command", ["show", "delete", "audit"])
def test_an_account_that_does_not_exist_is_not_found(run: Any, command: str) -> None:
    run(*CREATE, "--name", "sttrain", "--yes")
    shown = run("storage", command, "--name", "sttrian")
    assert (shown.code, shown.stdout) == (3, "")
    assert "sttrain" in shown.stderr


def test_an_account_is_deleted_with_everything_in_it(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--yes")
    asked = run("storage", "delete", "--name", "sttrain")
    assert asked.code == 2
    shown = run("storage", "delete", "--name", "sttrain", "--yes")
    assert shown.code == 0
    assert "14 days" in shown.stderr
    assert accounts(run) == []


def test_a_locked_account_is_not_deleted(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--lock", "--yes")
    shown = run("storage", "delete", "--name", "sttrain", "--yes")
    assert shown.code == 1
    assert "az lock delete" in shown.stderr
    assert accounts(run) == ["sttrain"]


# --- audit


def verdicts(shown: Any) -> dict[str, str]:
    return {f["check"]: f["verdict"] for f in shown.json["findings"]}


def test_an_account_of_ours_lacks_only_what_was_not_asked_for(run: Any) -> None:
    words = ("--name", "sttrain", "--classification", "internal", "--lock")
    run(*CREATE, *words, "--yes")
    shown = run("storage", "audit", "-o", "json")
    assert shown.code == 4
    failed = {check for check, verdict in verdicts(shown).items() if verdict == "fail"}
    assert failed == {"availability alert", "throughput alert"}
    assert verdicts(shown)["growth headroom"] == "unknown"


def test_each_finding_names_the_command_that_mends_it(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--yes")
    shown = run("storage", "audit", "--name", "sttrain")
    assert shown.code == 4
    assert "lock" in shown.stdout
    fix = "storage audit --resource-group rg-ai-training --name sttrain --fix"
    assert fix in shown.stdout
    assert "az monitor metrics alert create" in shown.stdout


def test_fix_plans_what_one_right_answer_mends_and_applies_it(run: Any) -> None:
    run(*CREATE, "--name", "sttrain", "--yes")
    planned = run("storage", "audit", "--name", "sttrain", "--fix", "--dry-run", "-o", "json")
    assert planned.code == 0
    assert ("planned", "lock", "ai4infra-cannot-delete") in steps(planned)
    assert "For you to decide" in planned.stderr
    mended = run("storage", "audit", "--name", "sttrain", "--fix", "--yes", "-o", "json")
    assert mended.code == 0
    assert verdicts(run("storage", "audit", "-o", "json"))["lock"] == "pass"


def test_dry_run_without_fix_is_no_question(run: Any) -> None:
    assert run("storage", "audit", "--dry-run").code == 2


def test_a_subscription_without_accounts_has_no_findings(run: Any) -> None:
    shown = run("storage", "audit")
    assert shown.code == 0
    assert "0 accounts" in shown.stdout


# --- advise


def test_advice_ranks_and_never_proposes_slow_storage(real: Any) -> None:
    words = ("--dataset", "2TB", "--files", "12M", "--gpus", "8xND96asr_v4", "--epochs", "90")
    shown = real("storage", "advise", *words, "-o", "json")
    assert shown.code == 0
    options = shown.json["options"]
    assert options[0]["suitable"] == "yes"
    never = {o["name"] for o in options if o["suitable"] == "never"}
    assert never == {"Standard HDD", "Azure Files SMB standard"}
    assert all(o["firstWall"] for o in options if o["feedMbytesS"] is not None)


def test_advice_for_people_says_the_need_the_wall_and_why(real: Any) -> None:
    words = ("--dataset", "500GB", "--files", "4M", "--gpus", "4xND96isr_H100_v5")
    shown = real("storage", "advise", *words)
    assert shown.code == 0
    assert "32 H100 take in" in shown.stdout
    assert "account requests" in shown.stdout
    assert "idle the rest" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dataset", "2", "--gpus", "8xND96asr_v4"), "not a size"),
        (("--dataset", "2TB", "--gpus", "8xA100"), "is a GPU"),
        (("--dataset", "2TB", "--gpus", "8xND96asr_v4", "--files", "many"), "not a number"),
        (("--dataset", "2TB", "--gpus", "8xND96asr_v4", "--workload", "film"), "no workload"),
        (("--dataset", "1KB", "--gpus", "8xND96asr_v4", "--files", "12M"), "at least one byte"),
        (("--dataset", "2GB", "--gpus", "8xND96asr_v4", "--sample-size", "3GB"), "does not fit"),
        (("--gpus", "8xND96asr_v4"), "--dataset"),
        (("--dataset", "2TB", "--gpus", "8xND96asr_v4", "--epochs", "0"), "at least 1"),
        (("--dataset", "2TB", "--gpus", "8xND96asr_v4", "--shared-by", "two"), "no whole number"),
    ],
)
def test_a_job_that_cannot_be_ends_with_2(real: Any, words: tuple[str, ...], said: str) -> None:
    shown = real("storage", "advise", *words)
    assert (shown.code, shown.stdout) == (2, "")
    assert said in shown.stderr


def test_advice_for_a_region_that_is_not_known_says_so(real: Any) -> None:
    words = ("--dataset", "2TB", "--gpus", "8xND96asr_v4")
    assert "'mars'" in real("storage", "advise", *words, "--region", "mars").stderr
    assert real("storage", "advise", *words, "--region", "East US 2").stderr == ""


# --- what the service does otherwise


@pytest.fixture
def ruled(run: Any) -> Any:
    """Put a policy into the world that the command line asks."""

    def rule(**fields: Any) -> None:
        with open_sandbox(state_dir(os.environ)) as sandbox:
            kind = "Microsoft.Storage/storageAccounts"
            sandbox.world.state.policies.append(Policy(resource_type=kind, **fields))

    return rule


def test_a_policy_that_denies_is_named_and_the_receipt_says_what_was_not_reached(
    run: Any, ruled: Any
) -> None:
    ruled(
        name="need-team", display_name="Team tag", field="tags.team", operator="exists", value=False
    )
    shown = run(*CREATE, "--yes", "-o", "json")
    assert shown.code == 1
    assert [(state, kind) for state, kind, _ in steps(shown)][:3] == [
        ("done", "resource group"),
        ("failed", "storage account"),
        ("not reached", "blob service settings"),
    ]
    assert "RequestDisallowedByPolicy" in shown.stderr
    assert "Team tag" in shown.stderr
    finished = run(*CREATE, "--tag", "team=vision", "--yes", "-o", "json")
    assert (finished.code, states(finished)) == (0, {"kept", "done"})


def test_what_a_policy_changed_on_the_way_is_told_and_ends_with_1(run: Any, ruled: Any) -> None:
    ruled(
        name="keys",
        effect="modify",
        field="properties.allowSharedKeyAccess",
        operator="equals",
        value=False,
        put=True,
    )
    shown = run(*CREATE, "--yes", "-o", "json")
    assert shown.code == 1
    assert "allowSharedKeyAccess was sent as false, and is true." in shown.stderr
    found = {f["check"]: f["verdict"] for f in shown.json["findings"]}
    assert found["allowSharedKeyAccess"] == "fail"
    assert found["minimumTlsVersion"] == "pass"
