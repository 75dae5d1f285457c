"""``lazaretto epidemic``: how a picture virus runs through a crowd of agents, without any model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from lazaretto.cli.common import JsonFlag, console, emit, plain_errors
from lazaretto.errors import InputError
from lazaretto_lab.metrics.infection import THRESHOLDS, activation, first_reaching
from lazaretto_lab.metrics.intervals import t_interval
from lazaretto_lab.studies.epidemic.figure import draw_epidemic
from lazaretto_lab.worlds.epidemic import Cure, Defence, Epidemic, Scenario, simulate
from lazaretto_lab.worlds.epidemic.spread import simulate_on_ray

BLOCKS = " ▁▂▃▄▅▆▇█"
HEIGHT = 10


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("epidemic")(epidemic)


@plain_errors
def epidemic(
    agents: Annotated[int, typer.Option(help="How many agents.")] = 128,
    infected: Annotated[int, typer.Option(help="How many start with the virus.")] = 4,
    rounds: Annotated[int, typer.Option(help="How many rounds of chats.")] = 65,
    album: Annotated[int, typer.Option(help="Pictures an album holds.")] = 10,
    alpha: Annotated[
        float, typer.Option(help="Chance that a speaker shows the symptom when the virus was retrieved.")
    ] = 1.0,
    beta: Annotated[float, typer.Option(help="Chance that a carrying questioner retrieves the virus.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Chance per round that a carrier recovers by itself.")] = 0.0,
    immune: Annotated[int, typer.Option(help="Agents that refuse the virus.")] = 0,
    detection: Annotated[float, typer.Option(help="Defence: chance per round that a carrier is flagged.")] = 0.0,
    purification: Annotated[
        float, typer.Option(help="Defence: chance that each virus copy of a flagged agent goes.")
    ] = 1.0,
    false_alarm: Annotated[float, typer.Option(help="Defence: chance per round that a clean agent is flagged.")] = 0.0,
    collateral: Annotated[
        float, typer.Option(help="Defence: chance that each harmless picture of a flagged agent goes.")
    ] = 0.0,
    defenders: Annotated[int, typer.Option(help="Cowpox: agents that make a cure when they see a symptom.")] = 0,
    cure_detection: Annotated[float, typer.Option(help="Cowpox: chance that a defender recognises a symptom.")] = 0.847,
    cure_beta: Annotated[float, typer.Option(help="Cowpox: chance that a carrier of the cure retrieves it.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The (first) seed.")] = 42,
    seeds: Annotated[int, typer.Option(help="How many seeds, counting up from --seed.")] = 1,
    reference_pairing: Annotated[
        bool, typer.Option("--reference-pairing", help="Draw pairs exactly as the reference program does.")
    ] = False,
    ray: Annotated[int, typer.Option("--ray", help="Spread one seed over so many Ray workers.")] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write a picture (.svg, .png, .pdf; no suffix: both).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Simulate an outbreak. Percentages per round; index 0 is the first round."""
    if seeds < 1:
        raise InputError("seeds", f"{seeds} is not a number of seeds", "Use 1 or more")
    scenario = Scenario(
        agents,
        infected,
        rounds,
        album,
        alpha,
        beta,
        gamma,
        immune,
        Defence(detection, purification, false_alarm, collateral),
        Cure(defenders, cure_detection, cure_beta),
        reference_pairing,
    )
    if ray:
        if seeds != 1:
            raise InputError(
                "ray", "spreads one seed", "Leave out --seeds; to spread many seeds use lazaretto bench run --ray"
            )
        run = simulate_on_ray(scenario, seed, ray)
    else:
        run = simulate(scenario, range(seed, seed + seeds))
    report = describe(run)
    if plot is not None:
        report["plot"] = [str(path) for path in draw_epidemic(run, plot)]
    emit(report, json, lambda: _show(run, report))


