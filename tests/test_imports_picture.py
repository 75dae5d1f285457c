"""The picture in ARCHITECTURE.md shows the imports as they are."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def tool():
    spec = importlib.util.spec_from_file_location("draw_imports", REPOSITORY / "tools" / "draw_imports.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn() -> list:
    """Every arrow; all files of both packages are read for it."""
    return tool().arrows()


def test_the_picture_is_up_to_date(drawn: list) -> None:
    draw_imports = tool()
    stored = re.search(r"<dc:description>(.*?)</dc:description>", draw_imports.PICTURE.read_text(), re.DOTALL)
    assert stored, "the picture carries no list of arrows"
    shown, found = (
        set(html.unescape(stored[1]).split("; ")),
        set(draw_imports.description(drawn).split("; ")),
    )
    assert shown == found, f"run python tools/draw_imports.py: gone {shown - found}, new {found - shown}"
    assert "docs/pictures/imports.svg" in (REPOSITORY / "ARCHITECTURE.md").read_text()


def test_every_arrow_points_down_and_none_is_implied_by_others(drawn: list) -> None:
    draw_imports = tool()
    height = draw_imports.heights(drawn)
    assert set(height) == set(draw_imports.COLUMNS), "every room has a column, every column a room"
    assert all(height[room] > height[other] for room, other in drawn)
    assert (("lazaretto", "guard"), ("lazaretto", "learn")) in drawn
    assert (("lazaretto", "guard"), ("lazaretto", "ledger")) not in drawn  # by way of others
