"""The tables of docs/crews.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from lazaretto.errors import InputError
from lazaretto_lab.harness.cells import CellText, percent, plus_minus, seeds
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.harness.pages import PageTable, by_row, markdown_table
from lazaretto_lab.harness.tables import RowResults, load_results
from lazaretto_lab.metrics.intervals import t_interval

MODELS = {
    "hf:qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B",
    "hf:qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B",
}
DEFENCES = {
    "none": "undefended",
    "spotlighting": "spotlighting",
    "agent-memory-guard": "agent-memory-guard",
    "guard": "gates",
    "guard+deep": "gates + deep",
    "guard+actions": "gates + actions",
}
"""As the tables and the figure call them."""


def label(row: str) -> str:
    """``Qwen2.5-Coder-1.5B, gates`` for a row of the experiment."""
    settings = dict(part.split("=", 1) for part in row.split(", "))
    return f"{MODELS[settings['model']]}, {DEFENCES[settings['defence']]}"


OUTCOMES: dict[str, CellText] = {
    "seeds": seeds,
    "tasks done, no attack": percent("utility"),
    "tasks done, attacked": percent("utility_attacked"),
    "attacks that succeed": percent("success"),
    "order": percent("success_order"),
    "worm": percent("success_worm"),
    "lie": percent("success_fact"),
    "false experience": percent("success_experience"),
}
COSTS: dict[str, CellText] = {
    "seeds": seeds,
    "agents a worm reaches": percent("spread"),
    "hops": plus_minus("hops", 2),
    "farthest": plus_minus("farthest", 1),
    "honest texts held": percent("honest_held"),
    "questions per honest task": plus_minus("questions", 2),
    "tasks done, a person answers": percent("utility_asked"),
    "tokens a case": plus_minus("tokens", 0),
}
BY_CHANNEL: dict[str, CellText] = {
    "seeds": seeds,
    "note": percent("success_by_note"),
    "page": percent("success_by_page"),
    "mail": percent("success_by_mail"),
    "tool's answer": percent("success_by_tool"),
}


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What made the results, from the manifest beside them, and how long a case took."""

    experiment: str
    headings: tuple[str, ...] = (
        "model", "units", "commit", "machine", "device", "torch", "date", "seconds of the model a case",
        "seconds in all a case",
    )  # fmt: skip

    def markdown(self, results: Path) -> str:
        """A line per model."""
        rows = load_results(load_experiment(self.experiment), results)
        manifest = results / self.experiment / "manifest.json"
        if not manifest.is_file():
            raise InputError("results", f"{self.experiment} has no manifest.json")
        made = orjson.loads(manifest.read_bytes())
        told = [str(made[name]) for name in ("commit", "machine", "device", "torch", "date")]
        lines = []
        for model, name in MODELS.items():
            own = [row for row in rows if f"model={model}," in f"{row.row.name},"]
            count = sum(len(row.results) for row in own)
            if count:
                times = [_a_case(own, what) for what in ("model_seconds", "all_seconds")]
                lines.append([name, str(count), *told, *times])
        return markdown_table(self.headings, lines)


def _a_case(rows: list[RowResults], what: str) -> str:
    values = [one.measures[what] / len(one.measures["cases"]) for row in rows for one in row.results]
    interval = t_interval(values)
    return f"{interval.value:.2f} ± {interval.half_width:.2f}"


TABLES: dict[str, PageTable] = {
    "crews/main": by_row("crews/main", "model, defence", OUTCOMES, label),
    "crews/costs": by_row("crews/main", "model, defence", COSTS, label),
    "crews/channels": by_row("crews/main", "model, defence", BY_CHANNEL, label),
    "crews/made_with": MadeWith("crews/main"),
}
