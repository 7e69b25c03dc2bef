"""Roles: who gets which where, the steps that give them, and the waiting until they work."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from ai4infra import arm, roles
from ai4infra.arm import ArmWrite
from ai4infra.classification import Level, recorded
from ai4infra.cloud import blobs, identities, locks, rbac, resources, storage
from ai4infra.cloud.fanout import fan_out
from ai4infra.cloud.identities import Principal
from ai4infra.cloud.session import Session
from ai4infra.errors import (
    Ai4infraError,
    ForbiddenError,
    NotFoundError,
    PolicyDeniedError,
    SignInError,
    UsageError,
)
from ai4infra.model import GrantWanted, Record, RoleAssignment, Step, StepResult
from ai4infra.plan import IdentityWanted, LateGrant, Plan
from ai4infra.provision.run import Run, wanted_of
from ai4infra.provision.writes import patiently, send
from ai4infra.storage_names import Scope, Who, parse_scope, parse_who
from ai4infra.storage_plan import (
    ASSIGNMENT,
    STAGE_GRANTS,
    rbac_remove_steps,
    rbac_steps,
)

IDENTITY = "managed identity"
PRINCIPAL_SECONDS = 300.0
"""How long a new identity is waited for: the directory took 165 seconds for one, seen in 2019."""
ROLE_SECONDS = 1800.0
"""How long a role is waited for: https://learn.microsoft.com/azure/role-based-access-control/troubleshooting"""
PROBE_SECONDS = (5.0, 30.0)
"""Between two probes: at first, and at last."""


class RoleWait(Record, frozen=True):
    """What came of waiting for a role."""

    works: bool | None
    """None: it is assigned, but only who has it can tell whether it works."""
    elapsed_seconds: float
    message: str
    role: str
    principal_id: str
    scope: str
    code: str | None = None
    """The service's last refusal."""
    hint: str | None = None


# --- who, what, where


def role_of(session: Session, text: str, scope: str) -> roles.Role:
    """Return the role with a name or id; a name that is not built in is asked for at the scope.

    Raises UsageError for a role that does not exist or that several bear the name of.
    """
    guid = roles.guid_of(text)
    if guid is None and roles.role(text) is None:
        found = rbac.role_definitions(session, scope, " ".join(text.split()))
        guid = roles.role_id(text, [roles.Role(name=d.name, id=d.id) for d in found])
        return roles.Role(name=next(d.name for d in found if d.id == guid), id=guid)
    guid = guid or roles.role_id(text)
    return roles.role(guid) or roles.Role(name=guid, id=guid)


def grants_to(
    principals: Iterable[Principal], role: roles.Role, *, container: str | None, scope: str | None
) -> list[GrantWanted]:
    """Return the grants of one role to several principals; an unknown one has an empty id."""
    return [
        GrantWanted(
            role_id=role.id,
            role=role.name,
            principal_id=principal.object_id or "",
            principal_type=principal.type,
            label=principal.label,
            container=container,
            scope=scope,
        )
        for principal in principals
    ]


def find_principals(
    session: Session,
    whos: Iterable[str],
    subscription_id: str,
    *,
    enable_identity: bool = False,
) -> dict[str, tuple[Principal, ...]]:
    """Return who is meant by each text, each asked for once and all at the same time.

    Raises UsageError for what cannot be read, before anything is asked; see
    ``identities.resolve`` for the rest.
    """
    parsed = {text: parse_who(text) for text in dict.fromkeys(whos)}

    def resolve(who: Who) -> tuple[Principal, ...]:
        return identities.resolve(session, who, subscription_id, enable_identity=enable_identity)

    outcomes = fan_out(resolve, parsed.values())
    return {text: o.result() for text, o in zip(parsed, outcomes, strict=True)}


def with_late_grants(
    plan: Plan, grants: Sequence[tuple[GrantWanted, Principal]], scope_of: Callable[..., str]
) -> Plan:
    """Add the identities that are to be made, and the grants that wait for them, to a plan."""
    if not grants or plan.refusals:
        return plan
    machines = {arm.id_key(p.resource_id): p for _, p in grants}
    late = [_late_step(grant, principal, scope_of(grant)) for grant, principal in grants]
    enabling = [_identity_step(principal) for principal in machines.values()]
    steps = sorted([*enabling, *plan.steps, *late], key=lambda step: _stage(step))
    made = ", ".join(p.label for p in machines.values())
    warning = f"{made}: a system-assigned identity is made."
    later = [_instances(p) for p in machines.values() if _is_scale_set(p)]
    return structs.replace(plan, steps=tuple(steps), warnings=(*plan.warnings, warning, *later))


def _is_scale_set(principal: Principal) -> bool:
    return "/virtualmachinescalesets/" in (principal.resource_id or "").casefold()


