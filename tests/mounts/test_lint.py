from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import support_machines as machines
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.errors import UsageError
from ai4infra.mounts.lint import (
    Context,
    Finding,
    lint,
    lint_all,
    lint_mounted,
    parse,
    with_settings,
)
from ai4infra.mounts.live import Running, parse_mounts

GOOD = """\
read-only: true
components: [libfuse, file_cache, attr_cache, azstorage]
logging:
  type: base
  level: log_warning
  file-path: /var/log/x.log
libfuse:
  attribute-expiration-sec: 120
file_cache:
  path: /mnt/nvme/a
  timeout-sec: 604800
  max-size-mb: 1000
  allow-non-empty-temp: true
  cleanup-on-start: true
attr_cache:
  timeout-sec: 120
azstorage:
  type: adls
  account-name: sttrain
  container: data
  mode: msi
  appid: 2f1a8e4c-7b30-4d55-9c1e-0d6a4b8f3e21
"""
BLOCK = """\
components: [libfuse, block_cache, azstorage]
block_cache:
  block-size-mb: 16
  mem-size-mb: 1024
  prefetch: 11
azstorage:
  type: adls
  account-name: sttrain
  container: data
  mode: msi
"""
PRELOAD = """\
read-only: true
components: [libfuse, xload, azstorage]
xload:
  path: /mnt/nvme/a
  cleanup-on-start: true
azstorage:
  type: adls
  account-name: sttrain
  container: data
  mode: msi
"""
HOST = machines.ND_H100_V5_MADE.host()
SECRET = "c2VjcmV0LXZhbHVlLTQyLXRoYXQtbXVzdC1ub3Qtc2hvdw"


class Case(NamedTuple):
    """A rule, a text that it finds something in, and one that it does not."""

    rule: str
    bad: str
    good: str
    says: str
    context: Context = Context()


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


