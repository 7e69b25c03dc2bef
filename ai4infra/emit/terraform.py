"""A plan as a Terraform configuration for the azapi provider, which sends bodies as they are.

Written as ``terraform fmt`` formats it: the equals signs of neighbouring lines are aligned.
https://registry.terraform.io/providers/Azure/azapi/latest/docs
"""

from __future__ import annotations

import re
from typing import Any, Final

from ai4infra import arm
from ai4infra.arm import ArmWrite, id_key, name_of, parent_of, subscription_of
from ai4infra.emit.resources import changes, registrations, symbols
from ai4infra.model import Step
from ai4infra.plan import Plan, RegistrationWanted

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_KEYWORDS: Final = {"for", "if", "in", "true", "false", "null"}
_WORDS: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_ARGUMENTS: Final = ("location", "tags", "identity")
"""Parts of a body that azapi takes as arguments of their own."""

_REQUIRED: Final = """\
terraform {
  required_providers {
    azapi = {
      source  = "Azure/azapi"
      version = "~> 2.0"
    }
  }
}"""


def configuration(plan: Plan) -> str:
    """Write a plan as one Terraform file."""
    written = changes(plan)
    wanted = registrations(plan)
    file = _File(written, wanted)
    blocks = [_REQUIRED, _provider(written, wanted)]
    blocks += [file.registration(r) for r in wanted]
    blocks += [file.resource(step, write) for step, write in written]
    return "\n\n".join(blocks) + "\n"


def _provider(written: list[tuple[Step, ArmWrite]], wanted: list[RegistrationWanted]) -> str:
    ids = [r.subscription_id for r in wanted]
    ids += [s for _, write in written if (s := subscription_of(write.resource_id))]
    first = {"subscription_id": string(ids[0])} if ids else {}
    return _block('provider "azapi"', _lines(first))


class _File:
    """Writes resources, and refers by name to those that the file writes."""

    def __init__(
        self, written: list[tuple[Step, ArmWrite]], wanted: list[RegistrationWanted]
    ) -> None:
        names = symbols((w.resource_type, w.resource_id) for _, w in written)
        self._addresses = {
            id_key(w.resource_id): f"{_kind(s, w)}.{names[id_key(w.resource_id)]}"
            for s, w in written
        }
        self._registrations = {r.namespace: _registration_address(r) for r in wanted}

    def registration(self, wanted: RegistrationWanted) -> str:
        provider = f"/subscriptions/{wanted.subscription_id}/providers/{wanted.namespace}"
        arguments = {
            "type": string("Microsoft.Resources/providers@2021-04-01"),
            "resource_id": string(provider),
            "action": string("register"),
            "method": string("POST"),
        }
        return _block(_header(self._registrations[wanted.namespace]), _lines(arguments))

    def resource(self, step: Step, write: ArmWrite) -> str:
        address = self._addresses[id_key(write.resource_id)]
        arguments = {"type": string(f"{write.resource_type}@{write.api_version}")}
        if _kind(step, write) == "azapi_resource":
            lines = self._whole(write, arguments)
        else:
            arguments["resource_id"] = self._target(write)
            arguments["body"] = self._value(write.body or {})
            lines = _lines(arguments)
        return _block(_header(address), [*lines, *self._after(write)])

    def _whole(self, write: ArmWrite, arguments: dict[str, str]) -> list[str]:
        body = write.body or {}
        arguments["parent_id"] = self._string(parent_of(write.resource_id))
        arguments["name"] = string(name_of(write.resource_id))
        for name in ("location", "tags"):
            if body.get(name):
                arguments[name] = self._value(body[name])
        lines = _lines(arguments)
        if "identity" in body:
            lines += ["", *_identity(body["identity"])]
        rest = {key: value for key, value in body.items() if key not in _ARGUMENTS}
        return [*lines, "", *_lines({"body": self._value(rest)})] if rest else lines

    def _target(self, write: ArmWrite) -> str:
        """Return the id of a resource that is updated: by way of what this file makes."""
        above = self._addresses.get(id_key(parent_of(write.resource_id)))
        if above is None:
            return string(write.resource_id)
        tail = write.resource_id[len(parent_of(write.resource_id)) :]
        return f'"${{{above}.id}}{_quoted(tail)}"'

    def _after(self, write: ArmWrite) -> list[str]:
        addresses = [a for i in write.after if (a := self._addresses.get(id_key(i)))]
        namespace = write.resource_type.partition("/")[0]
        if namespace in self._registrations:
            addresses.append(self._registrations[namespace])
        return ["", *_lines({"depends_on": f"[{', '.join(addresses)}]"})] if addresses else []

    def _value(self, value: object) -> str:
        if isinstance(value, dict):
            known = {k: self._value(v) for k, v in value.items() if v is not None}
            return _enclosed("{", _lines(known, keys=_key), "}")
        if isinstance(value, (list, tuple)):
            return self._list(list(value))
        if isinstance(value, (bool, int)):
            return str(value).lower()
        return self._string(str(value))

    def _list(self, values: list[Any]) -> str:
        items = [self._value(value) for value in values]
        if not any(isinstance(value, (dict, list, tuple)) for value in values):
            return f"[{', '.join(items)}]"
        return _enclosed("[", [line for item in items for line in f"{item},".split("\n")], "]")

    def _string(self, value: str) -> str:
        address = self._addresses.get(id_key(value)) if value.startswith("/") else None
        return f"{address}.id" if address else string(value)


