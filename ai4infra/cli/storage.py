"""``ai4infra storage``: accounts that are right the first time, checked, and sized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ai4infra.cli import complete
from ai4infra.cli.options import (
    SETTINGS,
    Command,
    F,
    Group,
    HintedUsage,
    Lazy,
    Options,
    common,
    filled,
    listed,
    switch,
    unknown_choice,
    whole,
)
from ai4infra.cli.plans import run_plan
from ai4infra.cli.start import started

if TYPE_CHECKING:
    from ai4infra.client import Azure
    from ai4infra.client_storage import Access
    from ai4infra.model import Receipt, StorageAccount, StorageLook, StorageWanted
    from ai4infra.render import Column, Page

COMMANDS = {
    "audit": Lazy("ai4infra.cli.storage_audit:audit", "Hold accounts against the checklist."),
    "advise": Lazy("ai4infra.cli.storage_advise:advise", "Which storage feeds these GPUs."),
}
EXAMPLES = """
ai4infra storage create
ai4infra storage audit --name staitraining0a1b2c3d
ai4infra storage advise --dataset 2TB --files 12M --gpus 8xND96asr_v4 --epochs 90
"""
CREATE_EXAMPLES = """
ai4infra storage create --dry-run
ai4infra storage create --name sttrain --checkpoints ckpt --reader vm:rg-gpu/node-0 --yes
ai4infra storage create --classification confidential --allow-ip 203.0.113.7 --lock
ai4infra storage create --contributor identity:rg-gpu/id-train@training-data --emit bicep
ai4infra storage create --expect 2TB --gpus 8xStandard_ND96asr_v4 --dry-run
"""
NETWORKS = ("open", "restricted", "private")
LEVELS = ("public", "internal", "confidential", "restricted")
LANGUAGES = ("bicep", "terraform", "az")


@click.group(cls=Group, lazy=COMMANDS, context_settings=SETTINGS, epilog=EXAMPLES)
def storage() -> None:
    """Make, show, audit and size storage accounts for training data."""


def one_of(what: str, names: Sequence[str]) -> Callable[..., str | None]:
    """Return a callback that takes one of the names, in any case."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is None or value.casefold() in names:
            return value.casefold() if value else value
        raise unknown_choice(what, value, names, ctx)

    return check


def where(*, name: str) -> Callable[[F], F]:
    """Give a command the options that say which account; ``name`` is the help of its name."""
    account = click.option("-n", "--name", metavar="ACCOUNT", callback=filled, help=name)
    group = click.option(
        "-g",
        "--resource-group",
        "group",
        metavar="GROUP",
        callback=filled,
        help="Resource group.  [default: AZURE_DEFAULTS_GROUP]",
    )
    return lambda function: account(group(function))


# --- create


