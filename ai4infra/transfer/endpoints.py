"""Source and target of a transfer: a local path, ``ACCOUNT/CONTAINER/PATH``, or a URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from ai4infra.errors import UsageError
from ai4infra.storage_names import known_container

FORMS = (
    "A place is a local path (./data), ACCOUNT/CONTAINER[/PATH], or"
    " https://ACCOUNT.blob.core.windows.net/CONTAINER[/PATH]."
)
PUBLIC_SUFFIXES = (
    "core.windows.net",
    "core.usgovcloudapi.net",
    "core.chinacloudapi.cn",
    "storage.azure.net",
    "storage.azure.com",
)
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}", re.ASCII)
_HOST = re.compile(r"([a-z0-9]{3,24})(?:-secondary)?\.(?:[a-z0-9]+\.)??(blob|dfs)\.([a-z0-9.-]+)")
_BARE_HOST = re.compile(r"127(?:\.\d{1,3}){3}|localhost|\[[0-9a-f:]+\]")


class Secret:
    """A SAS, which shows itself to nobody who doesn't ask for it by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the query of the URL, without its question mark."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where data is, or goes. It is never written out, because of its secret."""

    kind: Literal["local", "blob"]
    path: str = ""
    """Local: as typed. Blob: below the container, not encoded, without slashes at its ends."""
    account: str = ""
    container: str = ""
    endpoint: str | None = None
    """Of the blob service, as a URL that ends with a slash; None until it is looked up."""
    sas: Secret | None = None
    was_dfs: bool = False
    """The URL named the Data Lake endpoint of the same data."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.kind == "local"

    @property
    def shown(self) -> str:
        """The place for people and records, without any SAS."""
        if self.is_local:
            return self.path
        where = f"{self.container}/{self.path}" if self.path else self.container
        return f"{self.account}/{where}"

    @property
    def host(self) -> str:
        """Host of the blob endpoint, with its port where it has one."""
        return urlsplit(self.endpoint or "").netloc

    @property
    def url(self) -> str:
        """The URL without any SAS."""
        where = f"{self.container}/{self.path}" if self.path else self.container
        return f"{self.endpoint}{quote(where, safe='/~')}"

    def secret_url(self) -> str:
        """Return the URL with its SAS, for AzCopy only."""
        return f"{self.url}?{self.sas.reveal()}" if self.sas else self.url


def parse_places(source: str, target: str, is_here: Callable[[str], bool]) -> tuple[Place, Place]:
    """Return both ends of a copy.

    ``is_here`` tells whether a local path exists: a name that could be both is the local one, but
    the target of a local source is never local. Raises UsageError for what is no place, for two
    local ends, and for a SAS mixed up with other queries.
    """
    start = parse_place(source, is_here)
    if not start.is_local:
        return start, parse_place(target, is_here)
    end = parse_place(target, lambda path: False)
    if end.is_local:
        raise UsageError("Both ends are local; one has to be in a storage account.", hint=FORMS)
    return start, end


def parse_place(text: str, is_here: Callable[[str], bool]) -> Place:
    """Return one end of a copy; see ``parse_places``."""
    if not text.strip():
        raise UsageError("A source or target is empty.", hint=FORMS)
    if _looks_local(text):
        return Place(kind="local", path=_local(text))
    if "://" in text:
        return _of_url(text)
    return Place(kind="local", path=_local(text)) if is_here(text) else _of_names(text)


def _local(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise UsageError(
            f"The path {shown!r} is not UTF-8, which AzCopy takes alone.",
            hint="Rename it, or name it through a link.",
        ) from error
    return text


def _looks_local(text: str) -> bool:
    return text in (".", "..", "~") or text.startswith(("/", "./", "../", "~/"))


def _of_names(text: str) -> Place:
    if has_secret(text):
        raise UsageError(
            f"{_shown(text)} has a SAS and is no URL.", hint=f"A SAS goes with a URL. {FORMS}"
        )
    account, _, rest = text.partition("/")
    container, _, path = rest.partition("/")
    if not _ACCOUNT.fullmatch(account) or not container:
        raise UsageError(
            f"{text!r} is neither there nor in a storage account.",
            hint=f"Write ./{text} for a local path. {FORMS}",
        )
    return Place(
        kind="blob",
        account=account,
        container=known_container(container),
        path=_path(path, text),
    )


def _path(path: str, text: str) -> str:
    """Return the path without slashes at its ends: a trailing slash never changes the meaning."""
    bare = path.strip("/")
    if "*" in bare:
        raise UsageError(
            f"{_shown(text)} has a *, which AzCopy takes for a pattern.",
            hint="Name the folder; everything below it is copied.",
        )
    if any(part in ("", ".", "..") for part in bare.split("/")) and bare:
        raise UsageError(f"{_shown(text)} has an empty, . or .. part in its path.")
    return bare


def _of_url(text: str) -> Place:
    try:
        parts = urlsplit(text.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise UsageError(f"{_shown(text)} is no URL.", hint=FORMS) from error
    scheme = parts.scheme.lower()
    # What goes to this machine alone, as to Azurite, nobody else hears.
    here = scheme == "http" and _BARE_HOST.fullmatch(host) is not None
    safe = scheme == "https" or (here and has_secret(text))
    if not safe or parts.username is not None or parts.fragment:
        raise UsageError(
            f"{_shown(text)} is not a plain https URL.",
            hint="Tokens and data are sent over https only; with a SAS, over http to this machine.",
        )
    netloc = host if port in (None, 443) else f"{host}:{port}"
    names = [unquote(part) for part in parts.path.strip("/").split("/") if part]
    account, endpoint, is_dfs = _service(text, f"{scheme}://{netloc}", host, names)
    if not names:
        raise UsageError(f"{_shown(text)} names no container.", hint=FORMS)
    return Place(
        kind="blob",
        account=account,
        container=known_container(names[0]),
        path=_path("/".join(names[1:]), text),
        endpoint=endpoint,
        sas=_sas(parts.query, text),
        was_dfs=is_dfs,
    )


def _service(text: str, root: str, host: str, names: list[str]) -> tuple[str, str, bool]:
    """Return account, blob endpoint and whether it was the other one; takes names off the path."""
    match = _HOST.fullmatch(host)
    if match:
        service = match[2]
        blob = root.replace(f".{service}.", ".blob.", 1)
        return match[1], f"{blob}/", service == "dfs"
    if _BARE_HOST.fullmatch(host) and names:
        account = names.pop(0)
        return account, f"{root}/{account}/", False
    raise UsageError(
        f"{_shown(text)} is no blob service.",
        hint=f"{FORMS} File shares, S3 and others are not copied.",
    )


def _sas(query: str, text: str) -> Secret | None:
    if not query:
        return None
    names = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
    if "sig" not in names:
        raise UsageError(
            f"{_shown(text)} has a query that is no SAS.",
            hint="Snapshots and versions are not copied; leave the query out.",
        )
    return Secret(query)


def _shown(text: str) -> str:
    """Return a place as it was typed, without the part that may hold a secret."""
    return repr(re.sub("//[^/@]*@", "//", text.partition("?")[0]))


def has_secret(text: str) -> bool:
    """Tell whether a text carries the query of a SAS."""
    query = text.partition("?")[2]
    return any(name.lower() == "sig" for name, _ in parse_qsl(query, keep_blank_values=True))


def check_sas(*places: Place, allowed: bool) -> None:
    """Refuse a SAS that was not allowed. Raises UsageError without showing it."""
    if not allowed and any(place.sas for place in places):
        raise UsageError(
            "A SAS was given; the identity that is signed in is what copies.",
            hint="Leave the part after the ? out, or say --allow-sas if there is no other way.",
        )


def is_public_host(host: str) -> bool:
    """Tell whether AzCopy sends tokens to a host by itself: Azure's own domains."""
    name = host.partition(":")[0]
    return any(name.endswith(f".{suffix}") for suffix in PUBLIC_SUFFIXES)


def from_to(source: Place, target: Place) -> str:
    """Return AzCopy's name of the direction."""
    names = {"local": "Local", "blob": "Blob"}
    return names[source.kind] + names[target.kind]


def check_apart(source: Place, target: Place) -> None:
    """Refuse a copy of a folder into itself. Raises UsageError."""
    same = (source.kind, source.account, source.container) == (
        target.kind,
        target.account,
        target.container,
    )
    if same and f"{target.path}/".startswith(f"{source.path}/" if source.path else ""):
        raise UsageError(
            f"{target.shown} is in {source.shown}: nothing is copied into itself.",
            hint="Choose a target outside of the source.",
        )


def below(place: Place, name: str) -> Place:
    """Return the place of a file in a folder; the target of a copy is always a folder."""
    joined = f"{place.path.rstrip('/')}/{name}" if place.path else name
    return msgspec.structs.replace(place, path=joined)
