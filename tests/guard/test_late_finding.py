"""A day of honest notes and one late finding: by default nothing is cut, nothing rewritten, and one word brings all
back. The same story with 500 notes, `recheck` and `serve` line by line: lab/benchmarks/late_finding.py."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Guard, SyncGuard

BENCHMARK = Path(__file__).resolve().parents[2] / "lab" / "benchmarks" / "late_finding.py"


@pytest.fixture(scope="module")
def story() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARK), run_name="late_finding")


def told(crew: SyncGuard, story: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    origin = story["tell"](crew, 60)
    story["find_late"](crew)
    return origin, story["picture"](crew)


def test_no_honest_note_is_changed(open_guard: Callable[..., Guard], store_url: str, story: dict[str, Any]) -> None:
    crew = SyncGuard(open_guard(store=store_url))
    origin, before = told(crew, story)
    done = crew.recheck(limit=1_000)
    after = story["compared"](before, story["picture"](crew), origin)
    assert after["held_of_which_the_note"] and after["held"] == len(done.held)
    assert after["held"] == 2, "the note and what was made from it: what is held for its descent accuses nobody"
    assert (after["rewritten"], after["cut_loose"], after["new_items"], after["texts_changed"]) == (0, 0, 0, 0)
    (proposal,) = crew.proposals()
    assert proposal.counts["cut"] > 40, "what came from it: a person is asked"
    crew.label(origin, "benign", by="dana")
    back = story["compared"](before, story["picture"](crew), origin)
    assert (back["held"], back["rewritten"], back["cut_loose"]) == (0, 0, 0) and crew.proposals() == ()


def test_applied_as_it_was_before_it_is_taken_back_by_one_word(
    open_guard: Callable[..., Guard], store_url: str, story: dict[str, Any]
) -> None:
    crew = SyncGuard(open_guard({"preset": "minimal", "repair": {"automatic": "apply"}}, store=store_url))
    origin, before = told(crew, story)
    crew.recheck(limit=1_000)
    after = story["compared"](before, story["picture"](crew), origin)
    assert after["cut_loose"] > 40, "what looking again did unasked before"
    crew.label(origin, "benign", by="dana")
    back = story["compared"](before, story["picture"](crew), origin)
    assert (back["held"], back["rewritten"], back["cut_loose"]) == (0, 0, 0) and crew.ledger.verify().ok
