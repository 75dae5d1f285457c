"""The trial head for orders in mild words: what is left out is not seen, and a stretch of a page counts by itself."""

import numpy as np

from lazaretto_lab.training.mild.training import (
    STRETCH_TOKENS,
    Line,
    Material,
    bar_of,
    fitted,
    left_out,
    strongest_stretch,
)


def test_a_stretch_in_a_long_page_counts_as_much_as_alone() -> None:
    marks = np.full(200, -1.0)
    marks[96 : 96 + STRETCH_TOKENS] = 2.0
    assert strongest_stretch(marks) == 2.0 and strongest_stretch(marks[96:144]) == 2.0
    assert strongest_stretch(marks[:20]) == -1.0 and strongest_stretch(np.empty(0)) == -np.inf
    assert strongest_stretch(marks[: 96 + STRETCH_TOKENS]) == 2.0, "the end is read, too"


def test_the_fit_finds_what_tells_the_two_apart() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(400) % 2
    x = rng.normal(size=(400, 5)) + np.outer(y, [0, 0, 3, 0, 0])
    row, bias = fitted(x, y.astype(float), np.ones(400))
    assert int(np.argmax(np.abs(row))) == 2 and np.mean((x @ row + bias > 0) == y) > 0.8


def test_a_text_is_scored_by_a_fit_that_has_not_seen_its_group() -> None:
    """A sign that stands in one group alone says nothing of that group."""
    state = np.zeros((3, 4), np.float16)
    read = [Line(f"t{n}", n % 2 == 1, "mild", "", "en", n // 10) for n in range(40)]
    states = []
    for n, one in enumerate(read):
        mine = state.copy()
        mine[1:, one.fold] = 1.0 if one.order else -1.0
        mine[1:, 3] += n % 3 / 10
        states.append(mine)
    material = Material(read, states, np.array([one[1:].astype(float).mean(axis=0) for one in states]))
    score = left_out(material, material.column("fold"))
    order = material.column("order")
    assert abs(score[order].mean() - score[~order].mean()) < 0.3
    row, bias = material.fit(np.ones(40, np.bool_))
    seen = material.scores((row, bias), range(40))
    assert seen[order].mean() - seen[~order].mean() > 0.5


def test_the_bar_is_the_stricter_of_both() -> None:
    score = np.concatenate([np.linspace(0, 1, 1001), np.linspace(2, 3, 101)])
    notes = np.arange(len(score)) < 1001
    assert bar_of(score, notes, ~notes) > 2.9
