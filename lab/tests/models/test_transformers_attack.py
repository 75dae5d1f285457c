"""Attack gradients through any torch models: tiny random networks of the true architectures, made and saved here."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.prompts import persona_pool, question_request
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import TARGETS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lazaretto_lab.attacks.infectious.craft import Search, finished
from lazaretto_lab.attacks.infectious.differentiable import sentence_loss
from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture
from lazaretto_lab.models.picture_tensors import PictureTensors
from lazaretto_lab.models.transformers_clip import TransformersClip
from lazaretto_lab.models.transformers_gradients import TransformersGradients
from lazaretto_lab.models.transformers_vlm import TransformersVlm

SIDE = 28
VLMS, ENCODERS = ("llava", "qwen2_vl", "internvl", "instructblip"), ("clip", "siglip")
TARGET = "marker-lantern"


def models(tiny: Callable[[str], str], vlm: str = "llava", clip: str = "clip") -> TransformersGradients:
    return TransformersGradients(
        TransformersVlm(tiny(vlm), device="cpu"), TransformersClip(tiny(clip), device="cpu"), SIDE
    )


def picture(seed: int, side: int = SIDE) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def album(count: int) -> tuple[AlbumItem, ...]:
    return tuple(picture_item(picture(seed), f"picture {seed}") for seed in range(count))


def chats(count: int = 4) -> list[Chat]:
    people = persona_pool(2 * count, seed=3)
    return [Chat(people[i], (), f"a plan about boat {i}", album(4), people[-1 - i], ()) for i in range(count)]


@pytest.mark.parametrize("name", [*VLMS, *ENCODERS])
def test_the_twin_of_a_processor_shows_what_the_processor_shows(name: str, tiny: Callable[[str], str]) -> None:
    loaded: Any = TransformersClip(tiny(name)) if name in ENCODERS else TransformersVlm(tiny(name))
    twin = PictureTensors(loaded.picture_processor)
    smooth = Image.linear_gradient("L").resize((60, 60)).convert("RGB")
    for shown in (Image.open(io.BytesIO(picture(1))), smooth):  # one that fits, one that has to be made smaller
        theirs = loaded.picture_processor([shown], return_tensors="pt")["pixel_values"]
        ours = twin(torch.from_numpy(np.array(shown)).permute(2, 0, 1)[None].float() / 255)
        torch.testing.assert_close(ours.reshape(theirs.shape), theirs.float(), atol=0.06, rtol=0)


@pytest.mark.parametrize("name", VLMS)
def test_gradients_reach_the_pixels_and_scores_are_the_models_own(name: str, tiny: Callable[[str], str]) -> None:
    both = models(tiny, name)
    asked = [question_request(person, (), image=b"picture") for person in persona_pool(2, seed=9)]
    lesson = both.situations(asked, TARGETS[TARGET])
    rows = torch.arange(2)
    pixels = torch.from_numpy(np.stack([both.pixels(picture(s)) for s in (1, 2)])).permute(0, 3, 1, 2).float() / 255
    pixels.requires_grad_(True)
    scores = both.scores(both.features(pixels), lesson, rows)
    assert scores.shape[:3] == (2, 2, len(both.coded(TARGETS[TARGET])))
    (speech,) = torch.autograd.grad(sentence_loss(scores, lesson, rows).sum(), pixels, retain_graph=True)
    (place,) = torch.autograd.grad(both.place(pixels).sum(), pixels)
    assert all(bool(part.abs().amax(dim=(1, 2, 3)).min() > 0) for part in (speech, place))
    # the first word that the model would say, by its own processor and by ours
    request = question_request(persona_pool(2, seed=9)[1], (), image=picture(2))
    job = both.vlm._job(0, request)
    with torch.no_grad():
        own = both.vlm.network(**both.vlm._inputs.tensors([job.prompt], job.pictures)).logits[0, -1]
    torch.testing.assert_close(scores[1, 1, 0].detach(), own.float(), atol=2e-2, rtol=1e-2)


def test_an_attack_on_llava_and_clip_lowers_its_loss_goes_on_and_keeps_its_budget(
    tiny: Callable[[str], str], tmp_path: Path
) -> None:
    both, settings = models(tiny), Craft(TARGET, Budget("pixel", 32), steps=12, batch=2, infected_share=0.0)
    base = np.array(both.pixels(picture(1)))
    whole = Search(both, base, chats(), settings)
    straight = finished(whole, lambda _: None)
    assert np.mean(straight.losses[-3:]) < np.mean(straight.losses[:3])
    assert np.abs(straight.pixels.astype(int) - base.astype(int)).max() <= 32

    begun = Search(both, base, chats(), settings)
    for progress in begun.run():
        if progress.step == 5:
            break
    torch.save(begun.state(), tmp_path / "part")
    resumed = finished(Search(both, base, chats(), settings), lambda _: None, tmp_path / "part")
    np.testing.assert_array_equal(resumed.pixels, straight.pixels)
    assert resumed.losses == straight.losses

    item = picture_item(picture(1), "a picture")
    quick = Craft(TARGET, Budget("border", 60), steps=2, batch=2, infected_share=0.0)
    first = crafted_picture(both, item, chats(), quick, tmp_path)
    assert first.fresh and not crafted_picture(both, item, chats(), quick, tmp_path).fresh
    changed = (both.pixels(first.data) != both.pixels(item.picture)).any(axis=2)
    width = quick.budget.frame_of(SIDE)
    assert changed.any() and not changed[width:-width, width:-width].any() and not list(tmp_path.glob("*.part"))
