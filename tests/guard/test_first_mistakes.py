"""First mistakes of a new user: none leaves a weaker guard than was meant, and each error says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lazaretto import Guard, Policy, Ruling, SyncGuard
from lazaretto.actions.records import Authorization, Control
from lazaretto.cli import build
from lazaretto.errors import InputError, PolicyError
from lazaretto.policy import ChannelPolicy, Channels, presets
from lazaretto.types import Channel, Decision

RUNNER = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def test_a_policy_without_words_is_the_default() -> None:
    assert Policy() == Policy.recommended() == Policy.read({}) == Policy.read(None)


@pytest.mark.parametrize("name", presets.NAMES)
def test_a_preset_has_one_meaning_wherever_it_is_named(name: str) -> None:
    whole = Policy.read({"preset": name})
    assert Policy(preset=name) == Policy.read(name) == getattr(Policy, name)() == whole  # type: ignore[arg-type]
    assert Policy(preset=name, namespace="crew").channels == whole.channels  # type: ignore[arg-type]


@pytest.mark.parametrize("name", presets.NAMES)
def test_channels_that_are_left_out_are_those_of_the_preset(name: Any) -> None:
    own = ChannelPolicy(stages=(("structure",),))
    policy, whole = Policy(preset=name, channels=Channels(message=own)), Policy.read(name)
    assert policy.channels.message == own
    for channel in Channel:
        assert channel is Channel.MESSAGE or policy.channels[channel] == whole.channels[channel]
    assert Policy(channels=Channels(message=own)).channels.memory == Policy.recommended().channels.memory


def test_settings_of_gates_are_the_presets_unless_they_are_given() -> None:
    own = Channels(memory=ChannelPolicy(stages=(("structure",), ("memory",))))
    assert Policy(channels=own).gates == Policy.recommended().gates
    assert Policy(channels=own, gates={}).gates == {}, "every gate as it is without a preset: stricter"


def test_a_minimal_file_and_an_old_file_without_a_preset_read_as_before(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('preset = "minimal"\n[channels.memory]\ntimeout_s = 3.0\n')
    minimal = Policy.load(file)
    assert [name for name, _ in minimal.gate_names()] == ["structure", "blocklist"] * 5
    assert minimal.channels.memory.timeout_s == 3.0 and minimal.channels.tool == ChannelPolicy() and minimal.gates == {}
    file.write_text("")
    assert Policy.load(file) == Policy.recommended()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Policy(preset="strikt"), "did you mean 'strict'?"),  # type: ignore[arg-type]
        (lambda: Policy(channels={"memory": {}}), r"Policy.read({'channels': {...}})"),  # type: ignore[arg-type]
        (lambda: Policy.read("recomended"), "did you mean 'recommended'?"),
        (lambda: Policy.read("crew.toml"), "or a preset: minimal, recommended, strict"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_right_words(made: Any, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        made()
    assert words in str(caught.value)


def test_a_file_that_is_called_like_a_preset_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("strict").write_text('preset = "minimal"\n')
    with pytest.raises(PolicyError, match=r"\./strict for the file here"):
        Policy.read("strict")
    assert Policy.read("./strict") == Policy.minimal()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("crew.db", "sqlite:///crew.db"),
        ("/var/lib/crew.db", "sqlite:////var/lib/crew.db"),
        (Path("crew.db"), "sqlite:///crew.db"),
        ("sqlite://crew.db", "sqlite:///crew.db"),
        ("sqlite:crew.db", "sqlite:///crew.db"),
        ("file:crew.db", "sqlite:///crew.db"),
    ],
)
def test_a_path_in_the_place_of_a_url_is_answered_with_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        SyncGuard.open(given, "minimal")
    assert f"Did you mean '{meant}'?" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [":memory:", "sqlite://", 5, Policy.minimal()])
def test_a_store_that_is_no_file_is_refused_in_short(given: Any) -> None:
    with pytest.raises(InputError, match=r"sqlite:///file\.db") as caught:
        SyncGuard.open(given, "minimal")
    assert len(str(caught.value)) < 150


def test_a_url_in_the_place_of_a_ledger_names_open() -> None:
    with pytest.raises(InputError, match=r"Give a URL to Guard\.open"):
        Guard("sqlite:///crew.db")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Give a URL to SyncGuard\.open"):
        SyncGuard("sqlite:///crew.db")  # type: ignore[arg-type]


def test_a_decision_as_a_condition_is_refused(tmp_path: Path) -> None:
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", "minimal") as guard:
        decision = guard.check("the tide turns at four", agent="ada")
        with pytest.raises(TypeError, match=r"ask for its \.allowed"):
            bool(decision)
        with pytest.raises(TypeError, match=r"ask for its \.ok"):
            bool(guard.ledger.verify())
    with pytest.raises(TypeError, match=r"ask for its \.allowed"):
        assert not Decision("it_1", Ruling.BLOCK, 1.0, (1.0, 1.0), "blocklist:known")
    with pytest.raises(TypeError, match=r"ask for its \.allowed"):
        bool(Authorization("ask_1", "ask", "pay", "ada", "read", (), Control(0.0, 1.0, ""), ()))  # type: ignore[arg-type]


def test_the_command_line_takes_the_name_of_a_preset(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'crew.db'}", "--agent", "ada", "--json")
    with_name = RUNNER.invoke(build(), ["check", "the tide turns", "--policy", "minimal", *store])
    assert with_name.exit_code == 0 and '"gate":"blocklist"' in with_name.stdout.replace(" ", "")
    assert "content" not in with_name.stdout
    wrong = RUNNER.invoke(build(), ["check", "the tide turns", "--policy", "minimum", *store])
    assert wrong.exit_code == 2 and "did you mean 'minimal'?" in wrong.output


@pytest.mark.parametrize(("word", "command"), [("verify", "ledger verify"), ("undo", "repair undo")])
def test_a_command_that_a_family_has_is_named(word: str, command: str) -> None:
    wrong = RUNNER.invoke(build(), [word])
    assert wrong.exit_code == 2 and f"lazaretto {command}'" in " ".join(wrong.output.split())
