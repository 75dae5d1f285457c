"""A command line with a world of its own: no settings of the machine, no store but those a test names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lazaretto.cli import build

Run = Callable[..., Any]


@pytest.fixture
def empty_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, an empty home, and none of our environment variables."""
    for name in ("LAZARETTO_STORE", "LAZARETTO_POLICY", "LAZARETTO_NAMESPACE", "LAZARETTO_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(empty_world: Path) -> Run:
    """Runs a command and expects an exit code; answers with its JSON where it was asked for, else with all output."""

    def call(*words: object, code: int = 0, stdin: str | bytes | None = None) -> Any:
        done = CliRunner().invoke(build(), [str(word) for word in words], input=stdin)
        assert done.exit_code == code, f"{words}: {done.output}\n{done.exception!r}"
        assert "Traceback" not in done.output
        return json.loads(done.stdout) if "--json" in words and code in (0, 1) else done.output

    return call
