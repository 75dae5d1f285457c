"""The frozen text encoder for training, from a folder and on any device; a half-precision copy will do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from lazaretto.models.protocol import Vectors


class TextTower:
    """A ``TextEmbedder`` over all-MiniLM-L6-v2."""

    name = "all-MiniLM-L6-v2"
    dimension = 384

    def __init__(self, folder: Path, device: str) -> None:
        self.device = device
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(128)
        self.model = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False)
        state = {k: v.float() for k, v in load_file(folder / "model.safetensors").items() if v.is_floating_point()}
        missing, _ = self.model.load_state_dict(state, strict=False)
        assert not missing, missing
        self.model.to(device).eval()

    @torch.no_grad()
    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        rows = []
        for start in range(0, len(texts), 1024):
            encoded = self.tokenizer.encode_batch(list(texts[start : start + 1024]))
            ids = torch.tensor([e.ids for e in encoded], device=self.device)
            mask = torch.tensor([e.attention_mask for e in encoded], device=self.device)
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            rows.append(torch.nn.functional.normalize(mean, dim=-1).cpu().numpy())
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), np.float32)
