"""Names and scopes of storage and identity: check, derive, parse, build. Nothing is looked up."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Final, Literal

from ai4infra.errors import UsageError
from ai4infra.ids import is_uuid
from ai4infra.model import Record

ScopeKind = Literal["root", "management group", "subscription", "resource group", "resource"]
WhoKind = Literal["me", "vm", "vmss", "identity", "resource", "object"]
PrincipalType = Literal["User", "Group", "ServicePrincipal"]

RESERVED_CONTAINERS: Final = ("$root", "$web", "$logs", "$blobchangefeed")
WHO_FORMS: Final = (
    "WHO is me, vm:GROUP/NAME, vmss:GROUP/NAME, identity:GROUP/NAME, a resource id, or"
    " id:OBJECT_ID:User, :Group or :ServicePrincipal."
)

_DEFAULT_PREFIX: Final = "staitraining"
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}", re.ASCII)
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_GROUP = re.compile(r"[\w().-]{0,89}[\w()-]")
_SEGMENT = re.compile(r"[^/\s?#%]+(?: [^/\s?#%]+)*")
_PREFIX = re.compile(r"https?://[^/]+/(?:#@[^/]*/resource/)?", re.IGNORECASE)
_PRINCIPAL_TYPES: Final[dict[str, PrincipalType]] = {
    "user": "User",
    "group": "Group",
    "serviceprincipal": "ServicePrincipal",
}
_KINDS: Final[dict[str, WhoKind]] = {"vm": "vm", "vmss": "vmss", "identity": "identity"}
_TYPES: Final[dict[WhoKind, str]] = {
    "vm": "Microsoft.Compute/virtualMachines",
    "vmss": "Microsoft.Compute/virtualMachineScaleSets",
    "identity": "Microsoft.ManagedIdentity/userAssignedIdentities",
}


class Scope(Record, frozen=True):
    """A scope of Azure, taken apart; case is kept as it was given."""

    id: str
    """With a slash in front and none at the end."""
    kind: ScopeKind
    subscription_id: str | None = None
    """In lower case."""
    group: str | None = None
    resource_type: str | None = None
    """``Microsoft.Storage/storageAccounts/blobServices/containers``."""
    names: tuple[str, ...] = ()
    """Names of a resource, outermost first; of a management group, its id."""

    @property
    def key(self) -> str:
        """The id on which scopes compare."""
        return self.id.casefold()

    @property
    def name(self) -> str | None:
        """The innermost name."""
        return self.names[-1] if self.names else self.group or self.subscription_id

    def covers(self, other: Scope) -> bool | None:
        """Tell whether a role here holds there too; None where a management group decides it."""
        if self.kind == "root" or self.key == other.key:
            return True
        if self.kind == "management group":
            return False if other.kind == "root" else None
        return other.key.startswith(self.key + "/")


class Who(Record, frozen=True):
    """Somebody or something that gets a role, as named on the command line."""

    text: str
    """As typed."""
    kind: WhoKind
    group: str | None = None
    name: str | None = None
    resource_id: str | None = None
    object_id: str | None = None
    """In lower case."""
    principal_type: PrincipalType | None = None
    """None where it was not given and the kind does not tell it."""

    def resource_in(self, subscription_id: str) -> str | None:
        """Return the ARM id of the resource meant, None for ``me`` and object ids."""
        if self.resource_id or self.group is None or self.name is None:
            return self.resource_id
        return resource_id(subscription_id, self.group, _TYPES[self.kind], self.name)


# ---- names ---------------------------------------------------------------------------------


def check_account_name(name: str) -> str:
    """Return a storage account's name; UsageError with the rule for what Azure would refuse."""
    if _ACCOUNT.fullmatch(name):
        return name
    rule = "a storage account's name is 3 to 24 lower-case letters and digits"
    close = re.sub(r"[^a-z0-9]", "", name.lower())[:24]
    raise _refused("storage account", name, rule, close if _ACCOUNT.fullmatch(close) else None)


def default_account_name(subscription_id: str, group: str) -> str:
    """Return the account name that a subscription and a resource group always get.

    ``staitraining`` and the first 8 hex digits of the SHA-256 of ``subscription/group`` in lower
    case: the same on every machine and in every release.
    """
    text = f"{subscription_id.strip()}/{group.strip()}".lower()
    return _DEFAULT_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:8]


