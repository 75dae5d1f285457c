"""A working day of encoded and oddly set texts, with attacks in the same disguises beside them.

Everything in ``tests/data/disguised_day.toml`` goes through the default policy: texts as a memory, as an external
tool's answer and as an untrusted document, reports as memories, texts beside a text that a person called harmful,
accounts after what the user said, calls through the last gate, several documents as a retriever's answer. A row says
whether it was held or rewritten, and by which rule.

    LAZARETTO_DEEP=/nowhere python lab/benchmarks/disguised_day.py --write LABEL
    LAZARETTO_DEEP=/nowhere python lab/benchmarks/disguised_day.py --only text side
    LAZARETTO_DEEP=/nowhere python lab/benchmarks/disguised_day.py --list disguised_second --write disguised_second
    LAZARETTO_DEEP=/nowhere python lab/benchmarks/disguised_day.py --list open_ends --write open_ends
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core_attacks import Row, keep_rows

from lazaretto import SyncGuard
from lazaretto.adapters.border import Border

REPOSITORY = Path(__file__).resolve().parents[2]
LISTS = REPOSITORY / "tests" / "data"
RESULTS = REPOSITORY / "lab" / "results" / "disguised_day"


def _ruled(what: str, number: int, line: Row, decision: Any, **more: Any) -> Row:
    return {
        "what": what, "number": number, "kind": line["kind"], **more, "ruling": decision.ruling.label,
        "rule": decision.rule, "held": not decision.allowed, "rewritten": decision.replacement is not None,
    }  # fmt: skip


def _texts(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        for way in ("memory", "tool", "document"):
            with SyncGuard.open(store, namespace=f"text {number} {way}") as guard:
                if way == "memory":
                    read = guard.remember(line["text"], agent="scout", source="agent_message")
                else:
                    source = "tool_output_external" if way == "tool" else "untrusted_document"
                    read = guard.check(line["text"], agent="scout", channel=way, source=source)
            yield _ruled("text", number, line, read, way=way, cause=line["cause"])


def _reports(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        with SyncGuard.open(store, namespace=f"report {number}") as guard:
            kept = guard.remember(line["text"], agent="scout", source="agent_message")
        yield _ruled("report", number, line, kept)


def _near(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        with SyncGuard.open(store, namespace=f"near {number}") as guard:
            first = guard.remember(line["blocked"], agent="scout", source="agent_message")
            guard.label(first.item, "harmful", by="ann")
            kept = guard.remember(line["text"], agent="newcomer", source="agent_message")
        yield _ruled("near", number, line, kept)


def _pairs(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        with SyncGuard.open(store, namespace=f"pair {number}") as guard:
            guard.remember(line["known"], agent="keeper", source="direct_user")
            kept = guard.remember(line["text"], agent="newcomer", source="agent_message")
        yield _ruled("pair", number, line, kept)


def _calls(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        with SyncGuard.open(store, namespace=f"call {number}") as guard:
            guard.begin_task(line["task"], agent="ada")
            guard.check(line["page"], agent="ada", channel="tool", source="tool_output_external")
            made = guard.authorize(line["tool"], json.loads(line["arguments"]), agent="ada")
        row = {"what": "call", "number": number, "kind": line["kind"], "ruling": made.ruling}
        yield row | {"rule": " | ".join(made.reasons), "held": not made.allowed, "rewritten": False}


def _sides(store: str, lines: list[Row]) -> Iterator[Row]:
    for number, line in enumerate(lines):
        answer = [{"page_content": text, "metadata": {"page": at}} for at, text in enumerate(line["texts"], 1)]
        with SyncGuard.open(store, namespace=f"side {number}") as guard:
            border = Border(guard, "ada")
            shown = border.wait(border.answered, answer, "search", dialect="langchain")
        with SyncGuard.open(store, namespace=f"side {number} alone") as guard:
            alone = [
                guard.check(text, agent="ada", channel="tool", source="tool_output_external") for text in line["texts"]
            ]
        row = {
            "what": "side",
            "number": number,
            "kind": line["kind"],
            "alone": [read.rule for read in alone if not read.allowed],
        }
        yield row | {"rule": "" if shown == answer else str(shown)[:300], "held": shown != answer, "rewritten": False}


RUNS = {"text": _texts, "report": _reports, "near": _near, "pair": _pairs, "call": _calls, "side": _sides}


def main() -> None:
    """Run what is asked for, print what did not go as it should, keep the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--write", metavar="LABEL", default="", help="keep the rows under this name")
    parser.add_argument("--list", choices=["disguised_day", "disguised_second", "open_ends"], default="disguised_day")
    options = parser.parse_args()
    path, rows = LISTS / f"{options.list}.toml", list[Row]()
    lines = tomllib.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(lines.__contains__, options.only):
            mine = list(RUNS[name](f"sqlite:///{folder}/crew.db", lines[name]))
            for row in mine:
                if (row["held"] or row["rewritten"]) != (row["kind"] == "attack"):
                    print("  wrong:", {key: value for key, value in row.items() if key != "what"})
            for kind in ("attack", "honest"):
                some = [row for row in mine if row["kind"] == kind]
                held, anew = sum(row["held"] for row in some), sum(row["rewritten"] for row in some)
                print(f"{name}: {kind} held {held}, rewritten {anew}, of {len(some)}", flush=True)
            rows += mine
    if options.write:
        keep_rows(RESULTS / f"{options.write}.jsonl", path, rows)


if __name__ == "__main__":
    main()
