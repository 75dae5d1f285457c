"""CLIP and SigLIP as image-text embedders, from a folder or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazaretto.errors import ModelUnavailable
from lazaretto.models.own_networks import torch_device
from lazaretto.models.protocol import Vectors
from lazaretto_lab.models.own_pictures import first_frame_rgb
from lazaretto_lab.models.transformers_loading import fingerprint, load_part, transformers_module

FAMILIES = ("clip", "siglip")


class TransformersClip:
    """A dual encoder of the CLIP or SigLIP architecture behind ``ImageTextEmbedder``."""

    def __init__(self, source: str, device: str = "auto", batch: int = 32) -> None:
        transformers = transformers_module()
        self.device = torch_device(device)
        self.batch = batch
        # said outright: where nothing is said, a folder with code of its own asks on the terminal
        config = load_part(
            "the configuration",
            source,
            lambda: transformers.AutoConfig.from_pretrained(source, trust_remote_code=False),
        )
        if config.model_type not in FAMILIES:
            raise ModelUnavailable(f"{source} is a {config.model_type} model; this backend knows {', '.join(FAMILIES)}")
        self._tokenizer = load_part("the tokenizer", source, lambda: transformers.AutoTokenizer.from_pretrained(source))
        self._pictures = load_part(
            "the image processor", source, lambda: transformers.AutoImageProcessor.from_pretrained(source)
        )
        model = load_part("the weights", source, lambda: transformers.AutoModel.from_pretrained(source))
        self._model: Any = model.eval().to(self.device)
        self.fingerprint = fingerprint(source, self._model)
        self._siglip = config.model_type == "siglip"
        self._length = int(config.text_config.max_position_embeddings)
        self.name = f"transformers:{source}"
        self.dimension = int(config.vision_config.hidden_size if self._siglip else config.projection_dim)

    @property
    def network(self) -> Any:
        """The model itself, for who needs its gradients."""
        return self._model

    @property
    def picture_processor(self) -> Any:
        """What turns a picture into tensors."""
        return self._pictures

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; what does not fit the encoder's window is cut."""
        # SigLIP was trained on texts padded to the whole window; with shorter ones its vectors are wrong
        padding = "max_length" if self._siglip else True

        def encode(part: Sequence[str]) -> Any:
            tokens = self._tokenizer(
                list(part), padding=padding, truncation=True, max_length=self._length, return_tensors="pt"
            ).to(self.device)
            wanted = {
                k: v for k, v in tokens.items() if k == "input_ids" or (k == "attention_mask" and not self._siglip)
            }
            return self._model.get_text_features(**wanted)

        return self._rows(texts, encode)

    def embed_images(self, images: Sequence[bytes]) -> Vectors:
        """One unit row per encoded picture."""

        def encode(part: Sequence[bytes]) -> Any:
            pixels = self._pictures([first_frame_rgb(data) for data in part], return_tensors="pt")
            return self._model.get_image_features(pixel_values=pixels["pixel_values"].to(self.device))

        return self._rows(images, encode)

    def _rows(self, items: Sequence[Any], encode: Any) -> Vectors:
        import torch

        rows = np.zeros((len(items), self.dimension), dtype=np.float32)
        for start in range(0, len(items), self.batch):
            part = items[start : start + self.batch]
            with torch.inference_mode():
                features = encode(part)
            features = getattr(features, "pooler_output", features)  # newer versions wrap the vectors in a record
            unit = torch.nn.functional.normalize(features.float(), dim=-1)
            rows[start : start + len(part)] = unit.cpu().numpy()
        return rows
