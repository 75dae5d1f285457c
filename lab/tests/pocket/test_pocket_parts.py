"""The pocket models' parts that need no trained weights: words, weight files, and what goes wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lazaretto.agents import prompts
from lazaretto.agents.prompts import FIELDS, persona_pool
from lazaretto.errors import InputError, MissingExtra, ModelUnavailable
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.pocket import load_pocket_vlm, vlm, weights
from lazaretto_lab.pocket.eyes import pixels
from lazaretto_lab.pocket.tokenizer import PICTURE, WordTokenizer
from lazaretto_lab.worlds.scenes import png_bytes, render, scene_pool

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def words() -> WordTokenizer:
    return weights.load_words()


def test_targets_survive_the_round_trip(words: WordTokenizer) -> None:
    for sentence in TARGETS.values():
        assert words.decode(words.encode(sentence)) == sentence


def test_prompt_sentences_are_one_token_each(words: WordTokenizer) -> None:
    for phrase in (*prompts.PHRASES, *(f"{field}:" for field in FIELDS)):
        assert len(words.encode(phrase)) == 1, phrase
    assert set(vlm.PICTURE_BEFORE) <= set(prompts.PHRASES)


def test_unknown_words_are_spelled_and_read_back(words: WordTokenizer) -> None:
    assert words.decode(words.encode("the zyxomat, indeed.")) == "The zyxomat, indeed."
    assert len(words.encode("zyxomat")) == 7
    assert words.decode(words.encode("日本 key")) == "Key"


def test_a_prompt_stays_short(words: WordTokenizer) -> None:
    record = prompts.ChatRecord("Bah, why show a red boat at all, hum?", "Maybe, why not, a red boat will do.")
    for person in persona_pool(50, 9):
        text = prompts.plan_request(person, [record] * 3, ["two red boats at the harbour"] * 10).messages[0].text
        assert len(words.encode(text)) < 300


def test_picture_stands_before_the_task(words: WordTokenizer) -> None:
    from lazaretto_lab.pocket.prefill import widen
    from lazaretto_lab.pocket.speech import picture_prompt

    text = prompts.question_request(persona_pool(1, 0)[0], [], image=b"x").messages[0].text
    tokens = picture_prompt(words, text, vlm.PICTURE_BEFORE, True)
    assert tokens[-2] == words.ids[PICTURE] and tokens[-1] == words.ids[prompts.QUESTION_TASK]
    assert len(widen(tokens, words.ids[PICTURE])) == len(tokens) + 48


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(weights.FOLDER, tmp_path / "weights"))


def test_altered_missing_and_unlisted_weights_are_refused(copied: Path) -> None:
    file = copied / weights.VLM_FILE
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(ModelUnavailable, match="was altered"):
        weights.load_language(copied)
    file.unlink()
    with pytest.raises(ModelUnavailable, match="incomplete"):
        weights.load_language(copied)
    (copied / "manifest.json").unlink()
    with pytest.raises(ModelUnavailable, match="not there"):
        weights.load_words(copied)


def test_weights_of_another_shape_are_refused(copied: Path) -> None:
    shutil.copy(copied / weights.CLIP_FILE, copied / weights.VLM_FILE)
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest[weights.VLM_FILE] = manifest[weights.CLIP_FILE]
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelUnavailable, match="does not fit"):
        weights.load_language(copied)


def test_missing_backbone_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(weights, "import_module", absent)
    with pytest.raises(MissingExtra, match="lazaretto"):
        weights.load_language()
    monkeypatch.setattr(weights, "_torch", lambda: None)
    with pytest.raises(MissingExtra, match=r"lazaretto\[worlds\]"):
        weights.load_backbone()


def test_a_gpu_that_is_not_there() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ModelUnavailable, match="no usable GPU"):
        load_pocket_vlm("cuda")


def test_pictures_of_other_shapes_are_fitted_in_whole() -> None:
    from PIL import Image

    wide = Image.new("RGB", (400, 100), "red")
    fitted = pixels(png_bytes(wide))
    assert fitted.shape == (224, 224, 3)
    assert tuple(fitted[112, 112]) == (255, 0, 0) and tuple(fitted[5, 112]) == (255, 255, 255)
    drawn = render(scene_pool(1, 0)[0])
    assert (pixels(png_bytes(drawn)) == np.asarray(drawn)).all()
    clear = Image.new("RGBA", (224, 224), (255, 0, 0, 0))
    assert tuple(pixels(png_bytes(clear))[0, 0]) == (255, 255, 255)
    with pytest.raises(InputError, match="not a picture"):
        pixels(b"nonsense")


def test_shipped_weights_are_small() -> None:
    assert sum(file.stat().st_size for file in weights.FOLDER.iterdir()) < 15_000_000
