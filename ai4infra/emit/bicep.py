"""A plan as a Bicep file for one resource group.

What a file for a resource group cannot say (the group itself, registrations, changes of single
properties, resources of other groups) stands in it as commands, in comments at its head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ai4infra import arm
from ai4infra.arm import API_VERSIONS, ArmWrite, id_key, name_of, parent_of, same_id
from ai4infra.emit import az
from ai4infra.emit.resources import changes, own_group, registrations, symbols
from ai4infra.plan import Plan

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYWORDS = {
    *("true", "false", "null", "resource", "existing", "module", "param", "var", "output", "type"),
    *("func", "import", "extension", "metadata", "targetScope", "if", "for", "in", "with", "as"),
}
_WORDS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'"}


def template(plan: Plan) -> str:
    """Write a plan as a Bicep file."""
    writes = [write for _, write in changes(plan)]
    group = own_group(writes)
    inside = [w for w in writes if _is_declared(w, group)]
    outside = [w for w in writes if w not in inside]
    parents = _existing(inside, group)
    file = _File([*((w.resource_type, w.resource_id) for w in inside), *parents])
    blocks = [
        "\n".join([*_head(plan, group, outside), "targetScope = 'resourceGroup'"]),
        *(file.existing(*parent) for parent in parents),
        *(file.resource(write, group) for write in inside),
    ]
    return "\n\n".join(blocks) + "\n"


def _is_declared(write: ArmWrite, group: str | None) -> bool:
    """Tell whether a write is a resource that a file for this group can declare."""
    if write.method != "PUT" or write.resource_type == arm.GROUP:
        return False
    if not same_id(arm.group_of(write.resource_id), group):
        return False
    scope = parent_of(write.resource_id)
    return same_id(scope, group) or _type_of(scope) in API_VERSIONS


def _type_of(resource_id: str) -> str:
    """Return the type of a resource, in the spelling that it is written with."""
    _, _, tail = resource_id.rpartition("/providers/")
    namespace, *rest = tail.split("/")
    found = "/".join([namespace, *rest[::2]])
    return next((t for t in API_VERSIONS if t.casefold() == found.casefold()), found)


def _existing(writes: Iterable[ArmWrite], group: str | None) -> list[tuple[str, str]]:
    """Return the resources that are there and that the writes lie in, outermost first."""
    written = {id_key(write.resource_id) for write in writes}
    found: dict[str, tuple[str, str]] = {}
    for write in writes:
        chain = []
        above = parent_of(write.resource_id)
        while not same_id(above, group) and id_key(above) not in written:
            chain.append((_type_of(above), above))
            above = parent_of(above)
        found.update({id_key(i): (t, i) for t, i in reversed(chain)})
    return list(found.values())


def _head(plan: Plan, group: str | None, outside: list[ArmWrite]) -> list[str]:
    first = [w for w in outside if w.stage <= 2]
    before = [az.registration(r) for r in registrations(plan)]
    before += [line for write in first for line in az.commands(write)]
    after = [line for write in outside if write not in first for line in az.commands(write)]
    deploy = _deployment(group) if group else "Nothing is left to deploy."
    return [
        *_commented("First:", before),
        f"// {deploy}",
        *_commented("Afterwards:", after),
    ]


def _deployment(group: str) -> str:
    options = az.deployment(arm.subscription_of(group) or "", name_of(group))
    return f"Deploy by: {options}"


def _commented(title: str, commands: list[str]) -> list[str]:
    lines = [line for command in commands for line in command.splitlines()]
    return [f"// {line}" for line in (title, *lines)] if lines else []


class _File:
    """Writes resources, and refers by name to those that the file knows."""

    def __init__(self, resources: list[tuple[str, str]]) -> None:
        self._symbols = symbols(resources, _camel)

    def existing(self, resource_type: str, resource_id: str) -> str:
        head = self._declaration(resource_type, resource_id, " existing")
        return _closed(head, [*self._parent(resource_id), f"name: {string(name_of(resource_id))}"])

    def resource(self, write: ArmWrite, group: str | None) -> str:
        head = self._declaration(write.resource_type, write.resource_id, "")
        above = [] if same_id(parent_of(write.resource_id), group) else self._above(write)
        body = self._pairs(write.body or {}, 1)
        name = f"name: {string(name_of(write.resource_id))}"
        return _closed(head, [*above, name, *body, *self._after(write)])

    def _declaration(self, resource_type: str, resource_id: str, existing: str) -> str:
        symbol = self._symbols[id_key(resource_id)]
        version = API_VERSIONS[resource_type]
        return f"resource {symbol} '{resource_type}@{version}'{existing} = {{"

    def _parent(self, resource_id: str) -> list[str]:
        symbol = self._symbols.get(id_key(parent_of(resource_id)))
        return [f"parent: {symbol}"] if symbol else []

    def _above(self, write: ArmWrite) -> list[str]:
        if write.resource_type in (arm.ASSIGNMENT, arm.LOCK):
            return [f"scope: {self._symbols[id_key(parent_of(write.resource_id))]}"]
        return self._parent(write.resource_id)

    def _after(self, write: ArmWrite) -> list[str]:
        names = [self._symbols[id_key(i)] for i in write.after if id_key(i) in self._symbols]
        return ["dependsOn: [", *(f"  {name}" for name in names), "]"] if names else []

    def _pairs(self, body: dict[str, Any], depth: int) -> list[str]:
        pairs = ((key, value) for key, value in body.items() if value is not None)
        lines = [f"{_key(key)}: {self._value(value, depth)}" for key, value in pairs]
        return [line for text in lines for line in text.split("\n")]

    def _value(self, value: object, depth: int) -> str:
        if isinstance(value, dict):
            return _enclosed("{", self._pairs(value, depth + 1), "}")
        if isinstance(value, (list, tuple)):
            items = [self._value(item, depth + 1) for item in value]
            return _enclosed("[", [line for text in items for line in text.split("\n")], "]")
        if isinstance(value, (bool, int)):
            return str(value).lower()
        return self._string(str(value))

    def _string(self, value: str) -> str:
        symbol = self._symbols.get(id_key(value)) if value.startswith("/") else None
        return f"{symbol}.id" if symbol else string(value)


def _camel(symbol: str) -> str:
    first, *others = symbol.split("_")
    return first + "".join(word.capitalize() for word in others)


def _closed(head: str, lines: list[str]) -> str:
    return "\n".join([head, *(f"  {line}" for line in lines), "}"])


def _enclosed(opening: str, lines: list[str], closing: str) -> str:
    if not lines:
        return opening + closing
    return "\n".join([opening, *(f"  {line}" for line in lines), closing])


def _key(name: str) -> str:
    plain = _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS
    return name if plain else string(name)


def string(value: str) -> str:
    """Write a Bicep string; what could be taken for interpolation or an escape is neither."""
    return "'" + "".join(map(_character, value)) + "'"


def _character(character: str) -> str:
    if character in _WORDS:
        return _WORDS[character]
    if character in "\\$" or ord(character) < 32 or ord(character) == 127:
        return f"\\u{{{ord(character):x}}}"
    return character
