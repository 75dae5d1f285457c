"""Runs the adapters' tests in each environment and keeps what came of them: ``make adapters`` does.

    python tools/run_adapters.py openai-agents mem0 ... [--write]

The pins of the frameworks exclude each other, so no one environment can show docs/adapters-matrix.md as a whole. This
runs ``TESTS`` in ``.venv-adapters-NAME`` for each name and in the environment of this program (LangGraph), and
says which cell was shown where, by which version. With ``--write`` it is kept in lab/results/adapters and shown on the
page. It fails where a test fails, or a cell is shown nowhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
FRAMEWORKS = {
    "LangGraph": "langgraph",
    "LangChain agents": "langchain",
    "OpenAI Agents SDK": "openai-agents",
    "mem0": "mem0ai",
    "CrewAI": "crewai",
    "Google ADK": "google-adk",
    "Microsoft Agent Framework": "agent-framework-core",
    "LlamaIndex": "llama-index-core",
    "PydanticAI": "pydantic-ai-slim",
    "AutoGen": "autogen-agentchat",
    "any Python code": "",
}
"""The distribution behind each row of the matrix."""
TESTS = ("tests/adapters", "tests/actions/test_hooks.py", "tests/doors/test_second_round_in_sdks.py")
HERE = "development"
"""The environment of this program."""
VERSIONS = """
import importlib.metadata as m, json, platform, sys
found = {name: m.version(name) for name in sys.argv[1:] if any(m.distributions(name=name))}
print(json.dumps({"python": platform.python_version(), "versions": found}))
"""


def the_matrix() -> ModuleType:
    """``tests/adapters/matrix.py``."""
    spec = importlib.util.spec_from_file_location("matrix", REPOSITORY / "tests" / "adapters" / "matrix.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tried(name: str) -> dict[str, Any]:
    """What the tests came to in one environment, with the versions of the frameworks in it."""
    python = sys.executable if name == HERE else str(REPOSITORY / f".venv-adapters-{name}" / "bin" / "python")
    wanted = [one for one in FRAMEWORKS.values() if one]
    told = subprocess.run([python, "-c", VERSIONS, *wanted], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", *TESTS, "--ignore=tests/adapters/test_matrix.py"]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1"]
        subprocess.run(command, cwd=REPOSITORY, check=False)
        cases = list(ET.parse(report).iter("testcase"))
    bad = {id(case) for case in cases if case.find("failure") is not None or case.find("error") is not None}
    ran = [case for case in cases if case.find("skipped") is None]
    names = {id(case): f"{Path(case.get('file', '')).name}::{case.get('name', '').partition('[')[0]}" for case in ran}
    return {
        **json.loads(told),
        "passed": sorted({names[id(case)] for case in ran if id(case) not in bad}),
        "failed": sorted({names[id(case)] for case in ran if id(case) in bad}),
    }


def summary(environments: dict[str, Any]) -> dict[str, Any]:
    """For each framework of the matrix: its version, where it was tried, and which cells no test showed."""
    matrix, rows = the_matrix(), {}
    for framework, cells in matrix.MATRIX.items():
        package = FRAMEWORKS[framework]
        shown = {place: test for place, (word, test) in zip(matrix.PLACES, cells, strict=True) if word in matrix.SHOWN}
        where = [
            name
            for name, one in environments.items()
            if (not package or package in one["versions"]) and all(test in one["passed"] for test in shown.values())
        ]
        rows[framework] = {
            "package": package,
            "versions": sorted({environments[name]["versions"][package] for name in where if package}),
            "cells": len(shown),
            "shown in": where,
        }
    return rows


def table(told: dict[str, Any]) -> str:
    """The outcome as the page shows it."""
    lines = ["| framework | version | cells, each shown by a test that passed | environments |", "|---|---|---|---|"]
    for framework, row in told["frameworks"].items():
        version = f"`{row['package']}` {', '.join(row['versions'])}" if row["package"] else "-"
        count = f"{row['cells']} of {row['cells']}" if row["shown in"] else f"not all of {row['cells']}"
        where = ", ".join(row["shown in"]) if row["package"] else f"all {len(row['shown in'])}"
        lines.append(f"| {framework} | {version} | {count} | {where} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, print, and keep where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+", help="names of .venv-adapters-NAME")
    parser.add_argument("--write", action="store_true", help="keep the outcome and renew docs/adapters-matrix.md")
    options = parser.parse_args()
    environments: dict[str, Any] = {}
    for name in (HERE, *options.environments):
        print(f"== {name}", flush=True)
        environments[name] = tried(name)
    told = {"frameworks": summary(environments), "environments": environments}
    print(table(told))
    if options.write:
        matrix = the_matrix()
        matrix.OUTCOME.parent.mkdir(parents=True, exist_ok=True)
        matrix.OUTCOME.write_text(json.dumps(told, indent=1) + "\n")
        page = REPOSITORY / "docs" / "adapters-matrix.md"
        page.write_text(matrix.with_outcome(page.read_text(), table(told)))
    wanted = {name for name, row in told["frameworks"].items() if not row["shown in"]}
    failed = [f"{name}: {test}" for name, one in environments.items() for test in one["failed"]]
    if failed or wanted:
        sys.exit("\n".join([*failed, *(f"{name}: not every cell is shown" for name in sorted(wanted))]))


if __name__ == "__main__":
    main()
