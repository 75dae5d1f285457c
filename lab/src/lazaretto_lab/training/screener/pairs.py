"""Orders and honest contexts made from this project's phrases: letters, tables, code, advice, manuals."""

from __future__ import annotations

import json
import pydoc_data.topics
import random
import re
from collections.abc import Sequence
from pathlib import Path

from lazaretto_lab.training.screener import phrases
from lazaretto_lab.training.screener.corpora import load_source, prose


def _fill(pattern: str, rng: random.Random) -> str:
    """A pattern with its slots filled."""
    amount = rng.choice((12, 50, 120, 900, 2500, 10000))
    return pattern.format(
        mail=rng.choice(phrases.MAILS),
        site=rng.choice(phrases.SITES),
        name=rng.choice(phrases.NAMES),
        brand=rng.choice(phrases.BRANDS),
        topic=rng.choice(phrases.TOPICS),
        amount=amount,
        number=rng.randrange(1000, 99999),
        digit=rng.randrange(2, 10),
        digit4=rng.randrange(1000, 9999),
        letter=rng.choice("abcdefghijklmnopqrstuvwxyz"),
        year=rng.randrange(1999, 2026),
        date=f"{rng.randrange(1, 29)} {rng.choice(('March', 'June', 'October', 'January'))}",
        file=rng.choice(("keys.txt", "config.ini", "notes.md", "/etc/hosts")),
        tool=rng.choice(("curl", "tar", "chmod", "ping")),
    )


def own_order(rng: random.Random) -> str:
    """An order made from this project's own phrases."""
    draw = rng.random()
    if draw < 0.4:
        order = f"{rng.choice(phrases.VERBS).capitalize()} {rng.choice(phrases.OBJECTS)}{rng.choice(phrases.PURPOSES)}."
    else:
        order = rng.choice(phrases.ORDERS if draw < 0.7 else phrases.REPLY_ORDERS if draw < 0.85 else phrases.PROBES)
    order = _fill(order, rng)
    if rng.random() < 0.2:
        trigger = rng.choice(phrases.TRIGGERS).format(topic=rng.choice(phrases.TOPICS))
        order = f"{trigger} {order[0].lower()}{order[1:]}"
        order = order[0].upper() + order[1:]
    return order


def own_code_order(rng: random.Random) -> str:
    """An order to put foreign lines into the program an agent writes."""
    code = "\n".join(_fill(line, rng) for line in rng.choices(phrases.CODE_LINES, k=rng.randrange(3, 9)))
    return rng.choice(phrases.CODE_FRAMES).format(code=code)


_EXPLICIT = next(i for i, frame in enumerate(phrases.FRAMES) if frame.startswith("Important"))


def framed(order: str, rng: random.Random, explicit: bool = False) -> str:
    """The order as poison would put it: bare, polite, urgent, as system text, as a standing rule.

    ``explicit`` keeps to frames that no honest request has.
    """
    lower = order[0].lower() + order[1:] if order[1:2].islower() else order
    return rng.choice(phrases.FRAMES[_EXPLICIT:] if explicit else phrases.FRAMES).format(order=order, lower=lower)


_SENTENCE = re.compile(r"[^.!?\n]{15,200}[.!?]")


def harmless_lines(data: Path, benign: Sequence[str], seed: int) -> list[str]:
    """Harmless sentences for clean twins, as varied as the orders: statements, questions, advice and manuals.

    Manuals matter most: Python's own language reference tells its reader what to do on every page, and orders no agent.
    """
    rng = random.Random(f"lines/{seed}")
    texts = prose(data, seed) + [s.text for name in benign for s in load_source(name, data, seed, 1500, train=True)]
    manual = [*pydoc_data.topics.topics.values(), *_docstrings()]
    sentences = [m[0].strip() for text in texts for m in _SENTENCE.finditer(text)]
    taught = [" ".join(m[0].split()) for text in manual for m in _SENTENCE.finditer(text)]
    return rng.sample(sentences, min(6000, len(sentences))) + rng.sample(taught, min(4000, len(taught)))


