"""What Microsoft.Storage accepts in an account, and with which code it refuses the rest.

Codes follow the service's reference (https://learn.microsoft.com/rest/api/storagerp/) and answers
that it has been seen to give.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Any

from ai4infra.sandbox.app import Call
from ai4infra.sandbox.messages import ServiceFailure
from ai4infra.sandbox.tracked import found

Row = dict[str, Any]

_STANDARD = ("Standard_LRS", "Standard_GRS", "Standard_RAGRS")
_ZONAL = ("Standard_ZRS", "Standard_GZRS", "Standard_RAGZRS")
_PREMIUM = ("Premium_LRS", "Premium_ZRS")
SKUS = {
    "StorageV2": (*_STANDARD, *_ZONAL, *_PREMIUM),
    "BlockBlobStorage": _PREMIUM,
    "FileStorage": _PREMIUM,
    "BlobStorage": _STANDARD,
    "Storage": (*_STANDARD, "Premium_LRS"),
}
"""Kind to the SKUs that it comes in."""
_VALUES: dict[str, tuple[Any, ...]] = {
    "minimumTlsVersion": ("TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3"),
    "publicNetworkAccess": ("Enabled", "Disabled", "SecuredByPerimeter"),
    "accessTier": ("Hot", "Cool", "Cold", "Smart", "Premium"),
    "supportsHttpsTrafficOnly": (True, False),
    "allowBlobPublicAccess": (True, False),
    "allowSharedKeyAccess": (True, False),
    "allowCrossTenantReplication": (True, False),
    "defaultToOAuthAuthentication": (True, False),
    "isHnsEnabled": (True, False),
    "isSftpEnabled": (True, False),
    "isLocalUserEnabled": (True, False),
    "isNfsV3Enabled": (True, False),
}
_FIXED = ("isHnsEnabled", "isNfsV3Enabled")


def check_name(name: str) -> str | None:
    """Return what is wrong with an account's name, None when nothing is."""
    if re.fullmatch(r"[a-z0-9]{3,24}", name):
        return None
    return (
        f"{name} is not a valid storage account name. Storage account name must be between 3 and"
        " 24 characters in length and use numbers and lower-case letters only."
    )


def check_account(call: Call, kind: Any, sku: Any, wanted: Row) -> None:
    """Refuse what no account can be."""
    if kind not in SKUS:
        raise not_allowed("kind", kind)
    if sku not in {one for skus in SKUS.values() for one in skus}:
        raise ServiceFailure(400, "InvalidAccountType", f"The AccountType {sku} is invalid.")
    if sku not in SKUS[kind]:
        raise not_allowed("kind", kind)
    check_properties(call, wanted)
    _check_hns(kind, sku, wanted)


def check_properties(call: Call, wanted: Row) -> None:
    """Refuse values that a property does not have, and network rules that are none."""
    for name, values in _VALUES.items():
        # True equals 1 in Python, but not in JSON.
        if name in wanted and (type(wanted[name]), wanted[name]) not in _typed(values):
            raise not_allowed(name, wanted[name])
    _check_network(call, wanted.get("networkAcls") or {})
    _check_key(wanted.get("encryption") or {})


def _typed(values: tuple[Any, ...]) -> list[tuple[type, Any]]:
    return [(type(value), value) for value in values]


def not_allowed(name: str, value: Any) -> ServiceFailure:
    """Build the error for a value that a property cannot have."""
    message = f"The value '{value}' is not allowed for property {name}."
    link = " For more information, see - https://aka.ms/storageaccounthns"
    extra = link if name == "isHnsEnabled" else ""
    return ServiceFailure(400, "InvalidRequestPropertyValue", f"{message}{extra}")


def _check_hns(kind: str, sku: str, wanted: Row) -> None:
    able = kind == "BlockBlobStorage" or (kind == "StorageV2" and sku.startswith("Standard"))
    if wanted.get("isHnsEnabled") and not able:
        raise not_allowed("isHnsEnabled", True)
    if wanted.get("isSftpEnabled") and not wanted.get("isHnsEnabled"):
        raise not_allowed("isSftpEnabled", True)


def check_fixed(old: Row, wanted: Row) -> None:
    """Refuse to change what is fixed when an account is created."""
    for name in _FIXED:
        if name in wanted and bool(wanted[name]) != bool(old.get(name)):
            raise cannot_be_updated(name)
    new = (wanted.get("encryption") or {}).get("requireInfrastructureEncryption")
    there = old["encryption"].get("requireInfrastructureEncryption")
    if new is not None and bool(new) != bool(there):
        raise cannot_be_updated("requireInfrastructureEncryption")