def _instances(principal: Principal) -> str:
    group = arm.name_of(arm.group_of(principal.resource_id or "") or "")
    name = arm.name_of(principal.resource_id or "")
    command = shlex.join(
        ["az", "vmss", "update-instances", "-g", group, "-n", name, "--instance-ids", "*"]
    )
    return (
        f"{principal.label}: VMs that run take the identity over when they are updated: by the"
        f" scale set's upgrade policy, or by {command}"
    )


def _stage(step: Step) -> int:
    stage: int | None = getattr(step.wanted, "stage", None)
    return -1 if stage is None else stage


def _identity_step(principal: Principal) -> Step:
    resource_id = principal.resource_id or ""
    version = identities.api_version_of(resource_id) or ""
    return Step(
        action="update",
        kind=IDENTITY,
        name=principal.label,
        detail="no identity → a system-assigned one",
        resource_id=resource_id,
        wanted=IdentityWanted(resource_id=resource_id, api_version=version),
    )


def _late_step(grant: GrantWanted, principal: Principal, scope: str) -> Step:
    return Step(
        action="create",
        kind=ASSIGNMENT,
        name=grant.label,
        detail=f"{grant.role} on {arm.name_of(scope) or 'everything'}, once it has its identity",
        wanted=LateGrant(
            grant=grant,
            scope=scope,
            resource_id=principal.resource_id or "",
            stage=STAGE_GRANTS,
        ),
    )


# --- plans


def plan_assign(
    session: Session,
    role: str,
    whos: Sequence[str],
    on: str,
    subscription_id: str,
    *,
    enable_identity: bool = False,
) -> Plan:
    """Plan the assignment of a role at a scope; reads only.

    Raises UsageError for a scope, role or WHO that cannot be, NotFoundError for one that is not.
    """
    scope = parse_scope(on)
    found = find_principals(session, whos, subscription_id, enable_identity=enable_identity)
    definition = role_of(session, role, scope.id)
    principals = [p for each in found.values() for p in each]
    ready = [p for p in principals if p.object_id]
    grants = grants_to(ready, definition, container=None, scope=scope.id)
    level, remarks = _level(session, scope)
    _check_group(session, scope)
    found_locks = _locks(session, scope)
    plan = rbac_steps(
        grants,
        _assignments_or_none(session, scope.id),
        level=level,
        locks=None if found_locks is None else found_locks.found,
        locks_whole=found_locks is None or found_locks.whole,
    )
    waiting = [p for p in principals if not p.object_id]
    late = grants_to(waiting, definition, container=None, scope=scope.id)
    plan = with_late_grants(plan, list(zip(late, waiting, strict=True)), lambda grant: scope.id)
    remarks = (*remarks, roles.not_a_data_role(definition.id) or "")
    return structs.replace(plan, warnings=(*plan.warnings, *filter(None, remarks)))


def _assignments_or_none(session: Session, scope: str) -> tuple[RoleAssignment, ...] | None:
    try:
        return rbac.assignments(session, scope)
    except ForbiddenError:
        return None


def _account_of(scope: Scope) -> tuple[str, str, str] | None:
    """Return subscription, group and name of the account that a scope is or lies in."""
    is_account = (scope.resource_type or "").casefold().startswith(arm.ACCOUNT.casefold())
    if not is_account or scope.subscription_id is None or scope.group is None:
        return None
    return scope.subscription_id, scope.group, scope.names[0]


def _level(session: Session, scope: Scope) -> tuple[Level | None, tuple[str, ...]]:
    """Return the classification of the account that a scope lies in, and what is unknown of it.

    Raises NotFoundError where there is no such account.
    """
    where = _account_of(scope)
    if where is None:
        return None, ()
    try:
        return recorded(storage.account(session, *where).account.tags), ()
    except ForbiddenError:
        return None, ("The account could not be read: its classification is not looked at.",)


def _check_group(session: Session, scope: Scope) -> None:
    """Raise NotFoundError for a scope whose group does not exist: a list of roles would not tell.

    An account that was read has one; of a group that may not be read the service tells later.
    """
    if scope.subscription_id is None or scope.group is None or _account_of(scope) is not None:
        return
    try:
        found = resources.group(session, scope.subscription_id, scope.group)
    except ForbiddenError:
        return
    if found is None:
        raise NotFoundError(
            f"There is no resource group {scope.group} in the subscription"
            f" {scope.subscription_id}.",
            hint="Check the scope: az group list -o table shows the groups.",
        )


def _locks(session: Session, scope: Scope) -> locks.Locks | None:
    """Return the locks that count for a scope; None where they could not be read."""
    if scope.subscription_id is None or scope.group is None:
        return locks.Locks(found=())
    try:
        return locks.locks(session, scope.subscription_id, scope.group, scope.id)
    except SignInError:
        raise
    except Ai4infraError:
        return None


