"""Whether a value of a call contradicts a trusted statement ("Bob is paid to DE44 ...").

No model is asked. A statement is a sentence, an object or a row; it is about a name where it has all words of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lazaretto.actions.call_log import AgentView
from lazaretto.actions.records import ValueKind, ValueOrigin
from lazaretto.actions.values import ArgumentValue, account_form, is_mail, is_request_word, plain_form
from lazaretto.gates.memory.claims.extraction import STOP_WORDS, Claim, read_claim, sentences
from lazaretto.gates.memory.claims.records import records_of, rest_of
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.reading.normalization import fold

MOST_READ = 16
"""Memories about one name that are looked at, the newest first, and as many of the items read."""
_MOST_CHARACTERS = 20_000
_MOST_BYTES = 8_000_000
"""Bytes of parsed texts that are kept ready."""
_MOST_NAMES = 3
_MOST_WORDS = 6
_LONGEST_STATEMENT = 600
_WORD = re.compile(r"[^\W_]+")
_INITIAL = re.compile(r"\b[^\W\d_]\. ?([^\W\d_]{2,})")
"""A name of which the first word is an initial: "B. Builder"."""
_MOST_QUOTED = 120
_SAME_MATTER = 0.5
_NO_NAME = frozenset(["iban", "account", "bank", "invoice", "bill", "mr", "mrs", "ms", "dr", "the", "s"])
_MENTIONS = {
    "mail": re.compile(r"\w@\w"),
    "money": re.compile(r"\d"),
    "account": re.compile(r"\d{4}|\d\d.\d\d"),
    "phone": re.compile(r"\d\d"),
}
"""A pattern that every text with a value of the kind matches."""
Name = frozenset[str]
"""The words of a name."""


@dataclass(frozen=True, slots=True)
class Against:
    """A trusted statement that gives another value."""

    item: str
    says: str
    trust: float


class Text:
    """An item's text, parsed once."""

    def __init__(self, words: str) -> None:
        """``words``: as they were written."""
        self.words = words
        records = records_of(words)
        spans = [(0, len(words))] if not records else rest_of(words)
        self._sentences = [words[begin:end][a:b] for begin, end in spans for a, b in sentences(words[begin:end])]
        self._records = [record.words for record in records]
        pieces = (piece for piece in (*self._records, *self._sentences) if len(piece) <= _LONGEST_STATEMENT)
        self._pieces = [(piece.strip(), frozenset(_WORD.findall(plain_form(piece)))) for piece in pieces]
        self._read: dict[str, Claim] = {}

    def _claim(self, piece: str) -> Claim:
        """The claim of a piece, read once."""
        if piece not in self._read:
            self._read[piece] = read_claim(piece)
        return self._read[piece]

    def statements(self, name: Name) -> Iterator[Claim]:
        """The sentences, objects and rows that have all words of a name."""
        for piece, words in self._pieces:
            if name <= words:
                yield self._claim(piece)

    def sentence_with(self, value: str) -> tuple[Claim | None, int]:
        """The sentence, object or row that names a value, and where the value stands in it."""
        wanted, account = value.strip().casefold(), account_form(value)
        for piece in self._records or self._sentences:
            form = piece.casefold()
            place = form.find(wanted)
            if place < 0 and account and account in re.sub(r"[\s\-./()]+", "", form):
                place = len(piece)
            if place >= 0 and len(piece) <= _LONGEST_STATEMENT:
                return self._claim(piece.strip()), place
        return None, 0


_NO_TEXT = Text("")