@storage.command("create", cls=Command, context_settings=SETTINGS, epilog=CREATE_EXAMPLES)
@click.option(
    "-n",
    "--name",
    metavar="ACCOUNT",
    callback=filled,
    help="Account.  [default: staitraining and 8 digits of the group's hash]",
)
@click.option(
    "-g",
    "--resource-group",
    "group",
    metavar="GROUP",
    callback=filled,
    help="Resource group, made where it is missing.  [default: AZURE_DEFAULTS_GROUP, or"
    " rg-ai-training]",
)
@click.option(
    "-l",
    "--location",
    "-r",
    "--region",
    "location",
    metavar="REGION",
    callback=filled,
    shell_complete=complete.regions,
    help="Region.  [default: AZURE_DEFAULTS_LOCATION, or eastus2]",
)
@click.option(
    "--sku",
    metavar="SKU",
    callback=filled,
    help="Standard_LRS, ZRS, GRS, …  [default: Standard_LRS]",
)
@switch("--premium", help="Premium block blobs (BlockBlobStorage), LRS or ZRS.")
@click.option(
    "--container",
    "containers",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="Container; repeatable.  [default: training-data]",
)
@click.option(
    "--checkpoints",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="Container for checkpoints, with a lifecycle rule; repeatable.",
)
@click.option(
    "--checkpoint-retention",
    metavar="COOL:DELETE",
    callback=filled,
    help="Days since the last change until a checkpoint is cooled, and deleted."
    "  [default: 14d:90d]",
)
@click.option(
    "--lifecycle",
    "lifecycles",
    multiple=True,
    callback=listed,
    metavar="CONTAINER[/PREFIX]=COOL:DELETE",
    help="Lifecycle rule for a container; repeatable.",
)
@click.option(
    "--reader",
    "readers",
    multiple=True,
    callback=listed,
    metavar="WHO",
    help="Storage Blob Data Reader; repeatable.",
)
@click.option(
    "--contributor",
    "contributors",
    multiple=True,
    callback=listed,
    metavar="WHO",
    help="Storage Blob Data Contributor; repeatable.  [default: me, where nobody is named]",
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    callback=listed,
    metavar="WHO",
    help="Storage Blob Data Owner; repeatable.",
)
@switch("--no-grant", help="Give nobody a role, where nobody is named.")
@switch("--enable-identity", help="Give a VM or scale set without an identity its own.")
@click.option(
    "--network",
    metavar="|".join(NETWORKS),
    callback=one_of("network", NETWORKS),
    help="Who reaches the account.  [default: open, or what the classification demands]",
)
@click.option(
    "--allow-ip",
    "allow_ips",
    multiple=True,
    callback=listed,
    metavar="ADDRESS",
    help="Public IPv4 address or range to let in; repeatable.",
)
@click.option(
    "--allow-subnet",
    "allow_subnets",
    multiple=True,
    callback=listed,
    metavar="ID",
    help="Subnet to let in; repeatable.",
)
@click.option(
    "--private-endpoint",
    metavar="SUBNET_ID",
    callback=filled,
    help="Make private endpoints for blob and dfs there, with their DNS.",
)
@click.option(
    "--classification",
    metavar="|".join(LEVELS),
    callback=one_of("classification", LEVELS),
    help="Record this class of data, and demand what it needs.",
)
@click.option(
    "--infrastructure-encryption/--no-infrastructure-encryption",
    "infrastructure_encryption",
    default=None,
    show_default=False,
    help="Encrypt twice; fixed at creation.",
)
@click.option(
    "--key-uri", metavar="URI", callback=filled, help="Customer-managed key in a key vault."
)
@click.option(
    "--key-identity",
    metavar="ID",
    callback=filled,
    help="User-assigned identity that may use the key.",
)
@click.option(
    "--soft-delete-days",
    callback=whole,
    metavar="DAYS",
    help="For blobs and containers.  [default: 7, or what the classification demands]",
)
@switch("--no-hns", help="Flat namespace, for blob versions and the like.")
@switch("--versioning", help="Keep blob versions (needs --no-hns).")
@switch("--change-feed", help="Record changes of blobs (needs --no-hns).")
@click.option(
    "--restore-days",
    callback=whole,
    metavar="DAYS",
    help="Point-in-time restore (needs --no-hns, --versioning and --change-feed).",
)
@click.option(
    "--expect",
    metavar="SIZE",
    callback=filled,
    help="Data to come, as 2TB: warn where 10 times breaks.",
)
@click.option(
    "--gpus",
    metavar="COUNTxSIZE",
    callback=filled,
    help="VMs to feed: warn of what cannot feed them.",
)
@click.option(
    "--tag", "--tags", "tags", multiple=True, metavar="NAME=VALUE", help="Tag; repeatable."
)
@switch("--lock", help="Lock the account against deletion.")
@switch("--update", help="Change what differs on an account that is there.")
@switch("--register", help="Register the subscription for providers where it is not.")
@switch("--dry-run", help="Show the plan, and change nothing.")
@click.option(
    "--emit",
    metavar="|".join(LANGUAGES),
    callback=one_of("language", LANGUAGES),
    help="Print the plan as infrastructure code, and change nothing.",
)
@switch("-y", "--yes", help="Do not ask for confirmation.")
@switch("--no-wait", help="Do not wait for the service; run it again to go on.")
@common()
def create(options: Options, **given: Any) -> None:
    """Make a storage account for training, or finish and check one that is there.

    Without arguments: the account of the subscription and group, one container, access for you.
    Hierarchical namespace, TLS 1.2, no anonymous access, no shared keys, soft delete. What is
    there is kept; what differs is shown, and changed with --update only.

    WHO is me, vm:GROUP/NAME, vmss:GROUP/NAME, identity:GROUP/NAME, the id of a resource with an
    identity, or id:OBJECT_ID[:User|Group|ServicePrincipal]; with @CONTAINER behind it, the role
    is on that container only.
    """
    asked = _asked(given)
    with started(options) as (az, out):
        _check_region(az, given["location"] or az.settings.location)
        plan = az.plan_storage(given["name"], **asked)
        if given["emit"]:
            from ai4infra.emit import emit, left_out

            for warning in (*plan.warnings, *left_out(plan, given["emit"])):
                out.warn(warning)
            out.end_progress()
            click.echo(emit(plan, given["emit"]), nl=False)
            return
        run_plan(az, plan, out, given, more=lambda receipt: _receipt_parts(az, receipt, plan))


