"""How two claims stand to each other: the new one agrees with the old, contradicts it, updates it, or speaks of else.

One pass of all-MiniLM-L6-v2 with a small adapter reads both claims; the head adds what comparing their values found.
Whether a change is honest is not asked here: only provenance can tell (``update_rule``).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.gates.memory.claims.comparison import compared, differs_in_a_value_alone
from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.models.minilm import Encoder, minilm_tokenizer, split_heads

WEIGHTS = Path(__file__).parents[3] / "models" / "weights" / "claims"
TOKENS_OLD, TOKENS_NEW = 72, 96
"""As in training: so much of each claim is read."""
_REMEMBERED = 20_000
"""Pairs whose answers are kept, about 3 MB."""


class Relation(StrEnum):
    """How a new claim stands to an old one."""

    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    UPDATES = "updates"
    NONE = "none"


ORDER = (Relation.AGREES, Relation.CONTRADICTS, Relation.UPDATES, Relation.NONE)
"""As the model gives them."""


@dataclass(frozen=True, slots=True)
class Related:
    """What the model makes of a pair."""

    agrees: float
    contradicts: float
    updates: float
    none: float

    @property
    def conflict(self) -> float:
        """Probability that both cannot hold at once."""
        return self.contradicts + self.updates

    @property
    def likeliest(self) -> Relation:
        """The relation with the highest probability."""
        return max(ORDER, key=lambda one: float(getattr(self, one.value)))


@dataclass(frozen=True, slots=True)
class RelationCalibration:
    """What the scores meant on sources that the model had not seen."""

    temperature: float
    conflict_at: float
    """Conflicts from here on count."""
    partial_at: float
    """The same where one of the two claims is a sentence of a longer text."""
    alike_at: float
    """The same where the two are alike, but meet in nothing that could be opposed (``comparison.meeting``)."""
    apart_at: float
    """The same where they are not even alike."""
    replace_at: float
    """An accepted change ends the old memory only from here on: replacing a memory by mistake loses it."""
    review_at: float
    """Conflicts from here on are worth a person's look where money, access or safety is concerned."""
    agree_at: float
    """Agreements from here on count as support."""
    alpha: float
    """Weight of credibility against the model in the risk."""


_ANOTHER_VALUE = Related(agrees=0.02, contradicts=0.9, updates=0.05, none=0.03)


class RelationModel:
    """Loads once, compares many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, self.calibration = _load(weights)
        adapter, self._head = split_heads(arrays)
        self._encoder = Encoder(adapter)
        self._read: OrderedDict[bytes, Related] = OrderedDict()
        self._lock = threading.Lock()

    def compare(self, pairs: Sequence[tuple[Claim, Claim, float]]) -> list[Related]:
        """One answer per pair of an old and a new claim, with the cosine of the two as the index has it.

        A pair is read once: crews repeat themselves, and a text is compared again when its support is counted.
        """
        keys = [_key(*pair) for pair in pairs]
        told = {
            key: _ANOTHER_VALUE for key, (o, n, _) in zip(keys, pairs, strict=True) if differs_in_a_value_alone(o, n)
        }
        with self._lock:
            told.update((key, self._read[key]) for key in keys if key in self._read and key not in told)
        fresh = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in told}
        told.update(zip(fresh, self._compare(list(fresh.values())), strict=True))
        with self._lock:
            for key in fresh:
                self._read[key] = told[key]
            while len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
        return [told[key] for key in keys]

    def _compare(self, pairs: Sequence[tuple[Claim, Claim, float]]) -> list[Related]:
        """The same by the network alone, all pairs in one pass."""
        if not pairs:
            return []
        texts = list(dict.fromkeys(claim.text for old, new, _ in pairs for claim in (old, new)))
        encoded = minilm_tokenizer().encode_batch(texts, add_special_tokens=False)
        ids = {text: one.ids for text, one in zip(texts, encoded, strict=True)}
        windows = [(101, *ids[o.text][:TOKENS_OLD], 102, *ids[n.text][:TOKENS_NEW], 102) for o, n, _ in pairs]
        states = self._encoder.token_states(windows)
        pooled = np.array([np.concatenate([one[0], one.mean(axis=0)]) for one in states], np.float32)
        features = np.array([[*compared(old, new), cosine] for old, new, cosine in pairs], np.float32)
        logits = self._answer(np.concatenate([pooled, features], axis=1)) / self.calibration.temperature
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        return [Related(*(float(p) for p in row)) for row in share]

    def _answer(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        hidden = _gelu(x @ self._head["first.weight"].T + self._head["first.bias"])
        return np.asarray(hidden @ self._head["last.weight"].T + self._head["last.bias"], np.float32)


def _key(old: Claim, new: Claim, cosine: float) -> bytes:
    """What a pair is remembered by: a digest, since a text that is erased must not stay in memory either."""
    digest = hashlib.blake2b(f"{cosine!r}|{len(old.text)}|".encode(), digest_size=16)
    digest.update(f"{old.text}{new.text}".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The exact one, by an error function that is right to seven digits (Abramowitz and Stegun 7.1.26)."""
    z = np.abs(x) / np.sqrt(np.float32(2))
    t = 1 / (1 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - poly * np.exp(-z * z))
    return np.asarray(0.5 * x * (1 + erf), np.float32)


def _load(weights: Path) -> tuple[dict[str, NDArray[np.floating[Any]]], RelationCalibration]:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtra("the relation model of claims", "gates") from None
    try:
        arrays = load_file(weights / "relation.safetensors")
        calibration = json.loads((weights / "calibration.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnavailable(f"the relation model's weights are not in {weights}: {error}") from None
    return dict(arrays), RelationCalibration(**calibration)


@cache
def shared_relation_model() -> RelationModel:
    """One per process."""
    return RelationModel()
