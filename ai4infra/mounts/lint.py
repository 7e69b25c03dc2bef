"""Checks BlobFuse2 configurations: BlobFuse2 itself ignores what it does not know.

A finding is an error where BlobFuse2 does not start, ignores the line or does something else, and
a warning where it works until something happens. Values of secret keys are never part of one.
"""

from __future__ import annotations

import difflib
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import yaml

from ai4infra.errors import UsageError
from ai4infra.model import Record
from ai4infra.mounts.config import (
    IDENTITY_ID,
    MIN_PREFETCH,
    USABLE_PERCENT,
    caches_overlap,
)
from ai4infra.mounts.host import Host, Space
from ai4infra.mounts.live import Mount, Running
from ai4infra.mounts.reference import CACHES, Key, reference, version_key

Severity = Literal["error", "warning"]

_EVICTION = ("timeout-sec", "max-size-mb", "high-threshold", "low-threshold", "max-eviction")
_IDS = ("appid", "objid", "resid")
_NEEDS = {
    "key": ("account-key",),
    "sas": ("sas",),
    "spn": ("tenantid", "clientid"),
}
_ONLY = {
    "account-key": ("key",),
    "sas": ("sas",),
    "clientsecret": ("spn",),
    "appid": ("msi", "workloadidentity"),
    "resid": ("msi",),
    "objid": ("msi",),
}
DEFAULT_PIPELINE = ("libfuse", "file_cache", "attr_cache", "azstorage")
"""Where a configuration lists no components."""
_BLANK = re.compile(r"<.*>|.*\{\{.*\}\}.*", re.DOTALL)
_VARIABLE = re.compile(r"\$[{(]")
_WORD = re.compile(r"[\w.-]{1,64}")
_MERGE = "tag:yaml.org,2002:merge"
_V1_LINE = re.compile(r"(\w+)[ \t]+(\S+)")
_TRUE = ("true", "1", "t")


class Finding(Record, frozen=True):
    """One thing that is wrong with a configuration."""

    file: str
    line: int | None
    """Counted from 1; None for what is missing or concerns the whole file."""
    severity: Severity
    rule: str
    key: str | None
    """``SECTION.KEY``."""
    message: str
    fix: str

    @property
    def where(self) -> str:
        """File and line, as compilers say it."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Setting(Record, frozen=True):
    """One key of a file: its value as YAML reads it, and its line."""

    section: str
    key: str
    value: Any
    line: int | None
    """None where a flag of the command line says it."""

    @property
    def name(self) -> str:
        """``SECTION.KEY``, or the key alone where it is in no section."""
        return f"{self.section}.{self.key}" if self.section else self.key


class Document(Record, frozen=True):
    """A configuration, read."""

    file: str
    settings: tuple[Setting, ...]
    sections: dict[str, int]
    """Sections that the file has, and the line of each."""
    findings: tuple[Finding, ...] = ()
    """What was found while reading: keys given twice, sections that are none."""

    def get(self, name: str) -> Setting | None:
        """Return the setting of this ``SECTION.KEY``; the last of several."""
        return next((s for s in reversed(self.settings) if s.name == name), None)

    def text(self, name: str) -> str:
        """Return a value as text; empty where there is none."""
        found = self.get(name)
        plain = found is not None and not isinstance(found.value, (list, dict, type(None)))
        return str(found.value).strip() if found is not None and plain else ""

    def is_true(self, name: str) -> bool:
        """Tell whether a switch is on."""
        return self.text(name).casefold() in _TRUE

    def number(self, name: str) -> float | None:
        """Return a value as a number; None where it is missing or none."""
        found = self.get(name)
        return None if found is None else _as_number(found.value)

    @property
    def components(self) -> tuple[str, ...]:
        """The pipeline as BlobFuse2 makes it: two switches and an entry_cache change the list."""
        found = self.get("components")
        listed = found.value if found is not None and isinstance(found.value, list) else ()
        names = [str(name) for name in listed or DEFAULT_PIPELINE]
        for switch, cache in (("block-cache", "block_cache"), ("preload", "xload")):
            if self.is_true(switch) and cache not in names:
                names = [cache if name in CACHES else name for name in names]
        if self.text("entry_cache.timeout-sec") and "entry_cache" not in names:
            names.insert(1, "entry_cache")
        return tuple(names)

    @property
    def cache(self) -> str | None:
        """The component that keeps data; None where the pipeline has none."""
        return next((name for name in self.components if name in CACHES), None)

    @property
    def cache_path(self) -> str | None:
        """The cache's folder; None where it has none."""
        path = self.text(f"{self.cache}.path") if self.cache else ""
        if self.cache == "xload" and not path:
            path = self.text("file_cache.path")
        return path or None


