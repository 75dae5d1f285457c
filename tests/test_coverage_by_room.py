"""The table of ``make coverage``: a room below the least share fails, whatever is named apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "coverage_by_room.py"


def run(folder: Path, files: dict[str, tuple[int, int]]) -> subprocess.CompletedProcess[str]:
    told = {
        name: {"summary": {"covered_lines": reached, "num_statements": count}}
        for name, (reached, count) in files.items()
    }
    (folder / "report.json").write_text(json.dumps({"files": told}))
    words = [sys.executable, TOOL, folder / "report.json", "--write", folder / "rooms.json"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("reached", "code"), [(85, 0), (84, 1)])
def test_a_room_below_the_least_share_fails(tmp_path: Path, reached: int, code: int) -> None:
    files = {"src/lazaretto/ledger/store.py": (reached, 100), "src/lazaretto/types.py": (10, 10)}
    done = run(tmp_path, files)
    assert done.returncode == code and f"{reached}.0 %" in done.stdout, done.stderr
    assert ("below 85 %: ledger" in done.stderr) == bool(code)
    assert json.loads((tmp_path / "rooms.json").read_text())["rooms"] == {"ledger": [reached, 100], "types": [10, 10]}


def test_only_adapters_without_their_framework_count_apart(tmp_path: Path) -> None:
    names = ("agent_framework", "crewai", "google_adk", "mem0", "openai_agents")
    files = {f"src/lazaretto/adapters/{name}.py": (0, 1) for name in names}
    done = run(tmp_path, {**files, "src/lazaretto/adapters/border.py": (10, 100)})
    assert done.returncode == 1 and "below 85 %: adapters" in done.stderr
    there = [name for name in names if f"{name}" not in done.stdout.partition("not measured here")[2]]
    assert f"10 of {100 + len(there):6}  adapters" in done.stdout


def test_files_that_are_hardly_reached_are_named(tmp_path: Path) -> None:
    files = {"src/lazaretto/ledger/lease.py": (14, 20), "src/lazaretto/ledger/store.py": (180, 180)}
    done = run(tmp_path, {**files, "src/lazaretto/ledger/small.py": (0, 14), "src/lazaretto/ledger/some.py": (75, 100)})
    assert done.returncode == 0 and done.stdout.count("a file below") == 1, done.stdout
    assert json.loads((tmp_path / "rooms.json").read_text())["files below 75 %"] == {
        "src/lazaretto/ledger/lease.py": [14, 20]
    }
