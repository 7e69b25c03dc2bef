"""Copies from a URL, which Azurite does not know: the bytes are read there and written here.

AzCopy copies between accounts with them; both ends have to be accounts of the sandbox.
https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url and put-block-from-url
"""

from __future__ import annotations

from collections.abc import Callable

from ai4infra.sandbox import Sandbox
from ai4infra.sandbox.dataplane import Allowed, failure
from ai4infra.sandbox.faults import Outcome
from ai4infra.sandbox.messages import Request, Response

SOURCE = "x-ms-copy-source"
_DROPPED = (SOURCE, "x-ms-source-", "content-length")
_COMPARED = {"x-ms-source-range": "x-ms-range"}
_KEPT = {"content-type": "x-ms-blob-content-type", "content-encoding": "x-ms-blob-content-encoding"}

Send = Callable[[Request], Response]


def is_copy(request: Request) -> bool:
    """Tell Put Blob From URL and Put Block From URL from copies that Azurite makes itself."""
    makes_blob = request.headers.get("x-ms-blob-type", "").casefold() == "blockblob"
    makes_block = request.query.get("comp") == "block"
    return request.method == "PUT" and SOURCE in request.headers and (makes_blob or makes_block)


def copied(sandbox: Sandbox, request: Request, send: Send) -> Response:
    """Answer such a copy: read the source with its own authorization, write the target."""
    source = _source(request)
    outcome: Outcome = sandbox.handle(source)
    read = send(source) if isinstance(outcome, Allowed) else outcome
    if not isinstance(read, Response) or read.status not in (200, 206):
        return _refused(request, read)
    return send(_written(request, read))


def _source(request: Request) -> Request:
    headers = {"x-ms-version": request.headers.get("x-ms-version", "")}
    told = request.headers.get(f"{SOURCE}-authorization")
    if told:
        headers["authorization"] = told
    for name, asked in _COMPARED.items():
        if name in request.headers:
            headers[asked] = request.headers[name]
    return Request("GET", request.headers[SOURCE], headers)


def _refused(request: Request, read: object) -> Response:
    status = read.status if isinstance(read, Response) else 500
    message = "Could not verify the copy source within the specified time."
    if status == 404:
        message = "The specified resource does not exist."
    return failure(request, status, "CannotVerifyCopySource", message)


def _written(request: Request, read: Response) -> Request:
    headers = {k: v for k, v in request.headers.items() if not k.startswith(_DROPPED)}
    if request.query.get("comp") != "block":
        for name, kept in _KEPT.items():
            if name in read.headers:
                headers.setdefault(kept, read.headers[name])
    headers["content-length"] = str(len(read.body))
    return Request(request.method, request.url, headers, read.body)
