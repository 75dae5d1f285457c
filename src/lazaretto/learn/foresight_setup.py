"""From a calibration and a policy's table to the foresight that a guard runs."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from lazaretto.agents.model import AgentModel
from lazaretto.agents.persona import Persona, persona_pool
from lazaretto.errors import InputError, MissingExtra, PolicyError
from lazaretto.gates.foresight.community import Mode, MonitorMode
from lazaretto.gates.foresight.flp_mode import FlpMode
from lazaretto.gates.foresight.foresight import Foresight, InStore
from lazaretto.gates.foresight.ledger_memory import LedgerMemory
from lazaretto.gates.foresight.monitor import MemoryMonitor, MonitorSettings
from lazaretto.learn.calibration import FlpCalibration, MonitorCalibration, read_calibration
from lazaretto.ledger import Ledger
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto.policy import CLOSED, read_settings
from lazaretto.policy.plugins import ALLOW, EMBEDDERS, allowed
from lazaretto.repair.bisection import published_search

Calibration = MonitorCalibration | FlpCalibration
CAST, CAST_SEED = 64, 8180
"""Size and seed of the cast of rehearsals where the caller names none."""


@dataclass(frozen=True, slots=True)
class RehearsalModel(Endpoint):
    """The model that agents think with, as ``[gates.foresight.model]`` names it."""

    __pydantic_config__ = CLOSED
    backend: Annotated[Literal["openai", "local"], Field(description="An endpoint, or weights on this machine.")] = (
        "openai"
    )


@dataclass(frozen=True, slots=True)
class ForesightSettings(MonitorSettings):
    """The table ``[gates.foresight]``: with ``calibration`` a guard sets foresight up by itself."""

    __pydantic_config__ = CLOSED
    calibration: str = ""
    """The file that ``lazaretto foresight calibrate`` wrote; empty: ``foresight.rehearse_with`` sets it up."""
    embedder: str = "minilm"
    """The embedder that the calibration was made with: ``minilm``, or ``module:factory``."""
    model: RehearsalModel | None = None
    """Rehearses agents that are given by name, as they are over HTTP."""


def configured(ledger: Ledger, table: Mapping[str, Any], in_store: InStore, file: str = "policy") -> Foresight | None:
    """The foresight that a policy's table describes; None where it names no calibration."""
    settings = read_settings(ForesightSettings, table, key="gates.foresight", file=file)
    if not settings.calibration:
        if settings.model is not None:
            key = "gates.foresight.calibration"
            raise PolicyError(key, "nothing", "the file that 'lazaretto foresight calibrate' wrote", file)
        return None
    chat = None if settings.model is None else chat_model(settings.model)
    embedder = embedder_named(settings.embedder, by_file=True)
    return set_up(ledger, table, settings.calibration, embedder, in_store, chat=chat)


def chat_model(model: RehearsalModel) -> ChatModel:
    """The chat model at an endpoint, or of weights on this machine."""
    if model.backend == "local":
        from lazaretto.models.local_chat import LocalChat

        return LocalChat(model.model)
    return OpenAIChat(model)


def embedder_named(name: str, *, by_file: bool = False) -> TextEmbedder:
    """The embedder of a name: ``minilm``, an installed one, or ``module:factory``.

    ``by_file``: a policy file names it, not the operator on the command line. A file may only run code that is
    installed as a part of Lazaretto, or that the operator allows by ``LAZARETTO_ALLOW_PLUGINS``.
    """
    if name == "minilm":
        try:
            from lazaretto.models.minilm import shared_minilm

            return shared_minilm()
        except ImportError:
            raise MissingExtra("the text encoder", "gates") from None
    module, sign, attribute = name.partition(":")
    installed = not sign and name in EMBEDDERS.names()
    if by_file and sign and not allowed(module):
        fix = f"Install it with an entry point of {EMBEDDERS.group!r}, or allow it with {ALLOW}={module}"
        raise InputError("gates.foresight.embedder", f"{name!r} would run code that a policy may not name", fix)
    try:
        factory = EMBEDDERS.factory(name) if installed else getattr(importlib.import_module(module), attribute)
        made: TextEmbedder = factory()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        fix = "Use minilm, or module:factory"
        raise InputError(
            "embedder", f"{name!r} cannot be made: {error}" if sign else f"{name!r} is unknown", fix
        ) from None
    if not isinstance(made, TextEmbedder):
        raise InputError("embedder", f"{name!r} makes no embedder", "It needs name, dimension and embed_texts")
    return made


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
    settings = read_settings(ForesightSettings, table, key="gates.foresight")
    made_with = calibration.source.get("embedder", embedder.name)
    if made_with != embedder.name:
        raise InputError("embedder", f"is {embedder.name}, the calibration was made with {made_with}", "Use that one")
    asked = calibration.source.get("chat")
    if chat is not None and asked not in (None, chat.name):
        raise InputError(
            "model", f"is {chat.name}, the calibration was made with {asked}", "Use that one, or calibrate"
        )
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
    """Names the calibration and the embedder behind a reading."""
    facts = {"calibration": calibration.to_json(), "embedder": embedder.name}
    data = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=str)
    return hashlib.sha256(data).hexdigest()[:16]
