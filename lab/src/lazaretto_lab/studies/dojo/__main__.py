"""AgentDojo with a language model, on any machine that has one:

python -m lazaretto_lab.studies.dojo run --model hf:FOLDER --units FOLDER --out FOLDER --workers 5 --seconds 500
python -m lazaretto_lab.studies.dojo work --model hf:FOLDER --units FOLDER      one process of the above
python -m lazaretto_lab.studies.dojo one banking user_task_7 --model hf:FOLDER  one task, told step by step
python -m lazaretto_lab.studies.dojo texts --out FILE                           tool results through the default gates
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import orjson

from lazaretto_lab.studies.crews.models import Answer, open_model
from lazaretto_lab.studies.crews.protocol import Chat
from lazaretto_lab.studies.dojo import suites, texts, work
from lazaretto_lab.studies.dojo.agent import play
from lazaretto_lab.studies.dojo.defences import ContentGates, open_defence

PACK_S = 30.0


def main() -> None:
    """One of the four commands."""
    options = argparse.ArgumentParser(prog="python -m lazaretto_lab.studies.dojo", description=__doc__)
    options.add_argument("command", choices=("run", "work", "one", "texts"))
    options.add_argument("task", nargs="*", help="one: suite, user task and perhaps an injection task")
    options.add_argument("--model", default="", help="hf:FOLDER or endpoint:URL#NAME")
    options.add_argument("--defence", default="none", help="one: none, gates, actions or both")
    options.add_argument("--units", type=Path, default=Path("dojo-units"), help="folder of finished units")
    options.add_argument("--out", type=Path, default=Path("dojo-out"))
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--suites", nargs="*", default=list(suites.SUITES))
    given = options.parse_args()
    if given.command == "run":
        run(given.model, given.units, given.out, given.workers, given.seconds)
    elif given.command == "work":
        opened = partial(open_model, given.model, work.MOST_TOKENS, work.ONE_LINE)
        work.work(all_units(), given.units, opened, ContentGates(), suites.DojoWorld)
    elif given.command == "one":
        one(tuple([*given.task, ""][:3]), given.model, given.defence)
    else:
        write_texts(given.suites, given.out)


def all_units() -> list[work.Unit]:
    """Of all four suites."""
    alone = [pair for name in suites.SUITES for pair in suites.alone(name)]
    return work.units(alone, [pair for name in suites.SUITES for pair in suites.pairs(name)])


def run(model: str, units: Path, out: Path, workers: int, seconds: float) -> None:
    """Workers until all is done or the time is over; what is finished is packed into ``out`` meanwhile."""
    ends = time.monotonic() + seconds
    units.mkdir(parents=True, exist_ok=True)
    work.begin_again(units)
    command = [sys.executable, "-m", "lazaretto_lab.studies.dojo", "work", "--model", model, "--units", str(units)]
    started = [subprocess.Popen(command) for _ in range(workers)]
    packed = time.monotonic()
    while time.monotonic() < ends and any(one.poll() is None for one in started):
        time.sleep(0.5)
        if time.monotonic() - packed > PACK_S:
            packed = time.monotonic()
            pack(units, out)
    for one in started:
        one.kill()
        one.wait()
    pack(units, out)


def pack(units: Path, out: Path) -> None:
    """Finished units, a line each."""
    found = work.finished(units)
    out.mkdir(parents=True, exist_ok=True)
    part = out / "dojo.part"
    part.write_bytes(gzip.compress(b"".join(orjson.dumps(one) + b"\n" for one in found), 6, mtime=0))
    part.rename(out / "units.jsonl.gz")
    rows = [row for one in found for row in one["rows"]]
    faults = sum("fault" in row for row in rows)
    print(f"{len(found)} units, {len(rows)} rows, {faults} faults", flush=True)


def one(pair: tuple[str, ...], model: str, defence: str) -> None:
    """Prints every turn, and what came of it."""
    name, user, injection = pair
    world = suites.DojoWorld((name, user, injection))
    asked = open_model(model, work.MOST_TOKENS, work.ONE_LINE)

    def told(prompt: Chat) -> Answer:
        answer = asked.answer([prompt])[0]
        print(f"{prompt.messages()[-1]['content']}\n>>> {answer.text}", flush=True)
        return answer

    with (
        tempfile.TemporaryDirectory() as folder,
        open_defence(defence, name, Path(folder), ContentGates()) as standing,
    ):
        found = play(world, standing, told)
    print(found.calls, world.outcome(found.said), f"read the injection: {found.read}")


def write_texts(names: list[str], out: Path) -> None:
    """A line for each text."""
    pairs = [pair for name in names for pair in (*suites.alone(name), *suites.pairs(name))]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:
        for row in texts.judge(pairs, ContentGates()):
            file.write(orjson.dumps(row) + b"\n")
            file.flush()


if __name__ == "__main__":
    main()
