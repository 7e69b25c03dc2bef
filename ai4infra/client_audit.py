"""What a connection can do about the checklist; ``client.Azure`` has these methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ai4infra.arm import group_of, name_of, subscription_of
from ai4infra.cloud.fanout import Outcome, fan_out
from ai4infra.cloud.session import Session
from ai4infra.errors import ForbiddenError, SignInError
from ai4infra.model import Finding, Lock, Record, StorageAccount, Subscription
from ai4infra.plan import Plan

if TYPE_CHECKING:
    from ai4infra.audit import AuditLook

ALERTS = "alerts"


class Audited(Record, frozen=True):
    """One account, held against the checklist."""

    look: AuditLook
    findings: tuple[Finding, ...]


class _Job(NamedTuple):
    account_id: str | None
    """None: the subscription's own."""
    part: str


class AuditMethods:
    """The part of a connection that is about the checklist."""

    session: Session
    subscription: Callable[..., Subscription]
    storage_account: Callable[..., StorageAccount]
    storage_accounts: Callable[..., tuple[StorageAccount, ...]]

    def audit_storage(
        self,
        names: Sequence[str] = (),
        *,
        group: str | None = None,
        subscription: str | None = None,
        on_progress: Callable[[str], None] = lambda text: None,
    ) -> tuple[Audited, ...]:
        """Hold accounts against the checklist: those named, else all of the group, else all.

        What may not be read is unknown in the findings. Raises NotFoundError for an account that
        does not exist, and what Azure says where the accounts themselves cannot be read.
        """
        # Only here: a command that audits nothing need not read the limits.
        from ai4infra.audit import audit

        names = (names,) if isinstance(names, str) else names
        chosen = self.subscription(subscription).id
        if names:
            found = [
                self.storage_account(name, group=group, subscription=chosen)
                for name in dict.fromkeys(names)
            ]
        else:
            found = list(self.storage_accounts(group, subscription=chosen))
        on_progress(f"reading {len(found)} accounts")
        looks = self._looks(chosen, found)
        return tuple(Audited(look=look, findings=audit(look)) for look in looks)

    def plan_mending(self, audited: Iterable[Audited]) -> Plan:
        """Plan all that one right answer mends, for accounts that were audited; reads only."""
        from ai4infra import provision
        from ai4infra.audit import fix_wanted

        wanted = [fix_wanted(each.look, each.findings) for each in audited]
        plans = [provision.plan_storage(self.session, each) for each in wanted if each]
        return Plan(
            steps=tuple(step for plan in plans for step in plan.steps),
            warnings=tuple(text for plan in plans for text in plan.warnings),
            verify=plans[0].verify if len(plans) == 1 else None,
        )

    def _looks(
        self, subscription_id: str, accounts: Sequence[StorageAccount]
    ) -> Iterator[AuditLook]:
        from ai4infra.cloud import monitor

        jobs = {_Job(a.id, part): job for a in accounts for part, job in self._jobs(a).items()}
        alerts = _Job(None, ALERTS)
        jobs[alerts] = partial(monitor.metric_alerts, self.session, subscription_id)
        outcomes = {o.item: o for o in fan_out(lambda key: jobs[key](), list(jobs))}
        for outcome in outcomes.values():
            if isinstance(outcome.error, SignInError):
                raise outcome.error
        for account in accounts:
            own = {part: outcomes[_Job(account.id, part)] for part in self._jobs(account)}
            yield _look(account, {**own, ALERTS: outcomes[alerts]})

    def _jobs(self, account: StorageAccount) -> dict[str, Callable[[], Any]]:
        """Return the reading of every part of an account."""
        from ai4infra.cloud import monitor, rbac, storage

        session, id_ = self.session, account.id
        where = (subscription_of(id_) or "", name_of(group_of(id_) or ""))
        return {
            "blob_service": partial(storage.blob_service, session, id_),
            "containers": partial(storage.containers, session, id_),
            "lifecycle": partial(storage.lifecycle_rules, session, id_),
            "assignments": partial(rbac.assignments, session, id_, below=True),
            "locks": partial(_locks, session, *where, id_),
            "used_bytes": partial(monitor.used_bytes, session, id_),
        }


def _locks(session: Session, subscription_id: str, group: str, account_id: str) -> tuple[Lock, ...]:
    """Return the locks that count for an account; where there may be more, at least one.

    Raises ForbiddenError where none was found and the subscription's own could not be read.
    """
    from ai4infra.cloud import locks

    read = locks.locks(session, subscription_id, group, account_id)
    if not read.whole and not read.found:
        raise ForbiddenError("Those of the subscription may not be listed.")
    return read.found


def _look(account: StorageAccount, outcomes: Mapping[str, Outcome[_Job, Any]]) -> AuditLook:
    from ai4infra.audit import AuditLook

    return AuditLook(
        account=account,
        **{part: outcome.value for part, outcome in outcomes.items()},
        unread={part: str(o.error) for part, o in outcomes.items() if o.error is not None},
    )
