"""Private endpoints of an account and their DNS: as steps."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from ai4infra import arm
from ai4infra.arm import ArmWrite, name_of, same_id
from ai4infra.ids import region_key
from ai4infra.model import DnsZone, PrivateEndpoint, Step, StorageLook, StorageWanted
from ai4infra.storage_names import group_scope
from ai4infra.storage_plan.steps import (
    DNS_LINK,
    DNS_ZONE,
    DNS_ZONE_GROUP,
    ENDPOINT,
    STAGE_ACCOUNT,
    STAGE_BLOB_SERVICE,
    STAGE_ENDPOINTS,
    STAGE_ZONE_GROUPS,
    THERE,
    account_id,
    kept_step,
    refused_step,
    write_step,
)
from ai4infra.storage_target import Target


def private_access_steps(target: Target, look: StorageLook) -> Iterator[Step]:
    """Plan the private endpoints with their zones, links and zone groups."""
    subnet = target.wanted.endpoint_subnet
    if subnet is None:
        return
    for group in endpoint_groups(target.wanted):
        yield from _endpoint_steps(target, look, group, subnet)


def endpoint_groups(wanted: StorageWanted) -> tuple[str, ...]:
    """Return the services that need a private endpoint: dfs clients use blob as well."""
    return ("blob", "dfs") if wanted.hns else ("blob",)


def _endpoint_steps(target: Target, look: StorageLook, group: str, subnet: str) -> Iterator[Step]:
    wanted = target.wanted
    vnet = arm.vnet_of(subnet)
    found = _found_endpoint(target, look, group, subnet)
    endpoint = _endpoint(target, look, group, subnet)
    yield endpoint
    if endpoint.action == "refuse":
        return
    # An endpoint that has its zone may have it from another subscription: that zone is enough.
    if found is not None and found.zone_ids:
        yield _zone_group(found, endpoint, found.zone_ids[0])
        return
    zone = _zone(wanted, look, group, vnet)
    yield from _zone_steps(wanted, zone, group, vnet, unread=look.dns_zones is None)
    yield _zone_group(found, endpoint, zone.id if zone else _own_zone_id(wanted, group))


def _own_zone_id(wanted: StorageWanted, group: str) -> str:
    own = group_scope(wanted.subscription_id, wanted.group)
    return arm.zone_id(own, arm.zone_name(group, wanted.storage_suffix))


def _zone(wanted: StorageWanted, look: StorageLook, group: str, vnet: str) -> DnsZone | None:
    """Choose among the zones that are there: the network's own, then our group's, then any.

    A network can be linked to one zone of a name only, so a linked one leaves no choice.
    """
    name = arm.zone_name(group, wanted.storage_suffix)
    zones = [z for z in look.dns_zones or () if z.name.casefold() == name.casefold()]
    linked = [z for z in zones if _is_linked(z, vnet)]
    own = [z for z in zones if same_id(z.id, _own_zone_id(wanted, group))]
    return next(iter([*linked, *own, *zones]), None)


def _is_linked(zone: DnsZone, vnet: str) -> bool:
    return any(same_id(linked, vnet) for linked in zone.vnet_ids or ())


def _zone_steps(
    wanted: StorageWanted, zone: DnsZone | None, group: str, vnet: str, *, unread: bool
) -> Iterator[Step]:
    zone_id = zone.id if zone else _own_zone_id(wanted, group)
    zone_step = write_step(
        "create", DNS_ZONE, arm.zone_write(zone_id, stage=STAGE_ACCOUNT), f"for {group} names"
    )
    taken = zone.link_names if zone else ()
    link = arm.zone_link_write(zone_id, vnet, stage=STAGE_BLOB_SERVICE, taken=taken)
    link_step = write_step("create", DNS_LINK, link, f"{name_of(vnet)} resolves {group} names")
    if unread:
        yield refused_step(
            zone_step, "The private DNS zones could not be read; one of its name may exist."
        )
        return
    yield kept_step(zone_step) if zone else zone_step
    if zone is None or zone.vnet_ids is not None:
        yield kept_step(link_step) if zone and _is_linked(zone, vnet) else link_step
    else:
        yield kept_step(link_step, "The zone's links could not be read.")


def _found_endpoint(
    target: Target, look: StorageLook, group: str, subnet: str
) -> PrivateEndpoint | None:
    account = account_id(target.wanted)
    return next(
        (
            e
            for e in look.endpoints or ()
            if same_id(e.target_id, account)
            and same_id(e.subnet_id, subnet)
            and group in [g.casefold() for g in e.group_ids]
        ),
        None,
    )


def _endpoint(target: Target, look: StorageLook, group: str, subnet: str) -> Step:
    account = account_id(target.wanted)
    location = region_key(look.vnet_location or target.wanted.location)
    write = arm.endpoint_write(account, group, subnet, location, stage=STAGE_ENDPOINTS[group])
    if group == "dfs":
        write = structs.replace(write, after=(arm.endpoint_id(account, "blob"),))
    step = write_step("create", ENDPOINT, write, f"{group}, in {name_of(subnet)}")
    found = _found_endpoint(target, look, group, subnet)
    if found is not None:
        return kept_step(_named(step, found), _endpoint_state(found))
    if look.endpoints is None:
        return refused_step(
            step, "The private endpoints could not be read; one of its name may exist."
        )
    foreign = [e for e in look.endpoints if same_id(e.id, write.resource_id)]
    return refused_step(step, _in_use(foreign[0])) if foreign else step


def _in_use(endpoint: PrivateEndpoint) -> str:
    if endpoint.target_id is None:
        return "An endpoint of its name is there, and could not be read."
    return f"Its name is in use, for {endpoint.target_id} in {endpoint.subnet_id}."


def _named(step: Step, found: PrivateEndpoint) -> Step:
    """Return the step for the endpoint that is there, whatever its name."""
    if not isinstance(step.wanted, ArmWrite):
        return step
    write = structs.replace(step.wanted, resource_id=found.id)
    return structs.replace(step, name=found.name, resource_id=found.id, wanted=write)


def _endpoint_state(found: PrivateEndpoint) -> str:
    if found.state is None or found.state.casefold() == "approved":
        return THERE
    return f"It is there, but its connection is {found.state}."


def _zone_group(found: PrivateEndpoint | None, endpoint: Step, zone: str) -> Step:
    resource_id = endpoint.resource_id or ""
    write = arm.zone_group_write(resource_id, zone, stage=STAGE_ZONE_GROUPS)
    step = structs.replace(
        write_step("create", DNS_ZONE_GROUP, write, f"{endpoint.name} in {name_of(zone)}"),
        name=f"{endpoint.name}/default",
    )
    if found is None:
        return step
    if found.zone_ids is None:
        return kept_step(step, "The zone groups could not be read.")
    return kept_step(step) if found.zone_ids else step
