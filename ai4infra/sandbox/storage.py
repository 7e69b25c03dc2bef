"""Microsoft.Storage: accounts, the check of their names, their keys, and the limit of accounts."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from typing import Any

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.catalogue import Region
from ai4infra.sandbox.compute import known_region
from ai4infra.sandbox.identity_of import with_identity
from ai4infra.sandbox.messages import (
    Response,
    ServiceFailure,
    answer,
    arm_time,
    empty,
    json_body,
)
from ai4infra.sandbox.storage_rules import (
    check_account,
    check_fixed,
    check_kind_change,
    check_name,
    check_properties,
    check_sku_change,
)
from ai4infra.sandbox.tracked import (
    GROUP,
    SUBSCRIPTION,
    above,
    delete,
    existing,
    found,
    id_to_write,
    keep,
    listed,
    location,
    merged,
    properties,
    rows,
    tags,
)
from ai4infra.sandbox.world import Operation, World

service = Service()
Row = dict[str, Any]

KIND = "Microsoft.Storage/storageAccounts"
CREATE_KIND = "create account"
RETRY_AFTER_SECONDS = 17
_PROVIDER = f"{SUBSCRIPTION}/providers/Microsoft.Storage"
ACCOUNT = f"{GROUP}/providers/{KIND}/{{account}}"
_OPERATION = f"{_PROVIDER}/locations/{{location}}/asyncoperations/{{id}}"
SERVICES = ("blob", "dfs", "file", "queue", "table", "web")


@service.route("POST", f"{_PROVIDER}/checkNameAvailability")
def check_name_availability(call: Call) -> Response:
    """Tell whether a name is free, with status 200 both ways; your own is AlreadyExists too."""
    name = str(json_body(call.request).get("name", ""))
    wrong = check_name(name)
    if wrong:
        return answer({"nameAvailable": False, "reason": "AccountNameInvalid", "message": wrong})
    if _owner(call.world, name) is None and name not in call.world.catalogue.storage["taken"]:
        return answer({"nameAvailable": True})
    message = f"The storage account named {name} is already taken."
    return answer({"nameAvailable": False, "reason": "AlreadyExists", "message": message})


@service.route("GET", f"{GROUP}/providers/{KIND}")
@service.route("GET", f"{_PROVIDER}/storageAccounts")
def list_accounts(call: Call) -> Response:
    """Answer with the accounts of the group or the subscription, in pages."""
    return listed(call, [shown(call, row) for row in rows(call.world, above(call), KIND)])


@service.route("GET", ACCOUNT)
def get_account(call: Call) -> Response:
    """Answer with one account."""
    return answer(shown(call, existing(call, KIND, call["account"])))


@service.route("PUT", ACCOUNT)
def put_account(call: Call) -> Response:
    """Begin to create an account, or update one that is there.

    A creation is 202 without a body; where it is to be asked for stands in ``Location``.
    """
    body = json_body(call.request)
    id_ = id_to_write(call, KIND, call["account"])
    _check_name(call)
    old = found(call.world, id_)
    place = location(call, body, KIND, old)
    if old is not None:
        return _updated(call, old, {**body, "tags": tags(body)})
    _check_free(call)
    row = with_identity(call, _new(call, id_, place, body), body)
    keep(call.world, row)
    return _started(call, row)


@service.route("PATCH", ACCOUNT)
def patch_account(call: Call) -> Response:
    """Update what the body names."""
    return _updated(call, existing(call, KIND, call["account"]), json_body(call.request))


@service.route("DELETE", ACCOUNT)
def delete_account(call: Call) -> Response:
    """Delete an account with everything in it: 200 when it was there, 204 when not."""
    return delete(call, KIND, call["account"])


@service.route("POST", f"{ACCOUNT}/listKeys")
def list_keys(call: Call) -> Response:
    """Answer with the keys, also where they are of no use; a log entry says that they were read."""
    row = existing(call, KIND, call["account"])
    keys = [
        {"creationTime": time, "keyName": name, "value": key_of(row, name), "permissions": "FULL"}
        for name, time in row["properties"]["keyCreationTime"].items()
    ]
    return answer({"keys": keys})


def key_of(row: Row, name: str = "key1") -> str:
    """Return a key of an account, which opens nothing but the sandbox."""
    seed = f"{row['id'].lower()}/{row['properties']['creationTime']}/{name}"
    return base64.b64encode(hashlib.sha512(seed.encode()).digest()).decode()


@service.route("GET", f"{_PROVIDER}/locations/{{location}}/usages")
def list_usages(call: Call) -> Response:
    """Answer with how many accounts the region has, and may have."""
    region = known_region(call, "locations/usages").name
    mine = rows(call.world, f"/subscriptions/{call.subscription}", KIND)
    row = {
        "unit": "Count",
        "currentValue": sum(one["location"] == region for one in mine),
        "limit": call.world.catalogue.storage["accounts_per_region"],
        "name": {"value": "StorageAccounts", "localizedValue": "Storage Accounts"},
    }
    return answer({"value": [row]})


@service.route("GET", _OPERATION)
def get_creation(call: Call) -> Response:
    """Answer 202 while an account is being created, then 200 with the account itself."""
    operation = call.world.state.operations.get(call["id"].lower())
    mine = (CREATE_KIND, call.subscription)
    if operation is None or (operation.kind, operation.subscription_id) != mine:
        raise ServiceFailure(404, "NotFound", f"The operation '{call['id']}' was not found.")
    _check_link(call)
    if operation.outcome is None:
        return empty(202, **_poll_headers(call, operation.id, call["location"]))
    row = found(call.world, operation.details["id"])
    return answer(shown(call, row)) if row else empty(204)


@service.finisher(CREATE_KIND)
def finish_creation(world: World, operation: Operation) -> None:
    """Make an account ready."""
    row = found(world, operation.details["id"])
    if row is not None:
        row["properties"]["provisioningState"] = "Succeeded"


def ready_account(call: Call) -> Row:
    """Return the account of the path for a call on what lies in it.

    Raises ServiceFailure where there is none, or where it is not ready.
    """
    row = found(call.world, id_to_write(call, KIND, call["account"]))
    if row is None:
        message = (
            "Can not perform requested operation on nested resource. Parent resource"
            f" '{call['account']}' not found."
        )
        raise ServiceFailure(404, "ParentResourceNotFound", message)
    if row["properties"]["provisioningState"] != "Succeeded":
        message = (
            "The storage account provisioning state must be 'Succeeded' before executing the"
            " operation."
        )
        raise ServiceFailure(409, "StorageAccountIsNotProvisioned", message)
    return row


def account_named(world: World, name: str) -> Row | None:
    """Return the account with a name, whoever's; None when there is none."""
    return next((row for row in rows(world, "", KIND) if row["name"] == name.lower()), None)


