"""Adaptive attackers: what each strategy asks of the picture is what its search lowers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.errors import InputError
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.attacks.adaptive.strategies import (
    MODEST,
    MODEST_PULL,
    SENTENCES,
    SEVERAL,
    SLEEPERS,
    STRATEGIES,
    TITLED,
    AdaptiveCraft,
    sentence_of,
    sentences,
)
from lazaretto_lab.attacks.infectious.differentiable import UNSAID
from lazaretto_lab.attacks.infectious.recorded_chats import record_chats
from lazaretto_lab.attacks.infectious.settings import Budget
from lazaretto_lab.attacks.infectious.targets import target
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

torch = pytest.importorskip("torch")


def settings(strategy: str) -> AdaptiveCraft:
    return AdaptiveCraft(
        "marker-lantern",
        Budget("pixel", 16),
        steps=2,
        batch=2,
        strategy=strategy,
        title="two red boats" if strategy in TITLED else "",
    )


def test_strategies_are_named_and_keys_differ() -> None:
    assert len({settings(name).key() for name in STRATEGIES}) == len(STRATEGIES)
    with pytest.raises(InputError, match="unknown"):
        settings("magic")
    with pytest.raises(InputError, match="title"):
        AdaptiveCraft("marker-lantern", Budget("pixel", 16), strategy="named")
    assert sentences("partial", "marker-lantern") == (target("marker-lantern"),)
    assert len(sentences("paraphrase", "marker-lantern")) == len(sentences("modest", "x")) == len(SENTENCES)
    people, three = persona_pool(20, 1), sentences("named", "marker-gate")
    assert {sentence_of(p, "named", three) for p in people} == set(three)
    assert all(p["catchphrase"].capitalize() in sentence_of(p, "personal", three) for p in people)
    assert all(sentence_of(p, "mannered", three).endswith(sentence_of(p, "personal", three)) for p in people)
    openings = {p["personality"]: sentence_of(p, "mannered", three).split(",")[0] for p in people}
    assert len(set(openings.values())) == len(openings), "people of one temperament begin alike, others do not"


@pytest.fixture(scope="module")
def pocket() -> Any:
    from lazaretto_lab.pocket import load_pocket_models
    from lazaretto_lab.pocket.gradients import PocketGradients

    vlm, clip = load_pocket_models()
    chats = record_chats(AgentModel(vlm, EmbeddingCache(clip)), scene_pictures(12, 77), 4, 1)
    return PocketGradients(vlm, clip), chats


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_a_short_search_stays_in_its_budget(pocket: Any, strategy: str) -> None:
    from lazaretto_lab.attacks.adaptive.search import AdaptiveSearch
    from lazaretto_lab.attacks.infectious.craft import finished
    from lazaretto_lab.pocket.eyes import pixels

    models, chats = pocket
    base = np.array(pixels(scene_pictures(1, 78)[0].picture))
    search = AdaptiveSearch(models, base, chats, settings(strategy))
    made = finished(search, lambda _: None)
    assert np.abs(made.pixels.astype(int) - base.astype(int)).max() <= 16
    assert len(made.losses) == 2 and all(np.isfinite(made.losses))
    if strategy in SLEEPERS:
        assert search.awake.tolist() == [False, True, False, True]
    if strategy in SEVERAL:
        texts = [sentence_of(c.questioner, strategy, sentences(strategy, "marker-lantern")) for c in chats]
        assert [[code for code in row if code != UNSAID] for row in search.lessons.ask.said.tolist()] == [
            models.coded(text) for text in texts
        ]
    if strategy in MODEST:
        chats_won = torch.arange(10).repeat(3, 1) < torch.tensor([[0], [4], [10]])
        assert MODEST_PULL == 0.4 and search._won(chats_won).mean(dim=1).tolist() == pytest.approx([0.6, 1.0, 0.4])
    if strategy == "diverse":
        assert search.lessons.ask is search.lessons.answer


def test_a_sleeper_is_shown_short_pasts_to_sleep_through_and_long_ones_to_wake_in(pocket: Any) -> None:
    from lazaretto_lab.attacks.adaptive.search import _short, _with_past

    chat = pocket[1][0].infected("boo", 3)
    assert [len(_short(chat, n).questioner_history) for n in (0, 1, 2)] == [0, 1, 2]
    assert _short(chat, 2).answerer_history == chat.answerer_history[-2:]
    woken = _with_past(_short(chat, 1), settings("late"), SLEEPERS["late"])
    assert len(woken.questioner_history) == len(woken.answerer_history) == 3
    assert _with_past(chat, settings("late"), 3) == chat
