"""Any sentence encoder a user has, for retrieval: mean of its last states, of length one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.guard_model import HUB
from lazaretto.models.torch_loading import default_device, torch_device

_AT_ONCE = 16


class HubEmbedder:
    """A transformers encoder: a folder, or ``hf:owner/name``; loaded with the first text."""

    def __init__(self, model: str) -> None:
        self.name = model
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def dimension(self) -> int:
        """Numbers per text."""
        return int(self._load()[1].config.hidden_size)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one per text."""
        import torch

        tokenizer, model = self._load()
        rows = [np.zeros((0, self.dimension), np.float32)]
        longest = min(512, int(getattr(model.config, "max_position_embeddings", 512)) - 2)
        for start in range(0, len(texts), _AT_ONCE):
            part = [text or " " for text in texts[start : start + _AT_ONCE]]
            ready = tokenizer(part, return_tensors="pt", padding=True, truncation=True, max_length=longest)
            with self._lock, torch.inference_mode():
                states = model(**ready.to(model.device)).last_hidden_state.float()
            seen = ready["attention_mask"].to(states.device)[:, :, None].float()
            mean = (states * seen).sum(1) / seen.sum(1).clamp(min=1)
            rows.append(torch.nn.functional.normalize(mean, dim=1).cpu().numpy())
        return np.concatenate(rows)

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                try:
                    transformers = import_module("transformers")
                except ImportError:
                    raise MissingExtra("an encoder of your own", "models") from None
                place = self.name.removeprefix(HUB)
                try:
                    if not self.name.startswith(HUB) and not Path(place).is_dir():
                        raise OSError(f"no folder {place}; a model of the hub is written hf:owner/name")
                    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
                    model = transformers.AutoModel.from_pretrained(place).eval().to(torch_device(default_device()))
                except (OSError, ValueError, ImportError, KeyError) as error:
                    raise ModelUnavailable(f"cannot load the encoder {self.name!r}: {str(error)[:300]}") from None
                self._loaded = (tokenizer, model)
            return self._loaded
