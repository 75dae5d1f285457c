"""Products in eight bits: weights rounded with a scale per row, states with a scale per window, sums in full precision.

torch's kernels do them on x86. Elsewhere they exist but are slow (forty times slower than plain products on arm64), so
the same rounded numbers are multiplied as floats there: what a window scores is the same to the fifth decimal.
``lazaretto_lab.training.jury.multi_adapter_encoder`` rounds in the same way when it scores a cross-validation.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from typing import Any


def int8_linear(weight: Any, bias: Any, gelu: bool) -> Callable[[Any], Any]:
    """x -> x @ weight.T + bias, through a gelu where asked; by whatever is quick and exact on this processor."""
    if platform.machine().lower() in ("x86_64", "amd64") and kernel_is_exact():
        return kernel_linear(weight, bias, gelu)
    return rounded_linear(weight, bias, gelu)


def kernel_linear(weight: Any, bias: Any, gelu: bool) -> Callable[[Any], Any]:
    """The product by torch's eight-bit kernel."""
    import torch

    whole_weight, scale = _rounded_rows(weight)
    packed = torch.ops.onednn.qlinear_prepack(whole_weight.to(torch.int8), None)
    nothing = torch.zeros(len(scale), dtype=torch.int32)
    multiply = torch.ops.onednn.qlinear_pointwise.default
    after = "gelu" if gelu else "none"

    def run(x: Any) -> Any:
        whole, step, zero = _rounded_window(x)
        states = whole.to(torch.int8).view(-1, x.shape[-1])
        y = multiply(states, step, zero, packed, scale, nothing, bias, 1.0, 0, torch.float32, after, [], "none")
        return y.view(*x.shape[:-1], len(scale))

    return run


def rounded_linear(weight: Any, bias: Any, gelu: bool) -> Callable[[Any], Any]:
    """The product of the same rounded numbers, kept and multiplied as floats."""
    from torch.nn import functional

    whole_weight, scale = _rounded_rows(weight)
    rounded = whole_weight.mul_(scale[:, None])

    def run(x: Any) -> Any:
        whole, step, zero = _rounded_window(x)
        y = functional.linear(whole.sub_(zero).mul_(step), rounded, bias)
        return functional.gelu(y) if gelu else y

    return run


def _rounded_rows(weight: Any) -> tuple[Any, Any]:
    """Whole numbers from -127 to 127, and what one of them is worth in each row."""
    scale = (weight.abs().amax(1) / 127).clamp(min=1e-8)
    return (weight / scale[:, None]).round(), scale


def _rounded_window(x: Any) -> tuple[Any, float, int]:
    """Whole numbers from -127 to 127, what one of them is worth, and which of them stands for zero."""
    import torch

    low, high = (end.item() for end in torch.aminmax(x))
    low, high = min(low, 0.0), max(high, 0.0)
    step = max((high - low) / 254, 1e-8)
    zero = round(-low / step) - 127
    return x.mul(1 / step).add_(zero).round_(), step, zero


@cache
def kernel_is_exact() -> bool:
    """Whether torch's eight-bit kernel exists here and is exact: some processors overflow in the sums."""
    import torch

    weight, x = torch.full((16, 64), 127.0), torch.full((4, 64), 255.0)
    x[:, 0] = 0.0
    try:
        found = kernel_linear(weight, torch.zeros(16), False)(x)
    except (RuntimeError, NotImplementedError, AttributeError):
        return False
    return bool(torch.allclose(found, x @ weight.T))
