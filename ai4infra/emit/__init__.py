"""A plan as infrastructure code: Bicep, Terraform (the azapi provider) or Azure CLI commands."""

from __future__ import annotations

from typing import Literal

from ai4infra.arm import name_of
from ai4infra.emit import az
from ai4infra.emit.bicep import template
from ai4infra.emit.resources import identities
from ai4infra.emit.terraform import configuration
from ai4infra.errors import ConflictError, UsageError
from ai4infra.plan import Plan

Language = Literal["bicep", "terraform", "az"]
LANGUAGES: tuple[Language, ...] = ("bicep", "terraform", "az")

_EMITTERS = {"bicep": template, "terraform": configuration, "az": az.script}


def emit(plan: Plan, language: Language) -> str:
    """Write a plan's changes as infrastructure code, with a line break at its end.

    What is there already is left out, or referred to where something lies in it. Raises
    ConflictError for a plan that is refused, and UsageError for a deletion in a language that
    only declares what shall be.
    """
    if plan.refusals:
        raise ConflictError(f"There is nothing to write: {plan.refusals[0].reason}")
    if language != "az" and any(step.action == "delete" for step in plan.steps):
        raise UsageError(
            f"A deletion cannot be said in {language}.", hint="--emit az writes the commands."
        )
    return _EMITTERS[language](plan)


def left_out(plan: Plan, language: Language) -> list[str]:
    """Say what of a plan the code in a language cannot do, and the command that does it.

    Bicep and Terraform would have to own a machine to give it an identity.
    """
    if language == "az":
        return []
    return [
        f"The code leaves out the identity of {name_of(wanted.resource_id)} and its roles. Run"
        f" this once, then print the code again: {az.identity(wanted)}"
        for wanted in identities(plan)
    ]