class Context(Record, frozen=True):
    """What is known beside the file; None means unknown, and rules that need it are left out."""

    host: Host | None = None
    hns: bool | None = None
    """Hierarchical namespace of the account."""
    version: str | None = None
    """Release of BlobFuse2 that shall read the file."""
    resolved: Mapping[str, str] | None = None
    """Cache folders, and where their links lead."""
    allow_os_disk: bool = False
    """Warn of a cache on the OS disk: it is there on purpose."""

    def where(self, path: str) -> str:
        """Return a path with its links followed as far as known, and without ``..``."""
        return posixpath.normpath((self.resolved or {}).get(path, path))


Rule = Callable[[Document, Context], Iterator[Finding]]


# --- reading


def parse(text: str, file: str = "config.yaml") -> Document:
    """Read a configuration; raises UsageError when it isn't YAML, or no configuration at all."""
    old = _v1(text, file)
    if old:
        return Document(file=file, settings=(), sections={}, findings=old)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise UsageError(
            f"{file} is not YAML{_position(error)}.", hint="Nothing of it was checked."
        ) from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{file} is not YAML that can be read.") from error
    if node is None:
        raise UsageError(f"{file} is empty.", hint="`ai4infra mount config` writes one.")
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(
            f"{file} is no BlobFuse2 configuration: it has no keys.",
            hint="`ai4infra mount config` writes one.",
        )
    return _document(node, file)


