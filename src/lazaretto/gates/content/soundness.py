"""Whether a language model's answer says anything: a form filled with its own labels is not an opinion.

Small models copy the form, quote nothing, or contradict all without a reason. They are asked again once; then the
finding is undecided.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lazaretto.gates.content import prompts
from lazaretto.gates.content.arbitration import Order
from lazaretto.gates.content.records import DebateState, Role

if TYPE_CHECKING:
    from lazaretto.gates.content.parsing import ArbiterAnswer

_FORM = re.compile(r"^\W*(?:at most \d+ words|words of the content|string|text|\.{2,})\W*$", re.I)
"""Placeholders that many schemas have where the model's words belong."""
_COPIED = 3
"""Words from which on a part of our own instructions, repeated, is no opinion."""
_FAR = 0.3
"""Distance that a ruling must have from a debater's position, on the other side of one half, to contradict it."""
_REASONED = 6
"""Words from which on a ruling that nobody argued for counts as reasoned, if it also quotes."""


def echoes(words: str, content: str = "") -> str:
    """Why these are no words of the model's own; empty when they are. ``content`` is under audit."""
    answer = _plain(words)
    copied = len(answer.split()) >= _COPIED
    if _FORM.match(words.strip()) or (copied and answer in _own_words()):
        return "it repeats the form instead of filling it"
    if copied and answer in _plain(content):
        return "it repeats the content instead of judging it"
    return "" if words.strip() else "it gives no reason"


def _plain(words: str) -> str:
    """Words alone, with a blank on either side, so that only whole words are found."""
    return f" {' '.join(re.findall(r'[a-z0-9]+', words.lower()))} "


@cache
def _own_words() -> str:
    """All instructions of the debaters and the Arbiter."""
    duties = [prompts.debater_instructions(role, 1, 1) for role in (Role.STRICT, Role.LOOSE)]
    return "".join(map(_plain, (*duties, *map(prompts.arbiter_instructions, Order))))


def unsound_ruling(answer: ArbiterAnswer, debate: DebateState, quoted: bool) -> str:
    """Why a ruling cannot stand; empty when it can.

    ``quoted``: it quotes the content word for word. What a debater of the same mind quoted counts as well.
    """
    problem = echoes(answer.reasoning, debate.prepared.words)
    if problem and (answer.reasoning.strip() or answer.rule != "default-safe"):
        return problem
    unsafe = answer.label == "unsafe"
    shown = any(s.quotes and s.score is not None and (s.score >= 0.5) == unsafe for s in debate.speeches)
    if answer.rule != "default-safe" and not quoted and not shown:
        return "neither it nor a debater of the same mind quotes anything that stands in the content"
    positions = [s for role in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(role)) is not None]
    alone = bool(positions) and all((p >= 0.5) != unsafe and abs(p - answer.score) > _FAR for p in positions)
    if alone and (not quoted or len(answer.reasoning.split()) < _REASONED):
        return "it contradicts every debater without a reason"
    return ""
