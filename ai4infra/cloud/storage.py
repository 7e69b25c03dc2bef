"""Storage accounts as Resource Manager tells of them; no key is ever listed.

https://learn.microsoft.com/rest/api/storagerp/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from ai4infra.arm import ACCOUNT, API_VERSIONS, group_of, id_key, same_id
from ai4infra.cloud.rows import decode_rows, whole_rows
from ai4infra.cloud.session import Session
from ai4infra.cloud.translate import incomplete
from ai4infra.errors import Ai4infraError, NotFoundError, UsageError
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    LifecycleRule,
    NameCheck,
    Record,
    StorageAccount,
)
from ai4infra.storage_names import account_scope, group_scope, subscription_scope

API_VERSION = API_VERSIONS[ACCOUNT]
NAMESPACE = "Microsoft.Storage"
T = TypeVar("T")


class AccountView(Record, frozen=True):
    """An account, and the state of each private endpoint that is connected to it, by its id."""

    account: StorageAccount
    endpoints: dict[str, str | None]


class _Sku(msgspec.Struct):
    name: str | None = None


class _Identity(msgspec.Struct, rename="camel"):
    type: str | None = None
    user_assigned_identities: dict[str, Any] | None = None


class _Key(msgspec.Struct):
    keyname: str | None = None
    keyvaulturi: str | None = None
    keyversion: str | None = None


class _KeyIdentity(msgspec.Struct, rename="camel"):
    user_assigned_identity: str | None = None


class _Encryption(
    msgspec.Struct,
    rename={"key_source": "keySource", "infrastructure": "requireInfrastructureEncryption"},
):
    key_source: str | None = None
    keyvaultproperties: _Key | None = None
    identity: _KeyIdentity | None = None
    infrastructure: bool | None = None


class _Reference(msgspec.Struct):
    id: str | None = None


class _LinkState(msgspec.Struct):
    status: str | None = None


class _Connection(msgspec.Struct, rename="camel"):
    private_endpoint: _Reference | None = None
    private_link_service_connection_state: _LinkState | None = None


class _ConnectionRow(msgspec.Struct):
    properties: _Connection | None = None


class _IpRule(msgspec.Struct):
    value: str | None = None


class _Acls(msgspec.Struct, rename="camel"):
    """What is looked at of the network rules; they are kept as they come."""

    default_action: str | None = None
    bypass: str | None = None
    ip_rules: list[_IpRule] | None = None
    virtual_network_rules: list[_Reference] | None = None


class _Properties(msgspec.Struct, rename="camel"):
    provisioning_state: str | None = None
    primary_endpoints: dict[str, Any] | None = None
    is_hns_enabled: bool | None = None
    minimum_tls_version: str | None = None
    supports_https_traffic_only: bool | None = None
    allow_blob_public_access: bool | None = None
    allow_shared_key_access: bool | None = None
    default_to_o_auth_authentication: bool | None = None
    allow_cross_tenant_replication: bool | None = None
    public_network_access: str | None = None
    network_acls: dict[str, Any] | None = None
    encryption: _Encryption | None = None
    access_tier: str | None = None
    is_sftp_enabled: bool | None = None
    is_local_user_enabled: bool | None = None
    private_endpoint_connections: list[_ConnectionRow] | None = None


class _Account(msgspec.Struct):
    id: str
    name: str
    location: str | None = None
    kind: str | None = None
    sku: _Sku | None = None
    tags: dict[str, str | None] | None = None
    identity: _Identity | None = None
    properties: _Properties | None = None


class _Retention(msgspec.Struct):
    enabled: bool | None = None
    days: int | None = None


class _BlobProperties(msgspec.Struct, rename="camel"):
    delete_retention_policy: _Retention | None = None
    container_delete_retention_policy: _Retention | None = None
    is_versioning_enabled: bool | None = None
    change_feed: _Retention | None = None
    restore_policy: _Retention | None = None


class _BlobService(msgspec.Struct):
    properties: dict[str, Any] | None = None


class _ContainerProperties(msgspec.Struct, rename="camel"):
    public_access: str | None = None


class _Container(msgspec.Struct):
    id: str
    name: str
    properties: _ContainerProperties | None = None


class _Filters(msgspec.Struct, rename="camel"):
    prefix_match: list[str] | None = None
    blob_types: list[str] | None = None
    blob_index_match: list[Any] | None = None


class _Definition(msgspec.Struct):
    filters: _Filters | None = None
    actions: Any = None


class _Rule(msgspec.Struct):
    """What is looked at of a rule; it is kept as it comes."""

    name: str
    enabled: bool | None = None
    definition: _Definition | None = None


class _Policy(msgspec.Struct):
    rules: list[dict[str, Any]] = []


class _PolicyProperties(msgspec.Struct):
    policy: _Policy | None = None


class _ManagementPolicy(msgspec.Struct):
    properties: _PolicyProperties | None = None


class _NameAnswer(msgspec.Struct, rename="camel"):
    name_available: bool
    reason: str | None = None
    message: str | None = None


def account(session: Session, subscription_id: str, group: str, name: str) -> AccountView:
    """Return one account.

    Raises NotFoundError: its code tells ``ResourceGroupNotFound`` from ``ResourceNotFound``.
    """
    path = account_scope(subscription_id, group, name)
    what = f"Cannot read the storage account {name}"
    return _view(session.get_json(path, API_VERSION, _Account, what=what))


def accounts(
    session: Session, subscription_id: str, group: str | None = None
) -> tuple[StorageAccount, ...]:
    """Return all accounts of a subscription, or of one of its groups, by name."""
    scope = group_scope(subscription_id, group) if group else subscription_scope(subscription_id)
    what = f"Cannot list the storage accounts of {group or subscription_id}"
    pages = session.pages(f"{scope}/providers/{ACCOUNT}", API_VERSION, what=what)
    rows = whole_rows(pages, _Account, what)
    return tuple(sorted((_view(row).account for row in rows), key=lambda each: each.name))


def read_account(body: dict[str, Any]) -> AccountView:
    """Return the account in an answer to a write; ServiceError for an answer that is none."""
    return _view(_converted(body, _Account, "Cannot read the storage account"))


def _converted(body: dict[str, Any], type_: type[T], what: str) -> T:
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        raise incomplete(what, str(error)) from error


def _view(row: _Account) -> AccountView:
    p = row.properties or _Properties()
    if p.network_acls is not None:
        _converted(p.network_acls, _Acls, f"Cannot read the network rules of {row.name}")
    encryption = p.encryption or _Encryption()
    identity = row.identity or _Identity()
    found = StorageAccount(
        id=row.id,
        name=row.name,
        location=row.location,
        kind=row.kind,
        sku=row.sku.name if row.sku else None,
        tags={name: value or "" for name, value in (row.tags or {}).items()},
        provisioning_state=p.provisioning_state,
        endpoints={k: v for k, v in (p.primary_endpoints or {}).items() if isinstance(v, str)},
        hns=p.is_hns_enabled,
        infrastructure_encryption=encryption.infrastructure,
        minimum_tls_version=p.minimum_tls_version,
        https_only=p.supports_https_traffic_only,
        allow_blob_public_access=p.allow_blob_public_access,
        allow_shared_key_access=p.allow_shared_key_access,
        default_to_oauth=p.default_to_o_auth_authentication,
        allow_cross_tenant_replication=p.allow_cross_tenant_replication,
        public_network_access=p.public_network_access,
        network_acls=p.network_acls,
        key_source=encryption.key_source,
        key_uri=_key_uri(encryption.keyvaultproperties),
        key_identity=encryption.identity.user_assigned_identity if encryption.identity else None,
        identity_type=identity.type,
        user_identities=tuple(identity.user_assigned_identities or ()),
        access_tier=p.access_tier,
        sftp=p.is_sftp_enabled,
        local_users=p.is_local_user_enabled,
    )
    return AccountView(account=found, endpoints=_endpoints(p.private_endpoint_connections or []))


def _key_uri(key: _Key | None) -> str | None:
    if key is None or not key.keyvaulturi or not key.keyname:
        return None
    parts = (key.keyvaulturi.rstrip("/"), "keys", key.keyname, key.keyversion or "")
    return "/".join(parts).rstrip("/")


def _endpoints(rows: Iterable[_ConnectionRow]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for connection in (row.properties for row in rows if row.properties):
        if connection.private_endpoint and connection.private_endpoint.id:
            state = connection.private_link_service_connection_state
            found[connection.private_endpoint.id] = state.status if state else None
    return found


def check_name(session: Session, subscription_id: str, group: str, name: str) -> NameCheck:
    """Tell whose an account name is.

    The service says only that it is taken, even of our own; ours are found by a list. Raises
    UsageError for a name that no account can have.
    """
    what = f"Cannot check the name {name}"
    path = f"{subscription_scope(subscription_id)}/providers/{NAMESPACE}/checkNameAvailability"
    asked = {"name": name, "type": ACCOUNT}
    written = session.write("POST", path, API_VERSION, asked, what=what)
    said = _converted(written.body or {}, _NameAnswer, what)
    if said.name_available:
        return NameCheck(state="available")
    if (said.reason or "").casefold() == "accountnameinvalid":
        raise UsageError(f"{name!r} cannot be a storage account: {said.message or said.reason}")
    return _taken(session, subscription_id, group, name, said.message)


def _taken(
    session: Session, subscription_id: str, group: str, name: str, message: str | None
) -> NameCheck:
    try:
        found = [a for a in accounts(session, subscription_id) if a.name.lower() == name.lower()]
    except Ai4infraError:
        # Who may not list the subscription cannot be told whether the account is in it.
        return NameCheck(state="in use", message=message)
    if not found:
        return NameCheck(state="taken", message=message)
    here = same_id(group_of(found[0].id), group_scope(subscription_id, group))
    return NameCheck(state="mine" if here else "elsewhere", account_id=found[0].id, message=message)


def blob_service(session: Session, account_id: str) -> BlobServiceSettings:
    """Return the settings of an account's blob service."""
    what = f"Cannot read the blob service of {_name(account_id)}"
    path = f"{account_id}/blobServices/default"
    return _settings(session.get_json(path, API_VERSION, _BlobService, what=what))


