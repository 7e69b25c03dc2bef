"""A plan as a script of Azure CLI commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any, Final

from ai4infra import arm
from ai4infra.arm import ArmWrite, id_key, name_of, parent_of, subscription_of
from ai4infra.emit.resources import identities, registrations
from ai4infra.model import Step
from ai4infra.plan import IdentityWanted, LateGrant, Plan, RegistrationWanted

_PLAIN_TAG = re.compile(r"\w[^=]*")


def script(plan: Plan) -> str:
    """Write a plan as a bash script; a command that fails ends it."""
    parts = ["#!/usr/bin/env bash\nset -euo pipefail"]
    parts += [registration(wanted) for wanted in registrations(plan)]
    variables = _variables(plan)
    for step in plan.changes:
        lines = _lines(step, variables)
        if lines:
            comment = f"# {_comment(f'{step.kind} {step.name}: {step.detail}')}"
            parts.append("\n".join([comment, *lines]))
    return "\n\n".join(parts) + "\n"


def _variables(plan: Plan) -> dict[str, str]:
    """Return the shell variable that keeps the new identity of each machine, by its id's key."""
    machines = [wanted.resource_id for wanted in identities(plan)]
    return {id_key(id_): f"identity_{number}" for number, id_ in enumerate(machines, 1)}


def _lines(step: Step, variables: dict[str, str]) -> list[str]:
    wanted = step.wanted
    if isinstance(wanted, ArmWrite):
        return commands(wanted)
    if isinstance(wanted, IdentityWanted):
        options = [*_machine(wanted), "--query systemAssignedIdentity", "--output tsv"]
        asked = _command(f"{_machine_word(wanted)} identity assign", options)
        return [f"{variables[id_key(wanted.resource_id)]}=$({asked})"]
    if isinstance(wanted, LateGrant):
        return _late_grant(wanted, variables[id_key(wanted.resource_id)])
    return []


def identity(wanted: IdentityWanted) -> str:
    """Write the command that gives a machine its own identity, in one line."""
    return " ".join([f"az {_machine_word(wanted)} identity assign", *_machine(wanted)])


def _machine_word(wanted: IdentityWanted) -> str:
    return "vmss" if "/virtualmachinescalesets/" in wanted.resource_id.casefold() else "vm"


def _machine(wanted: IdentityWanted) -> list[str]:
    group = arm.group_of(wanted.resource_id)
    return _options(
        subscription=subscription_of(wanted.resource_id),
        resource_group=name_of(group) if group else None,
        name=name_of(wanted.resource_id),
    )


def _late_grant(wanted: LateGrant, variable: str) -> list[str]:
    options = [
        f'--assignee-object-id "${variable}"',
        *_options(
            assignee_principal_type=wanted.grant.principal_type,
            role=wanted.grant.role_id,
            scope=wanted.scope,
        ),
    ]
    return [
        "# A new identity is unknown for some minutes (PrincipalNotFound): run this again then.",
        _command("role assignment create", options),
    ]


def _comment(text: str) -> str:
    return " ".join(text.split())


def registration(wanted: RegistrationWanted) -> str:
    """Write the command that registers the subscription for a provider, and waits."""
    options = _options(namespace=wanted.namespace, subscription=wanted.subscription_id)
    return _command("provider register", [*options, "--wait"])


def commands(write: ArmWrite) -> list[str]:
    """Write the commands that carry one ARM write out."""
    if write.method == "DELETE":
        return [_deletion(write)]
    if write.method == "PATCH":
        return [_rest(write, write.body or {})]
    return _PUTS[write.resource_type](write)


def deployment(subscription_id: str, group: str) -> str:
    """Write the command that deploys a Bicep file to a resource group, in one line."""
    options = _options(subscription=subscription_id, resource_group=group)
    return " ".join(["az deployment group create", *options, "--template-file FILE"])


def _command(words: str, options: list[str]) -> str:
    return " \\\n  ".join([f"az {words}", *options])


def _options(**values: object) -> list[str]:
    """Return options, quoted for a shell; those without a value are left out."""
    named = {f"--{k.replace('_', '-')}": v for k, v in values.items() if v is not None}
    return [_option(name, _text(value)) for name, value in named.items()]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(name: str, value: str) -> str:
    # A value that starts with a dash would be taken for the next option.
    if value.startswith("-"):
        return shlex.quote(f"{name}={value}")
    return f"{name} {shlex.quote(value)}"


