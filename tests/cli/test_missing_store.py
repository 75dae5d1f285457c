"""A mistyped store is an error wherever a command looks at what is recorded: "nothing waits" would be believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOOKS = (
    "held", "held --would", "incidents", "incident show in_1", "labels", "label it_1 harmful --by dana",
    "unlabel 1 --by dana", "appeal it_1 --reason wrong --by dana", "release it_1", "repair list", "repair proposals",
    "repair proposal pr_1", "repair accept pr_1 --by dana", "repair dismiss pr_1 --by dana", "repair undo rc_1",
    "repair plan isolate it_1", "recheck", "suspects", "conflicts", "conflicts --keep it_1 --over it_2",
    "actions waiting", "actions observed", "authorize --approve t --by dana", "trace it_1", "contacts ada", "observed",
    "ledger verify", "ledger stats", "ledger head",
)  # fmt: skip


@pytest.mark.parametrize("command", LOOKS)
def test_what_looks_at_a_store_names_the_one_that_is_missing_and_makes_none(
    run: Callable[..., Any], empty_world: Path, command: str
) -> None:
    told = " ".join(run(*command.split(), "--store", "sqlite:///typo.db", code=3).split())
    assert "no ledger at sqlite:///typo.db. Check the name; the first item that is recorded makes it" in told
    assert not (empty_world / "typo.db").exists()
