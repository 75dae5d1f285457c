"""Writes pocket-vlm's vocabulary: the words of its world, and the commonest plain words of the text encoder's.

python -m lazaretto_lab.training.pocket.make_words words.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from lazaretto.models.minilm import minilm_folder
from lazaretto_lab.training.pocket.lessons import vocabulary

COMMON = 1500


def common_words(count: int = COMMON) -> list[str]:
    """The text encoder lists its words by frequency; take the first that are letters only."""
    lines = (minilm_folder() / "vocab.txt").read_text().splitlines()
    return [word for word in lines if word.isascii() and word.isalpha() and len(word) > 2][:count]


if __name__ == "__main__":
    vocabulary(common_words()).save(Path(sys.argv[1]))