def plan_unassign(
    session: Session, role: str, whos: Sequence[str], on: str, subscription_id: str
) -> Plan:
    """Plan the removal of a role at exactly a scope; reads only.

    Raises NotFoundError for a scope in a group or an account that does not exist.
    """
    scope = parse_scope(on)
    found = find_principals(session, whos, subscription_id)
    definition = role_of(session, role, scope.id)
    principals = [p for each in found.values() for p in each]
    grants = grants_to(principals, definition, container=None, scope=scope.id)
    _check_group(session, scope)
    _level(session, scope)
    found_locks = _locks(session, scope)
    return rbac_remove_steps(
        grants,
        rbac.assignments(session, scope.id),
        locks=None if found_locks is None else found_locks.found,
        locks_whole=found_locks is None or found_locks.whole,
    )


# --- steps


def enable(step: Step, run: Run) -> StepResult:
    """Give a machine a system-assigned identity."""
    wanted = wanted_of(step, IdentityWanted)
    write = ArmWrite(
        method="PATCH",
        resource_id=wanted.resource_id,
        resource_type=parse_scope(wanted.resource_id).resource_type or "",
        api_version=wanted.api_version,
        body=identities.ENABLE,
    )
    return send(step, write, run)


def assign(step: Step, run: Run) -> StepResult:
    """Assign a role, or remove one.

    A principal that the directory does not know yet is waited for, with the same assignment; one
    that is assigned already is as good as done.
    """
    write = step.wanted if isinstance(step.wanted, ArmWrite) else _found(step, run)
    if write.method == "DELETE":
        return send(step, write, run)
    try:
        return patiently(
            lambda: send(step, write, run),
            run,
            codes={"principalnotfound"},
            within_seconds=PRINCIPAL_SECONDS,
        )
    except Ai4infraError as error:
        return _assigned_already(step, write, run, error)


def _found(step: Step, run: Run) -> ArmWrite:
    """Return the write of a late grant, now that its identity is there."""
    late = wanted_of(step, LateGrant)
    principal = identities.enabled_id(run.session, late.resource_id)
    if principal is None:
        raise NotFoundError(
            f"{late.grant.label} has no identity yet.", hint="Run the same again in a minute."
        )
    grant = structs.replace(late.grant, principal_id=principal)
    return arm.grant_write(grant, late.scope, stage=late.stage)


def _assigned_already(step: Step, write: ArmWrite, run: Run, error: Ai4infraError) -> StepResult:
    """Return success for an assignment that a list shows; raise any other error with its help."""
    if (error.code or "").casefold() != "roleassignmentexists":
        raise _helpful(step, write, error)
    properties = (write.body or {})["properties"]
    scope = arm.parent_of(write.resource_id)
    try:
        listed = rbac.assignments(run.session, scope, principal_id=properties["principalId"])
    except ForbiddenError:
        error.hint = "Whether it is this one cannot be told: you may not list the assignments."
        raise error from None
    for found in listed:
        same = found.role_id == rbac.guid_of(properties["roleDefinitionId"])
        if same and arm.same_id(found.scope, scope):
            narrowed = " under a condition that narrows it" if found.condition else ""
            message = f"It was assigned already{narrowed}, as {arm.name_of(found.id)}."
            return StepResult(step=step, state="kept", message=message)
    raise error


def _helpful(step: Step, write: ArmWrite, error: Ai4infraError) -> Ai4infraError:
    """Return the error with the help that only an assignment can give."""
    code = (error.code or "").casefold()
    if code == "principalnotfound":
        error.hint = (
            "A new identity can take some minutes: run the same again. A client id (appId) is no"
            " object id: az ad sp show --id CLIENT_ID --query id prints that."
        )
    elif code == "unmatchedprincipaltype":
        error.hint = f"Say what {step.name} is: add :User, :Group or :ServicePrincipal."
    elif code == "roleassignmentlimitexceeded":
        error.hint = (
            "Remove some that nobody needs (ai4infra rbac list --below), or give the role to a"
            " group, or at a scope above, once for many."
        )
    elif code == "denyassignmentauthorizationfailed":
        error.hint = (
            "A deny assignment forbids it, to owners too: whoever made it (a deployment stack, a"
            " managed application) has to let it through."
        )
    elif isinstance(error, ForbiddenError) and not isinstance(error, PolicyDeniedError):
        error.hint = f"It takes the right to assign roles there. An owner can run: {_az(write)}"
    return error


def _az(write: ArmWrite) -> str:
    """Return the az command that makes the same assignment."""
    properties = (write.body or {})["properties"]
    words = ["az", "role", "assignment", "create", "--role"]
    words += [rbac.guid_of(properties["roleDefinitionId"])]
    words += ["--assignee-object-id", properties["principalId"]]
    words += ["--assignee-principal-type", properties["principalType"]]
    return shlex.join([*words, "--scope", arm.parent_of(write.resource_id)])


