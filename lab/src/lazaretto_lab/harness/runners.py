"""The runners: how an experiment's ``runner`` word becomes a function. Nothing is imported until it is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from lazaretto.errors import InputError, MissingExtra
from lazaretto_lab.harness.context import Runner

Estimate = Callable[[Mapping[str, Any], int], tuple[int, int]]

RUNNERS: dict[str, str] = {
    "crews": "lazaretto_lab.studies.crews.runner:run",
    "debate": "lazaretto_lab.studies.debate.runner:run",
    "debate-learning": "lazaretto_lab.studies.debate.runner:learning",
    "epidemic": "lazaretto_lab.studies.epidemic.runner:run",
    "foresight-diagnosis": "lazaretto_lab.studies.foresight.runner:diagnosis",
    "foresight-drift": "lazaretto_lab.studies.foresight.runner:drift",
    "foresight-recall": "lazaretto_lab.studies.foresight.runner:recall",
    "foresight-purification": "lazaretto_lab.studies.foresight.runner:purify",
    "foresight-tracing": "lazaretto_lab.studies.foresight.tracing:run",
    "memory": "lazaretto_lab.studies.memory.runner:run",
    "memory-late": "lazaretto_lab.studies.memory.late:run",
    "memory-rivals": "lazaretto_lab.studies.memory.rivals:run",
    "memory-texts": "lazaretto_lab.studies.memory.texts:run",
    "notes": "lazaretto_lab.studies.notes.runner:run",
    "outbreak": "lazaretto_lab.studies.outbreak.runner:run",
}
"""Short names of the runners that ship; packages add theirs through the entry point group ``lazaretto.runners``."""
ESTIMATES: dict[str, str] = {
    "debate": "lazaretto_lab.studies.debate.runner:estimate",
    "debate-learning": "lazaretto_lab.studies.debate.runner:estimate",
}
"""Runners that judge items one by one: they take the setting ``limit``, and say beforehand what a unit will ask for."""


def find_estimate(name: str) -> Estimate:
    """What a unit of this runner will cost: settings and seed to (items, calls of a language model)."""
    if name not in ESTIMATES:
        raise InputError("limit", f"the runner {name!r} does not judge items", f"It is for {', '.join(ESTIMATES)}")
    module, _, function = ESTIMATES[name].partition(":")
    estimate: Estimate = getattr(importlib.import_module(module), function)
    return estimate


def find_runner(name: str) -> Runner:
    """The function for a short name, an entry point, or ``module:function``."""
    target = RUNNERS.get(name, name if ":" in name else None)
    if target is None:
        found = {point.name: point.value for point in entry_points(group="lazaretto.runners")}
        target = found.get(name)
        if target is None:
            known = ", ".join(sorted([*RUNNERS, *found]))
            raise InputError("runner", f"no runner {name!r}", f"There are: {known}; or name one as module:function")
    module, _, function = target.partition(":")
    try:
        runner: Runner = getattr(importlib.import_module(module), function)
    except MissingExtra:
        raise
    except (ImportError, AttributeError) as error:
        raise InputError("runner", f"cannot load {target!r}: {error}") from None
    return runner
