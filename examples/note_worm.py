"""A worm that is only words, in a crew whose memories are notes: undefended, with foresight, and without a worm.

python examples/note_worm.py                                   # a scripted model, seconds
python examples/note_worm.py --model smollm2 --small           # SmolLM2 on this machine, slow
python examples/note_worm.py --model NAME --base-url http://localhost:8000/v1
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from lazaretto.agents.model import AgentModel, Usage
from lazaretto.models.minilm import shared_minilm
from lazaretto.models.protocol import ChatModel
from lazaretto.models.scripted import ScriptedChatModel

try:
    from lazaretto_lab.studies.foresight.note_crew import MEMBERS, calibrated, run_crew, trusting_reply
except ModuleNotFoundError:
    raise SystemExit("this example needs the laboratory: pip install lazaretto-lab") from None

console = Console(width=110)


def chat_model(name: str, base_url: str) -> ChatModel:
    """The model that the crew thinks with."""
    if name == "scripted":
        return ScriptedChatModel(trusting_reply)
    if name == "smollm2":
        from lazaretto.models.own_networks import LocalChat

        return LocalChat(name)
    from lazaretto.models.openai_chat import Endpoint, OpenAIChat

    return OpenAIChat(Endpoint(name, base_url) if base_url else Endpoint(name))


async def story(chat: ChatModel, small: bool, seeds: int) -> list[dict[str, Any]]:
    """One row per seed and crew; the first row is the calibration."""
    model = AgentModel(chat, shared_minilm())
    members, rounds = (MEMBERS[:4], 4) if small else (MEMBERS, 8)
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        known = await calibrated(Path(folder), model, 8 if small else 12, 24 if small else 60)
        rows.append({"crew": "calibration, once", "rehearsals": asdict(model.spent)})
    for seed in range(seeds):
        for crew, calibration, patient in (
            ("worm, undefended", None, MEMBERS[0]),
            ("worm, foresight", known, MEMBERS[0]),
            ("no worm, foresight", known, ""),
        ):
            with TemporaryDirectory() as folder:
                report = await run_crew(
                    Path(folder), model, calibration, rounds=rounds, patient=patient, seed=seed, members=members
                )
            rows.append({"crew": crew, "seed": seed, "members": len(members), **asdict(report)})
    return rows


def tokens(spent: dict[str, int] | None) -> str:
    """What was asked of the model, in a cell."""
    usage = Usage(**spent) if spent else Usage()
    return f"{usage.calls} calls, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"


def show(rows: list[dict[str, Any]]) -> None:
    """The story as a table."""
    table = Table("crew", "seed", "infected by round", "benign notes lost", "their own talk", "foresight")
    for row in rows:
        infected = " ".join(map(str, row.get("infected", ())))
        of = f"{infected} of {row['members']}" if infected else ""
        lost = str(row.get("benign_removed", ""))
        seed, work = str(row.get("seed", "")), tokens(row["work"]) if "work" in row else ""
        table.add_row(row["crew"], seed, of, lost, work, tokens(row.get("rehearsals")))
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="scripted", help="scripted, smollm2, or a model of the endpoint")
    parser.add_argument("--base-url", default="", help="an OpenAI-compatible endpoint")
    parser.add_argument("--small", action="store_true", help="four members, four rounds, a small calibration")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    found = asyncio.run(story(chat_model(options.model, options.base_url), options.small, options.seeds))
    show(found)
    if options.json:
        options.json.write_text(json.dumps({"model": options.model, "rows": found}, indent=1) + "\n")
