"""What a storage account shall be: the body that makes it, and how it differs from that.

One table of properties serves three ends: the body of a new account, the drift of an existing
one (and the PATCH that mends it), and the comparison after the writing, since a policy may have
changed what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import structs

from ai4infra.arm import ENCRYPTED_SERVICES, encryption, id_key, identities, key_parts, same_id
from ai4infra.classification import NETWORK_ORDER, Level, known_level, levels, recorded
from ai4infra.classification import TAG as CLASSIFICATION_TAG
from ai4infra.ids import region_key
from ai4infra.model import (
    BlobServiceSettings,
    NetworkAccess,
    Record,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.storage_checks import DEFAULT_SOFT_DELETE_DAYS, is_premium, parse_sku

DEFAULT_SKU: Final = "Standard_LRS"
MINIMUM_TLS: Final = "TLS1_2"
BYPASS: Final = "AzureServices"
_TLS = re.compile(r"TLS(\d)_(\d)", re.ASCII | re.IGNORECASE)


class Comparison(Record, frozen=True):
    """One property: what is wanted, what there is, and what changes it."""

    name: str
    """ARM's name of the property."""
    wanted: str
    actual: str | None
    """None: the service says nothing."""
    holds: bool | None
    """None: it cannot be told."""
    patch: dict[str, Any] | None = None
    """The part of a PATCH that mends it; None for what is fixed at creation."""

    @property
    def difference(self) -> str:
        """The difference in a few words."""
        return f"{self.name} is {self.actual or 'not said'}, wanted {self.wanted}"


class Target(Record, frozen=True):
    """What was asked for, with everything that was not said filled in."""

    wanted: StorageWanted
    sku: str
    network: NetworkAccess
    network_exact: bool
    """The network was said: more isolation is a difference as well."""
    network_matters: bool
    """Said, or demanded by a level: an existing account is measured by it."""
    infrastructure_encryption: bool
    soft_delete_days: int
    level: Level | None
    tags: dict[str, str]

    @property
    def kind(self) -> str:
        """The account's kind."""
        return "BlockBlobStorage" if is_premium(self.sku) else "StorageV2"


def target_of(wanted: StorageWanted, look: StorageLook) -> Target:
    """Fill in what was not said: from the classification, else the defaults.

    An account's recorded classification counts where no other is given.
    """
    level = _level(wanted, look.account)
    said = _said_network(wanted)
    minimum: NetworkAccess = level.network if level else "open"
    return Target(
        wanted=structs.replace(wanted, network=said),
        sku=parse_sku(wanted.sku) or DEFAULT_SKU,
        network=said or minimum,
        network_exact=said is not None,
        network_matters=said is not None or level is not None,
        infrastructure_encryption=_or(
            wanted.infrastructure_encryption, level.infrastructure_encryption if level else False
        ),
        soft_delete_days=wanted.soft_delete_days
        or max(DEFAULT_SOFT_DELETE_DAYS, level.soft_delete_days if level else 0),
        level=level,
        tags=_tags(wanted),
    )


def _level(wanted: StorageWanted, account: StorageAccount | None) -> Level | None:
    """Return the level that counts: a recorded one is lowered by an update only."""
    said = known_level(wanted.classification)
    found = recorded(account.tags) if account else None
    if said is None or found is None or wanted.update:
        return said or found
    order = list(levels())
    return max(said, found, key=lambda level: order.index(level.name))


def _said_network(wanted: StorageWanted) -> NetworkAccess | None:
    """Return the network that was said; to let somebody in says that others stay out."""
    if wanted.network is None and (wanted.allow_ips or wanted.allow_subnets):
        return "restricted"
    return wanted.network


def _or(said: bool | None, otherwise: bool) -> bool:
    return otherwise if said is None else said


def _tags(wanted: StorageWanted) -> dict[str, str]:
    level = known_level(wanted.classification)
    own = {CLASSIFICATION_TAG: level.name} if level else {}
    others = {k: v for k, v in wanted.tags.items() if k.casefold() not in own}
    return {**others, **own}


