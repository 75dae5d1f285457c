"""A text that repeats a tainted item, nearly word for word, is tainted too, whether its writer had read it or not.

A text that is held only for its sources looks harmless, so the same words under another name would pass. It is kept by
a few hashes of its word pairs (MinHash) among the ledger's fingerprints; texts that share some are compared with it. A
more trusted source may say the same.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from lazaretto.ledger import Ledger
from lazaretto.ledger.fingerprints import marked
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 3


KIND = "taint"
"""The kind of these fingerprints in the ledger."""
SHORTEST = 40
"""Shortest text, in characters, that counts: many writers use the same shorter ones."""
ALIKE = 0.7
"""The share of word pairs that two texts have in common from which one repeats the other."""
_BANDS, _ROWS = 16, 2
_MOST_LETTERS, _MOST_WORDS = 20_000, 2_000
_CANDIDATES = 20
_COPIES = 8
_PRIME = np.uint64((1 << 61) - 1)
_SEEDS = np.array([[_digest(f"{kind}{i}")] for kind in "ab" for i in range(_BANDS * _ROWS)], np.uint64).reshape(
    2, -1, 1
)
_WORD = re.compile(r"\w+")
_CHANNELS = (Channel.MEMORY, Channel.MESSAGE)
_AGENTS_WORDS = (SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE)
Trust = Mapping[SourceClass, float]


def _pairs(text: str) -> frozenset[str]:
    """The pairs of neighbouring words; of letters, where a text has few words."""
    start = unicodedata.normalize("NFKC", text[:_MOST_LETTERS])
    seen = "".join(c for c in start if unicodedata.category(c) != "Cf").casefold()
    words = _WORD.findall(seen)[:_MOST_WORDS]
    if len(words) < 4:
        letters = "".join(words)[:_MOST_WORDS]
        return frozenset(letters[i : i + 3] for i in range(len(letters) - 2))
    return frozenset(f"{first} {two}" for first, two in pairwise(words))


def keys_of(text: str) -> list[str]:
    """The fingerprints of a text; none for a short one."""
    pairs = _pairs(text) if len(text.strip()) >= SHORTEST else frozenset()
    if len(pairs) < 3:
        return []
    hashed = np.array([_digest(pair) for pair in pairs], np.uint64)
    with np.errstate(over="ignore"):
        least = ((hashed[None, :] * _SEEDS[0] + _SEEDS[1]) % _PRIME).min(axis=1)
    return [
        f"{band}:" + "-".join(f"{int(v):x}" for v in rows) for band, rows in enumerate(least.reshape(_BANDS, _ROWS))
    ]


def alike(text: str, other: str) -> bool:
    """Whether two texts are nearly the same, word for word."""
    ours, theirs = _pairs(text), _pairs(other)
    return bool(ours) and len(ours & theirs) >= ALIKE * len(ours | theirs)


def marks(items: Sequence[Observation]) -> list[Draft]:
    """The events by which tainted items are known again."""
    found = ((item, keys_of(item.text)) for item in items)
    return [marked([(KIND, key) for key in keys], item.id, KIND) for item, keys in found if keys]


def echoed(observation: Observation, ledger: Ledger, trust: Trust) -> tuple[str, ...]:
    """The tainted items, held now, that a new item repeats; none where it may say so by right."""
    if observation.channel not in _CHANNELS or not (keys := keys_of(observation.text)):
        return ()
    ids = list(dict.fromkeys(known.item for known in ledger.find_fingerprints(KIND, keys)))[:_CANDIDATES]
    if not ids:
        return ()
    states = ledger.states(ids)
    found = ledger.items(ids=[item for item in ids if item in states and states[item].held], any_state=True, limit=None)
    near = [item for item in found if alike(observation.text, item.text) and _no_more(observation, item, trust)]
    return tuple(item.id for item in near if not _originals(item, ledger))


def copies(item: Observation, ledger: Ledger, trust: Trust) -> tuple[str, ...]:
    """Memories in use that repeat an item which was just found to be tainted, and were written after it."""
    if not keys_of(item.text):
        return ()
    near = [memory for memory, _ in ledger.search(item.text, limit=_COPIES) if alike(memory.text, item.text)]
    if any(memory.time < item.time for memory in near):
        return ()  # the text is older than the tainted item: that one is the copy
    return tuple(memory.id for memory in near if memory.id != item.id and _no_more(memory, item, trust))


def links(item: str, found: Sequence[str]) -> list[Draft]:
    """The events that link items to those they repeat, so that they are released with them."""
    return [Draft(EventKind.INFLUENCED, source, body={"target": item}) for source in found]


def _originals(item: Observation, ledger: Ledger) -> list[str]:
    """Older memories in use with the same text: an item that repeats them repeats something honest."""
    return [
        memory.id
        for memory, _ in ledger.search(item.text, limit=_COPIES)
        if memory.time < item.time and alike(memory.text, item.text)
    ]


def _no_more(item: Observation, other: Observation, trust: Trust) -> bool:
    """Whether an item is trusted no more than another; agents' own words count alike."""
    return trust[item.source] <= max(trust[other.source], *(trust[source] for source in _AGENTS_WORDS))
