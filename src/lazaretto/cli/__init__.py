"""The command line. Each file of this folder holds one family of commands: functions of their names, or a group of
commands, which is called ``family`` there.

A call loads the family of its command alone: ``lazaretto --version`` loads no library at all.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

FAMILIES: dict[str, tuple[str, ...]] = {
    "guard": ("init", "check", "remember", "recall", "recheck", "suspects", "tend"),
    "actions": ("authorize", "actions"),
    "trace": ("trace", "contacts"),
    "conflicts": ("conflicts",),
    "repair": ("repair", "release", "appeal"),
    "labels": ("label", "labels", "unlabel"),
    "incidents": ("incidents", "incident", "held"),
    "ledger": ("ledger",),
    "doctor": ("doctor", "deep"),
    "serve": ("serve", "proxy"),
    "mcp": ("mcp",),
    "keys": ("keys",),
    "audit": ("audit",),
    "data": ("data",),
    "learn": ("learn",),
    "tune": ("tune",),
    "observe": ("observed", "enforce"),
    "screen": ("screen",),
    "scan": ("scan",),
    "foresight": ("foresight",),
}
"""Modules of this folder, in the order ``--help`` lists them, each with the words that begin its commands."""
OLD_NAMES = {"tend": "recheck"}
"""Commands that go in 0.3, each with the name it has now."""
COMMANDS = "lazaretto.commands"
"""The entry point group through which other distributions add families: ``register(app)`` each. They cannot replace a
command of the product."""
LABORATORY = ("bench", "epidemic", "attack", "train", "drill")
"""Commands of the laboratory, which say how to install it where it is absent."""


def build(command: str | None = None) -> typer.Typer:
    """The application: whole, or as far as it needs to be for one of its commands."""
    from lazaretto.cli import application

    return application.build(command)


def main() -> None:
    """Entry point of the ``lazaretto`` command."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(version("lazaretto"))
        return
    gc.disable()  # until everything is imported: there is no garbage among modules, only time spent on looking for it
    from lazaretto.cli import application

    application.run()
