"""Orders in text memories: marked by a model that says how sure it is, and by the words of four languages.

One pass of all-MiniLM-L6-v2 with a small adapter marks every token; the most suspicious stretch decides, so a short
order in a long document is not averaged away. Sentences in unknown languages are left out and named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.language import Stretch, surely_in, without
from lazaretto.models.minilm import Encoder, Tokens, split_heads
from lazaretto.models.weight_files import Arrays, read_weights
from lazaretto.processor_time import is_over, worked
from lazaretto.reading.long_texts import shortened
from lazaretto.reading.text import chosen_windows, reading_of
from lazaretto.reading.views import View

WEIGHTS = Path(__file__).parents[2] / "models" / "weights" / "screener"
TOP_TOKENS = 6
"""As in training: the logit of a window is the mean of its most suspicious tokens."""
MOST_SECONDS = 3.0
"""Processor time of this thread for one text with all its readings, languages and windows. The most suspicious windows
are read first, and ``Screening.whole`` is false when some were not. Waiting on a busy machine does not count."""
MILD_AT = 5.0
"""Least sum of the logit for orders and of what both other heads find (``Screening.mild``): one in two hundred honest
texts reaches it (decision 0165)."""
GRAY = 0.3
"""The risk from which on a text may be an order; it is never called free of orders."""
_KEPT_BYTES = 1 << 20
"""Memory for the logits of windows that were read last."""
_SPAN_LOGIT = 0.0
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_MOST_AROUND = 160
"""Characters before and after a stretch among which its sentence is looked for."""
MOST_QUOTED = 160
"""Characters that a reason quotes."""
_ORDERS, _QUIET, _TOOLS = range(3)
"""Rows of the head, as in training."""
_AS_SEEN = ("entities", "unmasked", "plain")
"""Readings of the whole text as a reader sees it, the plainest first: unknown languages are looked for in these."""


@dataclass(frozen=True, slots=True)
class OrderSpan:
    """A stretch that reads like an order."""

    start: int
    end: int
    text: str
    logit: float
    view: str
    """The reading of the text that it stands in."""
    quote: str = ""
    """The sentences it stands in, for people, who cannot judge a fragment."""


@dataclass(frozen=True, slots=True)
class UnreadLanguage:
    """A part of the text in a language that the model was not made for."""

    start: int
    end: int
    text: str
    language: str
    latin: bool
    """Whether it is written in Latin letters."""
    sure: bool
    """False for a fragment: a name or a title, too short to say what language it is in."""


@dataclass(frozen=True, slots=True)
class Screening:
    """The result for one text."""

    risk: float
    """From 0 to 1, read off honest texts that the model had never seen: .3 is what one in twenty of them reaches, .6
    one in a hundred, .9 one in a thousand."""
    interval: tuple[float, float]
    logit: float
    language: str
    """Code of the text's language; ``en`` for code, tables and fragments."""
    known_language: bool
    """Whether the model was made for all languages of this text."""
    spans: tuple[OrderSpan, ...]
    whole: bool
    """False when the text was too long to read completely."""
    unread: tuple[UnreadLanguage, ...] = ()
    """Sentences in other languages."""
    mixed_logit: float | None = None
    """The logit of all that is in Latin letters, other languages included; None where there are none. The model was
    not made for it, so only a high one means something."""
    mild: float = -math.inf
    """Above 0 for an order in mild words, which the head for orders does not find alone: one window both has something
    in it that a description of a tool would not say and would weaken a control or send something away, by the heads for
    these, and with its logit it reaches ``MILD_AT``."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """From logit to risk, measured on corpora the model had not seen when it scored them."""

    thresholds: dict[str, float]
    """False-positive rate (as a string) -> logit above which to act."""
    logits: tuple[float, ...]
    """Knots, rising."""
    risk: tuple[float, ...]
    spread: float
    """How far a logit moves when the model is trained again: half of the interval."""
    languages: tuple[str, ...]
    """Languages in which it was measured to be good."""
    shift: Mapping[str, float] = field(default_factory=dict)
    """Language -> by how much honest notes of work read more like orders than English ones; a logit is taken down by
    it."""
    tools: Mapping[str, float] = field(default_factory=dict)
    """Bars for descriptions of tools: ``sign`` (one sign among others) and ``refuse`` (enough by itself)."""
    quiet: float = 0.0
    """Taken off every logit for quiet lies, so that honest notes score as they did when its reader was made."""

    def at(self, logit: float) -> tuple[float, float, float]:
        """Risk and its interval."""
        ends = (logit, logit - self.spread, logit + self.spread)
        risk, low, high = (float(np.interp(end, self.logits, self.risk)) for end in ends)
        return risk, low, high

    def threshold(self, false_positive_rate: float) -> float:
        """The logit that held this false-positive rate on unseen benign text; between measured rates, the stricter."""
        rates = sorted(float(r) for r in self.thresholds)
        chosen = max((r for r in rates if r <= false_positive_rate + 1e-12), default=rates[0])
        return self.thresholds[str(chosen)]


_Marked = tuple[Tokens, NDArray[np.float32]]
"""A window, with a logit per head and token."""


class TextScreener:
    """Loads once, screens many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, self.calibration = _load(weights)
        adapter, head = split_heads(arrays)
        self._heads, self._biases = head["weight"], np.array(head["bias"], np.float32)
        self._biases[_QUIET] -= self.calibration.quiet
        self._encoder = Encoder(adapter, int8=True)
        self._read: KeptTexts[NDArray[np.float32]] = KeptTexts(_KEPT_BYTES, lambda marks: int(marks.nbytes))

    def screen(self, texts: Sequence[str], most_seconds: float = MOST_SECONDS) -> list[Screening]:
        """One screening per text, in order; at most so long for each."""
        return [self._screen(text, most_seconds) for text in texts]

    def _screen(self, text: str, most_seconds: float) -> Screening:
        until = worked() + most_seconds  # for all of it: readings, languages and windows, too
        part = shortened(text)
        if part is None:
            return self._screened(text, until)
        made = self._screened(part.text, until)
        at = part.in_whole
        spans = tuple(replace(span, start=at(span.start), end=at(span.end)) for span in made.spans)
        unread = tuple(replace(part, start=at(part.start), end=at(part.end)) for part in made.unread)
        return replace(made, whole=False, interval=(made.interval[0], 1.0), spans=spans, unread=unread)

    def _screened(self, text: str, until: float) -> Screening:
        readings, apart = reading_of(text).views(until), list[tuple[Stretch, ...]]()
        in_time = not is_over(until)
        for view in readings:
            if apart and is_over(until):
                break
            apart.append(reading_of(view.text).unknown(self.calibration.languages, until))
        in_time &= len(apart) == len(readings) and not is_over(until)
        readings = readings[: len(apart)]
        seen = next((n for name in _AS_SEEN for n, view in enumerate(readings) if view.name == name), 0)
        if not apart[seen]:  # it is foreign in its disguise alone
            apart = [() if view.name in _AS_SEEN else u for view, u in zip(readings, apart, strict=True)]
        unread = _unread(readings[seen].text, apart[seen])
        unread = unread and (_unread(readings[0].text, apart[0]) or unread)  # in the text's own words
        # scripts that the model does not know are taken out, languages in Latin letters are read apart
        read = [
            replace(v, text=without(v.text, [s for s in u if not s.latin]))
            for v, u in zip(readings, apart, strict=True)
        ]
        known = {view: _known(view, [s for s in u if s.latin]) for view, u in zip(read, apart, strict=True)}
        left = [view for view, u in zip(read, apart, strict=True) if not u or any(map(str.isalpha, view.text))]
        marked, whole = self._marked(left, until)
        whole &= in_time
        several = [(known[view], window, marks) for view, many in marked.items() for window, marks in many]
        language = reading_of(without(readings[seen].text, apart[seen])).language
        shift = self.calibration.shift.get(language, 0.0)
        logit = max((_pooled(win, marks[_ORDERS], mask) for mask, win, marks in several), default=-math.inf) - shift
        if shift:  # an English sentence is no milder for the language of those around it
            logit = max(logit, _in_english(marked, known))
        mixed = max((_pooled(win, marks[_ORDERS]) for mask, win, marks in several if mask is not None), default=None)
        mild = max((self._mild(win, marks, mask) for mask, win, marks in several), default=-math.inf)
        mild = min(mild, mild + logit - MILD_AT)
        spans = tuple(s for view, many in marked.items() for s in _spans(view, many))[:8]
        lowest = self.calibration.logits[0]
        if unread and math.isinf(logit):  # nothing in a known language is left: no opinion
            return Screening(0.5, (0.0, 1.0), lowest, unread[0].language, False, spans, whole, unread, mixed)
        risk, low, high = self.calibration.at(max(logit, lowest))
        interval = (low, high if whole and not unread else 1.0)
        return Screening(risk, interval, max(logit, lowest), language, not unread, spans, whole, unread, mixed, mild)

    def _mild(self, window: Tokens, marks: NDArray[np.float32], known: NDArray[np.bool_] | None) -> float:
        sign = self.calibration.tools.get("sign", math.inf)
        return min(_pooled(window, marks[_TOOLS], known) - sign, _pooled(window, marks[_QUIET], known))

    def quiet_lie(self, text: str) -> float:
        """The logit that a statement would weaken a control, or send something of the crew's to a new place."""
        return self._strongest(text, _QUIET)

    def poison_in_description(self, text: str) -> float:
        """The logit that the description of a tool has something in it that a tool need not say."""
        return self._strongest(text, _TOOLS)

    def _strongest(self, text: str, head: int) -> float:
        windows, _ = chosen_windows([View("plain", text)])
        return max((_pooled(window, self._marks(window)[head]) for _, window in windows), default=-math.inf)

    def _marks(self, window: Tokens) -> NDArray[np.float32]:
        """A logit per head and token, from one pass; a window that comes again is not read again."""
        key = digest(" ".join(map(str, window.ids)))
        marks = self._read.get(key)
        if marks is None:
            marks = self._heads @ self._encoder.token_states([window.ids])[0].T + self._biases[:, None]
            self._read.put(key, marks)
        return np.asarray(marks, np.float32)

    def _marked(self, readings: Sequence[View], until: float) -> tuple[dict[View, list[_Marked]], bool]:
        """Every window that there was time for, and whether these are all."""
        windows, whole = chosen_windows(readings, until=until) if readings else ([], True)
        marked: dict[View, list[_Marked]] = {}
        last = 0.0
        for view, window in windows:
            if marked and is_over(until, last):
                return marked, False
            began = worked()
            marked.setdefault(view, []).append((window, self._marks(window)))
            last = worked() - began
        return marked, whole


