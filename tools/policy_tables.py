"""Write the generated tables of the policy's pages anew: ``python tools/policy_tables.py`` after changing a setting."""

from __future__ import annotations

import re
from pathlib import Path

from lazaretto.gates.blocklist import BlocklistSettings
from lazaretto.gates.content.gate import ContentSettings
from lazaretto.gates.memory.gate import MemorySettings
from lazaretto.gates.second_reader import SecondReaderSettings
from lazaretto.gates.structure import StructureSettings
from lazaretto.policy import Policy, markdown_table

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("policy-settings.md", "policy-gates.md", "policy-content.md")
TABLE = re.compile(r"\| key \| default \|.*?\n(?:\|.*\n)+")
MODELS: dict[str, type] = {
    "": Policy,
    "gates.structure.": StructureSettings,
    "gates.blocklist.": BlocklistSettings,
    "gates.memory.": MemorySettings,
    "gates.content.": ContentSettings,
    "gates.second_reader.": SecondReaderSettings,
}


def main() -> None:
    """Each table is known by the key in its first row."""
    shown = {"": Policy.recommended()}  # a guard that is given no policy runs this one
    tables = [markdown_table(model, prefix, settings=shown.get(prefix)) for prefix, model in MODELS.items()]
    by_opening = {_opening(table): table for table in tables}
    for page in (DOCS / name for name in PAGES):
        text = page.read_text(encoding="utf-8")
        page.write_text(TABLE.sub(lambda m: by_opening.get(_opening(m[0]), m[0]), text), encoding="utf-8")


def _opening(table: str) -> str:
    key = table.splitlines()[2].split("`")[1]
    return key.rpartition(".")[0] if key.startswith("gates.") else ""


if __name__ == "__main__":
    main()
