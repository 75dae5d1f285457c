"""The contract checks that ship to users: sound parts pass, each broken promise is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazaretto import testing
from lazaretto.gates import blocklist, structure
from lazaretto.gates.protocol import GateContext
from lazaretto.ledger import Ledger
from lazaretto.models.protocol import Completion, Request, Vectors
from lazaretto.policy import plugins
from lazaretto.testing import (
    HashingEmbedder,
    ScriptedChatModel,
    ScriptedGate,
    check_chat_model,
    check_embedder,
    check_gate,
    check_store,
)
from lazaretto.types import Draft, EventKind, Observation, Ruling, Verdict


@pytest.mark.parametrize("make", [structure.make, blocklist.make])
async def test_the_gates_that_ship_keep_the_contract(make: Callable[..., Any]) -> None:
    await check_gate(make({}))


async def test_a_scripted_gate_keeps_the_contract() -> None:
    await check_gate(ScriptedGate(lambda o: Ruling.BLOCK if "Ignore" in o.text else Ruling.ALLOW))


def broken(**change: Any) -> ScriptedGate:
    def script(observation: Observation) -> Verdict:
        return replace(Verdict("scripted", observation.id, Ruling.ALLOW, 0.1, (0.0, 0.2), "r"), **change)

    return ScriptedGate(script)


@pytest.mark.parametrize(
    ("gate", "promise"),
    [
        (ScriptedGate(name=""), "needs a name"),
        (ScriptedGate(channels=()), "needs channels"),
        (ScriptedGate(lambda o: 1 / 0), "ZeroDivisionError"),
        (ScriptedGate(lambda o: None), "not a Verdict"),
        (broken(risk=2.0), "not numbers from 0 to 1"),
        (broken(risk=0.9), "outside its interval"),
        (broken(rule=""), "names the rule"),
        (broken(ruling=Ruling.BLOCK), "without evidence"),
    ],
)
async def test_broken_gates_are_found(gate: ScriptedGate, promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        await check_gate(gate)


class Scribbler(ScriptedGate):
    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        context.ledger.append([Draft(EventKind.NOTED, "graffiti")])
        return await super().examine(observation, context)


async def test_a_gate_that_writes_is_found() -> None:
    with pytest.raises(AssertionError, match="must not write"):
        await check_gate(Scribbler())


def test_a_sound_store_passes(tmp_path: Path) -> None:
    check_store(f"sqlite:///{tmp_path / 'sound.db'}")


@pytest.mark.slow
def test_postgresql_passes(empty_postgres_url: str) -> None:
    check_store(empty_postgres_url)


@pytest.mark.parametrize(
    ("method", "instead", "promise"),
    [
        ("search", lambda self, *a, **k: [], "found by its words"),
        ("find_fingerprints", lambda self, *a, **k: [], "a fingerprint is found"),
        ("drop_fingerprints", lambda self, *a, **k: 0, "a dropped fingerprint"),
    ],
)
def test_broken_stores_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, instead: Callable[..., Any], promise: str
) -> None:
    monkeypatch.setattr(Ledger, method, instead)
    with pytest.raises(AssertionError, match=promise):
        check_store(f"sqlite:///{tmp_path / 'broken.db'}")


async def test_chat_models() -> None:
    await check_chat_model(ScriptedChatModel(lambda request: "four"))

    class Short(ScriptedChatModel):
        async def complete(self, requests: Sequence[Request]) -> list[Completion]:
            return (await super().complete(requests))[:2]

    with pytest.raises(AssertionError, match="2 completions for 3"):
        await check_chat_model(Short(lambda request: "four"))
    numbers = iter(range(100))
    with pytest.raises(AssertionError, match="greedy answers repeat"):
        await check_chat_model(ScriptedChatModel(lambda request: str(next(numbers))))


def test_embedders() -> None:
    check_embedder(HashingEmbedder())

    class Long(HashingEmbedder):
        def embed_texts(self, texts: Sequence[str]) -> Vectors:
            return super().embed_texts(texts) * np.float32(2)

    with pytest.raises(AssertionError, match="length one"):
        check_embedder(Long())


def test_what_it_promises_is_there() -> None:
    assert all(hasattr(testing, name) for name in testing.__all__)


@pytest.mark.parametrize("table", [plugins.GATES, plugins.REPAIRS])
def test_every_name_of_the_tables_can_be_made(table: plugins.PluginTable) -> None:
    for name in table.built_in:
        assert callable(table.factory(name)), name


def test_installed_parts_join_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("mine", "lazaretto.testing:ScriptedGate", "lazaretto.gates")
    takeover = EntryPoint("structure", "lazaretto.testing:ScriptedGate", "lazaretto.gates")
    monkeypatch.setattr(plugins, "installed_points", lambda group: (point, takeover))
    assert "mine" in plugins.GATES.names()
    assert plugins.GATES.factory("mine") is ScriptedGate
    assert plugins.GATES.factory("structure") is structure.make, "a built-in name cannot be taken over"
