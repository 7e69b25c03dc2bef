"""ARM writes as values: which resource, with which API version, and what is sent.

Bodies follow the REST reference of each API version:
https://learn.microsoft.com/rest/api/storagerp/ (accounts, blob services, containers, policies),
https://learn.microsoft.com/rest/api/virtualnetwork/ (private endpoints),
https://learn.microsoft.com/rest/api/dns/ (private zones),
https://learn.microsoft.com/rest/api/authorization/ (role assignments, locks).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ai4infra.model import GrantWanted, PrivateEndpoint, Record
from ai4infra.storage_names import assignment_name

GROUP: Final = "Microsoft.Resources/resourceGroups"
ACCOUNT: Final = "Microsoft.Storage/storageAccounts"
BLOB_SERVICE: Final = f"{ACCOUNT}/blobServices"
CONTAINER: Final = f"{BLOB_SERVICE}/containers"
LIFECYCLE: Final = f"{ACCOUNT}/managementPolicies"
ENDPOINT: Final = "Microsoft.Network/privateEndpoints"
ZONE_GROUP: Final = f"{ENDPOINT}/privateDnsZoneGroups"
ZONE: Final = "Microsoft.Network/privateDnsZones"
ZONE_LINK: Final = f"{ZONE}/virtualNetworkLinks"
ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments"
LOCK: Final = "Microsoft.Authorization/locks"

API_VERSIONS: Final[dict[str, str]] = {
    GROUP: "2024-03-01",
    ACCOUNT: "2024-01-01",
    BLOB_SERVICE: "2024-01-01",
    CONTAINER: "2024-01-01",
    LIFECYCLE: "2024-01-01",
    ENDPOINT: "2024-05-01",
    ZONE_GROUP: "2024-05-01",
    ZONE: "2024-06-01",
    ZONE_LINK: "2024-06-01",
    ASSIGNMENT: "2022-04-01",
    LOCK: "2020-05-01",
}
"""The version that each type is written with."""

Method = Literal["PUT", "PATCH", "DELETE"]


class ArmWrite(Record, frozen=True):
    """One writing request to ARM: what a step of a storage plan carries out."""

    method: Method
    resource_id: str
    resource_type: str
    api_version: str
    body: dict[str, Any] | None = None
    """None for a deletion."""
    stage: int = 0
    """Writes of one stage need nothing of each other and may be carried out at the same time."""
    after: tuple[str, ...] = ()
    """Resource ids that must be written first, beside those that the id and the body name."""


def put(resource_type: str, resource_id: str, body: dict[str, Any], *, stage: int) -> ArmWrite:
    """Build a create-or-replace."""
    return _write("PUT", resource_type, resource_id, body, stage)


def patch(resource_type: str, resource_id: str, body: dict[str, Any], *, stage: int) -> ArmWrite:
    """Build an update that names only what changes."""
    return _write("PATCH", resource_type, resource_id, body, stage)


def delete(resource_type: str, resource_id: str, *, stage: int) -> ArmWrite:
    """Build a deletion."""
    return _write("DELETE", resource_type, resource_id, None, stage)


def _write(
    method: Method,
    resource_type: str,
    resource_id: str,
    body: dict[str, Any] | None,
    stage: int,
) -> ArmWrite:
    return ArmWrite(
        method=method,
        resource_id=resource_id,
        resource_type=resource_type,
        api_version=API_VERSIONS[resource_type],
        body=body,
        stage=stage,
    )


def same_id(one: str | None, other: str | None) -> bool:
    """Tell whether two resource ids are the same: case and a last slash make no difference."""
    return id_key(one) == id_key(other)


def id_key(resource_id: str | None) -> str:
    """Return the key on which resource ids compare."""
    return (resource_id or "").rstrip("/").casefold()


def is_at_or_above(scope: str, resource_id: str) -> bool:
    """Tell whether what is set at a scope counts for a resource.

    A management group or the root counts: the service lists it only where it is above.
    """
    above = id_key(scope)
    if above.startswith("/providers/microsoft.management/managementgroups/"):
        return True
    return f"{id_key(resource_id)}/".startswith(f"{above}/")


def name_of(resource_id: str) -> str:
    """Return the last segment of a resource id."""
    return resource_id.rstrip("/").rpartition("/")[2]


def parent_of(resource_id: str) -> str:
    """Return the id of what a resource lies in or is set on.

    A child's parent resource, an extension's scope, a resource's group, a group's subscription.
    """
    head = resource_id.rstrip("/").rsplit("/", 2)[0]
    before, providers, namespace = head.rpartition("/providers/")
    return before if providers and "/" not in namespace else head


def group_of(resource_id: str) -> str | None:
    """Return the id of the resource group in a resource id; None where there is none in it."""
    parts = resource_id.split("/")
    is_in_group = len(parts) > 4 and parts[3].casefold() == "resourcegroups"
    return "/".join(parts[:5]) if is_in_group else None


def subscription_of(resource_id: str) -> str | None:
    """Return the subscription id in a resource id; None where there is none in it."""
    parts = resource_id.split("/")
    return parts[2] if len(parts) > 2 and parts[1].casefold() == "subscriptions" else None


def container_id(account: str, container: str) -> str:
    """Return the id of a container of the account with this id."""
    return f"{account}/blobServices/default/containers/{container}"


def endpoint_id(account: str, group: str) -> str:
    """Return the id that our private endpoint for a service of an account has."""
    name = f"pe-{name_of(account)}-{group}"
    return f"{group_of(account)}/providers/{ENDPOINT}/{name}"


def zone_id(resource_group_id: str, zone: str) -> str:
    """Return the id of a private DNS zone."""
    return f"{resource_group_id}/providers/{ZONE}/{zone}"


def zone_name(group: str, suffix: str) -> str:
    """Return the name of the private DNS zone of ``blob`` or ``dfs`` in a cloud."""
    return f"privatelink.{group}.{suffix}"


def vnet_of(subnet_id: str) -> str:
    """Return the id of a subnet's virtual network."""
    return parent_of(subnet_id)


