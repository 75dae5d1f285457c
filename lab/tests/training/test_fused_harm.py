"""What ships of the sum of jury and reader is what the stored left-out scores give."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs the models extra")

from lazaretto.gates.content.jury.second_opinion import joint

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
def test_the_shipped_numbers_are_those_of_the_stored_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("fused_harm", BENCHMARKS / "fused_harm.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fused_harm"] = module
    try:
        spec.loader.exec_module(module)
        every = module.scored("text")
        made = module.fitted(every.pick(every.items.source != "dev"))
    finally:
        del sys.modules["fused_harm"]
    shipped = joint()
    assert made.quick == shipped.quick and made.reader == shipped.reader
    for name in ("offset", "jury", "score"):
        assert getattr(made, name) == pytest.approx(getattr(shipped, name), abs=0.01)
    for name in ("block", "alone", "allow"):
        for (rate, odds), (known, stored) in zip(asdict(made)[name], asdict(shipped)[name], strict=True):
            assert rate == known and odds == pytest.approx(stored, abs=0.05)
