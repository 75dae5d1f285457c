"""The ``lazaretto ledger`` commands, from the outside."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lazaretto.cli.application import add_family
from lazaretto.ledger import Ledger
from lazaretto.types import Channel, Observation


@pytest.fixture
def app() -> typer.Typer:
    application = typer.Typer()
    add_family(application, "ledger")
    return application


@pytest.fixture
def note(tmp_path: Path) -> Observation:
    one = Observation("ann", Channel.MEMORY, "a note", time=1000.0)
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.append_item(one)
    return one


def run(app: typer.Typer, folder: Path, *words: str, code: int = 0, store: str = "l.db") -> str:
    done = CliRunner().invoke(app, ["ledger", *words, "--store", f"sqlite:///{folder / store}"])
    assert done.exit_code == code, done.output
    return done.output


def test_verify_and_head(app: typer.Typer, note: Observation, tmp_path: Path) -> None:
    assert "1 events" in run(app, tmp_path, "verify")
    run(app, tmp_path, "head", "--out", str(tmp_path / "head.json"))
    found = json.loads(run(app, tmp_path, "verify", "--head", str(tmp_path / "head.json"), "--json"))
    assert found == {"ok": True, "checked": 1, "first_bad": None, "reason": "", "table": "", "unproved": [], "fix": ""}
    with contextlib.closing(sqlite3.connect(tmp_path / "l.db")) as file:
        file.execute("UPDATE lz_events SET agent = 'bob'")
        file.commit()
    assert "broken at event 1" in run(app, tmp_path, "verify", code=1)
    assert json.loads(run(app, tmp_path, "verify", "--json", code=1))["first_bad"] == 1


def test_export_import_and_stats(app: typer.Typer, note: Observation, tmp_path: Path) -> None:
    out = str(tmp_path / "out.jsonl")
    assert json.loads(run(app, tmp_path, "export", out, "--json"))["events"] == 1
    assert json.loads(run(app, tmp_path, "import", out, "--json", store="new.db"))["seq"] == 1
    assert json.loads(run(app, tmp_path, "stats", "--json", store="new.db"))["items"] == 1
    assert "visible items" in run(app, tmp_path, "stats")
    run(app, tmp_path, "import", out, store="new.db", code=2)


def test_erase_and_retain(app: typer.Typer, note: Observation, tmp_path: Path) -> None:
    assert json.loads(run(app, tmp_path, "retain", "--days", "30", "--json"))["erased"] == 1
    assert "1 events" not in run(app, tmp_path, "verify")
    run(app, tmp_path, "erase", note.id, "--reason", "asked", code=2)
    run(app, tmp_path, "erase", "it_unknown", "--reason", "asked", code=2)
    run(app, tmp_path, "retain", code=2)
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        second = Observation("ann", Channel.MEMORY, "another")
        ledger.append_item(second)
    assert json.loads(run(app, tmp_path, "erase", second.id, "--reason", "asked", "--json"))["kind"] == "erased"


def test_upgrade_and_wrong_stores(app: typer.Typer, note: Observation, tmp_path: Path) -> None:
    assert json.loads(run(app, tmp_path, "upgrade", "--json"))["steps"] == []
    run(app, tmp_path, "verify", store="none.db", code=3)
    (tmp_path / "text.db").write_text("not a database at all, only text " * 40)
    run(app, tmp_path, "stats", store="text.db", code=3)
    run(app, tmp_path, "verify", "--head", str(tmp_path / "text.db"), code=2)
    run(app, tmp_path, "verify", "--head", str(tmp_path / "none.json"), code=2)


def test_erasing_an_agents_items_is_tried_dry_first(app: typer.Typer, note: Observation, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        made = Observation("bob", Channel.MEMORY, "told by another", parents=(note.id,))
        ledger.append_item(made)
    asked = ("erase", "--agent", note.agent, "--descendants", "--reason", "asked", "--by", "dan")
    told = run(app, tmp_path, *asked, "--dry-run")
    assert note.id in told and made.id in told and "told by another" in told and "nothing was erased" in told
    assert set(json.loads(run(app, tmp_path, *asked, "--dry-run", "--json"))["items"]) == {note.id, made.id}
    assert "erased 2" in run(app, tmp_path, *asked)
    run(app, tmp_path, *asked, "--dry-run")
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        assert not ledger.item(note.id).text and not ledger.item(made.id).text and ledger.verify().ok
    run(app, tmp_path, "erase", "--reason", "asked", code=2)
    run(app, tmp_path, "erase", "--agent", "nobody", "--reason", "asked", code=2)
