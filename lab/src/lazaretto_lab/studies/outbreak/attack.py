"""Viruses for outbreak experiments: sought once per settings and kept, or made before and named by their file."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto_lab.attacks.adaptive.strategies import TITLED, AdaptiveCraft, sentences
from lazaretto_lab.attacks.infectious.recorded_chats import TRAIN_PERSONAS, Chat, record_chats
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import target
from lazaretto_lab.attacks.infectious.text import Breeding, bred_virus, text_virus
from lazaretto_lab.harness.experiment import STUDIES
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.studies.outbreak.bank import bank_picture, drawn, read_bank
from lazaretto_lab.studies.outbreak.models import pocket_models
from lazaretto_lab.studies.outbreak.settings import AttackSettings, ModelSettings, OutbreakSettings, cache_folder
from lazaretto_lab.worlds.album_chat.pools import scene_notes, scene_pictures
from lazaretto_lab.worlds.album_chat.scenario import Virus

TRAINING_POOL, BASES = 11, 33
"""Seeds of the pictures an attacker trains with and starts from; worlds draw theirs from another."""
TRAINING_CHATS = 96
OPENINGS = 60
"""Openings that the search for a text virus begins with."""


def viruses_for(settings: OutbreakSettings, seed: int = 0) -> tuple[Virus, ...]:
    """The viruses of an experiment; ``seed`` draws them where they come from a bank."""
    attack, models = settings.attack, settings.models
    if attack.bank:
        folder = _bank_folder(attack)
        return tuple(Virus(bank_picture(folder, row), target(str(row["target"]))) for row in bank_rows(settings, seed))
    said = (attack.sentence,) if attack.sentence else sentences(attack.strategy, attack.target)
    if attack.picture:
        made: tuple[AlbumItem, ...] = (_ready(attack),)
    elif attack.strategy:
        made = (_adaptive(attack, models),)
    elif attack.budget == "text":
        made = tuple(_note(attack, number, models.device) for number in range(attack.variants))
    else:
        made = tuple(_picture(attack, number, models) for number in range(attack.variants))
    return tuple(Virus(album_item, sentence) for album_item in made for sentence in said)


def bank_rows(settings: OutbreakSettings, seed: int) -> list[dict[str, Any]]:
    """What the bank's index says of the viruses that a run with this seed meets."""
    attack = settings.attack
    rows = read_bank(_bank_folder(attack), attack.sha256)
    return drawn(rows, attack.part, attack.betas, seed, attack.variants, family=settings.mutates)


def _bank_folder(attack: AttackSettings) -> Path:
    places = [Path(attack.bank), STUDIES / "outbreak" / attack.bank]
    return next((place for place in places if place.is_dir()), places[0])


def _ready(attack: AttackSettings) -> AlbumItem:
    """A picture made before; a relative path is looked up here and beside the experiment files."""
    places = [Path(attack.picture), STUDIES / "outbreak" / attack.picture]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError("attack.picture", f"no file {attack.picture}", "Name an attack picture")
    data = path.read_bytes()
    if attack.sha256 and hashlib.sha256(data).hexdigest() != attack.sha256:
        raise InputError("attack.picture", f"{path} is not the picture this experiment was written for")
    return picture_item(data, attack.title or path.stem)


def _picture(attack: AttackSettings, number: int, against: ModelSettings) -> AlbumItem:
    from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture
    from lazaretto_lab.pocket.gradients import PocketGradients

    if attack.budget == "text":
        raise InputError("attack.budget", "a note is not a picture", "Use pixel or border")
    base = scene_pictures(number + 1, BASES)[number]
    settings = Craft(
        attack.target, Budget(attack.budget, attack.size), attack.steps, attack.restarts, attack.batch,
        augment=attack.augment, seed=attack.seed + number,
    )  # fmt: skip
    models = PocketGradients(*pocket_models(against.device, against.gap))
    chats = training_chats(against.device, attack.chats, against.gap)
    folder = cache_folder() / "attacks"
    with file_lock(folder / f"{attack.target}-{settings.budget.label}-{settings.seed}"):
        kept = crafted_picture(models, base, chats, settings, folder)
    return picture_item(kept.data, base.title)


def _adaptive(attack: AttackSettings, against: ModelSettings) -> AlbumItem:
    """A picture sought by somebody who knows foresight."""
    from lazaretto_lab.attacks.adaptive.search import seek
    from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture
    from lazaretto_lab.pocket.gradients import PocketGradients

    if attack.budget == "text":
        raise InputError("attack.strategy", "strategies are for pictures", "Use pixel or border")
    base = scene_pictures(1, BASES)[0]
    settings = AdaptiveCraft(
        attack.target, Budget(attack.budget, attack.size), attack.steps, attack.restarts, attack.batch,
        augment=attack.augment, seed=attack.seed, strategy=attack.strategy,
        title=attack.title if attack.strategy in TITLED else "",
    )  # fmt: skip
    models = PocketGradients(*pocket_models(against.device, against.gap))
    chats = training_chats(against.device, attack.chats, against.gap)
    folder = cache_folder() / "attacks"
    with file_lock(folder / f"{attack.strategy}-{settings.budget.label}-{settings.seed}"):
        kept = crafted_picture(models, base, chats, settings, folder, seek=seek)
    return picture_item(kept.data, attack.title or base.title)


def _note(attack: AttackSettings, number: int, device: str) -> AlbumItem:
    """The note with the opening that is named, or with one that is bred now and kept."""
    if attack.opening:
        return text_virus(attack.opening, attack.target)
    vlm, clip = pocket_models(device)
    settings = Breeding(seed=attack.seed + number)
    facts = f"{attack.target}\0{settings}\0{vlm.fingerprint}\0{clip.fingerprint}"
    place = cache_folder() / "attacks" / f"note-{hashlib.sha256(facts.encode()).hexdigest()[:24]}.txt"
    with file_lock(place):
        if not place.is_file():
            agent_model = AgentModel(CachedChat(vlm), EmbeddingCache(clip.texts))
            pool = scene_notes(300, TRAINING_POOL)
            chats = record_chats(agent_model, pool, TRAINING_CHATS, 1, TRAIN_PERSONAS)
            virus, _ = bred_virus(agent_model, [note.title for note in pool[:OPENINGS]], attack.target, chats, settings)
            write_file(place, virus.title)
        return text_virus(place.read_text(), attack.target)


@cache
def training_chats(device: str, count: int = TRAINING_CHATS, gap: str = "") -> tuple[Chat, ...]:
    """What an attacker (and the maker of a cure) has seen of the world: chats with other people and other pictures."""
    vlm, clip = pocket_models(device, gap)
    agent_model = AgentModel(vlm, EmbeddingCache(clip))
    return record_chats(agent_model, scene_pictures(300, TRAINING_POOL), count, 1, TRAIN_PERSONAS)