CASES = [
    Case(
        "unknown-key",
        changed(GOOD, "timeout-sec: 604800", "timeout-secs: 604800"),
        GOOD,
        "Did you mean file_cache.timeout-sec?",
    ),
    Case(
        "unknown-key",
        changed(GOOD, "attr_cache:\n", "attrcache:\n"),
        GOOD,
        "Did you mean attr_cache",
    ),
    Case("unknown-key", GOOD + "colour: blue\n", GOOD, "Leave it out."),
    Case(
        "misplaced-key",
        changed(GOOD, "file_cache:\n", "file_cache:\n  read-only: true\n"),
        GOOD,
        "It is read-only.",
    ),
    Case(
        "misplaced-key",
        changed(GOOD, "read-only: true\n", "read-only: true\nsubdirectory: a\n"),
        GOOD,
        "It is azstorage.subdirectory.",
    ),
    Case(
        "old-key",
        changed(GOOD, "  type: adls\n", "  use-adls: true\n"),
        GOOD,
        "Now azstorage.type: adls.",
    ),
    Case(
        "old-key", "accountName sttrain\ncontainerName data\n", GOOD, "Now azstorage.account-name."
    ),
    Case("old-key", GOOD + "stream:\n  block-size-mb: 8\n", GOOD, "Now block_cache"),
    Case("old-key", GOOD + "accountName: sttrain\n", GOOD, "Now azstorage.account-name."),
    Case(
        "key-too-new",
        changed(BLOCK, "azstorage:\n", "azstorage:\n  cap-iops: 100\n"),
        BLOCK,
        "cap-iops came with 2.5.3; this is 2.5.1",
        Context(version="2.5.1"),
    ),
    Case("duplicate-key", GOOD + "read-only: true\n", GOOD, "line 1 has it too"),
    Case("empty-section", GOOD + "libfuse:\n", GOOD, "libfuse is empty"),
    Case(
        "empty-section",
        changed(GOOD, "attr_cache:\n  timeout-sec: 120\n", "attr_cache: 3\n"),
        GOOD,
        "no section but a value",
    ),
    Case(
        "wrong-type", changed(GOOD, "timeout-sec: 604800", "timeout-sec: soon"), GOOD, "no number"
    ),
    Case(
        "wrong-type", changed(GOOD, "timeout-sec: 604800", "timeout-sec: -1"), GOOD, "less than 0"
    ),
    Case("wrong-type", changed(GOOD, "timeout-sec: 604800", "timeout-sec:"), GOOD, "no value"),
    Case("wrong-type", changed(GOOD, "timeout-sec: 604800", "timeout-sec: 1.5"), GOOD, "whole"),
    Case(
        "wrong-type", changed(GOOD, "read-only: true", "read-only: maybe"), GOOD, "true nor false"
    ),
    Case("wrong-type", changed(GOOD, "  type: adls", "  type: gen2"), GOOD, "block, adls"),
    Case("wrong-type", changed(GOOD, "account-name: sttrain", "account-name: [a]"), GOOD, "a list"),
    Case(
        "wrong-type",
        changed(GOOD, "[libfuse, file_cache, attr_cache, azstorage]", "libfuse"),
        GOOD,
        "no list",
    ),
    Case(
        "wrong-type",
        changed(GOOD, "[libfuse, file_cache, attr_cache, azstorage]", "{libfuse: 1}"),
        GOOD,
        "components is no list",
    ),
    Case("wrong-type", changed(GOOD, "path: /mnt/nvme/a", "path: {a: b}"), GOOD, "is a section"),
    Case(
        "wrong-type",
        changed(GOOD, "account-name: sttrain", "account-name: ${ACCOUNT}"),
        changed(GOOD, "path: /mnt/nvme/a", "path: ${SCRATCH}/a"),
        "azstorage.account-name holds a placeholder",
    ),
    Case(
        "wrong-type",
        changed(GOOD, "path: /mnt/nvme/a", "path: <path to local disk cache>"),
        changed(GOOD, "container: data", "container: $web"),
        "file_cache.path holds a placeholder",
    ),
    Case("key-missing", changed(GOOD, "  container: data\n", ""), GOOD, "azstorage.container"),
    Case(
        "component-unknown",
        changed(GOOD, "file_cache, attr_cache, az", "file-cache, attr_cache, az"),
        GOOD,
        "Did you mean file_cache",
    ),
    Case(
        "component-order",
        changed(GOOD, "file_cache, attr_cache,", "attr_cache, file_cache,"),
        GOOD,
        "The order is libfuse, file_cache, attr_cache, azstorage.",
    ),
    Case(
        "component-clash",
        changed(GOOD, "[libfuse, file_cache,", "[libfuse, block_cache, file_cache,"),
        GOOD,
        "block_cache and file_cache",
    ),
    Case("component-missing", changed(GOOD, ", azstorage]", "]"), GOOD, "Add azstorage."),
    Case("component-missing", changed(GOOD, "[libfuse, ", "["), GOOD, "Add libfuse."),
    Case("component-unused", GOOD + "block_cache:\n  prefetch: 11\n", GOOD, "block_cache"),
    # BlobFuse2 puts entry_cache into the pipeline by itself where it has a time.
    Case(
        "component-unused",
        changed(BLOCK, "azstorage:\n", "attr_cache:\n  timeout-sec: 5\nazstorage:\n"),
        BLOCK + "entry_cache:\n  timeout-sec: 5\n",
        "attr_cache",
    ),
    Case(
        "type-endpoint",
        changed(
            GOOD, "  mode: msi", "  mode: msi\n  endpoint: https://sttrain.blob.core.windows.net"
        ),
        changed(
            GOOD, "  mode: msi", "  mode: msi\n  endpoint: https://sttrain.dfs.core.windows.net"
        ),
        "adls and a blob endpoint",
    ),
    Case(
        "type-endpoint",
        changed(
            GOOD,
            "  mode: msi",
            "  mode: msi\n  endpoint: https://sttrain.privatelink.dfs.core.windows.net",
        ),
        GOOD,
        "privatelink",
    ),
    Case(
        "type-namespace",
        changed(GOOD, "type: adls", "type: block"),
        GOOD,
        "hierarchical namespace, and type is block",
        Context(hns=True),
    ),
    Case(
        "type-namespace",
        GOOD,
        changed(GOOD, "type: adls", "type: block"),
        "flat namespace, and type is adls",
        Context(hns=False),
    ),
    Case(
        "virtual-directory",
        changed(GOOD, "  type: adls", "  type: block\n  virtual-directory: false"),
        changed(GOOD, "  type: adls", "  type: block\n  virtual-directory: true"),
        "marker blob",
    ),
    # Since 2.4.2 BlobFuse2 finds out a type that is not given.
    Case(
        "type-namespace",
        changed(GOOD, "type: adls", "type: Block"),
        changed(GOOD, "  type: adls\n", ""),
        "hierarchical namespace",
        Context(hns=True),
    ),
    Case(
        "proxy",
        changed(GOOD, "  mode: msi", "  mode: msi\n  http-proxy: 10.0.0.4:3128"),
        changed(GOOD, "  mode: msi", "  mode: msi\n  https-proxy: 10.0.0.4:3128"),
        "Write https-proxy instead.",
    ),
    Case("identity", GOOD + "  objid: x\n", GOOD, "shut one another out"),
    Case(
        "identity",
        changed(GOOD, "appid: 2f1a8e4c-7b30-4d55-9c1e-0d6a4b8f3e21", "resid: id-train"),
        changed(
            GOOD,
            "appid: 2f1a8e4c-7b30-4d55-9c1e-0d6a4b8f3e21",
            "resid: /subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity"
            "/userAssignedIdentities/i",
        ),
        "not the resource id",
    ),
    Case("identity", changed(GOOD, "  mode: msi\n", ""), GOOD, "mode is missing"),
    Case("identity", changed(BLOCK, "mode: msi", "mode: spn"), BLOCK, "needs azstorage.tenantid"),
    Case("identity", changed(GOOD, "mode: msi", "mode: azcli"), GOOD, "not used with mode azcli"),
    Case(
        "secret",
        changed(BLOCK, "mode: msi", f"mode: key\n  account-key: {SECRET}"),
        BLOCK,
        "AZURE_STORAGE_ACCESS_KEY",
    ),
    Case(
        "secret",
        changed(BLOCK, "mode: msi", f"mode: sas\n  sas: '?sv=1&sig={SECRET}'"),
        BLOCK,
        "question mark",
    ),
    Case("secret", BLOCK + f"passphrase: {SECRET}\n", BLOCK, "BLOBFUSE2_SECURE_CONFIG_PASSPHRASE"),
    Case("cache-missing", changed(GOOD, "  path: /mnt/nvme/a\n", ""), GOOD, "file_cache.path"),
    Case("cache-missing", changed(PRELOAD, "  path: /mnt/nvme/a\n", ""), PRELOAD, "xload.path"),
    Case(
        "cache-os-disk",
        changed(GOOD, "/mnt/nvme/a", "/var/cache/a"),
        GOOD,
        "on the OS disk",
        Context(host=HOST),
    ),
    Case(
        "cache-os-disk",
        changed(GOOD, "/mnt/nvme/a", "/mnt/nvme/../../var/a"),
        GOOD,
        "on the OS disk",
        Context(host=HOST),
    ),
    Case("cache-relative", changed(GOOD, "/mnt/nvme/a", "cache"), GOOD, "Write the whole path."),
    Case(
        "cache-relative",
        changed(PRELOAD, "/mnt/nvme/a", "./cache"),
        changed(PRELOAD, "/mnt/nvme/a", "~/cache"),
        "wherever BlobFuse2 starts",
    ),
    Case(
        "cache-os-disk",
        changed(PRELOAD, "/mnt/nvme/a", "/opt"),
        PRELOAD,
        "on the OS disk",
        Context(host=HOST),
    ),
    Case(
        "cache-in-memory",
        changed(GOOD, "/mnt/nvme/a", "/run/a"),
        GOOD,
        "in memory (tmpfs)",
        Context(host=HOST),
    ),
    Case(
        "cache-unbounded", changed(GOOD, "  max-size-mb: 1000\n", ""), GOOD, "80% of what is free"
    ),
    Case(
        "cache-unbounded",
        changed(
            BLOCK,
            "  prefetch: 11\n",
            "  prefetch: 11\n  path: /mnt/nvme/a\n  cleanup-on-start: true\n",
        ),
        BLOCK,
        "block_cache.disk-size-mb",
    ),
    Case(
        "cache-too-large",
        changed(GOOD, "max-size-mb: 1000", "max-size-mb: 30000000"),
        GOOD,
        "/mnt/nvme has 29,286,000",
        Context(host=HOST),
    ),
    Case(
        "cache-too-large",
        changed(GOOD, "max-size-mb: 1000", "max-size-mb: 25000000"),
        GOOD,
        "more than 80%",
        Context(host=HOST),
    ),
    Case(
        "prefetch",
        changed(BLOCK, "prefetch: 11", "prefetch: 10"),
        changed(BLOCK, "prefetch: 11", "prefetch: 0"),
        "less than 11",
    ),
    Case("memory-unset", changed(BLOCK, "  mem-size-mb: 1024\n", ""), BLOCK, "60% of the memory"),
    Case(
        "memory-too-small",
        changed(BLOCK, "mem-size-mb: 1024", "mem-size-mb: 175"),
        changed(BLOCK, "mem-size-mb: 1024", "mem-size-mb: 176"),
        "At least 176.",
    ),
    Case(
        "memory-too-large",
        changed(BLOCK, "mem-size-mb: 1024", "mem-size-mb: 2000000"),
        BLOCK,
        "the machine has 1,945,600",
        Context(host=HOST),
    ),
    Case("preload", changed(PRELOAD, "read-only: true\n", ""), PRELOAD, "read-only is not true"),
    Case("preload", changed(PRELOAD, "  cleanup-on-start: true\n", ""), PRELOAD, "empty folder"),
    Case("preload", PRELOAD + "file_cache:\n  timeout-sec: 60\n", PRELOAD, "drops nothing"),
    Case(
        "cleanup",
        changed(GOOD, "  allow-non-empty-temp: true\n", ""),
        GOOD,
        "Write allow-non-empty-temp: true too.",
    ),
    Case(
        "cleanup",
        changed(GOOD, "  cleanup-on-start: true\n", ""),
        GOOD,
        "Write cleanup-on-start: true too.",
    ),
    Case(
        "cleanup",
        changed(
            BLOCK, "  prefetch: 11\n", "  prefetch: 11\n  path: /mnt/nvme/a\n  disk-size-mb: 9\n"
        ),
        BLOCK,
        "block cache on disk",
    ),
    Case("logging", changed(GOOD, "type: base", "type: syslog"), GOOD, "Write type: base."),
    Case("logging", changed(GOOD, "log_warning", "LOG_DEBUG"), GOOD, "every request"),
    Case(
        "timeout-zero", changed(GOOD, "timeout-sec: 604800", "timeout-sec: 0"), GOOD, "at its close"
    ),
    Case(
        "md5",
        changed(BLOCK, "azstorage:\n", "azstorage:\n  update-md5: true\n"),
        changed(GOOD, "azstorage:\n", "azstorage:\n  update-md5: true\n"),
        "with file_cache alone",
    ),
]


