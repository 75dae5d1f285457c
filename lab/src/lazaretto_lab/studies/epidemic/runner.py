"""The model-free epidemic as an experiment: settings are the fields of the scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.metrics.infection import activation, infection_summary
from lazaretto_lab.worlds.epidemic import Cure, Defence, Scenario, simulate


def scenario_from(settings: Mapping[str, Any]) -> Scenario:
    """A scenario from plain settings; ``defence`` and ``cure`` are tables of their own."""
    known = {field.name for field in dataclasses.fields(Scenario)}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise InputError("settings", f"unknown: {', '.join(unknown)}", f"Use: {', '.join(sorted(known))}")
    parts = {"defence": Defence, "cure": Cure}
    try:
        values = {name: parts[name](**value) if name in parts else value for name, value in settings.items()}
    except TypeError as error:
        raise InputError("settings", str(error)) from None
    return Scenario(**values)


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One epidemic: the figures of the published tables, whether it died out, and the curves."""
    world = simulate(scenario_from(settings), [seed])
    cumulative, current = (world.percent(name)[0].tolist() for name in ("cumulative", "current"))
    carrying = world.percent("carrying")[0]
    beta = activation(world.counts["virus_retrieved"][0], world.counts["questioners_carrying"][0])
    return {
        **infection_summary(cumulative, current),
        "cumulative_max": float(max(cumulative)),
        "died_out": bool(carrying[-1] == 0),
        "activation": None if np.isnan(beta).all() else float(np.nanmean(beta)),
        "cumulative": cumulative,
        "current": current,
        "carrying": carrying.tolist(),
        "cured": world.percent("cured")[0].tolist(),
        "benign_removed": int(world.counts["benign_removed"].sum()),
        "virus_removed": int(world.counts["virus_removed"].sum()),
    }
