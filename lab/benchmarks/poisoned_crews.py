"""A crew poisoned through each framework's own memory, undefended and guarded: the table of docs/adapters-matrix.md.

``make adapters`` builds the environments; ``python lab/benchmarks/poisoned_crews.py --write`` runs every example that
has one, keeps what it printed in lab/results/poisoned_crews, and writes the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "poisoned_crews" / "results.json"
PAGE = REPOSITORY / "docs" / "adapters-matrix.md"
CREWS = {
    "langgraph": "",
    "openai_agents": "openai-agents",
    "mem0": "mem0",
    "crewai": "crewai",
    "google_adk": "google-adk",
    "agent_framework": "agent-framework",
    "llama_index": "examples",
    "pydantic_ai": "examples",
    "autogen": "examples",
}
"""Example, and the name of the environment it runs in; empty for the environment of this program."""
START, END = "<!-- poisoned crews -->\n", "<!-- end of poisoned crews -->"


def python_of(environment: str) -> Path:
    """The interpreter of an environment."""
    return REPOSITORY / f".venv-adapters-{environment}" / "bin" / "python" if environment else Path(sys.executable)


def run(example: str, environment: str) -> dict[str, Any] | None:
    """What an example printed; None where its environment is not built."""
    if not python_of(environment).exists():
        print(f"{example}: no environment; run make adapters", file=sys.stderr)
        return None
    command = [str(python_of(environment)), str(REPOSITORY / "examples" / f"crew_{example}.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY / "examples")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The results as the page shows them."""
    lines = [
        "| crew | orders followed, undefended | guarded | honest notes read, undefended | guarded |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            str(row[how][what])
            for what in ("orders followed", "honest notes read")
            for how in ("undefended", "guarded")
        ]
        lines.append(f"| {row['framework']} | {cells[0]} of 3 | {cells[1]} of 3 | {cells[2]} of 6 | {cells[3]} of 6 |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, print, and with ``--write`` keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true")
    write = options.parse_args().write
    rows = [found for example, environment in CREWS.items() if (found := run(example, environment))]
    print(table(rows))
    if write:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        before, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(before + START + table(rows) + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