def found(text: str, context: Context | None = None) -> tuple[Finding, ...]:
    return lint(parse(text, "x.yaml"), context)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says[:20]}")
def test_each_rule_finds_what_is_wrong_and_only_that(case: Case) -> None:
    bad = [each for each in found(case.bad, case.context) if each.rule == case.rule]
    assert any(case.says in f"{each.message} {each.fix}" for each in bad), bad
    assert [each for each in found(case.good, case.context) if each.rule == case.rule] == []


LIVE = {"cache-shared", "no-mounter", "config-unread", "mounts-overlap"}


def test_the_page_lists_every_rule_that_has_an_example_here_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mount.md").read_text("utf-8")
    table = page.split("| Rule | Finds |")[1].split("\n\n")[0]
    listed = {
        rule
        for row in re.findall(r"^\| ([a-z][^|]*) \|", table, re.MULTILINE)
        for rule in row.split(", ")
    }
    assert listed | LIVE == {case.rule for case in CASES} | LIVE


@pytest.mark.parametrize("text", [GOOD, BLOCK, PRELOAD])
def test_a_good_configuration_passes_every_rule(text: str) -> None:
    assert found(text, Context(host=HOST, hns=True, version="2.5.4")) == ()


def test_findings_name_the_line_and_come_in_its_order() -> None:
    text = changed(changed(GOOD, "read-only: true", "read_only: true"), "mode: msi", "mode: magic")
    at = [(each.line, each.key) for each in found(text)]
    assert at == [(1, "read_only"), (21, "azstorage.mode"), (22, "azstorage.appid")]


