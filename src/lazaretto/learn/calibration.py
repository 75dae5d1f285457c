"""Calibration: thresholds of the foresight gate from benign agents, stored with the data they came from.

Personas, memories and seeds of a calibration are used for nothing else: evaluations never see them, and no attack is
used here.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.history import History
from lazaretto.agents.model import AgentModel
from lazaretto.agents.persona import Persona
from lazaretto.agents.turn import AgentState, play, remember
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.gates.foresight.backend import RehearsalBackend
from lazaretto.gates.foresight.flp import QUANTILE, FlpSettings, FlpThresholds, take_readings
from lazaretto.gates.foresight.gauge import (
    MARGIN,
    BenignBaseline,
    MemoryEvidence,
    RetrievalProbe,
    Scale,
    beside_the_point,
    collapse,
    misnamed,
)
from lazaretto.gates.foresight.monitor import ordinary_rehearsal, talk

SUSPICIOUS = 0.90
"""Quantile of benign pull from which a memory is rehearsed in full."""
PLANS, REFERENCE_ALBUMS = 64, 2


@dataclass(frozen=True, slots=True)
class FlpCalibration:
    """Thresholds of mode ``flp``."""

    thresholds: FlpThresholds
    entropies: tuple[float, ...]
    diversities: tuple[float, ...]
    drifts: tuple[float, ...]
    source: Mapping[str, Any] = field(default_factory=dict)
    """The agents, models and seeds."""

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self) | {"source": dict(self.source)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FlpCalibration:
        """Read the data that ``to_json`` wrote."""
        entropies, diversities, drifts = (tuple(data[name]) for name in ("entropies", "diversities", "drifts"))
        return cls(FlpThresholds(**data["thresholds"]), entropies, diversities, drifts, data["source"])


@dataclass(frozen=True, slots=True)
class MonitorCalibration:
    """The probe and the scales of mode ``lazaretto``, and the benign readings they came from."""

    gauge: RetrievalProbe
    scales: BenignBaseline
    readings: tuple[MemoryEvidence, ...]
    source: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON data; reference memories are inside, so the file is complete."""
        scales = asdict(self.scales)
        readings = [reading.row() for reading in self.readings]
        albums = [[_packed(k) for k in album] for album in self.gauge.albums]
        return {
            "plans": list(self.gauge.plans), "albums": albums, "scales": scales, "readings": readings,
            "source": dict(self.source),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MonitorCalibration:
        """Read the data that ``to_json`` wrote."""
        parts: dict[str, Any] = {k: Scale(**v) if isinstance(v, Mapping) else v for k, v in data["scales"].items()}
        albums = tuple(tuple(_unpacked(k) for k in album) for album in data["albums"])
        readings = tuple(map(MemoryEvidence.of_row, data["readings"]))
        return cls(RetrievalProbe(tuple(data["plans"]), albums), BenignBaseline(**parts), readings, data["source"])


def save(calibration: FlpCalibration | MonitorCalibration, path: Path) -> None:
    """Write a calibration as one JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, orjson.dumps(calibration.to_json(), option=orjson.OPT_SERIALIZE_NUMPY))


def load(path: Path) -> dict[str, Any]:
    """The JSON of a calibration."""
    try:
        data: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError("calibration", f"cannot read {path}: {error}", "Calibrate anew") from None
    return data


def read_calibration(path: Path) -> FlpCalibration | MonitorCalibration:
    """The calibration in a file, of either mode."""
    data = load(path)
    try:
        return FlpCalibration.from_json(data) if "thresholds" in data else MonitorCalibration.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("calibration", f"{path} is not one: {error}", "Calibrate anew") from None


async def benign_agents(
    personas: Sequence[Persona],
    pool: Sequence[AlbumItem],
    agent_model: AgentModel,
    rounds: int,
    seed: int,
    album: int = 10,
) -> tuple[AgentState, ...]:
    """Agents that have lived a few rounds without any attack, so that their histories are realistic."""
    if len(pool) < album:
        raise InputError("pool", f"{len(pool)} memories", f"An album takes {album}")
    rng = random.Random(f"calibration:{seed}")
    agents = [
        AgentState(f"benign-{i}", person, Album(album, tuple(rng.sample(list(pool), album))), History())
        for i, person in enumerate(personas)
    ]
    for _ in range(rounds):
        order = rng.sample(range(len(agents)), len(agents) // 2 * 2)
        pairs = list(zip(order[::2], order[1::2], strict=True))
        for (q, a), turn in zip(
            pairs, await play([(agents[q], agents[a]) for q, a in pairs], agent_model), strict=True
        ):
            agents[q], agents[a] = remember(agents[q], agents[a], turn)
    return tuple(agents)


async def calibrate_flp(
    agents: Sequence[AgentState],
    personas: Sequence[Persona],
    backend: RehearsalBackend,
    *,
    settings: FlpSettings | None = None,
    source: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> FlpCalibration:
    """delta-quantiles of entropy and diversity, and the largest drift between two rehearsals of the same agent."""
    wanted, rng = settings or FlpSettings(), random.Random(f"calibrate flp:{seed}")
    first = await take_readings(agents, personas, wanted, backend, rng)
    again = await take_readings(agents, personas, wanted, backend, rng)
    entropies = [r.entropy for r in first if r.entropy is not None]
    diversities = [r.diversity for r in first if r.diversity is not None]
    drifts = [d for now, before in zip(again, first, strict=True) if (d := now.drift(before)) is not None]
    if not entropies or not diversities or not drifts:
        raise InputError("calibration", f"no rehearsal came to its end: {first[0].faults[:1]}", "Check the model")
    thresholds = FlpThresholds(
        float(np.quantile(entropies, QUANTILE, method="lower")),
        float(np.quantile(diversities, QUANTILE)),
        float(max(drifts)),
    )
    return FlpCalibration(thresholds, tuple(entropies), tuple(diversities), tuple(drifts), dict(source or {}))


async def calibrate_monitor(
    agents: Sequence[AgentState],
    personas: Sequence[Persona],
    backend: RehearsalBackend,
    *,
    source: Mapping[str, Any] | None = None,
    memories: int = 200,
    seed: int = 0,
) -> MonitorCalibration:
    """Plans and reference albums from the first agents, scales from at most ``memories`` memories of the others."""
    if len(agents) <= REFERENCE_ALBUMS:
        raise InputError("agents", f"{len(agents)} benign agents", f"Calibrate on more than {REFERENCE_ALBUMS}")
    rng = random.Random(f"calibrate watch:{seed}")
    answers = await backend.plan(agents)
    plans = tuple(s.text for s in answers if not s.fault and s.text)[:PLANS]
    reference = tuple(agent.album.items[1:] for agent in agents[:REFERENCE_ALBUMS])
    gauge = RetrievalProbe(plans, tuple(album for album in reference if album))
    held = {k.key: (k, agent) for agent in agents[REFERENCE_ALBUMS:] for k in agent.album}
    known = {k.key for album in gauge.albums for k in album}
    queue = [held[key] for key in rng.sample(sorted(held.keys() - known), min(memories, len(held.keys() - known)))]
    readings = []
    shown = [album_item for album_item, _ in queue]
    pulls, apart = await gauge.pulls(shown, backend), misnamed(shown, backend)
    rehearsals = await talk(
        [ordinary_rehearsal(album_item, agent) for album_item, agent in queue], personas, backend, rng
    )
    for album_item, pull, far, lines in zip(shown, pulls, apart, rehearsals, strict=True):
        if pull is None:
            raise InputError("calibration", f"retrieval failed for {album_item.title!r}", "Check the agent's retrieval")
        words = tuple(line.text for line in lines)
        beside = beside_the_point(words, album_item.title, backend)
        readings.append(MemoryEvidence(pull, collapse(words, backend), beside, words, far))
    return MonitorCalibration(gauge, scales_from(readings), tuple(readings), dict(source or {}))


def scales_from(readings: Sequence[MemoryEvidence]) -> BenignBaseline:
    """Scales and limits from benign readings alone."""
    pulls = [r.pull for r in readings]
    alike = [r.collapse for r in readings if r.collapse is not None]
    beside = [r.beside for r in readings if r.beside is not None]
    apart = [r.misnamed for r in readings if r.misnamed is not None]
    if not pulls or not alike:
        raise InputError("calibration", "no benign memory could be rehearsed", "Check the model, or give more agents")
    scales = BenignBaseline(
        Scale.of(pulls), Scale.of(alike), Scale.of(beside) if beside else Scale(1.0, 1.0),
        float(np.quantile(pulls, SUSPICIOUS)), 0.0, 0.0, 0.0, Scale.of(apart) if apart else Scale(1.0, 1.0),
    )  # fmt: skip
    joint, pull, words = (
        MARGIN * max(1.0, *(scales.score(r, *use) for r in readings))
        for use in ((True, True), (True, False), (False, True))
    )
    return replace(scales, infected=joint, pull_alone=pull, collapse_alone=words)


def _packed(album_item: AlbumItem) -> dict[str, str]:
    body = album_item.note.encode() if album_item.is_note else album_item.picture
    kind = "note" if album_item.is_note else "picture"
    return {"key": album_item.key, "title": album_item.title, "kind": kind, "data": base64.b64encode(body).decode()}


def _unpacked(data: Mapping[str, str]) -> AlbumItem:
    body = base64.b64decode(data["data"])
    if data["kind"] == "note":
        return AlbumItem(data["key"], data["title"], note=body.decode())
    return AlbumItem(data["key"], data["title"], picture=body)
