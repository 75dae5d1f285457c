"""The first ten minutes of a new user: what the README says the default guard holds is what it holds."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lazaretto import SyncGuard

REPOSITORY = Path(__file__).resolve().parents[1]
AGAIN = "run it again: python lab/benchmarks/first_ten_minutes.py --write"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, which stands beside its helper."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "lab" / "benchmarks"))
    import first_ten_minutes

    return first_ten_minutes


def test_the_lists_are_as_long_as_they_say_and_no_line_stands_twice(study: Any) -> None:
    lists = tomllib.loads(study.LISTS.read_text(encoding="utf-8"))
    assert (len(lists["attack"]), len(lists["benign"])) == (30, 60)
    assert max(Counter(line["text"] for group in lists.values() for line in group).values()) == 1


def test_the_readme_shows_the_stored_results(study: Any) -> None:
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert page.partition(study.START)[2].partition(study.END)[0] == study.table(study.stored()), AGAIN


@pytest.mark.slow
def test_what_is_installed_here_holds_what_the_readme_says(study: Any, tmp_path: Path) -> None:
    level = "core" if all(find_spec(module) is None for module in study.install_levels.HIDDEN["core"]) else "models"
    lacking = [m for m in study.install_levels.HIDDEN["core"] if find_spec(m) is None]
    if level == "models" and set(lacking) - set(study.install_levels.HIDDEN["models"]):
        pytest.skip(f"neither the core alone nor all of lazaretto[models]: {', '.join(lacking)} missing")
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'check --dry-run --agent ada --text "([^"]+)"|page = "([^"]+)"', page)
    assert len(shown) == 2
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}") as guard:
        rulings = [guard.remember(one or other, agent="scout", source="untrusted_document") for one, other in shown]
    assert all(decision.allowed is (level == "core") for decision in rulings), "the first screen of the README"
    held = {row["id"]: row["rule"] for row in study.judge() if row["held"]}
    assert held == {row["id"]: row["rule"] for row in study.stored()[level] if row["held"]}, AGAIN
