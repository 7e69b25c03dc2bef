"""What a connection can do about moving data; ``client.Azure`` has these methods.

What does it is imported when it is first asked for: most commands move nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ai4infra.cloud.session import Session
from ai4infra.model import StorageAccount
from ai4infra.settings import Settings

if TYPE_CHECKING:
    from ai4infra.client_copy import CopyOptions, CopyPlan, CopyReceipt, OnProgress, Say
    from ai4infra.tools.work import Removed
    from ai4infra.transfer.jobs import Job


class DataMethods:
    """The part of a connection that moves data."""

    session: Session
    settings: Settings
    storage_account: Callable[..., StorageAccount]

    def plan_copy(
        self,
        source: str,
        target: str,
        options: CopyOptions | None = None,
        *,
        env: Mapping[str, str] | None = None,
        say: Say = lambda text: None,
    ) -> CopyPlan:
        """Look at everything that a copy needs; writes nothing but AzCopy's folders.

        Raises UsageError for places that are none and choices that are missing, NotFoundError
        for a source, account, container or AzCopy that is not there, ForbiddenError with the
        command that helps for a role that is missing, and Ai4infraError for the rest.
        """
        from ai4infra.client_copy import CopyOptions, Planning
        from ai4infra.tools import files
        from ai4infra.transfer import endpoints

        chosen = options or CopyOptions()
        ends = endpoints.parse_places(source, target, files.exists)
        endpoints.check_sas(*ends, allowed=chosen.allow_sas)
        return Planning(self, chosen, os.environ if env is None else env, say).plan(*ends)

    def copy(
        self,
        plan: CopyPlan,
        *,
        on_progress: OnProgress = lambda progress: None,
        say: Say = lambda text: None,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> CopyReceipt:
        """Carry out a plan with AzCopy; Ctrl-C leaves a job that can be resumed."""
        from ai4infra.client_copy import Copying

        return Copying(plan, on_progress, say, now).run()

    def data_jobs(
        self, work_dir: Path | None = None, env: Mapping[str, str] | None = None
    ) -> tuple[Job, ...]:
        """Return our jobs, the newest first."""
        from ai4infra.tools.work import all_jobs, known_works

        works = known_works(os.environ if env is None else env, work_dir)
        return tuple(all_jobs(works))

    def plan_resume(
        self,
        job: str | None = None,
        source: str | None = None,
        target: str | None = None,
        options: CopyOptions | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> CopyPlan:
        """Look for a job of ours that is not finished, by its id or by source and target.

        Raises NotFoundError where there is none, ConflictError for one that runs or that AzCopy
        cannot take up, UsageError where it needs a SAS that is not given.
        """
        from ai4infra.client_copy import CopyOptions, Resuming

        chosen = options or CopyOptions()
        return Resuming(self, chosen, os.environ if env is None else env).plan(job, source, target)

    def clean_data(
        self,
        older_than: timedelta | None = None,
        work_dir: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Removed:
        """Remove plans, logs and records of old jobs; see ``Work.prune``."""
        from ai4infra.tools.work import known_works, prune_all

        works = known_works(os.environ if env is None else env, work_dir)
        return prune_all(works, datetime.now(timezone.utc), older_than)
