"""Products in eight bits: weights rounded with a scale per row, states with a scale per window, sums in full precision.

``lazaretto_lab.training.jury.multi_adapter_encoder`` rounds in the same way when it scores a cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def int8_linear(weight: Any, bias: Any, gelu: bool) -> Callable[[Any], Any]:
    """x -> x @ weight.T + bias, through a gelu where asked."""
    import torch

    scale = (weight.abs().amax(1) / 127).clamp(min=1e-8)
    packed = torch.ops.onednn.qlinear_prepack((weight / scale[:, None]).round().to(torch.int8), None)
    nothing = torch.zeros(len(scale), dtype=torch.int32)
    multiply = torch.ops.onednn.qlinear_pointwise.default
    after = "gelu" if gelu else "none"

    def run(x: Any) -> Any:
        low, high = (end.item() for end in torch.aminmax(x))
        low, high = min(low, 0.0), max(high, 0.0)
        step = max((high - low) / 254, 1e-8)
        zero = round(-low / step) - 127
        whole = x.mul(1 / step).add_(zero).round_().to(torch.int8).view(-1, x.shape[-1])
        y = multiply(whole, step, zero, packed, scale, nothing, bias, 1.0, 0, torch.float32, after, [], "none")
        return y.view(*x.shape[:-1], len(scale))

    return run


@cache
def int8_is_exact() -> bool:
    """Whether torch's eight-bit products exist here and are exact: some processors overflow in the sums."""
    import torch

    weight, x = torch.full((16, 64), 127.0), torch.full((4, 64), 255.0)
    x[:, 0] = 0.0
    try:
        found = int8_linear(weight, torch.zeros(16), False)(x)
    except (RuntimeError, NotImplementedError, AttributeError):
        return False
    return bool(torch.allclose(found, x @ weight.T))
