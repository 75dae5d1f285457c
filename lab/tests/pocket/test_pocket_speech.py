"""Prompts read padded and read packed say the same; what is remembered of a prompt changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lazaretto.agents.prompts import PHRASES, ChatRecord, persona_pool, plan_request, question_request
from lazaretto_lab.pocket import vlm, weights
from lazaretto_lab.pocket.tokenizer import PICTURE, WordTokenizer

torch = pytest.importorskip("torch")

from lazaretto_lab.pocket import prefill, speech
from lazaretto_lab.pocket.networks import Language
from lazaretto_lab.pocket.prefill import Beginnings, Prompt, read_together
from lazaretto_lab.pocket.speech import Speaker, picture_prompt

TALK = ChatRecord("Bah, why show a red boat at all, hum?", "Maybe, why not, a red boat will do.")


@pytest.fixture(scope="module")
def words() -> WordTokenizer:
    return weights.load_words()


@pytest.fixture(scope="module")
def language() -> Language:
    return weights.load_language()


@pytest.fixture(scope="module")
def prompts(words: WordTokenizer) -> list[Prompt]:
    patches = torch.rand(49, 768, generator=torch.Generator().manual_seed(5))
    made = []
    for index, persona in enumerate(persona_pool(4, 17)):
        past = [TALK] * index
        plan = plan_request(persona, past, ["two red boats at the harbour", "a blue cat"]).messages[0].text
        asked = question_request(persona, past, image=b"x").messages[0].text
        made.append(Prompt(picture_prompt(words, plan, vlm.PICTURE_BEFORE, False)))
        made.append(Prompt(picture_prompt(words, asked, vlm.PICTURE_BEFORE, True), patches))
    return made


def shelf(language: Language, words: WordTokenizer) -> Beginnings:
    marks = frozenset(words.ids[phrase] for phrase in vlm.SHARED_BEFORE)
    return Beginnings(language, words.ids[PICTURE], marks | {words.ids[PICTURE]})


def test_every_cut_is_a_sentence_of_the_prompts() -> None:
    assert set(vlm.SHARED_BEFORE) <= set(PHRASES)


@torch.no_grad()
def test_packed_reads_what_a_padded_batch_reads(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt]
) -> None:
    together = read_together(language, prompts, words.ids[PICTURE], 8)
    apart = shelf(language, words).read(prompts, 8)
    assert apart.length == together.length and apart.padding.tolist() == together.padding.tolist()
    assert torch.allclose(apart.hidden, together.hidden, atol=1e-3)
    for (keys, values), (k, v) in zip(apart.cache, together.cache, strict=True):
        for row, pad in enumerate(apart.padding.tolist()):
            assert torch.allclose(keys[row, :, pad : apart.length], k[row, :, pad : apart.length], atol=1e-3)
            assert torch.allclose(values[row, :, pad : apart.length], v[row, :, pad : apart.length], atol=1e-3)


@torch.no_grad()
def test_a_remembered_beginning_is_the_same_whoever_stood_beside_it(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = shelf(language, words)
    warm.read(prompts, 8)
    monkeypatch.setattr(prefill, "PACKED_TOKENS", 1)  # every text by itself
    for row, prompt in enumerate(prompts):
        cold = shelf(language, words).read([prompt], 8)
        assert torch.allclose(cold.hidden[0], warm.read(prompts, 8).hidden[row], atol=speech.CLEAR / 20)


@torch.no_grad()
def test_the_shelf_forgets_the_oldest(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefill, "KEPT_TOKENS", 150)
    small = shelf(language, words)
    first = small.read(prompts, 8).hidden
    assert sum(map(len, small._kept)) == small._tokens <= 150
    assert torch.allclose(small.read(prompts, 8).hidden, first, atol=speech.CLEAR / 20)


def test_who_has_ended_leaves_and_the_others_go_on(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt]
) -> None:
    speaker = Speaker(language, words, vlm.SHARED_BEFORE)
    alone = [speaker.speak([prompt], 40)[0] for prompt in prompts]
    assert len({len(said) for said in alone}) > 1, "the case needs sentences of different lengths"
    assert speaker.speak(prompts, 40) == alone
    assert speaker.speak(prompts, 3) == [said[:3] for said in alone]


def test_where_two_words_are_as_good_as_equal_double_precision_decides(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = Speaker(language, words, vlm.SHARED_BEFORE)
    said = trusting.speak(prompts, 12)
    assert trusting._exact is None, "nothing was in doubt"
    monkeypatch.setattr(speech, "CLEAR", 1e9)
    doubting = Speaker(language, words, vlm.SHARED_BEFORE)
    assert doubting.speak(prompts, 12) == said
    assert doubting._exact is not None and doubting._exact.words.weight.dtype == torch.float64
    assert language.words.weight.dtype == torch.float32


def test_a_long_prompt_takes_no_words_from_its_neighbours(
    language: Language, words: WordTokenizer, prompts: Sequence[Prompt]
) -> None:
    speaker = Speaker(language, words, vlm.SHARED_BEFORE)
    filler = Prompt(tuple(prompts[0].tokens[:1]) * (language.size.limit - 3))
    short = prompts[0]
    alone = speaker.speak([short], 40)
    assert speaker.speak([filler], 40)[0] == speaker.speak([short, filler], 40)[1]
    assert speaker.speak([short, filler], 40)[0] == alone[0] and len(speaker.speak([filler], 40)[0]) <= 3