def check_container_name(name: str) -> str:
    """Return a container's name; UsageError with the rule for what Azure would refuse."""
    if name.lower() in RESERVED_CONTAINERS:
        raise UsageError(
            f"The container {name!r} is reserved: Azure makes and uses it itself.",
            hint="Choose a name of lower-case letters, digits and single hyphens.",
        )
    if _CONTAINER.fullmatch(name):
        return name
    rule = (
        "a container's name is 3 to 63 lower-case letters, digits and single hyphens, and begins"
        " and ends with a letter or digit"
    )
    close = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")
    raise _refused("container", name, rule, close if _CONTAINER.fullmatch(close) else None)


def known_container(name: str) -> str:
    """Return the name of a container that is there: one that Azure makes itself counts too."""
    return name if name in RESERVED_CONTAINERS else check_container_name(name)


def check_group_name(name: str) -> str:
    """Return a resource group's name; UsageError with the rule for what Azure would refuse."""
    if _GROUP.fullmatch(name):
        return name
    rule = (
        "a resource group's name is 1 to 90 letters, digits, underscores, hyphens, periods and"
        " parentheses, and does not end with a period"
    )
    raise _refused("resource group", name, rule, None)


def _refused(what: str, name: str, rule: str, close: str | None) -> UsageError:
    """Build the error for a name that breaks a rule, with one that keeps it if there is one."""
    hint = f"{close} would do." if close else None
    return UsageError(f"{name!r} cannot be a {what}: {rule}.", hint=hint)


# ---- scopes --------------------------------------------------------------------------------


def subscription_scope(subscription_id: str) -> str:
    """Return the ARM id of a subscription."""
    return f"/subscriptions/{subscription_id}"


def group_scope(subscription_id: str, group: str) -> str:
    """Return the ARM id of a resource group."""
    return f"{subscription_scope(subscription_id)}/resourceGroups/{group}"


def resource_id(subscription_id: str, group: str, resource_type: str, *names: str) -> str:
    """Return the ARM id of a resource; its type has as many parts after the provider as names."""
    provider, *types = resource_type.split("/")
    if len(types) != len(names):
        raise ValueError(f"{resource_type} takes {len(types)} names, not {len(names)}")
    pairs = "".join(f"/{kind}/{name}" for kind, name in zip(types, names, strict=True))
    return f"{group_scope(subscription_id, group)}/providers/{provider}{pairs}"


def account_scope(subscription_id: str, group: str, account: str) -> str:
    """Return the ARM id of a storage account."""
    return resource_id(subscription_id, group, "Microsoft.Storage/storageAccounts", account)


def container_scope(subscription_id: str, group: str, account: str, container: str) -> str:
    """Return the ARM id of a blob container, on which roles can be assigned."""
    account_id = account_scope(subscription_id, group, account)
    return f"{account_id}/blobServices/default/containers/{container}"


def scope_key(scope: str) -> str:
    """Return the key on which scopes compare, however they are spelt."""
    return parse_scope(scope).key


def parse_scope(text: str) -> Scope:
    """Take a scope apart: an ARM id, with or without its slashes, or its address in the portal.

    Raises UsageError for what is no scope.
    """
    bare = _PREFIX.sub("", text.strip(), count=1).strip("/")
    if not bare:
        if text.strip() == "/":
            return Scope(id="/", kind="root")
        raise _no_scope(text)
    parts = bare.split("/")
    if not all(_SEGMENT.fullmatch(part) for part in parts):
        raise _no_scope(text)
    return _scope_of(parts, text)


def _scope_of(parts: list[str], text: str) -> Scope:
    lower = [part.casefold() for part in parts]
    whole = "/" + "/".join(parts)
    if lower[:2] == ["providers", "microsoft.management"]:
        if len(parts) == 4 and lower[2] == "managementgroups":
            return Scope(id=whole, kind="management group", names=(parts[3],))
        raise _no_scope(text)
    if lower[0] != "subscriptions" or len(parts) < 2 or not is_uuid(parts[1]):
        raise _no_scope(text)
    subscription = parts[1].lower()
    if len(parts) == 2:
        return Scope(id=whole, kind="subscription", subscription_id=subscription)
    group, rest = (parts[3], parts[4:]) if _has_group(lower) else (None, parts[2:])
    if group and not rest:
        return Scope(id=whole, kind="resource group", subscription_id=subscription, group=group)
    resource_type, names = _resource(rest, text)
    return Scope(
        id=whole,
        kind="resource",
        subscription_id=subscription,
        group=group,
        resource_type=resource_type,
        names=names,
    )