def shown(call: Call, row: Row) -> Row:
    """Return an account as Azure answers it: with endpoints, and the group in lower case."""
    inner = {
        **row["properties"],
        "primaryEndpoints": endpoints(call, row),
        "privateEndpointConnections": _connections(call.world, row),
    }
    if row["sku"]["name"].startswith("Standard_RA"):
        inner["secondaryEndpoints"] = endpoints(call, row, "-secondary")
    before, middle, rest = row["id"].partition("/resourceGroups/")
    group, _, last = rest.partition("/")
    return {**row, "id": f"{before}{middle}{group.lower()}/{last}", "properties": inner}


def endpoints(call: Call, row: Row, suffix: str = "") -> dict[str, str]:
    """Return where the data of an account is; served, blobs are at the sandbox's own address."""
    name = f"{row['name']}{suffix}"
    host = call.request.host
    domain = "core.windows.net"
    blob: Row = {}
    if host in ("localhost", "127.0.0.1"):
        domain = "sandbox.invalid"
        here = call.request.origin.replace("localhost", "127.0.0.1")
        blob = {"blob": f"{here}/{name}/"} if "blob" in _services(row) else {}
    return {**{one: f"https://{name}.{one}.{domain}/" for one in _services(row)}, **blob}


def _services(row: Row) -> tuple[str, ...]:
    only = {"FileStorage": ("file",), "BlockBlobStorage": ("blob", "dfs", "web")}
    if row["kind"] == "BlobStorage":
        return ("blob", "dfs", "table")
    return only.get(row["kind"], SERVICES)


