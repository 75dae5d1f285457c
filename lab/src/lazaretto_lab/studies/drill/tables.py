"""The drill's results as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lazaretto.files import write_file

NAMES = {"worm": "text worm", "fact": "poisoned fact", "virus": "virus picture", "post": "harmful post"}
PART = "drill"


def result_file(folder: Path, row: Mapping[str, Any]) -> Path:
    """Where the raw result of one seed on one store stands."""
    return folder / f"{row['store']}-{row['seed']}.json"


def save(folder: Path, row: Mapping[str, Any]) -> Path:
    """Write a raw result."""
    folder.mkdir(parents=True, exist_ok=True)
    path = result_file(folder, row)
    write_file(path, orjson.dumps(row, option=orjson.OPT_INDENT_2))
    return path


def load(folder: Path) -> list[dict[str, Any]]:
    """Every raw result of a folder, by store and seed."""
    rows: list[dict[str, Any]] = [orjson.loads(path.read_bytes()) for path in folder.glob("*.json")]
    return sorted(rows, key=lambda row: (row["store"], row["seed"]))


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """One table: per threat over all runs, then what the whole crew kept."""
    lines = [
        "| threat | runs | fell for it, undefended | defended | found | traced to patient zero | repaired | came back |"
        " found by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for threat, name in NAMES.items():
        told = [one for row in rows for one in row["threats"] if one["threat"] == threat]
        share = {
            key: f"{sum(bool(one[key]) for one in told)} of {len(told)}" for key in ("found", "traced", "repaired")
        }
        back = f"{sum(one['came_back'] for one in told)} of {sum(one['tries'] for one in told)}"
        finders = _counted(one["found_by"] for one in told)
        lines.append(
            f"| {name} | {len(told)} | {_range(one['undefended'] for one in told)} of 8 | "
            f"{_range(one['defended'] for one in told)} of 8 | {share['found']} | {share['traced']} | "
            f"{share['repaired']} | {back} | {finders} |"
        )
    honest, kept = sum(row["honest"] for row in rows), sum(row["kept"] for row in rows)
    worst = min((row["kept"] / row["honest"] for row in rows), default=1.0)
    released = sum(row["released"] for row in rows)
    lines += [
        "",
        f"Honest items in use at the end: {kept} of {honest} ({kept / honest:.1%}; the worst run {worst:.1%}); gates "
        f"held {released} of them on the way ({released / honest:.1%}), and the desk released these. It looked up "
        f"{sum(row['looked_up'] for row in rows)} suspects after wrong decisions, "
        f"{sum(row['innocent'] for row in rows)} of them innocent.",
    ]
    return "\n".join(lines) + "\n"


def _range(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{found[0]}" if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def _counted(words: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"`{word}` {n}" for word, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Agents that fell for each threat, round by round, with and without the guard; one thin line per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.2), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    colours = {"undefended": "#c8464a", "defended": "#1b6e3c"}
    for axes, (threat, name) in zip(grid, NAMES.items(), strict=True):
        for how, colour in colours.items():
            curves = [row["series"][how][threat] for row in rows]
            for curve in curves:
                axes.plot(range(len(curve)), curve, color=colour, lw=0.8, alpha=0.35)
            mean = [sum(at) / len(at) for at in zip(*curves, strict=True)]
            axes.plot(range(len(mean)), mean, color=colour, lw=2.6, label=how, clip_on=False, zorder=3)
        axes.set_title(name, loc="left", fontsize=11)
        axes.set_ylim(-0.2, 8.2)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e3e9ee")
    grid[0].legend(frameon=False)
    figure.supylabel("agents that fell for it, of 8")
    figure.supxlabel("round")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
