"""The shelf that the console shows: experiments with their tables, and a plot as a picture."""

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
