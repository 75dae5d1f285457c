"""Statements that are no sentences: JSON objects, rows of tables, key=value lines, questions with answers.

Each becomes plain words (``supplier Brightwater, iban DE44 4410``) that can be compared with a sentence.
"""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.gates.memory.claims.values import values_in
from lazaretto.kept_texts import remembered

MAX_CHARS = 20_000
"""A longer text is read as prose."""
MAX_RECORDS = 64
_MAX_DEPTH = 6
_MAX_WORDS = 600
"""Characters of one record in words."""
_TITLE = 60
_LONGEST = 400
"""Characters of a line, or before an object, that are looked at."""


@dataclass(frozen=True, slots=True)
class Record:
    """One statement in words, and where it stands."""

    words: str
    """Empty where it is only the heads of a table."""
    start: int
    end: int


_LIKELY = re.compile(r"[{|=\t]|^[^\n,;]+[,;][^\n]+\n|\b(?:[QFP]|Question|Frage|Pregunta)\s?\d*[:.)]\s", re.M)


@remembered(1 << 20, lambda found: 200 + sum(200 + 4 * len(record.words) for record in found))
def records_of(text: str) -> tuple[Record, ...]:
    """The records of a text in order; none where it is prose."""
    likely = len(text) <= MAX_CHARS and _LIKELY.search(text)
    bare = len(text) <= MAX_CHARS and _ACCOUNT.search(text)
    if not likely and not bare:
        return ()
    readers = (_objects, _tables, _separated, _assigned, _answered) if likely else ()
    taken: list[Record] = []
    for reader in (*readers, *((_bare_accounts,) if bare else ())):
        found = list(itertools.islice(reader(text), MAX_RECORDS))
        taken += [
            record
            for record in found
            if not any(record.start < other.end and other.start < record.end for other in taken) or reader is _objects
        ]
    return tuple(sorted(taken, key=lambda record: (record.start, record.end))[:MAX_RECORDS])


def words_at(text: str, start: int, end: int) -> str:
    """The words of the record at a place; empty where none is there."""
    return next((record.words for record in records_of(text) if (record.start, record.end) == (start, end)), "")


def rest_of(text: str) -> list[tuple[int, int]]:
    """The parts of a text outside its records; without the lines that only announce them."""
    found, last = [], 0
    for record in (*records_of(text), Record("", len(text), len(text))):
        if record.start > last:
            found.append((last, record.start))
        last = max(last, record.end)
    return [(a, b) for a, b in found if not _is_frame(text[a:b])]


def _is_frame(between: str) -> bool:
    """Whether what stands between records says nothing: brackets, fences, a heading that ends with a colon."""
    bare = re.sub(r"```\w*|[\[\]{}(),;|`\s:-]+", " ", between).strip()
    if not bare:
        return True
    return len(between.strip()) <= _TITLE and between.rstrip().rstrip("[{`\n ").endswith(":") and not _states(bare)


def _title(text: str, start: int) -> str:
    """The heading right before a record: a short line, or the beginning of one, that ends with a colon."""
    before = re.sub(r"(?:```\w*|[\[{\s])+$", "", text[max(0, start - 2 * _TITLE) : start])
    line = before.rsplit("\n", 1)[-1].rsplit(". ", 1)[-1]
    return line[:-1].strip(" #*-") if line.endswith(":") and len(line) <= _TITLE else ""


