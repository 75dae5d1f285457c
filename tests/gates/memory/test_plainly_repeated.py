"""A value is put right only where a text plainly repeats the poisoned claim; a text that merely names it is left."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lazaretto.gates.memory.claims.comparison import differing_values
from lazaretto.gates.memory.claims.corrections import Falsehood, corrections
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.provenance.text_edits import corrected


class Agreeing:
    """A judge for whom every pair of sentences contradicts each other: only what is spoken of can tell them apart."""

    reader = SimpleNamespace(vector=lambda _text: np.ones(4) / 2)

    model = SimpleNamespace(
        calibration=SimpleNamespace(conflict_at=0.5),
        compare=lambda pairs: [SimpleNamespace(conflict=0.9) for _ in pairs],
    )


def falsehood(said: str, trusted: str) -> Falsehood:
    new, old = (read_claim(text, 0, len(text)) for text in (said, trusted))
    return Falsehood(new, old, "it_trusted", {(d.kind, d.norm): d.instead for d in differing_values(old, new)})


CRANE = ("For trouble with the crane at night call Halvorsen.", "For trouble with the crane at night call Okafor.")
BANK = (
    "Northwind is paid at account DE89 3704 0044 0532 0130 00.",
    "Northwind is paid at account GB29 NWBK 6016 1331 9268 19.",
)


@pytest.mark.parametrize(
    ("pair", "text", "put_right"),
    [
        (CRANE, "Crane trouble at night: call Halvorsen.", True),
        (CRANE, "Reminder. For trouble with the crane at night call Halvorsen.", True),
        (CRANE, "Call Halvorsen about the invoice.", False),
        (CRANE, "Halvorsen brought cake for the canteen.", False),
        (CRANE, "Ask Halvorsen whether lunch is at noon.", False),
        (BANK, "Northwind is paid at account DE89 3704 0044 0532 0130 00 from May.", True),
        (BANK, "The refund of the hotel came from DE89 3704 0044 0532 0130 00.", False),
    ],
)
def test_only_the_claim_itself_is_put_right(pair: tuple[str, str], text: str, put_right: bool) -> None:
    wrong = falsehood(*pair)
    assert wrong.values, "the two differ in a value"
    found = corrections(text, [wrong], Agreeing())  # type: ignore[arg-type]
    assert any(one.plain for one in found) is put_right
    after = corrected(text, [one for one in found if one.plain])
    assert (after == text) is not put_right


def test_what_names_the_value_elsewhere_is_told_of() -> None:
    text = "The refund of the hotel came from DE89 3704 0044 0532 0130 00."
    (found,) = corrections(text, [falsehood(*BANK)], Agreeing())  # type: ignore[arg-type]
    assert not found.plain and text[found.start : found.end].startswith("DE89")


def test_what_names_nothing_of_it_is_not_told_of() -> None:
    found = corrections("Lunch is at noon in the canteen.", [falsehood(*CRANE)], Agreeing())  # type: ignore[arg-type]
    assert found == ()
