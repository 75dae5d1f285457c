"""Every published table derives from stored results, character by character, or is listed as one that does not."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.cells import before_after, bracketed, fall, plus_minus, share, share_with_bounds
from lazaretto_lab.harness.context import Outcome, UnitResult
from lazaretto_lab.harness.experiment import Row, load_experiment, units
from lazaretto_lab.harness.pages import MARKED, figure_tables, made_line, rewrite
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.tables import RowResults
from lazaretto_lab.studies.published import TABLES

REPOSITORY = Path(__file__).resolve().parents[3]
RESULTS = REPOSITORY / "lab" / "results"
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def row_of(**measures: list[float | None]) -> RowResults:
    """A row whose seeds measured these values."""
    per_seed = [dict(zip(measures, values, strict=True)) for values in zip(*measures.values(), strict=True)]
    results = [UnitResult("", "", "", seed, {}, Outcome.HELD, measures=m) for seed, m in enumerate(per_seed)]
    return RowResults(Row(name="row"), tuple(results), 0)


@pytest.mark.parametrize("page", [p for p in PAGES if MARKED.search(p.read_text())], ids=lambda p: p.stem)
def test_marked_tables_are_what_the_stored_results_say(page: Path) -> None:
    text = page.read_text()
    assert rewrite(text, TABLES, RESULTS) == text, "run: lazaretto bench pages"


def test_every_stored_experiment_is_whole_and_says_what_made_it() -> None:
    stored = sorted(p.parent for p in RESULTS.glob("*/*/manifest.json"))
    assert stored
    for folder in stored:
        experiment = load_experiment(folder.relative_to(RESULTS).as_posix())
        made = orjson.loads((folder / "manifest.json").read_bytes())
        missing = made.get("missing", [])
        known = {f"{unit.row} seed {unit.seed}": unit.key for unit in units(experiment)}
        assert set(missing) <= set(known), "the manifest names units that do not exist"
        wanted = {key for name, key in known.items() if name not in missing}
        assert ResultFolder(RESULTS, experiment.name).finished() == wanted, folder
        assert {p.name for p in folder.glob("*.json")} == {"manifest.json"}, "run: lazaretto bench pack"
        assert {"commit", "machine", "device", "python", "torch", "date"} <= set(made), folder


def test_every_table_of_figures_is_derived_or_listed() -> None:
    section = (DOCS / "bench.md").read_text().split("## Tables without stored results")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \| (.+?) \| .+ \|$", section, re.MULTILINE)
    assert listed
    used = set()
    for page in PAGES:
        name = page.relative_to(DOCS).as_posix()
        for headings in figure_tables(page.read_text()):
            covers = [(p, t) for p, t in listed if p == name and (t == "every table" or headings.startswith(t))]
            assert covers, f"{name}: the table '{headings}' is neither marked nor listed in bench.md"
            used.update(covers)
    assert used == set(listed), "listed, but not in the pages any more"


def test_every_defined_table_stands_in_a_page() -> None:
    marked = {match["name"] for page in PAGES for match in MARKED.finditer(page.read_text())}
    waiting = {headings for page in PAGES for headings in figure_tables(page.read_text())}
    for name, table in TABLES.items():
        assert name in marked or " · ".join(table.headings) in waiting, name


def test_a_changed_figure_is_found(tmp_path: Path) -> None:
    text = (DOCS / "memory-study.md").read_text()
    wrong = text.replace("| 13.1 [", "| 13.9 [")
    assert wrong != text
    assert rewrite(wrong, TABLES, RESULTS) == text
    with pytest.raises(InputError, match="no results"):
        rewrite(text, TABLES, tmp_path)
    with pytest.raises(InputError, match="no table 'memory/none'"):
        rewrite("<!-- table memory/none -->\n<!-- end table -->", TABLES, RESULTS)


def test_how_figures_are_written() -> None:
    row = row_of(
        a=[1.0, 2.0, 3.0], same=[2.0, 2.0, 2.0], some=[1.0, None, 1.0], never=[None, None, None],
        x_before=[0.1, 0.2, 0.3], x_after=[0.01, 0.01, 0.01],
    )  # fmt: skip
    assert plus_minus("a", 1)(row) == "2.0 ± 2.5"
    assert plus_minus("same", 2)(row) == "2.00"
    assert plus_minus("some", 2)(row) == "1.00 (2/3)"
    assert plus_minus("never", 2)(row) == bracketed("some", 2)(row) == "–"
    assert bracketed("a", 1)(row) == "2.0 [-0.5, 4.5]"
    assert before_after("x", 0, percent=True)(row) == "20 [-5, 45] % → 1 %"
    assert fall("x_after", 1)(row) == "−1.0 %"
    assert bracketed("a", 1)(row_of(a=[2.0])) == "2.0"
    assert share(0.87) == ".870" and share(1.0, 2) == "1.00"
    one = row_of(f1=[0.87], f1_low=[0.837], f1_high=[0.9])
    assert share_with_bounds("f1")(one) == ".870 [.837, .900]"


def test_a_table_says_what_made_it(tmp_path: Path) -> None:
    row = row_of(a=[1.0, 2.0])
    assert made_line([row], tmp_path) == "Seeds: 2. Commit: unknown. Machine: unknown; unknown."
    (tmp_path / "manifest.json").write_text('{"commit": "abc", "machine": "x86_64", "device": "cpu"}')
    assert made_line([row], tmp_path) == "Seeds: 2. Commit: abc. Machine: x86_64; cpu."
    said = UnitResult("", "", "", 0, {}, Outcome.HELD, made_with={"commit": "def", "machine": "arm", "device": "cpu"})
    mixed = RowResults(row.row, (said, *row.results), 0)
    assert made_line([mixed], tmp_path).startswith("Seeds: 3. Commit: abc (2 runs), def (1 runs).")


def test_tables_of_figures_are_told_from_tables_of_words() -> None:
    words = "| setting | default |\n|---|---|\n| agents | as you like |\n"
    figures = "| row | F1 |\n|---|---|\n| ours | **.87** |\n| theirs | > 6,000 |\n"
    assert figure_tables(f"{words}\ntext\n\n{figures}") == ["row · F1"]
    assert figure_tables(f"<!-- table a/b -->\n{figures}<!-- end table -->\n") == []
