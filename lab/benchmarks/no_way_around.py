"""The findings about ways around the guard, each with its test: does the attack pass in a given version of the code?

    python lab/benchmarks/no_way_around.py after                                   # this tree
    python lab/benchmarks/no_way_around.py before --source OLD_TREE --commit 081fdf3

The tests of this tree are run against ``OLD_TREE/src``. An attack passed where a test of it failed there by what it
asserts or by an error in the code under test; a test that needs a module which the old tree does not have says nothing
(``not runnable``; ``passed_before.py`` tries these with calls that both have). What hung is in ``nothing_hangs.py``.
Rows go to lab/results/no_way_around/LABEL.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "no_way_around"
FINDINGS = (
    ("one foreign sentence switches the screener off", "every surface",
     "tests/gates/memory/test_text_screener.py", "another_language_does_not_hide"),
    ("one foreign sentence makes the jury undecided", "every surface",
     "tests/gates/content/test_jury_roles.py", "another_language_does_not_hide"),
    ("paths around the guard", "proxy", "tests/api/test_proxy_reading.py", "no_path_leads"),
    ("fields to the model that nobody reads", "proxy", "tests/api/test_proxy_reading.py", "reaches_the_model_unread"),
    ("fields to the agent that nobody reads", "proxy",
     "tests/api/test_proxy_reading.py", "field_reaches_the_agent_unread"),
    ("events of streams that nobody reads", "proxy", "tests/api/test_proxy_reading.py", "no_event_of_a_stream"),
    ("any status but 200 passes", "proxy", "tests/api/test_proxy_reading.py", "errors_of_the_endpoint"),
    ("a release never reaches a running conversation", "proxy",
     "tests/api/test_proxy_reading.py", "released_in_a_running"),
    ("a transient failure of a gate is remembered", "proxy", "tests/api/test_proxy_reading.py", "failed_once"),
    ("a missing key file, a blank token open the server", "proxy, HTTP",
     "tests/api/test_identity_over_http.py", "meant_to_be_closed"),
    ("a revoked key works until a restart", "HTTP", "tests/api/test_identity_over_http.py", "revoked_and_added"),
    ("unread fields of states, messages, documents, tools", "LangGraph, checkpointer, store",
     "tests/adapters/test_langgraph_reading.py", ""),
    ("errors carry orders", "MCP gateway", "tests/mcp_protocol/test_gateway_findings.py", "no_error_carries"),
    ("_meta, URIs and other fields", "MCP gateway", "tests/mcp_protocol/test_every_string.py", "wherever_it_stands"),
    ("descriptions are pinned in memory only", "MCP gateway",
     "tests/mcp_protocol/test_gateway_findings.py", "pinned_across"),
    ("tables outside verification", "ledger", "tests/ledger/test_all_tables.py", ""),
    ("telemetry, kept pictures and texts", "process", "tests/test_nothing_leaves.py", ""),
    ("a policy runs any function", "policy", "tests/guard/test_allowed_plugins.py", "names_no_function"),
    ("rule files, left-out folders, computed columns, control characters, permissions", "scan",
     "tests/scan/test_scan_findings.py", ""),
)  # fmt: skip


def tried(path: str, words: str, source: Path) -> dict[str, int]:
    """Passed, failed, skipped and not runnable tests of one finding."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", path]
        paths = os.pathsep.join(map(str, (source / "src", source / "lab" / "src")))
        subprocess.run(
            [*command, *(["-k", words] if words else [])], cwd=REPOSITORY, capture_output=True, check=False,
            env={**os.environ, "PYTHONPATH": paths}, timeout=900,
        )  # fmt: skip
        counts = {"held": 0, "passed_through": 0, "skipped": 0, "not_runnable": 0}
        for case in ET.parse(report).iter("testcase") if report.exists() else ():
            fault = case.find("failure") if case.find("failure") is not None else case.find("error")
            text = "" if fault is None else f"{fault.get('message')} {fault.text}"
            missing = any(one in text for one in ("ImportError", "ModuleNotFoundError", "fixture '"))
            name = "skipped" if case.find("skipped") is not None else "held" if fault is None else "passed_through"
            counts["not_runnable" if fault is not None and missing else name] += 1
    return counts


def main() -> None:
    """Run every finding and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("label", choices=("before", "after"))
    parser.add_argument("--source", type=Path, default=REPOSITORY)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    here = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    commit = options.commit or subprocess.run(here, capture_output=True, text=True, check=True).stdout.strip()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{options.label}.jsonl").open("w", encoding="utf-8") as out:
        for finding, surface, path, words in FINDINGS:
            counts = tried(path, words, options.source)
            ran = counts["held"] + counts["passed_through"]
            passed = "yes" if counts["passed_through"] else "no" if ran else "not shown"
            row = {"finding": finding, "surface": surface, "attack_passed": passed, **counts}
            row |= {"test": f"{path} -k {words}" if words else path, "commit": commit}
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{passed:9} {counts} {finding}", flush=True)


if __name__ == "__main__":
    main()