def read_blob_service(body: dict[str, Any]) -> BlobServiceSettings:
    """Return the settings in an answer to a write."""
    return _settings(_converted(body, _BlobService, "Cannot read the blob service"))


def _settings(row: _BlobService) -> BlobServiceSettings:
    if row.properties is None:
        return BlobServiceSettings()
    p = _converted(row.properties, _BlobProperties, "Cannot read the blob service")
    # The service leaves out what was never switched on.
    return BlobServiceSettings(
        blob_soft_delete_days=_days(p.delete_retention_policy),
        container_soft_delete_days=_days(p.container_delete_retention_policy),
        versioning=bool(p.is_versioning_enabled),
        change_feed=bool(p.change_feed and p.change_feed.enabled),
        restore_days=_days(p.restore_policy),
        raw=_writable(row.properties),
    )


def _writable(properties: dict[str, Any]) -> dict[str, Any]:
    """Leave out the times of a restore policy, which only the service sets."""
    restore = properties.get("restorePolicy")
    if not isinstance(restore, dict):
        return properties
    kept = {name: restore[name] for name in ("enabled", "days") if name in restore}
    return {**properties, "restorePolicy": kept}


def _days(policy: _Retention | None) -> int | None:
    if policy is None or not policy.enabled:
        return 0
    return policy.days


