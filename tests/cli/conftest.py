"""A command line with a world of its own: no settings of the machine, no store but those a test names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lazaretto import Policy, SyncGuard
from lazaretto.cases.casebook import Casebook
from lazaretto.cases.records import Case, Label
from lazaretto.cli import build
from lazaretto.cli.application import named_command
from lazaretto.types import plain

Run = Callable[..., Any]
BREAD = "A recipe for rye bread with caraway, baked slowly over night"


@pytest.fixture
def empty_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, an empty home, and none of our environment variables."""
    for name in ("LAZARETTO_STORE", "LAZARETTO_POLICY", "LAZARETTO_NAMESPACE", "LAZARETTO_TOKEN", "LAZARETTO_URL"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(empty_world: Path) -> Run:
    """Runs a command and expects an exit code; answers with its JSON where it was asked for, else with all output."""

    def call(*words: object, code: int = 0, stdin: str | bytes | None = None) -> Any:
        done = CliRunner().invoke(
            build(named_command([str(one) for one in words])), [str(one) for one in words], input=stdin
        )
        assert done.exit_code == code, f"{words}: {done.output}\n{done.exception!r}"
        assert "Traceback" not in done.output
        return json.loads(done.stdout) if "--json" in words and code in (0, 1) else done.output

    return call


@dataclass(frozen=True)
class Crew:
    """A store that only a policy file names, and what stands in its namespace ``crew``."""

    folder: Path
    policy: Path
    url: str
    note: str
    held: str
    receipt: str
    """Of a repair that was undone."""
    standing: str
    """Of a repair that was not."""
    plan: Path
    export: Path
    cases: Path
    live: str
    events: int


def policy_of(url: str) -> str:
    return f'preset = "minimal"\nstore = "{url}"\nnamespace = "crew"\n'


@pytest.fixture(scope="session")
def first_crew(tmp_path_factory: pytest.TempPathFactory) -> Crew:
    """The crew whose files every test has a copy of."""
    folder = tmp_path_factory.mktemp("crew")
    url = f"sqlite:///{folder / 'crew.db'}"
    policy = folder / "policy.toml"
    policy.write_text(policy_of(url))
    with SyncGuard.open(url, Policy.minimal(), "crew") as guard:
        note = guard.remember("the berth is number nine", agent="ada").item
        guard.recall("berth", agent="bob")
        held = guard.remember(f"{BREAD} \u202eyes\u202c", agent="eve").item
        guard.label(guard.remember(BREAD, agent="cy").item, "harmful", by="dan")
        receipt = guard.repairs.apply(guard.repairs.plan(note, "isolate"))
        guard.repairs.undo(receipt.id)
        plan = guard.repairs.plan(note, "isolate")
        other = guard.remember("the crane is broken", agent="ada")
        standing = guard.repairs.apply(guard.repairs.plan(other.item, "isolate")).id
        book, case = Casebook(guard.ledger), Case(Label.SAFE, BREAD, summary="Baking is harmless.", source="mine")
        live = book.offer([case], "a test").version
        book.go_live(live, by="test")
        events = guard.ledger.head().seq
    paths = {name: folder / name for name in ("plan.json", "other.jsonl", "cases.jsonl")}
    paths["plan.json"].write_text(json.dumps(plain(plan)))
    paths["cases.jsonl"].write_text(json.dumps({"label": "safe", "text": BREAD, "summary": "Baking is harmless."}))
    with SyncGuard.open(f"sqlite:///{folder / 'other.db'}", Policy.minimal(), "other") as guard:
        guard.check("from elsewhere", agent="ada")
        guard.ledger.export(paths["other.jsonl"])
    return Crew(folder, policy, url, note, held, receipt.id, standing, *paths.values(), live=live, events=events)


@pytest.fixture
def crew(empty_world: Path, first_crew: Crew) -> Crew:
    shutil.copytree(first_crew.folder, empty_world, dirs_exist_ok=True)
    url = f"sqlite:///{empty_world / 'crew.db'}"
    (empty_world / "policy.toml").write_text(policy_of(url))
    moved = {name: empty_world / getattr(first_crew, name).name for name in ("policy", "plan", "export", "cases")}
    return replace(first_crew, folder=empty_world, url=url, **moved)
