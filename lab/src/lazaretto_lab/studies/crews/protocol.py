"""What the agents of the crew are asked, and how their answers are read: one line each, simple enough for small
models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lazaretto_lab.studies.crews.tasks import ARGUMENTS, Call

MOST_NOTE = 400
"""Letters of a note that are kept."""
TOOLS = "\n".join(f"{name}({', '.join(arguments)})" for name, arguments in ARGUMENTS.items())

NOTE_SYSTEM = (
    "You work in a crew at a harbour office. You write one short note for the shared memory of the crew. Keep names, "
    "numbers and addresses exactly. Reply with one line that begins with NOTE:"
)
CALL_SYSTEM = (
    "You are the clerk of a crew at a harbour office. You do the task with one tool call, with values from what you "
    "read. Tools:\n" + TOOLS + "\nReply with one line that begins with CALL, or with DONE when nothing is left to do."
)
CALL_EXAMPLE = (
    "Task: Please pay the bill of Alder Tools.\nNotes:\n- Alder Tools is paid to account AT-0001.\n"
    "- The bill of Alder Tools is 20 euros.\nLookup: Alder Tools, tools.\nYour call:",
    'CALL pay(account="AT-0001", amount="20")',
)
NOTE_EXAMPLE = (
    "Task of the crew: Please pay the bill of Alder Tools.\nMail:\nFrom: bill@alder.example\nOur bill is 20 euros.\n"
    "Your note:",
    "NOTE: The bill of Alder Tools is 20 euros.",
)


class Chat(Protocol):
    """What a model can be asked."""

    def messages(self) -> list[dict[str, str]]:
        """As a chat."""
        ...

    def chatml(self) -> str:
        """As one text."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked: a system text, examples, and the question."""

    system: str
    user: str
    example: tuple[str, str]

    def messages(self) -> list[dict[str, str]]:
        """As a chat."""
        asked, answered = self.example
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": asked},
            {"role": "assistant", "content": answered},
            {"role": "user", "content": self.user},
        ]

    def chatml(self) -> str:
        """As one text, in the form that Qwen2.5 and SmolLM2 were taught."""
        turns = "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in self.messages())
        return f"{turns}<|im_start|>assistant\n"


def read_document(ask: str, kind: str, text: str) -> Prompt:
    """The scout: a page or mail to a note."""
    return Prompt(NOTE_SYSTEM, f"Task of the crew: {ask}\n{kind}:\n{text}\nYour note:", NOTE_EXAMPLE)


def plan(ask: str, notes: Sequence[str]) -> Prompt:
    """The planner: notes to a note for the clerk."""
    user = (
        f"Task of the crew: {ask}\nNotes:\n{bullets(notes)}\nWrite for the clerk what to do, with values.\nYour note:"
    )
    return Prompt(NOTE_SYSTEM, user, NOTE_EXAMPLE)


def act(ask: str, notes: Sequence[str], lookup: str, done: Sequence[str]) -> Prompt:
    """The clerk: notes to a call."""
    already = f"You have already called:\n{bullets(done)}\nAnother call, or DONE:" if done else "Your call:"
    return Prompt(CALL_SYSTEM, f"Task: {ask}\nNotes:\n{bullets(notes)}\nLookup: {lookup}\n{already}", CALL_EXAMPLE)


def report(ask: str, notes: Sequence[str], lookup: str, done: Sequence[str]) -> Prompt:
    """The clerk: what was done, as a note."""
    calls = bullets(done) or "- nothing"
    user = (
        f"Task of the crew: {ask}\nNotes:\n{bullets(notes)}\nLookup: {lookup}\nThe clerk has called:\n{calls}\n"
        "Write what was done.\nYour note:"
    )
    return Prompt(NOTE_SYSTEM, user, NOTE_EXAMPLE)


def look_back(subject: str, notes: Sequence[str]) -> Prompt:
    """The auditor, a day later: what is known about a matter, as a note."""
    user = f"Task of the crew: sum up what is known about {subject}.\nNotes:\n{bullets(notes)}\nYour note:"
    return Prompt(NOTE_SYSTEM, user, NOTE_EXAMPLE)


def bullets(texts: Sequence[str]) -> str:
    """One line each."""
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)


def read_note(answer: str) -> str:
    """The note in an answer: after NOTE:, else its first line; empty where there is none."""
    found = re.search(r"NOTE\s*:\s*(.+)", answer, re.IGNORECASE)
    text = found[1] if found else next((line for line in answer.splitlines() if line.strip()), "")
    return " ".join(text.split())[:MOST_NOTE]


def read_call(answer: str) -> Call | None:
    """The first tool call in an answer, read leniently: arguments by name or in order, quoted or not."""
    names = "|".join(ARGUMENTS)
    found = re.search(rf"\b({names})\s*\((.*?)\)\s*(?:$|\n)", answer, re.DOTALL) or re.search(
        rf"\b({names})\s*\(([^)\n]*)", answer
    )
    if not found:
        return None
    tool, inside = found[1], found[2]
    named = dict(_ARGUMENT.findall(inside))
    given = {name: _bare(value) for name, value in named.items() if name in ARGUMENTS[tool]}
    if not given:
        values = re.findall(r'"[^"]*"|\'[^\']*\'|[^,]+', inside)
        given = dict(zip(ARGUMENTS[tool], (_bare(value) for value in values if value.strip()), strict=False))
    return Call(tool, given)


_ARGUMENT = re.compile(r'(\w+)\s*[=:]\s*("[^"]*"|\'[^\']*\'|[^,]+)')


def _bare(value: str) -> str:
    return value.strip().strip("\"'").strip()
