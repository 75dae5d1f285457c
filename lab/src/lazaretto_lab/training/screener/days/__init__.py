"""Working days by many hands that had read none of the rules: honest texts, and attacks with the part that is one.

Each hand is a file; fitting and leaving out go by hand, so that a figure on a hand that was left out is a
figure on a stranger's way to write. ``parts.jsonl`` says which part of an attack is the attack.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HANDS = {
    "forms": 0, "offices": 0, "second_day": 0,
    "indirect": 1, "third_day": 1,
    "languages": 2, "fourth_day": 2,
    "long": 3, "machine": 3, "fifth_day": 3,
    "tongues": 4, "agents": 4,
    "eleventh_day": 0, "twelfth_day": 1, "thirteenth_day": 2, "fourteenth_day": 3, "fifteenth_day": 4,
    "sixteenth_day": 0,
}  # fmt: skip
"""The fold of every hand. The days with a number judged once and do so no longer."""
UNTESTED = frozenset(
    f"{name}_day" for name in ["eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth"]
)
"""Hands that are trained on and tested by nobody: trainings are compared on texts that all of them know."""
ORDERS = frozenset({"order", "mild order", "worm", "secret", "secret request", "persona", "tool"})
"""Kinds of attack that want something done; ``lie`` and ``redirect`` state something."""
_FOLDER = Path(__file__).parent
_LISTS = Path(__file__).parents[6] / "tests" / "data"


@dataclass(frozen=True, slots=True)
class DayText:
    """One text; ``start`` and ``end``: where the attack in it stands."""

    text: str
    hand: str
    kind: str
    language: str
    start: int = 0
    end: int = 0

    @property
    def fold(self) -> int:
        """Of its hand."""
        return HANDS[self.hand]

    @property
    def part(self) -> str:
        """The part that attacks; empty for an honest text."""
        return self.text[self.start : self.end]

    @property
    def rest(self) -> str:
        """The honest rest beside the attack."""
        return self.text[: self.start] + self.text[self.end :]


@cache
def day_texts() -> tuple[DayText, ...]:
    """All of them, hand by hand."""
    return tuple(text for hand in HANDS for text in _texts_of(hand))


def _texts_of(hand: str) -> list[DayText]:
    own = _FOLDER / f"{hand}.toml"
    path = own if own.exists() else _LISTS / f"{hand}.toml"
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    found = [DayText(row["text"].strip(), hand, "honest", row["language"]) for row in rows["honest"]]
    for n, row in enumerate(rows["attack"]):
        text = row["text"].strip()
        part = (row.get("part") or _parts()[hand, n]).strip()
        start = text.find(part)
        if start < 0:
            raise ValueError(f"{path.name}, attack {n}: its part is not in its text")
        found.append(DayText(text, hand, row["kind"], row["language"], start, start + len(part)))
    return found


@cache
def _parts() -> dict[tuple[str, int], str]:
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (_FOLDER / "parts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return {(row["file"], row["n"]): row["part"] for row in rows}
