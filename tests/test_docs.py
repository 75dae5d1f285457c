"""Every command block of the README and the docs runs here, page by page, in an empty folder with an empty store.

Blocks marked ``bash`` and ``python`` run in order and share the folder; other blocks are illustrations. Commands that
would start this very suite again (``make ...``) or fetch the repository are checked for existing instead. Commands run
in copies of one process (``forked_commands.py``); that a start by itself works is tested in ``tests/cli``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from .forked_commands import folder_of_commands

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"^\s*(git clone|cd lazaretto|make)\b")
INSTALLS = re.compile(r"^\s*(?:\S+/)?(?:python3? -m )?pip3? install\b", re.MULTILINE)
"""Such a block would change the environment that the other tests run in: it is an illustration, marked ``text``."""

NOT_INSTALLED = re.compile(r"pip install '?lazaretto(\[\w+\]|-lab)")
"""How every command ends that lacks an extra or the laboratory."""
CORE_ONLY = find_spec("lazaretto_lab") is None


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(m[1], m[2]) for m in BLOCK.finditer(page.read_text())]


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    """The folder of the commands, which the process behind them answers as long as this file is tested."""
    with tempfile.TemporaryDirectory(prefix="lz") as short:  # a socket's path has about 100 characters
        address = Path(short) / "asked"
        words = [sys.executable, str(Path(__file__).with_name("forked_commands.py")), str(address)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield folder_of_commands(Path(short) / "bin", address)
            process.terminate()


def environment(folder: Path, commands: Path) -> dict[str, str]:
    given = ("LAZARETTO_CACHE", "LAZARETTO_SHARED")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LAZARETTO_") or k in given}
    return kept | {
        "PATH": os.pathsep.join((str(commands), str(Path(sys.executable).parent), os.environ["PATH"])),
        "LAZARETTO_STORE": f"sqlite:///{folder / 'docs.db'}",
        "HOME": str(folder),
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


def check_make_targets(code: str) -> None:
    for target in re.findall(r"^\s*make ([a-z]+)", code, re.MULTILINE):
        subprocess.run(["make", "--dry-run", target], cwd=REPOSITORY, check=True, capture_output=True)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(REPOSITORY)))
@pytest.mark.slow
@pytest.mark.timeout(900)  # the tutorial judges a month of mail
def test_command_blocks_run(page: Path, tmp_path: Path, commands: Path) -> None:
    for number, (language, code) in enumerate(blocks(page), 1):
        assert not INSTALLS.search(code), f"{page.name}, block {number} installs something: mark it as text"
        check_make_targets(code)
        if language == "bash":
            runnable = "\n".join(line for line in code.splitlines() if not NOT_RUN.match(line))
            command = ["bash", "-euo", "pipefail", "-c", runnable]
        else:
            command = [str(commands / "run-python"), code]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(tmp_path, commands), capture_output=True, text=True, timeout=240
        )
        if CORE_ONLY and done.returncode and (lacking := NOT_INSTALLED.search(done.stderr)):
            pytest.skip(f"block {number} needs {lacking[0]}")
        printed = f"--- stdout\n{done.stdout[-3000:]}\n--- stderr\n{done.stderr[-3000:]}"
        assert done.returncode == 0, f"{page.name}, block {number} ({language}) failed:\n{code}\n{printed}"


def test_internal_links_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, *REPOSITORY.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                broken.append(f"{page.name} -> {target}")
    assert not broken


@pytest.mark.parametrize("line", ["pip install x", "  python -m pip install x==1", ".venv/bin/pip install 'x[y]'"])
def test_a_block_that_installs_is_told(line: str) -> None:
    assert INSTALLS.search(f"cd folder\n{line}\n")


@pytest.mark.parametrize("line", ["lazaretto recall 'pip install'", "echo 'pip install x'", "pip list"])
def test_other_blocks_are_run(line: str) -> None:
    assert not INSTALLS.search(f"cd folder\n{line}\n")
