"""Loading parts of transformers models: missing weights and missing packages become plain words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lazaretto.errors import MissingExtra, ModelUnavailable

T = TypeVar("T")


def load_part(what: str, source: str, load: Callable[[], T]) -> T:
    """Run a ``from_pretrained`` and say plainly what is missing when it fails."""
    folder = Path(source)
    looks_local = source.startswith((".", "/", "~")) or folder.exists()
    if looks_local and not folder.expanduser().is_dir():
        raise ModelUnavailable(f"no folder {source} to load {what} from")
    try:
        return load()
    except (OSError, ValueError, KeyError) as error:
        place = f"the folder {source}" if looks_local else f"the hub as {source!r} (and it is not a local folder)"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelUnavailable(f"cannot load {what} from {place}: {reason}") from error
    except ImportError as error:
        raise MissingExtra(f"{what} of {source} ({str(error).strip().splitlines()[0]})", "models") from None


def transformers_module() -> Any:
    """The transformers package, or the plain word on how to get it."""
    try:
        import transformers
    except ImportError:
        raise MissingExtra("a transformers model", "models") from None
    return transformers


def fingerprint(source: str, model: Any) -> str:
    """Names a model by its configuration and a number of every weight tensor: what was sought with other weights is
    not taken for these."""
    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, weights in model.state_dict().items():
        digest.update(f"{name}:{tuple(weights.shape)}:{float(weights.flatten()[0]) if weights.numel() else 0}".encode())
    return f"{Path(source).name}-{digest.hexdigest()}"