_AS_THEY_ARE = (
    *("group", "location", "sku", "premium", "checkpoint_retention", "enable_identity", "network"),
    *("private_endpoint", "classification", "infrastructure_encryption", "key_uri"),
    *("key_identity", "soft_delete_days", "versioning", "change_feed", "restore_days", "expect"),
    *("lock", "update", "register"),
    *("containers", "checkpoints", "lifecycles", "allow_ips", "allow_subnets"),
)
_ROLES = {
    "readers": "Storage Blob Data Reader",
    "contributors": "Storage Blob Data Contributor",
    "owners": "Storage Blob Data Owner",
}


def _check_region(az: Azure, region: str | None) -> None:
    """Raise UsageError for an unknown region; Azure is asked of those only that we don't know."""
    from ai4infra.ids import region_key

    if region is not None and region_key(region) not in complete.known_regions():
        az.region(region)


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``plan_storage``; UsageError for what cannot be read."""
    return {
        "access": list(_access(given)),
        "tags": read_tags(given["tags"]),
        "hns": not given["no_hns"],
        "grant_me": not given["no_grant"],
        "vms": given["gpus"],
        **{name: given[name] for name in _AS_THEY_ARE},
    }


def read_tags(texts: Iterable[str]) -> dict[str, str]:
    """Return the tags of ``NAME=VALUE`` texts; UsageError for a text without ``=``."""
    tags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise HintedUsage(f"{text!r} is no tag.", hint="Write --tag NAME=VALUE.")
        if name in tags:
            raise HintedUsage(f"The tag {name} is given twice.")
        tags[name] = value
    return tags


def _access(given: Mapping[str, Any]) -> Iterator[Access]:
    """Yield who gets which role; ``WHO@CONTAINER`` is one container only."""
    from ai4infra.client_storage import Access
    from ai4infra.storage_names import check_container_name, parse_who

    for option, role in _ROLES.items():
        for text in given[option]:
            who, at, container = text.rpartition("@")
            if not at or not _is_who(who):
                parse_who(text)
                yield Access(role=role, who=text)
            else:
                yield Access(role=role, who=who, container=check_container_name(container))


def _is_who(text: str) -> bool:
    """Tell WHO@CONTAINER from a sign-in name, which has its own explanation."""
    from ai4infra.errors import UsageError
    from ai4infra.storage_names import parse_who

    try:
        parse_who(text)
    except UsageError:
        return text.partition(":")[0].casefold() in ("vm", "vmss", "identity", "id")
    return True


# --- the receipt


def _receipt_parts(az: Azure, receipt: Receipt, plan: Any) -> dict[str, Any]:
    """Return what a receipt says of the account: ids, endpoints, what to do next."""
    wanted: StorageWanted = plan.verify
    if not receipt.complete:
        return {}
    account = _account_of(az, receipt, wanted)
    # A role that does not work yet would refuse the copy.
    waits = [each for each in receipt.next_commands if each.startswith("ai4infra rbac wait")]
    others = [each for each in receipt.next_commands if each not in waits]
    next_commands = (*waits, *_transfers(account, wanted), *others)
    return {
        "account": account,
        "containers": [r.step.resource_id for r in receipt.results if r.step.kind == "container"],
        "next_commands": next_commands,
        "lines": [
            f"Account {account['id']}",
            *(f"  {kind}: {url}" for kind, url in account["endpoints"].items()),
        ],
    }


def _account_of(az: Azure, receipt: Receipt, wanted: StorageWanted) -> dict[str, Any]:
    """Return id and endpoints: of a new account by its name, else as the service tells them."""
    from ai4infra.storage_names import account_scope

    made = any(r.step.kind == "storage account" and r.state == "done" for r in receipt.results)
    if made:
        services = ("blob", "dfs")
        found = {s: f"https://{wanted.account}.{s}.{wanted.storage_suffix}/" for s in services}
    else:
        subscription = wanted.subscription_id
        known = az.storage_account(wanted.account, group=wanted.group, subscription=subscription)
        found = {s: url for s, url in known.endpoints.items() if s in ("blob", "dfs")}
    id_ = account_scope(wanted.subscription_id, wanted.group, wanted.account)
    return {"id": id_, "name": wanted.account, "endpoints": found}


def _transfers(account: Mapping[str, Any], wanted: StorageWanted) -> Iterator[str]:
    """Yield the commands that copy data in and mount it, for the first container."""
    import shlex

    container = next(iter(wanted.containers), None)
    if "blob" not in account["endpoints"] or container is None:
        return
    place, file = f"{wanted.account}/{container}", f"{container}.yaml"
    yield shlex.join(["ai4infra", "data", "copy", f"./{container}", place])
    yield shlex.join(["ai4infra", "mount", "config", place, "-f", file])
    yield shlex.join(["ai4infra", "mount", "up", f"/mnt/{container}", "-f", file])


# --- list, show, delete


@storage.command("list", cls=Command, context_settings=SETTINGS)
@click.option(
    "-g",
    "--resource-group",
    "group",
    metavar="GROUP",
    callback=filled,
    help="Only this resource group.",
)
@common()
def list_(options: Options, **given: Any) -> None:
    """List the storage accounts of a subscription, with what an auditor looks at first."""
    with started(options) as (az, out):
        out.result(_list_page(az.storage_accounts(given["group"])))


def _list_page(accounts: Sequence[StorageAccount]) -> Page:
    from ai4infra.model import StorageAccount
    from ai4infra.render import Page, document

    return Page(
        document=document("storage accounts", accounts=accounts),
        rows=accounts,
        row_type=StorageAccount,
        columns=_list_columns(),
        below=[] if accounts else ["No storage accounts."],
    )


def _list_columns() -> list[Column]:
    from ai4infra.arm import group_of, name_of
    from ai4infra.classification import TAG
    from ai4infra.render import NOT_APPLICABLE, Column, yes_no
    from ai4infra.storage_target import network_of

    def tag(account: StorageAccount) -> str:
        found = (v for k, v in account.tags.items() if k.casefold() == TAG)
        return next(found, NOT_APPLICABLE)

    return [
        Column("Name", lambda a: a.name),
        Column("Group", lambda a: name_of(group_of(a.id) or "") or "?", rank=1),
        Column("Region", lambda a: a.location or "?", rank=2),
        Column("SKU", lambda a: a.sku or "?", rank=3),
        Column("HNS", lambda a: yes_no(bool(a.hns)), rank=4),
        Column("TLS", lambda a: a.minimum_tls_version or "not said", rank=5),
        Column("Keys", lambda a: "off" if a.allow_shared_key_access is False else "on"),
        Column("Network", network_of),
        Column("Data", tag, rank=6),
    ]


@storage.command("show", cls=Command, context_settings=SETTINGS)
@where(name="Account.  [default: that of `storage create` without a name]")
@common()
def show(options: Options, **given: Any) -> None:
    """Show an account with its containers, rules, roles and locks."""
    with started(options) as (az, out):
        name, group = _named(az, given)
        out.result(_show_page(az.storage_details(name, group=group)))


def _named(az: Azure, given: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return name and group of the account that is meant; group None is all of them."""
    from ai4infra.client_storage import DEFAULT_GROUP
    from ai4infra.storage_names import default_account_name

    if given["name"]:
        return given["name"], given["group"]
    group = given["group"] or az.settings.group or DEFAULT_GROUP
    return default_account_name(az.subscription().id, group), group


