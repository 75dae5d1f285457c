"""One unit of the study: every task under every attack, with one model, one defence and one seed."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.models.deep import TRUNKS, is_set_up
from lazaretto.models.deep.base import FOLDER
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.crews.models import Batcher, open_model
from lazaretto_lab.studies.crews.tasks import ATTACKS, CHANNELS, Case, cases

TOLD = 3
"""Tasks of the first seed whose transcripts are kept, under every attack."""


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """Settings: ``model``, ``defence``, ``limit`` (tasks)."""
    began = time.perf_counter()
    work = cases(seed, settings.get("limit"))
    batcher = Batcher(open_model(str(settings["model"])))
    rows: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    lock = threading.Lock()

    def one(case: Case, folder: Path) -> None:
        try:
            row = _play(case, str(settings["defence"]), batcher, folder)
        except Exception as error:  # one broken case must not stop the others that wait with it
            with lock:
                faults.append(f"{case.name}: {type(error).__name__}: {error}")
            return
        with lock:
            rows[case.name] = row
            context.progress(len(rows) / len(work), f"{len(rows)} of {len(work)} cases")

    deep = settings["defence"] == "guard+deep"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, larger_readers(deep, Path(folder)):
        jobs: dict[str, Callable[[], None]] = {
            case.name: partial(one, case, Path(folder) / str(place)) for place, case in enumerate(work)
        }
        batcher.run(jobs)
    if faults:
        raise RuntimeError(f"{len(faults)} of {len(work)} cases broke, first: {sorted(faults)[0]}")
    done = [rows[case.name] for case in work]
    told = {case.name for case in work[: TOLD * len(ATTACKS)]} if seed == 0 else set()
    for row in done:
        transcript = row.pop("transcript")
        if row["case"] in told:
            row["transcript"] = transcript
    told_of = {
        "model_seconds": batcher.seconds,
        "all_seconds": time.perf_counter() - began,
        "larger_readers": deep,
    }
    return {**measures(done), **told_of, "cases": done}


@contextmanager
def larger_readers(wanted: bool, folder: Path) -> Iterator[None]:
    """The guard with its larger readers, which must be set up then, or without them wherever they are."""
    if wanted:
        missing = [name for name in TRUNKS if not is_set_up(name)]
        if missing:
            raise ModelUnavailable(f"{', '.join(missing)} are not here; run: lazaretto deep setup")
        yield
        return
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder / "no-larger-readers")
    try:
        yield
    finally:
        os.environ.pop(FOLDER) if before is None else os.environ.update({FOLDER: before})


def _play(case: Case, defence: str, batcher: Batcher, folder: Path) -> dict[str, Any]:
    try:
        from lazaretto_lab.studies.crews.crew import Crew
        from lazaretto_lab.studies.crews.defences import open_defence
    except ImportError:
        raise MissingExtra("a LangGraph crew", "langgraph") from None
    with open_defence(defence, folder) as standing:
        crew = Crew(case, partial(batcher.ask, case.name), standing)
        return {**crew.run(), "transcript": crew.transcript}


def measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The shares that are published, of the cases of one unit."""
    clean = [row for row in rows if row["attack"] == "none"]
    attacked = [row for row in rows if row["attack"] != "none"]
    found: dict[str, Any] = {
        "utility": _share(clean, "right"),
        "utility_asked": _share(clean, "right_if_asked"),
        "utility_attacked": _mean([row["right"] and not row["harmed"] for row in attacked if row["attack"] != "worm"]),
        "success": _share(attacked, "harmed"),
        "questions": _mean([row["asked"] for row in clean]),
        "honest_held": _ratio(clean, "held", "offered"),
        "tokens": _mean([row["tokens_in"] + row["tokens_out"] for row in rows]),
    }
    for attack in ATTACKS[1:]:
        found[f"success_{attack}"] = _share([row for row in attacked if row["attack"] == attack], "harmed")
    for channel in CHANNELS:
        found[f"success_by_{channel}"] = _share([row for row in attacked if row["channel"] == channel], "harmed")
    worms = [row for row in attacked if row["attack"] == "worm"]
    found["hops"] = _mean([len(row["ill"]) for row in worms])
    found["spread"] = _mean([len(row["ill"]) / row["reached"] for row in worms])
    found["farthest"] = max((len(row["ill"]) for row in worms), default=None)
    return found


def _share(rows: Sequence[Mapping[str, Any]], what: str) -> float | None:
    return _mean([row[what] for row in rows])


def _ratio(rows: Sequence[Mapping[str, Any]], part: str, whole: str) -> float | None:
    total = sum(row[whole] for row in rows)
    return sum(row[part] for row in rows) / total if total else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
