"""Viruses for outbreak experiments: sought once per settings and kept, or made before and named by their file."""

from __future__ import annotations

import hashlib
import random
from functools import cache
from pathlib import Path

from lazaretto.agents.album import Keepsake, picture_keepsake
from lazaretto.agents.mind import Mind
from lazaretto.attacks.infectious.chats import TRAIN_PERSONAS, Chat, record_chats
from lazaretto.attacks.infectious.settings import Budget, Craft
from lazaretto.attacks.infectious.targets import target
from lazaretto.attacks.infectious.text import most_fetched, text_virus
from lazaretto.bench.experiment import experiment_folder
from lazaretto.bench.results import in_turn
from lazaretto.bench.runners.outbreak_models import pocket_models
from lazaretto.bench.runners.outbreak_settings import AttackSettings, OutbreakSettings, cache_folder
from lazaretto.errors import InputError
from lazaretto.models.cache import EmbeddingCache
from lazaretto.models.memo import MemoChat
from lazaretto.worlds.album_chat.pools import scene_notes, scene_pictures
from lazaretto.worlds.album_chat.scenario import Virus

TRAINING_POOL, BASES = 11, 33
"""Seeds of the pictures an attacker trains with and starts from; worlds draw theirs from another."""
TRAINING_CHATS = 96
OPENINGS = 60
"""Openings of a text virus that are tried."""


def viruses_for(settings: OutbreakSettings) -> tuple[Virus, ...]:
    """The viruses of an experiment."""
    attack, device = settings.attack, settings.models.device
    sentence = attack.sentence or target(attack.target)
    if attack.picture:
        return (Virus(_ready(attack), sentence),)
    if attack.strategy:
        return _adaptive(attack, device)
    if attack.budget == "text":
        made = _notes(attack.target, attack.seed, attack.variants, device)
    else:
        made = tuple(_picture(attack, number, device) for number in range(attack.variants))
    return tuple(Virus(keepsake, sentence) for keepsake in made)


def _ready(attack: AttackSettings) -> Keepsake:
    """A picture made before; a relative path is looked up here and beside the experiment files."""
    places = [Path(attack.picture), experiment_folder() / "outbreak" / attack.picture]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError("attack.picture", f"no file {attack.picture}", "Name an attack picture")
    data = path.read_bytes()
    if attack.sha256 and hashlib.sha256(data).hexdigest() != attack.sha256:
        raise InputError("attack.picture", f"{path} is not the picture this experiment was written for")
    return picture_keepsake(data, attack.title or path.stem)


def _picture(attack: AttackSettings, number: int, device: str) -> Keepsake:
    from lazaretto.attacks.infectious.kept import crafted_picture
    from lazaretto.models.pocket.gradients import PocketGradients

    if attack.budget == "text":
        raise InputError("attack.budget", "a note is not a picture", "Use pixel or border")
    base = scene_pictures(number + 1, BASES)[number]
    settings = Craft(
        attack.target, Budget(attack.budget, attack.size), attack.steps, attack.restarts,
        augment=attack.augment, seed=attack.seed + number,
    )  # fmt: skip
    models = PocketGradients(*pocket_models(device))
    folder = cache_folder() / "attacks"
    with in_turn(folder / f"{attack.target}-{settings.budget.label}-{settings.seed}"):
        kept = crafted_picture(models, base, training_chats(device), settings, folder)
    return picture_keepsake(kept.data, base.title)


def _adaptive(attack: AttackSettings, device: str) -> tuple[Virus, ...]:
    """One entry per sentence that the picture may make agents say."""
    from lazaretto.attacks.adaptive.search import seek
    from lazaretto.attacks.adaptive.strategies import AdaptiveCraft, sentences
    from lazaretto.attacks.infectious.kept import crafted_picture
    from lazaretto.models.pocket.gradients import PocketGradients

    if attack.budget == "text":
        raise InputError("attack.strategy", "strategies are for pictures", "Use pixel or border")
    base = scene_pictures(1, BASES)[0]
    settings = AdaptiveCraft(
        attack.target, Budget(attack.budget, attack.size), attack.steps, attack.restarts,
        augment=attack.augment, seed=attack.seed, strategy=attack.strategy,
    )  # fmt: skip
    models = PocketGradients(*pocket_models(device))
    folder = cache_folder() / "attacks"
    with in_turn(folder / f"{attack.strategy}-{settings.budget.label}-{settings.seed}"):
        kept = crafted_picture(models, base, training_chats(device), settings, folder, seek=seek)
    return tuple(Virus(picture_keepsake(kept.data, base.title), said) for said in sentences(settings))


@cache
def _notes(target_name: str, seed: int, count: int, device: str) -> tuple[Keepsake, ...]:
    """Notes that open like the attacker's own, with the openings that are fetched most."""
    vlm, clip = pocket_models(device)
    mind = Mind(MemoChat(vlm), EmbeddingCache(clip.texts))
    pool = scene_notes(300, TRAINING_POOL)
    chats = record_chats(mind, pool, TRAINING_CHATS, 1, TRAIN_PERSONAS)
    openings = random.Random(f"openings:{seed}").sample([note.title for note in pool], OPENINGS)
    left, found = [text_virus(opening, target_name) for opening in openings], []
    for _ in range(count):
        found.append(most_fetched(mind, left, chats)[0])
        left.remove(found[-1])
    return tuple(found)


@cache
def training_chats(device: str, count: int = TRAINING_CHATS) -> tuple[Chat, ...]:
    """What an attacker (and the maker of a cure) has seen of the world: chats with other people and other pictures."""
    vlm, clip = pocket_models(device)
    mind = Mind(vlm, EmbeddingCache(clip))
    return record_chats(mind, scene_pictures(300, TRAINING_POOL), count, 1, TRAIN_PERSONAS)