def key_parts(key_uri: str) -> tuple[str, str, str]:
    """Return vault address, key name and version (empty: always the newest) of a key's URI."""
    url = urlsplit(key_uri)
    _, name, *version = url.path.strip("/").split("/")
    return f"{url.scheme}://{url.netloc}", name, "".join(version)


def encryption(key_uri: str | None, key_identity: str | None) -> dict[str, Any]:
    """Return the ``encryption`` of an account with a customer-managed key, or with Microsoft's."""
    if key_uri is None:
        return {"keySource": "Microsoft.Storage"}
    vault, name, version = key_parts(key_uri)
    return {
        "keySource": "Microsoft.Keyvault",
        "keyvaultproperties": {"keyname": name, "keyvaulturi": vault, "keyversion": version},
        "identity": {"userAssignedIdentity": key_identity},
    }


ENCRYPTED_SERVICES: Final = {
    "blob": {"enabled": True, "keyType": "Account"},
    "file": {"enabled": True, "keyType": "Account"},
}


def identities(*identity_ids: str) -> dict[str, Any]:
    """Return the ``identity`` of an account with user-assigned identities."""
    return {"type": "UserAssigned", "userAssignedIdentities": {i: {} for i in identity_ids}}


def container_write(account: str, container: str, *, stage: int) -> ArmWrite:
    """Build the creation of a container without anonymous access."""
    body = {"properties": {"publicAccess": "None"}}
    return put(CONTAINER, container_id(account, container), body, stage=stage)


def endpoint_write(
    account: str, group: str, subnet_id: str, location: str, *, stage: int
) -> ArmWrite:
    """Build the private endpoint for one service (``blob``, ``dfs``) of an account."""
    resource_id = endpoint_id(account, group)
    connection = {
        "name": name_of(resource_id),
        "properties": {"privateLinkServiceId": account, "groupIds": [group]},
    }
    body = {
        "location": location,
        "properties": {
            "subnet": {"id": subnet_id},
            "privateLinkServiceConnections": [connection],
        },
    }
    return put(ENDPOINT, resource_id, body, stage=stage)


def zone_group_write(endpoint: PrivateEndpoint | str, zone: str, *, stage: int) -> ArmWrite:
    """Build the zone group that keeps a zone's record of an endpoint."""
    resource_id = endpoint if isinstance(endpoint, str) else endpoint.id
    config = {
        "name": name_of(zone).replace(".", "-"),
        "properties": {"privateDnsZoneId": zone},
    }
    body = {"properties": {"privateDnsZoneConfigs": [config]}}
    return put(ZONE_GROUP, f"{resource_id}/privateDnsZoneGroups/default", body, stage=stage)


def zone_write(resource_id: str, *, stage: int) -> ArmWrite:
    """Build a private DNS zone."""
    return put(ZONE, resource_id, {"location": "global"}, stage=stage)


def zone_link_write(
    zone: str, vnet_id: str, *, stage: int, taken: Collection[str] = ()
) -> ArmWrite:
    """Build the link that lets a virtual network resolve a zone's names.

    ``taken`` are names of links that are there: networks of several groups may be called the same.
    """
    name = name_of(vnet_id)
    if name.casefold() in {each.casefold() for each in taken}:
        name = f"{name}-{hashlib.sha256(id_key(vnet_id).encode()).hexdigest()[:8]}"
    resource_id = f"{zone}/virtualNetworkLinks/{name}"
    properties = {"virtualNetwork": {"id": vnet_id}, "registrationEnabled": False}
    return put(
        ZONE_LINK, resource_id, {"location": "global", "properties": properties}, stage=stage
    )


def grant_write(grant: GrantWanted, scope: str, *, stage: int) -> ArmWrite:
    """Build a role assignment, under the name that the same grant always has."""
    name = assignment_name(scope, grant.principal_id, grant.role_id)
    subscription = subscription_of(scope)
    above = f"/subscriptions/{subscription}" if subscription else ""
    properties = {
        "roleDefinitionId": f"{above}/providers/Microsoft.Authorization"
        f"/roleDefinitions/{grant.role_id}",
        "principalId": grant.principal_id,
        "principalType": grant.principal_type,
    }
    resource_id = f"{scope.rstrip('/')}/providers/{ASSIGNMENT}/{name}"
    return put(ASSIGNMENT, resource_id, {"properties": properties}, stage=stage)


def lock_write(scope: str, name: str, notes: str, *, stage: int) -> ArmWrite:
    """Build a lock against deletion."""
    body = {"properties": {"level": "CanNotDelete", "notes": notes}}
    return put(LOCK, f"{scope}/providers/{LOCK}/{name}", body, stage=stage)
