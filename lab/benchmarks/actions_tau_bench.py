"""How often an honest crew is asked: the last gate over tau-bench's airline trajectories, which nobody attacks.

    python lab/benchmarks/actions_tau_bench.py [--write]      # needs the development data folder (LAZARETTO_SHARED)

Each trajectory is one task: the user's first words begin it, later ones are read, every call is asked about, and every
result is read as the tool's word. A person who is asked agrees. Two policies, nothing said of the airline's tools, and
its database tools named as directories; each without the tools' schemas and with what these say of words of fixed lists
(cabin and the like), as frameworks hand them over.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from lazaretto import Policy, SyncGuard

HERE = Path(__file__).parent
DATA = Path(os.environ.get("LAZARETTO_SHARED", HERE.parents[2] / "shared")) / "data" / "tau_bench"
DIRECTORIES = ["get_*", "search_*", "list_*"]
POLICIES: dict[str, dict[str, Any]] = {
    "tools unknown": {"mode": "enforce"},
    "tools unknown, with schemas": {"mode": "enforce"},
    "database tools are directories": {"directories": DIRECTORIES},
    "the same, with schemas": {"directories": DIRECTORIES},
}
SCHEMA: dict[str, Any] = {"properties": {name: {"enum": []} for name in ("flight_type", "cabin", "insurance")}}
"""What the schemas of the airline's tools say of words of fixed lists."""


def play(
    guard: SyncGuard, agent: str, messages: list[dict[str, Any]], schema: dict[str, Any] | None
) -> tuple[int, list[str]]:
    """Calls that were made, and what was asked."""
    begun, made, asked, names = False, 0, list[str](), dict[Any, str]()
    for message in messages:
        role, text = message.get("role"), message.get("content") or ""
        if role == "user" and text.strip():
            if begun:
                guard.check(text, agent=agent, channel="message", source="direct_user")
            else:
                guard.begin_task(text, agent=agent)
            begun = True
        elif role == "tool" and text.strip():
            name = message.get("name") or names.get(message.get("tool_call_id"), "tool")
            guard.check(text, agent=agent, channel="tool", tool=name)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            names[call.get("id")] = function["name"]
            given = json.loads(function["arguments"])
            known = schema and {"properties": {name: schema["properties"].get(name, {}) for name in given}}
            answer = guard.authorize(function["name"], given, agent=agent, schema=known)
            made += 1
            if answer.ruling == "ask":
                asked.append(f"{function['name']}: {answer.reasons[0].split('=')[0].split(',')[0].strip()}")
                guard.approvals.answer(answer.token, True, by="the user")
                guard.authorize(function["name"], given, agent=agent, schema=known)
    return made, asked


def measure(name: str, policy: dict[str, Any], trajectories: list[dict[str, Any]]) -> dict[str, Any]:
    calls = questions = tasks = 0
    why: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncGuard.open(f"sqlite:///{folder}/tau.db", Policy.read({"preset": "minimal", "actions": policy})) as guard,
    ):
        for number, one in enumerate(trajectories):
            made, asked = play(guard, f"agent {number}", one["traj"], SCHEMA if "schemas" in name else None)
            calls, questions, tasks = calls + made, questions + len(asked), tasks + bool(asked)
            why.update(asked)
    return {
        "trajectories": len(trajectories), "calls": calls, "questions": questions, "tasks_with_a_question": tasks,
        "why": dict(why.most_common(12)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the result in lab/results/actions")
    options = parser.parse_args()
    logging.getLogger("lazaretto").setLevel(logging.ERROR)
    trajectories = json.loads((DATA / "airline_trajectories_100.json").read_text())
    result = {name: measure(name, policy, trajectories) for name, policy in POLICIES.items()}
    print(json.dumps(result, indent=1))
    if options.write:
        (HERE.parent / "results" / "actions" / "tau_bench.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