def _show_page(look: StorageLook) -> Page:
    from ai4infra.cli.rows import FactRow
    from ai4infra.render import Column, Page, document

    rows = [FactRow(name=name, value=value) for name, value in _facts(look)]
    return Page(
        document=document(
            "storage account",
            account=look.account,
            blob_service=look.blob_service,
            containers=look.containers,
            lifecycle=look.lifecycle,
            private_endpoints=look.endpoints,
            role_assignments=look.assignments,
            locks=look.locks,
        ),
        rows=rows,
        row_type=FactRow,
        columns=[Column("What", lambda r: r.name), Column("Value", lambda r: r.value or "?")],
    )


def _facts(look: StorageLook) -> Iterator[tuple[str, str | None]]:
    """Yield what a person wants to see of an account, name and value; None is unknown."""
    from ai4infra.render import yes_no
    from ai4infra.storage_target import network_of

    account = look.account
    if account is None:
        return
    yield "id", account.id
    yield "region", account.location
    yield "kind", f"{account.kind or '?'}, {account.sku or '?'}"
    yield from ((f"{k} endpoint", v) for k, v in account.endpoints.items() if k in ("blob", "dfs"))
    yield "hierarchical namespace", yes_no(bool(account.hns))
    yield "TLS", account.minimum_tls_version
    yield "shared keys", "off" if account.allow_shared_key_access is False else "on"
    yield "anonymous access", "off" if account.allow_blob_public_access is False else "on"
    yield "network", network_of(account)
    yield "infrastructure encryption", yes_no(bool(account.infrastructure_encryption))
    yield "key", account.key_uri or account.key_source
    yield from _protection(look)
    yield from ((f"tag {name}", value) for name, value in account.tags.items())


