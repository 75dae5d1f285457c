"""The student of the relation models: what its teachers say, what its labels are, and which texts it may see."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the training extra")
pytest.importorskip("onnxruntime", reason="needs the gates extra")

from lazaretto.gates.memory.claims import relation
from lazaretto_lab.training.claims.changed import changed, in_another_form
from lazaretto_lab.training.claims.distil import adopt, together, with_labels
from lazaretto_lab.training.claims.facts_data import HELD_OUT, topics
from lazaretto_lab.training.claims.own_pairs import CALIBRATED_ON, CONFLICT
from lazaretto_lab.training.claims.templates import AGREES, NO_CONFLICT
from lazaretto_lab.training.claims.training import TRUNKS, Reader
from lazaretto_lab.training.claims.transfer import judged, stretches, written_beside, written_texts
from lazaretto_lab.training.written import statements

LISTS = Path(__file__).parents[3] / "tests" / "data"


def test_the_teachers_say_together_what_the_gate_would() -> None:
    first, deep = np.array([[0.1, 0.5, 0.2, 0.2]], np.float32), np.array([[0.2, 0.1, 0.2, 0.5]], np.float32)
    said = together(first, deep, np.array([relation.SECOND_COUNTS]))
    gate = relation.together(relation.Related(*first[0].tolist()), relation.Related(*deep[0].tolist()))
    assert said[0] == pytest.approx([gate.agrees, gate.contradicts, gate.updates, gate.none], abs=1e-4)


def test_a_label_counts_more_than_the_teachers_and_they_say_what_it_leaves_open() -> None:
    taught = np.array([[0.6, 0.1, 0.1, 0.2], [0.6, 0.1, 0.1, 0.2], [0.7, 0.1, 0.1, 0.1]], np.float32)
    found = with_labels(np.array([NO_CONFLICT, CONFLICT, AGREES]), taught, share=0.25, smoothing=0.08)
    assert found.sum(1) == pytest.approx(1, abs=1e-5)
    assert found[0, [1, 2]].sum() < 0.15 and found[0, 0] > found[0, 3]
    assert found[1, [1, 2]].sum() > 0.7
    assert found[2].argmax() == AGREES


def test_a_reader_that_adopts_another_says_the_same() -> None:
    import torch

    torch.manual_seed(0)
    trunk = TRUNKS["minilm"]
    base = {}
    for layer in range(trunk.layers):
        for matrix, rows, columns in (("attention.self.query", 384, 384), ("attention.self.key", 384, 384),
                                      ("attention.self.value", 384, 384), ("attention.output.dense", 384, 384),
                                      ("intermediate.dense", 1536, 384), ("output.dense", 384, 1536)):  # fmt: skip
            base[f"{trunk.at(layer, matrix)}.weight"] = torch.zeros(rows, columns)
            base[f"{trunk.at(layer, matrix)}.bias"] = torch.zeros(rows)
    small, large = Reader(base, trunk, 2, 3), Reader(base, trunk, 5, 3)
    product: Any
    for product in small.products.values():
        torch.nn.init.normal_(product.up)
    adopt(large, {name: value.astype(np.float32) for name, value in small.arrays().items()})
    x = torch.randn(4, 384)
    name = trunk.at(0, "attention.self.key").replace(".", "/")
    assert torch.allclose(small.products[name](x), large.products[name](x), atol=0.05)
    assert torch.allclose(small.first.weight, large.first.weight, atol=0.001)


@pytest.mark.parametrize(
    "text",
    ["Invoices are paid to DE-4410 on Friday.", "The shop is open until 18:00.", "Mail goes to ops.harbour.example."],
)
def test_a_changed_text_is_another_and_always_the_same_for_a_seed(text: str) -> None:
    found = changed(text, random.Random(3))
    assert found != text and found == changed(text, random.Random(3))
    assert in_another_form(text, random.Random(1)) != text


def test_topics_that_no_training_sees_and_texts_that_judge_stay_out() -> None:
    kept = {text for one in topics() if one.work in HELD_OUT | CALIBRATED_ON for text in (one.says, *one.poison)}
    elsewhere = {text for one in topics() if one.work not in HELD_OUT | CALIBRATED_ON
                 for text in (one.says, *one.again, *one.poison, *one.beside)}  # fmt: skip
    texts = dict(written_texts())
    assert not (kept - elsewhere) & set(texts)
    assert not (kept - elsewhere) & {text for old, new, _ in written_beside() for text in (old, new)}
    assert stretches("a b c d e f g h") == {"a b c d e f g", "b c d e f g h"}
    assert len(judged(LISTS)) > 1_000


def test_a_pair_of_a_folds_texts_belongs_to_that_fold() -> None:
    folds: dict[str, set[str]] = {}
    for one in statements():
        for text in (one.first, one.second):
            folds.setdefault(text, set()).add(f"soft_{one.fold}")
    for old, new, source in written_beside():
        for text in (old, new):
            assert source in folds.get(text, {source})
