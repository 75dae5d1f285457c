"""``lazaretto foresight calibrate``: where benign ends, from a folder of benign memories."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lazaretto.cli.common import JsonFlag, console, emit, errors, plain_errors

family = typer.Typer(help="Set up the rehearsals of before_turn.", no_args_is_help=True)


class ModeWord(StrEnum):
    """The modes of foresight."""

    LAZARETTO = "lazaretto"
    FLP = "flp"


@family.command("calibrate")
@plain_errors
def calibrate(
    folder: Annotated[Path, typer.Argument(help="Benign notes (.txt, .md, .jsonl) and pictures, at least 24.")],
    model: Annotated[str, typer.Option("--model", help="The model your agents think with, as its endpoint knows it.")],
    to: Annotated[Path, typer.Option("--to", help="Where to write the calibration.")] = Path("foresight.json"),
    base_url: Annotated[str, typer.Option("--base-url", help="Any OpenAI-compatible endpoint, or 'local'.")] = "",
    embedder: Annotated[
        str, typer.Option("--embedder", help="'minilm', or module:factory of the embedder your agents retrieve with.")
    ] = "minilm",
    mode: Annotated[
        ModeWord, typer.Option("--mode", help="Mode of foresight, as in the policy's [gates.foresight].")
    ] = (ModeWord.LAZARETTO),
    agents: Annotated[int, typer.Option("--agents", help="Number of simulated benign agents.")] = 96,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds that the agents talk.")] = 3,
    memories: Annotated[int, typer.Option("--memories", help="Most memories to rehearse.")] = 300,
    json: JsonFlag = False,
) -> None:
    """Rehearse known benign agents. Interrupted, it goes on when called again; the file is written last."""
    from lazaretto.learn.calibration import (
        CalibrationSize,
        FlpCalibration,
        RehearsalModel,
        calibrate_folder,
        chat_model,
        embedder_named,
    )

    if base_url == "local":
        described = RehearsalModel(model, backend="local")
    else:
        described = RehearsalModel(model, base_url) if base_url else RehearsalModel(model)
    chat, place = chat_model(described), embedder_named(embedder)
    size = CalibrationSize(agents, rounds, memories)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("asking the model", total=None)
        made = asyncio.run(
            calibrate_folder(
                folder,
                chat,
                place,
                to,
                mode=mode.value,
                size=size,
                progress=lambda done, most: bar.update(task, completed=done, total=most),
            )
        )
    limits = made.thresholds if isinstance(made, FlpCalibration) else made.scales
    shown: dict[str, Any] = {"file": str(to), "source": dict(made.source), "limits": asdict(limits)}
    emit(shown, json, lambda: console.print(_how_to_use(to), markup=False))


def _how_to_use(file: Path) -> str:
    return f'wrote {file}; name it in the policy ([gates.foresight] calibration = "{file}"), or in rehearse_with'
