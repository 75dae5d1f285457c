"""Cowpox for outbreak experiments in the pocket world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lazaretto.agents.album import AlbumItem
from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.settings import Budget
from lazaretto_lab.harness.experiment import STUDIES
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.studies.outbreak.attack import training_chats
from lazaretto_lab.studies.outbreak.components import DefenceContext
from lazaretto_lab.studies.outbreak.models import WIDE, pocket_models
from lazaretto_lab.studies.outbreak.settings import cache_folder
from lazaretto_lab.worlds.album_chat.cowpox import (
    DEFENDER_SHARE,
    PUBLISHED_ACCURACY,
    Analyst,
    Cowpox,
    CureMaker,
    ModelAnalyst,
    PublishedAnalyst,
)
from lazaretto_lab.worlds.album_chat.defence import Defence
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

CURE_BASES = 44
"""Seed of the picture a cure starts from."""


class CowpoxSettings(BaseModel):
    """What an experiment may set about Cowpox."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = DEFENDER_SHARE
    analyst: Literal["published", "model"] = "published"
    """``published``: right as often as reported; ``model``: the world's own model is asked, which must be able to."""
    recall: float = PUBLISHED_ACCURACY
    false_alarm: float = 0.0
    turns: int = 1
    cure_eps: float = 64
    """Budget of the cure, in 1/255 per pixel."""
    cure_steps: int = 240
    cure_restarts: int = 1
    cure_batch: int = 6
    cure_chats: int = 96


def cowpox(settings: Mapping[str, Any], context: DefenceContext) -> Defence:
    """The defence with a cure maker for the models of the run."""
    try:
        wanted = CowpoxSettings.model_validate(dict(settings))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(["defence_settings", *(str(part) for part in fault["loc"])])
        raise InputError(place, fault["msg"], "See docs/worlds.md") from None
    return Cowpox(_analyst(wanted, context), _cures(wanted, context), wanted.share)


def _analyst(wanted: CowpoxSettings, context: DefenceContext) -> Analyst:
    if wanted.analyst == "model":
        return ModelAnalyst(wanted.turns)
    targets = tuple(virus.target for virus in context.viruses)
    return PublishedAnalyst(targets, wanted.recall, wanted.false_alarm)


def _cures(wanted: CowpoxSettings, context: DefenceContext) -> CureMaker:
    models = context.outbreak.models
    if models.chat != "pocket" or models.embedder not in ("pocket", f"pocket:{WIDE}"):
        raise InputError("defence", "cures are optimised against the pocket models", "Use models 'pocket'")
    from lazaretto_lab.pocket.gradients import PocketGradients
    from lazaretto_lab.worlds.album_chat.cure import CureSettings, PocketCures

    folder = cache_folder() / "cures"
    cures = PocketCures(
        PocketGradients(*pocket_models(models.device, models.gap)),
        lambda count: training_chats(models.device, count, models.gap),
        scene_pictures(1, CURE_BASES)[0],
        folder,
        CureSettings(
            Budget("pixel", wanted.cure_eps),
            wanted.cure_steps,
            wanted.cure_restarts,
            wanted.cure_batch,
            wanted.cure_chats,
        ),
        made_before=STUDIES / "outbreak" / "cures",
    )

    def locked_cure(suspect: AlbumItem, said: str) -> AlbumItem:
        with file_lock(folder / suspect.key[:24]):
            return cures(suspect, said)

    return locked_cure
