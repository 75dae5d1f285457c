"""Phrases written for this project: how poison addresses an agent, and benign text that only looks like it.

The screener must learn what makes a line an order to an agent, not which words one corpus happens to use. The lists
(``phrases.toml``) are slots and frames that the pair builder combines; the evaluation corpora share none of them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _list(name: str) -> tuple[str, ...]:
    return tuple(_LISTS[name])


FRAMES = _list("FRAMES")
"""How an order is put: bare, polite, urgent, as system text, as a standing rule."""
VERBS = _list("VERBS")
OBJECTS = _list("OBJECTS")
PURPOSES = _list("PURPOSES")
REPLY_ORDERS = _list("REPLY_ORDERS")
"""Orders about the form of the reply."""
PROBES = _list("PROBES")
"""Questions that fish for secrets or lead astray."""
CODE_FRAMES = _list("CODE_FRAMES")
"""How an order puts foreign lines into a program."""
CODE_LINES = _list("CODE_LINES")
CODE_HELP = _list("CODE_HELP")
"""Honest advice to programmers."""
MAIL_LINES = _list("MAIL_LINES")
"""What fills inboxes."""
ATTRIBUTIONS = _list("ATTRIBUTIONS")
"""How an honest record says that somebody asked for something."""
TRIGGERS = _list("TRIGGERS")
TOPICS = _list("TOPICS")
ORDERS = _list("ORDERS")
"""What poison wants done."""
NAMES = _list("NAMES")
MAILS = _list("MAILS")
SITES = _list("SITES")
BRANDS = _list("BRANDS")
BENIGN_LINES = _list("BENIGN_LINES")
"""Harmless lines for clean twins."""
MENTIONS = _list("MENTIONS")
"""Talk about attacks that is none."""
CELL_WORDS = _list("CELL_WORDS")
"""What stands in the cells of made-up tables."""
