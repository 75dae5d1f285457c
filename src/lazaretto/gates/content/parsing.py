"""Reading what a judge answered: a strict schema first, tolerant reading of free text second, never a guess.

A reader returns None for what it cannot read with certainty; the seat then asks again, and after that the engine
records the answer as unreadable. A score without a scale that is past 1, two scores that disagree, a label that
contradicts its own score: all of these are unreadable, not evidence.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lazaretto.gates.content.arbitration import CONFIRMED, DEFAULT, EXONERATED
from lazaretto.gates.content.records import Label


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class DebaterAnswer(_Answer):
    """What Strict and Loose answer."""

    argument: str = Field(min_length=1)
    risk_score: float = Field(ge=0.0, le=1.0)
    quotes: list[str] = Field(default_factory=list)
    hazards: list[str] = Field(default_factory=list)
    concede: bool = False


class PrecedentNote(_Answer):
    """Why one precedent applies, and where it differs."""

    id: str
    why: str = ""
    differs: str = ""


class SupporterAnswer(_Answer):
    """What the Supporter answers."""

    summary: str = Field(min_length=1)
    cues: list[str] = Field(default_factory=list)
    differences: list[str] = Field(default_factory=list)
    patterns: list[str] = Field(default_factory=list)
    precedents: list[PrecedentNote] = Field(default_factory=list)


class ArbiterAnswer(_Answer):
    """What the Arbiter answers."""

    rule: Literal["contextual-exoneration", "confirmed-risk", "default-safe"]
    label: Literal["safe", "unsafe"]
    score: float = Field(ge=0.0, le=1.0)
    reasoning: str = ""
    quotes: list[str] = Field(default_factory=list)
    hazards: list[str] = Field(default_factory=list)
    precedents: list[str] = Field(default_factory=list)


class CuratorAnswer(_Answer):
    """What the Curator answers about one failed case."""

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


def json_object(text: str) -> dict[str, Any] | None:
    """The one JSON object in an answer, with or without a fence or words around it; None when there is none or
    several differ.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            whole = orjson.loads(stripped)
            return whole if isinstance(whole, dict) else None
        except orjson.JSONDecodeError:
            pass
    found = [o for o in (_loads(piece) for piece in _balanced(text)) if o]
    return found[0] if found and all(o == found[0] for o in found) else None


