"""What an audit reads, and what becomes of what it may not read."""

from __future__ import annotations

import pytest
from support import SUBSCRIPTION, Script, answer, failed, listed

from ai4infra.client import Azure
from ai4infra.errors import ForbiddenError, SignInError
from ai4infra.model import Finding
from ai4infra.settings import Settings

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg-train"


def an_account(name: str) -> dict[str, object]:
    return {
        "id": f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{name}",
        "name": name,
        "location": "eastus2",
        "kind": "StorageV2",
        "properties": {"isHnsEnabled": True, "minimumTlsVersion": "TLS1_2"},
    }


def readable(*names: str) -> Script:
    """An Azure with these accounts, in which everything may be read and nothing is set."""
    script = Script()
    script.on("metricAlerts", listed())
    script.on("metrics", answer(body={"value": []}))
    script.on("roleAssignments", listed())
    script.on("locks", listed())
    script.on("managementPolicies", failed(404, "ManagementPolicyNotFound"))
    script.on("containers", listed({"id": "c", "name": "data"}))
    script.on("blobServices/default", answer(body={"properties": {}}))
    return script.on("storageAccounts", listed(*map(an_account, names)))


def an_azure(script: Script) -> Azure:
    return Azure(script.session(), Settings(subscription=SUBSCRIPTION))


def by_check(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_all_accounts_are_held_against_the_checklist_in_their_order() -> None:
    found = an_azure(readable("stb", "sta")).audit_storage()
    assert [each.look.account.name for each in found] == ["sta", "stb"]
    assert {f.subject for each in found for f in each.findings} == {
        each.look.account.id for each in found
    }
    assert all(each.look.unread == {} for each in found)


def test_what_is_the_subscriptions_is_asked_for_once() -> None:
    script = readable("sta", "stb", "stc")
    an_azure(script).audit_storage()
    assert sum("metricAlerts" in url for url in script.urls) == 1


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("locks", "lock"),
        ("metricAlerts", "availability alert"),
        ("roleAssignments", "data roles"),
        ("containers", "checkpoint lifecycle"),
        ("metrics", "growth headroom"),
        ("blobServices/default$|blobServices/default\\?", "deleteRetentionPolicy"),
    ],
)
def test_what_may_not_be_read_is_unknown_and_the_rest_is_told(path: str, check: str) -> None:
    script = readable("sta")
    script.replies.insert(0, (path, [failed(403, "AuthorizationFailed", "Not you.")]))
    (found,) = an_azure(script).audit_storage()
    findings = by_check(found.findings)
    assert findings[check].verdict == "unknown"
    assert "AuthorizationFailed" in (findings[check].reason or "")
    assert findings["minimumTlsVersion"].verdict == "pass"


@pytest.mark.parametrize("found", [True, False])
def test_where_only_the_groups_locks_may_be_read_none_found_is_unknown(found: bool) -> None:
    group = an_account("sta")["id"].partition("/providers/")[0]
    lock = {"id": f"{group}/providers/Microsoft.Authorization/locks/keep", "name": "keep"}
    script = readable("sta")
    in_group = listed(*([lock] if found else []))
    script.replies.insert(0, ("resourceGroups/[^/]+/providers/[^/]+/locks", [in_group]))
    script.replies.insert(1, ("locks", [failed(403, "AuthorizationFailed")]))
    (audited,) = an_azure(script).audit_storage()
    assert by_check(audited.findings)["lock"].verdict == ("pass" if found else "unknown")


def test_accounts_that_may_not_be_listed_are_no_empty_audit() -> None:
    script = Script().on("storageAccounts", failed(403, "AuthorizationFailed"))
    with pytest.raises(ForbiddenError):
        an_azure(script).audit_storage()


def test_a_sign_in_that_ends_in_the_middle_ends_the_audit() -> None:
    script = readable("sta")
    script.replies.insert(0, ("locks", [failed(401, "ExpiredAuthenticationToken")]))
    with pytest.raises(SignInError):
        an_azure(script).audit_storage()


def test_nothing_is_sent_that_changes_anything() -> None:
    script = readable("sta", "stb")
    an_azure(script).audit_storage()
    assert {request.method for request in script.requests} == {"GET"}
