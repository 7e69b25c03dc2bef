"""A small ARM for storage plans: bodies by resource id, carried out and looked at as values."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from ai4infra import arm
from ai4infra.arm import ArmWrite, id_key, name_of, parent_of, same_id
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    DnsZone,
    GrantWanted,
    LifecycleRule,
    LifecycleWanted,
    Lock,
    PrivateEndpoint,
    ResourceGroup,
    RoleAssignment,
    Step,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import Plan, RegistrationWanted
from ai4infra.storage_names import account_scope, group_scope

SUBSCRIPTION = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
GROUP = "rg-ai-training"
ACCOUNT = "staitraining0a1b2c3d"
ACCOUNT_ID = account_scope(SUBSCRIPTION, GROUP, ACCOUNT)
VNET = f"{group_scope(SUBSCRIPTION, 'rg-net')}/providers/Microsoft.Network/virtualNetworks/vnet"
SUBNET = f"{VNET}/subnets/storage"
KEY_IDENTITY = (
    f"{group_scope(SUBSCRIPTION, 'rg-keys')}"
    "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/id-key"
)
KEY = "https://kv-train.vault.azure.net/keys/train"
READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"
CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
ALICE = "5f3c2a9e-74bd-4f0f-a6b3-8d1e0c9b7a61"
NODE = "9b0d7c1f-20c4-4a5e-9f27-3c6e5d4b8a02"

World = dict[str, tuple[str, dict[str, Any]]]
"""Resource id's key → the id as written and the body."""


def a_wanted(**fields: Any) -> StorageWanted:
    """A plain ``storage create``: one container, nothing else said."""
    plain: dict[str, Any] = {
        "subscription_id": SUBSCRIPTION,
        "group": GROUP,
        "location": "eastus2",
        "account": ACCOUNT,
        "containers": ("training-data",),
    }
    return StorageWanted(**{**plain, **fields})


def a_grant(**fields: Any) -> GrantWanted:
    plain: dict[str, Any] = {
        "role_id": CONTRIBUTOR,
        "role": "Storage Blob Data Contributor",
        "principal_id": ALICE,
        "principal_type": "User",
        "label": "me",
    }
    return GrantWanted(**{**plain, **fields})


def everything(**fields: Any) -> StorageWanted:
    """A ``storage create`` that uses every kind of step."""
    plain: dict[str, Any] = {
        "network": "restricted",
        "allow_ips": ("203.0.113.7",),
        "allow_subnets": (SUBNET,),
        "endpoint_subnet": SUBNET,
        "infrastructure_encryption": True,
        "key_uri": KEY,
        "key_identity": KEY_IDENTITY,
        "lifecycles": (
            LifecycleWanted(container="checkpoints", cool_after_days=14, delete_after_days=90),
        ),
        "grants": (
            a_grant(),
            a_grant(
                role_id=READER,
                role="Storage Blob Data Reader",
                principal_id=NODE,
                principal_type="ServicePrincipal",
                label="vm:rg-train/node-0",
                container="training-data",
            ),
        ),
        "classification": "confidential",
        "tags": {"team": "vision"},
        "lock": True,
    }
    return a_wanted(**{**plain, **fields})


def carried_out(steps: tuple[Step, ...], world: World) -> World:
    """The world after the steps; nothing is changed in place."""
    after = deepcopy(world)
    for step in steps:
        if isinstance(step.wanted, ArmWrite) and step.action != "keep":
            _carry_out(step.wanted, after)
    return after


def _carry_out(write: ArmWrite, world: World) -> None:
    key = id_key(write.resource_id)
    above = id_key(parent_of(write.resource_id))
    if write.method == "DELETE":
        for known in [k for k in world if f"{k}/".startswith(f"{key}/")]:
            del world[known]
        return
    outside = ("/subscriptions/" + SUBSCRIPTION, id_key(group_scope(SUBSCRIPTION, "rg-else")))
    assert above in world or above in outside or above.endswith("/blobservices/default"), (
        f"{write.resource_id} is written before what it lies in"
    )
    body = deepcopy(write.body or {})
    keeps = write.method == "PATCH" or write.resource_type == arm.BLOB_SERVICE
    found = world.get(key, (write.resource_id, {}))[1] if keeps else {}
    world[key] = (write.resource_id, _patched(found, body))