def _position(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    where = f" at line {mark.line + 1}" if mark else ""
    if problem and r"'\t'" in problem:
        return f"{where} (a tab: YAML is indented with blanks)"
    # What stands there may be a secret, so only the kind of problem is told.
    return f"{where} ({problem.split(chr(39))[0].strip()})" if problem else where


def _v1(text: str, file: str) -> tuple[Finding, ...]:
    """Recognize a file of BlobFuse (v1): every line is a word of its own and a value."""
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    words = [
        (n, found[1]) for n, line in enumerate(lines, 1) if (found := _V1_LINE.fullmatch(line))
    ]
    known = [(n, word) for n, word in words if reference().replacement("", word)]
    if not known or len(words) < sum(map(bool, lines)):
        return ()
    return tuple(
        Finding(
            file=file,
            line=n,
            severity="error",
            rule="old-key",
            key=word,
            message=f"{word} is a setting of BlobFuse (v1).",
            fix=f"Now {reference().replacement('', word)}.",
        )
        for n, word in known
    )


def _document(node: yaml.MappingNode, file: str) -> Document:
    settings: list[Setting] = []
    sections: dict[str, int] = {}
    findings: list[Finding] = []
    for key, line, value in _pairs(node, "", file, findings):
        if isinstance(value, yaml.MappingNode) and reference().key("", key) is None:
            sections[key] = line
            for name, at, inner in _pairs(value, key, file, findings):
                settings.append(Setting(section=key, key=name, value=_plain(inner), line=at))
        elif key in reference().keys or key in reference().components:
            sections[key] = line
            findings.append(_no_section(file, key, line, empty=_plain(value) is None))
        else:
            settings.append(Setting(section="", key=key, value=_plain(value), line=line))
    return Document(
        file=file, settings=tuple(settings), sections=sections, findings=tuple(findings)
    )


def _pairs(
    node: yaml.MappingNode, section: str, file: str, findings: list[Finding]
) -> Iterator[tuple[str, int, yaml.Node]]:
    seen: dict[str, int] = {}
    for name_node, value in _merged(node):
        key, line = _name(name_node, section), name_node.start_mark.line + 1
        if key in seen:
            name = f"{section}.{key}" if section else key
            findings.append(
                Finding(
                    file=file,
                    line=line,
                    severity="error",
                    rule="duplicate-key",
                    key=name,
                    message=f"{name} is given twice; line {seen[key]} has it too.",
                    fix="Leave one of them out.",
                )
            )
        seen[key] = line
        yield key, line, value


def _merged(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the keys of a mapping, and those that ``<<`` takes over from others."""
    own = [pair for pair in node.value if pair[0].tag != _MERGE]
    names = {_key_of(name) for name, _ in own}
    others = [value for name, value in node.value if name.tag == _MERGE]
    flat = [each for value in others for each in (*_sequence(value), value)]
    maps = [each for each in flat if isinstance(each, yaml.MappingNode)]
    taken = [pair for each in maps for pair in each.value if pair[0].tag != _MERGE]
    fresh = {_key_of(name): (name, value) for name, value in reversed(taken)}
    return [*own, *(pair for name, pair in fresh.items() if name not in names)]


def _key_of(node: yaml.Node) -> str | int:
    return node.value if isinstance(node, yaml.ScalarNode) else id(node)


def _sequence(node: yaml.Node) -> Sequence[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _name(node: yaml.Node, section: str) -> str:
    """Return a key as BlobFuse2 reads it: upper and lower case are one to it."""
    key = str(_plain(node))
    if not _WORD.fullmatch(key):
        # A line that lost its colon may have a secret in what is read as a key.
        return "(a key that is no word)"
    lower = key.lower()
    known = reference().keys.get(section, {})
    return lower if lower in known or (not section and lower in reference().keys) else key


def _no_section(file: str, key: str, line: int, *, empty: bool) -> Finding:
    return Finding(
        file=file,
        line=line,
        severity="error",
        rule="empty-section",
        key=key,
        message=f"{key} is {'empty' if empty else 'no section but a value'}.",
        fix="Give it keys, indented below it, or leave it out.",
    )


def _plain(node: yaml.Node) -> Any:
    """Return a scalar, or a list of scalars, as YAML 1.1 reads it; a mapping is empty."""
    if isinstance(node, yaml.MappingNode):
        return {}
    if isinstance(node, yaml.SequenceNode):
        return [_scalar(each) for each in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return str(node.tag)
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError):
        return node.value


# --- the rules


def lint(document: Document, context: Context | None = None) -> tuple[Finding, ...]:
    """Return what is wrong with one configuration, in the order of its lines."""
    known = context or Context()
    found = [*document.findings]
    if document.settings or document.sections:
        found += [finding for rule in RULES for finding in rule(document, known)]
    return tuple(sorted(found, key=lambda f: (f.line is None, f.line or 0, f.rule)))


def lint_all(documents: Sequence[Document], context: Context | None = None) -> tuple[Finding, ...]:
    """Return what is wrong with several configurations of one machine, each and together."""
    known = context or Context()
    found = [finding for document in documents for finding in lint(document, known)]
    return (*found, *_shared_caches(documents, known), *_shared_memory(documents, known))


def _finding(
    document: Document,
    rule: str,
    message: str,
    fix: str,
    *,
    at: Setting | None = None,
    key: str | None = None,
    line: int | None = None,
    severity: Severity = "error",
) -> Finding:
    return Finding(
        file=document.file,
        line=at.line if at else line,
        severity=severity,
        rule=rule,
        key=at.name if at else key,
        message=message,
        fix=fix,
    )


def keys(document: Document, context: Context) -> Iterator[Finding]:
    """Find keys that BlobFuse2 does not know, and ignores without a word."""
    for setting in document.settings:
        known = reference().key(setting.section, setting.key)
        replacement = reference().replacement(setting.section, setting.key)
        if replacement is not None:
            message = f"{setting.name} is of an older release, or of BlobFuse (v1)."
            yield _finding(document, "old-key", message, f"Now {replacement}.", at=setting)
        elif known is None and setting.section in {"", *reference().keys}:
            yield _unknown(document, setting)
        elif known is not None and _is_newer(known.since, context.version):
            message = f"{setting.name} came with {known.since}; this is {context.version}."
            yield _finding(document, "key-too-new", message, "Update BlobFuse2.", at=setting)


def _is_newer(since: str | None, version: str | None) -> bool:
    return bool(since and version) and version_key(since or "") > version_key(version or "")


def _unknown(document: Document, setting: Setting) -> Finding:
    homes = [home for home in reference().sections_with(setting.key) if home != setting.section]
    if homes:
        right = " or ".join(f"{home}.{setting.key}" if home else setting.key for home in homes)
        message = f"{setting.name} is in the wrong place, where it is ignored."
        return _finding(document, "misplaced-key", message, f"It is {right}.", at=setting)
    return _finding(
        document,
        "unknown-key",
        f"{setting.name} is no key of BlobFuse2, and is ignored.",
        _nearest(setting.section, setting.key),
        at=setting,
    )


def _nearest(section: str, key: str) -> str:
    """Name the nearest right key: of the section first, else of any."""
    own = list(reference().keys.get(section, {}))
    close = difflib.get_close_matches(key.casefold().replace("_", "-"), own, n=2, cutoff=0.6)
    names = [f"{section}.{name}" if section else name for name in close]
    if not names:
        every = {
            (f"{home}.{name}" if home else name): name
            for home, there in reference().keys.items()
            for name in there
        }
        names = (
            difflib.get_close_matches(key.casefold(), every, n=2, cutoff=0.6)
            or [
                full
                for full, name in every.items()
                if difflib.SequenceMatcher(None, key.casefold(), name).ratio() >= 0.8
            ][:2]
        )
    return f"Did you mean {' or '.join(names)}?" if names else "Leave it out."


def sections(document: Document, context: Context) -> Iterator[Finding]:
    """Find sections that BlobFuse2 does not know, and those of components that are not used."""
    components = document.components
    for section, line in document.sections.items():
        replacement = reference().replacement("", section)
        if replacement is not None:
            message = f"{section} is a section of an older release."
            fix = f"Now {replacement}."
            yield _finding(document, "old-key", message, fix, key=section, line=line)
        elif section not in reference().keys:
            message = f"{section} is no section of BlobFuse2, and is ignored."
            close = difflib.get_close_matches(section.replace("-", "_"), reference().keys, n=2)
            fix = f"Did you mean {' or '.join(close)}?" if close else "Leave it out."
            yield _finding(document, "unknown-key", message, fix, key=section, line=line)
        elif _is_unused(section, components):
            message = f"{section} is not in the pipeline, so its section is ignored."
            fix = f"Put {section} into components, or leave the section out."
            yield _finding(document, "component-unused", message, fix, key=section, line=line)


def _is_unused(section: str, components: Sequence[str]) -> bool:
    # xload takes its path from file_cache where it has none of its own.
    needless = section in reference().components and section not in components
    return needless and not (section == "file_cache" and "xload" in components)


def values(document: Document, context: Context) -> Iterator[Finding]:
    """Find values of the wrong type, and missing ones that BlobFuse2 does not start without."""
    for setting in document.settings:
        known = reference().key(setting.section, setting.key)
        wrong = known and _wrong(known, setting.value)
        if known and wrong:
            yield _finding(
                document, "wrong-type", f"{setting.name} {wrong}.", _kind(known), at=setting
            )
    for name, known in reference().keys["azstorage"].items():
        full = f"azstorage.{name}"
        if known.required and not document.text(full):
            message = f"{full} is missing: {known.meaning}."
            fix = "Set it; BlobFuse2 else needs it in the environment."
            yield _finding(document, "key-missing", message, fix, key=full, severity="warning")


def _kind(known: Key) -> str:
    kinds = {
        "bool": "It is true or false.",
        "int": f"It is a whole number of at least {known.minimum}.",
        "float": "It is a number of at least 0.",
        "list": "It is a list.",
        "choice": f"It is {', '.join(known.choices)}.",
    }
    return kinds.get(known.type, "It is text.")


def _wrong(known: Key, value: Any) -> str | None:
    """Say what is wrong with a value, without the value itself; None when nothing is."""
    if value is None:
        return "has no value"
    if known.type == "list":
        return None if isinstance(value, list) else "is no list"
    if isinstance(value, str) and not known.secret and _is_placeholder(known, value):
        return "holds a placeholder, which BlobFuse2 does not fill in"
    if isinstance(value, (list, dict)):
        return "is a list" if isinstance(value, list) else "is a section"
    if known.type == "bool":
        switch = isinstance(value, bool) or str(value).casefold() in (*_TRUE, "false", "0", "f")
        return None if switch else "is neither true nor false"
    if known.type in ("int", "float"):
        return _wrong_number(known, value)
    if known.type == "choice" and str(value).casefold() not in known.choices:
        return "is none of its choices"
    return None


def _is_placeholder(known: Key, value: str) -> bool:
    """Tell whether a value is still to be filled in; variables are filled in in paths alone."""
    return bool(_BLANK.fullmatch(value) or (known.type != "path" and _VARIABLE.search(value)))


def _wrong_number(known: Key, value: Any) -> str | None:
    number = _as_number(value)
    if number is None:
        return "is no number"
    if known.type == "int" and not number.is_integer():
        return "is no whole number"
    return f"is less than {known.minimum}" if number < known.minimum else None


def _as_number(value: Any) -> float | None:
    """Read a number, which may stand in quotes: BlobFuse2 reads those as well."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def pipeline(document: Document, context: Context) -> Iterator[Finding]:
    """Find components that are unknown, missing, out of order, or shut one another out."""
    at = document.get("components")
    if at is None or not isinstance(at.value, list):
        return
    names, known = document.components, reference().components
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name.replace("-", "_"), known, n=2)
            old = reference().replacement("", name)
            fix = f"Now {old}." if old else f"Did you mean {' or '.join(close) or 'file_cache'}?"
            message = f"{name} is no component of BlobFuse2."
            yield _finding(document, "component-unknown", message, fix, at=at)
    right = [name for name in names if name in known]
    yield from _order(document, at, right)
    yield from _clashes(document, at, right)
    store = {"azstorage", "loopbackfs"} & set(names)
    for name in ("libfuse", *(() if store else ("azstorage",))):
        if name not in names:
            message = f"components has no {name}: nothing can be mounted."
            yield _finding(document, "component-missing", message, f"Add {name}.", at=at)


def _order(document: Document, at: Setting, names: Sequence[str]) -> Iterator[Finding]:
    known = reference().components
    ordered = sorted(names, key=lambda name: known[name].rank)
    if list(names) != ordered:
        message = "components is out of order; BlobFuse2 does not start."
        fix = f"The order is {', '.join(ordered)}."
        yield _finding(document, "component-order", message, fix, at=at)


def _clashes(document: Document, at: Setting, names: Sequence[str]) -> Iterator[Finding]:
    known = reference().components
    for rank in sorted({known[name].rank for name in names}):
        same = [name for name in names if known[name].rank == rank]
        if len(same) > 1:
            message = f"{' and '.join(same)} shut one another out."
            yield _finding(document, "component-clash", message, "Keep one of them.", at=at)


def account_type(document: Document, context: Context) -> Iterator[Finding]:
    """Find a type that does not go with the endpoint or with the account's namespace."""
    kind = document.text("azstorage.type").casefold()
    if not kind:
        # Since 2.4.2 BlobFuse2 finds it out, and makes the endpoint fit.
        return
    at, endpoint = document.get("azstorage.endpoint"), document.text("azstorage.endpoint")
    wrong = {"block": ".dfs.", "adls": ".blob."}.get(kind)
    if at and wrong and wrong in endpoint:
        right = ".blob." if kind == "block" else ".dfs."
        message = f"type {kind} and a {wrong.strip('.')} endpoint do not go together."
        fix = f"Leave the endpoint out, or write {right} in it, or change the type."
        yield _finding(document, "type-endpoint", message, fix, at=at)
    if at and ".privatelink." in endpoint:
        message = "The endpoint names privatelink, which the certificate does not."
        fix = "Leave it out: DNS leads the usual name to the private endpoint."
        yield _finding(document, "type-endpoint", message, fix, at=at)
    wanted = {True: "adls", False: "block", None: kind}[context.hns]
    if kind != wanted:
        has = "a hierarchical" if context.hns else "a flat"
        message = f"The account has {has} namespace, and type is {kind}."
        fix = f"azstorage.type: {wanted}"
        at_type = document.get("azstorage.type")
        yield _finding(document, "type-namespace", message, fix, at=at_type, key="azstorage.type")
    yield from _directories(document, kind)


def _directories(document: Document, kind: str) -> Iterator[Finding]:
    at = document.get("azstorage.virtual-directory")
    if at and kind == "block" and at.value is False:
        message = "Without virtual directories a folder needs a marker blob to be seen."
        fix = "Leave it out, or write virtual-directory: true."
        yield _finding(document, "virtual-directory", message, fix, at=at, severity="warning")


def identity(document: Document, context: Context) -> Iterator[Finding]:
    """Find a sign-in that lacks something, or says it twice."""
    mode = document.text("azstorage.mode").casefold()
    given = [name for name in _IDS if document.text(f"azstorage.{name}")]
    if len(given) > 1:
        message = f"{', '.join(given)} shut one another out; one names the identity."
        fix = "Keep appid, the client id."
        yield _finding(
            document, "identity", message, fix, at=document.get(f"azstorage.{given[-1]}")
        )
    resid = document.text("azstorage.resid")
    if resid and not IDENTITY_ID.fullmatch(resid):
        message = "resid is not the resource id of a user-assigned identity."
        fix = "It ends in /Microsoft.ManagedIdentity/userAssignedIdentities/NAME."
        yield _finding(document, "identity", message, fix, at=document.get("azstorage.resid"))
    if not mode:
        message = "azstorage.mode is missing: how to sign in is guessed from other keys."
        yield _finding(
            document,
            "identity",
            message,
            "Write mode: msi.",
            key="azstorage.mode",
            severity="warning",
        )
        return
    yield from _identity_fields(document, mode)


def _identity_fields(document: Document, mode: str) -> Iterator[Finding]:
    for name in _NEEDS.get(mode, ()):
        known = reference().keys["azstorage"][name]
        if not document.text(f"azstorage.{name}") and not known.environment:
            message = f"mode {mode} needs azstorage.{name}."
            fix = f"Set azstorage.{name}, or write mode: msi."
            yield _finding(document, "identity", message, fix, key=f"azstorage.{name}")
    for name, modes in _ONLY.items():
        at = document.get(f"azstorage.{name}")
        if at and at.value is not None and mode not in modes:
            message = f"azstorage.{name} is not used with mode {mode}."
            fix = f"Leave it out, or write mode: {modes[0]}."
            yield _finding(document, "identity", message, fix, at=at)


def proxy(document: Document, context: Context) -> Iterator[Finding]:
    """Find a proxy for http where the service is talked to over https: it does not start."""
    at = document.get("azstorage.http-proxy")
    plain = document.is_true("azstorage.use-http") or document.text("azstorage.https-proxy")
    if at and at.value and not plain:
        message = "azstorage.http-proxy counts with use-http alone; BlobFuse2 does not start."
        yield _finding(document, "proxy", message, "Write https-proxy instead.", at=at)


def secrets(document: Document, context: Context) -> Iterator[Finding]:
    """Find secrets that lie in the file; their values are not told."""
    for setting in document.settings:
        known = reference().key(setting.section, setting.key)
        if known is not None and known.secret and setting.value not in (None, ""):
            message = f"{setting.name} is a secret in a plain file."
            fix = f"Use a managed identity (mode: msi), or {known.environment} in the environment."
            yield _finding(document, "secret", message, fix, at=setting)
            if setting.key == "sas" and str(setting.value).strip().startswith("?"):
                message = "The shared access signature begins with a question mark."
                yield _finding(document, "secret", message, "Take it off.", at=setting)


def cache_place(document: Document, context: Context) -> Iterator[Finding]:
    """Find a cache without a folder, or on the OS disk, or in memory."""
    cache, path = document.cache, document.cache_path
    if cache in ("file_cache", "xload") and path is None:
        name = f"{cache}.path"
        message = f"{name} is missing, and {cache} does not start without it."
        fix = f"Set {name} to a folder on local NVMe."
        yield _finding(document, "cache-missing", message, fix, key=name)
    if path is None:
        return
    at = document.get(f"{cache}.path") or document.get("file_cache.path")
    if not path.startswith(("/", "~/", "$")):
        message = f"The cache {path} is relative: it is another folder wherever BlobFuse2 starts."
        fix = "Write the whole path."
        yield _finding(document, "cache-relative", message, fix, at=at, severity="warning")
    if context.host is None:
        return
    space = context.host.space_of(context.where(path))
    if space is None:
        return
    if space.on_os_disk:
        message = f"The cache {path} is on the OS disk: nothing else is mounted at it or above it."
        fix = "`ai4infra mount disks` shows the local NVMe and the temp disk."
        severity: Severity = "warning" if context.allow_os_disk else "error"
        yield _finding(document, "cache-os-disk", message, fix, at=at, severity=severity)
    elif space.in_memory:
        message = f"The cache {path} is in memory ({space.fstype}), which the jobs need too."
        fix = "Move it to local NVMe, or bound it well."
        yield _finding(document, "cache-in-memory", message, fix, at=at, severity="warning")


def cache_size(document: Document, context: Context) -> Iterator[Finding]:
    """Find a cache that has no bound, or one that its disk does not hold."""
    cache = document.cache
    key = {"file_cache": "max-size-mb", "block_cache": "disk-size-mb"}.get(cache or "")
    if key is None or document.cache_path is None:
        return
    name = f"{cache}.{key}"
    size = document.number(name)
    if not size:
        message = f"{name} is not set: the cache takes 80% of what is free at the start."
        yield _finding(
            document, "cache-unbounded", message, f"Set {name}.", key=name, severity="warning"
        )
        return
    space = context.host.space_of(context.where(document.cache_path)) if context.host else None
    yield from _on_disk(document, name, size, space)


def _on_disk(document: Document, name: str, size: float, space: Space | None) -> Iterator[Finding]:
    if space is None or space.size_mib is None:
        return
    at = document.get(name)
    usable = space.size_mib * USABLE_PERCENT // 100
    if size > space.size_mib:
        message = f"{name} is {size:,.0f} MiB, and {space.path} has {space.size_mib:,}."
        yield _finding(document, "cache-too-large", message, f"At most {usable}.", at=at)
    elif size > usable:
        message = (
            f"{name} is more than {USABLE_PERCENT}% of {space.path}; open files need room too."
        )
        fix = f"At most {usable}."
        yield _finding(document, "cache-too-large", message, fix, at=at, severity="warning")


def memory(document: Document, context: Context) -> Iterator[Finding]:
    """Find a block cache whose memory does not do: too little, too much, or the default."""
    if document.cache != "block_cache":
        return
    name = "block_cache.mem-size-mb"
    size, at = document.number(name), document.get(name)
    block = document.number("block_cache.block-size-mb") or 16.0
    prefetch = document.number("block_cache.prefetch")
    if prefetch is not None and 0 < prefetch < MIN_PREFETCH:
        message = f"block_cache.prefetch is less than {MIN_PREFETCH}; BlobFuse2 does not start."
        fix = f"At least {MIN_PREFETCH}, or 0 for none."
        yield _finding(document, "prefetch", message, fix, at=document.get("block_cache.prefetch"))
    if size is None:
        message = f"{name} is not set: each mount takes 60% of the memory or more at its start."
        yield _finding(
            document, "memory-unset", message, f"Set {name}.", key=name, severity="warning"
        )
        return
    if prefetch is not None and size < block * prefetch:
        message = f"{name} does not hold the {prefetch:,.0f} blocks of prefetch."
        fix = f"At least {block * prefetch:,.0f}."
        yield _finding(document, "memory-too-small", message, fix, at=at)
    if context.host and size > context.host.memory_mib:
        message = f"{name} is {size:,.0f} MiB, and the machine has {context.host.memory_mib:,}."
        yield _finding(document, "memory-too-large", message, "Take less.", at=at)


def preload(document: Document, context: Context) -> Iterator[Finding]:
    """Find a preload that may be written to, or whose settings are ignored or do not start."""
    if document.cache != "xload":
        return
    at = document.get("read-only")
    if not document.is_true("read-only"):
        message = "A preload is mounted read-only, and read-only is not true."
        fix = "Write read-only: true."
        severity: Severity = "error" if at else "warning"
        yield _finding(document, "preload", message, fix, at=at, key="read-only", severity=severity)
    if not document.is_true("xload.cleanup-on-start"):
        message = "A preload starts in an empty folder alone, and a crash leaves files."
        fix = "Write cleanup-on-start: true in xload."
        key = "xload.cleanup-on-start"
        yield _finding(document, "preload", message, fix, key=key, severity="warning")
    for name in _EVICTION:
        at = document.get(f"file_cache.{name}")
        if at:
            message = f"{at.name} is ignored: a preload drops nothing."
            yield _finding(document, "preload", message, "Leave it out.", at=at)


def starting(document: Document, context: Context) -> Iterator[Finding]:
    """Find what goes wrong at the second start: one of two switches, files that stay."""
    if document.cache == "block_cache" and document.cache_path:
        key = "block_cache.cleanup-on-start"
        if not document.is_true(key):
            message = "A block cache on disk starts in an empty folder alone."
            fix = "Write cleanup-on-start: true in block_cache."
            yield _finding(document, "cleanup", message, fix, key=key, severity="warning")
    if document.cache != "file_cache":
        return
    pair = ("cleanup-on-start", "allow-non-empty-temp")
    on = [name for name in pair if document.is_true(f"file_cache.{name}")]
    if len(on) == 1:
        other = pair[1 - pair.index(on[0])]
        message = f"file_cache.{on[0]} without {other}: after a crash it does not start clean."
        at = document.get(f"file_cache.{on[0]}")
        fix = f"Write {other}: true too."
        yield _finding(document, "cleanup", message, fix, at=at, severity="warning")


def logs(document: Document, context: Context) -> Iterator[Finding]:
    """Find a log file that is not written, and a level that slows everything down."""
    at = document.get("logging.file-path")
    if at and (document.text("logging.type") or "syslog").casefold() != "base":
        message = "logging.file-path counts for type base alone."
        yield _finding(document, "logging", message, "Write type: base.", at=at, severity="warning")
    if document.text("logging.level").casefold() == "log_debug":
        message = "log_debug writes every request."
        at = document.get("logging.level")
        fix = "Write log_warning."
        yield _finding(document, "logging", message, fix, at=at, severity="warning")


def expiry(document: Document, context: Context) -> Iterator[Finding]:
    """Find a file cache that keeps nothing, and MD5 settings that do nothing."""
    at = document.get("file_cache.timeout-sec")
    if document.cache == "file_cache" and at and document.number(at.name) == 0:
        message = "file_cache.timeout-sec 0 drops every file at its close."
        fix = "Say how long, in seconds; a full cache drops files before that."
        yield _finding(document, "timeout-zero", message, fix, at=at, severity="warning")
    for name in ("azstorage.update-md5", "azstorage.validate-md5"):
        if document.is_true(name) and document.cache != "file_cache":
            message = f"{name} works with file_cache alone."
            fix = "Leave it out; xload has a validate-md5 of its own."
            yield _finding(document, "md5", message, fix, at=document.get(name), severity="warning")


RULES: tuple[Rule, ...] = (
    keys,
    sections,
    values,
    pipeline,
    account_type,
    identity,
    proxy,
    secrets,
    cache_place,
    cache_size,
    memory,
    preload,
    starting,
    logs,
    expiry,
)


# --- several files


def _shared_caches(documents: Sequence[Document], context: Context) -> Iterator[Finding]:
    """Find cache folders that two mounts would share: their locks know only their own process."""
    with_cache = [(d, d.cache_path) for d in documents if d.cache_path]
    for n, (document, path) in enumerate(with_cache):
        for other, before in with_cache[:n]:
            if caches_overlap(_folder(path, context), _folder(before, context)):
                message = f"The cache {path} is used by {other.file} too."
                at = document.get(f"{document.cache}.path")
                fix = "Give every mount a folder of its own, such as /mnt/nvme/ACCOUNT/CONTAINER."
                yield _finding(document, "cache-shared", message, fix, at=at)


def _folder(path: str | None, context: Context) -> str:
    return str(PurePosixPath(context.where(path or "/")))


def _shared_memory(documents: Sequence[Document], context: Context) -> Iterator[Finding]:
    """Find block caches that together take more than the machine has."""
    pools = [
        (d, size)
        for d in documents
        if d.cache == "block_cache" and (size := d.number("block_cache.mem-size-mb"))
    ]
    total = sum(size for _, size in pools)
    if len(pools) > 1 and context.host and total > context.host.memory_mib:
        message = (
            f"{len(pools)} mounts take {total:,.0f} MiB together, and the machine has"
            f" {context.host.memory_mib:,}."
        )
        last = pools[-1][0]
        at = last.get("block_cache.mem-size-mb")
        yield _finding(last, "memory-too-large", message, "Take less for each.", at=at)


# --- live mounts


def lint_mounted(
    mounts: Sequence[Mount],
    running: Sequence[Running],
    documents: Mapping[str, Document],
    context: Context | None = None,
) -> tuple[Finding, ...]:
    """Return what is wrong with the mounts of a machine as they run.

    ``documents`` are their configurations by file, as far as they could be read; what flags set
    over them counts.
    """
    found: list[Finding] = []
    read: list[Document] = []
    for mount in mounts:
        mounter = next((each for each in running if each.mount_path == mount.path), None)
        document = documents.get(mounter.config_file or "") if mounter else None
        if mounter is None:
            found.append(_live(mount, "no-mounter", *_NO_MOUNTER))
        elif document is None:
            found.append(_live(mount, "config-unread", *_UNREAD))
        else:
            read.append(with_settings(document, mounter.settings))
    return (*found, *_overlapping(mounts), *lint_all(read, context))


_NO_MOUNTER = (
    "No blobfuse2 process that can be seen serves this mount.",
    "`ai4infra mount down` takes it away; as root, processes of others are seen too.",
)
_UNREAD = (
    "The configuration of this mount cannot be read.",
    "Run it as the user who mounted, or as root.",
)


def _live(mount: Mount, rule: str, message: str, fix: str) -> Finding:
    return Finding(
        file=mount.path,
        line=None,
        severity="warning",
        rule=rule,
        key=None,
        message=message,
        fix=fix,
    )


def _overlapping(mounts: Sequence[Mount]) -> Iterator[Finding]:
    for n, mount in enumerate(mounts):
        for other in mounts[:n]:
            if caches_overlap(mount.path, other.path):
                message = f"It overlaps the mount {other.path}, which BlobFuse2 does not support."
                fix = "Mount them beside each other."
                yield _live(mount, "mounts-overlap", message, fix)


def with_settings(document: Document, settings: Mapping[str, str]) -> Document:
    """Return a configuration with what the flags of a command line set over it."""
    if not settings:
        return document
    added = [_flag_setting(name, value) for name, value in settings.items()]
    return Document(
        file=document.file,
        settings=(*document.settings, *added),
        sections=document.sections,
        findings=document.findings,
    )


def _flag_setting(name: str, value: str) -> Setting:
    section, _, key = name.rpartition(".")
    known = reference().key(section, key)
    many = known is not None and known.type == "list"
    return Setting(section=section, key=key, value=value.split(",") if many else value, line=None)


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None where nothing was found."""
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None
