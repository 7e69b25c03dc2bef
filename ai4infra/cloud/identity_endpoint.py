"""The managed identity of App Service, Functions and Container Apps, asked at its endpoint.

azure.identity asks the same, but importing it takes a quarter of a run's time. Protocol:
https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from azure.core import PipelineClient
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.core.rest import HttpRequest, HttpResponse

API_VERSION = "2019-08-01"
Client = PipelineClient[HttpRequest, HttpResponse]


class _Token(msgspec.Struct):
    access_token: str
    expires_on: int


class _Refusal(msgspec.Struct):
    message: str = ""


def is_announced(env: Mapping[str, str]) -> bool:
    """Tell whether the environment names this endpoint; Service Fabric's needs a thumbprint too."""
    return bool(
        env.get("IDENTITY_ENDPOINT")
        and env.get("IDENTITY_HEADER")
        and not env.get("IDENTITY_SERVER_THUMBPRINT")
    )


class IdentityEndpoint:
    """A managed identity, as an azure.core ``TokenCredential``; the caller keeps its tokens."""

    def __init__(self, client: Client, env: Mapping[str, str], client_id: str | None) -> None:
        self._client = client
        self._url = env["IDENTITY_ENDPOINT"]
        self._headers = {"X-IDENTITY-HEADER": env["IDENTITY_HEADER"]}
        self._client_id = {"client_id": client_id} if client_id else {}

    def get_token(self, *scopes: str, **_options: Any) -> AccessToken:
        """Return a token for one scope. Raises ClientAuthenticationError where there is none."""
        resource = scopes[0].removesuffix("/.default")
        params = {"api-version": API_VERSION, "resource": resource, **self._client_id}
        request = HttpRequest("GET", self._url, params=params, headers=self._headers)
        answer = self._client.send_request(request)
        if answer.status_code != HTTPStatus.OK:
            raise ClientAuthenticationError(_refusal(answer))
        try:
            token = msgspec.json.decode(answer.content, type=_Token, strict=False)
        except msgspec.DecodeError as error:
            raise ClientAuthenticationError(
                "The managed identity endpoint sent no token."
            ) from error
        return AccessToken(token.access_token, token.expires_on)


def _refusal(answer: HttpResponse) -> str:
    try:
        message = msgspec.json.decode(answer.content, type=_Refusal).message
    except msgspec.DecodeError:
        message = ""
    said = message or f"status {answer.status_code}"
    return f"The managed identity endpoint gives no token: {said}"