def _has_group(lower: list[str]) -> bool:
    return len(lower) >= 4 and lower[2] == "resourcegroups"


def _resource(rest: list[str], text: str) -> tuple[str, tuple[str, ...]]:
    """Split ``providers/Namespace/type/name…``; an extension's own provider counts as well."""
    if len(rest) < 4 or len(rest) % 2 or rest[0].casefold() != "providers":
        raise _no_scope(text)
    last = max(i for i in range(0, len(rest), 2) if rest[i].casefold() == "providers")
    inner = rest[last:]
    if len(inner) < 4:
        raise _no_scope(text)
    return "/".join([inner[1], *inner[2::2]]), tuple(inner[3::2])


def _no_scope(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a scope.",
        hint="A scope is /subscriptions/ID, /subscriptions/ID/resourceGroups/NAME, or the id of"
        " a resource.",
    )


# ---- who -----------------------------------------------------------------------------------


def parse_who(text: str) -> Who:
    """Parse who gets a role; ``WHO_FORMS`` are the forms. Raises UsageError for all others."""
    stripped = text.strip()
    head, colon, rest = stripped.partition(":")
    kind = head.casefold()
    if kind == "me" and not colon:
        return Who(text=text, kind="me")
    if kind == "id" and colon:
        return _object_id(text, rest)
    if colon and kind in _KINDS:
        return _named(text, _KINDS[kind], rest)
    if "/" in stripped and stripped.lstrip("/").casefold().startswith("subscriptions/"):
        return _resource_who(text)
    raise UsageError(f"{text!r} does not say who.", hint=_who_hint(stripped))


def _object_id(text: str, rest: str) -> Who:
    value, colon, kind = rest.partition(":")
    principal_type = _PRINCIPAL_TYPES.get(kind.casefold())
    if colon and principal_type is None:
        raise UsageError(
            f"{kind!r} is not a type of principal.", hint="It is User, Group or ServicePrincipal."
        )
    if not is_uuid(value):
        raise UsageError(
            f"{value!r} is not an object id.",
            hint="az ad user show, az ad group show and az ad sp show print it as id; a client id"
            " (appId) is something else.",
        )
    return Who(text=text, kind="object", object_id=value.lower(), principal_type=principal_type)


def _named(text: str, kind: WhoKind, rest: str) -> Who:
    group, slash, name = rest.partition("/")
    if not slash or not name or "/" in name:
        raise UsageError(f"{text!r} needs a resource group and a name: {kind}:GROUP/NAME.")
    if not _SEGMENT.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a resource.")
    return Who(
        text=text,
        kind=kind,
        group=check_group_name(group),
        name=name,
        principal_type="ServicePrincipal",
    )


def _resource_who(text: str) -> Who:
    scope = parse_scope(text)
    if scope.kind != "resource":
        raise UsageError(
            f"A {scope.kind} has no identity: {text!r} cannot get a role.", hint=WHO_FORMS
        )
    return Who(
        text=text,
        kind="resource",
        group=scope.group,
        name=scope.name,
        resource_id=scope.id,
        principal_type="ServicePrincipal",
    )


def _who_hint(text: str) -> str:
    if is_uuid(text):
        return f"For an object id say id:{text}:User, :Group or :ServicePrincipal."
    if "@" in text:
        return (
            f"Names are not looked up: az ad user show --id {text} --query id prints the object id"
            " for id:OBJECT_ID:User."
        )
    return WHO_FORMS


def assignment_name(scope: str, principal_id: str, role_guid: str) -> str:
    """Return the name that the assignment of a role to a principal at a scope always gets.

    UUID version 5, in the URL namespace, of scope, principal and role in lower case with ``|``
    between: running again asks for the same assignment.
    """
    text = "|".join((scope_key(scope), principal_id.lower(), role_guid.lower()))
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))
