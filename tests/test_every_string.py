"""An order planted at a random place of a random value is found, bank by bank; a harmless sentence passes."""

from __future__ import annotations

import importlib.util
import logging
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

for package in ("httpx", "starlette", "langgraph"):
    pytest.importorskip(package, reason="needs the proxy and langgraph extras")

SCRIPT = Path(__file__).parents[1] / "lab" / "benchmarks" / "every_string.py"
PLACES = 40
NAMES = [
    f"proxy {dialect} {way}" for dialect in ("chat", "responses", "messages") for way in ("request", "answer", "stream")
]
NAMES += ["langgraph state", "langgraph checkpointer", "langgraph tools", "langgraph store", "decorator"]
NAMES += ["langchain middleware"] if importlib.util.find_spec("langchain") else []
NAMES += ["mcp gateway", "mcp server requests"] if importlib.util.find_spec("mcp") else []


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The benchmark that counts 2,000 places per bank (lab/results/every_string)."""
    spec = importlib.util.spec_from_file_location("every_string", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["every_string"] = made
    spec.loader.exec_module(made)
    return made


def test_the_banks_are_those_of_the_script(script: ModuleType) -> None:
    assert sorted(script.BANKS) == sorted(NAMES)


@pytest.mark.parametrize("bank", NAMES)
def test_every_place_is_read(script: ModuleType, bank: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "lazaretto")
    found, passed = script.BANKS[bank](PLACES, random.Random(f"suite:{bank}"), str(tmp_path))
    print(f"{bank}: {found} of {PLACES} orders found, {passed} harmless sentences passed")
    assert (found, passed) == (PLACES, PLACES)
