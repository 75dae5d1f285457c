"""What SECURITY.md and requirements.lock promise: named tests exist; every package is pinned and has a hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_agrees_with_the_constraints_and_names_a_hash_for_everything() -> None:
    lock = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line for line in lock.splitlines() if line and not line.startswith("#")]
    pins = dict(line.split("==", 1) for line in (ROOT / "constraints.txt").read_text().split())
    wanted = {normal(name): version for name, version in pins.items()}
    locked = {}
    for line in lines:
        found = re.fullmatch(r"([a-z0-9-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", line.strip())
        assert found, line
        locked[found[1]] = found[2]
    assert {name: version for name, version in locked.items() if wanted.get(name) != version} == {}
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {normal(re.split(r"[>=\[]", need)[0]) for need in needs} <= set(locked), "run python tools/lock.py"


def test_every_test_that_the_security_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 25
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []
