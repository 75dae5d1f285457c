"""Whether a sentence of a tool's description speaks of something else than the tool: a small model that was learnt.

A trial that does not ship: it refused too many honest descriptions for what it found (research/LOG.md).

It reads every sentence by itself: what it means (the mean state of the screener's encoder), how much it reads like an
order (the screener's own mark), how far it is from the first sentence beside it, and which signs it shows
(``signs.toml``). One linear layer weighs these. Its weights belong to one version of the screener's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.text_screener import _pooled, shared_screener
from lazaretto.models.minilm.tokens import window_texts

Floats = NDArray[np.float32]
_LONGEST = 2_000
_FEWEST_LETTERS = 8
_MEANING, _MARK, _DISTANCE, _SIGN = 3.0, 0.25, 2.0, 1.5
"""Scales of the parts, so that one penalty fits them all."""
_MANY = 2
_ENDS = re.compile(r"(?<=[.!?;。！？；])[\"'”’)\]`*]*\s+|[。！？；]|\n+|(?<=:)\s+(?=[A-Z])")


def sentences(text: str) -> list[str]:
    """The sentences of a description that say something."""
    parts = (part.strip(" \t-*•#>")[:_LONGEST] for part in _ENDS.split(text) if part)
    return [part for part in parts if sum(map(str.isalpha, part)) >= _FEWEST_LETTERS]


@cache
def _signs() -> tuple[tuple[str, re.Pattern[str]], ...]:
    table = tomllib.loads(Path(__file__).with_name("signs.toml").read_text(encoding="utf-8"))
    return tuple(
        (one["rule"], re.compile("|".join(f"(?:{p})" for p in one["patterns"]), re.I)) for one in table["rules"]
    )


def signs_of(sentence: str) -> list[bool]:
    """Which signs a sentence shows, in the order of their table."""
    return [pattern.search(sentence) is not None for _, pattern in _signs()]


@lru_cache(maxsize=4096)
def _read(sentence: str) -> tuple[Floats, float]:
    screener = shared_screener()
    window = window_texts([sentence], 1)[0][0]
    states = screener._encoder.token_states([window.ids])[0]
    mean = states.mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-9), _pooled(window, states @ screener._head + screener._bias)


def features(several: Sequence[str]) -> Floats:
    """A row for each sentence of one string."""
    read = [_read(one) for one in several]
    means = np.array([mean for mean, _ in read], np.float32).reshape(len(several), -1)
    marks = np.array([[mark] for _, mark in read], np.float32)
    shown = np.array([signs_of(one) for one in several], np.float32).reshape(len(several), len(_signs()))
    near = means @ means[:1].T
    count = np.minimum(shown.sum(axis=1, keepdims=True), _MANY)
    parts = [means * _MEANING, marks * _MARK, near * _DISTANCE, shown * _SIGN, count * _SIGN]
    return np.concatenate(parts, axis=1)
