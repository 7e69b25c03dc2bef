from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.settings import (
    KEYS,
    Settings,
    az_profile_path,
    config_path,
    read_az_profile,
    read_config,
    resolve,
)

DEFAULT = "7a1d3c52-90d4-4f7e-8f0e-5d7d6b1c2a34"
OTHER = "11111111-2222-3333-4444-555555555555"


def account(id_: str = DEFAULT, name: str = "Research", **fields: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "tenantId": f"tenant-of-{name}",
        "isDefault": False,
        "user": {"name": "a@b", "type": "user"},
        **fields,
    }


def write_profile(folder: Path, *accounts: dict[str, Any]) -> Path:
    file = folder / "azureProfile.json"
    file.write_text(json.dumps({"subscriptions": accounts}), encoding="utf-8-sig")
    return file


def settled(
    tmp_path: Path,
    options: dict[str, str | None] | None = None,
    env: dict[str, str] | None = None,
    config: str = "",
    accounts: tuple[dict[str, Any], ...] = (),
) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(config)
    profile = write_profile(tmp_path, *accounts)
    return resolve(options or {}, env or {}, config_file=file, az_profile=profile)


def test_nothing_said_is_nothing_known(tmp_path: Path) -> None:
    assert settled(tmp_path) == Settings()


def test_the_subscription_comes_from_the_strongest_source(tmp_path: Path) -> None:
    options = {"subscription": "by-option"}
    env = {"AI4INFRA_SUBSCRIPTION": "by-own", "AZURE_SUBSCRIPTION_ID": "by-azure"}
    config = 'subscription = "by-file"'
    accounts = (account(isDefault=True),)
    said = settled(tmp_path, options, env, config, accounts)
    assert (said.subscription, said.source("subscription")) == ("by-option", "--subscription")
    said = settled(tmp_path, {"subscription": None}, env, config, accounts)
    assert (said.subscription, said.source("subscription")) == ("by-own", "AI4INFRA_SUBSCRIPTION")
    del env["AI4INFRA_SUBSCRIPTION"]
    said = settled(tmp_path, {}, env, config, accounts)
    assert (said.subscription, said.source("subscription")) == ("by-azure", "AZURE_SUBSCRIPTION_ID")
    said = settled(tmp_path, {}, {}, config, accounts)
    assert said.subscription == "by-file"
    assert str(said.source("subscription")).endswith("config.toml")
    said = settled(tmp_path, accounts=accounts)
    assert (said.subscription, said.source("subscription")) == (
        DEFAULT,
        "the default subscription of az",
    )


def test_azures_own_variables_give_group_and_location(tmp_path: Path) -> None:
    env = {"AZURE_DEFAULTS_GROUP": "g", "AZURE_DEFAULTS_LOCATION": "eastus2"}
    said = settled(tmp_path, env=env)
    assert (said.group, said.location) == ("g", "eastus2")


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("output", "auth")])
def test_every_key_has_an_option_a_variable_and_a_place_in_the_file(
    tmp_path: Path, key: str
) -> None:
    assert getattr(settled(tmp_path, {key: "x"}), key) == "x"
    assert getattr(settled(tmp_path, env={f"AI4INFRA_{key.upper()}": "x"}), key) == "x"
    assert getattr(settled(tmp_path, config=f'{key.replace("_", "-")} = "x"'), key) == "x"


def test_an_empty_value_says_nothing(tmp_path: Path) -> None:
    said = settled(tmp_path, {"location": ""}, {"AI4INFRA_LOCATION": ""}, 'location = "westus3"')
    assert said.location == "westus3"


def test_choices_count_in_any_case(tmp_path: Path) -> None:
    assert settled(tmp_path, env={"AI4INFRA_OUTPUT": "JSON"}).output == "json"


