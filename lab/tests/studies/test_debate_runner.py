"""Debate experiments: every item counts, batches are alike, and files say what they mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lazaretto.cases.records import Label
from lazaretto.cli import build
from lazaretto.errors import InputError
from lazaretto.gates.content.records import Content
from lazaretto.learn.curate import LabelledContent
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.harness.experiment import STUDIES, available, load_experiment
from lazaretto_lab.studies.debate import panels
from lazaretto_lab.studies.debate.air_bench import figures, items_of
from lazaretto_lab.studies.debate.panels import library_of
from lazaretto_lab.studies.debate.runner import learning, run, stratified

FOLDER = STUDIES


def test_undecided_items_are_counted_and_bounded() -> None:
    truth = [True, True, False, False]
    said = [True, True, False, False]
    found = figures(truth, said, [False, True, False, True])
    assert (found["items"], found["undecided"], found["f1"]) == (4, 2, 1.0)
    assert found["f1_worst"] == pytest.approx(0.5) and found["f1_best"] == 1.0


def test_batches_hold_the_same_share_of_risky_items_and_nothing_twice() -> None:
    items = [LabelledContent(Content(str(n), "x"), Label.UNSAFE if n % 3 == 0 else Label.SAFE) for n in range(120)]
    batches = stratified(items, 4, seed=1)
    assert [sum(i.truth is Label.UNSAFE for i in b) for b in batches] == [10] * 4
    assert len({i.content.id for b in batches for i in b}) == 120
    assert batches != stratified(items, 4, seed=2)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "air_bench"
    folder.mkdir(parents=True)
    rows = [{"id": f"t{n}", "text": f"text number {n} about a harbour", "label": n % 2} for n in range(40)]
    (folder / "dev_text.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    for kind in ("text", "image", "pair"):
        case = {"id": kind, "text": f"a case about {kind} and nothing more than that", "label": 1, "origin": "library"}
        leak = {"id": "leak", "text": "text number 3 about a harbour", "label": 1, "origin": "library"}
        (folder / f"cases_{kind}.jsonl").write_text(json.dumps(case) + "\n" + json.dumps(leak) + "\n")
    monkeypatch.setenv("LAZARETTO_SHARED", str(tmp_path))
    panels._library.cache_clear()
    monkeypatch.setattr("lazaretto_lab.studies.debate.panels.remembering_embedder", lambda: None)
    monkeypatch.setattr("lazaretto_lab.studies.debate.runner.remembering_embedder", lambda: None)
    return tmp_path


def test_the_price_is_said_before_anything_is_asked(data: Path, tmp_path: Path) -> None:
    models = '{ default = { model = "m", base_url = "http://127.0.0.1:9/v1", retries = 0 } }'
    file = tmp_path / "priced.toml"
    file.write_text(
        f"""title = "t"\nstory = "s"\nexpected = "e"\nrunner = "debate"\nseeds = 1\n"""
        f"""settings = {{ kind = "text", jury = "chat", library = "none", models = {models} }}\n"""
        """[[rows]]\nname = "debate"\n[[rows]]\nname = "one call"\n"""
        """settings = { without = ["supporter", "strict", "loose"] }\n"""
    )
    arguments = ["bench", "run", str(file), "--limit", "4", "--out", str(tmp_path / "runs"), "--json"]
    ran = CliRunner().invoke(build(), arguments)
    assert "to do: 2 units, 8 debates, up to 28 calls of a language model" in ran.stderr, ran.output
    again = CliRunner().invoke(build(), arguments)
    assert "to do" not in again.stderr and json.loads(again.stdout)["outcomes"]["held"] == 2


def test_an_endpoint_that_is_away_gives_worst_case_figures_not_fewer_items(data: Path) -> None:
    away = {"default": {"model": "m", "base_url": "http://127.0.0.1:9/v1", "retries": 0}}
    settings = {"kind": "text", "jury": "chat", "library": "none", "limit": 10, "models": away}
    measured = run(settings, 0, RunContext(data))
    assert (measured["items"], measured["undecided"], measured["measured"]) == (10, 10, True)
    assert (measured["f1_worst"], measured["f1_best"]) == (0.0, 1.0)


def test_an_interrupted_unit_goes_on_with_the_items_that_are_left(data: Path) -> None:
    away = {"default": {"model": "m", "base_url": "http://127.0.0.1:9/v1", "retries": 0}}
    settings = {"kind": "text", "jury": "chat", "library": "none", "limit": 4, "models": away}
    whole = run(settings, 0, RunContext(data))
    kept = data / "outcomes.jsonl"
    first, second, *_ = kept.read_text().splitlines()
    known = {**json.loads(first), "label": "safe", "undecided": "", "risk": 0.125}
    kept.write_text(json.dumps(known) + "\n" + second[:-9])  # killed while the second was written
    again = run(settings, 0, RunContext(data))
    assert (whole["undecided"], again["undecided"], again["items"]) == (4, 3, 4)
    assert [row["risk"] for row in again["outcomes"]].count(0.125) == 1
    assert len((data / "transcripts.jsonl").read_text().splitlines()) == 4 + 3


def test_a_limit_keeps_the_share_and_the_seed_decides(data: Path) -> None:
    ten = items_of("text", "dev", 10, seed=0)
    assert sum(i.truth is Label.UNSAFE for i in ten) == 5
    assert ten == items_of("text", "dev", 10, seed=0) != items_of("text", "dev", 10, seed=1)


def test_imported_cases_never_hold_an_item_of_the_experiment(data: Path) -> None:
    items = items_of("text", "dev", 0, seed=0)
    library = library_of("imported", items)
    assert library is not None and len(library) == 153  # 150 that ship, one of each public file
    assert not {c.text for c in library.cases} & {i.content.text for i in items}
    assert library_of("none", items) is None
    with pytest.raises(InputError, match="unknown"):
        library_of("secret", items)


def test_quoted_rows_run_nothing_and_say_so() -> None:
    row = run({"kind": "text", "quoted": {"f1": 0.9}}, 0, RunContext(Path()))
    assert row == {"f1": 0.9, "items": 0, "measured": False}


def test_wrong_settings_are_named(data: Path) -> None:
    for runner in (run, learning):
        with pytest.raises(InputError, match="unknown: colour"):
            runner({"kind": "text", "colour": 1}, 0, RunContext(data))
    with pytest.raises(InputError, match="LAZARETTO_JURY_WORK"):
        run({"kind": "text", "jury": "held-out", "work": str(data), "library": "none"}, 0, RunContext(data))


@pytest.mark.parametrize("name", [n for n in available(FOLDER) if n.startswith("debate/")])
def test_every_debate_experiment_reads_and_has_known_settings(name: str) -> None:
    from lazaretto_lab.studies.debate.runner import _checked

    experiment = load_experiment(name, FOLDER)
    assert experiment.expanded_rows()
    for row in experiment.expanded_rows():
        _checked(row.settings)
        assert row.settings["kind"] in ("text", "image", "pair")