@pytest.mark.parametrize("case", [c for c in CASES if c.rule == "secret"])
def test_a_secret_is_told_of_but_not_told(case: Case) -> None:
    assert SECRET in case.bad
    assert SECRET not in repr(found(case.bad))


def test_values_in_quotes_are_read_as_blobfuse2_reads_them() -> None:
    text = changed(changed(GOOD, "read-only: true", "read-only: 'true'"), "604800", "'604800'")
    assert found(text) == ()


def test_a_value_in_the_environment_of_the_mounter_is_only_warned_of() -> None:
    (missing,) = found(changed(GOOD, "  account-name: sttrain\n", ""))
    assert (missing.rule, missing.severity) == ("key-missing", "warning")


def test_a_link_of_the_cache_is_followed_where_it_is_known() -> None:
    context = Context(host=HOST, resolved={"/mnt/nvme/a": "/home/me/cache"})
    assert [each.rule for each in found(GOOD, context)] == ["cache-os-disk"]


def test_a_cache_that_may_be_on_the_os_disk_is_only_warned_of() -> None:
    there = {"/mnt/nvme/a": "/home/me/cache"}
    (warned,) = found(GOOD, Context(host=HOST, resolved=there, allow_os_disk=True))
    assert (warned.rule, warned.severity) == ("cache-os-disk", "warning")


