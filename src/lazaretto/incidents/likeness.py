"""Whether one text carries the content of another: shared runs of words, and nothing cleverer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lazaretto.kept_texts import remembered
from lazaretto.ledger.contents import Contents
from lazaretto.provenance.taint import FOR_DESCENT
from lazaretto.types import Observation

RUN = 3
"""Words of a run."""
CARRIES = 0.5
"""Share of the shorter text's runs that the longer one must hold."""
ORIGIN = 0.7
"""The same for something that nobody found and that may be where a finding began: honest notes share phrases, too."""
_KEPT_CHARS = 2_000
KNOWN = "blocklist:"
"""Prefix of the rules that only recognize an earlier finding."""
_ALONE = (*FOR_DESCENT, "records:")
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text, without case and punctuation."""
    return _WORD.findall(text.casefold())


def overlap(first: str, second: str) -> float:
    """Share of the shorter text's runs of words that the other text holds, too; 0 for texts without words."""
    runs = [_kept_runs(text) if len(text) <= _KEPT_CHARS else _runs(words(text)) for text in (first, second)]
    shorter = min(map(len, runs))
    return len(runs[0] & runs[1]) / shorter if shorter else 0.0


def common_words(first: str, second: str) -> float:
    """Share of the shorter text's words that the other text holds, too."""
    bags = [set(words(text)) for text in (first, second)]
    shorter = min(map(len, bags))
    return len(bags[0] & bags[1]) / shorter if shorter else 0.0


def carries(item: Observation, other: Observation, share: float = CARRIES) -> bool:
    """Whether two items hold the same picture, or one text holds most of the other."""
    if item.image is not None and item.image == other.image:
        return True
    return bool(item.text and other.text) and overlap(item.text, other.text) >= share


def same_content(item: Observation) -> str:
    """A key that items of the same content share; empty for one without any."""
    if item.image is not None:
        return f"image:{item.image}"
    text = " ".join(words(item.text))
    return f"text:{text}" if text else ""


def alike(rules: Mapping[str, str], contents: Contents) -> dict[str, tuple[str, ...]]:
    """Groups items (with the rules that hold them) that one label settles together: one of each, with the others.

    It is the first that is held for a reason of its own, not as a copy of another.
    An item held for its descent, or for the record it changes, stands alone: a label on its content does not
    settle that.
    """
    content = contents.of(rules)
    first: dict[object, str] = {}
    rows: dict[str, list[str]] = {}
    for item, rule in rules.items():
        key: object = item if item not in content or rule.startswith(_ALONE) else content[item]
        rows.setdefault(first.setdefault(key, item), []).append(item)
    shown = (next((i for i in row if not rules[i].startswith(KNOWN)), row[0]) for row in rows.values())
    return {item: tuple(i for i in row if i != item) for item, row in zip(shown, rows.values(), strict=True)}


@remembered(4 << 20, lambda runs: 200 * len(runs))
def _kept_runs(text: str) -> frozenset[tuple[str, ...]]:
    """The runs of a text that is compared with many others."""
    return _runs(words(text))


def _runs(text_words: list[str]) -> frozenset[tuple[str, ...]]:
    size = min(RUN, len(text_words))
    return (
        frozenset(tuple(text_words[at : at + size]) for at in range(len(text_words) - size + 1))
        if text_words
        else frozenset()
    )
