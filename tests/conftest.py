"""Fixtures that every test folder shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of development data; tests that need it are skipped, visibly, where it does not exist."""
    folder = Path(os.environ.get("LAZARETTO_SHARED", REPOSITORY.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"needs development data in {folder}")
    return folder
