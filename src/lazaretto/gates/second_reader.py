"""The second reader as a gate: reads a text once more, with another model, where earlier gates left a question open.

The questions: does the text give an agent orders (gate ``memory``), is it harmful (gate ``content``)? A sure answer
settles them. It never judges claims, secrets or pictures, and clears no text that it did not read whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, Field

from lazaretto.errors import MissingExtra, ModelError, ModelUnavailable
from lazaretto.gates.engine.decision import EVEN, HEARD, SETTLES
from lazaretto.gates.protocol import MEASURED, GateContext, measured
from lazaretto.gates.secrets import shown
from lazaretto.models.deep import SMALL, DeepReader, SecondReading, measured_bar, reader_for, shared_reader
from lazaretto.models.other_readers import AskedReader, ClassifierReader, ModelAddress
from lazaretto.policy import CLOSED, RulingWord, Share, TrustPolicy, read_settings
from lazaretto.policy.plugins import require
from lazaretto.processor_time import in_thread, left, until, worked
from lazaretto.reading.text import reading_of
from lazaretto.reading.views import View
from lazaretto.types import UNHEARD, Channel, Cost, Evidence, Observation, Ruling, Verdict

NAME = "second_reader"
Task = Literal["orders", "harm"]
SETTLED = "settled"
_GATES: Mapping[Task, str] = {"orders": "memory", "harm": "content"}
"""The gate that asks each question."""
ORDER_RULES = frozenset({"possible_order", "faint_order", "unknown_language"})
"""Rules of gate ``memory`` that leave open whether a text orders an agent about."""
_OPEN = (Ruling.WARN, Ruling.REVIEW)
_WORDS = {"orders": "an order to an agent", "harm": "harmful"}
_E5 = "run: lazaretto deep setup e5"
SHIPPED = ("minilm", "mpnet", "e5")
_Readings = list[tuple[View, SecondReading]]


def check_reader(words: str) -> str:
    """Raises ``ValueError`` for a name of no reader."""
    kind, _, place = words.partition(":")
    if kind == "endpoint":
        ModelAddress.read(place)
    elif not (words in ("auto", *SHIPPED) or (kind in ("folder", "hf") and place)):
        raise ValueError("auto, minilm, mpnet, e5, folder:PATH, hf:OWNER/NAME or endpoint:ADDRESS#MODEL")
    return words


@dataclass(frozen=True, slots=True)
class SecondReaderSettings:
    """The policy's ``[gates.second_reader]``."""

    __pydantic_config__ = CLOSED
    false_positive_rate: Annotated[
        Share, Field(description="Share of honest texts of unseen sources that reaches the bar for holding.")
    ] = 0.01
    clear_rate: Annotated[
        Share, Field(description="A text below the bar that this share of honest texts reaches is cleared.")
    ] = 0.05
    order: Annotated[RulingWord, Field(description="Ruling for an order out of place.")] = Ruling.QUARANTINE
    harm: Annotated[RulingWord, Field(description="Ruling for harmful content.")] = Ruling.BLOCK
    most_seconds: Annotated[float, Field(gt=0, le=60, description="Time for one text.")] = 10.0
    reader: Annotated[
        str,
        AfterValidator(check_reader),
        Field(
            description="Who reads: auto (the best that is set up for the text's language), minilm, mpnet, e5,"
            " folder:PATH, hf:OWNER/NAME or endpoint:ADDRESS#MODEL."
        ),
    ] = "auto"
    answers: Annotated[
        tuple[Task, ...],
        Field(min_length=1, description="What a folder, hf or endpoint reader is asked; `auto` answers the rest."),
    ] = ("orders", "harm")
    labels: Annotated[
        tuple[str, ...],
        Field(description="Classes of a folder or hf reader that count, where their names do not tell."),
    ] = ()
    hold_at: Annotated[
        float, Field(description="Log-odds from which a folder, hf or endpoint reader holds; it has no measured bars.")
    ] = 3.0
    clear_below: Annotated[float, Field(description="Log-odds below which such a reader clears.")] = -3.0