def containers(session: Session, account_id: str) -> tuple[Container, ...]:
    """Return all containers of an account, in the service's order."""
    what = f"Cannot list the containers of {_name(account_id)}"
    pages = session.pages(f"{account_id}/blobServices/default/containers", API_VERSION, what=what)
    rows = whole_rows(pages, _Container, what)
    return tuple(
        Container(
            id=row.id,
            name=row.name,
            public_access=row.properties.public_access if row.properties else None,
        )
        for row in rows
    )


def first_container(session: Session, account_id: str) -> str | None:
    """Return the name of one container of an account; None where it has none."""
    what = f"Cannot list the containers of {_name(account_id)}"
    path = f"{account_id}/blobServices/default/containers"
    params = {"$maxpagesize": "1"}
    for page in session.pages(path, API_VERSION, params=params, what=what):
        for row in decode_rows(page, _Container, what)[0]:
            return row.name
    return None


def lifecycle_rules(session: Session, account_id: str) -> tuple[LifecycleRule, ...]:
    """Return the rules of an account's lifecycle policy; none where there is no policy."""
    what = f"Cannot read the lifecycle policy of {_name(account_id)}"
    path = f"{account_id}/managementPolicies/default"
    try:
        found = session.get_json(path, API_VERSION, _ManagementPolicy, what=what)
    except NotFoundError as error:
        if (error.code or "").casefold() == "managementpolicynotfound":
            return ()
        raise
    policy = found.properties.policy if found.properties else None
    return tuple(_rule(raw) for raw in (policy.rules if policy else []))


def _rule(raw: dict[str, Any]) -> LifecycleRule:
    row = _converted(raw, _Rule, "Cannot read a lifecycle rule")
    definition = row.definition or _Definition()
    base = _part(definition.actions, "baseBlob")
    filters = definition.filters or _Filters()
    return LifecycleRule(
        name=row.name,
        enabled=row.enabled is not False,
        prefixes=tuple(filters.prefix_match or ()),
        cool_after_days=_age(base, "tierToCool"),
        delete_after_days=_age(base, "delete"),
        raw=raw,
    )


def _part(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _age(actions: dict[str, Any], name: str) -> int | None:
    days = _part(actions, name).get("daysAfterModificationGreaterThan")
    return int(days) if isinstance(days, int | float) else None


def _name(account_id: str) -> str:
    return id_key(account_id).rpartition("/")[2]