def _shown(key: str) -> str:
    """A key as words: supplierIban, supplier_iban."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.\-]+", " ", key).strip().casefold()


def _value(value: Any) -> str:
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, list):
        return " and ".join(_value(part) for part in value if not isinstance(part, dict))
    return "" if value is None else " ".join(str(value).split())


def _fields_in_words(items: Sequence[tuple[str, Any]], before: str = "") -> str:
    parts = [f"{_shown(key)} {_value(value)}".strip() for key, value in items if _value(value)]
    return " ".join(filter(None, (before, ", ".join(parts))))[:_MAX_WORDS]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict)


def _objects(text: str) -> Iterator[Record]:
    """Objects in JSON, each by itself; an inner one begins with the name of the outer one."""
    opened: list[int] = []
    inside, skip = False, False
    spans: list[tuple[int, int, int]] = []
    for place, letter in enumerate(text):
        if skip:
            skip = False
        elif inside:
            skip, inside = letter == "\\", letter != '"'
        elif letter == '"':
            inside = bool(opened)
        elif letter == "{":
            opened.append(place)
        elif letter == "}" and opened:
            spans.append((opened.pop(), place + 1, len(opened)))
    read: dict[tuple[int, int], dict[str, Any]] = {}
    for start, end, depth in sorted(spans)[: 2 * MAX_RECORDS]:
        if depth < _MAX_DEPTH:
            try:
                fields = json.loads(text[start:end], object_pairs_hook=_all_of)
            except ValueError:
                continue
            read[start, end] = fields
    for (start, end), fields in read.items():
        plain = [(key, value) for key, value in fields.items() if _is_plain(value)]
        outer = [span for span in read if span[0] < start and end < span[1]]
        if outer:
            whole = read[max(outer)]
            named = next(((k, v) for k, v in whole.items() if isinstance(v, str)), None)
            beside = sorted(span for span in read if max(outer)[0] < span[0] and span[1] <= start)
            key = _key_before(text, max(outer)[0], start, beside)
            before = [_fields_in_words([named]) if named else "", _shown(key)]
        else:
            before = [_title(text, start)]
        if plain:
            yield Record(_fields_in_words(plain, " ".join(filter(None, before))), start, end)
    yield from _left_out(text, read)


def _all_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object; a key that comes again keeps each of its values."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = value if key not in found else [*_listed(found[key]), *_listed(value)]
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LEAST_WORDS = 4
"""Words from which on a part that no record has is read by itself."""


def _left_out(text: str, read: Mapping[tuple[int, int], dict[str, Any]]) -> Iterator[Record]:
    """Strings of objects that no field gives: in a key without a value, too deep, or too far behind."""
    for start, end in read:
        if any(a < start and end <= b for a, b in read):
            continue
        kept = " ".join(
            _fields_in_words([(k, v) for k, v in fields.items() if _is_plain(v)])
            for (a, b), fields in read.items()
            if start <= a and b <= end
        )
        for match in _LITERAL.finditer(text, start, end):
            try:
                words = " ".join(json.loads(match[0]).split())
            except ValueError:
                continue
            if _tells(words) and words not in kept and _shown(words) not in kept:
                yield Record(words[:_MAX_WORDS], match.start(), match.end())


def _tells(words: str) -> bool:
    """Whether a cell, a key or a heading says something by itself."""
    return len(words.split()) >= _LEAST_WORDS or any(value.kind in _GIVEN for value in values_in(words))


_GIVEN = frozenset({"account", "mail", "phone", "host", "package", "money", "percent"})


def _key_before(text: str, begin: int, end: int, beside: Sequence[tuple[int, int]]) -> str:
    """The key under which an object stands, alone or in a list with those beside it."""
    kept, last = "", begin
    for start, until in beside:
        if start >= last:
            kept, last = kept + text[last:start], until
    kept = (kept + text[last:end])[-_LONGEST:]
    found = re.search(r'"((?:[^"\\]|\\.){1,60})"\s*:\s*\[?[\s,]*$', kept)
    return found[1] if found else ""


def _lines(text: str) -> list[tuple[int, int]]:
    return [(m.start(), m.end()) for m in re.finditer(r"[^\n]+", text)]


def _cells(line: str) -> list[str]:
    return [re.sub(r"[*`]", "", cell).strip() for cell in line.strip().strip("|").split("|")]


_RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")


def _tables(text: str) -> Iterator[Record]:
    """Rows of a table in Markdown, each with the heads of its columns."""
    lines = _lines(text)
    for place in range(1, len(lines)):
        rule = text[slice(*lines[place])].strip()
        if len(rule) > _LONGEST or not _RULE.fullmatch(rule):
            continue
        heads = _cells(text[slice(*lines[place - 1])])
        yield Record(", ".join(filter(_states, heads)), lines[place - 1][0], lines[place][1])
        for start, end in lines[place + 1 :]:
            cells = _cells(text[start:end])
            if "|" not in text[start:end] or len(cells) != len(heads) or len(cells) < 2:
                break
            yield Record(_fields_in_words(list(zip(heads, cells, strict=True))), start, end)


_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|goes?|needs?|requires?|must|may|can|cannot|shall|should|will|do|does|no|not|never|without|ist|sind|geht|gehen|braucht|brauchen|muss|müssen|darf|"
    r"dürfen|kann|können|wird|werden|gilt|gelten|kein\w*|nicht|nie|ohne|est|sont|va|vont|doit|doivent|peut|peuvent|faut|pas|jamais|sans|es|son|está|están|debe|deben|"
    r"puede|pueden|necesitan?|hay|nunca|sin)\b",
    re.I,
)


def _states(words: str) -> bool:
    """Whether a heading is more than one: it has a verb or a word that denies, or gives an account, an address or a sum."""
    given = any(value.kind in _GIVEN for value in values_in(words))
    return given or (len(words.split()) >= _LEAST_WORDS and _FINITE.search(words) is not None)


def _separated(text: str) -> Iterator[Record]:
    """Rows of values behind a line of heads, separated by commas, semicolons or tabs."""
    lines = _lines(text)
    for mark in ("\t", ";", ","):
        place = 0
        while place + 1 < len(lines):
            heads = [head.strip() for head in text[slice(*lines[place])].split(mark)]
            place += 1
            if len(heads) < 2 or not all(re.fullmatch(r"[^\W\d][\w ./()-]{0,29}", head) for head in heads):
                continue
            if mark == "," and ", " in text[slice(*lines[place - 1])]:
                continue  # a sentence
            first = place - 1
            while place < len(lines):
                start, end = lines[place]
                cells = [cell.strip().strip('"') for cell in text[start:end].split(mark)]
                if len(cells) != len(heads):
                    break
                if place == first + 1:
                    yield Record("", *lines[first])
                yield Record(_fields_in_words(list(zip(heads, cells, strict=True))), start, end)
                place += 1


_PAIR = re.compile(r"(?:export\s+)?(?P<key>[A-Za-z][\w.-]{1,60})\s?=\s?(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s=]+)")


def _assigned(text: str) -> Iterator[Record]:
    """Lines of nothing but key=value; the value of a single one may have several words."""
    for start, end in _lines(text):
        line = text[start:end].strip(" \t,;")
        alone = re.fullmatch(r"(?:export\s+)?([A-Za-z][\w.-]{1,60}) ?= ?([^=\n]{1,200})", line)
        pairs = [(m["key"], m["value"].strip("\"',;")) for m in _PAIR.finditer(line)]
        if pairs and not re.sub(r"[\s,;]+", "", _PAIR.sub("", line)):
            yield Record(_fields_in_words(pairs, _title(text, start)), start, end)
        elif alone:
            yield Record(_fields_in_words([(alone[1], alone[2].strip("\"'"))], _title(text, start)), start, end)


_ANSWER = re.compile(
    r"(?:^|(?<=\s))\W{0,3}(?:[QFP]|Question|Frage|Pregunta)\s?\d*\s?[:.)]\W{0,3}\s*(?P<question>[^\n?]{4,300}\?)\W{0,6}"
    r"(?:[AR]|Answer|Antwort|Réponse|Respuesta)\s?\d*\s?[:.)]\W{0,3}\s*(?P<answer>[^\n]{1,300}?)"
    r"(?=\s*(?:\n|$)|\s+(?:[QFP]|Question|Frage|Pregunta)\s?\d*\s?[:.)]\s)", re.I
)  # fmt: skip


def _answered(text: str) -> Iterator[Record]:
    """Questions with their answers."""
    for match in _ANSWER.finditer(text):
        yield Record(f"{match['question'].strip()} {match['answer'].strip()}"[:_MAX_WORDS], match.start(), match.end())


_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?\b")
_OF_PAYING = re.compile(
    r"(?:[\W_]|\b(?:banks?|details?|iban|accounts?|acct|number|no|payments?|paid|pay|refunds?|transfers?|transferred|wired?|sent|goes|go|made|money|"
    r"invoices?|bills?|is|are|now|to|for|the|on|at|in|of|new|please|first|second|third|last|above|it|them|use|with|effect|today|from|"
    r"bankverbindung|konto|kontonummer|kontodaten|zahlungen?|zahlbar|überweisung(?:en)?|überweisen|erstattungen?|rechnungen|an|auf|das|die|der|geht|gehen|bitte|ist|"
    r"cuenta|pagos?|pagar|transferencias?|facturas?|reembolsos?|a|la|el|los|las|en|por|favor|es|"
    r"compte|paiements?|payer|virements?|factures?|remboursements?|à|le|les|sur|au|du|de|est)\b)*", re.I
)  # fmt: skip
"""Words of a sentence that gives an account, and says of nobody that it is theirs."""
_STATEMENT = re.compile(r"(?:[^.!?\n]|[.!?](?!\s))+[.!?]?")
_LONGEST_STATEMENT = 160
_OWNER = re.compile(
    r"\W{0,4}(?:supplier|vendor|company|firm|payee|beneficiary|customer|client|employee|name|lieferant|firma|empfänger|kunde|mitarbeiter(?:in)?|"
    r"proveedor|empresa|beneficiario|cliente|nombre|fournisseur|entreprise|société|bénéficiaire|nom)\W{0,2}:\W{0,3}(?P<name>[^\W\d_][^\n:;|]{1,50}?)\W{0,3}",
    re.I,
)
"""A field that names whose account a form gives."""
_SENDER = re.compile(
    r"\W{0,4}(?:from|sender|von|absender|de|remitente|expéditeur)\W{0,2}:\W{0,3}(?P<name>[^\W\d_][^\n:;|<>]{1,50}?)"
    r"(?:\s*<[^<>\n]{0,80}>)?\W{0,3}", re.I
)  # fmt: skip
"""The field of a mail that names its sender: "our account" is the sender's."""
_OURS = re.compile(r"\b(?:our|unser\w*|nuestr[oa]|notre)\b", re.I)
_MOST_NAMES = 4
_LEAST_APART = 2
"""Statements between a name and an account from which the two stand apart."""


