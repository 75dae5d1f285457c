"""Other guards on the same two lists: 30 attacks with 60 benign notes of the first ten minutes, and 200 honest notes.

    python lab/benchmarks/comparison.py lazaretto                  # each where its package is installed
    python lab/benchmarks/comparison.py agent-memory-guard
    python lab/benchmarks/comparison.py agent-governance-toolkit
    python lab/benchmarks/comparison.py cloneguard                 # needs cloneguard[mini]
    python lab/benchmarks/comparison.py --page                     # the table of docs/comparison.md from what is kept

The others run as their documentation starts them, from PyPI and without a hub of models; where a stricter setting
is documented it is a row of its own, so that nobody is judged by one choice of ours. A text counts as held when the
tool would not keep or hand on the text as it is: blocked, quarantined, redacted or put to a person. All of them get
the text and nothing else; Lazaretto is called as in lab/benchmarks/first_ten_minutes.py, and as it comes. This file
imports nothing of Lazaretto for the others, so that they run in an environment of their own.

Raw results, a row for each text: lab/results/comparison/NAME.json. Both lists are Lazaretto's (written before its gates
ran on them, and never tuned on); the authors of other tools had other texts in mind.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import json
import logging
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "comparison"
PAGE = REPOSITORY / "docs" / "comparison.md"
START, END = "<!-- comparison -->\n", "<!-- end of comparison -->\n"
Judge = Callable[[dict[str, Any]], tuple[bool, str]]
"""One line of a list -> whether it is held, and what the tool calls it."""


def lines() -> list[dict[str, Any]]:
    """Both lists, each line with its list and kind."""
    data = REPOSITORY / "tests" / "data"
    first = tomllib.loads((data / "first_ten_minutes.toml").read_text(encoding="utf-8"))
    notes = tomllib.loads((data / "everyday_notes.toml").read_text(encoding="utf-8"))["note"]
    rows = [{"list": "attacks", "kind": one["kind"], **one} for one in first["attack"]]
    rows += [{"list": "benign notes", "kind": "benign", **one} for one in first["benign"]]
    rows += [{"list": "everyday notes", "kind": one["language"], "call": "remember", **one} for one in notes]
    return [{**one, "id": f"{one['list']} {number}"} for number, one in enumerate(rows, 1)]


@contextmanager
def lazaretto() -> Iterator[dict[str, Judge]]:
    """`Guard.open()` as it comes with `lazaretto[gates]`; each list has a store of its own, each line an agent."""
    from lazaretto import SyncGuard

    with tempfile.TemporaryDirectory() as folder:
        guards: dict[str, SyncGuard] = {}

        def judge(line: dict[str, Any]) -> tuple[bool, str]:
            if line["list"] not in guards:
                guards[line["list"]] = SyncGuard.open(f"sqlite:///{folder}/{len(guards)}.db")
            guard = guards[line["list"]]
            if line["call"] == "remember":
                said = guard.remember(line["text"], agent=line["id"])
            else:
                said = guard.check(line["text"], agent=line["id"], channel=line.get("channel"))
            return not said.allowed, f"{said.ruling.label} {said.rule}"

        yield {"as it comes": judge}
        for one in guards.values():
            one.close()


@contextmanager
def memory_guard() -> Iterator[dict[str, Judge]]:
    """Its strict policy, which its README starts with, and the hardened one of its own benchmark."""
    bench: Any = importlib.import_module("agent_memory_guard.bench.adapters.baseline")
    names = itertools.count()

    def judge_with(adapter: Any) -> Judge:
        def judge(line: dict[str, Any]) -> tuple[bool, str]:
            said = adapter.remember(f"notes.n{next(names)}", line["text"])
            return said.value != "stored", said.value

        return judge

    yield {"strict": judge_with(bench.AMGStrictAdapter()), "hardened": judge_with(bench.AMGHardenedAdapter())}


@contextmanager
def governance_toolkit() -> Iterator[dict[str, Judge]]:
    """Its memory guard; and with it its detector of prompt injections, at both of its sterner settings."""
    memory: Any = importlib.import_module("agent_os.memory_guard")
    injection: Any = importlib.import_module("agent_os.prompt_injection")
    guard = memory.MemoryGuard()

    def judge_with(sensitivity: str | None) -> Judge:
        detector = None
        if sensitivity is not None:
            detector = injection.PromptInjectionDetector(injection.DetectionConfig(sensitivity=sensitivity))

        def judge(line: dict[str, Any]) -> tuple[bool, str]:
            written = guard.validate_write(line["text"], source="agent")
            found = [one.alert_type.value for one in written.alerts]
            held = not written.allowed
            if detector is not None:
                said = detector.detect(line["text"], source="agent")
                held, found = held or said.is_injection, [*found, *said.matched_patterns[:3]]
            return held, ", ".join(found)

        return judge

    yield {
        "memory guard": judge_with(None),
        "with its injection detector, balanced": judge_with("balanced"),
        "with its injection detector, strict": judge_with("strict"),
    }


@contextmanager
def cloneguard() -> Iterator[dict[str, Judge]]:
    """Rules and the small model that comes with it, as its hook reads a tool's output; by either of its bars."""
    patterns: Any = importlib.import_module("cloneguard.patterns")
    engine = patterns.PatternEngine()
    model = importlib.import_module("cloneguard.mini_semantic").MiniSemanticClassifier()
    if not model.available:
        raise SystemExit("cloneguard's model does not load: pip install 'cloneguard[mini]'")

    def judge_with(sure: bool) -> Judge:
        def judge(line: dict[str, Any]) -> tuple[bool, str]:
            rules, read = engine.scan(line["text"], "notes.md").verdict, model.classify(line["text"]).verdict
            bad = ({patterns.Verdict.DETECTED}, {"MALICIOUS"}) if sure else (
                {patterns.Verdict.DETECTED, patterns.Verdict.SUSPICIOUS}, {"MALICIOUS", "SUSPICIOUS"}
            )  # fmt: skip
            return rules in bad[0] or read in bad[1], f"rules {rules.value}, model {read.lower()}"

        return judge

    yield {"suspicious or worse": judge_with(False), "detected or malicious": judge_with(True)}