def _protection(look: StorageLook) -> Iterator[tuple[str, str | None]]:
    from ai4infra.lifecycle import describe

    service = look.blob_service
    yield "soft delete, blobs", _days(service.blob_soft_delete_days) if service else None
    yield "soft delete, containers", _days(service.container_soft_delete_days) if service else None
    yield "containers", _joined(look.containers, lambda c: c.name)
    yield "lifecycle", _joined(look.lifecycle, describe)
    yield "private endpoints", _joined(look.endpoints, lambda e: f"{e.name} ({e.state or '?'})")
    yield "data roles", _joined(_data_roles(look), _holder)
    beyond = "" if look.locks_whole else "; those of the subscription could not be read"
    held = _joined(look.locks, lambda k: f"{k.level} {k.name}")
    yield "locks", held and f"{held}{beyond}"


def _days(value: int | None) -> str | None:
    return None if value is None else f"{value} days" if value else "off"


def _joined(values: Iterable[Any] | None, text: Callable[[Any], str]) -> str | None:
    return None if values is None else "; ".join(map(text, values)) or "none"


def _data_roles(look: StorageLook) -> list[Any] | None:
    from ai4infra.roles import allows_blobs

    if look.assignments is None:
        return None
    return [a for a in look.assignments if allows_blobs(a.role_id, "read")]


def _holder(assignment: Any) -> str:
    from ai4infra.arm import name_of
    from ai4infra.roles import role_name

    who = f"{assignment.principal_type or 'principal'} {assignment.principal_id}"
    return f"{role_name(assignment.role_id)}: {who} on {name_of(assignment.scope) or '/'}"


@storage.command("delete", cls=Command, context_settings=SETTINGS)
@click.option("-n", "--name", metavar="ACCOUNT", callback=filled, required=True, help="Account.")
@click.option(
    "-g",
    "--resource-group",
    "group",
    metavar="GROUP",
    callback=filled,
    help="Resource group.  [default: wherever the account is]",
)
@switch("--dry-run", help="Show the plan, and change nothing.")
@switch("-y", "--yes", help="Do not ask for confirmation.")
@switch("--no-wait", help="Do not wait for the service.")
@common()
def delete(options: Options, **given: Any) -> None:
    """Delete an account with all its data and its own private endpoints.

    A lock at or above it refuses. Nothing is left to restore from but Microsoft's own recovery.
    """
    with started(options) as (az, out):
        plan = az.plan_storage_delete(given["name"], group=given["group"])
        run_plan(az, plan, out, given)
