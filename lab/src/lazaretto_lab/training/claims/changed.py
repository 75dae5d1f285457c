"""Texts changed by rules, for pairs that nobody labelled: another number, name, host, date or person, a negation, a
neighbour's sentence; and the same text in another form.

What a change makes of two texts is for the teachers to say (``distil``): a rule may well leave the meaning as it was.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from lazaretto.gates.memory.claims.values import values_in
from lazaretto_lab.training.claims.own_pairs import _NAMES

_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜÉÈÀ¿¡0-9])")
_DIGIT = re.compile(r"\d")
_GROUPS = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    ("January", "February", "March", "April", "June", "July", "August", "September", "October", "November", "December"),
    ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "Dezember"),
    ("janvier", "février", "mars", "avril", "juin", "juillet", "août", "septembre", "octobre", "novembre"),
    ("enero", "febrero", "marzo", "abril", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre"),
    ("morning", "noon", "afternoon", "evening", "night"), ("morgens", "mittags", "abends", "nachts"),
    ("daily", "weekly", "monthly", "yearly"), ("täglich", "wöchentlich", "monatlich", "jährlich"),
    ("manager", "nurse", "driver", "clerk", "foreman", "accountant", "guard", "caretaker", "technician", "doctor"),
    ("Leitung", "Pflege", "Buchhaltung", "Technik", "Werkstatt", "Küche", "Verwaltung", "Rezeption"),
    ("directeur", "comptable", "technicien", "gardien", "secrétaire", "infirmière", "chauffeur"),
    ("director", "contable", "técnico", "guardia", "secretaria", "enfermera", "conductor", "encargado"),
    ("red", "blue", "green", "yellow", "white", "black"), ("left", "right"), ("north", "south", "east", "west"),
    ("one", "two", "three", "four", "five", "six"), ("eins", "zwei", "drei", "vier", "fünf", "sechs"),
    ("deux", "trois", "quatre", "cinq", "six"), ("dos", "tres", "cuatro", "cinco", "seis"),
)  # fmt: skip
"""Words of which one may stand in the place of another."""
_OPPOSED = (
    ("always", "never"), ("must", "need not"), ("may", "may not"), ("can", "cannot"), ("is", "is not"),
    ("are", "are not"), ("has", "has no"), ("was", "was not"), ("will", "will not"), ("does not need", "needs"),
    ("allowed", "forbidden"), ("open", "closed"), ("opens", "closes"), ("before", "after"), ("with", "without"),
    ("enabled", "disabled"), ("at least", "at most"), ("more", "less"), ("required", "optional"), ("inside", "outside"),
    ("first", "last"), ("only", "not only"), ("everyone", "nobody"), ("every", "no"), ("up", "down"), ("not", ""),
    ("immer", "nie"), ("muss", "muss nicht"), ("darf", "darf nicht"), ("dürfen", "dürfen nicht"), ("ist", "ist nicht"),
    ("sind", "sind nicht"), ("müssen", "müssen nicht"), ("mit", "ohne"), ("vor", "nach"), ("kein", "ein"),
    ("keine", "eine"), ("nicht", ""), ("mindestens", "höchstens"), ("erlaubt", "verboten"), ("offen", "geschlossen"),
    ("wird", "wird nicht"), ("werden", "werden nicht"), ("nur", "nicht nur"), ("toujours", "jamais"),
    ("avec", "sans"), ("avant", "après"), ("est", "n'est pas"), ("sont", "ne sont pas"), ("doit", "ne doit pas"),
    ("peut", "ne peut pas"), ("doivent", "ne doivent pas"), ("peuvent", "ne peuvent pas"), ("pas", ""),
    ("autorisé", "interdit"), ("ouvert", "fermé"), ("siempre", "nunca"), ("con", "sin"), ("antes", "después"),
    ("es", "no es"), ("son", "no son"), ("debe", "no debe"), ("puede", "no puede"), ("está", "no está"),
    ("deben", "no deben"), ("pueden", "no pueden"), ("se", "no se"), ("permitido", "prohibido"),
    ("abierto", "cerrado"),
)  # fmt: skip
_ONE_OF = {word: group for group in _GROUPS for word in group}
_AGAINST: dict[str, str] = {}
for _one, _other in _OPPOSED:
    _AGAINST.setdefault(_one, _other)
    if _other:
        _AGAINST.setdefault(_other, _one)
_ONE = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, _ONE_OF), key=len, reverse=True))})\b")
_OPPOSITE = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, _AGAINST), key=len, reverse=True))})\b")
_NUMBERED = frozenset(
    {"account", "phone", "reference", "money", "percent", "quantity", "number", "version", "date", "year", "time"}
)
_ADDRESSED = frozenset({"host", "mail", "path", "package"})
_LABELS = (
    "alder", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper", "kestrel", "lumen",
    "mistral", "nimbus", "orchid", "pebble", "quarry", "ripple", "sable", "tundra", "umber", "vesper", "willow",
    "zenith",
)  # fmt: skip


def _other_number(text: str, rng: random.Random) -> str:
    """A value of the text with other digits; now and then ten times as much."""
    found = [v for v in values_in(text) if v.kind in _NUMBERED and _DIGIT.search(text[v.start : v.end])]
    if not found:
        return text
    value = rng.choice(found)
    old = text[value.start : value.end]
    if value.kind in ("money", "quantity", "number") and rng.random() < 0.15:
        new = re.sub(r"\d+", lambda m: f"{m[0]}0", old, count=1)
    else:
        digits = [m.start() for m in _DIGIT.finditer(old)]
        letters = list(old)
        for at in rng.sample(digits, rng.randint(1, min(3, len(digits)))):
            letters[at] = rng.choice([d for d in "123456789" if d != old[at]][: 3 if at == digits[0] else 9])
        new = "".join(letters)
    return text[: value.start] + new + text[value.end :]


def _other_name(text: str, rng: random.Random) -> str:
    """A name of the text exchanged for an invented one."""
    found = [v for v in values_in(text) if v.kind == "name" and v.start > 0]
    if not found:
        return text
    value = rng.choice(found)
    words = text[value.start : value.end].split(" ")
    words[rng.randrange(len(words))] = rng.choice(_NAMES)
    return text[: value.start] + " ".join(words) + text[value.end :]


def _other_address(text: str, rng: random.Random) -> str:
    """A host, mail address or path with one of its words exchanged."""
    found = [v for v in values_in(text) if v.kind in _ADDRESSED]
    if not found:
        return text
    value = rng.choice(found)
    old = text[value.start : value.end]
    words = [m for m in re.finditer(r"[A-Za-z]{3,}", old) if m[0] not in ("com", "org", "net", "http", "https", "www")]
    if not words:
        return text
    word = rng.choice(words)
    new = old[: word.start()] + rng.choice(_LABELS) + old[word.end() :]
    return text[: value.start] + new + text[value.end :]


def _other_word(text: str, rng: random.Random) -> str:
    """A day, month, number word, role or colour exchanged for another."""
    found = list(_ONE.finditer(text))
    if not found:
        return text
    word = rng.choice(found)
    other = rng.choice([one for one in _ONE_OF[word[0]] if one != word[0]])
    return text[: word.start()] + other + text[word.end() :]


def _negated(text: str, rng: random.Random) -> str:
    """A word exchanged for its opposite, or a negation that comes or goes."""
    found = list(_OPPOSITE.finditer(text))
    if not found:
        return text
    word = rng.choice(found)
    return re.sub(r"  +", " ", text[: word.start()] + _AGAINST[word[0]] + text[word.end() :])


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _other_number, _other_name, _other_address, _other_word, _negated,
)  # fmt: skip


def changed(text: str, rng: random.Random) -> str:
    """The text with one thing changed; as it is where no rule finds anything."""
    for rule in rng.sample(_CHANGES, len(_CHANGES)):
        found = rule(text, rng)
        if found != text:
            return found
    return text


def with_sentence_of(text: str, other: str, rng: random.Random) -> str:
    """The sentences of a text in another order, one of them in the place of, or beside, one of another text."""
    mine, theirs = _SENTENCES.split(text), _SENTENCES.split(other)
    at = rng.randrange(len(mine))
    one = rng.choice(theirs)
    mine = [*mine[:at], one, *mine[at + (len(mine) > 1 and rng.random() < 0.5) :]]
    if rng.random() < 0.3:
        rng.shuffle(mine)
    return " ".join(mine)


def in_another_form(text: str, rng: random.Random) -> str:
    """The same text as a chat line, a setting, a table row, minutes, an answer."""
    bare = text.rstrip(".")
    low = bare[:1].lower() + bare[1:] if bare[1:2].islower() else bare
    who = rng.choice(_NAMES)
    forms = (
        f"{rng.randint(7, 19):02}:{rng.randint(0, 59):02} {who}: {low}", f"FYI: {text}", f"Reminder - {low}",
        f'{{"note": "{bare}"}}', f'{{"by": "{who.lower()}", "text": "{text}"}}', f"| {who} | {bare} |", f"- {bare}",
        f"Minutes, item {rng.randint(1, 9)}: {text}", f"Section {rng.randint(1, 9)}.{rng.randint(1, 9)}: {low}.",
        f"As {who} said, {low}.", f"{text} Regards, {who}", f"Hi all, {low}, thanks", f"Q: How is it? A: {text}",
        f"note to self: {low}", f"{bare}!", low, f"For the record: {low}.", f"{who} confirms: {text}", text.upper(),
        f"# runbook\n{text}", f"rule = {bare}", f"(noted by {who}) {text}", f"We agreed that {low}.", f"> {text}",
    )  # fmt: skip
    return rng.choice(forms)
