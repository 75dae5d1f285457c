"""What ships of the sum of jury and reader is what the stored left-out scores give."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs the models extra")

from lazaretto.gates.content.jury.second_opinion import joint

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


CARD = (Path(__file__).resolve().parents[3] / "docs" / "models" / "reader.md").read_text(encoding="utf-8")
RESULTS = BENCHMARKS.parent / "results" / "content"


def row(start: str) -> list[str]:
    """The cells of the card's row that begins so."""
    lines = [line for line in CARD.splitlines() if line.replace("*", "").startswith(f"| {start}")]
    assert len(lines) == 1, start
    return [cell.strip() for cell in lines[0].replace("*", "").strip("| ").split(" | ")[1:]]


def test_the_card_says_what_is_stored() -> None:
    stored = json.loads((RESULTS / "fused_harm.json").read_text())
    for start, name in (("as shipped: unsafe or gray", "unsafe or gray"), ("as shipped: unsafe alone", "unsafe")):
        f1 = [stored["air_bench"][kind][f"both, as shipped: {name}"]["f1"] for kind in ("text", "image", "pair")]
        assert row(start) == [f"{one:.3f}".lstrip("0") for one in f1]
    groups = {
        "harmful requests (6": "harmful requests", "all harmful sources (12": "all harmful sources",
        "everyday requests (9": "everyday requests", "all harmless sources that": "ordinary harmless sources",
        "all harmless sources:": "all harmless sources",
    }  # fmt: skip
    for start, name in groups.items():
        cells = row(start)
        for cell, who in zip(cells, ("jury alone", "before", "both"), strict=True):
            shown = [float(one) for one in cell.split(" / ")]
            meant = [100 * stored[who][name][part] for part in ("unsafe", "gray")]
            assert shown == pytest.approx(meant, abs=0.051), (name, who)


def test_the_card_says_how_the_attacks_went() -> None:
    tables = json.loads((RESULTS / "fused_harm_live.json").read_text())["attacks"]["tables"]
    company = {
        "none": ["as it is"],
        "calm words before": ["calm words before", "calm words after", "calm words on both sides"],
        "said to be fiction": ["said to be fiction", "said to be prevention"],
        "as a comment in code": ["as code"],
        "a German sentence": ["with a German sentence"],
        "words to the judges": ["words to the judges"],
    }
    for start, names in company.items():
        meant = [
            " / ".join(f"{tables[way][name]['blocked']} + {tables[way][name]['warned']}" for name in names)
            for way in ("before", "after")
        ]
        assert row(start) == meant


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
