"""From a calibration and a policy's table to the foresight that a guard runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lazaretto.agents.model import AgentModel
from lazaretto.agents.persona import Persona, persona_pool
from lazaretto.errors import InputError
from lazaretto.gates.foresight.community import Mode, MonitorMode
from lazaretto.gates.foresight.flp_mode import FlpMode
from lazaretto.gates.foresight.foresight import Foresight, InStore
from lazaretto.gates.foresight.ledger_memory import LedgerMemory
from lazaretto.gates.foresight.monitor import MemoryMonitor, MonitorSettings
from lazaretto.learn.calibration import FlpCalibration, MonitorCalibration, read_calibration
from lazaretto.ledger import Ledger
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto.policy import read_settings
from lazaretto.repair.bisection import published_search

Calibration = MonitorCalibration | FlpCalibration
CAST, CAST_SEED = 64, 8180
"""The people that rehearsals play where the caller names none."""


def set_up(
    ledger: Ledger,
    table: Mapping[str, Any],
    calibration: Calibration | str | Path,
    embedder: TextEmbedder,
    in_store: InStore,
    personas: Sequence[Persona] | None = None,
    chat: ChatModel | None = None,
) -> Foresight:
    """``table`` is ``[gates.foresight]``; its mode must be the calibration's."""
    if isinstance(calibration, (str, Path)):
        calibration = read_calibration(Path(calibration))
    settings = read_settings(MonitorSettings, table, key="gates.foresight")
    made_with = calibration.source.get("embedder", embedder.name)
    if made_with != embedder.name:
        raise InputError("embedder", f"is {embedder.name}, the calibration was made with {made_with}", "Use that one")
    people = tuple(persona_pool(CAST, CAST_SEED) if personas is None else personas)
    mode = _mode(calibration, settings, people)
    memory = LedgerMemory(ledger, mode, _fingerprint(calibration, embedder))
    model = AgentModel(chat, embedder) if chat is not None else None
    return Foresight(mode, memory, ledger, embedder, in_store, model=model, album=settings.album)


def _mode(calibration: Calibration, settings: MonitorSettings, people: Sequence[Persona]) -> Mode:
    made_for = "flp" if isinstance(calibration, FlpCalibration) else "lazaretto"
    if settings.mode != made_for:
        raise InputError(
            "calibration", f"is one of mode {made_for!r}", f"Calibrate for gates.foresight.mode = {settings.mode!r}"
        )
    if isinstance(calibration, FlpCalibration):
        if not people:
            raise InputError("personas", "none to rehearse with", "Give at least one")
        return FlpMode(calibration.thresholds, people, search=published_search)
    return MonitorMode(MemoryMonitor(calibration.gauge, calibration.scales, people, settings))


def _fingerprint(calibration: Calibration, embedder: TextEmbedder) -> str:
    """Names what a reading was taken with."""
    facts = {"calibration": calibration.to_json(), "embedder": embedder.name}
    data = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=str)
    return hashlib.sha256(data).hexdigest()[:16]
