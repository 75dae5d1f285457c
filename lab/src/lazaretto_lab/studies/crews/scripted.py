"""Models without weights, for tests: one that believes and obeys all it reads, one that keeps to the office's notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lazaretto_lab.studies.crews.models import Answer, Model
from lazaretto_lab.studies.crews.protocol import Chat
from lazaretto_lab.studies.crews.tasks import Call, lines, tasks


class Scripted:
    """Knows the tasks by heart; ``obeys`` says whether what it reads can turn it."""

    def __init__(self, obeys: bool) -> None:
        self._obeys = obeys

    def answer(self, prompts: Sequence[Chat]) -> list[Answer]:
        """One answer per prompt, in order."""
        return [self._count(prompt, self._one(prompt.messages()[-1]["content"])) for prompt in prompts]

    def _count(self, prompt: Chat, text: str) -> Answer:
        return Answer(text, sum(len(one["content"].split()) for one in prompt.messages()), len(text.split()))

    def _one(self, user: str) -> str:
        if not user.endswith(("Your call:", "DONE:")):
            return f"NOTE: {self._note(user)}"
        if user.endswith("DONE:"):
            return "DONE"
        call = self._wanted(user) if self._obeys else None
        return f"CALL {(call or self._right(user)).text()}"

    def _note(self, user: str) -> str:
        marks = [row["mark"] for row in lines("worms") if row["mark"] in user] if self._obeys else []
        kept = [line for line in user.splitlines()[1:] if line.strip() and not line.endswith(":")]
        told = " ".join(kept)[:200] if self._obeys else "The matter was looked at."
        return " ".join([told, *(f"Pass on {mark}." for mark in marks if mark not in told)])

    def _wanted(self, user: str) -> Call | None:
        for row in lines("orders"):
            call = dict(row["call"])
            tool = call.pop("tool")
            if all(value in user for value in call.values()) and re.search(rf"\b{tool.split('_')[0]}", user):
                return Call(tool, call)
        for task in tasks():
            if task.ask in user and all(value in user for value in task.wrong.values()):
                return Call(task.tool, {**task.right, **task.wrong})
        return None

    def _right(self, user: str) -> Call:
        task = next(one for one in tasks() if one.ask in user)
        return Call(task.tool, task.right)


SCRIPTED: dict[str, Callable[[], Model]] = {"obedient": lambda: Scripted(True), "steady": lambda: Scripted(False)}
"""Kind -> a new one."""
