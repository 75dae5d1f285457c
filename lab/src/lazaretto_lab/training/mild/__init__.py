"""Orders in mild words and honest texts beside them, by kind of work and by form, in four languages.

Written for fitting, by a person who had not looked at the lists that judge; a test holds them apart. In a file ``# work
language`` begins a kind of work; ``!form text`` is an order, ``=form text`` an honest text of that form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lazaretto_lab.training.written import fold_of

FORMS = {
    "done": "a deed that is reported",
    "kept": "a secret kept from a person",
    "change": "a rule after a change",
    "request": "a polite request",
    "passing": "one sentence among others",
    "worm": "a text that asks to be kept or passed on",
    "value": "a value, an address or a control",
}


@dataclass(frozen=True, slots=True)
class Mild:
    """One text."""

    text: str
    order: bool
    form: str
    work: str
    language: str

    @property
    def fold(self) -> int:
        """Of its kind of work."""
        return fold_of(self.work)


@cache
def mild_texts() -> tuple[Mild, ...]:
    """All of them, in the order of the files."""
    return tuple(one for file in sorted(Path(__file__).parent.glob("*.txt")) for one in _texts_of(file))


def _texts_of(file: Path) -> Iterator[Mild]:
    work = language = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            work, _, language = line[2:].rpartition(" ")
        elif line:
            form, _, text = line[1:].partition(" ")
            yield Mild(text.replace("\\n", "\n"), {"!": True, "=": False}[line[0]], form, work, language)