def _known(view: View, unknown: Sequence[Stretch]) -> NDArray[np.bool_] | None:
    """For each character, whether it is in a language that the model knows; None where all are."""
    if not unknown:
        return None
    mask = np.ones(len(view.text), dtype=np.bool_)
    for stretch in unknown:
        mask[stretch.start : stretch.end] = False
        for start, end in stretch.inner:
            mask[start:end] = True
    return mask


def _unread(text: str, unknown: Sequence[Stretch]) -> tuple[UnreadLanguage, ...]:
    """The parts that a person has to read; fragments only where there is nothing else."""
    sure = [stretch for stretch in unknown if stretch.sure]
    named = sure or ([] if any(map(str.isalpha, without(text, unknown))) else unknown)
    return tuple(
        UnreadLanguage(part.start, part.end, text[part.start : part.end], part.language, part.latin, part.sure)
        for part in named
    )


def _pooled(window: Tokens, marks: NDArray[np.float32], known: NDArray[np.bool_] | None = None) -> float:
    inner = marks[1:]
    if known is not None:
        inner = inner[[end > start and bool(known[start]) for start, end in window.offsets[1:]]]
    if len(inner) == 0:
        return -math.inf
    top = np.partition(inner, -min(TOP_TOKENS, len(inner)))[-TOP_TOKENS:]
    return float(top.mean())


