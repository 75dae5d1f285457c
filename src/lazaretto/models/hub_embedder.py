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
    """A transformers encoder: a folder, or ``hf:owner/name``. Safe to share between threads."""

    def __init__(self, model: str) -> None:
        try:
            transformers = import_module("transformers")
        except ImportError:
            raise MissingExtra("an encoder of your own", "models") from None
        place = model.removeprefix(HUB)
        try:
            if not model.startswith(HUB) and not Path(place).is_dir():
                raise OSError(f"no folder {place}; a model of the hub is written hf:owner/name")
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(place)
            self._model: Any = transformers.AutoModel.from_pretrained(place).eval().to(torch_device(default_device()))
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise ModelUnavailable(f"cannot load the encoder {model!r}: {str(error)[:300]}") from None
        self.name = model
        self.dimension = int(self._model.config.hidden_size)
        self._lock = threading.Lock()

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one per text."""
        import torch

        rows = [np.zeros((0, self.dimension), np.float32)]
        longest = min(512, int(getattr(self._model.config, "max_position_embeddings", 512)) - 2)
        for start in range(0, len(texts), _AT_ONCE):
            part = [text or " " for text in texts[start : start + _AT_ONCE]]
            ready = self._tokenizer(part, return_tensors="pt", padding=True, truncation=True, max_length=longest)
            with self._lock, torch.inference_mode():
                states = self._model(**ready.to(self._model.device)).last_hidden_state.float()
            seen = ready["attention_mask"].to(states.device)[:, :, None].float()
            mean = (states * seen).sum(1) / seen.sum(1).clamp(min=1)
            rows.append(torch.nn.functional.normalize(mean, dim=1).cpu().numpy())
        return np.concatenate(rows)
