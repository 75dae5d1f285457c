"""A cure is sought with the attack's own search, stays within its budget, and is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.pocket import load_pocket_models
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

pytest.importorskip("torch")
from lazaretto_lab.attacks.infectious.recorded_chats import Chat, record_chats
from lazaretto_lab.attacks.infectious.settings import Budget
from lazaretto_lab.pocket.eyes import pixels
from lazaretto_lab.pocket.gradients import PocketGradients
from lazaretto_lab.worlds.album_chat.cure import CureSettings, PocketCures


@pytest.mark.slow
def test_a_cure_comes_nearer_to_the_plans_within_its_budget_and_is_kept(tmp_path: Path) -> None:
    vlm, clip = load_pocket_models()
    asked: list[tuple[Chat, ...]] = []

    def chats(count: int) -> Sequence[Chat]:
        asked.append(record_chats(AgentModel(vlm, EmbeddingCache(clip)), scene_pictures(12, 11), count, 1))
        return asked[-1]

    base, suspect = scene_pictures(2, 44)
    settings = CureSettings(Budget("pixel", 24), steps=3, batch=1, chats=2)
    cures = PocketCures(PocketGradients(vlm, clip), chats, base, tmp_path, settings)
    cure = cures(suspect, "The red lantern drill starts now.")
    change = np.abs(pixels(cure.picture).astype(int) - pixels(base.picture).astype(int))
    assert 0 < change.max() <= 24
    assert cure.title == base.title and cure.key not in (base.key, suspect.key)
    plans = clip.embed_texts([chat.plan for chat in asked[0]])
    before, after = (float((plans @ clip.embed_images([k.picture])[0]).mean()) for k in (base, cure))
    assert after > before
    assert all(suspect.key in [k.key for k in chat.album] for chat in cures._lessons(suspect, "said"))

    again = PocketCures(PocketGradients(vlm, clip), chats, base, tmp_path / "other", settings, made_before=tmp_path)
    assert again(suspect, "The red lantern drill starts now.") == cure
    assert len(asked) == 2  # once for the search and once for the line above: a kept cure asks for no chats
    assert again(picture_item(suspect.picture), "The red lantern drill starts now.") == cure
