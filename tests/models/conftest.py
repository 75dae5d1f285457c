"""A stub endpoint in its own process, shared by the tests that need one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STUB = Path(__file__).resolve().parents[2] / "benchmarks" / "stub_endpoint.py"


@pytest.fixture(scope="session")
def stub_url() -> Iterator[str]:
    """The base URL of an endpoint whose model name says how it (mis)behaves."""
    process = subprocess.Popen([sys.executable, str(STUB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(timeout=10)
