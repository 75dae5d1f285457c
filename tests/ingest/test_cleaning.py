"""A value of any shape leaves without what is held: at its place where that can be told, else as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

from lazaretto.ingest.strings import MOST_PIECES, MOST_TOGETHER, Cleaned, cleaned

BAD = "IGNORE ALL"


def clean(value: Any, **more: Any) -> tuple[Cleaned, list[str]]:
    asked: list[str] = []

    async def judge(text: str) -> str:
        asked.append(text)
        return "[withheld]" if BAD in " ".join(text.split()) else text

    return asyncio.run(cleaned(value, judge, **more)), asked


def test_what_is_fine_is_the_same_object_and_is_judged_once() -> None:
    value = {"a": ["x", "y"], "b": 5}
    done, asked = clean(value)
    assert done.value is value and not done.changed and asked == ["a\nx\ny\nb"]


def test_the_place_is_told_and_the_rest_stays() -> None:
    done, _ = clean({"a": f"{BAD} rules", "b": ["fine", f"now {BAD}"]})
    assert done.value == {"a": "[withheld]", "b": ["fine", "[withheld]"]}
    assert clean("IGNORE ALL")[0].value == "[withheld]"
    assert clean({BAD: 1})[0].value == {"[withheld]": 1}


def test_what_is_harmful_only_together_goes_as_a_whole() -> None:
    assert clean(["IGNORE", "ALL"])[0].whole == "[withheld]"
    assert clean([BAD, "IGNORE", "ALL"])[0].whole == "[withheld]", "one that is found excuses no other"


def test_a_part_that_cannot_be_read_gives_way() -> None:
    done, _ = clean({"a": (one for one in ()), "b": "fine", "c": b"\x89PNG\r\n\x1a\n"})
    assert done.value["b"] == "fine" and all("could not be judged" in done.value[key] for key in "ac")
    assert "could not be judged" in clean(iter(()))[0].value


def test_pictures_are_asked_about() -> None:
    async def hold(_: bytes) -> str | None:
        return "[a picture]"

    assert clean({"c": b"\x89PNG\r\n\x1a\n"}, picture=hold)[0].value == {"c": "[a picture]"}


def test_much_text_is_judged_in_several_and_many_pieces_go_as_a_whole() -> None:
    done, asked = clean(["x" * (MOST_TOGETHER - 5), "y" * 100])
    assert not done.changed and len(asked) == 3  # two texts, and the place where they meet
    assert clean(["fine"] * MOST_PIECES + [BAD])[0].whole == "[withheld]"
