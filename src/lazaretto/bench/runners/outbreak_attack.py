"""Viruses for outbreak experiments: crafted once per settings and kept, or made elsewhere and named by their file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lazaretto.agents.album import Keepsake, picture_keepsake
from lazaretto.agents.mind import Mind
from lazaretto.agents.prompts import picture_title
from lazaretto.attacks.infectious.chats import TRAIN_PERSONAS, Chat, record_chats
from lazaretto.attacks.infectious.settings import Budget, Craft
from lazaretto.attacks.infectious.targets import target
from lazaretto.bench.runners.outbreak_models import pocket_models
from lazaretto.bench.runners.outbreak_settings import AttackSettings, OutbreakSettings, cache_folder
from lazaretto.errors import InputError
from lazaretto.models.cache import EmbeddingCache
from lazaretto.worlds.album_chat.pools import scene_pictures
from lazaretto.worlds.album_chat.scenario import Virus

TRAINING_POOL, BASES = 11, 33
"""Seeds of the pictures an attacker trains with and starts from; worlds draw theirs from another."""
TRAINING_CHATS = 192


def viruses_for(settings: OutbreakSettings) -> tuple[Virus, ...]:
    """The viruses of an experiment."""
    attack = settings.attack
    if attack.picture:
        return (Virus(_ready(Path(attack.picture)), attack.sentence),)
    return tuple(_crafted(attack, number, settings.models.device) for number in range(attack.variants))


def _ready(path: Path) -> Keepsake:
    if not path.is_file():
        raise InputError("attack.picture", f"no file {path}", "Name an attack picture")
    return picture_keepsake(path.read_bytes(), picture_title(path.name))


def _crafted(attack: AttackSettings, number: int, device: str) -> Virus:
    if attack.budget == "text":
        raise InputError("attack.budget", "text viruses", "not yet")
    base = _bases(number + 1)[number]
    settings = Craft(
        attack.target, Budget(attack.budget, attack.size), attack.steps, attack.restarts,
        augment=attack.augment, seed=attack.seed + number,
    )  # fmt: skip
    place = cache_folder() / "viruses" / f"{settings.key(base.key, str(TRAINING_CHATS))}.png"
    if not place.is_file():
        _write(place, _search(settings, base, device))
    return Virus(picture_keepsake(place.read_bytes(), base.title), target(attack.target))


def _search(settings: Craft, base: Keepsake, device: str) -> bytes:
    import numpy as np
    from PIL import Image

    from lazaretto.attacks.infectious.craft import craft
    from lazaretto.models.pocket.eyes import pixels
    from lazaretto.models.pocket.gradients import PocketGradients
    from lazaretto.worlds.scenes.render import png_bytes

    found = craft(
        PocketGradients(*pocket_models(device)), np.array(pixels(base.picture)), training_chats(device), settings
    )
    return png_bytes(Image.fromarray(found.pixels))


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(".part")
    beside.write_bytes(data)
    beside.replace(place)


@cache
def _bases(count: int) -> tuple[Keepsake, ...]:
    return scene_pictures(count, BASES)


@cache
def training_chats(device: str, count: int = TRAINING_CHATS) -> tuple[Chat, ...]:
    """What an attacker (and the maker of a cure) has seen of the world: chats with other people and other pictures."""
    vlm, clip = pocket_models(device)
    mind = Mind(vlm, EmbeddingCache(clip))
    return record_chats(mind, scene_pictures(300, TRAINING_POOL), count, 1, TRAIN_PERSONAS)