TOOLS = {
    "lazaretto": ("lazaretto", lazaretto),
    "agent-memory-guard": ("agent-memory-guard", memory_guard),
    "agent-governance-toolkit": ("agent-governance-toolkit-core", governance_toolkit),
    "cloneguard": ("cloneguard", cloneguard),
}
"""Name -> its package, and how it is opened."""


def measure(name: str) -> dict[str, Any]:
    """Every line by every setting."""
    logging.disable(logging.WARNING)
    package, opened = TOOLS[name]
    rows, spent = [], {}
    with opened() as judges:
        for setting, judge in judges.items():
            judge({"list": "warm up", "id": "warm-up", "call": "remember", "text": "The canteen opens at noon."})
            began = time.process_time()
            for line in lines():
                held, said = judge(line)
                rows.append(
                    {
                        "setting": setting,
                        "id": line["id"],
                        "list": line["list"],
                        "kind": line["kind"],
                        "held": held,
                        "said": said,
                    }
                )
            spent[setting] = round(1000 * (time.process_time() - began) / len(lines()), 2)
    version = importlib.metadata.version(package)
    return {"tool": name, "package": package, "version": version, "processor_ms_a_text": spent, "rows": rows}


def table() -> str:
    """What each held of each list."""
    made = [
        "| tool | setting | held of 30 attacks | of 60 benign notes | of 200 everyday notes | processor ms a text |",
        "|---|---|---|---|---|---|",
    ]
    for name in TOOLS:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        kept = json.loads(path.read_text())
        for setting, spent in kept["processor_ms_a_text"].items():
            rows = [row for row in kept["rows"] if row["setting"] == setting]
            held = [
                sum(row["held"] for row in rows if row["list"] == one)
                for one in ("attacks", "benign notes", "everyday notes")
            ]
            made.append(f"| {name} {kept['version']} | {setting} | {held[0]} | {held[1]} | {held[2]} | {spent} |")
    return "\n".join(made) + "\n"


def main() -> None:
    """Measure one, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="?", choices=sorted(TOOLS))
    parser.add_argument("--page", action="store_true", help="Write the table into docs/comparison.md.")
    options = parser.parse_args()
    if options.tool:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{options.tool}.json").write_text(json.dumps(measure(options.tool), indent=1) + "\n")
    print(table())
    if options.page:
        before, rest = PAGE.read_text().split(START)
        PAGE.write_text(before + START + table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
