from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ai4infra.cli.recon_pages import _access, _fits, _limit
from ai4infra.model import Offer
from ai4infra.sandbox import Sandbox, open_sandbox
from ai4infra.sandbox.serve import environment, serve

NOTICE = "sandbox: an example world, not your subscription\n"
TRAINING = "a1410000-0000-4000-8000-000000000001"


def test_recon_prints_a_whole_table_with_title_summary_and_caveat(run: Any) -> None:
    shown = run("recon", "--region", "eastus2")
    assert shown.code == 0
    assert shown.stderr == NOTICE
    assert shown.lines[:3] == [
        "GPU sizes in eastus2",
        f"Subscription Example Training ({TRAINING})",
        "Quota: VM (Microsoft.Compute); prices: retail, pay-as-you-go, Linux, USD",
    ]
    assert shown.lines[4].startswith("Size ")
    assert shown.lines[4].endswith(
        "Fits  Bound by        Spot fits  USD/h  per GPU  Spot/h  Spot/GPU"
    )
    assert any("Standard_ND96isr_H100_v5" in line for line in shown.lines)
    assert any(line.endswith("of the spot pool (lowPriorityCores).") for line in shown.lines)
    assert shown.lines[-1].startswith("Listing and quota are not capacity")
    assert "\x1b" not in shown.stdout


def test_the_json_document_has_a_version_and_null_for_unknown(run: Any) -> None:
    document = run("recon", "-r", "eastus2", "-o", "json").json
    assert document["schemaVersion"] == "1.0"
    assert document["kind"] == "recon"
    assert document["subscriptions"][0]["id"] == TRAINING
    rows = {row["size"]: row for row in document["offers"]}
    assert rows["Standard_NV4ads_V710_v5"]["pricePerHour"] is None
    assert rows["Standard_NV6ads_A10_v5"]["gpuCountText"] == "1/6"
    assert len(rows) == len(document["offers"]) == document["summary"]["sizes"]


@pytest.mark.parametrize("spelling", ["East US 2", "EastUS2", "eastus2", "EASTUS2"])
def test_a_region_is_known_in_every_spelling(run: Any, spelling: str) -> None:
    shown = run("recon", "--location", spelling, "-o", "tsv", "--query", "regionQuotas[].region")
    assert shown.stdout == "eastus2\n"


def test_rows_say_the_same_in_every_format(run: Any) -> None:
    words = ("recon", "-r", "eastus2", "--size", "ND96*", "-o")
    rows = run(*words, "json").json["offers"]
    sizes = [row["size"] for row in rows]
    assert [json.loads(line) for line in run(*words, "jsonl").lines] == rows
    table = list(csv.DictReader(io.StringIO(run(*words, "csv").stdout)))
    assert list(table[0]) == list(rows[0])
    assert [row["size"] for row in table] == sizes
    assert [line.split("\t")[2] for line in run(*words, "tsv").lines] == sizes
    assert yaml.safe_load(run(*words, "yaml").stdout)["offers"] == rows


def test_filters_narrow_and_sorting_orders(run: Any) -> None:
    query = "offers[].[gpuModel, pricePerGpuHour]"
    words = ("--gpu", "A100,H100", "--startable", "--sort", "gpu-price")
    rows = run("recon", "-r", "eastus2", *words, "-o", "json", "--query", query).json
    assert {model for model, _ in rows} == {"A100", "H100"}
    assert [price for _, price in rows] == sorted(price for _, price in rows)


