"""Token states of the networks that read every text anyway, for small heads on frozen trunks.

    from lazaretto_lab.training.states import token_states
    states = token_states("screener", texts, folder)

Read as the product reads them, in eight bits on the processor, one window at a time, so that a head meets in use what
it was fitted on. What was read is kept in ``folder`` (outside of git) and found again by its text and weights: a run
after texts were added reads these alone.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm import Encoder, split_heads, window_texts
from lazaretto.models.weight_files import SHIPPED, read_arrays

States = NDArray[np.float16]
"""(tokens, 384); the first token is [CLS], the last one [SEP]."""
ADAPTERS = {"screener": "screener/screener.safetensors", "jury": "jury/strict.safetensors"}
"""Trunk -> its weights; ``jury`` is the debater that looks at every text. ``minilm`` is the plain encoder of claims."""
TRUNKS = (*ADAPTERS, "minilm")
_SHARD = 2_000
"""Texts that one file of states holds: what was read before a run was stopped is not read again."""


def token_states(trunk: str, texts: Sequence[str], folder: Path) -> list[States]:
    """The states of the first window of each text, in order."""
    home = folder / trunk / _version(trunk)
    home.mkdir(parents=True, exist_ok=True)
    known = _kept(home, {_name(text) for text in texts})
    missing = list(dict.fromkeys(text for text in texts if _name(text) not in known))
    for begin in range(0, len(missing), _SHARD):
        several = missing[begin : begin + _SHARD]
        print(f"{trunk}: {begin} of {len(missing)} texts", file=sys.stderr, flush=True)
        found = {_name(text): _read(trunk, text) for text in several}
        _keep(home, found)
        known |= found
    return [known[_name(text)] for text in texts]


def _read(trunk: str, text: str) -> States:
    window = window_texts([text])[0][0]
    return _encoder(trunk).token_states([window.ids])[0].astype(np.float16)


@cache
def _encoder(trunk: str) -> Encoder:
    if trunk not in ADAPTERS:
        return Encoder(even=True)
    adapter, _ = split_heads(read_arrays(SHIPPED / "weights" / ADAPTERS[trunk], f"the {trunk}"))
    return Encoder(adapter, int8=True)


def _version(trunk: str) -> str:
    """Changes with the trunk's weights."""
    if trunk not in ADAPTERS:
        return "base"
    return hashlib.sha256((SHIPPED / "weights" / ADAPTERS[trunk]).read_bytes()).hexdigest()[:12]


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _keep(home: Path, found: dict[str, States]) -> None:
    """One file: names, lengths, and all states one after the other."""
    names, lengths = np.array(list(found)), np.array([len(states) for states in found.values()])
    file = home / f"{_name(' '.join(found))}.npz"
    np.savez(file, names=names, lengths=lengths, states=np.concatenate(list(found.values())))


def _kept(home: Path, wanted: set[str]) -> dict[str, States]:
    found: dict[str, States] = {}
    for file in sorted(home.glob("*.npz")):
        with np.load(file) as kept:
            names = kept["names"].tolist()
            if wanted.isdisjoint(names):
                continue
            parts = np.split(kept["states"], np.cumsum(kept["lengths"])[:-1])
        found |= {name: part for name, part in zip(names, parts, strict=True) if name in wanted}
    return found
