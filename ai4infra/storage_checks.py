"""What can be said of a wanted storage account before anything is looked at."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from ai4infra import classification, lifecycle
from ai4infra.errors import UsageError
from ai4infra.model import StorageWanted
from ai4infra.storage_names import check_account_name, check_container_name

STANDARD: Final = ("LRS", "ZRS", "GRS", "RAGRS", "GZRS", "RAGZRS")
DEFAULT_SOFT_DELETE_DAYS: Final = 7
PREMIUM: Final = ("LRS", "ZRS")
# https://learn.microsoft.com/azure/storage/common/storage-network-security-limitations
MAX_NETWORK_RULES: Final = 400
# https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources
MAX_TAGS: Final = 50
MAX_TAG_NAME: Final = 128
MAX_TAG_VALUE: Final = 256
_TAG_FORBIDDEN: Final = frozenset("<>%&\\?/")
# https://learn.microsoft.com/rest/api/resources/tags
_TAG_RESERVED: Final = ("microsoft", "azure", "windows")

_SUBNET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network"
    r"/virtualNetworks/[^/]+/subnets/[^/]+/?",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.ManagedIdentity"
    r"/userAssignedIdentities/[^/]+/?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\d.]+(/(0|[1-9]\d?))?", re.ASCII)
_KEY_PATH = re.compile(r"/keys/[0-9A-Za-z-]+(/[0-9a-fA-F]{32})?/?", re.ASCII)


def parse_sku(text: str | None, *, premium: bool = False) -> str | None:
    """Return the SKU's full name: ``zrs`` is Standard_ZRS, or Premium_ZRS where premium is asked.

    None stays None unless premium is asked. Raises UsageError for a SKU that does not exist, with
    those that do, and for premium with a redundancy that premium does not have.
    """
    if text is None:
        return "Premium_LRS" if premium else None
    tier, _, redundancy = text.strip().rpartition("_")
    is_premium = premium or tier.casefold() == "premium"
    known = PREMIUM if is_premium else STANDARD
    contradicts = premium and tier.casefold() == "standard"
    if tier.casefold() in ("", "standard", "premium") and not contradicts:
        for name in known:
            if name == redundancy.upper().replace("-", ""):
                return f"{'Premium' if is_premium else 'Standard'}_{name}"
    kind = "a premium account" if is_premium else "an account"
    raise UsageError(f"{text!r} is no SKU of {kind}.", hint=f"There are {', '.join(known)}.")


def is_premium(sku: str | None) -> bool:
    """Tell whether a SKU is one of premium block blobs."""
    return (sku or "").casefold().startswith("premium")


def check_wanted(wanted: StorageWanted) -> None:
    """Raise UsageError, with the rule, for what no storage account can be.

    Looks at nothing but what is wanted; the classification's own contradictions are the plan's,
    since they need the account that is there.
    """
    check_account_name(wanted.account)
    for container in (*wanted.containers, *(r.container for r in wanted.lifecycles)):
        check_container_name(container)
    parse_sku(wanted.sku)
    if wanted.classification is not None:
        classification.level(wanted.classification)
    _check_network(wanted)
    _check_key(wanted)
    _check_protection(wanted)
    _check_lifecycles(wanted)
    _check_tags(wanted.tags)
    _check_level_tag(wanted)


def _check_network(wanted: StorageWanted) -> None:
    rules = (*wanted.allow_ips, *wanted.allow_subnets)
    if rules and wanted.network in ("open", "private"):
        reason = "everybody is" if wanted.network == "open" else "nobody from outside is"
        raise UsageError(
            f"With --network {wanted.network}, {reason} let in; the allowed {rules[0]} says else.",
            hint="Use --network restricted with --allow-ip and --allow-subnet.",
        )
    for subnet in filter(None, (*wanted.allow_subnets, wanted.endpoint_subnet)):
        _check_id(subnet, _SUBNET, "subnet", "az network vnet subnet show --query id")
    for address in wanted.allow_ips:
        check_address(address)
    if max(len(wanted.allow_ips), len(wanted.allow_subnets)) > MAX_NETWORK_RULES:
        raise UsageError(f"An account has at most {MAX_NETWORK_RULES} rules of a kind.")


def check_address(text: str) -> None:
    """Raise UsageError unless an account's network rules can hold this address or range.

    They hold public IPv4 only, and no ranges of one or two addresses
    (https://learn.microsoft.com/azure/storage/common/storage-network-security-limitations).
    """
    try:
        # ipaddress takes netmasks and 024 as well; the service does not.
        network = ipaddress.IPv4Network(text if _ADDRESS.fullmatch(text) else "")
    except ValueError:
        raise UsageError(
            f"{text!r} is no IPv4 address or range.",
            hint="Write 203.0.113.7 or 203.0.113.0/24, the range by its first address.",
        ) from None
    if "/" in text and network.prefixlen > 30:
        raise UsageError(
            f"A range of {network.num_addresses} addresses ({text}) is not taken.",
            hint="Give each address by itself, without /31 or /32.",
        )
    if any(network.overlaps(ipaddress.IPv4Network(n)) for n in _NOT_PUBLIC):
        raise UsageError(
            f"{text} is private, or has addresses that are: the service sees only public ones.",
            hint="Let a virtual network in by --allow-subnet or --private-endpoint.",
        )


# https://www.iana.org/assignments/iana-ipv4-special-registry: addresses that no packet from
# outside comes from.
_NOT_PUBLIC: Final = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
)


def _check_id(text: str, pattern: re.Pattern[str], what: str, how: str) -> None:
    if not pattern.fullmatch(text):
        raise UsageError(f"{text!r} is no resource id of a {what}.", hint=f"See: {how}")


def _check_key(wanted: StorageWanted) -> None:
    if wanted.key_uri is None:
        if wanted.key_identity is not None:
            raise UsageError("An identity for the key is given, but no key.")
        return
    url = urlsplit(wanted.key_uri)
    if url.scheme != "https" or not url.hostname or not _KEY_PATH.fullmatch(url.path) or url.query:
        raise UsageError(
            f"{wanted.key_uri!r} is no URI of a key.",
            hint="Write https://VAULT.vault.azure.net/keys/NAME; without a version, rotation works",
        )
    if wanted.key_identity is None:
        raise UsageError(
            "A customer-managed key needs a user-assigned identity that may use it.",
            hint="The account's own identity does not exist before the account does.",
        )
    _check_id(wanted.key_identity, _IDENTITY, "user-assigned identity", "az identity show")


def _check_protection(wanted: StorageWanted) -> None:
    asked = {
        "blob versioning": wanted.versioning,
        "change feed": wanted.change_feed,
        "point-in-time restore": wanted.restore_days is not None,
    }
    clash = [name for name, is_asked in asked.items() if is_asked]
    if wanted.hns and clash:
        raise UsageError(
            f"An account with hierarchical namespace has no {' and no '.join(clash)}.",
            hint="Leave it off (soft delete works), or make an account without the namespace.",
        )
    days = wanted.soft_delete_days
    if days is not None and not 1 <= days <= 365:
        raise UsageError(f"Soft delete keeps data for 1 to 365 days, not {days}.")
    _check_restore(wanted)


def _check_restore(wanted: StorageWanted) -> None:
    if wanted.restore_days is None:
        return
    if not (wanted.versioning and wanted.change_feed):
        raise UsageError("Point-in-time restore needs versioning and the change feed.")
    if is_premium(wanted.sku):
        raise UsageError(
            "Premium block blobs have no point-in-time restore.", hint="Use a standard account."
        )
    kept = wanted.soft_delete_days or _least_soft_delete(wanted)
    if not 1 <= wanted.restore_days < kept:
        raise UsageError(
            f"Point-in-time restore needs fewer days ({wanted.restore_days}) than soft delete"
            f" keeps ({kept}), and at least one.",
            hint=f"Say --soft-delete-days {max(wanted.restore_days, 1) + 1} or more.",
        )


def _least_soft_delete(wanted: StorageWanted) -> int:
    level = classification.known_level(wanted.classification)
    return max(DEFAULT_SOFT_DELETE_DAYS, level.soft_delete_days if level else 0)


def _check_lifecycles(wanted: StorageWanted) -> None:
    names = Counter(lifecycle.rule_name(rule) for rule in wanted.lifecycles)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise UsageError(f"Two lifecycles are given for the same blobs (rule {twice[0]}).")
    for rule in wanted.lifecycles:
        if is_premium(wanted.sku) and rule.delete_after_days is None:
            raise UsageError(
                f"Premium block blobs have no cool tier: the lifecycle of {rule.container}"
                " would do nothing.",
                hint="Give days until deletion, or use a standard account.",
            )


def _check_tags(tags: dict[str, str]) -> None:
    if len(tags) > MAX_TAGS:
        raise UsageError(f"A resource has at most {MAX_TAGS} tags, not {len(tags)}.")
    twice = [k for k, n in Counter(k.casefold() for k in tags).items() if n > 1]
    if twice:
        raise UsageError(f"The tag {twice[0]} is given twice; case makes no difference.")
    for name, value in tags.items():
        _check_tag(name, value)


def _check_level_tag(wanted: StorageWanted) -> None:
    """Refuse to record a level whose demands nobody would look at."""
    tagged = classification.recorded(wanted.tags)
    if tagged is not None and tagged != classification.known_level(wanted.classification):
        raise UsageError(
            f"A tag alone does not make data {tagged.name}.",
            hint=f"Say --classification {tagged.name}: it sets the tag, and what it demands.",
        )


def _check_tag(name: str, value: str) -> None:
    wrong = sorted(_TAG_FORBIDDEN & set(name))
    if not name.strip() or wrong or not _printable((name, value)):
        raise UsageError(
            f"{name!r} cannot be a tag.",
            hint=f"A name has none of {' '.join(sorted(_TAG_FORBIDDEN))} and no control character.",
        )
    if name.casefold().startswith(_TAG_RESERVED):
        raise UsageError(
            f"{name!r} cannot be a tag.",
            hint=f"Names that begin with {', '.join(_TAG_RESERVED)} are Azure's own.",
        )
    if len(name) > MAX_TAG_NAME or len(value) > MAX_TAG_VALUE:
        raise UsageError(
            f"The tag {name[:20]} is too long.",
            hint=f"A name has at most {MAX_TAG_NAME} characters, a value {MAX_TAG_VALUE}.",
        )


def _printable(texts: Iterable[str]) -> bool:
    return not any(ord(c) < 32 or ord(c) == 127 for text in texts for c in text)