def test_without_prices_there_is_no_price_column(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--no-prices")
    assert "USD" not in shown.stdout
    assert "Spot/h" not in shown.stdout


def test_another_currency_is_named(run: Any) -> None:
    assert "EUR/h" in run("recon", "-r", "eastus2", "--currency", "eur").stdout


def test_physical_zones_are_shown_when_asked_for(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--physical-zones", "-o", "json")
    zones = [row["physicalZones"] for row in shown.json["offers"] if row["zones"]]
    assert all(zone.startswith("eastus2-az") for row in zones for zone in row)
    assert "Physical zones" in run("recon", "-r", "eastus2", "--physical-zones").stdout


def test_several_regions_and_subscriptions_get_columns_of_their_own(run: Any) -> None:
    shown = run("recon", "-r", "eastus2,westeurope", "--all-subscriptions", "--gpu", "T4")
    heading = next(line for line in shown.lines if line.startswith("Subscription  "))
    assert heading.split()[:2] == ["Subscription", "Region"]
    assert "Example Lab" in shown.stdout
    assert "Example Training" in shown.stdout


def test_all_regions_leave_staging_out_and_say_so(run: Any) -> None:
    shown = run("recon", "--all-regions", "--no-prices", "-o", "json")
    assert "eastus2euap" not in {row["region"] for row in shown.json["offers"]}
    assert "WARNING: 1 region is left out as staging: eastus2euap." in shown.stderr


def test_only_show_errors_keeps_stderr_empty(run: Any) -> None:
    shown = run("recon", "--all-regions", "--only-show-errors", "-o", "tsv")
    assert shown.code == 0
    assert shown.stderr == ""


def test_nothing_found_is_an_empty_list_and_no_failure(run: Any) -> None:
    words = ("recon", "-r", "eastus2", "--gpu", "H200", "--startable")
    assert run(*words, "-o", "tsv") == (0, "", NOTICE)
    assert run(*words, "-o", "json").json["offers"] == []
    assert "0 sizes: 0 can be started now." in run(*words).stdout


def test_a_query_on_a_list_is_told_that_the_document_is_an_object(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--query", "[].size")
    assert shown.stdout == ""
    assert "'NAME[]'" in shown.stderr


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["-r", "eastus3"], "no region called 'eastus3'", "eastus"),
        (["-r", "eastus2", "--size", "ND96asr_v5"], "no GPU size called", "Standard_ND96asr_v4"),
        (["-r", "eastus2", "--gpu", "H10"], "no GPU model called 'H10'", "H100"),
        (["-r", "eastus2", "--family", "NX"], "no family class called 'NX'", "NC"),
        (["-r", "eastus2", "--sort", "prize"], "no sort key called 'prize'", "price"),
        (["-r", "eastus2", "--currency", "dollars"], "no currency code", "USD"),
        (["-r", "eastus2", "--subscription", "Example Lap"], "no subscription", "Example Lab"),
        (["-r", "eastus2", "--subscription", "x"], "no subscription", "Known: Example Lab, Ex"),
        (["-r", "qqq"], "no region called 'qqq'", "Known: centralus, "),
        (["-r", "eastus2", "--query", "a["], "--query 'a['", "jmespath"),
        (["-r", "eastus2", "--need", "eight"], "'eight' is not a need", "COUNTxSIZE"),
        (["-r", "eastus2", "--need", "8xND96asr_v5"], "no GPU size called", "ND96asr_v4"),
        ([], "No region is given", "--all-regions"),
        (["-r", "eastus2", "--currency", "XXX"], "no prices in 'XXX'", "USD"),
        (["-r", "eastus2", "--query", ""], "--query ''", "jmespath"),
        (["-r", "eastus2", "--min-gpus", "nan"], "nan is no number of GPUs", "0.5"),
        (["-r", "eastus2", "--min-gpus", "-1"], "-1.0 is no number of GPUs", "0.5"),
        (["-r", "eastus2", "--min-gpu-memory", "inf"], "inf is no number of GiB", "0.5"),
        (["-r", "a", "--all-regions"], "do not go together", "--help"),
        (["-r", "a", "--cloud", "x"], "--cloud and --sandbox do not go together", "leave one"),
        (["-r", "a", "--client-id", "x"], "--client-id and --sandbox do not", "leave one"),
        (["-r", "a", "--need", "1xT4", "--startable"], "do not go together", "--help"),
        (["-r", "a", "--sort", "-price", "--no-prices"], "do not go together", "--help"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_input_ends_with_2_and_says_what_is_right(
    run: Any, words: list[str], said: str, hint: str
) -> None:
    shown = run("recon", *words)
    assert shown.code == 2
    assert shown.stdout == ""
    error, hinted = shown.stderr.removeprefix(NOTICE).splitlines()
    assert said in error
    assert hint in hinted


@pytest.mark.parametrize("option", ["--region", "--size", "--gpu", "--family", "--need"])
@pytest.mark.parametrize("value", ["", " ", ","])
def test_an_empty_value_is_refused_instead_of_asking_for_everything(
    run: Any, option: str, value: str
) -> None:
    shown = run("recon", "-r", "eastus2", option, value)
    assert (shown.code, shown.stdout) == (2, "")
    assert f"'{option}'" in shown.stderr
    assert "it is empty." in shown.stderr


def test_the_location_may_come_from_the_environment(run: Any) -> None:
    shown = run(
        "recon", "-o", "tsv", "--query", "regionQuotas[].region", AZURE_DEFAULTS_LOCATION="westus3"
    )
    assert shown.stdout == "westus3\n"


def test_the_format_may_come_from_the_environment(run: Any) -> None:
    assert run("recon", "-r", "eastus2", AI4INFRA_OUTPUT="json").json["kind"] == "recon"
    assert run("recon", "-r", "eastus2", AI4INFRA_OUTPUT="xml").code == 2


def test_the_sandbox_may_come_from_the_environment(real: Any) -> None:
    shown = real("recon", "-r", "eastus2", AI4INFRA_SANDBOX="1")
    assert (shown.code, shown.stderr) == (0, NOTICE)


def test_a_subscription_of_the_real_world_means_nothing_in_the_sandbox(run: Any) -> None:
    shown = run(
        "recon", "-r", "eastus2", AZURE_SUBSCRIPTION_ID="00000000-0000-0000-0000-000000000000"
    )
    assert TRAINING in shown.stdout


@pytest.mark.slow
def test_without_a_sign_in_both_ways_on_are_told(real: Any, tmp_path: Path) -> None:
    shown = real("recon", "-r", "eastus2", "--subscription", TRAINING, PATH=str(tmp_path))
    assert shown.code == 1
    assert shown.stdout == ""
    assert "az login" in shown.stderr
    assert "--sandbox" in shown.stderr


def test_verbose_says_where_settings_come_from(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--verbose", "--subscription", "Example Lab")
    assert "subscription: Example Lab (--subscription)" in shown.stderr


def test_debug_shows_requests_without_tokens(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--debug")
    assert "> GET https://management.azure.com/subscriptions/" in shown.stderr
    assert "Bearer" not in shown.stderr


# --- needs


def test_a_need_that_fits_ends_with_0(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "2xStandard_ND96asr_v4")
    assert shown.code == 0
    assert any(line.split()[:2] == ["eastus2", "FITS"] for line in shown.lines)


def test_a_need_that_does_not_fit_ends_with_4_and_says_what_is_short(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "8xStandard_ND96asr_v4")
    assert shown.code == 4
    assert "DOES NOT FIT" in shown.stdout
    assert "768 vCPUs needed, 192 free, 576 short (limit to ask for: 768)" in shown.stdout
    assert "--family 'Standard NDASv4_A100 Family' --limit 768" in shown.stdout


def test_needs_are_answered_together(run: Any) -> None:
    one = run("recon", "-r", "eastus2", "--need", "16xA100", "-o", "json")
    two = run("recon", "-r", "eastus2", "--need", "16xA100", "--need", "16xH100", "-o", "json")
    assert (one.code, two.code) == (0, 4)
    assert one.json["answers"][0]["fits"] is True
    assert two.json["answers"][0]["fits"] is False
    assert [need["count"] for need in two.json["needs"]] == [16, 16]


def test_one_region_that_fits_is_enough(run: Any) -> None:
    shown = run("recon", "-r", "westeurope", "-r", "eastus2", "--need", "2xStandard_ND96asr_v4")
    assert shown.code == 0
    assert "What fits instead, cheapest per GPU first:" in shown.stdout


def test_needs_are_rows_in_line_formats(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "1xT4", "-o", "jsonl")
    assert [json.loads(line)["fits"] for line in shown.lines] == [True]


def test_needs_without_prices_have_no_price_column(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "99xA100", "--no-prices")
    assert "Price" not in shown.stdout


def test_that_nothing_fits_at_all_is_said_in_a_line(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "9999xH100")
    assert shown.code == 4
    assert "No other size here is known to fit instead within access and quota." in shown.lines
    assert "No other size" not in run("recon", "-r", "eastus2", "--need", "1xT4").stdout


def test_the_regional_total_has_one_name(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "8xStandard_ND96asr_v4")
    assert "570 vCPUs of regional total (cores)" in shown.stdout
    assert "  regional total (cores): 768 vCPUs needed" in shown.stdout


# --- commands to copy


LIMIT = "--region eastus2 --family StandardNCadsH100v5Family --limit 80"


@pytest.mark.parametrize(
    ("words", "env", "command"),
    [
        ((), {}, f"  ai4infra --sandbox quota request {LIMIT}"),
        ((), {"AI4INFRA_SANDBOX": "0"}, f"  ai4infra --sandbox quota request {LIMIT}"),
        ((), {"AI4INFRA_SANDBOX": "1"}, f"  ai4infra quota request {LIMIT}"),
        (
            ("--subscription", TRAINING),
            {},
            f"  ai4infra --sandbox quota request --subscription {TRAINING} {LIMIT}",
        ),
        (
            ("--all-subscriptions",),
            {},
            f"  ai4infra --sandbox quota request --subscription {TRAINING} {LIMIT}",
        ),
    ],
)
def test_a_command_goes_on_where_it_is_copied_from(
    run: Any, words: tuple[str, ...], env: dict[str, str], command: str
) -> None:
    assert command in run("recon", "-r", "eastus2", "--gpu", "H100", *words, **env).lines


def test_a_copied_command_runs(run: Any, real: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "8xStandard_ND96asr_v4")
    commands = [line for line in shown.lines if line.startswith("  ai4infra ")]
    assert len(commands) == 2
    for command in commands:
        assert real(*shlex.split(command)[1:], "--register", "--dry-run").code == 0


def test_hints_go_on_in_the_sandbox_too(run: Any) -> None:
    shown = run("quota", "request", "-r", "eastus2", "--family", "qqq", "--limit", "9")
    assert "`ai4infra --sandbox quota list --region eastus2` shows the names." in shown.stderr
    words = ("quota", "request", "-r", "eastus2", "--family", "ND96asr_v4", "--register")
    told = run(*words, "--limit", "330", "--dry-run").stderr
    assert "or run: ai4infra --sandbox quota request --region eastus2 --family cores" in told


def test_documents_have_whole_commands(run: Any) -> None:
    words = ("recon", "-r", "eastus2", "--gpu", "H100", "-o", "json")
    (command, *_) = run(*words).json["summary"]["actions"]
    assert command == f"ai4infra quota request --subscription {TRAINING} {LIMIT}"


def test_several_subscriptions_name_whose_pools_are_meant(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--all-subscriptions", "--no-prices")
    pools = [line.split(":")[0] for line in shown.lines if "of the spot pool" in line]
    assert pools == ["eastus2 (Example Lab)", "eastus2 (Example Training)"]


# --- a service with faults


class Served:
    """A served example world and the environment that leads to it."""

    def __init__(self, sandbox: Sandbox, env: dict[str, str]) -> None:
        self.sandbox = sandbox
        self.env = {**env, "AZURE_SUBSCRIPTION_ID": TRAINING}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with open_sandbox() as sandbox, serve(sandbox, tmp_path) as server:
        yield Served(sandbox, environment(server.url, tmp_path))


def test_recon_asks_a_served_sandbox_over_https(real: Any, served: Served) -> None:
    shown = real("recon", "-r", "eastus2", "-o", "json", **served.env)
    assert (shown.code, shown.stderr) == (0, "")
    assert any(row["pricePerHour"] for row in shown.json["offers"])


def test_a_region_that_fails_is_reported_and_the_rest_is_printed(real: Any, served: Served) -> None:
    served.sandbox.fail("forbidden", "westeurope.*/usages|skus.*westeurope", times=0)
    shown = real("recon", "-r", "eastus2", "-r", "westeurope", **served.env)
    assert shown.code == 5
    assert "Standard_ND96asr_v4" in shown.stdout
    assert "ERROR: (AuthorizationFailed) westeurope: " in shown.stderr


def test_a_need_that_fits_one_region_says_which_other_region_did_not_answer(
    real: Any, served: Served
) -> None:
    served.sandbox.fail("forbidden", "westeurope.*/usages|skus.*westeurope", times=0)
    words = ("-r", "eastus2", "-r", "westeurope", "--need", "1xND96asr_v4", "--only-show-errors")
    shown = real("recon", *words, **served.env)
    assert shown.code == 0
    assert "ERROR: (AuthorizationFailed) westeurope: " in shown.stderr


def test_quota_that_cannot_be_read_is_unknown_and_a_problem(real: Any, served: Served) -> None:
    served.sandbox.fail("forbidden", "/usages", times=0)
    shown = real("recon", "-r", "eastus2", "-o", "json", **served.env)
    assert shown.code == 5
    assert {row["fitVms"] for row in shown.json["offers"]} == {None}
    assert shown.json["problems"][0]["subject"] == "eastus2"


def test_nothing_that_can_be_read_is_a_failure(real: Any, served: Served) -> None:
    served.sandbox.fail("forbidden", "/subscriptions", times=0)
    shown = real("recon", "-r", "eastus2", **served.env)
    assert (shown.code, shown.stdout) == (1, "")
    assert shown.stderr.startswith("ERROR: (AuthorizationFailed) ")


@pytest.mark.slow
def test_a_price_list_that_is_down_costs_the_prices_only(real: Any, served: Served) -> None:
    served.sandbox.fail("internal-error", "/api/retail/prices", times=0)
    shown = real("recon", "-r", "eastus2", "-o", "json", **served.env)
    assert shown.code == 0
    assert {row["pricePerHour"] for row in shown.json["offers"]} == {None}
    assert "WARNING: Prices are unknown" in shown.stderr


# --- cells


def offer(**fields: Any) -> Offer:
    values = dict.fromkeys(Offer.__struct_fields__)
    return Offer(**{**values, "access": "open", **fields})


def test_where_access_allows_nothing_quota_does_not_matter() -> None:
    blocked = offer(access="blocked", fit_vms=8, fit_limit="family")
    assert (_fits(blocked, 8), _limit(blocked)) == ("-", "access")


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("NotAvailableForSubscription: no access", "blocked: no access"),
        ("QuotaId: not entitled; retired on 2025-09-30", "blocked: offer type"),
        ("NewRule; retired on 2025-09-30", "blocked: NewRule"),
        (None, "blocked: ?"),
    ],
)
def test_what_blocks_a_size_is_told_in_its_row(reason: str | None, shown: str) -> None:
    assert _access(offer(access="blocked", access_reason=reason)) == shown


def test_alternatives_without_prices_are_not_called_the_cheapest(run: Any) -> None:
    shown = run("recon", "-r", "eastus2", "--need", "8xNC6s_v3", "--no-prices")
    assert "What fits instead:" in shown.lines


def test_unknown_quota_is_a_question_mark() -> None:
    assert (_fits(offer(), None), _limit(offer())) == ("?", "?")
