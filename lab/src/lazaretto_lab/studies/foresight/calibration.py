"""The foresight gate for experiments: calibrations, defences by name, and runs that look at the gate alone."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import Persona, persona_pool
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import AgentModelBackend
from lazaretto.gates.foresight.flp import FlpSettings
from lazaretto.gates.foresight.monitor import MemoryMonitor, MonitorSettings
from lazaretto.learn.calibration import (
    FlpCalibration,
    MonitorCalibration,
    benign_agents,
    calibrate_flp,
    calibrate_monitor,
    load,
    save,
)
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.harness.experiment import STUDIES
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.studies.foresight.defences import FlpDefence, MonitorDefence
from lazaretto_lab.studies.outbreak.components import DefenceContext
from lazaretto_lab.studies.outbreak.models import remembering
from lazaretto_lab.studies.outbreak.settings import OutbreakSettings, cache_folder
from lazaretto_lab.worlds.album_chat.defence import Defence
from lazaretto_lab.worlds.album_chat.pools import folder_pictures, scene_notes, scene_pictures
from lazaretto_lab.worlds.scenes.album import album_scenes

CALIBRATION_POOL, CALIBRATION_PERSONAS, CALIBRATION_LIFE = 5150, 6160, 7170
"""Seeds of a calibration: its pictures, its people, their life. Worlds, attacks and cures draw from others."""
REHEARSAL_PERSONAS = 8180
"""Seed of the personas that rehearsals draw from."""
CAST = 64
SHIPPED = STUDIES.parent / "pocket" / "calibrations"
"""Calibrations that come with the pocket models, by what they rest on; others are made on first use."""
RECIPE = 2
"""Counts up when calibration or the drawing of scenes changes, so that kept ones are not taken for new ones."""


Wanted = TypeVar("Wanted", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CalibrationSettings(_Strict):
    """On what a calibration rests."""

    agents: int = 96
    rounds: int = 3
    """Benign rounds lived before."""
    memories: int = 300
    """Memories rehearsed for mode ``lazaretto``."""


class FlpOptions(_Strict):
    """What an experiment may set about mode ``flp`` and the baselines that share its diagnosis."""

    personas: int = 4
    passes: int = 3
    heterogeneous: bool = True
    use_entropy: bool = True
    use_diversity: bool = True
    rounds: int = 0
    """Rounds from the first in which it runs; 0 is all, 4 the authors' program."""
    purify: Literal["flp", "naive", "tail"] = "flp"
    smallest: int = 2
    calibration: CalibrationSettings = CalibrationSettings()

    def rehearsal(self) -> FlpSettings:
        """As the gate takes it."""
        return FlpSettings(self.personas, self.passes, self.heterogeneous, self.use_entropy, self.use_diversity)


class MonitorOptions(_Strict):
    """What an experiment may set about mode ``lazaretto``."""

    budget: float = 1.0
    curiosity: float = 0.25
    listen: bool = True
    use_pull: bool = True
    use_collapse: bool = True
    personas: int = CAST
    """How many personas rehearsals draw from; 1 is a single one on all sides."""
    calibration: CalibrationSettings = CalibrationSettings()

    def monitor(self) -> MonitorSettings:
        """As the gate takes it."""
        return MonitorSettings(self.budget, self.curiosity, self.listen, self.use_pull, self.use_collapse)


def flp(settings: Mapping[str, Any], context: DefenceContext) -> Defence:
    """Mode ``flp``, and with ``purify`` the baselines naive and tail rollback."""
    wanted = read_options(FlpOptions, settings)
    return flp_defence(wanted, Calibrator(context.chat, context.embedder, context.outbreak))


def lazaretto(settings: Mapping[str, Any], context: DefenceContext) -> Defence:
    """Mode ``lazaretto``."""
    wanted = read_options(MonitorOptions, settings)
    return monitor_defence(wanted, Calibrator(context.chat, context.embedder, context.outbreak))


def flp_defence(wanted: FlpOptions, calibrator: Calibrator) -> FlpDefence:
    """The defence with thresholds for exactly this rehearsal."""
    rehearsal = wanted.rehearsal()
    # which measures a diagnosis uses does not change what benign rehearsals look like
    known = calibrator.flp(wanted.calibration, replace(rehearsal, use_entropy=True, use_diversity=True))
    return FlpDefence(
        known.thresholds, rehearsal_personas(), rehearsal,
        rounds=wanted.rounds, purify=wanted.purify, smallest=wanted.smallest,
    )  # fmt: skip


def monitor_defence(wanted: MonitorOptions, calibrator: Calibrator) -> MonitorDefence:
    """The defence with the gauge and scales of its calibration."""
    known, name = calibrator.monitor(wanted.calibration)
    monitor = MemoryMonitor(known.gauge, known.scales, rehearsal_personas()[: wanted.personas], wanted.monitor())
    return MonitorDefence(monitor, name)