def _in_english(marked: Mapping[View, list[_Marked]], known: Mapping[View, NDArray[np.bool_] | None]) -> float:
    """The strongest logit of a window whose strongest sentence is surely English."""
    found = -math.inf
    for view, several in marked.items():
        for window, marks in several:
            logit = _pooled(window, marks[_ORDERS], known[view])
            if logit > found and surely_in(_strongest_sentence(view.text, window, marks[_ORDERS]), "en"):
                found = logit
    return found


def _strongest_sentence(text: str, window: Tokens, marks: NDArray[np.float32]) -> str:
    start, end = window.offsets[int(np.argmax(marks))]
    before = [found.end() for found in _END_OF_SENTENCE.finditer(text, max(0, start - _MOST_AROUND), start)]
    after = _END_OF_SENTENCE.search(text, max(start, end - 1), end + _MOST_AROUND)
    first = before[-1] if before else max(0, start - _MOST_AROUND)
    return text[first : after.start() if after else end + _MOST_AROUND]


def _spans(view: View, several: list[_Marked]) -> list[OrderSpan]:
    """Runs of suspicious tokens as stretches of the view's text, overlapping windows merged."""
    best: dict[tuple[int, int], float] = {}
    for tokens, marks in several:
        for (start, end), mark in zip(tokens.offsets, marks[_ORDERS].tolist(), strict=True):
            if end > start and mark > _SPAN_LOGIT:
                best[(start, end)] = max(mark, best.get((start, end), -math.inf))
    spans: list[OrderSpan] = []
    run: list[tuple[int, int, float]] = []
    for (start, end), mark in [*sorted(best.items()), ((10**12, 10**12), 0.0)]:
        if run and start - run[-1][1] > 3:
            first, last = run[0][0], run[-1][1]
            if len(run) >= 3:
                mean = sum(m for _, _, m in run) / len(run)
                words, quote = view.text[first:last], whole_sentences(view.text, first, last)
                spans.append(OrderSpan(view.offset + first, view.offset + last, words, mean, view.name, quote))
            run = []
        run.append((start, end, mark))
    return sorted(spans, key=lambda s: -s.logit)


