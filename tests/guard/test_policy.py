"""The policy: complete without a file, and precise about what is wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto.errors import PolicyError
from lazaretto.gates.blocklist import BlocklistSettings
from lazaretto.gates.content.gate import ContentSettings
from lazaretto.gates.memory.gate import MemorySettings
from lazaretto.gates.personal import PersonalSettings
from lazaretto.gates.protected import ProtectedSettings
from lazaretto.gates.second_reader import SecondReaderSettings
from lazaretto.gates.secrets import SecretsSettings
from lazaretto.gates.structure import StructureSettings
from lazaretto.guard import Guard
from lazaretto.policy import Limits, Policy, commented_toml, markdown_table, presets, read_settings, rows
from lazaretto.types import Channel, Ruling, SourceClass

GATES = {
    "structure": StructureSettings,
    "blocklist": BlocklistSettings,
    "protected": ProtectedSettings,
    "secrets": SecretsSettings,
    "personal": PersonalSettings,
    "memory": MemorySettings,
    "content": ContentSettings,
    "second_reader": SecondReaderSettings,
}
PAGES = sorted((Path(__file__).resolve().parents[2] / "docs").glob("policy*.md"))


def load(tmp_path: Path, text: str) -> Policy:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    policy = Policy.load(file)
    policy.require_gates(GATES, str(file))
    return policy


def test_no_file_is_needed() -> None:
    policy = Policy.minimal()
    assert policy.channels[Channel.MEMORY].fail_mode is Ruling.REVIEW
    assert set(policy.trust.table()) == set(SourceClass)
    assert [name for name, _ in policy.gate_names()] == ["structure", "blocklist"] * len(Channel)


@pytest.mark.parametrize("preset", presets.NAMES)
def test_a_policy_that_is_written_out_reads_back(tmp_path: Path, preset: str) -> None:
    policy = Policy.read({"preset": preset, "mode": "observe", "limits": {"max_results": 7}})
    text = commented_toml(GATES, policy)
    assert load(tmp_path, text) == policy
    for row in rows(Policy, settings=policy):
        assert row.key in ("gates", "actions") or f"\n{row.key.rpartition('.')[2]} = {row.default}\n" in text


def test_the_commented_gate_settings_are_valid_when_uncommented(tmp_path: Path) -> None:
    text = commented_toml(GATES, Policy.minimal())
    marker = text.index("# [gates.structure]")
    keys = [line[2:] for line in text[marker:].splitlines() if line.startswith("# [") or " = " in line.split(". ")[0]]
    policy = load(tmp_path, "\n".join(['preset = "minimal"', *keys]))
    assert read_settings(StructureSettings, policy.gates["structure"]) == StructureSettings()
    assert read_settings(BlocklistSettings, policy.gates["blocklist"]) == BlocklistSettings()
    assert read_settings(MemorySettings, policy.gates["memory"]) == MemorySettings()
    assert read_settings(ContentSettings, policy.gates["content"]) == ContentSettings()


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    policy = load(tmp_path, '[channels.memory]\nfail_mode = "block"\nstages = [["structure", "blocklist"]]\n')
    assert policy.channels.memory.fail_mode is Ruling.BLOCK
    assert policy.channels.memory.stages == (("structure", "blocklist"),)
    assert policy.channels.memory.timeout_s == Policy.recommended().channels.memory.timeout_s
    assert policy.channels.message == Policy.recommended().channels.message


@pytest.mark.parametrize(
    ("text", "key", "found", "allowed"),
    [
        ('preset = "strickt"', "preset", "strickt", "'strict'"),
        ("preset = 3", "preset", 3, "'strict'"),
        ("channels = 3", "channels", 3, "a table with message"),
        ('stor = "x"', "stor", "stor", "did you mean 'store'?"),
        ("[channels.memry]\nrun_all = true", "channels.memry", "memry", "did you mean 'memory'?"),
        ('[channels.memory]\nrun_all = "yes"', "channels.memory.run_all", "yes", "boolean"),
        ('[channels.memory]\nfail_mode = "revew"', "channels.memory.fail_mode", "revew", "allow, warn, review"),
        ("[limits]\nmax_pixels = 0", "limits.max_pixels", 0, "greater than 0"),
        ('[limits]\nmax_pixels = "9"', "limits.max_pixels", "9", "valid integer"),
        ("trust = 3", "trust", 3, "a table with direct_user"),
        ("[trust]\nsystem = 2", "trust.system", 2, "less than or equal to 1"),
        (
            '[channels.tool]\nstages = [["strcture"]]',
            "channels.tool.stages[0]",
            "strcture",
            "did you mean 'structure'?",
        ),
        ('[channels.tool]\nstages = ["structure"]', "channels.tool.stages.0", "structure", "array"),
        (
            "[gates.nobody]\nx = 1",
            "gates.nobody",
            "nobody",
            "one of blocklist, content, memory, personal, protected, second_reader, secrets, structure",
        ),
        ("[gates]\nstructure = 3", "gates.structure", 3, "object"),
        ("a = [", "(file)", "Invalid value (at end of document)", "TOML"),
        ("[channels.tool]\ntimeout_s = inf", "channels.tool.timeout_s", float("inf"), "number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, key: str, found: object, allowed: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load(tmp_path, text)
    error = caught.value
    assert (error.file, error.key, error.found) == (str(tmp_path / "policy.toml"), key, found)
    assert allowed in error.allowed


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="No such file"):
        Policy.load(tmp_path / "absent.toml")
    bad = tmp_path / "latin.toml"
    bad.write_bytes(b'store = "\xe9"')
    with pytest.raises(PolicyError, match="not UTF-8"):
        Policy.load(bad)


def test_a_gate_checks_its_own_table_and_the_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[gates.structure]\nmax_strays = 1\n")
    with pytest.raises(PolicyError) as caught:
        Guard.open(f"sqlite:///{tmp_path / 'x.db'}", file)
    assert (caught.value.file, caught.value.key) == (str(file), "gates.structure.max_strays")
    assert "did you mean 'max_stray'?" in caught.value.allowed


def test_the_tables_of_the_policy_pages_are_generated() -> None:
    page = "\n".join(one.read_text() for one in PAGES)
    assert markdown_table(Policy, settings=Policy.recommended()) in page
    for name, model in GATES.items():
        assert markdown_table(model, f"gates.{name}.") in page, f"regenerate the table of {name}"


def test_rows_say_what_is_allowed() -> None:
    by_key = {row.key: row for row in rows(Limits)}
    assert by_key["max_pixels"].allowed == "whole number > 0"
    assert all(row.meaning for row in rows(Policy))
