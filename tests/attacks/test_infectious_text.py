"""The text virus: its opening brings it nearer to plans, and the search is the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lazaretto.attacks.infectious.targets import TARGETS
from lazaretto.attacks.infectious.text import PASS_ON, TextCraft, craft_note, note_beta
from lazaretto.errors import InputError
from lazaretto.models.protocol import Vectors

PLANS = [
    "I want to show everyone two red boats at the harbour because of my sailing.",
    "Perhaps I could talk about a green lamp in the library tonight.",
    "Everyone should admire three blue kites on the beach this morning.",
]


class BagOfWords:
    """A text embedder without weights: hashed word counts."""

    name, dimension = "bag", 64

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().replace(".", "").split():
                row[sum(map(ord, word)) % 64] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def test_search_comes_nearer_and_never_steps_back() -> None:
    made = craft_note(BagOfWords(), PLANS, TextCraft("marker-gate", words=6, candidates=8))
    assert made.similarity > made.plain_similarity + 0.1
    assert list(made.scores) == sorted(made.scores) and len(made.scores) == 18
    assert made.note.endswith(f"{PASS_ON} {TARGETS['marker-gate']}")
    assert len(made.note.split()) == 6 + len(f"{PASS_ON} {TARGETS['marker-gate']}".split())


def test_same_seed_same_note() -> None:
    settings = TextCraft("tool-mail", words=4, candidates=5, seed=3)
    first = craft_note(BagOfWords(), PLANS, settings)
    assert first == craft_note(BagOfWords(), PLANS, settings)
    assert first.note != craft_note(BagOfWords(), PLANS, TextCraft("tool-mail", words=4, candidates=5, seed=4)).note


def test_beta_counts_albums_it_wins() -> None:
    albums = [[PLANS[0]], ["nothing of the kind"], ["unrelated words"]]
    assert note_beta(BagOfWords(), PLANS[1], PLANS, albums) == pytest.approx(2 / 3)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="plans"):
        craft_note(BagOfWords(), [], TextCraft("marker-gate"))
    with pytest.raises(InputError, match="candidates"):
        TextCraft("marker-gate", candidates=0)
    with pytest.raises(InputError, match="target"):
        TextCraft("nope")
