from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ai4infra.cloud.masking import mask

SECRET = "S3cretS3cretS3cret"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'bearer {SECRET}'}}",
        f"https://a.blob.core.windows.net/c?sv=2024&sig={SECRET}&se=1",
        f"https://x/?t=1&c={SECRET}&s={SECRET}&h={SECRET}",
        f"AccountName=a;AccountKey={SECRET};EndpointSuffix=x",
        f'{{"accessToken": "{SECRET}", "expiresOn": "x"}}',
        f'"client_secret":"{SECRET}"',
        f"client_secret={SECRET}&grant_type=x",
        f"password = {SECRET}",
        f"refresh_token={SECRET}",
        f"SharedAccessSignature={SECRET}",
    ],
)
def test_no_secret_stays(text: str) -> None:
    assert SECRET not in mask(text)


def test_a_bare_token_is_masked() -> None:
    token = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJ4In0.c2lnbmF0dXJl"
    assert mask(f"got {token} back") == "got *** back"


@pytest.mark.parametrize(
    "text",
    [
        "GET https://management.azure.com/subscriptions?api-version=2022-12-01",
        "https://x/skus?$filter=location eq 'eastus2'",
        'www-authenticate: Bearer authorization_uri="https://login.windows.net/x"',
        "The token has expired.",
        "code AuthorizationFailed, location eastus2, status 403",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


@settings(deadline=None)
@given(st.text(max_size=60))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@settings(deadline=None)
@given(st.text("abcXYZ0123456789+/=_-", min_size=8, max_size=40), st.sampled_from(["sig", "SIG"]))
def test_any_signature_is_masked(value: str, name: str) -> None:
    assert mask(f"https://x/y?a=1&{name}={value}&b=2") == f"https://x/y?a=1&{name}=***&b=2"
