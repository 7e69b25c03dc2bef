"""Chooses the identity by what is announced, never by trying one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from ai4infra.cloud.clouds import CLOUDS
from ai4infra.cloud.translate import one_sentence
from ai4infra.errors import SignInError, UsageError
from ai4infra.ids import unknown_name

if TYPE_CHECKING:
    from azure.core import PipelineClient
    from azure.core.credentials import TokenCredential
    from azure.core.rest import HttpRequest, HttpResponse

Auth = Literal["env", "workload", "msi", "cli"]
AUTHS: tuple[Auth, ...] = get_args(Auth)
AZ_TIMEOUT_SECONDS = 30

_BY_CREDENTIAL: dict[str, Auth] = {
    "environmentcredential": "env",
    "workloadidentitycredential": "workload",
    "managedidentitycredential": "msi",
    "azureclicredential": "cli",
}


def choose(auth: str | None, env: Mapping[str, str]) -> Auth:
    """Return the kind of identity to use.

    ``auth`` decides when it is given; then ``AZURE_TOKEN_CREDENTIALS`` (``dev``, ``prod`` or the
    name of one credential). Else it is the first that the environment announces: a service
    principal, a workload identity, a managed identity endpoint; else the az sign-in. Managed
    identity is never probed for. Raises UsageError for an unknown value.
    """
    if auth:
        return _known(auth)
    wanted = env.get("AZURE_TOKEN_CREDENTIALS", "").strip().casefold()
    if wanted in _BY_CREDENTIAL:
        return _BY_CREDENTIAL[wanted]
    if wanted not in ("", "dev", "prod"):
        raise UsageError(
            f"AZURE_TOKEN_CREDENTIALS is {env['AZURE_TOKEN_CREDENTIALS']!r}, which is not known.",
            hint="Use dev, prod, or the name of one credential such as AzureCliCredential.",
        )
    if wanted == "dev":
        return "cli"
    return _announced(env) or ("msi" if wanted == "prod" else "cli")


def _known(auth: str) -> Auth:
    for known in AUTHS:
        if auth.casefold() == known:
            return known
    raise unknown_name("identity", auth, AUTHS, listing=f"Known: {', '.join(AUTHS)}.")


def _announced(env: Mapping[str, str]) -> Auth | None:
    if env.get("AZURE_CLIENT_ID") and (
        env.get("AZURE_CLIENT_SECRET") or env.get("AZURE_CLIENT_CERTIFICATE_PATH")
    ):
        return "env"
    if env.get("AZURE_FEDERATED_TOKEN_FILE"):
        return "workload"
    if env.get("IDENTITY_ENDPOINT") or env.get("MSI_ENDPOINT"):
        return "msi"
    return None


def credential_for(
    *,
    auth: str | None,
    client_id: str | None,
    tenant_id: str | None,
    az_tenant: str | None,
    authority: str | None,
    env: Mapping[str, str],
    client: PipelineClient[HttpRequest, HttpResponse],
) -> TokenCredential:
    """Return the credential that ``choose`` names, importing only that one.

    ``client_id`` or ``AZURE_CLIENT_ID`` selects a user-assigned identity. ``az_tenant`` is the
    tenant for the az sign-in where no tenant is asked for. ``client`` is what a managed identity
    endpoint is asked through. Raises SignInError naming what the environment lacks.
    """
    kind = choose(auth, env)
    try:
        return _built(kind, client_id, tenant_id, az_tenant, authority, env, client)
    except (ValueError, OSError) as error:
        raise SignInError(
            f"Cannot sign in: {one_sentence(str(error))}",
            hint="Look at the tenant, the client id and the certificate that are set:"
            " --tenant, --client-id and the AZURE_… variables.",
        ) from error


def _built(
    kind: Auth,
    client_id: str | None,
    tenant_id: str | None,
    az_tenant: str | None,
    authority: str | None,
    env: Mapping[str, str],
    client: PipelineClient[HttpRequest, HttpResponse],
) -> TokenCredential:
    client_id = client_id or env.get("AZURE_CLIENT_ID")
    tenant = tenant_id or env.get("AZURE_TENANT_ID")
    if kind == "cli":
        return _az(tenant_id or az_tenant)
    if kind == "msi":
        return _managed_identity(client, client_id, env)
    if kind == "workload":
        return _workload(tenant, client_id, authority, env)
    return _service_principal(tenant, client_id, authority, env)


def _az(tenant: str | None) -> TokenCredential:
    from azure.identity import AzureCliCredential

    return AzureCliCredential(tenant_id=tenant or "", process_timeout=AZ_TIMEOUT_SECONDS)


def _managed_identity(
    client: PipelineClient[HttpRequest, HttpResponse], client_id: str | None, env: Mapping[str, str]
) -> TokenCredential:
    from ai4infra.cloud.identity_endpoint import IdentityEndpoint, is_announced

    if is_announced(env):
        return IdentityEndpoint(client, env, client_id)
    from azure.identity import ManagedIdentityCredential

    return ManagedIdentityCredential(client_id=client_id)


def _workload(
    tenant: str | None, client: str | None, authority: str | None, env: Mapping[str, str]
) -> TokenCredential:
    file = env.get("AZURE_FEDERATED_TOKEN_FILE")
    values = _needed(
        AZURE_TENANT_ID=tenant, AZURE_CLIENT_ID=client, AZURE_FEDERATED_TOKEN_FILE=file
    )
    from azure.identity import WorkloadIdentityCredential

    return WorkloadIdentityCredential(
        tenant_id=values["AZURE_TENANT_ID"],
        client_id=values["AZURE_CLIENT_ID"],
        token_file_path=values["AZURE_FEDERATED_TOKEN_FILE"],
        **_authority(authority),
    )


def _service_principal(
    tenant: str | None, client: str | None, authority: str | None, env: Mapping[str, str]
) -> TokenCredential:
    values = _needed(AZURE_TENANT_ID=tenant, AZURE_CLIENT_ID=client)
    ids = values["AZURE_TENANT_ID"], values["AZURE_CLIENT_ID"]
    certificate = env.get("AZURE_CLIENT_CERTIFICATE_PATH")
    if env.get("AZURE_CLIENT_SECRET") or not certificate:
        secret = _needed(AZURE_CLIENT_SECRET=env.get("AZURE_CLIENT_SECRET"))
        from azure.identity import ClientSecretCredential

        return ClientSecretCredential(*ids, secret["AZURE_CLIENT_SECRET"], **_authority(authority))
    from azure.identity import CertificateCredential

    password = env.get("AZURE_CLIENT_CERTIFICATE_PASSWORD")
    return CertificateCredential(*ids, certificate, password=password, **_authority(authority))


def _authority(authority: str | None) -> dict[str, Any]:
    if authority is None:
        return {}
    known = authority in {cloud.authority for cloud in CLOUDS}
    # Public Azure vouches for the hosts of the public clouds only.
    return {"authority": authority, "disable_instance_discovery": not known}


def _needed(**values: str | None) -> dict[str, str]:
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise SignInError(
            f"Cannot sign in: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set.",
            hint="Set them all, or choose another identity with --auth env|workload|msi|cli.",
        )
    return {name: value for name, value in values.items() if value}