def account_body(target: Target) -> dict[str, Any]:
    """Return the body that makes the account; nothing is left to the service's defaults."""
    wanted = target.wanted
    body: dict[str, Any] = {
        "location": region_key(wanted.location),
        "kind": target.kind,
        "sku": {"name": target.sku},
        "tags": target.tags,
        "properties": _properties(target),
    }
    if wanted.key_identity is not None:
        body["identity"] = identities(wanted.key_identity)
    return body


def _properties(target: Target) -> dict[str, Any]:
    wanted = target.wanted
    tier = {} if is_premium(target.sku) else {"accessTier": "Hot"}
    return {
        **tier,
        "isHnsEnabled": wanted.hns,
        "minimumTlsVersion": MINIMUM_TLS,
        "supportsHttpsTrafficOnly": True,
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": False,
        "defaultToOAuthAuthentication": True,
        "allowCrossTenantReplication": False,
        "publicNetworkAccess": public_access(target.network),
        "networkAcls": network_acls(target, None),
        "encryption": {
            **encryption(wanted.key_uri, wanted.key_identity),
            "requireInfrastructureEncryption": target.infrastructure_encryption,
            "services": ENCRYPTED_SERVICES,
        },
    }


def public_access(network: NetworkAccess) -> str:
    """Return ``publicNetworkAccess`` for a network setting."""
    return "Disabled" if network == "private" else "Enabled"


def network_acls(target: Target, existing: dict[str, Any] | None) -> dict[str, Any]:
    """Return ``networkAcls``: what is wanted, and every rule that is there already."""
    found = existing or {}
    wanted = target.wanted
    return {
        **found,
        "bypass": _with_bypass(found.get("bypass")),
        "defaultAction": "Allow" if target.network == "open" else "Deny",
        "ipRules": [*_rules(found, "ipRules"), *_new_ips(wanted.allow_ips, found)],
        "virtualNetworkRules": [
            *_rules(found, "virtualNetworkRules"),
            *_new_subnets(wanted.allow_subnets, found),
        ],
    }


