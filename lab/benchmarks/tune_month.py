"""A month of a crew's traffic with 2 % poison, watched in mode observe; `lazaretto tune` lowers the false alarms.

    python lab/benchmarks/tune_month.py --write        # about two minutes of one core
    python lab/benchmarks/tune_month.py --items 200    # a small one, kept nowhere
    python lab/benchmarks/tune_month.py --unseen ../shared/data --write

Texts: honest notes and planted orders of lab/src/lazaretto_lab/training/written. The shipped screener was trained on
many of them, so the shares say nothing of how good the gates are on texts of others; they say what `tune` does. Two
months without a text in common: on the first a person labels what would have been held, and the policy is tuned with
two commands; the second is judged with the policy before and after, and decides.

``--unseen`` takes texts that the screener was not trained on: honest ones are turns of LoCoMo's conversations (three
quarters) and the everyday notes of people at work (tests/data/everyday_notes.toml), poisoned ones the attacks of the
first ten minutes and the poisoned tool results of tests/data. They are read, and nothing of the gates is changed by
them: the rates go into a policy in a temporary folder.

Exactness is measured too: the first month is judged again under the tuned policy, by the models, and compared item by
item with what `tune` counted from stored numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lazaretto import Guard, Policy
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.learn.tuning import Replay, installed_gate, judged_items, set_to
from lazaretto.types import Ruling
from lazaretto_lab.training import written

RESULT = Path(__file__).resolve().parents[1] / "results" / "tune" / "month.json"
LISTS = Path(__file__).resolve().parents[2] / "tests" / "data"
FEWEST = 40
"""Characters of a turn of a conversation that says something."""
ITEMS, POISON, SEED = 400, 0.02, 36
ROADS = (("message", "agent_message"), ("tool", "tool_output_external"), ("document", "untrusted_document"))
START = """mode = "observe"
[gates.memory]
false_positive_rate = 0.02
review_rate = 0.05
[gates.content]
false_alarms = 0.05
"""
"""The preset `recommended` with rates that somebody careful chose."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One item of the traffic."""

    text: str
    channel: str
    source: str
    poison: bool


def written_texts(chance: random.Random) -> tuple[list[str], list[str]]:
    """Honest and poisoned ones, of which the screener knows many."""
    honest = sorted({one.text for one in written.notes()} | {one.host for one in written.planted()})
    poison = sorted({one.text for one in written.planted()})
    chance.shuffle(honest)
    chance.shuffle(poison)
    return honest, poison


def unseen_texts(data: Path, chance: random.Random) -> tuple[list[str], list[str]]:
    """Honest and poisoned ones that the screener was not trained on; every fourth honest one is a note of work."""
    talks = json.loads((data / "locomo" / "locomo8.json").read_text(encoding="utf-8"))
    turns = sorted({text for text in _turns(talks) if len(text) >= FEWEST})
    notes = [one["text"].strip() for one in _list("everyday_notes", "note")]
    poison = [one["text"] for one in _list("first_ten_minutes", "attack") if one["kind"].startswith(("order", "worm"))]
    poison += [one["poisoned"].strip() for one in _list("poisoned_tool_results", "result")]
    for texts in (turns, notes, poison):
        chance.shuffle(texts)
    woven = [text for n, note in enumerate(notes) for text in (*turns[3 * n : 3 * n + 3], note)]
    return woven, poison


