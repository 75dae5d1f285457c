"""The attackers of the first contact: what they would have people say passes the questions they were made for, searches
that are moved together make the steps they would make alone, and rows name the pictures that were found."""

from __future__ import annotations

import importlib.util
import json
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.errors import InputError
from lazaretto.gates.foresight.gauge import repeated
from lazaretto.gates.foresight.monitor import MOST
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.attacks.adaptive.strategies import (
    FIRST_CONTACT,
    LISTED,
    PROBED,
    SPEAKING,
    TITLED,
    AdaptiveCraft,
    sentence_of,
    sentences,
)
from lazaretto_lab.attacks.infectious.recorded_chats import record_chats
from lazaretto_lab.attacks.infectious.settings import Budget
from lazaretto_lab.attacks.infectious.targets import target
from lazaretto_lab.harness.experiment import STUDIES, read_experiment
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

torch = pytest.importorskip("torch")
PEOPLE = persona_pool(24, 9)


def said(strategy: str, name: str) -> list[str]:
    return [sentence_of(person, strategy, sentences(strategy, name)) for person in PEOPLE]


def share(texts: list[str], shown: str) -> float:
    openings = [text.split(",")[0] for text in texts]
    return repeated(texts, PEOPLE, shown, openings)  # what they say elsewhere begins alike


def test_two_words_and_a_quoted_title_leave_nothing_to_repeat() -> None:
    fish = "let us admire two turquoise fish"
    assert share(said("mannered", "marker-gate"), fish) >= MOST, "three sentences in one's own manner are found"
    assert share(said("quoted", "marker-plan"), fish) >= MOST, "so is one, where the title does not quote it"
    assert share(said("quoted", "marker-plan"), "let us admire two fish at the north gate tonight") < MOST
    assert share(said("terse", "marker-gate"), fish) >= MOST, "so is a long one behind everybody's hobby"
    assert share(said("terse", "marker-short"), fish) < MOST
    assert all(target("marker-short").lower() in text.lower() for text in said("terse", "marker-short"))
    assert set(LISTED) == set(PROBED) and set(FIRST_CONTACT) <= set(TITLED) and len(SPEAKING) == 7


@pytest.fixture(scope="module")
def pocket() -> Any:
    from lazaretto_lab.pocket import load_pocket_models
    from lazaretto_lab.pocket.gradients import PocketGradients

    vlm, clip = load_pocket_models()
    chats = record_chats(AgentModel(vlm, EmbeddingCache(clip)), scene_pictures(12, 77), 4, 1)
    models = PocketGradients(vlm, clip)
    return models, np.array(models.pixels(scene_pictures(1, 78)[0].picture)), chats


def one(pocket: Any, strategy: str, steps: int = 2, starts: int = 2) -> Any:
    from lazaretto_lab.attacks.adaptive.search import AdaptiveSearch

    settings = AdaptiveCraft(
        "marker-gate", Budget("pixel", 16), steps, starts, batch=2, strategy=strategy, title="two red boats"
    )
    return AdaptiveSearch(*pocket, settings)


def test_searches_moved_together_make_the_steps_they_make_alone(pocket: Any, tmp_path: Path) -> None:
    from lazaretto_lab.attacks.adaptive.together import Together, sought

    alone = [one(pocket, name) for name in ("quoted", "minority")]
    for search in alone:
        assert len(list(search.run())) == 2
    together = Together([one(pocket, name) for name in ("quoted", "minority")])
    assert not sought(together, tmp_path / "state.pt", enough=lambda: together.done >= 1)
    again = Together([one(pocket, name) for name in ("quoted", "minority")])
    assert sought(again, tmp_path / "state.pt"), "an interrupted search goes on"
    for mine, other in zip(again.searches, alone, strict=True):
        assert (mine.pixels - other.pixels).abs().mean() < 0.01
        assert mine.best[0][2:] == other.best[0][2:] and mine.best[0][0] == pytest.approx(other.best[0][0], abs=1e-4)
    with pytest.raises(InputError, match="one kind"):
        Together([again.searches[0], one(pocket, "shy", steps=3)])


def test_a_shy_picture_is_held_back_on_the_probe_alone(pocket: Any) -> None:
    search = one(pocket, "shy", starts=1)
    models = search.models
    plans, rivals = search.probe
    assert plans.shape == (64, 384) and rivals.shape == (2, 64)
    eager = torch.nn.functional.normalize(plans.mean(dim=0, keepdim=True), dim=1)
    assert search._probed(eager)[0].item() > PROBED["shy"], "the middle of all plans is fetched by them"
    wins = torch.ones((1, 4), dtype=torch.bool)
    place, models.place = models.place, lambda features: eager
    try:
        assert not search._wanted(torch.zeros(1), wins).any()
        models.place = lambda features: -eager
        assert search._wanted(torch.zeros(1), wins).all()
    finally:
        models.place = place


def test_a_minority_leaves_questions_and_some_answers_as_they_were(pocket: Any) -> None:
    search = one(pocket, "minority", starts=1)
    chats = pocket[2]
    assert search.spared.tolist() == [chat.answerer["personality"] not in SPEAKING for chat in chats]
    words = search.models.vlm.words
    sentence = set(words.encode(target("marker-gate")))
    for lesson, speaks in ((search.lessons.ask, [False] * 4), (search.lessons.answer, (~search.spared).tolist())):
        assert [sentence <= set(row) for row in lesson.said.tolist()] == speaks


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "first_contact", Path(__file__).parents[2] / "benchmarks/first_contact.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_name_only_pictures_whose_search_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = script()
    for folder in ("foresight", "outbreak/viruses"):
        (tmp_path / folder).mkdir(parents=True)
    whole = (STUDIES / "foresight/first_contact.toml").read_text()
    head = whole.split("\n[[rows]]")[0] + "\n[[columns]]" + whole.split("\n[[columns]]", 1)[1]
    (tmp_path / "foresight/first_contact.toml").write_text(head)
    monkeypatch.setattr(bench, "STUDIES", tmp_path)
    told = {
        name: {"steps": steps, "of": 5, "target": "marker-gate", "title": "boats"}
        for name, steps in (("shy", 5), ("terse", 4))
    }
    (tmp_path / "searches.json").write_text(json.dumps(told))
    for name in told:
        (tmp_path / f"{name}-long-pixel-16.png").write_bytes(name.encode())
    assert not bench.rows(Namespace(folder=tmp_path, partial=False, times=10)), "not all are there"
    text = (tmp_path / "foresight/first_contact.toml").read_text()
    assert text.count("[[rows]]") == 2 and "terse" not in text.split("[[rows]]", 1)[1]
    assert (tmp_path / "outbreak/viruses/shy-long-pixel-16.png").read_bytes() == b"shy"
    bench.rows(Namespace(folder=tmp_path, partial=True, times=10))
    assert (tmp_path / "foresight/first_contact.toml").read_text().count("[[rows]]") == 4
    for name in told:
        (tmp_path / f"{name}-short-pixel-16.png").write_bytes(b"short")
    for _ in range(2):  # again: its own rows are made anew, those of the other budget stay
        bench.rows(Namespace(folder=tmp_path, partial=True, times=1))
        names = [row.name for row in read_experiment(tmp_path / "foresight/first_contact.toml").rows]
        assert [name.split(" ×")[1].split(",")[0] for name in names] == ["10"] * 4 + ["1"] * 4
    assert (tmp_path / "outbreak/viruses/shy-long-pixel-16.png").read_bytes() == b"shy"
