"""The core without extras and without the laboratory: every module imports, every command says what it lacks."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lazaretto
from lazaretto.errors import MissingExtra

pytestmark = pytest.mark.skipif(
    find_spec("torch") is not None or find_spec("lazaretto_lab") is not None,
    reason="runs where only the core is installed (make test-core)",
)
MODULES = sorted(m.name for m in pkgutil.walk_packages(lazaretto.__path__, "lazaretto.") if "__main__" not in m.name)
ROOMS = sorted({name.split(".")[1] for name in MODULES})

CLIENT = {"openai", "httpx2", "aiohttp"}
"""What the transport to endpoints may import at its top: it is loaded once the extra is known to be there."""


@pytest.fixture
def shell(tmp_path: Path):
    """Runs the installed command in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name("lazaretto"), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_without_any_extra(room: str) -> None:
    for name in (one for one in MODULES if one.split(".")[1] == room):
        try:
            importlib.import_module(name)
        except MissingExtra as error:
            assert name.startswith(("lazaretto.api.", "lazaretto.console.", "lazaretto.adapters.")), (name, error)
        except ModuleNotFoundError as error:
            assert error.name in CLIENT and name.startswith("lazaretto.models."), (name, error)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("bench", ("run", "outbreak/undefended", "--workers", "2")),
        ("epidemic", ("--help",)),
        ("attack", ()),
        ("train", ("jury", "--help")),
    ],
)
def test_a_command_of_the_laboratory_says_how_to_install_it(shell, command: str, more: tuple[str, ...]) -> None:
    done = shell(command, *more)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == f"'lazaretto {command}' belongs to the laboratory: pip install lazaretto-lab\n"


def test_help_lists_what_the_core_can_do(shell) -> None:
    done = shell("--help")
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in ("check", "remember", "trace", "repair", "ledger", "doctor"))
    assert " bench " not in done.stdout


def test_doctor_finds_the_core_sound_and_says_how_to_get_the_rest(shell, tmp_path: Path) -> None:
    done = shell("doctor", "--json", "--store", f"sqlite:///{tmp_path / 'crew.db'}")
    assert done.returncode == 0, done.stderr
    found = {one["part"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["lazaretto"]["ok"] and found["python"]["ok"]
    assert not any(one["required"] and not one["ok"] for one in found.values())
    runtime = next(one for part, one in found.items() if "(onnxruntime)" in part)
    assert (runtime["ok"], runtime["fix"]) == (False, "pip install 'lazaretto[gates]'")


def test_a_gate_that_lacks_its_extra_is_not_run_and_says_so(shell, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[channels.memory]\nstages = [["structure"], ["memory"]]\n')
    done = shell(
        "check", "--agent", "ada", "--text", "A note.", "--policy", "policy.toml", "--channel", "memory", "--json"
    )
    decision = json.loads(done.stdout)
    assert decision["ruling"] == "review", decision
    assert {run["gate"]: run["status"] for run in decision["runs"]} == {"structure": "ran", "memory": "missing"}
    assert "lazaretto[gates]" in done.stdout


def test_an_audit_without_its_jury_says_once_what_to_install(shell, tmp_path: Path) -> None:
    done = shell("audit", "A note.", "--store", f"sqlite:///{tmp_path / 'crew.db'}")
    assert (done.returncode, done.stdout) == (5, "") and done.stderr.count("lazaretto[gates]") == 1, done.stderr
