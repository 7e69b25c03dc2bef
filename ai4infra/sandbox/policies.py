"""Azure Policy: what the world's policies refuse, or change before the service reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec

from ai4infra.sandbox.app import Call, Service
from ai4infra.sandbox.messages import ServiceFailure
from ai4infra.sandbox.tracked import merged
from ai4infra.sandbox.world import Policy

service = Service()
Row = dict[str, Any]

GROUP_TYPE = "Microsoft.Resources/subscriptions/resourceGroups"


@service.guard
def apply_policies(call: Call) -> Call:
    """Refuse what a policy denies; put in what a policy modifies."""
    if call.request.method not in ("PUT", "PATCH") or not call.world.state.policies:
        return call
    body = _body(call)
    kind = type_of(call.request.path)
    if body is None or kind is None:
        return call
    for policy in call.world.state.policies:
        if policy.resource_type.lower() in ("*", kind.lower()) and _applies(policy, call, body):
            body = _effect(policy, call, body)
    request = replace(call.request, body=msgspec.json.encode(body))
    return replace(call, request=request)


def type_of(path: str) -> str | None:
    """Return the type of the resource with this id; None for what is no resource."""
    _, providers, rest = path.rpartition("/providers/")
    parts = rest.split("/")
    if not providers:
        depth = len(path.split("/"))
        return GROUP_TYPE if depth == 5 and "/resourcegroups/" in path.lower() else None
    return "/".join([parts[0], *parts[1::2]]) if len(parts) % 2 else None


def _body(call: Call) -> Row | None:
    try:
        body = json.loads(call.request.body or b"null")
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _applies(policy: Policy, call: Call, body: Row) -> bool:
    value = _value(policy, call, body)
    wanted = policy.value
    answers = {
        "equals": _same(value, wanted),
        "notEquals": not _same(value, wanted),
        "in": isinstance(wanted, list) and any(_same(value, one) for one in wanted),
        "notIn": isinstance(wanted, list) and not any(_same(value, one) for one in wanted),
        "exists": (value is not None) == wanted,
    }
    return bool(answers[policy.operator])


def _value(policy: Policy, call: Call, body: Row) -> Any:
    """Return what the field will be: a PATCH leaves what it does not name."""
    old = call.world.state.resources.get(call.request.path.lower(), {})
    value: Any = merged(old, body) if call.request.method == "PATCH" else body
    for name in policy.field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _same(one: Any, other: Any) -> bool:
    # Policy compares words without regard to case.
    return str(one).lower() == str(other).lower()


def _effect(policy: Policy, call: Call, body: Row) -> Row:
    if policy.effect == "deny":
        raise _denied(policy, call, body)
    change = policy.put
    for name in reversed(policy.field.split(".")):
        change = {name: change}
    result: Row = merged(body, change)
    return result


def _denied(policy: Policy, call: Call, body: Row) -> ServiceFailure:
    target = call.request.path.rpartition("/")[2]
    scope = f"/subscriptions/{call.subscription}"
    assignment = f"{scope}/providers/Microsoft.Authorization/policyAssignments/{policy.name}"
    definition = f"{scope}/providers/Microsoft.Authorization/policyDefinitions/{policy.name}"
    named = [
        {
            "policyAssignment": {"name": policy.name, "id": assignment},
            "policyDefinition": {"name": policy.display_name or policy.name, "id": definition},
        }
    ]
    message = (
        f"Resource '{target}' was disallowed by policy. Policy identifiers: '{json.dumps(named)}'."
    )
    info = {
        "evaluationDetails": {"evaluatedExpressions": [_expression(policy, call, body)]},
        "policyDefinitionId": definition,
        "policyDefinitionName": policy.name,
        "policyDefinitionDisplayName": policy.display_name or policy.name,
        "policyDefinitionEffect": "deny",
        "policyAssignmentId": assignment,
        "policyAssignmentName": policy.name,
        "policyAssignmentDisplayName": policy.display_name or policy.name,
        "policyAssignmentScope": scope,
        "policyAssignmentParameters": {},
    }
    violation = {"type": "PolicyViolation", "info": info}
    return ServiceFailure(
        403, "RequestDisallowedByPolicy", message, target=target, additionalInfo=[violation]
    )


def _expression(policy: Policy, call: Call, body: Row) -> Row:
    kind = type_of(call.request.path)
    alias = policy.field.replace("properties.", f"{kind}/", 1)
    told: Row = {
        "result": "True",
        "expressionKind": "Field",
        "expression": alias,
        "path": policy.field,
        "targetValue": policy.value,
        "operator": policy.operator[0].upper() + policy.operator[1:],
    }
    value = _value(policy, call, body)
    return told if value is None else {**told, "expressionValue": value}
