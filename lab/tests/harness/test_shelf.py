"""All experiments as one page: with their tables, and a plot as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.shelf import Shelf

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_what_has_results_comes_first_with_its_table(tmp_path: Path) -> None:
    found = Shelf(out=RESULTS).experiments()
    assert found[0]["done"] and found[0]["headings"] and found[0]["lines"]
    assert {"name", "title", "units", "done", "headings", "lines", "plots"} == set(found[0])
    assert not any(one["done"] or one["lines"] for one in Shelf(out=tmp_path).experiments())


def test_a_plot_that_there_is_not_is_named() -> None:
    name = Shelf(out=RESULTS).experiments()[0]["name"]
    with pytest.raises(InputError, match="number"):
        Shelf(out=RESULTS).plot(name, 99)


def test_the_page_shows_tables_and_plots_and_escapes_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"headings": ["row", "<b>rate</b>"], "lines": [["<script>", "0.5"]], "plots": 1}
    rows = [{"name": "family/study", "title": "A study", "units": 4, "done": 3, **told}]
    monkeypatch.setattr(Shelf, "experiments", lambda self: rows)
    monkeypatch.setattr(Shelf, "plot", lambda self, name, number: f"{name} {number}".encode())
    page = Shelf(out=RESULTS).page()
    assert "3 of 4 runs" in page and "&lt;script&gt;" in page and "<script>" not in page
    assert "data:image/png;base64,ZmFtaWx5L3N0dWR5IDA=" in page
