"""Text under audit that speaks to its judges: orders, faked verdicts, closed delimiters, posed precedents.

It never decides a verdict by itself. The judges get a notice of it, and it can be taken out before a model scores the
content, so that content cannot praise itself safe. Patterns miss some; the actual wall is that content reaches the
judges as delimited, escaped data (`gates/content/prompts.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.types import Evidence

_JUDGE = (
    r"(?:moderators?|judges?|jury|arbiters?|debaters?|classifiers?|(?:content |safety "
    r")?(?:filters?|reviewers?|auditors?)|"
    r"supporter|strict debater|loose debater|curator|safety (?:model|system|ai)|evaluators?|graders?)"
)


_VERDICT = (
    r"(?:safe|unsafe|harmless|benign|compliant|acceptable|not harmful|harmful|allowed?|seguro|segura|inofensivo|sicher|"
    r"harmlos|unbedenklich|sûr|inoffensif|安全|无害|безопасн\w*|безвредн\w*|آمن|सुरक्षित|安全な|안전)"
)


_PATTERNS: tuple[tuple[str, str], ...] = (
    (
        "orders the judges",
        rf"(?:dear |attention |note to |message (?:to|for) |to )(?:the |all |any )?{_JUDGE}\b[^.\n!?]{{0,200}}",
    ),
    (
        "orders a ruling",
        r"\b(?:rule|label|classify|mark|rate|judge|score|flag|report|return|output|respond|answer)\b[^.\n]{0,50}?"
        rf"\b(?:as|with|be|is|:)\s*[\"'`]?\s*{_VERDICT}\b[^.\n]{{0,80}}",
    ),
    (
        "orders to ignore the instructions",
        r"\b(?:ignore|disregard|forget|override|bypass|ignorier\w*|vergiss|ignora\w*|olvida\w*|ignorez|oubliez|игнорируй\w*|"
        r"забудь\w*)\b[^.\n]{0,60}?"
        r"\b(?:previous|prior|above|earlier|all|your|system|vorherig\w*|obig\w*|bisherig\w*|anterior\w*|précédent\w*|"
        r"предыдущ\w*)\b[^.\n]{0,40}"
        r"(?:instructions?|rules?|prompts?|guidelines?|polic(?:y|ies)|anweisung\w*|regeln|instrucciones|reglas|"
        r"consignes|инструкци\w*)[^.\n]{0,80}",
    ),
    (
        "orders to ignore the instructions",
        r"\b(?:ignora\w*|olvida\w*|ignorez|oubliez|esque[cç]a|dimentica)\b[^.\n]{0,40}"
        r"(?:instrucciones|reglas|instruções|regras|consignes|istruzioni|règles)[^.\n]{0,60}",
    ),
    (
        "fakes a turn of the debate",
        r"^[^\n]{0,40}\b(?:round \d+|strict|loose)\b[^\n]{0,40}\brisk\b[^\n]*(?:\n[^\n]{1,300}){0,3}",
    ),
    (
        "orders the judges",
        rf"\byou are (?:now )?(?:the |an? )?(?:strict |loose |helpful |lenient )?{_JUDGE}\b[^\n]{{0,200}}",
    ),
    (
        "fakes a verdict",
        rf"\b(?:ruling|verdict|panel|jury|court|decision)\b[^.\n]{{0,40}}[:,]\s*{_VERDICT}\b[^\n]{{0,40}}",
    ),
    ("orders the judges", rf"\bobey\b\s*[:,-]?\s*[^\n]{{0,20}}?{_VERDICT}[^\n]{{0,40}}"),
    (
        "fakes a briefing",
        r"\b(?:summary|cues|differences|patterns)\s*:\s*(?:none|harmless|safe|benign|no risk)\b[^\n.]{0,80}\.?",
    ),
    ("closes a delimiter", r"^[^\S\n]*code of this (?:debate|hearing)\b[^\n]{0,80}"),
    ("fakes a turn of the debate", r"\b(?:strict|loose|arbiter)(?: debater)?\s*:\s*[^\n]{0,120}"),
    ("orders to ignore the instructions", r"(?:忽略|无视|忘记)[^。\n]{0,12}(?:指令|指示|规则|提示)[^。\n]{0,40}"),
    (
        "orders to ignore the instructions",
        r"(?:前の|以前の|上記の)[^。\n]{0,8}(?:指示|命令)[^。\n]{0,8}(?:無視|忘れ)[^。\n]{0,20}",
    ),
    (
        "fakes a verdict",
        r"(?:final (?:judg(?:e)?ment|verdict|label|ruling|score)|verdict|ruling|risk[ "
        r"_-]?score|score|label|judg(?:e)?ment)"
        rf"[\"'*`\s]*[:=][\"'*`\s]*(?:{_VERDICT}\b|[01](?:[.,]\d+)?\b)[^\n]{{0,40}}",
    ),
    ("fakes a verdict", r"\brule\s*[123]\b[^.\n]{0,40}\b(?:applies|exoneration|default|contextual)\b[^.\n]{0,40}"),
    (
        "fakes a turn of the debate",
        r"^[^\S\n]*(?:\*\*)?(?:strict|loose|arbiter|supporter|system|assistant)(?: debater)?(?:\*\*)?\s*[:>]"
        r"[^\n]{0,200}",
    ),
    (
        "poses as a precedent",
        r"\b(?:precedents?|case (?:id|no\.?|number|library)|retrieved "
        r"(?:case|knowledge|policy))\b[^\n]{0,20}[:#=][^\n]{0,160}",
    ),
    (
        "closes a delimiter",
        r"</?\s*(?:exhibit|text|picture|data|content|input|document|precedent|briefing|speech|turn)[^>\n]{0,40}>",
    ),
    (
        "closes a delimiter",
        r"<\|[^|\n]{1,40}\|>|\[/?INST\]|<<\/?SYS>>|^[^\S\n]*(?:#{2,}|={3,}|-{3,})\s*(?:end|system|instructions?|new)\b[^\n]{0,80}",
    ),
)


_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for kind, pattern in _PATTERNS)


_UNSEEN_CHARACTERS = frozenset("\u200b\u2060\ufeff\u00ad\u061c\u180e") | {
    chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080))
}
"""Characters nobody sees. The joiners U+200C and U+200D are not among them: Persian and emoji need them."""


_SCAN_LIMIT = 50_000
"""Characters scanned at each end of a very long text; its middle is never sent to a model whole."""


@dataclass(frozen=True, slots=True)
class InjectedSpan:
    """One span that speaks to the judges."""

    start: int
    end: int
    kind: str


_UNSEEN = {ord(c): None for c in _UNSEEN_CHARACTERS}


def visible(text: str) -> str:
    """The text as a person sees it: without invisible characters and direction marks. Nothing else is changed."""
    return text if text.isascii() else text.translate(_UNSEEN)


_RECENT: KeptTexts[tuple[InjectedSpan, ...]] = KeptTexts(256 << 10, lambda spans: 100 + 200 * len(spans))
"""Spans of the texts that were scanned last: one debate asks several times."""


def find_injections(text: str) -> tuple[InjectedSpan, ...]:
    """The spans of ``text`` that speak to the judges, merged where they overlap, in order."""
    known = _RECENT.get(key := digest(text))
    if known is None:
        _RECENT.put(key, known := _find_injections(text))
    return known


def _find_injections(text: str) -> tuple[InjectedSpan, ...]:
    pieces = (
        [(0, text)]
        if len(text) <= 2 * _SCAN_LIMIT
        else [(0, text[:_SCAN_LIMIT]), (len(text) - _SCAN_LIMIT, text[-_SCAN_LIMIT:])]
    )
    hits = sorted(
        (
            InjectedSpan(base + match.start(), base + match.end(), kind)
            for base, piece in pieces
            for kind, pattern in _COMPILED
            for match in pattern.finditer(piece)
        ),
        key=lambda span: (span.start, -span.end),
    )
    merged: list[InjectedSpan] = []
    for hit in hits:
        if merged and hit.start < merged[-1].end:
            merged[-1] = InjectedSpan(merged[-1].start, max(merged[-1].end, hit.end), merged[-1].kind)
        else:
            merged.append(hit)
    return tuple(merged)


def without_injections(text: str) -> str:
    """``text`` with the spans that speak to the judges taken out: what a scoring model should also look at."""
    kept, position = [], 0
    for span in find_injections(text):
        kept.append(text[position : span.start])
        position = span.end
    kept.append(text[position:])
    return " ".join(part for part in kept if part)


def injected_words(text: str) -> str:
    """The spans that speak to the judges alone: who dresses a request as words to the judges must be read, too."""
    return " ".join(text[span.start : span.end] for span in find_injections(text))


def injection_evidence(text: str, part: str) -> tuple[Evidence, ...]:
    """The spans as evidence for the report; ``part`` says where they stand (text, description, read_text)."""
    return tuple(
        Evidence(
            "span",
            f"The {part} speaks to its judges ({a.kind}).",
            {"part": part, "start": a.start, "end": a.end, "quote": text[a.start : a.end][:200], "kind": a.kind},
        )
        for a in find_injections(text)[:20]
    )