class Reader(Protocol):
    """A model that reads a text a second time."""

    name: str

    def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
        """Its reading of the text."""
        ...


@dataclass(frozen=True, slots=True)
class _Bars:
    """Log-odds of one task from which a reader holds, and below which it clears."""

    hold: float
    clear: float


class SecondReader:
    """Reads texts again on questions that were left open."""

    name = NAME
    channels = frozenset(Channel)
    rates: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "false_positive_rate": (0.001, 0.005, 0.01, 0.02, 0.05),
        "clear_rate": (0.01, 0.02, 0.03, 0.05, 0.1),
    }

    def __init__(self, settings: SecondReaderSettings, reader: DeepReader | None = None) -> None:
        """``reader``: another than those that the settings name, which are loaded with the first open text."""
        self.settings, self._given = settings, reader
        self._asked: dict[Task, Reader] = {}
        self._lock = threading.Lock()

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The answer to the open questions; without one, a verdict that clears nothing."""
        tasks = self._questions(context.earlier)
        if observation.image is not None or not observation.text or not tasks:
            words = "It only reads texts that other gates left open."
            return _no_opinion(observation, Evidence("measure", words, {}))
        heard = {task: _heard(context.earlier, _GATES[task]) for task in tasks}
        suspected = tuple(task for task, answer in heard.items() if answer is not None and not answer["whole"])
        return await in_thread(self._read, observation, tasks, suspected)

    def _read(self, observation: Observation, tasks: Sequence[Task], suspected: Sequence[Task] = ()) -> Verdict:
        """``suspected``: questions that this reader may answer with yes alone, because another found harm in a part."""
        started = time.perf_counter()
        if left() <= 0:
            words = "No processor time is left for a second reading."
            return _no_opinion(observation, Evidence("measure", words, {UNHEARD: self.settings.reader}))
        several, known = reading_of(observation.text).views(until()), dict[int, _Readings]()
        found, cost, numbers = list[Verdict](), Cost(), dict[str, Any]()
        silent = list[Evidence]()
        for task in tasks:
            try:
                reader = self._reader_for(observation.text, task)
                if reader is None:
                    words = f"No reader here can tell in its language whether it is {_WORDS[task]}; {_E5}"
                    silent.append(Evidence("measure", words, {}))
                    continue
                if id(reader) not in known:
                    if isinstance(reader, DeepReader) and not reader.has_time(observation.text, left()):
                        silent.append(_unheard("There is not enough processor time left for a second reading.", reader))
                        continue
                    known[id(reader)] = _all_views(reader, several, self.settings.most_seconds)
            except (ModelError, MissingExtra) as error:
                words = f"The second reader has no answer: {error}"
                silent.append(Evidence("measure", words, {UNHEARD: self.settings.reader}))
                continue
            readings = known[id(reader)]
            if not all(reading.whole for _, reading in readings):
                silent.append(_unheard("The second reader did not read all of it.", reader))
            spent = sum(reading.tokens for every in known.values() for _, reading in every)
            cost = Cost((time.perf_counter() - started) * 1000, spent, len(known))
            score = max(_score(reading, task) for _, reading in readings)
            whole = task not in suspected and all(reading.whole for _, reading in readings)
            numbers[task] = {"reader": reader.name, "score": score, "whole": whole}
            found.append(self._finding(observation, task, reader, readings, cost))
        silent = silent or [Evidence("measure", "It could not be read whole.", {})]
        verdict = _joined(found, numbers) or _no_opinion(observation, silent[-1], cost)
        first, complete = verdict.evidence[0], len(numbers) == len(tasks)
        evidence = replace(first, data={**first.data, MEASURED: numbers}) if complete else first
        rest = [fault for fault in silent if UNHEARD in fault.data and fault != first]
        return replace(verdict, evidence=(evidence, *verdict.evidence[1:], *rest))

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Sequence[Verdict], trust: TrustPolicy
    ) -> Verdict | None:
        """As of ``Tunable``: by the scores of every question that is open now and was then."""
        numbers, found = measured(verdict), list[Verdict]()
        tasks = self._questions(earlier)
        if numbers is None or not all(task in numbers for task in tasks):
            return None
        for task in tasks:
            reader, score = str(numbers[task]["reader"]), float(numbers[task]["score"])
            rates = (self.settings.false_positive_rate, self.settings.clear_rate)
            bars = _Bars(self.settings.hold_at, self.settings.clear_below)
            if reader in SHIPPED:
                bars = _Bars(*(measured_bar(reader, task, rate) for rate in rates))
            found.append(self._answer(observation, task, reader, score, bars))
        nothing = _no_opinion(observation, Evidence("measure", "", {}), verdict.cost)
        return _joined(found, {task: numbers[task] for task in tasks}) or nothing

    def _questions(self, earlier: Sequence[Verdict]) -> tuple[Task, ...]:
        """The open questions, without those that the same reader has answered already on all of the text."""
        foreign = self._given is not None or ":" in self.settings.reader
        found = list[Task]()
        for task in open_questions(earlier):
            heard = _heard(earlier, _GATES[task])
            same = heard is not None and self.settings.reader in ("auto", heard["reader"]) and heard["whole"]
            if not same or (foreign and task in self.settings.answers):
                found.append(task)
        return tuple(found)

    def _reader_for(self, text: str, task: Task) -> Reader | None:
        """The reader to ask; None where there is none."""
        if self._given is not None:
            return self._given
        kind, _, place = self.settings.reader.partition(":")
        if place and task in self.settings.answers:
            with self._lock:
                if task not in self._asked:
                    self._asked[task] = self._foreign(kind, place, task)
                return self._asked[task]
        name = self.settings.reader if self.settings.reader in SHIPPED else reader_for(text, task)
        if name == SMALL:
            return _small_reader()
        return shared_reader(name) if name else None

    def _foreign(self, kind: str, place: str, task: Task) -> Reader:
        if kind == "endpoint":
            return AskedReader(ModelAddress.read(place), task)
        where = place if kind == "folder" else f"hf:{place}"
        return ClassifierReader(where, task, self.settings.labels)

    def _bars(self, reader: Reader, task: Task) -> _Bars:
        if isinstance(reader, DeepReader):
            rates = (self.settings.false_positive_rate, self.settings.clear_rate)
            return _Bars(*(reader.bar(task, rate) for rate in rates))
        return _Bars(self.settings.hold_at, self.settings.clear_below)

    def _finding(
        self, observation: Observation, task: Task, reader: Reader, readings: _Readings, cost: Cost
    ) -> Verdict:
        view, best = max(readings, key=lambda pair: _score(pair[1], task))
        bars = self._bars(reader, task)
        found = self._answer(observation, task, reader.name, _score(best, task), bars)
        evidence = found.evidence[0]
        if found.rule == "second_reading_orders" and best.quote:
            words = f"A second reader finds it is {_WORDS[task]}: “{shown(best.quote)}”."
            evidence = replace(evidence, summary=words, data={**evidence.data, "view": view.name})
        return replace(found, evidence=(evidence,), cost=cost)

    def _answer(self, observation: Observation, task: Task, reader: str, score: float, bars: _Bars) -> Verdict:
        """The verdict for a score by these bars."""
        facts: dict[str, Any] = {
            "reader": reader,
            "score": round(score, 2),
            "hold_at": round(bars.hold, 2),
            "clear_below": round(bars.clear, 2),
        }
        if score > bars.hold:
            ruling = self.settings.order if task == "orders" else self.settings.harm
            words, rule, risk = f"A second reader finds it is {_WORDS[task]}", f"second_reading_{task}", 0.9
        elif score < bars.clear:
            ruling, words, rule, risk = Ruling.ALLOW, f"A second reader finds it is not {_WORDS[task]}", SETTLED, 0.05
            facts = {**facts, SETTLES: _GATES[task]}
        else:
            ruling, words, rule, risk = (
                Ruling.ALLOW,
                f"A second reader cannot tell whether it is {_WORDS[task]}",
                "open",
                EVEN,
            )
        interval = (0.0, 0.3) if rule == SETTLED else (min(0.3, risk), 1.0)
        evidence = Evidence("measure", f"{words}.", facts)
        return Verdict(NAME, observation.id, ruling, risk, interval, rule, (evidence,))


def _small_reader() -> DeepReader:
    """The reader that ships. Where its file is damaged the gate has failed: the fail mode rules."""
    try:
        return shared_reader(SMALL)
    except ModelUnavailable as error:
        raise RuntimeError(str(error)) from None


def _joined(found: Sequence[Verdict], numbers: Mapping[str, Any]) -> Verdict | None:
    """One verdict of the answers to all questions: the strictest, or one that clears the settled questions and leaves
    the others open; None where there is neither. A text that was not read whole settles nothing."""
    worst = max(found, key=lambda verdict: (verdict.ruling, verdict.risk), default=None)
    whole = [bool(answer["whole"]) for answer in numbers.values()]
    settled = [verdict for verdict, read in zip(found, whole, strict=True) if verdict.rule == SETTLED and read]
    if settled and worst is not None and worst.ruling is Ruling.ALLOW:
        return replace(settled[-1], evidence=tuple(evidence for verdict in settled for evidence in verdict.evidence))
    return worst if worst is not None and worst.rule != SETTLED else None


def open_questions(earlier: Sequence[Verdict]) -> tuple[Task, ...]:
    """The questions that earlier gates left open and a reader can answer."""
    tasks: list[Task] = []
    for verdict in earlier:
        if verdict.ruling not in _OPEN:
            continue
        if verdict.gate == "memory" and verdict.rule in ORDER_RULES:
            tasks.append("orders")
        elif verdict.gate == "content":
            tasks.append("harm")
    return tuple(tasks)


def _heard(earlier: Sequence[Verdict], gate: str) -> Mapping[str, Any] | None:
    """The reader's answer that a gate's verdict uses already."""
    notes = (evidence.data for verdict in earlier if verdict.gate == gate for evidence in verdict.evidence)
    return next((data[HEARD] for data in notes if HEARD in data), None)


def _all_views(reader: Reader, several: Sequence[View], most_seconds: float) -> _Readings:
    """Every view of the text, the plain one first, as far as the time lasts: that of the processor for models in this
    process, that of the clock for others."""
    clock = worked if isinstance(reader, DeepReader) else time.monotonic
    end = clock() + left(most_seconds)
    found = [(several[0], reader.read(several[0].text, left(most_seconds)))]
    for view in several[1:]:
        seconds = min(end - clock(), left())
        if not (reader.has_time(view.text, seconds) if isinstance(reader, DeepReader) else seconds > 0):
            return [(found[0][0], _partly(found[0][1])), *found[1:]]
        found.append((view, reader.read(view.text, seconds)))
    return found


def _partly(reading: SecondReading) -> SecondReading:
    return SecondReading(reading.order, reading.harm, reading.reader, reading.quote, False, reading.tokens)


def _score(reading: SecondReading, task: Task) -> float:
    return reading.order if task == "orders" else reading.harm


def _unheard(words: str, reader: Reader) -> Evidence:
    """A reader that is set up did not read the text, or not all of it."""
    return Evidence("measure", words, {UNHEARD: reader.name})


def _no_opinion(observation: Observation, why: Evidence, cost: Cost = Cost()) -> Verdict:  # noqa: B008
    """A verdict that neither holds nor clears."""
    return Verdict(NAME, observation.id, Ruling.ALLOW, EVEN, (0.0, 1.0), "no_opinion", (why,), cost=cost)


def make(table: Mapping[str, Any]) -> SecondReader:
    """The gate from the policy's table; raises where its packages are absent."""
    made = SecondReader(read_settings(SecondReaderSettings, table, key=f"gates.{NAME}"))
    require("the second reader", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")
    return made
