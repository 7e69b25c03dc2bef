from __future__ import annotations

import csv
import io
from typing import Any

import pytest

FAMILY = "Standard NDASv4_A100 Family"
REQUEST = ("quota", "request", "--region", "eastus2", "--family", "ND96asr_v4")


def states(shown: Any) -> list[tuple[str, str]]:
    return [(step["state"], step["name"]) for step in shown.json["steps"]]


def test_the_list_holds_gpu_families_and_the_regional_pools(run: Any) -> None:
    shown = run("quota", "list", "--region", "eastus2")
    assert shown.code == 0
    assert shown.lines[0] == "VM (Microsoft.Compute) quota in eastus2, vCPUs"
    assert any(line.startswith(FAMILY) for line in shown.lines)
    assert [line.split()[0] for line in shown.lines[-2:]] == ["cores", "lowPriorityCores"]
    assert "standardDSv3Family" not in shown.stdout


def test_all_rows_are_listed_when_asked_for(run: Any) -> None:
    few = run("quota", "list", "-r", "eastus2", "-o", "json").json["quotas"]
    every = run("quota", "list", "-r", "eastus2", "--all", "-o", "json").json["quotas"]
    assert len(every) > len(few)
    assert {row["name"] for row in few} < {row["name"] for row in every}


def test_rows_name_region_and_subscription_for_machines(run: Any) -> None:
    shown = run("quota", "list", "-r", "eastus2,westeurope", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert {row["region"] for row in rows} == {"eastus2", "westeurope"}
    row = next(row for row in rows if row["name"] == FAMILY)
    assert (row["used"], row["limit"], row["free"]) == ("0", "192", "192")


def test_without_a_region_only_options_that_there_are_are_named(run: Any) -> None:
    shown = run("quota", "list")
    assert (shown.code, shown.stdout) == (2, "")
    assert "No region is given." in shown.stderr
    assert "--all-regions" not in shown.stderr


@pytest.mark.parametrize("family", ["", " ", "..", "../../x", "a/b", "a?b", "a#b"])
def test_what_can_be_no_quota_is_refused_before_anything_is_sent(run: Any, family: str) -> None:
    words = ("quota", "request", "-r", "eastus2", "--limit", "9", "--register", "--yes")
    shown = run(*words, "--family", family, "--debug")
    assert (shown.code, shown.stdout) == (2, "")
    assert f"{family!r} is no name of a quota." in shown.stderr
    assert "/quotas" not in shown.stderr


def test_an_unknown_region_ends_with_2(run: Any) -> None:
    shown = run("quota", "list", "-r", "eastus9")
    assert (shown.code, shown.stdout) == (2, "")
    assert "eastus" in shown.stderr


def test_a_dry_run_shows_the_steps_and_changes_nothing(run: Any) -> None:
    words = (*REQUEST, "--limit", "288", "--register", "-o", "json")
    shown = run(*words, "--dry-run")
    assert shown.code == 0
    assert states(shown) == [("planned", "Microsoft.Quota"), ("planned", FAMILY)]
    assert states(run(*words, "--dry-run")) == states(shown)


def test_a_request_is_carried_out_and_a_second_one_finds_it_done(run: Any) -> None:
    words = (*REQUEST, "--limit", "288", "--register", "--yes", "-o", "json")
    first, second = run(*words), run(*words)
    assert (first.code, second.code) == (0, 0)
    assert states(first) == [("done", "Microsoft.Quota"), ("done", FAMILY)]
    assert states(second) == [("kept", FAMILY)]


def test_without_a_terminal_a_request_needs_yes(run: Any) -> None:
    shown = run(*REQUEST, "--limit", "288", "--register", answer="y\n")
    assert (shown.code, shown.stdout) == (2, "")
    assert "hint: Add --yes to go ahead, or --dry-run to see the plan." in shown.stderr
    limits = run("quota", "list", "-r", "eastus2", "--query", f"quotas[?name=='{FAMILY}'].limit")
    assert limits.stdout == "192\n"


def test_nothing_is_asked_where_nothing_changes(run: Any) -> None:
    shown = run(*REQUEST, "--limit", "192", "-o", "json")
    assert shown.code == 0
    assert states(shown) == [("kept", FAMILY)]


def test_the_regional_total_is_called_by_one_name(run: Any) -> None:
    words = (*REQUEST, "--limit", "300", "--dry-run", "--register")
    shown = run(*words, "--with-regional")
    assert "quota limit: regional total (cores)" in shown.stdout
    assert "The regional total (cores) of eastus2 is 350 vCPUs" in run(*words).stderr


def test_a_family_that_is_made_up_is_no_reason_to_register(run: Any) -> None:
    words = ("quota", "request", "-r", "eastus2", "--limit", "9", "--register", "--yes")
    shown = run(*words, "--family", "standardNDSH900v9Family", "--debug")
    assert (shown.code, shown.stdout) == (2, "")
    assert "called 'standardNDSH900v9Family'" in shown.stderr
    assert "> POST" not in shown.stderr


def test_a_lower_limit_is_refused(run: Any) -> None:
    shown = run(*REQUEST, "--limit", "96", "--register", "--yes")
    assert shown.code == 1
    assert "does not lower limits" in shown.stderr
    assert "hint: A limit costs nothing" in shown.stderr


def test_an_unregistered_subscription_is_told_both_ways_on(run: Any) -> None:
    shown = run(*REQUEST, "--limit", "288", "--yes")
    assert shown.code == 1
    assert "--register" in shown.stderr
    assert "az provider register" in shown.stderr
    assert "az reaches the sandbox through `ai4infra sandbox serve`" in shown.stderr


def test_a_request_that_nobody_waits_for_says_how_to_go_on(run: Any) -> None:
    words = (*REQUEST, "--limit", "288", "--register", "--yes")
    shown = run(*words, "--no-wait")
    assert shown.code == 0
    assert "in progress" in shown.stdout
    assert "To finish what is open:" in shown.stdout
    assert "hint: Run the same again" in shown.stderr
    assert run(*words).code == 0


def test_a_refused_request_ends_with_1_and_names_the_way_through_support(run: Any) -> None:
    shown = run(*REQUEST, "--limit", "90000", "--register", "--yes")
    assert shown.code in (1, 5)
    assert "support request" in shown.stderr