def _rules(acls: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return list(acls.get(name) or [])


def _new_ips(wanted: tuple[str, ...], found: dict[str, Any]) -> list[dict[str, Any]]:
    there = {rule.get("value") for rule in _rules(found, "ipRules")}
    return [{"value": ip, "action": "Allow"} for ip in dict.fromkeys(wanted) if ip not in there]


def _new_subnets(wanted: tuple[str, ...], found: dict[str, Any]) -> list[dict[str, Any]]:
    there = {id_key(rule.get("id")) for rule in _rules(found, "virtualNetworkRules")}
    new = {id_key(subnet): subnet for subnet in wanted if id_key(subnet) not in there}
    return [{"id": subnet, "action": "Allow"} for subnet in new.values()]


def _with_bypass(found: str | None) -> str:
    """Return the bypass with AzureServices in it, and what else it lets through."""
    words = [w.strip() for w in (found or "").split(",")]
    others = [w for w in words if w and w.casefold() not in ("none", BYPASS.casefold())]
    return ", ".join([BYPASS, *others])


def immutable_differences(target: Target, account: StorageAccount) -> list[Comparison]:
    """Return what differs and cannot be changed on an account that is there."""
    return [c for c in fixed_comparisons(target, account) if c.holds is False]


def _fixed(target: Target, account: StorageAccount) -> Iterator[Comparison]:
    wanted = target.wanted
    # The service leaves both out where they are false.
    yield _compare("isHnsEnabled", wanted.hns, bool(account.hns))
    if target.infrastructure_encryption:
        found = bool(account.infrastructure_encryption)
        yield _compare("requireInfrastructureEncryption", True, found)
    yield _kind(target, account)
    if wanted.location_said and account.location is not None:
        yield _compare("location", region_key(wanted.location), region_key(account.location))
    # The redundancy alone may change, but not the tier, nor zones by a plain update:
    # https://learn.microsoft.com/azure/storage/common/redundancy-migration
    said = wanted.sku is not None and account.sku is not None
    if said and _tier(target.sku) != _tier(account.sku or ""):
        yield _compare("sku", target.sku, account.sku)


def _kind(target: Target, account: StorageAccount) -> Comparison:
    either = ("StorageV2", "BlockBlobStorage")
    if target.wanted.sku is None and account.kind in either:
        return _compare("kind", account.kind, account.kind)
    return _compare("kind", target.kind, account.kind)


def _tier(sku: str) -> tuple[bool, bool]:
    return is_premium(sku), "ZRS" in sku.upper()


def comparisons(target: Target, account: StorageAccount) -> list[Comparison]:
    """Compare every property of an account that can be changed."""
    rows = [
        *_security(account),
        *_network(target, account),
        *_key(target, account),
        *_sku(target, account),
        *_tag_comparisons(target, account),
    ]
    return _asked(target, rows)


def fixed_comparisons(target: Target, account: StorageAccount) -> list[Comparison]:
    """Compare every property of an account that is fixed at creation."""
    return _asked(target, _fixed(target, account))


def _asked(target: Target, rows: Iterable[Comparison]) -> list[Comparison]:
    only = target.wanted.only
    return [row for row in rows if only is None or row.name in only]


def _compare(
    name: str, wanted: object, actual: object, patch: dict[str, Any] | None = None
) -> Comparison:
    return Comparison(
        name=name,
        wanted=_shown(wanted),
        actual=None if actual is None else _shown(actual),
        holds=None if actual is None else actual == wanted,
        patch=patch,
    )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _property(name: str, wanted: object, actual: object) -> Comparison:
    return _compare(name, wanted, actual, {"properties": {name: wanted}})


def _security(account: StorageAccount) -> Iterator[Comparison]:
    tls = account.minimum_tls_version
    found = MINIMUM_TLS if is_new_tls(tls) else tls
    yield _property("minimumTlsVersion", MINIMUM_TLS, found)
    yield _property("supportsHttpsTrafficOnly", True, account.https_only)
    yield _property("allowBlobPublicAccess", False, account.allow_blob_public_access)
    # Silence has a documented meaning for these two: keys work, and OAuth is not the default.
    yield _property("allowSharedKeyAccess", False, account.allow_shared_key_access is not False)
    yield _property("defaultToOAuthAuthentication", True, bool(account.default_to_oauth))
    yield _property("allowCrossTenantReplication", False, account.allow_cross_tenant_replication)


def is_new_tls(version: str | None) -> bool | None:
    """Tell whether ``TLS1_2`` and the like is new enough; None for what is no version.

    An account that was made without one takes TLS 1.0.
    """
    if version is None:
        return False
    match = _TLS.fullmatch(version)
    return (int(match[1]), int(match[2])) >= (1, 2) if match else None


def network_of(account: StorageAccount) -> NetworkAccess:
    """Return how isolated an account is; what the service does not say is open."""
    if (account.public_network_access or "Enabled").casefold() != "enabled":
        return "private"
    action = (account.network_acls or {}).get("defaultAction") or "Allow"
    return "restricted" if action.casefold() == "deny" else "open"


def _network(target: Target, account: StorageAccount) -> Iterator[Comparison]:
    acls = account.network_acls or {}
    patch = {"properties": {"networkAcls": network_acls(target, acls)}}
    if target.network_matters:
        yield from _isolation(target, account, patch)
    allowed = (*target.wanted.allow_ips, *target.wanted.allow_subnets)
    if allowed:
        missing = [r["value"] for r in _new_ips(target.wanted.allow_ips, acls)]
        missing += [r["id"] for r in _new_subnets(target.wanted.allow_subnets, acls)]
        yield Comparison(
            name="networkAcls rules",
            wanted=", ".join(allowed),
            actual=f"without {', '.join(missing)}" if missing else "with all of them",
            holds=not missing,
            patch=patch,
        )


def _isolation(
    target: Target, account: StorageAccount, patch: dict[str, Any]
) -> Iterator[Comparison]:
    """Compare who is let in; more isolation than a level demands is no difference."""
    acls = account.network_acls or {}
    found = NETWORK_ORDER.index(network_of(account))
    enough = not target.network_exact and found >= NETWORK_ORDER.index(target.network)
    rows = [
        _property(
            "publicNetworkAccess",
            public_access(target.network),
            account.public_network_access or "Enabled",
        ),
        # Policies look at the default action whatever else is closed.
        _compare(
            "networkAcls.defaultAction",
            "Allow" if target.network == "open" else "Deny",
            acls.get("defaultAction") or "Allow",
            patch,
        ),
    ]
    if target.network != "open":
        rows.append(_bypass(acls, patch))
    for row in rows:
        yield structs.replace(row, holds=True) if enough else row


def _bypass(acls: dict[str, Any], patch: dict[str, Any]) -> Comparison:
    found = acls.get("bypass") or BYPASS
    return Comparison(
        name="networkAcls.bypass",
        wanted=BYPASS,
        actual=found,
        holds=BYPASS in [word.strip() for word in found.split(",")],
        patch=patch,
    )


def _key(target: Target, account: StorageAccount) -> Iterator[Comparison]:
    wanted = target.wanted
    if wanted.key_uri is None:
        return
    holds = same_key(wanted.key_uri, account.key_uri) and same_id(
        wanted.key_identity, account.key_identity
    )
    yield Comparison(
        name="encryption.keyvaultproperties",
        wanted=wanted.key_uri,
        actual=account.key_uri or account.key_source,
        holds=holds,
        patch=_key_patch(target, account),
    )


def _key_patch(target: Target, account: StorageAccount) -> dict[str, Any]:
    wanted = target.wanted
    identity = identities(*dict.fromkeys((*account.user_identities, wanted.key_identity or "")))
    if "systemassigned" in (account.identity_type or "").casefold():
        identity["type"] = "SystemAssigned,UserAssigned"
    return {
        "identity": identity,
        "properties": {"encryption": encryption(wanted.key_uri, wanted.key_identity)},
    }


def same_key(one: str, other: str | None) -> bool:
    """Tell whether two URIs name the same key and version."""
    if other is None:
        return False
    return _key_shape(one) == _key_shape(other)


def _key_shape(uri: str) -> tuple[str, ...]:
    return tuple(part.casefold() for part in key_parts(uri))


def _sku(target: Target, account: StorageAccount) -> Iterator[Comparison]:
    if target.wanted.sku is not None:
        yield _compare("sku", target.sku, account.sku, {"sku": {"name": target.sku}})


def _tag_comparisons(target: Target, account: StorageAccount) -> Iterator[Comparison]:
    there = {k.casefold(): v for k, v in account.tags.items()}
    for name, value in target.tags.items():
        found = there.get(name.casefold())
        yield Comparison(
            name=f"tag {name}",
            wanted=value,
            actual=found,
            holds=found == value,
            patch={"tags": merged_tags(account.tags, target.tags)},
        )


def merged_tags(existing: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    """Return all tags: names that are there keep their spelling, foreign tags their value."""
    spelling = {name.casefold(): name for name in existing}
    return {**existing, **{spelling.get(k.casefold(), k): v for k, v in wanted.items()}}


def patch_of(differences: list[Comparison]) -> dict[str, Any]:
    """Return the one PATCH that mends all the differences, and names nothing else."""
    body: dict[str, Any] = {}
    for difference in differences:
        body = _deep(body, difference.patch or {})
    return body


def _deep(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for name, value in other.items():
        nested = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _deep(merged[name], value) if nested else value
    return merged


def blob_comparisons(target: Target, found: BlobServiceSettings) -> list[Comparison]:
    """Compare the settings of the blob service; more days than wanted are no difference."""
    wanted = target.wanted
    days = target.soft_delete_days
    rows = [
        _at_least("deleteRetentionPolicy", days, found.blob_soft_delete_days),
        _at_least("containerDeleteRetentionPolicy", days, found.container_soft_delete_days),
    ]
    if wanted.versioning:
        rows.append(_property("isVersioningEnabled", True, found.versioning))
    if wanted.change_feed:
        patch = {"properties": {"changeFeed": {"enabled": True}}}
        rows.append(_compare("changeFeed", True, found.change_feed, patch))
    if wanted.restore_days is not None:
        rows.append(_at_least("restorePolicy", wanted.restore_days, found.restore_days))
    return _asked(target, rows)


def _at_least(name: str, wanted_days: int, found: int | None) -> Comparison:
    return Comparison(
        name=name,
        wanted=f"{wanted_days} days",
        actual=None if found is None else f"{found} days" if found else "off",
        holds=None if found is None else found >= wanted_days,
        patch={"properties": {name: {"enabled": True, "days": wanted_days}}},
    )


def blob_service_body(target: Target) -> dict[str, Any]:
    """Return the settings of a new account's blob service."""
    return patch_of(blob_comparisons(target, BlobServiceSettings()))
