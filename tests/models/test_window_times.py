"""How long a reader expects to read: by several windows, whatever their length, and never for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="needs the gates extra")
pytest.importorskip("onnxruntime", reason="needs the gates extra")

from lazaretto.kept_texts import KeptTexts
from lazaretto.models.deep import reader as readers
from lazaretto.models.deep.reader import KEPT, WINDOW, DeepReader, SecondReading, WindowTimes

LONG, SHORT = "berth " * 400, "berth nine"


def after(*windows: tuple[int, float]) -> WindowTimes:
    times = WindowTimes()
    for tokens, seconds in windows:
        times.took(tokens, seconds)
    return times


def test_a_short_text_before_a_long_one_does_not_raise_what_that_would_take() -> None:
    a_token, a_pass = 0.002, 0.016  # what mpnet takes, and what it takes beside its tokens
    expected = a_pass + WINDOW * a_token
    for tokens in (12, 24, 60, 200):
        assert after((tokens, a_pass + tokens * a_token)).seconds_for(WINDOW) == pytest.approx(expected, rel=0.02)


def test_one_slow_window_does_not_count() -> None:
    usual = [(40, 0.1)] * 4
    assert after(*usual, (40, 9.0)).seconds_for(40) == after(*usual).seconds_for(40)
    assert after(*usual, *[(40, 9.0)] * 5).seconds_for(40) == pytest.approx(9.0), "a machine that became slow is slow"
    assert after().seconds_for(WINDOW) == 0.0


def made() -> Any:
    reader: Any = DeepReader.__new__(DeepReader)
    reader.name, reader._times = "told", WindowTimes()
    reader._known = KeptTexts[SecondReading](1 << 16, lambda one: 300)
    encoded = SimpleNamespace(encode=lambda text, **_: SimpleNamespace(ids=text.split(), offsets=[(0, 5)] * 9999))
    reader._network = SimpleNamespace(tokenizer=encoded, begin=0, end=0, states=lambda ids: np.zeros((len(ids), 2)))
    reader._marks = reader._harm = (np.zeros(2), 0.0)
    return reader


def test_a_reader_that_was_slow_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, step = [0.0], [3.0]

    def worked() -> float:
        clock[0] += step[0] / 2
        return clock[0]

    monkeypatch.setattr(readers, "worked", worked)
    reader = made()
    reader.read(SHORT, 1e9)
    assert not reader.has_time(LONG, 1.0)
    step[0] = 0.01
    tries = 1
    while not reader.has_time(LONG, 1.0):
        tries += 1
        assert tries <= KEPT
    reader.read(LONG, 1e9)
    assert reader.has_time(LONG, 1.0) and reader.has_time(SHORT, 1.0)


def test_a_reader_that_stays_slow_is_tried_once_in_a_while() -> None:
    times, tried = after((40, 9.0)), 0
    for _ in range(10 * (KEPT + 1)):
        if times.seconds_for(40) > 1.0:
            times.not_read()
        else:
            tried += 1
            times.took(40, 9.0)
    assert tried == 10, "not every other text passes its time"


def test_what_was_read_before_takes_no_time() -> None:
    reader = made()
    reader._times.took(10, 99.0)
    reader.read(SHORT, 1e9)
    assert reader.has_time(SHORT, 0.0) and not reader.has_time(LONG, 0.0)
