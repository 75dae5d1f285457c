"""agent-memory-guard's own benchmark (``agent_memory_guard.bench``, 21 scenarios), as it comes, on the default guard.

    python lab/benchmarks/agent_memory_security.py            # every install level, each in a process of its own
    python lab/benchmarks/agent_memory_security.py --level core

The adapter does what the documentation tells a user to do: it passes the key and the source along, keeps the text that
a ``rewrite`` offers, and recalls through the guard. Raw results go to lab/results/agent_memory_security/LEVEL.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import install_levels

RESULTS = Path(__file__).resolve().parents[1] / "results" / "agent_memory_security"
SOURCES = {
    "external_tool": "tool_output_external",
    "user_input": "direct_user",
    "agent_authored": "model_inference",
    "system": "system",
}
"""The benchmark's words for a source -> ours."""


def run_level(level: str) -> dict[str, Any]:
    """The benchmark's report and score at one install level."""
    install_levels.hide(level)
    from agent_memory_guard import bench
    from agent_memory_guard.bench.adapter import MemorySystemAdapter, RememberOutcome

    from lazaretto import Ruling, SyncGuard

    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        number, rules = itertools.count(), []  # type: ignore[var-annotated]

        class GuardedMemory(MemorySystemAdapter):  # type: ignore[misc]  # the package is untyped
            """A key-value memory whose every write and read goes through a guard."""

            name, version = f"lazaretto ({level})", "default policy"

            def __init__(self) -> None:
                self.items: dict[str, str] = {}
                store = f"sqlite:///{folder}/{next(number)}.db"  # the benchmark wants a fresh system for each scenario
                self.guard = opened.enter_context(SyncGuard.open(store))

            def remember(self, key: str, value: Any, *, source_class: str = "external_tool") -> Any:
                """Judge and keep a value under a key."""
                said = {"agent": "ada", "key": key, "source": SOURCES[source_class]}
                decision = self.guard.remember(str(value), **said)
                self.items[key] = decision.item
                rules.append(decision.rule)
                if decision.ruling is Ruling.REWRITE and decision.replacement:
                    kept = self.guard.remember(decision.replacement, parents=[decision.item], **said)
                    self.items[key] = kept.item
                    return RememberOutcome.REDACTED if kept.allowed else RememberOutcome.QUARANTINED
                if decision.allowed:
                    return RememberOutcome.STORED
                return RememberOutcome.BLOCKED if decision.ruling is Ruling.BLOCK else RememberOutcome.QUARANTINED

            def recall(self, key: str) -> str | None:
                """What a later turn may read."""
                found = self.guard.recall(agent="ada", items=[self.items[key]]) if key in self.items else ()
                return found[0].text if found else None

        report = bench.run_suite(GuardedMemory)
        score = bench.score_report(report)
    return {
        "level": level,
        "install": install_levels.INSTALL[level],
        "rules": rules,
        "score": score.to_dict(),
        "report": report.to_dict(),
    }


def summary(result: dict[str, Any]) -> str:
    """One line of a table."""
    runs = result["report"]["runs"]
    attacks, benign = ([r for r in runs if r["malicious"] is kind] for kind in (True, False))
    defended, alarms = sum(r["passed"] for r in attacks), sum(r["false_positive"] for r in benign)
    score = result["score"]
    return (
        f"{result['level']:8} grade {score['grade']}  score {score['score']:5.1f}  "
        f"defended {defended}/{len(attacks)}  false alarms {alarms}/{len(benign)}"
    )


def main() -> None:
    """One level, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", choices=sorted(install_levels.HIDDEN))
    level = parser.parse_args().level
    if level is None:
        for one in install_levels.HIDDEN:
            subprocess.run([sys.executable, __file__, "--level", one], check=True)
        return
    result = run_level(level)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{level}.json").write_text(f"{json.dumps(result, indent=1)}\n", encoding="utf-8")
    print(summary(result))
    for run in result["report"]["runs"]:
        if not run["passed"]:
            print(f"         not passed: {run['scenario_id']} ({run['final_outcome']})")


if __name__ == "__main__":
    main()