def _kind(step: Step, write: ArmWrite) -> str:
    """Return azapi's resource: what the service makes by itself can only be updated."""
    exists = step.action == "update" or write.resource_type == arm.BLOB_SERVICE
    return "azapi_update_resource" if exists else "azapi_resource"


def _registration_address(wanted: RegistrationWanted) -> str:
    name = wanted.namespace.casefold().replace(".", "_")
    return f"azapi_resource_action.register_{name}"


def _header(address: str) -> str:
    kind, _, name = address.partition(".")
    return f'resource "{kind}" "{name}"'


def _identity(identity: dict[str, Any]) -> list[str]:
    ids = ", ".join(string(i) for i in identity.get("userAssignedIdentities", {}))
    lines = _lines({"type": string(identity["type"]), "identity_ids": f"[{ids}]"})
    return _block("identity", lines).split("\n")


def _block(header: str, lines: list[str]) -> str:
    if not lines:
        return f"{header} {{\n}}"
    return "\n".join([f"{header} {{", *(f"  {line}" if line else "" for line in lines), "}"])


def _enclosed(opening: str, lines: list[str], closing: str) -> str:
    if not lines:
        return opening + closing
    return "\n".join([opening, *(f"  {line}" if line else "" for line in lines), closing])


def _lines(attributes: dict[str, str], keys: Any = str) -> list[str]:
    """Write attributes, the equals signs of neighbouring one-line attributes aligned."""
    lines: list[str] = []
    run: list[tuple[str, str]] = []
    for name, text in attributes.items():
        if "\n" in text:
            lines += [*_aligned(run), *f"{keys(name)} = {text}".split("\n")]
            run = []
        else:
            run.append((keys(name), text))
    return [*lines, *_aligned(run)]


def _aligned(run: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in run), default=0)
    return [f"{name:<{width}} = {text}" for name, text in run]


def _key(name: str) -> str:
    """Write an attribute's name; escapes keep it as wide as it is long."""
    if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + "".join(c if c.isascii() else _escape(c) for c in _quoted(name)) + '"'


def string(value: str) -> str:
    """Write a string; what could be taken for interpolation or a directive is neither."""
    return f'"{_quoted(value)}"'


def _quoted(value: str) -> str:
    escaped = "".join(map(_character, value))
    return escaped.replace("${", "$${").replace("%{", "%%{")


def _character(character: str) -> str:
    if character in _WORDS:
        return _WORDS[character]
    return _escape(character) if ord(character) < 32 or ord(character) == 127 else character


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