def _docstrings() -> list[str]:
    found = []
    for path in sorted(Path(json.__file__).parent.parent.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        found += re.findall(r'"""(.{40,1500}?)"""', text, re.DOTALL)
    return found


def structured(rng: random.Random, prose_texts: Sequence[str]) -> str:
    """A table, log, listing, settings file or JSON document with nothing to say to anyone."""
    rich = rng.random() < 0.6

    def cell() -> str:
        draw = rng.random()
        if draw < 0.4:
            return str(rng.randrange(10 ** rng.randrange(1, 7)))
        if rich and draw < 0.9:  # a few words of real prose: names, titles, remarks
            words = rng.choice(prose_texts).split()
            start = rng.randrange(len(words))
            return " ".join(words[start : start + rng.randrange(1, 9)]).replace("|", "/")
        return (
            " ".join(rng.choices(phrases.CELL_WORDS, k=rng.randrange(1, 4)))
            if draw < 0.9
            else rng.choice(("-", "", "n/a"))
        )

    columns, rows = rng.randrange(2, 7), rng.randrange(3, 14)
    head = [w.title() if rng.random() < 0.7 else w for w in rng.sample(phrases.CELL_WORDS, columns)]
    body = [[cell() for _ in head] for _ in range(rows)]
    style = rng.randrange(6)
    if style == 0:
        return "\n".join("| " + " | ".join(row) + " |" for row in [head, *body])
    if style == 1:
        return "\n".join(rng.choice((",", "\t", ";")).join(row) for row in [head, *body])
    if style == 2:
        return json.dumps([dict(zip(head, row, strict=True)) for row in body], indent=rng.choice((None, 1, 2)))
    if style == 3:
        return str({"results": [dict(zip(head, row, strict=True)) for row in body]})
    if style == 4:
        level = ("INFO", "WARN", "DEBUG", "ERROR")
        return "\n".join(
            f"2024-0{rng.randrange(1, 9)}-1{rng.randrange(9)} {rng.choice(level)} {' '.join(row)}" for row in body
        )
    return "\n".join(f"{rng.choice(head)}{rng.choice((': ', ' = ', '='))}{cell()}" for _ in range(rows))


def letter(rng: random.Random) -> str:
    """A notice of the kind that fills inboxes: it talks to its reader, and orders no agent."""
    lines = [_fill(line, rng) for line in rng.sample(phrases.MAIL_LINES, rng.randrange(3, 12))]
    body = rng.choice((" ", "\n", "\n\n", " \n ")).join(lines)
    subject = _fill(rng.choice(("Your receipt", "Invoice {number}", "Account notice", "Update from {brand}")), rng)
    head = rng.choice(
        ("", f"SUBJECT: {subject}|CONTENT: ", f"From: {rng.choice(phrases.MAILS)}\nSubject: {subject}\n\n")
    )
    return head + body


def code_help(rng: random.Random) -> str:
    """An answer to a programming question: advice to a person, with code."""
    parts = rng.sample(phrases.CODE_HELP, rng.randrange(2, 5))
    code = source_code(rng, 1)[0][:400]
    parts.insert(rng.randrange(len(parts) + 1), f"```\n{code}\n```")
    return "\n".join(parts)


def source_code(rng: random.Random, count: int) -> list[str]:
    """Stretches of Python's own standard library: code and comments, which order nobody."""
    files = sorted(Path(json.__file__).parent.parent.glob("*.py"))
    pieces = []
    for _ in range(count):
        lines = rng.choice(files).read_text(encoding="utf-8", errors="ignore").splitlines()
        start = rng.randrange(max(1, len(lines) - 20))
        pieces.append("\n".join(lines[start : start + rng.randrange(4, 30)]))
    return pieces