def rehearsal_personas() -> tuple[Persona, ...]:
    """Whom rehearsals play."""
    return persona_pool(CAST, REHEARSAL_PERSONAS)


class Calibrator:
    """Makes calibrations for one pair of models, and keeps them by what they rest on."""

    def __init__(self, chat: ChatModel, embedder: TextEmbedder, world: OutbreakSettings) -> None:
        """For the kind of memories of a world; from some that the world never shows."""
        self.chat, self.embedder, self.world, self.folder = chat, embedder, world, cache_folder() / "foresight"

    def flp(self, on: CalibrationSettings, rehearsal: FlpSettings) -> FlpCalibration:
        """Thresholds of mode ``flp`` for this rehearsal."""
        source, path = self._source("flp", on, rehearsal)

        async def make() -> FlpCalibration:
            agent_model = self._agent_model(path)
            agents = await self._agents(on, agent_model)
            return await calibrate_flp(
                agents, rehearsal_personas(), AgentModelBackend(agent_model), settings=rehearsal, source=source
            )

        with file_lock(path):
            if not path.is_file():
                save(asyncio.run(make()), path)
        return FlpCalibration.from_json(load(path))

    def monitor(self, on: CalibrationSettings) -> tuple[MonitorCalibration, str]:
        """The probe and the scales of mode ``lazaretto``, and a short name for them."""
        source, path = self._source("watch", on, None)

        async def make() -> MonitorCalibration:
            agent_model = self._agent_model(path)
            agents = await self._agents(on, agent_model)
            return await calibrate_monitor(
                agents, rehearsal_personas(), AgentModelBackend(agent_model), source=source, memories=on.memories
            )

        shipped = SHIPPED / path.name
        if shipped.is_file():
            return MonitorCalibration.from_json(load(shipped)), path.stem
        with file_lock(path):
            if not path.is_file():
                save(asyncio.run(make()), path)
        return MonitorCalibration.from_json(load(path)), path.stem

    def _agent_model(self, path: Path) -> AgentModel:
        """Answers and embeddings are kept beside, so that an interrupted calibration goes on."""
        place = path.with_suffix(".work")
        return AgentModel(remembering(self.chat, place), EmbeddingCache(self.embedder, place))

    async def _agents(self, on: CalibrationSettings, agent_model: AgentModel) -> tuple[AgentState, ...]:
        people, pool = persona_pool(on.agents, CALIBRATION_PERSONAS), calibration_pool(self.world)
        return await benign_agents(people, pool, agent_model, on.rounds, CALIBRATION_LIFE, self.world.album)

    def _source(self, mode: str, on: CalibrationSettings, rehearsal: FlpSettings | None) -> tuple[dict[str, Any], Path]:
        source = {
            "mode": mode, "recipe": RECIPE, "chat": self.chat.name, "embedder": self.embedder.name,
            "album": self.world.album, "rehearsal": repr(rehearsal), **on.model_dump(),
            "pool": hashlib.sha256(self._memories().encode()).hexdigest()[:16],
            "seeds": [CALIBRATION_POOL, CALIBRATION_PERSONAS, CALIBRATION_LIFE, REHEARSAL_PERSONAS],
            "weights": [getattr(model, "fingerprint", "") for model in (self.chat, self.embedder)],
        }  # fmt: skip
        name = hashlib.sha256(orjson.dumps(source, option=orjson.OPT_SORT_KEYS)).hexdigest()[:20]
        return source, self.folder / f"{mode}-{name}.json"

    def _memories(self) -> str:
        """What the pool is told by: its contents, or the scenes of drawn pictures.

        Processors round differently where Pillow draws, so one scene has other pixels on x86-64 than on arm64.
        """
        if self.world.memory == "pictures" and self.world.pictures == "scenes":
            return repr(album_scenes(self.world.pool, CALIBRATION_POOL))
        return "".join(item.key for item in calibration_pool(self.world))


def calibration_pool(outbreak: OutbreakSettings) -> tuple[AlbumItem, ...]:
    """Memories for calibration: of the same kind as the world's, from another seed."""
    if outbreak.memory == "notes":
        return scene_notes(outbreak.pool, CALIBRATION_POOL)
    if outbreak.pictures == "scenes":
        return _scenes(outbreak.pool)
    shown = list(folder_pictures(outbreak.pictures, None, CALIBRATION_POOL))
    random.Random(CALIBRATION_POOL).shuffle(shown)
    return tuple(shown[: outbreak.pool])


@cache
def _scenes(count: int) -> tuple[AlbumItem, ...]:
    return scene_pictures(count, CALIBRATION_POOL)


def read_options(kind: type[Wanted], settings: Mapping[str, Any]) -> Wanted:
    """Settings of a mode, checked."""
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(["defence_settings", *(str(part) for part in fault["loc"])])
        raise InputError(place, fault["msg"], "See docs/foresight.md") from None
