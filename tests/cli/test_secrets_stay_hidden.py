"""A secret that a gate removed stands in no view for people: lists, traces, drawings and reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("detect_secrets", reason="needs the gates extra")

from lazaretto import SyncGuard

STORE = "sqlite:///crew.db"
SECRET = "hunter2-Xk99-qqLm"
POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["secrets"]]}}}
Run = Callable[..., Any]


@pytest.fixture
def ids(empty_world: Path) -> dict[str, str]:
    """A note with a password, called harmful; a note that only speaks of passwords; one made from both."""
    with SyncGuard.open(STORE, POLICY) as guard:
        held = guard.remember(f"The database password is {SECRET}, and backups run at four.", agent="ada", parents=[])
        fine = guard.remember("Passwords are changed on the first of May.", agent="ada", parents=[])
        both = guard.remember("Backups run at four.", agent="bob", parents=[held.item, fine.item])
        guard.label(held.item, "harmful", by="dana")
    return {"held": held.item, "fine": fine.item, "both": both.item}


VIEWS = [
    "held",
    "labels",
    "incidents",
    "suspects",
    "conflicts",
    "trace ITEM",
    "trace ITEM --json",
    "trace ITEM --format json",
    "trace ITEM --format dot",
    "trace ITEM --format mermaid",
    "trace ITEM --format svg",
    "trace BOTH",
    "trace BOTH --format mermaid",
    "incident show ITEM",
    "incident show ITEM --json",
    "incident show ITEM --format html",
    "incident show ITEM --format sarif",
    "repair plan isolate ITEM --descendants",
]


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_shows_a_removed_secret(run: Run, ids: dict[str, str], view: str) -> None:
    if "svg" in view:
        pytest.importorskip("matplotlib", reason="needs the plot extra")
    words = view.replace("ITEM", ids["held"]).replace("BOTH", ids["both"]).split()
    told = str(run(*words, "--store", STORE, "--policy", "minimal"))
    assert SECRET not in told and SECRET[:9] not in told


@pytest.mark.parametrize("view", ["trace BOTH", "trace BOTH --format mermaid", "trace FINE"])
def test_a_note_that_only_speaks_of_passwords_is_shown_whole(run: Run, ids: dict[str, str], view: str) -> None:
    words = view.replace("FINE", ids["fine"]).replace("BOTH", ids["both"]).split()
    told = " ".join(str(run(*words, "--store", STORE, "--policy", "minimal")).split())
    assert "Passwords are changed on the first of May." in told


def test_a_text_that_a_person_called_benign_is_shown_whole(run: Run, ids: dict[str, str]) -> None:
    run("label", ids["held"], "benign", "--by", "dana", "--store", STORE, "--policy", "minimal")
    told = str(run("trace", ids["held"], "--store", STORE, "--policy", "minimal"))
    assert SECRET in told, "recall hands it out, too"


def test_an_erased_item_says_so_where_its_words_stood(run: Run, ids: dict[str, str]) -> None:
    run("ledger", "erase", ids["held"], "--reason", "asked for", "--store", STORE)
    for view in ("trace ITEM", "trace BOTH", "repair plan isolate ITEM --descendants"):
        words = view.replace("ITEM", ids["held"]).replace("BOTH", ids["both"]).split()
        told = str(run(*words, "--store", STORE, "--policy", "minimal"))
        assert "(erased)" in told and "a picture" not in told, view