def _connections(world: World, account: Row) -> list[Row]:
    mine = account["id"].lower()
    return [
        {
            "id": f"{account['id']}/privateEndpointConnections/{row['name']}",
            "name": row["name"],
            "type": f"{KIND}/privateEndpointConnections",
            "properties": {
                "provisioningState": "Succeeded",
                "privateEndpoint": {"id": row["id"]},
                "privateLinkServiceConnectionState": one["properties"][
                    "privateLinkServiceConnectionState"
                ],
            },
        }
        for row in rows(world, "", "Microsoft.Network/privateEndpoints")
        for one in row["properties"]["privateLinkServiceConnections"]
        if one["properties"]["privateLinkServiceId"].lower() == mine
    ]


def _check_name(call: Call) -> None:
    wrong = check_name(call["account"])
    if wrong:
        raise ServiceFailure(400, "AccountNameInvalid", wrong)


def _owner(world: World, name: str) -> str | None:
    """Return the id of the account that has a name."""
    row = account_named(world, name)
    return str(row["id"]) if row else None


def _check_free(call: Call) -> None:
    """Refuse a name that is in use: elsewhere in the subscription, or somebody else's.

    Somebody else's may be one that the check called free, since its account was just deleted.
    """
    name, world = call["account"], call.world
    owner = _owner(world, name)
    if owner and owner.lower().startswith(f"/subscriptions/{call.subscription}/"):
        message = f"The account {name} is already in another resource group in this subscription."
        raise ServiceFailure(409, "StorageAccountInAnotherResourceGroup", message)
    others = [one for one in world.catalogue.subscription_ids if one != call.subscription]
    released = any(world.is_held(f"account/{name}/{one}") for one in others)
    known = world.catalogue.storage
    if owner or released or name in (*known["taken"], *known["unavailable"]):
        message = f"The storage account named {name} is already taken."
        raise ServiceFailure(409, "StorageAccountAlreadyTaken", message)


def _new(call: Call, id_: str, place: str, body: Row) -> Row:
    wanted = properties(body)
    sku = (body.get("sku") or {}).get("name")
    kind = body.get("kind")
    check_account(call, kind, sku, wanted)
    region = call.world.catalogue.regions[place]
    _check_sku_here(region, str(sku))
    return {
        "sku": _sku(str(sku)),
        "kind": kind,
        "id": id_,
        "name": call["account"],
        "type": KIND,
        "location": place,
        "tags": tags(body),
        "properties": _properties(call, region, str(kind), str(sku), wanted),
    }


def _sku(name: str) -> Row:
    return {"name": name, "tier": name.partition("_")[0]}


def _check_sku_here(region: Region, sku: str) -> None:
    if "ZRS" in sku and not region.zones:
        message = f"The account type {sku} is not supported in the location {region.name}."
        raise ServiceFailure(400, "AccountTypeNotSupportedInLocation", message)


def _properties(call: Call, region: Region, kind: str, sku: str, wanted: Row) -> Row:
    """Return what an account says of itself; what was not sent is insecure or not said at all."""
    now = arm_time(call.world.now())
    told = {
        "keyCreationTime": {"key1": now, "key2": now},
        "minimumTlsVersion": "TLS1_0",
        "allowBlobPublicAccess": True,
        "supportsHttpsTrafficOnly": call.query["api-version"] >= "2019-04-01",
        **_plain(wanted),
        "networkAcls": _network(wanted),
        "encryption": _encryption(wanted, now),
        "provisioningState": "Creating",
        "creationTime": now,
        **_places(call.world, region, sku),
    }
    tier = "Premium" if sku.startswith("Premium") else "Hot"
    return told if kind == "Storage" else {"accessTier": tier, **told}


def _plain(wanted: Row) -> Row:
    """Return what is kept as it was sent."""
    ours = ("networkAcls", "encryption", "provisioningState", "creationTime", "keyCreationTime")
    return {name: value for name, value in wanted.items() if name not in ours and value is not None}


def _network(wanted: Row) -> Row:
    default: Row = {
        "bypass": "AzureServices",
        "virtualNetworkRules": [],
        "ipRules": [],
        "defaultAction": "Allow",
    }
    told = {**default, **(wanted.get("networkAcls") or {})}
    told["virtualNetworkRules"] = [
        {"action": "Allow", "state": "Succeeded", **rule}
        for rule in told["virtualNetworkRules"] or []
    ]
    told["ipRules"] = [{"action": "Allow", **rule} for rule in told["ipRules"] or []]
    return told


