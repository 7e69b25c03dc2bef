"""What a connection can do with storage accounts and roles; ``client.Azure`` has these methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ai4infra import arm, lifecycle
from ai4infra.cloud.session import Session
from ai4infra.errors import NotFoundError, UsageError
from ai4infra.ids import unknown_name
from ai4infra.model import (
    GrantWanted,
    LifecycleWanted,
    NetworkAccess,
    Record,
    RoleAssignment,
    StorageAccount,
    StorageLook,
    StorageWanted,
    Subscription,
)
from ai4infra.settings import Settings
from ai4infra.storage_names import (
    account_scope,
    check_account_name,
    check_group_name,
    default_account_name,
    parse_scope,
    parse_who,
)

if TYPE_CHECKING:
    from ai4infra.cloud.identities import Principal
    from ai4infra.plan import Plan
    from ai4infra.provision import RoleWait

DEFAULT_GROUP = "rg-ai-training"
DEFAULT_LOCATION = "eastus2"
DEFAULT_CONTAINER = "training-data"
READER = "Storage Blob Data Reader"
CONTRIBUTOR = "Storage Blob Data Contributor"
OWNER = "Storage Blob Data Owner"


class Access(Record, frozen=True):
    """Who shall have which role."""

    role: str
    who: str
    """As ``storage_names.parse_who`` takes it."""
    container: str | None = None
    """Only this container; None is the whole account."""


class StorageMethods:
    """The part of a connection that is about storage accounts and roles."""

    session: Session
    settings: Settings
    subscription: Callable[..., Subscription]

    # --- storage accounts

    def plan_storage(
        self,
        account: str | None = None,
        *,
        subscription: str | None = None,
        group: str | None = None,
        location: str | None = None,
        sku: str | None = None,
        premium: bool = False,
        hns: bool = True,
        network: NetworkAccess | None = None,
        allow_ips: Sequence[str] = (),
        allow_subnets: Sequence[str] = (),
        private_endpoint: str | None = None,
        containers: Sequence[str] = (),
        checkpoints: Sequence[str] = (),
        checkpoint_retention: str | None = None,
        lifecycles: Sequence[str] = (),
        readers: Sequence[str] = (),
        contributors: Sequence[str] = (),
        owners: Sequence[str] = (),
        access: Sequence[Access] = (),
        grant_me: bool = True,
        enable_identity: bool = False,
        classification: str | None = None,
        infrastructure_encryption: bool | None = None,
        key_uri: str | None = None,
        key_identity: str | None = None,
        soft_delete_days: int | None = None,
        versioning: bool = False,
        change_feed: bool = False,
        restore_days: int | None = None,
        expect: str | None = None,
        vms: str | None = None,
        tags: Mapping[str, str] | None = None,
        lock: bool = False,
        update: bool = False,
        register: bool = False,
    ) -> Plan:
        """Plan a storage account with its containers, rules and roles; reads only.

        Without any argument it is the account of the subscription and group, in the configured
        location, with the container ``training-data`` and access for who is signed in (``grant_me``
        off: for nobody). ``readers``, ``contributors`` and ``owners`` get a data role on the
        account (``access`` can say another role, or one container). ``expect`` (``2TB``) and
        ``vms`` (``8xND96asr_v4``) only add warnings. ``lifecycles`` are
        ``CONTAINER[/PREFIX]=COOL:DELETE``. Raises UsageError, before anything is sent, for what no
        account can be.
        """
        # Only here and below: most commands have nothing to do with storage, and start faster.
        from ai4infra.sizing import parse_bytes
        from ai4infra.storage_checks import check_wanted, parse_sku

        where = self.settings.group or DEFAULT_GROUP if group is None else group
        named = default_account_name("", where) if account is None else account
        containers, checkpoints = _texts(containers), _texts(checkpoints)
        draft = StorageWanted(
            subscription_id="",
            group=check_group_name(where),
            location=location or self.settings.location or DEFAULT_LOCATION,
            location_said=bool(location),
            account=check_account_name(named),
            hns=hns,
            sku=parse_sku(sku, premium=premium),
            network=network,
            allow_ips=_texts(allow_ips),
            allow_subnets=_texts(allow_subnets),
            endpoint_subnet=private_endpoint,
            infrastructure_encryption=infrastructure_encryption,
            key_uri=key_uri,
            key_identity=key_identity,
            soft_delete_days=soft_delete_days,
            versioning=versioning,
            change_feed=change_feed,
            restore_days=restore_days,
            containers=containers if containers or checkpoints else (DEFAULT_CONTAINER,),
            lifecycles=_lifecycles(_texts(lifecycles), checkpoints, checkpoint_retention),
            classification=classification,
            tags=dict(tags or {}),
            lock=lock,
            update=update,
            register=register,
            storage_suffix=self.session.cloud.storage_suffix or "core.windows.net",
            price_per_gib_month=_price(parse_sku(sku, premium=premium)),
            expected_gib=parse_bytes(expect) / 2**30 if expect else None,
        )
        check_wanted(_well_typed(draft))
        named_readers = (_texts(readers), _texts(contributors), _texts(owners))
        asked = _asked(*named_readers, access, grant_me=grant_me)
        warnings = _growth(draft, expect, vms)
        plan = self._plan_storage(draft, account, subscription, asked, enable_identity)
        return structs.replace(plan, warnings=(*plan.warnings, *warnings))

    def _plan_storage(
        self,
        draft: StorageWanted,
        account: str | None,
        subscription: str | None,
        asked: Sequence[Access],
        enable_identity: bool,
    ) -> Plan:
        from ai4infra import provision

        chosen = self.subscription(subscription).id
        name = default_account_name(chosen, draft.group) if account is None else account
        wanted = structs.replace(draft, subscription_id=chosen, account=name)
        known, late = self._grants(asked, chosen, enable_identity)
        wanted = structs.replace(wanted, grants=(*known, *(grant for grant, _ in late)))
        plan = provision.plan_storage(self.session, wanted)
        account_id = account_scope(wanted.subscription_id, wanted.group, wanted.account)

        def scope_of(grant: GrantWanted) -> str:
            if grant.container is None:
                return account_id
            return arm.container_id(account_id, grant.container)

        return provision.with_late_grants(plan, late, scope_of)

    def _grants(
        self, asked: Sequence[Access], subscription_id: str, enable_identity: bool
    ) -> tuple[list[GrantWanted], list[tuple[GrantWanted, Principal]]]:
        """Return the grants to who is known, and those that wait for an identity."""
        from ai4infra import provision

        found = provision.find_principals(
            self.session,
            [each.who for each in asked],
            subscription_id,
            enable_identity=enable_identity,
        )
        scope = f"/subscriptions/{subscription_id}"
        pairs = [
            (grant, principal)
            for each in asked
            for principal in found[each.who]
            for grant in provision.grants_to(
                [principal],
                provision.role_of(self.session, each.role, scope),
                container=each.container,
                scope=None,
            )
        ]
        return [g for g, p in pairs if p.object_id], [(g, p) for g, p in pairs if not p.object_id]

    def storage_accounts(
        self, group: str | None = None, *, subscription: str | None = None
    ) -> tuple[StorageAccount, ...]:
        """Return the storage accounts of a subscription, or of one of its groups, by name."""
        from ai4infra.cloud import storage

        if group is not None:
            check_group_name(group)
        return storage.accounts(self.session, self.subscription(subscription).id, group)

    def storage_account(
        self, name: str, *, group: str | None = None, subscription: str | None = None
    ) -> StorageAccount:
        """Return one storage account; without a group it is looked for in the subscription.

        Raises UsageError for what cannot be a name, NotFoundError, with close names, where there
        is no such account.
        """
        from ai4infra.cloud import storage

        check_account_name(name)
        chosen = self.subscription(subscription)
        if group is not None:
            found = storage.account(self.session, chosen.id, check_group_name(group), name)
            return found.account
        known = storage.accounts(self.session, chosen.id)
        for each in known:
            if each.name == name:
                return each
        closest = unknown_name(
            "storage account",
            name,
            [a.name for a in known],
            listing="`ai4infra storage list` shows them.",
        )
        raise NotFoundError(closest.message, hint=closest.hint)

    def storage_details(
        self, name: str, *, group: str | None = None, subscription: str | None = None
    ) -> StorageLook:
        """Return an account with its containers, rules, roles and locks; unknown is None.

        Raises NotFoundError where there is no such account.
        """
        from ai4infra import provision

        return provision.look_storage(self.session, self._existing(name, group, subscription))

    def plan_storage_delete(
        self, name: str, *, group: str | None = None, subscription: str | None = None
    ) -> Plan:
        """Plan the deletion of an account with its own private endpoints; reads only."""
        from ai4infra import provision

        found = self._existing(name, group, subscription)
        where = (found.subscription_id, found.group, found.account)
        return provision.plan_storage_delete(self.session, *where)

    def _existing(self, name: str, group: str | None, subscription: str | None) -> StorageWanted:
        found = self.storage_account(name, group=group, subscription=subscription)
        return StorageWanted(
            subscription_id=arm.subscription_of(found.id) or "",
            group=arm.name_of(arm.group_of(found.id) or ""),
            location=found.location or "",
            account=found.name,
        )

    # --- roles

    def plan_assign(
        self,
        role: str,
        to: str | Sequence[str],
        on: str,
        *,
        subscription: str | None = None,
        enable_identity: bool = False,
    ) -> Plan:
        """Plan the assignment of a role, by name or id, to somebody at a scope; reads only.

        Raises UsageError for a role, WHO or scope that cannot be read, NotFoundError for what
        does not exist.
        """
        from ai4infra import provision

        whos = _parsed(to)
        return provision.plan_assign(
            self.session,
            role,
            whos,
            on,
            self._subscription_of(on, subscription),
            enable_identity=enable_identity,
        )

    def plan_unassign(
        self, role: str, to: str | Sequence[str], on: str, *, subscription: str | None = None
    ) -> Plan:
        """Plan the removal of a role from somebody at exactly a scope; reads only."""
        from ai4infra import provision

        whos = _parsed(to)
        where = self._subscription_of(on, subscription)
        return provision.plan_unassign(self.session, role, whos, on, where)

    def assignments(
        self,
        on: str | None = None,
        *,
        to: str | None = None,
        inherited: bool = True,
        below: bool = False,
        subscription: str | None = None,
    ) -> tuple[RoleAssignment, ...]:
        """Return the role assignments at a scope, by default the subscription.

        With those from above unless ``inherited`` is off, with those of what lies below on
        ``below``, and only of one WHO with ``to``.
        """
        from ai4infra import provision
        from ai4infra.cloud import rbac

        whos = _parsed(to) if to else []
        scope = parse_scope(on).id if on else None
        chosen = self._subscription_of(scope or "/", subscription)
        scope = scope or f"/subscriptions/{chosen}"
        found = provision.find_principals(self.session, whos, chosen)
        ids = {principal.object_id for each in found.values() for principal in each}
        listed = rbac.assignments(self.session, scope, below=below)
        return tuple(
            a
            for a in listed
            if (not ids or a.principal_id in ids)
            and (inherited or arm.is_at_or_above(scope, a.scope))
        )

    def wait_role(
        self,
        role: str,
        to: str,
        on: str,
        *,
        subscription: str | None = None,
        timeout_seconds: float = 1800.0,
        on_progress: Callable[[str], None] = lambda text: None,
    ) -> RoleWait:
        """Wait until a role works; see ``provision.wait_role``."""
        from ai4infra import provision

        parse_who(to)
        where = self._subscription_of(on, subscription)
        return provision.wait_role(
            self.session,
            role,
            to,
            on,
            where,
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
        )

    def _subscription_of(self, scope: str, subscription: str | None) -> str:
        """Return the subscription in which names of WHO are meant: as said, else the scope's."""
        found = parse_scope(scope).subscription_id
        return found if found and subscription is None else self.subscription(subscription).id


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return several texts; one by itself is one of them, not its letters."""
    return (value,) if isinstance(value, str) else tuple(value)


def _well_typed(wanted: StorageWanted) -> StorageWanted:
    """Return what is wanted; UsageError where a script gives something of another type."""
    try:
        return msgspec.convert(msgspec.to_builtins(wanted), StorageWanted)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"This cannot be asked of an account: {error}.") from None


def _parsed(to: str | Iterable[str]) -> list[str]:
    """Return every WHO. Raises UsageError for one that cannot be read, and for none."""
    whos = [to] if isinstance(to, str) else list(to)
    if not whos:
        raise UsageError("Nobody is named.", hint="Say who: --to me.")
    for who in whos:
        parse_who(who)
    return whos


def _asked(
    readers: Sequence[str],
    contributors: Sequence[str],
    owners: Sequence[str],
    access: Sequence[Access],
    *,
    grant_me: bool,
) -> list[Access]:
    """Return who gets what; without anybody it is who is signed in, or nobody."""
    roles = ((READER, readers), (CONTRIBUTOR, contributors), (OWNER, owners))
    asked = [Access(role=role, who=who) for role, whos in roles for who in whos]
    mine = [Access(role=CONTRIBUTOR, who="me")] if grant_me else []
    asked = [*asked, *access] or mine
    for each in asked:
        parse_who(each.who)
    return asked


def _price(sku: str | None) -> float | None:
    """Return the list price of a GiB for a month; None where it is not known: only LRS is."""
    from ai4infra import limits
    from ai4infra.storage_checks import is_premium

    if sku is not None and not sku.endswith("_LRS"):
        return None
    return limits.price("blob_premium" if is_premium(sku) else "blob_hot").usd_per_gib_month


def _lifecycles(
    texts: Iterable[str], checkpoints: Sequence[str], retention: str | None
) -> tuple[LifecycleWanted, ...]:
    if retention is not None and not checkpoints:
        raise UsageError(
            "A retention of checkpoints is given, but no container for checkpoints.",
            hint="Add --checkpoints NAME, or give --lifecycle CONTAINER=COOL:DELETE instead.",
        )
    cool, delete = lifecycle.parse_retention(retention or lifecycle.DEFAULT_RETENTION)
    own = [
        LifecycleWanted(container=name, cool_after_days=cool, delete_after_days=delete)
        for name in checkpoints
    ]
    return (*own, *map(lifecycle.parse_lifecycle, texts))


def _growth(wanted: StorageWanted, expect: str | None, vms: str | None) -> tuple[str, ...]:
    """Say what gives way when the data grows, or is read by so many VMs."""
    from ai4infra import gpus, sizing
    from ai4infra.storage_checks import is_premium

    fleet = sizing.parse_vms(vms) if vms else None
    facts: Any = gpus.facts(fleet.size) if fleet else None
    return sizing.growth_warnings(
        expect_bytes=sizing.parse_bytes(expect) if expect else None,
        vms=fleet.count if fleet else 0,
        facts=facts,
        region=wanted.location,
        premium=is_premium(wanted.sku),
    )