@pytest.mark.parametrize(
    ("key", "value", "hint"), [("output", "jsn", "json"), ("auth", "magic", "env, workload")]
)
def test_a_value_that_is_not_allowed_names_its_source_and_a_close_one(
    tmp_path: Path, key: str, value: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=f"AI4INFRA_{key.upper()}") as caught:
        settled(tmp_path, env={f"AI4INFRA_{key.upper()}": value})
    assert hint in str(caught.value.hint)


def test_a_weaker_source_is_not_checked_where_a_stronger_one_speaks(tmp_path: Path) -> None:
    said = settled(tmp_path, {"output": "csv"}, {"AI4INFRA_OUTPUT": "nonsense"})
    assert said.output == "csv"


def test_a_broken_config_file_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.toml cannot be read.*line 2"):
        settled(tmp_path, config='group = "g"\nlocation = eastus\n')


def test_an_unknown_key_in_the_config_file_tells_a_close_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown key 'subscripton'") as caught:
        settled(tmp_path, config='subscripton = "x"')
    assert caught.value.hint == "Did you mean subscription?"


def test_a_value_that_is_no_text_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'location'"):
        settled(tmp_path, config="location = 5")


def test_a_config_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b'group = "\xff"')
    with pytest.raises(UsageError, match=r"config\.toml"):
        read_config(file)


def test_a_missing_config_file_is_empty_and_a_directory_is_an_error(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml") == {}
    with pytest.raises(UsageError):
        read_config(tmp_path)


def test_files_are_where_the_environment_says() -> None:
    env = {"AI4INFRA_CONFIG": "/etc/a.toml", "AZURE_CONFIG_DIR": "/az"}
    assert config_path(env) == Path("/etc/a.toml")
    assert az_profile_path(env) == Path("/az/azureProfile.json")
    assert config_path({}).parts[-2:] == ("ai4infra", "config.toml")
    assert az_profile_path({"HOME": "/home/a"}) == Path("/home/a/.azure/azureProfile.json")


def test_the_files_are_found_without_being_named(tmp_path: Path) -> None:
    write_profile(tmp_path, account(isDefault=True))
    (tmp_path / "own.toml").write_text('group = "g"')
    env = {"AZURE_CONFIG_DIR": str(tmp_path), "AI4INFRA_CONFIG": str(tmp_path / "own.toml")}
    said = resolve({}, env)
    assert (said.subscription, said.group) == (DEFAULT, "g")


@pytest.mark.parametrize("named", [DEFAULT, DEFAULT.upper(), "research"])
def test_the_tenant_of_the_chosen_subscription_is_known(tmp_path: Path, named: str) -> None:
    accounts = (account(), account(OTHER, "Other", isDefault=True))
    assert settled(tmp_path, {"subscription": named}, accounts=accounts).az_tenant == (
        "tenant-of-Research"
    )


@pytest.mark.parametrize(
    "user",
    [
        {"type": "servicePrincipal"},
        {"type": "user", "cloudShellID": True},
        None,
        "odd",
    ],
)
def test_az_is_not_asked_for_a_tenant_where_it_takes_none(tmp_path: Path, user: object) -> None:
    said = settled(tmp_path, accounts=(account(isDefault=True, user=user),))
    assert (said.subscription, said.az_tenant) == (DEFAULT, None)


def test_no_tenant_is_guessed_for_a_name_in_two_tenants(tmp_path: Path) -> None:
    accounts = (account(), account(OTHER, "Research", tenantId="another"))
    assert settled(tmp_path, {"subscription": "Research"}, accounts=accounts).az_tenant is None


@settings(deadline=None)
@given(
    st.binary(max_size=30)
    | st.sampled_from([b"[]", b"{}", b'{"subscriptions": 5}', b'{"subscriptions": [5, {}]}'])
)
def test_any_profile_that_cannot_be_read_is_empty(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    file = tmp_path_factory.mktemp("az") / "azureProfile.json"
    file.write_bytes(body)
    assert read_az_profile(file) == ()
