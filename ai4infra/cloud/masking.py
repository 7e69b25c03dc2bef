"""Masks tokens, keys and signatures in text before a person may see it."""

from __future__ import annotations

import re

MASK = "***"

_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+(?!authorization_uri|error|realm)[\w.~+/=-]{8,}")
_QUERY = re.compile(
    r"(?i)([?&](?:sig|signature|skoid|code|token|access_token|client_secret|t|c|s|h)=)[^&\s\"'<>]+"
)
_PAIR = re.compile(
    r"(?i)\b((?:account|shared_?access_?|primary|secondary|access_?)key|sharedaccesssignature|"
    r"client_?secret|client_?assertion|access_?token|refresh_?token|id_?token|password|sig)"
    r"(\"?\s*[:=]\s*\"?)[^\s\"',;&}]+"
)


def mask(text: str) -> str:
    """Return the text with every token, key, password, SAS and signed query value masked.

    The queries ``t``, ``c``, ``s`` and ``h`` are masked because ARM signs the ``Location`` of
    a running operation with them.
    """
    text = _JWT.sub(MASK, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    return _PAIR.sub(rf"\1\2{MASK}", text)