def _encryption(wanted: Row, now: str) -> Row:
    given = wanted.get("encryption") or {}
    on = {"keyType": "Account", "enabled": True, "lastEnabledTime": now}
    services = {name: {**on, **(given.get("services") or {}).get(name, {})} for name in _ENCRYPTED}
    return {"keySource": "Microsoft.Storage", **given, "services": services}


_ENCRYPTED = ("file", "blob")


def _places(world: World, region: Region, sku: str) -> Row:
    told = {"primaryLocation": region.name, "statusOfPrimary": "available"}
    if "GRS" not in sku and "GZRS" not in sku:
        return told
    other = world.catalogue.storage["paired"][region.name]
    return {**told, "secondaryLocation": other, "statusOfSecondary": "available"}


def _updated(call: Call, row: Row, body: Row) -> Response:
    wanted = properties(body)
    if row["properties"]["provisioningState"] == "Creating":
        raise operation_in_progress()
    sku = (body.get("sku") or {}).get("name")
    check_fixed(row["properties"], wanted)
    check_kind_change(row["kind"], body.get("kind"))
    check_sku_change(row["kind"], row["sku"]["name"], sku)
    check_properties(call, wanted)
    with_identity(call, row, body)
    _change(call, row, body, wanted, sku)
    return answer(shown(call, row))


def _change(call: Call, row: Row, body: Row, wanted: Row, sku: Any) -> None:
    told = row["properties"]
    encryption = merged(told["encryption"], wanted.get("encryption") or {})
    network = merged(told["networkAcls"], wanted.get("networkAcls") or {})
    told.update(_plain(wanted))
    told["encryption"], told["networkAcls"] = encryption, _network({"networkAcls": network})
    row["kind"] = body.get("kind") or row["kind"]
    if body.get("tags") is not None:
        row["tags"] = tags(body)
    if sku:
        row["sku"] = _sku(sku)
        told.pop("secondaryLocation", None), told.pop("statusOfSecondary", None)
        told.update(_places(call.world, call.world.catalogue.regions[row["location"]], sku))


def operation_in_progress() -> ServiceFailure:
    """Build the error for an account that something else is being done to."""
    message = (
        "An operation is currently performing on this storage account that requires exclusive"
        " access."
    )
    return ServiceFailure(409, "StorageAccountOperationInProgress", message)


def _started(call: Call, row: Row) -> Response:
    seconds = call.world.catalogue.storage["create_seconds"]
    operation = call.world.start_operation(CREATE_KIND, call.subscription, seconds, id=row["id"])
    if call.world.instant:
        row["properties"]["provisioningState"] = "Succeeded"
        return answer(shown(call, row))
    return empty(202, **_poll_headers(call, operation.id, row["location"]))


def _poll_headers(call: Call, id_: str, place: str) -> dict[str, str]:
    path = _OPERATION.format(subscription=call.subscription, location=place, id=id_)
    ticks = _ticks(call.world.now()) + len(call.world.log)
    parts = {"t": str(ticks), **_signature(id_, str(ticks))}
    signed = "&".join(f"{name}={value}" for name, value in parts.items())
    version = call.query["api-version"]
    return {
        "location": f"{call.request.origin}{path}?monitor=true&api-version={version}&{signed}",
        "retry_after": str(RETRY_AFTER_SECONDS),
        "content_type": "text/plain; charset=utf-8",
    }


def _ticks(moment: datetime) -> int:
    """Return a time in .NET's ticks of 100 ns since the year 1."""
    return int((moment.timestamp() + 62_135_596_800) * 10**7)


def _signature(id_: str, ticks: str) -> dict[str, str]:
    """Return the rest of a link's query: as long as Azure's, good for this link only."""
    return {
        "c": _filler("certificate", 2700),
        "s": _filler(f"{id_}/{ticks}/s", 342),
        "h": _filler(f"{id_}/{ticks}/h", 43),
    }


def _filler(seed: str, length: int) -> str:
    raw = hashlib.shake_128(seed.encode()).digest(length)
    return base64.urlsafe_b64encode(raw).decode()[:length]


def _check_link(call: Call) -> None:
    """Refuse a link that was cut or changed; one without a signature is an older client's."""
    given = {name: call.query[name] for name in ("t", "c", "s", "h") if name in call.query}
    expected = {"t": given.get("t"), **_signature(call["id"].lower(), given.get("t", ""))}
    if given and given != expected:
        message = "The address of the operation was cut or changed; use Location as it was sent."
        raise ServiceFailure(400, "SandboxBrokenLink", message)