def cannot_be_updated(name: str) -> ServiceFailure:
    """Build the error for a property that is fixed at creation."""
    message = (
        f"The property '{name}' was specified in the input, but it cannot be updated as it is"
        " read-only. For more information, see - https://aka.ms/storageaccountupdate"
    )
    return ServiceFailure(400, "AccountPropertyCannotBeUpdated", message)


def check_kind_change(old: str, new: Any) -> None:
    """Refuse a change of kind, but for the upgrade to StorageV2."""
    if new is not None and new != old and not (new == "StorageV2" and old in _UPGRADED):
        raise cannot_be_updated("kind")


_UPGRADED = ("Storage", "BlobStorage")


def check_sku_change(kind: str, old: str, new: Any) -> None:
    """Refuse a change of SKU that takes a conversion or another account."""
    if new is None or new == old:
        return
    if new not in SKUS[kind]:
        raise ServiceFailure(400, "InvalidAccountType", f"The AccountType {new} is invalid.")
    if _redundancy_class(old) != _redundancy_class(str(new)):
        message = f"Storage account type conversion from '{old}' to '{new}' is not allowed."
        raise ServiceFailure(400, "StorageAccountTypeConversionNotAllowed", message)


def _redundancy_class(sku: str) -> tuple[bool, bool]:
    return sku.startswith("Premium"), "ZRS" in sku


def _check_network(call: Call, acls: Row) -> None:
    if acls.get("defaultAction") not in (None, "Allow", "Deny"):
        raise not_allowed("networkAcls.defaultAction", acls["defaultAction"])
    for rule in acls.get("ipRules") or []:
        if not _is_public(str(rule.get("value"))):
            message = "Values for request parameters are invalid: networkAcls.ipRule[*].value."
            link = " For more information, see - https://aka.ms/storagenetworkruleset"
            raise ServiceFailure(400, "InvalidValuesForRequestParameters", message + link)
    for rule in acls.get("virtualNetworkRules") or []:
        _check_subnet(call, str(rule.get("id")))


def _is_public(text: str) -> bool:
    """Tell whether the firewall takes a range: public, and no /31 or /32 with a slash."""
    try:
        network = IPv4Network(text)
    except (AddressValueError, NetmaskValueError, ValueError):
        return False
    small = "/" in text and network.prefixlen > 30
    # RFC 1918 only: the service takes other special ranges, such as those for documentation.
    private = any(network.overlaps(IPv4Network(one)) for one in _PRIVATE)
    return not small and not private


_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


def _check_subnet(call: Call, id_: str) -> None:
    subnet = found(call.world, id_)
    name, network = id_.rpartition("/")[2], id_.rpartition("/subnets/")[0].rpartition("/")[2]
    if subnet is None:
        _acl_failure(f"SubnetsNotFound:Subnet {name} of virtual network {network} is not found.")
    endpoints = (subnet or {}).get("properties", {}).get("serviceEndpoints") or []
    services = {str(one.get("service", "")).lower() for one in endpoints}
    if not services & {"microsoft.storage", "microsoft.storage.global"}:
        _acl_failure(
            f"SubnetsHaveNoServiceEndpointsConfigured:Subnets {name} of virtual network {network}"
            " do not have ServiceEndpoints for Microsoft.Storage resources configured. Add"
            " Microsoft.Storage to subnet's ServiceEndpoints collection before trying to ACL"
            " Microsoft.Storage resources to these subnets.."
        )


def _acl_failure(detail: str) -> None:
    message = f"Validation of network acls failure: {detail}"
    raise ServiceFailure(400, "NetworkAclsValidationFailure", message)


def _check_key(encryption: Row) -> None:
    source = encryption.get("keySource")
    if source not in (None, "Microsoft.Storage", "Microsoft.Keyvault"):
        message = f"The encryption key source '{source}' is unknown."
        raise ServiceFailure(400, "UnknownEncryptionKeySource", message)
    key = encryption.get("keyvaultproperties") or {}
    if source == "Microsoft.Keyvault" and not (key.get("keyname") and key.get("keyvaulturi")):
        raise not_allowed("encryption.keyvaultproperties", "")