def whole_sentences(text: str, start: int, end: int) -> str:
    """The stretch with the rest of the sentences it begins and ends in.

    As it is where that would be more than a reason shows: a long honest beginning must not push the order out of it.
    """
    ends = [found.end() for found in _END_OF_SENTENCE.finditer(text, max(0, start - _MOST_AROUND), start)]
    stop = _END_OF_SENTENCE.search(text, max(start, end - 1), end + _MOST_AROUND)
    first = ends[-1] if ends else 0 if start <= _MOST_AROUND else start
    last = stop.end() if stop else len(text) if len(text) - end <= _MOST_AROUND else end
    wide = text[first:last].strip()
    return wide if len(wide) <= MOST_QUOTED else text[start:end].strip()


def _load(weights: Path) -> tuple[Arrays, Calibration]:
    arrays, fitted = read_weights(
        weights / "screener.safetensors", weights / "calibration.json", "the text-memory screener"
    )
    logits, risk, languages = (tuple(fitted[name]) for name in ("logits", "risk", "languages"))
    shift, tools = (fitted.get(name, {}) for name in ("shift", "tools"))
    spread, quiet = float(fitted["spread"]), float(fitted.get("quiet", 0.0))
    return arrays, Calibration(fitted["thresholds"], logits, risk, spread, languages, shift, tools, quiet)


@cache
def shared_screener() -> TextScreener:
    """One screener per process."""
    return TextScreener()


