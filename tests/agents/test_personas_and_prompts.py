"""Personas differ and come back with their seed; prompts hold what a turn needs and nothing more."""

from __future__ import annotations

import pytest

from lazaretto.agents.prompts import (
    FIELDS,
    PLAN_TASK,
    ChatRecord,
    answer_request,
    persona_pool,
    picture_title,
    plan_request,
    question_request,
)
from lazaretto.errors import InputError

PEOPLE = persona_pool(2500, 0)


def test_pool_is_large_distinct_and_seeded() -> None:
    assert len(set(PEOPLE)) == 2500
    assert persona_pool(2500, 0) == PEOPLE
    assert persona_pool(100, 0) == PEOPLE[:100]
    assert not set(persona_pool(100, 1)) & set(PEOPLE[:100])
    assert len(FIELDS) >= 14
    assert all(tuple(field for field, _ in person.attributes) == FIELDS for person in PEOPLE)


def test_styles_and_colours_come_in_different_pairs() -> None:
    assert all(p["style 1"] != p["style 2"] and p["colour 1"] != p["colour 2"] for p in PEOPLE)


def test_plan_sees_persona_last_three_records_and_titles_but_no_pixels() -> None:
    history = [ChatRecord(f"question {i}", f"answer {i}") for i in range(5)]
    request = plan_request(PEOPLE[0], history, ["two red boats", "a key"])
    text = request.messages[0].text
    assert request.messages[0].images == ()
    assert all(f"{field}: {value}" in text for field, value in PEOPLE[0].attributes)
    assert "question 1" not in text and "question 2" in text and "question 4" in text
    assert "- two red boats\n- a key\n" + PLAN_TASK in text


def test_question_and_answer_carry_the_picture_or_the_note() -> None:
    asked = question_request(PEOPLE[0], [], image=b"png")
    assert asked.messages[0].images == (b"png",)
    told = answer_request(PEOPLE[1], [], "why?", note="buy milk")
    assert told.messages[0].images == () and "buy milk" in told.messages[0].text and "why?" in told.messages[0].text


@pytest.mark.parametrize("content", [{}, {"image": b"x", "note": "y"}])
def test_a_turn_is_about_exactly_one_thing(content: dict[str, object]) -> None:
    with pytest.raises(InputError, match="picture or a note"):
        question_request(PEOPLE[0], [], **content)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("two-red-boats.png", "two red boats"),
        ("a\\b/my_cat 01.jpg", "my cat 01"),
        ("", "untitled"),
        ("-.x", "untitled"),
    ],
)
def test_titles_come_from_file_names(name: str, title: str) -> None:
    assert picture_title(name) == title