def test_a_preload_that_says_nothing_of_read_only_is_mounted_so_and_is_only_warned_of() -> None:
    (silent,) = found(changed(PRELOAD, "read-only: true\n", ""))
    (written,) = found(changed(PRELOAD, "read-only: true", "read-only: false"))
    assert (silent.severity, written.severity) == ("warning", "error")


def test_upper_and_lower_case_are_one_in_keys() -> None:
    text = changed(changed(GOOD, "account-name:", "Account-Name:"), "azstorage:", "AzStorage:")
    assert found(text) == ()
    twice = found(changed(GOOD, "  mode: msi\n", "  mode: msi\n  Mode: key\n"))
    assert "duplicate-key" in [each.rule for each in twice]


def test_keys_that_a_merge_takes_over_are_there() -> None:
    base = "base: &base\n  account-name: sttrain\n  mode: key\n"
    text = base + changed(GOOD, "  account-name: sttrain\n", "  <<: *base\n")
    assert [(each.rule, each.key) for each in found(text)] == [("unknown-key", "base")]
    assert parse(text).text("azstorage.mode") == "msi"


@pytest.mark.parametrize(
    ("switch", "section"), [("block-cache", "block_cache"), ("preload", "xload")]
)
def test_a_switch_takes_its_cache_into_the_pipeline(switch: str, section: str) -> None:
    document = parse(GOOD + f"{switch}: true\n")
    assert document.components == ("libfuse", section, "attr_cache", "azstorage")
    assert document.cache == section


def test_what_is_no_word_is_not_shown_as_a_key() -> None:
    text = changed(GOOD, "  mode: msi", f"  mode: msi\n  account-key={SECRET}==: x")
    (finding,) = found(text)
    assert finding.rule == "unknown-key"
    assert SECRET not in repr(finding)


def test_a_tab_is_called_a_tab() -> None:
    with pytest.raises(UsageError, match=r"line 2 \(a tab: YAML is indented with blanks\)"):
        parse("azstorage:\n\tmode: msi\n")


def test_line_ends_of_windows_are_none_of_its_findings() -> None:
    assert found(GOOD.replace("\n", "\r\n")) == ()


# --- what is none


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "x.yaml is not YAML at line"),
        ("a: b: c", "x.yaml is not YAML at line 1"),
        ("\tx: 1", "x.yaml is not YAML"),
        ("a: 1\x00", "x.yaml is not YAML"),
        ("", "x.yaml is empty"),
        ("# nothing\n", "x.yaml is empty"),
        ("just words", "no BlobFuse2 configuration"),
        ("- a\n- b\n", "no BlobFuse2 configuration"),
        ("[" * 5000, "x.yaml is not YAML"),
        ("a: 1\n---\nb: 2\n", "x.yaml is not YAML"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "x.yaml")
    assert says in caught.value.message
    assert caught.value.message.endswith(".")


