"""Every file of weights that ships stands in a model card, with the sha256 that it has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ("src/lazaretto/models/weights", "packages/deep/src", "lab/src/lazaretto_lab/pocket/weights")
SHIPPED = sorted(file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.safetensors"))
MOST_BYTES = 25_000_000
"""Of all weights in the repository together."""


@pytest.mark.parametrize("file", SHIPPED, ids=[f"{file.parent.name}/{file.name}" for file in SHIPPED])
def test_a_card_has_the_digest_of(file: Path) -> None:
    cards = [page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs" / "models").glob("*.md")]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert any(digest in card and file.name in card for card in cards), digest


def test_all_weights_together_stay_small() -> None:
    assert len(SHIPPED) >= 12 and sum(file.stat().st_size for file in SHIPPED) < MOST_BYTES
