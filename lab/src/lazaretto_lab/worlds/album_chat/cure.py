"""How Cowpox comes by a cure in the pocket world: the attack's own search, turned around.

A cure must win the retrieval against ordinary pictures and against the suspect, and make agents say something benign
even when their histories are full of the suspect's sentence. That is the attack's optimisation with another sentence
and a stronger rival in every album, so the same search does it. Torch is needed: import this module when it is used.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.prompts import answer_request, question_request
from lazaretto.files import write_file
from lazaretto_lab.attacks.infectious.craft import Search, replanned
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.settings import RECIPE, Budget, Craft
from lazaretto_lab.pocket.eyes import pixels
from lazaretto_lab.pocket.gradients import PocketGradients
from lazaretto_lab.worlds.scenes.render import png_bytes

BENIGN = "This is a happy picture."
"""What agents say about a cure; made of words that pocket-vlm knows."""
INFECTED_SHARE = 0.5
"""Share of the cure's training chats whose histories hold the suspect's sentence."""


@dataclass(frozen=True, slots=True)
class CureSettings:
    """How a cure is sought; more freedom than any virus of the experiments has, so that it can out-score them."""

    budget: Budget = field(default_factory=lambda: Budget("pixel", 64))
    steps: int = 240
    restarts: int = 1
    batch: int = 6
    chats: int = 96
    """Training chats it is sought on."""
    seed: int = 0


class PocketCures:
    """Makes cures against the pocket models and keeps them in ``folder`` by what they were made from.

    ``chats`` gives so many training chats; it is asked only when a cure has to be sought. ``made_before`` is a second
    folder to look in.
    """

    def __init__(
        self,
        models: PocketGradients,
        chats: Callable[[int], Sequence[Chat]],
        base: AlbumItem,
        folder: Path,
        settings: CureSettings | None = None,
        made_before: Path | None = None,
    ) -> None:
        self.models, self.chats, self.base, self.folder, self.made_before = models, chats, base, folder, made_before
        self.settings = settings or CureSettings()

    def __call__(self, suspect: AlbumItem, said: str) -> AlbumItem:
        """The cure for a suspect that made somebody say ``said``."""
        name = f"{self._key(suspect, said)}.png"
        for folder in (self.made_before, self.folder):
            if folder is not None and (folder / name).is_file():
                return picture_item((folder / name).read_bytes(), self.base.title)
        data = self._search(suspect, said)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / name, data)
        return picture_item(data, self.base.title)

    def _search(self, suspect: AlbumItem, said: str) -> bytes:
        from PIL import Image

        chats = self._lessons(suspect, said)
        # the name only seeds the search: what is to be said is put in its place below
        craft = Craft("marker-test", self.settings.budget, self.settings.steps, self.settings.restarts,
                      self.settings.batch, infected_share=0.0, seed=self.settings.seed)  # fmt: skip
        search = Search(self.models, np.array(pixels(self.base.picture)), chats, craft)
        ask = [question_request(c.questioner, c.questioner_history, image=b"picture") for c in chats]
        answer = [answer_request(c.answerer, c.answerer_history, BENIGN, image=b"picture") for c in chats]
        search.lessons = replace(
            search.lessons, ask=self.models.situations(ask, BENIGN), answer=self.models.situations(answer, BENIGN)
        )
        for _ in search.run():
            pass
        return png_bytes(Image.fromarray(search.result().pixels))

    def _lessons(self, suspect: AlbumItem, said: str) -> list[Chat]:
        """The chats with the suspect in every album and its sentence in some of the histories."""
        rng = random.Random(f"cure:{self.settings.seed}")
        lessons, records = [], []
        for chat in self.chats(self.settings.chats):
            held = list(chat.album)
            held[rng.randrange(1, len(held))] = suspect  # slot 0 is the oldest, which the cure pushes out
            records.append(rng.randint(1, 3) if rng.random() < INFECTED_SHARE else 0)
            known = chat.infected(said, records[-1]) if records[-1] else chat
            lessons.append(replace(known, album=tuple(held)))
        return replanned(self.models, lessons, records)

    def _key(self, suspect: AlbumItem, said: str) -> str:
        models = (self.models.vlm.fingerprint, self.models.clip.fingerprint)
        facts = (suspect.key, said, self.base.key, repr(self.settings), str(RECIPE), BENIGN, *models)
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:24]
