"""Storage accounts: look at what there is, plan, and compare afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from ai4infra import arm
from ai4infra.arm import ArmWrite
from ai4infra.cloud import locks, network, providers, rbac, resources, storage
from ai4infra.cloud.fanout import Outcome, fan_out
from ai4infra.cloud.session import Session
from ai4infra.errors import (
    Ai4infraError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotRegisteredError,
    SignInError,
)
from ai4infra.model import (
    BlobServiceSettings,
    Finding,
    PrivateEndpoint,
    ResourceGroup,
    Step,
    StepResult,
    StorageAccount,
    StorageLook,
    StorageWanted,
)
from ai4infra.plan import Plan
from ai4infra.provision import writes
from ai4infra.provision.run import Run, wanted_of
from ai4infra.storage_checks import check_wanted
from ai4infra.storage_names import account_scope, default_account_name, group_scope, parse_scope
from ai4infra.storage_plan import (
    ASSIGNMENT,
    BLOB_SERVICE,
    CONTAINER,
    DNS_LINK,
    DNS_ZONE,
    DNS_ZONE_GROUP,
    ENDPOINT,
    LIFECYCLE,
    LOCK,
    RESOURCE_GROUP,
    STORAGE_ACCOUNT,
    endpoint_groups,
    post_check,
    storage_delete_steps,
    storage_steps,
)

T = TypeVar("T")
KINDS = (
    RESOURCE_GROUP,
    STORAGE_ACCOUNT,
    BLOB_SERVICE,
    CONTAINER,
    LIFECYCLE,
    ENDPOINT,
    DNS_ZONE,
    DNS_LINK,
    DNS_ZONE_GROUP,
    ASSIGNMENT,
    LOCK,
)
"""The kinds of steps that are one write to Resource Manager."""
NETWORK = "Microsoft.Network"
SETTLE_SECONDS = 300.0
SETTLE_POLL_SECONDS = 5.0
_IN_THE_MAKING = ("creating", "resolvingdns")


def look_storage(session: Session, wanted: StorageWanted) -> StorageLook:
    """Read everything that a plan of this account depends on; what may not be read is None.

    Raises what the service says of the account itself, its name and its group.
    """
    try:
        view = storage.account(session, wanted.subscription_id, wanted.group, wanted.account)
    except NotRegisteredError:
        return _look_unregistered(session, wanted)
    except NotFoundError as error:
        if resources.is_subscription(error):
            raise
        has_group = (error.code or "").casefold() != "resourcegroupnotfound"
        return _look_around(session, wanted, has_group=has_group)
    return _look_into(session, wanted, _settled(session, wanted, view))


def _settled(
    session: Session, wanted: StorageWanted, view: storage.AccountView
) -> storage.AccountView:
    """Wait for an account that an earlier run left in the making: nothing of it can be read yet."""
    waited = 0.0
    while (view.account.provisioning_state or "").casefold() in _IN_THE_MAKING:
        if waited >= SETTLE_SECONDS:
            break
        session.transport.sleep(SETTLE_POLL_SECONDS)
        waited += SETTLE_POLL_SECONDS
        view = storage.account(session, wanted.subscription_id, wanted.group, wanted.account)
    return view


Jobs = dict[str, Callable[[], Any]]


class _Answers:
    """What was asked at the same time, by name."""

    def __init__(self, jobs: Jobs) -> None:
        outcomes: list[Outcome[str, Any]] = fan_out(lambda name: jobs[name](), jobs)
        self._outcomes = {outcome.item: outcome for outcome in outcomes}
        for outcome in outcomes:
            if isinstance(outcome.error, SignInError):
                raise outcome.error

    def needed(self, name: str, otherwise: T) -> T:
        """Return an answer, or raise what went wrong; ``otherwise`` where nobody asked."""
        outcome = self._outcomes.get(name)
        return otherwise if outcome is None else outcome.result()

    def known(self, name: str, otherwise: T) -> T | None:
        """Return an answer, None where it could not be had; ``otherwise`` where nobody asked."""
        outcome = self._outcomes.get(name)
        return otherwise if outcome is None else outcome.value


def _look_unregistered(session: Session, wanted: StorageWanted) -> StorageLook:
    """Look where storage cannot be asked for anything; a group may be there all the same."""
    has_group = resources.group(session, wanted.subscription_id, wanted.group) is not None
    found = _look_around(session, wanted, has_group=has_group, registered=False)
    unregistered = dict.fromkeys((storage.NAMESPACE, *found.unregistered))
    return structs.replace(found, unregistered=tuple(unregistered))


def _look_around(
    session: Session, wanted: StorageWanted, *, has_group: bool, registered: bool = True
) -> StorageLook:
    """Look where there is no account yet."""
    where = (session, wanted.subscription_id, wanted.group)
    account_id = _account_id(wanted)
    jobs: Jobs = {}
    if registered and (has_group or not _is_default(wanted)):
        jobs["name"] = partial(storage.check_name, *where, wanted.account)
    if has_group:
        jobs["group"] = partial(resources.group, *where)
        jobs["locks"] = partial(locks.locks, *where, account_id)
        jobs |= _endpoint_jobs(session, wanted, {})
    if wanted.grants and has_group:
        scope = group_scope(wanted.subscription_id, wanted.group)
        jobs["assignments"] = partial(rbac.assignments, session, scope)
    jobs |= _network_jobs(session, wanted)
    jobs |= _registration_jobs(session, wanted) if registered else {}
    try:
        return _look(_Answers(jobs), StorageLook(assignments=()))
    except NotRegisteredError:
        if not registered:
            raise
        return _look_unregistered(session, wanted)


def _is_default(wanted: StorageWanted) -> bool:
    """Tell a name that is made of subscription and group: nobody else will have it.

    Asking whether it is free is a request for nothing; a conflict is told apart all the same.
    """
    return wanted.account == default_account_name(wanted.subscription_id, wanted.group)


def _look_into(session: Session, wanted: StorageWanted, view: storage.AccountView) -> StorageLook:
    """Look at an account that is there."""
    where = (session, wanted.subscription_id, wanted.group)
    account_id = view.account.id
    jobs: Jobs = {
        "group": partial(_group_if_allowed, *where),
        "blob service": partial(storage.blob_service, session, account_id),
        "containers": partial(storage.containers, session, account_id),
        "lifecycle": partial(storage.lifecycle_rules, session, account_id),
        "locks": partial(locks.locks, *where, account_id),
        "assignments": partial(rbac.assignments, session, account_id, below=True),
    }
    jobs |= _endpoint_jobs(session, wanted, view.endpoints)
    jobs |= _network_jobs(session, wanted)
    return _look(_Answers(jobs), StorageLook(account=view.account))


def _group_if_allowed(session: Session, subscription_id: str, name: str) -> ResourceGroup | None:
    """Return the group of an account that is there; None where it may not be read."""
    try:
        return resources.group(session, subscription_id, name)
    except ForbiddenError:
        return None


def _look(answers: _Answers, base: StorageLook) -> StorageLook:
    found = answers.known("locks", locks.Locks(found=()))
    return structs.replace(
        base,
        name=answers.needed("name", None),
        group=answers.needed("group", None),
        blob_service=answers.known("blob service", None),
        containers=answers.known("containers", None),
        lifecycle=answers.known("lifecycle", None),
        endpoints=answers.known("endpoints", ()),
        dns_zones=answers.known("zones", ()),
        assignments=answers.known("assignments", base.assignments),
        locks=None if found is None else found.found,
        locks_whole=found is None or found.whole,
        unregistered=(
            *(answers.known("storage registered", ()) or ()),
            *(answers.known("network registered", ()) or ()),
        ),
        vnet_location=answers.needed("vnet", None),
    )


def _account_id(wanted: StorageWanted) -> str:
    return account_scope(wanted.subscription_id, wanted.group, wanted.account)


def _endpoint_jobs(
    session: Session, wanted: StorageWanted, connected: Mapping[str, str | None]
) -> Jobs:
    """Return the reading of the endpoints that are connected, or have the names of ours."""
    ours = [arm.endpoint_id(_account_id(wanted), g) for g in endpoint_groups(wanted)]
    ids = [*connected, *(ours if wanted.endpoint_subnet else [])]
    unique = {arm.id_key(each): each for each in ids}
    if not unique:
        return {}
    return {"endpoints": partial(_endpoints, session, tuple(unique.values()), connected)}


def _endpoints(
    session: Session, ids: Sequence[str], connected: Mapping[str, str | None]
) -> tuple[PrivateEndpoint, ...]:
    """Read private endpoints; of one that may not be read, what the account says of it."""
    outcomes = fan_out(partial(network.endpoint, session), ids)
    found = [_endpoint(outcome, connected) for outcome in outcomes]
    return tuple(each for each in found if each is not None)


def _endpoint(
    outcome: Outcome[str, PrivateEndpoint | None], connected: Mapping[str, str | None]
) -> PrivateEndpoint | None:
    if outcome.error is None:
        return outcome.value
    if outcome.item not in connected:
        raise outcome.error
    return PrivateEndpoint(
        id=outcome.item, name=arm.name_of(outcome.item), state=connected[outcome.item]
    )


def _network_jobs(session: Session, wanted: StorageWanted) -> Jobs:
    subnet = wanted.endpoint_subnet
    if subnet is None:
        return {}
    names = tuple(arm.zone_name(g, wanted.storage_suffix) for g in endpoint_groups(wanted))
    return {
        "zones": partial(network.dns_zones, session, wanted.subscription_id, names),
        "vnet": partial(network.vnet_location, session, arm.vnet_of(subnet)),
        "network registered": partial(_missing, session, wanted.subscription_id, NETWORK),
    }


def _registration_jobs(session: Session, wanted: StorageWanted) -> Jobs:
    """Return the look at the provider: only who may register for it needs to know before."""
    if not wanted.register:
        return {}
    namespace = storage.NAMESPACE
    return {"storage registered": partial(_missing, session, wanted.subscription_id, namespace)}


def _missing(session: Session, subscription_id: str, namespace: str) -> tuple[str, ...]:
    state = providers.registration_state(session, subscription_id, namespace)
    return () if state.casefold() == "registered" else (namespace,)


def plan_storage(session: Session, wanted: StorageWanted) -> Plan:
    """Plan an account with everything that belongs to it; reads only.

    Raises UsageError for what no account can be, before anything is asked.
    """
    check_wanted(wanted)
    plan = storage_steps(wanted, look_storage(session, wanted))
    return structs.replace(plan, verify=wanted)


def put_account(step: Step, run: Run) -> StepResult:
    """Make or change the account; a name that is in use after all is told apart."""
    try:
        return writes.carry_out(step, run)
    except Ai4infraError as error:
        error.hint = _account_hint(step, run, error)
        raise


def _account_hint(step: Step, run: Run, error: Ai4infraError) -> str | None:
    """Return what to do about an account that the service refuses."""
    code = (error.code or "").casefold()
    if isinstance(error, NotRegisteredError):
        return f"Add --register, or: {error.hint}"
    if code == "maxstorageaccountscountpersubscriptionexceeded":
        return _TOO_MANY
    if isinstance(error, ConflictError) and code in _TAKEN:
        return _whose(step, run, error)
    return error.hint


_TOO_MANY = (
    "Use another region (--location), delete accounts that nobody needs (ai4infra storage list),"
    " or ask for more: portal, Quotas, Storage."
)
_TAKEN = (
    "storageaccountalreadytaken",
    "storageaccountalreadyexists",
    "storageaccountinanotherresourcegroup",
)


def _whose(step: Step, run: Run, error: ConflictError) -> str | None:
    scope = parse_scope(wanted_of(step, ArmWrite).resource_id)
    where = (scope.subscription_id or "", scope.group or "", scope.names[0])
    try:
        found = storage.check_name(run.session, *where)
    except Ai4infraError:
        return error.hint
    if found.state == "elsewhere":
        return f"It is yours, as {found.account_id}: use its group, or another name (--name)."
    if found.state == "taken":
        return (
            "Somebody else has the name, or an account of this name was deleted in the last days:"
            " use another name (--name)."
        )
    if found.state == "in use":
        return "Whose it is could not be found out: use another name (--name)."
    return "Run the same again: it finds what is there now."


def plan_storage_delete(session: Session, subscription_id: str, group: str, account: str) -> Plan:
    """Plan the deletion of an account with its own private endpoints; reads only.

    Raises NotFoundError where there is no such account.
    """
    view = storage.account(session, subscription_id, group, account)
    wanted = StorageWanted(
        subscription_id=subscription_id, group=group, location="", account=account
    )
    return storage_delete_steps(_look_into(session, wanted, view))


def verify(
    session: Session, wanted: StorageWanted, answers: Mapping[str, dict[str, Any]]
) -> tuple[Finding, ...]:
    """Compare what was written with what the service tells of it.

    ``answers`` are the service's own by kind of step; what is not among them was not written.
    """
    service = answers.get(BLOB_SERVICE)
    if STORAGE_ACCOUNT not in answers and service is None:
        return ()
    try:
        account = _account_after(session, wanted, answers.get(STORAGE_ACCOUNT))
        settings = storage.read_blob_service(service) if service else None
    except Ai4infraError as error:
        return (_not_read(wanted, error),)
    return _compared(wanted, account, settings, with_account=STORAGE_ACCOUNT in answers)


def _account_after(
    session: Session, wanted: StorageWanted, answer: dict[str, Any] | None
) -> StorageAccount:
    if answer and answer.get("id"):
        return storage.read_account(answer).account
    where = (wanted.subscription_id, wanted.group, wanted.account)
    return storage.account(session, *where).account


def _compared(
    wanted: StorageWanted,
    account: StorageAccount,
    settings: BlobServiceSettings | None,
    *,
    with_account: bool,
) -> tuple[Finding, ...]:
    both = post_check(wanted, StorageLook(account=account, blob_service=settings))
    if with_account:
        return both
    # The account's own rows come first; one that was not written is not measured again.
    return both[len(post_check(wanted, StorageLook(account=account))) :]


def _not_read(wanted: StorageWanted, error: Ai4infraError) -> Finding:
    return Finding(
        check="read back",
        subject=_account_id(wanted),
        verdict="unknown",
        wanted="what was written",
        actual=error.message,
        fix=_show(wanted),
    )


def _show(wanted: StorageWanted) -> str:
    return _command(wanted, "show")


def _command(wanted: StorageWanted, verb: str, *more: str) -> str:
    words = ["ai4infra", "storage", verb, "--subscription", wanted.subscription_id]
    words += ["--resource-group", wanted.group, "--name", wanted.account]
    return shlex.join([*words, *more])


def next_commands(wanted: StorageWanted, results: Iterable[StepResult]) -> tuple[str, ...]:
    """Return what to do next: see how it stands, or wait until the roles work."""
    states = {result.state for result in results}
    if states & {"in progress", "planned"}:
        return (_show(wanted),)
    if states & {"failed", "not reached"}:
        return ()
    mine = next((g for g in wanted.grants if g.label == "me"), None)
    wait = ["ai4infra", "rbac", "wait", mine.role, "--to", "me"] if mine else []
    waits = (shlex.join([*wait, "--on", _scope(wanted, mine.container)]),) if mine else ()
    return (*waits, _show(wanted))


def _scope(wanted: StorageWanted, container: str | None) -> str:
    account = _account_id(wanted)
    return arm.container_id(account, container) if container else account
