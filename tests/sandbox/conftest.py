"""Fixtures that talk to the sandbox in plain HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from arm_client import ARM, Arm, Http, Reply, account_body

if TYPE_CHECKING:
    from azure.mgmt.authorization import AuthorizationManagementClient
    from azure.mgmt.storage import StorageManagementClient

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


@pytest.fixture
def storage(sandbox: Sandbox) -> StorageManagementClient:
    """The SDK's client for storage accounts."""
    from azure.mgmt.storage import StorageManagementClient

    return StorageManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )


@pytest.fixture
def roles(sandbox: Sandbox) -> AuthorizationManagementClient:
    """The SDK's client for roles and their assignments."""
    from azure.mgmt.authorization import AuthorizationManagementClient

    return AuthorizationManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )


@pytest.fixture
def group(arm: Arm) -> str:
    """Id of a resource group in eastus2."""
    reply = arm("PUT", "@/resourceGroups/rg", json={"location": "eastus2"})
    return str(reply.json()["id"])


@pytest.fixture
def account(arm: Arm, sandbox: Sandbox, group: str) -> str:
    """Id of a plain account named stdata, ready, with the hierarchical namespace."""
    id_ = f"{group}/providers/Microsoft.Storage/storageAccounts/stdata"
    assert arm("PUT", id_, json=account_body(isHnsEnabled=True)).status_code in (200, 202)
    sandbox.advance(60)
    return id_
