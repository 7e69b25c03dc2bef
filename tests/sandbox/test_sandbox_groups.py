"""Resource groups: created, found in any case, tagged, deleted after a while."""

from __future__ import annotations

import pytest
from arm_client import Arm, Reply, code
from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.resource.resources import ResourceManagementClient

from ai4infra.sandbox import Sandbox


def create(arm: Arm, name: str = "rg-training", location: str = "eastus2") -> Reply:
    return arm(
        "PUT", f"@/resourcegroups/{name}", json={"location": location, "tags": {"Team": "ml"}}
    )


def test_a_group_is_201_when_new_and_200_when_not(arm: Arm) -> None:
    assert (create(arm).status_code, create(arm).status_code) == (201, 200)


def test_a_group_keeps_the_first_spelling_of_its_name(arm: Arm) -> None:
    create(arm)

    again = create(arm, "RG-Training", "East US 2").json()

    assert (again["name"], again["location"]) == ("rg-training", "eastus2")
    assert arm("GET", "@/resourceGroups/RG-TRAINING").json() == again


def test_a_group_cannot_move(arm: Arm) -> None:
    create(arm)

    assert code(create(arm, location="westeurope")) == "InvalidResourceGroupLocation"


def test_a_location_is_required_and_has_to_exist(arm: Arm) -> None:
    assert code(arm("PUT", "@/resourcegroups/rg", json={})) == "LocationRequired"
    assert code(create(arm, location="mars")) == "LocationNotAvailableForResourceGroup"
    assert code(create(arm, location="europe")) == "LocationNotAvailableForResourceGroup"


@pytest.mark.parametrize("name", ["ends.", "a!b", "x" * 91])
def test_a_bad_name_is_refused(arm: Arm, name: str) -> None:
    assert code(create(arm, name)) == "InvalidResourceGroup"


def test_a_missing_group_is_404_and_its_head_has_no_body(arm: Arm) -> None:
    head = arm("HEAD", "@/resourcegroups/none")

    assert code(arm("GET", "@/resourcegroups/none")) == "ResourceGroupNotFound"
    assert (head.status_code, head.content) == (404, b"")


def test_tags_can_be_replaced_and_searched(arm: Arm) -> None:
    create(arm)
    create(arm, "other")
    arm("PATCH", "@/resourcegroups/other", json={"tags": {"team": "data"}})

    def found(expression: str) -> list[str]:
        answer = arm("GET", "@/resourcegroups", params={"$filter": expression})
        return [row["name"] for row in answer.json()["value"]]

    assert found("tagName eq 'team'") == ["rg-training", "other"]
    assert found("tagName eq 'TEAM' and tagValue eq 'data'") == ["other"]
    assert code(arm("GET", "@/resourcegroups", params={"$filter": "name eq 'x'"})) == (
        "InvalidFilterInQueryString"
    )
    assert code(arm("PATCH", "@/resourcegroups/other", json={"tags": {"n": 1}})) == (
        "InvalidRequestContent"
    )


def test_a_deletion_goes_on_for_a_while(arm: Arm, sandbox: Sandbox) -> None:
    create(arm)
    deletion = arm("DELETE", "@/resourcegroups/rg-training")

    assert (deletion.status_code, deletion.content) == (202, b"")
    assert deletion.headers["retry-after"] == "15"
    state = arm("GET", "@/resourcegroups/rg-training").json()["properties"]["provisioningState"]
    assert state == "Deleting"
    assert code(create(arm)) == "ResourceGroupBeingDeleted"

    sandbox.advance(60)

    assert code(arm("GET", "@/resourcegroups/rg-training")) == "ResourceGroupNotFound"
    assert create(arm).status_code == 201


def test_the_generated_client_waits_for_a_deletion_in_sandbox_time(sandbox: Sandbox) -> None:
    client = ResourceManagementClient(
        sandbox.credential, sandbox.subscription_id, transport=sandbox.transport()
    )
    client.resource_groups.create_or_update("rg", {"location": "eastus2"})
    started = sandbox.world.now()

    client.resource_groups.begin_delete("rg").result()

    assert (sandbox.world.now() - started).total_seconds() >= 30
    assert not client.resource_groups.check_existence("rg")
    with pytest.raises(ResourceNotFoundError):
        client.resource_groups.begin_delete("rg")


def test_a_group_goes_with_what_lies_in_it(arm: Arm, sandbox: Sandbox) -> None:
    group = create(arm).json()["id"]
    create(arm, "rg-training-2")
    inside = {"id": f"{group}/providers/Microsoft.Storage/storageAccounts/a", "name": "a"}
    sandbox.world.state.resources[inside["id"].lower()] = inside
    assert arm("GET", "@/resourcegroups/rg-training/resources").json()["value"] == [inside]

    arm("DELETE", "@/resourcegroups/rg-training")
    sandbox.advance(60)
    arm("GET", "@/resourcegroups")

    assert [row["name"] for row in sandbox.world.state.resources.values()] == ["rg-training-2"]
