"""Many answers at once are the answers one by one."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model() -> Any:
    from lazaretto_lab.studies.debate.decoding import ATTENTION

    torch.manual_seed(1)
    config = transformers.Qwen2Config(
        vocab_size=60, hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.4,
    )  # fmt: skip
    made = transformers.Qwen2ForCausalLM(config).eval()
    made.set_attn_implementation(ATTENTION)
    return made


def alone(model: Any, prompt: list[int], most: int, ends: set[int]) -> list[int]:
    """The plain way: the whole text through the library's own attention for every word."""
    words: list[int] = []
    model = copy.deepcopy(model)
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        while len(words) < most:
            logits = model(input_ids=torch.tensor([prompt + words]), use_cache=False).logits
            word = int(logits[0, -1].argmax())
            if word in ends:
                break
            words.append(word)
    return words


@pytest.mark.parametrize("slots", [1, 3, 20])
def test_answers_do_not_depend_on_who_shares_the_batch(model: Any, slots: int) -> None:
    from lazaretto_lab.studies.debate.decoding import Asked, Decoder

    rng = random.Random(slots)
    prompts = [[rng.randrange(1, 60) for _ in range(rng.randrange(2, 40))] for _ in range(12)]
    limits = [rng.randrange(1, 40) for _ in prompts]
    decoder = Decoder(model, {5, 6, 7}, slots)
    waiting = [Asked(key, prompt, most) for key, (prompt, most) in enumerate(zip(prompts, limits, strict=True))]
    found: dict[int, list[int]] = {}
    while len(found) < len(prompts):
        taken, waiting = waiting[: decoder.free], waiting[decoder.free :]
        decoder.admit(taken)
        found.update((one.key, one.made) for one in decoder.run())
    assert found == {k: alone(model, p, limits[k], {5, 6, 7}) for k, p in enumerate(prompts)}
    assert {len(words) < limits[key] for key, words in found.items()} == {True, False}  # both ways to end took place


def test_what_was_forgotten_is_asked_anew_with_the_same_answer(model: Any) -> None:
    from lazaretto_lab.studies.debate.decoding import Asked, Decoder

    decoder = Decoder(model, set(), 4)
    decoder.admit([Asked(1, [3, 4, 9], 20)])
    decoder.run()
    again = decoder.forget()
    assert [(one.key, one.made) for one in again] == [(1, [])] and decoder.free == 4
    decoder.admit(again)
    done: list[Any] = []
    while not done:
        done = decoder.run()
    assert done[0].made == alone(model, [3, 4, 9], 20, set())
