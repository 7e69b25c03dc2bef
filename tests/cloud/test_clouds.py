from __future__ import annotations

from pathlib import Path

import pytest

from ai4infra.cloud.clouds import CHINA, CLOUDS, PUBLIC, US_GOVERNMENT, Cloud, find
from ai4infra.errors import UsageError

STACK = """
[AzureCloud]
subscription = x
[Stack]
endpoint_resource_manager = https://management.local.stack:8443/
endpoint_active_directory = https://adfs.local.stack/adfs
endpoint_active_directory_resource_id = https://management.stack/guid
suffix_storage_endpoint = local.stack
[NoEndpoint]
profile = latest
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "clouds.config").write_text(STACK)
    return {"AZURE_CONFIG_DIR": str(tmp_path)}


def current(env: dict[str, str], name: str) -> None:
    Path(env["AZURE_CONFIG_DIR"], "config").write_text(f"[cloud]\nname = {name}\n")


def test_without_a_word_it_is_public_azure(tmp_path: Path) -> None:
    assert find(env={"AZURE_CONFIG_DIR": str(tmp_path / "missing")}) == PUBLIC


@pytest.mark.parametrize("cloud", CLOUDS)
def test_each_cloud_is_found_by_name_in_any_case(cloud: Cloud, env: dict[str, str]) -> None:
    assert find(cloud.name.upper(), env=env) == cloud


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_cloud_is_asked_over_https_without_a_trailing_slash(cloud: Cloud) -> None:
    for url in (cloud.arm, cloud.authority, cloud.prices):
        assert url is None or (url.startswith("https://") and not url.endswith("/"))


def test_the_table_agrees_with_the_sdk() -> None:
    from azure.core import AzureClouds
    from azure.mgmt.core.tools import get_arm_endpoints

    for cloud, setting in (
        (PUBLIC, AzureClouds.AZURE_PUBLIC_CLOUD),
        (US_GOVERNMENT, AzureClouds.AZURE_US_GOVERNMENT),
        (CHINA, AzureClouds.AZURE_CHINA_CLOUD),
    ):
        told = get_arm_endpoints(setting)
        assert told["resource_manager"] == f"{cloud.arm}/"
        assert told["credential_scopes"] == [cloud.scope]


def test_storage_suffixes_follow_the_cloud() -> None:
    assert US_GOVERNMENT.blob_suffix == "blob.core.usgovcloudapi.net"
    assert CHINA.dfs_suffix == "dfs.core.chinacloudapi.cn"
    assert find(arm_endpoint="https://arm.local").blob_suffix is None


def test_the_current_cloud_of_az_counts(env: dict[str, str]) -> None:
    current(env, "AzureUSGovernment")
    assert find(env=env) == US_GOVERNMENT


def test_a_named_cloud_beats_the_current_one(env: dict[str, str]) -> None:
    current(env, "AzureUSGovernment")
    assert find("AzureCloud", env=env) == PUBLIC


def test_a_cloud_registered_with_az_is_known(env: dict[str, str]) -> None:
    current(env, "stack")
    assert find(env=env) == Cloud(
        name="Stack",
        arm="https://management.local.stack:8443",
        scope="https://management.stack/guid/.default",
        authority="https://adfs.local.stack/adfs",
        storage_suffix="local.stack",
        prices=None,
    )


@pytest.mark.parametrize("name", ["AzureClod", "NoEndpoint"])
def test_an_unknown_cloud_tells_the_known_ones(name: str, env: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        find(name, env=env)
    assert "AzureCloud" in str(caught.value.hint)


def test_an_endpoint_of_the_table_is_that_cloud() -> None:
    assert find(arm_endpoint="https://management.usgovcloudapi.net/") == US_GOVERNMENT


def test_another_endpoint_is_a_custom_cloud_whose_audience_is_not_known_yet() -> None:
    cloud = find(arm_endpoint="https://127.0.0.1:8443/", prices_endpoint="https://prices.local/")
    assert (cloud.arm, cloud.host, cloud.scope) == (
        "https://127.0.0.1:8443",
        "127.0.0.1:8443",
        None,
    )
    assert cloud.prices == "https://prices.local"


@pytest.mark.parametrize(
    "url",
    [
        *("http://arm.local", "arm.local", "https://", "ftp://x", "HTTP://x"),
        *("https://[::1", "https://arm.local:99999", "https://arm.local:x", "https://:8443"),
    ],
)
def test_an_endpoint_that_is_not_https_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="is not an https address"):
        find(arm_endpoint=url)


@pytest.mark.parametrize("value", ["login.local", "https://login.local/"])
def test_the_sign_in_host_can_be_replaced(value: str, tmp_path: Path) -> None:
    env = {"AZURE_AUTHORITY_HOST": value, "AZURE_CONFIG_DIR": str(tmp_path)}
    assert find(env=env).authority == "https://login.local"


def test_settings_of_az_that_cannot_be_read_are_named(env: dict[str, str]) -> None:
    Path(env["AZURE_CONFIG_DIR"], "config").write_text("no section\n")
    with pytest.raises(UsageError, match="config cannot be read"):
        find(env=env)
