"""The checklist of a storage account: what passes, what is a finding, what is unknown."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support_storage import ACCOUNT, ACCOUNT_ID, ALICE, CONTRIBUTOR, GROUP, NODE, SUBSCRIPTION

from ai4infra.arm import ArmWrite
from ai4infra.audit import MENDABLE, AuditLook, audit, fix_wanted
from ai4infra.classification import levels
from ai4infra.limits import TIBYTE
from ai4infra.model import (
    BlobServiceSettings,
    Container,
    Finding,
    LifecycleRule,
    Lock,
    MetricAlert,
    RoleAssignment,
    StorageAccount,
    StorageLook,
)
from ai4infra.storage_plan import storage_steps

CUSTOM = "6b3a1c5d-0e0f-4a7b-9c1d-2e3f4a5b6c7d"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"


def a_lock(scope: str = ACCOUNT_ID, level: str = "CanNotDelete") -> Lock:
    return Lock(
        id=f"{scope}/providers/Microsoft.Authorization/locks/keep", name="keep", level=level
    )


def a_role(**fields: Any) -> RoleAssignment:
    plain: dict[str, Any] = {
        "id": "a",
        "scope": ACCOUNT_ID,
        "role_id": CONTRIBUTOR,
        "principal_id": ALICE,
        "principal_type": "User",
    }
    return RoleAssignment(**{**plain, **fields})


def an_alert(**fields: Any) -> MetricAlert:
    plain = {"name": "alert", "enabled": True, "scopes": (ACCOUNT_ID,)}
    return MetricAlert(**{**plain, **fields})  # type: ignore[arg-type]  # a mixed dictionary


def an_account(**fields: Any) -> StorageAccount:
    plain: dict[str, Any] = {
        "id": ACCOUNT_ID,
        "name": ACCOUNT,
        "location": "eastus2",
        "kind": "StorageV2",
        "sku": "Standard_LRS",
        "tags": {"Classification": "internal"},
        "hns": True,
        "minimum_tls_version": "TLS1_2",
        "https_only": True,
        "allow_blob_public_access": False,
        "allow_shared_key_access": False,
        "public_network_access": "Enabled",
        "network_acls": {"defaultAction": "Deny", "ipRules": [{"value": "203.0.113.7"}]},
    }
    return StorageAccount(**{**plain, **fields})


def a_look(account: StorageAccount | None = None, **fields: Any) -> AuditLook:
    """An account with which everything is in order."""
    plain: dict[str, Any] = {
        "account": account or an_account(),
        "blob_service": BlobServiceSettings(blob_soft_delete_days=7, container_soft_delete_days=7),
        "containers": (Container(id="c", name="training-data"),),
        "lifecycle": (),
        "assignments": (a_role(),),
        "locks": (a_lock(),),
        "alerts": (
            an_alert(name="up", metrics=("Availability",)),
            an_alert(name="busy", metrics=("Transactions",)),
        ),
        "used_bytes": 2 * TIBYTE,
    }
    return AuditLook(**{**plain, **fields})


def found(look: AuditLook, check: str) -> Finding:
    return next(f for f in audit(look) if f.check == check)


def verdict(check: str, look: AuditLook) -> str:
    return found(look, check).verdict


def of_account(check: str, **fields: Any) -> str:
    return verdict(check, a_look(an_account(**fields)))


def test_an_account_in_order_passes_every_check() -> None:
    assert {f.check: f.verdict for f in audit(a_look()) if f.verdict != "pass"} == {}
    assert all(f.fix is None for f in audit(a_look()))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("TLS1_3", "pass"),
        ("TLS1_2", "pass"),
        ("TLS1_1", "fail"),
        ("TLS1_0", "fail"),
        (None, "fail"),
    ],
)
def test_tls_below_1_2_is_a_finding_and_so_is_silence(version: str | None, expected: str) -> None:
    assert of_account("minimumTlsVersion", minimum_tls_version=version) == expected


@pytest.mark.parametrize(
    ("check", "field"),
    [
        ("allowBlobPublicAccess", "allow_blob_public_access"),
        ("allowSharedKeyAccess", "allow_shared_key_access"),
    ],
)
@pytest.mark.parametrize("value", [True, None])
def test_silence_about_keys_and_anonymous_access_means_allowed(
    check: str, field: str, value: bool | None
) -> None:
    assert of_account(check, **{field: value}) == "fail"


def test_containers_that_are_open_now_are_named() -> None:
    opened = Container(id="c", name="models", public_access="Blob")
    look = a_look(an_account(allow_blob_public_access=True), containers=(opened,))
    assert found(look, "allowBlobPublicAccess").actual == "true; open now: models"
    closed = a_look(containers=(opened,))
    assert verdict("allowBlobPublicAccess", closed) == "pass"


def test_http_is_a_finding_and_silence_about_it_unknown() -> None:
    assert of_account("supportsHttpsTrafficOnly", https_only=False) == "fail"
    assert of_account("supportsHttpsTrafficOnly", https_only=None) == "unknown"


@pytest.mark.parametrize(
    ("access", "acls", "kind"),
    [
        (None, None, "open"),
        ("Enabled", {"defaultAction": "Allow"}, "open"),
        (None, {"defaultAction": "Deny"}, "restricted"),
        ("Disabled", {"defaultAction": "Allow"}, "private"),
        ("SecuredByPerimeter", None, "private"),
    ],
)
def test_an_open_network_is_a_finding_without_a_classification(
    access: str | None, acls: dict[str, Any] | None, kind: str
) -> None:
    account = an_account(tags={}, public_network_access=access, network_acls=acls)
    finding = found(a_look(account), "publicNetworkAccess")
    assert finding.actual is not None
    assert finding.actual.startswith(f"{kind}: ")
    assert finding.verdict == ("fail" if kind == "open" else "pass")


@pytest.mark.parametrize(
    ("level", "acls", "access", "expected"),
    [
        ("internal", "Allow", "Enabled", "pass"),
        ("confidential", "Allow", "Enabled", "fail"),
        ("confidential", "Deny", "Enabled", "pass"),
        ("restricted", "Deny", "Enabled", "fail"),
        ("restricted", "Allow", "Disabled", "pass"),
    ],
)
def test_the_classification_says_how_isolated_the_network_has_to_be(
    level: str, acls: str, access: str, expected: str
) -> None:
    tags = {"classification": level}
    fields = {"network_acls": {"defaultAction": acls}, "public_network_access": access}
    assert of_account("publicNetworkAccess", tags=tags, **fields) == expected


def test_anonymous_access_and_the_network_are_two_findings() -> None:
    account = an_account(tags={}, network_acls=None)
    assert verdict("allowBlobPublicAccess", a_look(account)) == "pass"
    assert verdict("publicNetworkAccess", a_look(account)) == "fail"


@pytest.mark.parametrize("value", [False, None])
def test_a_flat_namespace_is_a_finding(value: bool | None) -> None:
    assert of_account("isHnsEnabled", hns=value) == "fail"


@pytest.mark.parametrize(
    ("level", "days", "expected"),
    [
        (None, 7, "pass"),
        (None, 6, "fail"),
        (None, 0, "fail"),
        ("public", 6, "fail"),
        ("confidential", 13, "fail"),
        ("confidential", 14, "pass"),
    ],
)
def test_soft_delete_keeps_as_long_as_the_classification_demands(
    level: str | None, days: int, expected: str
) -> None:
    account = an_account(tags={"classification": level} if level else {})
    service = BlobServiceSettings(blob_soft_delete_days=days, container_soft_delete_days=days)
    look = a_look(account, blob_service=service)
    assert verdict("deleteRetentionPolicy", look) == expected
    assert verdict("containerDeleteRetentionPolicy", look) == expected


NONE = BlobServiceSettings(blob_soft_delete_days=0, container_soft_delete_days=0)
CKPT = (Container(id="c", name="llm-ckpt"), Container(id="d", name="data"))


def a_rule(*, filters: Any = None, actions: Any = None) -> LifecycleRule:
    """A rule as the service tells it, for the checkpoints and with a deletion."""
    definition = {
        "filters": {"blobTypes": ["blockBlob"], "prefixMatch": ["llm-ckpt/"], **(filters or {})},
        "actions": actions or {"baseBlob": {"delete": {"daysAfterModificationGreaterThan": 90}}},
    }
    return LifecycleRule(name="r", prefixes=("llm-ckpt/",), raw={"definition": definition})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (a_rule(), "pass"),
        (a_rule(filters={"blobTypes": ["appendBlob"]}), "fail"),
        (a_rule(filters={"blobIndexMatch": [{"name": "a", "op": "==", "value": "b"}]}), "fail"),
        (a_rule(actions={"snapshot": {"delete": {"daysAfterCreationGreaterThan": 9}}}), "fail"),
        (None, "fail"),
        (LifecycleRule(name="r", prefixes=("llm-ckpt/",), delete_after_days=90), "pass"),
        (LifecycleRule(name="r", prefixes=("llm-ckpt",), delete_after_days=90), "pass"),
        (LifecycleRule(name="r", delete_after_days=90), "pass"),
        (LifecycleRule(name="r", prefixes=("llm-ckpt/old",), delete_after_days=90), "fail"),
        (LifecycleRule(name="r", prefixes=("llm-ckpt2/",), delete_after_days=90), "fail"),
        (LifecycleRule(name="r", enabled=False, delete_after_days=90), "fail"),
    ],
)
def test_a_checkpoint_container_needs_an_enabled_rule_for_all_of_it(
    rule: LifecycleRule | None, expected: str
) -> None:
    look = a_look(containers=CKPT, lifecycle=(rule,) if rule else ())
    assert verdict("checkpoint lifecycle", look) == expected


def test_the_lifecycle_finding_names_the_container_and_makes_nothing_else() -> None:
    fix = found(a_look(containers=CKPT), "checkpoint lifecycle").fix or ""
    words = shlex.split(fix)
    assert words[words.index("--container") + 1] == "llm-ckpt"
    assert words[words.index("--lifecycle") + 1] == "llm-ckpt=14d:90d"
    assert "--no-grant" in words


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ((), "fail"),
        ((a_role(),), "pass"),
        ((a_role(scope=f"{ACCOUNT_ID}/blobServices/default/containers/c"),), "pass"),
        ((a_role(scope=GROUP_ID),), "fail"),
        ((a_role(), a_role(scope=f"/subscriptions/{SUBSCRIPTION}")), "fail"),
        ((a_role(role_id=CUSTOM),), "unknown"),
        ((a_role(role_id="b24988ac-6180-42a0-ab88-20f7382dd24c"),), "fail"),
    ],
)
def test_data_roles_are_held_by_identities_and_not_by_a_broad_scope(
    roles: tuple[RoleAssignment, ...], expected: str
) -> None:
    assert verdict("data roles", a_look(assignments=roles)) == expected


def test_a_broad_data_role_is_mended_by_taking_it_away_there() -> None:
    fix = found(a_look(assignments=(a_role(scope=GROUP_ID),)), "data roles").fix or ""
    words = shlex.split(fix)
    assert words[:4] == ["ai4infra", "rbac", "remove", "Storage Blob Data Contributor"]
    assert words[4:] == ["--from", f"id:{ALICE}:User", "--on", GROUP_ID]


def test_restricted_data_is_read_by_no_group() -> None:
    account = an_account(tags={"classification": "restricted"})
    group = a_role(principal_type="Group", principal_id=NODE)
    assert verdict("data readers", a_look(account)) == "pass"
    assert verdict("data readers", a_look(account, assignments=(group,))) == "fail"
    unsaid = structs.replace(group, principal_type=None)
    assert verdict("data readers", a_look(account, assignments=(unsaid,))) == "unknown"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, "fail"),
        ({"classification": "secret"}, "fail"),
        ({"CLASSIFICATION": "Public"}, "pass"),
    ],
)
def test_the_classification_tag_has_to_be_one_of_the_levels(
    tags: dict[str, str], expected: str
) -> None:
    assert of_account("tag classification", tags=tags) == expected


def test_infrastructure_encryption_is_asked_for_by_the_classification_only() -> None:
    check = "requireInfrastructureEncryption"
    assert of_account(check) == "pass"
    assert of_account(check, tags={}) == "unknown"
    assert of_account(check, tags={"classification": "confidential"}) == "fail"
    tags = {"classification": "confidential"}
    assert of_account(check, tags=tags, infrastructure_encryption=True) == "pass"


def test_restricted_data_needs_a_key_of_the_customer() -> None:
    tags = {"classification": "restricted"}
    assert of_account("encryption.keySource", tags=tags, key_source="Microsoft.Storage") == "fail"
    assert of_account("encryption.keySource", tags=tags, key_source="Microsoft.Keyvault") == "pass"


@pytest.mark.parametrize(
    ("used", "expected"), [(512 * TIBYTE, "pass"), (513 * TIBYTE, "fail"), (None, "unknown")]
)
def test_ten_times_what_is_used_has_to_fit(used: int | None, expected: str) -> None:
    assert verdict("growth headroom", a_look(used_bytes=used)) == expected


@pytest.mark.parametrize(
    ("alert", "expected"),
    [
        ({"metrics": ("availability",)}, "pass"),
        ({"metrics": ("Egress",)}, "fail"),
        ({"metrics": ("Availability",), "enabled": False}, "fail"),
        ({"metrics": ("Availability",), "scopes": (f"{ACCOUNT_ID}2",)}, "fail"),
        ({"metrics": ("Availability",), "scopes": (f"{ACCOUNT_ID}/blobServices/default",)}, "pass"),
        ({"metrics": ("Availability",), "scopes": (GROUP_ID,)}, "fail"),
        (
            {
                "metrics": ("Availability",),
                "scopes": (GROUP_ID.upper(),),
                "target_type": "Microsoft.Storage/storageAccounts",
            },
            "pass",
        ),
    ],
)
def test_an_alert_counts_when_it_is_on_and_watches_this_account(
    alert: dict[str, Any], expected: str
) -> None:
    assert verdict("availability alert", a_look(alerts=(an_alert(**alert),))) == expected


@pytest.mark.parametrize("scope", [ACCOUNT_ID, GROUP_ID, f"/subscriptions/{SUBSCRIPTION}"])
def test_a_lock_from_above_counts(scope: str) -> None:
    assert verdict("lock", a_look(locks=(a_lock(scope),))) == "pass"


def test_no_lock_and_a_lock_on_something_else_are_findings() -> None:
    assert verdict("lock", a_look(locks=())) == "fail"
    assert verdict("lock", a_look(locks=(a_lock(f"{GROUP_ID}/providers/x/y/z"),))) == "fail"


PARTS = {
    "blob_service": "deleteRetentionPolicy",
    "containers": "checkpoint lifecycle",
    "assignments": "data roles",
    "locks": "lock",
    "alerts": "availability alert",
    "used_bytes": "growth headroom",
}


@pytest.mark.parametrize(("part", "check"), PARTS.items())
def test_what_may_not_be_read_is_unknown_with_the_reason(part: str, check: str) -> None:
    look = a_look(**{part: None}, unread={part: "(AuthorizationFailed) No."})
    finding = found(look, check)
    assert (finding.verdict, finding.reason) == ("unknown", "(AuthorizationFailed) No.")
    assert finding.fix is None


def test_rules_that_may_not_be_read_are_unknown_only_where_they_are_needed() -> None:
    look = a_look(containers=CKPT, lifecycle=None, unread={"lifecycle": "No."})
    assert found(look, "checkpoint lifecycle").reason == "No."
    assert verdict("checkpoint lifecycle", a_look(lifecycle=None)) == "pass"


def test_an_account_for_shares_is_not_measured_by_blobs() -> None:
    checks = {f.check for f in audit(a_look(an_account(kind="FileStorage", hns=None)))}
    assert "isHnsEnabled" not in checks
    assert "deleteRetentionPolicy" not in checks
    assert {"minimumTlsVersion", "allowSharedKeyAccess", "lock"} <= checks


BAD = {
    "minimum_tls_version": "TLS1_0",
    "https_only": False,
    "allow_blob_public_access": True,
    "allow_shared_key_access": None,
    "network_acls": None,
    "tags": {},
}


def test_every_finding_says_what_mends_it_and_passes_say_nothing() -> None:
    look = a_look(an_account(**BAD), locks=(), alerts=(), assignments=(), used_bytes=10**18)
    findings = audit(look)
    assert len([f for f in findings if f.verdict == "fail"]) > 10
    assert all((f.fix is not None) == (f.verdict == "fail") for f in findings)
    assert all(len(shlex.split(f.fix)) > 3 for f in findings if f.fix)


def test_what_one_right_answer_mends_becomes_a_plan_for_the_account_that_is_there() -> None:
    account = an_account(**BAD)
    look = a_look(account, locks=(), blob_service=NONE)
    wanted = fix_wanted(look, audit(look))
    assert wanted is not None
    seen = StorageLook(account=account, blob_service=NONE, locks=())
    plan = storage_steps(wanted, seen)
    changes = {step.kind: step.action for step in plan.changes if step.kind != "resource group"}
    assert plan.refusals == ()
    assert changes == {
        "storage account": "update",
        "blob service settings": "update",
        "lock": "create",
    }


@pytest.mark.parametrize(
    ("kind", "expected"), [("Group", "unknown"), ("ServicePrincipal", "pass"), (None, "unknown")]
)
def test_a_role_that_is_not_known_may_open_data_to_who_is_not_admitted(
    kind: str | None, expected: str
) -> None:
    account = an_account(tags={"classification": "restricted"})
    held = (a_role(), a_role(role_id=CUSTOM, principal_id=NODE, principal_type=kind))
    assert verdict("data readers", a_look(account, assignments=held)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, "fail"),
        ("tls1_0", "fail"),
        ("TLS1_1", "fail"),
        ("TLS1_2", "pass"),
        ("TLS1_3", "pass"),
        ("TLS2_0", "pass"),
        ("odd", "unknown"),
    ],
)
def test_a_version_of_tls_is_read_as_one(found: str | None, expected: str) -> None:
    assert verdict("minimumTlsVersion", a_look(an_account(minimum_tls_version=found))) == expected


MENDED = {"properties": {"minimumTlsVersion": "TLS1_2"}}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"tags": {"classification": "restricted"}, "infrastructure_encryption": True},
            id="a level that demands another network and a key",
        ),
        pytest.param({"tags": {"classification": "confidential"}}, id="what is fixed at creation"),
        pytest.param({"kind": "FileStorage", "sku": "Premium_LRS"}, id="an account for shares"),
        pytest.param({"kind": "Storage"}, id="the first kind of account"),
        pytest.param({"default_to_oauth": False, "tags": {}}, id="what is no check"),
    ],
)
def test_mending_changes_what_failed_and_leaves_everything_else(fields: dict[str, Any]) -> None:
    account = an_account(minimum_tls_version="TLS1_0", **fields)
    look = a_look(account)
    wanted = fix_wanted(look, audit(look))
    assert wanted is not None
    plan = storage_steps(wanted, StorageLook(account=account, blob_service=NONE, locks=()))
    assert plan.refusals == ()
    written = [s.wanted.body for s in plan.changes if isinstance(s.wanted, ArmWrite)]
    assert written[0] == MENDED
    assert "network" not in str(written)


def test_what_mounts_of_shares_may_depend_on_is_for_people_to_decide() -> None:
    fields = {"https_only": False, "allow_shared_key_access": None}
    look = a_look(an_account(kind="FileStorage", sku="Premium_LRS", **fields))
    findings = {f.check: f for f in audit(look) if f.verdict == "fail"}
    assert fix_wanted(look, findings.values()) is None
    assert "--https-only true" in (findings["supportsHttpsTrafficOnly"].fix or "")
    assert "--allow-shared-key-access false" in (findings["allowSharedKeyAccess"].fix or "")


def test_nothing_is_planned_where_only_people_can_decide() -> None:
    look = a_look(an_account(tags={}), alerts=(), assignments=())
    assert {f.check for f in audit(look) if f.verdict == "fail"} & MENDABLE == set()
    assert fix_wanted(look, audit(look)) is None


@given(
    st.fixed_dictionaries(
        {
            "minimum_tls_version": st.sampled_from([None, "TLS1_0", "TLS1_2", "odd"]),
            "https_only": st.sampled_from([None, True, False]),
            "allow_blob_public_access": st.sampled_from([None, True, False]),
            "allow_shared_key_access": st.sampled_from([None, True, False]),
            "public_network_access": st.sampled_from([None, "Enabled", "Disabled", ""]),
            "tags": st.dictionaries(
                st.sampled_from(["classification", "Classification", "x"]),
                st.sampled_from(["public", "internal", "confidential", "restricted", ""]),
            ),
            "kind": st.sampled_from([None, "StorageV2", "BlockBlobStorage", "FileStorage"]),
            "hns": st.sampled_from([None, True, False]),
            "location": st.sampled_from([None, "eastus2", "nowhere"]),
        }
    )
)
def test_whatever_the_service_leaves_out_every_finding_is_about_the_account(
    fields: dict[str, Any],
) -> None:
    findings = audit(AuditLook(account=an_account(**fields)))
    assert {f.subject for f in findings} == {ACCOUNT_ID}
    assert len({f.check for f in findings}) == len(findings)


PAGE = (Path(__file__).parents[1] / "docs" / "storage.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the last table under a heading of the page."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_names_every_check_and_marks_what_is_mended() -> None:
    named = [name.strip() for row in rows("Audit") for name in row[0].split(",")]
    look = a_look(an_account(tags={"classification": "restricted"}))
    assert {name.removesuffix(" †") for name in named} == {f.check for f in audit(look)}
    assert {name.removesuffix(" †") for name in named if name.endswith("†")} == MENDABLE


def test_the_page_tells_what_each_level_demands() -> None:
    told = {row[0]: row[1:] for row in rows("Classification")}
    assert list(told) == list(levels())
    for name, level in levels().items():
        network, encryption, key, soft_delete, readers = told[name]
        assert network == level.network
        assert (encryption == "yes") is level.infrastructure_encryption
        assert key.startswith("yours" if level.customer_key else "Microsoft's")
        assert soft_delete.split()[0] == str(level.soft_delete_days)
        assert ("groups" in readers or readers == "anybody") is ("Group" in level.readers)