def test_a_broken_file_does_not_show_what_is_in_it() -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"azstorage:\n  account-key: *{SECRET}\n", "x.yaml")
    assert SECRET not in caught.value.message


@given(st.text())
def test_any_text_is_checked_or_refused(text: str) -> None:
    try:
        findings = found(text)
    except UsageError:
        return
    assert all(each.message and each.fix for each in findings)


KEYS = st.sampled_from(
    ["path", "timeout-sec", "type", "sas", "mode", "x", "components", "prefetch"]
)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
SECTIONS = st.sampled_from(
    ["file_cache", "block_cache", "xload", "azstorage", "logging", "components", "read-only", "y"]
)


@given(st.dictionaries(SECTIONS, VALUES, max_size=6))
def test_any_document_is_checked_to_its_end(document: dict[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump(document)
    if document:
        assert all(each.message for each in found(text, Context(host=HOST, hns=True)))


# --- several


def test_two_mounts_must_not_share_a_cache() -> None:
    other = changed(GOOD, "/mnt/nvme/a", "/mnt/nvme/a/b")
    beside = changed(GOOD, "/mnt/nvme/a", "/mnt/nvme/ab")
    documents = [parse(GOOD, "1.yaml"), parse(other, "2.yaml"), parse(beside, "3.yaml")]
    (shared,) = lint_all(documents)
    assert (shared.file, shared.rule, shared.line) == ("2.yaml", "cache-shared", 10)
    assert "1.yaml" in shared.message


def test_caches_that_are_one_through_a_link_are_shared() -> None:
    other = changed(GOOD, "/mnt/nvme/a", "/cache")
    documents = [parse(GOOD, "1.yaml"), parse(other, "2.yaml")]
    assert lint_all(documents) == ()
    context = Context(resolved={"/cache": "/mnt/nvme/a"})
    assert [each.rule for each in lint_all(documents, context)] == ["cache-shared"]


def test_block_caches_together_must_fit_the_memory() -> None:
    half = changed(BLOCK, "mem-size-mb: 1024", "mem-size-mb: 1000000")
    documents = [parse(half, f"{n}.yaml") for n in range(2)]
    (finding,) = lint_all(documents, Context(host=HOST))
    assert finding.rule == "memory-too-large"
    assert "2 mounts take 2,000,000 MiB together" in finding.message


# --- live mounts


def test_the_options_of_a_command_line_are_a_list() -> None:
    changed_by = with_settings(parse(GOOD), {"libfuse-options": "rw,dev,suid"})
    assert lint(changed_by) == ()


MOUNTS = parse_mounts(
    "blobfuse2 /data/a fuse.blobfuse2 ro 0 0\nblobfuse2 /data/b fuse.blobfuse2 rw 0 0\n"
)


def runs(place: str, config: str | None, **settings: str) -> Running:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return Running(pid=7, mount_path=place, config_file=config, settings=named)


def test_flags_count_over_the_file() -> None:
    document = with_settings(parse(GOOD), {"file_cache.path": "/var/c"})
    (finding,) = lint(document, Context(host=HOST))
    assert (finding.rule, finding.line) == ("cache-os-disk", None)


def test_live_mounts_are_checked_with_their_configurations() -> None:
    running = [runs("/data/a", "/a.yaml"), runs("/data/b", "/b.yaml")]
    documents = {"/a.yaml": parse(GOOD, "/a.yaml"), "/b.yaml": parse(GOOD, "/b.yaml")}
    rules = [each.rule for each in lint_mounted(MOUNTS, running, documents, Context(host=HOST))]
    assert rules == ["cache-shared"]


def test_a_mount_without_its_process_or_file_is_told() -> None:
    found = lint_mounted(MOUNTS, [runs("/data/a", "/a.yaml")], {})
    assert [(each.file, each.rule) for each in found] == [
        ("/data/a", "config-unread"),
        ("/data/b", "no-mounter"),
    ]


def test_overlapping_mounts_are_told() -> None:
    inner = parse_mounts("blobfuse2 /data/a/c fuse.blobfuse2 rw 0 0\n")
    found = lint_mounted((*MOUNTS, *inner), [], {})
    assert [each.file for each in found if each.rule == "mounts-overlap"] == ["/data/a/c"]
