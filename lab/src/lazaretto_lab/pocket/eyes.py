"""Pictures to features, each picture once.

pocket-clip and pocket-vlm look through the same frozen backbone; ``Eyes`` runs it and remembers the result by the
picture's content, so a world of thousands of turns encodes each distinct picture a single time.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.models.own_pictures import first_frame_rgb

if TYPE_CHECKING:
    from torch import Tensor

    from lazaretto_lab.pocket.backbone import Backbone

SIDE = 224
_KEPT = 4096
_BATCH = 16


def pixels(data: bytes) -> NDArray[np.uint8]:
    """An encoded picture as (224, 224, 3); one of another shape is fitted in whole, on white."""
    picture = first_frame_rgb(data)
    if picture.size != (SIDE, SIDE):
        from PIL import ImageOps

        picture = ImageOps.pad(picture, (SIDE, SIDE), color="white")
    return np.asarray(picture, dtype=np.uint8)


class Eyes:
    """The frozen backbone with a memory."""

    def __init__(self, backbone: Backbone, device: str = "cpu") -> None:
        self.device = device
        self.backbone = backbone.to(device)
        self.encoded = 0
        """Pictures that went through the backbone."""
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def patches(self, images: Sequence[bytes]) -> Tensor:
        """(n, 49, features), one row per encoded picture."""
        import torch

        keys = [hashlib.sha256(data).digest() for data in images]
        rows = {key: self._kept[key] for key in keys if key in self._kept}
        fresh = {key: data for key, data in zip(keys, images, strict=True) if key not in rows}
        order = list(fresh)
        for start in range(0, len(order), _BATCH):
            chunk = order[start : start + _BATCH]
            stacked = np.stack([pixels(fresh[key]) for key in chunk])
            rows.update(zip(chunk, self.look(torch.from_numpy(stacked)), strict=True))
        self.encoded += len(order)
        for key, row in rows.items():
            self._kept[key] = row
            self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return torch.stack([rows[key] for key in keys])

    def look(self, raw: Tensor) -> Tensor:
        """Features of raw pictures (n, 224, 224, 3), 0 to 255, without memory and without gradients."""
        import torch

        from lazaretto_lab.pocket.backbone import patches

        with torch.no_grad():
            scaled = raw.to(self.device).permute(0, 3, 1, 2).float() / 255
            return patches(*self.backbone(scaled))
