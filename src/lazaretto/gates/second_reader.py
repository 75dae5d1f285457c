"""The second reader as the guard sees it: a text that earlier gates left open is read once more, by another model.

It answers only the questions that are open: does the text order an agent about (gate ``memory``), is it harmful (gate
``content``)? What it is sure of is settled; else the earlier verdict stands. It never speaks about claims, secrets or
pictures, and it clears nothing that it did not read whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from lazaretto.gates.cascade import EVEN
from lazaretto.gates.memory.text_views import View, views
from lazaretto.gates.protocol import GateContext
from lazaretto.models.deep import DeepReader, Reading, reader_for, shared_reader
from lazaretto.plugins import require
from lazaretto.policy import CLOSED, RulingWord, Share, read_settings
from lazaretto.processor_time import in_thread, left, until
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, Verdict

NAME = "second_reader"
Task = Literal["orders", "harm"]
ORDER_RULES = frozenset({"possible_order", "unknown_language"})
"""Rules of gate ``memory`` that leave open whether a text orders an agent about."""
_OPEN = (Ruling.WARN, Ruling.REVIEW)
_WORDS = {"orders": "an order to an agent", "harm": "harmful"}


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


class SecondReader:
    """Reads again what was left open."""

    name = NAME
    channels = frozenset(Channel)

    def __init__(self, settings: SecondReaderSettings, reader: DeepReader | None = None) -> None:
        """``reader``: another than those that ship, which are loaded with the first open text."""
        self.settings, self._given = settings, reader

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """The answer to what is open; without one, a verdict that clears nothing."""
        tasks, others = open_questions(context.earlier)
        if observation.image is not None or not observation.text or not tasks:
            return _no_opinion(observation, "It only reads texts that other gates left open.")
        return await in_thread(self._read, observation, tasks, others)

    def _read(self, observation: Observation, tasks: Sequence[Task], others: bool) -> Verdict:
        started = time.perf_counter()
        if left() <= 0:
            return _no_opinion(observation, "No processor time is left for a second reading.")
        name = self._given.name if self._given else reader_for(observation.text)
        if not name:
            return _no_opinion(observation, "No reader here knows its language; run: lazaretto deep setup e5")
        reader = self._given or shared_reader(name)
        readings = _all_views(reader, views(observation.text, until()), left(self.settings.most_seconds))
        cost = Cost((time.perf_counter() - started) * 1000, sum(one.tokens for _, one in readings), 1)
        found = [self._finding(observation, task, reader, readings, cost) for task in tasks]
        worst = max(found, key=lambda verdict: (verdict.ruling, verdict.risk))
        clears = worst.ruling is Ruling.ALLOW and worst.risk < EVEN
        if clears and (others or not all(one.whole for _, one in readings)):
            return _no_opinion(observation, "Something else is open that a reader of texts cannot settle.", cost)
        return worst

    def _finding(
        self,
        observation: Observation,
        task: Task,
        reader: DeepReader,
        readings: Sequence[tuple[View, Reading]],
        cost: Cost,
    ) -> Verdict:
        view, best = max(readings, key=lambda one: _score(one[1], task))
        score = _score(best, task)
        hold, clear = (reader.bar(task, rate) for rate in (self.settings.false_positive_rate, self.settings.clear_rate))
        facts = {
            "reader": reader.name,
            "score": round(score, 2),
            "hold_at": round(hold, 2),
            "clear_below": round(clear, 2),
        }
        if score > hold:
            ruling = self.settings.order if task == "orders" else self.settings.harm
            words, rule, risk = f"A second reader finds it is {_WORDS[task]}", f"second_reading_{task}", 0.9
            if task == "orders" and best.quote:
                words, facts = f"{words}: “{best.quote}”", {**facts, "view": view.name}
        elif score < clear:
            ruling, words, rule, risk = Ruling.ALLOW, f"A second reader finds it is not {_WORDS[task]}", "settled", 0.05
        else:
            ruling, words, rule, risk = (
                Ruling.ALLOW,
                f"A second reader cannot tell whether it is {_WORDS[task]}",
                "open",
                EVEN,
            )
        interval = (0.0, 0.3) if rule == "settled" else (min(0.3, risk), 1.0)
        return Verdict(
            NAME, observation.id, ruling, risk, interval, rule, (Evidence("measure", f"{words}.", facts),), cost=cost
        )


def open_questions(earlier: Sequence[Verdict]) -> tuple[tuple[Task, ...], bool]:
    """What the earlier gates left open that a reader can answer, and whether they left open anything else."""
    tasks: list[Task] = []
    others = False
    for verdict in earlier:
        if verdict.ruling not in _OPEN:
            continue
        if verdict.gate == "memory" and verdict.rule in ORDER_RULES:
            tasks.append("orders")
        elif verdict.gate == "content":
            tasks.append("harm")
        else:
            others = True
    return tuple(tasks), others


def _all_views(reader: DeepReader, several: Sequence[View], most_seconds: float) -> list[tuple[View, Reading]]:
    """Every view of the text, the plain one first, as far as the time lasts."""
    end = time.thread_time() + most_seconds
    found = [(several[0], reader.read(several[0].text, most_seconds))]
    for view in several[1:]:
        seconds = end - time.thread_time()
        if seconds <= 0 or left() <= 0:
            return [(found[0][0], _partly(found[0][1])), *found[1:]]
        found.append((view, reader.read(view.text, seconds)))
    return found


def _partly(reading: Reading) -> Reading:
    return Reading(reading.order, reading.harm, reading.reader, reading.quote, False, reading.tokens)


def _score(reading: Reading, task: Task) -> float:
    return reading.order if task == "orders" else reading.harm


def _no_opinion(observation: Observation, why: str, cost: Cost = Cost()) -> Verdict:  # noqa: B008
    """A verdict that neither holds nor clears."""
    return Verdict(
        NAME, observation.id, Ruling.ALLOW, EVEN, (0.0, 1.0), "no_opinion", (Evidence("measure", why, {}),), cost=cost
    )


def make(table: Mapping[str, Any]) -> SecondReader:
    """The gate from the policy's table; raises where its packages are absent."""
    made = SecondReader(read_settings(SecondReaderSettings, table, key=f"gates.{NAME}"))
    require("the second reader", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid")
    return made