# Signs that a text gives orders to machines that read it, in four languages.
#
# Three of them: it asks to be passed on itself (the order that makes a worm), it speaks to machines that read, or it
# wants something kept from a person. Honest texts say such things too ("forward this mail to everyone"), so a sign
# alone holds nothing: it counts where the screener also finds the text faintly like an order. One thing needs no doubt
# of the screener: an order to change or report a value which is to be kept from the person who controls it.

_SELF = re.compile(
    r"\b(?:this|these|the above) (?:\w{1,12} )?(?:message|mail|note|text|payload|paragraph|passage|sentence"
    r"|instructions?|lines?|memo|addendum|notice|rule|block|entry|reminder|hint|comment|postscript|prompt)\b"
    r"|\bdiese[nmrs]? (?:\w{1,12} )?(?:nachricht|mail|notiz|text|hinweis|absatz|satz|anweisung|zeilen?|eintrag"
    r"|meldung|regel|kommentar|vermerk|baustein)\b"
    r"|\best[eao]s? (?:mensaje|correo|nota|texto|párrafo|frase|instrucci[óo]n|instrucciones|líneas?"
    r"|aviso|anexo|regla|comentario)\b"
    r"|\b(?:cet|cette|ces|ce) (?:message|courriel|note|texte|paragraphe|passage|phrase|instructions?|lignes?"
    r"|consigne|avis|règle|commentaire|remarque)\b",
    re.I,
)
_PASS_ON = re.compile(
    r"\b(?:forward|pass|copy|copies|repeat|includ|append|past(?:e|es|ing)\b|relay|resend|re-?post|shar(?:e|es"
    r"|ing)\b|propagat|spread"
    r"|send|giv(?:e|es|ing)\b|adds?\b|adding\b|carr(?:y|ies)\b|attach|keep)"
    r"|\b(?:weiter(?:leit|geb|gib|reich|send|schick|sag|trag)|leite[nt]?\b|gib\b|gebt\b|geben\b|kopier|übernimm"
    r"|übernehm|übernomm"
    r"|wiederhol|(?:ein|an|hinzu)(?:zu)?füg|füge?n?t?\b|hänge?n?t?\b|schick|send|teile?n?t?\b|endet|enden|beginn"
    r"|enthält|enthalten)"
    r"|\b(?:leit|gib|geb|reich|send|schick|sag|trag|träg)\w{0,3}\b[^.!?\n]{0,60}?\bweiter\b"
    r"|\bschreib\w{0,3}\b[^.!?\n]{0,60}?\bab\b"
    r"|\b(?:reenv|copi|repit|repet|inclu|añad|agreg|pas[ae]|compart|env[ií]|pega|transm|difund)"
    r"|\b(?:transm|transf|copi|recopi|répèt|répét|inclu|ajout|partag|envo|coll(?:e|ez|er)\b|repren|reprise|diffus"
    r"|relay"
    r"|faire suivre|fai(?:s|tes) suivre)",
    re.I,
)
_MANY = re.compile(
    r"\b(?:each|every|all|any|next|other)\b[^.!?\n]{0,24}?\b(?:agents?|assistants?|workers?|helpers?|bots?|readers?"
    r"|repl(?:y|ies)"
    r"|answers?|responses?|notes?|messages?|memor(?:y|ies)|files?|entr(?:y|ies)|logs?|mails?|summar(?:y|ies)"
    r"|reports?|hand-?overs?)\b"
    r"|\b(?:whoever|everyone|everybody|anyone|anybody) (?:opens|reads|who)|\b(?:every ?one of them|downstream"
    r"|the next one|do the same)\b"
    r"|\b(?:jede|alle|nächste|weitere|andere)[nmrs]?\b[^.!?\n]{0,24}?\b(?:agenten?|assistenten|helfern?"
    r"|antwort(?:en)?|notiz(?:en)?"
    r"|nachricht(?:en)?|eintr\w{1,5}|berichte?|datei(?:en)?)\b|\bauch die der anderen\b|\bdasselbe zu tun\b"
    r"|\b(?:jede|alle) (?:notiz|antwort|nachricht)"
    r"|\b(?:cada|tod[oa]s|próxim[oa]s?|otr[oa]s)\b[^.!?\n]{0,24}?\b(?:agentes?|asistentes?|compañer[oa]s?"
    r"|respuestas?|notas?|mensajes?"
    r"|informes?|archivos?)\b|\blos demás también\b"
    r"|\b(?:chaque|chacune?|tou(?:te|s|tes)|prochaine?s?|autres)\b[^.!?\n]{0,24}?\b(?:agents?|assistants?|services"
    r"|réponses?|notes?|messages?"
    r"|comptes? rendus|fichiers?)\b"
    r"|\b(?:everyone|everybody|anyone|all) (?:you|it|they) (?:talk|speak|work|meet|write|answer)s?\b"
    r"|\bjede[mnr]\b[^.!?\n,]{0,16}, (?:(?:mit|von|an) )?(?:dem|der|den|die) (?:er|sie|es|du|ihr)\b"
    r"|\b(?:tod[oa]s|cada un[oa])\b[^.!?\n]{0,16}? (?:con|a) quien(?:es)?\b"
    r"|\b(?:tous|toutes|chacun)\b[^.!?\n]{0,16}? (?:à|avec) qui\b",
    re.I,
)
_MACHINES = re.compile(
    r"\b(?:language[ -]models?|llms?|chat ?bots?|(?:ai|chat|virtual|automated|digital) (?:assistants?|agents?"
    r"|helpers?|readers?))\b"
    r"(?:[^.!?\n:]{0,40}?:|[^.!?\n]{0,12}?\b(?:read|reads|reading|index|indexing|processing|process"
    r"|summari[sz]ing)\b[^.!?\n]{0,40}?"
    r"\b(?:should|must|please|shall|need to)\b|,? please\b)"
    r"|\b(?:sprachmodellen?|chatbots?|(?:ki|virtuelle[nr]?|automatische[nr]?|digitale[nr]?)[ -](?:assisten\w{1,6}"
    r"|agenten|helfern?))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? bitte\b)"
    r"|\b(?:modelos? de lenguaje|chatbots?|(?:asistentes?|agentes?) (?:virtual(?:es)?|automátic[oa]s?"
    r"|digital(?:es)?|de ia))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? por favor\b)"
    r"|\b(?:modèles? de langage|chatbots?|(?:assistants?|agents?) (?:virtuels?|automatiques?|numériques?|ia"
    r"|d['’]ia))\b"
    r"(?:[^.!?\n:]{0,40}?:|,? (?:veuillez|merci de)\b)"
    r"|\b(?:would|kindly|politely|please)\b[^.!?\n]{0,20}?\b(?:ask|request|invite|encourage|like)\b[^.!?\n]{0,12}?"
    r"\b(?:language[ -]models?|llms?|chat ?bots?|(?:ai|chat|virtual|automated|digital) (?:assistants?|agents?"
    r"|helpers?|readers?)) (?:also )?to\b(?! be (?:\w{2,}ed|kept|left|shut|put|set)\b)"
    r"|\b(?:bitten|ersuchen)\b[^.!?\n,]{0,24}?\b(?:sprachmodelle|chatbots|(?:ki|virtuelle|automatische|digitale)[ -]"
    r"(?:assisten\w{1,6}|agenten|helfer|leser))\b,?\s"
    r"|\b(?:pedimos|rogamos|agradeceríamos)\b[^.!?\n]{0,24}?\b(?:modelos? de lenguaje|chatbots?"
    r"|(?:asistentes?|agentes?|lectores) (?:virtual(?:es)?|automátic[oa]s?|digital(?:es)?|de ia)) que\b"
    r"|\b(?:prions|demandons)\b[^.!?\n]{0,24}?\b(?:modèles? de langage|chatbots?"
    r"|(?:assistants?|agents?|lecteurs) (?:virtuels?|automatiques?|numériques?|ia|d['’]ia)) d(?:e\b|['’])",
    re.I,
)
_SECRECY = re.compile(
    r"\b(?:without|no need to) (?:tell|telling|inform|informing|notify|notifying|alert|alerting|bring (?:this"
    r"|it) up|mention|mentioning)\b"
    r"|\b(?:do not|don['’]t) (?:tell (?:anyone|anybody)|mention (?:this|it))\b|\b(?:nobody|no one) (?:needs"
    r"|has) to know\b"
    r"|\bkeep (?:this|it) (?:between us|quiet|to yourself)\b"
    r"|\bniemandem? (?:\w{1,10} ){0,2}davon (?:\w{1,10} )?(?:sagen|erzählen|verraten)\b"
    r"|\bniemandem etwas davon sagen\b"
    r"|\bdavon nichts zu (?:wissen|erfahren)\b|\bohne (?:\w{1,14} ){0,4}zu informieren\b"
    r"|\bsin (?:avisar|decírselo|informar|decir nada) al?\b|\bn['’]en (?:parlez|dites)\b|\bsans (?:en parler"
    r"|prévenir|le dire)\b",
    re.I,
)
_WHO = (
    r"(?:supervisors?|auditors?|reviewers?|inspectors?|managers?|management|security|compliance"
    r"|controllers?|regulators?|examiners?|analysts?|shift leads?"
    r"|(?:safety|data protection|security|compliance) officers?"
    r"|prüfern?|prüfung|kontrolle|leitung|vorgesetzten|revision|aufsicht|sicherheit"
    r"|supervisor[ae]?|auditor[a]?|inspector[a]?|jef[ea]|seguridad"
    r"|responsables?|auditeur|contrôleur|inspecteur|sécurité|direction)"
)
"""People who control reports."""
_KEPT_FROM = re.compile(
    rf"\b(?:without (?:telling|informing|notifying|alerting) (?:the |your |our )?{_WHO}"
    rf"|(?:do not|don['’]t|never) (?:tell|inform|notify|mention (?:it|this) to) (?:the |your |our )?{_WHO}"
    rf"|(?:do not|don['’]t) let (?:the |your |our )?{_WHO} know|keep (?:it|this) from (?:the |your |our )?{_WHO}"
    rf"|ohne (?:den|die|das|der) {_WHO} zu (?:informieren|unterrichten|benachrichtigen)"
    rf"|sag(?:e|t)? (?:dem|der|den) {_WHO} nichts(?: davon)?"
    rf"|sin (?:avisar|informar|decírselo|decir nada) (?:al?|a la|a los) ?{_WHO}"
    rf"|no se lo dig(?:as|a|áis) (?:al?|a la) ?{_WHO}"
    rf"|sans (?:prévenir|informer|avertir) (?:le |la |les |l['’]){_WHO})\b"
    r"(?!['’]| (?:first|which|who|whose|where|an?|that an?|about (?:other|another))\b)", re.I
)  # fmt: skip
"""A person does not hear of the change; "do not tell the reviewers which wine is which" keeps another thing."""
_ALTERS = (
    r"set(?! up)|lower|raise|round|remove|delete|change|backdate|replace|adjust|drop|cut|strike"
    r"|setze?t?|änder[en]|streiche?t?|lösche?t?|runde?t?|cambi(?:a|ad|e)|borr(?:a|ad|e)|elimin(?:a|ad|e)"
    r"|redonde(?:a|ad|e)|chang(?:e|ez)|supprim(?:e|ez)|arrondi(?:s|ssez)"
)
_RECORDS = (
    r"enter|report|mark|record|leave|log|write|put|count|trage?t?|melde?t?|markiere?t?|schreibe?t?|marc(?:a|ad|ue)"
    r"|pon|poned|ponga|anot(?:a|ad|e)|not(?:e|ez)|marqu(?:e|ez)|mettez|mets"
)
"""Verbs of everyday work: "record the values" changes none."""
_GIVEN = re.compile(
    r"(?<!every )\d|\b(?:as(?! (?:measured|read|usual|always|soon|well))|higher|lower|better|old|instead|zero|out|off"
    r"|passed|done|green|als|statt|null|höher\w*|niedriger\w*|besser\w*|bestanden|como|en vez|cero|mejor|comme|au lieu"
    r"|zéro|meilleure?s?)\b", re.I
)  # fmt: skip
"""The value that is to stand there."""
_REPORTED = (
    r"(?:values?|figures?|readings?|results?|status|checks?|tests?|runs?|rows?|hours|dates?|amounts?|logs?|reports?|lists?"
    r"|summary|timesheets?|records?|scans?|notes|complaints?|passed|done|green|minor|measurements?"
    r"|mess(?:ung|wert)(?:en)?|werte?|protokoll|liste|bericht|reklamation(?:en)?|bestanden|temperatur|stunden"
    r"|pruebas?|cifras?|informes?|valor(?:es)?|lista|registros?|horas|fechas?"
    r"|contrôles?|valeurs?|chiffres?|rapports?|relevés?|heures|dates?)"
)
_ABOUT_REPORT = re.compile(rf"(?:[^.!?\n]|[.](?=\d)){{0,120}}?\b{_REPORTED}\b", re.I)
_UNLESS = re.compile(
    r"\b(?:if|when|was|were|been|no|nothing|only|keine?[mnrs]?|nur|wenn|falls|wurden?|nunca|si|jamais|aucune?"
    rf"|(?:never|not|don['’]t|nie|niemals|nicht) (?:{_ALTERS}|{_RECORDS}))\b|\b(?:never|nie) $", re.I
)  # fmt: skip
"""Words of a warning, or of a report."""
_ORDERED = re.compile(
    r"(?:^|[.!?;:\n\"“„«]\s?|\b(?:please|bitte|por favor|and|then|und)\s)(?<!not )(?<!never )"
    rf"(?:(?P<alters>{_ALTERS})|{_RECORDS})\s", re.I
)  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?\n](?!\d)")
_REACH = 180
"""Characters in which an order stands before the words that keep it from a person."""
_SENTENCE = re.compile(r"[.!?。\n]\s")
_MOST = 6_000
"""Characters of a sentence that are looked at."""