def _list(name: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((LISTS / f"{name}.toml").read_text(encoding="utf-8"))[table]
    return found


def _turns(talks: Any) -> Iterator[str]:
    """What the speakers say, wherever it stands in the file."""
    if isinstance(talks, dict):
        if isinstance(talks.get("text"), str) and "speaker" in talks:
            yield talks["text"]
        for one in talks.values():
            yield from _turns(one)
    elif isinstance(talks, list):
        for one in talks:
            yield from _turns(one)


def months(items: int, unseen: Path | None) -> tuple[list[Sent], list[Sent]]:
    """Two months without a text in common."""
    chance = random.Random(SEED)
    honest, poison = written_texts(chance) if unseen is None else unseen_texts(unseen, chance)
    bad = round(items * POISON)
    made = []
    for month in (0, 1):
        good = honest[month * (items - bad) : (month + 1) * (items - bad)]
        ill = poison[month * bad : (month + 1) * bad]
        if len(good) + len(ill) < items:
            raise SystemExit(f"there are not enough texts for two months of {items} items")
        sent = [Sent(text, *chance.choice(ROADS), text in set(ill)) for text in (*good, *ill)]
        chance.shuffle(sent)
        made.append(sent)
    return made[0], made[1]


async def judged(store: str, policy: Path, sent: Sequence[Sent]) -> list[tuple[str, Ruling]]:
    """The id and the ruling of every item, in order."""
    found = []
    async with Guard.open(store, policy=policy) as guard:
        for number, one in enumerate(sent, 1):
            said = await guard.check(one.text, agent=f"agent-{number % 7}", channel=one.channel, source=one.source)
            found.append((said.item, said.ruling if said.would is None else said.would))
            if number % 100 == 0:
                print(f"\r{number} of {len(sent)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


async def label(store: str, policy: Path, sent: Sequence[Sent], found: Sequence[tuple[str, Ruling]]) -> None:
    """What a person does in `lazaretto held --would`: says of everything that would have been held what it is."""
    async with Guard.open(store, policy=policy) as guard:
        for one, (item, ruling) in zip(sent, found, strict=True):
            if ruling > Ruling.WARN:
                await guard.label(item, "harmful" if one.poison else "benign", by="operator")


def counted(sent: Sequence[Sent], found: Sequence[tuple[str, Ruling]]) -> dict[str, Any]:
    """False alarms and poison held."""
    held = [ruling > Ruling.WARN for _, ruling in found]
    honest, bad = sum(not one.poison for one in sent), sum(one.poison for one in sent)
    alarms = sum(h and not one.poison for one, h in zip(sent, held, strict=True))
    caught = sum(h and one.poison for one, h in zip(sent, held, strict=True))
    return {"honest": honest, "false_alarms": alarms, "share": round(alarms / honest, 5), "poison": bad, "held": caught}


def command(*words: str) -> dict[str, Any]:
    """`lazaretto` in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", "lazaretto", *words, "--json"], capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):
        raise SystemExit(run.stdout + run.stderr)
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def replayed(store: str, policy: Path, changes: dict[str, float]) -> dict[str, bool]:
    """Item -> whether `tune` counts it as held under the advised settings."""
    from lazaretto.ledger import Ledger

    rules = Policy.load(policy)
    tuned = set_to(rules, {_key(name): value for name, value in changes.items()})
    names = {name for name, _ in rules.gate_names()}
    gates = {name: gate for name in names if (gate := installed_gate(name, tuned.gates.get(name, {}))) is not None}
    with Ledger.open(store) as ledger:
        replay = Replay(tuned, gates, Thresholds(ledger, rules.learn))
        return {one.observation.id: replay.ruled(one).ruling > Ruling.WARN for one in judged_items(ledger)}


def _key(name: str) -> tuple[str, str]:
    _, gate, setting = name.split(".")
    return gate, setting


def measure(items: int, folder: Path, plot: Path | None, unseen: Path | None) -> dict[str, Any]:
    """All of it."""
    first, second = months(items, unseen)
    start, tuned = folder / "start.toml", folder / "tuned.toml"
    start.write_text(START)
    store = [f"sqlite:///{folder}/{name}.db" for name in ("first", "again", "before", "after")]
    found = asyncio.run(judged(store[0], start, first))
    asyncio.run(label(store[0], start, first, found))
    shared = ("--store", store[0], "--policy", str(start))
    began = time.process_time()
    shown = command("tune", *shared, "--plot", str(plot or folder / "month.svg"))
    command("tune", *shared, "--write", str(tuned))
    counts = replayed(store[0], start, shown["advice"]["changes"])
    again = asyncio.run(judged(store[1], tuned, first))
    differing = sum(
        counts[item] is not (ruling > Ruling.WARN) for (item, _), (_, ruling) in zip(found, again, strict=True)
    )
    return {
        "items": items,
        "first_month": {"before": counted(first, found), "tuned": counted(first, again)},
        "second_month": {
            "before": counted(second, asyncio.run(judged(store[2], start, second))),
            "tuned": counted(second, asyncio.run(judged(store[3], tuned, second))),
        },
        "commands": 2,
        "advice": shown["advice"],
        "replay_against_models": {"items": items, "ruled_otherwise": differing},
        "seconds_of_this_process": round(time.process_time() - began, 1),
        "policy": tuned.read_text(),
    }


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=ITEMS, help="Items of one month.")
    parser.add_argument("--unseen", type=Path, help="Texts that were not trained on; the folder of the public data.")
    parser.add_argument("--write", action="store_true", help=f"Keep it in {RESULT.name} with its picture.")
    options = parser.parse_args()
    os.environ.setdefault("LAZARETTO_DEEP", "none")  # the second reader that ships, whatever is set up here
    if options.write:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        result = RESULT if options.unseen is None else RESULT.with_name("unseen.json")
        plot = result.with_suffix(".svg") if options.write else None
        made = measure(options.items, Path(folder), plot, options.unseen)
    text = json.dumps(made, indent=1) + "\n"
    if options.write:
        result.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
