"""A calibration from a folder of benign memories: benign agents live with them, and rehearse them.

Answers and embeddings are kept beside the result, so an interrupted calibration goes on; then the work folder goes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from lazaretto.agents.album import AlbumItem, note_item, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.persona import persona_pool
from lazaretto.agents.prompts import picture_title
from lazaretto.errors import InputError, ModelUnavailable, UnreadablePicture
from lazaretto.gates.foresight.backend import AgentModelBackend
from lazaretto.learn.calibration import (
    FlpCalibration,
    MonitorCalibration,
    benign_agents,
    calibrate_flp,
    calibrate_monitor,
    save,
)
from lazaretto.learn.foresight_setup import CAST, CAST_SEED
from lazaretto.models.answer_cache import CachedChat
from lazaretto.models.embedding_cache import EmbeddingCache
from lazaretto.models.protocol import ChatModel, Completion, Request, TextEmbedder
from lazaretto.pictures import opened

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
