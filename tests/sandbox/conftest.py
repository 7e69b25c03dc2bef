"""Fixtures that talk to the sandbox in plain HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from arm_client import ARM, Arm, Http, Reply

if TYPE_CHECKING:
    from ai4infra.sandbox import Sandbox


@pytest.fixture
def http(sandbox: Sandbox) -> Http:
    """A session without a token; every https host leads into the sandbox."""
    session: Http = sandbox.transport().session
    return session


@pytest.fixture
def arm(sandbox: Sandbox, http: Http) -> Arm:
    """Send a request to Resource Manager; ``@`` in the path stands for the default subscription."""

    def send(
        method: str, path: str, *, version: str | None = "2024-07-01", **options: Any
    ) -> Reply:
        token = sandbox.credential.get_token(f"{ARM}/.default").token
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        params = {**options.pop("params", {}), **({"api-version": version} if version else {})}
        url = ARM + path.replace("@", f"/subscriptions/{sandbox.subscription_id}")
        return http.request(method, url, headers=headers, params=params, **options)

    return send
