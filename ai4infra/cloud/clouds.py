"""The Azure clouds: one table of endpoints, and the custom ones that ``az`` knows."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ai4infra.errors import UsageError
from ai4infra.ids import unknown_name
from ai4infra.model import Record


class Cloud(Record, frozen=True):
    """Where one Azure cloud answers. Endpoints carry no trailing slash."""

    name: str
    """As ``az cloud list`` spells it."""
    arm: str
    """Resource Manager endpoint."""
    scope: str | None
    """Token scope of Resource Manager; None means that the endpoint itself has to be asked."""
    authority: str | None
    """Sign-in host; None means that of public Azure."""
    storage_suffix: str | None
    """``core.windows.net``; see ``blob_suffix`` and ``dfs_suffix``."""
    prices: str | None
    """Retail price endpoint; None means that list prices are unknown here."""

    @property
    def blob_suffix(self) -> str | None:
        """Suffix of blob endpoints (``blob.core.windows.net``), None when unknown."""
        return f"blob.{self.storage_suffix}" if self.storage_suffix else None

    @property
    def dfs_suffix(self) -> str | None:
        """Suffix of Data Lake endpoints (``dfs.core.windows.net``), None when unknown."""
        return f"dfs.{self.storage_suffix}" if self.storage_suffix else None

    @property
    def host(self) -> str:
        """Host of the Resource Manager endpoint, with its port where it has one."""
        return urlsplit(self.arm).netloc.lower()


PUBLIC = Cloud(
    name="AzureCloud",
    arm="https://management.azure.com",
    scope="https://management.azure.com/.default",
    authority="https://login.microsoftonline.com",
    storage_suffix="core.windows.net",
    prices="https://prices.azure.com",
)
US_GOVERNMENT = Cloud(
    name="AzureUSGovernment",
    arm="https://management.usgovcloudapi.net",
    scope="https://management.core.usgovcloudapi.net/.default",
    authority="https://login.microsoftonline.us",
    storage_suffix="core.usgovcloudapi.net",
    prices="https://prices.azure.com",
)
CHINA = Cloud(
    name="AzureChinaCloud",
    arm="https://management.chinacloudapi.cn",
    scope="https://management.chinacloudapi.cn/.default",
    authority="https://login.chinacloudapi.cn",
    storage_suffix="core.chinacloudapi.cn",
    # prices.azure.cn hands out one CSV file instead of answering queries.
    prices=None,
)
CLOUDS: tuple[Cloud, ...] = (PUBLIC, US_GOVERNMENT, CHINA)


def find(
    name: str | None = None,
    *,
    arm_endpoint: str | None = None,
    prices_endpoint: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Cloud:
    """Return the cloud to talk to.

    The name is looked up in the table and then among the clouds registered with ``az``; without
    a name it is the current cloud of ``az``, or public Azure. An ARM endpoint that is not in the
    table makes a custom cloud. ``AZURE_AUTHORITY_HOST`` replaces the sign-in host. Raises
    UsageError for an unknown name and for an endpoint that is not https.
    """
    env = env or {}
    cloud = _by_endpoint(arm_endpoint) if arm_endpoint else _by_name(name, azure_dir(env))
    host = env.get("AZURE_AUTHORITY_HOST")
    return Cloud(
        name=cloud.name,
        arm=cloud.arm,
        scope=cloud.scope,
        authority=_https(host if "//" in host else f"https://{host}") if host else cloud.authority,
        storage_suffix=cloud.storage_suffix,
        prices=_https(prices_endpoint) if prices_endpoint else cloud.prices,
    )


def azure_dir(env: Mapping[str, str]) -> Path:
    """Return the folder in which ``az`` keeps its settings (``AZURE_CONFIG_DIR``)."""
    return Path(env.get("AZURE_CONFIG_DIR") or Path(env.get("HOME") or "~", ".azure").expanduser())


def scope_of(audience: str) -> str:
    """Return the token scope of an audience: ``https://x/`` is ``https://x//.default``.

    The doubled slash is meant: the part before ``/.default`` is the audience to the letter.
    """
    return f"{audience}/.default"


def _https(url: str) -> str:
    if not _is_https(url.strip()):
        raise UsageError(
            f"The endpoint {url!r} is not an https address.",
            hint="Tokens are only ever sent over https, for example https://management.azure.com.",
        )
    return url.strip().rstrip("/")


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that cannot be
        return False


def _by_endpoint(endpoint: str) -> Cloud:
    arm = _https(endpoint)
    known = next((cloud for cloud in CLOUDS if cloud.arm == arm.lower()), None)
    return known or Cloud(
        name="custom", arm=arm, scope=None, authority=None, storage_suffix=None, prices=None
    )


def _by_name(name: str | None, folder: Path) -> Cloud:
    wanted = name or _current(folder)
    if not wanted:
        return PUBLIC
    registered = _registered(folder)
    known = {cloud.name.lower(): cloud for cloud in (*registered, *CLOUDS)}
    if wanted.lower() not in known:
        names = [cloud.name for cloud in known.values()]
        raise unknown_name("cloud", wanted, names, listing=f"Known: {', '.join(sorted(names))}.")
    return known[wanted.lower()]


def _read(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise UsageError(
            f"The settings of az in {path} cannot be read.",
            hint="Repair the file, or name the cloud with --cloud.",
            detail=str(error),
        ) from error
    return parser


def _current(folder: Path) -> str | None:
    return _read(folder / "config").get("cloud", "name", fallback=None)


def _registered(folder: Path) -> list[Cloud]:
    parser = _read(folder / "clouds.config")
    known = {cloud.name for cloud in CLOUDS}
    return [
        _from_section(name, parser[name])
        for name in parser.sections()
        if name not in known and "endpoint_resource_manager" in parser[name]
    ]


def _from_section(name: str, section: Mapping[str, str]) -> Cloud:
    audience = section.get("endpoint_active_directory_resource_id")
    authority = section.get("endpoint_active_directory")
    return Cloud(
        name=name,
        arm=_https(section["endpoint_resource_manager"]),
        scope=scope_of(audience) if audience else None,
        authority=_https(authority) if authority else None,
        storage_suffix=section.get("suffix_storage_endpoint"),
        prices=None,
    )
