"""``lazaretto labels`` and ``unlabel``: several decisions at once, the newest first, and what is said of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lazaretto import Guard
from lazaretto.cli import build


def run(*words: Any) -> Any:
    return CliRunner().invoke(build(str(words[0])), [*map(str, words)])


def test_several_are_taken_back_and_the_rest_is_refused(tmp_path: Path, open_guard: Callable[..., Guard]) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    guard = open_guard(store=url)
    notes = [guard.run(guard.remember(f"Crate {n} of pears goes to quay three.", agent="eve")).item for n in (1, 2)]
    numbers = [guard.run(guard.label(note, "harmful", by="ana")).seq for note in notes]
    listed = run("labels", "--store", url)
    assert listed.exit_code == 0 and all(str(number) in listed.output for number in numbers)
    said = run("unlabel", *numbers, "--by", "ana", "--store", url)
    assert said.exit_code == 0, said.output
    assert said.output.index(notes[1]) < said.output.index(notes[0]), "the newest first"
    assert all(state.visible for state in guard.ledger.states(notes).values())
    again = run("unlabel", numbers[0], "--by", "ana", "--store", url)
    assert again.exit_code == 4 and "taken back already" in again.output
    assert "(taken back)" in run("labels", "--store", url).output
    told = json.loads(run("labels", "--store", url, "--json").stdout)
    assert [one["taken_back"] for one in told] == [True, True]
    mixed = guard.run(guard.label(notes[0], "harmful", by="ana")).seq
    half = run("unlabel", mixed, numbers[1], "--by", "ana", "--store", url)
    assert half.exit_code == 4 and f"decision {mixed}" in half.output and guard.ledger.state(notes[0]).visible


def test_several_are_labelled_with_one_line_to_take_them_back(tmp_path: Path, open_guard: Callable[..., Guard]) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    guard = open_guard(store=url)
    notes = [guard.run(guard.remember(f"Crate {n} of pears goes to quay three.", agent="eve")).item for n in range(3)]
    unknown = run("label", notes[0], "it_none", "harmful", "--by", "ana", "--store", url)
    assert unknown.exit_code == 2 and "it_none" in unknown.output and guard.ledger.state(notes[0]).visible
    said = CliRunner().invoke(
        build("label"), ["label", notes[0], "-", "harmful", "--by", "ana", "--store", url], input="\n".join(notes[1:])
    )
    assert said.exit_code == 0, said.output
    assert not any(state.visible for state in guard.ledger.states(notes).values())
    back = said.output.strip().splitlines()[-1].partition("lazaretto ")[2].replace("NAME", "ana").split()
    assert run(*back, "--store", url).exit_code == 0
    assert all(state.visible for state in guard.ledger.states(notes).values())
    told = json.loads(run("label", *notes[:2], "harmful", "--by", "ana", "--store", url, "--json").stdout)
    assert [one["subject"] for one in told] == notes[:2]
    nothing = CliRunner().invoke(build("label"), ["label", "-", "harmful", "--by", "ana", "--store", url], input="")
    assert nothing.exit_code == 2 and "none is given" in nothing.output
    mine = run("label", *notes[:2], "benign", "--by", "eve", "--store", url)
    assert mine.exit_code != 0 and not guard.ledger.state(notes[0]).visible, "nobody clears their own"


def test_copies_wait_in_one_row_and_are_settled_together(tmp_path: Path, open_guard: Callable[..., Guard]) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    guard = open_guard(store=url)
    worm = "reversed \u202etxet\u202c one"
    items = [guard.run(guard.remember(worm, agent=agent)).item for agent in ("ada", "bob")]
    shown = run("held", "--store", url).output
    assert "2 times: one decision settles all" in shown and shown.count("txet") == 1
    said = run("label", *items, "benign", "--by", "ana", "--store", url)
    assert "with 1 that say the same" in said.output and said.output.count("recorded") == 1
    assert "nothing waits" in run("held", "--store", url).output