def _loads(piece: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(piece)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _balanced(text: str) -> list[str]:
    """Outermost {...} stretches, braces inside strings ignored."""
    pieces, depth, start, quoted, escaped = [], 0, 0, False, False
    for index, char in enumerate(text):
        if quoted:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                quoted = False
        elif char == '"' and depth:
            quoted = True
        elif char == "{":
            if depth == 0:
                start = index
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                pieces.append(text[start : index + 1])
    return pieces


_NUMBER = r"(?P<value>[-+]?\d{1,3}(?:[.,]\d+)?)(?P<scale>\s*(?:/\s*\d+(?:\.\d+)?|%|out of \d+))?"
_SCORE = re.compile(
    r"(?P<whose>\b(?:my|final|overall|updated|revised|strict(?: debater)?(?:'s)?|loose(?: "
    r"debater)?(?:'s)?|opponent(?:'s)?|previous|initial)\s+)*"
    r"(?:risk[\s_-]*(?:score|level|rating)|final[\s_-]*score|score|\brisk\b|\bS\b)"
    r"[\"'*_`\s()]*(?:\bis\b|\bof\b|at|:|=|：)[\"'*_`\s(]*" + _NUMBER + r"(?P<range>\s*(?:-|–|—|to)\s*\d)?",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"strict|loose|opponent|previous|initial", re.IGNORECASE)


def scaled(value: str, scale: str | None) -> float | None:
    """A number with its scale as a share of one; None when it is out of range or has no scale and is past 1."""
    number = float(value.replace(",", "."))
    if scale and "%" in scale:
        number /= 100.0
    elif scale:
        whole = float(re.sub(r"[^\d.]", "", scale.replace("out of", "")))
        if whole <= 0:
            return None
        number /= whole
    return number if 0.0 <= number <= 1.0 else None


def score(text: str, content: str = "") -> float | None:
    """The risk score an answer states for itself. ``content``: what is under audit; a score quoted from it does not
    count.
    """
    own: list[tuple[bool, float | None]] = []
    for match in _SCORE.finditer(_unquoted(text, content)):
        whose = match.group(0)[: match.start("value") - match.start()]
        if _OTHERS.search(whose):
            continue
        value = None if match.group("range") else scaled(match.group("value"), match.group("scale"))
        own.append((bool(re.search(r"\bfinal\b|\bmy\b|updated|revised", whose, re.IGNORECASE)), value))
    chosen = [value for final, value in own if final] or [value for _, value in own]
    return chosen[0] if chosen and all(value == chosen[0] for value in chosen) else None


def _unquoted(text: str, content: str) -> str:
    """The answer without the score and verdict phrases that it repeats word for word from the content."""
    if not content:
        return text
    for pattern in (_SCORE, _LABEL_LINE):
        for match in pattern.finditer(content[:20_000]):
            text = text.replace(match.group(0), " ")
    return text


_WORD = (
    r"(?P<negation>(?:not|never|isn'?t|no longer|hardly)\s+(?:\w+\s+)?)?"
    r"\b(?P<word>unsafe|safe|harmful|harmless|benign)\b"
)
_LABEL_LINE = re.compile(
    r"(?:final[\s_-]*)?(?:judg(?:e)?ment|verdict|label|ruling|decision|classification|answer)"
    r"[\"'*_`\s]*(?:\bis\b|:|=|：)[\"'*_`\s]*"
    r"(?:the content is\s+)?" + _WORD,
    re.IGNORECASE,
)
_LABEL_WORD = re.compile(_WORD, re.IGNORECASE)
_UNSAFE_WORDS = frozenset({"unsafe", "harmful"})


def label(text: str, content: str = "") -> Label | None:
    """The label an answer gives, from its verdict line, else from its words when all agree. 'Not unsafe' is safe."""
    clean = _unquoted(text, content)
    if re.search(r"neither\s+(?:un)?safe\s+nor", clean, re.IGNORECASE):
        return None
    lines = {_word(match) for match in _LABEL_LINE.finditer(clean)}
    if lines:
        return lines.pop() if len(lines) == 1 else None
    words = {_word(match) for match in _LABEL_WORD.finditer(clean)}
    return words.pop() if len(words) == 1 else None


def _word(match: re.Match[str]) -> Label:
    unsafe = match.group("word").lower() in _UNSAFE_WORDS
    return Label.UNSAFE if unsafe != bool(match.group("negation")) else Label.SAFE


_RULE_WORDS = (
    (CONFIRMED, r"rule\s*2\b|confirmed[\s-]*risk|risk[\s-]*confirmation"),
    (EXONERATED, r"rule\s*1\b|contextual[\s-]*exoneration"),
    (DEFAULT, r"rule\s*3\b|default[\s-]*saf(?:e|ety)"),
)


def rule(text: str) -> str | None:
    """The rule an answer names as applied; None when it names none or several."""
    stated = re.findall(r"(?:rule applied|applied rule|decided by|rule)[\"'*_`\s]*[:=][^\n]*", text, re.IGNORECASE)
    where = " ".join(stated) or re.sub(r"[^.\n]*\bdoes not apply\b[^.\n]*", " ", text, flags=re.IGNORECASE)
    named = {name for name, pattern in _RULE_WORDS if re.search(pattern, where, re.IGNORECASE)}
    return named.pop() if len(named) == 1 else None


def read_debater(text: str, content: str = "") -> tuple[DebaterAnswer | None, str]:
    """(answer, problem): by the schema, else from words. A speech whose score cannot be read has a problem and no
    answer.
    """
    body = json_object(text)
    if body is not None:
        try:
            return DebaterAnswer.model_validate(_tidy(body, "risk_score")), ""
        except ValidationError as error:
            return None, _problem(error)
    read = score(text, content)
    if read is None:
        return None, "no risk score could be read"
    concede = bool(
        re.search(r"\bI (?:concede|acknowledge|agree with the strict|accept the strict)", text, re.IGNORECASE)
    )
    return DebaterAnswer(argument=text.strip()[:4000] or "(no words)", risk_score=read, concede=concede), ""


def read_arbiter(text: str, content: str = "") -> tuple[ArbiterAnswer | None, str]:
    """(answer, problem): by the schema, else from a verdict line, a score and a rule that agree with each other."""
    from lazaretto.gates.content.arbitration import contradicts, label_for

    body = json_object(text)
    if body is not None:
        try:
            answer = ArbiterAnswer.model_validate(_tidy(body, "score"))
        except ValidationError as error:
            return None, _problem(error)
    else:
        said, risk = label(text, content), score(text, content)
        named = rule(text)
        if said is None or risk is None:
            return None, "no label could be read" if said is None else "no score could be read"
        if named is None:
            named = CONFIRMED if said is Label.UNSAFE else DEFAULT
        answer = ArbiterAnswer.model_construct(
            rule=named,
            label=said.value,
            score=risk,
            reasoning=text.strip()[:4000],
            quotes=[],
            hazards=[],
            precedents=[],
        )
    if contradicts(Label(answer.label), answer.score):
        return None, f"label {answer.label!r} contradicts its score {answer.score:g}"
    if label_for(answer.rule) is not Label(answer.label):
        return None, f"label {answer.label!r} contradicts its rule {answer.rule!r}"
    return answer, ""


def read_supporter(text: str) -> tuple[SupporterAnswer | None, str]:
    """(answer, problem): by the schema, else the whole text as the summary."""
    body = json_object(text)
    if body is not None:
        try:
            return SupporterAnswer.model_validate(body), ""
        except ValidationError as error:
            return None, _problem(error)
    words = text.strip()
    return (SupporterAnswer(summary=words[:2000]), "") if words else (None, "empty answer")


def read_curator(text: str) -> tuple[CuratorAnswer | None, str]:
    """(answer, problem): by the schema only; a lesson for the library is not read out of loose words."""
    body = json_object(text)
    if body is None:
        return None, "no JSON object"
    try:
        return CuratorAnswer.model_validate(body), ""
    except ValidationError as error:
        return None, _problem(error)


def _tidy(body: dict[str, Any], number: str) -> dict[str, Any]:
    """Numbers given as words with their scale ('8/10', '80 %') and labels in capitals, made plain; all else stays for
    the schema to judge.
    """
    tidy = dict(body)
    value = tidy.get(number)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*" + _NUMBER + r"\s*", value)
        tidy[number] = scaled(match.group("value"), match.group("scale")) if match else value
    elif isinstance(value, int) and not isinstance(value, bool):
        tidy[number] = float(value)
    if isinstance(tidy.get("label"), str):
        tidy["label"] = tidy["label"].strip().lower()
    return tidy


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(p) for p in first['loc'])}: {first['msg']}"
