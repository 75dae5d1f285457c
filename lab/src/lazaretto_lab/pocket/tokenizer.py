"""Words to numbers and back.

A word-level vocabulary: every word of the pocket world is one token, each fixed sentence of the prompts is one token
too (they carry no information beyond which sentence it is), and a word outside the vocabulary is spelled letter by
letter. Case is ignored on the way in; on the way out sentences begin with a capital.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAD, END, PICTURE, ODD = "<pad>", "<end>", "<picture>", "<odd>"
SPECIAL = (PAD, END, PICTURE, ODD)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORD = re.compile(r"[A-Za-z_]+=[A-Za-z0-9_]+|[A-Za-z_]+(?:'[A-Za-z]+)?|\d+|[^\sA-Za-z_\d]")
_TIGHT = frozenset(".,!?:;)'")


@dataclass(frozen=True)
class WordTokenizer:
    """The vocabulary and how to use it."""

    phrases: tuple[str, ...]
    """Whole sentences or fields that are one token each."""
    words: tuple[str, ...]
    """Words in the form in which they are written."""
    ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _surface: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _phrase: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spelled = [f"^{c}" for c in _LETTERS] + [f"~{c}" for c in _LETTERS]
        surface = (*SPECIAL, *spelled, *self.phrases, *self.words)
        object.__setattr__(self, "_surface", surface)
        object.__setattr__(self, "ids", {s if s in self.phrases else s.lower(): i for i, s in enumerate(surface)})
        longest = sorted(self.phrases, key=len, reverse=True)
        # a phrase counts only as a whole, between spaces or line ends: a part of another word is not one
        object.__setattr__(
            self,
            "_phrase",
            re.compile(r"(?:(?<=\n)|(?<=^)|(?<= ))(" + "|".join(map(re.escape, longest)) + r")(?=\s|$)"),
        )

    def __len__(self) -> int:
        return len(self._surface)

    @property
    def end(self) -> int:
        """The token that ends what is said."""
        return self.ids[END]

    def encode(self, text: str) -> list[int]:
        """Text as tokens, without an end."""
        out: list[int] = []
        for index, piece in enumerate(self._phrase.split(text)):
            if index % 2:
                out.append(self.ids[piece])
                continue
            for word in self.split(piece):
                out.extend(self._word(word.lower()))
        return out

    @staticmethod
    def split(text: str) -> list[str]:
        """Text as words and punctuation, as ``encode`` sees it."""
        return _WORD.findall(text)

    def _word(self, word: str) -> list[int]:
        known = self.ids.get(word)
        if known is not None:
            return [known]
        marks = ["^" + word[0], *("~" + c for c in word[1:])]
        return [self.ids.get(mark, self.ids[ODD]) for mark in marks]

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens as text, up to the end token."""
        text, glue = "", True
        for token in tokens:
            if token == self.end:
                break
            piece = self._surface[token]
            if piece in SPECIAL:
                continue
            if len(piece) == 2 and piece[0] in "^~":
                glue, piece = piece[0] == "~" or glue, piece[1]
            elif piece in _TIGHT:
                glue = True
            text += piece if glue else " " + piece
            glue = False
        return text[:1].upper() + text[1:]

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON."""
        path.write_text(json.dumps({"phrases": self.phrases, "words": self.words}, indent=0) + "\n")

    @classmethod
    def load(cls, path: Path) -> WordTokenizer:
        """Read what ``save`` wrote."""
        data = json.loads(path.read_text())
        return cls(tuple(data["phrases"]), tuple(data["words"]))