# --- waiting


def wait_role(
    session: Session,
    role: str,
    who: str,
    on: str,
    subscription_id: str,
    *,
    timeout_seconds: float = ROLE_SECONDS,
    on_progress: Callable[[str], None] = lambda text: None,
) -> RoleWait:
    """Wait until a role works, and say how long it took.

    A blob role of our own is tried by reading one row of a list. Of anybody else, and of roles
    for other things, Resource Manager tells only that it is assigned. Raises NotFoundError where
    it is not assigned, and what the blob service says where waiting does not help.
    """
    scope = parse_scope(on)
    found = find_principals(session, [who], subscription_id)[who]
    definition = role_of(session, role, scope.id)
    for principal in found:
        _check_assigned(session, definition, principal, scope)
    waiting = _Waiting(session, definition, found[0], scope, timeout_seconds, on_progress)
    reason = waiting.why_not()
    if reason is not None:
        return waiting.result(None, reason)
    return waiting.until_it_works()


def _check_assigned(session: Session, role: roles.Role, principal: Principal, scope: Scope) -> None:
    listed = rbac.assignments(session, scope.id)
    if any(a.role_id == role.id and a.principal_id == principal.object_id for a in listed):
        return
    words = ["ai4infra", "rbac", "assign", role.name, "--to", principal.label, "--on", scope.id]
    raise NotFoundError(
        f"{principal.label} does not have the role {role.name} on {scope.name or scope.id}.",
        hint=f"Through a group it may have it all the same. To assign it: {shlex.join(words)}",
    )


class _Waiting:
    """The waiting for one role."""

    def __init__(
        self,
        session: Session,
        role: roles.Role,
        principal: Principal,
        scope: Scope,
        timeout_seconds: float,
        on_progress: Callable[[str], None],
    ) -> None:
        self._session = session
        self._role = role
        self._principal = principal
        self._scope = scope
        self._timeout = timeout_seconds
        self._on_progress = on_progress
        self._waited = 0.0

    def why_not(self) -> str | None:
        """Say why the role cannot be tried here; None when it can."""
        if _account_of(self._scope) is None or not roles.allows_blobs(self._role.id, "read"):
            return "It is assigned. Only roles for blobs, on an account, can be tried."
        if self._principal.object_id != identities.me(self._session).object_id:
            return (
                "It is assigned, which is all that Resource Manager shows: whether it works yet,"
                f" only {self._principal.label} itself can try. It takes up to 10 minutes, in rare"
                " cases 30."
            )
        return None

    def until_it_works(self) -> RoleWait:
        """Try until it works or the time is over."""
        endpoint, container = self._target()
        if container is None:
            return self.result(None, "It is assigned, but there is no container to try it on.")
        wait, longest = PROBE_SECONDS
        while True:
            refused = self._probe(endpoint, container)
            if refused is None:
                return self.result(True, f"It works after {self._waited:.0f} s.")
            if self._waited >= self._timeout:
                message = f"It does not work after {self._waited:.0f} s: {refused.message}"
                return self.result(False, message, refused)
            self._on_progress(f"{self._role.name}: not yet after {self._waited:.0f} s")
            wait = min(wait, self._timeout - self._waited)
            self._session.transport.sleep(wait)
            self._waited += wait
            wait = min(wait * 1.5, longest)

    def _target(self) -> tuple[str, str | None]:
        """Return the account's blob endpoint and the container to try, the scope or any."""
        where = _account_of(self._scope)
        if where is None:
            raise UsageError(f"{self._scope.id} lies in no storage account.")
        account = storage.account(self._session, *where).account
        endpoint = account.endpoints.get("blob")
        if endpoint is None:
            raise NotFoundError(f"The account {account.name} has no blob endpoint.")
        if len(self._scope.names) > 1:
            return endpoint, self._scope.names[-1]
        return endpoint, storage.first_container(self._session, account.id)

    def _probe(self, endpoint: str, container: str) -> Ai4infraError | None:
        """Return the refusal that may pass, None when it works; raise any other error."""
        try:
            blobs.probe(self._session, endpoint, container)
        except Ai4infraError as error:
            refused = blobs.refusal(error)
            if refused is None or not refused.passes:
                raise
            return error
        return None

    def result(
        self, works: bool | None, message: str, refused: Ai4infraError | None = None
    ) -> RoleWait:
        """Build the result as it stands now."""
        return RoleWait(
            works=works,
            elapsed_seconds=self._waited,
            message=message,
            role=self._role.name,
            principal_id=self._principal.object_id or "",
            scope=self._scope.id,
            code=refused.code if refused else None,
            hint=refused.hint if refused else None,
        )
