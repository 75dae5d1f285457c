"""Reads what a judge answered: by the schema that the request carried, never by guessing.

An endpoint without structured outputs may put words around the JSON object, or answer in lines such as ``Risk score:
8/10``; both are read where they are unambiguous. Otherwise the role is asked again, and then the answer is recorded as
unreadable: a score past 1 without a scale, two scores that differ, a label that contradicts its score.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lazaretto.cases.records import Label
from lazaretto.gates.content import prompts
from lazaretto.gates.content.records import DebateState, Order, Role, contradicts, label_for

A = TypeVar("A", bound="Answer")
_MOST_WORDS = 4000
"""Characters of an answer without JSON that are kept."""
_FEW: Any = Field(default_factory=list, json_schema_extra={"maxItems": 8})
"""A list that the request's schema keeps short, because small models go round in circles in it; a longer one that comes
all the same is read."""


class Answer(BaseModel):
    """The answer of a role; the JSON schema of its fields goes with the request."""

    model_config = ConfigDict(extra="ignore", strict=True)
    words: ClassVar[str] = ""
    """The field that takes the whole text of an answer without JSON; empty: such an answer cannot be read."""


class DebaterAnswer(Answer):
    """The answer of Strict and Loose."""

    words: ClassVar[str] = "argument"
    argument: str = Field(min_length=1)
    risk_score: float = Field(ge=0.0, le=1.0)
    quotes: list[str] = _FEW
    hazards: list[str] = _FEW
    concede: bool = False


class PrecedentNote(Answer):
    """Why one precedent applies, and where it differs."""

    id: str
    why: str = ""
    differs: str = ""


class SupporterAnswer(Answer):
    """The answer of the Supporter."""

    words: ClassVar[str] = "summary"
    summary: str = Field(min_length=1)
    cues: list[str] = _FEW
    differences: list[str] = _FEW
    patterns: list[str] = _FEW
    precedents: list[PrecedentNote] = Field(default_factory=list, json_schema_extra={"maxItems": 20})


class ArbiterAnswer(Answer):
    """The answer of the Arbiter: rule, label and score must agree. Models write the keys in this order, so the grounds
    come before the ruling.
    """

    words: ClassVar[str] = "reasoning"
    quotes: list[str] = _FEW
    reasoning: str = ""
    rule: Literal["contextual-exoneration", "confirmed-risk", "default-safe"]
    label: Literal["safe", "unsafe"]
    score: float = Field(ge=0.0, le=1.0)
    hazards: list[str] = _FEW
    precedents: list[str] = _FEW

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> ArbiterAnswer:
        if contradicts(Label(self.label), self.score):
            raise ValueError(f"label {self.label!r} contradicts its score {self.score:g}")
        if label_for(self.rule) is not Label(self.label):
            raise ValueError(f"label {self.label!r} contradicts its rule {self.rule!r}")
        return self


class CuratorAnswer(Answer):
    """The answer of the Curator about one failed case. A lesson is never read out of loose words."""

    summary: str = Field(min_length=1)
    key_cues: list[str] = Field(min_length=1, max_length=6)
    hazards: list[str] = Field(default_factory=list)


_SCHEMAS: dict[type[BaseModel], dict[str, Any]] = {}


def schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema sent with a request, in the closed form that structured outputs ask for: every key required, no
    others.
    """
    if answer not in _SCHEMAS:
        _SCHEMAS[answer] = _closed(answer.model_json_schema())
    return _SCHEMAS[answer]


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _closed(value) for key, value in node.items() if key not in ("title", "default", "description")}
    if kept.get("type") == "object" and "properties" in kept:
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept


def read(shape: type[A], text: str, content: str = "") -> tuple[A | None, str]:
    """(answer, problem), one of them empty. Lines repeated from ``content``, which is under audit, do not count."""
    body = json_object(text)
    if body is None and shape.words and "{" not in text:
        body = _from_lines(shape.words, text, content)
    if body is None:
        return None, "not one JSON object"
    try:
        return shape.model_validate(_tidy(body)), ""
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return None, ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)


def json_object(text: str) -> dict[str, Any] | None:
    """The one JSON object in an answer, with or without a fence or words around it; None when there is none, several
    differ, or a brace opens anything else.
    """
    found: list[dict[str, Any]] = []
    start = text.find("{")
    while start >= 0:
        try:
            _, end = _DECODER.raw_decode(text, start)
            found.append(orjson.loads(text[start:end]))  # the stricter of the two: no NaN, no half characters
        except (ValueError, RecursionError):
            return None
        start = text.find("{", end)
    return found[0] if found and all(other == found[0] for other in found) else None


_DECODER = json.JSONDecoder()
_LINE = re.compile(
    r"^[ \t*_`#-]*(?:final |my )?(risk[ _]score|score|label|verdict|judge?ment|rule|concede)[ \t*_`]*[:=](.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_FIELDS = {"risk score": "score", "verdict": "label", "judgment": "label", "judgement": "label"}
_NUMBER = re.compile(r"\s*(-?\d{1,3}(?:[.,]\d+)?)\s*(?:(%)|(?:/|out of)\s*(\d{1,4}))?\s*")


def _from_lines(words: str, text: str, content: str) -> dict[str, Any]:
    """The fields that an answer names in lines of their own; one that is named with two values is left out."""
    named: dict[str, set[str]] = {}
    for line in _LINE.finditer(text):
        if line.group().strip() not in content:
            name = line.group(1).lower().replace("_", " ")
            named.setdefault(_FIELDS.get(name, name), set()).add(line.group(2).strip(" \t*_`.").lower())
    plain = {name: values.pop() for name, values in named.items() if len(values) == 1}
    if "score" in plain:
        plain["risk_score"] = plain["score"]  # each shape takes the one it knows
    return {**plain, words: text.strip()[:_MOST_WORDS]}


def _tidy(body: dict[str, Any]) -> dict[str, Any]:
    """Scores given with their scale ('8/10', '80 %'), labels in capitals, yes or no, numbers of precedents in lists and
    words given in pieces made plain; all else stays for the schema to judge.
    """
    tidy: dict[str, Any] = {
        name: [_id(part) for part in value] if isinstance(value, list) else value for name, value in body.items()
    }
    for name, plain in (("risk_score", _share), ("score", _share), ("label", _word), ("concede", _yes_or_no)):
        if isinstance(tidy.get(name), str):
            tidy[name] = plain(tidy[name])
    for name in ("argument", "reasoning", "summary"):
        pieces = tidy.get(name)
        if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
            tidy[name] = " ".join(pieces)
    return tidy


def _id(value: Any) -> Any:
    """A whole number that stands where an id does, as its digits: endpoints without structured outputs write both."""
    if isinstance(value, dict):
        return {**value, "id": _id(value["id"])} if "id" in value else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _share(text: str) -> float | str:
    """A number with its scale as a share of one; the text itself when it is none."""
    match = _NUMBER.fullmatch(text)
    if not match:
        return text
    value, percent, whole = match.groups()
    scale = 100.0 if percent else float(whole or 1)
    return float(value.replace(",", ".")) / scale if scale else text


def _word(text: str) -> str:
    return text.strip().lower()


def _yes_or_no(text: str) -> bool | str:
    return {"true": True, "yes": True, "false": False, "no": False}.get(_word(text), text)


# Whether a language model's answer says anything: a form filled with its own labels is not an opinion.
#
# Small models copy the form, quote nothing, or contradict all without a reason. They are asked again once; then the
# finding is undecided.

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