def describe(run: Epidemic) -> dict[str, Any]:
    """The run as JSON data. With several seeds, curves are means and ``interval`` holds their 95 % intervals."""
    report: dict[str, Any] = {"scenario": run.scenario, "seeds": list(run.seeds)}
    for name in ("cumulative", "current", "carrying", "cured"):
        report[name] = run.percent(name).mean(axis=0).tolist()
    for name in ("cumulative", "current"):
        report[f"first_{name}"] = {str(t): first_reaching(report[name], t) for t in THRESHOLDS}
    beta = activation(run.counts["virus_retrieved"].sum(axis=0), run.counts["questioners_carrying"].sum(axis=0))
    report["activation"] = [None if np.isnan(share) else float(share) for share in beta]
    report["died_out"] = float((run.counts["carrying"][:, -1] == 0).mean())
    for name in ("flagged", "false_alarms", "virus_removed", "benign_removed"):
        report[name] = float(run.counts[name].sum(axis=1).mean())
    if len(run.seeds) > 1:
        report["interval"] = {name: _intervals(run, name) for name in ("cumulative", "current", "carrying")}
        report["spread"] = {name: run.percent(name).std(axis=0, ddof=1).tolist() for name in ("cumulative", "current")}
    return report


def _intervals(run: Epidemic, name: str) -> list[tuple[float, float]]:
    intervals = [t_interval(column) for column in run.percent(name).T]
    return [(i.low, i.high) for i in intervals]


def _show(run: Epidemic, report: dict[str, Any]) -> None:
    scenario = run.scenario
    how = f"seed {run.seeds[0]}" if len(run.seeds) == 1 else f"{len(run.seeds)} seeds, mean ± 95 % interval"
    table = Table(title=f"{scenario.agents:,} agents, {scenario.infected} infected, albums of {scenario.album} ({how})")
    for heading in ("round", "cumulative %", "current %", "carrying %"):
        table.add_column(heading, justify="right")
    for round_ in _shown_rounds(scenario.rounds):
        table.add_row(str(round_), *(_cell(report, name, round_) for name in ("cumulative", "current", "carrying")))
    console.print(table, soft_wrap=False)
    for name in ("cumulative", "current"):
        reached = ", ".join(
            f"{t} % {'never' if r is None else f'in round {r}'}" for t, r in report[f"first_{name}"].items()
        )
        console.print(f"{name:10} first reaches {reached}")
    for line in chart(report["cumulative"], report["current"]):
        console.print(line, highlight=False)
    for path in report.get("plot", ()):
        console.print(f"wrote {path}", highlight=False, markup=False)


def _shown_rounds(rounds: int) -> list[int]:
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64, rounds) if rounds / s <= 17)
    return sorted({*range(0, rounds, step), rounds - 1})


def _cell(report: dict[str, Any], name: str, round_: int) -> str:
    text = f"{report[name][round_]:.2f}"
    if "interval" in report:
        low, high = report["interval"][name][round_]
        text += f" ± {(high - low) / 2:.2f}"
    return text


def chart(cumulative: list[float], current: list[float], width: int = 64) -> list[str]:
    """Two curves as block characters: cumulative in full, current inside it."""
    columns = np.linspace(0, len(cumulative) - 1, min(width, len(cumulative))).round().astype(int)
    lines = []
    for level in range(HEIGHT, 0, -1):
        line = ""
        for column in columns:
            outer, inner = (_fill(curve[column], level) for curve in (cumulative, current))
            line += f"[red]{BLOCKS[inner]}[/]" if inner else f"[bright_black]{BLOCKS[outer]}[/]" if outer else " "
        label = f"{level * 100 // HEIGHT:4d} % " if level % 5 == 0 else "       "
        lines.append(f"{label}│{line}")
    lines.append("       └" + "─" * len(columns))
    last = str(len(cumulative) - 1)
    lines.append("        0" + last.rjust(max(len(columns) - 1, len(last) + 1)) + "  round")
    lines.append("        [red]█[/] current  [bright_black]█[/] cumulative")
    return lines


def _fill(percent: float, level: int) -> int:
    return int(np.clip(round((percent / 100 * HEIGHT - (level - 1)) * 8), 0, 8))
