"""Albums and histories are values: first in first out, and never changed in place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazaretto.agents.album import Album, note_item, picture_item
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import History
from lazaretto.errors import InputError


def kept(*names: str) -> tuple[object, ...]:
    return tuple(picture_item(name.encode(), name) for name in names)


def test_an_album_drops_its_oldest_and_allows_copies() -> None:
    album = Album(3, kept("a", "b", "c"))  # type: ignore[arg-type]
    fuller = album.add(picture_item(b"c", "c"))
    assert fuller.listing == ("b", "c", "c")
    assert album.listing == ("a", "b", "c")
    assert picture_item(b"c").key in fuller


def test_an_album_made_too_full_keeps_its_newest() -> None:
    assert Album(2, kept("a", "b", "c")).listing == ("b", "c")  # type: ignore[arg-type]
    assert Album(3, kept("a", "b", "c")).replaced(1, picture_item(b"x", "x")).listing == ("a", "x", "c")  # type: ignore[arg-type]


def test_removing_takes_every_copy_and_puts_nothing_in_its_place() -> None:
    album = Album(4, kept("a", "b", "a", "c"))  # type: ignore[arg-type]
    a = picture_item(b"a").key
    assert album.without([a]).listing == ("b", "c")
    assert album.only([a]).listing == ("a", "a")
    assert album.rolled_back().listing == ("a", "b", "a")
    assert album.rolled_back(9).listing == ()
    assert album.without([a]).size == 4


def test_content_decides_what_is_the_same() -> None:
    assert picture_item(b"x", "one") == picture_item(b"x", "other")
    assert note_item("hello there").key != picture_item(b"hello").key
    assert note_item("one two three four five six seven eight").title == "one two three four five six"


@pytest.mark.parametrize("make", [lambda: picture_item(b""), lambda: note_item("  "), lambda: Album(0)])
def test_nothing_is_refused_with_a_reason(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


@given(st.lists(st.text(min_size=1), max_size=12), st.integers(0, 5))
def test_a_history_is_the_tail_of_what_was_said(said: list[str], size: int) -> None:
    history = History(size)
    for word in said:
        history = history.add(ChatRecord(word, "yes"))
    assert [record.question for record in history] == (said[-size:] if size else [])
    assert len(history.rolled_back()) == max(0, len(history) - 1)
    assert history.cleared() == History(size)
