"""Any moderation model a user has, as one number: the probability that a text is harmful, with the model's label.

Its configuration says which kind it is: a text classifier, a chat judge that answers *safe* or *unsafe* (Llama Guard),
or one that answers *Yes* or *No* (ShieldGemma). A chat judge never generates: the odds of its two answers are read from
the next token.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.torch_loading import default_device, torch_device

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
