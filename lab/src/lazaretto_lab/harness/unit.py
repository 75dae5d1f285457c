"""Doing one unit of work, in whatever process it lands in."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto.files import write_file
from lazaretto_lab.harness.context import Outcome, Progress, RunContext, UnitResult
from lazaretto_lab.harness.experiment import Bound, Unit
from lazaretto_lab.harness.runners import find_runner

PROGRESS_FILE = "progress.json"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit with everything a worker needs to do it; travels to other processes."""

    unit: Unit
    held_when: tuple[Bound, ...]
    workdir: Path


class ProgressFile:
    """Progress of a unit that runs in another process: a small file in its work folder, rewritten a few times a
    second."""

    def __init__(self, workdir: Path, every: float = 0.3) -> None:
        self._path, self._every, self._last = workdir / PROGRESS_FILE, every, 0.0

    def __call__(self, share: float, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            write_file(self._path, orjson.dumps([share, note]))


def read_progress(workdir: Path) -> tuple[float, str]:
    """What the unit last said about itself; (0, "") when it has said nothing."""
    try:
        share, note = orjson.loads((workdir / PROGRESS_FILE).read_bytes())
        return float(share), str(note)
    except (OSError, ValueError):
        return 0.0, ""


def do_job(job: Job, progress: Progress | None = None) -> UnitResult:
    """Run a unit to its end. Whatever goes wrong inside the runner makes it void, with the reason."""
    started = time.perf_counter()
    job.workdir.mkdir(parents=True, exist_ok=True)
    context = RunContext(job.workdir, progress or ProgressFile(job.workdir))
    try:
        measures = clean_measures(find_runner(job.unit.runner)(job.unit.settings, job.unit.seed, context))
        outcome, reason = judge(measures, job.held_when)
    except Exception as error:  # a runner may raise anything; void is the word for all of it
        outcome, reason, measures = Outcome.VOID, f"{type(error).__name__}: {error}", {}
    return finished(job.unit, outcome, reason, measures, time.perf_counter() - started)


def finished(
    unit: Unit, outcome: Outcome, reason: str, measures: Mapping[str, Any] | None = None, seconds: float = 0.0
) -> UnitResult:
    """The result record of a unit, with what made it."""
    return UnitResult(
        unit.key,
        unit.experiment,
        unit.row,
        unit.seed,
        unit.settings,
        outcome,
        reason,
        measures or {},
        seconds,
        {**made_with(), "device": _device(), "date": datetime.now(UTC).date().isoformat()},
    )


@cache
def made_with() -> dict[str, str]:
    """What makes results in this process: versions, the commit of the checkout ("" outside one), kind of machine."""
    return {
        "lazaretto": version("lazaretto"),
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": _version("torch"),
        "machine": platform.machine(),
    }


def _commit() -> str:
    """The commit of the code that runs, with ``-dirty`` where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _device() -> str:
    """The accelerator this process has used, or cpu. Torch is asked only where a runner has loaded it."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_initialized() else "cpu"


def judge(measures: Mapping[str, Any], held_when: Sequence[Bound]) -> tuple[Outcome, str]:
    """Held or breached, by the experiment's criteria or by what the runner itself says in ``outcome``."""
    own = measures.get("outcome")
    if own is not None and Outcome(own) is not Outcome.HELD:
        return Outcome(own), str(measures.get("reason", "the runner says so"))
    for bound in held_when:
        value = measures.get(bound.measure)
        if not isinstance(value, (int, float)):
            return Outcome.VOID, f"no number {bound.measure!r} to judge by"
        if not bound.accepts(value):
            return Outcome.BREACHED, f"{bound.measure} = {value:g}, should be {bound.words()}"
    return Outcome.HELD, ""


def clean_measures(measures: Mapping[str, Any]) -> dict[str, Any]:
    """Measures as plain JSON values. NaN and infinity are refused: they would poison a mean without a trace."""
    return {str(name): _clean(name, value) for name, value in measures.items()}


def _clean(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_clean(name, v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _clean(name, v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"measure {name!r} is {value}; use None for what did not happen")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"measure {name!r} is a {type(value).__name__}; use numbers, words, None or lists of them")
