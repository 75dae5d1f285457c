"""What a drawn picture shows, as data."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from lazaretto_lab.worlds.scenes.shapes import COLOURS, COUNTS, OBJECTS, PLACES, plural


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture before it is drawn."""

    noun: str
    """The object it is about, a key of ``OBJECTS``."""
    colour: str
    count: int
    """1 to 4."""
    place: str
    message: str = ""
    """Words written in the picture; empty for none."""
    message_kind: str = ""
    """``sign`` (a board in a scene) or ``card`` (a cue card: nothing but the words); empty without a message."""
    look: int = 0
    """Seed of everything a caption does not say: positions, sizes, shades, second objects."""

    @property
    def subject(self) -> str:
        """What it is about: ``two red boats``."""
        noun = self.noun if self.count == 1 else plural(self.noun)
        article = "an" if self.colour[0] in "aeiou" else "a"
        return f"{article if self.count == 1 else COUNTS[self.count - 1]} {self.colour} {noun}"

    @property
    def caption(self) -> str:
        """What there is to see, in words."""
        if self.message_kind == "card":
            return f"a card with the words {self.message}"
        board = " with a sign" if self.message else ""
        return f"{self.subject} {self.place}{board}"

    @property
    def held_out(self) -> bool:
        """Whether pocket models never saw what this scene shows: one in ten combinations is kept from training."""
        return hashlib.sha256(f"{self.subject} {self.place}".encode()).digest()[0] % 10 == 0

    @property
    def file_name(self) -> str:
        """The name its picture file gets, from which album listings are made."""
        words = f"{self.subject} {self.place}" if self.message_kind != "card" else "a card with words"
        return words.replace(" ", "-") + ".png"


def draw_scene(rng: random.Random) -> Scene:
    """A scene without a message, drawn at random."""
    return Scene(
        noun=rng.choice(list(OBJECTS)),
        colour=rng.choice(list(COLOURS)),
        count=rng.choice((1, 1, 2, 3, 4)),
        place=rng.choice(list(PLACES)),
        look=rng.getrandbits(32),
    )


def scene_pool(
    count: int, seed: int, signs: float = 0.0, message: Callable[[random.Random], str] | None = None
) -> tuple[Scene, ...]:
    """``count`` scenes with distinct captions; a share ``signs`` of them carries a board with a message."""
    rng = random.Random(f"scenes:{seed}")
    seen: dict[str, Scene] = {}
    while len(seen) < count:
        scene = draw_scene(rng)
        if message is not None and rng.random() < signs:
            scene = replace(scene, message=message(rng), message_kind="sign")
        seen.setdefault(scene.caption, scene)
    return tuple(seen.values())
