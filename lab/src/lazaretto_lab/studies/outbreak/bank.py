"""A bank of many viruses: base pictures x sentences x budgets, split into design and test before anything is tuned.

``lab/benchmarks/virus_bank.py`` fills a folder with them and writes ``bank.json``. An experiment names the folder and a
part; its seed decides which virus a run meets, so that many seeds are many viruses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.settings import Budget
from lazaretto_lab.worlds.streams import stream

Part = Literal["design", "test"]
BASE_PICTURES = tuple(range(10, 18))
"""Numbers of the pictures that viruses start from; no earlier attack started from one of them."""
DESIGN_BASES = frozenset(BASE_PICTURES[:3])
"""Viruses from these may be looked at while something is designed; those from the others are for results alone."""
SENTENCES = ("marker-lantern", "marker-test", "marker-seven", "tool-door")
BUDGETS = tuple(Budget("pixel", eps) for eps in (4, 8, 16, 32)) + tuple(Budget("border", h) for h in (6, 8, 10, 12))
INDEX = "bank.json"


@dataclass(frozen=True, slots=True)
class BankEntry:
    """One virus of the bank, before it is sought."""

    base: int
    target: str
    budget: Budget

    @property
    def name(self) -> str:
        """Its file's name without the ending."""
        return f"{self.base}-{self.target}-{self.budget.label}"

    @property
    def part(self) -> Part:
        """Design or test: the base picture decides."""
        return "design" if self.base in DESIGN_BASES else "test"


def entries() -> tuple[BankEntry, ...]:
    """All viruses of the bank, in the order in which they are sought: early ones cover all bases and sentences."""
    return tuple(BankEntry(base, name, budget) for budget in BUDGETS for name in SENTENCES for base in BASE_PICTURES)


def write_index(folder: Path) -> list[dict[str, Any]]:
    """``bank.json`` from what lies in the folder so far; a picture without its facts is not there yet."""
    rows = [json.loads(facts.read_text()) for entry in entries() if (facts := folder / f"{entry.name}.json").is_file()]
    (folder / INDEX).write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def read_bank(folder: Path, sha256: str = "") -> list[dict[str, Any]]:
    """The index of a bank; with ``sha256``, of that very bank."""
    index = folder / INDEX
    if not index.is_file():
        raise InputError("attack.bank", f"{folder} has no {INDEX}", "Fill it: python lab/benchmarks/virus_bank.py")
    data = index.read_bytes()
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise InputError("attack.bank", f"{index} is not the bank this experiment was written for")
    rows: list[dict[str, Any]] = json.loads(data)
    return rows


def drawn(
    folder: Path, rows: Sequence[dict[str, Any]], part: Part, betas: tuple[float, float], seed: int, count: int
) -> list[tuple[AlbumItem, str]]:
    """``count`` viruses of a part with beta within bounds, and their targets: seed after seed all of them come up."""
    low, high = betas
    wanted = sorted((row for row in rows if row["part"] == part and low <= row["beta"] <= high), key=_name)
    if len(wanted) < count:
        raise InputError("attack.bank", f"{len(wanted)} viruses of part {part} with beta {low} to {high}", "Make more")
    order = stream(0, "virus bank").sample(wanted, len(wanted))
    chosen = [order[(seed * count + number) % len(order)] for number in range(count)]
    return [(_picture(folder, row), str(row["target"])) for row in chosen]


def _name(row: dict[str, Any]) -> str:
    return str(row["name"])


def _picture(folder: Path, row: dict[str, Any]) -> AlbumItem:
    data = (folder / f"{row['name']}.png").read_bytes()
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise InputError("attack.bank", f"{row['name']}.png is not the picture that the index names", "Make it again")
    return picture_item(data, str(row["title"]))
