"""Signing in: managed identity, service principals, and what a custom cloud tells of itself.

The managed identity endpoint is that of App Service and Functions (api-version 2019-08-01) and
that of virtual machines; service principals use OAuth 2.0 client credentials.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import Response, ServiceFailure, answer
from ai4infra.sandbox.tokens import LIFETIME_SECONDS, Identity, issue
from ai4infra.sandbox.world import World

managed = Service("identity", open=True)
login = Service("login", open=True)
metadata = Service("arm", open=True)
Row = dict[str, Any]

IDENTITY_HEADER = "ai4infra-sandbox"
"""What the endpoint of App Service wants in X-IDENTITY-HEADER; it protects nothing here."""
IDENTITY_PATH = "/msi/token"


@managed.route("GET", IDENTITY_PATH)
def app_service_token(call: Call) -> Response:
    """Answer as the identity endpoint of App Service does."""
    if call.request.headers.get("x-identity-header") != IDENTITY_HEADER:
        return _app_service_error(401, "The X-IDENTITY-HEADER is missing or wrong.")
    if call.query.get("api-version") != "2019-08-01":
        return _app_service_error(400, "The api-version has to be 2019-08-01.")
    return _managed_token(call, _app_service_error)


@managed.route("GET", "/metadata/identity/oauth2/token")
def machine_token(call: Call) -> Response:
    """Answer as the metadata service of a virtual machine does."""
    if call.request.headers.get("metadata", "").lower() != "true":
        return _oauth_error(400, "invalid_request", "Required metadata header not specified")
    return _managed_token(call, lambda status, text: _oauth_error(status, "invalid_request", text))


def _managed_token(call: Call, error: Any) -> Response:
    resource = call.query.get("resource")
    if not resource:
        return error(400, "The query parameter resource is missing.")  # type: ignore[no-any-return] # whichever of the two error shapes was given
    identity = _managed_identity(call)
    if identity is None:
        return error(400, "Identity not found")  # type: ignore[no-any-return] # as above
    token, ends = issue(call.world, identity, resource)
    body = {
        "access_token": token,
        "client_id": identity.client_id,
        "expires_on": str(ends),
        "expires_in": str(LIFETIME_SECONDS),
        "not_before": str(ends - LIFETIME_SECONDS),
        "resource": resource,
        "token_type": "Bearer",
    }
    return answer(body)


def _managed_identity(call: Call) -> Identity | None:
    mine = identity_named(call.world, "managed")
    wanted = (
        call.query.get("client_id"),
        call.query.get("object_id", call.query.get("principal_id")),
    )
    fits = wanted[0] in (None, mine.client_id) and wanted[1] in (None, mine.object_id)
    return mine if fits and not {"mi_res_id", "msi_res_id"} & set(call.query) else None


def _app_service_error(status: int, message: str) -> Response:
    return answer({"statusCode": status, "message": message, "correlationId": ""}, status)


def _oauth_error(status: int, code: str, message: str) -> Response:
    return answer({"error": code, "error_description": message}, status)


@login.route("GET", "/{tenant}/v2.0/.well-known/openid-configuration")
@login.route("GET", "/{tenant}/.well-known/openid-configuration")
def openid_configuration(call: Call) -> Response:
    """Answer where to get tokens of a tenant."""
    _check_tenant(call)
    base = f"{call.request.origin}/{call['tenant']}"
    body = {
        "token_endpoint": f"{base}/oauth2/v2.0/token",
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "response_types_supported": ["code"],
        "subject_types_supported": ["pairwise"],
        "issuer": f"{base}/v2.0",
        "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
        "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
        "jwks_uri": f"{base}/discovery/v2.0/keys",
        "tenant_region_scope": None,
        "cloud_instance_name": call.request.origin.removeprefix("https://"),
    }
    return answer(body)


@login.route("GET", "/common/discovery/instance")
def instance_discovery(call: Call) -> Response:
    """Answer that this host is a sign-in host."""
    host = call.request.origin.removeprefix("https://")
    tenant = call.world.catalogue.tenant_id
    endpoint = f"{call.request.origin}/{tenant}/v2.0/.well-known/openid-configuration"
    return answer(
        {
            "tenant_discovery_endpoint": endpoint,
            "api-version": "1.1",
            "metadata": [
                {"preferred_network": host, "preferred_cache": host, "aliases": [host]},
            ],
        }
    )


@login.route("POST", "/{tenant}/oauth2/v2.0/token")
def client_credentials(call: Call) -> Response:
    """Answer with a token for a service principal that knows its secret."""
    _check_tenant(call)
    form = {name: values[0] for name, values in parse_qs(call.request.body.decode()).items()}
    if form.get("grant_type") != "client_credentials":
        message = "AADSTS70003: The app requested an unsupported grant type."
        return _oauth_error(400, "unsupported_grant_type", message)
    identity = _principal(call.world, form)
    if identity is None:
        message = "AADSTS7000215: Invalid client secret provided, or an unknown application."
        return _oauth_error(401, "invalid_client", message)
    audience = form.get("scope", "").split(" ")[0].removesuffix("/.default")
    token, _ = issue(call.world, identity, audience)
    seconds = LIFETIME_SECONDS
    return answer(
        {
            "token_type": "Bearer",
            "expires_in": seconds,
            "ext_expires_in": seconds,
            "access_token": token,
        }
    )


def identity_named(world: World, name: str) -> Identity:
    """Return an identity of the catalogue: ``user``, ``managed`` or ``deploy``."""
    row = world.catalogue.identities[name]
    return Identity(row["object_id"], row["client_id"], row.get("kind", "app"))


def _principal(world: World, form: dict[str, str]) -> Identity | None:
    for name, row in world.catalogue.identities.items():
        known = "secret" in row and row["client_id"] == form.get("client_id", "").lower()
        if known and row["secret"] == form.get("client_secret"):
            return identity_named(world, name)
    return None


def _check_tenant(call: Call) -> None:
    known = call.world.catalogue
    given = call["tenant"].lower()
    if given not in (known.tenant_id, known.tenant_domain, "common", "organizations"):
        message = f"AADSTS90002: Tenant '{call['tenant']}' not found."
        failure = ServiceFailure(400, "invalid_tenant", message)
        failure.response = _oauth_error(400, "invalid_tenant", message)
        raise failure


@metadata.route("GET", "/metadata/endpoints")
def endpoints(call: Call) -> Response:
    """Answer what ``az cloud register --endpoint-resource-manager`` asks for.

    Older api-versions answer in the small form of Azure Stack, newer ones with one whole cloud.
    """
    here = call.request.origin
    version = call.query.get("api-version", "")
    return answer(_cloud(here) if version >= "2018-05-01" else _small_cloud(here))


def _small_cloud(here: str) -> Row:
    return {
        "galleryEndpoint": "",
        "graphEndpoint": f"{here}/graph",
        "portalEndpoint": f"{here}/portal",
        "authentication": {"loginEndpoint": here, "audiences": [here]},
    }


def _cloud(here: str) -> Row:
    return {
        **_small_cloud(here),
        "name": "ai4infra-sandbox",
        "portal": f"{here}/portal",
        "authentication": {
            "loginEndpoint": here,
            "audiences": [here],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "media": here,
        "graphAudience": f"{here}/graph",
        "graph": f"{here}/graph",
        "microsoftGraphResourceId": f"{here}/graph",
        "resourceManager": here,
        "activeDirectoryDataLake": here,
        "batch": here,
        "gallery": here,
        "sqlManagement": here,
        "vmImageAliasDoc": f"{here}/aliases.json",
        "suffixes": {
            "storage": "sandbox.invalid",
            "keyVaultDns": "vault.sandbox.invalid",
            "acrLoginServer": "acr.sandbox.invalid",
            "sqlServerHostname": "database.sandbox.invalid",
        },
    }
