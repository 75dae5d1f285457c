"""How long the command line takes to start: ``--version``, help, and the first check of a text.

    python lab/benchmarks/startup.py --before ../base/src            # prints the table
    python lab/benchmarks/startup.py --before ../base/src --write    # also lab/results/startup and docs/performance.md

Every command is a process of its own; those of both versions take turns, with compiled modules as an installation has
them, on a warm disk. Processor time is that of the whole process with its threads; the clock is only worth something
on an idle machine, so the load is told beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from performance_page import write_section

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "startup"
TEXT = "Order {} of the harbour office opens at six on weekdays and at eight on Sundays."
CHECK = ("check", "-a", "bob", TEXT)
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "`lazaretto --version`": (("--version",), {}),
    "`lazaretto check`, preset minimal": ((*CHECK, "--policy", "minimal.toml"), {}),
    "`lazaretto check`, default policy": (CHECK, {}),
    "the same, nothing kept from before (`LAZARETTO_CACHE=0`)": (CHECK, {"LAZARETTO_CACHE": "0"}),
    "`lazaretto remember`, default policy": (("remember", "-a", "bob", TEXT), {}),
    "`lazaretto ledger head`": (("ledger", "head"), {}),
}


def run(source: Path, folder: Path, words: tuple[str, ...], more: dict[str, str], number: int) -> tuple[float, float]:
    """(seconds by the clock, seconds of processor) of one process."""
    path = os.pathsep.join((str(source), str(source.parent / "lab" / "src")))
    settings = {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(folder / "pyc"), "LAZARETTO_CACHE": str(folder / "kept")}
    settings["LAZARETTO_STORE"] = f"sqlite:///{folder / 'crew.db'}"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | settings | more
    said = [word.format(number) for word in words]
    with (folder / "output").open("wb") as output:
        started = time.perf_counter()
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "lazaretto", *said],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1), (os.POSIX_SPAWN_DUP2, output.fileno(), 2)],
        )
        _, status, used = os.wait4(process, 0)
    wall = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{said} of {source}: {(folder / 'output').read_text()[-500:]}")
    return wall, used.ru_utime + used.ru_stime


def measure(sources: dict[str, Path], rounds: int) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Command -> version -> what each of its processes took, the warming ones left out."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {
        name: {label: [] for label in sources} for name in COMMANDS
    }
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        Path("minimal.toml").write_text('preset = "minimal"\n')
        folders = {label: Path(home) / label for label in sources}
        for folder in folders.values():
            folder.mkdir()
        for number in range(-1, rounds):
            for name, (words, more) in COMMANDS.items():
                for label, source in sources.items():
                    taken = run(source, folders[label], words, more, number + 1)
                    if number >= 0:
                        found[name][label].append(taken)
    return found


def table(result: dict[str, dict[str, list[tuple[float, float]]]]) -> str:
    """The medians, as markdown."""
    labels = list(next(iter(result.values())))
    head = "".join(f" {label}: processor s | by the clock |" for label in labels)
    lines = [f"| command |{head} processor, times less |", "|---|" + "---:|" * (2 * len(labels) + 1)]
    for name, taken in result.items():
        medians = [[statistics.median(times) for times in zip(*taken[label], strict=True)] for label in labels]
        cells = "".join(f" {work:.2f} | {wall:.2f} |" for wall, work in medians)
        lines.append(f"| {name} |{cells} {medians[0][1] / medians[-1][1]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="src of another version")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    sources = {"now": ROOT / "src"}
    if asked.before:
        sources = {"before": asked.before.resolve(), **sources}
    load = os.getloadavg()[0]
    result = measure(sources, asked.rounds)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    busy = f"load average {load:.1f} to {os.getloadavg()[0]:.1f}"
    section = (
        "## Start-up\n\n`python lab/benchmarks/startup.py --before SRC_OF_THE_OLD_VERSION --write`: medians of "
        f"{asked.rounds} processes each, taking turns ({machine}, {busy}).\n\n{table(result)}"
    )
    print(section)
    if asked.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        data = {"machine": machine, "load": busy, "seconds (clock, processor)": result}
        (RESULTS / "startup.json").write_text(json.dumps(data, indent=1) + "\n")
        write_section("start-up", section)


if __name__ == "__main__":
    main()
