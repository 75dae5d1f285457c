"""From settings to the components of a run: models, pictures, viruses, the defence; heavy ones load when named."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lazaretto.agents.album import AlbumItem
from lazaretto.errors import InputError
from lazaretto.models.protocol import ChatModel, TextEmbedder
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.models import models_for, remembered_texts
from lazaretto_lab.studies.outbreak.settings import OutbreakSettings
from lazaretto_lab.worlds.album_chat.defence import Defence, NoDefence
from lazaretto_lab.worlds.album_chat.pools import folder_pictures, scene_notes, scene_pictures
from lazaretto_lab.worlds.album_chat.scenario import Virus

POOL_SEED = 0
"""Albums of worlds are drawn from this pool; attacks and cures are trained on pictures of other seeds."""

DEFENCES: dict[str, str] = {
    "none": "lazaretto_lab.studies.outbreak.components:no_defence",
    "cowpox": "lazaretto_lab.studies.outbreak.cowpox:cowpox",
    "flp": "lazaretto_lab.studies.foresight.calibration:flp",
    "lazaretto": "lazaretto_lab.studies.foresight.calibration:lazaretto",
    "guard": "lazaretto_lab.studies.foresight.through_guard:defence",
}
"""Name -> ``module:factory``; others may be named as ``module:factory`` themselves."""


@dataclass(frozen=True)
class DefenceContext:
    """What the factory of a defence may use."""

    chat: ChatModel
    embedder: TextEmbedder
    pool: tuple[AlbumItem, ...]
    viruses: tuple[Virus, ...]
    """For baselines that are granted knowledge (an analyst of known accuracy); a defence of ours must not look."""
    outbreak: OutbreakSettings
    seed: int
    workdir: Path


DefenceFactory = Callable[[Mapping[str, Any], DefenceContext], Defence]
"""Makes a defence from ``defence_settings``."""


@dataclass(frozen=True)
class Components:
    """What a run is made of."""

    chat: ChatModel
    embedder: TextEmbedder
    pool: tuple[AlbumItem, ...]
    viruses: tuple[Virus, ...]
    defence: Defence
    semantics: TextEmbedder
    """Embeds chat records for drift and dispersion."""


def make_components(settings: OutbreakSettings, seed: int, workdir: Path) -> Components:
    """Everything a run needs; models are loaded once per process."""
    chat, embedder = models_for(settings.models, settings.memory == "notes")
    pool = pool_for(settings)
    viruses = viruses_for(settings, seed) if settings.infected else ()
    context = DefenceContext(chat, embedder, pool, viruses, settings, seed, workdir)
    defence = defence_factory(settings.defence)(settings.defence_settings, context)
    return Components(chat, embedder, pool, viruses, defence, remembered_texts())


def pool_for(settings: OutbreakSettings) -> tuple[AlbumItem, ...]:
    """What the albums are drawn from."""
    if settings.memory == "notes":
        return scene_notes(settings.pool, POOL_SEED)
    if settings.pictures == "scenes":
        return _scene_pictures(settings.pool)
    return folder_pictures(settings.pictures, settings.pool, POOL_SEED)


@cache
def _scene_pictures(count: int) -> tuple[AlbumItem, ...]:
    return scene_pictures(count, POOL_SEED)


def defence_factory(name: str) -> DefenceFactory:
    """What makes the named defence."""
    place = DEFENCES.get(name, name)
    module, _, attribute = place.partition(":")
    try:
        factory: DefenceFactory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise InputError(
            "defence", f"no defence {name!r}", f"Use one of {', '.join(DEFENCES)}, or module:factory"
        ) from None
    return factory


def no_defence(settings: Mapping[str, Any], context: DefenceContext) -> Defence:
    """The undefended world."""
    return NoDefence()
