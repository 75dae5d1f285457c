"""The work in units, in a fixed random order, so that a run that was cut is a fair sample: every unit holds whole
pairs, each under all four defences. First the user tasks without an attack, then the pairs."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from lazaretto_lab.studies.crews.models import Answer, Batcher, Model
from lazaretto_lab.studies.crews.protocol import Chat
from lazaretto_lab.studies.dojo.agent import World, play
from lazaretto_lab.studies.dojo.defences import DEFENCES, Holds, open_defence
from lazaretto_lab.studies.dojo.protocol import ONE_AT_A_TIME
from lazaretto_lab.studies.dojo.suites import Pair

UNIT = 16
"""Pairs of a unit."""
SEED = 35
"""Of the order."""
TOLD = 3
"""Pairs of a unit whose dialogues are kept."""
MOST_TOKENS = 200
"""Of one answer."""
ONE_LINE = "CALL"
"""Answers that begin with this word are one line."""
DEVELOPMENT = frozenset({("banking", "user_task_7"), ("slack", "user_task_2")})
"""User tasks on which prompt and protocol were tried; they are in no reported figure."""
Opener = Callable[[Pair], World]


@dataclass(frozen=True, slots=True)
class Unit:
    """Some pairs, each to be played under all defences."""

    number: int
    pairs: tuple[Pair, ...]


def units(alone: Sequence[Pair], pairs: Sequence[Pair]) -> list[Unit]:
    """All units in their order, without the tasks of the development."""
    found: list[tuple[Pair, ...]] = []
    for part in (alone, pairs):
        kept = sorted(pair for pair in part if pair[:2] not in DEVELOPMENT)
        random.Random(SEED).shuffle(kept)
        found += [tuple(kept[start : start + UNIT]) for start in range(0, len(kept), UNIT)]
    return [Unit(number, one) for number, one in enumerate(found)]


class Remembering:
    """A model that is asked each question once: the four defences of a pair begin alike, and answers are greedy."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[str, Answer] = {}

    def answer(self, prompts: Sequence[Chat]) -> list[Answer]:
        """One answer per prompt, in order."""
        keys = [prompt.chatml() for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._model.answer(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


def run_unit(unit: Unit, opened: Model, holds: Holds, open_world: Opener) -> dict[str, Any]:
    """Every pair of a unit under every defence."""
    began = time.perf_counter()
    batcher = Batcher(Remembering(opened))
    rows: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()

    def one(name: str, pair: Pair, defence: str, folder: Path) -> None:
        row = {"suite": pair[0], "user": pair[1], "injection": pair[2], "defence": defence}
        try:
            row |= _played(pair, defence, folder, holds, open_world, partial(batcher.ask, name))
        except Exception as error:  # one broken case must not stop the others that wait with it
            row["fault"] = f"{type(error).__name__}: {error}"[:400]
        with lock:
            rows[name] = row

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        jobs: dict[str, Callable[[], None]] = {}
        for place, pair in enumerate(unit.pairs):
            for defence in DEFENCES:
                name = f"{place:03} {defence}"
                jobs[name] = partial(one, name, pair, defence, Path(folder) / name.replace(" ", "-"))
        batcher.run(jobs)
    done = [rows[name] for name in jobs]
    for place, row in enumerate(done):
        if place >= TOLD * len(DEFENCES):
            row.pop("dialogue", None)
    return {
        "unit": unit.number, "seconds": time.perf_counter() - began, "model_seconds": batcher.seconds,
        "batches": batcher.batches, "rows": done,
    }  # fmt: skip


def _played(
    pair: Pair, defence: str, folder: Path, holds: Holds, open_world: Opener, ask: Callable[[Chat], Answer]
) -> dict[str, Any]:
    with ONE_AT_A_TIME:
        world = open_world(pair)
    with open_defence(defence, pair[0], folder, holds) as standing:
        run = play(world, standing, ask)
    try:
        with ONE_AT_A_TIME:
            utility, attack, check = *world.outcome(run.said), ""
    except SystemError:  # Python's own
        raise
    except Exception as error:  # a check of AgentDojo that cannot read what the model left behind: the task is not done
        utility, attack, check = False, False, f"{type(error).__name__}: {error}"[:200]
    return {
        "utility": utility, "attack": attack, "read": run.read, "results": run.results, "held": run.held,
        "refused": run.refused, "asked": run.asked, "calls": run.calls, "said": run.said[:2000], "check": check,
        "tokens_in": run.tokens_in, "tokens_out": run.tokens_out, "dialogue": run.dialogue.messages()[1:],
    }  # fmt: skip


def work(wanted: Sequence[Unit], folder: Path, opened: Callable[[], Model], holds: Holds, open_world: Opener) -> int:
    """Plays what nobody has played or begun yet, in order; several processes may work in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for unit in wanted:
        if not _claim(folder, unit.number):
            continue
        found = run_unit(unit, opened(), holds, open_world)
        if sum("fault" in row for row in found["rows"]) > len(found["rows"]) / 2:  # the model's fault, not the cases'
            found = run_unit(unit, opened(), holds, open_world)
        part = folder / f"{unit.number:04}.part"
        part.write_bytes(orjson.dumps(found))
        part.rename(folder / f"{unit.number:04}.json")
        count += 1
    return count


def _claim(folder: Path, number: int) -> bool:
    if (folder / f"{number:04}.json").exists():
        return False
    try:
        os.close(os.open(folder / f"{number:04}.claim", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def begin_again(folder: Path) -> None:
    """Units that were begun and not ended may be begun again; only while nobody works in the folder."""
    for path in folder.glob("*.claim"):
        path.unlink()


def finished(folder: Path) -> list[dict[str, Any]]:
    """The units that are done, in order."""
    return [orjson.loads(path.read_bytes()) for path in sorted(folder.glob("[0-9]*.json"))]