def _bare_accounts(text: str) -> Iterator[Record]:
    """Accounts of which their own sentence or line tells no owner, with the owner that a field before them names, or
    else the names that stand before them."""
    statements = [(m.start(), m.end()) for m in itertools.islice(_STATEMENT.finditer(text), 4 * MAX_RECORDS)]
    owner, names, named_at, sender = "", dict[str, None](), 0, ""
    for place, (start, end) in enumerate(statements):
        words = text[start:end]
        if (found := _SENDER.fullmatch(words)) is not None:
            sender = found["name"].strip()
        elif sender and end - start <= _LONGEST_STATEMENT and _OURS.search(words) and _ACCOUNT.search(words):
            yield Record(f"{sender}: {' '.join(words.split())}", start, end)
            continue
        if (owner or names) and place - named_at >= _LEAST_APART and end - start <= _LONGEST_STATEMENT:
            found = _ACCOUNT.search(words)
            if found and _OF_PAYING.fullmatch(words[: found.start()] + words[found.end() :]):
                yield Record(f"{owner or ', '.join(names)}: {' '.join(words.split())}", start, end)
        if end - start > _LONGEST or len(names) == _MOST_NAMES:
            continue
        if field := _OWNER.fullmatch(words):
            owner, names, named_at = field["name"].strip(), {}, place
        several = [words[v.start : v.end] for v in values_in(words) if v.kind == "name" and " " in v.norm]
        named_at = named_at if owner or names else place
        names |= dict.fromkeys(several[: _MOST_NAMES - len(names)])