def _place(write: ArmWrite) -> dict[str, str | None]:
    """Return the subscription and group that a resource lies in, as options."""
    group = arm.group_of(write.resource_id)
    return {
        "subscription": subscription_of(write.resource_id),
        "resource_group": name_of(group) if group else None,
    }


def _rest(write: ArmWrite, body: dict[str, Any]) -> str:
    url = f"{write.resource_id}?api-version={write.api_version}"
    method = "patch" if write.method == "PATCH" else "put"
    return _command("rest", _options(method=method, url=url, body=_json(body)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _deletion(write: ArmWrite) -> str:
    if write.resource_type == arm.ASSIGNMENT:
        return _command("role assignment delete", _options(ids=write.resource_id))
    return _command("resource delete", _options(ids=write.resource_id))


def _group(write: ArmWrite) -> list[str]:
    options = _options(
        subscription=subscription_of(write.resource_id),
        name=name_of(write.resource_id),
        location=_body(write)["location"],
    )
    return [_command("group create", options)]


def _body(write: ArmWrite) -> dict[str, Any]:
    return write.body or {}


def _account(write: ArmWrite) -> list[str]:
    body = _body(write)
    options = [*_options(**_place(write), name=name_of(write.resource_id)), *_settings(body)]
    options += _key(body)
    tags = body.get("tags") or {}
    plain = all(_PLAIN_TAG.fullmatch(name) for name in tags)
    if tags and plain:
        options.append(" ".join(["--tags", *(shlex.quote(f"{k}={v}") for k, v in tags.items())]))
    create = _command("storage account create", options)
    return [create, *_network_rules(write), _rest_of_account(write, {} if plain else tags)]


def _settings(body: dict[str, Any]) -> list[str]:
    properties = body["properties"]
    acls = properties["networkAcls"]
    bypass = [word.strip() for word in acls["bypass"].split(",")]
    options = _options(
        location=body["location"],
        kind=body["kind"],
        sku=body["sku"]["name"],
        access_tier=properties.get("accessTier"),
        enable_hierarchical_namespace=properties["isHnsEnabled"],
        min_tls_version=properties["minimumTlsVersion"],
        https_only=properties["supportsHttpsTrafficOnly"],
        allow_blob_public_access=properties["allowBlobPublicAccess"],
        allow_shared_key_access=properties["allowSharedKeyAccess"],
        allow_cross_tenant_replication=properties["allowCrossTenantReplication"],
        public_network_access=properties["publicNetworkAccess"],
        default_action=acls["defaultAction"],
    )
    options.append(f"--bypass {shlex.join(bypass)}")
    if properties["encryption"]["requireInfrastructureEncryption"]:
        options.append("--require-infrastructure-encryption true")
    return options


def _key(body: dict[str, Any]) -> list[str]:
    encryption = body["properties"]["encryption"]
    key = encryption.get("keyvaultproperties")
    if key is None:
        return []
    identity = encryption["identity"]["userAssignedIdentity"]
    return _options(
        encryption_key_source=encryption["keySource"],
        encryption_key_vault=key["keyvaulturi"],
        encryption_key_name=key["keyname"],
        encryption_key_version=key["keyversion"] or None,
        key_vault_user_identity_id=identity,
        identity_type="UserAssigned",
        user_identity_id=identity,
    )


def _network_rules(write: ArmWrite) -> list[str]:
    acls = _body(write)["properties"]["networkAcls"]
    rules = [{"ip_address": rule["value"]} for rule in acls["ipRules"]]
    rules += [{"subnet": rule["id"]} for rule in acls["virtualNetworkRules"]]
    account = name_of(write.resource_id)
    return [
        _command(
            "storage account network-rule add",
            _options(**_place(write), account_name=account, **rule),
        )
        for rule in rules
    ]


def _rest_of_account(write: ArmWrite, tags: dict[str, str]) -> str:
    """Write what ``az storage account create`` has no option for."""
    name = "defaultToOAuthAuthentication"
    body: dict[str, Any] = {"properties": {name: _body(write)["properties"][name]}}
    if tags:
        body["tags"] = tags
    url = f"{write.resource_id}?api-version={write.api_version}"
    return _command("rest", _options(method="patch", url=url, body=_json(body)))


def _blob_service(write: ArmWrite) -> list[str]:
    sent = _body(write).get("properties", {})
    deleted = sent.get("deleteRetentionPolicy", {})
    containers = sent.get("containerDeleteRetentionPolicy", {})
    restore = sent.get("restorePolicy", {})
    options = _options(
        **_place(write),
        account_name=name_of(parent_of(write.resource_id)),
        enable_delete_retention=deleted.get("enabled"),
        delete_retention_days=deleted.get("days"),
        enable_container_delete_retention=containers.get("enabled"),
        container_delete_retention_days=containers.get("days"),
        enable_versioning=sent.get("isVersioningEnabled"),
        enable_change_feed=sent.get("changeFeed", {}).get("enabled"),
        enable_restore_policy=restore.get("enabled"),
        restore_days=restore.get("days"),
    )
    return [_command("storage account blob-service-properties update", options)]


def _container(write: ArmWrite) -> list[str]:
    account = parent_of(parent_of(write.resource_id))
    options = _options(
        **_place(write),
        storage_account=name_of(account),
        name=name_of(write.resource_id),
        public_access="off",
    )
    return [_command("storage container-rm create", options)]


def _lifecycle(write: ArmWrite) -> list[str]:
    options = _options(**_place(write), account_name=name_of(parent_of(write.resource_id)))
    policy = json.dumps(_body(write)["properties"]["policy"], indent=2, ensure_ascii=False)
    create = _command("storage account management-policy create", [*options, "--policy @-"])
    return [f"{create} <<'JSON'\n{policy}\nJSON"]


def _endpoint(write: ArmWrite) -> list[str]:
    body = _body(write)
    connection = body["properties"]["privateLinkServiceConnections"][0]
    options = _options(
        **_place(write),
        name=name_of(write.resource_id),
        location=body["location"],
        subnet=body["properties"]["subnet"]["id"],
        connection_name=connection["name"],
        private_connection_resource_id=connection["properties"]["privateLinkServiceId"],
        group_id=connection["properties"]["groupIds"][0],
    )
    return [_command("network private-endpoint create", options)]


def _zone(write: ArmWrite) -> list[str]:
    options = _options(**_place(write), name=name_of(write.resource_id))
    return [_command("network private-dns zone create", options)]


def _zone_link(write: ArmWrite) -> list[str]:
    properties = _body(write)["properties"]
    options = _options(
        **_place(write),
        zone_name=name_of(parent_of(write.resource_id)),
        name=name_of(write.resource_id),
        virtual_network=properties["virtualNetwork"]["id"],
        registration_enabled=properties["registrationEnabled"],
    )
    return [_command("network private-dns link vnet create", options)]


def _zone_group(write: ArmWrite) -> list[str]:
    config = _body(write)["properties"]["privateDnsZoneConfigs"][0]
    options = _options(
        **_place(write),
        endpoint_name=name_of(parent_of(write.resource_id)),
        name=name_of(write.resource_id),
        zone_name=config["name"],
        private_dns_zone=config["properties"]["privateDnsZoneId"],
    )
    return [_command("network private-endpoint dns-zone-group create", options)]


def _grant(write: ArmWrite) -> list[str]:
    properties = _body(write)["properties"]
    options = _options(
        name=name_of(write.resource_id),
        assignee_object_id=properties["principalId"],
        assignee_principal_type=properties["principalType"],
        role=name_of(properties["roleDefinitionId"]),
        scope=parent_of(write.resource_id),
    )
    return [_command("role assignment create", options)]


def _lock(write: ArmWrite) -> list[str]:
    properties = _body(write)["properties"]
    options = _options(
        name=name_of(write.resource_id),
        lock_type=properties["level"],
        notes=properties.get("notes"),
        resource=parent_of(write.resource_id),
    )
    return [_command("lock create", options)]


_PUTS: Final[dict[str, Callable[[ArmWrite], list[str]]]] = {
    arm.GROUP: _group,
    arm.ACCOUNT: _account,
    arm.BLOB_SERVICE: _blob_service,
    arm.CONTAINER: _container,
    arm.LIFECYCLE: _lifecycle,
    arm.ENDPOINT: _endpoint,
    arm.ZONE: _zone,
    arm.ZONE_LINK: _zone_link,
    arm.ZONE_GROUP: _zone_group,
    arm.ASSIGNMENT: _grant,
    arm.LOCK: _lock,
}