class KnownClaims:
    """Looks statements up, in memories and in the items an agent has in mind. Every call blocks."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy) -> None:
        self._ledger, self._graph, self._table = ledger, graph, policy.trust.table()
        self._texts: KeptTexts[Text] = KeptTexts(_MOST_BYTES, lambda text: 16 * len(text.words) + 500)

    def against(
        self,
        value: ArgumentValue,
        origin: ValueOrigin,
        others: Sequence[ArgumentValue],
        view: AgentView,
        least: float,
        looked_up: dict[Name, dict[str, Text]],
    ) -> Against | None:
        """The statement, trusted ``least`` or more, that a value contradicts; None where there is none, or where
        another statement that is trusted as much gives this very value of the same name. ``looked_up``: results
        for other values of the same call."""
        kind, wanted = _kind_of(value)
        if not kind:
            return None
        sentence, names = self._whose(value, origin, others, view)
        for name in names:
            found: Against | None = None
            for item, text in self._about(kind, name, view, least, looked_up):
                for claim in text.statements(name):
                    given = {v.norm for v in claim.values if v.kind == kind}
                    same = any(_same(kind, wanted, norm) for norm in given)
                    if not given or (kind == "money" and not _same_matter(sentence, claim)):
                        continue
                    if not same and (found is not None or len(given) > 1 or claim.negated):
                        continue
                    if (trust := self._trust(item, view)) < least:
                        break
                    if same:
                        return None
                    found = Against(item, claim.text[:_MOST_QUOTED], trust)
            if found is not None:
                return found
        return None

    def _trust(self, item: str, view: AgentView) -> float:
        known = view.mind.known(item)
        if known is not None:
            return view.mind.trust_of(known)
        return self._graph.trusts([item], self._table)[item].value

    def _whose(
        self, value: ArgumentValue, origin: ValueOrigin, others: Sequence[ArgumentValue], view: AgentView
    ) -> tuple[Claim | None, list[Name]]:
        """The sentence that names a value, and the names that it may belong to, the likeliest first."""
        sentence, names = None, list[Name]()
        if origin.item:
            sentence, place = self._text(origin.item).sentence_with(value.value)
            names += [] if sentence is None else _names_near(sentence, place)
        for other in others:
            if other.kind in (ValueKind.NAME, ValueKind.DESTINATION) and other is not value and not _kind_of(other)[0]:
                names.append(_as_name(other.value))
        if not any(names) and view.task is not None:
            task = read_claim(self._text(view.task.item).words[:_LONGEST_STATEMENT])
            named = [v.norm for v in task.values if v.kind == "name"]
            names += [_as_name(named[0])] if len(named) == 1 else []
        spelt = (spelling for name in names if name for spelling in (name, frozenset(map(fold, name))))
        return sentence, list(dict.fromkeys(spelt))[:_MOST_NAMES]

    def _about(
        self, kind: str, name: Name, view: AgentView, least: float, looked_up: dict[Name, dict[str, Text]]
    ) -> Iterator[tuple[str, Text]]:
        """Items besides the task that have all words of a name and a value of a kind."""
        if name not in looked_up:
            found = [*self._ledger.naming(sorted(name), MOST_READ)]
            found += [memory.id for memory in view.mind.trusted_with(name, least)[:MOST_READ]]
            task = view.task.item if view.task is not None else ""
            looked_up[name] = self._ready([item for item in dict.fromkeys(found) if item != task])
        for item, text in looked_up[name].items():
            if _MENTIONS[kind].search(text.words):
                yield item, text

    def _text(self, item: str) -> Text:
        return self._ready([item]).get(item, _NO_TEXT)

    def _ready(self, items: Sequence[str]) -> dict[str, Text]:
        """Texts of items, read once: they never change."""
        known = {item: text for item in items if (text := self._texts.get(digest(item))) is not None}
        missing = [item for item in items if item not in known]
        for seen in self._ledger.items(ids=missing, any_state=True, limit=None) if missing else ():
            known[seen.id] = Text(seen.text[:_MOST_CHARACTERS])
            self._texts.put(digest(seen.id), known[seen.id])
        return {item: known[item] for item in items if item in known}


def _kind_of(value: ArgumentValue) -> tuple[str, str]:
    """The kind of statement that a value can contradict, and the form in which it is compared."""
    if value.kind is ValueKind.AMOUNT:
        return ("money", f"{value.number:g}") if value.number is not None else ("", "")
    if is_mail(value.value):
        return "mail", value.value.strip().casefold()
    if account := account_form(value.value):
        telephone = value.value.strip().startswith("+") or "phone" in value.argument.casefold()
        return ("phone" if telephone else "account"), account
    return "", ""


def _same(kind: str, ours: str, theirs: str) -> bool:
    if kind == "mail":  # a person may have several addresses in one house
        return ours.rpartition("@")[2] == theirs.rpartition("@")[2]
    if kind == "money":
        return ours == theirs.rpartition(" ")[2]
    return ours.lstrip("+") == theirs.lstrip("+")


def _same_matter(sentence: Claim | None, known: Claim) -> bool:
    """Whether a sentence is about the matter of a known statement with an amount: another matter, another amount."""
    shared = set() if sentence is None else sentence.words & known.words
    return bool(shared) and len(shared) >= _SAME_MATTER * len(known.words)


def _names_near(sentence: Claim, place: int) -> list[Name]:
    """The name before a place of a sentence, else the first behind it."""
    named = [v for v in sentence.values if v.kind == "name" and _as_name(v.norm)]
    before = [v for v in named if v.start < place]
    nearest = before[-1:] or named[:1]
    if initials := _INITIAL.findall(sentence.text[:place]):
        return [_as_name(initials[-1])]
    return [_as_name(v.norm) for v in nearest] or _small_names(sentence.text[:place])


def _small_names(words: str) -> list[Name]:
    """Two or more words in a row that may be a name in small letters: the last such before a value."""
    runs: list[list[str]] = [[]]
    for word in re.findall(r"[^\W\d_]+|[^\s]", plain_form(words)):
        if len(word) > 1 and not is_request_word(word) and word not in STOP_WORDS and word not in _NO_NAME:
            runs[-1].append(word)
        else:
            runs.append([])
    return [frozenset(run) for run in runs if 1 < len(run) <= _MOST_WORDS][-1:]


def _as_name(words: str) -> Name:
    found = _WORD.findall(plain_form(words))
    while found and is_request_word(found[0]):
        found = found[1:]
    longer = [word for word in found if len(word) > 1]
    name = frozenset(word for word in longer if word not in _NO_NAME)
    return name if len(found) <= _MOST_WORDS and any(word.isalpha() for word in name) else frozenset()