def _patched(found: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """ARM's PATCH: properties one by one, everything else as a whole."""
    properties = {**found.get("properties", {}), **body.get("properties", {})}
    if "encryption" in body.get("properties", {}) and "encryption" in found.get("properties", {}):
        properties["encryption"] = {
            **found["properties"]["encryption"],
            **body["properties"]["encryption"],
        }
    return {**found, **body, "properties": properties}


def a_world(plan: Plan) -> World:
    """The world in which a plan for nothing has been carried out."""
    return carried_out(plan.changes, {})


def looked_at(world: World, unregistered: tuple[str, ...] = ()) -> StorageLook:
    """What an observer would tell of the world."""
    account = _account(world)
    return StorageLook(
        group=_group(world),
        account=account,
        blob_service=_blob_service(world) if account else None,
        containers=tuple(_containers(world)) if account else None,
        lifecycle=tuple(_rules(world)) if account else None,
        endpoints=tuple(_endpoints(world)),
        dns_zones=tuple(_zones(world)),
        assignments=tuple(_assignments(world)),
        locks=tuple(
            Lock(id=i, name=name_of(i), level=b["properties"]["level"])
            for i, b in _of(world, arm.LOCK)
        ),
        unregistered=unregistered,
    )


def registered(plan: Plan) -> tuple[str, ...]:
    return tuple(s.wanted.namespace for s in plan.steps if isinstance(s.wanted, RegistrationWanted))


def _of(world: World, resource_type: str) -> list[tuple[str, dict[str, Any]]]:
    return [(i, b) for i, b in world.values() if _type(i) == resource_type.casefold()]


def _type(resource_id: str) -> str:
    if "/providers/" not in resource_id:
        return arm.GROUP.casefold()
    namespace, *rest = resource_id.rpartition("/providers/")[2].split("/")
    return "/".join([namespace, *rest[::2]]).casefold()


def _group(world: World) -> ResourceGroup | None:
    found = [
        ResourceGroup(id=i, name=name_of(i), location=b["location"])
        for i, b in _of(world, arm.GROUP)
        if same_id(i, group_scope(SUBSCRIPTION, GROUP))
    ]
    return found[0] if found else None


def _account(world: World) -> StorageAccount | None:
    found = world.get(id_key(ACCOUNT_ID))
    return account_of(*found) if found else None


def account_of(resource_id: str, body: dict[str, Any]) -> StorageAccount:
    properties = body["properties"]
    encryption = properties.get("encryption", {})
    key = encryption.get("keyvaultproperties")
    identity = body.get("identity", {})
    return StorageAccount(
        id=resource_id,
        name=name_of(resource_id),
        location=body["location"],
        kind=body["kind"],
        sku=body["sku"]["name"],
        tags=body.get("tags", {}),
        hns=properties.get("isHnsEnabled"),
        infrastructure_encryption=encryption.get("requireInfrastructureEncryption"),
        minimum_tls_version=properties.get("minimumTlsVersion"),
        https_only=properties.get("supportsHttpsTrafficOnly"),
        allow_blob_public_access=properties.get("allowBlobPublicAccess"),
        allow_shared_key_access=properties.get("allowSharedKeyAccess"),
        default_to_oauth=properties.get("defaultToOAuthAuthentication"),
        allow_cross_tenant_replication=properties.get("allowCrossTenantReplication"),
        public_network_access=properties.get("publicNetworkAccess"),
        network_acls=properties.get("networkAcls"),
        key_source=encryption.get("keySource"),
        key_uri=f"{key['keyvaulturi']}/keys/{key['keyname']}/{key['keyversion']}" if key else None,
        key_identity=encryption.get("identity", {}).get("userAssignedIdentity"),
        identity_type=identity.get("type"),
        user_identities=tuple(identity.get("userAssignedIdentities", {})),
    )


def _days(policy: dict[str, Any] | None) -> int:
    return policy["days"] if policy and policy["enabled"] else 0


def _blob_service(world: World) -> BlobServiceSettings:
    _, body = world.get(id_key(f"{ACCOUNT_ID}/blobServices/default"), ("", {"properties": {}}))
    properties = body["properties"]
    return BlobServiceSettings(
        blob_soft_delete_days=_days(properties.get("deleteRetentionPolicy")),
        container_soft_delete_days=_days(properties.get("containerDeleteRetentionPolicy")),
        versioning=properties.get("isVersioningEnabled", False),
        change_feed=properties.get("changeFeed", {}).get("enabled", False),
        restore_days=_days(properties.get("restorePolicy")),
    )


def _containers(world: World) -> list[Container]:
    return [
        Container(id=i, name=name_of(i), public_access=b["properties"]["publicAccess"])
        for i, b in _of(world, arm.CONTAINER)
    ]


def _rules(world: World) -> list[LifecycleRule]:
    policies = [b for _, b in _of(world, arm.LIFECYCLE)]
    return [rule_of(raw) for b in policies for raw in b["properties"]["policy"]["rules"]]


def rule_of(raw: dict[str, Any]) -> LifecycleRule:
    definition = raw["definition"]
    actions = definition["actions"].get("baseBlob", {})
    days = "daysAfterModificationGreaterThan"
    return LifecycleRule(
        name=raw["name"],
        enabled=raw.get("enabled", True),
        prefixes=tuple(definition.get("filters", {}).get("prefixMatch", ())),
        cool_after_days=actions.get("tierToCool", {}).get(days),
        delete_after_days=actions.get("delete", {}).get(days),
        raw=raw,
    )


def _endpoints(world: World) -> list[PrivateEndpoint]:
    groups = _of(world, arm.ZONE_GROUP)
    found = []
    for i, b in _of(world, arm.ENDPOINT):
        connection = b["properties"]["privateLinkServiceConnections"][0]["properties"]
        zones = [
            config["properties"]["privateDnsZoneId"]
            for g, body in groups
            if same_id(parent_of(g), i)
            for config in body["properties"]["privateDnsZoneConfigs"]
        ]
        found.append(
            PrivateEndpoint(
                id=i,
                name=name_of(i),
                subnet_id=b["properties"]["subnet"]["id"],
                target_id=connection["privateLinkServiceId"],
                group_ids=tuple(connection["groupIds"]),
                state="Approved",
                zone_ids=tuple(zones),
            )
        )
    return found


def _zones(world: World) -> list[DnsZone]:
    links = _of(world, arm.ZONE_LINK)
    return [
        DnsZone(
            id=i,
            name=name_of(i),
            vnet_ids=tuple(
                b["properties"]["virtualNetwork"]["id"]
                for link, b in links
                if same_id(parent_of(link), i)
            ),
        )
        for i, _ in _of(world, arm.ZONE)
    ]


def _assignments(world: World) -> list[RoleAssignment]:
    return [
        RoleAssignment(
            id=i,
            scope=parent_of(i),
            role_id=name_of(b["properties"]["roleDefinitionId"]),
            principal_id=b["properties"]["principalId"],
            principal_type=b["properties"]["principalType"],
        )
        for i, b in _of(world, arm.ASSIGNMENT)
    ]


# --- What people ask for ---

TEXT = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=("Cs", "Cc")),
    max_size=12,
)
TAG_NAMES = TEXT.filter(lambda t: bool(t.strip()) and not set(t) & set("<>%&\\?/"))
TAGS = st.dictionaries(TAG_NAMES, TEXT, max_size=3).filter(
    lambda tags: (
        len({k.casefold() for k in tags}) == len(tags)
        and "classification" not in {k.casefold() for k in tags}
    )
)
CONTAINERS = st.sampled_from(["training-data", "checkpoints", "runs", "eval"])
GRANTS = st.builds(
    a_grant,
    role_id=st.sampled_from([READER, CONTRIBUTOR]),
    principal_id=st.sampled_from([ALICE, NODE]),
    container=st.none() | st.just("training-data"),
)
DAYS = st.integers(1, 400)
LIFECYCLES = st.lists(
    st.builds(
        LifecycleWanted,
        container=CONTAINERS,
        prefix=st.sampled_from(["", "old/", "it's"]),
        cool_after_days=st.none() | DAYS,
        delete_after_days=DAYS,
    ),
    max_size=3,
    unique_by=lambda rule: (rule.container, rule.prefix),
)
NETWORKS = st.sampled_from(
    [
        {},
        {"network": "open"},
        {"network": "private"},
        {"network": "private", "endpoint_subnet": SUBNET},
        {"network": "restricted", "allow_ips": ("203.0.113.7", "198.51.100.0/24")},
        {"allow_subnets": (SUBNET,), "endpoint_subnet": SUBNET},
    ]
)


def _asked(network: dict[str, Any], containers: list[str], **fields: Any) -> StorageWanted:
    """Grants on a container come with the container."""
    granted = [grant.container for grant in fields["grants"] if grant.container]
    return a_wanted(**network, **fields, containers=(*containers, *granted))


WANTED = st.builds(
    _asked,
    NETWORKS,
    sku=st.sampled_from([None, "Standard_LRS", "Standard_GRS", "Premium_ZRS"]),
    infrastructure_encryption=st.sampled_from([None, True, False]),
    soft_delete_days=st.none() | st.integers(1, 365),
    containers=st.lists(CONTAINERS, max_size=3),
    lifecycles=LIFECYCLES.map(tuple),
    grants=st.lists(GRANTS, max_size=3).map(tuple),
    tags=TAGS,
    lock=st.booleans(),
)
