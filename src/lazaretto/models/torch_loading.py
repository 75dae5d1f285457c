"""Where networks run: a device by name, or plain words about why not."""

from __future__ import annotations

import os

from lazaretto.errors import MissingExtra, ModelUnavailable


def default_device() -> str:
    """The default device of embedded models: ``LAZARETTO_DEVICE`` (cpu, cuda, auto ...), else the processor."""
    return os.environ.get("LAZARETTO_DEVICE") or "cpu"


def torch_device(wanted: str = "auto") -> str:
    """The device to use: ``auto`` takes a GPU when there is one; a GPU asked for by name must be there."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("a transformers model", "models") from None
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(wanted).type
    except RuntimeError:
        raise ModelUnavailable(f"{wanted!r} is not a device; use auto, cpu, cuda, cuda:0, ...") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelUnavailable(f"device {wanted!r} was asked for, but this machine has no usable GPU; use auto or cpu")
    return wanted
