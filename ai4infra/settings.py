"""Settings from options, environment, config file and az profile, in this order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from ai4infra.errors import UsageError
from ai4infra.ids import close_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OUTPUTS = ("table", "json", "jsonl", "csv", "tsv", "yaml")
AUTHS = ("env", "workload", "msi", "cli")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run goes by; None means that nobody said anything."""

    subscription: str | None = None
    """Name or id."""
    location: str | None = None
    group: str | None = None
    output: str | None = None
    cloud: str | None = None
    auth: str | None = None
    client_id: str | None = None
    tenant: str | None = None
    arm_endpoint: str | None = None
    prices_endpoint: str | None = None
    cache_dir: str | None = None
    sources: dict[str, str] = {}
    """Key to where its value comes from, in words: ``--subscription``, ``AZURE_DEFAULTS_GROUP``."""
    az_tenant: str | None = None
    """Tenant of the subscription in the az profile, where az may be asked for that tenant."""

    def source(self, key: str) -> str | None:
        """Return where the value of a key comes from, None when there is no value."""
        return self.sources.get(key)


KEYS: tuple[str, ...] = tuple(
    name for name in Settings.__struct_fields__ if name not in ("sources", "az_tenant")
)
_CHOICES = {"output": OUTPUTS, "auth": AUTHS}
_AZURE_ENV = {
    "subscription": "AZURE_SUBSCRIPTION_ID",
    "group": "AZURE_DEFAULTS_GROUP",
    "location": "AZURE_DEFAULTS_LOCATION",
}


def wants_sandbox(env: Mapping[str, str]) -> bool:
    """Tell whether the environment chooses the example world."""
    said = env.get("AI4INFRA_SANDBOX", "").strip().casefold()
    return said not in ("", "0", "false", "no", "off")


class AzAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription in the az profile."""

    id: str
    name: str
    tenant_id: str | None = None
    is_default: bool = False
    by_user: bool = False
    """True when a person is signed in, not a service principal or managed identity."""


def resolve(
    options: Mapping[str, str | None],
    env: Mapping[str, str],
    *,
    config_file: Path | None = None,
    az_profile: Path | None = None,
) -> Settings:
    """Return the settings of a run.

    Options come first, then ``AI4INFRA_*``, then Azure's own variables, then the config file,
    then the default subscription of the az profile. The files are ``config_path(env)`` and
    ``az_profile_path(env)`` unless given; a missing one is empty. Raises UsageError for a broken
    config file, an unknown key in it, and a value that is not among those allowed.
    """
    accounts = read_az_profile(az_profile or az_profile_path(env))
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for key, value, source in _candidates(options, env, config_file or config_path(env), accounts):
        if key not in values:
            values[key], sources[key] = _allowed(key, value, source), source
    return Settings(
        **values, sources=sources, az_tenant=_az_tenant(values.get("subscription"), accounts)
    )


def config_path(env: Mapping[str, str]) -> Path:
    """Return ``AI4INFRA_CONFIG``, or ``config.toml`` in the user's config folder."""
    given = env.get("AI4INFRA_CONFIG")
    return Path(given) if given else Path(platformdirs.user_config_dir("ai4infra"), "config.toml")


def az_profile_path(env: Mapping[str, str]) -> Path:
    """Return the file in which ``az`` keeps its subscriptions (``AZURE_CONFIG_DIR``)."""
    folder = env.get("AZURE_CONFIG_DIR")
    return Path(folder or Path(env.get("HOME") or Path.home(), ".azure"), "azureProfile.json")


def _candidates(
    options: Mapping[str, str | None],
    env: Mapping[str, str],
    config_file: Path,
    accounts: tuple[AzAccount, ...],
) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and source, strongest first; empty values say nothing."""
    for key in KEYS:
        if value := options.get(key):
            yield key, value, f"--{key.replace('_', '-')}"
    for key in KEYS:
        if value := env.get(name := f"AI4INFRA_{key.upper()}"):
            yield key, value, name
    for key, name in _AZURE_ENV.items():
        if value := env.get(name):
            yield key, value, name
    for key, value in read_config(config_file).items():
        yield key, value, str(config_file)
    for account in accounts:
        if account.is_default:
            yield "subscription", account.id, "the default subscription of az"


def _allowed(key: str, value: str, source: str) -> str:
    choices = _CHOICES.get(key)
    if choices and value.casefold() not in choices:
        close = close_names(value, choices)
        raise UsageError(
            f"{source}: {value!r} is not allowed for {key}.",
            hint=f"Did you mean {close[0]}?" if close else f"Use one of {', '.join(choices)}.",
        )
    return value.casefold() if choices else value


def read_config(path: Path) -> dict[str, str]:
    """Return the keys of a config file; a file that doesn't exist has none.

    Raises UsageError naming the file, and the key, for anything that cannot be understood.
    """
    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            f"The config file {path} cannot be read: {error}.".replace("..", "."),
            hint="Repair the file, or point AI4INFRA_CONFIG at another one.",
        ) from error
    return {_key(key, path): _text(key, value, path) for key, value in found.items()}


def _key(key: str, path: Path) -> str:
    plain = key.replace("-", "_")
    if plain in KEYS:
        return plain
    close = close_names(plain, KEYS)
    raise UsageError(
        f"The config file {path} has an unknown key {key!r}.",
        hint=f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(KEYS)}.",
    )


def _text(key: str, value: object, path: Path) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(
        f"The config file {path} has no text in {key!r}.", hint=f'Write {key} = "…" in quotes.'
    )


def read_az_profile(path: Path) -> tuple[AzAccount, ...]:
    """Return the subscriptions of the az profile; none when the file is missing or broken.

    The file is az's, not ours: az itself complains about a broken one.
    """
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return ()
    listed = found.get("subscriptions") if isinstance(found, dict) else None
    rows = listed if isinstance(listed, list) else []
    return tuple(_account(row) for row in rows if isinstance(row, dict) and row.get("id"))


def _account(row: dict[str, Any]) -> AzAccount:
    given = row.get("user")
    user: dict[str, Any] = given if isinstance(given, dict) else {}
    return AzAccount(
        id=str(row["id"]).lower(),
        name=str(row.get("name") or row["id"]),
        tenant_id=str(row["tenantId"]) if row.get("tenantId") else None,
        is_default=row.get("isDefault") is True,
        by_user=user.get("type") == "user" and not user.get("cloudShellID"),
    )


def _az_tenant(subscription: str | None, accounts: tuple[AzAccount, ...]) -> str | None:
    """Return the subscription's tenant; az takes a tenant only from a person's sign-in."""
    key = (subscription or "").casefold()
    found = {
        account.tenant_id
        for account in accounts
        if key in (account.id, account.name.casefold()) and account.by_user
    }
    return found.pop() if len(found) == 1 else None
