"""The sandbox, served for the benchmark of storage: nothing takes time in it, and it counts.

Prints its URL and the id of its subscription. Each line on stdin is answered by the number of
requests to Resource Manager since the last one, and empties the world.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from ai4infra.sandbox import Sandbox, State, open_sandbox
from ai4infra.sandbox.serve import serve

PRINCIPALS = tuple(str(uuid.UUID(int=number)) for number in range(1, 101))
"""Object ids that its directory knows, beside the example's own."""


def emptied(sandbox: Sandbox) -> int:
    """Count what was asked of Resource Manager, and start over."""
    paths = [urlsplit(entry.url).path.lower() for entry in sandbox.world.log]
    sandbox.world.log.clear()
    sandbox.world.state = State()
    return sum(path.startswith(("/subscriptions", "/providers", "/tenants")) for path in paths)


def main() -> None:
    """Serve until stdin ends."""
    sandbox = open_sandbox()
    sandbox.world.instant = True
    sandbox.world.catalogue.principals.update({id_: {"type": "User"} for id_ in PRINCIPALS})
    with serve(sandbox, Path(sys.argv[1])) as server:
        emptied(sandbox)
        print(server.url, sandbox.subscription_id, flush=True)
        for _ in sys.stdin:
            print(emptied(sandbox), flush=True)


if __name__ == "__main__":
    main()
