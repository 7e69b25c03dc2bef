"""A local Azure for newcomers, tests and CI: state in, requests, state out.

    with open_sandbox() as sandbox:
        client = ComputeManagementClient(
            sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
        )

``ai4infra.sandbox.serve`` puts the same world behind HTTPS, for ``az`` and other programs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ai4infra.sandbox.app import App
from ai4infra.sandbox.faults import Fault, Outcome
from ai4infra.sandbox.messages import Request
from ai4infra.sandbox.services import SERVICES
from ai4infra.sandbox.world import Policy, State, StateFile, World

if TYPE_CHECKING:
    from ai4infra.sandbox.transport import SandboxCredential, SandboxTransport

Result = TypeVar("Result")

__all__ = ["Fault", "Policy", "Sandbox", "State", "World", "open_sandbox"]


class Sandbox:
    """One open sandbox: a world, the way in, and the file that keeps it, if any."""

    def __init__(self, world: World, file: StateFile | None = None) -> None:
        self.world = world
        self._app = App(world, SERVICES)
        self._file = file
        self._reload()

    @property
    def credential(self) -> SandboxCredential:
        """Sign-in as the example user, for any client of the SDK."""
        from ai4infra.sandbox.transport import SandboxCredential

        return SandboxCredential(self)

    @property
    def subscription_id(self) -> str:
        """Id of the first subscription, the default one."""
        return self.world.catalogue.subscription_ids[0]

    def transport(self) -> SandboxTransport:
        """Return a new transport for clients of the SDK."""
        from ai4infra.sandbox.transport import SandboxTransport

        return SandboxTransport(self)

    def handle(self, request: Request) -> Outcome:
        """Answer one request, and keep what it changed."""
        with self._app.lock:
            self._reload()
            outcome = self._app.handle(request)
            self.save()
            return outcome

    def change(self, action: Callable[[World], Result]) -> Result:
        """Do something to the world while it answers no request, and keep what changed."""
        with self._app.lock:
            self._reload()
            result = action(self.world)
            self.save()
            return result

    def advance(self, seconds: float) -> None:
        """Let time pass in the sandbox."""
        with self._app.lock:
            self._reload()
            self.world.advance(seconds)
            self.save()

    def fail(
        self,
        kind: str,
        path: str = "",
        *,
        method: str = "",
        times: int = 1,
        after: int = 0,
        retry_after: str | float | None = None,
    ) -> Fault:
        """Ask for a fault; see ``faults.Fault``. Raises UsageError for an unknown kind."""
        named = None if retry_after is None else str(retry_after)
        fault = Fault(kind, path, method, times, after, named)
        self.world.faults.append(fault)
        return fault

    def save(self) -> None:
        """Write the state to its file; a sandbox in memory has none."""
        if self._file is not None:
            self._file.save(self.world.state)

    def close(self) -> None:
        """Keep what is there; the sandbox can still be used."""
        with self._app.lock:
            self.save()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _reload(self) -> None:
        state = self._file.load() if self._file is not None else None
        if state is not None:
            self.world.state = state


def open_sandbox(state_dir: Path | None = None, world: World | None = None) -> Sandbox:
    """Open a sandbox: in memory with a fixed clock, or kept in ``state_dir`` on the real one.

    Raises Ai4infraError when the state file cannot be read.
    """
    if state_dir is None:
        return Sandbox(world or World())
    return Sandbox(world or World(start=None), StateFile(state_dir))
