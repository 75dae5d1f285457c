"""Counts the files that one ``remember`` runs through: ``python tools/files_crossed.py [--names]``.

Counted is the second of two memories of an agent, with the default policy and a new store, in every thread that the
guard starts. A file counts when one of its functions runs; other libraries do not count. *The way* leads from the call
to the gates and to the store, and is what a reader follows first; what the gates and the store do inside is counted
apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import lazaretto
from lazaretto import SyncGuard

PRODUCT = Path(lazaretto.__file__).resolve().parent
FIRST = "The depot in Ghent opens at seven on weekdays."
SECOND = "Invoices above four hundred euros go to Marta before payment."
ENGINE = ("gates/engine/", "gates/protocol.py")
"""What runs the gates; the others of the room are gates, or what they are made of."""
READING_ROOMS = ("gates", "reading", "models")


class Calls:
    """A profile hook that counts calls by file, and the threads they ran in."""

    def __init__(self) -> None:
        self.counts = False
        self.by_file: Counter[str] = Counter()
        self.threads: set[int] = set()
        self.sessions = 0
        """Sessions of onnxruntime that were made since the start, those of the first memory included."""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        file = Path(frame.f_code.co_filename)
        if self.counts and event == "call" and file.is_relative_to(PRODUCT):
            self.by_file[file.relative_to(PRODUCT).as_posix()] += 1
            self.threads.add(threading.get_ident())


def _count_sessions(calls: Calls) -> None:
    try:
        import onnxruntime
    except ImportError:
        return
    make = onnxruntime.InferenceSession

    def counted(*given: Any, **named: Any) -> Any:
        calls.sessions += 1
        return make(*given, **named)

    onnxruntime.InferenceSession = counted


def measure() -> Calls:
    """The calls of one ``remember``."""
    calls = Calls()
    _count_sessions(calls)
    threading.setprofile(calls)  # every thread that the guard starts has the hook from its start on
    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/store.db") as guard:
        guard.remember(FIRST, agent="scout")
        sys.setprofile(calls)
        calls.counts = True
        guard.remember(SECOND, agent="scout")
        calls.counts = False
        sys.setprofile(None)
    return calls


def part_of(file: str) -> str:
    """Which part of the work a file belongs to."""
    room = file.split("/")[0]
    if room == "ledger":
        return "inside the store"
    return "inside the gates" if room in READING_ROOMS and not file.startswith(ENGINE) else "the way"


def main() -> None:
    """Print the counts, and the files with ``--names``."""
    parser = argparse.ArgumentParser(description="Count the files that one remember runs through.")
    parser.add_argument("--names", action="store_true", help="also list the files, each with its calls")
    names, calls = parser.parse_args().names, measure()
    rooms = {file.split("/")[0] for file in calls.by_file if "/" in file}
    total = sum(calls.by_file.values())
    print(f"{len(calls.by_file)} files in {len(rooms)} rooms, {total} calls, {len(calls.threads)} threads")
    print(f"{calls.sessions} ONNX sessions since the start")
    for part in ("the way", "inside the gates", "inside the store"):
        files = sorted(file for file in calls.by_file if part_of(file) == part)
        print(f"{part}: {len(files)} files")
        for file in files if names else ():
            print(f"  {file} {calls.by_file[file]}")


if __name__ == "__main__":
    main()
