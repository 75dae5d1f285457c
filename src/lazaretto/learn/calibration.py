"""Calibration of foresight: thresholds from benign agents or folders of benign memories, and their foresight.

Personas, memories and seeds of a calibration are used for nothing else: evaluations never see them, and no attack is
used here.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from pydantic import Field

from lazaretto.agents.album import Album, AlbumItem, note_item, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import Persona, persona_pool, picture_title
from lazaretto.agents.turn import AgentState, History, play, remember
from lazaretto.errors import InputError, MissingExtra, ModelUnavailable, PolicyError, UnreadablePicture
from lazaretto.files import write_file
from lazaretto.gates.foresight.adapter import AgentModelBackend, RehearsalBackend
from lazaretto.gates.foresight.community import Mode, MonitorMode
from lazaretto.gates.foresight.flp import QUANTILE, FlpMode, FlpSettings, FlpThresholds, published_search, take_readings
from lazaretto.gates.foresight.foresight import Foresight, InStore
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
from lazaretto.gates.foresight.ledger_memory import LedgerMemory
from lazaretto.gates.foresight.monitor import MemoryMonitor, MonitorSettings, ordinary_rehearsal, talk
from lazaretto.ledger import Ledger
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.models.protocol import ChatModel, Completion, Request, TextEmbedder
from lazaretto.pictures import opened
from lazaretto.policy import CLOSED, read_settings
from lazaretto.policy.plugins import ALLOW, EMBEDDERS, allowed

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


# From a calibration and a policy's table to the foresight that a guard runs.

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
        from lazaretto.models.own_networks import LocalChat

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


# A calibration from a folder of benign memories: benign agents live with them, and rehearse them.
#
# Answers and embeddings are kept beside the result, so an interrupted calibration goes on; then the work folder goes.

NOTES, LINES, PICTURES = (".txt", ".md"), (".jsonl",), (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
LEAST = 24
"""The fewest benign memories from which thresholds can be learnt."""
ALBUM, CHUNK = 10, 32
MOST_FAULTS = 0.02
"""Share of completions that may fail: a calibration from half-lived agents would be a wrong one."""
PERSONAS_SEED, LIFE_SEED = 6160, 7170

Progress = Callable[[int, int], None]
"""Completions done, and how many there will be at most."""


@dataclass(frozen=True, slots=True)
class CalibrationSize:
    """The amount of data behind a calibration."""

    agents: int = 96
    rounds: int = 3
    """Benign rounds lived before."""
    memories: int = 300
    """Memories rehearsed, for mode ``lazaretto``."""

    def __post_init__(self) -> None:
        for name, least in (("agents", 8), ("rounds", 0), ("memories", 20)):
            if getattr(self, name) < least:
                raise InputError(name, f"is {getattr(self, name)}", f"Use {least} or more")


def read_memories(folder: Path) -> tuple[AlbumItem, ...]:
    """Every memory of a folder: one note per text file, one per line of a JSONL file (``text``, ``title``), and
    pictures, which are titled by their file names. A file that cannot be read is an error that names it."""
    if not folder.is_dir():
        raise InputError("folder", f"{folder} is not a folder", "Name a folder of benign notes and pictures")
    found: dict[str, AlbumItem] = {}
    for path in sorted(folder.rglob("*")):
        for album_item in _memories_in(path) if path.is_file() else ():
            found.setdefault(album_item.key, album_item)
    if len(found) < LEAST:
        kinds = ", ".join((*NOTES, *LINES, *PICTURES))
        raise InputError("folder", f"{folder} holds {len(found)} memories", f"Give {LEAST} or more ({kinds})")
    return tuple(found.values())


def _memories_in(path: Path) -> list[AlbumItem]:
    kind = path.suffix.lower()
    try:
        if kind in NOTES:
            text = path.read_text(encoding="utf-8").strip()
            return [note_item(text)] if text else []
        if kind in LINES:
            lines = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
            return [note_item(str(line["text"]), str(line.get("title", ""))) for line in lines]
        if kind in PICTURES:
            data = path.read_bytes()
            opened(data)
            return [picture_item(data, picture_title(path.name))]
    except (OSError, ValueError, KeyError, TypeError, UnreadablePicture) as error:
        raise InputError("folder", f"{path} cannot be read: {error}", "Repair it or take it out") from None
    return []


async def calibrate_folder(
    folder: Path,
    chat: ChatModel,
    embedder: TextEmbedder,
    to: Path,
    *,
    mode: Literal["lazaretto", "flp"] = "lazaretto",
    size: CalibrationSize | None = None,
    progress: Progress = lambda _done, _most: None,
) -> MonitorCalibration | FlpCalibration:
    """Calibrate and write the result to ``to``. After an interruption, a second call asks only the rest."""
    wanted, pool = size or CalibrationSize(), read_memories(folder)
    work = to.with_name(to.name + ".work")
    work.mkdir(parents=True, exist_ok=True)
    lived = wanted.rounds * (wanted.agents // 2) * 3
    read = wanted.agents * 36 if mode == "flp" else wanted.agents + 4 * min(wanted.memories, len(pool))
    metered = _Metered(CachedChat(chat, work), lived + read, progress)
    model = AgentModel(metered, EmbeddingCache(embedder, work))
    people = persona_pool(wanted.agents, PERSONAS_SEED)
    agents = await benign_agents(people, pool, model, wanted.rounds, LIFE_SEED, ALBUM)
    cast, backend = persona_pool(CAST, CAST_SEED), AgentModelBackend(model)
    source = _source(mode, pool, chat, embedder, wanted)
    made: MonitorCalibration | FlpCalibration
    if mode == "flp":
        made = await calibrate_flp(agents, cast, backend, source=source)
    else:
        made = await calibrate_monitor(agents, cast, backend, source=source, memories=wanted.memories)
    save(made, to)
    shutil.rmtree(work, ignore_errors=True)
    return made


def _source(
    mode: str, pool: Sequence[AlbumItem], chat: ChatModel, embedder: TextEmbedder, size: CalibrationSize
) -> dict[str, Any]:
    return {
        "mode": mode, "chat": chat.name, "embedder": embedder.name, "memories": len(pool),
        "notes": sum(k.is_note for k in pool), "agents": size.agents, "rounds": size.rounds, "rehearsed": size.memories,
        "pool": hashlib.sha256("".join(k.key for k in pool).encode()).hexdigest()[:16],
    }  # fmt: skip


class _Metered:
    """A chat model that is asked in small batches, reports its progress, and gives up when too many requests fail."""

    def __init__(self, chat: ChatModel, most: int, progress: Progress) -> None:
        self.name = chat.name
        self.done = self.faults = 0
        self._chat, self._most, self._progress = chat, most, progress

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request."""
        answers: list[Completion] = []
        for start in range(0, len(requests), CHUNK):
            made = await self._chat.complete(requests[start : start + CHUNK])
            faults = [completion.fault for completion in made if completion.fault]
            self.done, self.faults = self.done + len(made), self.faults + len(faults)
            if self.faults > MOST_FAULTS * self._most:
                raise ModelUnavailable(
                    f"{self.faults} completions failed ({faults[-1] if faults else ''}); nothing was written. Run it "
                    "again: what was answered is kept"
                )
            self._progress(min(self.done, self._most), self._most)
            answers += made
        return answers
