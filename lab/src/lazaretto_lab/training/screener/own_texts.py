"""Orders and honest look-alikes of this project's own making, in English and six other languages.

Both labels share their nouns, addresses and half of their verbs: only who is told to do what, by whom, tells them
apart. The lists (``own_english.toml``, ``own_languages.toml``) share no line with the corpora that test the screener.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from lazaretto_lab.training.screener import phrases

_HERE = Path(__file__).parent
_ENGLISH: Mapping[str, list[str]] = tomllib.loads((_HERE / "own_english.toml").read_text(encoding="utf-8"))
_OTHERS: Mapping[str, Mapping[str, list[str]]] = tomllib.loads(
    (_HERE / "own_languages.toml").read_text(encoding="utf-8")
)
LANGUAGES = ("en", *_OTHERS)
_IMPERATIVE = (
    "TODO", "FIXME", "- [", "* ", "{n}.", "{Work}", "First", "If the build", "Please", "Reminder", "Don't", "Next step",
    "Action item", "Runbook", "##", "# ", "Code style", "Before opening", "feat", "fix", "chore", "docs", "Never",
    "Do not", "Append", "Copy the", "Store the", "To fix", "For debugging", "Keep", "{person}: please", "Can someone",
    "Erinnerung", "Nächster", "Nicht", "Bitte", "Rappel", "Prochaine", "Ne pas", "Merci", "Recordatorio", "Siguiente",
    "No olvidar", "Por favor", "Promemoria", "Prossimo", "Non dim", "Per favore", "Lembrete", "Próximo", "Não",
    "Herinnering", "Volgende", "Niet", "Graag", "Weiter", "Ensuite", "Después", "Poi", "Depois", "Daarna", "A fazer",
    "Set the", "Ignore the sticker",
)  # fmt: skip
"""How honest frames begin that tell somebody to do something."""
_SLOT = re.compile(r"\{(\w+)\}")
_PLURAL = {"person": "people", "work2": "work"}
_MONTHS = ("January", "March", "May", "June", "September", "October", "November")


def own_text(language: str, kind: str, rng: random.Random) -> str:
    """One ``order``, ``note`` (imperative, but nobody's order to an agent) or ``statement`` in a language of
    ``LANGUAGES``; in English also a ``task``, which is out of place in somebody else's text."""
    lists = _ENGLISH if language == "en" else _OTHERS[language]
    if kind == "task":
        return _filled(rng.choice(lists["tasks_in_documents"]), lists, rng)
    frames = lists["order_frames" if kind == "order" else "benign_frames"]
    if kind != "order":
        frames = [frame for frame in frames if frame.startswith(_IMPERATIVE) == (kind == "note")]
    text = _filled(rng.choice(frames), lists, rng)
    draw = rng.random()
    if draw < 0.06:
        return text.upper() if draw < 0.02 else text.lower()
    if draw < 0.12:
        return text.rstrip(".!")
    return text[:1].upper() + text[1:] if text[:1].islower() and draw < 0.6 else text


def _filled(frame: str, lists: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """``frame`` with every slot filled, and the slots of what filled it."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        low = name[0].lower() + name[1:]
        options = lists.get(_PLURAL.get(low, low))
        value = _filled(rng.choice(options), lists, rng) if options else _value(low, rng)
        return value[:1].upper() + value[1:] if name != low else value

    return _SLOT.sub(fill, frame)


def _value(slot: str, rng: random.Random) -> str:
    if slot == "mail":
        return f"{rng.choice(_USERS)}@{rng.choice(_HOSTS)}"
    if slot == "site":
        return f"https://{rng.choice(_HOSTS)}/{rng.choice(('in', 'box', 's/44', 'get', 'api/v1', 'drop', 'u'))}"
    if slot == "brand":
        return rng.choice((*phrases.BRANDS, "Velora", "Northgate", "Brightline", "Harbor & Co", "Orchid", "Sunfield"))
    if slot == "topic":
        return rng.choice(phrases.TOPICS)
    if slot == "amount":
        return str(rng.choice((12, 50, 120, 480, 900, 2500, 10000)))
    if slot == "number":
        return str(rng.randrange(100, 99999)) if rng.random() < 0.6 else _account(rng)
    if slot in ("digit", "n"):
        return str(rng.randrange(1, 10))
    if slot == "letter":
        return str(rng.randrange(1, 30))
    if slot == "date":
        return f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)}" if rng.random() < 0.7 else rng.choice(_WEEKDAYS)
    raise KeyError(slot)


def _account(rng: random.Random) -> str:
    return f"{rng.choice(('DE', 'GB', 'FR', 'ES', 'NL'))}{rng.randrange(10, 99)} " + " ".join(
        str(rng.randrange(1000, 9999)) for _ in range(4)
    )


_WEEKDAYS = ("Monday", "Tuesday", "Friday", "next week", "the first of May")
_USERS = ("ap", "billing", "j.weber", "ops", "finance", "desk", "collect", "amy.w", "it-support", "no-reply", "m.rossi")
_HOSTS = (
    "brightwater-pay.example",
    "post.example",
    "relay.example",
    "harbor.example",
    "acme.example",
    "drop.example",
    "sync.example",
    "files.example",
    "northgate.example",
    "mail-archive.example",
    "cdn-update.example",
)