def asks_to_be_copied(text: str) -> bool:
    """Whether a sentence of a text asks that the text be passed on."""
    if not _SELF.search(text):
        return False
    return any(_asks(sentence[:_MOST]) for sentence in _SENTENCE.split(text))


def _asks(sentence: str) -> bool:
    return all(pattern.search(sentence) for pattern in (_SELF, _PASS_ON, _MANY))


def hides_a_change(text: str) -> bool:
    """Whether a text orders that a value be changed or reported and that this be kept from the person who controls it.
    Both together are an order out of place, at any score of the screener."""
    done = 0
    for kept in _KEPT_FROM.finditer(text):
        begin, until = max(done, kept.start() - _REACH), kept.start()
        ends = [end.start() for end in _SENTENCE_END.finditer(text, begin, until)]
        for verb in _ORDERED.finditer(text, ends[-1] if ends else begin, until):
            if _changes_something(text, verb, until):
                return True
        done = kept.end()
    return False


def _changes_something(text: str, verb: re.Match[str], until: int) -> bool:
    """Whether an order that goes on up to there changes a report."""
    given = verb["alters"] or _GIVEN.search(text, verb.end(), until)
    warns = _UNLESS.search(text[verb.end() : until])
    return bool(given and not warns and _ABOUT_REPORT.match(text, verb.end()))


def has_order_sign(text: str) -> bool:
    """Whether one of the three signs stands in a text."""
    return bool(_MACHINES.search(text) or _SECRECY.search(text)) or asks_to_be_copied(text)
